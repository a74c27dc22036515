"""The commands `idbandits paper` and `idbandits theory`: the paper's evaluation and what it proves, as a report."""

from __future__ import annotations

import math
import shlex
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idbandits.app.frame import (
    INTERRUPTED,
    Commands,
    command,
    folder,
    say,
    whole,
)
from idbandits.errors import IdbanditsError
from idbandits.simulation.workers import MOST_ROUNDS, MOST_RUNS, MOST_WORKERS

if TYPE_CHECKING:
    from idbandits.paper.problems import Panel
    from idbandits.paper.store import Store

PAPER_TEXT = """
Reproduces the experiments of the paper: Figure 2 (six problems), Figure 3 (particle filters), Table 1 (run times),
and beyond it Figures B1 (better inference), B2 (more baselines), B3 (variants) and the regret bound. Writes figures
(PNG, SVG), results.parquet, summary.csv and index.html, which puts everything beside what the paper says.

Finished runs are kept in runs.sqlite in the same folder: a second start goes on from them. Runs of other settings or
of another version of the library are not used again. Results do not depend on --workers, --cluster or interruptions.
"""
PAPER_EXAMPLE = """
idbandits paper --quick --figure 2a --out quick
idbandits paper --quick --figure 2a --figure "table 1" --out quick
idbandits paper --quick --figure 3 --runs 2 --seed 7 --workers 2 --out seven
"""


def add_paper(commands: Commands) -> None:
    """Declare `idbandits paper`."""
    own = command(commands, "paper", _paper, "reproduce the paper's evaluation", PAPER_TEXT, PAPER_EXAMPLE)
    own.add_argument("--figure", action="append", metavar="KEY",
                     help="2, 2a, …, 3, …, 'table 1', B1, …, theory; repeat it for several (all)")  # fmt: skip
    own.add_argument("--runs", type=whole(1, MOST_RUNS), metavar="N", help="of each learner (20; with --quick 4)")
    own.add_argument("--rounds", type=whole(1, MOST_ROUNDS), metavar="N", help="of each run (20000; with --quick 2000)")
    own.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of all that is random (0)")
    own.add_argument("--workers", type=whole(1, MOST_WORKERS), metavar="N", help="threads (one a core)")
    own.add_argument("--cluster", metavar="ADDRESS", help="run on the workers of this Dask scheduler")
    own.add_argument("--out", type=Path, default=Path("report"), metavar="DIR", help="a folder for the report (report)")
    own.add_argument("--quick", action="store_true", help="few short runs, to see that all works")
    own.add_argument("--no-progress", action="store_true", help="show no progress")


def _paper(arguments: Namespace) -> int:
    try:
        return _evaluate(arguments)
    except KeyboardInterrupt:
        kept = arguments.out / "runs.sqlite"
        say(f"interrupted; finished runs are kept in {kept}: the same command goes on from there")
        return INTERRUPTED


def _evaluate(arguments: Namespace) -> int:
    from idbandits.app.progress import Progress
    from idbandits.paper import problems as paper
    from idbandits.paper.report import findings_of, write
    from idbandits.paper.runs import Cell, Settings, make_runs
    from idbandits.paper.store import Store

    started = time.perf_counter()
    rounds, runs = (paper.QUICK_ROUNDS, paper.QUICK_RUNS) if arguments.quick else (paper.ROUNDS, paper.RUNS)
    settings = Settings(arguments.rounds or rounds, arguments.runs or runs, arguments.seed)
    panels, with_theory = _selected(arguments.figure)
    cells = list(dict.fromkeys(Cell(panel.problem, name) for panel in panels for name in panel.learners))
    cells.sort(key=lambda cell: list(paper.PROBLEMS).index(cell.problem))
    parts: dict[str, int] = {}
    for cell in cells:
        title = paper.PROBLEMS[cell.problem].title
        parts[title] = parts.get(title, 0) + cell.runs(settings) * cell.rounds(settings)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with Store(out / "runs.sqlite") as store:
        with Progress("all", parts, not arguments.no_progress) as progress:
            made = make_runs(
                cells, settings, store, arguments.workers, arguments.cluster,
                lambda cell, amount: progress.tell(paper.PROBLEMS[cell.problem].title, amount),
            )  # fmt: skip
        if made is None:
            raise KeyboardInterrupt
        theory = _theory_section(store, settings.seed, arguments.quick, arguments.workers) if with_theory else None
    took = f"This start took {time.perf_counter() - started:,.0f} s (runs of earlier starts are not made again)."
    command_line = shlex.join(["idbandits", "paper", *_given(arguments)])
    names = write(findings_of(made, settings, panels), out, took, command_line, theory)
    say(f"wrote {', '.join(names)} to {out}; read {out / 'index.html'}")
    return 0


def _selected(keys: list[str] | None) -> tuple[list[Panel], bool]:
    """The panels that are asked for, and whether the theory is."""
    from idbandits.paper.problems import FIGURES, TABLE

    by_key: dict[str, list[Panel]] = {figure.key: list(figure.panels) for figure in FIGURES}
    by_key |= {panel.key: [panel] for figure in FIGURES for panel in figure.panels}
    by_key[TABLE.key] = [TABLE]
    if keys is None:
        return [panel for key in (*(figure.key for figure in FIGURES), TABLE.key) for panel in by_key[key]], True
    plain = {key.replace(" ", "").lower(): key for key in by_key}
    found: dict[str, Panel] = {}
    theory = False
    for key in keys:
        wanted = key.replace(" ", "").lower().replace("figure", "")
        if wanted == "theory":
            theory = True
        elif wanted in plain:
            found |= {panel.key: panel for panel in by_key[plain[wanted]]}
        else:
            raise IdbanditsError(f"--figure {key!r} is unknown; there are: {', '.join([*by_key, 'theory'])}")
    return list(found.values()), theory


