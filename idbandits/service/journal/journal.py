"""Operations on a journal: append decisions, outcomes and steps, and read them. Both stores run this SQL."""

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

COLUMNS, DECISIONS_VIEW = DecisionRow._fields, "decisions_with_outcomes"
OUTCOME = "due", "shown", "complete", "state", "events", "learned", "reward", "revision", "edition"
COLUMN_LIST = ", ".join(COLUMNS)
JOINED_COLUMN_LIST = ", ".join(f"{'o' if name in OUTCOME else 'd'}.{name}" for name in COLUMNS)
DECISION = tuple(name for name in COLUMNS if name != "n" and name not in OUTCOME)
decision_part = attrgetter(*DECISION)
INSERT_DECISIONS = (
    f"INSERT INTO decisions ({', '.join(DECISION)}) SELECT {', '.join(DECISION)} FROM {{parameters}} WHERE true "
    "ON CONFLICT (experiment, id) DO NOTHING"
)
# with IS TRUE, no index on `experiment` is used
SAME_DECISION = "d.id = parameters.id AND (d.experiment = parameters.experiment) IS TRUE"
NEW_OUTCOME = "experiment", "id", "due", "shown", "state"
new_outcome_part = attrgetter(*NEW_OUTCOME)
INSERT_OUTCOMES = (
    "INSERT INTO outcomes (n, experiment, due, shown, state) "
    "SELECT d.n, d.experiment, parameters.due, parameters.shown, parameters.state FROM {parameters} "
    f"JOIN decisions AS d ON {SAME_DECISION} WHERE true ON CONFLICT (n) DO NOTHING"
)
KEY = "experiment", "id"
SELECT_DECISION = f"SELECT {COLUMN_LIST} FROM {DECISIONS_VIEW} WHERE experiment = ? AND id = ?"
SELECT_DECISIONS = (
    f"SELECT {JOINED_COLUMN_LIST} FROM {{parameters}} JOIN decisions AS d ON {SAME_DECISION} "
    "JOIN outcomes AS o ON o.n = d.n ORDER BY d.n"
)
CHANGED = "due", "complete", "state", "shown", "events", "n"
changed_part = attrgetter(*CHANGED)
CHANGE = (
    "UPDATE outcomes SET due = parameters.due, complete = parameters.complete, state = parameters.state, "
    "shown = parameters.shown, events = parameters.events, edition = outcomes.edition + 1 FROM {parameters} "
    "WHERE outcomes.n = parameters.n"
)
DUE = ", ".join(f"{'o' if name in OUTCOME else 'd'}.{name}" for name in DueRow._fields)
SELECT_DUE = (
    f"SELECT {DUE} FROM outcomes AS o JOIN decisions AS d ON d.n = o.n WHERE o.due <= ? ORDER BY o.due, o.n LIMIT ?"
)
STEP = "block", "experiment", "kind", "version", "decision", "before", "after", "earlier", "reward"
INSERT_STEPS = f"INSERT INTO steps ({', '.join(STEP)}) SELECT {', '.join(STEP)} FROM {{parameters}}"
SELECT_STEPS = (
    "SELECT s.block, s.kind, s.version, s.before, s.after, s.earlier, s.reward, d.arm, d.learns, d.at, d.action, "
    "d.proposed, d.context FROM steps s LEFT JOIN decisions d ON d.n = s.decision "
    "WHERE s.experiment = ? AND s.block > ? AND s.block <= ? ORDER BY s.block, s.n"
)
STATE = "due", "state", "learned", "reward", "revision", "n", "edition"
CLOSE = (
    "UPDATE outcomes SET due = parameters.due, state = parameters.state, learned = parameters.learned, "
    "reward = parameters.reward, revision = parameters.revision, edition = outcomes.edition + 1 FROM {parameters} "
    "WHERE outcomes.n = parameters.n AND outcomes.edition = parameters.edition RETURNING outcomes.n"
)
LETTER = "experiment", "received", "reason", "message", "body"
INSERT_LETTERS = f"INSERT INTO letters ({', '.join(LETTER)}) SELECT {', '.join(LETTER)} FROM {{parameters}}"
MOST_SNAPSHOTS = 2
T = TypeVar("T")
ATTEMPTS = 5  # for a transaction that collides with others
MOST_EVENTS = 1000  # per decision
KEY_OF = attrgetter(*KEY)


