"""Report of the evaluation: figures, tables and a web page, made from finished runs."""

from __future__ import annotations

import base64
import functools
import math
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.files import write_whole
from idbandits.reproduction import problems
from idbandits.reproduction.claims import FAILS, HOLDS, PAPERS_MACHINE, PAPERS_TABLE, verdicts
from idbandits.reproduction.problems import FIGURES, LEARNERS, PROBLEMS, TABLE, VI, Figure, Panel
from idbandits.reproduction.runs import Cell, Job, Settings
from idbandits.simulation.loop import Run
from idbandits.simulation.plots import curves, draw_curves, draw_legend, rendered
from idbandits.simulation.result_tables import shown
from idbandits.simulation.results import Result
from idbandits.simulation.simulate import frame_of, marks_of

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.figure import Figure as Picture

SUMMARY_COLUMNS = [
    "experiment", "problem", "learner", "runs", "rounds", "reward_mean", "reward_se", "regret_mean", "regret_se",
    "worst_regret", "seconds_mean",
]  # fmt: skip
TIDY_COLUMNS = ["experiment", "problem", "learner", "run", "round", "reward", "regret", "seconds"]
PRINT = {
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 8.5, "svg.fonttype": "none",
    "svg.hashsalt": "idbandits",
}  # fmt: skip


@final
@dataclass(frozen=True)
class Findings:
    """Results of each panel, and the settings of all runs."""

    results: dict[Panel, Result]
    settings: Settings

    @functools.cached_property
    def summary(self) -> pd.DataFrame:
        """Data frame with one row per learner of each panel."""
        return _by_experiment({panel: result.summary() for panel, result in self.results.items()}, SUMMARY_COLUMNS)

    def tidy(self) -> pd.DataFrame:
        """Return all checkpoints of all runs of each panel."""
        return _by_experiment({panel: result.frame for panel, result in self.results.items()}, TIDY_COLUMNS)


