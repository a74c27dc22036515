"""Find the best action under given means, with a proof of optimality where there is one."""

from typing import Any, NamedTuple, final

import numpy as np
from numba import types
from numba.np.numpy_support import carray

from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import TOLERANCE, Label
from idbandits.diagram.values import plain
from idbandits.errors import MeansError, check_number
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, Kernel, generated, in_python, linked, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import Packed, pack, pointer, unpacker
from idbandits.solve import candidates as search
from idbandits.solve.assignment import assign
from idbandits.solve.branch_and_bound import branch
from idbandits.solve.candidates import (
    ADDITIVE,
    FREE,
    GENERAL,
    MULTIPLICATIVE,
    SORTED,
    Decisions,
    Search,
    exceeds,
    value_at,
)
from idbandits.solve.eligible import EVERY_CHOICE, Allowed, Eligibility, readable_rows
from idbandits.solve.lists.equal_stages import can_choose_and_sort, choose_and_sort
from idbandits.solve.lists.set_dp import sweep
from idbandits.solve.lists.sorting import sort
from idbandits.solve.patterns import MOST_PATTERNS, try_patterns
from idbandits.solve.problem import decisions_of

BUDGET = 200_000.0  # edges that a search may look at: about a millisecond
FEW = 20_000.0  # edges to look at, up to which all combinations are tried where decisions fall into stages
PATIENCE = 5.0  # times the budget, to go through stages once more where nothing was proven: it often suffices
MOST_EFFORT = 10**30  # integers may exceed what a float can hold, and files hold no infinity
SOLVE = types.Tuple([types.float64, types.float64, types.boolean])(
    INTS, FLOATS, FLOATS, types.boolean, INTS, INTS, types.float64
)
unpack = unpacker(Circuit, Decisions)


@final
class Solution(NamedTuple):
    """Best action found, returned by `best_action`.

    Attributes
    ----------
    action : dict of str to label
        Choice of every decision.
    value : float
        Its expected reward.
    exact : bool
        Whether it is proven that no action is better.
    bound : float
        Upper bound on the expected reward of all actions; `value` if it is exact.

    Examples
    --------
    >>> from idbandits import models
    >>> action, value, exact, bound = best_action(models.semi_bandit(3, 2), {"mean": [0.2, 0.7, 0.5]})
    >>> sorted(action.values()), round(value, 6), exact
    ([1, 2], 1.2, True)
    """

    action: dict[str, Label]
    value: float
    exact: bool
    bound: float


def best_action(
    d: Diagram, means: Means, context: Action | None = None, *, effort: float = 1.0, allowed: Allowed = None
) -> Solution:
    """Find the action with the highest expected reward; all decisions are made before anything is observed.

    The proof may be out of reach for many entangled decisions: then `exact` is False, `value` is that of the best
    action found, and `bound` is an upper bound.

    Parameters
    ----------
    d : Diagram
        Diagram with a reward.
    means : mapping of str to array
        Means by learned table: P(1) of every row, in the shape of the rows; for more than two states, the probabilities
        of all states on an additional last axis.
    context : mapping of str to label, optional
        Value of every context; needed if the diagram has contexts.
    effort : float
        Factor on the size of the search; 1 is about a millisecond. More may close the gap between `value` and `bound`.
    allowed : iterable of labels, or mapping of str to these, optional
        Eligible choices: one list for all decisions, or lists by decision (others make any choice). Choices that
        `all_different` lets repeat are always eligible.

    Returns
    -------
    Solution
        Action, value, and proof or bound.

    Raises
    ------
    MeansError, ContextError
        An argument is incomplete or out of range.
    InfeasibleError
        No action satisfies the constraints with these eligible choices.

    Examples
    --------
    >>> d = Diagram("two coins")
    >>> coin = ["fair", "bent"]
    >>> heads = d.observed("first", [d.decision("A1", coin)]), d.observed("second", [d.decision("A2", coin)])
    >>> d.reward(heads, lambda first, second: first * (1 - second))
    >>> best_action(d, {"first": [0.5, 0.8], "second": [0.5, 0.9]})
    Solution(action={'A1': 'bent', 'A2': 'fair'}, value=0.4, exact=True, bound=0.4)
    >>> best_action(d, {"first": [0.5, 0.8], "second": [0.5, 0.9]}, allowed={"A1": ["fair"]}).action
    {'A1': 'fair', 'A2': 'fair'}
    """
    effort = check_effort(effort)
    model = compile(d)
    solver = model.derived(Solver)
    action = solver.blank_action(context)
    eligible, flat = solver.eligible(allowed), model.flat_means(means)
    kernel = solver.kernel_for(effort)
    value, bound, sound = kernel.entry(*solver.program, flat, False, action, eligible, BUDGET * effort)
    if not sound:
        model.parameter_vector(means)  # says what is wrong
        raise MeansError(f"means must sum to 1 in every row of diagram {model.name!r}")
    return Solution(model.action_of(action), value, bound == value, bound)


