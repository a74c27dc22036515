"""Grouping of equal rounds in the engine that holds a log: only distinct rounds are read, with weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from idbandits.logs.engines.postgres_source import MOST_WEIGHT, database_batches, grouped_query, shown_url
from idbandits.logs.read.encoder import Encoder
from idbandits.logs.read.open_log import LogOptions, OpenLog
from idbandits.logs.read.sources import ArrowSource, is_ibis

WEIGHT = "idbandits_weight"  # column of the numbers of equal rounds


def grouped(opened: OpenLog, log: Any, options: LogOptions) -> OpenLog:
    """Return an open log of PostgreSQL or Ibis with equal rounds grouped by the engine; other logs as they are.

    Rounds are not grouped if times, sessions, further columns or features of contexts are read.
    """
    encoder, side = opened.encoder, opened.encoder.side
    features = any(node.features is not None for node in encoder.model.contexts)
    nodes = encoder.diagram.of_kind("decision", "context", "observed")
    shared = side.weight in [encoder.columns.get(node.name, node.name) for node in nodes]
    if options.format is not None or features or shared or side.at or side.session or side.extra:
        return opened
    keys, weight = [name for name in encoder.needed if name != side.weight], side.weight
    if isinstance(log, str) and log.startswith(("postgresql://", "postgres://")) and options.query is not None:
        query, name = grouped_query(options.query, keys, weight, WEIGHT), f"{shown_url(log)}, distinct rounds"
        source = ArrowSource(name, [*keys, WEIGHT], lambda own: database_batches(log, query, own), None)
    elif is_ibis(log):
        name = "Ibis table, distinct rounds"
        source = ArrowSource(name, [*keys, WEIGHT], lambda own: ibis_batches(log, keys, weight, own), None)
    else:
        return opened
    encoder = Encoder(encoder.diagram, source.names, encoder.columns, side._replace(weight=WEIGHT), source.name)
    return OpenLog(source, encoder, options._replace(weight=WEIGHT))


def ibis_batches(table: Any, keys: Sequence[str], weight: str | None, columns: Sequence[str]) -> Iterator[Any]:
    """Iterate over Arrow batches of the distinct rounds of an Ibis table; invalid weights are not grouped."""
    if weight is None:
        parts = [table.group_by(list(keys)).agg(**{WEIGHT: table.count()})]
    else:
        own = table[weight]
        valid = ((own >= 0) & (own <= MOST_WEIGHT)).fill_null(False)
        rest = table.filter(~valid)
        parts = [
            table.filter(valid).group_by(list(keys)).agg(**{WEIGHT: own.sum()}),
            rest.select(*keys, **{WEIGHT: rest[weight]}),
        ]
    for part in parts:
        yield from part.select(*columns).to_pyarrow_batches()
