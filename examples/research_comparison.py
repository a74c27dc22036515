"""Compare algorithms over models and random worlds; write a LaTeX table and a figure.

For each model, worlds with random means are drawn, and every learner plays the runs of each world with the same random
numbers. Finished worlds are stored as Parquet files, so an interrupted study resumes. Prints the table of total regret
(mean ± standard error over worlds) and writes regret.tex, which needs the package booktabs, regret.pdf and the results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

import idbandits as idb

MODELS: dict[str, Callable[[], idb.Diagram]] = {
    "cascade": lambda: idb.models.cascade(10, 3),
    "position-based": lambda: idb.models.position_based(10, 3),
    "dependent click": lambda: idb.models.dependent_click(10, 3),
}
LEARNERS: dict[str, Callable[[idb.Diagram], Any]] = {
    "Thompson, Gibbs": lambda d: idb.Thompson(d, "gibbs"),
    "Thompson, variational": lambda d: idb.Thompson(d, "variational"),
    "CascadeKL-UCB": idb.baselines.CascadeKLUCB,
    "TopRank": idb.baselines.TopRank,
}
LOOKS = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", ":"), ("#A0428A", "-."))


def learners_of(d: idb.Diagram) -> dict[str, Any]:
    """Return the learners that support a diagram."""
    learners = {}
    for name, make in LEARNERS.items():
        try:
            learners[name] = make(d)
        except idb.errors.DiagramError as error:
            print(f"{d.name}: without {name} ({error})")
    return learners


def study(out: Path, worlds: int, runs: int, rounds: int) -> pd.DataFrame:
    """Play what is not stored yet and return one row per model, world, learner and checkpoint: means over runs."""
    tables = []
    for model, make in MODELS.items():
        d = make()
        learners = learners_of(d)
        for number in range(worlds):
            path = out / f"{model}-{rounds}x{runs}-world{number}.parquet"
            if not path.exists():
                world = idb.World(d, idb.theory.prior_means(d, np.random.default_rng(number)))
                idb.simulate(world, learners, rounds, runs, seed=number, checkpoints=50, progress=False).save(path)
            frame = idb.Result.load(path).frame.groupby(["learner", "round"], sort=False, observed=True)
            tables.append(frame["regret"].mean().reset_index().assign(model=model, world=number))
    return pd.concat(tables, ignore_index=True)


def table_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean ± standard error over worlds of the regret at the end, a row per learner, a column per model."""
    last = frame[frame["round"] == frame["round"].max()].groupby(["learner", "model"], observed=True)["regret"]
    cells = last.agg(["mean", "sem"]).apply(lambda row: f"{row['mean']:.1f} ± {row['sem']:.1f}", axis=1)
    return cells.unstack("model").reindex(index=list(LEARNERS), columns=list(MODELS)).fillna("–")


def latex_of(table: pd.DataFrame) -> str:
    """Return the table in LaTeX, with rules of booktabs."""
    lines = [" & ".join([name, *cells]) for name, cells in zip(table.index, table.to_numpy(), strict=True)]
    body = " \\\\\n".join(lines).replace(" ± ", " $\\pm$ ").replace("–", "--")
    head = f"\\begin{{tabular}}{{l{'r' * table.shape[1]}}}\n\\toprule\n & {' & '.join(table.columns)} \\\\\n\\midrule\n"
    return f"{head}{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n"


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Draw total regret over rounds with bands of one standard error over worlds."""
    figure, axes = plt.subplots(1, len(MODELS), figsize=(7.2, 2.8), layout="constrained")
    for ax, model in zip(axes, MODELS, strict=True):
        for name, (colour, dash) in zip(LEARNERS, LOOKS, strict=True):
            own = frame[(frame["model"] == model) & (frame["learner"] == name)]
            curve = own.groupby("round")["regret"].agg(["mean", "sem"])
            ax.fill_between(
                curve.index, curve["mean"] - curve["sem"], curve["mean"] + curve["sem"], color=colour, alpha=0.2, lw=0
            )
            ax.plot(curve.index, curve["mean"], color=colour, linestyle=dash, label=name, lw=1.3)
        ax.set_title(model, fontsize="medium")
        ax.set(xlabel="round", xlim=(0, None), ylim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("total regret (clicks)")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False, fontsize="small"
    )
    figure.savefig(path)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=10, help="random worlds per model, at least 2 (%(default)s)")
    parser.add_argument("--runs", type=int, default=4, help="per world (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5000, help="per run (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("comparison"), help="folder of the results (%(default)s)")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    frame = study(options.out, options.worlds, options.runs, options.rounds)
    table = table_of(frame)
    print(table.to_string())
    (options.out / "regret.tex").write_text(latex_of(table))
    draw(frame, options.out / "regret.pdf")
    print(f"regret.tex, regret.pdf and the results are in {options.out}/")


if __name__ == "__main__":
    main()
