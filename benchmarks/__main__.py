"""Run all benchmarks and write their tables to one Markdown file.

Every finished topic is stored in `.benchmarks/`, by commit. An interrupted run resumes with the first topic that is
missing; `--fresh` measures all topics again.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TypedDict

from benchmarks.report import DisagreementError, Measured, Topic, aligned, machine, write

TOPICS = (
    "circuits",
    "searches",
    "allowed",
    "pyagrum_diagrams",
    "pyagrum_position_based",
    "networks",
    "speed",
    "rounds",
    "sizes",
    "compile_time",
    "first_action",
    "context_features",
    "literal_peer",
    "bandit_peers",
    "regret",
    "hard_worlds",
    "posterior",
    "fit",
    "structures",
    "churn",
    "drift",
    "features",
    "features_yelp",
    "features_latent",
    "features_new_item",
    "features_peers",
    "logs",
    "comparison",
    "evaluation",
    "service",
)
LIBRARIES = (
    "idbandits",
    "numpy",
    "scipy",
    "numba",
    "pyagrum",
    "pgmpy",
    "obp",
    "river",
    "mabwiser",
    "pybandits",
    "bayesianbandits",
)
ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
TIMES = "Time per topic"


class Finished(TypedDict):
    """A measured topic as it is stored."""

    title: str
    section: str
    seconds: float


def main() -> int:
    """Measure all topics, or the topics named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="Markdown file to write")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="Markdown file in which the sections of these topics are replaced"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions, to see that everything runs")
    parser.add_argument("--only", choices=TOPICS, action="append", help="measure this topic only; may be repeated")
    parser.add_argument("--fresh", action="store_true", help="measure topics again that are already finished")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", default=DATA, help="folder of data sets (default: ../shared/data)"
    )
    arguments = parser.parse_args()
    names = arguments.only or list(TOPICS)
    commit = commit_id()
    folder = ROOT / ".benchmarks" / (commit + "-quick" * arguments.quick)
    expected = expected_seconds()
    finished: dict[str, Finished] = {}
    for number, name in enumerate(names, 1):
        file = folder / f"{name}.json"
        if file.exists() and not arguments.fresh:
            finished[name] = json.loads(file.read_text(encoding="utf-8"))
            progress(f"[{number}/{len(names)}] {name}: already finished")
            continue
        left = sum(expected.get(other, 0.0) for other in names[number - 1 :]) / 60
        progress(
            f"[{number}/{len(names)}] {name}" + f", about {left:.0f} min left" * bool(left and not arguments.quick)
        )
        try:
            finished[name] = measure(name, arguments.quick, arguments.data)
        except ModuleNotFoundError as error:
            sys.exit(f"benchmark {name!r} needs {error.name}: pip install 'idbandits[bench]'")
        except DisagreementError as error:
            sys.exit(f"benchmark {name!r}: {error}")
        except KeyboardInterrupt:
            progress("interrupted; finished topics are stored, and the same command resumes")
            return 130
        write(file, json.dumps(finished[name], ensure_ascii=False))
        print(finished[name]["section"], flush=True)
    if arguments.out is not None:
        write(arguments.out, document(commit, arguments.quick, finished))
    if arguments.into is not None:
        write(arguments.into, replaced(arguments.into.read_text(encoding="utf-8"), commit, finished))
    return 0


def measure(name: str, quick: bool, data: Path) -> Finished:
    """Run the benchmark of one topic; rows are printed as they are measured."""
    start = time.perf_counter()
    module = importlib.import_module(f"benchmarks.{name}")
    topic: Topic = module.topic(data) if hasattr(module, "topic") else module.TOPIC
    rows = []
    for row in topic.rows(quick):
        progress(f"  {name}: {' | '.join(row.cells)}")
        rows.append(row)
    section = Measured(topic, rows).markdown()
    return {"title": topic.title, "section": section, "seconds": time.perf_counter() - start}


def document(commit: str, quick: bool, finished: dict[str, Finished]) -> str:
    """Return the Markdown file: versions, the section of each topic, and the time per topic."""
    total = sum(topic["seconds"] for topic in finished.values())
    head = [
        "# Benchmarks",
        "",
        f"Written by `python -m benchmarks{' --quick' * quick}` on {datetime.date.today()} in {total / 60:.0f} "
        f"minutes, at commit {commit}. Times are medians unless a column says otherwise.",
        "",
        machine(LIBRARIES),
        "",
    ]
    times = [["topic", "table", "seconds"]]
    times += [[name, topic["title"], f"{topic['seconds']:.0f}"] for name, topic in finished.items()]
    sections = [topic["section"] for topic in finished.values()]
    return "\n".join([*head, *sections, f"## {TIMES}", "", aligned(times), ""])


def replaced(text: str, commit: str, finished: dict[str, Finished]) -> str:
    """Return a Markdown file with new sections of some topics, each with the commit at which it was measured."""
    body, times = text.split(f"## {TIMES}\n")
    rows = {line.split("|")[1].strip(): line for line in times.splitlines() if line.startswith("| ")}
    for name, topic in finished.items():
        heading = f"## {topic['title']}\n"
        note = f"*Measured on {datetime.date.today()} at commit {commit}.*\n"
        section = topic["section"].replace(heading, f"{heading}\n{note}", 1)
        first = body.find(heading)
        last = len(body) if first < 0 else body.find("\n## ", first) + 1 or len(body)
        body = f"{body[: first if first >= 0 else last]}{section}\n{body[last:]}"
        rows[name] = f"| {name} | {topic['title']} | {topic['seconds']:.0f} |"
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in rows.values()]
    return f"{body}## {TIMES}\n\n{aligned(cells)}\n"


def commit_id() -> str:
    """Return the commit, followed by a hash of the sources if they were changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    if commit != "unknown" and not git("status", "--porcelain", "--", "idbandits", "benchmarks/*.py"):
        return commit
    sources = sorted([*ROOT.glob("idbandits/**/*.py"), *ROOT.glob("benchmarks/*.py")])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
    return f"{commit}+{digest.hexdigest()[:8]}"


def expected_seconds() -> dict[str, float]:
    """Return the seconds per topic of the committed results, to estimate the time left."""
    text = (ROOT / "benchmarks" / "results.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) +\|[^|]+\| +(\d+) \|$", text.partition(f"## {TIMES}")[2], flags=re.MULTILINE)
    return {name: float(seconds) for name, seconds in rows}


def progress(message: str) -> None:
    """Print a line to the standard error stream."""
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
