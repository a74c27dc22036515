"""Vocabularies: diagrams whose items are the labels that a log has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, brief
from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.log_source import Source
from idbandits.logs.read.long_pivot import joined_columns
from idbandits.logs.read.read_report import LogError
from idbandits.models import NOTHING

MOST_LABELS = 2_000_000
MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "<na>", "\\n", NOTHING)


def filled_in(d: Diagram | Callable[[Sequence[Any]], Diagram], source: Source, options: Any) -> Diagram:
    """Return a diagram whose items are the labels of a log, numbers in order and then texts in order.

    A function receives the labels of all decisions: `lambda items: models.cascade(items, 10)`. A diagram has the
    choices of its decisions replaced, where it must not have a known table, a reward or features that depend on
    single items; decisions with equal choices get one vocabulary, and the choice "(nothing)" stays.
    """
    if isinstance(d, Diagram):
        return _with_labels(d, source, options)
    if not callable(d):
        raise LogError(f"the diagram must be a Diagram, or a function of items that returns one, got {brief(d)}")
    labels = _labels(source, _columns(None, source, options)[None])
    diagram = d(labels)
    if not isinstance(diagram, Diagram):
        raise LogError(f"the function of items must return a Diagram, got {brief(diagram)}")
    return diagram


def _with_labels(d: Diagram, source: Source, options: Any) -> Diagram:
    decisions, columns = d.of_kind("decision"), _columns(d, source, options)
    data, groups = d.to_dict(), dict[tuple[Any, ...], list[str]]()
    for node in decisions:
        groups.setdefault(tuple(node.values), []).append(node.name)
    states = dict[str, list[Any]]()
    for values, names in groups.items():
        own = [read for name in names for read in columns.get(name, columns.get(None, []))]
        labels = _labels(source, list(dict.fromkeys(own)))
        states |= dict.fromkeys(names, [*labels, NOTHING] if NOTHING in values else labels)
    for entry in data["nodes"]:
        if entry["name"] in states:
            entry["states"] = states[entry["name"]]
    try:
        return Diagram.from_dict(data)
    except DiagramError as error:
        hint = "pass a function of the items that returns the diagram"
        raise LogError(
            f"items of diagram {d.name!r} cannot be replaced by those of the log: {error}; {hint}"
        ) from error


def _columns(d: Diagram | None, source: Source, options: Any) -> dict[str | None, list[tuple[str, ...]]]:
    """Return the columns with labels of decisions, by decision; key None: of all."""
    if options.format is not None:
        found: dict[str | None, list[tuple[str, ...]]] = options.format.item_columns(d)
        return found
    if d is None:
        named = [str(own) for own in (options.columns or {}).values() if own in source.names]
        named = named or [name for name in source.names if name[:1] == "A" and name[1:].isdigit()]
        if not named:
            needed = (
                "columns A1, A2, … of items, or columns= that names them, for a diagram that is a function of items"
            )
            raise LogError(f"{source.name} must have {needed}, got {brief(source.names)}")
        probe = {name for node, name in (options.columns or {}).items() if not str(node).startswith("A")}
        return {None: [(name,) for name in named if name not in probe]}
    by_name = dict(options.columns or {})
    columns: dict[str | None, list[tuple[str, ...]]] = {}
    for node in d.of_kind("decision"):
        name = by_name.get(node.name, node.name)
        if name not in source.names:
            raise LogError(f"{source.name} must have a column of decision {node.name!r}, got {brief(source.names)}")
        columns[node.name] = [(name,)]
    return columns


def _labels(source: Source, columns: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return the distinct labels of columns, numbers before texts."""
    own_labels = getattr(source, "item_labels", None)
    if own_labels is not None:
        found = set(own_labels(MOST_LABELS + 1))
    else:
        connection, found = engine.connect(), set[Any]()
        table = source.table(connection, list(dict.fromkeys(name for own in columns for name in own)))
        for own in columns:
            query = f"SELECT DISTINCT {joined_columns(own)} AS label FROM {table} LIMIT {MOST_LABELS + 1}"
            for batch in engine.stream(connection, query, 100_000, [source.name]):
                found.update(_label(value) for value in batch.column(0).to_pylist())
            if len(found) > MOST_LABELS:
                break
    labels = [label for label in found if not _is_missing(label)]
    if len(labels) > MOST_LABELS:
        raise LogError(f"{source.name} must have at most {MOST_LABELS:,} different items, got more")
    if not labels:
        raise LogError(f"{source.name} must have items in {brief(['|'.join(own) for own in columns])}, got none")
    return sorted(labels, key=lambda label: (isinstance(label, str), label))


def _label(value: Any) -> Any:
    """Return a value of a log as a label: a number, or a text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


def _is_missing(label: Any) -> bool:
    if isinstance(label, str):
        return label.strip().lower() in MISSING_TEXTS
    return label is None or (isinstance(label, float) and not math.isfinite(label))
