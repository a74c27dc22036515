"""Tables of latent and observed nodes: known, or a learned table that is bound to the parents of its first reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from idbandits.diagram.features.align import features_of, is_out_of_order
from idbandits.diagram.features.context_features import Logistic
from idbandits.diagram.features.design import TableFeatures
from idbandits.diagram.features.read_frame import PerParent, Source
from idbandits.diagram.tables import Learned, LearnedTable, RowOf, Use
from idbandits.errors import DiagramError, PriorError, TableError, brief, is_integer
from idbandits.kernel.array_types import Floats, Ints

from idbandits.diagram.known_tables import (  # isort: skip
    MOST_ENTRIES, TOLERANCE, Known, Possible, check_size, known_table, results_of, shape_of, where,
)  # fmt: skip

if TYPE_CHECKING:  # `diagram` imports this module
    from idbandits.diagram.diagram import Node


def chance_table(
    node: str, cpd: Any, parents: Sequence[Node], states: int, tables: dict[str, LearnedTable], possible: Possible
) -> Known | Use:
    """Return the table of a new node; its learned table is added to `tables` by the first node that reads it."""
    cpd = Learned(node) if cpd is None else cpd
    if not isinstance(cpd, (Learned, RowOf)):
        check_no_features(f"node {node!r}, which has a known table,", parents)
        return known_table(node, cpd, parents, states, possible)
    learned, row = (cpd, None) if isinstance(cpd, Learned) else (cpd.learned, cpd.row)
    shape, reader = shape_of(parents), f"node {node!r}: learned table {learned.name!r}"
    if row is None and learned.rows not in (None, math.prod(shape)):
        hint = f"pick rows by {learned.name}[k] or {learned.name}.select(f)"
        needed = f"must have one row per combination of the parents' values, {math.prod(shape)}"
        raise DiagramError(f"{reader} {needed}, got rows={learned.rows}; {hint}")
    use = Use(learned.name, _selected_rows(node, learned, row, parents) if callable(row) else row)
    rows = shape if learned.rows is None else (int(learned.rows),)
    if (table := tables.get(learned.name)) is None:
        tables[learned.name] = _bound(node, learned, parents, rows, states)
        return use
    if table.declared is not learned:
        other = f"the diagram has another learned table named {learned.name!r}"
        raise DiagramError(f"node {node!r}: {other}; to share one table, pass the same Learned object")
    if (table.shape, table.states) != (rows, states):
        has = f"has {table.states} states and rows of shape {table.shape}"
        raise DiagramError(f"{reader} {has}, but the node has {states} states and parents of shape {rows}")
    if other_rows := [row for number, row in _fixed_rows(node, learned, parents).items() if number not in table.fixed]:
        raise DiagramError(
            f"{reader}: fixed row {brief(other_rows[0])} must be the same row for all nodes that read it"
        )
    contexts = [] if table.logistic is None else [table.logistic.context]
    if [p.name for p in parents if p.features is not None] != contexts:
        context = f"context {contexts[0]!r}" if contexts else "no context with features"
        raise DiagramError(f"{reader}: all nodes that read it must share one feature context; others have {context}")
    if table.features is not None and learned.rows is None and is_out_of_order(table.features, _plain(parents)):
        raise DiagramError(f"{reader}: its features belong to other rows for nodes that read it before; labels differ")
    return use


def check_no_features(what: str, parents: Sequence[Node]) -> None:
    """Raise if one of these nodes is a context with features, which only learned tables may depend on."""
    for node in parents:
        if node.features is not None:
            raise DiagramError(f"{what} must not depend on {node.name!r}: only learned tables use a feature context")


def _bound(node: str, learned: Learned, parents: Sequence[Node], rows: tuple[int, ...], states: int) -> LearnedTable:
    """Return a learned table with the rows that its first reader, a node with these parents, gives it."""
    check_size(f"node {node!r}", (*rows, states))
    try:
        prior = np.broadcast_to(learned.prior, (*rows, states))
    except ValueError:
        needed = f"the prior must broadcast to {(*rows, states)} (states on the last axis)"
        raise PriorError(f"learned table {learned.name!r}: {needed}, got the shape {learned.prior.shape}") from None
    fixed = {
        number: _fixed_values(
            f"learned table {learned.name!r}: fixed row {brief(row)}", (learned.fixed or {})[row], states
        )
        for number, row in _fixed_rows(node, learned, parents).items()
    }
    features = _features(learned, parents, rows, fixed)
    logistic = _logistic(learned, parents, rows, states, features)
    return LearnedTable(learned, rows, states, prior, fixed, features, logistic)


def _plain(parents: Sequence[Node]) -> list[Node]:
    """Return the parents without feature contexts, which have one value in circuits."""
    return [p for p in parents if p.features is None]


# -- features ----------------------------------------------------------------------------------------------------------


def _features(
    learned: Learned, parents: Sequence[Node], rows: tuple[int, ...], fixed: Mapping[int, Floats]
) -> TableFeatures | None:
    """Return the features of the rows of a learned table, None if it has none."""
    has_context = any(p.features is not None for p in parents)
    if learned.features is None and not learned.pooled and not has_context:
        return None
    owner, prior = f"learned table {learned.name!r}", np.atleast_1d(learned.prior)
    if (prior != prior[(0,) * (prior.ndim - 1)]).any():
        needed = "all rows must have the same prior, because a regression starts there"
        raise PriorError(f"{owner}: {needed}, got different ones of shape {learned.prior.shape}")
    if has_context and learned.features is None:
        return None
    products, source = learned.products, learned.features
    if has_context:
        source = _without_contexts(owner, source, parents)
        parents = _plain(parents)
        rows = rows if learned.rows is not None else shape_of(parents)
        products = products and isinstance(source, PerParent) and sum(own is not None for own in source.lines) > 1
    return features_of(owner, source, parents if learned.rows is None else None, rows, fixed, products, MOST_ENTRIES)


def _without_contexts(owner: str, source: Source, parents: Sequence[Node]) -> Source:
    """Return features without the entries of feature contexts, which must be None."""
    if not isinstance(source, PerParent) or (source.names is None and len(source.lines) != len(parents)):
        return source
    names = source.names if source.names is not None else tuple(p.name for p in parents)
    entries = dict(zip(names, source.lines, strict=True))
    for name in [p.name for p in parents if p.features is not None]:
        if entries.pop(name, None) is not None:
            raise TableError(f"{owner}: features of context {name!r} must be None: requests have them")
    return PerParent(tuple(entries.values()), None if source.names is None else tuple(entries))


def _logistic(
    learned: Learned, parents: Sequence[Node], rows: tuple[int, ...], states: int, features: TableFeatures | None
) -> Logistic | None:
    """Return the dependence of a table on a feature context; None if it has none."""
    owner, contexts = f"learned table {learned.name!r}", [p for p in parents if p.features is not None]
    if not contexts:
        if learned.residuals is not None:
            raise DiagramError(f"{owner}: residuals must be None without a context with features")
        return None
    if len(contexts) > 1:
        names = " and ".join(repr(p.name) for p in contexts)
        raise DiagramError(f"{owner} must depend on at most one context with features, got {names}")
    beside = f"{owner}: beside context {contexts[0].name!r}, which has features,"
    if states != 2:
        raise DiagramError(f"{beside} it must have two states, got {states}")
    if learned.pooled:
        raise DiagramError(f"{beside} pooled must be False")
    number = math.prod(rows)
    if features is None and not learned.residuals and number > 1:
        raise DiagramError(f"{beside} its {number} rows must differ: pass features of the rows, or residuals")
    if features is None and learned.products:
        raise DiagramError(f"{beside} products need features of another parent")
    return Logistic(owner, contexts[0], number, features, learned.products, learned.residuals or 0.0)


# -- rows --------------------------------------------------------------------------------------------------------------


def _fixed_rows(node: str, learned: Learned, parents: Sequence[Node]) -> dict[int, Any]:
    """Return the rows that a learned table fixes, by the numbers they have for a node with these parents."""
    numbers: dict[int, Any] = {}
    parents = _plain(parents)
    for row in learned.fixed or ():
        if learned.rows is not None:
            number = int(row) if is_integer(row) and 0 <= row < learned.rows else None
            allowed = f"one of 0 to {learned.rows - 1}"
        else:
            labels = (row,) if len(parents) == 1 else row
            is_complete = isinstance(labels, tuple) and len(labels) == len(parents)
            places: list[Any] = [p.index(v) for p, v in zip(parents, labels, strict=True)] if is_complete else [None]
            number = None if None in places else int(np.ravel_multi_index(places, shape_of(parents))) if places else 0
            allowed = "; ".join(f"{p.name!r}: {p.allowed()}" for p in parents) or "the only row, ()"
        if number is None:
            raise TableError(f"node {node!r}: a fixed row of {learned.name!r} must be {allowed}; got {brief(row)}")
        if number in numbers:
            raise TableError(f"learned table {learned.name!r}: row {brief(row)} is fixed twice")
        numbers[number] = row
    return numbers


def _fixed_values(what: str, value: Floats, states: int) -> Floats:
    """Return the probabilities of all states in a fixed row."""
    values = np.array([1.0 - value, value]) if states == 2 and value.ndim == 0 else value
    if values.shape != (states,) or not ((values >= 0) & (values <= 1)).all() or abs(values.sum() - 1) > TOLERANCE:
        needed = "a probability" if states == 2 else f"{states} probabilities that sum to 1"
        raise TableError(f"{what} must be {needed}, got {brief(value.tolist())}")
    values.setflags(write=False)
    return values


def _selected_rows(node: str, learned: Learned, chooser: Callable[..., int], parents: Sequence[Node]) -> Ints:
    """Return the row for every combination of the parents' values, which a function picks."""
    check_size(f"node {node!r}", shape_of(parents))
    last = (learned.rows or 0) - 1
    rows = np.empty(math.prod(shape_of(parents)), dtype=np.int64)
    for i, (values, row) in enumerate(results_of(f"node {node!r}", chooser, parents)):
        if not is_integer(row) or not 0 <= row <= last:
            picked = f"got {brief(row)} of learned table {learned.name!r}{where(parents, values)}"
            raise TableError(f"node {node!r}: select must pick a row from 0 to {last}, {picked}")
        rows[i] = row
    rows.setflags(write=False)
    return rows.reshape(shape_of(parents))
