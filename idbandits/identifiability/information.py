"""Information of rounds about the means: derivatives of the likelihood, and the directions that it does not depend on.

At means in general position, the gradients of the probabilities of all observations after all actions span the
directions in which the means are learned: the row space of the Fisher information. The other directions are free: they
are never learned. The gradients are those of enough random rounds, some of them with most nodes unseen, and some made
for rows that are still in doubt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np

from idbandits.circuit import reference as plain
from idbandits.circuit.circuit import Circuit
from idbandits.circuit.model import Model
from idbandits.identifiability.sample_rounds import Rounds, RoundSampler, Row, drawn_as_possible
from idbandits.kernel.array_types import Bools, Floats, Ints

TINY = 1e-9  # remainders of a gradient of length 1 that are shorter are rounding errors
FAINT = 1e-280  # probabilities below count as 0
CLEAR = 1e-6  # shares of a direction below count as 0
AT_ONCE = 2_000_000  # numbers in one pass
SOME = 48  # rounds that are drawn at least
MOST_DOUBTS = 300  # rounds that are made for rows in doubt, at a time


class Point(NamedTuple):
    """Information of rounds at some means. Directions are in coordinates: each row has one less than it has states."""

    means: Floats  # all parameters
    logs: Floats  # log-likelihoods of rounds
    scores: Floats  # their derivatives
    free: Floats  # orthonormal directions in which no log-likelihood changes


@final
class Information:
    """Directions in which the means of a model can be learned, at means that are drawn from a fixed seed.

    `point.free` may be too large, never too small, until `settle` was called. If rounds have probabilities that are too
    small for floats (`is_faint`), nothing can be said. Rewards are in units of the largest (`scale`).
    """

    def __init__(self, model: Model, seed: int) -> None:
        self.model, self._rng = model, np.random.default_rng(seed)
        self.scale = (model.rewards.scale if model.diagram.rewards else 0.0) or 1.0
        self.rows = [
            Row(name, number, model.parameters.offsets[name] + number * t.states, t.states)
            for name, t in model.learned.items()
            for number in range(t.size // t.states)
        ]
        self.row_of = np.repeat(np.arange(len(self.rows)), [row.states - 1 for row in self.rows])
        fixed = np.array([row.number in model.learned[row.table].fixed for row in self.rows], dtype=np.bool_)
        self._fixed = np.eye(len(self.row_of))[fixed[self.row_of]]  # directions in which nothing can move
        self._sampler = RoundSampler(model, self._rng)
        self.rounds = self._sampler.rounds(max(SOME, 2 * len(self.row_of)))
        self.point = self.at(self.random_means())
        self.is_faint = bool((self.point.logs[drawn_as_possible(len(self.point.logs))] <= np.log(FAINT)).any())
        self._is_settled = not len(self.point.free)

    def at(self, means: Floats) -> Point:
        """Return the information of the rounds at some means."""
        logs, scores = self._log_likelihoods(self.rounds, means)
        return Point(means, logs, scores, complement(orthonormal(scores, self._fixed), scores.shape[1]))

    def log_likelihoods(self, means: Floats) -> Floats:
        """Return the log-likelihoods of the rounds at some means."""
        c = self.model.likelihood.circuit
        factors = [means[plain.entries_after(c, slot, self.rounds.actions)] for slot in range(c.slots)]
        root: Floats = plain.up(c, list(self._leaves(self.rounds)), plain.chained(c, factors))[-1]
        return np.log(np.maximum(root, FAINT))

    def _leaves(self, rounds: Rounds) -> Floats:
        seen = dict(zip((node.name for node in self.model.observed), rounds.seen.T, strict=True))
        return self.model.likelihood.leaves(seen, (len(rounds.actions),))

    def random_means(self) -> Floats:
        """Draw means in general position, away from 0 and 1, and return all parameters; nothing reads fixed rows."""
        parts = []
        for table in self.model.learned.values():
            rows = self._rng.uniform(0.25, 1.0, size=(table.size // table.states, table.states))
            parts.append((rows / rows.sum(axis=1, keepdims=True)).ravel())
        return np.concatenate([*parts, self.model.parameters.known])

    def settle(self) -> None:
        """Add rounds for rows in doubt until two additions in a row change nothing; later calls do nothing."""
        if self._is_settled:
            return
        self._is_settled = True
        point, futile = self.point, 0
        known = orthonormal(point.scores, self._fixed)
        while futile < 2 and len(point.free):
            doubtful = np.flatnonzero(self.shares(point.free) > CLEAR)
            picked = self._rng.permutation(np.repeat(doubtful, 4))[:MOST_DOUBTS]
            made = self._sampler.rounds_for([self.rows[i] for i in picked.tolist()])
            drawn = self._sampler.rounds(len(self.row_of))
            more = Rounds(*(np.concatenate(parts) for parts in zip(made, drawn, strict=True)))
            logs, scores = self._log_likelihoods(more, point.means)
            self.rounds = Rounds(*(np.concatenate(parts) for parts in zip(self.rounds, more, strict=True)))
            before, known = len(known), orthonormal(scores, known)
            futile = futile + 1 if len(known) == before else 0
            logs, scores = np.concatenate([point.logs, logs]), np.concatenate([point.scores, scores])
            point = Point(point.means, logs, scores, complement(known, scores.shape[1]))
        kept = sorted(
            {*eliminated(point.scores)[1], *range(min(SOME, len(point.logs)))}
        )  # these have the information of all
        self.rounds = Rounds(*(part[kept] for part in self.rounds))
        point = point._replace(logs=point.logs[kept], scores=point.scores[kept])
        self.point = min(
            point, self.at(self.random_means()), key=lambda p: len(p.free)
        )  # in case the first means were special

    def shares(self, directions: Floats) -> Floats:
        """Return how much orthonormal directions move each row: from 0 to the number of its own directions."""
        return np.asarray(np.bincount(self.row_of, (directions**2).sum(axis=0), len(self.rows)), np.float64)

    @property
    def unseen(self) -> Bools:
        """For each row, whether nothing observed depends on it."""
        return self.shares(self.point.free) > np.array([row.states - 1 for row in self.rows]) - CLEAR

    def actions(self, number: int, rows: Sequence[Row] = ()) -> Ints:
        """Draw feasible actions and contexts, all choices in turn, and one for each of these rows that may read it."""
        return np.concatenate([self._sampler.actions(number), self._sampler.rounds_for(rows).actions])

    def expected_rewards(self, actions: Ints, means: Floats, model: Model | None = None) -> tuple[Floats, Floats]:
        """Return expected rewards and derivatives in coordinates, perhaps of a model with other rewards."""
        rewards = (model or self.model).rewards
        runs = [range(*run) for run in pairwise(rewards.ends)]
        leaves = np.ones((rewards.circuit.leaves, len(actions)))
        values, slopes = gradients(model or self.model, rewards.circuit, runs, leaves, actions, means)
        return values / self.scale, self._coordinates(slopes / self.scale)

    def _log_likelihoods(self, rounds: Rounds, means: Floats) -> tuple[Floats, Floats]:
        """Return log-likelihoods and derivatives in coordinates; these are 0 for impossible and faint rounds."""
        c = self.model.likelihood.circuit
        values, slopes = gradients(self.model, c, [range(c.inner)], self._leaves(rounds), rounds.actions, means)
        slopes[values <= FAINT] = 0.0
        values = np.maximum(values, FAINT)
        return np.log(values), self._coordinates(slopes / values[:, np.newaxis])

    def _coordinates(self, slopes: Floats) -> Floats:
        """Convert derivatives by entries into derivatives along the directions in which rows can move."""
        parts = [np.empty((len(slopes), 0))]
        for name, table in self.model.learned.items():
            first = self.model.parameters.offsets[name]
            by_row = slopes[:, first : first + table.size].reshape(len(slopes), -1, table.states)
            parts.append(np.einsum("crs,sd->crd", by_row, _basis(table.states)).reshape(len(slopes), -1))
        return np.concatenate(parts, axis=1)

    def entries(self, direction: Floats) -> Floats:
        """Convert a direction in coordinates into changes of all parameters."""
        changes, at = [np.empty(0)], 0
        for table in self.model.learned.values():
            own = direction[at : (at := at + table.size // table.states * (table.states - 1))]
            changes.append(np.einsum("rd,sd->rs", own.reshape(-1, table.states - 1), _basis(table.states)).ravel())
        return np.concatenate([*changes, np.zeros(len(self.model.parameters.known))])


@cache
def _basis(states: int) -> Floats:
    """Return orthonormal directions in which a row can move, as columns: its entries still sum to 1."""
    columns = np.eye(states)[:, 1:] - 1.0 / states
    return orthonormal(columns.T).T


def orthonormal(rows: Floats, before: Floats | None = None) -> Floats:
    """Return an orthonormal basis of the span of rows, which continues the basis `before`."""
    return eliminated(rows, before)[0]


def eliminated(rows: Floats, before: Floats | None = None) -> tuple[Floats, list[int]]:
    """Return the basis of `orthonormal`, and the rows it was made of: in each step, the one with most left.

    Rows are normalised first, so that rare rounds count as much as others. (Singular values would be simpler, but slow
    if other processes are busy, since several threads compute them.)
    """
    width = rows.shape[1]
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    numbers, taken = np.flatnonzero(lengths > TINY), list[int]()
    left = rows[numbers] / lengths[numbers, np.newaxis]
    basis, size = np.empty((width, width)), 0 if before is None else len(before)
    if before is not None:
        basis[:size] = before
        left -= np.einsum("ik,kj->ij", np.einsum("ij,kj->ik", left, before), before)
    while len(left) and size < width:
        lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
        longest = int(lengths.argmax())
        if lengths[longest] < TINY:
            break
        direction = left[longest] / lengths[longest]
        direction = direction - np.einsum("k,kj->j", np.einsum("kj,j->k", basis[:size], direction), basis[:size])
        basis[size] = direction / np.sqrt((direction**2).sum())
        taken.append(int(numbers[longest]))
        some = lengths > TINY
        numbers, left = numbers[some], left[some]
        left -= np.einsum("ij,j->i", left, basis[size])[:, np.newaxis] * basis[size]
        size += 1
    return basis[:size], taken


def complement(basis: Floats, width: int) -> Floats:
    """Return an orthonormal basis of the orthogonal complement of orthonormal rows."""
    if len(basis) == width:
        return np.empty((0, width))
    return orthonormal(np.eye(width), basis)[len(basis) :]


def gradients(
    model: Model, c: Circuit, runs: Sequence[range], leaves: Floats, actions: Ints, means: Floats
) -> tuple[Floats, Floats]:
    """Return the sums of the roots of these runs, one per action, and their derivatives by all learned entries."""
    learned, number = model.parameters.learned_size, len(actions)
    values, slopes = np.zeros(number), np.zeros((number, learned))
    size = max(16, AT_ONCE // (c.leaves + c.inner + 1))
    for first in range(0, number, size):
        some = slice(first, first + size)
        entries = [plain.entries_after(c, slot, actions[some]) for slot in range(c.slots)]
        factors = [means[places] for places in entries]
        weights = plain.chained(c, factors)
        cases = np.arange(number)[some]
        by_slot = [np.zeros(len(cases))] * c.slots
        for nodes in runs:
            up = plain.up(c, list(leaves[:, some]), weights, nodes)
            down = plain.down(c, up, weights, nodes)
            values[some] += up[-1]
            for n in nodes:
                for e in c.edges(n):
                    if c.slot[e] >= 0:
                        by_slot[c.slot[e]] = by_slot[c.slot[e]] + down[c.leaves + n] * up[c.child[e]]
        for slot in range(c.slots):
            chain = c.chain(slot)
            for part in chain:
                rest = math.prod(factors[other] for other in chain if other != part)
                learns = entries[part] < learned  # other entries are known or fixed
                slopes[cases[learns], entries[part][learns]] += (by_slot[slot] * rest)[learns]
    return values, slopes
