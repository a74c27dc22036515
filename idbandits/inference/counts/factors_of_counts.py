"""Factors of counts, in the numbers of a state: kept as shapes and arguments, or inserted as groups of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.counts.reduction_plans import KNOWN
from idbandits.inference.counts.tally import SHORT_INTS, ShortInts, Tally
from idbandits.inference.rounds.factors import first_term, members, next_term
from idbandits.inference.state.state import FILLED, USED, Groups, State, groups_in, insert, place_of, with_room_for
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import pointer


class Factors(NamedTuple):
    """Factors with weights: the number of a shape and arguments, which are learned entries of a state."""

    shape_starts: Ints
    shapes: Ints  # one after the other
    starts: Ints  # of a factor: where its key begins in the pool; last, the end
    weights: Floats
    pool: ShortInts

    @property
    def number(self) -> int:
        """Return the number of different factors."""
        return len(self.weights)

    def numbers(self) -> int:
        """Return how many numbers the keys have as groups of a state."""
        sizes = np.diff(self.shape_starts)
        return int(sizes[self.pool[self.starts[:-1]]].sum()) if self.number else 0

    def none(self) -> Factors:
        """Return no factors."""
        return self._replace(starts=self.starts[:1], weights=self.weights[:0], pool=self.pool[:0])


FACTORS = types.NamedTuple([INTS, INTS, INTS, FLOATS, SHORT_INTS], Factors)


def factors_of(tally: Tally, shapes: Sequence[Ints], places: Ints, scale: float) -> Factors:
    """Return the factors of counts, with weights times `scale`; `places` are those of entries in a state."""
    starts, weights, pool = tally.columns()
    joined = np.concatenate([np.empty(0, np.int64), *shapes])
    known = joined >= KNOWN
    joined[known] = KNOWN + places[joined[known] - KNOWN]
    if not np.array_equal(places, np.arange(len(places))):
        is_argument = np.ones(len(pool), np.bool_)
        is_argument[starts[:-1]] = False
        pool = np.where(is_argument, places[np.where(is_argument, pool, 0)], pool).astype(np.int32)
    shape_starts = np.concatenate([[0], np.cumsum([len(shape) for shape in shapes])]).astype(np.int64)
    return Factors(shape_starts, joined, starts, scale * weights, pool)


def sampled_factors(factors: Factors, number: int, rng: Rng) -> Factors:
    """Return about as many factors, whose expected weights are those of all: lighter ones stand for others as well."""
    least = float(factors.weights.sum()) / number
    chosen = np.flatnonzero(rng.random(factors.number) * least < factors.weights)
    sizes = np.diff(factors.starts)[chosen]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(starts[-1]) + np.repeat(factors.starts[chosen] - starts[:-1], sizes)
    return factors._replace(
        starts=starts, weights=np.maximum(factors.weights[chosen], least), pool=factors.pool[places]
    )


def inserted(state: State, factors: Factors, rng: Rng) -> State:
    """Return a state with factors among its groups."""
    if not factors.number:
        return state
    groups, numbers = int(state.ints[USED]) + factors.number, int(state.ints[FILLED]) + factors.numbers()
    state = with_room_for(state, groups + 64, numbers + 256)
    insert_all(state.ints, factors, rng)
    return state


@kernel(types.void(INTS, FACTORS, RNG))
def insert_all(ints: Ints, factors: Factors, rng: Rng) -> None:
    """Insert factors into the groups of a state; there is room for them."""
    groups = groups_in(ints)
    size = 0
    for s in range(len(factors.shape_starts) - 1):
        size = max(size, factors.shape_starts[s + 1] - factors.shape_starts[s])
    key = np.empty(size + 1, np.int64)
    for g in range(len(factors.weights)):
        insert_factor(groups, factors, g, pointer(key, 0), rng)


@unmanaged
def insert_factor(groups: Groups, factors: Factors, g: int, key: Ints, rng: Rng) -> None:
    """Write a factor as `rounds.reduction` does, with the members of each term in ascending order, and count it."""
    first = factors.starts[g]
    shape = factors.pool[first]
    begin = factors.shape_starts[shape]
    size = factors.shape_starts[shape + 1] - begin
    for i in range(size):
        key[i] = factors.shapes[begin + i]
    term = first_term(key)
    while term.nodes > 0:
        for i in members(key, term.at):
            member = key[i]
            if member >= KNOWN:
                member -= KNOWN
            elif member >= 0:
                member = factors.pool[first + 1 + member]
            k = i
            while k > term.at + 1 and key[k - 1] > member:
                key[k] = key[k - 1]
                k -= 1
            key[k] = member
        term = next_term(key, term)
    place = place_of(groups, key, size)
    group = groups.table[place]
    if group < 0:
        group = insert(groups, place, key, size)
        groups.phases[group] = rng.random() if factors.weights[g] != np.floor(factors.weights[g]) else 0.0
    groups.weights[group] += factors.weights[g]
    groups.counts[group] = int(np.floor(groups.weights[group] + groups.phases[group]))
