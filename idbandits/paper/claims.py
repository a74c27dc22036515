"""What the paper claims, and whether runs of ours confirm it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from idbandits.paper.problems import (
    FIGURES,
    FULL,
    INC,
    PAPERS_BASELINES,
    PARTICLES,
    PROBLEMS,
    RANK1,
    ROUNDS,
    TABLE,
    VI,
)
from idbandits.simulation.plots import Measure

PAPERS_TABLE = {  # Table 1: seconds and average reward, each with its standard error
    VI: (1990.502, 19.702, 0.999, 0.001),
    INC: (212.772, 2.204, 0.983, 0.006),
    "PF (5 particles)": (117.856, 1.049, 0.835, 0.019),
    "PF (10 particles)": (246.291, 3.327, 0.878, 0.015),
    "PF (15 particles)": (357.284, 2.529, 0.926, 0.013),
    "PF (20 particles)": (454.844, 3.054, 0.932, 0.015),
}
PAPERS_MACHINE = "one 2.9 GHz Intel Core i7, 16 GB"

HOLDS, OPEN, FAILS = "holds", "within noise", "does not hold"
CLEAR = 2.0  # standard errors that a difference must exceed

Summary: TypeAlias = Mapping[str, Any]  # a row of `Result.summary()`
SummaryOf: TypeAlias = Callable[[str, str], Summary | None]  # of a problem and a learner, if they were run


@final
@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, whether it holds, and the numbers that say so."""

    claim: str
    verdict: str
    numbers: str


def verdicts(summary_of: SummaryOf) -> list[Verdict]:
    """Verdicts on all claims of the paper that the runs can test."""
    answers: list[Verdict | None] = []
    for problem, baseline in PAPERS_BASELINES.items():
        title = PROBLEMS[problem].title
        full, vi, inc, base = (summary_of(problem, name) for name in (FULL, VI, INC, baseline))
        answers.append(_earns_more(f"{title}: idTSfull earns at least as much as idTSvi", full, vi, or_equal=True))
        answers.append(_earns_more(f"{title}: idTSvi earns more than {baseline}", vi, base))
        answers.append(_varies_more(f"{title}: idTSinc varies more from run to run than idTSvi", inc, vi))
    fewest, *_, most = PARTICLES
    for panel in FIGURES[1].panels:
        title = PROBLEMS[panel.problem].title
        vi, five, twenty = (summary_of(panel.problem, name) for name in (VI, fewest, most))
        answers.append(_earns_more(f"{title}: 20 particles earn more than 5", twenty, five))
        answers.append(_earns_more(f"{title}: idTSvi earns more than 20 particles", vi, twenty))
    answers.append(_earns_three_times(summary_of))
    table = {name: row for name in PAPERS_TABLE if (row := summary_of(TABLE.problem, name)) is not None}
    answers += [_earns_as_in_the_table(name, row) for name, row in table.items()]
    answers += [_variational_takes_longest(table), _more_particles_take_longer(table)]
    return [verdict for verdict in answers if verdict is not None]


def _earns_more(claim: str, better: Summary | None, worse: Summary | None, or_equal: bool = False) -> Verdict | None:
    if better is None or worse is None or better["runs"] < 2 or worse["runs"] < 2:
        return None
    gap = better["reward_mean"] - worse["reward_mean"]
    noise = CLEAR * math.hypot(better["reward_se"], worse["reward_se"])
    confirmed = gap > noise or (or_equal and gap >= -noise)
    verdict = HOLDS if confirmed else OPEN if gap >= -noise else FAILS
    return Verdict(claim, verdict, f"{shown(better, 'reward')} against {shown(worse, 'reward')}")


def _varies_more(claim: str, more: Summary | None, less: Summary | None) -> Verdict | None:
    if more is None or less is None or more["runs"] < 2 or less["runs"] < 2:
        return None
    wide, narrow = (row["regret_se"] * math.sqrt(row["runs"]) for row in (more, less))
    ratio = wide / narrow if narrow > 0 else math.inf if wide > 0 else 1.0
    # the standard error of the logarithm of a ratio of standard deviations
    noise = math.exp(CLEAR * math.sqrt(sum(1 / (2 * (row["runs"] - 1)) for row in (more, less))))
    verdict = HOLDS if ratio > noise else OPEN if ratio > 1 / noise else FAILS
    return Verdict(claim, verdict, f"standard deviation of the total regret {wide:,.1f} against {narrow:,.1f}")


def _earns_three_times(summary_of: SummaryOf) -> Verdict | None:
    baseline = summary_of("rank-1 1", RANK1)
    ours = [row for name in (FULL, VI, INC) if (row := summary_of("rank-1 1", name)) is not None]
    if baseline is None or not ours or baseline["reward_mean"] <= 0:
        return None
    best = max(ours, key=lambda row: float(row["reward_mean"]))
    ratio = best["reward_mean"] / baseline["reward_mean"]
    return Verdict(
        "rank-1 bandit 1: the best of the paper's algorithms earns about three times what Rank1Elim earns",
        HOLDS if 2.5 <= ratio <= 3.5 else FAILS,
        f"{ratio:.2f} times: {shown(best, 'reward')} against {shown(baseline, 'reward')}",
    )


def _earns_as_in_the_table(learner: str, ours: Summary) -> Verdict | None:
    if not math.isfinite(ours["reward_se"]) or ours["rounds"] != ROUNDS:
        return None
    _, _, mean, error = PAPERS_TABLE[learner]
    differs = abs(ours["reward_mean"] - mean) > CLEAR * math.hypot(error, ours["reward_se"])
    claim = f"Table 1: {learner} earns {mean:.3f} ± {error:.3f}"
    return Verdict(claim, FAILS if differs else HOLDS, f"{shown(ours, 'reward')} here")


def _variational_takes_longest(table: Mapping[str, Summary]) -> Verdict | None:
    if len(table) < len(PAPERS_TABLE):
        return None
    slowest = max(table, key=lambda name: float(table[name]["seconds_mean"]))
    numbers = ", ".join(f"{name} {table[name]['seconds_mean']:.2g} s" for name in dict.fromkeys((VI, INC, slowest)))
    return Verdict("Table 1: idTSvi takes longest, idTSinc much less", HOLDS if slowest == VI else FAILS, numbers)


def _more_particles_take_longer(table: Mapping[str, Summary]) -> Verdict | None:
    seconds = [table[name]["seconds_mean"] for name in PARTICLES if name in table]
    if len(seconds) < len(PARTICLES):
        return None
    verdict = HOLDS if seconds == sorted(seconds) else FAILS
    return Verdict("Table 1: more particles take longer", verdict, ", ".join(f"{s:.2g} s" for s in seconds))


def shown(summary: Summary, measure: Measure) -> str:
    """A mean with its standard error, to the digits that are significant.

    >>> shown({"reward_mean": 0.98765, "reward_se": 0.0012}, "reward")
    '0.9877 ± 0.0012'
    """
    mean, error = summary[f"{measure}_mean"], summary[f"{measure}_se"]
    if not math.isfinite(error) or error <= 0:
        return f"{mean:,.4f}" if measure == "reward" else f"{mean:,.1f}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    digits = min(digits, 5 if measure == "reward" else 1)
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"
