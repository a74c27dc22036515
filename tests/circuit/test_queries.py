"""Queries against plain enumeration, on random diagrams."""

from __future__ import annotations

import math

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import labels, random_diagram, random_given, random_means, with_fixed_rows


def check(seed: int, fixed: bool = False) -> None:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng)
    d = with_fixed_rows(rng, d) if fixed else d
    for _ in range(2):
        means = random_means(rng, d)
        actions = list(reference.actions(d))
        action = actions[rng.integers(len(actions))]
        _, context = random_given(rng, d)
        here = {**action, **context}
        asked = (labels(d, action), means, labels(d, context))
        expected = reference.expected_reward(d, here, means)
        assert idb.expected_reward(d, *asked) == pytest.approx(expected, abs=1e-9)

        chance = [n for n in d.nodes.values() if n.is_chance]
        joint = [(values, p) for values, p in reference.joint(d, here, means) if p > 0]
        values, _ = joint[rng.integers(len(joint))]
        seen = {n.name: values[n.name] for n in chance if n.kind == "observed" and rng.random() < 0.8}
        p = reference.likelihood(d, here, seen, means)
        answer = idb.log_likelihood(d, labels(d, action), seen, means, labels(d, context))
        assert answer == pytest.approx(math.log(p), abs=1e-9)
        posterior = idb.posterior_of_latents(d, labels(d, action), seen, means, labels(d, context))
        wanted = reference.posterior_of_latents(d, here, seen, means)
        assert posterior.keys() == wanted.keys()
        for name in wanted:
            np.testing.assert_allclose(posterior[name], wanted[name], atol=1e-9)

        solution = idb.best_action(d, means, labels(d, context))
        best = reference.best_value(d, context, means)
        chosen = {name: d.nodes[name].index(v) for name, v in solution.action.items()}
        assert reference.feasible(d, chosen)
        assert solution.value == pytest.approx(reference.expected_reward(d, {**chosen, **context}, means), abs=1e-9)
        assert solution.value == pytest.approx(best, abs=1e-9)
        assert solution.exact
        assert solution.bound == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(160))
def test_random_diagrams(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(500, 560))
def test_random_diagrams_with_fixed_rows(seed: int) -> None:
    check(seed, fixed=True)


def test_means_may_lie_anywhere_in_memory() -> None:
    d = idb.models.cascade(6, 2)
    means = np.linspace(0.1, 0.9, 6)
    fixed = means.copy()
    fixed.flags.writeable = False
    wanted = idb.best_action(d, {"attraction": means})
    assert idb.best_action(d, {"attraction": np.repeat(means, 2)[::2]}) == wanted
    assert idb.best_action(d, {"attraction": fixed}) == wanted
