"""Access to private arrays and names of the library for tests.

All other tests use public names, so that only this file depends on private arrays and names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import idbandits as idb
from idbandits.baselines import confidence, grab
from idbandits.circuit import passes
from idbandits.circuit import reference as plain
from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.model import Likelihood
from idbandits.inference import LATER, NOW, Round
from idbandits.inference.algorithms import exact
from idbandits.inference.gibbs import gibbs
from idbandits.inference.gibbs import pair_moves as moving
from idbandits.inference.gibbs import table_moves as rescaling
from idbandits.inference.regression.density import regression_at
from idbandits.inference.regression.fit import Point, measure
from idbandits.inference.regression.prior import prior_in
from idbandits.inference.rounds import counting, factors, reduction
from idbandits.inference.rounds.workspace import Parts, held, scratch, tail, unpack, workspace
from idbandits.inference.state.state import (
    BASE,
    BEFORE,
    CAPACITY,
    GROUPS,
    NO_STATE,
    USED,
    counted_groups,
    group_columns,
    grown,
)
from idbandits.inference.state.state_file import columns_of
from idbandits.inference.transfer.row_index import RowName, names_of
from idbandits.kernel import disk_cache as disk
from idbandits.kernel.compile import in_python
from idbandits.kernel.sampling import EDGE
from idbandits.kernel.structs import pointer
from idbandits.simulation.simulate import begin, random_numbers
from idbandits.solve import assignment, patterns
from idbandits.solve import branch_and_bound as branch
from idbandits.solve import candidates as search
from idbandits.solve import problem as structure
from idbandits.solve.candidates import Search
from idbandits.solve.eligible import Eligibility
from idbandits.solve.lists import equal_stages as alike
from idbandits.solve.lists import set_dp as sweep
from idbandits.solve.lists import sorting

__all__ = ["EDGE", "begin", "digamma_less_log", "random_numbers"]


def alone(part: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that calls `part`, which Python cannot call directly."""

    @njit(error_model="numpy")
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call


# -- machine code --------------------------------------------------------------------------------------------------

time_of_last_change = disk._last_change  # source of machine code
delete_stale_machine_code = disk.delete_stale  # from a folder


# -- learners ------------------------------------------------------------------------------------------------------

Key = tuple[int, ...]  # factor as numbers


def knowledge(learner: Any) -> tuple[bytes, bytes, bytes, str]:
    """Return everything that determines the next steps of an agent or baseline, comparable by ==."""
    state = learner.state
    numbers = state.ints.tobytes(), state.floats.tobytes(), state.fits.tobytes()
    return *numbers, str(learner.rng.bit_generator.state)


def kept(agent: idb.Thompson) -> tuple[Any, ...]:
    """Return everything that a file contains of an agent, comparable by ==, without scratch numbers and free capacity."""
    columns = columns_of(agent.state, agent.inference.layout(agent.learner.evidence))
    return *((c.shape, c.tobytes()) for c in columns), str(agent.rng.bit_generator.state)


def groups(agent: idb.Thompson) -> dict[tuple[int, ...], int]:
    """Return the count of each group by its key."""
    return {key: number for key, number in counted_groups(agent.state).items() if number}


def room_for_groups(agent: idb.Thompson) -> int:
    """Return the number of groups that fit into the state of an agent."""
    return int(agent.state.ints[CAPACITY])


def with_more_room(agent: idb.Thompson) -> idb.Thompson:
    """Return a copy of an agent with sixteen times the capacity for groups."""
    other = agent.copy()
    for _ in range(4):
        set_state(other, grown(other.state))
    return other


def set_state(agent: idb.Thompson, state: Any) -> None:
    """Replace the state of an agent of one structure."""
    agent._known = agent._known._replace(states=(state,))


def sampled(agent: idb.Thompson) -> Any:
    """Return the sample of rounds of an agent."""
    return agent._known.sample


def determined(agent: idb.Thompson) -> np.ndarray:
    """Return the pseudo-counts of certain uses, without groups."""
    size = agent.learner.evidence.learned
    return agent.state.floats[int(agent.state.ints[BASE]) :][:size]


