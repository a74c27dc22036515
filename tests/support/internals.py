"""The one place in the tests that knows how learners, circuits and searches look inside.

All other tests use public names. If an array or a private name of the library changes, only this file has to follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import idbandits as idb
from idbandits.agent.era import Round
from idbandits.baselines import confidence, grab
from idbandits.circuit import passes
from idbandits.circuit import reference as plain
from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.model import Likelihood
from idbandits.inference import LATER, NOW, layout_of
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
    BEFORE,
    CAPACITY,
    FIGURES,
    HEADER,
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
from idbandits.solve import assignment, patterns, sorting
from idbandits.solve import branch_and_bound as branch
from idbandits.solve import candidates as search
from idbandits.solve import equal_stages as alike
from idbandits.solve import problem as structure
from idbandits.solve import set_dp as sweep
from idbandits.solve.candidates import Search
from idbandits.solve.eligible import Eligibility

__all__ = ["EDGE", "begin", "digamma_less_log", "random_numbers"]


def alone(part: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that only calls `part`, which Python cannot call itself."""

    @njit(error_model="numpy")
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call


# -- machine code --------------------------------------------------------------------------------------------------

time_of_last_change = disk._last_change  # of a source of machine code
delete_stale_machine_code = disk.delete_stale  # from a folder


# -- learners ------------------------------------------------------------------------------------------------------

Key = tuple[int, ...]  # a factor, as plain numbers


def knowledge(learner: Any) -> tuple[bytes, bytes, bytes, str]:
    """Everything that decides what an agent or a baseline does next, to be compared by ==."""
    state = learner.state
    numbers = state.ints.tobytes(), state.floats.tobytes(), state.fits.tobytes()
    return *numbers, str(learner.rng.bit_generator.state)


def kept(agent: idb.Thompson) -> tuple[Any, ...]:
    """All that a file keeps of an agent, to be compared by ==: the same without scratch numbers, and room for groups."""
    columns = columns_of(agent.state, layout_of(agent.inference, agent.learner.evidence, agent.state))
    return *((c.shape, c.tobytes()) for c in columns), str(agent.rng.bit_generator.state)


def groups(agent: idb.Thompson) -> dict[tuple[int, ...], int]:
    """How often each group of rounds was counted, by its key: a factor of the likelihood."""
    return {key: number for key, number in counted_groups(agent.state).items() if number}


def room_for_groups(agent: idb.Thompson) -> int:
    """For how many groups an agent has room before it needs more."""
    return int(agent.state.ints[CAPACITY])


def with_more_room(agent: idb.Thompson) -> idb.Thompson:
    """A copy of an agent with room for sixteen times as many groups."""
    other = agent.copy()
    for _ in range(4):
        set_state(other, grown(other.state))
    return other


def set_state(agent: idb.Thompson, state: Any) -> None:
    """Put a state in place of that of an agent of one structure."""
    agent._known = agent._known._replace(states=(state,))


def sampled(agent: idb.Thompson) -> Any:
    """The sample of rounds that an agent keeps."""
    return agent._remembered()


def determined(agent: idb.Thompson) -> np.ndarray:
    """The pseudo-counts of what was determined by observations, without the groups."""
    size = agent.learner.evidence.learned
    return agent.state.floats[2 * size + FIGURES : 3 * size + FIGURES]


def learn_repeatedly(
    agent: idb.Thompson, action: Mapping[str, Any], observation: Mapping[str, Any], times: int
) -> None:
    """Let an agent learn from any number of equal rounds at once."""
    _learn(agent, agent.learner.model.action_vector(action), agent._eras[0].seen(observation), times, NOW)


def learn_without_settling(
    agent: idb.Thompson, action: Mapping[str, Any], observation: Mapping[str, Any], context: Mapping[str, Any] | None
) -> None:
    """Let an agent count a round, and leave its belief as it is."""
    _learn(agent, agent.learner.model.action_vector(action, context), agent._eras[0].seen(observation), 1, LATER)


