"""Bayes regret by simulation, beside the theorem's bound: the truth of every run is drawn from the prior."""

from __future__ import annotations

import functools
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pandas

from idbandits import models
from idbandits.agent.thompson import Thompson
from idbandits.circuit.model import compile
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError, is_integer
from idbandits.kernel.types import Floats, Ints
from idbandits.simulation.plots import line_style
from idbandits.simulation.simulate import Run, begin, plan, random_numbers
from idbandits.simulation.workers import run_all
from idbandits.simulation.world import World
from idbandits.theory.bounds import bound

if TYPE_CHECKING:  # else imported where it is used, because that takes long
    from matplotlib.figure import Figure

CHECKPOINTS = 25  # of a run, evenly spaced on a logarithmic scale
MODELS = {"semi-bandit": models.semi_bandit, "cascade": models.cascade}


@final
class BayesRegret(NamedTuple):
    """The total regret after some numbers of rounds: means over runs, and their standard errors (NaN for one run)."""

    rounds: Ints
    mean: Floats
    se: Floats
    runs: int


def bayes_regret(
    d: Diagram,
    rounds: int | Sequence[int],
    runs: int,
    learner: Any = None,
    seed: int = 0,
    workers: int | None = None,
) -> BayesRegret:
    """The Bayes regret of a learner, exact idTS if none is given, in worlds whose means are drawn from the prior.

    `rounds` is a number, or those after which the regret is wanted. Every run starts from a fresh copy of the
    learner; results do not depend on the number of workers.

    >>> found = bayes_regret(models.semi_bandit(4, 2), rounds=500, runs=20)
    >>> bool(0 < found.mean[-1] < bound(models.semi_bandit(4, 2), 500).value)
    True
    """
    marks = _marks(rounds)
    for what, given, least in (("runs", runs, 1), ("seed", seed, 0), ("workers", 1 if workers is None else workers, 1)):
        if not is_integer(given) or given < least:
            raise IdbanditsError(f"{what} is a whole number from {least}, not {given!r}")
    learner = Thompson(d, "exact", seed=0) if learner is None else learner
    for method in ("act", "update"):
        if not callable(getattr(learner, method, None)) or isinstance(learner, type):
            raise IdbanditsError(f"learner has no method {method}(): {learner!r}")
    worlds = [
        World(d, prior_means(d, np.random.default_rng(random_numbers(seed, run, "truth")))) for run in range(runs)
    ]
    plans = [plan(world, "learner", learner) for world in worlds]  # here, because Ctrl-C ends the compiler here only

    def play(run: int, stop: threading.Event) -> Run | None:
        world, agent = begin(worlds[run], learner, "learner", seed, run)
        return plans[run](world, agent, marks, stop, lambda _: None)

    done: dict[int, Run] = {}
    if not run_all(range(runs), play, done.__setitem__, workers):
        raise KeyboardInterrupt
    totals = np.array([done[run].totals[:, 1] for run in range(runs)])
    error = totals.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.full(len(marks), np.nan)
    return BayesRegret(marks, totals.mean(axis=0), error, runs)


def _marks(rounds: Any) -> Ints:
    given = [rounds] if np.ndim(rounds) == 0 else list(rounds)
    for n in given:
        if not is_integer(n) or n < 1:
            raise IdbanditsError(f"rounds is a whole number from 1, or several; not {n!r}")
    if not given:
        raise IdbanditsError(f"rounds is a whole number from 1, or several; not {rounds!r}")
    wanted = np.geomspace(1, given[0], CHECKPOINTS).round() if np.ndim(rounds) == 0 else given
    return np.unique(np.asarray(wanted, np.int64))


def prior_means(d: Diagram, rng: np.random.Generator) -> dict[str, Floats]:
    """Means of all learned tables, drawn from their priors.

    >>> prior_means(models.semi_bandit(2, 1), np.random.default_rng(0))["mean"].round(2).tolist()
    [0.7, 0.71]
    """
    means = {}
    for name, table in compile(d).learned.items():
        if table.states == 2:
            means[name] = np.asarray(rng.beta(table.prior[..., 1], table.prior[..., 0]), np.float64)
        else:
            rows = [rng.dirichlet(row) for row in table.prior.reshape(-1, table.states)]
            means[name] = np.array(rows).reshape(table.prior.shape)
    return means


