"""Write published numbers into README.md and docs (`make numbers`, about three minutes).

Run the paper's evaluation (finished runs in the report folder are reused), write its results to
docs/results/paper.json, and update all tables and marked numbers of the pages from this file and benchmarks/results.md.
`--no-run` skips the evaluation; `--check` only lists pages that differ from the result files.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.figures import NUMBERS, PAPER, ROOT, Paper, Sources, Tables, cells_of, rounded, value
from benchmarks.report import write
from idbandits.cli import main as cli
from idbandits.reproduction.claims import PAPERS_TABLE
from idbandits.reproduction.paper_report import machine, seconds_at
from idbandits.reproduction.problems import AS_WRITTEN, PAPERS_PROBLEMS, TABLE, VI
from idbandits.reproduction.run_store import version

MARKED = re.compile(r"<!--=([^>]*?)-->(.*?)<!--/-->", re.DOTALL)
README, DOCS = ROOT / "README.md", ROOT / "docs"
LIBRARIES = ("numpy", "scipy", "numba")


def line_of(cells: Sequence[str]) -> str:
    """Format a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def refilled(text: str, heading: Sequence[str], rows: Callable[[list[list[str]]], list[list[str]]]) -> str:
    """Replace the rows of the table that has these columns."""
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines) if line.startswith("|") and cells_of(line) == list(heading)), None)
    if first is None:
        raise SystemExit(f"no table has the columns {', '.join(heading)}")
    last = first + 2
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    new = rows([cells_of(line) for line in lines[first + 2 : last]])
    return "\n".join([*lines[: first + 2], *map(line_of, new), *lines[last:]]) + "\n"


def marked(text: str, numbers: Callable[[str], str]) -> str:
    """Replace the number between each pair of marks by the current one.

    >>> marked("It takes <!--=time-->2<!--/--> s.", {"time": "3"}.__getitem__)
    'It takes <!--=time-->3<!--/--> s.'
    """
    if text.count("<!--=") != text.count("<!--/-->") or text.count("<!--=") != len(MARKED.findall(text)):
        raise SystemExit("a marked number has no end, or an end has no beginning")
    return MARKED.sub(lambda mark: f"<!--={mark[1]}-->{numbers(mark[1])}<!--/-->", text)


def _run_times(text: str, paper: Paper) -> str:
    """Refill Table 1 of the paper."""

    def rows(old: list[list[str]]) -> list[list[str]]:
        new = []
        for learner, *_ in old:
            here, (seconds, _, reward, error) = paper.summary("cascade 1", learner), PAPERS_TABLE[learner]
            assert here is not None
            ratio = float(f"{seconds / here['seconds_mean']:.2g}")
            times = [f"{seconds:,.1f}", f"{here['seconds_mean']:.2g}", f"{ratio:,.0f}"]
            new.append([learner, *times, f"{reward:.3f} ± {error:.3f}", paper.reward("cascade 1", learner)])
        return new

    return refilled(text, ["", "paper, seconds", "here, seconds", "ratio", "paper, reward", "here, reward"], rows)


def _paper(text: str, paper: Paper) -> str:
    text = refilled(
        text,
        ["", *PAPERS_PROBLEMS],
        lambda old: [old[0], *([name, *(paper.reward(p, name) for p in PAPERS_PROBLEMS)] for name, *_ in old[1:])],
    )
    return refilled(
        text, ["claim", "here", "numbers"], lambda _: [[v.claim, v.verdict, v.numbers] for v in paper.verdicts()]
    )


def _baselines(text: str, paper: Paper) -> str:
    return refilled(
        text,
        ["problem", "learner", "idbandits", "public code"],
        lambda old: [[problem, learner, paper.reward(problem, learner), other] for problem, learner, _, other in old],
    )


def _inference(text: str, tables: Tables) -> str:
    by_cell = {(row["problem"], row["learner"]): row for row in tables.rows("Regret on the paper's problems")}

    def cell(problem: str, learner: str) -> str:
        row = by_cell[problem, learner]
        mean, error = (f"{float(part):.0f}" for part in row["regret"].split(" ± "))
        return f"{row['average reward'].split()[0]}; {mean} ± {error}, {float(row['worst']):.0f}"

    return refilled(
        text,
        ["", *PAPERS_PROBLEMS],
        lambda old: [[learner, *(cell(p, learner) for p in PAPERS_PROBLEMS)] for learner, *_ in old],
    )


def _drift(text: str, tables: Tables) -> str:
    rows = tables.rows("Forgetting in changing")
    settings = (("5 phases", "5,000", 2), ("constant", "400,000", 2), ("constant", "5,000", 1))

    def ratio(model: str, world: str, half_life: str, digits: int) -> str:
        wanted = (model, world, half_life)
        [cell] = [row["ratio"] for row in rows if (row["model"], row["world"], row["half-life"]) == wanted]
        return " ± ".join(rounded(value(part), digits) for part in cell.split(" ± "))

    heading = next(cells_of(line) for line in text.splitlines() if line.startswith("| model | five phases"))
    return refilled(text, heading, lambda old: [[m, *(ratio(m, *setting) for setting in settings)] for m, *_ in old])


