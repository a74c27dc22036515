"""Lines of features in the order of a table's rows: found by their labels, or given in that order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from idbandits.diagram.features.design import Block, TableFeatures
from idbandits.diagram.features.encode_columns import NO_ENCODING, Column
from idbandits.diagram.features.read_frame import Lines, PerParent, Source
from idbandits.diagram.values import is_missing
from idbandits.errors import DiagramError, TableError, brief, is_integer
from idbandits.kernel.array_types import Bools, Floats, Ints

if TYPE_CHECKING:  # `diagram` imports a neighbour of this module
    from idbandits.diagram.diagram import Node
    from idbandits.diagram.tables import Label

ALLOWED = "features must be numbers, texts or bools"


@final
class _Axis(NamedTuple):
    """Owners of lines: the values of a parent, or the numbers of rows."""

    what: str
    values: Sequence[Label]
    place_of: Callable[[object], int | None]
    may_lack: Bools  # whether a value needs no line, because all its rows are fixed


def features_of(
    owner: str, source: Source | None, parents: Sequence[Node] | None, shape: tuple[int, ...], fixed: Mapping[int, Any],
    products: bool, most: int,
) -> TableFeatures:  # fmt: skip
    """Return the features of a table with rows of this shape; a constant alone if there is no source.

    Without `parents`, rows have numbers. `fixed` has the numbers of rows that may lack features.
    """
    known = np.zeros(math.prod(shape), dtype=np.bool_)
    known[list(fixed)] = True
    blocks: list[Block] = []
    if isinstance(source, Lines):
        blocks = [_block_of_rows(owner, source, parents, shape, known)]
    elif source is not None:
        for k, (parent, lines) in enumerate(_per_parent(owner, source, parents)):
            if lines is not None:
                others = tuple(axis for axis in range(len(shape)) if axis != k)
                axis = _axis_of(parent, np.asarray(known.reshape(shape).all(axis=others)))
                blocks.append(_block(f"{owner}: features of {axis.what}", lines, axis, parent.name, k))
    if products and len(blocks) < 2:
        raise DiagramError(f"{owner}: products need features of several parents, got {len(blocks)}")
    return TableFeatures(owner, blocks, shape, products, most)


def columns_of(what: str, lines: Lines, start: int = 0, order: Ints | None = None, labels: Any = None) -> list[Column]:
    """Return the columns of lines, from `start` on, in an order in which -1 is no line; by default, all as they are."""
    if order is None:
        order = np.arange(len(lines.columns[0]) if lines.columns else 0)
    exists = order >= 0
    labels = [k if labels is None else labels[k] for k in np.flatnonzero(exists).tolist()]
    columns = []
    for name, values in zip(lines.names[start:], lines.columns[start:], strict=True):
        own, column = f"{what}: column {brief(name)}", values[order[exists]]
        declared = lines.encodings.get(name, NO_ENCODING)
        if column.ndim != 1 or column.dtype.kind not in "fO":
            raise TableError(f"{own}: {ALLOWED}, got values of type {column.dtype}")
        column = column if column.dtype.kind == "f" else _numbers_or_texts(own, column, labels)
        if declared.categories is not None and isinstance(column, np.ndarray):
            if not np.isnan(column).all():
                raise TableError(f"{own} must have texts, because categories are declared, got numbers")
            column = [None] * len(column)
        if isinstance(column, list) and (declared.center is not None or declared.scale is not None):
            raise TableError(f"{own} must have numbers, because a center or a scale is declared, got texts")
        if isinstance(column, np.ndarray) and (infinite := np.isinf(column)).any():
            raise TableError(f"{own} must be finite, got inf for {brief(labels[int(np.argmax(infinite))])}")
        is_text = isinstance(column, list)
        aligned: Any = np.full(len(exists), None if is_text else np.nan, dtype=object if is_text else np.float64)
        aligned[exists] = column
        columns.append(Column(name, aligned.tolist() if is_text else aligned, exists, declared))
    return columns


def is_out_of_order(features: TableFeatures, parents: Sequence[Node]) -> bool:
    """Return True if the lines of a table's features have other labels for a node with these parents."""
    for block in features.blocks:
        if block.labels is not None and len(parents) > (block.axis or 0):
            index, labels = parents[block.axis or 0].index, block.labels
            if any(index(labels[place]) != place for place in np.flatnonzero(block.exists).tolist()):
                return True
    return False


def _axis_of(parent: Node, may_lack: Bools) -> _Axis:
    return _Axis(repr(parent.name), parent.values, parent.index, may_lack)


def _per_parent(owner: str, source: PerParent, parents: Sequence[Node] | None) -> Sequence[tuple[Node, Lines | None]]:
    """Return the lines of each parent, in the order of the parents."""
    if parents is None:
        raise TableError(f"{owner}: features must have one line per row, because it has rows=, got features per parent")
    names, lines = [parent.name for parent in parents], source.lines
    needed = f"{owner}: features must be those of its parents ({', '.join(map(repr, names)) or 'none'})"
    if source.names is not None:
        if unknown := [name for name in source.names if name not in names]:
            raise TableError(f"{needed}, got {brief(unknown[0])}")
        own = dict(zip(source.names, source.lines, strict=True))
        lines = tuple(own.get(name) for name in names)
    if len(lines) != len(parents):
        raise TableError(f"{needed}, got features of {len(lines)}")
    if all(entry is None for entry in lines):
        raise TableError(f"{owner}: features must not be empty; pooled=True is the constant alone")
    return list(zip(parents, lines, strict=True))


