"""Counts of Spark data frames: executors encode and count their rows, Spark adds the counts by key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, final

from idbandits.agent.counts.counts import MOST_EXAMPLES, Counts, Skipped, clock_of, no_counts
from idbandits.agent.counts.counts_table import from_arrow, schema_of, to_arrow
from idbandits.diagram.diagram import Diagram
from idbandits.inference.forgetting import Forget
from idbandits.logs.count import count_batches
from idbandits.logs.read.encoder import Encoder
from idbandits.logs.read.read_report import Place, ReadReport
from idbandits.logs.rounds import Rounds

NAME = "Spark data frame"
KEYS = ("entry", "shape", "arguments", "tick", "note")
COLUMNS = "entry bigint, shape binary, arguments binary, tick bigint, note string, weight double"
MOST_ROUNDS = 1_000_000  # that an executor counts at once; bounds its memory
MOST_ROWS = 50_000  # of a batch of counts


class _Note(NamedTuple):
    """Report of a part of the log, and examples of rounds that were not counted, as plain data."""

    read: int
    skipped: list[tuple[str, int, list[tuple[Any, ...]]]]
    notes: dict[str, int]
    examples: tuple[str, ...]


@final
class CountTask:
    """Counts the rows of a partition; pickled and run by executors. The result does not depend on retries."""

    def __init__(self, encoder: Encoder, forget: Forget | None) -> None:
        self._encoder, self._forget = encoder, forget

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Iterate over batches of counts."""
        from pyspark import TaskContext

        context = TaskContext.get()
        source = NAME if context is None else f"{NAME}, partition {context.partitionId()}"
        part = _Partition(self._encoder, source, batches)
        while part.has_more():
            part.report = ReadReport(source)
            counts = count_batches(self._encoder.diagram, part.rounds(), self._forget, threads=1)
            yield from _rows(counts, part.report)


@final
class _Partition:
    """Batches of a partition, encoded up to `MOST_ROUNDS` rounds at a time."""

    def __init__(self, encoder: Encoder, source: str, batches: Iterable[Any]) -> None:
        self._encoder, self._source, self._batches, self._row = encoder, source, iter(batches), 0
        self.report = ReadReport(source)

    def has_more(self) -> bool:
        """Return True if there is another batch."""
        first = next(self._batches, None)
        if first is not None:
            self._batches = chain([first], self._batches)
        return first is not None

    def rounds(self) -> Iterator[Rounds]:
        """Iterate over encoded batches."""
        while self.report.rows < MOST_ROUNDS and (batch := next(self._batches, None)) is not None:
            rounds, report = self._encoder.encode_part(batch, self._row, self._source, self._row)
            self._row += batch.num_rows
            self.report.add(report)
            if len(rounds):
                yield rounds


def _rows(counts: Counts, report: ReadReport) -> Iterator[Any]:
    """Iterate over batches with the rows of counts, and one row with the report."""
    import pyarrow as pa

    tick = None if counts.clock is None else counts.clock.tick
    skipped = [
        (reason, n, [_plain(place) for place in report.examples[reason]]) for reason, n in report.skipped.items()
    ]
    note = json.dumps(_Note(report.read, skipped, report.notes, counts.examples))
    binary, integer, text = pa.binary(), pa.int64(), pa.string()
    for batch in to_arrow(counts).to_batches(MOST_ROWS):
        own = batch.num_rows
        columns = [
            batch["entry"], batch["shape"], batch["arguments"].cast(binary),
            pa.array([tick] * own, integer), pa.nulls(own, text), batch["weight"],
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, [*KEYS, "weight"])
    last = [pa.nulls(1, kind) for kind in (integer, binary, binary, integer)]
    yield pa.RecordBatch.from_arrays([*last, pa.array([note], text), pa.array([1.0])], [*KEYS, "weight"])


def _plain(place: Place) -> tuple[Any, ...]:
    return *place[:3], place.value if isinstance(place.value, (str, int, float, bool)) else str(place.value)


def packed(batches: Iterable[Any]) -> Iterator[Any]:
    """Pack each batch into one value, so that the driver receives few large rows."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])


def count_frame(encoder: Encoder, frame: Any, forget: Forget | None = None) -> Counts:
    """Count the rows of a Spark data frame in its executors; only counts reach this process.

    `sample` of the counts is None, because rounds do not leave the executors.
    """
    import pyarrow as pa
    from pyspark.sql import functions

    clock_of(forget)  # raise here, not in an executor
    wanted = frame.select(*(functions.col(f"`{name.replace('`', '``')}`") for name in encoder.needed))
    rows = wanted.mapInArrow(CountTask(encoder, forget), COLUMNS)
    summed = rows.groupBy(*KEYS).agg(functions.sum("weight").alias("weight")).mapInArrow(packed, "batch binary")
    parts = [pa.ipc.open_stream(bytes(row["batch"])).read_all() for row in summed.toLocalIterator()]
    table = pa.concat_tables(parts) if parts else None
    return _total(encoder.diagram, table, forget)


def _total(d: Diagram, table: Any, forget: Forget | None) -> Counts:
    """Return the counts in a table of sums, with the report of all parts."""
    import pyarrow.compute as pc

    total, report, examples = no_counts(d, forget), ReadReport(NAME), list[str]()
    if table is None:
        return Counts(d, total.content, clock=total.clock, report=report)
    is_note = pc.is_valid(table["note"])
    notes = table.filter(is_note)
    for text, number in sorted(zip(notes["note"].to_pylist(), notes["weight"].to_pylist(), strict=True)):
        note = _Note(*json.loads(text))
        for _ in range(int(number)):  # equal reports of several partitions
            report.add(_report(note))
        examples += note.examples
    table, skipped = table.filter(pc.invert(is_note)), Skipped()
    for tick in pc.unique(table["tick"]).to_pylist():
        own = table if tick is None else table.filter(pc.equal(table["tick"], tick))
        counts = from_arrow(d, own.select(schema_of().names))
        clock = None if tick is None else clock_of(forget, tick)
        skipped = skipped.plus(counts.skipped)
        counts = Counts(d, counts.content, clock=clock)
        total = total + counts if total.content.rounds else counts
    skipped = skipped._replace(examples=tuple(examples[:MOST_EXAMPLES]))
    return Counts(d, total.content, skipped, total.clock, None, report)


def _report(note: _Note) -> ReadReport:
    report = ReadReport(NAME, note.read)
    for reason, number, places in note.skipped:
        report.skip(reason, number, [Place(*place) for place in places])
    for text, number in note.notes.items():
        report.note(text, number)
    return report