def settle(agent: idb.Thompson) -> None:
    """Let an agent bring its belief up to date, as after a round."""
    _learn(agent, agent.learner.solver.blank_action(None, check=False), agent.learner.blank.seen, 0, NOW)


def _learn(agent: idb.Thompson, vector: np.ndarray, seen: np.ndarray, times: int, effort: int) -> None:
    set_state(agent, agent.learner.learned(agent.state, agent.rng, Round(vector, seen), times, effort))


class Held(NamedTuple):
    """What one structure of an agent has learned."""

    inference: Any
    evidence: Any
    state: Any


def held_by(agent: Any) -> dict[str, Held]:
    """The evidence and the state of every structure of an agent, by name: the only place that reads them for lifetimes."""
    known = agent._known
    return {
        name: Held(learner.inference, learner.evidence, state)
        for name, learner, state in zip(agent._eras[0].names, known.learners, known.states, strict=True)
    }


def knowledge_of(agent: Any) -> tuple[Any, ...]:
    """All that a file keeps of an agent, also of one of several structures, to be compared by ==."""
    columns = [
        [(c.shape, c.tobytes()) for c in columns_of(held.state, layout_of(*held))] for held in held_by(agent).values()
    ]
    return columns, agent.weights(), str(agent.rng.bit_generator.state)


def certain_counts(held: Held) -> np.ndarray:
    """How often each learned entry was used for certain, beyond the prior that a state has by now."""
    size, floats = held.evidence.learned, held.state.floats
    certain = floats[2 * size + FIGURES : 3 * size + FIGURES] if held.state.ints[CAPACITY] else floats[:size]
    return certain - prior_in(held.evidence, held.state)


