"""Measures everything: prints the tables as it goes, and writes them to one Markdown file."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.report import DisagreementError, Measured, Topic, machine, write

TOPICS = (
    "circuits",
    "searches",
    "allowed",
    "pyagrum_diagrams",
    "pyagrum_position_based",
    "networks",
    "regret",
    "hard_worlds",
    "posterior",
    "cost",
    "structures",
    "churn",
    "drift",
    "fit",
    "features",
    "features_yelp",
    "features_latent",
    "features_new_item",
    "features_peers",
    "speed",
    "literal_peer",
    "bandit_peers",
)
LIBRARIES = (
    "idbandits",
    "numpy",
    "numba",
    "pyagrum",
    "pgmpy",
    "obp",
    "river",
    "mabwiser",
    "pybandits",
    "bayesianbandits",
)
DATA = Path(__file__).parents[2] / "shared" / "data"  # beside the project


def main() -> None:
    """Measure all topics, or those named in the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the tables there, as Markdown")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, for a first look")
    parser.add_argument("--only", choices=TOPICS, action="append", help="this topic only; repeat it for several")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", default=DATA, help="data to measure with (default: ../shared/data)"
    )
    arguments = parser.parse_args()
    command = " ".join(
        ["python -m benchmarks", *["--quick"] * arguments.quick, *(f"--only {name}" for name in arguments.only or [])]
    )
    about = f"Written by `{command}`, all in one run; times are medians unless a column says otherwise."
    parts = ["# Benchmarks", "", about, "", machine(LIBRARIES), ""]
    print("\n".join(parts), flush=True)
    for name in arguments.only or TOPICS:
        try:
            section = _measure(name, arguments.quick, arguments.data).markdown()
        except ModuleNotFoundError as missing:
            sys.exit(f"benchmark {name!r} needs {missing.name}: pip install 'idbandits[bench]'")
        except DisagreementError as difference:
            sys.exit(f"benchmark {name!r}: {difference}; nothing was written")
        print(section, flush=True)
        parts.append(section)
    if arguments.out is not None:
        write(arguments.out, "\n".join(parts))


def _measure(name: str, quick: bool, data: Path) -> Measured:
    module = importlib.import_module(f"benchmarks.{name}")
    topic: Topic = module.topic(data) if hasattr(module, "topic") else module.TOPIC
    rows = []
    for row in topic.rows(quick):
        print(f"  {name}: {' | '.join(row.cells)}", file=sys.stderr, flush=True)
        rows.append(row)
    return Measured(topic, rows)


if __name__ == "__main__":
    main()
