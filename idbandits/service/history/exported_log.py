"""Export of a journal: closed rounds as a log in Parquet, for `idb.evaluate` and `idb.fit`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, final

from idbandits.diagram.diagram import Node
from idbandits.errors import IdbanditsError
from idbandits.service.history.rebuilding import seed_of, versions_of
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.records import CALLER, HOLDOUT, POLICY, DecisionRow
from idbandits.service.json_text import decoded
from idbandits.service.live.choosing import fixed_action, uniform_probability
from idbandits.service.live.replica import LIBRARY, Replica, View, replica_at

MOST = 5000  # decisions that are read at once
KINDS: tuple[Literal["context", "decision", "observed"], ...] = ("context", "decision", "observed")


def export_log(journal: Journal, name: str, out: Path, *, draws: int | None = None) -> int:
    """Write the closed rounds of an experiment; return their number.

    With `draws`, a column `propensity` is computed by this number of draws for each decision.
    """
    import pyarrow  # slow to import, and only needed here
    import pyarrow.parquet

    seed_of(journal, name)
    versions = versions_of(journal)
    values: dict[str, list[Any]] = {}
    for row in journal.versions(name):
        for kind in KINDS:
            for node in versions(name, row.version).diagram.of_kind(kind):
                for column, labels in _columns_of(node):
                    values.setdefault(column, []).extend(labels)
    text, number, real = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    fields = [
        ("id", text), ("version", number), ("arm", text), ("unit", text),
        ("at", pyarrow.timestamp("us", tz="UTC")), ("shown", pyarrow.timestamp("us", tz="UTC")),
        ("learns", pyarrow.bool_()), ("reward", real),
        *([("propensity", real)] if draws is not None else []),
    ]  # fmt: skip
    if taken := [column for column, _ in fields if column in values]:
        fields = [field for field in fields if field[0] not in taken]  # columns of nodes have priority
    columns = {column: _column_type(labels, pyarrow) for column, labels in values.items()}
    schema = pyarrow.schema([*columns.items(), *fields])
    propensities = None if draws is None else _Propensities(journal, name, draws)
    unfinished, total = out.with_name(out.name + ".part"), 0
    try:
        with pyarrow.parquet.ParquetWriter(unfinished, schema) as writer:
            for rows in _closed(journal, name):
                by_number = {} if propensities is None else propensities.of(rows)
                lines = [_line(row, columns, by_number.get(row.n), text) for row in rows]
                writer.write_table(pyarrow.Table.from_pylist(lines, schema=schema))
                total += len(rows)
        os.replace(unfinished, out)
    finally:
        unfinished.unlink(missing_ok=True)
    return total


def _closed(journal: Journal, name: str) -> Iterator[list[DecisionRow]]:
    """Yield decisions whose rounds are closed, in parts and in the order in which they were made."""
    last = 0
    while rows := journal.decisions(name, last, MOST):
        last = rows[-1].n
        if closed := [row for row in rows if row.learned is not None]:
            yield closed


def _line(row: DecisionRow, columns: Mapping[str, Any], propensity: float | None, text: Any) -> dict[str, Any]:
    values = {**decoded(row.action), **decoded(row.learned)}
    for node, value in (decoded(row.context) or {}).items():
        features = value.items() if isinstance(value, dict) else ()
        values |= {f"{node}.{feature}": x for feature, x in features} if features else {node: value}
    line: dict[str, Any] = {
        "id": row.id, "version": row.version, "arm": row.arm, "unit": row.unit, "at": round(row.at * 1e6),
        "shown": None if row.shown is None else round(row.shown * 1e6), "learns": bool(row.learns),
        "reward": row.reward, "propensity": propensity,
    }  # fmt: skip
    for name, kind in columns.items():
        value = values.get(name)
        if value is not None and kind == text:
            value = str(value)
        is_undeclared = isinstance(value, (str, dict)) and kind != text
        line[name] = None if is_undeclared else value
    return line


def _columns_of(node: Node) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the columns of a node, one per feature if it has features, each with its possible values."""
    if node.features is None:
        yield node.name, node.values
    else:
        for feature in node.features.features:
            yield f"{node.name}.{feature.name}", feature.labels or (0.0,)


def _column_type(values: Iterable[Any], pyarrow: Any) -> Any:
    """Return the Arrow type of a column: text if values have several types."""
    types = {type(value) for value in values}
    if types == {bool}:
        return pyarrow.bool_()
    if types == {int}:
        return pyarrow.int64()
    return pyarrow.float64() if types <= {int, float} else pyarrow.string()


@final
class _Propensities:
    """Probabilities of logged actions, computed by an agent that follows the journal to their positions.

    With a holdout, the probability is that of the whole experiment: that of the policy and that of the baseline,
    weighted by the shares of both.
    """

    def __init__(self, journal: Journal, name: str, draws: int) -> None:
        self._journal, self._name, self._draws = journal, name, draws
        self._seed, self._versions = seed_of(journal, name), versions_of(journal)
        self._replica = Replica(journal, name, self._seed, self._versions)

    def of(self, rows: Iterable[DecisionRow]) -> dict[int, float]:
        """Return probabilities by the numbers of decisions, without actions of callers and repeated ones of units."""
        result: dict[int, float] = {}
        for row in sorted(rows, key=lambda row: row.position):
            settings = self._versions(self._name, row.version).settings
            share = 0.0 if settings.baseline == "caller" else settings.holdout
            if row.seed is None or row.arm == CALLER or (row.arm == HOLDOUT and share == 0.0):
                continue
            if row.library != LIBRARY:
                raise IdbanditsError(f"propensities need the library {row.library} for decision {row.id!r}")
            if row.position < self._replica.position:
                self._replica = replica_at(self._journal, self._name, self._seed, self._versions, row.position)
            else:
                self._replica.follow(row.position)
            view = self._replica.view
            assert view is not None
            agent, action, allowed = view.agent.copy(row.seed), decoded(row.action), decoded(row.allowed)
            draws = agent.propensity(action, decoded(row.context), allowed=allowed, draws=self._draws)
            was_drawn = row.arm == POLICY  # one more draw, so that a rare action has a probability above 0
            policy = (draws.probability * self._draws + was_drawn) / (self._draws + was_drawn)
            baseline = self._of_baseline(view, settings.baseline, action, allowed) if share else 0.0
            result[row.n] = (1 - share) * policy + share * baseline
        return result

    @staticmethod
    def _of_baseline(view: View, baseline: Any, action: Mapping[str, Any], allowed: Any) -> float:
        """Return the probability of an action under the baseline of the holdout."""
        model, eligible = view.version.model, view.agent.eligible(allowed)
        fixed = None if baseline == "uniform" else fixed_action(model, dict(baseline), eligible)
        return uniform_probability(model, action, eligible) if fixed is None else float(fixed == action)
