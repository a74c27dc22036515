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
    """Decision with its outcome, as they are stored; texts in JSON are encoded, times are seconds from 1970."""

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
    due: float | None  # this and all that follows may change
    shown: float | None
    complete: int = 0
    state: str = OPEN
    events: str | None = None
    learned: str | None = None
    reward: float | None = None
    revision: int = 0


class DueRow(NamedTuple):
    """Columns of a decision that its closing reads."""

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
    """Value of an observed node that was reported."""

    node: str
    value: Any
    at: float  # when it happened
    received: float


def events_of(row: DecisionRow) -> list[Event]:
    """Return the events that were reported of a decision, in the order of their arrival."""
    return [] if row.events is None else [Event(*own) for own in decoded(row.events)]


_event_lists = msgspec.json.Decoder(list[list[Event] | None])


def events_of_all(rows: Sequence[DueRow]) -> list[list[Event]]:
    """Return the events of many decisions, as `events_of` does of one."""
    return [own or [] for own in decoded_all([row.events for row in rows], _event_lists)]


def text_of(events: Sequence[Event]) -> str | None:
    """Return events as the journal stores them."""
    return encoded(events) if events else None


class StepRow(NamedTuple):
    """Step of an experiment: a new version, or a round that is learned, corrected or removed; texts are JSON."""

    block: int
    kind: str
    version: int
    before: str | None
    after: str | None
    earlier: float | None
    reward: float | None
    arm: str  # this and all that follows is of the decision of a round
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
    """Change of a decision by an outcome, or by the closing of its round."""

    events: tuple[Event, ...] = ()
    due: float | None = None
    complete: int = 0
    state: str = OPEN
    shown: float | None = None


class Closing(NamedTuple):
    """Next step of a due decision: the observation to learn, or why there is none."""

    after: str | None
    reward: float | None
    due: float | None
    state: str
    problem: str | None = None  # of a dead letter
