"""The effort of an agent's searches: what it does, and that it goes where the agent goes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np

import idbandits as idb
from idbandits import models
from list_models import hard_means, impatient


def agent(effort: float) -> idb.Thompson:
    """An agent whose searches for the best action are hard, and whose draws are nearly certain."""
    d = impatient(20, 10)
    sure = hard_means(d, 9)
    data = d.to_dict()
    for table in data["learned"]:
        mean = np.asarray(sure[table["name"]])
        table["prior"] = np.stack([1e7 * (1 - mean), 1e7 * mean], axis=-1).tolist()
    return idb.Thompson(idb.Diagram.from_dict(data), seed=0, effort=effort)


def value(one: idb.Thompson) -> float:
    means = {name: belief.mean for name, belief in one.posterior().items()}
    return idb.expected_reward(one.diagram, one.act(), means)


def test_more_effort_finds_better_actions() -> None:
    hurried, usual, thorough = (value(agent(effort)) for effort in (0, 1, 100))
    assert hurried < thorough - 0.01
    assert usual < thorough - 0.01


def test_the_effort_goes_where_the_agent_goes(tmp_path: Path) -> None:
    for effort in (0.5, 100.0):
        one = idb.Thompson(models.cascade(3, 2), effort=effort)
        one.save(tmp_path / "agent")
        others = one.copy(), one.copy(seed=1), copy.deepcopy(one), pickle.loads(pickle.dumps(one))
        for other in (*others, idb.Thompson.load(tmp_path / "agent")):
            assert other.effort == effort
            assert f"effort={effort:g}" in repr(other)
    assert idb.Thompson(models.cascade(3, 2)).effort == 1.0
    assert "effort" not in repr(idb.Thompson(models.cascade(3, 2)))


def test_propensities_are_those_of_the_effort() -> None:
    one = agent(0)
    assert one.propensity(one.act(), draws=20).probability > 0.5
