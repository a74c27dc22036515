"""`idb.Live`: experiments with a durable journal in one process."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, final

from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import ActionError, ContextError, IdbanditsError, brief
from idbandits.service.journal.committer import Committer
from idbandits.service.journal.journal import Journal, NewDecision, Report, Write
from idbandits.service.journal.records import DecisionRow, Event, VersionRow
from idbandits.service.journal.store import Store
from idbandits.service.json_text import decoded, encoded
from idbandits.service.live.deciding import Decider, Request, digest_of_request
from idbandits.service.live.follower import TICK, Follower
from idbandits.service.live.gain import (
    Gain,
    Period,
    SampleRatio,
    counts_by_version,
    design_effect_of,
    gain_of,
    periods_of,
    sample_ratio_of,
    units_of,
)
from idbandits.service.live.inputs import SKEW, check_id, check_name, is_time, new_id, time_of
from idbandits.service.live.replica import LIBRARY, Replica, View, replica_at
from idbandits.service.live.settings import Settings, checked_settings
from idbandits.service.live.shelf import Shelf
from idbandits.service.live.versions import Outcome, Version
from idbandits.service.service_errors import ServiceError

MOST_VERSIONS = 1000  # that are kept in memory
STATUSES = ("active", "paused", "retired")


class Decision(NamedTuple):
    """Answer to a request: what to show."""

    id: str
    action: dict[str, Label]
    version: int
    arm: str  # policy, holdout, caller
    experiment: str


@final
class Live:
    """Experiments with a durable journal: decisions with ids, outcomes as timestamped events, learning by age.

    `url` is that of a store: `sqlite:///shop.db` (four slashes begin an absolute path) or `postgresql://…`. Several
    processes may share a store. A background thread closes rounds and learns them; with `background=False`, `tick`
    does this when it is called. `clock` returns the time in seconds from 1970.
    """

    def __init__(
        self, url: str, *, clock: Callable[[], float] = time.time, background: bool = True, tick: float = TICK,
        store: Store | None = None, shelf: Shelf | None = None, fills_shelf: bool = False,
    ) -> None:  # fmt: skip
        self.store = open_store(url) if store is None else store
        self.journal = Journal(self.store)
        self.clock, self._process = clock, os.getpid()
        self._versions = dict[tuple[str, int], Version]()
        self._in_flight, self._lock = set[tuple[str, str]](), threading.Lock()
        self._decider = Decider(self.journal, clock)
        self._follower = Follower(self.journal, self.version, clock, shelf, fills=fills_shelf)
        self._follower.follow_all()
        self._committer = Committer(self.journal)
        if background:
            self._follower.start(tick)

    # -- experiments ---------------------------------------------------------------------------------------------------

    def put(self, name: str, d: Diagram, *, who: str = "python", **settings: Any) -> int:
        """Create an experiment, or add a version that keeps what was learned; return the number of the version.

        Nothing changes if diagram and settings are those of the latest version.
        """
        check_name(name)
        if not isinstance(d, Diagram):
            raise ServiceError("invalid", f"diagram must be a Diagram, got {brief(d)}", "diagram")
        own = checked_settings(d, settings)
        while (number := self._put(name, d, own, who)) is None:
            self._follower.follow_all()  # another process has put a version
        self._follower.follow_all()
        return number

    def _put(self, name: str, d: Diagram, own: Settings, who: str) -> int | None:
        """Put a version after the latest one; return None if that is not the latest any more."""
        latest = self._latest(name)
        if latest is not None:
            for setting in ("inference", "forget", "effort"):
                if getattr(latest.settings, setting) != getattr(own, setting):
                    message = (
                        f"{setting} must stay {getattr(latest.settings, setting)!r} in a new version, got "
                        f"{getattr(own, setting)!r}; a new experiment can have another one"
                    )
                    raise ServiceError("invalid", message, setting)
        version = Version(name, 0, d, own, self.clock())  # compiled before it is stored
        try:  # an agent that cannot be is not stored
            if latest is None:
                Replica(self.journal, name, 0, lambda *_: version)._agent_of(version)
            else:
                self.view(name).agent.moved_to(d)
        except ServiceError:
            raise
        except IdbanditsError as error:
            raise ServiceError("invalid", str(error), "diagram") from None
        row = VersionRow(0, encoded(d.to_dict()), encoded(own.to_data()), self.clock())
        return self.journal.put(name, secrets.randbits(62), row, who, 0 if latest is None else latest.number)

    def _latest(self, name: str) -> Version | None:
        number = self.journal.latest_version(name)
        return self.version(name, number) if number else None

    def version(self, experiment: str, number: int) -> Version:
        """Return a version of an experiment; the latest ones are kept in memory."""
        known = self._versions.get((experiment, number))
        if known is None:
            rows = self.journal.versions(experiment, number - 1, 1)
            if not rows or rows[0].version != number:
                raise ServiceError("unknown-experiment", f"experiment {experiment!r} must have version {number}")
            d, settings = Diagram.from_dict(decoded(rows[0].diagram)), Settings(**decoded(rows[0].settings))
            known = Version(experiment, number, d, settings, rows[0].created)
            with self._lock:
                known = self._versions.setdefault((experiment, number), known)
                while len(self._versions) > MOST_VERSIONS:
                    del self._versions[next(iter(self._versions))]
        return known

    def experiments(self) -> list[str]:
        """Return the names of all experiments."""
        return list(self.journal.experiments())

    def set_status(self, name: str, status: str, who: str = "python") -> None:
        """Pause ("paused"), resume ("active") or retire ("retired") an experiment; outcomes are always accepted."""
        self.replica(name)
        if status not in STATUSES:
            raise ServiceError("invalid", f"status must be one of {', '.join(STATUSES)}, got {brief(status)}", "status")
        self.journal.set_status(name, status, who)
        self._follower.statuses[name] = status

    def show(self, name: str) -> dict[str, Any]:
        """Describe an experiment: version, status, numbers of rounds and decisions."""
        view = self.view(name)
        settings = view.version.settings
        status = self._follower.statuses.get(name, "active")
        totals = self.journal.totals(name)
        behind = self.journal.behind(name, view.position)
        return {
            "name": name, "version": view.version.number, "status": settings.mode if status == "active" else status,
            "mode": settings.mode, "rounds": view.agent.rounds, "closed": self.replica(name).statistics.rounds,
            "decisions": totals["decisions"], "pending": totals["pending"], "impossible": totals.get("impossible", 0),
            "letters": totals["letters"], "behind": behind, "lag": self.lag(name), "position": view.position,
            "settings": settings.to_data(), "created": view.version.created,
        }  # fmt: skip

    def lag(self, name: str) -> float:
        """Return for how many seconds something is due that this process has not learned: rounds to close, or steps."""
        return self._follower.lag(self.replica(name))

    def replica(self, name: str) -> Replica:
        """Return the replica of an experiment, or raise if there is none."""
        if os.getpid() != self._process:  # threads and locks were left in the parent
            raise IdbanditsError("idb.Live must be opened in the process that uses it; this one was forked after that")
        replica = self._follower.replicas.get(name)
        if replica is None or replica.view is None:
            self._follower.follow_all()  # another process may have created it
            replica = self._follower.replicas.get(name)
        if replica is None or replica.view is None:
            raise ServiceError("unknown-experiment", f"experiment must exist, got {brief(name)}", "experiment")
        return replica

    def present(self, name: str) -> View | None:
        """Return the present agent of an experiment without a look at the journal, None if it is not known here."""
        replica = self._follower.replicas.get(name)
        return None if replica is None else replica.view

    def known(self) -> list[str]:
        """Return the names of experiments that this process follows."""
        return [name for name, replica in list(self._follower.replicas.items()) if replica.view is not None]

    def view(self, name: str) -> View:
        """Return the present agent of an experiment and its version."""
        view = self.replica(name).view
        assert view is not None
        return view

    def posterior(self, name: str) -> dict[str, Any]:
        """Return the belief of every learned table, as `Posterior` by name."""
        return self.view(name).agent.posterior()

    # -- decisions -----------------------------------------------------------------------------------------------------

    def decide(
        self, experiment: str, context: Mapping[str, Any] | None = None, *, allowed: Any = None, id: str | None = None,
        unit: str | None = None, action: Mapping[str, Any] | None = None, deferred: bool = False,
    ) -> Decision:  # fmt: skip
        """Return what to show; the decision is durable then. An id that is repeated gets its first answer."""
        request = Request(context, allowed, id, unit, action, deferred)
        write = self.decision_write(experiment, request)
        try:
            stored = self._committer.do(write)
        finally:
            self.forget_in_flight(write)
        return self.decision_of(write, stored)

    def decide_many(self, experiment: str, requests: Sequence[Request]) -> list[Decision | ServiceError]:
        """Return a decision or an error for each request, all in as few transactions as possible."""
        answers: list[Any] = [None] * len(requests)
        writes = list[tuple[int, NewDecision]]()
        for i, request in enumerate(requests):
            try:
                writes.append((i, self.decision_write(experiment, request)))
            except ServiceError as error:
                answers[i] = error
        try:
            every = self._committer.do_all([own for _, own in writes])
        finally:
            for _, write in writes:
                self.forget_in_flight(write)
        for (i, write), stored in zip(writes, every, strict=True):
            try:
                answers[i] = stored if isinstance(stored, ServiceError) else self.decision_of(write, stored)
            except ServiceError as error:
                answers[i] = error
        return answers

    def submit(self, write: Write, answered: Any, key: Any = None) -> None:
        """Write soon (see `Committer.submit`)."""
        self._committer.submit(write, answered, key)

    def decision_write(self, experiment: str, request: Request) -> NewDecision:
        """Choose an action for a request; the result is to be written, and answered by `decision_of`."""
        view = self.view(experiment)
        own_id = new_id(self.clock()) if request.id is None else check_id("id", request.id)
        if request.unit is not None:
            check_id("unit", request.unit)
        if request.id is not None:
            with self._lock:
                if (experiment, own_id) in self._in_flight:
                    raise ServiceError("duplicate", f"decision {own_id!r} is being made by another request", "id")
                self._in_flight.add((experiment, own_id))
        try:
            return NewDecision(self._row(experiment, own_id, view, request))
        except BaseException:
            self._in_flight.discard((experiment, own_id))
            raise

    def _row(self, experiment: str, id: str, view: View, request: Request) -> DecisionRow:
        """Return the row of a new decision, or of an earlier one that this request repeats and could not be new."""
        try:
            if (status := self._follower.statuses.get(experiment, "active")) != "active":
                raise ServiceError("not-active", f"experiment {experiment!r} must be active, it is {status}")
            return self._decider.row(experiment, self._follower.seeds[experiment], id, view, request)
        except IdbanditsError as error:
            if request.id is not None:
                with suppress(IdbanditsError, TypeError):
                    return self.journal.decision(experiment, id)[0]._replace(digest=digest_of_request(request))
            if isinstance(error, ServiceError):
                raise
            fields = {ContextError: "context", ActionError: "allowed"}
            raise ServiceError("invalid", str(error), fields.get(type(error))) from None

    def forget_in_flight(self, write: NewDecision) -> None:
        """Allow the id of a written decision again."""
        self._in_flight.discard((write.row.experiment, write.row.id))

    def decision_of(self, write: NewDecision, stored: DecisionRow) -> Decision:
        """Return the answer to a request, from what was stored; raise if its id belongs to another request."""
        if stored.digest != write.row.digest:
            message = f"id must be new, or repeat an equal request; {stored.id!r} is that of another one"
            raise ServiceError("other-body", message, "id")
        return Decision(stored.id, decoded(stored.action), stored.version, stored.arm, stored.experiment)

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def report(
        self, id: str, values: Mapping[str, Any] | None = None, *, at: Any = None, complete: bool = False,
        experiment: str | None = None,
    ) -> str:  # fmt: skip
        """Report what happened after a decision: values by node, or when nodes happened; return what it changed.

        A value may be a time (an ISO text or a datetime), which means that the node had its last state then, and
        `(value, time)`. `at` is the time of all others, now by default. With `complete`, nothing more will come, and
        the round is closed without waiting for its horizons. The answer is "accepted", or "unchanged" for a repeat.
        """
        experiment = self._experiment_of(id) if experiment is None else experiment
        write = self.report_write(experiment, id, values, at, complete)
        return "unchanged" if self._committer.do(write) is None else "accepted"

    def shown(self, id: str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown; return "accepted", or "unchanged" for a repeat."""
        experiment = self._experiment_of(id) if experiment is None else experiment
        return "unchanged" if self._committer.do(self.shown_write(experiment, id, at)) is None else "accepted"

    def report_many(self, experiment: str, reports: Sequence[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes, each with the arguments of `report`; return an answer or an error for each."""
        answers: list[Any] = [None] * len(reports)
        writes = list[tuple[int, Report]]()
        for i, own in enumerate(reports):
            try:
                writes.append((i, self.report_write(experiment, **own)))
            except ServiceError as error:
                answers[i] = error
        for (i, _), answer in zip(writes, self._committer.do_all([own for _, own in writes]), strict=True):
            is_error = isinstance(answer, ServiceError)
            answers[i] = answer if is_error else "unchanged" if answer is None else "accepted"
        return answers

    def report_write(
        self, experiment: str, id: str, values: Mapping[str, Any] | None = None, at: Any = None, complete: bool = False
    ) -> Report:
        """Return the write of an outcome."""
        self.replica(experiment)
        now = self.clock()
        usual = now if at is None else time_of("at", at, now)
        plain, times = dict[str, Any](), dict[str, float]()
        for name, value in (values or {}).items():
            plain[name] = value
            if isinstance(value, (tuple, list)) and len(value) == 2:
                plain[name], times[name] = value[0], time_of(f"values: {name}", value[1], now)
            elif isinstance(value, datetime) or (isinstance(value, str) and is_time(value)):
                plain[name], times[name] = True, time_of(f"values: {name}", value, now)
        if not plain and not complete:
            raise ServiceError("invalid", "values must have a node, or complete must be true", "values")

        def judge(row: DecisionRow, known: Sequence[Event]) -> Any:
            version = self.version(row.experiment, row.version)
            events = version.events_of(plain, usual, times, now)
            for event in events:
                if event.at < row.at - SKEW:
                    message = f"at must be after the decision, got {row.at - event.at:.0f} s before it"
                    raise ServiceError("invalid", message, "at")
            return version.judge(Outcome(events, bool(complete)), row, known, now)

        return Report(experiment, id, judge)

    def shown_write(self, experiment: str, id: str, at: Any = None) -> Report:
        """Return the write that a decision was shown."""
        self.replica(experiment)
        now = self.clock()
        when = now if at is None else time_of("at", at, now)

        def judge(row: DecisionRow, known: Sequence[Event]) -> Any:
            if row.shown is not None:
                return None
            if when < row.at - SKEW:
                message = f"at must be after the decision, got {row.at - when:.0f} s before it"
                raise ServiceError("invalid", message, "at")
            version = self.version(row.experiment, row.version)
            return version.judge(Outcome(shown=when), row, known, now)

        return Report(experiment, id, judge)

    def _experiment_of(self, id: str) -> str:
        found = self.journal.experiments_of(check_id("id", id))
        if not found:
            raise ServiceError("unknown-decision", f"decision must exist, got the id {id!r}", "decision")
        if len(found) > 1:
            listed = ", ".join(map(repr, found))
            raise ServiceError("invalid", f"experiment must be given: decision {id!r} is one of {listed}", "experiment")
        return found[0]

    # -- learning ------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Close all rounds that are due and learn everything that was closed; return how many steps were learned."""
        return self._follower.tick()

    def save_snapshots(self) -> None:
        """Store snapshots of all experiments that learned something since the latest one."""
        self._follower.save_snapshots()

    @property
    def failure(self) -> Exception | None:
        """Error of the background thread; None if it works."""
        return self._follower.failure

    @property
    def learned(self) -> tuple[int, float]:
        """Number of steps that this process learned, and the seconds that it took."""
        return self._follower.learned

    # -- questions -----------------------------------------------------------------------------------------------------

    def decision(self, experiment: str, id: str) -> dict[str, Any]:
        """Describe a decision and what was reported of it."""
        self.replica(experiment)
        row, events = self.journal.decision(experiment, id)
        own = row._asdict()
        for name in ("action", "proposed", "context", "allowed", "learned"):
            own[name] = decoded(own[name])
        for name in ("n", "digest"):
            own.pop(name)
        return own | {
            "learns": bool(row.learns),
            "complete": bool(row.complete),
            "events": [e._asdict() for e in events],
        }

    def probability(self, experiment: str, id: str, draws: int = 1000) -> dict[str, Any]:
        """Compute the probability of a decision's action again, from the journal alone.

        The agent is rebuilt as it was then; that it chooses the same action by the same seed is checked.
        """
        row, _ = self.journal.decision(experiment, id)
        if row.library != LIBRARY:
            message = (
                f"library must be {LIBRARY}, by which probabilities can be computed; decision {id!r} has {row.library}"
            )
            raise ServiceError("other-library", message)
        if row.seed is None:
            message = f"decision {id!r} repeated an earlier action of its unit, so its probability is 1"
            raise ServiceError("invalid", message)
        self.replica(experiment)
        replica = replica_at(self.journal, experiment, self._follower.seeds[experiment], self.version, row.position)
        assert replica.view is not None
        agent, context, allowed = replica.view.agent, decoded(row.context), decoded(row.allowed)
        again = encoded(agent.act(context, allowed=allowed, seed=row.seed))
        settings, action = replica.view.version.settings, decoded(row.action)
        chance = agent.copy(row.seed).propensity(action, context, allowed=allowed, draws=draws)
        return {
            "id": id, "arm": row.arm, "probability": chance.probability, "standard_error": chance.standard_error,
            "upper": chance.upper, "draws": draws, "holdout": settings.holdout, "position": row.position,
            "seed": row.seed, "library": row.library, "reproduced": again == (row.proposed or row.action),
        }  # fmt: skip

    def gain(self, name: str) -> Gain:
        """Return the gain of the policy over the holdout, with an interval that may be looked at at any time."""
        periods = self.periods(name)
        return gain_of(periods, design_effect_of(self.store, name) if periods else 1.0)

    def sample_ratio(self, name: str) -> SampleRatio:
        """Test whether the holdout has its share: of units, if decisions have them, else of rounds."""
        periods = self.periods(name, first=True)
        units = units_of(self.store, name, sorted({own.version for own in periods})) if periods else []
        return sample_ratio_of(counts_by_version(periods, units), by_unit=bool(units))

    def periods(self, name: str, *, first: bool = False) -> list[Period]:
        """Return the hours whose rounds have all reached their last horizon; with `first`, their first one."""
        now, stage = self.clock(), 0 if first else -1

        def is_complete(version: int, end: float) -> bool:
            return end + self.version(name, version).stages[stage] <= now

        return periods_of(self.replica(name).statistics, lambda v: self.version(name, v).settings.holdout, is_complete)

    def close(self) -> None:
        """Finish all writes, learn no more, and close the store."""
        self._follower.stop()
        self._committer.close()
        self.store.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(url: str) -> Store:
    """Return the store of a URL."""
    if not isinstance(url, str):
        raise IdbanditsError(f"store must be a URL, got {brief(url)}")
    if url.startswith("sqlite://"):
        from idbandits.service.journal.sqlite import SqliteStore

        return SqliteStore(url)
    if url.startswith(("postgresql://", "postgres://")):
        from idbandits.service.journal.postgres import PostgresStore

        return PostgresStore(url)
    raise IdbanditsError(f"store must be sqlite:///file.db or postgresql://…, got {brief(url)}")
