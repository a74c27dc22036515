"""Bayes regret measured by simulation: the means of every run's world are drawn from the prior."""

from __future__ import annotations

import functools
import itertools
import json
import threading
from collections.abc import Callable, Sequence
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
    """Total regret after some numbers of rounds, returned by `bayes_regret`.

    Attributes
    ----------
    rounds : array of int
        Numbers of rounds, shape (checkpoints,).
    mean : array
        Mean of the total regret over runs, shape (checkpoints,).
    se : array
        Standard errors of the means, shape (checkpoints,); NaN for one run.
    runs : int
        Number of runs.

    Examples
    --------
    >>> regret = bayes_regret(models.semi_bandit(4, 2), rounds=[10, 100], runs=2)
    >>> regret.rounds.tolist(), regret.mean.shape, regret.runs
    ([10, 100], (2,), 2)
    """

    rounds: Ints
    mean: Floats
    se: Floats
    runs: int


def bayes_regret(
    d: Diagram, rounds: int | Sequence[int], runs: int, learner: Any = None, seed: int = 0, workers: int | None = None
) -> BayesRegret:
    """Measure the Bayes regret of a learner in worlds whose means are drawn from the prior.

    Parameters
    ----------
    d : Diagram
        Diagram, whose priors are those of the worlds.
    rounds : int or sequence of int
        Number of rounds of each run, or the numbers of rounds after which the regret is measured.
    runs : int
        Number of runs, each in another world.
    learner : agent or baseline, optional
        Learner, of which every run gets a fresh copy; by default exact idTS.
    seed : int
        Seed of all random numbers.
    workers : int, optional
        Number of threads, on which results do not depend; all cores by default.

    Returns
    -------
    BayesRegret
        Means and standard errors.

    Examples
    --------
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

    plan(world_of(0), "learner", learner)  # compile kernels before several threads need them

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
    return np.unique(np.array(_integers("rounds", rounds), np.int64))


def _integers(name: str, numbers: Any) -> list[int]:
    """Validate numbers of rounds, items or positions."""
    if not isinstance(numbers, (Sequence, np.ndarray)) or len(numbers) == 0:
        raise IdbanditsError(f"{name} must be a sequence of integers from 1 to {MOST_ROUNDS}, got {brief(numbers)}")
    return [check_whole(f"each of the {name}", number, 1, MOST_ROUNDS) for number in numbers]


def prior_means(d: Diagram, rng: Rng) -> dict[str, Floats]:
    """Draw the means of all learned tables from their priors.

    Parameters
    ----------
    d : Diagram
        Diagram.
    rng : Generator
        Random numbers.

    Returns
    -------
    dict of str to array
        Means by table: P(1) of every row, in the shape of the rows; for more than two states, the probabilities of all
        states on an additional last axis.

    Examples
    --------
    >>> prior_means(models.semi_bandit(2, 1), np.random.default_rng(0))["mean"].round(2).tolist()
    [0.7, 0.71]
    """
    if not isinstance(rng, np.random.Generator):
        raise IdbanditsError(f"rng must be a NumPy Generator, got {brief(rng)}")
    return tables.prior_means(compile(d).learned, rng)


def study(
    rounds: Sequence[int] = (100, 300, 1000, 3000, 10_000), items: Sequence[int] = (5, 10, 20, 40),
    positions: Sequence[int] = (1, 2, 3, 4), *, usual: tuple[int, int, int] = (1000, 10, 3), runs: int = 40,
    seed: int = 0, workers: int | None = None, keep: Callable[[Any, Callable[[], str]], str] | None = None,
) -> pandas.DataFrame:  # fmt: skip
    """Measure the Bayes regret of exact idTS, beside its bound, as rounds, items and positions grow one at a time.

    Parameters
    ----------
    rounds, items, positions : sequence of int
        Numbers that grow.
    usual : tuple of int
        Numbers of rounds, items and positions while they do not grow.
    runs : int
        Runs per setting.
    seed : int
        Seed of all random numbers.
    workers : int, optional
        Number of threads; all cores by default.
    keep : function, optional
        Cache: `keep(setting, measure)` returns `measure()`, or the text that it returned before for an equal setting.

    Returns
    -------
    pandas.DataFrame
        Row per setting; the column `grows` names what grows, `trivial` is the regret that no learner exceeds, and
        `useful_from` the number of rounds from which on the bound is lower.

    Examples
    --------
    >>> study(rounds=[10, 20], items=[4], positions=[2], usual=(10, 4, 2), runs=2).columns.tolist()
    ['model', 'grows', 'items', 'positions', 'rounds', 'runs', 'regret_mean', 'regret_se', 'bound', 'omax', 'trivial',
     'useful_from']
    """
    import pandas

    rounds, items, positions = _integers("rounds", rounds), _integers("items", items), _integers("positions", positions)
    runs, seed, workers = check_runs(runs, seed, workers)
    if len(_integers("usual", usual)) != 3:
        raise IdbanditsError(f"usual must be three numbers, of rounds, items and positions, got {brief(usual)}")
    usual_rounds, usual_items, usual_positions = _integers("usual", usual)
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
    """Return, for each number of rounds, runs, Bayes regret, its standard error and the bound, as JSON."""
    regret, rows = bayes_regret(d, rounds, runs, seed=seed, workers=workers), []
    for n, mean, error in zip(*(column.tolist() for column in regret[:3]), strict=True):
        limit = bound(d, n)
        rows.append([n, runs, mean, error, limit.value, limit.omax, limit.trivial, limit.useful_from])
    return json.dumps(rows)


def plot(frame: pandas.DataFrame) -> Panels:
    """Plot a study: regret, bounds and a square root, as rounds, items and positions grow.

    Parameters
    ----------
    frame : pandas.DataFrame
        Result of `study`.

    Returns
    -------
    array of matplotlib.axes.Axes
        Three axes.

    Examples
    --------
    >>> axes = plot(study(rounds=[10, 20], items=[4], positions=[2], usual=(10, 4, 2), runs=2))
    >>> [ax.get_xlabel() for ax in axes]
    ['rounds n', 'items L', 'positions K']
    """
    import pandas
    from matplotlib.figure import Figure

    if not isinstance(frame, pandas.DataFrame) or not {*COLUMNS}.issubset(frame) or frame.empty:
        raise IdbanditsError(f"frame must be the result of `study`, got {brief(frame)}")
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
