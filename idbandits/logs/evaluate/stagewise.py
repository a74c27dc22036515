"""Doubly robust estimates on a diagram: model values plus weighted residuals, decision after decision.

Let a term of the reward depend on the decisions d1 < … < dp. With the prefix S = {d1, …, ds} and what was observed of
nodes that depend on S alone, the residual of stage s is the expected term after these observations minus the one
before, with later decisions drawn from the policy, and it is weighted by S alone. The sum of all stages telescopes:
it is unbiased if the weights are right or if the model is. In a cascade this is the per-decision doubly robust
estimate with the value to go; where terms depend on one decision, it is the usual one for each term.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.logs.evaluate.cross_fit import Fitted
from idbandits.logs.evaluate.dependence import Dependence
from idbandits.logs.evaluate.importance import Weights
from idbandits.logs.evaluate.target import Target

Places = tuple[int, ...]
COMPLETIONS = 4  # draws of later decisions, if the policy is random
Links = dict[tuple[Places, Places], tuple[list[int], list[int]]]  # (before, stage): terms that end there, that go on


def chains(dependence: Dependence, weights: Weights) -> list[list[Places]]:
    """Return the stages of each term: growing sets of decisions whose weights are known."""
    result = []
    for term in dependence.terms:
        last, _ = weights.covering(term.decisions)
        prefixes = [term.decisions[:k] for k in range(1, len(term.decisions))]
        known = [places for places in prefixes if weights.of(places) is not None]
        result.append([*known, last])
    return result


def whole_chains(dependence: Dependence, weights: Weights) -> list[list[Places]]:
    """Return one stage per term with all decisions: right whatever the term depends on."""
    return [[weights.every] for _ in dependence.terms]


def nearest_chains(dependence: Dependence, weights: Weights) -> list[list[Places]]:
    """Return one stage per term with its nearest decisions: right on average if the model of the others is."""
    return [[weights.covering(term.nearest)[0]] for term in dependence.terms]


def residuals(
    fitted: Fitted, dependence: Dependence, stages: Sequence[Sequence[Places]], weights: Weights,
    target: Target, data: tuple[Ints, Ints, Floats], rng: Rng,
) -> Floats:  # fmt: skip
    """Return the weighted residuals of all terms and stages by round; `data` has choices, observations and terms."""
    choices, seen, terms = data
    total = np.zeros(len(choices))
    for (before, stage), (ending, going_on) in _links(stages).items():
        weight = weights.of(stage)
        assert weight is not None
        own = np.flatnonzero(weight > 0)
        if not len(own):
            continue
        earlier = _seen_by(dependence, seen[own], before)
        change = np.zeros(len(own))
        if ending:
            expected = _expected(fitted, choices[own], earlier, own)[:, ending]
            change += (terms[own][:, ending] - expected).sum(axis=1)
        if going_on:
            later = _seen_by(dependence, seen[own], stage)
            draws = 1 if np.diff(target.first).max() == 1 else COMPLETIONS
            for _ in range(draws):
                completed = target.complete(stage, choices, own, rng)
                after = _expected(fitted, completed, later, own)[:, going_on]
                change += (after - _expected(fitted, completed, earlier, own)[:, going_on]).sum(axis=1) / draws
        total[own] += weight[own] * change
    return total


def _links(stages: Sequence[Sequence[Places]]) -> Links:
    """Group the stages of all terms by what was known before and after."""
    links: Links = {}
    for term, chain in enumerate(stages):
        before: Places = ()
        for stage in chain:
            ending, going_on = links.setdefault((before, stage), ([], []))
            (ending if stage == chain[-1] else going_on).append(term)
            before = stage
    return links


def _seen_by(dependence: Dependence, seen: Ints, places: Places) -> Ints:
    """Return observations of the nodes that depend on these decisions alone; -1 for the others."""
    hidden = [k for k, own in enumerate(dependence.observed) if not own.issubset(places)]
    result = seen.copy()
    result[:, hidden] = -1
    if not places:  # before the first stage, nothing is used
        result[:] = -1
    return result


def _expected(fitted: Fitted, choices: Ints, seen: Ints, rounds: Ints) -> Floats:
    """Return expected terms; without the observations where the model rules them out."""
    values = fitted.values(choices, seen, rounds)
    impossible = np.flatnonzero(np.isnan(values).any(axis=1))
    if len(impossible):
        unseen = np.full_like(seen[impossible], -1)
        values[impossible] = fitted.values(choices[impossible], unseen, rounds[impossible])
    return values
