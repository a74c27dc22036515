"""The evaluation as data: that it is consistent, that it is the paper's, and that verdicts follow from the numbers."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

import reference
from idbandits.paper import problems as paper
from idbandits.paper.problems import (
    BASELINE,
    BEYOND,
    FAILS,
    FIGURES,
    FULL,
    HOLDS,
    INC,
    KLUCB,
    LEARNERS,
    OPEN,
    OURS,
    PAPERS_TABLE,
    PARTICLES,
    PROBLEMS,
    RANK1,
    TABLE,
    TOPRANK,
    VI,
    shown,
    verdicts,
)
from idbandits.paper.runs import Cell

PANELS = [*(panel for figure in FIGURES for panel in figure.panels), TABLE]
CELLS = sorted({Cell(panel.problem, name) for panel in PANELS for name in panel.learners})
STEPS = [i / 20 for i in range(1, 21)]


# -- the data ------------------------------------------------------------------------------------------------------


def test_keys_are_unique_and_begin_with_their_figures() -> None:
    keys = [figure.key for figure in FIGURES] + [panel.key for panel in PANELS]
    plain = [key.replace(" ", "").lower() for key in keys]
    assert len(set(plain)) == len(plain)
    assert "theory" not in plain
    for figure in FIGURES:
        letters = [panel.key.removeprefix(figure.key) for panel in figure.panels]
        assert letters == list("abcdefgh"[: len(letters)])
        assert figure.what in ("reward", "regret")
        assert figure.title.startswith(f"Figure {figure.key}: ")


def test_all_learners_and_problems_of_panels_exist_and_all_are_used() -> None:
    assert {panel.problem for panel in PANELS} == set(PROBLEMS)
    assert {name for panel in PANELS for name in panel.learners} == set(LEARNERS)
    for panel in PANELS:
        assert len(set(panel.learners)) == len(panel.learners)
    assert all(contender.kind in (OURS, BASELINE, BEYOND) for contender in LEARNERS.values())
    assert all(0 < contender.share <= 1 for contender in LEARNERS.values())


def test_the_papers_own_are_told_apart_from_what_goes_beyond() -> None:
    for figure in FIGURES:
        kinds = {LEARNERS[name].kind for panel in figure.panels for name in panel.learners}
        assert (BEYOND in kinds) == (figure.kind == BEYOND), figure.key
    assert [figure.key for figure in FIGURES if figure.kind == OURS] == ["2", "3"]


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
    assert (two.what, three.what) == ("reward", "reward")
    assert (paper.ROUNDS, paper.RUNS) == (20_000, 20)


def test_table_1_is_that_of_the_paper() -> None:
    assert TABLE.problem == "cascade 1"
    assert set(PAPERS_TABLE) == set(TABLE.learners) - {paper.AS_WRITTEN}
    assert PAPERS_TABLE[VI][0] == pytest.approx(1990.5, abs=0.05)
    seconds = [row[0] for row in PAPERS_TABLE.values()]
    rewards = [row[2] for row in PAPERS_TABLE.values()]
    assert max(seconds) == seconds[0]
    assert max(rewards) == rewards[0]
    assert rewards[2:] == sorted(rewards[2:])
    assert all(row[1] < 0.02 * row[0] and row[3] < 0.02 for row in PAPERS_TABLE.values())


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(cell))
@pytest.mark.parametrize("rounds", [1, 20_000])
def test_every_learner_can_be_made_for_its_problems(cell: Cell, rounds: int) -> None:
    problem = PROBLEMS[cell.problem]
    learner = LEARNERS[cell.learner].make(problem, rounds)
    decisions = {n.name for n in learner.diagram.of_kind("decision")}
    assert decisions == {n.name for n in problem.diagram.of_kind("decision")}
    sees = {n.name for n in learner.diagram.of_kind("observed")}
    clicks = {n.name for n in problem.diagram.of_kind("observed")}
    latent = {n.name for n in problem.diagram.of_kind("latent")}
    full = cell.learner.startswith((FULL, "PF"))
    assert (sees == clicks | latent) if full else (sees == clicks)


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
    found = PROBLEMS[name].world().means
    assert found.keys() == MEANS[name].keys()
    for table, means in MEANS[name].items():
        assert np.asarray(found[table]).tolist() == pytest.approx(means, abs=1e-15)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_best_value_is_that_of_all_lists(name: str) -> None:
    """By enumeration with the reference, over all lists of two distinct items that are among three at either end."""
    problem = PROBLEMS[name]
    d, means = problem.diagram, MEANS[name]
    decisions = d.of_kind("decision")
    choices = [range(n.states) if name.startswith("rank-1") else (0, 1, 2, 17, 18, 19) for n in decisions]
    lists = [
        dict(zip((n.name for n in decisions), chosen, strict=True))
        for chosen in itertools.product(*choices)
        if name.startswith("rank-1") or len(set(chosen)) == len(chosen)
    ]
    best = max(reference.expected_reward(d, given, means) for given in lists)
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


# -- verdicts ------------------------------------------------------------------------------------------------------


def row(reward: float, error: float = 0.01, spread: float = 1.0, runs: int = 20) -> dict[str, Any]:
    return {
        "runs": runs, "rounds": 20_000, "seconds_mean": 1.0, "reward_mean": reward, "reward_se": error, "regret_mean": 10.0,
        "regret_se": spread / math.sqrt(runs),
    }  # fmt: skip


def verdict_of(words: str, rows: dict[tuple[str, str], dict[str, Any]]) -> str | None:
    found = [verdict for verdict in verdicts(lambda *cell: rows.get(cell)) if words in verdict.claim]
    assert len(found) <= 1
    return found[0].verdict if found else None


@pytest.mark.parametrize(
    ("better", "worse", "expected"),
    [
        (row(0.9), row(0.8), HOLDS),
        (row(0.829), row(0.8), HOLDS),  # 2 √2 standard errors are 0.0283
        (row(0.828), row(0.8), OPEN),
        (row(0.8), row(0.8), OPEN),
        (row(0.8), row(0.828), OPEN),
        (row(0.8), row(0.829), FAILS),
        (row(0.8, 0.0), row(0.8, 0.0), OPEN),  # both the same in all runs
        (row(0.9, 0.0), row(0.8, 0.0), HOLDS),
        (row(0.8, 0.0), row(0.9, 0.0), FAILS),
        (row(0.9, math.nan, runs=1), row(0.8, math.nan, runs=1), None),  # one run says nothing
        (row(0.9), row(0.8, math.nan, runs=1), None),
    ],
)
def test_more_than(better: Any, worse: Any, expected: str | None) -> None:
    rows = {("cascade 1", VI): better, ("cascade 1", KLUCB): worse}
    assert verdict_of(f"cascade model 1: idTSvi earns more than {KLUCB}", rows) == expected


@pytest.mark.parametrize(
    ("full", "vi", "expected"),
    [
        (row(0.9), row(0.8), HOLDS),
        (row(0.8), row(0.8), HOLDS),
        (row(0.8), row(0.828), HOLDS),
        (row(0.8), row(0.829), FAILS),
        (row(0.8, 0.0), row(0.8, 0.0), HOLDS),
        (row(0.8, math.nan, runs=1), row(0.9, math.nan, runs=1), None),
    ],
)
def test_at_least_as_much(full: Any, vi: Any, expected: str | None) -> None:
    rows = {("rank-1 2", FULL): full, ("rank-1 2", VI): vi}
    assert verdict_of("idTSfull earns at least as much", rows) == expected


@pytest.mark.parametrize(
    ("inc", "vi", "expected"),
    [
        (row(0.5, spread=3.0), row(0.5, spread=1.0), HOLDS),
        (row(0.5, spread=1.2), row(0.5, spread=1.0), OPEN),
        (row(0.5, spread=1.0), row(0.5, spread=1.2), OPEN),
        (row(0.5, spread=1.0), row(0.5, spread=3.0), FAILS),
        (row(0.5, spread=3.0, runs=2), row(0.5, spread=1.0, runs=2), OPEN),  # two runs tell little
        (row(0.5, spread=1.0), row(0.5, spread=0.0), HOLDS),
        (row(0.5, spread=0.0), row(0.5, spread=1.0), FAILS),
        (row(0.5, spread=0.0), row(0.5, spread=0.0), OPEN),
        (row(0.5, spread=math.nan, runs=1), row(0.5, spread=1.0), None),
    ],
)
def test_varies_more(inc: Any, vi: Any, expected: str | None) -> None:
    rows = {("rank-1 1", INC): inc, ("rank-1 1", VI): vi}
    assert verdict_of("varies more", rows) == expected


@pytest.mark.parametrize(("best", "expected"), [(0.3, HOLDS), (0.24, FAILS), (0.36, FAILS), (0.26, HOLDS)])
def test_about_three_times(best: float, expected: str) -> None:
    rows = {("rank-1 1", INC): row(best), ("rank-1 1", VI): row(0.05), ("rank-1 1", RANK1): row(0.1)}
    assert verdict_of("about three times", rows) == expected
    assert verdict_of("about three times", {("rank-1 1", INC): row(0.3), ("rank-1 1", RANK1): row(0.0)}) is None


def test_particles_and_what_was_not_run() -> None:
    five, *_, twenty = PARTICLES
    rows = {("position-based 1", five): row(0.5), ("position-based 1", twenty): row(0.6)}
    assert verdict_of("20 particles earn more than 5", rows) == HOLDS
    assert verdict_of("idTSvi earns more than 20 particles", rows) is None
    assert verdicts(lambda *_: None) == []


def test_all_claims_are_tested_by_a_whole_evaluation() -> None:
    found = verdicts(lambda problem, learner: row(0.5))
    assert len(found) == 6 * 3 + 3 * 2 + 1 + 6 + 2
    assert len({verdict.claim for verdict in found}) == len(found)
    assert all(
        re.search(r"\d against \d", verdict.numbers) for verdict in found if not verdict.claim.startswith("Table 1")
    )


def test_the_table_is_compared_with_ours() -> None:
    theirs = paper.PAPERS_TABLE
    seconds = dict(zip(theirs, (0.5, 0.1, 0.1, 0.2, 0.3, 0.4), strict=True))

    def of(shift: float) -> dict[str, str]:
        rows = {name: row(theirs[name][2] + shift) | {"seconds_mean": seconds[name]} for name in theirs}
        found = verdicts(lambda problem, learner: rows.get(learner) if problem == "cascade 1" else None)
        assert not any(re.search(r"(\w+ [\d.]+ s), .*\1", verdict.numbers) for verdict in found)  # each is told once
        return {verdict.claim: verdict.verdict for verdict in found if verdict.claim.startswith("Table 1")}

    assert set(of(0.0).values()) == {paper.HOLDS}
    assert [word for claim, word in of(0.2).items() if " earns " in claim] == [paper.FAILS] * 6
    seconds["PF (20 particles)"] = 0.6
    assert of(0.0)["Table 1: idTSvi takes longest, idTSinc much less"] == paper.FAILS
    seconds["PF (15 particles)"] = 0.7
    assert of(0.0)["Table 1: more particles take longer"] == paper.FAILS


@pytest.mark.parametrize(
    ("mean", "error", "what", "text"),
    [
        (0.98765, 0.0012, "reward", "0.9877 ± 0.0012"),
        (0.98765, 0.0995, "reward", "0.988 ± 0.100"),
        (1.5, 0.25, "reward", "1.50 ± 0.25"),
        (0.9999988, 0.0000012, "reward", "1.00000 ± 0.00000"),
        (1234.56, 12.3, "regret", "1,235 ± 12"),
        (12345.6, 1234.5, "regret", "12,346 ± 1,234"),
        (34.56, 1.23, "regret", "34.6 ± 1.2"),
        (3.456, 0.0123, "regret", "3.5 ± 0.0"),
        (0.5, math.nan, "reward", "0.5000"),
        (0.5, 0.0, "reward", "0.5000"),
        (12345.67, math.nan, "regret", "12,345.7"),
    ],
)
def test_shown(mean: float, error: float, what: str, text: str) -> None:
    assert shown({f"{what}_mean": mean, f"{what}_se": error}, what) == text
