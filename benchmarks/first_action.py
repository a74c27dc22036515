"""Time from a fresh wheel to the first action: the wheel is built, and installed in a new environment."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numba

from benchmarks.report import Row, Topic, duration
from idbandits.kernel import pack
from tools.build_wheels import ROOT, add_packs, build_pure, install_alone, tags_of_numba

FIRST = """
import time
start = time.perf_counter()
import idbandits as idb
agent = idb.Thompson(idb.models.cascade(20, 2), seed=0)
agent.update(agent.act(), {"C1": 0, "C2": 1})
print(time.perf_counter() - start)
"""
README = f"""
import time
start = time.perf_counter()
import doctest
doctest.testfile({str(ROOT / "README.md")!r}, module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
print(time.perf_counter() - start)
"""
PROGRAMS = {"import, first `act` and `update`": FIRST, "example of the README": README}
TARGETS = {"import, first `act` and `update`": 2.0, "example of the README": 4.0}


def _seconds(python: Path, program: str, native: bool) -> float:
    """Return the seconds of a program with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        settings |= {"NUMBA_CACHE_DIR": cache, pack.NATIVE: "1" if native else ""}
        command = [str(python), "-c", program]
        done = subprocess.run(command, env=settings, cwd=cache, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def _rows(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "idbandits.kernel.build_pack"], check=True)
        pure = build_pure(folder, "--no-isolation")
        wheel = add_packs(pure, sorted(pack.FOLDER.glob(f"*{pack.SUFFIX}")), tags_of_numba(sys.executable), folder)
        python = install_alone(wheel, folder / "venv", libraries=Path(numba.__file__).parents[1])
        for title, program in PROGRAMS.items():
            fresh = statistics.median(_seconds(python, program, native=False) for _ in range(1 if quick else 5))
            compiled = _seconds(python, program, native=True)
            missed = [] if fresh <= TARGETS[title] else [f"at most {TARGETS[title]:.0f} s"]
            yield Row([title, duration(fresh), duration(compiled)], missed)


TOPIC = Topic(
    "First action of a fresh wheel",
    "A wheel with machine code in a new environment with an empty cache: from the start of the import until the end, "
    "and the same if everything is compiled.",
    ["program", "wheel with machine code", "compiled"],
    _rows,
)
