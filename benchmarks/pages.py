"""Put measured numbers into the tables of README.md and docs: `python -m benchmarks.pages report`.

Reads the report that `make paper` wrote, and benchmarks/results.md. Rows and columns of the tables stay as they are.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from benchmarks.report import write
from idbandits.paper.claims import PAPERS_TABLE, verdicts
from idbandits.paper.problems import PAPERS_PROBLEMS
from idbandits.simulation.cells import shown

ROOT = Path(__file__).parents[1]

Summaries: TypeAlias = dict[tuple[str, str], dict[str, Any]]  # rows of summary.csv by problem and learner


def cells_of(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def line_of(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def tables_in(text: str) -> list[list[list[str]]]:
    """The cells of all tables; the lines between head and body are left out."""
    blocks = ("\n".join(line if line.startswith("|") else "" for line in text.splitlines())).split("\n\n")
    lines = [[line for line in block.splitlines() if line] for block in blocks]
    return [[cells_of(line) for k, line in enumerate(table) if k != 1] for table in lines if len(table) > 1]


def refilled(text: str, heading: Sequence[str], rows: Callable[[list[list[str]]], list[list[str]]]) -> str:
    """The text, with new rows in the table that has these columns."""
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines) if line.startswith("|") and cells_of(line) == list(heading)), None)
    if first is None:
        raise SystemExit(f"no table has the columns {', '.join(heading)}")
    last = first + 2
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    new = rows([cells_of(line) for line in lines[first + 2 : last]])
    return "\n".join([*lines[: first + 2], *map(line_of, new), *lines[last:]]) + "\n"


def _readme(text: str, summaries: Summaries) -> str:
    def rows(old: list[list[str]]) -> list[list[str]]:
        new = []
        for learner, *_ in old:
            here, (seconds, _, reward, error) = summaries["cascade 1", learner], PAPERS_TABLE[learner]
            ratio = float(f"{seconds / here['seconds_mean']:.2g}")
            times = [f"{seconds:,.1f}", f"{here['seconds_mean']:.2g}", f"{ratio:,.0f}"]
            new.append([learner, *times, f"{reward:.3f} ± {error:.3f}", shown(here, "reward")])
        return new

    return refilled(text, ["", "paper, seconds", "here, seconds", "ratio", "paper, reward", "here, reward"], rows)


def _paper(text: str, summaries: Summaries) -> str:
    def reward(problem: str, learner: str) -> str:
        return shown(summaries[problem, learner], "reward") if (problem, learner) in summaries else ""

    text = refilled(
        text,
        ["", *PAPERS_PROBLEMS],
        lambda old: [old[0], *([learner, *(reward(p, learner) for p in PAPERS_PROBLEMS)] for learner, *_ in old[1:])],
    )
    text = refilled(
        text,
        ["claim", "here", "numbers"],
        lambda _: [[v.claim, v.verdict, v.numbers] for v in verdicts(lambda *cell: summaries.get(cell))],
    )
    return refilled(
        text,
        ["problem", "learner", "ours", "public code"],
        lambda old: [[problem, learner, reward(problem, learner), theirs] for problem, learner, _, theirs in old],
    )


def _learning(text: str, results: str) -> str:
    measured = next(table for table in tables_in(results) if table[0][:2] == ["problem", "learner"])
    by_cell = {(row[0], row[1]): dict(zip(measured[0], row, strict=True)) for row in measured[1:]}

    def cell(problem: str, learner: str) -> str:
        row = by_cell[problem, learner]
        mean, error = (f"{float(part):.0f}" for part in row["regret"].split(" ± "))
        return f"{row['average reward'].split()[0]}; {mean} ± {error}, {float(row['worst']):.0f}"

    return refilled(
        text,
        ["", *PAPERS_PROBLEMS],
        lambda old: [[learner, *(cell(p, learner) for p in PAPERS_PROBLEMS)] for learner, *_ in old],
    )


def main() -> None:
    """Rewrite the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("report", type=Path, help="the folder that `make paper` wrote")
    report = parser.parse_args().report
    summary = pd.read_csv(report / "summary.csv")
    summaries = {(row["problem"], row["learner"]): row for row in summary.to_dict("records")}
    readme, paper, learning = ROOT / "README.md", ROOT / "docs" / "paper.md", ROOT / "docs" / "learning.md"
    pages = {
        readme: _readme(readme.read_text(), summaries),
        paper: _paper(paper.read_text(), summaries),
        learning: _learning(learning.read_text(), (ROOT / "benchmarks" / "results.md").read_text()),
    }
    for path, text in pages.items():
        write(path, text)
    shutil.copyfile(report / "figure-2.svg", ROOT / "docs" / "figure-2.svg")


if __name__ == "__main__":
    main()
