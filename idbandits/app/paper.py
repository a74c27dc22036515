"""`idbandits paper`: the paper's evaluation, as a report."""

from __future__ import annotations

import shlex
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idbandits.app import theory
from idbandits.app.frame import INTERRUPTED, Command, say, starting
from idbandits.app.options import add_rounds, add_runs, add_seed, add_workers
from idbandits.app.progress import Progress
from idbandits.errors import IdbanditsError

if TYPE_CHECKING:
    from idbandits.paper.problems import Panel


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--figure", action="append", metavar="KEY",
                        help="2, 2a, …, 3, …, 'table 1', B1, …, theory; repeat it for several (all)")  # fmt: skip
    add_runs(parser, None, "of each learner (20; with --quick 4)")
    add_rounds(parser, None, "of each run (20000; with --quick 2000)")
    add_seed(parser)
    add_workers(parser)
    parser.add_argument("--cluster", metavar="ADDRESS", help="run on the workers of this Dask scheduler")
    parser.add_argument("--out", type=Path, default=Path("report"), metavar="DIR",
                        help="a folder for the report (report)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="few short runs, to see that everything works")
    parser.add_argument("--no-progress", action="store_true", help="show no progress")


def _run(arguments: Namespace) -> int:
    try:
        _report(arguments)
    except KeyboardInterrupt:
        store = arguments.out / "runs.sqlite"
        say(f"interrupted; finished runs are kept in {store}: the same command goes on from there")
        return INTERRUPTED
    return 0


def _report(arguments: Namespace) -> None:
    with starting():
        from idbandits.paper import problems
        from idbandits.paper.report import findings_of, write
        from idbandits.paper.runs import Cell, Settings, make_runs
        from idbandits.paper.store import Store

    started = time.perf_counter()
    defaults = (problems.QUICK_ROUNDS, problems.QUICK_RUNS) if arguments.quick else (problems.ROUNDS, problems.RUNS)
    settings = Settings(arguments.rounds or defaults[0], arguments.runs or defaults[1], arguments.seed)
    panels, with_theory = select(arguments.figure)
    cells = list(dict.fromkeys(Cell(panel.problem, name) for panel in panels for name in panel.learners))
    cells.sort(key=lambda cell: list(problems.PROBLEMS).index(cell.problem))
    rounds: dict[str, int] = {}
    for cell in cells:
        title = problems.PROBLEMS[cell.problem].title
        rounds[title] = rounds.get(title, 0) + cell.runs(settings) * cell.rounds(settings)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with Store(out / "runs.sqlite") as store:
        with Progress("all", rounds, not arguments.no_progress) as progress:
            runs = make_runs(
                cells, settings, store, arguments.workers, arguments.cluster,
                lambda cell, amount: progress.add(problems.PROBLEMS[cell.problem].title, amount),
            )  # fmt: skip
        if runs is None:
            raise KeyboardInterrupt
        section = None
        if with_theory:
            section = theory.report_section(store.note, settings.seed, arguments.quick, arguments.workers)
    took = f"This start took {time.perf_counter() - started:,.0f} s (runs of earlier starts are not made again)."
    names = write(findings_of(runs, settings, panels), out, took, _command_line(arguments), section)
    say(f"wrote {', '.join(names)} to {out}; read {out / 'index.html'}")


def select(keys: Sequence[str] | None) -> tuple[list[Panel], bool]:
    """The panels with these keys, of figures, panels or the table, and whether the theory is among them (None: all)."""
    from idbandits.paper.problems import FIGURES, TABLE

    if keys is None:
        return [panel for figure in FIGURES for panel in figure.panels] + [TABLE], True
    panels_by_key = {figure.key: list(figure.panels) for figure in FIGURES}
    panels_by_key |= {panel.key: [panel] for figure in FIGURES for panel in figure.panels}
    panels_by_key[TABLE.key] = [TABLE]
    known = {_plain(key): panels for key, panels in panels_by_key.items()}
    selected: dict[str, Panel] = {}
    for key in keys:
        if _plain(key) in known:
            selected |= {panel.key: panel for panel in known[_plain(key)]}
        elif _plain(key) != "theory":
            raise IdbanditsError(f"--figure {key!r} is unknown; there are: {', '.join([*panels_by_key, 'theory'])}")
    return list(selected.values()), "theory" in map(_plain, keys)


def _plain(key: str) -> str:
    return key.replace(" ", "").lower().replace("figure", "")


def _command_line(arguments: Namespace) -> str:
    """The command with the options that matter for the results, as they were given."""
    words = ["idbandits", "paper"]
    for key in arguments.figure or ():
        words += ["--figure", key]
    for name in ("runs", "rounds"):
        if getattr(arguments, name) is not None:
            words += [f"--{name}", str(getattr(arguments, name))]
    if arguments.seed:
        words += ["--seed", str(arguments.seed)]
    return shlex.join(words + ["--quick"] * arguments.quick)


COMMAND = Command(
    name="paper",
    summary="reproduce the paper's evaluation",
    description="""
Reproduces the experiments of the paper: Figure 2 (six problems), Figure 3 (particle filters), Table 1 (run times),
and beyond it Figures B1 (better inference), B2 (more baselines), B3 (variants) and the regret bound. Writes figures
(PNG, SVG), results.parquet, summary.csv and index.html, which puts everything beside what the paper says.

Finished runs are kept in runs.sqlite in the same folder: a second start goes on from them. Runs of other settings or
of another version of the library are not used again. Results do not depend on --workers, --cluster or interruptions.
""",
    example="""
idbandits paper --quick --figure 2a --out quick
idbandits paper --quick --figure 2a --figure "table 1" --out quick
idbandits paper --quick --figure 3 --runs 2 --seed 7 --workers 2 --out seven
""",
    add_options=_add_options,
    run=_run,
)
