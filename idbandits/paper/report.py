"""The report of the evaluation: figures, tables and a page that a person reads, from finished runs."""

from __future__ import annotations

import base64
import functools
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
import pandas

from idbandits.files import write_whole
from idbandits.paper.problems import (
    AS_WRITTEN,
    BEYOND,
    FAILS,
    FIGURES,
    FULL,
    HOLDS,
    INC,
    LEARNERS,
    PAPERS_MACHINE,
    PAPERS_TABLE,
    PROBLEMS,
    ROUNDS,
    TABLE,
    VI,
    Figure,
    Panel,
    shown,
    verdicts,
)
from idbandits.paper.runs import Cell, Job, Settings
from idbandits.simulation.plots import What, curves, draw_curves, draw_legend
from idbandits.simulation.results import Result
from idbandits.simulation.simulate import Run, frame_of, marks_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

COLUMNS = (
    "experiment", "problem", "learner", "runs", "rounds", "reward_mean", "reward_se", "regret_mean", "regret_se",
    "worst_regret", "seconds_mean",
)  # fmt: skip
EMPTY = frame_of({}, marks_of(1, 1), []).assign(learner="", problem="")
WIDTH = 10.0  # of a figure, in inches
PRINT = {
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 8.5, "svg.fonttype": "none",
    "svg.hashsalt": "idbandits",
}  # fmt: skip


@final
@dataclass(frozen=True)
class Findings:
    """All finished runs, as one table, and how they were made."""

    frame: pandas.DataFrame  # problem, learner, run, round, reward, regret, seconds
    settings: Settings
    panels: tuple[Panel, ...]

    @functools.cached_property
    def _cells(self) -> dict[tuple[str, str], pandas.DataFrame]:
        groups = self.frame.groupby(["problem", "learner"], sort=False, observed=True)
        return {(str(problem), str(learner)): rows for (problem, learner), rows in groups}

    @functools.cached_property
    def _results(self) -> dict[Panel, Result]:
        return {panel: self._result(panel) for panel in self.panels}

    def _result(self, panel: Panel) -> Result:
        rows = [self._cells[panel.problem, name] for name in panel.learners if (panel.problem, name) in self._cells]
        settings = {
            "world": panel.problem, "learners": list(panel.learners), "rounds": self.settings.rounds,
            "runs": self.settings.runs, "seed": self.settings.seed, "interrupted": False,
        }  # fmt: skip
        return Result(pandas.concat(rows, ignore_index=True).drop(columns="problem"), settings)

    def result(self, panel: Panel) -> Result:
        """Of one panel."""
        return self._results[panel]

    @functools.cached_property
    def summary(self) -> pandas.DataFrame:
        """One row for every learner in every panel."""
        parts = [pandas.DataFrame(columns=list(COLUMNS))] * (not self.panels)
        for panel in self.panels:
            part = self.result(panel).summary()
            part.insert(0, "problem", panel.problem)
            part.insert(0, "experiment", panel.key)
            parts.append(part)
        return pandas.concat(parts, ignore_index=True)[list(COLUMNS)]


def findings_of(runs: Mapping[Job, Run], settings: Settings, panels: Sequence[Panel]) -> Findings:
    """Put runs together, in the order of the panels: they were finished in any."""
    by_cell: dict[Cell, dict[int, Run]] = {Cell(panel.problem, name): {} for panel in panels for name in panel.learners}
    for job, run in runs.items():
        by_cell[job.cell][job.run] = run
    frames = [EMPTY] * (not by_cell)
    for cell, done in by_cell.items():
        marks = marks_of(cell.rounds(settings), len(next(iter(done.values())).totals))
        part = frame_of({(cell.learner, number): run for number, run in sorted(done.items())}, marks, [cell.learner])
        part["learner"] = part["learner"].astype(str)
        part.insert(0, "problem", cell.problem)
        frames.append(part)
    return Findings(pandas.concat(frames, ignore_index=True), settings, tuple(panels))


# -- figures -------------------------------------------------------------------------------------------------------


