"""Encoder of wide logs: Arrow batches with one column per node become rounds; invalid rows are counted and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.encoding.encode import encode_requests
from idbandits.agent.encoding.log_columns import Log
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.errors import ODD, IdbanditsError, shortened
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.logs.read.label_codes import MISSING, WRONG, LabelCodes
from idbandits.logs.read.read_report import MOST_EXAMPLES, LogError, Place, ReadReport
from idbandits.logs.read.side_columns import clusters_of, numbers_of, plain_array, times_of
from idbandits.logs.rounds import NO_NUMBERS, NO_SESSIONS, Rounds
from idbandits.models import NOTHING


class SideColumns(NamedTuple):
    """Names of columns that are not of nodes."""

    weight: str | None = None
    at: str | None = None
    session: str | None = None
    extra: tuple[str, ...] = ()
    flags: Mapping[str, str] = {}  # columns that are true in rows to skip, and the reasons
    notes: Mapping[str, str] = {}  # columns of numbers that are added up for the report, and their texts

    @property
    def names(self) -> list[str]:
        """All columns, once each."""
        named = [self.weight, self.at, self.session, *self.extra, *self.flags, *self.notes]
        return list(dict.fromkeys(name for name in named if name is not None))


NO_SIDE_COLUMNS = SideColumns()


@final
class Encoder:
    """Encoder of the batches of one log. It can be pickled, and threads can share it.

    `names` are the columns of the log; columns of nodes are called as `columns` says, or as the node.
    """

    def __init__(
        self, d: Diagram, names: Sequence[str], columns: Mapping[str, Any] | None = None,
        side: SideColumns = NO_SIDE_COLUMNS, source: str = "log",
    ) -> None:  # fmt: skip
        self.diagram, self.names, self.columns = d, list(names), dict(columns or {})
        self.side, self.source = side, source
        self._check_columns()

    @cached_property
    def model(self) -> Model:
        """Compiled diagram."""
        return compile(self.diagram)

    def __getstate__(self) -> dict[str, Any]:
        return {name: own for name, own in vars(self).items() if name not in ("model", "_lookups")}

    @cached_property
    def _lookups(self) -> list[tuple[Node, str | None, LabelCodes]]:
        """Decisions, contexts and observed nodes with their columns, in the order of rounds."""
        nodes = [*self.model.decisions, *self.model.contexts, *self.model.observed]
        return [(node, self._column_of(node), LabelCodes(node)) for node in nodes]

    def _column_of(self, node: Node) -> str | None:
        name = self.columns.get(node.name, node.name)
        return name if node.features is None and name in self.names else None

    @cached_property
    def needed(self) -> list[str]:
        """Columns of the log that are read."""
        names = [name for _, name, _ in self._lookups if name is not None] + self.side.names
        if any(node.features is not None for node in self.model.contexts):
            log = Log(({}, None, None, self.columns), [self.model])
            features = log.feature_names(self.model)
            names += [name for name in self.names if name in features]
        return list(dict.fromkeys(names))

    def _check_columns(self) -> None:
        """Raise for columns that the log lacks."""
        nodes = {node.name: node for node in self.diagram.of_kind("decision", "context", "observed")}
        shown = shortened(", ".join(map(str, self.names))) or "none"
        for name, column in self.columns.items():
            if name not in nodes:
                raise LogError(f"columns must be of nodes in a log, which are {', '.join(nodes)}; got {name!r}")
            if nodes[name].features is None and column not in self.names:
                raise LogError(f"columns: {name!r} must be a column of {self.source} ({shown}), got {column!r}")
        hint = "columns= maps nodes to columns, format=idb.Long(…) reads one row per shown item"
        for node in nodes.values():
            if node.kind != "observed" and node.features is None and self._column_of(node) is None:
                raise LogError(f"{self.source} must have a column of {node.kind} {node.name!r}, got {shown}; {hint}")
        for name in self.side.names:
            if name not in self.names:
                raise LogError(f"{self.source} must have the column {name!r}, got {shown}")
        observed = [node for node in nodes.values() if node.kind == "observed"]
        if observed and all(self._column_of(node) is None for node in observed):
            used = {self._column_of(node) for node in nodes.values()}
            names = sorted(map(str, self.names), key=lambda name: name in used)  # others may be those of observed nodes
            missing = shortened(", ".join(repr(node.name) for node in observed))
            needed = f"a column of at least one observed node ({missing})"
            raise LogError(f"{self.source} must have {needed}, got {shortened(', '.join(names)) or 'none'}; {hint}")

    def encode(self, batch: Any, first_number: int = 0) -> Rounds:
        """Return the valid rounds of an Arrow batch whose first row has this number in the log."""
        return self.encode_part(batch, first_number, self.source, first_number)[0]

    def encode_part(self, batch: Any, first_number: int, source: str, row: int | Ints) -> tuple[Rounds, ReadReport]:
        """Return the valid rounds of a batch, and a report of all; `row` is as in `Chunk`."""
        part = _Part(batch, source, row)
        self._apply_flags(part)
        nodes = [self._node_codes(part, *own) for own in self._lookups]
        decisions, width = len(self.model.decisions), len(self.model.decisions) + len(self.model.contexts)
        if decisions:
            self._check_lists(part, nodes[:decisions])
            self._check_repeats(part, nodes[:decisions])
        side = self._side(part)
        features = self._features(part)
        choices, seen = _stacked(nodes[:width], part.length), _stacked(nodes[width:], part.length)
        extra = {name: plain_array(part.column(name)) for name in self.side.extra}
        rounds = Rounds(choices, seen, first_number + np.arange(part.length), *side[:2], features, side[2], extra)
        if not part.valid.all():
            rounds = rounds.part(part.valid)
        part.report.read = len(rounds)
        return rounds, part.report

    def _apply_flags(self, part: _Part) -> None:
        for name, reason in self.side.flags.items():
            wrong = np.asarray(part.column(name).cast("bool").fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
            part.skip(wrong, reason, self.side.session)
        for name, text in self.side.notes.items():
            part.report.note(text, int(np.nansum(numbers_of(part.column(name)))))

    def _node_codes(self, part: _Part, node: Node, name: str | None, lookup: LabelCodes) -> Ints:
        if name is None:
            return np.full(part.length, MISSING if node.kind == "observed" else 0)
        codes = lookup.codes(part.column(name))
        part.skip(codes == WRONG, f"{node.name!r} has a value that is not in the diagram", name)
        if node.kind == "context":
            part.skip(codes == MISSING, f"context {node.name!r} is missing", name)
        nothing = node.index(NOTHING) if node.kind == "decision" else None
        if nothing is not None:
            codes[codes == MISSING] = nothing
        return codes

    def _check_lists(self, part: _Part, codes: Sequence[Ints]) -> None:
        """Skip rounds without any decision, and note those that lack some."""
        missing = np.zeros(part.length, np.int64)
        for own in codes:
            missing += own == MISSING
        part.skip(missing == len(codes), "all decisions are missing")
        part.report.note("rounds in which some decisions are missing", int(((missing > 0) & part.valid).sum()))

    def _check_repeats(self, part: _Part, codes: Sequence[Ints]) -> None:
        """Skip rounds that break a constraint of the diagram."""
        feasibility = self.model.feasibility
        for a, b, places in self._conflicts:
            repeats = codes[b] == (codes[a] if places is None else places[codes[a]])
            repeats &= codes[b] >= 0
            if feasibility.repeatable[b]:
                repeats &= ~np.isin(codes[b], feasibility.repeatable[b])
            if repeats.any():
                first, second = feasibility.decisions[a].name, feasibility.decisions[b].name
                reason = f"{first!r} and {second!r} are equal, which all_different forbids"
                part.skip(repeats, reason, self._column_of(feasibility.decisions[b]))

    @cached_property
    def _conflicts(self) -> list[tuple[int, int, Ints | None]]:
        """Pairs of decisions that must differ, with the places of the first one's values among those of the second."""
        feasibility, pairs = self.model.feasibility, list[tuple[int, int, Ints | None]]()
        for a, b in np.argwhere(np.triu(feasibility.conflicts)).tolist():
            first, second = feasibility.decisions[a], feasibility.decisions[b]
            if first.values is second.values or first.values == second.values:
                pairs.append((a, b, None))
            else:
                places = [WRONG if (at := second.index(label)) is None else at for label in first.values]
                pairs.append((a, b, np.array([*places, WRONG, WRONG])))  # of WRONG and MISSING
        return pairs

    def _side(self, part: _Part) -> tuple[Floats, Floats, Ints]:
        weights, times, sessions = NO_NUMBERS, NO_NUMBERS, NO_SESSIONS
        if (name := self.side.weight) is not None:
            weights = numbers_of(part.column(name))
            part.skip(~(np.isfinite(weights) & (weights >= 0)), "the weight is not a number >= 0", name)
        if (name := self.side.at) is not None:
            times = times_of(part.column(name))
            part.skip(~np.isfinite(times), "the time is missing or not valid", name)
        if (name := self.side.session) is not None:
            sessions, missing = clusters_of(part.column(name))
            part.skip(missing, "the session is missing", name)
        return weights, times, sessions

    def _features(self, part: _Part) -> Floats:
        """Return the encoded features of contexts; rows with features that are not valid are skipped."""
        if all(node.features is None for node in self.model.contexts):
            return NO_NUMBERS
        import pyarrow

        table = pyarrow.Table.from_batches([part.batch])
        width = sum(len(node.features.columns) for node in self.model.contexts if node.features is not None)
        features = np.zeros((part.length, width))
        waiting = [(0, part.length)]
        while waiting:  # halves are read apart where a row is not valid
            first, last = waiting.pop()
            try:
                log = Log((table.slice(first, last - first), None, None, self.columns), [self.model])
                features[first:last] = encode_requests(log, self.model).reshape(last - first, width)
            except (IdbanditsError, *ODD) as error:
                if last - first <= 1:
                    if first == last:
                        raise LogError(f"{part.source}: {error}") from error
                    wrong = np.arange(part.length) == first
                    part.skip(wrong, f"features are not valid: {shortened(str(error).split(' in round')[0])}")
                else:
                    middle = (first + last) // 2
                    waiting += [(middle, last), (first, middle)]
        return features


