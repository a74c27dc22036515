"""Best actions of connected diagrams, compared with influence diagrams of pyAgrum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

import numpy as np

import idbandits as idb
from benchmarks.circuits import uniform
from benchmarks.pyagrum_peer import Memory, PyAgrumDiagram
from benchmarks.report import DisagreementError, Row, Topic, duration, ratio
from benchmarks.timing import timed

TARGET = 100  # speed ratio
BLOCK = 10
ALL: Memory = "all decisions before"
LAST: Memory = "the decision before"


def _rows(quick: bool) -> Iterator[Row]:
    yield _row("rank-1, 8 × 10", idb.models.rank1(8, 10), ALL, 30 if quick else 200)
    for positions in (2, 3, 4):
        d = idb.models.cascade(20, positions, distinct=False)
        name = f"cascade, {positions} × 20"
        yield _row(name, d, ALL, (10 if quick else 50) if positions == 4 else 30 if quick else 200)
        if positions > 2:
            yield _row(f"{name}, pyAgrum's shortcut", d, LAST, 30 if quick else 200)
    yield _row("one table, 4 × 4 × 4", one_table(), ALL, 30 if quick else 200, target=0)
    yield _row("one table, 4 × 4 × 4, pyAgrum's shortcut", one_table(), LAST, 30 if quick else 200, target=0)


def one_table() -> idb.Diagram:
    """Return a diagram of three decisions with one learned mean per combination."""
    d = idb.Diagram("one table")
    d.reward(d.observed("X", [d.decision(f"A{k}", 4) for k in (1, 2, 3)]))
    return d


def _row(name: str, d: idb.Diagram, memory: Memory, repeats: int, target: int = TARGET) -> Row:
    rng = np.random.default_rng(0)
    peer = PyAgrumDiagram(d, memory)
    idb.best_action(d, uniform(d, rng))  # compile kernels before timing
    ours, filling, solving = [], [], []
    same = 0
    for _ in range(repeats // BLOCK):  # in turns, in blocks that keep caches warm
        block = [uniform(d, rng) for _ in range(BLOCK)]
        solutions = [timed(idb.best_action, d, means) for means in block]
        ours += [seconds for _, seconds in solutions]
        for means, (solution, _) in zip(block, solutions, strict=True):
            filling.append(timed(peer.fill, means)[1])
            (action, inference), seconds = timed(peer.solve)
            solving.append(seconds)
            answers = solution.value, inference.MEU()["mean"], idb.expected_reward(d, action, means)
            agree = solution.exact and max(answers) - min(answers) < 1e-9
            same += agree
            if memory == ALL and not agree:
                raise DisagreementError(
                    f"{name}: values of idbandits, of pyAgrum and of the action of pyAgrum are {answers}"
                )
    total = median(a + b for a, b in zip(filling, solving, strict=True))
    factor = total / median(ours)
    missed = [f"{ratio(factor)} as fast, target {target}×"] if same == repeats and factor < target else []
    if same < repeats:  # times of wrong results are not compared
        theirs, verdict = ["–"] * 4, "–"
    else:
        alone = median(solving)
        theirs = [duration(total), ratio(factor), duration(alone), ratio(alone / median(ours))]
        verdict = "no" if missed else "yes" if target else "–"
    return Row(
        [
            name,
            f"{math.prod(n.states for n in d.of_kind('decision')):,}",
            f"{same} of {repeats}",
            duration(median(ours)),
            *theirs,
            verdict,
        ],
        missed,
    )


TOPIC = Topic(
    "Best action compared with pyAgrum",
    "New random means each time, equal for both libraries; positions × items, repeats allowed, because pyAgrum has no "
    "constraint against them. The diagram of pyAgrum is built once; its learned tables are then filled in, and "
    "ShaferShenoyLIMIDInference finds the decisions (*inference alone*: without filling in). *Same value*: values of "
    "both libraries and of the action of pyAgrum agree to 1e-9. Each decision of pyAgrum knows all earlier decisions "
    "(no forgetting); the *shortcut*, in which it knows only the previous one, is faster and correct on cascades, but "
    "not in general, as the last row shows. Times include the calls from Python. Target for rank-1 and cascades: "
    f"{TARGET}×.",
    ["diagram", "actions", "same value", "idbandits", "pyAgrum", "ratio", "inference alone", "its ratio", "target met"],
    _rows,
)