def looks(figure: Figure) -> dict[str, int]:
    """Which look each learner has in all panels of a figure; the paper's three have the same in all figures."""
    names = dict.fromkeys([FULL, VI, INC, *(name for panel in figure.panels for name in panel.learners)])
    return {name: i for i, name in enumerate(names)}


def draw(figure: Figure, findings: Findings) -> Picture:
    """A figure with all of its panels that were run, and one legend."""
    from matplotlib.figure import Figure as Picture

    panels = [panel for panel in figure.panels if panel in findings.panels]
    columns = min(len(panels), 3 if len(figure.panels) % 3 == 0 else 2)
    rows = math.ceil(len(panels) / columns)
    width = WIDTH if columns > 1 else 5.0
    names = looks(figure)
    used = [name for name in names if any(name in panel.learners for panel in panels)]
    legend = math.ceil(len(used) / (2 * columns)) * 0.22 + 0.3
    picture = Picture(figsize=(width, 2.6 * rows + legend), layout="constrained")
    for i, (panel, ax) in enumerate(
        zip(panels, np.ravel(picture.subplots(rows, columns, squeeze=False)), strict=False)
    ):
        what = cast(What, figure.what)
        result = findings.result(panel)
        made = sorted(curves(result.frame, what), key=lambda curve: names[curve.learner])
        draw_curves(made, what, ax, looks=names, legend=False, log=what == "regret")
        note = f": {panel.note}" if panel.note else ""
        ax.set_title(f"({panel.key[len(figure.key) :]}) {PROBLEMS[panel.problem].title}{note}", loc="left")
        if i % columns:
            ax.set_ylabel("")
        if i + columns < len(panels):
            ax.set_xlabel("")
    for ax in picture.axes[len(panels) :]:
        ax.set_visible(False)
    draw_legend(picture, {name: names[name] for name in used}, 2 * columns)
    return picture


def rendered(picture: Picture) -> dict[str, bytes]:
    """A picture as PNG and as SVG."""
    made = {}
    for kind, how in (("png", {"dpi": 160}), ("svg", {"metadata": {"Date": None}})):
        out = BytesIO()
        picture.savefig(out, format=kind, **cast(Any, how))
        made[kind] = out.getvalue()
    return made


# -- tables --------------------------------------------------------------------------------------------------------


def run_times(findings: Findings) -> list[dict[str, str]]:
    """Table 1: the run time and reward of the paper beside ours."""
    if TABLE not in findings.panels:
        return []
    result = findings.result(TABLE)
    found = []
    for row in result.summary().to_dict("records"):
        seconds, reward = row["seconds_mean"], shown(row, "reward")
        if row["learner"] == AS_WRITTEN:
            same = seconds_at(result.frame, VI, row["rounds"])
            found.append(
                {
                    "learner": f"{AS_WRITTEN}, {row['rounds']:,} rounds", "paper_seconds": "–", "paper_reward": "–",
                    "seconds": f"{seconds:.3g}", "reward": reward,
                    "ratio": f"{_times(seconds, same)}: idTSvi takes {same:.2g} s for as many rounds",
                }
            )  # fmt: skip
            continue
        theirs, error, mean, se = PAPERS_TABLE[row["learner"]]
        found.append(
            {
                "learner": row["learner"], "paper_seconds": f"{theirs:,.1f} ± {error:.1f}",
                "paper_reward": f"{mean:.3f} ± {se:.3f}", "seconds": f"{seconds:.2g}", "reward": reward,
                "ratio": _times(theirs, seconds) if row["rounds"] == ROUNDS else "–",
            }
        )  # fmt: skip
    return found


def seconds_at(frame: pandas.DataFrame, learner: str, rounds: int) -> float:
    """The mean seconds that a learner takes for so many rounds, between checkpoints if need be."""
    rows = frame[frame["learner"] == learner].groupby("round")["seconds"].mean()
    return float(np.interp(rounds, [0, *rows.index], [0.0, *rows.to_numpy()]))


def _times(slow: float, fast: float) -> str:
    """How many times as long, to two digits."""
    if slow <= 0 or fast <= 0:  # by a clock that is too coarse for few rounds
        return "–"
    return f"{float(f'{slow / fast:.2g}'):,.10g} times"


