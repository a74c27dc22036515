"""Bayes regret measured by simulation, beside the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from idbandits import Diagram, models, theory
from idbandits.errors import IdbanditsError
from idbandits.simulation.simulate import random_numbers


@pytest.mark.parametrize("d", [models.semi_bandit(6, 2), models.cascade(6, 2)], ids=["semi-bandit", "cascade"])
def test_bayes_regret_is_below_the_bound_and_below_linear(d: Diagram) -> None:
    regret = theory.bayes_regret(d, 4000, 40)
    limits = [theory.bound(d, int(n)).value for n in regret.rounds]
    assert (regret.mean + 3 * regret.se < limits).all()
    at = {int(n): m for n, m in zip(regret.rounds, regret.mean, strict=True)}
    quarter = min(at, key=lambda n: abs(n - 1000))
    assert regret.mean[-1] < 2.5 * at[quarter]  # linear would be 4 times, a square root 2 times
    assert (np.diff(regret.mean) >= 0).all()


def test_bayes_regret_does_not_depend_on_workers_and_equals_a_plain_loop() -> None:
    d = models.semi_bandit(4, 2)
    one, two = (theory.bayes_regret(d, 200, 5, seed=3, workers=w) for w in (1, 2))
    np.testing.assert_array_equal(one.mean, two.mean)
    assert not np.array_equal(one.mean, theory.bayes_regret(d, 200, 5, seed=4).mean)

    class First:
        def act(self) -> dict[str, int]:
            return {"A1": 0, "A2": 1}

        def update(self, action: Any, observation: Any) -> None:
            pass

    regret = theory.bayes_regret(d, 30, 4, First(), seed=3)
    gaps = []
    for run in range(4):
        means = theory.prior_means(d, np.random.default_rng(random_numbers(3, run, "truth")))["mean"]
        gaps.append(30 * (np.sort(means)[-2:].sum() - means[:2].sum()))
    assert regret.mean[-1] == pytest.approx(np.mean(gaps))
    assert regret.se[-1] == pytest.approx(np.std(gaps, ddof=1) / 2)


def test_study_and_its_plot() -> None:
    frame = theory.study([20, 40], [3, 4], [1, 2], usual=(40, 4, 2), runs=4)
    assert len(frame) == 12
    assert (frame["regret_mean"] < frame["bound"]).all()
    assert (frame["trivial"] == frame["rounds"] * np.where(frame["model"] == "cascade", 1, frame["positions"])).all()
    assert ((frame["useful_from"] > frame["rounds"]) == (frame["bound"] >= frame["trivial"])).all()
    axes = theory.plot(frame)
    assert axes.shape == (3,)
    assert [ax.get_xlabel() for ax in axes] == ["rounds n", "items L", "positions K"]
    assert all(len(ax.lines) >= 7 for ax in axes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rounds": 0}, "rounds .* 0$"),
        ({"rounds": []}, r"rounds must be a sequence .* got \[\]"),
        ({"rounds": [10, 2.5]}, "rounds .* 2.5$"),
        ({"runs": 0}, "runs.* 0$"),
        ({"seed": -1}, "seed .* -1$"),
        ({"workers": True}, "workers.* True$"),
        ({"learner": 3}, r"must have a method act\(\), got 3"),
    ],
)
def test_errors_name_the_argument(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(IdbanditsError, match=words):
        theory.bayes_regret(models.semi_bandit(3, 1), **{"rounds": 5, "runs": 1} | settings)
