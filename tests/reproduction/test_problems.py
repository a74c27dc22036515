"""Evaluation as data: consistent, and equal to that of the paper."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reference
from idbandits.reproduction.problems import (
    BASELINE,
    BEYOND,
    FIGURES,
    FULL,
    INC,
    KLUCB,
    LEARNERS,
    PAPER,
    PARTICLES,
    PROBLEMS,
    RANK1,
    ROUNDS,
    RUNS,
    TABLE,
    TOPRANK,
    VI,
)
from idbandits.reproduction.runs import Cell

PANELS = [*(panel for figure in FIGURES for panel in figure.panels), TABLE]
CELLS = sorted({Cell(panel.problem, name) for panel in PANELS for name in panel.learners})
STEPS = [i / 20 for i in range(1, 21)]


# -- learners and figures ------------------------------------------------------------------------------------------


def test_keys_are_unique_and_begin_with_their_figures() -> None:
    keys = [figure.key for figure in FIGURES] + [panel.key for panel in PANELS]
    plain = [key.replace(" ", "").lower() for key in keys]
    assert len(set(plain)) == len(plain)
    assert "theory" not in plain
    for figure in FIGURES:
        letters = [panel.key.removeprefix(figure.key) for panel in figure.panels]
        assert letters == list("abcdefgh"[: len(letters)])
        assert figure.measure in ("reward", "regret")
        assert figure.title.startswith(f"Figure {figure.key}: ")


def test_panels_use_exactly_the_learners_and_problems_that_exist() -> None:
    assert {panel.problem for panel in PANELS} == set(PROBLEMS)
    assert {name for panel in PANELS for name in panel.learners} == set(LEARNERS)
    for panel in PANELS:
        assert len(set(panel.learners)) == len(panel.learners)
    assert all(contender.kind in (PAPER, BASELINE, BEYOND) for contender in LEARNERS.values())
    assert all(0 < contender.share <= 1 for contender in LEARNERS.values())


def test_figures_beyond_the_paper_are_those_with_learners_beyond_it() -> None:
    for figure in FIGURES:
        kinds = {LEARNERS[name].kind for panel in figure.panels for name in panel.learners}
        assert (BEYOND in kinds) == (figure.kind == BEYOND), figure.key
    assert [figure.key for figure in FIGURES if figure.kind == PAPER] == ["2", "3"]


def test_figure_2_and_3_are_those_of_the_paper() -> None:
    two, three = FIGURES[:2]
    assert [panel.problem for panel in two.panels] == [
        "cascade 1", "cascade 2", "position-based 1", "position-based 2", "rank-1 1", "rank-1 2",
    ]  # fmt: skip
    assert [panel.learners for panel in two.panels] == [
        (FULL, VI, INC, name) for name in (KLUCB, KLUCB, TOPRANK, TOPRANK, RANK1, RANK1)
    ]
    assert [panel.problem for panel in three.panels] == ["cascade 1", "position-based 1", "rank-1 1"]
    assert all(panel.learners == (VI, INC, *PARTICLES) for panel in three.panels)
    assert list(PARTICLES.values()) == [5, 10, 15, 20]
    assert (two.measure, three.measure) == ("reward", "reward")
    assert (ROUNDS, RUNS) == (20_000, 20)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(cell))
@pytest.mark.parametrize("rounds", [1, 20_000])
def test_each_learner_can_be_made_for_its_problems(cell: Cell, rounds: int) -> None:
    problem = PROBLEMS[cell.problem]
    learner = LEARNERS[cell.learner].make(problem, rounds)
    decisions = {n.name for n in learner.diagram.of_kind("decision")}
    assert decisions == {n.name for n in problem.diagram.of_kind("decision")}
    sees_latents = cell.learner.startswith((FULL, "PF"))
    visible = problem.diagram.of_kind("observed", *["latent"] * sees_latents)
    assert {n.name for n in learner.diagram.of_kind("observed")} == {n.name for n in visible}


# -- the problems --------------------------------------------------------------------------------------------------

MEANS: dict[str, dict[str, list[float]]] = {
    "cascade 1": {"attraction": STEPS},
    "cascade 2": {"attraction": STEPS},
    "position-based 1": {"attraction": STEPS, "examination": [0.7, 0.7]},
    "position-based 2": {"attraction": STEPS, "examination": [0.8, 0.2]},
    "rank-1 1": {"row": [i / 16 for i in range(1, 9)], "column": [i / 20 for i in range(1, 11)]},
    "rank-1 2": {"row": [i / 8 for i in range(1, 9)], "column": [i / 10 for i in range(1, 11)]},
    "semi-bandit": {"mean": STEPS},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_means_are_those_of_the_paper(name: str) -> None:
    means = PROBLEMS[name].world().means
    assert means.keys() == MEANS[name].keys()
    for table, expected in MEANS[name].items():
        assert np.asarray(means[table]).tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_best_value_is_that_of_all_lists(name: str) -> None:
    """By enumeration with the reference; of the lists of two items, only those among the three at either end."""
    problem = PROBLEMS[name]
    d, means = problem.diagram, MEANS[name]
    decisions = d.of_kind("decision")
    choices = [range(n.states) if name.startswith("rank-1") else (0, 1, 2, 17, 18, 19) for n in decisions]
    lists = [
        dict(zip((n.name for n in decisions), chosen, strict=True))
        for chosen in itertools.product(*choices)
        if name.startswith("rank-1") or len(set(chosen)) == len(chosen)
    ]
    best = max(reference.expected_reward(d, action, means) for action in lists)
    assert problem.world().best().value == pytest.approx(best, abs=1e-12)


def test_the_best_values_by_hand() -> None:
    best = {name: problem.world().best().value for name, problem in PROBLEMS.items()}
    assert best == pytest.approx(
        {
            "cascade 1": 1.0,
            "cascade 2": 0.95 + 0.95 * 0.9,  # the least attractive items: a click is what the user did not stop at
            "position-based 1": 0.7 * (1 + 0.95),
            "position-based 2": 0.8 * 1 + 0.2 * 0.95,
            "rank-1 1": 0.25,
            "rank-1 2": 1.0,
            "semi-bandit": 1.95,
        }
    )