def log_likelihood_held(held: Held, mean_of: Callable[[RowName], np.ndarray], *, rounded: bool = True) -> float:
    """The log-likelihood of all rounds in a state, in plain Python, less constants: certain uses and groups.

    Groups count as often as draws are made for them, or by their weights if these are not `rounded`.
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
    """The value of a factor: nodes are sums of products of entries and of earlier nodes (inference/rounds/factors.py)."""
    numbers, nodes = iter(key), list[float]()
    for _ in range(next(numbers)):
        terms = []
        for _ in range(next(numbers)):
            members = [next(numbers) for _ in range(next(numbers))]
            terms.append(math.prod(values[m] if m >= 0 else nodes[-1 - m] for m in members))
        nodes.append(sum(terms))
    return nodes[-1]


def row_names(d: idb.Diagram) -> list[RowName]:
    """The names of the rows of all learned tables, in order: table, number of states, labels."""
    return list(names_of(idb.compile(d)))


def ambiguous_observation(d: idb.Diagram) -> dict[str, int]:
    """The observation for which the library refuses exact inference, as places among the states; -1 is not seen."""
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
    """For each row of scores a column of its own, with the highest sum; zeros where there are none."""
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


@njit(error_model="numpy")
def _split(c: Circuit, weights: Any, values: Any, same: Any, times: int, rng: Any, visits: Any, counts: Any) -> None:
    passes.split(Run(c, 0, c.inner), weights, values, same, times, rng, visits, counts)


def as_arrays(structure: Any) -> Any:
    """A structure for kernels, its rows as arrays: what is compiled for pointers works on them too."""
    rows = (np.asarray(row, None if isinstance(row, np.ndarray) else np.int64) for row in structure)
    return type(structure)(*(row if row.ndim else int(row) for row in rows))


def size_of(d: idb.Diagram, circuit: str) -> int:
    """The number of sums and products in one of the circuits of a diagram."""
    return int(getattr(idb.compile(d), circuit).circuit.inner)


def place_of(d: idb.Diagram, table: str, entry: Sequence[int]) -> int:
    """Where an entry of a learned table stands among all learned entries."""
    learned = d.learned[table]
    start = idb.compile(d).parameters.offsets[table]
    return int(start + np.ravel_multi_index(tuple(entry), (*learned.shape, learned.states)))


def learned_size(d: idb.Diagram) -> int:
    """The number of learned entries."""
    return int(idb.compile(d).parameters.learned_size)


class Evaluated:
    """One circuit of a likelihood, evaluated in one round; actions, contexts and observations are places."""

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
        """The value of the circuit."""
        return float(self.values[-1])

    def weighted_derivatives(self, before: float = 0.0) -> np.ndarray:
        """Weight × derivative of the root by it, for every slot, added to `before`."""
        by_slot, slopes = np.full(self.circuit.slots, before), np.zeros_like(self.values)
        slopes[-1] = 1.0
        _down(as_arrays(self.circuit), self.weights, self.values, slopes, by_slot)
        return by_slot

    def by_entry(self, by_slot: np.ndarray) -> np.ndarray:
        """Numbers of slots, summed into the learned entries that the slots stand for."""
        total = np.zeros((*by_slot.shape[:-1], self.learned), dtype=by_slot.dtype)
        learned = self.entries < self.learned
        np.add.at(total.T, self.entries[learned], by_slot.T[learned])
        return total

    def weighted_counts(self) -> np.ndarray:
        """Weight × derivative of every learned entry."""
        return self.by_entry(self.weighted_derivatives())

    def draws(self, times: int, number: int, seed: int) -> np.ndarray:
        """Draws of how often each learned entry is used in `times` equal rounds, one row per draw."""
        c, rng = self.circuit, np.random.default_rng(seed)
        visits = np.empty(c.leaves + c.inner, dtype=np.int64)
        by_slot, unmarked = np.zeros((number, c.slots), dtype=np.int64), np.zeros(c.inner, dtype=np.int64)
        for counts in by_slot:
            _split(as_arrays(c), self.weights, self.values, unmarked, times, rng, visits, counts)
        return self.by_entry(by_slot)


# -- what a round says ---------------------------------------------------------------------------------------------


class Reduced(NamedTuple):
    """What a round says: a product of entries, of factors and of a constant."""

    possible: bool  # all else says nothing if not
    uses: list[int]  # the entries that were used for certain
    factors: list[Key]
    constant: float


def reduced(
    d: idb.Diagram, given: Mapping[str, int], seen: Mapping[str, int], *, literal: bool = False, whole: bool = False
) -> Reduced:
    """What a round says; actions, contexts and observations are places. `whole`: as where there is no room to divide."""
    model = idb.compile(d)
    evidence = model.derived(idb.inference.literal if literal else idb.inference.folded)
    action = np.array([given[n.name] for n in (*model.decisions, *model.contexts)], dtype=np.int64)
    observed = np.array([seen.get(n.name, -1) for n in model.observed], dtype=np.int64)
    ints = np.zeros(3 * evidence.most_numbers + 2 * evidence.most_groups + len(evidence.program), dtype=np.int64)
    possible, constant = _reduce(*evidence.packed, action, observed, ints, whole)
    number, uses = int(ints[0]), int(ints[1])
    rest = ints[2:].tolist()
    places, rest = rest[: number + 1], rest[number + 1 :]
    keys = [tuple(rest[uses + first : uses + end]) for first, end in itertools.pairwise(places)]
    return Reduced(bool(possible), rest[:uses], keys, float(np.exp(constant)))


@njit(error_model="numpy")
def _reduce(program: Any, numbers: Any, action: Any, seen: Any, out: Any, whole: bool) -> Any:
    ints, floats = scratch(program, numbers)
    w = workspace(program, numbers, ints, floats)
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
    """The numbers that uses and factors stand for: means of the learned entries, then the known ones."""
    return np.array(idb.compile(d).parameter_vector(means))


def row_of(d: idb.Diagram, entry: int) -> tuple[str, int] | None:
    """The learned table that an entry is of, and the number of its row; None for a known entry."""
    model = idb.compile(d)
    for name, table in model.learned.items():
        place = entry - model.parameters.offsets[name]
        if 0 <= place < table.size:
            return name, place // table.states
    return None


def first_wrong(d: idb.Diagram, keys: Sequence[Key], sizes: Sequence[int] | None = None) -> int:
    """The number of the first key that is not a factor in a diagram, -1 if all are."""
    evidence = idb.compile(d).derived(idb.inference.folded)
    numbers = np.array([number for key in keys for number in key], dtype=np.int64)
    lengths = np.array([len(key) for key in keys] if sizes is None else sizes, dtype=np.int64)
    assert lengths.sum() == len(numbers)
    assert (lengths > 0).all()  # as files are checked before
    return int(factors.find_wrong(*evidence.packed, numbers, lengths))


class Limits(NamedTuple):
    """How large a factor in a diagram may be."""

    nodes: int
    terms: int
    entries: int  # learned and known ones


def limits_of(d: idb.Diagram) -> Limits:
    """How large a factor in a diagram may be."""
    evidence = idb.compile(d).derived(idb.inference.folded)
    entries = evidence.learned + len(idb.compile(d).parameters.known)
    return Limits(evidence.longest.nodes, evidence.longest.terms, entries)


class _Guarded:
    """Numbers that nobody may read beyond."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers

    def __getitem__(self, place: int) -> int:
        assert 0 <= place < len(self._numbers), f"{place} is beyond {len(self._numbers)} numbers"
        return self._numbers[place]


