"""The best action that regret refers to: proven, or known not to be."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from internals import begin
from list_models import hard_means, impatient


def hard(effort: float) -> idb.World:
    """A world whose best action is proven with much effort only."""
    d = impatient(20, 10)
    return idb.World(d, hard_means(d, 7), seed=0, effort=effort)


class Constant:
    """A learner that always takes the same action."""

    def __init__(self, action: dict[str, Any]) -> None:
        self.action = action

    def act(self) -> dict[str, Any]:
        return self.action

    def update(self, action: Any, observation: Any) -> None:
        pass


def test_a_world_proves_its_reference_where_an_agent_would_not() -> None:
    world = hard(effort=100)
    best = world.best()
    assert best.exact
    assert best.bound == best.value == world.expected(best.action)
    assert world.gap == 0.0
    assert not hard(effort=1).best().exact
    assert idb.World(world.diagram, world.means).effort == 100


def test_regret_is_negative_where_a_reference_that_is_not_proven_is_beaten() -> None:
    world, best = hard(effort=0), hard(effort=100).best()
    found = world.best()
    assert not found.exact
    assert found.value < best.value <= found.bound
    assert world.gap == found.bound - found.value
    assert world.regret(best.action) == pytest.approx(found.value - best.value)
    assert world.step(best.action).regret == world.regret(best.action) < 0
    assert world.regret(found.action) == 0.0
    result = idb.simulate(world, {"best": Constant(best.action)}, rounds=20, runs=2, progress=False)
    assert result.settings["reference_gap"] == world.gap
    line = result.summary().iloc[0]
    assert line["regret_mean"] == pytest.approx(20 * (found.value - best.value))
    assert line["regret_at_most"] == pytest.approx(20 * (found.bound - best.value))
    assert f"reference_gap={world.gap:.3g})" in repr(result)


def test_the_fused_loop_has_the_same_reference() -> None:
    world, agent = hard(effort=0), idb.Thompson(impatient(20, 10))
    result = idb.simulate(world, {"it": agent}, rounds=30, runs=1, progress=False, checkpoints="every")
    played, player = begin(world, agent, "it", 0, 0)
    regrets = []
    for _ in range(30):
        action = player.act()
        outcome = played.step(action)
        player.update(action, outcome.observation)
        regrets.append(outcome.regret)
    np.testing.assert_allclose(result.frame["regret"], np.cumsum(regrets), rtol=1e-12)
    assert result.settings["reference_gap"] == pytest.approx(world.best().bound - world.best().value)
    assert json.loads(json.dumps(result.settings)) == result.settings


def test_a_proven_reference_leaves_no_trace_in_the_summary() -> None:
    d = models.cascade(4, 2)
    world = idb.World(d, {"attraction": [0.1, 0.2, 0.3, 0.4]})
    result = idb.simulate(world, {"it": idb.Thompson(d)}, rounds=30, runs=1, progress=False)
    assert result.settings["reference_gap"] == 0.0
    assert "regret_at_most" not in result.summary()
    assert "reference_gap" not in repr(result)


@pytest.mark.parametrize("gap", ["x", -1.0, float("nan"), None])
def test_a_gap_that_is_not_a_number_is_rejected(gap: Any) -> None:
    d = models.cascade(4, 2)
    world = idb.World(d, {"attraction": [0.1, 0.2, 0.3, 0.4]})
    result = idb.simulate(world, {"it": idb.Thompson(d)}, rounds=3, runs=1, progress=False)
    with pytest.raises(idb.errors.IdbanditsError, match="the setting reference_gap of a result must be a number >= 0"):
        idb.Result(result.frame, {**result.settings, "reference_gap": gap})
