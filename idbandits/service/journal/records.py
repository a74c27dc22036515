"""Rows of the journal as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from idbandits.service.json_text import decoded, decoded_all, encoded

OPEN, DEFERRED, CLOSED, IMPOSSIBLE = "open", "deferred", "closed", "impossible"  # states of a decision
POLICY, HOLDOUT, CALLER = "policy", "holdout", "caller"  # who chose an action
VERSION, ROUND = "version", "round"  # kinds of steps


class DecisionRow(NamedTuple):
    """Stored decision with its outcome. Fields of JSON are encoded texts; times are seconds since 1970."""

    n: int  # 0: not stored yet
    experiment: str
    id: str
    version: int
    arm: str
    learns: int
    unit: str | None
    action: str
    proposed: str | None
    context: str | None
    allowed: str | None
    at: float
    position: int
    seed: int | None
    library: str
    digest: str
    due: float | None  # this field and all below may change
    shown: float | None
    complete: int = 0
    state: str = OPEN
    events: str | None = None
    learned: str | None = None
    reward: float | None = None
    revision: int = 0


class DueRow(NamedTuple):
    """Columns of a due decision that closing its round needs."""

    n: int
    experiment: str
    id: str
    version: int
    action: str
    context: str | None
    at: float
    shown: float | None
    complete: int
    events: str | None
    learned: str | None
    reward: float | None
    revision: int
    edition: int


class Event(NamedTuple):
    """Reported value of an observed node."""

    node: str
    value: Any
    at: float  # when it happened
    received: float


def events_of(row: DecisionRow) -> list[Event]:
    """Return the reported events of a decision, in the order of arrival."""
    return [] if row.events is None else [Event(*fields) for fields in decoded(row.events)]


_event_lists = msgspec.json.Decoder(list[list[Event] | None])


def events_of_all(rows: Sequence[DueRow]) -> list[list[Event]]:
    """Return the reported events of each decision, in the order of arrival."""
    return [events or [] for events in decoded_all([row.events for row in rows], _event_lists)]


def text_of(events: Sequence[Event]) -> str | None:
    """Encode events as the journal stores them; None for no events."""
    return encoded(events) if events else None


class StepRow(NamedTuple):
    """Step of an experiment: a new version, or a round that is learned, corrected or removed.

    `before` and `after` are observations, `earlier` and `reward` their rewards.
    """

    block: int
    kind: str
    version: int
    before: str | None
    after: str | None
    earlier: float | None
    reward: float | None
    arm: str  # this field and all below belong to the decision; None for a version
    learns: int
    at: float
    action: str
    proposed: str | None
    context: str | None


class VersionRow(NamedTuple):
    """Version of an experiment."""

    version: int
    diagram: str
    settings: str
    created: float


class Change(NamedTuple):
    """Change of a stored decision by a report: new events, and new values of the other columns."""

    events: tuple[Event, ...] = ()
    due: float | None = None
    complete: int = 0
    state: str = OPEN
    shown: float | None = None


class Closing(NamedTuple):
    """Result of closing a round: the observation to learn, or the problem that prevents it."""

    after: str | None
    reward: float | None
    due: float | None
    state: str
    problem: str | None = None  # message of the dead letter