def study(
    rounds: Sequence[int] = (100, 300, 1000, 3000, 10_000),
    items: Sequence[int] = (5, 10, 20, 40),
    positions: Sequence[int] = (1, 2, 3, 4),
    *,
    usual: tuple[int, int, int] = (1000, 10, 3),
    runs: int = 40,
    seed: int = 0,
    workers: int | None = None,
    keep: Callable[[Any, Callable[[], str]], str] | None = None,
) -> pandas.DataFrame:
    """The Bayes regret of exact idTS and its bound as rounds, items and positions grow, one at a time.

    `usual` are the numbers of rounds, items and positions of what does not grow. `grows` names what does. `keep` is
    told what a setting is and handed the function that measures it: it may know the answer from an earlier start.

    >>> study(rounds=[10, 20], items=[4], positions=[2], usual=(10, 4, 2), runs=2).columns.tolist()
    ['model', 'grows', 'items', 'positions', 'rounds', 'runs', 'regret_mean', 'regret_se', 'bound', 'omax']
    """
    usual_rounds, usual_items, usual_positions = usual
    settings: list[tuple[str, int, int, Sequence[int]]] = [("rounds", usual_items, usual_positions, rounds)]
    settings += [("items", n, usual_positions, [usual_rounds]) for n in items]
    settings += [("positions", usual_items, n, [usual_rounds]) for n in positions]
    found = []
    for name, (grows, number, shown, lengths) in itertools.product(MODELS, settings):
        told = [name, grows, number, shown, list(lengths), runs, seed]
        measure = functools.partial(_measured, MODELS[name](number, shown), list(lengths), runs, seed, workers)
        rows = json.loads(measure() if keep is None else keep(told, measure))
        found += [(name, grows, number, shown, *row) for row in rows]
    columns = ["model", "grows", "items", "positions", "rounds", "runs", "regret_mean", "regret_se", "bound", "omax"]
    return pandas.DataFrame(found, columns=columns)


def _measured(d: Diagram, rounds: list[int], runs: int, seed: int, workers: int | None) -> str:
    """Rounds, runs, Bayes regret, its standard error, bound and O_max, for each number of rounds."""
    regret = bayes_regret(d, rounds, runs, seed=seed, workers=workers)
    rows = []
    for n, mean, error in zip(regret.rounds.tolist(), regret.mean.tolist(), regret.se.tolist(), strict=True):
        limit = bound(d, n)
        rows.append([n, runs, mean, error, limit.value, limit.omax])
    return json.dumps(rows)


PANELS = {"rounds": "rounds n", "items": "items L", "positions": "positions K"}


def plot(frame: pandas.DataFrame) -> Figure:
    """Draw what `study` found, a panel for each thing that grows: regret, its bound, and how a square root grows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    for ax, (grows, label) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        part = frame[frame["grows"] == grows]
        for i, (name, rows) in enumerate(part.groupby("model", sort=False)):
            x, look = rows[grows], {name: line_style(i)[name] for name in ("color", "marker")}
            mean, error = rows["regret_mean"], rows["regret_se"]
            ax.errorbar(x, mean, error, **look, markersize=4, linewidth=1.3, capsize=2, label=f"{name}: Bayes regret")
            ax.plot(x, rows["bound"], "--", **look, markersize=3, linewidth=1, label=f"{name}: bound")
            root = mean.iloc[0] * np.sqrt(x / x.iloc[0])
            ax.plot(x, root, ":", color="#666666", linewidth=1, label="√ of what grows" if i == 0 else "_")
        ax.set(xscale="log", yscale="log", xlabel=label)
        ticks = sorted(part[grows].unique())
        ax.set_xticks(ticks, [f"{v:,}" for v in ticks])
        ax.set_xticks([], minor=True)
        ax.spines[["top", "right"]].set_visible(False)
    axes = figure.axes
    axes[0].set_ylabel("total regret (mean ± 1 standard error)")
    named = sorted(
        zip(*axes[0].get_legend_handles_labels(), strict=True), key=lambda pair: (":" not in pair[1], pair[1])
    )
    figure.legend(*zip(*named, strict=True), loc="outside upper center", ncols=5, frameon=False, fontsize="small")
    return figure
