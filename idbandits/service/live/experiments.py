"""Experiments of a process: their versions and agents, and the writes of decisions and outcomes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import ActionError, ContextError, IdbanditsError, brief
from idbandits.service.journal.committer import Answered, Committer
from idbandits.service.journal.journal import Journal, NewDecision, Report, Write
from idbandits.service.journal.records import DecisionRow, Event
from idbandits.service.json_text import decoded
from idbandits.service.live.deciding import Decider, Request, digest_of_request
from idbandits.service.live.follower import Follower
from idbandits.service.live.inputs import SKEW, check_id, is_time, new_id, time_of
from idbandits.service.live.replica import Replica, View
from idbandits.service.live.settings import Settings
from idbandits.service.live.versions import Outcome, Version
from idbandits.service.service_errors import ServiceError

MOST_VERSIONS = 1000  # in memory


class Decision(NamedTuple):
    """Answer to a request: the action to show.

    Attributes
    ----------
    id : str
        Id of the decision, by which outcomes are reported.
    action : dict
        Choice of each decision node, by name.
    version : int
        Version of the experiment that decided.
    arm : str
        Chooser: "policy", "holdout" or "caller".
    experiment : str
        Name of the experiment.

    Examples
    --------
    >>> import tempfile
    >>> import idbandits as idb
    >>> with tempfile.TemporaryDirectory() as folder, idb.Live(f"sqlite:///{folder}/shop.db", background=False) as live:
    ...     number = live.put("shop", idb.models.cascade(["tea", "milk"], positions=1))
    ...     live.decide("shop", id="visit-1", allowed=["tea"])
    Decision(id='visit-1', action={'A1': 'tea'}, version=1, arm='policy', experiment='shop')
    """

    id: str
    action: dict[str, Label]
    version: int
    arm: str  # policy, holdout, caller
    experiment: str


class Experiments:
    """Experiments of a process: base of `Live` with the parts that the HTTP service uses too."""

    journal: Journal
    clock: Callable[[], float]
    _process: int
    _versions: dict[tuple[str, int], Version]
    _in_flight: set[tuple[str, str]]
    _lock: threading.Lock
    _decider: Decider
    _follower: Follower
    _committer: Committer

    # -- versions and agents -------------------------------------------------------------------------------------------

    def _latest(self, name: str) -> Version | None:
        number = self.journal.latest_version(name)
        return self.version(name, number) if number else None

    def version(self, experiment: str, number: int) -> Version:
        """Return a version of an experiment.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        number : int
            Number of the version, from 1.
        """
        version = self._versions.get((experiment, number))
        if version is None:
            rows = self.journal.versions(experiment, number - 1, 1)
            if not rows or rows[0].version != number:
                raise ServiceError("unknown-experiment", f"experiment {experiment!r} must have version {number}")
            d, settings = Diagram.from_dict(decoded(rows[0].diagram)), Settings(**decoded(rows[0].settings))
            version = Version(experiment, number, d, settings, rows[0].created)
            with self._lock:
                version = self._versions.setdefault((experiment, number), version)
                while len(self._versions) > MOST_VERSIONS:
                    del self._versions[next(iter(self._versions))]
        return version

    def replica(self, name: str) -> Replica:
        """Return the replica of an experiment, or raise if there is none.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        if os.getpid() != self._process:  # a forked process has no threads of its parent
            raise IdbanditsError("idb.Live must be opened in the process that uses it; this one was forked after that")
        replica = self._follower.replicas.get(name)
        if replica is None or replica.view is None:
            self._follower.follow_all()  # another process may have created the experiment
            replica = self._follower.replicas.get(name)
        if replica is None or replica.view is None:
            raise ServiceError("unknown-experiment", f"experiment must exist, got {brief(name)}", "experiment")
        return replica

    def present(self, name: str) -> View | None:
        """Return the present agent of an experiment that this process follows, else None; the journal is not read.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        replica = self._follower.replicas.get(name)
        return None if replica is None else replica.view

    def known(self) -> list[str]:
        """Return the names of experiments that this process follows."""
        return [name for name, replica in list(self._follower.replicas.items()) if replica.view is not None]

    def view(self, name: str) -> View:
        """Return the present agent of an experiment (`.agent`) and its version (`.version`).

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        view = self.replica(name).view
        assert view is not None
        return view

    def lag(self, name: str) -> float:
        """Return for how many seconds rounds to close or steps to learn have been waiting.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        return self._follower.lag(self.replica(name))

    @property
    def failure(self) -> Exception | None:
        """Error of the background thread; None if it works."""
        return self._follower.failure

    @property
    def learned(self) -> tuple[int, float]:
        """Number of steps that this process learned, and seconds of computation."""
        return self._follower.learned

    def save_snapshots(self) -> None:
        """Store snapshots of all experiments that have learned since their latest snapshot."""
        self._follower.save_snapshots()

    # -- writes --------------------------------------------------------------------------------------------------------

    def submit(self, writes: Sequence[Write], answered: Answered) -> None:
        """Queue writes for a common transaction (see `Committer.submit`).

        Parameters
        ----------
        writes : sequence of Write
            Decisions and reports to write.
        answered : function
            Function that the committer's thread calls with an answer or an error for each write.
        """
        self._committer.submit(writes, answered)

    def decision_write(self, experiment: str, request: Request) -> NewDecision:
        """Choose an action for a request; return the decision to write, which `decision_of` turns into an answer.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        request : Request
            Arguments of `Live.decide`.
        """
        view = self.view(experiment)
        decision_id = new_id(self.clock()) if request.id is None else check_id("id", request.id)
        if request.unit is not None:
            check_id("unit", request.unit)
        if request.id is not None:
            with self._lock:
                if (experiment, decision_id) in self._in_flight:
                    raise ServiceError("duplicate", f"decision {decision_id!r} is being made by another request", "id")
                self._in_flight.add((experiment, decision_id))
        try:
            return NewDecision(self._row(experiment, decision_id, view, request))
        except BaseException:
            self._in_flight.discard((experiment, decision_id))
            raise

    def _row(self, experiment: str, id: str, view: View, request: Request) -> DecisionRow:
        """Return the row of a new decision.

        If no decision can be made now but the request has the id of a stored decision, return a row that repeats it.
        """
        try:
            if (status := self._follower.statuses.get(experiment, "active")) != "active":
                raise ServiceError("not-active", f"experiment {experiment!r} must be active, it is {status}")
            return self._decider.row(experiment, self._follower.seeds[experiment], id, view, request)
        except IdbanditsError as error:
            if request.id is not None:
                with suppress(IdbanditsError, TypeError):
                    return self.journal.decision(experiment, id)._replace(digest=digest_of_request(request))
            if isinstance(error, ServiceError):
                raise
            fields = {ContextError: "context", ActionError: "allowed"}
            raise ServiceError("invalid", str(error), fields.get(type(error))) from None

    def forget_in_flight(self, write: NewDecision) -> None:
        """Allow requests with the id of a decision that is no longer being written.

        Parameters
        ----------
        write : NewDecision
            Decision that was written, or whose write failed.
        """
        self._in_flight.discard((write.row.experiment, write.row.id))

    def decision_of(self, write: NewDecision, stored: DecisionRow) -> Decision:
        """Return the answer to a request from the stored decision; raise if its id belongs to another request.

        Parameters
        ----------
        write : NewDecision
            Decision of the request.
        stored : DecisionRow
            Decision with this id in the journal.
        """
        if stored.digest != write.row.digest:
            message = f"id must be new, or repeat an equal request; {stored.id!r} is that of another one"
            raise ServiceError("other-body", message, "id")
        return Decision(stored.id, decoded(stored.action), stored.version, stored.arm, stored.experiment)

    def report_write(
        self, experiment: str, id: str, values: Mapping[str, Any] | None = None, at: Any = None, complete: bool = False
    ) -> Report:
        """Return the write of an outcome.

        Parameters
        ----------
        experiment, id, values, at, complete
            As in `Live.report`.
        """
        self.replica(experiment)
        now = self.clock()
        default_time = now if at is None else time_of("at", at, now)
        node_values, times = dict[str, Any](), dict[str, float]()
        for name, value in (values or {}).items():
            node_values[name] = value
            if isinstance(value, (tuple, list)) and len(value) == 2:
                node_values[name], times[name] = value[0], time_of(f"values: {name}", value[1], now)
            elif isinstance(value, datetime) or (isinstance(value, str) and is_time(value)):
                node_values[name], times[name] = True, time_of(f"values: {name}", value, now)
        if not node_values and not complete:
            raise ServiceError("invalid", "values must have a node, or complete must be true", "values")

        def judge(row: DecisionRow, earlier: Sequence[Event]) -> Any:
            version = self.version(row.experiment, row.version)
            events = version.events_of(node_values, default_time, times, now)
            for event in events:
                if event.at < row.at - SKEW:
                    message = f"at must be after the decision, got {row.at - event.at:.0f} s before it"
                    raise ServiceError("invalid", message, "at")
            return version.judge(Outcome(events, bool(complete)), row, earlier, now)

        return Report(experiment, id, judge)

    def shown_write(self, experiment: str, id: str, at: Any = None) -> Report:
        """Return the write of the report that a decision was shown.

        Parameters
        ----------
        experiment, id, at
            As in `Live.shown`.
        """
        self.replica(experiment)
        now = self.clock()
        when = now if at is None else time_of("at", at, now)

        def judge(row: DecisionRow, earlier: Sequence[Event]) -> Any:
            if row.shown is not None:
                return None
            if when < row.at - SKEW:
                message = f"at must be after the decision, got {row.at - when:.0f} s before it"
                raise ServiceError("invalid", message, "at")
            version = self.version(row.experiment, row.version)
            return version.judge(Outcome(shown=when), row, earlier, now)

        return Report(experiment, id, judge)
