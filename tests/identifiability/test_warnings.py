"""Serious findings raise a warning once, when an agent is created."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path

import pytest

import idbandits as idb
from idbandits import Diagram, models
from idbandits.errors import DiagramWarning


def unrevealed() -> Diagram:
    return models.dependent_click(4, 2, reward="satisfaction")


def test_an_agent_warns_once_per_diagram() -> None:
    d = unrevealed()
    with pytest.warns(DiagramWarning, match=r"diagram 'dependent click': The reward of S2 .* linear") as caught:
        idb.Thompson(d)
    assert [warning.filename for warning in caught] == [__file__]
    idb.Thompson(d)
    idb.Thompson(d, "gibbs")
    d.context("segment", 2)
    with pytest.warns(DiagramWarning):  # it has changed
        idb.Thompson(d)


def test_copies_files_and_simulations_do_not_warn(tmp_path: Path) -> None:
    with pytest.warns(DiagramWarning):
        agent = idb.Thompson(unrevealed(), seed=0)
    agent.save(tmp_path / "agent")
    idb.Thompson.load(tmp_path / "agent")
    pickle.loads(pickle.dumps(agent))
    copy.deepcopy(agent)
    agent.copy(seed=1)
    world = idb.World(agent.diagram, {"attraction": [0.1, 0.2, 0.3, 0.4], "satisfaction": [0.5, 0.5]})
    idb.simulate(world, {"agent": agent}, rounds=10, runs=2, seed=0)


def test_the_ready_models_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for d in (
            models.cascade(4, 2), models.cascade_inverted(4, 2), models.position_based(4, 2), models.semi_bandit(4, 2),
            models.rank1(3, 2), models.dependent_click(4, 2), models.dynamic_bayesian(4, 2), models.click_chain(4, 2),
            models.user_browsing(4, 2), models.cascade(4, 2, learn_conditionals=True),
        ):  # fmt: skip
            idb.Thompson(d)
