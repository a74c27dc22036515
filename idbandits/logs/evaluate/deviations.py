"""Deviations of held-out rounds from the fitted diagram: residuals must not depend on what was chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.logs.evaluate.clusters import Clusters
from idbandits.logs.evaluate.combination import Evidence

FEWEST = 30.0  # rounds with a choice, for the mean of its residuals to be nearly normal
Places = tuple[int, ...]


def deviations(residuals: Floats, assumed: Sequence[Places], choices: Ints, clusters: Clusters) -> Evidence:
    """Return the mean residual of each choice of each decision, over the terms that are assumed not to deviate there.

    `residuals` are observed terms minus those expected by models that were fitted to other sessions, by round and term;
    `assumed` has, for each term, the decisions that its residual should not depend on.
    """
    means, variances, decisions = list[Floats](), list[Floats](), 0
    for decision in sorted({k for places in assumed for k in places}):
        decisions += 1
        own = [term for term, places in enumerate(assumed) if decision in places]
        chosen, residual = choices[:, decision], residuals[:, own].sum(axis=1) * clusters.weights
        number = np.bincount(chosen, clusters.weights)
        total = np.bincount(chosen, residual)
        squares = _squares(chosen, residual, clusters.session, len(number)) - total**2 / np.maximum(number, 1.0)
        valid = (number >= FEWEST) & (squares.sum() > 0)
        common = squares.sum() / number.sum()  # choices without any reward seem to have no variance
        means.append(total[valid] / number[valid])
        variances.append(np.maximum(squares[valid] / number[valid], common) / number[valid])
    empty = [np.empty(0)]
    return Evidence(np.concatenate(means or empty), np.concatenate(variances or empty), decisions)


def _squares(chosen: Ints, residual: Floats, session: Ints, states: int) -> Floats:
    """Return the sum of the squared sums of residuals of each choice by session."""
    pairs, inverse = np.unique(session * states + chosen, return_inverse=True)
    sums = np.bincount(inverse.ravel(), residual, len(pairs))
    return np.asarray(np.bincount(pairs % states, sums**2, states))
