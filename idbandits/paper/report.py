"""The report of the evaluation: figures, tables and a page to read, made from finished runs."""

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
from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.files import write_whole
from idbandits.paper.claims import FAILS, HOLDS, PAPERS_MACHINE, PAPERS_TABLE, shown, verdicts
from idbandits.paper.problems import (
    AS_WRITTEN,
    BEYOND,
    FIGURES,
    FULL,
    INC,
    LEARNERS,
    PROBLEMS,
    ROUNDS,
    TABLE,
    VI,
    Figure,
    Panel,
)
from idbandits.paper.runs import Cell, Job, Settings
from idbandits.simulation.loop import Run
from idbandits.simulation.plots import curves, draw_curves, draw_legend
from idbandits.simulation.results import Result
from idbandits.simulation.simulate import frame_of, marks_of

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.figure import Figure as Picture

COLUMNS = [
    "experiment", "problem", "learner", "runs", "rounds", "reward_mean", "reward_se", "regret_mean", "regret_se",
    "worst_regret", "seconds_mean",
]  # fmt: skip
WIDTH = 10.0  # of a figure, in inches
PRINT = {
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 8.5, "svg.fonttype": "none",
    "svg.hashsalt": "idbandits",
}  # fmt: skip


@final
@dataclass(frozen=True)
class Findings:
    """All finished runs as one table, their settings, and the panels that show them."""

    frame: pd.DataFrame  # problem, learner, run, round, reward, regret, seconds
    settings: Settings
    panels: tuple[Panel, ...]

    @functools.cached_property
    def results(self) -> dict[Panel, Result]:
        """The runs of each panel."""
        import pandas as pd

        groups = self.frame.groupby(["problem", "learner"], sort=False, observed=True)
        by_cell = {cell: rows.drop(columns="problem") for cell, rows in groups}
        results = {}
        for panel in self.panels:
            cells = [(panel.problem, name) for name in panel.learners]
            settings = {
                "world": panel.problem, "learners": list(panel.learners), "rounds": self.settings.rounds,
                "runs": self.settings.runs, "seed": self.settings.seed, "interrupted": False,
            }  # fmt: skip
            rows = [by_cell[cell] for cell in cells if cell in by_cell]
            results[panel] = Result(pd.concat(rows, ignore_index=True), settings)
        return results

    @functools.cached_property
    def summary(self) -> pd.DataFrame:
        """One row per learner of each panel."""
        import pandas as pd

        if not self.panels:
            return pd.DataFrame(columns=COLUMNS)
        return self._by_experiment({panel: result.summary() for panel, result in self.results.items()})[COLUMNS]

    def tidy(self) -> pd.DataFrame:
        """All checkpoints of all runs of each panel."""
        if not self.panels:
            return self.frame.assign(experiment="")
        return self._by_experiment({panel: result.frame for panel, result in self.results.items()})

    def _by_experiment(self, frames: Mapping[Panel, pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        parts = []
        for panel, frame in frames.items():
            part = frame.copy()
            part.insert(0, "problem", panel.problem)
            part.insert(0, "experiment", panel.key)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)


def findings_of(runs: Mapping[Job, Run], settings: Settings, panels: Sequence[Panel]) -> Findings:
    """Put runs together in the order of the panels, whatever order they were finished in."""
    import pandas as pd

    by_cell: dict[Cell, dict[int, Run]] = {Cell(panel.problem, name): {} for panel in panels for name in panel.learners}
    for job, run in runs.items():
        by_cell[job.cell][job.run] = run
    if not by_cell:
        empty = frame_of({}, marks_of(1, 1), []).assign(learner="", problem="")
        return Findings(empty, settings, tuple(panels))
    frames = []
    for cell, numbered in by_cell.items():
        marks = marks_of(cell.rounds(settings), len(next(iter(numbered.values())).totals))
        frame = frame_of({(cell.learner, number): run for number, run in numbered.items()}, marks, [cell.learner])
        frame["learner"] = frame["learner"].astype(str)
        frame.insert(0, "problem", cell.problem)
        frames.append(frame)
    return Findings(pd.concat(frames, ignore_index=True), settings, tuple(panels))


# -- figures -------------------------------------------------------------------------------------------------------


def looks(figure: Figure) -> dict[str, int]:
    """The number of each learner's look in a figure; the paper's three look the same in all figures."""
    names = dict.fromkeys([FULL, VI, INC, *(name for panel in figure.panels for name in panel.learners)])
    return {name: i for i, name in enumerate(names)}


def draw(figure: Figure, findings: Findings) -> Picture:
    """A figure with those of its panels that were run, and one legend."""
    from matplotlib.figure import Figure as Picture

    panels = [panel for panel in figure.panels if panel in findings.panels]
    columns = min(len(panels), 3 if len(figure.panels) % 3 == 0 else 2)
    rows = math.ceil(len(panels) / columns)
    width = WIDTH if columns > 1 else 5.0
    names = looks(figure)
    used = [name for name in names if any(name in panel.learners for panel in panels)]
    legend = math.ceil(len(used) / (2 * columns)) * 0.22 + 0.3
    picture = Picture(figsize=(width, 2.6 * rows + legend), layout="constrained")
    axes = picture.subplots(rows, columns, squeeze=False).flat
    for i, (panel, ax) in enumerate(zip(panels, axes, strict=False)):
        lines = sorted(curves(findings.results[panel].frame, figure.measure), key=lambda curve: names[curve.learner])
        draw_curves(lines, figure.measure, ax, looks=names, legend=False, log=figure.measure == "regret")
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
    options: dict[str, dict[str, Any]] = {"png": {"dpi": 160}, "svg": {"metadata": {"Date": None}}}
    files = {}
    for kind, how in options.items():
        out = BytesIO()
        picture.savefig(out, format=kind, **how)
        files[kind] = out.getvalue()
    return files


# -- tables --------------------------------------------------------------------------------------------------------


def run_times(findings: Findings) -> list[dict[str, str]]:
    """Table 1: the run times and rewards of the paper beside ours."""
    if TABLE not in findings.panels:
        return []
    result = findings.results[TABLE]
    rows = []
    for row in result.summary().to_dict("records"):
        seconds, reward = row["seconds_mean"], shown(row, "reward")
        if row["learner"] == AS_WRITTEN:
            same = seconds_at(result.frame, VI, row["rounds"])
            rows.append(
                {
                    "learner": f"{AS_WRITTEN}, {row['rounds']:,} rounds", "paper_seconds": "–", "paper_reward": "–",
                    "seconds": f"{seconds:.3g}", "reward": reward,
                    "ratio": f"{times_as_long(seconds, same)}: idTSvi takes {same:.2g} s for as many rounds",
                }
            )  # fmt: skip
            continue
        theirs, error, mean, se = PAPERS_TABLE[row["learner"]]
        rows.append(
            {
                "learner": row["learner"], "paper_seconds": f"{theirs:,.1f} ± {error:.1f}",
                "paper_reward": f"{mean:.3f} ± {se:.3f}", "seconds": f"{seconds:.2g}", "reward": reward,
                "ratio": times_as_long(theirs, seconds) if row["rounds"] == ROUNDS else "–",
            }
        )  # fmt: skip
    return rows


def seconds_at(frame: pd.DataFrame, learner: str, rounds: int) -> float:
    """The mean seconds that a learner takes for so many rounds, interpolated between checkpoints."""
    rows = frame[frame["learner"] == learner].groupby("round")["seconds"].mean()
    return float(np.interp(rounds, [0, *rows.index], [0.0, *rows.to_numpy()]))


def times_as_long(slow: float, fast: float) -> str:
    """How many times as long one takes as the other, to two digits."""
    if slow <= 0 or fast <= 0:  # the clock is too coarse for so few rounds
        return "–"
    return f"{float(f'{slow / fast:.2g}'):,.10g} times"


def machine() -> str:
    """What the runs were made on."""
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# -- the page ------------------------------------------------------------------------------------------------------


def write(findings: Findings, out: Path, took: str, command: str, theory: Mapping[str, Any] | None) -> list[str]:
    """Write all files of the report, each entirely or not at all; returns their names."""
    from matplotlib import style

    files: dict[str, bytes] = {}
    sections = []
    with style.context(["default", PRINT]):
        for figure in FIGURES:
            panels = [panel for panel in figure.panels if panel in findings.panels]
            if not panels:
                continue
            name = f"figure-{figure.key}"
            images = rendered(draw(figure, findings))
            files |= {f"{name}.{kind}": content for kind, content in images.items()}
            sections.append(_section(figure, panels, findings, name, images["png"]))
        if theory is not None:
            images = rendered(theory["picture"])
            files |= {f"theory.{kind}": content for kind, content in images.items()}
            theory = {**theory, "png": base64.b64encode(images["png"]).decode()}
    files["summary.csv"] = findings.summary.to_csv(index=False).encode()
    buffer = BytesIO()
    findings.tidy().to_parquet(buffer, index=False)
    files["results.parquet"] = buffer.getvalue()
    files["index.html"] = _page(findings, sections, took, command, theory).encode()
    for name, content in files.items():
        write_whole(out / name, content)
    return list(files)


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
        "png": base64.b64encode(png).decode(), "measure": figure.measure,
        "alt": f"{figure.title}: curves of the {'average reward' if figure.measure == 'reward' else 'total regret'} "
               f"over the rounds; their last values are in the tables below",
    }  # fmt: skip


def _page(
    findings: Findings, sections: list[dict[str, Any]], took: str, command: str, theory: Mapping[str, Any] | None
) -> str:
    import jinja2
    import numba

    rows = {(row["problem"], row["learner"]): row for row in findings.summary.to_dict("records")}
    claims = verdicts(lambda problem, learner: rows.get((problem, learner)))
    holding, failing = (sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS))
    papers = [TABLE, *(panel for figure in FIGURES if figure.kind != BEYOND for panel in figure.panels)]
    complete = all(panel in findings.panels for panel in papers)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page: str = environment.get_template("report.html").render(
        settings=findings.settings, sections=sections, claims=claims, holding=holding, failing=failing,
        times=run_times(findings), machine=machine(), papers_machine=PAPERS_MACHINE, took=took, command=command,
        theory=theory, complete=complete, papers_rounds=ROUNDS,
        versions=f"NumPy {np.__version__}, Numba {numba.__version__}",
    )  # fmt: skip
    return page
