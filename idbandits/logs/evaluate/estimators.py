"""Estimates of a policy's value on prepared rounds: by weighting, and by weighting the residuals of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.logs.evaluate.clusters import NORMAL, Clusters, Estimate, mean_estimate
from idbandits.logs.evaluate.combination import Evidence, combine
from idbandits.logs.evaluate.cross_fit import Direct, Fitted
from idbandits.logs.evaluate.dependence import Dependence
from idbandits.logs.evaluate.deviations import deviations
from idbandits.logs.evaluate.logged_columns import Logged
from idbandits.logs.evaluate.stagewise import chains, nearest_chains, residuals, whole_chains
from idbandits.logs.evaluate.target import Groups, Target
from idbandits.logs.evaluate.weight_checks import WeightChecks, check_weights, overlap_of
from idbandits.logs.rounds import Rounds

from idbandits.logs.evaluate.importance import (  # isort: skip
    Weights, clipped, clipping_limit, effective_size, plain, pseudo_inverse, self_normalised, weighted,
)  # fmt: skip

DOUBTFUL = 0.05  # probability of a right diagram, below which users should know
Places = tuple[int, ...]


class Settings(NamedTuple):
    """Options of an evaluation."""

    learning: bool = False
    clip: float | None = None
    folds: int = 2


class Data(NamedTuple):
    """Log with everything that estimators need about it."""

    model: Model
    rounds: Rounds
    groups: Groups
    clusters: Clusters
    dependence: Dependence
    terms: Floats  # by round and term; expected ones where the log does not show them
    fitted: Fitted | None
    notes: list[str]
    hidden: float = 0.0  # share of the terms that the log does not show


def weigh(
    data: Data, weights: Weights, target: Target | Logged, settings: Settings, estimates: dict[str, Estimate],
    checks: dict[str, WeightChecks], rng: Rng,
) -> None:  # fmt: skip
    """Add all estimates by importance weighting."""
    clusters, terms = data.clusters, data.terms
    sets = [term.decisions for term in data.dependence.terms]
    covered = [weights.covering(places)[0] for places in sets]
    if covered != sets:
        data.notes.append("Propensities of single decisions are not known: terms are weighted by whole actions.")

    def overlap(own: list[tuple[int, ...]]) -> float:
        if isinstance(target, Logged):
            return float("nan")
        return overlap_of(target, data.rounds.choices, own, clusters)

    structured = weighted(terms, sets, weights)
    estimates["IPS"] = plain(clusters, structured, rng)
    checks["IPS"] = check_weights(clusters, structured, overlap(covered))
    estimates["self-normalised IPS"] = self_normalised(clusters, structured, rng)
    limit = clipping_limit(clusters) if settings.clip is None else settings.clip
    estimates["clipped IPS"] = plain(clusters, clipped(structured, limit), rng)
    for name, own in _other_sets(data.dependence, weights).items():
        if all(weights.of(places) is not None for places in own):
            rewards = weighted(terms, own, weights)
            estimates[name] = plain(clusters, rewards, rng)
            checks[name] = check_weights(clusters, rewards, overlap(own))
    checks["self-normalised IPS"] = checks["IPS"]
    if len(weights.every) > 1 and not data.model.feasibility.conflicts.any():
        values = pseudo_inverse(terms, weights)
        if values is not None:
            effective = effective_size(clusters, structured.weights)
            estimates["pseudo-inverse"] = mean_estimate(clusters, values, effective, rng)


def _other_sets(dependence: Dependence, weights: Weights) -> dict[str, list[tuple[int, ...]]]:
    """Return sets of decisions that published estimators weight each term by, whatever the diagram says.

    SIPS weights by all decisions. Where each term has a nearest decision of its own, as the click at a position has,
    IIPS weights by that one and RIPS by those down to it.
    """
    sets = {"SIPS": [weights.every] * len(dependence.terms)}
    nearest = [term.nearest for term in dependence.terms]
    if len(weights.every) > 1 and sorted(nearest) == [(k,) for k in weights.every]:
        sets["IIPS"] = list(nearest)
        sets["RIPS"] = [weights.every[: places[0] + 1] for places in nearest]
    return sets


def add_robust(
    data: Data, weights: Weights, target: Target, direct: Direct, estimates: dict[str, Estimate], rng: Rng
) -> None:  # fmt: skip
    """Add doubly robust estimates."""
    assert data.fitted is not None
    log: tuple[Ints, Ints, Floats] = data.rounds.choices, data.rounds.seen, data.terms
    candidates = {
        "stagewise DR": chains(data.dependence, weights),
        "nearest DR": nearest_chains(data.dependence, weights),
    }
    if weights.of(weights.every) is not None:
        candidates = {"whole-action DR": whole_chains(data.dependence, weights)} | candidates
    columns: dict[str, Floats] = {}
    used: list[Any] = []
    for name, stages in candidates.items():
        if stages not in used:
            used.append(stages)
            own = residuals(data.fitted, data.dependence, stages, weights, target, log, rng)
            columns[name] = direct.values + own
    for (name, values), stages in zip(columns.items(), used, strict=True):
        last = np.column_stack([weights.covering(chain[-1])[1] for chain in stages])
        estimates[name] = mean_estimate(data.clusters, values, effective_size(data.clusters, last), rng)
    estimates["doubly robust"] = _combined(data, weights, direct, columns, used, estimates)


def _combined(
    data: Data, weights: Weights, direct: Direct, columns: dict[str, Floats],
    used: Sequence[Sequence[Sequence[Places]]], estimates: dict[str, Estimate],
) -> Estimate:  # fmt: skip
    """Return the combination of doubly robust estimates and the model."""
    assert data.fitted is not None
    choices, clusters, terms = data.rounds.choices, data.clusters, data.dependence.terms
    expected = data.fitted.values(choices, np.empty((0, 0), np.int64), np.arange(len(choices)))
    errors = data.terms - expected
    covariance = clusters.covariance([*columns.values(), direct.values])
    uncorrected, evidence = list[float](), list[Evidence]()
    for at, stages in enumerate(used):
        last = [chain[-1] for chain in stages]
        ratios = np.column_stack([weights.covering(places)[1] for places in last])
        uncorrected.append(1 - float(np.mean([clusters.mean(column) for column in ratios.T])))
        seen = float((clusters.weights**2) @ (ratios**2 @ (clusters.weights @ errors**2)))
        covariance[at, at] = max(covariance[at, at], seen / clusters.rounds**3)
        assumed = [tuple(k for k in weights.every if k not in places) for places in last]
        evidence.append(deviations(errors, assumed, choices, clusters))
    evidence.append(deviations(errors, [weights.every] * len(terms), choices, clusters))
    uncorrected.append(1.0)
    covariance += direct.posterior_variance  # of all: they add residuals to the efficient estimate of the same rounds
    shift = direct.estimate.value - clusters.mean(direct.values)  # means over the posterior, and values at its mean
    means = [clusters.mean(values) for values in (*columns.values(), direct.values)]
    points = [mean + share * shift for mean, share in zip(means, uncorrected, strict=True)]
    combined = combine(points, covariance, uncorrected, evidence[1:])
    if combined.right < DOUBTFUL:
        data.notes.append(
            "The log contradicts the diagram: its rewards depend on choices in ways the diagram rules out."
        )
    width = NORMAL * combined.standard_error
    sizes = [*(estimates[name].effective for name in columns), clusters.rounds]
    effective = min(float(np.clip(combined.shares, 0, 1) @ sizes), clusters.rounds)
    return Estimate(combined.value, combined.value - width, combined.value + width, effective)
