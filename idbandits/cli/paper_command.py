"""Commands `paper` and `theory`: the paper's evaluation as a report, and the bound of its theorem."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idbandits import models
from idbandits import theory as bounds
from idbandits.cli.command import INTERRUPTED, output_folder, pick, say
from idbandits.cli.progress import Progress
from idbandits.files import write_whole
from idbandits.reproduction import paper_report as report
from idbandits.reproduction import problems
from idbandits.reproduction.problems import FIGURES, PROBLEMS, TABLE, Panel
from idbandits.reproduction.run_store import Store
from idbandits.reproduction.runs import Cell, Settings, make_runs
from idbandits.simulation.plots import rendered
from idbandits.simulation.simulate import CHECKPOINTS, check_size

if TYPE_CHECKING:
    import pandas

THEORY_RUNS, THEORY_ROUNDS = 20, 10_000
ABOUT = """
bound        Theorem 1: C √(6 (d + L) O_max n log n (1 + log n)) + (C + 2π²/3 B) (d + L) for n rounds
trivial      n B, which no learner exceeds, because a round loses at most B, the range of the expected reward
useful_from  number of rounds from which the bound is below the trivial one"""


def paper(arguments: Namespace) -> int:
    """Reproduce the evaluation of the paper."""
    try:
        _report(arguments)
    except KeyboardInterrupt:
        say(f"interrupted; finished runs are stored in {arguments.out / 'runs.sqlite'}: the same command continues")
        return INTERRUPTED
    return 0


def _report(arguments: Namespace) -> None:
    started = time.perf_counter()
    defaults = (problems.QUICK_ROUNDS, problems.QUICK_RUNS) if arguments.quick else (problems.ROUNDS, problems.RUNS)
    settings = Settings(arguments.rounds or defaults[0], arguments.runs or defaults[1], arguments.seed)
    panels, with_theory = select(arguments.figure)
    cells = list(dict.fromkeys(Cell(panel.problem, name) for panel in panels for name in panel.learners))
    cells.sort(key=lambda cell: list(PROBLEMS).index(cell.problem))
    rounds: dict[str, int] = {}
    for cell in cells:
        title = PROBLEMS[cell.problem].title
        rounds[title] = rounds.get(title, 0) + cell.runs(settings) * cell.rounds(settings)
    check_size(sum(cell.runs(settings) for cell in cells), min(CHECKPOINTS, settings.rounds))
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with Store(out / "runs.sqlite") as store:
        with Progress("all", rounds, not arguments.no_progress) as progress:
            runs = make_runs(
                cells, settings, store, arguments.workers, arguments.cluster,
                lambda cell, amount: progress.add(PROBLEMS[cell.problem].title, amount),
            )  # fmt: skip
        if runs is None:
            raise KeyboardInterrupt
        section = _theory_section(arguments, store) if with_theory else None
    took = f"This start took {time.perf_counter() - started:,.0f} s (runs of earlier starts are reused)."
    findings = report.findings_of(runs, settings, panels)
    names = report.write(findings, out, took, _command_line(arguments), section)
    say(f"wrote {', '.join(names)} to {out}; read {out / 'index.html'}")


def select(keys: Sequence[str] | None) -> tuple[list[Panel], bool]:
    """Return the panels of figures, panels or the table with these keys (None: all), and whether theory is included."""
    figures = {figure.key: list(figure.panels) for figure in FIGURES}
    panels = {panel.key: [panel] for panels in figures.values() for panel in panels} | {TABLE.key: [TABLE]}
    known: dict[str, list[Panel]] = {**figures, **panels, "theory": []}
    names = [key.lower().removeprefix("figure") for key in keys or ()]
    chosen = [*panels, "theory"] if keys is None else [pick("figure", name, known) for name in names]
    return list(dict.fromkeys(panel for key in chosen for panel in known[key])), "theory" in chosen


def _command_line(arguments: Namespace) -> str:
    """Return the command with the options that results depend on."""
    options = [("figure", key) for key in arguments.figure or ()]
    options += [(name, str(value)) for name in ("runs", "rounds", "seed") if (value := getattr(arguments, name))]
    words = [word for name, value in options for word in (f"--{name}", value)]
    return shlex.join(["idbandits", "paper", *words, *["--quick"] * arguments.quick])


def theory(arguments: Namespace) -> None:
    """Compare the Bayes regret with its bound."""
    with output_folder(arguments.out):
        frame = _study(arguments.rounds or THEORY_ROUNDS, arguments.runs or THEORY_RUNS, arguments)
        print(frame.drop(columns="grows").to_string(index=False, float_format="{:,.3f}".format))
        print(ABOUT)
        if arguments.out is not None:
            files = {"theory.csv": frame.to_csv(index=False).encode()}
            files |= {f"theory.{suffix}": content for suffix, content in rendered(bounds.plot(frame)[0].figure).items()}
            for name, content in files.items():
                write_whole(arguments.out / name, content)
            say(f"wrote {', '.join(files)} to {arguments.out}")


def _study(rounds: int, runs: int, arguments: Namespace, store: Store | None = None) -> pandas.DataFrame:
    lengths = sorted({max(1, rounds * percent // 100) for percent in (1, 3, 10, 30, 100)})
    return bounds.study(
        lengths, usual=(max(1, rounds // 10), 10, 3), runs=runs, seed=arguments.seed, workers=arguments.workers,
        keep=store.note if store else None,
    )  # fmt: skip


def _theory_section(arguments: Namespace, store: Store) -> dict[str, Any]:
    """Return the section of the report: its text, its picture, and the columns and rows of its table."""
    rounds, runs = (THEORY_ROUNDS // 10, THEORY_RUNS // 2) if arguments.quick else (THEORY_ROUNDS, THEORY_RUNS)
    frame = _study(rounds, runs, arguments, store)
    columns = ("model", "L", "K", "n", "Bayes regret", "bound", "trivial", "bound / regret", "regret / √n", "O_max")
    rows = [
        [
            row["model"], row["items"], row["positions"], f"{row['rounds']:,}",
            f"{row['regret_mean']:,.1f} ± {row['regret_se']:,.1f}", f"{row['bound']:,.0f}", f"{row['trivial']:,.0f}",
            f"{row['bound'] / row['regret_mean']:,.0f}" if row["regret_mean"] > 0 else "–",
            f"{row['regret_mean'] / row['rounds'] ** 0.5:.3f}", f"{row['omax']:.4g}",
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    text = (
        f"Computed from the circuits of the diagrams (10 items and 3 positions, 8 rows and 10 columns): "
        f"{'; '.join(_assumptions())}. The theorem does not apply if a mean is never de facto observed, and it is "
        f"useful only if its bound is below the trivial one, n B (B is the range of the expected reward): here from "
        f"{frame['useful_from'].min():,.0f} to {frame['useful_from'].max():,.0f} rounds on. "
        f"The measured regret is the mean over {runs} truths drawn from the prior, ± one standard error."
    )
    return {"text": text, "picture": bounds.plot(frame)[0].figure, "columns": columns, "rows": rows}


def _assumptions() -> list[str]:
    """Return a sentence per model on the assumptions of the theorem."""
    diagrams = {
        "semi-bandit": models.semi_bandit(10, 3), "cascade model": models.cascade(10, 3),
        "position-based model": models.position_based(10, 3), "rank-1 bandit": models.rank1(8, 10),
    }  # fmt: skip
    sentences = []
    for name, d in diagrams.items():
        monotone, decomposed = bounds.check_monotone(d), bounds.check_decomposition(d)
        first = "holds" if monotone.holds else "fails"
        second = "fails" if decomposed.constant == float("inf") else f"with C = {decomposed.constant:.3g}"
        how = "" if decomposed.proved and monotone.proved else " (by search)"
        sentences.append(f"{name}: Assumption 1 {first}, Assumption 2 {second}{how}")
    return sentences
