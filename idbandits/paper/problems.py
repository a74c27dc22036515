"""The evaluation of Yu et al., Influence Diagram Bandits (ICML 2020), as data: problems, learners, figures and claims.

What goes beyond the paper is marked so. Texts that say what the paper reports are in our words.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from idbandits import baselines, models
from idbandits.agent.thompson import Thompson
from idbandits.diagram.declare import Diagram
from idbandits.inference import Incremental, Particles, Variational
from idbandits.paper.literal import Literal
from idbandits.simulation.world import World

ROUNDS, RUNS = 20_000, 20
QUICK_ROUNDS, QUICK_RUNS = 2_000, 4


@final
@dataclass(frozen=True)
class Problem:
    """A world to act in, and the diagram that learners have of it; `general`: one with all of its tables to learn."""

    title: str
    make: Callable[[], Diagram]
    means: Mapping[str, Any]
    general: Callable[[], Diagram] | None = None

    @functools.cached_property
    def diagram(self) -> Diagram:
        """The diagram of the world."""
        return self.make()

    def world(self) -> World:
        """The truth."""
        return World(self.diagram, self.means, seed=0)


def _steps(number: int, of: int) -> Any:
    """1/of, 2/of, …"""
    return np.arange(1, number + 1) / of


_ITEMS = {"attraction": _steps(20, 20)}

PROBLEMS = {
    "cascade 1": Problem(
        "cascade model 1",
        lambda: models.cascade(20, 2),
        _ITEMS,
        lambda: models.cascade(20, 2, learn_conditionals=True),
    ),
    "cascade 2": Problem(
        "cascade model 2",
        lambda: models.cascade_inverted(20, 2),
        _ITEMS,
        lambda: models.cascade_inverted(20, 2, learn_conditionals=True),
    ),
    "position-based 1": Problem(
        "position-based model 1", lambda: models.position_based(20, 2), {**_ITEMS, "examination": np.array([0.7, 0.7])}
    ),
    "position-based 2": Problem(
        "position-based model 2", lambda: models.position_based(20, 2), {**_ITEMS, "examination": np.array([0.8, 0.2])}
    ),
    "rank-1 1": Problem(
        "rank-1 bandit 1", lambda: models.rank1(8, 10), {"row": _steps(8, 16), "column": _steps(10, 20)}
    ),
    "rank-1 2": Problem(
        "rank-1 bandit 2", lambda: models.rank1(8, 10), {"row": _steps(8, 8), "column": _steps(10, 10)}
    ),
    "semi-bandit": Problem("semi-bandit", lambda: models.semi_bandit(20, 2), {"mean": _steps(20, 20)}),
}


# -- learners ------------------------------------------------------------------------------------------------------

OURS, BASELINE, BEYOND = "the paper's", "baseline", "beyond the paper"


@final
@dataclass(frozen=True)
class Contender:
    """A learner of the evaluation: how it is made for a problem and a number of rounds, and what it is.

    `share` is the part of the rounds, and of the runs, that it plays: less than 1 for what would take too long.
    """

    make: Callable[[Problem, int], Any]
    kind: str
    about: str
    share: float = 1.0


def _thompson(inference: Any) -> Callable[[Problem, int], Any]:
    return lambda problem, _: Thompson(problem.diagram, inference)


def _revealed(inference: Any) -> Callable[[Problem, int], Any]:
    return lambda problem, _: Thompson(problem.diagram.revealed(), inference)


def _general(inference: Any, reveal: bool = False) -> Callable[[Problem, int], Any]:
    def make(problem: Problem, _: int) -> Any:
        assert problem.general is not None
        d = problem.general()
        return Thompson(d.revealed() if reveal else d, inference)

    return make


def _baseline(kind: Any, **settings: Any) -> Callable[[Problem, int], Any]:
    return lambda problem, _: kind(problem.diagram, **settings)


def _with_horizon(kind: Any) -> Callable[[Problem, int], Any]:
    return lambda problem, rounds: kind(problem.diagram, horizon=max(2, rounds))  # the least that they know


FULL, VI, INC = "idTSfull", "idTSvi", "idTSinc"
KLUCB, TOPRANK, RANK1 = "CascadeKL-UCB", "TopRank", "Rank1Elim"
FIRST_AND_LAST = "CascadeKL-UCB, last click"
AS_WRITTEN = "idTSvi as written, in NumPy"
PARTICLES = {f"PF ({m} particles)": m for m in (5, 10, 15, 20)}

LEARNERS = {
    FULL: Contender(_revealed("exact"), OURS, "sees the latent nodes: an upper bound for the others"),
    VI: Contender(_thompson(Variational(literal=True)), OURS, "variational, one sweep a round from where it was"),
    INC: Contender(_thompson(Incremental(literal=True)), OURS, "the last round only, up to 30 iterations"),
    **{
        name: Contender(_revealed(Particles(m)), OURS, f"particle filter with {m} models; sees the latent nodes")
        for name, m in PARTICLES.items()
    },
    KLUCB: Contender(_baseline(baselines.CascadeKLUCB), BASELINE, "Kveton et al. 2015, down to the first click"),
    TOPRANK: Contender(_with_horizon(baselines.TopRank), BASELINE, "Lattimore et al. 2018"),
    RANK1: Contender(_with_horizon(baselines.Rank1Elim), BASELINE, "Katariya et al. 2017"),
    "idTS, exact": Contender(_thompson("exact"), BEYOND, "the exact posterior: what matters is de facto observed"),
    "moments": Contender(_thompson("moments"), BEYOND, "matches two moments of the posterior after every round"),
    "gibbs": Contender(_thompson("gibbs"), BEYOND, "draws from the exact posterior, in the limit"),
    "ep": Contender(_thompson("ep"), BEYOND, "expectation propagation; the library's default"),
    "idTSvi, folded": Contender(
        _thompson(Variational()), BEYOND, "latent nodes that cannot matter are summed out exactly"
    ),
    "idTSvi, random start": Contender(
        _thompson(Variational(literal=True, start="random")), BEYOND, "q begins anew at random in every round"
    ),
    "idTSinc, random start": Contender(
        _thompson(Incremental(literal=True, start="random")), BEYOND, "q begins anew at random in every round"
    ),
    AS_WRITTEN: Contender(
        lambda problem, _: Literal(problem.diagram),
        BEYOND,
        "every sweep goes through all rounds so far and all joint latent states",
        share=0.1,
    ),
    "idTSfull, all tables learned": Contender(_general("exact", reveal=True), BEYOND, "P(C | W, E) and P(E | C, E)"),
    "idTSvi, folded, all tables learned": Contender(_general(Variational()), BEYOND, "latent nodes hidden"),
    FIRST_AND_LAST: Contender(
        _baseline(baselines.CascadeKLUCB, reading="last"), BEYOND, "the same, examined down to the last click"
    ),
    "CascadeUCB1": Contender(_baseline(baselines.CascadeUCB1), BEYOND, "Kveton et al. 2015"),
    "CombUCB1": Contender(_baseline(baselines.CombUCB1), BEYOND, "Kveton et al. 2015; an arm an item and position"),
    "KL-CombUCB1": Contender(_with_horizon(baselines.KLCombUCB1), BEYOND, "the same with KL-UCB indices"),
    "GRAB": Contender(_with_horizon(baselines.GRAB), BEYOND, "Gauthier et al. 2021"),
    "Rank1ElimKL": Contender(_with_horizon(baselines.Rank1ElimKL), BEYOND, "Katariya et al. 2017, with KL bounds"),
    "UCB1": Contender(_baseline(baselines.UCB1), BEYOND, "Auer et al. 2002; every list is an arm of its own"),
    "ε-greedy": Contender(_baseline(baselines.EpsilonGreedy), BEYOND, "a random list every tenth round"),
    "uniform": Contender(_baseline(baselines.Uniform), BEYOND, "random lists"),
}  # fmt: skip


# -- figures -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Panel:
    """Learners on one problem, and what is special about them."""

    key: str
    problem: str
    learners: tuple[str, ...]
    note: str = ""


@final
@dataclass(frozen=True)
class Figure:
    """Panels that belong together, what they show (`reward` or `regret`), and what the paper says of them."""

    key: str
    title: str
    what: str
    panels: tuple[Panel, ...]
    text: str
    kind: str = OURS


_SIX = tuple(zip("abcdef", list(PROBLEMS)[:6], strict=True))
_PAPERS_BASELINE = (KLUCB, KLUCB, TOPRANK, TOPRANK, RANK1, RANK1)
_OTHER_BASELINES = (
    (*((FIRST_AND_LAST, "CascadeUCB1"),) * 2, *(("CombUCB1", "KL-CombUCB1", "GRAB"),) * 2, *(("Rank1ElimKL",),) * 2)
)  # fmt: skip
_BEST_OF_OURS = (*("idTS, exact",) * 2, *("ep",) * 4)
_NO_STRUCTURE = ("UCB1", "ε-greedy", "uniform")
_VARIANTS = (VI, "idTSvi, folded", "idTSvi, random start", INC, "idTSinc, random start")
_GENERAL = ("idTSfull, all tables learned", "idTSvi, folded, all tables learned")
_INFERENCES = ("moments", "gibbs", "ep", "idTSvi, folded")


def _per_problem(key: str, learners: Callable[[int], Sequence[str]]) -> tuple[Panel, ...]:
    return tuple(Panel(f"{key}{letter}", problem, tuple(learners(i))) for i, (letter, problem) in enumerate(_SIX))


FIGURES = (
    Figure(
        "2",
        "Figure 2: the algorithms of the paper and a baseline on each of the six problems",
        "reward",
        _per_problem("2", lambda i: (FULL, VI, INC, _PAPERS_BASELINE[i])),
        "The paper finds idTSfull and idTSvi best throughout and close to each other. idTSinc comes last of the three, "
        "with much variance between runs, about as good as TopRank on the position-based models. CascadeKL-UCB keeps "
        "up on cascade model 1, whose assumption it makes, and falls clearly behind on model 2, which breaks it. "
        "TopRank and Rank1Elim stay clearly below. On rank-1 bandit 2, Rank1Elim improves sharply after 10,000 rounds, "
        "when an elimination stage ends. At best, the rewards are three times those of Rank1Elim.",
    ),
    Figure(
        "3",
        "Figure 3: variational inference and particle filters",
        "reward",
        tuple(
            Panel(f"3{letter}", problem, (VI, INC, *PARTICLES))
            for letter, problem in zip("abc", ("cascade 1", "position-based 1", "rank-1 1"), strict=True)
        ),
        "The paper finds both variational algorithms clearly better than particle filters, although these see the "
        "latent nodes. The filters vary more from run to run, get better from 5 to 20 particles, and may get worse in "
        "the course of a run.",
    ),
    Figure(
        "B1",
        "Figure B1: the regret in Figure 2, and better inference",
        "regret",
        _per_problem("B1", lambda i: (FULL, VI, INC, *(("idTS, exact",) if i < 2 else _INFERENCES))),
        "In the cascade models what is seen determines all that matters, so the exact posterior can be had: idTS "
        "itself, which the paper bounds from above by idTSfull; moments, gibbs and ep are the same there. Elsewhere, "
        "gibbs is the nearest thing to it. All inferences use the same circuit with other weights.",
        BEYOND,
    ),
    Figure(
        "B2",
        "Figure B2: the regret of more baselines",
        "regret",
        _per_problem(
            "B2", lambda i: (VI, _BEST_OF_OURS[i], _PAPERS_BASELINE[i], *_OTHER_BASELINES[i], *_NO_STRUCTURE)
        ),
        "TopRank makes few assumptions and pays for it; GRAB and KL-CombUCB1 are stronger on the position-based "
        "models. In cascade model 2 there may be two clicks, and CascadeKL-UCB depends on which one is taken for the "
        "end of the list: both readings are shown.",
        BEYOND,
    ),
    Figure(
        "B3",
        "Figure B3: what the paper's pseudocode leaves open, tables that are learned too, and the semi-bandit",
        "regret",
        (
            Panel("B3a", "cascade 1", _VARIANTS, "start and folding"),
            Panel("B3b", "position-based 1", _VARIANTS, "start and folding"),
            Panel("B3c", "cascade 1", (VI, *_GENERAL), "all tables learned"),
            Panel("B3d", "semi-bandit", ("idTS, exact", "CombUCB1", "KL-CombUCB1")),
        ),
        "a, b: each round, idTSvi and idTSinc may go on from the last q (warm, the default) or begin anew at random, "
        "as the pseudocode says; and the latent nodes that cannot matter may be kept (literal, as in the equations) or "
        "summed out (folded). c: the learner is not told how clicks and examination come about and learns these tables "
        "too. d: the combinatorial semi-bandit, which the paper defines but does not plot.",
        BEYOND,
    ),
)  # fmt: skip

TABLE = Panel("table 1", "cascade 1", (VI, INC, *PARTICLES, AS_WRITTEN))
PAPERS_TABLE = {  # seconds and average reward, each with its standard error
    VI: (1990.502, 19.702, 0.999, 0.001),
    INC: (212.772, 2.204, 0.983, 0.006),
    "PF (5 particles)": (117.856, 1.049, 0.835, 0.019),
    "PF (10 particles)": (246.291, 3.327, 0.878, 0.015),
    "PF (15 particles)": (357.284, 2.529, 0.926, 0.013),
    "PF (20 particles)": (454.844, 3.054, 0.932, 0.015),
}
PAPERS_MACHINE = "one 2.9 GHz Intel Core i7, 16 GB"


# -- claims --------------------------------------------------------------------------------------------------------

Summary: TypeAlias = Callable[[str, str], Mapping[str, Any] | None]  # of a problem and a learner, if they were run
HOLDS, OPEN, FAILS = "holds", "within noise", "does not hold"
CLEAR = 2.0  # standard errors that a difference must exceed


@final
@dataclass(frozen=True)
class Verdict:
    """What became of a claim of the paper: the claim, holds or not, and the numbers."""

    claim: str
    verdict: str
    numbers: str


def verdicts(of: Summary) -> list[Verdict]:
    """All claims of the paper that what was run can say something about."""
    found: list[Verdict | None] = []
    for (_, problem), baseline in zip(_SIX, _PAPERS_BASELINE, strict=True):
        title = PROBLEMS[problem].title
        found.append(
            _compare(of, f"{title}: idTSfull earns at least as much as idTSvi", problem, FULL, VI, or_equal=True)
        )
        found.append(_compare(of, f"{title}: idTSvi earns more than {baseline}", problem, VI, baseline))
        found.append(_spread(of, f"{title}: idTSinc varies more from run to run than idTSvi", problem, INC, VI))
    names = list(PARTICLES)
    for panel in FIGURES[1].panels:
        title = PROBLEMS[panel.problem].title
        found.append(_compare(of, f"{title}: 20 particles earn more than 5", panel.problem, names[-1], names[0]))
        found.append(_compare(of, f"{title}: idTSvi earns more than 20 particles", panel.problem, VI, names[-1]))
    found.append(_triple(of))
    found += [_like_the_table(of, name) for name in PAPERS_TABLE]
    found += [_slowest(of), _slower_with_particles(of)]
    return [verdict for verdict in found if verdict is not None]


def _compare(of: Summary, claim: str, problem: str, better: str, worse: str, or_equal: bool = False) -> Verdict | None:
    a, b = of(problem, better), of(problem, worse)
    if a is None or b is None or a["runs"] < 2 or b["runs"] < 2:
        return None
    gap, error = a["reward_mean"] - b["reward_mean"], math.hypot(a["reward_se"], b["reward_se"])
    if or_equal:
        verdict = HOLDS if gap >= -CLEAR * error else FAILS
    else:
        verdict = HOLDS if gap > CLEAR * error else OPEN if gap >= -CLEAR * error else FAILS
    return Verdict(claim, verdict, f"{shown(a, 'reward')} against {shown(b, 'reward')}")


def _spread(of: Summary, claim: str, problem: str, more: str, less: str) -> Verdict | None:
    a, b = of(problem, more), of(problem, less)
    if a is None or b is None or a["runs"] < 2 or b["runs"] < 2:
        return None
    wide, narrow = (s["regret_se"] * math.sqrt(s["runs"]) for s in (a, b))
    ratio = wide / narrow if narrow > 0 else math.inf if wide > 0 else 1.0
    noise = math.exp(CLEAR * math.sqrt(sum(1 / (2 * (s["runs"] - 1)) for s in (a, b))))  # of a ratio of deviations
    verdict = HOLDS if ratio > noise else OPEN if ratio > 1 / noise else FAILS
    return Verdict(claim, verdict, f"standard deviation of the total regret {wide:,.1f} against {narrow:,.1f}")


def _triple(of: Summary) -> Verdict | None:
    base = of("rank-1 1", RANK1)
    ours = [s for name in (FULL, VI, INC) if (s := of("rank-1 1", name)) is not None]
    if base is None or not ours or base["reward_mean"] <= 0:
        return None
    best = max(ours, key=lambda s: float(s["reward_mean"]))
    ratio = best["reward_mean"] / base["reward_mean"]
    return Verdict(
        "rank-1 bandit 1: the best of the paper's algorithms earns about three times what Rank1Elim earns",
        HOLDS if 2.5 <= ratio <= 3.5 else FAILS,
        f"{ratio:.2f} times: {shown(best, 'reward')} against {shown(base, 'reward')}",
    )


def _like_the_table(of: Summary, learner: str) -> Verdict | None:
    ours = of(TABLE.problem, learner)
    if ours is None or not math.isfinite(ours["reward_se"]) or ours["rounds"] != ROUNDS:
        return None
    _, _, mean, error = PAPERS_TABLE[learner]
    apart = abs(ours["reward_mean"] - mean) > CLEAR * math.hypot(error, ours["reward_se"])
    return Verdict(
        f"Table 1: {learner} earns {mean:.3f} ± {error:.3f}", FAILS if apart else HOLDS, f"{shown(ours, 'reward')} here"
    )


def _slowest(of: Summary) -> Verdict | None:
    seconds = {name: s["seconds_mean"] for name in PAPERS_TABLE if (s := of(TABLE.problem, name)) is not None}
    if len(seconds) < len(PAPERS_TABLE):
        return None
    slowest = max(seconds, key=lambda name: float(seconds[name]))
    numbers = ", ".join(f"{name} {seconds[name]:.2g} s" for name in dict.fromkeys((VI, INC, slowest)))
    return Verdict("Table 1: idTSvi takes longest, idTSinc much less", HOLDS if slowest == VI else FAILS, numbers)


def _slower_with_particles(of: Summary) -> Verdict | None:
    times = [s["seconds_mean"] for name in PARTICLES if (s := of(TABLE.problem, name)) is not None]
    if len(times) < len(PARTICLES):
        return None
    verdict = HOLDS if times == sorted(times) else FAILS
    return Verdict("Table 1: more particles take longer", verdict, ", ".join(f"{t:.2g} s" for t in times))


def shown(summary: Mapping[str, Any], what: str) -> str:
    """A mean with its standard error, to the digits that mean something.

    >>> shown({"reward_mean": 0.98765, "reward_se": 0.0012}, "reward")
    '0.9877 ± 0.0012'
    """
    mean, error = summary[f"{what}_mean"], summary[f"{what}_se"]
    if not math.isfinite(error) or error <= 0:
        return f"{mean:,.4f}" if what == "reward" else f"{mean:,.1f}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    digits = min(digits, 5 if what == "reward" else 1)
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"
