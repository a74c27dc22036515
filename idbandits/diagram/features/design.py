"""Features of the rows of learned tables: the design matrix of a regression that is the prior of every row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.diagram.features.encode_columns import Column, Value
from idbandits.diagram.values import check_distinct
from idbandits.errors import TableError, brief
from idbandits.kernel.array_types import Bools, Floats, Rng

if TYPE_CHECKING:  # `tables` imports this module
    from idbandits.diagram.tables import Label

Line: TypeAlias = list[dict[str, Value]]  # the features of a row as plain data: for each parent in turn, by column

CONSTANT = "(constant)"  # the name of the first column of every design
MOST_COLUMNS = 200  # beside the constant
INTERCEPT_SD, LOG_STRENGTH_SD = 3.0, 2.0  # of the prior of a regression
SLOPES_SD = 1.5  # of the sum that all features add to a logit
STRENGTH = 10.0  # median of M, as a multiple of a row's declared pseudo-counts
LEAST_STRENGTH, MOST_STRENGTH = 0.1, 1e6  # of a strength that is drawn from that prior
LEAST_PSEUDO_COUNT = 1e-9  # of a row that is drawn from that prior


@final
class Hyperprior(NamedTuple):
    """Prior of a regression: independent normal coefficients, and a normal log strength.

    Row x has the prior Dirichlet(M softmax(0, x G)): G has one column per state but the first, whose logit is 0.
    """

    intercepts: Floats  # means of the constant's coefficients, one per state but the first
    log_strength: float  # mean of log M
    slope_sd: float  # of all other coefficients, whose mean is 0
    intercept_sd: float = INTERCEPT_SD
    log_strength_sd: float = LOG_STRENGTH_SD


@final
class Block(NamedTuple):
    """Features of one parent's values (`axis` is its place), or of the rows themselves (None)."""

    name: str
    axis: int | None
    columns: Sequence[Column]
    exists: Bools  # whether a line is there: fixed rows may have none
    labels: Sequence[Label] | None = None  # of the lines of a data frame

    @property
    def place(self) -> int:
        """Its place in a line."""
        return self.axis or 0

    def encoded(self) -> Floats:
        """Return its columns of the design, one line per value."""
        empty = np.zeros((len(self.exists), 0))
        return np.hstack([empty, *(column.encoded(column.values, self.exists) for column in self.columns)])

    def encoded_lines(self, lines: Sequence[Any]) -> Floats:
        """Return columns of the design for lines of plain data; zeros where a line lacks a column."""
        lines, parts = [line if isinstance(line, dict) else {} for line in lines], [np.zeros((len(lines), 0))]
        for column in self.columns:
            exists = np.array([column.name in line for line in lines], np.bool_)
            parts.append(column.encoded(column.of([line.get(column.name) for line in lines]), exists))
        return np.hstack(parts)

    def line(self, number: int) -> dict[str, Value]:
        """Return the values in one line; none if it is lacking."""
        return {column.name: column.raw(number) for column in self.columns} if self.exists[number] else {}

    def to_data(self) -> dict[str, Any]:
        """Return the lines that exist as plain data."""
        there = np.flatnonzero(self.exists).tolist()
        data: dict[str, Any] = {} if self.labels is None else {"labels": [self.labels[line] for line in there]}
        own = [
            {"name": column.name, "values": [column.raw(line) for line in there]} | column.declared.to_data()
            for column in self.columns
        ]
        return data | {"columns": own}

    def carried(self, what: str, learned: Mapping[tuple[int, str], Column]) -> Block:
        """Return the block with the encodings of columns that were learned with, by places of blocks and names."""
        columns = [
            column.carried(what, learned[key]) if (key := (self.place, column.name)) in learned else column
            for column in self.columns
        ]
        return self._replace(columns=columns)


