"""Counts as an Arrow table: one row per use of an entry or factor, which engines sum by key and Parquet files hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from idbandits.agent.counts.counts import NO_TICK, Clock, Content, Counts, Skipped
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.errors import ODD, FormatError, IdbanditsError, brief
from idbandits.files import path_of, write_whole
from idbandits.inference.counts.reduction_plans import KNOWN
from idbandits.inference.counts.tally import ShortInts, add_keys, grown, new_tally
from idbandits.inference.rounds.evidence import Evidence, folded
from idbandits.kernel.array_types import Ints

FORMAT = 1
ROUNDS, CONSTANT, IMPOSSIBLE, MISSING = -1, -2, -3, -4  # entries of rows that are totals
MOST_WEIGHT = 1e15
MOST_ROWS = 2**31 - 2


def to_arrow(counts: Counts) -> Any:
    """Return counts as a table with the columns `entry`, `shape`, `arguments` and `weight`.

    Rows with an entry are certain uses, or totals (negative entries); others are factors.
    """
    import pyarrow as pa

    content = counts.content
    entries = np.flatnonzero(content.uses)
    totals = [content.rounds, content.constant, float(counts.skipped.impossible), float(counts.skipped.missing)]
    starts, weights, pool = content.tally.columns()
    number = len(weights)
    heads = pool[starts[:-1]] if number else np.empty(0, np.int32)
    rest = np.delete(pool, starts[:-1]) if number else pool
    offsets = 4 * (starts - np.arange(number + 1))
    arguments = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        number,
        [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(rest))],
    )
    shapes = pa.DictionaryArray.from_arrays(
        pa.array(heads, pa.int32()), pa.array([shape.astype("<i8").tobytes() for shape in content.shapes], pa.binary())
    )
    certain, schema = len(entries) + len(totals), schema_of()
    first = pa.table(
        [
            pa.array(np.concatenate([[ROUNDS, CONSTANT, IMPOSSIBLE, MISSING], entries]), pa.int64()),
            pa.nulls(certain, pa.binary()), pa.nulls(certain, pa.large_binary()),
            pa.array(np.concatenate([totals, content.uses[entries]])),
        ], schema=schema,
    )  # fmt: skip
    second = pa.table(
        [pa.nulls(number, pa.int64()), shapes.cast(pa.binary()), arguments, pa.array(weights)], schema=schema
    )
    return pa.concat_tables([first, second])


def schema_of() -> Any:
    """Return the schema of the table."""
    import pyarrow as pa

    return pa.schema(
        [("entry", pa.int64()), ("shape", pa.binary()), ("arguments", pa.large_binary()), ("weight", pa.float64())]
    )


def from_arrow(d: Diagram, table: Any) -> Counts:
    """Return counts from a table; rows with the same key are added. Every number is validated."""
    import pyarrow as pa
    import pyarrow.compute as pc

    evidence = compile(d).derived(folded)
    if table.num_rows > MOST_ROWS:
        raise FormatError(f"counts must have at most {MOST_ROWS:,} rows, got {table.num_rows:,}")
    try:
        table = table.select(schema_of().names).cast(schema_of()).combine_chunks()
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise FormatError(f"counts must have the columns {', '.join(schema_of().names)}: {brief(error)}") from None
    weights = table["weight"].to_numpy()
    is_factor = pc.is_null(table["entry"]).to_numpy()
    entries = table["entry"].filter(pc.is_valid(table["entry"])).to_numpy()
    if not (np.isfinite(weights).all() and table["weight"].null_count == 0 and (np.abs(weights) <= MOST_WEIGHT).all()):
        raise FormatError("weights of counts must be finite numbers")
    totals, uses = np.zeros(4), np.zeros(evidence.learned)
    if len(entries) and not (entries.min() >= MISSING and entries.max() < evidence.learned):
        raise FormatError(f"entries of counts must be below {evidence.learned}, got {entries.max()}")
    certain = weights[~is_factor]
    np.add.at(totals, -1 - entries[entries < 0], certain[entries < 0])
    np.add.at(uses, entries[entries >= 0], certain[entries >= 0])
    factors = table.filter(pc.is_null(table["entry"]))
    if (weights[is_factor] < 0).any() or (uses < 0).any() or (np.delete(totals, 1) < 0).any():
        raise FormatError("weights of counts must be at least 0")
    shapes, starts, pool = _read_factors(evidence, factors)
    tally = grown(new_tally(16, 64), len(starts) - 1, len(pool))
    add_keys(tally, starts, weights[is_factor], pool, np.empty(0, np.int64), 1.0)
    content = Content(float(totals[0]), uses, float(totals[1]), tally, tuple(shapes))
    return Counts(d, content, Skipped(int(totals[2]), int(totals[3])))


def _read_factors(evidence: Evidence, factors: Any) -> tuple[list[Ints], Ints, ShortInts]:
    """Return the shapes of factors, and their keys: where each begins, and the numbers of all."""
    if factors["shape"].null_count or factors["arguments"].null_count:
        raise FormatError("factors of counts must have a shape and arguments")
    shapes, sizes = list[Ints](), list[int]()
    encoded = _one_chunk(_one_chunk(factors["shape"]).dictionary_encode())
    for text in encoded.dictionary.to_pylist():
        shape = np.frombuffer(text, "<i8").astype(np.int64) if len(text) % 8 == 0 else np.empty(0, np.int64)
        number = arguments_of_shape(evidence, shape)
        if number < 0:
            raise FormatError(f"counts have a shape that is not one of a factor of this diagram: {brief(text)}")
        shapes.append(shape)
        sizes.append(number)
    heads = encoded.indices.to_numpy().astype(np.int64)
    column = _one_chunk(factors["arguments"])
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[column.offset : column.offset + len(column) + 1]
    wanted = np.array(sizes, np.int64)[heads]
    if len(wrong := np.flatnonzero(np.diff(offsets) != 4 * wanted)):
        row = wrong[0]
        raise FormatError(
            f"a factor of counts must have {wanted[row]} arguments, got {offsets[row + 1] - offsets[row]} bytes"
        )
    every = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].view("<i4") if len(heads) else np.empty(0, np.int32)
    if len(every) and not (every.min() >= 0 and every.max() < evidence.learned):
        raise FormatError(f"arguments of factors must be entries below {evidence.learned}")
    starts = np.concatenate([[0], np.cumsum(1 + wanted)]).astype(np.int64)
    pool = np.empty(int(starts[-1]), np.int32)
    is_head = np.zeros(len(pool), np.bool_)
    is_head[starts[:-1]] = True
    pool[is_head], pool[~is_head] = heads, every
    return shapes, starts, pool


def _one_chunk(column: Any) -> Any:
    """Return a column as one array."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else (pa.array([], column.type))
    )