def learn_repeatedly(
    agent: idb.Thompson, action: Mapping[str, Any], observation: Mapping[str, Any], times: int
) -> None:
    """Learn any number of equal rounds at once."""
    _learn(agent, agent.learner.model.action_vector(action), agent._eras[0].seen(observation), times, NOW)


def learn_without_settling(
    agent: idb.Thompson, action: Mapping[str, Any], observation: Mapping[str, Any], context: Mapping[str, Any] | None
) -> None:
    """Count a round without updating the belief."""
    _learn(agent, agent.learner.model.action_vector(action, context), agent._eras[0].seen(observation), 1, LATER)


def settle(agent: idb.Thompson) -> None:
    """Update the belief as after a round."""
    _learn(agent, agent.learner.solver.blank_action(None, check=False), agent.learner.blank.seen, 0, NOW)


def _learn(agent: idb.Thompson, vector: np.ndarray, seen: np.ndarray, times: int, effort: int) -> None:
    set_state(agent, agent.learner.learned(agent.state, agent.rng, Round(vector, seen, times=times, effort=effort)))


class Held(NamedTuple):
    """State of one structure of an agent."""

    inference: Any
    evidence: Any
    state: Any


def held_by(agent: Any) -> dict[str, Held]:
    """Return evidence and state of every structure of an agent, by name."""
    known = agent._known
    return {
        name: Held(learner.inference, learner.evidence, state)
        for name, learner, state in zip(agent._eras[0].names, known.learners, known.states, strict=True)
    }


def knowledge_of(agent: Any) -> tuple[Any, ...]:
    """Return everything that a file contains of an agent of one or several structures, comparable by ==."""
    columns = [
        [(c.shape, c.tobytes()) for c in columns_of(held.state, held.inference.layout(held.evidence))]
        for held in held_by(agent).values()
    ]
    return columns, agent.weights(), str(agent.rng.bit_generator.state)


def certain_counts(held: Held) -> np.ndarray:
    """Return the certain uses of each learned entry, without the current prior."""
    size, floats = held.evidence.learned, held.state.floats
    return floats[int(held.state.ints[BASE]) :][:size] - prior_in(held.evidence, held.state)


def log_likelihood_held(held: Held, mean_of: Callable[[RowName], np.ndarray], *, rounded: bool = True) -> float:
    """Return the log-likelihood of all rounds in a state, up to constants: certain uses and groups.

    Groups count by their number of draws, or by their weights unless `rounded`.
    """
    entries, learned = held.evidence.entries, held.evidence.learned
    values = np.empty(learned + len(entries.known))
    values[learned:] = entries.known
    for name, row in entries.rows.items():
        values[row.first : row.first + name[1]] = mean_of(name)
    certain = certain_counts(held)
    total = float(certain[certain != 0] @ np.log(values[:learned][certain != 0]))
    if held.state.ints[CAPACITY]:
        columns = group_columns(held.state.ints)
        numbers = columns.counts if rounded else columns.weights
        for key, count in zip(counted_groups(held.state), numbers.tolist(), strict=True):
            total += count * float(np.log(_value_of_factor(key, values))) if count else 0.0
    return total


def _value_of_factor(key: Key, values: np.ndarray) -> float:
    """Return the value of a factor: nodes are sums of products of entries and earlier nodes."""
    numbers, nodes = iter(key), list[float]()
    for _ in range(next(numbers)):
        terms = []
        for _ in range(next(numbers)):
            members = [next(numbers) for _ in range(next(numbers))]
            terms.append(math.prod(values[m] if m >= 0 else nodes[-1 - m] for m in members))
        nodes.append(sum(terms))
    return nodes[-1]


def row_names(d: idb.Diagram) -> list[RowName]:
    """Return the names of the rows of all learned tables in order: table, number of states, labels."""
    return list(names_of(idb.compile(d)))


