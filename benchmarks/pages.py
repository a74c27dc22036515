"""Put results into README.md and docs: `make numbers`, or `python -m benchmarks.pages`, in about three minutes.

Runs the paper's evaluation (finished runs in the folder of the report are not made again), writes its results to
docs/results/paper.json, and then all tables and marked numbers of the pages, from this file and benchmarks/results.md.
`--no-run` leaves the evaluation out, and `--check` only says which pages disagree with the result files.
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
README, LEARNING, DRIFT = ROOT / "README.md", ROOT / "docs" / "learning.md", ROOT / "docs" / "drift.md"
PAGE = ROOT / "docs" / "paper.md"
LIBRARIES = ("numpy", "scipy", "numba")


def line_of(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


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


def marked(text: str, numbers: Callable[[str], str]) -> str:
    """The text, with the number of its key between each pair of marks.

    >>> marked("It takes <!--=time-->2<!--/--> s.", {"time": "3"}.__getitem__)
    'It takes <!--=time-->3<!--/--> s.'
    """
    if text.count("<!--=") != text.count("<!--/-->") or text.count("<!--=") != len(MARKED.findall(text)):
        raise SystemExit("a marked number has no end, or an end has no beginning")
    return MARKED.sub(lambda mark: f"<!--={mark[1]}-->{numbers(mark[1])}<!--/-->", text)


def _readme(text: str, paper: Paper) -> str:
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
    text = refilled(
        text, ["claim", "here", "numbers"], lambda _: [[v.claim, v.verdict, v.numbers] for v in paper.verdicts()]
    )
    return refilled(
        text,
        ["problem", "learner", "ours", "public code"],
        lambda old: [[problem, learner, paper.reward(problem, learner), theirs] for problem, learner, _, theirs in old],
    )


def _learning(text: str, tables: Tables) -> str:
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
    rows = tables.rows("Forgetting in worlds")
    settings = (("5 phases", "5,000", 2), ("constant", "400,000", 2), ("constant", "5,000", 1))

    def ratio(model: str, world: str, half_life: str, digits: int) -> str:
        wanted = (model, world, half_life)
        [cell] = [row["ratio"] for row in rows if (row["model"], row["world"], row["half-life"]) == wanted]
        return " ± ".join(rounded(value(part), digits) for part in cell.split(" ± "))

    heading = next(cells_of(line) for line in text.splitlines() if line.startswith("| model | five phases"))
    return refilled(text, heading, lambda old: [[m, *(ratio(m, *setting) for setting in settings)] for m, *_ in old])


def pages(paper: Paper, tables: Tables) -> dict[Path, str]:
    """All pages as the result files say that they are."""
    sources = Sources(paper, tables)
    computed = {
        README: _readme(README.read_text(encoding="utf-8"), paper),
        PAGE: _paper(PAGE.read_text(encoding="utf-8"), paper),
        LEARNING: _learning(LEARNING.read_text(encoding="utf-8"), tables),
        DRIFT: _drift(DRIFT.read_text(encoding="utf-8"), tables),
    }
    return {path: marked(text, lambda key: NUMBERS[key](sources)) for path, text in computed.items()}


def differences() -> list[str]:
    """Lines of pages that differ from what the committed result files say."""
    found = []
    for path, text in pages(Paper.load(), Tables.load()).items():
        lines = zip(path.read_text(encoding="utf-8").splitlines(), text.splitlines(), strict=True)
        found += [f"{path.name}: {old!r} should be {new!r}" for old, new in lines if old != new]
    return found


def collected(report: Path) -> dict[str, Any]:
    """The results in the folder of a report, as plain data: the totals of every run, and what made them."""
    frame = pd.read_parquet(report / "results.parquet")
    table = frame[frame["experiment"] == TABLE.key]
    rounds = int(table.loc[table["learner"] == AS_WRITTEN, "round"].max())
    last = frame[frame["round"] == frame.groupby(["experiment", "learner"])["round"].transform("max")]
    cells = []
    for (problem, learner), rows in last.drop_duplicates(["problem", "learner", "run"]).groupby(
        ["problem", "learner"], sort=False
    ):
        rows = rows.sort_values("run")
        own = {
            name: rows[name].round(digits).tolist() for name, digits in (("reward", 6), ("regret", 6), ("seconds", 4))
        }
        cells.append({"problem": problem, "learner": learner, "rounds": int(rows["round"].iloc[0]), **own})
    return {
        "about": "Results of `make paper`, written by `make numbers`: totals of each run after so many rounds.",
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
    """The version of the library."""
    import idbandits

    return idbandits.__version__


def _commit() -> str:
    """The commit that the sources are of, with a plus if they were changed since."""

    def git(*words: str) -> str:
        ended = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return ended.stdout.strip()

    return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "--", "idbandits"))


def dumped(data: dict[str, Any]) -> str:
    """The data as JSON, one line per field and cell, so that changes can be read."""
    cells = ",\n".join(f"  {json.dumps(cell, ensure_ascii=False)}" for cell in data["cells"])
    fields = [
        f" {json.dumps(name)}: {json.dumps(own, ensure_ascii=False)}" for name, own in data.items() if name != "cells"
    ]
    return "{\n" + ",\n".join([*fields, f' "cells": [\n{cells}\n ]']) + "\n}\n"


def main() -> int:
    """Rewrite the pages, or compare them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", type=Path, default=ROOT / "report", help="the folder of the evaluation (report)")
    parser.add_argument("--no-run", action="store_true", help="take the results of docs/results/paper.json")
    parser.add_argument("--check", action="store_true", help="write nothing; the exit status is 1 if something differs")
    arguments = parser.parse_args()
    if arguments.check:
        found = differences()
        print("\n".join(found) or "all pages agree with the result files")
        return int(bool(found))
    if not arguments.no_run:
        if status := cli.main(["paper", "--out", str(arguments.report)]):
            return status
        write(PAPER, dumped(collected(arguments.report)))
        shutil.copyfile(arguments.report / "figure-2.svg", ROOT / "docs" / "figure-2.svg")
    for path, text in pages(Paper.load(), Tables.load()).items():
        if text != path.read_text(encoding="utf-8"):
            write(path, text)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