def is_factor(limits: Limits, key: Sequence[int]) -> bool:
    """Whether numbers are a factor, by the library's own code in Python, which fails if it reads beyond them."""
    parts = Parts._make([0] * len(Parts._fields))._replace(
        most_nodes=limits.nodes, most_terms=limits.terms, parameter_count=limits.entries
    )
    return bool(in_python(factors.is_factor)(parts, _Guarded(key), len(key)))


# -- chains of Gibbs sampling --------------------------------------------------------------------------------------


def number_of_groups(agent: idb.Thompson) -> int:
    """The number of groups, also of those whose rounds were all taken back."""
    return int(agent.state.ints[USED])


def next_group(agent: idb.Thompson) -> int:
    """The group that was visited last in turn."""
    return int(agent.state.ints[gibbs.NEXT])


def latent_counts(agent: idb.Thompson) -> list[np.ndarray]:
    """Of every group: how often each number of its key was used, in the latent counts that were drawn last."""
    starts = group_columns(agent.state.ints).starts
    latent = agent.state.floats[int(agent.state.ints[BEFORE]) :]
    return [latent[first:end].copy() for first, end in itertools.pairwise(starts.tolist())]


def pseudo_counts(agent: idb.Thompson) -> np.ndarray:
    """The pseudo-counts of all learned entries that the next action is drawn from: given latent counts."""
    return agent.state.floats[: agent.learner.evidence.learned].copy()


def with_all_derived_again(agent: idb.Thompson) -> idb.Thompson:
    """A copy of an agent of which all that is derived was spoilt, and derived again as after loading."""
    other = agent.copy()
    size = agent.learner.evidence.learned
    heads = slice(HEADER, HEADER + 2 * size)
    other.state.ints[heads] = -1
    for section in (gibbs.ALPHA, gibbs.COUNTED):
        first = section * size + (FIGURES if section else 0)
        other.state.floats[first : first + size] = np.nan
    set_state(other, other.inference.restored(other.learner.evidence, other.state))
    return other


def pseudo_counts_of_updates(agent: idb.Thompson, number: int) -> np.ndarray:
    """The pseudo-counts after each of so many updates without a round, one per row."""
    action, nothing = agent.learner.solver.blank_action(None, check=False), agent.learner.blank.seen
    kept = np.empty((number, agent.learner.evidence.learned))
    for row in kept:
        agent.inference.learn(*agent.learner.evidence.packed, *agent.state[:2], agent.rng, action, nothing, 0, NOW)
        row[:] = agent.state.floats[: len(row)]
    return kept


