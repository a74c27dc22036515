"""Evaluation of Yu et al., Influence Diagram Bandits (ICML 2020), as data, with marked additions beyond the paper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import numpy as np

from idbandits import baselines, models
from idbandits.agent.thompson import Thompson
from idbandits.diagram.diagram import Diagram
from idbandits.inference import Incremental, Particles, Variational
from idbandits.kernel.array_types import Floats
from idbandits.reproduction.literal import Literal
from idbandits.simulation.plots import Measure
from idbandits.simulation.world import World

ROUNDS, RUNS, QUICK_ROUNDS, QUICK_RUNS = 20_000, 20, 2_000, 4


@final
@dataclass(frozen=True)
class Problem:
    """World of the evaluation, whose diagram most learners share."""

    title: str
    make: Callable[[], Diagram]
    means: Mapping[str, Any]

    @cached_property
    def diagram(self) -> Diagram:
        """Diagram of the world."""
        return self.make()

    def world(self) -> World:
        """Return the world."""
        return World(self.diagram, self.means, seed=0)


def _steps(number: int, divisor: int) -> Floats:
    """Return the means 1/divisor, 2/divisor, …, number/divisor."""
    return np.arange(1, number + 1) / divisor


_ITEMS = {"attraction": _steps(20, 20)}
_LISTS, _PAIRS = partial(models.position_based, 20, 2), partial(models.rank1, 8, 10)
_ALL_LEARNED = partial(models.cascade, 20, 2, learn_conditionals=True)

PROBLEMS = {
    "cascade 1": Problem("cascade model 1", partial(models.cascade, 20, 2), _ITEMS),
    "cascade 2": Problem("cascade model 2", partial(models.cascade_inverted, 20, 2), _ITEMS),
    "position-based 1": Problem("position-based model 1", _LISTS, {**_ITEMS, "examination": np.array([0.7, 0.7])}),
    "position-based 2": Problem("position-based model 2", _LISTS, {**_ITEMS, "examination": np.array([0.8, 0.2])}),
    "rank-1 1": Problem("rank-1 bandit 1", _PAIRS, {"row": _steps(8, 16), "column": _steps(10, 20)}),
    "rank-1 2": Problem("rank-1 bandit 2", _PAIRS, {"row": _steps(8, 8), "column": _steps(10, 10)}),
    "semi-bandit": Problem("semi-bandit", partial(models.semi_bandit, 20, 2), {"mean": _steps(20, 20)}),
}

PAPER, BASELINE, BEYOND = "paper", "baseline", "beyond the paper"  # kinds of learners and figures
Make = Callable[[Problem, int], Any]  # makes a learner for a problem and a number of rounds


class Contender(NamedTuple):
    """Learner of the evaluation."""

    make: Make
    kind: str
    about: str
    share: float = 1.0  # of the rounds and of the runs that it plays; below 1 if all would take too long


def _thompson(inference: Any, make: Callable[[], Diagram] | None = None, reveal: bool = False) -> Make:
    """Thompson sampling with the diagram of the problem, or that of `make`; latent nodes may be revealed."""

    def learner(problem: Problem, _: int) -> Thompson:
        d = make() if make else problem.diagram
        return Thompson(d.revealed() if reveal else d, inference)

    return learner


def _baseline(kind: Any, **settings: Any) -> Make:
    return lambda problem, _: kind(problem.diagram, **settings)


def _with_horizon(kind: Any) -> Make:
    return lambda problem, rounds: kind(problem.diagram, horizon=max(2, rounds))  # the minimum of the baselines


FULL, VI, INC = "idTSfull", "idTSvi", "idTSinc"
KLUCB, TOPRANK, RANK1 = "CascadeKL-UCB", "TopRank", "Rank1Elim"
KLUCB_LAST, AS_WRITTEN = "CascadeKL-UCB, last click", "idTSvi as written, in NumPy"
PARTICLES = {f"PF ({m} particles)": m for m in (5, 10, 15, 20)}
_RANDOM_START = "q starts at random in every round"

LEARNERS = {
    FULL: Contender(_thompson("exact", reveal=True), PAPER, "sees the latent nodes: an upper bound for the others"),
    VI: Contender(_thompson(Variational(literal=True)), PAPER, "variational, one sweep per round from the last q"),
    INC: Contender(_thompson(Incremental(literal=True)), PAPER, "the last round only, up to 30 iterations"),
    **{
        name: Contender(_thompson(Particles(m), reveal=True), PAPER,
                        f"particle filter with {m} models; sees the latent nodes")
        for name, m in PARTICLES.items()
    },
    KLUCB: Contender(_baseline(baselines.CascadeKLUCB), BASELINE, "Kveton et al. 2015, down to the first click"),
    TOPRANK: Contender(_with_horizon(baselines.TopRank), BASELINE, "Lattimore et al. 2018"),
    RANK1: Contender(_with_horizon(baselines.Rank1Elim), BASELINE, "Katariya et al. 2017"),
    "idTS, exact": Contender(_thompson("exact"), BEYOND, "exact posterior: all relevant nodes are de facto observed"),
    "moments": Contender(_thompson("moments"), BEYOND, "matches two moments of the posterior after every round"),
    "gibbs": Contender(_thompson("gibbs"), BEYOND, "draws that converge to the exact posterior; the default"),
    "ep": Contender(_thompson("ep"), BEYOND, "expectation propagation"),
    "idTSvi, folded":
        Contender(_thompson(Variational()), BEYOND, "irrelevant latent nodes are summed out exactly"),
    "idTSvi, random start": Contender(_thompson(Variational(literal=True, start="random")), BEYOND, _RANDOM_START),
    "idTSinc, random start": Contender(_thompson(Incremental(literal=True, start="random")), BEYOND, _RANDOM_START),
    AS_WRITTEN: Contender(lambda problem, _: Literal(problem.diagram), BEYOND,
                          "every sweep goes through all rounds so far and all joint latent states", share=0.1),
    "idTSfull, all tables learned":
        Contender(_thompson("exact", _ALL_LEARNED, reveal=True), BEYOND, "P(C | W, E) and P(E | C, E)"),
    "idTSvi, folded, all tables learned":
        Contender(_thompson(Variational(), _ALL_LEARNED), BEYOND, "latent nodes hidden"),
    KLUCB_LAST: Contender(_baseline(baselines.CascadeKLUCB, reading="last"), BEYOND,
                          "examined down to the last click"),
    "CascadeUCB1": Contender(_baseline(baselines.CascadeUCB1), BEYOND, "Kveton et al. 2015"),
    "CombUCB1": Contender(_baseline(baselines.CombUCB1), BEYOND, "Kveton et al. 2015; one arm per item and position"),
    "KL-CombUCB1": Contender(_with_horizon(baselines.KLCombUCB1), BEYOND, "CombUCB1 with KL-UCB indices"),
    "GRAB": Contender(_with_horizon(baselines.GRAB), BEYOND, "Gauthier et al. 2021"),
    "Rank1ElimKL": Contender(_with_horizon(baselines.Rank1ElimKL), BEYOND, "Katariya et al. 2017, with KL bounds"),
    "UCB1": Contender(_baseline(baselines.UCB1), BEYOND, "Auer et al. 2002; one arm per list"),
    "ε-greedy": Contender(_baseline(baselines.EpsilonGreedy), BEYOND, "a random list every tenth round"),
    "uniform": Contender(_baseline(baselines.Uniform), BEYOND, "random lists"),
}  # fmt: skip


class Panel(NamedTuple):
    """Learners on one problem, with an optional note for the title."""

    key: str
    problem: str
    learners: tuple[str, ...]
    note: str = ""


class Figure(NamedTuple):
    """Panels of a figure, the measure that they show, and a text about them."""

    key: str
    title: str
    measure: Measure
    panels: tuple[Panel, ...]
    text: str
    kind: str = PAPER


PAPERS_BASELINES = {
    "cascade 1": KLUCB, "cascade 2": KLUCB, "position-based 1": TOPRANK, "position-based 2": TOPRANK,
    "rank-1 1": RANK1, "rank-1 2": RANK1,
}  # fmt: skip
PAPERS_PROBLEMS = tuple(PAPERS_BASELINES)
_MORE_BASELINES = {
    KLUCB: [KLUCB_LAST, "CascadeUCB1"], TOPRANK: ["CombUCB1", "KL-CombUCB1", "GRAB"], RANK1: ["Rank1ElimKL"],
}  # fmt: skip
_VARIANTS = (VI, "idTSvi, folded", "idTSvi, random start", INC, "idTSinc, random start")


def _panels(key: str, problems: Sequence[str], learners: Callable[[str], Sequence[str]]) -> tuple[Panel, ...]:
    """Return one panel per problem, lettered from a."""
    lettered = zip("abcdef", problems, strict=False)
    return tuple(Panel(f"{key}{letter}", problem, tuple(learners(problem))) for letter, problem in lettered)


def _figure_b1(problem: str) -> Sequence[str]:
    better = ["idTS, exact"] if problem.startswith("cascade") else ["moments", "gibbs", "ep", "idTSvi, folded"]
    return FULL, VI, INC, *better


def _figure_b2(problem: str) -> Sequence[str]:
    best_of_ours, baseline = "idTS, exact" if problem.startswith("cascade") else "gibbs", PAPERS_BASELINES[problem]
    return VI, best_of_ours, baseline, *_MORE_BASELINES[baseline], "UCB1", "ε-greedy", "uniform"


FIGURES = (
    Figure(
        "2", "Figure 2: the algorithms of the paper and a baseline on each of the six problems", "reward",
        _panels("2", PAPERS_PROBLEMS, lambda problem: (FULL, VI, INC, PAPERS_BASELINES[problem])),
        "The paper finds idTSfull and idTSvi best throughout and close to each other. idTSinc comes last of the three, "
        "with much variance between runs, about as good as TopRank on the position-based models. CascadeKL-UCB keeps "
        "up on cascade model 1, whose assumption it makes, and falls clearly behind on model 2, which breaks it. "
        "TopRank and Rank1Elim stay clearly below. On rank-1 bandit 2, Rank1Elim improves sharply after 10,000 rounds, "
        "when an elimination stage ends. At best, the rewards are three times those of Rank1Elim.",
    ),
    Figure(
        "3", "Figure 3: variational inference and particle filters", "reward",
        _panels("3", ("cascade 1", "position-based 1", "rank-1 1"), lambda _: (VI, INC, *PARTICLES)),
        "The paper finds both variational algorithms clearly better than particle filters, although these see the "
        "latent nodes. The filters vary more from run to run, get better from 5 to 20 particles, and may get worse in "
        "the course of a run.",
    ),
    Figure(
        "B1", "Figure B1: the regret in Figure 2, and better inference", "regret",
        _panels("B1", PAPERS_PROBLEMS, _figure_b1),
        "In the cascade models the observation determines all relevant nodes, so the posterior is computed exactly: "
        "this is idTS itself, which the paper bounds from above by idTSfull; moments, gibbs and ep are equal to it "
        "there. Elsewhere, gibbs comes closest to it.",
        BEYOND,
    ),
    Figure(
        "B2", "Figure B2: the regret of more baselines", "regret",
        _panels("B2", PAPERS_PROBLEMS, _figure_b2),
        "TopRank makes few assumptions; GRAB and KL-CombUCB1 are better on the position-based models. In cascade "
        "model 2 there may be two clicks, and CascadeKL-UCB may take the first or the last one for the end of the "
        "examination: both are shown.",
        BEYOND,
    ),
    Figure(
        "B3", "Figure B3: variants that the pseudocode permits, learning all tables, and the semi-bandit", "regret",
        (
            Panel("B3a", "cascade 1", _VARIANTS, "start and folding"),
            Panel("B3b", "position-based 1", _VARIANTS, "start and folding"),
            Panel("B3c", "cascade 1", (VI, "idTSfull, all tables learned", "idTSvi, folded, all tables learned"),
                  "all tables learned"),
            Panel("B3d", "semi-bandit", ("idTS, exact", "CombUCB1", "KL-CombUCB1")),
        ),
        "a, b: in each round, idTSvi and idTSinc may continue from the last q (warm, the default) or start at random, "
        "as in the pseudocode; irrelevant latent nodes may remain (literal, as in the equations) or be summed out "
        "(folded). c: the learner also learns the tables of clicks and examination. d: the combinatorial semi-bandit, "
        "which the paper defines but does not plot.",
        BEYOND,
    ),
)  # fmt: skip

TABLE = Panel("table 1", "cascade 1", (VI, INC, *PARTICLES, AS_WRITTEN))
