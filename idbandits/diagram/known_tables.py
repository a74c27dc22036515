"""Known tables: a number, an array or a function of the parents' values, as probabilities or rewards."""

from __future__ import annotations

import itertools
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from idbandits.errors import DiagramError, TableError, brief, shortened
from idbandits.kernel.array_types import Bools, Floats

if TYPE_CHECKING:  # `diagram` imports this module
    from idbandits.diagram.diagram import Node

Label: TypeAlias = str | int | float | bool
Possible: TypeAlias = Callable[[Sequence[str]], Bools]  # which values of nodes may occur together

TOLERANCE = 1e-8  # difference from 1 of the sum of the probabilities of a row
MOST_ENTRIES = 50_000_000  # in one table


@final
@dataclass(frozen=True, eq=False)
class Known:
    """Known table: one axis per parent, states on the last axis."""

    table: Floats


def known_table(node: str, cpd: Any, parents: Sequence[Node], states: int, possible: Possible) -> Known:
    """Return the probabilities of a number, an array or a function of the parents' values.

    Rows of zeros, where the parents cannot have these values, become certainty of the first state.
    """
    row_shape = () if states == 2 else (states,)  # of two states, only P(1) is declared
    entries = _table(f"node {node!r}", cpd, parents, row_shape, broadcast=states == 2)
    table = np.stack([1.0 - entries, entries], axis=-1) if states == 2 else entries
    if (outside := ~np.asarray(((table >= 0) & (table <= 1)).all(axis=-1))).any():
        row = table[outside][0]
        shown = f"P({node} = 1) = {row[1]}" if states == 2 else f"{row.tolist()}"
        raise TableError(f"node {node!r}: probabilities must be in [0, 1], got {shown}{_first(outside, parents)}")
    if (zero := np.asarray((table == 0).all(axis=-1))).any():
        table[zero & ~possible([p.name for p in parents]), 0] = 1.0
    if (unequal := np.asarray(np.abs(table.sum(axis=-1) - 1) > TOLERANCE)).any():
        row, where = table[unequal][0], _first(unequal, parents)
        raise TableError(f"node {node!r}: probabilities must sum to 1, got {row.tolist()}, with sum {row.sum()}{where}")
    table.setflags(write=False)
    return Known(table)


def reward_table(parents: Sequence[Node], values: Any) -> Floats:
    """Return the rewards of a function or an array; None is the value of the only parent."""
    reward = "the reward of " + ", ".join(repr(p.name) for p in parents)
    if values is None:
        if len(parents) != 1:
            raise DiagramError(f"{reward} needs a function of their values, or an array")
        values = np.array(parents[0].values) if isinstance(parents[0].values, range) else list(parents[0].values)
        if any(isinstance(value, str) for value in parents[0].values):
            raise DiagramError(f"{reward} needs a function: not all of its labels are numbers")
    table = _table(reward, values, parents, ())
    if (infinite := ~np.isfinite(table)).any():
        raise DiagramError(f"{reward} must be finite, got {table[infinite][0]}{_first(infinite, parents)}")
    table.setflags(write=False)
    return table


def shape_of(parents: Sequence[Node]) -> tuple[int, ...]:
    """Return the numbers of values of nodes."""
    return tuple(p.states for p in parents)


def check_size(owner: str, shape: tuple[int, ...]) -> None:
    """Raise if a table of this shape is too large."""
    if math.prod(shape) > MOST_ENTRIES:
        raise TableError(f"{owner}: a table must have at most {MOST_ENTRIES:,} entries, got the shape {shape}")


def _table(
    owner: str, values: Any, parents: Sequence[Node], row_shape: tuple[int, ...], *, broadcast: bool = False
) -> Floats:
    """Return a new array of numbers, one row per combination of the parents' values; one number may stand for all."""
    shape = (*shape_of(parents), *row_shape)
    check_size(owner, shape)
    if callable(values):
        table = np.empty((math.prod(shape_of(parents)), *row_shape))
        for i, (place, result) in enumerate(results_of(owner, values, parents)):
            row = numbers_of(result)
            if row is None or row.shape != row_shape:
                needed = f"{row_shape[0]} probabilities, one per state" if row_shape else "one number"
                raise TableError(
                    f"{owner}: its function must return {needed}, got {brief(result)}{where(parents, place)}"
                )
            table[i] = row
        return table.reshape(shape)
    numbers = numbers_of(values)
    if numbers is None:
        raise TableError(f"{owner} needs a function, or an array of numbers, got {brief(values)}")
    if broadcast and numbers.ndim == 0:
        return np.full(shape, numbers)
    if numbers.shape != shape:
        axes = [f"{p.states} values of {p.name!r}" for p in parents] + [
            f"{n} states on the last axis" for n in row_shape
        ]
        needed = f"its table must have the shape {shape} ({' x '.join(axes) or 'no parents'})"
        hint = "; of two states, only P(1) is declared" if broadcast else ""
        raise TableError(f"{owner}: {needed}, got {numbers.shape}{hint}")
    return numbers


def results_of(owner: str, function: Callable[..., Any], parents: Sequence[Node]) -> Iterator[tuple[Any, Any]]:
    """Iterate over all combinations of the parents' values and the results of a function of them."""
    for values in itertools.product(*(p.values for p in parents)):
        try:
            result = function(*values)
        except Exception as error:
            raised = shortened(traceback.format_exception_only(error)[0])
            raise TableError(f"{owner}: its function raised {raised}{where(parents, values)}") from error
        yield values, result


def numbers_of(value: Any) -> Floats | None:
    """Return a new array of floats; None if the value does not consist of numbers (NumPy would parse strings).

    Integers beyond all floats are infinity.
    """
    try:
        array = np.asarray(value)
        mixed = array.dtype.kind == "O" and not any(x is None or isinstance(x, (str, bytes)) for x in array.flat)
        if np.ma.is_masked(value) or not (mixed or array.dtype.kind in "biuf"):
            return None
        return array.astype(np.float64)  # also of fractions and decimals
    except OverflowError:
        return np.array(np.inf)
    except (TypeError, ValueError, MemoryError):
        return None


def _first(marked: Bools, parents: Sequence[Node]) -> str:
    """Return the first marked place of a table, for messages."""
    index = np.unravel_index(int(np.flatnonzero(marked)[0]), marked.shape) if parents else ()
    return where(parents, [p.values[int(i)] for p, i in zip(parents, index, strict=True)])


def where(parents: Sequence[Node], values: Sequence[Label]) -> str:
    """Return a place in a table, for messages; empty if there are no parents."""
    place = ", ".join(f"{p.name} = {v!r}" for p, v in zip(parents, values, strict=True))
    return f" where {place}" if parents else ""
