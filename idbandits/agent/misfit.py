"""Comparisons of what was seen with what a diagram expects, and how surprising each is, however often one looks.

A residual is what was seen less its probability, given the action, the context and the nodes seen before it. If the
diagram is right, residuals cannot be predicted: in whatever rounds, chosen by what was known before, their sum stays
near 0. A bet against that multiplies its stake by E = exp(c S - V (exp(|c|) - 1 - |c|)), S the sum and V the variance
of the residuals (Bennett's inequality). Its expectation is at most 1 at all times, so it ever reaches 1/p with
probability at most p (Ville's inequality). The same holds for averages of bets: over several c, and over comparisons.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numpy.typing import NDArray

from idbandits.circuit.fitting import Fitting
from idbandits.circuit.model import Model
from idbandits.kernel.compiling import FLOATS, INTS, kernel
from idbandits.kernel.types import Floats, Ints

TILTS = 0.05 * 1.5 ** np.arange(11)  # the c of the bets, up to 2.9
ROUNDS, EXPECTED, OBSERVED, VARIANCE = range(4)  # what is added up
ALL, CHOICE, NODE, BEFORE, LAG, POOLED = range(6)  # families of comparisons: each has the same share of the stake
LESS, MORE = range(2)  # seen so far in a round, compared with what was expected

Objects: TypeAlias = NDArray[Any]


class Comparisons(NamedTuple):
    """One entry per comparison."""

    node: Ints  # which observed node; -1 for all together
    state: Ints  # its state that was counted
    family: Ints
    by: Ints  # of CHOICE and NODE: which decision or context, which observed node
    value: Ints  # of what it was compared by: its place
    sums: Floats  # ROUNDS, EXPECTED, OBSERVED, VARIANCE
    log_bet: Floats  # the logarithm of what the stake has become, weighed by its share


@kernel(types.void(types.int64[:, ::1], INTS, FLOATS, FLOATS, FLOATS, types.float64[:, ::1]))
def tally(codes: Ints, starts: Ints, expected: Floats, observed: Floats, times: Floats, sums: Floats) -> None:
    """Add up rounds, expectations, observations and variances, by the value of every column of codes."""
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
    """The logarithms of bets on residuals with these sums and variances, in both directions."""
    cost = np.expm1(TILTS) - TILTS
    exponents = np.abs(residual)[..., None] * TILTS - variance[..., None] * cost
    other = -np.abs(residual)[..., None] * TILTS - variance[..., None] * cost
    return np.asarray(np.logaddexp.reduce(np.concatenate([exponents, other], axis=-1), axis=-1) - np.log(2 * len(TILTS)))


def compare(model: Model, fitting: Fitting, means: Floats, rounds: Ints, times: Floats) -> Comparisons:
    """All comparisons of rounds, which were seen so many times each, with what these means lead one to expect."""
    found = fitting.probabilities(means, rounds)
    nodes, axes = model.observed, len(model.decisions) + len(model.contexts)
    sizes = [n.states for n in (*model.decisions, *model.contexts, *nodes)]
    shares = _shares(model)
    before, lists = np.zeros(len(rounds)), []
    pooled: dict[int, Floats] = {}
    lags: dict[int, Floats] = {}
    for k, node in enumerate(nodes):
        seen = rounds[:, axes + k]
        columns = found[:, fitting.columns[k] : fitting.columns[k + 1]]
        surprise = np.where(before > 0, MORE, LESS) if k else np.full(len(rounds), -1)
        codes = np.ascontiguousarray(
            np.column_stack([np.zeros(len(rounds), np.int64), rounds[:, : axes + k], surprise])
        )
        starts = np.concatenate([[0], np.cumsum([1, *sizes[: axes + k], 2])]).astype(np.int64)
        column_of = np.repeat(np.arange(codes.shape[1]), np.diff(starts))
        family = np.array([ALL, *[CHOICE] * axes, *[NODE] * k, BEFORE])[column_of]
        by = np.array([-1, *range(axes), *range(k), -1])[column_of]
        value = np.arange(starts[-1]) - starts[column_of]
        for state in [1] if node.states == 2 else range(node.states):
            sums = np.zeros((starts[-1], 4))
            tally(codes, starts, np.ascontiguousarray(columns[:, state]), (seen == state).astype(float), times, sums)
            bets = _centred(sums, sums[0])
            some = sums[:, ROUNDS] > 0
            full = np.full(starts[-1], k), np.full(starts[-1], state), family, by, value, sums
            lists.append([*(column[some] for column in full), (bets + shares[family])[some]])
            if node.states == 2 and k:
                pooled[k] = sums[[0, -2, -1]]
                for l in range(1, k + 1):
                    if nodes[k - l].states == 2:
                        a = starts[1 + axes + k - l]
                        two = sums[[a, a, a + 1]]
                        two[0] = two[1] + two[2]
                        lags[l] = lags.get(l, np.zeros((3, 4))) + two
        scores = np.linspace(0.0, 1.0, node.states)
        before = before + np.where(seen >= 0, scores[seen] - columns @ scores, 0.0)
    for l, total in lags.items():
        two = np.full(2, -1)
        lists.append(
            [two, np.ones(2, np.int64), np.full(2, LAG), np.full(2, l), np.array([LESS, MORE]), total[1:],
             _centred(total, total[0])[1:] - np.log(2 * len(lags)) - np.log(6)]
        )  # fmt: skip
    if len(pooled) > 1:
        total = sum(pooled.values(), np.zeros((3, 4)))
        two = np.full(2, -1)
        lists.append(
            [two, np.ones(2, np.int64), np.full(2, POOLED), two, np.array([LESS, MORE]), total[1:],
             _centred(total, total[0])[1:] + shares[POOLED]]
        )  # fmt: skip
    return Comparisons(*(np.concatenate(column) for column in zip(*lists, strict=True)))


def _centred(sums: Floats, whole: Floats) -> Floats:
    """Bets on the residuals of groups, less what all rounds together would explain."""
    share = sums[:, VARIANCE] / max(whole[VARIANCE], 1e-300)
    share[0] = 0.0 if sums[0] is whole or np.array_equal(sums[0], whole) else share[0]
    residual = sums[:, OBSERVED] - sums[:, EXPECTED] - share * (whole[OBSERVED] - whole[EXPECTED])
    return log_bets(residual, np.maximum(sums[:, VARIANCE] * (1 - share), 0.0))


def _shares(model: Model) -> Floats:
    """The logarithm of the share of a comparison in the stake, by family: it depends on the diagram alone."""
    states = [1 if n.states == 2 else n.states for n in model.observed]
    choices = sum(n.states for n in (*model.decisions, *model.contexts))
    earlier = [sum(n.states for n in model.observed[:k]) for k in range(len(states))]
    numbers = np.array([
        sum(states), sum(states) * choices, sum(s * e for s, e in zip(states, earlier, strict=True)),
        2 * sum(states[1:]), 1, 2 * (sum(n.states == 2 for n in model.observed[1:]) > 1),
    ], dtype=np.float64)  # fmt: skip
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(numbers) - np.log((numbers > 0).sum()))
