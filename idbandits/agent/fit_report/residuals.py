"""Comparisons of what was seen with what a diagram expects, with bets that remain valid however often one looks.

A residual is what was seen less its probability, given the action, the context and the nodes seen before it in the
round. If the diagram is right, residuals cannot be foreseen: in any rounds that are chosen by what was known before,
their sum S stays near 0. A bet against that has turned 1 into exp(c S - V (exp(c) - 1 - c)), V being the variance of
the sum (Bennett's inequality). At no time is it expected to be more than 1, so the probability that it ever reaches 1/p
is p at most (Ville's inequality). So it is with averages of bets: over several c, both directions, all comparisons.

The tables are not known but fitted to the same rounds. That makes residuals smaller, so bets win less often still.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.likelihood import Fitting
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, kernel

TILTS = 0.06 * 1.6 ** np.arange(9)  # the c of the bets: for sums of many rounds, and of few
TILT_COSTS = np.expm1(TILTS) - TILTS
TILT_SHARES = np.log(TILTS**-0.5 / (2 * (TILTS**-0.5).sum()))  # in both directions
ROUNDS, EXPECTED, OBSERVED, VARIANCE, RESIDUAL, SPREAD = range(6)  # what is added up; the last two after centring
NOTHING, CHOICE, NODE, LAG, SO_FAR = range(5)  # what nodes are compared by: families of comparisons
FAMILY_SHARES = np.array([0.1, 0.15, 0.25, 0.15, 0.35])  # of the stake
LESS, MORE = range(2)  # seen so far in a round than expected


class Comparisons(NamedTuple):
    """One entry per comparison, of the rounds in which something had some value."""

    node: Ints  # which observed node; -1 for all of them
    state: Ints  # its state that is counted
    family: Ints  # what it is compared by
    by: Ints  # CHOICE: which decision or context; NODE: which observed node; LAG: how many nodes before
    value: Ints  # of what it is compared by
    sums: Floats  # ROUNDS, EXPECTED, …
    log_bet: Floats  # the logarithm of what the share of the stake became

    def where(self, mask: Bools) -> Comparisons:
        """Return the comparisons in a mask."""
        columns: list[Any] = [column[mask] for column in self]
        return Comparisons(*columns)


@kernel(types.void(types.int64[:, ::1], INTS, FLOATS, FLOATS, FLOATS, types.float64[:, ::1]))
def tally(codes: Ints, starts: Ints, expected: Floats, observed: Floats, times: Floats, sums: Floats) -> None:
    """Add up rounds, expectations, observations and variances, for every value of every column of codes."""
    for r in range(len(codes)):
        p = expected[r]
        if np.isnan(p):
            continue
        for g in range(codes.shape[1]):
            if codes[r, g] >= 0:
                at = starts[g] + codes[r, g]
                sums[at, 0] += times[r]
                sums[at, 1] += times[r] * p
                sums[at, 2] += times[r] * observed[r]
                sums[at, 3] += times[r] * p * (1.0 - p)


def log_bets(residual: Floats, variance: Floats) -> Floats:
    """Return the logarithms of what bets on sums of residuals with these variances became.

    >>> np.exp(log_bets(np.array([0.0, 5.0, 10.0]), np.array([4.0, 4.0, 4.0]))).round(1).tolist()
    [0.8, 1.6, 63.2]
    """
    up, cost = residual[..., None] * TILTS, variance[..., None] * TILT_COSTS
    both = np.concatenate([TILT_SHARES + up - cost, TILT_SHARES - up - cost], axis=-1)
    return np.asarray(np.logaddexp.reduce(both, axis=-1))


class _By(NamedTuple):
    """A column to compare by: its values, and the place among them in each round, -1 if there is none."""

    family: int
    by: int
    values: Ints
    codes: Ints


def compare(model: Model, fitting: Fitting, means: Floats, rounds: Ints, times: Floats) -> Comparisons:
    """Return all comparisons of rounds, each seen `times` times, with what these means make one expect."""
    probabilities = fitting.probabilities(means, rounds)
    choices, nodes = len(model.decisions) + len(model.contexts), model.observed
    columns = [_By(NOTHING, -1, np.zeros(1, np.int64), np.zeros(len(rounds), np.int64))]
    columns += [_By(CHOICE, g, *np.unique(rounds[:, g], return_inverse=True)) for g in range(choices)]
    so_far = np.zeros(len(rounds))  # seen, less expected
    compared: list[Comparisons] = []
    for k, node in enumerate(nodes):
        seen, expected = rounds[:, choices + k], probabilities[:, fitting.columns[k] : fitting.columns[k + 1]]
        amount = _By(SO_FAR, -1, np.array([LESS, MORE]), np.where(so_far > 0, MORE, LESS))
        own = [*columns, amount] if k else columns
        sizes = [len(c.values) for c in own]
        codes, starts = np.stack([c.codes for c in own], axis=1), np.concatenate([[0], np.cumsum(sizes)])
        family, by = (np.repeat(numbers, sizes) for numbers in ([c.family for c in own], [c.by for c in own]))
        values, same = np.concatenate([c.values for c in own]), np.ones(sum(sizes), np.int64)
        for state in _counted(node):
            sums, right = np.zeros((len(values), 6)), (seen == state).astype(np.float64)
            tally(codes, starts, np.ascontiguousarray(expected[:, state]), right, times, sums)
            own_comparisons = Comparisons(
                k * same, state * same, family, by, values, _centred(sums), np.zeros(len(values))
            )
            compared.append(own_comparisons.where(sums[:, ROUNDS] > 0))
        columns.append(_By(NODE, k, np.arange(node.states), seen))
        scores = np.linspace(0.0, 1.0, node.states)
        so_far = so_far + np.where(seen >= 0, scores[seen] - expected @ scores, 0.0)
    return _with_bets(model, _pooled(nodes, _joined(compared)))


def _joined(parts: Sequence[Comparisons]) -> Comparisons:
    return Comparisons(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _counted(node: Node) -> Sequence[int]:
    """Return the states of a node that are counted: of a two-state node, 1 alone."""
    return [1] if node.states == 2 else range(node.states)


def _centred(sums: Floats) -> Floats:
    """Subtract the share of all rounds, which are the first group, from residuals; mutate `sums` in place.

    That is what fitted tables do anyway: they make all rounds together fit.
    """
    share = sums[:, VARIANCE] / max(sums[0, VARIANCE], 1e-300)
    share[0] = 0.0
    residual = sums[:, OBSERVED] - sums[:, EXPECTED]
    sums[:, RESIDUAL] = residual - share * residual[0]
    sums[:, SPREAD] = sums[:, VARIANCE] * np.maximum(1 - share, 0.0)
    return sums


def _pooled(nodes: Sequence[Node], every: Comparisons) -> Comparisons:
    """Pool comparisons of two-state nodes: by the node a number of places before, and by all that was seen so far."""
    two = np.array([n.states == 2 for n in nodes])
    lags = (every.family == NODE) & two[every.node]
    lags &= two[np.where(lags, every.by, 0)]
    so_far = (every.family == SO_FAR) & two[every.node]
    parts = [every.where(every.family != SO_FAR)]
    for family, mask, lag in [(LAG, lags, every.node - every.by), (SO_FAR, so_far, np.full(len(every.by), -1))]:
        if mask.any():
            keys, which = np.unique(np.stack([lag[mask], every.value[mask]]), axis=1, return_inverse=True)
            sums, same = np.zeros((keys.shape[1], every.sums.shape[1])), np.ones(keys.shape[1], np.int64)
            np.add.at(sums, which.ravel(), every.sums[mask])
            parts.append(Comparisons(-same, same, family * same, keys[0], keys[1], sums, np.zeros(len(sums))))
    return _joined(parts)


def _with_bets(model: Model, c: Comparisons) -> Comparisons:
    """Return comparisons with their bets: the shares of the stake depend on the diagram alone."""
    states = [len(_counted(n)) for n in model.observed]
    choices = sum(n.states for n in (*model.decisions, *model.contexts))
    pairs = sum(s * n.states for k, s in enumerate(states) for n in model.observed[:k])
    two = [n.states == 2 for n in model.observed]
    lags = {k - j for k in range(len(two)) for j in range(k) if two[k] and two[j]}
    numbers = np.array([sum(states), sum(states) * choices, pairs, 2 * len(lags), 2 * any(two[1:])])
    shares = np.where(numbers > 0, FAMILY_SHARES, 0.0) / np.maximum(numbers, 1)
    shares /= FAMILY_SHARES[numbers > 0].sum()
    bets = log_bets(c.sums[:, RESIDUAL], c.sums[:, SPREAD])
    return c._replace(log_bet=bets + np.log(shares[c.family]))
