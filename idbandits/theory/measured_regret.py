"""Bayes regret by simulation: the means of every run's world are drawn from the prior."""

from __future__ import annotations

import functools
import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from idbandits import models
from idbandits.agent.thompson import Thompson
from idbandits.circuit.model import compile
from idbandits.diagram import tables
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief, check_whole, is_integer
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.simulation.loop import Run
from idbandits.simulation.plots import line_style
from idbandits.simulation.simulate import begin, check_learner, check_runs, check_size, plan, random_numbers
from idbandits.simulation.workers import MOST_ROUNDS, run_all
from idbandits.simulation.world import World
from idbandits.theory.bounds import bound

if TYPE_CHECKING:  # loaded when used, because that takes long
    import pandas

    Panels: TypeAlias = NDArray[np.object_]  # of axes of Matplotlib

CHECKPOINTS = 25  # of a run, evenly spaced on a logarithmic scale
COLUMNS = [
    "model", "grows", "items", "positions", "rounds", "runs", "regret_mean", "regret_se", "bound", "omax", "trivial",
    "useful_from",
]  # fmt: skip
MODELS = {"semi-bandit": models.semi_bandit, "cascade": models.cascade}


@final
class BayesRegret(NamedTuple):
    """The total regret after given numbers of rounds: means over runs, and their standard errors (NaN for one run)."""

    rounds: Ints
    mean: Floats
    se: Floats
    runs: int


def bayes_regret(
    d: Diagram, rounds: int | Sequence[int], runs: int, learner: Any = None, seed: int = 0, workers: int | None = None
) -> BayesRegret:
    """The Bayes regret of a learner, exact idTS if none is given, in worlds whose means are drawn from the prior.

    `rounds` is the number of rounds of each run, or the numbers of rounds after which the regret is wanted. Every run
    starts from a fresh copy of the learner; results do not depend on the number of workers.

    >>> regret = bayes_regret(models.semi_bandit(4, 2), rounds=500, runs=20)
    >>> bool(0 < regret.mean[-1] < bound(models.semi_bandit(4, 2), 500).value)
    True
    """
    checkpoints = _checkpoints(rounds)
    runs, seed, workers = check_runs(runs, seed, workers)
    check_size(runs, len(checkpoints))
    learner = Thompson(d, "exact", seed=0) if learner is None else learner
    check_learner("learner", learner)

    def world_of(run: int) -> World:
        return World(d, prior_means(d, np.random.default_rng(random_numbers(seed, run, "truth"))))

    plan(world_of(0), "learner", learner)  # compiles all that is needed, before several threads ask for it

    def play(run: int, stop: threading.Event) -> Run | None:
        world, agent = begin(world_of(run), learner, "learner", seed, run)
        return plan(world, "learner", learner)(world, agent, checkpoints, stop, lambda _: None)

    done: dict[int, Run] = {}
    if not run_all(range(runs), play, done.__setitem__, workers):
        raise KeyboardInterrupt
    totals = np.array([done[run].totals[:, 1] for run in range(runs)])
    error = totals.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.full(len(checkpoints), np.nan)
    return BayesRegret(checkpoints, totals.mean(axis=0), error, runs)


def _checkpoints(rounds: Any) -> Ints:
    if is_integer(rounds):
        most = check_whole("rounds", rounds, 1, MOST_ROUNDS)
        return np.unique(np.geomspace(1, most, CHECKPOINTS).round().astype(np.int64))
    return np.unique(np.array(_whole_numbers("rounds", rounds), np.int64))


def _whole_numbers(name: str, numbers: Any) -> list[int]:
    """Several numbers of rounds, items or positions."""
    try:
        several = [] if isinstance(numbers, (str, bytes, Mapping)) else list(numbers)
    except TypeError:
        several = []
    if not several:
        raise IdbanditsError(f"each of the {name} is a whole number from 1 to {MOST_ROUNDS}, not {brief(numbers)}")
    return [check_whole(f"each of the {name}", number, 1, MOST_ROUNDS) for number in several]


def prior_means(d: Diagram, rng: Rng) -> dict[str, Floats]:
    """Means of all learned tables, drawn from their priors by a generator of NumPy.

    >>> prior_means(models.semi_bandit(2, 1), np.random.default_rng(0))["mean"].round(2).tolist()
    [0.7, 0.71]
    """
    if not isinstance(rng, np.random.Generator):
        raise IdbanditsError(f"rng is a Generator of NumPy, not {brief(rng)}")
    return tables.prior_means(compile(d).learned, rng)


