"""The best action under given means, with a proof of optimality where there is one."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.circuit.passes import Circuit
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import TOLERANCE, Label
from idbandits.errors import IdbanditsError
from idbandits.kernel.compiling import FLOATS, INTS, bare, compiled, in_python, inlined, part, ready
from idbandits.kernel.types import Floats, Ints
from idbandits.solve.assignment import assign
from idbandits.solve.branch import (
    FREE,
    PRODUCT,
    SORTED,
    SUM,
    Decisions,
    branch,
    candidates,
    cost_of_all,
    count_candidates,
    exceeds,
    improve,
    try_all,
    value_at,
)
from idbandits.solve.order import MOST_PATTERNS, sort, sort_by_patterns, try_patterns
from idbandits.solve.structure import decisions_of

TABLES = 34  # where a program lists its learned tables: after the fields of `Circuit` and `Decisions`
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
        solver = d.cache["solver"] = solver_of(compile(d))
    model = solver.model
    action = solver.blank.copy()
    if context is not None or model.contexts:
        action[len(model.decisions) :] = model.context_vector(context)
    kernel = solver.kernel if effort >= 1.0 else ready(solve, SOLVE)
    value, bound, sound = kernel(solver.program, solver.known, model.flat_means(means), False, action, BUDGET * effort)
    if not sound:
        model.parameter_vector(means)  # says what is wrong
    return Solution(model.action_of(action), value, bound == value, bound)


def _checked(effort: float) -> float:
    if not (isinstance(effort, (int, float, np.integer, np.floating)) and effort >= 0):
        raise IdbanditsError(f"effort is a number from 0, not {effort!r}")
    return float(effort)


def solver_of(model: Model) -> Solver:
    """The solver of a model, made once."""
    return model.once("solver", lambda: Solver(model))


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
        uses = decisions.data[decisions.use_start :]
        self.has_idle = any(
            uses[k] == uses[k + 1] and node.states > 1 for k, node in enumerate(model.decisions)
        )  # decisions that nothing depends on
        self.uncompiled: Any = solve_easily if _is_easy(circuit, decisions) else solve

    @functools.cached_property
    def kernel(self) -> Any:
        """The compiled function that finds the best action: the small one where nothing has to be searched for."""
        return ready(self.uncompiled, SOLVE)


def _is_easy(c: Circuit, s: Decisions) -> bool:
    """Whether every group of decisions is solved without a search, whatever the means."""
    for g in range(s.groups):
        group = in_python(members)(s, g)
        form = s.data[s.form + g]
        if len(group) == 0 or form == SUM or (form == FREE and len(group) <= MOST_PATTERNS):
            continue
        start = np.zeros(s.decisions + 1, dtype=np.int64)
        in_python(count_candidates)(s, group, start)
        edges = c.data[c.start + s.data[s.group_end + g + 1]] - c.data[c.start + s.data[s.group_end + g]]
        if in_python(cost_of_all)(s, group, start, edges) > BUDGET:
            return False
    return True


def _moved(places: tuple[int, ...], by: int) -> Ints:
    """The three counts and the places of a `Circuit` or `Decisions`, its data being moved."""
    return np.array([*places[:3], *(place + by for place in places[3:])], dtype=np.int64)


@part
def unpack(h: Ints, known: Floats) -> tuple[Circuit, Decisions]:
    """The circuit and the decisions that a solver's program holds."""
    c = Circuit(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h)
    s = Decisions(
        h[14], h[15], h[16], h[17], h[18], h[19], h[20], h[21], h[22], h[23], h[24], h[25], h[26], h[27], h[28],
        h[29], h[30], h[31], h[32], h[33], h, known[: h[16] + 1],
    )  # fmt: skip
    return c, s


@bare
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
def solve(
    program: Ints, known: Floats, means: Floats, expanded: bool, action: Ints, budget: float
) -> tuple[float, float, bool]:
    """Put the best action found into `action`, whose contexts are given; its value and an upper bound.

    `means` are as users give them, or `expanded`: those of all states. False if these are no means.
    """
    c, s = unpack(program, known)
    p = np.empty(parameters_of(program, known, s))
    if not read_means(program, known, means, expanded, s, p):
        return 0.0, 0.0, False
    make_feasible(s, action)
    total, most = 0.0, 0.0
    for g in range(s.groups):
        value, bound = solve_group(c, s, g, p, action, budget)
        if bound == np.inf:
            value, bound = search(c, s, g, p, action, budget)
        total, most = total + value, most + bound
    return total, most if exceeds(s, most, total) else total, True