def arguments_of_shape(evidence: Evidence, shape: Ints) -> int:
    """Return the number of arguments of a shape; -1 if it is not a shape of this evidence."""
    numbers, known = shape.tolist(), len(evidence.entries.known)
    most_nodes, most_terms = evidence.longest
    if not numbers or len(numbers) > evidence.most_numbers or not 1 <= numbers[0] <= most_nodes:
        return -1
    at, terms, used = 1, 0, set[int]()
    for n in range(numbers[0]):
        if at >= len(numbers) or not 1 <= numbers[at] <= most_terms - terms:
            return -1
        own, at = numbers[at], at + 1
        terms += own
        for _ in range(own):
            if at >= len(numbers) or not 0 <= numbers[at] < len(numbers) - at:
                return -1
            for member in numbers[at + 1 : at + 1 + numbers[at]]:
                is_known = 0 <= member - KNOWN - evidence.learned < known
                if not (-n <= member < evidence.uses or is_known):
                    return -1
                if 0 <= member < KNOWN:
                    used.add(member)
            at += 1 + numbers[at]
    return len(used) if at == len(numbers) and used == set(range(len(used))) else -1


def save(counts: Counts, path: str | Path) -> None:
    """Write counts to a Parquet file atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = {
        "format": FORMAT, "fingerprint": counts.fingerprint, "diagram": counts.diagram.to_dict(),
        "examples": list(counts.skipped.examples), "clock": counts.clock,
    }  # fmt: skip
    table = to_arrow(counts).replace_schema_metadata({"idbandits": json.dumps(head)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_whole(path_of(path), sink.getvalue().to_pybytes())


def load(path: str | Path, diagram: Diagram | None) -> Counts:
    """Read counts from a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = path_of(path)
    try:
        table = pq.ParquetFile(where).read()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError) as error:
        raise FormatError(f"{where} is not a Parquet file of counts: {brief(error)}") from None
    try:
        head = json.loads((table.schema.metadata or {}).get(b"idbandits", b"{}"))
        if head.get("format") != FORMAT:
            raise FormatError(f"{where}: counts must have format {FORMAT}, got {brief(head.get('format'))}")
        own = Diagram.from_dict(head["diagram"])
        clock = None if head["clock"] is None else _clock(*head["clock"])
        examples = tuple(str(example) for example in head["examples"])
    except (*ODD, AttributeError) as error:
        raise FormatError(f"{where} is not a file of counts: {brief(error)}") from None
    try:
        counts = from_arrow(own, table)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None
    if diagram is not None:
        other = Counts(diagram, counts.content)
        if other.fingerprint != counts.fingerprint:
            raise IdbanditsError(f"{where}: counts are of diagram {own.name!r}, not of {diagram.name!r} as given")
        own = diagram
    return Counts(own, counts.content, counts.skipped._replace(examples=examples), clock)


def _clock(half_life: float, tick: int) -> Clock:
    """Return a saved clock, or raise ValueError."""
    clock = Clock(float(half_life), int(tick))
    if not (0.0 < clock.half_life < math.inf and abs(clock.tick) <= -NO_TICK):
        raise ValueError(f"clock must have a positive half-life and a step of 64 bits, got {clock}")
    return clock