def check_effort(effort: Any) -> float:
    """Validate the effort, a number >= 0, and return it as a float; infinity is clamped."""
    effort = plain(effort)
    if not (isinstance(effort, (int, float)) and effort >= 0):
        effort = check_number("effort", effort, 0)
    return float(min(effort, MOST_EFFORT))


@final
class Solver:
    """Kernel and packed structures to find the best action of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        circuit, decisions = model.rewards.circuit, decisions_of(model)
        self._structures = circuit, decisions
        self.program = pack(circuit, decisions)
        self.kernel = solve_easily if _is_easy(circuit, decisions) else solve
        self._blank = np.zeros(len(model.decisions) + len(model.contexts), dtype=np.int64)

    def kernel_for(self, effort: float) -> Kernel:
        """Return the kernel that searches with this effort: the small one only if the effort is at least 1."""
        return self.kernel if effort >= 1.0 else solve

    def program_for(self, effort: float) -> Packed:
        """Return the structures that the kernel works on, with this effort."""
        circuit, decisions = self._structures
        return self.program if effort == 1.0 else pack(circuit, decisions._replace(effort=effort))

    def eligible(self, allowed: Allowed) -> Ints:
        """Return the choices that may be made, for the kernel."""
        return EVERY_CHOICE if allowed is None else self.model.derived(Eligibility).packed(allowed)

    def blank_action(
        self, context: Action | None, *, check: bool = True, request: list[float] | None = None
    ) -> Ints:  # fmt: skip
        """Return an action vector with the contexts filled in; without a check, of the first values.

        Features of contexts are appended to `request`, if that is given.
        """
        action = self._blank.copy()
        if check and (context is not None or self.model.contexts):
            action[len(self.model.decisions) :] = self.model.context_vector(context, request)
        return action


def _is_easy(c: Circuit, s: Decisions) -> bool:
    """Return whether every group of decisions is solved without a search, whatever the means."""
    start = np.zeros(s.decisions + 1, dtype=np.int64)
    for g in range(s.groups):
        size, form = s.group_start[g + 1] - s.group_start[g], s.form[g]
        if size == 0 or form == ADDITIVE or (form == FREE and size <= MOST_PATTERNS):
            continue
        in_python(search.count_candidates)(s, g, EVERY_CHOICE, start)
        edges = c.start[s.group_end[g + 1]] - c.start[s.group_end[g]]
        if in_python(search.cost_of_all)(s, g, start, edges) > (FEW if s.staged[g] else BUDGET):
            return False
    return True


@unmanaged
def read_means(s: Decisions, means: Floats, expanded: bool, rows: Ints, p: Floats) -> bool:
    """Write the means of all states of all learned tables and what is known to p; return False if these are not means.

    Nothing else keeps NaN out: what is searched afterwards consists of probabilities and rewards. If `rows` are listed
    and means are expanded, only these rows are read.
    """
    for i in range(s.learned, s.parameters):
        p[i] = s.known[i - s.learned]
    if expanded:
        return copy_rows(s, means, rows, p)
    at, to = 0, 0
    for t in range(s.tables):
        states = s.table_states[t]
        for _ in range(s.table_rows[t]):
            if states == 2:
                if not 0.0 <= means[at] <= 1.0:
                    return False
                p[to], p[to + 1] = 1.0 - means[at], means[at]
                at += 1
            else:
                total = 0.0
                for state in range(states):
                    p[to + state] = means[at + state]
                    total += means[at + state]
                    if not 0.0 <= means[at + state] <= 1.0:
                        return False
                if abs(total - 1.0) > TOLERANCE:
                    return False
                at += states
            to += states
    return True


@unmanaged
def copy_rows(s: Decisions, means: Floats, rows: Ints, p: Floats) -> bool:
    """Copy the means of all rows, or those listed; return False if one is not made of probabilities that sum to 1."""
    sound, begin, listed = True, 0, 0
    for t in range(s.tables):
        states, number = s.table_states[t], s.table_rows[t]
        end = begin + states * number
        if len(rows) > 0:
            number = 0
            while listed + number < len(rows) and rows[listed + number] < end:
                number += 1
        for r in range(number):
            at, total = rows[listed + r] if len(rows) > 0 else begin + r * states, 0.0
            for i in range(at, at + states):
                p[i] = means[i]
                total += means[i]
                sound &= 0.0 <= means[i] <= 1.0
            sound &= abs(total - 1.0) <= TOLERANCE
        begin, listed = end, listed + number
    return sound


class Inputs(NamedTuple):
    """Arrays that a search reads."""

    p: Floats  # the parameters
    start: Ints  # of a decision: its candidates
    eligible: Ints
    candidates: Ints


@linked
def search_of(c: Circuit, s: Decisions, g: int, inputs: Inputs, budget: float) -> Search:
    """Return the search for the best choices of a group; `inputs` must be held until it is over."""
    size, eligible = s.group_start[g + 1] - s.group_start[g], inputs.eligible
    return Search(
        Run(c, s.group_end[g], s.group_end[g + 1]), s, pointer(inputs.p, 0), size,
        carray(pointer(s.group, s.group_start[g]), (size,)), pointer(inputs.start, 0),
        carray(pointer(eligible, 0), (len(eligible),)), pointer(inputs.candidates, 0), budget,
    )  # fmt: skip


@unmanaged
def cost_of_group(q: Search, g: int) -> float:
    """Return what it costs to try all combinations of a group's candidates, in edges."""
    c = q.run.c
    return search.cost_of_all(q.s, g, q.start, c.start[q.run.last] - c.start[q.run.first])