def study(
    rounds: Sequence[int] = (100, 300, 1000, 3000, 10_000), items: Sequence[int] = (5, 10, 20, 40),
    positions: Sequence[int] = (1, 2, 3, 4), *, usual: tuple[int, int, int] = (1000, 10, 3), runs: int = 40,
    seed: int = 0, workers: int | None = None, keep: Callable[[Any, Callable[[], str]], str] | None = None,
) -> pandas.DataFrame:  # fmt: skip
    """The Bayes regret of exact idTS and its bound as rounds, items and positions grow, one at a time.

    `usual` are the numbers of rounds, items and positions while they do not grow; the column `grows` names what does.
    `trivial` is what no learner exceeds, and `useful_from` the number of rounds from which on the bound is below that.
    `keep(setting, measure)` returns `measure()`, or the text that this returned earlier for the same setting.

    >>> study(rounds=[10, 20], items=[4], positions=[2], usual=(10, 4, 2), runs=2).columns.tolist()
    ['model', 'grows', 'items', 'positions', 'rounds', 'runs', 'regret_mean', 'regret_se', 'bound', 'omax', 'trivial',
     'useful_from']
    """
    import pandas

    rounds, items, positions = (
        _whole_numbers(name, numbers)
        for name, numbers in (("rounds", rounds), ("items", items), ("positions", positions))
    )
    usual_numbers = _whole_numbers("usual", usual)
    if len(usual_numbers) != 3:
        raise IdbanditsError(f"usual has three numbers, of rounds, items and positions, not {brief(usual)}")
    if keep is not None and not callable(keep):
        raise IdbanditsError(f"keep is a function or None, not {brief(keep)}")
    runs, seed, workers = check_runs(runs, seed, workers)
    usual_rounds, usual_items, usual_positions = usual_numbers
    settings: list[tuple[str, int, int, Sequence[int]]] = [("rounds", usual_items, usual_positions, rounds)]
    settings += [("items", n, usual_positions, [usual_rounds]) for n in items]
    settings += [("positions", usual_items, n, [usual_rounds]) for n in positions]
    table = []
    for model, (grows, number, shown, lengths) in itertools.product(MODELS, settings):
        setting = [model, grows, number, shown, list(lengths), runs, seed]
        measure = functools.partial(_measure, MODELS[model](number, shown), list(lengths), runs, seed, workers)
        measured = json.loads(measure() if keep is None else keep(setting, measure))
        table += [(model, grows, number, shown, *row) for row in measured]
    return pandas.DataFrame(table, columns=COLUMNS)


def _measure(d: Diagram, rounds: list[int], runs: int, seed: int, workers: int | None) -> str:
    """For each number of rounds: rounds, runs, Bayes regret, its standard error, and what the theorem says; as JSON."""
    regret = bayes_regret(d, rounds, runs, seed=seed, workers=workers)
    columns = zip(*(column.tolist() for column in regret[:3]), strict=True)
    limits = {n: bound(d, n) for n in regret.rounds.tolist()}
    of_theorem = {n: [own.value, own.omax, own.trivial, own.useful_from] for n, own in limits.items()}
    return json.dumps([[n, runs, mean, error, *of_theorem[n]] for n, mean, error in columns])


def plot(frame: pandas.DataFrame) -> Panels:
    """Draw a study, one panel per thing that grows: the regret, its bounds, and how a square root grows.

    Returns an array of three axes, whose `figure` can be saved.
    """
    import pandas
    from matplotlib.figure import Figure

    if not isinstance(frame, pandas.DataFrame) or not {*COLUMNS}.issubset(frame) or frame.empty:
        raise IdbanditsError(f"what is drawn is the frame of a study, not {brief(frame)}")
    panels = {"rounds": "rounds n", "items": "items L", "positions": "positions K"}
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    axes: Panels = figure.subplots(1, 3)
    for ax, (grows, label) in zip(axes, panels.items(), strict=True):
        part = frame[frame["grows"] == grows]
        for i, (name, rows) in enumerate(part.groupby("model", sort=False)):
            x, look = rows[grows], {key: line_style(i)[key] for key in ("color", "marker")}
            mean, error = rows["regret_mean"], rows["regret_se"]
            ax.errorbar(x, mean, error, **look, markersize=4, linewidth=1.3, capsize=2, label=f"{name}: Bayes regret")
            ax.plot(x, rows["bound"], "--", **look, markersize=3, linewidth=1, label=f"{name}: bound of Theorem 1")
            ax.plot(x, rows["trivial"], "-.", color=look["color"], linewidth=0.8, label=f"{name}: trivial bound, n B")
            root = mean.iloc[0] * np.sqrt(x / x.iloc[0])
            ax.plot(x, root, ":", color="#666666", linewidth=1, label="√ of what grows" if i == 0 else "_")
        ax.set(xscale="log", yscale="log", xlabel=label)
        ticks = sorted(part[grows].unique())
        ax.set_xticks(ticks, [f"{v:,}" for v in ticks])
        ax.set_xticks([], minor=True)
        ax.spines[["top", "right"]].set_visible(False)
    first = figure.axes[0]
    first.set_ylabel("total regret (mean ± 1 standard error)")
    handles = zip(*first.get_legend_handles_labels(), strict=True)
    named = sorted(handles, key=lambda pair: (":" not in pair[1], pair[1]))
    figure.legend(*zip(*named, strict=True), loc="outside upper center", ncols=3, frameon=False, fontsize="small")
    return axes
