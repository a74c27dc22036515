"""Moves of whole tables whose regressions move with them, and what they are for: no scale is confirmed by itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import idbandits as idb
from idbandits.diagram.features.design import INTERCEPT_SD, LOG_STRENGTH_SD, SLOPES_SD, STRENGTH
from idbandits.errors import DiagramWarning
from internals import rescaled

FEATURES = np.array([-1.0, 0.2, 0.4, 1.3])


@pytest.mark.parametrize("states", [2, 3])
def test_moves_keep_the_joint_distribution_of_means_and_regression(states: int) -> None:
    """Worlds are drawn from the prior, then rounds, then moves: the moved worlds are draws from the prior as well."""
    d = idb.Diagram("products")
    mood = d.latent("mood", [d.decision("item", 4)], idb.Learned("attraction", features=FEATURES), states=states)
    look = d.latent("look", [d.decision("place", 2)], idb.Learned("examination"))
    d.observed("click", [mood, look], np.stack([np.zeros(states), np.arange(states) / (states - 1)], axis=1))
    d.reward("click")
    design = d.learned["attraction"].features.design  # type: ignore[union-attr]
    rng, worlds = np.random.default_rng(states), 3000
    fresh, kept, moved = idb.Thompson(d, "gibbs", seed=0), [], 0
    for seed in range(worlds):
        coefficients = rng.normal(0, [INTERCEPT_SD, SLOPES_SD], (states - 1, 2))
        log_strength = np.clip(rng.normal(np.log(STRENGTH * states), LOG_STRENGTH_SD), np.log(0.5), np.log(1e6))
        weights = np.exp(np.hstack([np.zeros((4, 1)), np.clip(design @ coefficients.T, -30, 30)]))
        prior = np.maximum(np.exp(log_strength) * weights / weights.sum(axis=1, keepdims=True), 1e-3)
        attraction = np.array([rng.dirichlet(row) for row in prior])
        attraction = np.clip(attraction, 1e-12, 1 - 1e-12)
        examination = rng.random(2)
        agent = fresh.copy(seed=seed)
        for item, place in ((0, 0), (1, 0), (2, 1), (3, 1), (0, 1)):
            click = rng.random() < attraction[item] @ np.arange(states) / (states - 1) * examination[place]
            agent.update({"item": item, "place": place}, {"click": int(click)})
        means = np.concatenate([attraction.ravel(), np.stack([1 - examination, examination], axis=1).ravel()])
        before = np.append(coefficients.ravel(), log_strength)
        parameters, after = rescaled(agent, before, means, 20, seed)
        moved += abs(parameters - before).max() > 1e-9
        constants = parameters[: 2 * (states - 1) : 2]
        kept.append(
            [*constants, *constants**2, *after[-4:], *after[-4:] ** 2, abs(after[:states] - means[:states]).max()]
        )
    assert moved > 0.1 * worlds
    drawn = np.array(kept)[:, :-1]
    wanted = [0] * (states - 1) + [INTERCEPT_SD**2] * (states - 1) + [1 / 2] * 4 + [1 / 3] * 4
    error = drawn.std(axis=0) / np.sqrt(worlds)
    assert (abs(drawn.mean(axis=0) - wanted) < 5 * error).all()  # twenty comparisons: an error rate of 1e-5


@pytest.mark.parametrize("seed", range(2))
def test_no_scale_is_confirmed_by_itself(seed: int) -> None:
    """Without an anchor, features lower the regret, and it does not go on to rise: all seeds are fixed."""
    rng, items, positions = np.random.default_rng(seed), 100, 3
    x = rng.normal(size=(items, 4))
    means = {
        "attraction": 1 / (1 + np.exp(2 - x @ [1, -0.5, 0, 0] - 0.3 * rng.normal(size=items))),
        "examination": np.array([0.8, 0.5, 0.3]),
    }
    world = idb.World(idb.models.position_based(items, positions), means)
    learners = {
        "plain": idb.Thompson(idb.models.position_based(items, positions)),
        "features": idb.Thompson(idb.models.position_based(items, positions, features={"attraction": x})),
    }
    frame = idb.simulate(world, learners, 6000, 2, seed, progress=False, checkpoints=3).frame
    at = frame.groupby(["learner", "round"])["regret"].mean()
    assert at["features", 6000] < 0.5 * at["plain", 6000]
    assert at["features", 6000] - at["features", 4000] < 0.3 * at["features", 4000]


def test_agents_warn_of_features_on_a_scale_that_is_not_known() -> None:
    x = np.arange(6.0)
    with pytest.warns(DiagramWarning, match="regression of attraction may confirm a wrong scale; inference 'gibbs'"):
        idb.Thompson(idb.models.position_based(6, 2, features={"attraction": x}), "moments")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idb.Thompson(idb.models.position_based(6, 2, features={"attraction": x}))
        idb.Thompson(
            idb.models.position_based(6, 2, features={"attraction": x}, fixed={"examination": {0: 0.9}}), "moments"
        )
        idb.Thompson(idb.models.cascade(6, 2, features={"attraction": x}), "moments")