@linked
def solve_group(
    c: Circuit, s: Decisions, g: int, inputs: Inputs, budget: float, action: Ints
) -> tuple[float, float]:  # fmt: skip
    """Make the best choices for a group of decisions; return their value and a bound, infinite if it takes a search.

    Groups that take a search are left at the feasible choices.
    """
    q, form = search_of(c, s, g, inputs, budget), s.form[g]
    values = np.ones(c.leaves + c.inner)
    if q.size > 0:
        if form == FREE and q.size <= MOST_PATTERNS:
            value = try_patterns(q, action)
            return value, value
        search.find_candidates(q, action)
        if not ((form in (ADDITIVE, MULTIPLICATIVE)) and assign(q, g, action)):
            for k in q.group:
                action[k] = search.feasible_choice(s, q.eligible, k)
            if form == GENERAL and can_choose_and_sort(q, g):
                value, bound = choose_and_sort(q, g, action)
                if bound < np.inf:
                    return value, bound
            if cost_of_group(q, g) > (min(q.budget, FEW) if s.staged[g] else q.budget):
                return value_at(q.run, q.p, action, values), np.inf
            value = search.try_all(q, action)
            return value, value
    value = value_at(q.run, q.p, action, values)
    return value, value


@linked
def solve_or_search(
    c: Circuit, s: Decisions, g: int, inputs: Inputs, budget: float, action: Ints
) -> tuple[float, float]:  # fmt: skip
    """Make the best choices found for a group, by the first search that applies; return their value and a bound."""
    value, bound = solve_group(c, s, g, inputs, budget, action)
    if bound != np.inf:
        return value, bound
    q = search_of(c, s, g, inputs, budget)
    if search.form_of(q, g) == SORTED:
        value, bound = sort(q, g, action)
    is_sorted = bound < np.inf
    if not is_sorted:  # what proves most in little time comes first
        value, bound = sweep(q, g, action, budget)
    if exceeds(s, bound, value) and cost_of_group(q, g) <= budget:
        value = search.try_all(q, action)
        bound = value
    if exceeds(s, bound, value) and not is_sorted:
        value, branched = branch(q, action)
        bound = min(bound, branched)
        if exceeds(s, bound, value):
            value, swept = sweep(q, g, action, PATIENCE * budget)
            bound = min(bound, swept)
    if exceeds(s, bound, value):
        value = search.improve(q, action)
    return value, max(value, bound)


