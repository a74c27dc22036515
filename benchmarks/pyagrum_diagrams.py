"""The best action beside pyAgrum's influence diagrams, on diagrams that it solves correctly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

import numpy as np

import idbandits as idb
from benchmarks.circuits import uniform
from benchmarks.pyagrum_peer import PyAgrumDiagram, Told
from benchmarks.report import DisagreementError, Row, Topic, duration, ratio
from benchmarks.timing import timed

BAR = 100  # times faster
BLOCK = 10
ALL: Told = "all decisions before"
LAST: Told = "the decision before"


def _rows(quick: bool) -> Iterator[Row]:
    yield _row("rank-1, 8 × 10", idb.models.rank1(8, 10), ALL, 30 if quick else 200)
    for positions in (2, 3, 4):
        d = idb.models.cascade(20, positions, distinct=False)
        name = f"cascade, {positions} × 20"
        yield _row(name, d, ALL, (10 if quick else 50) if positions == 4 else 30 if quick else 200)
        if positions > 2:
            yield _row(f"{name}, pyAgrum's shortcut", d, LAST, 30 if quick else 200)
    yield _row("one table, 4 × 4 × 4", one_table(), ALL, 30 if quick else 200, bar=0)
    yield _row("one table, 4 × 4 × 4, pyAgrum's shortcut", one_table(), LAST, 30 if quick else 200, bar=0)


def one_table() -> idb.Diagram:
    """Three decisions, and a learned mean for each combination: none can be made without the others."""
    d = idb.Diagram("one table")
    d.reward(d.observed("X", [d.decision(f"A{k}", 4) for k in (1, 2, 3)]))
    return d


def _row(name: str, d: idb.Diagram, told: Told, repeats: int, bar: int = BAR) -> Row:
    rng = np.random.default_rng(0)
    peer = PyAgrumDiagram(d, told)
    idb.best_action(d, uniform(d, rng))  # Numba compiles before anything is timed
    ours, filling, solving = [], [], []
    same = 0
    for _ in range(repeats // BLOCK):  # in turns, but in blocks: caches stay warm
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
            if told == ALL and not agree:
                raise DisagreementError(f"{name}: our value, pyAgrum's value and that of its action are {answers}")
    total = median(a + b for a, b in zip(filling, solving, strict=True))
    factor = total / median(ours)
    missed = [f"{ratio(factor)} as fast, bar {bar}×"] if same == repeats and factor < bar else []
    if same < repeats:  # the time of a wrong answer says nothing
        theirs, verdict = ["–"] * 4, "–"
    else:
        alone = median(solving)
        theirs = [duration(total), ratio(factor), duration(alone), ratio(alone / median(ours))]
        verdict = "no" if missed else "yes" if bar else "–"
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
    "The best action, beside pyAgrum's influence diagrams",
    "New random means each time, the same for both; positions × items, repeats allowed, because pyAgrum has no "
    "constraint that forbids them. pyAgrum's diagram is built once; then its learned tables are filled in, and "
    "ShaferShenoyLIMIDInference finds the decisions (*inference alone*: without filling in). *Same value*: both "
    "values and that of pyAgrum's action agree to 1e-9. pyAgrum is told that each decision knows all those before "
    "it (no forgetting), which was right on every connected diagram tried; the *shortcut*, that each knows the one "
    "before it, is faster, and right on cascades, but not everywhere, as the last line shows: no times are compared "
    f"there. Both times include the way in from Python. The bar, on rank-1 and the cascades: {BAR}×.",
    ["diagram", "actions", "same value", "idbandits", "pyAgrum", "ratio", "inference alone", "its ratio", "bar met"],
    _rows,
)
