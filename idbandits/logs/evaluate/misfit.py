"""Check of the diagram: residuals of held-out rounds must not depend on what was chosen."""

from __future__ import annotations

import math

import numpy as np

from idbandits.kernel.array_types import Bools, Floats, Ints, Rng
from idbandits.logs.evaluate.clusters import Clusters
from idbandits.logs.evaluate.cross_fit import Fitted

MOST_ROUNDS = 20_000  # that are checked
DRAWS = 30  # of the posterior, for the part of residuals that is due to unknown means
FEWEST = 30.0  # rounds with a choice, for its sum of residuals to be nearly normal
IMPOSSIBLE = 1e-12  # p-value of a diagram that rules out logged rounds


def misfit(fitted: Fitted, choices: Ints, terms: Floats, decisions: int, clusters: Clusters, rng: Rng) -> float:
    """Return a p-value for the hypothesis that the diagram is right about the expected reward of logged actions.

    For each term and each choice of each decision, the residuals of the rounds with that choice are summed. A sum has
    the variance of its sessions and that of the fitted means. The largest z-score is corrected for the number of sums
    (Bonferroni). Terms that are NaN are not checked.
    """
    if fitted.impossible:
        return IMPOSSIBLE
    rounds = np.arange(len(choices))
    if len(rounds) > MOST_ROUNDS:
        rounds = np.sort(rng.choice(rounds, MOST_ROUNDS, replace=False))
    scores: list[Floats] = []
    observed, weights = ~np.isnan(terms[rounds]), clusters.weights[rounds]
    expected = _expected(fitted, choices, rounds)
    residual = np.where(observed, terms[rounds] - expected[0], 0.0) * weights[:, np.newaxis]
    changes = np.where(observed, expected[1:] - expected[1:].mean(axis=0), 0.0) * weights[:, np.newaxis]
    for decision in range(decisions):
        chosen = choices[rounds, decision]
        number = np.bincount(chosen, weights).astype(np.float64)
        for term in range(terms.shape[1]):
            common = _common(chosen, observed[:, term], number)
            total = np.bincount(chosen, residual[:, term], len(number))
            squares = _variance(chosen, residual[:, term], clusters.session[rounds], len(number))
            unknown = np.var([np.bincount(chosen, own[:, term], len(number)) for own in changes], axis=0, ddof=1)
            variance = squares + unknown
            valid = common & (variance > 0)
            scores.append(np.abs(total[valid]) / np.sqrt(variance[valid]))
    every = np.concatenate([np.empty(0), *scores])
    if not len(every):
        return 1.0
    return float(np.clip(len(every) * math.erfc(float(every.max()) / math.sqrt(2)), IMPOSSIBLE, 1.0))


def _expected(fitted: Fitted, choices: Ints, rounds: Ints) -> Floats:
    """Return expected terms of rounds under posterior means, then under draws: (1 + DRAWS, rounds, terms)."""
    number = min(DRAWS, *(len(fold.draws) for fold in fitted.folds))
    out = np.empty((1 + number, len(rounds), len(fitted.circuit.term_leaf)))
    for place, fold in enumerate(fitted.folds):
        own = np.flatnonzero(fitted.of_round[rounds] == place)
        distinct, inverse = np.unique(choices[rounds[own]], axis=0, return_inverse=True)
        for k, parameters in enumerate([fold.parameters, *fold.draws[:number]]):
            values = fitted.circuit.values(parameters, distinct, np.empty((len(distinct), 0), np.int64))
            out[k, own] = values[inverse.ravel()]
    return out


def _common(chosen: Ints, observed: Bools, number: Floats) -> Bools:
    """Return the choices with enough rounds in which a term was observed."""
    return np.asarray(np.bincount(chosen, observed, len(number)) >= FEWEST)


def _variance(chosen: Ints, residual: Floats, session: Ints, states: int) -> Floats:
    """Return the variance of the sum of residuals of each choice, robust to dependence within sessions."""
    if len(np.unique(session)) == len(session):
        return np.asarray(np.bincount(chosen, residual**2, states))
    pairs, inverse = np.unique(session * states + chosen, return_inverse=True)
    sums = np.bincount(inverse.ravel(), residual, len(pairs))
    return np.asarray(np.bincount(pairs % states, sums**2, states))


def odds_against(p_value: float) -> float:
    """Return the largest Bayes factor for a misfit that a p-value supports (Sellke, Bayarri and Berger 2001)."""
    return 1.0 if p_value >= 1 / math.e else 1 / (-math.e * p_value * math.log(p_value))