@final
class _Part:
    """Batch of rows, which of them are valid, and the report of the others."""

    def __init__(self, batch: Any, source: str, row: int | Ints) -> None:
        self.batch, self.source, self.length = batch, source, batch.num_rows
        self.rows: Ints = row + np.arange(self.length) if isinstance(row, int) else row
        self.valid: Bools = np.ones(self.length, np.bool_)
        self.report = ReadReport(source)

    def column(self, name: str) -> Any:
        return self.batch.column(self.batch.schema.names.index(name))

    def skip(self, wrong: Bools, reason: str, name: str | None = None) -> None:
        """Skip rows, unless they are skipped already."""
        if not wrong.any():
            return
        wrong = wrong & self.valid
        rows = np.flatnonzero(wrong)
        if len(rows):
            examples = [self._place(int(row), name) for row in rows[:MOST_EXAMPLES]]
            self.report.skip(reason, len(rows), examples)
            self.valid &= ~wrong

    def _place(self, row: int, name: str | None) -> Place:
        number = int(self.rows[row])
        if name is None:
            return Place(self.source, number)
        try:
            value = self.column(name)[row].as_py()
        except ODD:  # not valid UTF-8
            value = "bytes that are not valid UTF-8"
        return Place(self.source, number, name, value)


def _stacked(columns: Sequence[Ints], length: int) -> Ints:
    """Return columns as one array of rounds."""
    stacked = np.empty((length, len(columns)), np.int64)
    for k, column in enumerate(columns):
        stacked[:, k] = column
    return stacked
