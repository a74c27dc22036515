"""Verdicts on the paper's claims follow from the numbers."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from idbandits.reproduction.claims import FAILS, HOLDS, OPEN, PAPERS_TABLE, verdicts
from idbandits.reproduction.problems import AS_WRITTEN, FULL, INC, KLUCB, PARTICLES, RANK1, TABLE, VI
from idbandits.simulation.result_tables import shown


def row(reward: float, error: float = 0.01, spread: float = 1.0, runs: int = 20) -> dict[str, Any]:
    """Return a row of a summary; `spread` is the standard deviation of the regret."""
    return {
        "runs": runs, "rounds": 20_000, "seconds_mean": 1.0, "reward_mean": reward, "reward_se": error, "regret_mean": 10.0,
        "regret_se": spread / math.sqrt(runs),
    }  # fmt: skip


def verdict_of(words: str, rows: dict[tuple[str, str], dict[str, Any]]) -> str | None:
    matching = [verdict for verdict in verdicts(lambda *cell: rows.get(cell)) if words in verdict.claim]
    assert len(matching) <= 1
    return matching[0].verdict if matching else None


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
        (row(0.5, spread=3.0, runs=2), row(0.5, spread=1.0, runs=2), OPEN),  # two runs are too few
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


def test_a_complete_evaluation_tests_all_claims() -> None:
    answers = verdicts(lambda problem, learner: row(0.5))
    assert len(answers) == 6 * 3 + 3 * 2 + 1 + 6 + 2
    assert len({verdict.claim for verdict in answers}) == len(answers)
    assert all(
        re.search(r"\d against \d", verdict.numbers) for verdict in answers if not verdict.claim.startswith("Table 1")
    )


def test_table_1_is_that_of_the_paper() -> None:
    assert TABLE.problem == "cascade 1"
    assert set(PAPERS_TABLE) == set(TABLE.learners) - {AS_WRITTEN}
    assert PAPERS_TABLE[VI][0] == pytest.approx(1990.5, abs=0.05)
    seconds = [row[0] for row in PAPERS_TABLE.values()]
    rewards = [row[2] for row in PAPERS_TABLE.values()]
    assert max(seconds) == seconds[0]
    assert max(rewards) == rewards[0]
    assert rewards[2:] == sorted(rewards[2:])
    assert all(row[1] < 0.02 * row[0] and row[3] < 0.02 for row in PAPERS_TABLE.values())


def test_the_table_is_compared_with_the_runs() -> None:
    seconds = dict(zip(PAPERS_TABLE, (0.5, 0.1, 0.1, 0.2, 0.3, 0.4), strict=True))

    def answers(shift: float) -> dict[str, str]:
        """Return verdicts if rewards are those of the paper plus a shift."""
        rows = {name: row(PAPERS_TABLE[name][2] + shift) | {"seconds_mean": seconds[name]} for name in PAPERS_TABLE}
        tested = verdicts(lambda problem, learner: rows.get(learner) if problem == "cascade 1" else None)
        assert not any(re.search(r"(\w+ [\d.]+ s), .*\1", verdict.numbers) for verdict in tested)  # no time twice
        return {verdict.claim: verdict.verdict for verdict in tested if verdict.claim.startswith("Table 1")}

    assert set(answers(0.0).values()) == {HOLDS}
    assert [verdict for claim, verdict in answers(0.2).items() if " earns " in claim] == [FAILS] * 6
    seconds["PF (20 particles)"] = 0.6
    assert answers(0.0)["Table 1: idTSvi takes longest, idTSinc much less"] == FAILS
    seconds["PF (15 particles)"] = 0.7
    assert answers(0.0)["Table 1: more particles take longer"] == FAILS


@pytest.mark.parametrize(
    ("mean", "error", "measure", "text"),
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
def test_shown(mean: float, error: float, measure: str, text: str) -> None:
    assert shown({f"{measure}_mean": mean, f"{measure}_se": error}, measure) == text
