"""Operations on a journal: what is appended, and what readers follow. The SQL is that of both stores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, final

from idbandits.service.journal.records import (
    DEFERRED,
    OPEN,
    ROUND,
    VERSION,
    Change,
    Closing,
    DecisionRow,
    DueRow,
    Event,
    StepRow,
    VersionRow,
    events_of,
    text_of,
)
from idbandits.service.journal.store import CollisionError, Row, Store, Transaction, migrate, one
from idbandits.service.json_text import encoded
from idbandits.service.service_errors import ServiceError

COLUMNS, WHOLE = DecisionRow._fields, "decisions_with_outcomes"
OUTCOME = "due", "shown", "complete", "state", "events", "learned", "reward", "revision", "edition"
LISTED = ", ".join(COLUMNS)
BOTH = ", ".join(f"{'o' if name in OUTCOME else 'd'}.{name}" for name in COLUMNS)
DECISION = tuple(name for name in COLUMNS if name != "n" and name not in OUTCOME)
decision_part = attrgetter(*DECISION)
INSERT_DECISIONS = (
    f"INSERT INTO decisions ({', '.join(DECISION)}) SELECT {', '.join(DECISION)} FROM {{given}} WHERE true "
    "ON CONFLICT (experiment, id) DO NOTHING"
)
SAME = "d.id = given.id AND (d.experiment = given.experiment) IS TRUE"  # so that no index of experiments is used
NEW_OUTCOME = "experiment", "id", "due", "shown", "state"
new_outcome_part = attrgetter(*NEW_OUTCOME)
INSERT_OUTCOMES = (
    "INSERT INTO outcomes (n, experiment, due, shown, state) "
    "SELECT d.n, d.experiment, given.due, given.shown, given.state FROM {given} "
    f"JOIN decisions AS d ON {SAME} WHERE true ON CONFLICT (n) DO NOTHING"
)
KEY = "experiment", "id"
SELECT_DECISION = f"SELECT {LISTED} FROM {WHOLE} WHERE experiment = ? AND id = ?"
SELECT_DECISIONS = (
    f"SELECT {BOTH} FROM {{given}} JOIN decisions AS d ON {SAME} JOIN outcomes AS o ON o.n = d.n ORDER BY d.n"
)
CHANGED = "due", "complete", "state", "shown", "events", "n"
changed_part = attrgetter(*CHANGED)
CHANGE = (
    "UPDATE outcomes SET due = given.due, complete = given.complete, state = given.state, shown = given.shown, "
    "events = given.events, edition = outcomes.edition + 1 FROM {given} WHERE outcomes.n = given.n"
)
DUE = ", ".join(f"{'o' if name in OUTCOME else 'd'}.{name}" for name in DueRow._fields)
SELECT_DUE = (
    f"SELECT {DUE} FROM outcomes AS o JOIN decisions AS d ON d.n = o.n WHERE o.due <= ? ORDER BY o.due, o.n LIMIT ?"
)
STEP = "block", "experiment", "kind", "version", "decision", "before", "after", "earlier", "reward"
INSERT_STEPS = f"INSERT INTO steps ({', '.join(STEP)}) SELECT {', '.join(STEP)} FROM {{given}}"
SELECT_STEPS = (
    "SELECT s.block, s.kind, s.version, s.before, s.after, s.earlier, s.reward, d.arm, d.learns, d.at, d.action, "
    "d.proposed, d.context FROM steps s LEFT JOIN decisions d ON d.n = s.decision "
    "WHERE s.experiment = ? AND s.block > ? AND s.block <= ? ORDER BY s.block, s.n"
)
STATE = "due", "state", "learned", "reward", "revision", "n", "edition"
CLOSE = (
    "UPDATE outcomes SET due = given.due, state = given.state, learned = given.learned, reward = given.reward, "
    "revision = given.revision, edition = outcomes.edition + 1 FROM {given} "
    "WHERE outcomes.n = given.n AND outcomes.edition = given.edition RETURNING outcomes.n"
)
LETTER = "experiment", "received", "reason", "message", "body"
INSERT_LETTERS = f"INSERT INTO letters ({', '.join(LETTER)}) SELECT {', '.join(LETTER)} FROM {{given}}"
KEPT_SNAPSHOTS = 2
T = TypeVar("T")
ATTEMPTS = 5  # of transactions that collide
MOST_EVENTS = 1000  # of a decision
KEY_OF = attrgetter(*KEY)


class NewDecision(NamedTuple):
    """Decision to append; the answer is the stored row, which is an earlier one if the id is known."""

    row: DecisionRow


class Report(NamedTuple):
    """Outcome to append: `judge` says what it changes, given the decision and its events, or raises."""

    experiment: str
    id: str
    judge: Callable[[DecisionRow, Sequence[Event]], Change | None]


Write = NewDecision | Report


@final
class Journal:
    """Journal of all experiments in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        migrate(store)
        with store.transaction() as own:  # a restored database begins its epoch before anybody reads
            own.wait_for_turn()
            own.block()

    # -- decisions and outcomes ----------------------------------------------------------------------------------------

    def write(self, writes: Sequence[Write]) -> list[Any]:
        """Carry out writes in one transaction; return an answer or a `ServiceError` for each."""
        answers: list[Any] = [None] * len(writes)
        new = [(i, own.row) for i, own in enumerate(writes) if isinstance(own, NewDecision)]
        reports = [(i, own) for i, own in enumerate(writes) if isinstance(own, Report)]

        def work(own: Transaction) -> None:
            self._insert(own, new, answers)
            self._report(own, reports, answers)

        self._attempt(work)
        return answers

    def _attempt(self, work: Callable[[Transaction], T]) -> T:
        """Carry out a transaction; again if others were in its way."""
        for attempt in range(ATTEMPTS):
            try:
                with self.store.transaction() as own:
                    return work(own)
            except CollisionError:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _insert(self, own: Transaction, new: Sequence[tuple[int, DecisionRow]], answers: list[Any]) -> None:
        if not new:
            return
        rows = sorted((row for _, row in new), key=KEY_OF)  # as others do, so that none waits for us
        inserted = own.change(INSERT_DECISIONS, DECISION, map(decision_part, rows))
        own.change(INSERT_OUTCOMES, NEW_OUTCOME, map(new_outcome_part, rows))
        stored = self._rows(own, map(KEY_OF, rows)) if inserted < len(rows) else {}  # some ids were known
        for i, row in new:
            answers[i] = stored.get(KEY_OF(row), row)

    def _rows(self, own: Transaction, keys: Iterable[tuple[str, str]], lock: str = "") -> dict[Any, DecisionRow]:
        """Return decisions by experiment and id."""
        rows = map(DecisionRow._make, own.many(SELECT_DECISIONS + lock, KEY, sorted(keys)))
        return {KEY_OF(row): row for row in rows}

    def _report(self, own: Transaction, reports: Sequence[tuple[int, Report]], answers: list[Any]) -> None:
        if not reports:
            return
        rows = self._rows(own, {KEY_OF(report) for _, report in reports}, self.store.locking)
        changed = dict[tuple[str, str], DecisionRow]()
        for i, report in reports:
            key = KEY_OF(report)
            if (row := rows.get(key)) is None:
                answers[i] = ServiceError("unknown-decision", f"decision must exist, got the id {report.id!r}")
                continue
            try:
                events = events_of(row)
                change = report.judge(row, events)
                if change is not None and len(events) + len(change.events) > MOST_EVENTS:
                    raise ServiceError("invalid", f"decision {row.id!r} must have at most {MOST_EVENTS:,} events")
            except ServiceError as error:
                if error.kind == "unavailable":
                    raise
                answers[i] = error
                continue
            answers[i] = change
            if change is not None:
                rows[key] = changed[key] = row._replace(
                    due=change.due, complete=change.complete, state=change.state, shown=change.shown,
                    events=text_of([*events, *change.events]),
                )  # fmt: skip
        own.change(CHANGE, CHANGED, map(changed_part, changed.values()))

    def decision(self, experiment: str, id: str) -> DecisionRow:
        """Return a decision, or raise."""
        with self.store.transaction(write=False) as own:
            found = one(own, SELECT_DECISION, (experiment, id))
        if found is None:
            raise ServiceError("unknown-decision", f"decision must exist, got the id {id!r}")
        return DecisionRow(*found)

    def experiments_of(self, id: str) -> list[str]:
        """Return the experiments that have a decision of this id."""
        has = "EXISTS (SELECT 1 FROM decisions AS d WHERE d.experiment = experiments.name AND d.id = ?)"
        sql = f"SELECT name FROM experiments WHERE {has} ORDER BY name"
        with self.store.transaction(write=False) as own:
            return [row[0] for row in own.all(sql, (id,))]

    def latest_of_unit(self, experiment: str, unit: str, since: float) -> DecisionRow | None:
        """Return the latest decision for a unit, if it was made since a time."""
        sql = f"SELECT {LISTED} FROM {WHOLE} WHERE experiment = ? AND unit = ? AND at >= ? ORDER BY n DESC LIMIT 1"
        with self.store.transaction(write=False) as own:
            found = one(own, sql, (experiment, unit, since))
        return None if found is None else DecisionRow(*found)

    def recent(self, experiment: str, number: int, before: int | None = None) -> list[DecisionRow]:
        """Return the latest decisions, the latest first."""
        limit = 2**62 if before is None else before
        sql = f"SELECT {LISTED} FROM {WHOLE} WHERE experiment = ? AND n < ? ORDER BY n DESC LIMIT ?"
        with self.store.transaction(write=False) as own:
            return [DecisionRow(*row) for row in own.all(sql, (experiment, limit, number))]

    def decisions(self, experiment: str, after: int, number: int) -> list[DecisionRow]:
        """Return decisions after a number in the order in which they were made."""
        sql = f"SELECT {LISTED} FROM {WHOLE} WHERE experiment = ? AND n > ? ORDER BY n LIMIT ?"
        with self.store.transaction(write=False) as own:
            return [DecisionRow(*row) for row in own.all(sql, (experiment, after, number))]

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_due(self, now: float, most: int, close: Callable[[Sequence[DueRow]], Sequence[Closing]]) -> int:
        """Append the steps of decisions that are due; return how many were due. `close` says what each step learns.

        Nobody waits for `close`: a decision that changes meanwhile stays due.
        """
        with self.store.transaction(write=False) as own:
            rows = sorted(map(DueRow._make, own.all(SELECT_DUE, (now, most))))  # others lock them in this order
        if rows:
            closings = close(rows)
            self._attempt(lambda own: self._close(own, rows, closings, now))
        return len(rows)

    def _close(self, own: Transaction, rows: Sequence[DueRow], closings: Sequence[Closing], now: float) -> None:
        own.wait_for_turn()
        states, steps, letters = list[Row](), list[Row](), list[Row]()
        for row, closing in zip(rows, closings, strict=True):
            changes = closing.problem is None and closing.after != row.learned
            learned = (closing.after, closing.reward) if changes else (row.learned, row.reward)
            states.append((closing.due, closing.state, *learned, row.revision + changes, row.n, row.edition))
        closed, block = {n for (n,) in own.many(CLOSE, STATE, states)}, own.block()
        for row, closing in zip(rows, closings, strict=True):
            if row.n not in closed:
                continue
            if closing.problem is not None:
                body = encoded({"decision": row.id, "learned": row.learned})
                letters.append((row.experiment, now, "impossible", closing.problem, body))
            elif closing.after != row.learned:
                own_step = row.n, row.learned, closing.after, row.reward, closing.reward
                steps.append((block, row.experiment, ROUND, row.version, *own_step))
        own.change(INSERT_STEPS, STEP, steps)
        own.change(INSERT_LETTERS, LETTER, letters)

    # -- following -----------------------------------------------------------------------------------------------------

    def steps(self, experiment: str, position: int, most: int, until: int = 2**62) -> list[StepRow]:
        """Return the steps of whole blocks after a position, of about `most` steps."""
        where = "experiment = ? AND block > ? AND block < ?"
        with self.store.transaction(write=False) as own:
            end = min(own.end(), until + 1)
            sql = f"SELECT max(block) FROM (SELECT block FROM steps WHERE {where} ORDER BY block, n LIMIT ?) AS first"
            last = own.all(sql, (experiment, position, end, most))[0][0]
            if last is None:
                return []
            return [StepRow._make(row) for row in own.all(SELECT_STEPS, (experiment, position, last))]

    def behind(self, experiment: str, position: int) -> int:
        """Return how many steps are after a position."""
        with self.store.transaction(write=False) as own:
            sql = "SELECT count(*) FROM steps WHERE experiment = ? AND block > ?"
            return int(own.all(sql, (experiment, position))[0][0])

    def first_due(self, experiment: str, now: float) -> float | None:
        """Return when the first decision that is due now became due."""
        with self.store.transaction(write=False) as own:
            sql = "SELECT min(due) FROM outcomes WHERE due <= ? AND experiment = ?"
            first = own.all(sql, (now, experiment))[0][0]
        return None if first is None else float(first)

    # -- experiments ---------------------------------------------------------------------------------------------------

    def experiments(self) -> dict[str, tuple[str, int, float]]:
        """Return status, seed and time of creation of all experiments by name."""
        with self.store.transaction(write=False) as own:
            rows = own.all("SELECT name, status, seed, created FROM experiments ORDER BY name")
        return {name: (status, seed, created) for name, status, seed, created in rows}

    def versions(self, experiment: str, after: int = 0, most: int = 2**62) -> list[VersionRow]:
        """Return the versions of an experiment after a number."""
        columns, where = ", ".join(VersionRow._fields), "experiment = ? AND version > ?"
        sql = f"SELECT {columns} FROM versions WHERE {where} ORDER BY version LIMIT ?"
        with self.store.transaction(write=False) as own:
            return [VersionRow(*row) for row in own.all(sql, (experiment, after, most))]

    def latest_version(self, experiment: str) -> int:
        """Return the number of the latest version of an experiment, 0 if there is none."""
        with self.store.transaction(write=False) as own:
            sql = "SELECT coalesce(max(version), 0) FROM versions WHERE experiment = ?"
            return int(own.all(sql, (experiment,))[0][0])

    def put(self, experiment: str, seed: int, new: VersionRow, who: str, after: int | None = None) -> int | None:
        """Append a version, unless the latest one is equal; return its number. A new experiment begins with it.

        With `after`, nothing is appended if the latest version has another number, and the answer is None.
        """
        with self.store.transaction() as own:
            own.wait_for_turn()
            latest = one(
                own,
                "SELECT version, diagram, settings FROM versions WHERE experiment = ? ORDER BY version DESC LIMIT 1",
                (experiment,),
            )
            if latest is not None and tuple(latest[1:]) == (new.diagram, new.settings):
                return int(latest[0])
            number = 1 if latest is None else int(latest[0]) + 1
            if after is not None and number != after + 1:
                return None
            sql = "INSERT INTO experiments (name, status, seed, created) VALUES (?, ?, ?, ?)"
            own.all(sql + " ON CONFLICT (name) DO NOTHING", (experiment, "active", seed, new.created))
            sql = "INSERT INTO versions (experiment, version, diagram, settings, created) VALUES (?, ?, ?, ?, ?)"
            own.all(sql, (experiment, number, new.diagram, new.settings, new.created))
            own.change(INSERT_STEPS, STEP, [(own.block(), experiment, VERSION, number, *[None] * 5)])
            self._note(own, who, experiment, "version", encoded({"version": number}))
        return number

    def set_status(self, experiment: str, status: str, who: str) -> None:
        """Pause, resume or retire an experiment."""
        with self.store.transaction() as own:
            own.all("UPDATE experiments SET status = ? WHERE name = ?", (status, experiment))
            self._note(own, who, experiment, status, None)

    def totals(self, experiment: str) -> dict[str, int]:
        """Return numbers of decisions: all, pending (open or deferred), and by state."""
        waiting = (
            "SELECT state, count(*) FROM outcomes WHERE experiment = ? AND state <> 'open' AND state <> 'closed' "
            "GROUP BY state"
        )
        still_open = "SELECT count(*) FROM outcomes WHERE due IS NOT NULL AND experiment = ? AND state = 'open'"
        with self.store.transaction(write=False) as own:
            states = {state: int(number) for state, number in own.all(waiting, (experiment,))}
            states[OPEN] = int(own.all(still_open, (experiment,))[0][0])
            every = own.all("SELECT count(*) FROM decisions WHERE experiment = ?", (experiment,))[0][0]
            letters = own.all("SELECT count(*) FROM letters WHERE experiment = ? AND replayed IS NULL", (experiment,))
        pending = states[OPEN] + states.get(DEFERRED, 0)
        closed = int(every) - sum(states.values())
        return {"decisions": int(every), "pending": pending, "letters": letters[0][0], "closed": closed, **states}

    # -- audit, dead letters, tokens -----------------------------------------------------------------------------------

    def _note(self, own: Transaction, who: str, experiment: str | None, what: str, detail: str | None) -> None:
        sql = "INSERT INTO audit (at, who, experiment, what, detail) VALUES (?, ?, ?, ?, ?)"
        own.all(sql, (time.time(), who, experiment, what, detail))

    def note(self, who: str, experiment: str | None, what: str, detail: str | None = None) -> None:
        """Append to the audit log."""
        with self.store.transaction() as own:
            self._note(own, who, experiment, what, detail)

    def audit(self, experiment: str | None, number: int) -> list[Row]:
        """Return the latest changes: (at, who, experiment, what, detail)."""
        where, values = ("WHERE experiment = ?", [experiment]) if experiment is not None else ("", [])
        sql = f"SELECT at, who, experiment, what, detail FROM audit {where} ORDER BY n DESC LIMIT ?"
        with self.store.transaction(write=False) as own:
            return own.all(sql, [*values, number])

    def add_letters(self, letters: Iterable[tuple[str, float, str, str, str]]) -> None:
        """Append dead letters: (experiment, received, reason, message, body)."""
        with self.store.transaction() as own:
            own.change(INSERT_LETTERS, LETTER, letters)

    def letters(self, experiment: str, number: int, *, every: bool = False) -> list[Row]:
        """Return dead letters that were not replayed: (n, received, reason, message, body, replayed)."""
        where = "" if every else " AND replayed IS NULL"
        sql = (
            f"SELECT n, received, reason, message, body, replayed FROM letters WHERE experiment = ?{where} "
            "ORDER BY n LIMIT ?"
        )
        with self.store.transaction(write=False) as own:
            return own.all(sql, (experiment, number))

    def letters_by_reason(self, experiment: str) -> dict[str, int]:
        """Return the numbers of dead letters by reason."""
        sql = "SELECT reason, count(*) FROM letters WHERE experiment = ? GROUP BY reason"
        with self.store.transaction(write=False) as own:
            return {reason: int(number) for reason, number in own.all(sql, (experiment,))}

    def mark_replayed(self, numbers: Sequence[int]) -> None:
        """Mark dead letters as replayed."""
        with self.store.transaction() as own:
            own.change(
                "UPDATE letters SET replayed = given.replayed FROM {given} WHERE letters.n = given.n",
                ("replayed", "n"),
                [(time.time(), n) for n in numbers],
            )

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save_snapshot(self, experiment: str, block: int, library: str, digest: str, content: bytes) -> None:
        """Store a snapshot, and drop all but the latest ones."""
        with self.store.transaction() as own:
            sql = (
                "INSERT INTO snapshots (experiment, block, library, digest, content, created) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, block) DO UPDATE SET library = excluded.library, "
                "digest = excluded.digest, content = excluded.content, created = excluded.created"
            )
            own.all(sql, (experiment, block, library, digest, content, time.time()))
            blocks = own.all("SELECT block FROM snapshots WHERE experiment = ? ORDER BY block DESC", (experiment,))
            for row in blocks[KEPT_SNAPSHOTS:]:
                own.all("DELETE FROM snapshots WHERE experiment = ? AND block = ?", (experiment, row[0]))

    def snapshots(self, experiment: str, until: int = 2**62) -> list[tuple[int, str, str, bytes]]:
        """Return snapshots up to a position, the latest first: (block, library, digest, content)."""
        sql = (
            "SELECT block, library, digest, content FROM snapshots WHERE experiment = ? AND block <= ? "
            "ORDER BY block DESC"
        )
        with self.store.transaction(write=False) as own:
            rows = own.all(sql, (experiment, until))
        return [(block, library, digest, bytes(content)) for block, library, digest, content in rows]