def _given(arguments: Namespace) -> list[str]:
    """The options that matter for the results, as they were given."""
    words = []
    for key in arguments.figure or ():
        words += ["--figure", key]
    for name in ("runs", "rounds"):
        if getattr(arguments, name) is not None:
            words += [f"--{name}", str(getattr(arguments, name))]
    if arguments.seed:
        words += ["--seed", str(arguments.seed)]
    return words + ["--quick"] * arguments.quick


THEORY_RUNS, THEORY_ROUNDS = 20, 10_000
THEORY_TEXT = """
Measures the Bayes regret of exact idTS, in which the truth of every run is drawn from the prior, in the semi-bandit
and in the cascade model, for more rounds n, more items L and longer lists K, and puts it beside the bound of
Theorem 1 with the constants of its proof, and beside the square root of n. With --out, also draws it.
"""
THEORY_EXAMPLE = """
idbandits theory --runs 4 --rounds 500
idbandits theory --runs 4 --rounds 500 --out theory
"""


def add_theory(commands: Commands) -> None:
    """Declare `idbandits theory`."""
    own = command(commands, "theory", _theory, "compare the Bayes regret with the bound", THEORY_TEXT, THEORY_EXAMPLE)
    own.add_argument("--runs", type=whole(1, MOST_RUNS), default=THEORY_RUNS, metavar="N",
                     help=f"of each setting ({THEORY_RUNS})")  # fmt: skip
    own.add_argument("--rounds", type=whole(1, MOST_ROUNDS), default=THEORY_ROUNDS, metavar="N",
                     help=f"the largest number of rounds ({THEORY_ROUNDS})")  # fmt: skip
    own.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of all that is random (0)")
    own.add_argument("--workers", type=whole(1, MOST_WORKERS), metavar="N", help="threads (one a core)")
    own.add_argument("--out", type=Path, metavar="DIR", help="a folder for theory.csv, theory.png and theory.svg")


THEORY_COLUMNS = ("model", "L", "K", "n", "Bayes regret", "bound", "bound / regret", "regret / √n", "O_max")


def _theory(arguments: Namespace) -> int:
    from idbandits.files import write_whole
    from idbandits.paper.report import rendered

    with folder(arguments.out):
        frame = _study(arguments.rounds, arguments.runs, arguments.seed, arguments.workers)
        print(frame.drop(columns="grows").to_string(index=False, float_format="{:,.3f}".format))
        if arguments.out is not None:
            from idbandits.theory.bayes import plot

            files = {"theory.csv": frame.to_csv(index=False).encode()}
            files |= {f"theory.{kind}": content for kind, content in rendered(plot(frame)).items()}
            for name, content in files.items():
                write_whole(arguments.out / name, content)
            say(f"wrote {', '.join(files)} to {arguments.out}")
    return 0


def _study(rounds: int, runs: int, seed: int, workers: int | None, keep: Any = None) -> Any:
    from idbandits.theory.bayes import study

    lengths = sorted({max(1, rounds * part // 100) for part in (1, 3, 10, 30, 100)})
    usual = max(1, rounds // 10), 10, 3
    return study(lengths, usual=usual, runs=runs, seed=seed, workers=workers, keep=keep)


def _theory_section(store: Store, seed: int, quick: bool, workers: int | None) -> dict[str, Any]:
    """The theory's part of the report."""
    from idbandits import theory
    from idbandits.models import cascade, position_based, rank1, semi_bandit

    rounds, runs = (THEORY_ROUNDS // 10, THEORY_RUNS // 2) if quick else (THEORY_ROUNDS, THEORY_RUNS)
    frame = _study(rounds, runs, seed, workers, store.note)
    rows = [
        [
            row["model"], row["items"], row["positions"], f"{row['rounds']:,}",
            f"{row['regret_mean']:,.1f} ± {row['regret_se']:,.1f}", f"{row['bound']:,.0f}",
            f"{row['bound'] / row['regret_mean']:,.0f}" if row["regret_mean"] > 0 else "–",
            f"{row['regret_mean'] / row['rounds'] ** 0.5:.3f}", f"{row['omax']:.4g}",
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    found = {
        "semi-bandit": semi_bandit(10, 3), "cascade model": cascade(10, 3),
        "position-based model": position_based(10, 3), "rank-1 bandit": rank1(8, 10),
    }  # fmt: skip
    told = []
    for name, d in found.items():
        monotone, decomposed = theory.check_monotone(d), theory.check_decomposition(d)
        one = "Assumption 1 holds" if monotone.holds else "Assumption 1 fails"
        fails = math.isinf(decomposed.constant)
        two = "Assumption 2 fails" if fails else f"Assumption 2 with C = {decomposed.constant:.3g}"
        told.append(f"{name}: {one}, {two}{'' if decomposed.proved and monotone.proved else ' (by search)'}")
    text = (
        f"Computed from the circuits of the diagrams (for 10 items and 3 positions, 8 rows and 10 columns): "
        f"{'; '.join(told)}. Where what a mean stands for is never de facto observed, the theorem says nothing. The "
        f"measured regret is the mean over {runs} truths drawn from the prior, ± one standard error."
    )
    return {"text": text, "picture": theory.plot(frame), "columns": THEORY_COLUMNS, "rows": rows}
