"""The best action under given means, with a proof of optimality where there is one."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from idbandits.assignment import assign
from idbandits.compiled import Action, Means, Model, compile
from idbandits.decisions import decisions_of
from idbandits.diagram import Diagram
from idbandits.errors import IdbanditsError
from idbandits.passes import Circuit, compiled, run
from idbandits.search import (
    FREE,
    PRODUCT,
    SORTED,
    SUM,
    Decisions,
    branch,
    candidates,
    cost_of_all,
    exceeds,
    improve,
    try_all,
    value_at,
)
from idbandits.sorting import MOST_PATTERNS, sort, sort_by_patterns, try_patterns
from idbandits.tables import TOLERANCE, Floats, Ints, Label

BUDGET = 200_000.0  # edges that branch and bound may look at: a few milliseconds


@final
class Solution(NamedTuple):
    """The best action found, its expected reward, whether it is proven to be the best, and what nothing exceeds."""

    action: dict[str, Label]
    value: float
    exact: bool
    bound: float


def best_action(d: Diagram, means: Means, context: Action | None = None, *, effort: float = 1.0) -> Solution:
    """The action with the highest expected reward; all decisions are made before anything is seen.

    The proof may be out of reach for many entangled decisions: then `exact` is False, `value` is that of the best
    action found and `bound` is an upper bound. More `effort` (a factor on the search allowed) may close the gap.

    >>> d = Diagram("two coins")
    >>> coin = ["fair", "bent"]
    >>> heads = d.observed("first", [d.decision("A1", coin)]), d.observed("second", [d.decision("A2", coin)])
    >>> d.reward(heads, lambda first, second: first * (1 - second))
    >>> best_action(d, {"first": [0.5, 0.8], "second": [0.5, 0.9]})
    Solution(action={'A1': 'bent', 'A2': 'fair'}, value=0.4, exact=True, bound=0.4)
    """
    if type(effort) is not float or effort != 1.0:
        effort = _checked(effort)
    try:
        solver: Solver = d.cache["solver"]
    except (AttributeError, KeyError):
        solver = solver_of(d)
    model = solver.model
    action = solver.blank.copy()
    if context is not None or model.contexts:
        action[len(model.decisions) :] = model.context_vector(context)
    value, bound, sound = answer(solver.program, solver.known, model.flat_means(means), action, BUDGET * effort)
    if not sound:
        model.parameter_vector(means)  # says what is wrong
    return Solution(model.action_of(action), value, bound == value, bound)


def _checked(effort: float) -> float:
    if not (isinstance(effort, (int, float, np.integer, np.floating)) and effort >= 0):
        raise IdbanditsError(f"effort is a number from 0, not {effort!r}")
    return float(effort)


def solver_of(d: Diagram) -> Solver:
    """The solver of a diagram, ready to be called."""
    solver = Solver(compile(d))
    no_means = np.zeros(solver.model.means_size)
    run(answer, solver.program, solver.known, no_means, solver.blank.copy(), 0.0)  # compiles, and says so
    d.cache["solver"] = solver
    return solver


@final
class Solver:
    """All that a compiled call needs to find the best action, in as few arrays as possible: each costs time to pass."""

    def __init__(self, model: Model) -> None:
        decisions = decisions_of(model)
        tables = [x for t in model.learned.values() for x in (t.states, t.size // t.states)]
        circuit = model.rewards.circuit
        heads = len(circuit) - 1 + len(decisions) - 2 + 1 + len(tables)
        self.program = np.concatenate(
            [
                _moved(circuit[:-1], heads),
                _moved(decisions[:-2], heads + len(circuit.data)),
                np.array([len(tables) // 2, *tables], dtype=np.int64),
                circuit.data,
                decisions.data,
            ]
        )
        self.model = model
        self.known = np.concatenate([decisions.zero, model.parameters.known])
        self.blank = np.zeros(len(model.decisions) + len(model.contexts), dtype=np.int64)


def _moved(places: tuple[int, ...], by: int) -> Ints:
    """The three counts and the places of a `Circuit` or `Decisions`, its data being moved."""
    return np.array([*places[:3], *(place + by for place in places[3:])], dtype=np.int64)


@compiled
def unpack(h: Ints, known: Floats) -> tuple[Circuit, Decisions]:
    """The circuit and the decisions that a solver's program holds."""
    c = Circuit(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h)
    s = Decisions(
        h[14], h[15], h[16], h[17], h[18], h[19], h[20], h[21], h[22], h[23], h[24], h[25], h[26], h[27], h[28],
        h[29], h[30], h[31], h[32], h[33], h, known[: h[16] + 1],
    )  # fmt: skip
    return c, s


