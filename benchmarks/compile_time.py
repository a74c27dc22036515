"""Compile time of the first `act` and `update`, in a new process without machine code on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.report import Row, Topic, duration
from idbandits.kernel import pack

MODELS = {"cascade, 20 × 2": "cascade(20, 2)", "dynamic Bayesian network, 20 × 5": "dynamic_bayesian(20, 5)"}
CODE = """
import time
import idbandits as idb
d = idb.models.{model}
agent = idb.Thompson(d, seed=0)
start = time.perf_counter()
action = agent.act()
acted = time.perf_counter()
agent.update(action, {{node.name: 0 for node in d.of_kind("observed")}})
print(acted - start, time.perf_counter() - acted)
"""


def _seconds(model: str, cache: str) -> tuple[float, float]:
    """Return the seconds of the first `act` and `update` of a new process."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": cache, pack.NATIVE: "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(model=model)], env=settings, capture_output=True, text=True, check=True
    )
    act, update = map(float, done.stdout.split())
    return act, update


def _rows(quick: bool) -> Iterator[Row]:
    for name, model in MODELS.items():
        with tempfile.TemporaryDirectory() as cache:
            compiled, cached = _seconds(model, cache), _seconds(model, cache)
        yield Row([name, *map(duration, compiled), duration(sum(compiled)), duration(sum(cached))])


TOPIC = Topic(
    "Compile time",
    "The first `act` and `update` of a new process with an empty cache, and both together in a second process that "
    "reads the machine code from disk. The time to import the library is not included.",
    ["diagram", "act", "update", "both", "both, from disk"],
    _rows,
)