def _block_of_rows(
    owner: str, lines: Lines, parents: Sequence[Node] | None, shape: tuple[int, ...], known: Bools
) -> Block:
    """Return lines for the rows of a table, rather than for the values of its parents."""
    what, rows = f"{owner}: features", len(known)
    if parents is not None and len(parents) == 1:
        return _block(what, lines, _axis_of(parents[0], known), "", None)
    if parents and lines.has_labels:
        names = ", ".join(f"{parent.name!r}: …" for parent in parents)
        hint = f"a data frame has the features of one parent: pass {{{names}}}, or an array with one line per row"
        raise TableError(f"{what}: it has {len(parents)} parents, and {hint}")
    axis = _Axis("rows", range(rows), lambda row: int(row) if is_integer(row) and 0 <= row < rows else None, known)
    return _block(what, replace(lines, shape=(rows,)) if lines.shape == shape else lines, axis, "", None)


def _block(what: str, lines: Lines, axis: _Axis, name: str, place: int | None) -> Block:
    """Return lines in the order of an axis, with their columns."""
    order, start = _labelled_order(what, lines, axis) if lines.has_labels else (_given_order(what, lines, axis), 0)
    columns = columns_of(what, lines, start, order, axis.values)
    if start and lines.names[0] in lines.encodings:
        raise TableError(f"{what}: column {brief(lines.names[0])} has the labels; it must have no encoding")
    if not columns:
        raise TableError(f"{what}: there must be columns beside the labels; pooled=True is the constant alone")
    return Block(name, place, columns, order >= 0, axis.values if lines.has_labels else None)


def _given_order(what: str, lines: Lines, axis: _Axis) -> Ints:
    """Return the line of each value of an axis; -1 for fixed ones that are left out."""
    size, needed = len(axis.values), int((~axis.may_lack).sum())
    if lines.shape == (size,):
        return np.arange(size)
    if lines.shape != (needed,):
        rest = f", or {needed}, one for each that is not fixed" if needed < size else ""
        shape = lines.shape[0] if len(lines.shape) == 1 else f"the shape {lines.shape}"
        raise TableError(f"{what}: {size} lines are needed, one per row{rest}; got {shape}")
    return np.where(axis.may_lack, -1, np.cumsum(~axis.may_lack) - 1)


@final
class _Match(NamedTuple):
    """Labels of lines among the values of an axis."""

    order: Ints  # the line of each value, -1 where there is none
    repeated: Sequence[Label]  # the first value that has two lines, if one does
    lacking: Sequence[Label]  # values that need a line and have none


def _match(labels: Sequence[Any], axis: _Axis) -> _Match:
    order = np.full(len(axis.values), -1, dtype=np.int64)
    repeated: list[Label] = []
    for line, label in enumerate(labels):
        if (place := axis.place_of(label)) is not None:
            if order[place] >= 0 and not repeated:
                repeated.append(axis.values[place])
            order[place] = line
    return _Match(order, repeated, [axis.values[k] for k in np.flatnonzero((order < 0) & ~axis.may_lack).tolist()])


def _labelled_order(what: str, lines: Lines, axis: _Axis) -> tuple[Ints, int]:
    """Return the line of each value of an axis, -1 where a fixed one has none, and the first column of features.

    Labels are the index or the first column, whichever has more of the values; the index if both have all.
    """
    name, places = brief(lines.names[0]), list[str]()
    index = column = None
    if lines.index is not None:
        index = _match(lines.index, axis)
        places.append("the index")
    if lines.first is not None:
        column = _match(lines.first, axis)
        places.append(f"the column {name}")
    both = [match for match in (index, column) if match is not None and not match.lacking]
    if len(both) == 2 and not lines.index_is_named and not np.array_equal(both[0].order, both[1].order):
        reason = f"the index and the column {name} both have the labels of {axis.what}, in different lines"
        raise TableError(f"{what}: {reason}; make {name} the index, or give the index a name if it is to count")
    best = min((match for match in (index, column) if match is not None), key=lambda match: len(match.lacking))
    if best.lacking:
        more = f" and {len(best.lacking) - 1} more" if len(best.lacking) > 1 else ""
        searched = f"labels were searched in {' and in '.join(places)}"
        raise TableError(f"{what}: there is no line for {brief(best.lacking[0])}{more}; {searched}")
    if best.repeated:
        raise TableError(f"{what}: there are two lines for {brief(best.repeated[0])}")
    return best.order, int(best is column)


def _numbers_or_texts(what: str, values: Sequence[Any], labels: Sequence[Label]) -> Floats | list[str | None]:
    """Return objects as numbers (NaN where missing) or, if there are texts, as texts (None where missing)."""
    if {*map(type, values)} <= {float, type(None)}:
        return np.array(values, dtype=np.float64)
    converted = [_number_or_text(value) for value in values]
    if None in converted:
        wrong = converted.index(None)
        raise TableError(f"{what}: {ALLOWED}, got {brief(values[wrong])} for {brief(labels[wrong])}")
    text = next((value for value in converted if isinstance(value, str)), None)
    if text is None:
        return np.array(converted, dtype=np.float64)
    for value, label in zip(converted, labels, strict=True):
        if not isinstance(value, str) and value == value:
            both = f"{brief(text)} and {brief(value)}, for {brief(label)}"
            raise TableError(f"{what} must have texts or numbers, got both: {both}")
    return [value if isinstance(value, str) else None for value in converted]


def _number_or_text(value: Any) -> float | str | None:
    """Return a value as a number, NaN if it is missing, or as a text; None if it is neither."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        return math.nan
    if not isinstance(value, Number) or isinstance(value, (complex, np.timedelta64)):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # an integer beyond all floats
        return math.inf
