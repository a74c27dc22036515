"""Propensities of the logging policy, and policies that are columns of the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import brief
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.logs.evaluate.policy_answers import PolicyError, is_action, resembles_action
from idbandits.logs.evaluate.propensity_sums import SAME, cells_of, is_constant, sum_error
from idbandits.logs.evaluate.target import Groups, Target, target_of
from idbandits.logs.rounds import Rounds

Places = tuple[int, ...]
COMPLETE = 0.999  # least total propensity of the distinct lists of a context, for sums over them to be marginals
MOST_ACTIONS = 200_000  # that are counted one by one


class Logged(NamedTuple):
    """Probabilities that a policy made the logged choices of some decisions."""

    of: Callable[[Places], Floats | None]  # by round; None if the log does not determine them
    estimated: bool = False
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()  # that speak against them


def column_names(policy: Any) -> list[str]:
    """Return the columns of the log that a policy or a propensity names."""
    if isinstance(policy, str):
        return [] if policy in ("uniform", "estimated") else [policy]
    if isinstance(policy, (list, tuple)) and all(isinstance(name, str) for name in policy):
        return list(policy)
    if isinstance(policy, Mapping) and policy and all(isinstance(name, str) for name in policy.values()):
        return [str(name) for name in policy.values()]
    return []


def is_columns(policy: Any, model: Model, rounds: Rounds) -> bool:
    """Return whether a policy is given by columns of the log, or by names that are neither columns nor choices."""
    names = column_names(policy)
    if not names or is_action(model, policy):
        return False
    if isinstance(policy, Mapping):
        decisions = {node.name for node in model.decisions}
        keys = {name for key in policy for name in (key if isinstance(key, (tuple, frozenset)) else (key,))}
        return keys <= decisions and any(name in rounds.extra for name in names)
    return any(name in rounds.extra for name in names) or not resembles_action(model, policy)


def propensities_of(propensity: Any, model: Model, rounds: Rounds, groups: Groups, rng: Rng) -> Logged:
    """Return the propensities that `propensity` names: columns, "uniform", "estimated", or a policy."""
    if isinstance(propensity, str) and propensity == "uniform":
        return _uniform(model, rounds)
    if isinstance(propensity, str) and propensity == "estimated":
        return _estimated(model, rounds, groups)
    names = column_names(propensity)
    if names and all(name in rounds.extra for name in names):
        return _by_columns("propensity", propensity, model, rounds, groups)
    decisions = {node.name for node in model.decisions}
    by_decision = bool(names) and isinstance(propensity, Mapping) and propensity.keys() <= decisions
    if isinstance(propensity, (str, list, tuple)) or (by_decision and not resembles_action(model, propensity)):
        missing = next((name for name in names if name not in rounds.extra), propensity)
        raise PolicyError(f"propensity must name columns of the log, got {brief(missing)}")
    target = target_of(propensity, model, rounds, groups, rng, "propensity")
    return Logged(lambda places: target.of(places, rounds.choices))


def policy_columns(policy: Any, model: Model, rounds: Rounds, groups: Groups) -> Target | Logged:
    """Return a policy that is given by columns: its actions, or the probabilities of the logged ones."""
    names = column_names(policy)
    if missing := [name for name in names if name not in rounds.extra]:
        raise PolicyError(f"policy must name columns of the log, got {brief(missing[0])}")
    columns = [np.asarray(rounds.extra[name]) for name in names]
    if all(column.dtype.kind == "f" for column in columns):
        return _by_columns("policy", policy, model, rounds, groups)
    if len(columns) != len(model.decisions):
        needed = f"one column for each of the {len(model.decisions)} decisions, or columns of probabilities"
        raise PolicyError(f"policy must name {needed}, got {brief(names)}")
    if isinstance(policy, Mapping):
        columns = [np.asarray(rounds.extra[policy[node.name]]) for node in model.decisions]
    actions = np.empty((len(rounds), len(columns)), np.int64)
    for k, (node, column) in enumerate(zip(model.decisions, columns, strict=True)):
        labels, inverse = np.unique(column.astype(object).astype(str), return_inverse=True)
        example = {str(value): value for value in column.tolist()}
        places = [node.index(example[label]) for label in labels.tolist()]
        if None in places:
            wrong = brief(example[labels.tolist()[places.index(None)]])
            raise PolicyError(f"policy: {node.name!r} must be one of {node.allowed()}, got {wrong}")
        actions[:, k] = np.array(places, np.int64)[inverse.ravel()]
    model.feasibility.check_columns([actions[:, k] for k in range(actions.shape[1])])
    return _compressed(actions, rounds, groups)


def _compressed(actions: Ints, rounds: Rounds, groups: Groups) -> Target:
    """Return the policy that takes an action of its own in each round, with equal rounds as one group."""
    rows = np.column_stack([groups.of_round, actions])
    _, example, of_round = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    first = np.arange(len(example) + 1, dtype=np.int64)
    own = np.ascontiguousarray(actions[example])
    return Target(of_round.ravel().astype(np.int64), first, own, np.ones(len(example)))


def _by_columns(what: str, spec: Any, model: Model, rounds: Rounds, groups: Groups) -> Logged:
    """Return probabilities in columns: of whole actions, of each decision, or of sets of decisions by name."""
    places = {node.name: k for k, node in enumerate(model.decisions)}
    every = tuple(range(len(places)))
    known: dict[Places, Floats] = {}
    if isinstance(spec, str):
        known[every] = _checked(what, spec, rounds)
    elif isinstance(spec, Mapping):
        for key, name in spec.items():
            members = (key,) if isinstance(key, str) else tuple(key)
            if wrong := [member for member in members if member not in places]:
                raise PolicyError(f"{what} must map decisions to columns, got {brief(wrong[0])}")
            known[tuple(sorted(places[member] for member in members))] = _checked(what, name, rounds)
    else:
        if len(spec) != len(places):
            one = f"{len(places)} columns, one per decision" if len(places) > 1 else "one column"
            raise PolicyError(f"{what} must name {one}, got {brief(list(spec))}; a text names one of whole actions")
        known = {(k,): _checked(what, name, rounds) for k, name in enumerate(spec)}
    notes: tuple[str, ...] = ()
    conflicts = model.feasibility.conflicts
    if isinstance(spec, (list, tuple)) and conflicts.any() and not _are_marginal(known, rounds, groups):
        known = {every[: k + 1]: np.prod([known[(j,)] for j in range(k + 1)], axis=0) for k in every}
        text = f"{what}: probabilities are read as those of each choice given the choices above"
        notes = (f"{text}. Pass a mapping of decisions to columns for those of each choice alone.",)
    marginal: list[Target | None] = []

    def of(wanted: Places) -> Floats | None:
        if wanted in known:
            return known[wanted]
        if all((k,) in known for k in wanted) and not conflicts[np.ix_(wanted, wanted)].any():
            return np.asarray(np.prod([known[(k,)] for k in wanted], axis=0))
        if every in known:
            if not marginal:
                marginal.append(_lists(known[every], rounds, groups, len(places)))
            if marginal[0] is not None:
                return marginal[0].of(wanted, rounds.choices)
        return None

    weights = rounds.weights if len(rounds.weights) else np.ones(len(rounds))
    cells = {own: cells_of(groups.of_round, rounds.choices[:, list(own)]) for own in known}
    wrong_sums = [sum_error(known[own], weights, groups.of_round, cells[own]) for own in known]
    findings = tuple(dict.fromkeys(text for text in wrong_sums if text is not None))
    return Logged(of, notes=notes, findings=findings if what == "propensity" else ())


def _are_marginal(known: Mapping[Places, Floats], rounds: Rounds, groups: Groups) -> bool:
    """Return whether probabilities of decisions depend on the context and the choice alone, with a sum of at most 1."""
    for (k,), column in known.items():
        cells = cells_of(groups.of_round, rounds.choices[:, k])
        if not is_constant(column, cells):
            return False
        example = cells.example
        if np.bincount(groups.of_round[example], column[example]).max(initial=0.0) > 1 + SAME:
            return False
    return True


def _checked(what: str, name: str, rounds: Rounds) -> Floats:
    """Return a column of probabilities."""
    try:
        column = np.asarray(rounds.extra[name], dtype=np.float64)
    except (TypeError, ValueError):
        raise PolicyError(f"{what}: column {name!r} must have numbers, got text") from None
    valid = (column >= 0) & (column <= 1) if what == "policy" else (column > 0) & (column <= 1)
    if not valid.all():
        at = int(np.argmax(~valid))
        needed = "from 0 to 1" if what == "policy" else "> 0 and <= 1"
        raise PolicyError(f"{what}: column {name!r} must have probabilities {needed}, got {column[at]} in row {at}")
    return column


def _lists(propensity: Floats, rounds: Rounds, groups: Groups, decisions: int) -> Target | None:
    """Return the logging policy if the lists in the log, with their propensities, are all that it shows."""
    cells = cells_of(groups.of_round, rounds.choices[:, :decisions])
    if not is_constant(propensity, cells):
        return None  # the policy changed within the log
    example = cells.example
    of_group, shares = groups.of_round[example], propensity[example]
    total = np.bincount(of_group, shares, len(groups))
    if total.min(initial=1.0) < COMPLETE or total.max(initial=1.0) > 2 - COMPLETE:
        return None
    first = np.searchsorted(of_group, np.arange(len(groups) + 1)).astype(np.int64)  # sorted by group first
    actions = np.ascontiguousarray(rounds.choices[example][:, :decisions])
    return Target(groups.of_round, first, actions, shares)


def _estimated(model: Model, rounds: Rounds, groups: Groups) -> Logged:
    """Return shares of the logged choices among the rounds with the same context."""
    weights = rounds.weights if len(rounds.weights) else np.ones(len(rounds))
    of_round = groups.of_round
    notes = ["Propensities are estimated from the log: estimates are biased if choices depended on anything else."]
    if any(node.features is not None for node in model.contexts):
        of_round = np.zeros(len(rounds), np.int64)
        notes.append("Features of contexts are ignored by estimated propensities.")
    totals = np.bincount(of_round, weights)

    def of(places: Places) -> Floats:
        rows = np.column_stack([of_round, rounds.choices[:, list(places)]])
        _, inverse = np.unique(rows, axis=0, return_inverse=True)
        shares = np.bincount(inverse.ravel(), weights)[inverse.ravel()] / totals[of_round]
        return np.asarray(shares)

    return Logged(of, estimated=True, notes=tuple(notes))


def _uniform(model: Model, rounds: Rounds) -> Logged:
    """Return the propensities of a policy that draws uniformly among all feasible actions."""
    conflicts, decisions = model.feasibility.conflicts, model.decisions
    states = [node.states for node in decisions]
    free = not conflicts.any()
    joined = conflicts | np.eye(len(states), dtype=np.bool_)
    is_clique = bool((joined == (joined @ joined)).all()) and model.feasibility.items is None
    equal = all(
        len({states[j] for j in np.flatnonzero(row)}) == 1 for row in joined
    )  # decisions that exclude each other have as many choices

    def of(places: Places) -> Floats:
        if free or (is_clique and equal):
            share, taken = 1.0, list[int]()
            for k in places:
                share /= states[k] - sum(bool(conflicts[k, j]) for j in taken)
                taken.append(k)
            return np.full(len(rounds), share)
        return _by_enumeration(model, rounds, places)

    return Logged(of)


def _by_enumeration(model: Model, rounds: Rounds, places: Places) -> Floats:
    """Return the shares of all feasible actions that make the logged choices of some decisions."""
    actions = []
    for steps, action in enumerate(model.feasibility.all_actions()):
        if action is not None:
            actions.append(action)
        if steps > 10 * MOST_ACTIONS or len(actions) > MOST_ACTIONS:
            size = f"at most {MOST_ACTIONS:,} feasible actions, or groups of equal choices"
            got = f"{math.prod(node.states for node in model.decisions):,} combinations"
            raise PolicyError(f'propensity "uniform" needs {size}, got {got}: pass columns instead')
    table = np.array(actions, np.int64)
    own, counts = np.unique(table[:, list(places)], axis=0, return_counts=True)
    shares = {tuple(row): number / len(table) for row, number in zip(own.tolist(), counts.tolist(), strict=True)}
    logged, inverse = np.unique(rounds.choices[:, list(places)], axis=0, return_inverse=True)
    found: Sequence[float] = [shares.get(tuple(row), 0.0) for row in logged.tolist()]
    return np.array(found)[inverse.ravel()]