def moved(agent: idb.Thompson, means: np.ndarray, moves: int, *, tables: bool) -> np.ndarray:
    """Draws of all means, one per row, after so many moves of each: of pairs, or of tables."""
    state, after = agent.state.copy(), means.copy()
    _move(*agent.learner.evidence.packed, *state[:2], np.random.default_rng(0), after, moves, tables)
    return after


@njit(error_model="numpy")
def _move(program: Any, numbers: Any, ints: Any, floats: Any, rng: Any, draws: Any, moves: int, tables: bool) -> Any:
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    chain = gibbs.chain_in(w, ints, floats, pointer(floats, 0), False, pointer(ints, 0), 0)
    gibbs.begin_tuning(chain)
    w.places[0] = 0  # no round was just counted
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
    """The parameters of an agent's only regression and all means, after so many moves of whole tables."""
    state, after = agent.state.copy(), means.copy()
    size = len(parameters)
    current = state.fits[size * (size + 1) : size * (size + 2)]
    current[:] = parameters
    _rescale(*agent.learner.evidence.packed, *state, np.random.default_rng(seed), after, moves)
    return current, after


@njit(error_model="numpy")
def _rescale(program: Any, numbers: Any, ints: Any, floats: Any, fits: Any, rng: Any, means: Any, moves: int) -> Any:
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    chain = gibbs.chain_in(w, ints, floats, pointer(fits, 0), True, pointer(ints, 0), 0)
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
    """The logarithm of a posterior density up to a constant, its gradient, and minus its Hessian."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


def measured(agent: idb.Thompson, counts: Any, parameters: Any, scale: float = 1.0) -> Measured:
    """The density of the only regression of an agent, at parameters, with these counts of all entries."""
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
    """What a search for the best action of a group found."""

    search: str
    value: float  # of the action, as the search says
    evaluated: float  # of the action, by evaluating the circuit
    bound: float  # no action has a higher value, as the search says
    feasible: bool
    proves: bool  # whether the search goes on until nothing better is left


class Group:
    """Decisions whose choices are searched for together, under given means and in a given context."""

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
        if FORMS[_form_of(self._search, number)] != self.form:  # decisions that are to be sorted have lists that differ
            self.form = "general"

    def best_value(self) -> float:
        """The value of the best action, by trying all."""
        return float(_try_all(self._search, self._action.copy()))

    def search_all(self) -> list[SearchResult]:
        """What every search finds that is made for a group of this form."""
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
            if bound < np.inf:  # else it does not apply
                results.append(self._result("sweep", action, value, bound, budget > 0))
        action = self._action.copy()
        if self.form == "general" and _can_choose_and_sort(self._search, self.number):
            value, bound = _choose_and_sort(self._search, self.number, action)
            results.append(self._result("choose and sort", action, value, bound, bound < np.inf))
            action = self._action.copy()
        if self.form == "free":
            value = _try_patterns(self._search, action)
            results.append(self._result("try patterns", action, value, value, True))
        if self.form in ("sum", "product") and _assign(self._search, self.number, action):  # else it does not apply
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
    """What the reward of each group of decisions is composed of."""
    s = structure.decisions_of(idb.compile(d))
    return [FORMS[int(form)] for form in s.form]


def frontiers_of(d: idb.Diagram) -> list[list[int] | None]:
    """For each group of decisions, how many numbers later stages see of each; None where there are no stages."""
    s = structure.decisions_of(idb.compile(d))
    widths = np.diff(s.frontier_start).tolist()
    return [
        widths[first:last] if staged else None
        for staged, first, last in zip(s.staged, s.group_start, s.group_start[1:], strict=False)
    ]


def groups_of_decisions(
    d: idb.Diagram, means: Mapping[str, Any], context: Mapping[str, int], allowed: Any = None
) -> list[Group]:
    """The groups of decisions that are searched one after the other."""
    groups = [Group(d, means, context, number, allowed) for number in range(len(forms_of(d)))]
    return [group for group in groups if group.size]
