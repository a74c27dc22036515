"""States as plain columns, for files: what can be derived is left out, and all the rest has a range.

The hash table of a state, its room, its settings and its scratch numbers are not among the columns. They come from a
fresh state, so a file cannot say anything about them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from idbandits.errors import FormatError
from idbandits.kernel.types import Floats, Ints

from idbandits.kernel.states import (  # isort: skip
    ACTS_ON_MEANS, BEFORE, CAPACITY, EACH, HEADER, LEAST, MOST, PER_ROUND, ROUNDS, SETTING, USED, WIDTH, State,
    grown, group_columns, rehash,
)  # fmt: skip

MOST_ROUNDS = 2**50  # that are counted: sums of them, and floats, hold all of these numbers exactly


class Kind(NamedTuple):
    """What some numbers of a state are, and their range."""

    name: str
    least: float = -np.inf
    most: float = np.inf
    kept: bool = True  # in files; otherwise they are as in a fresh state


PSEUDO_COUNTS = Kind("pseudo-counts", LEAST, MOST)
MEANS = Kind("means", 0, 1)
NUMBERS = Kind("numbers", -1e250, 1e250)  # of which sums over all rounds are finite
COUNTS = Kind("counts", 0, MOST_ROUNDS)
SWITCHES = Kind("switches", 0, 1)
ANYTHING = Kind("anything")
DERIVED = Kind("derived", kept=False)  # settings, and numbers that are computed before they are used

Runs: TypeAlias = Sequence[tuple[Kind, int]]  # of consecutive numbers; all that follow the last run are derived


class Layout(NamedTuple):
    """What the numbers of a state are."""

    floats: Runs
    site: Runs = ()  # the floats beside one group
    ints: Runs = ()  # of the header, from SETTING on
    keys: Sequence[Sequence[tuple[int, int]]] | None = None  # by part: the range of each number in a key; None: any


class Columns(NamedTuple):
    """All that files hold of a state."""

    ints: Ints  # the rounds, then those of the layout
    floats: Floats
    keys: Ints  # one row per group
    counts: Ints  # of the groups
    sites: Floats  # one row per group


def plain_layout(learned: int, state: State) -> Layout:
    """The layout of a state of which only this is known: it begins with pseudo-counts, or with means to act on."""
    ints, floats = state
    first = MEANS if ints[ACTS_ON_MEANS] else PSEUDO_COUNTS
    before, end = (int(ints[BEFORE]), HEADER) if ints[CAPACITY] else (len(floats), len(ints))
    return Layout(
        [(first, learned), (ANYTHING, before - learned)], [(ANYTHING, int(ints[EACH]))], [(ANYTHING, end - SETTING)]
    )


class Shapes(NamedTuple):
    """The shapes of columns."""

    ints: tuple[int]
    floats: tuple[int]
    keys: tuple[int, int]
    counts: tuple[int]
    sites: tuple[int, int]


def shapes_of(layout: Layout, width: int = 0, groups: int = 0) -> Shapes:
    """The shapes of the columns of a state with this many groups, whose keys have `width` numbers."""
    floats, site, ints = (sum(size for kind, size in runs if kind.kept) for runs in layout[:3])
    return Shapes((1 + ints,), (floats,), (groups, width), (groups,), (groups, site))


def columns_of(state: State, layout: Layout) -> Columns:
    """The columns of a state, which are checked."""
    ints, floats = state
    used, each, before = (int(ints[place]) for place in (USED, EACH, BEFORE))
    keys, counts = group_columns(ints)
    sites = floats[before:][: used * each].reshape(used, each)
    columns = Columns(
        np.append(ints[ROUNDS], _taken(ints[SETTING:], layout.ints)), _taken(floats, layout.floats), keys.copy(),
        counts.copy(), _taken(sites, layout.site),
    )  # fmt: skip
    _check(columns, layout)
    return columns


def state_of(columns: Columns, layout: Layout, fresh: State) -> State:
    """The state with these columns, which are checked; `fresh` has all that is not in columns, and is not kept."""
    _check(columns, layout)
    used, state = len(columns.counts), fresh
    if used and not fresh.ints[PER_ROUND]:
        raise FormatError(f"there are {used} groups of rounds, but its inference keeps none")
    while used > state.ints[CAPACITY]:
        state = grown(state)
    ints, floats = state
    ints[ROUNDS], ints[USED] = columns.ints[0], used
    keys, counts = group_columns(ints)
    keys[:], counts[:] = columns.keys, columns.counts
    _put(columns.ints[1:], layout.ints, ints[SETTING:])
    _put(columns.floats, layout.floats, floats)
    before, each = int(ints[BEFORE]), int(ints[EACH])
    _put(columns.sites, layout.site, floats[before : before + used * each].reshape(used, each))
    if used and rehash(ints) < used:
        raise FormatError("two groups of rounds have the same key")
    return state


def fits(state: State, fresh: State) -> bool:
    """Whether the arrays of a state have the layout of a fresh one, with room for any number of groups."""
    ints, floats = state
    layout = [PER_ROUND, WIDTH, EACH, BEFORE]
    if len(ints) < HEADER or (ints[layout] != fresh.ints[layout]).any():
        return False
    capacity, used, width, each, before = ints[[CAPACITY, USED, WIDTH, EACH, BEFORE]].tolist()
    sizes = HEADER + capacity * (3 + width), before + capacity * each
    if capacity == 0:
        sizes = len(fresh.ints), len(fresh.floats)
    return 0 <= used <= capacity and (len(ints), len(floats)) == sizes


def _check(columns: Columns, layout: Layout) -> None:
    """Refuse columns with a number out of its range."""
    _check_range("rounds", columns.ints[:1], COUNTS)
    _check_range("counts of groups", columns.counts, COUNTS)
    for column, runs in (
        (columns.ints[1:], layout.ints),
        (columns.floats, layout.floats),
        (columns.sites, layout.site),
    ):
        for kind, place in _places([(kind, size) for kind, size in runs if kind.kept]):
            _check_range(kind.name, column[..., place], kind)
    keys = columns.keys
    if layout.keys is None or not len(keys):
        return
    _check_range("the first numbers of keys", keys[:, 0], Kind("parts", 0, len(layout.keys) - 1))
    limits = np.zeros((2, len(layout.keys), keys.shape[1]), np.int64)
    for j, ranges in enumerate(layout.keys):
        limits[:, j, 1 : 1 + len(ranges)] = np.array(ranges, np.int64).reshape(-1, 2).T
    limits[1, :, 0] = len(layout.keys) - 1
    least, most = limits[:, keys[:, 0]]
    wrong = (keys < least) | (keys > most)
    if wrong.any():
        group, place = np.argwhere(wrong)[0]
        range_ = f"{least[group, place]} to {most[group, place]}"
        raise FormatError(f"number {place} of key {group} is from {range_}, not {keys[group, place]}")


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
    """The numbers that are kept, of arrays with the runs on the last axis."""
    return np.concatenate([array[..., :0], *(array[..., place] for kind, place in _places(runs) if kind.kept)], axis=-1)


def _put(column: npt.NDArray[Any], runs: Runs, array: npt.NDArray[Any]) -> None:
    """The same the other way round."""
    first = 0
    for kind, place in _places(runs):
        if kind.kept:
            array[..., place] = column[..., first : first + place.stop - place.start]
            first += place.stop - place.start
