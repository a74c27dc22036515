"""Lines of features in the order of a table's rows: found by their labels, or given in that order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from idbandits.diagram.features.design import Block, TableFeatures
from idbandits.diagram.features.encode_columns import NO_ENCODING, Column, Encoding, Numbers, Texts
from idbandits.diagram.features.read_frame import Lines, PerParent, Source
from idbandits.diagram.values import check_letters, is_missing
from idbandits.errors import ODD, DiagramError, TableError, brief, is_integer
from idbandits.kernel.array_types import Bools, Floats, Ints

if TYPE_CHECKING:  # `declare` imports a neighbour of this module
    from idbandits.diagram.diagram import Node
    from idbandits.diagram.tables import Label

ALLOWED = "features are numbers, texts or bools"


@final
class _Axis(NamedTuple):
    """What lines belong to: the values of a parent, or the numbers of rows."""

    what: str
    values: Sequence[Label]
    place_of: Callable[[object], int | None]
    may_lack: Bools  # of each value: whether it needs no line, because all its rows are fixed


def features_of(
    owner: str, source: Source | None, parents: Sequence[Node] | None, shape: tuple[int, ...], fixed: Mapping[int, Any],
    products: bool, most: int,
) -> TableFeatures:  # fmt: skip
    """The features of a table with rows of this shape; a constant alone if there is no source.

    Without `parents`, rows have numbers. `fixed` has the numbers of rows that may lack features.
    """
    known = np.zeros(math.prod(shape), dtype=np.bool_)
    known[list(fixed)] = True
    blocks: list[Block] = []
    if isinstance(source, Lines):
        blocks = [_block_of_rows(owner, source, parents, shape, known)]
    elif source is not None:
        for k, lines in enumerate(_per_parent(owner, source, parents)):
            if lines is not None and parents is not None:
                others = tuple(axis for axis in range(len(shape)) if axis != k)
                axis = _axis_of(parents[k], np.asarray(known.reshape(shape).all(axis=others)))
                blocks.append(_block(f"{owner}: features of {axis.what}", lines, axis, parents[k].name, k))
    if products and len(blocks) < 2:
        raise DiagramError(f"{owner}: products are those of the features of several parents; {len(blocks)} have some")
    return TableFeatures(owner, blocks, shape, products, most)


def columns_of(what: str, lines: Lines) -> list[Column]:
    """All columns of lines that stand for themselves, as typical requests do."""
    number = len(lines.columns[0]) if lines.columns else 0
    labels, exists = range(number), np.ones(number, dtype=np.bool_)
    return [
        _column(f"{what}: column {brief(name)}", name, values, labels, exists, lines.encodings.get(name, NO_ENCODING))
        for name, values in zip(lines.names, lines.columns, strict=True)
    ]


def is_out_of_order(features: TableFeatures, parents: Sequence[Node]) -> bool:
    """Whether the lines of a table's features have other labels for a node with these parents."""
    for block in features.blocks:
        if block.labels is not None and len(parents) > (block.axis or 0):
            index, labels = parents[block.axis or 0].index, block.labels
            if any(index(labels[place]) != place for place in np.flatnonzero(block.exists).tolist()):
                return True
    return False


def _axis_of(parent: Node, may_lack: Bools) -> _Axis:
    return _Axis(repr(parent.name), parent.values, parent.index, may_lack)


def _per_parent(owner: str, source: PerParent, parents: Sequence[Node] | None) -> Sequence[Lines | None]:
    """The lines of each parent, in their order."""
    if parents is None:
        raise TableError(f"{owner}: it was declared with rows=, so its features are one line per row, not per parent")
    names = [parent.name for parent in parents]
    listed = ", ".join(map(repr, names)) or "none"
    lines = source.lines
    if source.names is not None:
        if unknown := [name for name in source.names if name not in names]:
            raise TableError(f"{owner}: features are given for {brief(unknown[0])}; the parents are {listed}")
        own = dict(zip(source.names, source.lines, strict=True))
        lines = tuple(own.get(name) for name in names)
    if len(lines) != len(parents):
        raise TableError(f"{owner}: features are given for {len(lines)} parents; the parents are {listed}")
    if all(entry is None for entry in lines):
        raise TableError(f"{owner}: its features are empty; pooled=True is the constant alone")
    return lines


def _block_of_rows(
    owner: str, lines: Lines, parents: Sequence[Node] | None, shape: tuple[int, ...], known: Bools
) -> Block:
    """Lines for the rows themselves."""
    what, rows = f"{owner}: features", len(known)
    if parents is not None and len(parents) == 1:
        axis = _axis_of(parents[0], known)
    else:
        if lines.shape == shape:
            lines = replace(lines, shape=(rows,))
        if parents and lines.has_labels:
            names = ", ".join(f"{parent.name!r}: …" for parent in parents)
            hint = f"a data frame has the features of one parent: pass {{{names}}}, or an array with one line per row"
            raise TableError(f"{what}: it has {len(parents)} parents, and {hint}")
        axis = _Axis("rows", range(rows), lambda row: int(row) if is_integer(row) and 0 <= row < rows else None, known)
    return _block(what, lines, axis, "", None)