def ambiguous_observation(d: idb.Diagram) -> dict[str, int]:
    """Return the observation for which exact inference is rejected, as indices; -1 if not observed."""
    model = idb.compile(d)
    ambiguous = exact._find_ambiguous(model)
    assert ambiguous is not None
    return dict(zip((n.name for n in d.of_kind("observed")), ambiguous[1].tolist(), strict=True))


def leader_of(learner: idb.baselines.GRAB) -> tuple[int, ...]:
    """The list that GRAB's last action was chosen around."""
    positions = len(learner.diagram.of_kind("decision"))
    return tuple(int(item) for item in learner.state.floats[grab.LEADER : grab.LEADER + positions])


# -- numbers -------------------------------------------------------------------------------------------------------

kl_above, kl_below, kl_exponent = map(alone, (confidence.kl_above, confidence.kl_below, confidence.kl_exponent))
level, ucb1 = alone(confidence.level), alone(confidence.ucb1)
digamma_less_log = in_python(tail)


def best_assignment(scores: np.ndarray) -> np.ndarray:
    """Return the assignment of rows to different columns with the highest sum of scores; zeros if there are none."""
    positions, items = scores.shape
    action = np.zeros(positions, dtype=np.int64)
    room = np.empty(2 * items + 2, dtype=np.int64), np.empty(positions + 1 + 2 * (items + 1))
    in_python(assignment.match)(scores.ravel(), positions, items, *room, action)
    return action


# -- circuits ------------------------------------------------------------------------------------------------------

CIRCUITS = ("likelihood", "literal", "rewards")


@njit(error_model="numpy")
def _down(c: Circuit, weights: Any, values: Any, slopes: Any, counts: Any) -> None:
    passes.down(Run(c, 0, c.inner), passes.of_slots, weights, values, slopes, counts, None, False)


def as_arrays(structure: Any) -> Any:
    """Return a structure for kernels with its rows as arrays instead of pointers."""
    rows = (np.asarray(row, None if isinstance(row, np.ndarray) else np.int64) for row in structure)
    return type(structure)(*(row if row.ndim else int(row) for row in rows))


def size_of(d: idb.Diagram, circuit: str) -> int:
    """The number of sums and products in one of the circuits of a diagram."""
    return int(getattr(idb.compile(d), circuit).circuit.inner)


def place_of(d: idb.Diagram, table: str, entry: Sequence[int]) -> int:
    """Return the index of an entry of a learned table among all learned entries."""
    learned = d.learned[table]
    start = idb.compile(d).parameters.offsets[table]
    return int(start + np.ravel_multi_index(tuple(entry), (*learned.shape, learned.states)))


def learned_size(d: idb.Diagram) -> int:
    """Return the number of learned entries."""
    return int(idb.compile(d).parameters.learned_size)