class NewDecision(NamedTuple):
    """Decision to append. The answer is the stored row: the earlier decision if the experiment already has its id."""

    row: DecisionRow


class Report(NamedTuple):
    """Outcome to append.

    `judge` gets the decision and its earlier events. It returns the change (None: nothing new), or raises.
    """

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
        with store.transaction() as transaction:  # a restored database begins its epoch before anybody reads
            transaction.wait_for_turn()
            transaction.block()

    # -- decisions and outcomes ----------------------------------------------------------------------------------------

    def write(self, writes: Sequence[Write]) -> list[Any]:
        """Carry out writes in one transaction; return an answer or a `ServiceError` for each write."""
        answers: list[Any] = [None] * len(writes)
        new = [(i, write.row) for i, write in enumerate(writes) if isinstance(write, NewDecision)]
        reports = [(i, write) for i, write in enumerate(writes) if isinstance(write, Report)]

        def work(transaction: Transaction) -> None:
            self._insert(transaction, new, answers)
            self._report(transaction, reports, answers)

        self._attempt(work)
        return answers

    def _attempt(self, work: Callable[[Transaction], T]) -> T:
        """Carry out a transaction; retry after collisions with other transactions."""
        for attempt in range(ATTEMPTS):
            try:
                with self.store.transaction() as transaction:
                    return work(transaction)
            except CollisionError:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _insert(self, transaction: Transaction, new: Sequence[tuple[int, DecisionRow]], answers: list[Any]) -> None:
        if not new:
            return
        rows = sorted((row for _, row in new), key=KEY_OF)  # all writers use this order, so that they cannot deadlock
        inserted = transaction.change(INSERT_DECISIONS, DECISION, map(decision_part, rows))
        transaction.change(INSERT_OUTCOMES, NEW_OUTCOME, map(new_outcome_part, rows))
        stored = self._rows(transaction, map(KEY_OF, rows)) if inserted < len(rows) else {}  # some ids were in use
        for i, row in new:
            answers[i] = stored.get(KEY_OF(row), row)

    def _rows(
        self, transaction: Transaction, keys: Iterable[tuple[str, str]], lock: str = ""
    ) -> dict[Any, DecisionRow]:
        """Return stored decisions by (experiment, id)."""
        rows = map(DecisionRow._make, transaction.many(SELECT_DECISIONS + lock, KEY, sorted(keys)))
        return {KEY_OF(row): row for row in rows}

    def _report(self, transaction: Transaction, reports: Sequence[tuple[int, Report]], answers: list[Any]) -> None:
        if not reports:
            return
        rows = self._rows(transaction, {KEY_OF(report) for _, report in reports}, self.store.locking)
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
        transaction.change(CHANGE, CHANGED, map(changed_part, changed.values()))

    def decision(self, experiment: str, id: str) -> DecisionRow:
        """Return a stored decision; raise if there is none with this id."""
        with self.store.transaction(write=False) as transaction:
            row = one(transaction, SELECT_DECISION, (experiment, id))
        if row is None:
            raise ServiceError("unknown-decision", f"decision must exist, got the id {id!r}")
        return DecisionRow(*row)

    def experiments_of(self, id: str) -> list[str]:
        """Return the experiments that have a decision with this id."""
        condition = "EXISTS (SELECT 1 FROM decisions AS d WHERE d.experiment = experiments.name AND d.id = ?)"
        sql = f"SELECT name FROM experiments WHERE {condition} ORDER BY name"
        with self.store.transaction(write=False) as transaction:
            return [row[0] for row in transaction.all(sql, (id,))]

    def latest_of_unit(self, experiment: str, unit: str, since: float) -> DecisionRow | None:
        """Return the latest decision for a unit at or after the time `since`; None if there is none."""
        where = "experiment = ? AND unit = ? AND at >= ?"
        sql = f"SELECT {COLUMN_LIST} FROM {DECISIONS_VIEW} WHERE {where} ORDER BY n DESC LIMIT 1"
        with self.store.transaction(write=False) as transaction:
            row = one(transaction, sql, (experiment, unit, since))
        return None if row is None else DecisionRow(*row)

    def recent(self, experiment: str, number: int, before: int | None = None) -> list[DecisionRow]:
        """Return the latest decisions with numbers below `before`, in descending order."""
        limit = 2**62 if before is None else before
        sql = f"SELECT {COLUMN_LIST} FROM {DECISIONS_VIEW} WHERE experiment = ? AND n < ? ORDER BY n DESC LIMIT ?"
        with self.store.transaction(write=False) as transaction:
            return [DecisionRow(*row) for row in transaction.all(sql, (experiment, limit, number))]

    def decisions(self, experiment: str, after: int, number: int) -> list[DecisionRow]:
        """Return the first decisions with numbers above `after`, in ascending order."""
        sql = f"SELECT {COLUMN_LIST} FROM {DECISIONS_VIEW} WHERE experiment = ? AND n > ? ORDER BY n LIMIT ?"
        with self.store.transaction(write=False) as transaction:
            return [DecisionRow(*row) for row in transaction.all(sql, (experiment, after, number))]

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_due(self, now: float, most: int, close: Callable[[Sequence[DueRow]], Sequence[Closing]]) -> int:
        """Close up to `most` due rounds and append their steps; return the number of due rounds.

        `close` computes the closing of each decision. It runs outside of transactions: a decision that changes
        during `close` stays due.
        """
        with self.store.transaction(write=False) as transaction:
            due = transaction.all(SELECT_DUE, (now, most))
        rows = sorted(map(DueRow._make, due))  # all writers lock rows in this order
        if rows:
            closings = close(rows)
            self._attempt(lambda transaction: self._close(transaction, rows, closings, now))
        return len(rows)

    def _close(self, transaction: Transaction, rows: Sequence[DueRow], closings: Sequence[Closing], now: float) -> None:
        transaction.wait_for_turn()
        states, steps, letters = list[Row](), list[Row](), list[Row]()
        for row, closing in zip(rows, closings, strict=True):
            changes = closing.problem is None and closing.after != row.learned
            learned = (closing.after, closing.reward) if changes else (row.learned, row.reward)
            states.append((closing.due, closing.state, *learned, row.revision + changes, row.n, row.edition))
        closed, block = {n for (n,) in transaction.many(CLOSE, STATE, states)}, transaction.block()
        for row, closing in zip(rows, closings, strict=True):
            if row.n not in closed:
                continue
            if closing.problem is not None:
                body = encoded({"decision": row.id, "learned": row.learned})
                letters.append((row.experiment, now, "impossible", closing.problem, body))
            elif closing.after != row.learned:
                round_columns = row.n, row.learned, closing.after, row.reward, closing.reward
                steps.append((block, row.experiment, ROUND, row.version, *round_columns))
        transaction.change(INSERT_STEPS, STEP, steps)
        transaction.change(INSERT_LETTERS, LETTER, letters)

    # -- following -----------------------------------------------------------------------------------------------------

    def steps(self, experiment: str, position: int, most: int, until: int = 2**62) -> list[StepRow]:
        """Return about `most` steps after a position; the last block is complete."""
        where = "experiment = ? AND block > ? AND block < ?"
        with self.store.transaction(write=False) as transaction:
            end = min(transaction.end(), until + 1)
            sql = f"SELECT max(block) FROM (SELECT block FROM steps WHERE {where} ORDER BY block, n LIMIT ?) AS first"
            last = transaction.all(sql, (experiment, position, end, most))[0][0]
            if last is None:
                return []
            return [StepRow._make(row) for row in transaction.all(SELECT_STEPS, (experiment, position, last))]

    def behind(self, experiment: str, position: int) -> int:
        """Return the number of steps after a position."""
        with self.store.transaction(write=False) as transaction:
            sql = "SELECT count(*) FROM steps WHERE experiment = ? AND block > ?"
            return int(transaction.all(sql, (experiment, position))[0][0])

    def first_due(self, experiment: str, now: float) -> float | None:
        """Return the time since which a round is due; None if no round is due."""
        with self.store.transaction(write=False) as transaction:
            sql = "SELECT min(due) FROM outcomes WHERE due <= ? AND experiment = ?"
            first = transaction.all(sql, (now, experiment))[0][0]
        return None if first is None else float(first)

    # -- experiments ---------------------------------------------------------------------------------------------------

    def experiments(self) -> dict[str, tuple[str, int, float]]:
        """Return status, seed and creation time of each experiment, by name."""
        with self.store.transaction(write=False) as transaction:
            rows = transaction.all("SELECT name, status, seed, created FROM experiments ORDER BY name")
        return {name: (status, seed, created) for name, status, seed, created in rows}

    def versions(self, experiment: str, after: int = 0, most: int = 2**62) -> list[VersionRow]:
        """Return the versions of an experiment with numbers above `after`."""
        columns, where = ", ".join(VersionRow._fields), "experiment = ? AND version > ?"
        sql = f"SELECT {columns} FROM versions WHERE {where} ORDER BY version LIMIT ?"
        with self.store.transaction(write=False) as transaction:
            return [VersionRow(*row) for row in transaction.all(sql, (experiment, after, most))]

    def latest_version(self, experiment: str) -> int:
        """Return the number of the latest version of an experiment, 0 if there is none."""
        with self.store.transaction(write=False) as transaction:
            sql = "SELECT coalesce(max(version), 0) FROM versions WHERE experiment = ?"
            return int(transaction.all(sql, (experiment,))[0][0])

    def put(self, experiment: str, seed: int, new: VersionRow, who: str, after: int | None = None) -> int | None:
        """Append a version, or create an experiment; return the number of the version.

        If the latest version is equal, append nothing and return its number. If `after` is given and is not the
        number of the latest version, append nothing and return None.
        """
        with self.store.transaction() as transaction:
            transaction.wait_for_turn()
            latest = one(
                transaction,
                "SELECT version, diagram, settings FROM versions WHERE experiment = ? ORDER BY version DESC LIMIT 1",
                (experiment,),
            )
            if latest is not None and tuple(latest[1:]) == (new.diagram, new.settings):
                return int(latest[0])
            number = 1 if latest is None else int(latest[0]) + 1
            if after is not None and number != after + 1:
                return None
            sql = "INSERT INTO experiments (name, status, seed, created) VALUES (?, ?, ?, ?)"
            transaction.all(sql + " ON CONFLICT (name) DO NOTHING", (experiment, "active", seed, new.created))
            sql = "INSERT INTO versions (experiment, version, diagram, settings, created) VALUES (?, ?, ?, ?, ?)"
            transaction.all(sql, (experiment, number, new.diagram, new.settings, new.created))
            transaction.change(INSERT_STEPS, STEP, [(transaction.block(), experiment, VERSION, number, *[None] * 5)])
            self._note(transaction, who, experiment, "version", encoded({"version": number}))
        return number

    def set_status(self, experiment: str, status: str, who: str) -> None:
        """Pause, resume or retire an experiment."""
        with self.store.transaction() as transaction:
            transaction.all("UPDATE experiments SET status = ? WHERE name = ?", (status, experiment))
            self._note(transaction, who, experiment, status, None)

    def totals(self, experiment: str) -> dict[str, int]:
        """Return the numbers of decisions (all, pending and by state) and of dead letters.

        Pending decisions are open or deferred.
        """
        waiting = (
            "SELECT state, count(*) FROM outcomes WHERE experiment = ? AND state <> 'open' AND state <> 'closed' "
            "GROUP BY state"
        )
        still_open = "SELECT count(*) FROM outcomes WHERE due IS NOT NULL AND experiment = ? AND state = 'open'"
        with self.store.transaction(write=False) as transaction:
            states = {state: int(number) for state, number in transaction.all(waiting, (experiment,))}
            states[OPEN] = int(transaction.all(still_open, (experiment,))[0][0])
            decisions = int(transaction.all("SELECT count(*) FROM decisions WHERE experiment = ?", (experiment,))[0][0])
            letters = transaction.all(
                "SELECT count(*) FROM letters WHERE experiment = ? AND replayed IS NULL", (experiment,)
            )
        pending = states[OPEN] + states.get(DEFERRED, 0)
        closed = decisions - sum(states.values())
        return {"decisions": decisions, "pending": pending, "letters": letters[0][0], "closed": closed, **states}

    # -- audit, dead letters, tokens -----------------------------------------------------------------------------------

    def _note(self, transaction: Transaction, who: str, experiment: str | None, what: str, detail: str | None) -> None:
        sql = "INSERT INTO audit (at, who, experiment, what, detail) VALUES (?, ?, ?, ?, ?)"
        transaction.all(sql, (time.time(), who, experiment, what, detail))

    def note(self, who: str, experiment: str | None, what: str, detail: str | None = None) -> None:
        """Append to the audit log."""
        with self.store.transaction() as transaction:
            self._note(transaction, who, experiment, what, detail)

    def audit(self, experiment: str | None, number: int) -> list[Row]:
        """Return the latest changes of an experiment, or of all: (at, who, experiment, what, detail)."""
        where, values = ("WHERE experiment = ?", [experiment]) if experiment is not None else ("", [])
        sql = f"SELECT at, who, experiment, what, detail FROM audit {where} ORDER BY n DESC LIMIT ?"
        with self.store.transaction(write=False) as transaction:
            return transaction.all(sql, [*values, number])

    def add_letters(self, letters: Iterable[tuple[str, float, str, str, str]]) -> None:
        """Append dead letters: (experiment, received, reason, message, body)."""
        with self.store.transaction() as transaction:
            transaction.change(INSERT_LETTERS, LETTER, letters)

    def letters(self, experiment: str, number: int, *, include_replayed: bool = False) -> list[Row]:
        """Return the first dead letters, by default without replayed ones.

        Columns are (n, received, reason, message, body, replayed).
        """
        where = "" if include_replayed else " AND replayed IS NULL"
        sql = (
            f"SELECT n, received, reason, message, body, replayed FROM letters WHERE experiment = ?{where} "
            "ORDER BY n LIMIT ?"
        )
        with self.store.transaction(write=False) as transaction:
            return transaction.all(sql, (experiment, number))

    def letters_by_reason(self, experiment: str) -> dict[str, int]:
        """Return the numbers of dead letters by reason."""
        sql = "SELECT reason, count(*) FROM letters WHERE experiment = ? GROUP BY reason"
        with self.store.transaction(write=False) as transaction:
            return {reason: int(number) for reason, number in transaction.all(sql, (experiment,))}

    def mark_replayed(self, numbers: Sequence[int]) -> None:
        """Mark dead letters as replayed."""
        with self.store.transaction() as transaction:
            transaction.change(
                "UPDATE letters SET replayed = parameters.replayed FROM {parameters} WHERE letters.n = parameters.n",
                ("replayed", "n"),
                [(time.time(), n) for n in numbers],
            )

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save_snapshot(self, experiment: str, block: int, library: str, digest: str, content: bytes) -> None:
        """Store a snapshot, and delete all but the latest snapshots of the experiment."""
        with self.store.transaction() as transaction:
            sql = (
                "INSERT INTO snapshots (experiment, block, library, digest, content, created) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, block) DO UPDATE SET library = excluded.library, "
                "digest = excluded.digest, content = excluded.content, created = excluded.created"
            )
            transaction.all(sql, (experiment, block, library, digest, content, time.time()))
            blocks = transaction.all(
                "SELECT block FROM snapshots WHERE experiment = ? ORDER BY block DESC", (experiment,)
            )
            for row in blocks[MOST_SNAPSHOTS:]:
                transaction.all("DELETE FROM snapshots WHERE experiment = ? AND block = ?", (experiment, row[0]))

    def snapshots(self, experiment: str, until: int = 2**62) -> list[tuple[int, str, str, bytes]]:
        """Return snapshots up to a position, in descending order: (block, library, digest, content)."""
        sql = (
            "SELECT block, library, digest, content FROM snapshots WHERE experiment = ? AND block <= ? "
            "ORDER BY block DESC"
        )
        with self.store.transaction(write=False) as transaction:
            rows = transaction.all(sql, (experiment, until))
        return [(block, library, digest, bytes(content)) for block, library, digest, content in rows]