def _by_experiment(frames: Mapping[Panel, pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """Concatenate the data frames of panels, after columns `experiment` and `problem`."""
    import pandas as pd

    keyed = [frame.assign(experiment=panel.key, problem=panel.problem) for panel, frame in frames.items()]
    return pd.concat(keyed or [pd.DataFrame(columns=columns)], ignore_index=True)[columns]


def findings_of(runs: Mapping[Job, Run], settings: Settings, panels: Sequence[Panel]) -> Findings:
    """Collect runs in the order of the panels."""
    import pandas as pd

    by_cell: dict[Cell, dict[tuple[str, int], Run]] = {}
    for job, run in runs.items():
        by_cell.setdefault(job.cell, {})[job.cell.learner, job.run] = run
    results = {}
    for panel in panels:
        frames = []
        for cell in [Cell(panel.problem, name) for name in panel.learners]:
            marks = marks_of(cell.rounds(settings), len(next(iter(by_cell[cell].values())).totals))
            frames.append(frame_of(by_cell[cell], marks, [cell.learner]))
        described = {"world": panel.problem, "learners": list(panel.learners), "interrupted": False, **asdict(settings)}
        frame = pd.concat(frames, ignore_index=True)
        results[panel] = Result(frame.assign(learner=frame["learner"].astype(str)), described)
    return Findings(results, settings)


def looks(figure: Figure) -> dict[str, int]:
    """Return the style number of each learner in a figure; those of the paper's three are equal in all figures."""
    names = [problems.FULL, VI, problems.INC, *(name for panel in figure.panels for name in panel.learners)]
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def draw(figure: Figure, findings: Findings) -> Picture:
    """Draw a figure with those of its panels that were run, and one legend."""
    from matplotlib.figure import Figure as Picture

    panels = [panel for panel in figure.panels if panel in findings.results]
    columns = min(len(panels), 3 if len(figure.panels) % 3 == 0 else 2)
    rows, names = math.ceil(len(panels) / columns), looks(figure)
    used = [name for name in names if any(name in panel.learners for panel in panels)]
    legend = math.ceil(len(used) / (2 * columns)) * 0.22 + 0.3
    picture = Picture(figsize=(10.0 if columns > 1 else 5.0, 2.6 * rows + legend), layout="constrained")
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


def run_times(findings: Findings) -> list[dict[str, str]]:
    """Return the rows of Table 1: run times and rewards of the paper and of these runs."""
    if (result := findings.results.get(TABLE)) is None:
        return []
    rows = []
    for row in result.summary().to_dict("records"):
        name, rounds, seconds = row["learner"], row["rounds"], row["seconds_mean"]
        if name == problems.AS_WRITTEN:
            same = seconds_at(result.frame, VI, rounds)
            cells = {
                "learner": f"{name}, {rounds:,} rounds", "paper_seconds": "–", "paper_reward": "–",
                "seconds": f"{seconds:.3g}",
                "ratio": f"{times_as_long(seconds, same)}: idTSvi takes {same:.2g} s for as many rounds",
            }  # fmt: skip
        else:
            paper_seconds, error, mean, se = PAPERS_TABLE[name]
            cells = {
                "learner": name, "paper_seconds": f"{paper_seconds:,.1f} ± {error:.1f}",
                "paper_reward": f"{mean:.3f} ± {se:.3f}", "seconds": f"{seconds:.2g}",
                "ratio": times_as_long(paper_seconds, seconds) if rounds == problems.ROUNDS else "–",
            }  # fmt: skip
        rows.append({**cells, "reward": shown(row, "reward")})
    return rows


def seconds_at(frame: pd.DataFrame, learner: str, rounds: int) -> float:
    """Return the mean seconds of a learner for a number of rounds, interpolated between checkpoints."""
    rows = frame[frame["learner"] == learner].groupby("round")["seconds"].mean()
    return float(np.interp(rounds, [0, *rows.index], [0.0, *rows.to_numpy()]))


def times_as_long(slow: float, fast: float) -> str:
    """Return a ratio of seconds as text with two digits."""
    if slow <= 0 or fast <= 0:  # below the resolution of the clock
        return "–"
    return f"{float(f'{slow / fast:.2g}'):,.10g} times"


def machine() -> str:
    """Describe this machine."""
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def processor() -> str:
    """Return the name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(findings: Findings, out: Path, took: str, command: str, theory: Mapping[str, Any] | None) -> list[str]:
    """Write all files of the report, each atomically, and return their names."""
    from matplotlib import style

    files, sections = dict[str, bytes](), []
    with style.context(["default", PRINT]):
        for figure in FIGURES:
            panels = [panel for panel in figure.panels if panel in findings.results]
            if panels:
                name, images = f"figure-{figure.key}", rendered(draw(figure, findings))
                files |= {f"{name}.{kind}": content for kind, content in images.items()}
                sections.append({"figure": figure, "name": name, "panels": panels, "png": images["png"]})
        if theory is not None:
            images = rendered(theory["picture"])
            files |= {f"theory.{kind}": content for kind, content in images.items()}
            theory = {**theory, "png": images["png"]}
    files["summary.csv"] = findings.summary.to_csv(index=False).encode()
    files["results.parquet"] = findings.tidy().to_parquet(index=False)
    files["index.html"] = _page(findings, sections=sections, took=took, command=command, theory=theory).encode()
    for name, content in files.items():
        write_whole(out / name, content)
    return list(files)


def _page(findings: Findings, **parts: Any) -> str:
    """Render the page from its template."""
    import jinja2
    import numba

    rows = {(row["problem"], row["learner"]): row for row in findings.summary.to_dict("records")}
    claims = verdicts(lambda problem, learner: rows.get((problem, learner)))
    holding, failing = (sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS))
    papers = [TABLE, *(panel for figure in FIGURES if figure.kind != problems.BEYOND for panel in figure.panels)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    page: str = environment.get_template("report.html").render(
        settings=findings.settings, rows=rows, learners=LEARNERS, problems=PROBLEMS, shown=shown, claims=claims,
        holding=holding, failing=failing, complete=all(panel in findings.results for panel in papers),
        times=run_times(findings), machine=machine(), papers_machine=PAPERS_MACHINE, papers_rounds=problems.ROUNDS,
        versions=f"NumPy {np.__version__}, Numba {numba.__version__}", BEYOND=problems.BEYOND, **parts,
    )  # fmt: skip
    return page