work: Any = solve_group  # or `solve_or_search`, in the kernels that are generated: the compiler takes longer for that


def _solve(
    program: Ints, numbers: Floats, means: Floats, expanded: bool, action: Ints, eligible: Ints, budget: float
) -> tuple[float, float, bool]:
    """Put the best action found into `action`, whose contexts are set; return its value, a bound and success.

    `eligible` has the choices that may be made, as `Eligibility` packs them; empty if all may.
    `means` are as users pass them, or `expanded`: those of all states. If these are not means, there is no action.
    """
    c, s = unpack(program, numbers)
    p = np.empty(s.parameters)
    rows = readable_rows(c, s, eligible, action) if expanded and len(eligible) > 0 else np.empty(0, np.int64)
    if not read_means(s, means, expanded, rows, p):
        return 0.0, 0.0, False
    for k in range(s.decisions):
        action[k] = search.feasible_choice(s, eligible, k)
    start = np.empty(s.decisions + 1, np.int64)
    total, most, budget = 0.0, 0.0, budget * s.effort
    for g in range(s.groups):
        by_patterns = s.form[g] == FREE and s.group_start[g + 1] - s.group_start[g] <= MOST_PATTERNS
        candidates = np.empty(0 if by_patterns else search.count_candidates(s, g, eligible, start), np.int64)
        value, bound = work(c, s, g, Inputs(p, start, eligible, candidates), budget, action)
        total, most = total + value, most + bound
    return total, most if exceeds(s, most, total) else total, abs(total) < np.inf


solve = generated(_solve, SOLVE, "solve", solve_or_search)
solve_easily = generated(_solve, SOLVE, "solve_easily", solve_group)


@unmanaged
def shuffle_idle(s: Decisions, rng: Rng, action: Ints, eligible: Ints) -> None:
    """Make decisions that nothing depends on at random, where that is in no other's way."""
    for k in range(s.decisions):
        number = search.number_of_choices(s, eligible, k)
        if s.use_start[k] == s.use_start[k + 1] and number > 1:
            choice = search.choice_at(s, eligible, k, below(rng, number))
            free = True
            for other in range(s.decisions):
                if other != k and search.clash(s, k, choice, other, action[other]):
                    free = False
            if free:
                action[k] = choice


@linked
def value_of(c: Circuit, s: Decisions, p: Floats, action: Ints) -> float:
    """Return the expected reward of an action."""
    total, values = 0.0, np.ones(c.leaves + c.inner)
    for g in range(s.groups):
        total += value_at(Run(c, s.group_end[g], s.group_end[g + 1]), p, action, values)
    return total