@final
class TableFeatures:
    """Features of a table's rows; `names` are those of the columns of `design`, the first of which is constant."""

    def __init__(self, owner: str, blocks: Sequence[Block], shape: tuple[int, ...], products: bool, most: int) -> None:
        self.blocks, self.products, self._owner, self._shape, self._most = tuple(blocks), products, owner, shape, most
        _check_sizes(owner, blocks, math.prod(shape), products, most)
        self.names = tuple(self._all_names())
        check_distinct(owner, self.names)

    def carried(self, learned: Sequence[TableFeatures]) -> TableFeatures:
        """Return the features with the encodings of features that were learned with, as declared ones.

        Each column has the encoding of the first of the others that has it. New columns keep their own encoding, and
        categories that are new come after the others.
        """
        before: dict[tuple[int, str], Column] = {}
        for other in learned:
            for block in other.blocks:
                for column in block.columns:
                    before.setdefault((block.place, column.name), column)
        blocks = [block.carried(self._owner, before) for block in self.blocks]
        return TableFeatures(self._owner, blocks, self._shape, self.products, self._most)

    @cached_property
    def design(self) -> Floats:
        """Design matrix, one line per row; computed on first use, because small files may declare large tables."""
        rows, parts = np.arange(math.prod(self._shape)), list[Floats]()
        for block in self.blocks:
            own = block.encoded()
            parts.append(own if block.axis is None else own[np.unravel_index(rows, self._shape)[block.axis]])
        design = np.ascontiguousarray(self._combined(parts, len(rows)))
        design.setflags(write=False)
        return design

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "design"}  # a copy would be writeable

    def distances(self) -> Iterator[tuple[Column, float]]:
        """Iterate over columns of numbers, with the largest distance of a value from the center, in scales."""
        for block in self.blocks:
            for column in block.columns:
                if column.encoding.scale is not None:
                    yield column, float(np.abs(column.encoded(column.values, block.exists)[:, 0]).max(initial=0.0))

    def line(self, row: int) -> Line:
        """Return the features of a row as plain data."""
        places = np.unravel_index(row, self._shape) if self._shape else ()
        lines = {
            block.place: block.line(row if block.axis is None else int(places[block.axis])) for block in self.blocks
        }
        return [lines.get(place, {}) for place in range(max(lines, default=-1) + 1)]

    def encoded(self, lines: Sequence[Line]) -> Floats:
        """Return lines of plain data, of this or of an earlier diagram, as lines of the design.

        Columns that they lack, values of the wrong type and categories that are new do not count: zeros, or missing.
        """
        own = [dict(enumerate(line)) if isinstance(line, list) else {} for line in lines]
        parts = [block.encoded_lines([line.get(block.place) for line in own]) for block in self.blocks]
        return self._combined(parts, len(own))

    def to_data(self) -> dict[str, Any] | None:
        """Return plain data for `read_frame.source_of_data`, of rows or of each parent's values; None if pooled."""
        if not self.blocks:
            return None
        own = {block.axis: block.to_data() for block in self.blocks}
        return {"rows": own[None]} if None in own else {"parents": [own.get(k) for k in range(len(self._shape))]}

    @staticmethod
    def hyperprior(prior: Floats, states: int, columns: int) -> Hyperprior:
        """Return the prior of a regression in a table with these pseudo-counts, which are those of every row.

        The more columns a design has, the smaller are their coefficients a priori.
        """
        row = prior[(0,) * (prior.ndim - 1)][:states]
        slope_sd = SLOPES_SD / math.sqrt(max(1, columns - 1))
        return Hyperprior(np.log(row[1:]) - np.log(row[0]), float(np.log(STRENGTH * row.sum())), slope_sd)

    def drawn_prior(self, prior: Floats, states: int, rng: Rng) -> Floats:
        """Draw a regression from its prior, and return the pseudo-counts of all rows, one line each."""
        hyper = self.hyperprior(prior, states, len(self.names))
        coefficients = rng.normal(0.0, hyper.slope_sd, (len(self.names), states - 1))
        coefficients[0] = rng.normal(hyper.intercepts, hyper.intercept_sd)
        strength = np.exp(np.clip(rng.normal(hyper.log_strength, hyper.log_strength_sd), -50.0, 50.0))
        logits = np.hstack([np.zeros((len(self.design), 1)), self.design @ coefficients])
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        counts: Floats = np.clip(strength, LEAST_STRENGTH, MOST_STRENGTH) * shares
        return np.maximum(counts, LEAST_PSEUDO_COUNT)

    def _all_names(self) -> Iterator[str]:
        several = sum(bool(block.columns) for block in self.blocks) > 1
        names = [
            [f"{block.name}.{name}" if several else name for column in block.columns for name in column.names]
            for block in self.blocks
        ]
        yield CONSTANT
        yield from itertools.chain.from_iterable(names)
        for group in _groups(names) if self.products else ():
            yield from map(" × ".join, itertools.product(*group))

    def _combined(self, parts: Sequence[Floats], lines: int) -> Floats:
        """Return the constant, the columns of all parts, and their products if asked."""
        columns = [np.ones((lines, 1)), *parts]
        for group in _groups(parts) if self.products else ():
            product = group[0]
            for other in group[1:]:
                size = product.shape[1] * other.shape[1]
                product = (product[:, :, np.newaxis] * other[:, np.newaxis, :]).reshape(lines, size)
            columns.append(product)
        return np.hstack(columns)


def described(features: TableFeatures, columns: bool = True) -> str:
    """Describe features: their number, and that of their columns beside the constant if it differs."""
    number, own = sum(len(block.columns) for block in features.blocks), len(features.names) - 1
    if not number:
        return "pooled"
    return f"{number} feature{'s' * (number > 1)}" + f" in {own} column{'s' * (own != 1)}" * (columns and own != number)


def _groups(parts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Iterate over all groups of two parts or more."""
    for size in range(2, len(parts) + 1):
        yield from itertools.combinations(parts, size)


def _check_sizes(owner: str, blocks: Sequence[Block], rows: int, products: bool, most: int) -> None:
    """Reject features with too many columns or entries before they are computed."""
    sizes = [sum(len(column.names) for column in block.columns) for block in blocks]
    total = math.prod(size + 1 for size in sizes) - 1 if products else sum(sizes)
    if total > MOST_COLUMNS:
        columns = [column for block in blocks for column in block.columns]
        largest = max(columns, key=lambda column: len(column.names))
        reason = ""
        if largest.encoding.categories is not None and len(largest.names) > 2:
            reason = f"; column {brief(largest.name)} has {len(largest.encoding.categories)} categories"
        raise TableError(f"{owner}: its features must have at most {MOST_COLUMNS} columns, got {total}{reason}")
    if rows * (total + 1) > most:
        numbers = f"{rows:,} rows in {total + 1} columns"
        raise TableError(f"{owner}: its features must be at most {most:,} numbers, got {numbers}")
