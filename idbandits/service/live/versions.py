"""Versions of experiments: events that count, observations by age, and due times of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, final

from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.errors import brief
from idbandits.inference import REVISE, name_of
from idbandits.service.journal.records import CLOSED, IMPOSSIBLE, OPEN, Change, DecisionRow, DueRow, Event
from idbandits.service.live.settings import Horizons, Settings, duration_text, horizons_of, inference_of, seconds_of
from idbandits.service.service_errors import ServiceError

TOO_YOUNG, NEVER = -1.0, float("inf")  # ages
BY_TIME = attrgetter("at", "received")  # key of events


class Outcome(NamedTuple):
    """Report on a decision: events, completion, and the time at which the decision was shown."""

    events: tuple[Event, ...] = ()
    complete: bool = False
    shown: float | None = None  # when a deferred decision was shown


@final
class Version:
    """Version of an experiment: its diagram and settings, and data derived from them."""

    def __init__(self, experiment: str, number: int, d: Diagram, settings: Settings, created: float) -> None:
        self.experiment, self.number, self.diagram, self.settings = experiment, number, d, settings
        self.created = created
        self.model: Model = compile(d)
        self.inference = inference_of(d, settings)
        self.horizons: Horizons = horizons_of(d, settings)
        self.can_revise = REVISE in self.inference.capabilities
        self.accept = seconds_of("accept", settings.accept) if self.can_revise else 0.0
        self.observed: dict[str, Node] = {node.name: node for node in self.model.observed}
        absent = settings.absent or {}
        stages = self.horizons.stages
        # other inferences learn a round once, at its last horizon
        self.stages = stages if self.can_revise else stages[-1:]
        self._unreported = {
            age: {
                name: absent.get(name, self.observed[name].values[0])
                for name, horizon in self.horizons.by_node.items() if horizon <= age
            }
            for age in (TOO_YOUNG, *self.stages, NEVER)
        }  # by age: values of nodes without events  # fmt: skip
        self._nodes_of = {name: [name] for name in self.observed}  # observed nodes by name in events
        for name, nodes in self.horizons.delayed.items():
            self._nodes_of[name] = [*self._nodes_of.get(name, []), *nodes]

    # -- reports -------------------------------------------------------------------------------------------------------

    def events_of(
        self, values: Mapping[str, Any], at: float, times: Mapping[str, float], received: float
    ) -> tuple[Event, ...]:  # fmt: skip
        """Validate reported values and return events; nodes without an entry in `times` happened at `at`."""
        events = list[Event]()
        for name, value in values.items():
            happened = times.get(name, at)
            if name in self.horizons.delayed:
                if value not in (True, False, 0, 1):
                    raise ServiceError("impossible", f"values: {name!r} must be 0 or 1, got {brief(value)}", name)
                events.append(Event(name, int(value), happened, received))
                continue
            node = self.observed.get(name)
            if node is None:
                listed = ", ".join([*self.horizons.delayed, *self.observed]) or "none"
                message = f"values must be of observed nodes ({listed}), got {brief(name)}"
                raise ServiceError("unknown-node", message, str(name))
            place = None if value is None else node.index(int(value) if isinstance(value, bool) else value)
            if value is not None and place is None:
                message = f"values: {name!r} must be one of {node.allowed()}, got {brief(value)}"
                raise ServiceError("impossible", message, name)
            events.append(Event(name, None if place is None else node.values[place], happened, received))
        return tuple(events)

    def judge(self, outcome: Outcome, row: DecisionRow, earlier: Sequence[Event], now: float) -> Change | None:
        """Return the change of a decision by an outcome; None if nothing is new. Raise if the outcome is too late."""
        if row.shown is None and outcome == Outcome():
            return None
        shown = row.shown if row.shown is not None else row.at if outcome.shown is None else outcome.shown
        if now > shown + self.stages[-1] + self.accept:
            late = f"within {self.settings.accept} after" if self.can_revise else "before"
            message = f"outcome must come {late} the last horizon of decision {row.id!r}"
            raise ServiceError("too-late", message)
        for event in outcome.events:
            if event.at > shown + self._limit(event.node):
                limit, age = duration_text(self._limit(event.node)), duration_text(event.at - shown)
                message = f"{event.node!r} must happen within {limit} of decision {row.id!r}, got {age} after it"
                raise ServiceError("too-late", message, event.node)
        new = tuple(event for event in outcome.events if not _repeats(event, earlier))
        complete = row.complete or int(outcome.complete)
        if not new and complete == row.complete and row.shown is not None:
            return None
        if not self.can_revise and row.learned is not None:
            name = name_of(self.inference)
            raise ServiceError("too-late", f"decision {row.id!r} was learned, and inference {name!r} cannot correct it")
        due = shown + self.stages[0] if row.shown is None else row.due
        if (
            complete or due is None or now >= shown + self.stages[0]
        ):  # otherwise the round stays due at its first horizon
            due = now
        return Change(new, due, complete, row.state if row.state in (CLOSED, IMPOSSIBLE) else OPEN, shown)

    def _limit(self, name: str) -> float:
        """Return the largest age at which events of a node count."""
        nodes = self.horizons.delayed.get(name, [name])
        return max(self.horizons.by_node[node] for node in nodes)

    # -- closing -------------------------------------------------------------------------------------------------------

    def observation(self, row: DueRow, events: Sequence[Event], now: float) -> dict[str, Any]:
        """Return the observation of a round by now: reported values, and values of nodes without an event.

        A node is not observed before its horizon, even if an event was reported: otherwise, rounds with events would
        be learned earlier than rounds without events.
        """
        shown = row.at if row.shown is None else row.shown
        reached = [stage for stage in self.stages if shown + stage <= now]
        age = NEVER if row.complete else max(reached, default=TOO_YOUNG)
        seen = self._unreported[age].copy()
        for event in sorted(events, key=BY_TIME):  # the latest event counts
            for name in self._nodes_of.get(event.node, ()):
                if name in seen and event.at <= shown + self.horizons.by_node[name]:
                    seen[name] = event.value if event.node == name else self.observed[name].values[event.value]
        return {name: value for name, value in seen.items() if value is not None}

    def next_due(self, row: DueRow, now: float) -> float | None:
        """Return the time at which a round that is closed now is due again; None if only a report makes it due."""
        shown = row.at if row.shown is None else row.shown
        if row.complete:
            return None
        return next((shown + stage for stage in self.stages if shown + stage > now), None)


def _repeats(event: Event, earlier: Sequence[Event]) -> bool:
    """Return whether an event repeats an earlier report of its node.

    An event with a reported time repeats an event with equal time and value. An event without a reported time repeats
    the latest event of the node if the values are equal.
    """
    of_node = [other for other in earlier if other.node == event.node]
    if event.at == event.received:  # no time was reported
        return bool(of_node) and max(of_node, key=BY_TIME).value == event.value
    return any(other.at == event.at and other.value == event.value for other in of_node)