def machine() -> str:
    """What the runs were made on."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


# -- the page ------------------------------------------------------------------------------------------------------


def write(findings: Findings, out: Path, took: str, command: str, theory: Mapping[str, Any] | None) -> list[str]:
    """Write all files of the report, each whole or not at all; their names."""
    from matplotlib import style

    files: dict[str, bytes] = {}
    sections = []
    with style.context(["default", PRINT]):
        for figure in FIGURES:
            shown_panels = [panel for panel in figure.panels if panel in findings.panels]
            if not shown_panels:
                continue
            name = f"figure-{figure.key}"
            made = rendered(draw(figure, findings))
            files |= {f"{name}.{kind}": content for kind, content in made.items()}
            sections.append(_section(figure, shown_panels, findings, name, made["png"]))
        if theory is not None:
            made = rendered(theory["picture"])
            files |= {f"theory.{kind}": content for kind, content in made.items()}
            theory = {**theory, "png": base64.b64encode(made["png"]).decode()}
    summary = findings.summary
    files["summary.csv"] = summary.to_csv(index=False).encode()
    buffer = BytesIO()
    tidy(findings).to_parquet(buffer, index=False)
    files["results.parquet"] = buffer.getvalue()
    files["index.html"] = _page(findings, summary, sections, took, command, theory).encode()
    for name, content in files.items():
        write_whole(out / name, content)
    return list(files)


def tidy(findings: Findings) -> pandas.DataFrame:
    """All checkpoints of all runs, by experiment."""
    parts = [EMPTY.assign(experiment="")] * (not findings.panels)
    for panel in findings.panels:
        part = findings.result(panel).frame.copy()
        part.insert(0, "problem", panel.problem)
        part.insert(0, "experiment", panel.key)
        parts.append(part)
    return pandas.concat(parts, ignore_index=True)


def _section(figure: Figure, panels: Sequence[Panel], findings: Findings, name: str, png: bytes) -> dict[str, Any]:
    tables = []
    for panel in panels:
        rows = [
            {
                "learner": row["learner"], "kind": LEARNERS[row["learner"]].kind, "runs": row["runs"],
                "about": LEARNERS[row["learner"]].about, "reward": shown(row, "reward"),
                "regret": shown(row, "regret"), "worst": f"{row['worst_regret']:,.0f}",
                "seconds": f"{row['seconds_mean']:.2g}",
            }
            for row in findings.summary[findings.summary["experiment"] == panel.key].to_dict("records")
        ]  # fmt: skip
        best = PROBLEMS[panel.problem].world().best().value
        tables.append({"key": panel.key, "title": PROBLEMS[panel.problem].title, "rows": rows, "best": f"{best:.4g}"})
    return {
        "title": figure.title, "text": figure.text, "beyond": figure.kind == BEYOND, "name": name, "tables": tables,
        "png": base64.b64encode(png).decode(), "what": figure.what,
        "alt": f"{figure.title}: curves of the {'average reward' if figure.what == 'reward' else 'total regret'} "
               f"over the rounds; their last values are in the tables below",
    }  # fmt: skip


def _page(
    findings: Findings, summary: pandas.DataFrame, sections: list[dict[str, Any]], took: str, command: str,
    theory: Mapping[str, Any] | None,
) -> str:  # fmt: skip
    import jinja2
    import numba

    rows = {(row["problem"], row["learner"]): row for row in summary.to_dict("records")}
    claims = verdicts(lambda problem, learner: rows.get((problem, learner)))
    counts = [sum(claim.verdict == word for claim in claims) for word in (HOLDS, FAILS)]
    papers = [TABLE, *(panel for figure in FIGURES if figure.kind != BEYOND for panel in figure.panels)]
    complete = all(panel in findings.panels for panel in papers)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page: str = environment.get_template("report.html").render(
        settings=findings.settings, sections=sections, claims=claims, holding=counts[0], failing=counts[1],
        times=run_times(findings), machine=machine(), papers_machine=PAPERS_MACHINE, took=took, command=command,
        theory=theory, complete=complete, papers_rounds=ROUNDS,
        versions=f"NumPy {np.__version__}, Numba {numba.__version__}",
    )  # fmt: skip
    return page