@compiled
def answer(program: Ints, known: Floats, means: Floats, action: Ints, budget: float) -> tuple[float, float, bool]:
    """The best action's value and bound, found from means as users give them; False if these are no means."""
    h = program
    c, s = unpack(h, known)
    zero = s.zero
    tables = 34
    size = 0
    for t in range(h[tables]):
        size += h[tables + 1 + 2 * t] * h[tables + 2 + 2 * t]
    p = np.empty(size + len(known) - len(zero))
    if not expand(h, tables, means, p):
        return 0.0, 0.0, False
    for i in range(len(zero), len(known)):
        p[size + i - len(zero)] = known[i]
    value, bound = solve(c, s, p, action, budget)
    return value, bound if exceeds(s, bound, value) else value, True


@compiled
def expand(program: Ints, tables: int, means: Floats, p: Floats) -> bool:
    """Write the means of all states of all learned tables to p; False if they are no probabilities."""
    at, to = 0, 0
    for t in range(program[tables]):
        states, rows = program[tables + 1 + 2 * t], program[tables + 2 + 2 * t]
        for _ in range(rows):
            if states == 2:
                mean = means[at]
                if not 0.0 <= mean <= 1.0:
                    return False
                p[to], p[to + 1] = 1.0 - mean, mean
                at += 1
            else:
                total = 0.0
                for state in range(states):
                    mean = means[at + state]
                    if not 0.0 <= mean <= 1.0:
                        return False
                    p[to + state] = mean
                    total += mean
                if abs(total - 1.0) > TOLERANCE:
                    return False
                at += states
            to += states
    return True


@compiled
def solve(c: Circuit, s: Decisions, p: Floats, action: Ints, budget: float) -> tuple[float, float]:
    """Put the best action found into `action` (its contexts are given); returns its value and an upper bound."""
    total, most = 0.0, 0.0
    for k in range(s.decisions):
        action[k] = s.data[s.feasible + k]
    for g in range(s.groups):
        group = s.data[s.group + s.data[s.group_start + g] : s.group + s.data[s.group_start + g + 1]]
        first, last = s.data[s.group_end + g], s.data[s.group_end + g + 1]
        if len(group) == 0:
            value = bound = value_at(c, first, last, p, action, np.ones(c.leaves + c.inner))
        elif s.data[s.form + g] == FREE and len(group) <= MOST_PATTERNS:
            value = bound = try_patterns(c, s, first, last, p, action, group)
        else:
            value, bound = solve_group(c, s, g, first, last, p, action, group, budget)
        total, most = total + value, most + bound
    return total, most


@compiled
def solve_group(
    c: Circuit, s: Decisions, g: int, first: int, last: int, p: Floats, action: Ints, group: Ints, budget: float
) -> tuple[float, float]:
    """The best choices found for a group of decisions, by the first way that applies; their value and a bound."""
    form = s.data[s.form + g]
    start = np.zeros(s.decisions + 1, np.int64)
    cands = candidates(c, s, p, action, group, start)
    edges = c.data[c.start + last] - c.data[c.start + first]
    if form in (SUM, PRODUCT) and assign(c, s, g, first, last, p, action, group, start, cands):
        value = value_at(c, first, last, p, action, np.ones(c.leaves + c.inner))
        return value, value
    for k in group:
        action[k] = s.data[s.feasible + k]
    if cost_of_all(s, group, start, edges) <= budget:
        value = try_all(c, s, first, last, p, action, group, start, cands)
        return value, value
    if form == SORTED and len(group) <= MOST_PATTERNS:
        value, bound = sort_by_patterns(c, s, first, last, p, action, group, start, cands, budget)
    elif form == SORTED:
        value, bound = sort(c, s, first, last, p, action, group, start, cands, budget)
    else:
        value, bound = branch(c, s, first, last, p, action, group, start, cands, budget)
    if exceeds(s, bound, value):
        value = improve(c, s, first, last, p, action, group, start, cands)
    return value, max(value, bound)


@compiled
def value_of(c: Circuit, s: Decisions, p: Floats, action: Ints) -> float:
    """The expected reward of an action."""
    total = 0.0
    values = np.ones(c.leaves + c.inner)
    for g in range(s.groups):
        total += value_at(c, s.data[s.group_end + g], s.data[s.group_end + g + 1], p, action, values)
    return total