class Evaluated:
    """Circuit of a likelihood evaluated in one round; actions, contexts and observations are indices."""

    def __init__(
        self, d: idb.Diagram, circuit: str, given: Mapping[str, int], seen: Mapping[str, int], means: Mapping[str, Any],
        entries: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        model = idb.compile(d)
        likelihood: Likelihood = getattr(model, circuit)
        self.learned = model.parameters.learned_size
        parameters = model.parameter_vector(means)
        if entries is not None:
            parameters[: self.learned] = entries
        c = self.circuit = likelihood.circuit
        vector = np.array([given[n.name] for n in (*model.decisions, *model.contexts)], dtype=np.int64)
        self.weights, self.values = np.empty(c.slots), np.empty(c.leaves + c.inner)
        passes.bind(likelihood.program, vector, parameters, self.weights)
        self.values[: c.leaves] = likelihood.leaves(seen)
        passes.evaluate(likelihood.program, self.weights, self.values, False)
        self.entries = np.array([plain.entry(c, slot, vector) for slot in range(c.slots)], dtype=np.int64)

    @property
    def root(self) -> float:
        """Value of the circuit."""
        return float(self.values[-1])

    def weighted_derivatives(self, before: float = 0.0) -> np.ndarray:
        """Return weight × derivative of the root for every slot, added to `before`."""
        by_slot, slopes = np.full(self.circuit.slots, before), np.zeros_like(self.values)
        slopes[-1] = 1.0
        _down(as_arrays(self.circuit), self.weights, self.values, slopes, by_slot)
        return by_slot

    def by_entry(self, by_slot: np.ndarray) -> np.ndarray:
        """Sum numbers of slots into learned entries."""
        total = np.zeros((*by_slot.shape[:-1], self.learned), dtype=by_slot.dtype)
        learned = self.entries < self.learned
        np.add.at(total.T, self.entries[learned], by_slot.T[learned])
        return total

    def weighted_counts(self) -> np.ndarray:
        """Return weight × derivative of every learned entry."""
        return self.by_entry(self.weighted_derivatives())


# -- reduced rounds ------------------------------------------------------------------------------------------------


class Reduced(NamedTuple):
    """Reduced round: product of entries, factors and a constant."""

    possible: bool  # False: all other fields are meaningless
    uses: list[int]  # certain uses
    factors: list[Key]
    constant: float


def reduced(
    d: idb.Diagram, given: Mapping[str, int], seen: Mapping[str, int], *, literal: bool = False, whole: bool = False
) -> Reduced:
    """Reduce a round given by indices. `whole`: as if there were no room to divide it."""
    model = idb.compile(d)
    evidence = model.derived(idb.inference.literal if literal else idb.inference.folded)
    action = np.array([given[n.name] for n in (*model.decisions, *model.contexts)], dtype=np.int64)
    observed = np.array([seen.get(n.name, -1) for n in model.observed], dtype=np.int64)
    ints = np.zeros(3 * evidence.most_numbers + 2 * evidence.most_groups + len(evidence.program), dtype=np.int64)
    possible, constant = _reduce(evidence.packed, NO_STATE, action, observed, ints, whole)
    number, uses = int(ints[0]), int(ints[1])
    rest = ints[2:].tolist()
    places, rest = rest[: number + 1], rest[number + 1 :]
    keys = [tuple(rest[uses + first : uses + end]) for first, end in itertools.pairwise(places)]
    return Reduced(bool(possible), rest[:uses], keys, float(np.exp(constant)))


@njit(error_model="numpy")
def _reduce(evidence: Any, state: Any, action: Any, seen: Any, out: Any, whole: bool) -> Any:
    ints, floats = scratch(evidence, state)
    w = workspace(evidence, ints, floats)
    possible = reduction.reduce_whole(w, action, seen) if whole else reduction.reduce(w, action, seen)
    if not possible:
        return held(0.0, ints, floats) > 0.0, -np.inf
    counting.drop_certain(w)
    constant = reduction.log_constant(w)
    out[0], out[1] = w.places[0], w.uses[0]
    at = 2
    for i in range(w.places[0] + 1):
        out[at] = w.places[1 + i]
        at += 1
    for i in range(w.uses[0]):
        out[at] = w.uses[1 + i]
        at += 1
    for i in range(w.places[1 + w.places[0]]):
        out[at] = w.factors[i]
        at += 1
    return possible, held(constant, ints, floats)


def all_entries(d: idb.Diagram, means: Mapping[str, Any]) -> np.ndarray:
    """Return the means of learned entries followed by known entries."""
    return np.array(idb.compile(d).parameter_vector(means))


def row_of(d: idb.Diagram, entry: int) -> tuple[str, int] | None:
    """Return the learned table and row number of an entry; None for known entries."""
    model = idb.compile(d)
    for name, table in model.learned.items():
        place = entry - model.parameters.offsets[name]
        if 0 <= place < table.size:
            return name, place // table.states
    return None


def first_wrong(d: idb.Diagram, keys: Sequence[Key], sizes: Sequence[int] | None = None) -> int:
    """Return the number of the first key that is not a factor of a diagram; -1 if all are."""
    evidence = idb.compile(d).derived(idb.inference.folded)
    numbers = np.array([number for key in keys for number in key], dtype=np.int64)
    lengths = np.array([len(key) for key in keys] if sizes is None else sizes, dtype=np.int64)
    assert lengths.sum() == len(numbers)
    assert (lengths > 0).all()  # files are checked like this first
    return int(factors.find_wrong(*evidence.packed, numbers, lengths))


class Limits(NamedTuple):
    """Size limits of a factor of a diagram."""

    nodes: int
    terms: int
    entries: int  # learned and known entries


def limits_of(d: idb.Diagram) -> Limits:
    """Return the size limits of a factor of a diagram."""
    evidence = idb.compile(d).derived(idb.inference.folded)
    entries = evidence.learned + len(idb.compile(d).parameters.known)
    return Limits(evidence.longest.nodes, evidence.longest.terms, entries)


class _Guarded:
    """Numbers that raise if read out of bounds."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers

    def __getitem__(self, place: int) -> int:
        assert 0 <= place < len(self._numbers), f"{place} is beyond {len(self._numbers)} numbers"
        return self._numbers[place]


def is_factor(limits: Limits, key: Sequence[int]) -> bool:
    """Return True if numbers are a factor, by the code of the library in Python, which fails if it reads out of bounds."""
    parts = Parts._make([0] * len(Parts._fields))._replace(
        most_nodes=limits.nodes, most_terms=limits.terms, parameter_count=limits.entries
    )
    return bool(in_python(factors.is_factor)(parts, _Guarded(key), len(key)))


# -- chains of Gibbs sampling --------------------------------------------------------------------------------------


def number_of_groups(agent: idb.Thompson) -> int:
    """Return the number of groups, including empty ones."""
    return int(agent.state.ints[USED])


def next_group(agent: idb.Thompson) -> int:
    """Return the group that was last visited in turn."""
    return int(agent.state.ints[gibbs.DECLARED.integer("next")])


def latent_counts(agent: idb.Thompson) -> list[np.ndarray]:
    """Return the latent counts of every number of the key of every group."""
    starts = group_columns(agent.state.ints).starts
    latent = agent.state.floats[int(agent.state.ints[BEFORE]) :]
    return [latent[first:end].copy() for first, end in itertools.pairwise(starts.tolist())]


def pseudo_counts(agent: idb.Thompson) -> np.ndarray:
    """Return the pseudo-counts from which the next action is drawn."""
    return agent.state.floats[: agent.learner.evidence.learned].copy()


def with_all_derived_again(agent: idb.Thompson) -> idb.Thompson:
    """Return a copy of an agent whose derived arrays were overwritten and rebuilt as after loading."""
    other = agent.copy()
    size = agent.learner.evidence.learned
    other.state.ints[int(other.state.ints[GROUPS]) :][: 2 * size] = -1  # heads of links
    for section in ("alpha", "counts"):
        gibbs.DECLARED.section(other.state, size, section)[:] = np.nan
    set_state(other, other.inference.restored(other.learner.evidence, other.state))
    return other


def pseudo_counts_of_updates(agent: idb.Thompson, number: int) -> np.ndarray:
    """Return the pseudo-counts after each of several updates without a round, one per row."""
    action, nothing = agent.learner.solver.blank_action(None, check=False), agent.learner.blank.seen
    kept = np.empty((number, agent.learner.evidence.learned))
    for row in kept:
        agent.inference.learn(agent.learner.evidence.packed, agent.state, agent.rng, Round(action, nothing, times=0))
        row[:] = agent.state.floats[: len(row)]
    return kept


def moved(agent: idb.Thompson, means: np.ndarray, moves: int, *, tables: bool) -> np.ndarray:
    """Return draws of all means, one per row, after a number of moves of pairs or tables."""
    state, after = agent.state.copy(), means.copy()
    _move(agent.learner.evidence.packed, state, np.random.default_rng(0), after, moves, tables)
    return after


@njit(error_model="numpy")
def _move(evidence: Any, state: Any, rng: Any, draws: Any, moves: int, tables: bool) -> Any:
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    chain = gibbs.chain_in(w, state, False, pointer(state.ints, 0), 0)
    gibbs.begin_tuning(chain)
    w.places[0] = 0  # no round was counted before
    for i in range(len(draws)):
        gibbs.begin_epoch(chain)
        for e in range(w.v.learned):
            chain.means[e] = draws[i, e]
            chain.stamps[e] = chain.epoch[0]
        if tables:
            rescaling.move_tables(w, chain, moves, rng)
        else:
            moving.move_pairs(w, chain, moves, rng)
        for e in range(w.v.learned):
            draws[i, e] = chain.means[e]
    return held(0.0, int_scratch, float_scratch)


def rescaled(
    agent: idb.Thompson, parameters: np.ndarray, means: np.ndarray, moves: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the parameters of the regression of an agent and all means after a number of moves of whole tables."""
    state, after = agent.state.copy(), means.copy()
    size = len(parameters)
    current = state.fits[size * (size + 1) : size * (size + 2)]
    current[:] = parameters
    _rescale(agent.learner.evidence.packed, state, np.random.default_rng(seed), after, moves)
    return current, after


@njit(error_model="numpy")
def _rescale(evidence: Any, state: Any, rng: Any, means: Any, moves: int) -> Any:
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    chain = gibbs.chain_in(w, state, True, pointer(state.ints, 0), 0)
    gibbs.begin_tuning(chain)
    w.places[0] = 0
    rescaling.put_current_priors(w, chain, regression_at(w.r, 0, chain.fits))
    for e in range(w.v.learned):
        chain.means[e] = means[e]
    rescaling.move_tables(w, chain, moves, rng)
    for e in range(w.v.learned):
        means[e] = chain.means[e]
    return held(0.0, int_scratch, float_scratch)


# -- regressions ---------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """Log posterior density up to a constant, its gradient, and minus its Hessian."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


def measured(agent: idb.Thompson, counts: Any, parameters: Any, scale: float = 1.0) -> Measured:
    """Evaluate the density of the regression of an agent at parameters, given counts of all entries."""
    size = len(parameters)
    gradient, hessian = np.empty(size), np.empty(size * size)
    numbers = (np.array(values, np.float64).ravel() for values in (counts, parameters))
    fits, weights = agent.state.fits, np.empty(3 * (size + 1))
    value = _measure(*agent.learner.evidence.packed, fits, *numbers, scale, gradient, hessian, weights)
    lower = np.tril(hessian.reshape(size, size))
    return Measured(value, gradient, lower + np.tril(lower, -1).T)


@njit(error_model="numpy")
def _measure(
    program: Any, numbers: Any, fits: Any, n: Any, parameters: Any, scale: float, gradient: Any, hessian: Any,
    weights: Any,
) -> Any:  # fmt: skip
    _, _, r = unpack(program, numbers)
    at = Point(pointer(parameters, 0), pointer(gradient, 0), pointer(hessian, 0))
    value = measure(regression_at(r, 0, pointer(fits, 0)), pointer(n, 0), scale, at, pointer(weights, 0))
    return value + 0.0 * len(n) * len(parameters) * len(weights)


# -- searches for the best action ----------------------------------------------------------------------------------

FORMS = {
    search.FREE: "free", search.GENERAL: "general", search.MULTIPLICATIVE: "product", search.SORTED: "sorted",
    search.ADDITIVE: "sum",
}  # fmt: skip
_assign, _branch, _find_candidates = alone(assignment.assign), alone(branch.branch), alone(search.find_candidates)
_form_of = alone(search.form_of)
_can_choose_and_sort, _choose_and_sort = alone(alike.can_choose_and_sort), alone(alike.choose_and_sort)
_sort = alone(sorting.sort)
_sweep = alone(sweep.sweep)
_try_all, _try_patterns, _value_at = alone(search.try_all), alone(patterns.try_patterns), alone(search.value_at)


class SearchResult(NamedTuple):
    """Result of a search for the best action of a group."""

    search: str
    value: float  # value reported by the search
    evaluated: float  # value by the circuit
    bound: float  # upper bound reported by the search
    feasible: bool
    proves: bool  # True if the search continues until it has a proof


class Group:
    """Decisions that are searched together, under given means and in a given context."""

    def __init__(
        self, d: idb.Diagram, means: Mapping[str, Any], context: Mapping[str, int], number: int, allowed: Any
    ) -> None:
        model = idb.compile(d)
        eligible = model.derived(Eligibility).packed(allowed)
        self.number, self.form = number, forms_of(d)[number]
        s = as_arrays(structure.decisions_of(model))
        run = Run(as_arrays(model.rewards.circuit), int(s.group_end[number]), int(s.group_end[number + 1]))
        members = s.group[s.group_start[number] : s.group_start[number + 1]]
        start = np.zeros(s.decisions + 1, dtype=np.int64)
        candidates = np.empty(in_python(search.count_candidates)(s, number, eligible, start), dtype=np.int64)
        self.size = len(members)
        feasible = eligible[: s.decisions] if len(eligible) else s.feasible
        self._action = np.array([*feasible, *context.values()], dtype=np.int64)
        p = model.parameter_vector(means)
        self._search = Search(run, s, p, self.size, members, start, eligible, candidates, 0.0)
        _find_candidates(self._search, self._action.copy())
        if FORMS[_form_of(self._search, number)] != self.form:  # decisions to sort have different lists
            self.form = "general"

    def best_value(self) -> float:
        """Return the value of the best action by enumeration."""
        return float(_try_all(self._search, self._action.copy()))

    def search_all(self) -> list[SearchResult]:
        """Return the results of all searches that apply to a group."""
        results = []
        for budget in (1e9, 0.0):
            action = self._action.copy()
            value, bound = _branch(self._search._replace(budget=budget), action)
            results.append(self._result("branch", action, value, bound, budget > 0))
            if self.form == "sorted":
                action = self._action.copy()
                value, bound = _sort(self._search._replace(budget=budget), self.number, action)
                if bound < np.inf:  # else it does not apply
                    results.append(self._result("sort", action, value, bound, budget > 0))
            action = self._action.copy()
            value, bound = _sweep(self._search, self.number, action, budget)
            if bound < np.inf:  # does not apply otherwise
                results.append(self._result("sweep", action, value, bound, budget > 0))
        action = self._action.copy()
        if self.form == "general" and _can_choose_and_sort(self._search, self.number):
            value, bound = _choose_and_sort(self._search, self.number, action)
            results.append(self._result("choose and sort", action, value, bound, bound < np.inf))
            action = self._action.copy()
        if self.form == "free":
            value = _try_patterns(self._search, action)
            results.append(self._result("try patterns", action, value, value, True))
        if self.form in ("sum", "product") and _assign(self._search, self.number, action):  # does not apply otherwise
            value = self._evaluated(action)
            results.append(self._result("assign", action, value, value, True))
        return results

    def _evaluated(self, action: np.ndarray) -> float:
        c = self._search.run.c
        return float(_value_at(self._search.run, self._search.p, action, np.ones(c.leaves + c.inner)))

    def _result(self, name: str, action: np.ndarray, value: float, bound: float, proves: bool) -> SearchResult:
        feasible = _all_fit(self._search, action)
        return SearchResult(name, float(value), self._evaluated(action), float(bound), feasible, proves)


_all_fit = alone(search.all_fit)


def forms_of(d: idb.Diagram) -> list[str]:
    """Return the form of the reward of each group of decisions."""
    s = structure.decisions_of(idb.compile(d))
    return [FORMS[int(form)] for form in s.form]


def frontiers_of(d: idb.Diagram) -> list[list[int] | None]:
    """Return the frontier sizes of each group of decisions; None without stages."""
    s = structure.decisions_of(idb.compile(d))
    widths = np.diff(s.frontier_start).tolist()
    return [
        widths[first:last] if staged else None
        for staged, first, last in zip(s.staged, s.group_start, s.group_start[1:], strict=False)
    ]


def groups_of_decisions(
    d: idb.Diagram, means: Mapping[str, Any], context: Mapping[str, int], allowed: Any = None
) -> list[Group]:
    """Return the groups of decisions that are searched one after the other."""
    groups = [Group(d, means, context, number, allowed) for number in range(len(forms_of(d)))]
    return [group for group in groups if group.size]