@compiled
def solve_easily(
    program: Ints, known: Floats, means: Floats, expanded: bool, action: Ints, budget: float
) -> tuple[float, float, bool]:
    """The same where no group needs a search: the compiler is done in two thirds of the time."""
    c, s = unpack(program, known)
    p = np.empty(parameters_of(program, known, s))
    if not read_means(program, known, means, expanded, s, p):
        return 0.0, 0.0, False
    make_feasible(s, action)
    total, most = 0.0, 0.0
    for g in range(s.groups):
        value, bound = solve_group(c, s, g, p, action, budget)
        total, most = total + value, most + bound
    return total, most if exceeds(s, most, total) else total, True


SOLVE = types.Tuple([types.float64, types.float64, types.boolean])(
    INTS, FLOATS, FLOATS, types.boolean, INTS, types.float64
)


@inlined
def parameters_of(program: Ints, known: Floats, s: Decisions) -> int:
    """How many parameters the circuit refers to: the states of all learned tables, and what is known."""
    size = 0
    for t in range(program[TABLES]):
        size += program[TABLES + 1 + 2 * t] * program[TABLES + 2 + 2 * t]
    return size + len(known) - len(s.zero)


@bare
def read_means(program: Ints, known: Floats, means: Floats, expanded: bool, s: Decisions, p: Floats) -> bool:
    """Write the means and what is known to p; False if these are no means."""
    size = len(p) - len(known) + len(s.zero)
    if expanded:
        for i in range(size):
            p[i] = means[i]
    elif not expand(program, TABLES, means, p):
        return False
    for i in range(size, len(p)):
        p[i] = known[len(s.zero) + i - size]
    return True


@inlined
def make_feasible(s: Decisions, action: Ints) -> None:
    """Start from an action that the constraints allow."""
    for k in range(s.decisions):
        action[k] = s.data[s.feasible + k]


@inlined
def members(s: Decisions, g: int) -> Ints:
    """The decisions of a group."""
    return s.data[s.group + s.data[s.group_start + g] : s.group + s.data[s.group_start + g + 1]]


@part
def solve_group(c: Circuit, s: Decisions, g: int, p: Floats, action: Ints, budget: float) -> tuple[float, float]:
    """The best choices for a group of decisions, and their value twice; a bound of infinity where this needs a search.

    What needs one is left at the feasible choices.
    """
    group = members(s, g)
    first, last = s.data[s.group_end + g], s.data[s.group_end + g + 1]
    if len(group) > 0 and s.data[s.form + g] == FREE and len(group) <= MOST_PATTERNS:
        value = try_patterns(c, s, first, last, p, action, group)
        return value, value
    values = np.ones(c.leaves + c.inner)
    if len(group) > 0:
        start = np.zeros(s.decisions + 1, np.int64)
        cands = candidates(c, s, p, action, group, start)
        edges = c.data[c.start + last] - c.data[c.start + first]
        if s.data[s.form + g] not in (SUM, PRODUCT) or not assign(c, s, g, first, last, p, action, group, start, cands):
            for k in group:
                action[k] = s.data[s.feasible + k]
            if cost_of_all(s, group, start, edges) > budget:
                return value_at(c, first, last, p, action, values), np.inf
            value = try_all(c, s, first, last, p, action, group, start, cands)
            return value, value
    value = value_at(c, first, last, p, action, values)
    return value, value


@part
def search(c: Circuit, s: Decisions, g: int, p: Floats, action: Ints, budget: float) -> tuple[float, float]:
    """The best choices found for a group of decisions, by the first way that applies; their value and a bound."""
    group = members(s, g)
    first, last = s.data[s.group_end + g], s.data[s.group_end + g + 1]
    start = np.zeros(s.decisions + 1, np.int64)
    cands = candidates(c, s, p, action, group, start)
    if s.data[s.form + g] == SORTED and len(group) <= MOST_PATTERNS:
        value, bound = sort_by_patterns(c, s, first, last, p, action, group, start, cands, budget)
    elif s.data[s.form + g] == SORTED:
        value, bound = sort(c, s, first, last, p, action, group, start, cands, budget)
    else:
        value, bound = branch(c, s, first, last, p, action, group, start, cands, budget)
    if exceeds(s, bound, value):
        value = improve(c, s, first, last, p, action, group, start, cands)
    return value, max(value, bound)


@part
def value_of(c: Circuit, s: Decisions, p: Floats, action: Ints) -> float:
    """The expected reward of an action."""
    total = 0.0
    values = np.ones(c.leaves + c.inner)
    for g in range(s.groups):
        total += value_at(c, s.data[s.group_end + g], s.data[s.group_end + g + 1], p, action, values)
    return total
