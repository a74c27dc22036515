"""What rounds tell about the means: derivatives of the likelihood, and the directions that it does not see.

At means without a pattern, the gradients of the probabilities of all that can be seen, whatever is done, span the
directions in which the means are learned. (That is the row space of the Fisher information.) What they leave out
is never learned. The gradients are those of enough random rounds, some of them with most nodes unseen, and some
made for the rows that are still in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, final

import numpy as np

from idbandits.circuit import reference as plain
from idbandits.circuit.circuit import Circuit
from idbandits.circuit.model import Model
from idbandits.identifiability.sample_rounds import Drawing, Rounds, Row, drawn_as_possible
from idbandits.kernel.array_types import Bools, Floats, Ints

TINY = 1e-9  # what is left of a gradient of length 1 that is shorter than that is rounding
FAINT = 1e-280  # a probability below that counts as none
CLEAR = 1e-6  # a share of a direction beyond that is there
AT_ONCE = 2_000_000  # numbers in one pass
SOME = 48  # rounds that are drawn at least
MOST_DOUBTS = 300  # rounds that are made for rows in doubt, at a time


class Point(NamedTuple):
    """What rounds tell at some means: their log-likelihoods, the derivatives of these, and what they leave free.

    Directions are in coordinates: each row has one less than it has states. `free` has orthonormal rows.
    """

    means: Floats  # all parameters
    logs: Floats
    scores: Floats
    free: Floats


@final
class Information:
    """What can be learned of the means of a model, at means that are drawn from a fixed seed.

    `point.free` may be too large, never too small, until `settle` was called. Nothing is to be had where rounds have
    probabilities that floats do not hold (`is_faint`). Rewards are in units of the largest (`scale`).
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
        self._fixed = np.eye(len(self.row_of))[self._is_fixed()[self.row_of]]  # directions in which nothing can move
        self._drawing = Drawing(model, self._rng)
        self.rounds = self._drawing.rounds(max(SOME, 2 * len(self.row_of)))
        self.point = self.at(self.random_means())
        self.is_faint = bool((self.point.logs[drawn_as_possible(len(self.point.logs))] <= np.log(FAINT)).any())
        self._is_settled = not len(self.point.free)

    def at(self, means: Floats) -> Point:
        """What the rounds tell at some means."""
        logs, scores = self._log_likelihoods(self.rounds, means)
        return Point(means, logs, scores, complement(orthonormal(scores, self._fixed), scores.shape[1]))

    def _is_fixed(self) -> Bools:
        """Of every row: whether it is known."""
        return np.array([row.number in self.model.learned[row.table].fixed for row in self.rows], dtype=np.bool_)

    def log_likelihoods(self, means: Floats) -> Floats:
        """Those of the rounds at some means."""
        c = self.model.likelihood.circuit
        factors = [means[plain.entries_after(c, slot, self.rounds.actions)] for slot in range(c.slots)]
        root: Floats = plain.up(c, self._leaves(self.rounds), plain.chained(c, factors))[-1]
        return np.log(np.maximum(root, FAINT))

    def _leaves(self, rounds: Rounds) -> list[Floats]:
        likelihood = self.model.likelihood
        leaves: list[Floats] = [np.ones(len(rounds.actions))] * likelihood.circuit.leaves
        for states, node in zip(rounds.seen.T, self.model.observed, strict=True):
            first = likelihood.indicators[node.name]
            for state in range(node.states):
                leaves[first + state] = ((states == state) | (states < 0)).astype(np.float64)
        return leaves

    def random_means(self) -> Floats:
        """All parameters, the means of the learned ones drawn without a pattern, away from 0 and 1.

        Those of fixed rows are drawn too, though nothing reads them.
        """
        parts = []
        for table in self.model.learned.values():
            rows = self._rng.uniform(0.25, 1.0, size=(table.size // table.states, table.states))
            parts.append((rows / rows.sum(axis=1, keepdims=True)).ravel())
        return np.concatenate([*parts, self.model.parameters.known])

    def settle(self) -> None:
        """Add rounds for rows in doubt until two additions in a row settled none, unless that was done before."""
        if self._is_settled:
            return
        self._is_settled = True
        point, futile = self.point, 0
        known = orthonormal(point.scores, self._fixed)
        while futile < 2 and len(point.free):
            doubtful = np.flatnonzero(self.shares(point.free) > CLEAR)
            picked = self._rng.permutation(np.repeat(doubtful, 4))[:MOST_DOUBTS]
            made = self._drawing.rounds_for([self.rows[i] for i in picked.tolist()])
            drawn = self._drawing.rounds(len(self.row_of))
            more = Rounds(*(np.concatenate(parts) for parts in zip(made, drawn, strict=True)))
            logs, scores = self._log_likelihoods(more, point.means)
            self.rounds = Rounds(*(np.concatenate(parts) for parts in zip(self.rounds, more, strict=True)))
            before, known = len(known), orthonormal(scores, known)
            futile = futile + 1 if len(known) == before else 0
            logs, scores = np.concatenate([point.logs, logs]), np.concatenate([point.scores, scores])
            point = Point(point.means, logs, scores, complement(known, scores.shape[1]))
        kept = sorted({*eliminated(point.scores)[1], *range(min(SOME, len(point.logs)))})  # they tell as much as all
        self.rounds = Rounds(*(part[kept] for part in self.rounds))
        point = point._replace(logs=point.logs[kept], scores=point.scores[kept])
        self.point = min(point, self.at(self.random_means()), key=lambda p: len(p.free))  # not by an accident of means

    def shares(self, directions: Floats) -> Floats:
        """How much of each row orthonormal directions move: from 0 to the number of its own directions."""
        shares: Floats = np.bincount(self.row_of, (directions**2).sum(axis=0), len(self.rows)).astype(np.float64)
        return shares

    @property
    def unseen(self) -> Bools:
        """The rows that nothing observed depends on."""
        return self.shares(self.point.free) > np.array([row.states - 1 for row in self.rows]) - CLEAR

    def actions(self, number: int, rows: Sequence[Row] = ()) -> Ints:
        """Random feasible actions and contexts, every choice in turn, and some under which these rows may be read."""
        return np.concatenate([self._drawing.actions(number), self._drawing.rounds_for(rows).actions])

    def expected_rewards(self, actions: Ints, means: Floats, model: Model | None = None) -> tuple[Floats, Floats]:
        """The expected rewards of actions, or of a model with other rewards, and their derivatives in coordinates."""
        rewards = (model or self.model).rewards
        runs = [range(a, b) for a, b in zip(rewards.ends, rewards.ends[1:], strict=False)]
        leaves = [np.ones(len(actions))] * rewards.circuit.leaves
        values, slopes = gradients(model or self.model, rewards.circuit, runs, leaves, actions, means)
        return values / self.scale, self._coordinates(slopes / self.scale)

    def _log_likelihoods(self, rounds: Rounds, means: Floats) -> tuple[Floats, Floats]:
        """The log-likelihoods of rounds and their derivatives in coordinates; zeros for impossible and faint rounds."""
        c = self.model.likelihood.circuit
        values, slopes = gradients(self.model, c, [range(c.inner)], self._leaves(rounds), rounds.actions, means)
        slopes[values <= FAINT] = 0.0
        values = np.maximum(values, FAINT)
        return np.log(values), self._coordinates(slopes / values[:, np.newaxis])

    def _coordinates(self, slopes: Floats) -> Floats:
        """Derivatives by the entries of all rows, as derivatives along the directions in which rows can move."""
        parts = [np.empty((len(slopes), 0))]
        for name, table in self.model.learned.items():
            first = self.model.parameters.offsets[name]
            by_row = slopes[:, first : first + table.size].reshape(len(slopes), -1, table.states)
            parts.append(np.einsum("crs,sd->crd", by_row, _basis(table.states)).reshape(len(slopes), -1))
        return np.concatenate(parts, axis=1)

    def entries(self, direction: Floats) -> Floats:
        """A direction in coordinates as changes of all parameters."""
        changes, at = [np.empty(0)], 0
        for table in self.model.learned.values():
            own = direction[at : (at := at + table.size // table.states * (table.states - 1))]
            changes.append(np.einsum("rd,sd->rs", own.reshape(-1, table.states - 1), _basis(table.states)).ravel())
        return np.concatenate([*changes, np.zeros(len(self.model.parameters.known))])


@cache
def _basis(states: int) -> Floats:
    """Orthonormal directions in which a row can move, as columns: its entries still sum to 1."""
    columns = np.eye(states)[:, 1:] - 1.0 / states
    return orthonormal(columns.T).T


def orthonormal(rows: Floats, before: Floats | None = None) -> Floats:
    """An orthonormal basis of what rows span, continuing one."""
    return eliminated(rows, before)[0]


def eliminated(rows: Floats, before: Floats | None = None) -> tuple[Floats, list[int]]:
    """An orthonormal basis of what rows span, continuing one, and the rows that it took: the longest left each time.

    Rows are brought to length 1 beforehand: rare rounds count as much as others. (Elimination, since singular values
    by several threads are slow where other processes are busy.)
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
    """An orthonormal basis of what is orthogonal to orthonormal rows."""
    if len(basis) == width:
        return np.empty((0, width))
    return orthonormal(np.eye(width), basis)[len(basis) :]


def gradients(
    model: Model, c: Circuit, runs: Sequence[range], leaves: Sequence[Floats], actions: Ints, means: Floats
) -> tuple[Floats, Floats]:
    """The sums of the roots of these runs, one per action, and their derivatives by all learned entries."""
    learned, number = model.parameters.learned_size, len(actions)
    values, slopes = np.zeros(number), np.zeros((number, learned))
    size = max(16, AT_ONCE // (c.leaves + c.inner + 1))
    for first in range(0, number, size):
        some = slice(first, first + size)
        here = actions[some]
        entries = [plain.entries_after(c, slot, here) for slot in range(c.slots)]
        factors = [means[places] for places in entries]
        weights = plain.chained(c, factors)
        by_slot = [np.zeros(len(here))] * c.slots
        for nodes in runs:
            values[some] += _add_slopes(c, [leaf[some] for leaf in leaves], weights, nodes, by_slot)
        cases = np.arange(first, first + len(here))
        for slot in range(c.slots):
            for part, rest in _parts(c, slot, factors):
                own = entries[part] < learned  # others are known, or fixed
                slopes[cases[own], entries[part][own]] += (by_slot[slot] * rest)[own]
    return values, slopes


def _add_slopes(
    c: Circuit, leaves: Sequence[Floats], weights: Sequence[Floats], nodes: range, by_slot: list[Floats]
) -> Floats:
    """Add the derivatives of the root of some nodes by every slot; the root's values."""
    values = plain.up(c, leaves, weights, nodes)
    slopes = plain.down(c, values, weights, nodes)
    for n in nodes:
        for e in c.edges(n):
            if c.slot[e] >= 0:
                by_slot[c.slot[e]] = by_slot[c.slot[e]] + slopes[c.leaves + n] * values[c.child[e]]
    root: Floats = values[-1]
    return root


def _parts(c: Circuit, slot: int, factors: Sequence[Floats]) -> Iterator[tuple[int, Floats]]:
    """The slots that a slot is the product of, each with the product of the others."""
    chain = [slot]
    while c.slot_also[chain[-1]] >= 0:
        chain.append(c.slot_also[chain[-1]])
    for i, part in enumerate(chain):
        rest = np.ones_like(factors[slot])
        for other in (*chain[:i], *chain[i + 1 :]):
            rest = rest * factors[other]
        yield part, rest