def _context_features(text: str, tables: Tables) -> str:
    columns = ["items", "features of items", "coefficients", "act", "update"]
    if not any(title.startswith("Contexts with features") for title in tables.texts):
        return text
    rows = tables.rows("Contexts with features")
    return refilled(text, columns, lambda _: [[row[column] for column in columns] for row in rows])


def pages(paper: Paper, tables: Tables) -> dict[Path, str]:
    """Return all pages with numbers of the result files."""
    sources = Sources(paper, tables)
    texts = {path: path.read_text(encoding="utf-8") for path in (README, *sorted(DOCS.rglob("*.md")))}
    refills: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("explanation/paper", lambda text: _paper(_run_times(text, paper), paper)),
        ("reference/baselines", lambda text: _baselines(text, paper)),
        ("explanation/inferences", lambda text: _inference(text, tables)),
        ("how-to/drift", lambda text: _drift(text, tables)),
        ("explanation/features-of-contexts", lambda text: _context_features(text, tables)),
    )
    for name, refill in refills:
        path = DOCS / f"{name}.md"
        texts[path] = refill(texts[path])
    return {path: marked(text, lambda key: NUMBERS[key](sources)) for path, text in texts.items()}


def differences() -> list[str]:
    """Return lines of pages that differ from the committed result files."""
    lines_apart = []
    for path, text in pages(Paper.load(), Tables.load()).items():
        lines = zip(path.read_text(encoding="utf-8").splitlines(), text.splitlines(), strict=True)
        lines_apart += [f"{path.name}: {old!r} should be {new!r}" for old, new in lines if old != new]
    return lines_apart


def collected(report: Path) -> dict[str, Any]:
    """Return the results in a report folder as plain data: totals of all runs, commit and versions."""
    frame = pd.read_parquet(report / "results.parquet")
    table = frame[frame["experiment"] == TABLE.key]
    rounds = int(table.loc[table["learner"] == AS_WRITTEN, "round"].max())
    last = frame[frame["round"] == frame.groupby(["experiment", "learner"])["round"].transform("max")]
    cells = []
    for (problem, learner), rows in last.drop_duplicates(["problem", "learner", "run"]).groupby(
        ["problem", "learner"], sort=False
    ):
        rows = rows.sort_values("run")
        totals = {
            name: rows[name].round(digits).tolist() for name, digits in (("reward", 6), ("regret", 6), ("seconds", 4))
        }
        cells.append({"problem": problem, "learner": learner, "rounds": int(rows["round"].iloc[0]), **totals})
    return {
        "about": "Results of `make paper`, written by `make numbers`: totals of each run after `rounds` rounds.",
        "commit": _commit(),
        "sources": version(),
        "versions": {"idbandits": cli_version()} | {name: metadata.version(name) for name in LIBRARIES},
        "machine": machine(),
        "seed": 0,
        "as_written": {
            "rounds": rounds,
            "seconds": round(seconds_at(table, AS_WRITTEN, rounds), 4),
            "seconds_of_ours": round(seconds_at(table, VI, rounds), 6),
        },
        "cells": cells,
    }


def cli_version() -> str:
    """Return the version of the library."""
    import idbandits

    return idbandits.__version__


def _commit() -> str:
    """Return the commit of the sources, followed by a plus sign if they were changed."""

    def git(*words: str) -> str:
        ended = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return ended.stdout.strip()

    return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "--", "idbandits"))


def dumped(data: dict[str, Any]) -> str:
    """Format data as JSON with one line per field and cell."""
    cells = ",\n".join(f"  {json.dumps(cell, ensure_ascii=False)}" for cell in data["cells"])
    fields = [
        f" {json.dumps(name)}: {json.dumps(own, ensure_ascii=False)}" for name, own in data.items() if name != "cells"
    ]
    return "{\n" + ",\n".join([*fields, f' "cells": [\n{cells}\n ]']) + "\n}\n"


def main() -> int:
    """Update or check the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", type=Path, default=ROOT / "report", help="report folder (default: report)")
    parser.add_argument("--no-run", action="store_true", help="use docs/results/paper.json as it is")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 1 if pages differ")
    arguments = parser.parse_args()
    if arguments.check:
        lines = differences()
        print("\n".join(lines) or "all pages agree with the result files")
        return int(bool(lines))
    if not arguments.no_run:
        if status := cli.main(["paper", "--out", str(arguments.report)]):
            return status
        write(PAPER, dumped(collected(arguments.report)))
        shutil.copyfile(arguments.report / "figure-2.svg", DOCS / "figures" / "figure-2.svg")
    for path, text in pages(Paper.load(), Tables.load()).items():
        if text != path.read_text(encoding="utf-8"):
            write(path, text)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
