"""Lives whose outcome is random, in distribution: the same steps again and again, with other random numbers.

Every comparison allows five standard errors: one of a million right ones fails, and seeds are fixed.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from internals import held_by, log_likelihood_held
from lifetime import OPERATIONS, Life, Step
from lifetime_rounds import EVERYTHING, MEANS, Setting, Shape, random_round, row_mean

pytestmark = pytest.mark.filterwarnings("ignore::idbandits.errors.DiagramWarning")
# Rounds that fade, then many revisions: all is the same whatever an agent draws
STEPS = ["update_many"] * 6 + ["move", "update_late", "update_late", "update_many"] + ["revise"] * 25 + ["update"]


def assert_expected(found: Any, wanted: Any) -> None:
    """The mean of rows is as expected, within five standard errors."""
    errors = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    off = abs(np.mean(found, axis=0) - wanted)
    assert (off <= 5 * errors + 1e-6).all(), f"off by {(off / (errors + 1e-9)).max():.1f} standard errors"


@pytest.mark.parametrize("half_life", [60, "1d"])
@pytest.mark.parametrize("inference", ["gibbs", "ep", "variational"])
def test_groups_fade_as_their_rounds_do(inference: str, half_life: Any) -> None:
    """Rounds of groups are dropped at random: the log-likelihood in the state is that of weighted rounds on average."""
    setting = Setting(inference, "plain", True, idb.Forget(half_life))
    found, steps = [], [Step(name, number) for number, name in enumerate(STEPS)]
    for seed in range(24):
        life = Life(setting, seed, mirrored=False)
        for step in steps:
            OPERATIONS[step.operation](life, np.random.default_rng(step.seed))
        assert life.agent.rounds == len(life.ledger)
        held = held_by(life.agent)["lifetime"]
        values = [log_likelihood_held(held, functools.partial(row_mean, setting, k)) for k in range(MEANS)]
        found.append(np.subtract(values, values[0])[1:])
    wanted = life.expected("lifetime")
    assert_expected(found, (wanted - wanted[0])[1:])


def test_particles_move_as_if_they_had_stayed() -> None:
    """Means after a move and late rounds are those of an agent in a diagram that has everything."""
    setting, rng = Setting("particles"), np.random.default_rng(0)
    old, new = Shape("abcd"), Shape("dbe")
    rounds = [random_round(setting, shape, rng) for shape in [old] * 8 + [new] * 4 + [old] * 4]
    moved, stayed = [], []
    for seed in range(150):
        life = Life(setting, seed, shape=old)
        alone = life.new_agent(EVERYTHING, seed + 1000)
        for number, played in enumerate(rounds):
            if number == 8:
                life.agent = life.agent.moved_to(life.targets(new))
            for agent in (life.agent, alone):
                agent.update(played.action, played.observation, played.context)
        places = [EVERYTHING.items.index(item) for item in new.items]
        for agent, means, own in ((life.agent, moved, slice(None)), (alone, stayed, places)):
            belief = agent.posterior()
            means.append(np.concatenate([belief["attraction"].mean[own], belief["examination"].mean[:2]]))
    spread = np.std(moved, axis=0, ddof=1) ** 2 + np.std(stayed, axis=0, ddof=1) ** 2
    off = abs(np.mean(moved, axis=0) - np.mean(stayed, axis=0)) / np.sqrt(spread / 150)
    assert (off < 5).all(), f"off by {off.max():.1f} standard errors"