def _block(what: str, lines: Lines, axis: _Axis, name: str, place: int | None) -> Block:
    """Lines in the order of an axis, with their columns."""
    if lines.has_labels:
        order, first = _labelled_order(what, lines, axis)
    else:
        order, first = _given_order(what, lines, axis), 0
    exists = order >= 0
    labels = [axis.values[int(k)] for k in np.flatnonzero(exists)]
    columns = [
        _column(
            f"{what}: column {brief(column)}", column, values[order[exists]], labels, exists,
            lines.encodings.get(column, NO_ENCODING),
        )
        for column, values in zip(lines.names[first:], lines.columns[first:], strict=True)
    ]  # fmt: skip
    if first and lines.names[0] in lines.encodings:
        raise TableError(f"{what}: column {brief(lines.names[0])} has the labels; it must have no encoding")
    if not columns:
        raise TableError(f"{what}: no columns are left beside the labels; pooled=True is the constant alone")
    return Block(name, place, columns, exists, axis.values if lines.has_labels else None)


def _given_order(what: str, lines: Lines, axis: _Axis) -> Ints:
    """The line of each value of an axis, in their order: fixed ones may be left out."""
    size, needed = len(axis.values), int((~axis.may_lack).sum())
    if lines.shape == (size,):
        return np.arange(size)
    if lines.shape != (needed,):
        rest = f", or {needed}, one for each that is not fixed" if needed < size else ""
        shape = lines.shape[0] if len(lines.shape) == 1 else f"shape {lines.shape}"
        raise TableError(f"{what}: {size} lines are needed, one per row{rest}; given {shape}")
    return np.where(axis.may_lack, -1, np.cumsum(~axis.may_lack) - 1)


@final
class _Match(NamedTuple):
    """Labels of lines, found among the values of an axis."""

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
    """The line of each value of an axis, -1 where a fixed one has none; and the first column that is no label."""
    index = None if lines.index is None else _match(lines.index, axis)
    column = None if lines.first is None else _match(lines.first, axis)
    if index is not None and column is not None and not lines.index_is_named:
        fit = not (index.lacking or column.lacking)
        if fit and not np.array_equal(index.order, column.order):
            name = brief(lines.names[0])
            both = f"the index and the column {name} both have the labels of {axis.what}, in different lines"
            raise TableError(f"{what}: {both}; make {name} the index, or give the index a name if it is to count")
    matches = [match for match in (index, column) if match is not None]
    best = min(matches, key=lambda match: len(match.lacking))  # the index, if both are as good
    if best.lacking:
        more = f" and {len(best.lacking) - 1} more" if len(best.lacking) > 1 else ""
        places = ["the index"] if index is not None else []
        places += [f"the column {brief(lines.names[0])}"] if column is not None else []
        looked = f"labels are looked for in {' and in '.join(places)}"
        raise TableError(f"{what}: there is no line for {brief(best.lacking[0])}{more}; {looked}")
    if best.repeated:
        raise TableError(f"{what}: there are two lines for {brief(best.repeated[0])}")
    return best.order, int(best is column)


def _column(what: str, name: str, values: Any, labels: Sequence[Label], exists: Bools, declared: Encoding) -> Column:
    """A column of the lines that exist as one of all lines."""
    if values.ndim != 1 or values.dtype.kind not in "fO":
        raise TableError(f"{what} has values of type {values.dtype}; {ALLOWED}")
    values = values if values.dtype.kind == "f" else _numbers_or_texts(what, values, labels)
    if declared.categories is not None and not isinstance(values, list):
        if not np.isnan(values).all():
            raise TableError(f"{what} must have texts, because categories are declared, got numbers")
        values = [None] * len(values)
    if isinstance(values, list):
        if declared.center is not None or declared.scale is not None:
            raise TableError(f"{what} must have numbers, because a center or a scale is declared, got texts")
        texts = np.full(len(exists), None, dtype=object)
        texts[exists] = values
        return Texts(name, texts.tolist(), exists, declared)
    if (infinite := np.isinf(values)).any():
        raise TableError(f"{what} is not finite for {brief(labels[int(np.argmax(infinite))])}")
    numbers = np.full(len(exists), np.nan)
    numbers[exists] = values
    return Numbers(name, numbers, exists, declared)


def _numbers_or_texts(what: str, values: Sequence[Any], labels: Sequence[Label]) -> Floats | list[str | None]:
    """Values of any type as numbers (NaN where missing) or, if there are texts, as texts (None where missing)."""
    if {*map(type, values)} <= {float, type(None)}:
        return np.array(values, dtype=np.float64)
    plain_values = [_number_or_text(value) for value in values]
    if None in plain_values:
        wrong = plain_values.index(None)
        raise TableError(f"{what} is {brief(values[wrong])} for {brief(labels[wrong])}; {ALLOWED}")
    texts = [value if isinstance(value, str) else None for value in plain_values]
    if not any(text is not None for text in texts):
        return np.array(plain_values, dtype=np.float64)
    for text, value, label in zip(texts, plain_values, labels, strict=True):
        if text is not None:
            check_letters(f"{what}: the text for {brief(label)}", text)
        elif value == value:
            example = next(text for text in texts if text is not None)
            raise TableError(
                f"{what} has texts, as {brief(example)}, and numbers, as {brief(value)} for {brief(label)}"
            )
    return texts


def _number_or_text(value: Any) -> float | str | None:
    """A value as a number, NaN if it is missing, or as a text; None if it is neither."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        return math.nan
    if not isinstance(value, Number) or isinstance(value, np.timedelta64):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # a whole number beyond all floats
        return math.inf
    except ODD:  # complex numbers
        return None
