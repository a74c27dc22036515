"""`idb.Live`: experiments with a durable journal in one process."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.kernel.array_types import generator
from idbandits.service.journal.committer import Committer
from idbandits.service.journal.journal import Journal, NewDecision, Report
from idbandits.service.journal.records import VersionRow, events_of
from idbandits.service.journal.store import Store
from idbandits.service.json_text import decoded, encoded
from idbandits.service.live.deciding import Decider, Request
from idbandits.service.live.experiments import Decision, Experiments
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
from idbandits.service.live.inputs import check_id, check_name
from idbandits.service.live.replica import LIBRARY, Replica, replica_at
from idbandits.service.live.settings import Settings, checked_settings
from idbandits.service.live.shelf import Shelf
from idbandits.service.live.versions import Version
from idbandits.service.service_errors import ServiceError

STATUSES = ("active", "paused", "retired")


@final
class Live(Experiments):
    """Experiments with a durable journal: decisions with ids, outcomes as timestamped events, learning by age.

    Several processes may share a store. Rounds are closed by age, whether or not an event arrived, and then learned.
    Times are ISO texts, datetimes or seconds since 1970. Invalid requests raise a `ServiceError`.

    Parameters
    ----------
    url : str
        Store: `sqlite:///shop.db` (four slashes begin an absolute path) or `postgresql://…`.
    clock : function
        Function that returns the time in seconds since 1970.
    background : bool
        Close and learn rounds in a background thread; otherwise, when `tick` is called.
    tick : float
        Seconds between two steps of the background thread.
    store : Store, optional
        Open store, instead of `url`.
    shelf : Shelf, optional
        Folder through which the workers of a service share what they learned.
    fills_shelf : bool
        True if this process learns for all processes that share the shelf.
    seed : int, optional
        Seed of decisions and of new experiments, for tests and examples: processes that share a store need different
        random numbers.

    Examples
    --------
    >>> import tempfile
    >>> import idbandits as idb
    >>> folder = tempfile.TemporaryDirectory()
    >>> live = idb.Live(f"sqlite:///{folder.name}/shop.db", background=False)
    >>> live.put("shop", idb.models.cascade(["tea", "milk"], positions=1), horizon="30m")
    1
    >>> decision = live.decide("shop", allowed=["tea"])
    >>> decision.action, decision.arm
    ({'A1': 'tea'}, 'policy')
    >>> live.report(decision.id, {"C1": 1}, complete=True)
    'accepted'
    >>> live.tick()
    1
    >>> live.show("shop")["rounds"], live.posterior("shop")["attraction"].mean.round(2).tolist()
    (1, [0.67, 0.5])
    >>> live.decision("shop", decision.id)["learned"]
    {'C1': 1}
    >>> live.probability("shop", decision.id)["probability"]
    1.0
    >>> live.set_status("shop", "paused")
    >>> live.experiments(), live.known(), live.lag("shop"), live.show("shop")["status"]
    (['shop'], ['shop'], 0.0, 'paused')
    >>> live.close()
    >>> folder.cleanup()
    """

    def __init__(
        self, url: str, *, clock: Callable[[], float] = time.time, background: bool = True, tick: float = TICK,
        store: Store | None = None, shelf: Shelf | None = None, fills_shelf: bool = False,
        seed: int | None = None,
    ) -> None:  # fmt: skip
        self._random = generator(secrets.randbits(128) if seed is None else seed)
        self.store = open_store(url) if store is None else store
        self.journal = Journal(self.store)
        self.clock, self._process = clock, os.getpid()
        self._versions = dict[tuple[str, int], Version]()
        self._in_flight, self._lock = set[tuple[str, str]](), threading.Lock()
        self._choosing = threading.Lock()  # held while a batch of actions is chosen
        self._decider = Decider(self.journal, clock, self._random)
        self._follower = Follower(self.journal, self.version, clock, shelf, fills=fills_shelf)
        self._follower.follow_all()
        self._committer = Committer(self.journal)
        if background:
            self._follower.start(tick)

    # -- experiments ---------------------------------------------------------------------------------------------------

    def put(self, name: str, d: Diagram, *, who: str = "python", **settings: Any) -> int:
        """Create an experiment, or add a version that keeps what was learned.

        Nothing changes if diagram and settings are those of the latest version.

        Parameters
        ----------
        name : str
            Name of the experiment.
        d : Diagram
            Decision problem.
        who : str
            Author of the change, for the journal.
        **settings
            Settings (docs/reference/service.md): `inference`, `forget`, `effort`, `mode` ("online", "shadow",
            "frozen"), `horizon` and `accept` (durations such as "30m"), `absent`, `age_unit`, `holdout` (share, 0 to
            0.9), `baseline`, `learn_holdout`, `sticky` (duration). Those that are left out have their defaults, also in
            a new version.

        Returns
        -------
        int
            Number of the version, from 1.
        """
        check_name(name)
        if not isinstance(d, Diagram):
            raise ServiceError("invalid", f"diagram must be a Diagram, got {brief(d)}", "diagram")
        checked = checked_settings(d, settings)
        while (number := self._put(name, d, checked, who)) is None:
            self._follower.follow_all()  # another process has put a version
        self._follower.follow_all()
        return number

    def _put(self, name: str, d: Diagram, settings: Settings, who: str) -> int | None:
        """Put a version after the latest version; return None if another process has put a version meanwhile."""
        latest = self._latest(name)
        if latest is not None:
            for setting in ("inference", "forget", "effort"):
                if getattr(latest.settings, setting) != getattr(settings, setting):
                    message = (
                        f"{setting} must stay {getattr(latest.settings, setting)!r} in a new version, got "
                        f"{getattr(settings, setting)!r}; a new experiment can have another one"
                    )
                    raise ServiceError("invalid", message, setting)
        version = Version(name, 0, d, settings, self.clock())  # compile before storing
        try:  # raise before storing if no agent can be created
            if latest is None:
                Replica(self.journal, name, 0, lambda *_: version)._agent_of(version)
            else:
                self.view(name).agent.moved_to(d)
        except ServiceError:
            raise
        except IdbanditsError as error:
            raise ServiceError("invalid", str(error), "diagram") from None
        row = VersionRow(0, encoded(d.to_dict()), encoded(settings.to_data()), self.clock())
        return self.journal.put(
            name, int(self._random.integers(2**62)), row, who, 0 if latest is None else latest.number
        )

    def experiments(self) -> list[str]:
        """Return the names of all experiments."""
        return list(self.journal.experiments())

    def set_status(self, name: str, status: str, who: str = "python") -> None:
        """Pause, resume or retire an experiment; outcomes are always accepted.

        Parameters
        ----------
        name : str
            Name of the experiment.
        status : {"active", "paused", "retired"}
            New status.
        who : str
            Author of the change, for the journal.
        """
        self.replica(name)
        if status not in STATUSES:
            raise ServiceError("invalid", f"status must be one of {', '.join(STATUSES)}, got {brief(status)}", "status")
        self.journal.set_status(name, status, who)
        self._follower.statuses[name] = status

    def show(self, name: str) -> dict[str, Any]:
        """Describe an experiment: version, status, settings, numbers of rounds and decisions, lag in seconds.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
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

    def posterior(self, name: str) -> dict[str, Any]:
        """Return the belief of every learned table, as `Posterior` by name.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        return self.view(name).agent.posterior()

    # -- decisions -----------------------------------------------------------------------------------------------------

    def decide(
        self, experiment: str, context: Mapping[str, Any] | None = None, *, allowed: Any = None, id: str | None = None,
        unit: str | None = None, action: Mapping[str, Any] | None = None, deferred: bool = False,
    ) -> Decision:  # fmt: skip
        """Choose the action to show, and store the decision durably.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        context : mapping, optional
            Value of each context node, or its features, by name.
        allowed : iterable or mapping, optional
            Eligible choices, as in `Thompson.act`.
        id : str, optional
            Id of the decision; a repeated id gets its first answer. By default, a new one.
        unit : str, optional
            User or device: it stays in one arm, and keeps its action if the experiment is `sticky`.
        action : mapping, optional
            Action of the caller, in shadow mode or for a holdout with the baseline "caller".
        deferred : bool
            Learn from the decision only if it is reported as `shown`.

        Returns
        -------
        Decision
            Id, action, version and arm.
        """
        request = Request(context, allowed, id, unit, action, deferred)
        write = self.decision_write(experiment, request)
        try:
            stored = self._committer.do(write)
        finally:
            self.forget_in_flight(write)
        return self.decision_of(write, stored)

    def decide_many(
        self, experiment: str, requests: Sequence[Mapping[str, Any] | Request]
    ) -> list[Decision | ServiceError]:  # fmt: skip
        """Decide several requests in as few transactions as possible; return a decision or an error for each request.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        requests : sequence of mappings
            Arguments of `decide`.
        """
        all_requests = [request if isinstance(request, Request) else Request(**request) for request in requests]
        answers: list[Any] = [None] * len(all_requests)
        writes = list[tuple[int, NewDecision]]()
        with self._choosing:  # concurrent batches would wait for each other at every decision
            for i, request in enumerate(all_requests):
                try:
                    writes.append((i, self.decision_write(experiment, request)))
                except ServiceError as error:
                    answers[i] = error
        try:
            rows = self._committer.do_all([write for _, write in writes])
        finally:
            for _, write in writes:
                self.forget_in_flight(write)
        for (i, write), stored in zip(writes, rows, strict=True):
            try:
                answers[i] = stored if isinstance(stored, ServiceError) else self.decision_of(write, stored)
            except ServiceError as error:
                answers[i] = error
        return answers

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def report(
        self, id: str, values: Mapping[str, Any] | None = None, *, at: Any = None, complete: bool = False,
        experiment: str | None = None,
    ) -> str:  # fmt: skip
        """Report what happened after a decision.

        Parameters
        ----------
        id : str
            Id of the decision.
        values : mapping, optional
            Value by observed node; or a time, at which the node got its last state; or (value, time).
        at : str, datetime or float, optional
            Time of values without a time, now by default.
        complete : bool
            Close the round without waiting for its horizons: nothing more will come.
        experiment : str, optional
            Name of the experiment, if several have the id.

        Returns
        -------
        str
            "accepted", or "unchanged" for a repeated report.
        """
        experiment = self._experiment_of(id) if experiment is None else experiment
        write = self.report_write(experiment, id, values, at, complete)
        return "unchanged" if self._committer.do(write) is None else "accepted"

    def shown(self, id: str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown; return "accepted", or "unchanged" for a repeat.

        Parameters
        ----------
        id, at, experiment
            As in `report`.
        """
        experiment = self._experiment_of(id) if experiment is None else experiment
        return "unchanged" if self._committer.do(self.shown_write(experiment, id, at)) is None else "accepted"

    def report_many(self, experiment: str, reports: Sequence[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes; return an answer or an error for each report.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        reports : sequence of mappings
            Arguments of `report`.
        """
        answers: list[Any] = [None] * len(reports)
        writes = list[tuple[int, Report]]()
        for i, report in enumerate(reports):
            try:
                writes.append((i, self.report_write(experiment, **report)))
            except ServiceError as error:
                answers[i] = error
        for (i, _), answer in zip(writes, self._committer.do_all([write for _, write in writes]), strict=True):
            is_error = isinstance(answer, ServiceError)
            answers[i] = answer if is_error else "unchanged" if answer is None else "accepted"
        return answers

    def _experiment_of(self, id: str) -> str:
        names = self.journal.experiments_of(check_id("id", id))
        if not names:
            raise ServiceError("unknown-decision", f"decision must exist, got the id {id!r}", "decision")
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            raise ServiceError("invalid", f"experiment must be given: decision {id!r} is one of {listed}", "experiment")
        return names[0]

    # -- learning ------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Close all due rounds and learn them; return the number of learned steps."""
        return self._follower.tick()

    # -- questions -----------------------------------------------------------------------------------------------------

    def decision(self, experiment: str, id: str) -> dict[str, Any]:
        """Describe a decision and everything reported about it.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        id : str
            Id of the decision.
        """
        self.replica(experiment)
        row = self.journal.decision(experiment, id)
        description = row._asdict()
        for name in ("action", "proposed", "context", "allowed", "learned"):
            description[name] = decoded(description[name])
        for name in ("n", "digest"):
            description.pop(name)
        return description | {
            "learns": bool(row.learns),
            "complete": bool(row.complete),
            "events": [event._asdict() for event in events_of(row)],
        }

    def probability(self, experiment: str, id: str, draws: int = 1000) -> dict[str, Any]:
        """Compute the probability of a decision's action again, from the journal alone.

        The agent is rebuilt as it was at the decision. With the seed of the decision, it must choose the action of the
        decision (`reproduced`).

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        id : str
            Id of the decision.
        draws : int
            Number of draws, as in `Thompson.propensity`.

        Returns
        -------
        dict
            `probability`, `standard_error`, `upper`, and the data on which these depend.
        """
        row = self.journal.decision(experiment, id)
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
        """Return the gain of the policy over the holdout, in reward per round, with an interval that is valid at all
        times.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        periods = self.periods(name)
        return gain_of(periods, design_effect_of(self.store, name) if periods else 1.0)

    def sample_ratio(self, name: str) -> SampleRatio:
        """Test whether the holdout has its share of units, or of rounds if decisions have no units.

        Parameters
        ----------
        name : str
            Name of the experiment.
        """
        periods = self.periods(name, first=True)
        units = units_of(self.store, name, sorted({period.version for period in periods})) if periods else []
        return sample_ratio_of(counts_by_version(periods, units), by_unit=bool(units))

    def periods(self, name: str, *, first: bool = False) -> list[Period]:
        """Return the hours whose rounds have all reached their last horizon.

        Parameters
        ----------
        name : str
            Name of the experiment.
        first : bool
            Return the hours whose rounds have reached their first horizon instead.
        """
        now, stage = self.clock(), 0 if first else -1

        def is_complete(version: int, end: float) -> bool:
            return end + self.version(name, version).stages[stage] <= now

        return periods_of(self.replica(name).statistics, lambda v: self.version(name, v).settings.holdout, is_complete)

    def close(self) -> None:
        """Stop learning, finish all writes, and close the store."""
        self._follower.stop()
        self._committer.close()
        self.store.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(url: str, *, create: bool = True) -> Store:
    """Return the store of a URL; without `create`, raise if it is a file that does not exist."""
    if not isinstance(url, str):
        raise IdbanditsError(f"store must be a URL, got {brief(url)}")
    if url.startswith("sqlite://"):
        from idbandits.service.journal.sqlite import SqliteStore

        return SqliteStore(url, create=create)
    if url.startswith(("postgresql://", "postgres://")):
        from idbandits.service.journal.postgres import PostgresStore

        return PostgresStore(url)
    raise IdbanditsError(f"store must be sqlite:///file.db or postgresql://…, got {brief(url)}")
