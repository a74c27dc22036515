"""Weights of several structures, by their predictions.

*Weights* are those of the prequential likelihood of all observations, mixed slightly with equal weights at rounds 1, 2,
4, 8, …, so that a structure that predicts well late catches up soon. But the likelihood may prefer a structure for
reasons that do not matter for acting, such as the dependence of clicks. So the richest structure, the one with most
learned numbers, also bets against the others on rewarded nodes alone, starting again at each of these rounds. If the
other structure is right and its belief exact, the total wealth won from it is a martingale that stays below `LIMIT`
with a probability of 1 - 1 / LIMIT; above, the agent does not act by that structure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.build import starts
from idbandits.kernel.array_types import Floats, Indices, Ints
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked, unmanaged
from idbandits.kernel.structs import Packed, pack, unpacker

LIMIT = 20.0  # wealth that a structure may lose to a richer one before the agent no longer acts by it
BOLDNESS = 0.5  # part of its wealth that a wager may lose in one round


class Standing(NamedTuple):
    """Current comparison of several structures."""

    rounds: Ints  # one number: compared rounds
    weights: Floats  # of a structure: its log-weight; minus infinity after an impossible round
    wealth: Floats  # of a pair: the log of the wealth that the first has won from the second

    def copy(self) -> Standing:
        """Return an independent copy."""
        return Standing(self.rounds.copy(), self.weights.copy(), self.wealth.copy())

    def is_out(self) -> list[bool]:
        """Return whether a round was impossible, for each structure."""
        return [weight == -np.inf for weight in self.weights.tolist()]


def first_standing(structures: int) -> Standing:
    """Return equal weights without wealth."""
    wealth = np.full((structures, structures), -np.inf)
    return Standing(np.zeros(1, np.int64), np.full(structures, -np.log(structures)), wealth)


class Rewarded(NamedTuple):
    """Rewarded nodes, as a structure for kernels; in the order of the first structure."""

    nodes: int
    node: Indices  # their numbers among the observed nodes
    start: Indices  # of a node: its first column
    columns: int
    place: Indices  # of a structure and a column, which is a state of a node: its place among the marginals
    richness: Indices  # of a structure: its number of learned numbers


def pack_rewarded(node: list[int], states: list[int], places: list[list[int]], richness: list[int]) -> Packed:
    """Pack the rewarded nodes, their numbers of states, and for each structure their columns and its richness."""
    start = starts([range(n) for n in states])
    return pack(Rewarded(len(node), node, start, sum(states), [place for own in places for place in own], richness))


STANDING = types.NamedTuple([INTS, FLOATS, types.float64[:, ::1]], Standing)
unpack = unpacker(Rewarded)


@linked
def settled(program: Ints, numbers: Floats, standing: Standing, joint: Floats, marginals: Floats, seen: Ints) -> bool:
    """Update weights and wealth by a round: by its log-probability in each structure, and node by node.

    Return False, without changes, if it is impossible in all remaining structures.
    """
    r, weights, wealth = unpack(program, numbers), standing.weights, standing.wealth
    structures, left, richest = len(weights), 0, 0
    for i in range(structures):
        left += weights[i] + joint[i] > -np.inf
        if weights[i] + joint[i] > -np.inf:
            richest = max(richest, r.richness[i])
    if left == 0:
        return False
    standing.rounds[0] += 1
    new = beginning(standing.rounds[0])
    for i in range(structures):
        weights[i] += joint[i]
    for i in range(structures):
        for k in range(structures):
            if weights[i] == -np.inf or weights[k] == -np.inf:
                wealth[i, k] = -np.inf
            elif r.richness[i] > r.richness[k] and r.richness[i] == richest:
                won = np.log1p(wager(r, marginals, seen, i, k))
                wealth[i, k] = won + np.logaddexp(wealth[i, k], np.log(new))
    share(weights, new)
    return True


@inlined
def beginning(t: int) -> float:
    """Return the part that starts again at round t, a power of two, else 0; over all rounds, parts sum to 1."""
    if t & (t - 1) != 0:
        return 0.0
    k = np.log2(t) + 1.0
    return 1.0 / (k * (k + 1.0))


@kernel(types.boolean(INTS, FLOATS, STANDING, FLOATS, types.float64[:, ::1], INTS))
def settle(program: Ints, numbers: Floats, standing: Standing, joint: Floats, marginals: Floats, seen: Ints) -> bool:
    """Kernel of `settled`."""
    return settled(program, numbers, standing, joint, marginals, seen)


@kernel(types.int64(INTS, FLOATS, STANDING, types.float64[:, ::1], types.float64[:, :, ::1], types.int64[:, ::1]))
def settle_all(program: Ints, numbers: Floats, standing: Standing, joint: Floats, marginals: Floats, seen: Ints) -> int:
    """Settle rounds in order, until one is impossible in all structures; return the number of settled rounds."""
    for t in range(len(joint)):
        if not settled(program, numbers, standing, joint[t], marginals[t], seen[t]):
            return t
    return len(joint)


@unmanaged
def share(weights: Floats, part: float) -> None:
    """Normalise log-weights, and mix them with equal weights."""
    highest, total, left = -np.inf, 0.0, 0
    for i in range(len(weights)):
        highest = max(highest, weights[i])
        left += weights[i] > -np.inf
    for i in range(len(weights)):
        total += np.exp(weights[i] - highest)
    for i in range(len(weights)):
        if weights[i] > -np.inf:  # in logarithms, since weights may underflow
            weights[i] = np.logaddexp(np.log1p(-part) + weights[i] - highest - np.log(total), np.log(part / left))


@unmanaged
def wager(r: Rewarded, marginals: Floats, seen: Ints, first: int, second: int) -> float:
    """Return the part of its wealth that a structure wins from another in a round: never less than -BOLDNESS.

    On each node it bets by its probabilities at the odds of the other, so it wins nothing on average if the
    probabilities of the other are right, for any dependence between nodes.
    """
    won, at_stake = 0.0, 0.0
    for j in range(r.nodes):
        if seen[r.node[j]] < 0:
            continue
        lowest = np.inf
        for column in range(r.start[j], r.start[j + 1]):
            mine = marginals[first, r.place[first * r.columns + column]]
            other = marginals[second, r.place[second * r.columns + column]]
            if other > 0.0:
                lowest = min(lowest, mine / other)
            if column == r.start[j] + seen[r.node[j]]:
                won += mine / other - 1.0
        at_stake += 1.0 - lowest
    return won * min(1.0, BOLDNESS / at_stake) if at_stake > 0.0 else 0.0


@kernel(types.int64(STANDING, FLOATS))
def weigh(standing: Standing, acting: Floats) -> int:
    """Write the weights to act by: structures that lost too much get none. The richest one never loses."""
    weights, wealth = standing.weights, standing.wealth
    structures, total, highest = len(weights), 0.0, -np.inf
    for i in range(structures):
        acting[i] = weights[i] if wealth[:, i].max() <= np.log(LIMIT) else -np.inf
        highest = max(highest, acting[i])
    for i in range(structures):
        acting[i] = np.exp(acting[i] - highest)
        total += acting[i]
    for i in range(structures):
        acting[i] /= total
    return structures
