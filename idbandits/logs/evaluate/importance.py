"""Importance weighting: each term of the reward is weighted by the decisions it depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Rng
from idbandits.logs.evaluate.clusters import Clusters, Estimate, interval, mean_estimate
from idbandits.logs.evaluate.policy_answers import PolicyError

Places = tuple[int, ...]


class Weights:
    """Ratios of probabilities, target over logging policy, of the logged choices of sets of decisions."""

    def __init__(
        self, decisions: int, target: Callable[[Places], Floats | None], logged: Callable[[Places], Floats | None]
    ) -> None:
        self.every: Places = tuple(range(decisions))
        self._target, self._logged = target, logged
        self._ratios: dict[Places, Floats | None] = {}

    def of(self, places: Places) -> Floats | None:
        """Return the weight of each round for a set of decisions; None if a probability is not known."""
        if places not in self._ratios:
            self._ratios[places] = self._ratio(places)
        return self._ratios[places]

    def _ratio(self, places: Places) -> Floats | None:
        above, below = self._target(places), self._logged(places)
        if above is None or below is None:
            known = below if above is None else above
            return np.ones(len(known)) if known is not None and not places else None
        if not places:
            return np.ones(len(above))
        if (below <= 0).any():
            at = int(np.argmax(below <= 0))
            raise PolicyError(f"propensity must be > 0 for logged choices, got {below[at]} in row {at}")
        return np.asarray(above / below)

    def covering(self, places: Places) -> tuple[Places, Floats]:
        """Return the weights of these decisions, or where they are not known, of all decisions."""
        weights = self.of(places)
        if weights is not None:
            return places, weights
        whole = self.of(self.every)
        if whole is None:
            raise PolicyError(
                "propensity must give probabilities of whole actions or of each decision, got those of some decisions"
            )
        return self.every, whole


class Weighted(NamedTuple):
    """Terms of the reward and the weights they get, by round."""

    terms: Floats  # (rounds, terms)
    weights: Floats  # (rounds, terms)

    @property
    def values(self) -> Floats:
        """Weighted reward of each round: its mean is the unbiased estimate."""
        return np.asarray((self.terms * self.weights).sum(axis=1))


def weighted(terms: Floats, sets: Sequence[Places], weights: Weights) -> Weighted:
    """Weight each term by a set of decisions: the one rule behind SIPS, IIPS and RIPS."""
    columns = [weights.covering(places)[1] for places in sets]
    return Weighted(terms, np.column_stack(columns) if columns else np.empty_like(terms))


def effective_size(clusters: Clusters, weights: Floats) -> float:
    """Return the smallest effective sample size of all terms: (sum of weights)^2 / sum of squares."""
    own = clusters.weights[:, np.newaxis]
    total, squares = (own * weights).sum(axis=0), (own * weights**2).sum(axis=0)
    sizes = np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)
    return float(sizes.min(initial=clusters.rounds))


def plain(clusters: Clusters, rewards: Weighted, rng: Rng) -> Estimate:
    """Return the mean of weighted rewards."""
    return mean_estimate(clusters, rewards.values, effective_size(clusters, rewards.weights), rng)


def self_normalised(clusters: Clusters, rewards: Weighted, rng: Rng) -> Estimate:
    """Return weighted means of all terms, each divided by the mean of its weights."""
    above = rewards.terms * rewards.weights
    unique, of_term = np.unique(rewards.weights, axis=1, return_inverse=True)
    own = of_term.ravel()
    numerators = np.column_stack([above[:, own == k].sum(axis=1) for k in range(unique.shape[1])])
    columns = [*numerators.T, *unique.T]
    sums = clusters.replicates(columns, rng)
    point = np.array([float(clusters.weights @ column) for column in columns])
    number = unique.shape[1]

    def ratio(totals: Floats) -> Floats:
        over, under = totals[..., :number], totals[..., number : 2 * number]
        return np.asarray(np.divide(over, under, out=np.zeros_like(over), where=under > 0).sum(axis=-1))

    low, high = interval(ratio(sums))
    return Estimate(float(ratio(point)), low, high, effective_size(clusters, rewards.weights))


def clipping_limit(clusters: Clusters) -> float:
    """Return the default limit of clipped weights: the square root of the number of rounds, at least 10."""
    return max(10.0, float(np.sqrt(clusters.rounds)))


def clipped(rewards: Weighted, limit: float) -> Weighted:
    """Limit all weights from above."""
    return Weighted(rewards.terms, np.minimum(rewards.weights, limit))


def pseudo_inverse(terms: Floats, weights: Weights) -> Floats | None:
    """Return the rewards of rounds under the pseudo-inverse estimator for product policies.

    The reward is assumed to be a sum of unknown functions of single decisions (Swaminathan et al. 2017, example 4):
    the weight is the sum of the ratios of all decisions minus their number plus 1.
    """
    ratios = [weights.of((k,)) for k in weights.every]
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < len(ratios):
        return None
    weight = np.sum(known, axis=0) + 1 - len(ratios)
    return np.asarray(terms.sum(axis=1) * weight)
