"""States as plain columns, for files: what can be derived is left out, and all the rest has a range.

The hash table of a state, its room, its settings and its scratch numbers are not among the columns. They come from a
fresh state, so a file cannot say anything about them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from idbandits.errors import FormatError
from idbandits.inference.state.sections import COUNTS, MOST_ROUNDS, Kind, Layout, Runs
from idbandits.kernel.array_types import Floats, Ints

from idbandits.inference.state.state import (  # isort: skip
    BEFORE, CAPACITY, EACH, FILLED, HEADER, NEXT_FIT, PER_ROUND, PLAYED, ROUNDS, TICK, USED, ZONE,
    GroupColumns, State, group_columns, rehash, with_room_for,
)  # fmt: skip

PHASES = Kind("phases", 0, 1 - 2.0**-53)
FITS = Kind("numbers of fits", -1e12, 1e12)
ALWAYS = {  # of the header: what files hold of every state
    ROUNDS: Kind("rounds", 0, MOST_ROUNDS),
    TICK: Kind("steps of the clock", -(2**62), 2**62),
    ZONE: Kind("kinds of times", 0, 2),
    NEXT_FIT: Kind("rounds before the next fit", 0, 2 * MOST_ROUNDS),
    PLAYED: Kind("rounds by the clock", 0, MOST_ROUNDS),
}


class Columns(NamedTuple):
    """All that files hold of a state."""

    ints: Ints  # those of ALWAYS, then those of the layout
    floats: Floats
    keys: Ints  # of all groups, one after the other
    sizes: Ints  # of the keys
    weights: Floats  # of the groups
    phases: Floats  # of the groups
    sites: Floats  # one row per number of a key
    fits: Floats

    @property
    def counts(self) -> Ints:
        """Whole rounds of the groups."""
        return np.floor(self.weights + self.phases).astype(np.int64)


class Shapes(NamedTuple):
    """The shapes of columns."""

    ints: tuple[int]
    floats: tuple[int]
    keys: tuple[int]
    sizes: tuple[int]
    weights: tuple[int]
    phases: tuple[int]
    sites: tuple[int, int]
    fits: tuple[int]


def shapes_of(layout: Layout, groups: int = 0, numbers: int = 0, fits: int = 0) -> Shapes:
    """Return the shapes of the columns of a state with these numbers of groups, numbers in keys, and fits."""
    floats, site, ints = (sum(size for kind, size in runs if kind.kept) for runs in layout[:3])
    return Shapes(
        (len(ALWAYS) + ints,), (floats,), (numbers,), (groups,), (groups,), (groups,), (numbers, site), (fits,)
    )


def columns_of(state: State, layout: Layout) -> Columns:
    """Return the columns of a state, validated."""
    ints, floats = state[:2]
    filled, each, before = (int(ints[place]) for place in (FILLED, EACH, BEFORE))
    none, nothing = np.empty(0, np.int64), np.empty(0)
    groups = group_columns(ints) if ints[CAPACITY] else GroupColumns(none, none, nothing, nothing, none)
    sites = floats[before:][: filled * each].reshape(filled, each)
    columns = Columns(
        np.append(ints[list(ALWAYS)], _taken(ints[HEADER:], layout.ints)), _taken(floats, layout.floats),
        groups.keys.copy(), np.diff(groups.starts), groups.weights.copy(), groups.phases.copy(),
        _taken(sites, layout.site), state.fits.copy(),
    )  # fmt: skip
    _check(columns, layout)
    return columns


def state_of(columns: Columns, layout: Layout, fresh: State) -> State:
    """Return the state with these columns, which are validated; the rest comes from `fresh`, which is used up."""
    _check(columns, layout)
    used, filled = len(columns.sizes), len(columns.keys)
    state = fresh._replace(fits=columns.fits.copy())
    has_regressions = fresh.ints[NEXT_FIT] > 0
    if used and not fresh.ints[PER_ROUND]:
        raise FormatError(f"there are {used} groups of rounds, but its inference keeps none")
    if used:
        state = with_room_for(state, used, filled)
    ints, floats = state[:2]
    ints[USED], ints[FILLED] = used, filled
    ints[list(ALWAYS)] = columns.ints[: len(ALWAYS)]
    if (ints[NEXT_FIT] > 0) != has_regressions:
        there = "there are regressions" if has_regressions else "there are none"
        raise FormatError(f"the next fit is due after {ints[NEXT_FIT]} rounds, and {there}")
    _put(columns.ints[len(ALWAYS) :], layout.ints, ints[HEADER:])
    _put(columns.floats, layout.floats, floats)
    before, each = int(ints[BEFORE]), int(ints[EACH])
    _put(columns.sites, layout.site, floats[before : before + filled * each].reshape(filled, each))
    if used:
        groups = group_columns(ints)
        groups.starts[1:], groups.counts[:], groups.keys[:] = np.cumsum(columns.sizes), columns.counts, columns.keys
        groups.weights[:], groups.phases[:] = columns.weights, columns.phases
    if used and rehash(ints) < used:
        raise FormatError("two groups of rounds have the same key")
    return state


def _check(columns: Columns, layout: Layout) -> None:
    """Raise if a number of the columns is out of its range."""
    for value, kind in zip(columns.ints, ALWAYS.values(), strict=False):
        _check_range(kind.name, value, kind)
    _check_range("weights of groups", columns.weights, COUNTS)
    _check_range("phases of groups", columns.phases, PHASES)
    _check_range("numbers of fits", columns.fits, FITS)
    for column, runs in (
        (columns.ints[len(ALWAYS) :], layout.ints),
        (columns.floats, layout.floats),
        (columns.sites, layout.site),
    ):
        for kind, place in _places([(kind, size) for kind, size in runs if kind.kept]):
            _check_range(kind.name, column[..., place], kind)
    _check_range("sizes of keys", columns.sizes, Kind("sizes", 1, len(columns.keys)))
    if columns.sizes.sum() != len(columns.keys):
        raise FormatError(f"the keys of all groups have {columns.sizes.sum()} numbers, not {len(columns.keys)}")
    if layout.check_keys is not None:
        layout.check_keys(columns.keys, columns.sizes)


def _check_range(name: str, values: npt.NDArray[Any], kind: Kind) -> None:
    if kind.least == -np.inf:
        return
    if (wrong := ~((values >= kind.least) & (values <= kind.most))).any():  # also NaN
        raise FormatError(f"{name} are from {kind.least:g} to {kind.most:g}, not {values[wrong][0]}")


def _places(runs: Runs) -> Iterator[tuple[Kind, slice]]:
    first = 0
    for kind, size in runs:
        yield kind, slice(first, first + size)
        first += size


def _taken(array: npt.NDArray[Any], runs: Runs) -> npt.NDArray[Any]:
    """Return the numbers that files keep, of arrays with the runs on the last axis."""
    return np.concatenate([array[..., :0], *(array[..., place] for kind, place in _places(runs) if kind.kept)], axis=-1)


def _put(column: npt.NDArray[Any], runs: Runs, array: npt.NDArray[Any]) -> None:
    """Inverse of `_taken`."""
    first = 0
    for kind, place in _places(runs):
        if kind.kept:
            array[..., place] = column[..., first : first + place.stop - place.start]
            first += place.stop - place.start
