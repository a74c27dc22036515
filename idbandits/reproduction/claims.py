"""Claims of the paper, and verdicts on them from runs."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from idbandits.reproduction import problems as paper
from idbandits.simulation.result_tables import shown

PAPERS_TABLE = {  # Table 1: seconds and average reward, each with its standard error
    paper.VI: (1990.502, 19.702, 0.999, 0.001),
    paper.INC: (212.772, 2.204, 0.983, 0.006),
    "PF (5 particles)": (117.856, 1.049, 0.835, 0.019),
    "PF (10 particles)": (246.291, 3.327, 0.878, 0.015),
    "PF (15 particles)": (357.284, 2.529, 0.926, 0.013),
    "PF (20 particles)": (454.844, 3.054, 0.932, 0.015),
}
PAPERS_MACHINE = "one 2.9 GHz Intel Core i7, 16 GB"

HOLDS, OPEN, FAILS = "holds", "within noise", "does not hold"
CLEAR = 2.0  # number of standard errors that a difference must exceed

Summary: TypeAlias = Mapping[str, Any]  # row of `Result.summary()`
SummaryOf: TypeAlias = Callable[[str, str], Summary | None]  # of a problem and a learner, if they were run
Judge: TypeAlias = Callable[[Summary, Summary], tuple[str, str]]  # returns a verdict and its numbers


class Verdict(NamedTuple):
    """Claim of the paper, whether it holds, and the numbers behind the verdict."""

    claim: str
    verdict: str
    numbers: str


def verdicts(summary_of: SummaryOf) -> list[Verdict]:
    """Return verdicts on all claims of the paper that the runs can test."""
    fewest, *_, most = paper.PARTICLES
    comparisons: list[tuple[str, str, str, str, Judge]] = []
    for problem, baseline in paper.PAPERS_BASELINES.items():
        comparisons += [
            (
                problem,
                "idTSfull earns at least as much as idTSvi",
                paper.FULL,
                paper.VI,
                partial(_earns_more, or_equal=True),
            ),
            (problem, f"idTSvi earns more than {baseline}", paper.VI, baseline, _earns_more),
            (problem, "idTSinc varies more from run to run than idTSvi", paper.INC, paper.VI, _varies_more),
        ]
    for panel in paper.FIGURES[1].panels:
        comparisons += [
            (panel.problem, "20 particles earn more than 5", most, fewest, _earns_more),
            (panel.problem, "idTSvi earns more than 20 particles", paper.VI, most, _earns_more),
        ]
    answers = []
    for problem, claim, first, second, judge in comparisons:
        rows = [row for name in (first, second) if (row := summary_of(problem, name)) is not None and row["runs"] > 1]
        if len(rows) == 2:
            answers.append(Verdict(f"{paper.PROBLEMS[problem].title}: {claim}", *judge(*rows)))
    return answers + _three_times(summary_of) + _table(summary_of)


def _earns_more(better: Summary, worse: Summary, or_equal: bool = False) -> tuple[str, str]:
    gap = better["reward_mean"] - worse["reward_mean"]
    noise = CLEAR * math.hypot(better["reward_se"], worse["reward_se"])
    confirmed = gap > noise or (or_equal and gap >= -noise)
    verdict = HOLDS if confirmed else OPEN if gap >= -noise else FAILS
    return verdict, f"{shown(better, 'reward')} against {shown(worse, 'reward')}"


def _varies_more(more: Summary, less: Summary) -> tuple[str, str]:
    wide, narrow = (row["regret_se"] * math.sqrt(row["runs"]) for row in (more, less))
    ratio = wide / narrow if narrow > 0 else math.inf if wide > 0 else 1.0
    # standard error of the logarithm of a ratio of standard deviations
    noise = math.exp(CLEAR * math.sqrt(sum(1 / (2 * (row["runs"] - 1)) for row in (more, less))))
    verdict = HOLDS if ratio > noise else OPEN if ratio > 1 / noise else FAILS
    return verdict, f"standard deviation of the total regret {wide:,.1f} against {narrow:,.1f}"


def _three_times(summary_of: SummaryOf) -> list[Verdict]:
    baseline = summary_of("rank-1 1", paper.RANK1)
    rows = [row for name in (paper.FULL, paper.VI, paper.INC) if (row := summary_of("rank-1 1", name)) is not None]
    if baseline is None or not rows or baseline["reward_mean"] <= 0:
        return []
    best = max(rows, key=lambda row: float(row["reward_mean"]))
    ratio = best["reward_mean"] / baseline["reward_mean"]
    claim = "rank-1 bandit 1: the best of the paper's algorithms earns about three times what Rank1Elim earns"
    numbers = f"{ratio:.2f} times: {shown(best, 'reward')} against {shown(baseline, 'reward')}"
    return [Verdict(claim, HOLDS if 2.5 <= ratio <= 3.5 else FAILS, numbers)]


def _table(summary_of: SummaryOf) -> list[Verdict]:
    """Return verdicts on Table 1."""
    rows = {name: row for name in PAPERS_TABLE if (row := summary_of(paper.TABLE.problem, name)) is not None}
    answers = []
    for name, row in rows.items():
        _, _, mean, error = PAPERS_TABLE[name]
        if math.isfinite(row["reward_se"]) and row["rounds"] == paper.ROUNDS:
            differs = abs(row["reward_mean"] - mean) > CLEAR * math.hypot(error, row["reward_se"])
            answers.append((f"{name} earns {mean:.3f} ± {error:.3f}", not differs, f"{shown(row, 'reward')} here"))
    seconds = {name: row["seconds_mean"] for name, row in rows.items()}
    if len(seconds) == len(PAPERS_TABLE):
        slowest = max(seconds, key=seconds.__getitem__)
        numbers = ", ".join(f"{name} {seconds[name]:.2g} s" for name in dict.fromkeys((paper.VI, paper.INC, slowest)))
        answers.append(("idTSvi takes longest, idTSinc much less", slowest == paper.VI, numbers))
    particles = [seconds[name] for name in paper.PARTICLES if name in seconds]
    if len(particles) == len(paper.PARTICLES):
        numbers = ", ".join(f"{s:.2g} s" for s in particles)
        answers.append(("more particles take longer", particles == sorted(particles), numbers))
    return [Verdict(f"Table 1: {claim}", HOLDS if holds else FAILS, numbers) for claim, holds, numbers in answers]
