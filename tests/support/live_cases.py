"""Experiments of the tests of the live service, and a plain account of what each decision came to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import idbandits as idb
from idbandits.service.live.live import Live

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
START = 1_800_000_000.0
HORIZON = {"click": "30m", "buy": "1d"}


class Clock:
    """Clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def shop(items: Any = ("a", "b", "c"), name: str = "shop") -> idb.Diagram:
    """Return a diagram in which a click and a purchase of an item are seen."""
    d = idb.Diagram(name)
    item = d.decision("item", list(items))
    d.observed("click", [item])
    d.reward(d.observed("buy", [item]))
    return d


def live_of(url: str, clock: Clock, **settings: Any) -> Live:
    """Return a worker without a background thread."""
    return Live(url, clock=clock, background=False, **settings)


def belief(agent: idb.Thompson) -> dict[str, list[Any]]:
    """Return the pseudo-counts of all tables."""
    return {name: own.alpha.tolist() for name, own in agent.posterior().items()}


class Told(NamedTuple):
    """Word on a node."""

    node: str
    value: int
    at: float
    received: float


class Shown:
    """Decision, as an account in plain Python sees it: two nodes, two horizons, seven days for corrections."""

    HORIZONS = {"click": 30 * MINUTE, "buy": DAY}  # noqa: RUF012
    ACCEPT = 7 * DAY

    def __init__(self, action: dict[str, Any], d: idb.Diagram, made: float, *, deferred: bool = False) -> None:
        self.action, self.d, self.made = action, d, made
        self.shown = None if deferred else made
        self.words, self.complete = list[Told](), False

    def answer(self, now: float, values: dict[str, int], at: float | None = None, complete: bool = False) -> str:
        """Return what a report should be answered, and keep it if it is accepted."""
        shown = self.made if self.shown is None else self.shown
        when = now if at is None else at
        if now > shown + DAY + self.ACCEPT or any(when > shown + self.HORIZONS[node] for node in values):
            return "too-late"
        new = [Told(node, value, when, now) for node, value in values.items() if not self._has(node, value, at)]
        if not new and (self.complete or not complete) and self.shown is not None:
            return "unchanged"
        self.words, self.complete, self.shown = self.words + new, self.complete or complete, shown
        return "accepted"

    def show(self, now: float) -> str:
        """Return what a report that it was shown should be answered."""
        if self.shown is not None:
            return "unchanged"
        self.shown = now
        return "accepted"

    def _has(self, node: str, value: int, at: float | None) -> bool:
        own = sorted((t for t in self.words if t.node == node), key=lambda t: (t.at, t.received))
        if at is None:
            return bool(own) and own[-1].value == value
        return any((t.at, t.value) == (at, value) for t in own)

    def observation(self, now: float) -> dict[str, int] | None:
        """Return what should be learned by now, None if nothing."""
        if self.shown is None:
            return None
        final = dict[str, int]()
        for node, horizon in self.HORIZONS.items():
            if self.complete or now >= self.shown + horizon:
                own = sorted((t for t in self.words if t.node == node), key=lambda t: (t.at, t.received))
                final[node] = own[-1].value if own else 0
        return final or None


def counted(items: Any, decisions: Any, now: float) -> dict[str, list[Any]]:
    """Return the pseudo-counts of the experiment `shop`, by counting."""
    places = {item: i for i, item in enumerate(items)}
    counts = {node: np.ones((len(places), 2)) for node in Shown.HORIZONS}
    for own in decisions:
        for node, value in (own.observation(now) or {}).items():
            if own.action["item"] in places:
                counts[node][places[own.action["item"]], value] += 1
    return {node: own.tolist() for node, own in counts.items()}
