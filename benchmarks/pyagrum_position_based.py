"""Best actions of a diagram with unconnected parts, the position-based model, compared with pyAgrum."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import idbandits as idb
from benchmarks.circuits import Means, uniform
from benchmarks.pyagrum_peer import Memory, PyAgrumDiagram
from benchmarks.report import DisagreementError, Row, Topic

ITEMS, POSITIONS, INSTANCES = 4, 2, 20
Solver = Callable[[Means], Sequence[int]]


def value(action: Sequence[int], means: Means) -> float:
    """Return the expected number of clicks."""
    return float(sum(means["attraction"][a] * means["examination"][k] for k, a in enumerate(action)))


def by_enumeration(means: Means) -> Sequence[int]:
    """Return the best of all actions."""
    return max(itertools.product(range(ITEMS), repeat=POSITIONS), key=lambda action: value(action, means))


def ours(means: Means) -> Sequence[int]:
    """Return the best action of idbandits; raise unless it is proven."""
    solution = idb.best_action(idb.models.position_based(ITEMS, POSITIONS, distinct=False), means)
    if not solution.exact:
        raise DisagreementError("position-based model: not proven exact")
    return [int(a) for a in solution.action.values()]


def pyagrum(memory: Memory, one_utility: bool = False) -> Solver:
    """Return a solver by pyAgrum on the whole diagram."""
    peer = PyAgrumDiagram(idb.models.position_based(ITEMS, POSITIONS, distinct=False), memory, one_utility)

    def solve(means: Means) -> Sequence[int]:
        peer.fill(means)
        return list(peer.solve()[0].values())

    return solve


def pyagrum_by_parts(means: Means) -> Sequence[int]:
    """Solve one diagram per position by pyAgrum."""
    action: list[int] = []
    for k in range(POSITIONS):
        peer = PyAgrumDiagram(idb.models.position_based(ITEMS, 1))
        peer.fill({"attraction": means["attraction"], "examination": means["examination"][k : k + 1]})
        action += peer.solve()[0].values()
    return action


def _rows(quick: bool) -> Iterator[Row]:
    solvers: list[tuple[str, Solver]] = [
        ("all 16 actions tried", by_enumeration),
        ("idbandits", ours),
        ("pyAgrum", pyagrum("nothing")),
        ("pyAgrum, no forgetting", pyagrum("all decisions before")),
        ("pyAgrum, no forgetting, one utility node for all clicks", pyagrum("all decisions before", one_utility=True)),
        ("pyAgrum, one position at a time", pyagrum_by_parts),
    ]
    d = idb.models.position_based(ITEMS, POSITIONS, distinct=False)
    rng = np.random.default_rng(0)
    instances = [uniform(d, rng) for _ in range(INSTANCES)]
    best = [value(by_enumeration(means), means) for means in instances]
    for name, solver in solvers:
        shares = [value(solver(means), means) / top for means, top in zip(instances, best, strict=True)]
        right = sum(share > 1 - 1e-9 for share in shares)
        if name == "idbandits" and right < INSTANCES:
            raise DisagreementError("position-based model: idbandits is worse than brute force")
        yield Row([name, f"{right} of {INSTANCES}", f"{np.mean(shares):.1%}", f"{min(shares):.1%}"])


TOPIC = Topic(
    "Best action in unconnected diagrams compared with pyAgrum",
    f"Position-based model with {ITEMS} items and {POSITIONS} positions, repeats allowed, {INSTANCES} instances with "
    "uniform means. pyAgrum reports the diagram as solvable, but most of its decisions are not the best unless the "
    "parts are connected by a common utility node or solved one by one. Shares are of the best expected reward.",
    ["solver", "best action found", "share of the best, mean", "worst"],
    _rows,
)
