"""Policies as distributions over encoded actions, one for each context that occurs in the log."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import brief
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, kernel
from idbandits.logs.evaluate.policy_answers import PolicyError, distribution, looked_up, resembles_action, table_of
from idbandits.logs.evaluate.term_values import INT_ROWS
from idbandits.logs.rounds import Rounds

MOST_DRAWS, ALL_DRAWS = 1000, 200_000  # of an agent's actions: in one context, and in all together


class Groups(NamedTuple):
    """Distinct contexts of a log, and the one of each round."""

    of_round: Ints
    example: Ints  # a round of each group

    def __len__(self) -> int:
        """Return the number of distinct contexts."""
        return len(self.example)


class Target(NamedTuple):
    """Policy: the actions it may take in each distinct context, with their probabilities."""

    group: Ints  # of each round
    first: Ints  # the actions of group g are first[g] to first[g + 1] - 1
    actions: Ints  # (actions, decisions)
    probability: Floats
    draws: int = 0  # that probabilities are shares of; 0 if they are exact

    def of(self, places: tuple[int, ...], choices: Ints) -> Floats:
        """Return the probability that the policy makes the logged choices of some decisions, for each round."""
        out = np.empty(len(choices))
        chosen = np.ascontiguousarray(choices[:, : self.actions.shape[1]])
        agreeing(chosen, self.group, self.first, self.actions, self.probability, np.array(places, np.int64), out)
        return out

    def complete(self, places: tuple[int, ...], choices: Ints, rounds: Ints, rng: Rng) -> Ints:
        """Return the choices of some rounds, with decisions other than `places` drawn given the ones there."""
        result = np.ascontiguousarray(choices[rounds])
        numbers = rng.random(len(rounds))
        at = np.array(places, np.int64)
        completed(result, self.group[rounds], self.first, self.actions, self.probability, at, numbers)
        return result


@kernel(types.void(INT_ROWS, INTS, INTS, INT_ROWS, FLOATS, INTS, FLOATS))
def agreeing(
    choices: Ints, group: Ints, first: Ints, actions: Ints, probability: Floats, places: Ints, out: Floats
) -> None:
    """Sum the probabilities of the actions that agree with each round in some decisions."""
    for i in range(len(choices)):
        total = 0.0
        for row in range(first[group[i]], first[group[i] + 1]):
            agrees = True
            for k in places:
                if actions[row, k] != choices[i, k]:
                    agrees = False
                    break
            if agrees:
                total += probability[row]
        out[i] = total


@kernel(types.void(INT_ROWS, INTS, INTS, INT_ROWS, FLOATS, INTS, FLOATS))
def completed(
    choices: Ints, group: Ints, first: Ints, actions: Ints, probability: Floats, places: Ints, numbers: Floats
) -> None:
    """Replace each action by one drawn among those that agree with it in some decisions; leave it if none does."""
    for i in range(len(choices)):
        total, wanted = 0.0, -1
        for sweep in range(2):
            limit, below = numbers[i] * total, 0.0
            for row in range(first[group[i]], first[group[i] + 1]):
                agrees = True
                for k in places:
                    if actions[row, k] != choices[i, k]:
                        agrees = False
                        break
                if agrees and probability[row] > 0:
                    below += probability[row]
                    wanted = row
                    if sweep and below >= limit:
                        break
            total = below
        if wanted >= 0:
            for k in range(actions.shape[1]):
                choices[i, k] = actions[wanted, k]


def groups_of(model: Model, rounds: Rounds) -> Groups:
    """Return the distinct contexts of a log; with features, contexts with different features are distinct."""
    columns: Any = rounds.choices[:, len(model.decisions) :]
    if rounds.features.size:
        columns = np.column_stack([columns, rounds.features])
    if not len(rounds) or columns.shape[1] == 0:
        return Groups(np.zeros(len(rounds), np.int64), np.zeros(min(len(rounds), 1), np.int64))
    _, example, of_round = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return Groups(of_round.ravel().astype(np.int64), example.astype(np.int64))


def context_of(model: Model, rounds: Rounds, at: int) -> dict[str, Any]:
    """Return the context of a round by labels."""
    row = rounds.choices[at, len(model.decisions) :]
    context: dict[str, Any] = {}
    for node, place in zip(model.contexts, row.tolist(), strict=True):
        if node.features is not None:
            raise PolicyError(f"policy must be given by columns of the log: context {node.name!r} has features")
        context[node.name] = node.values[place]
    return context


def target_of(
    policy: Any, model: Model, rounds: Rounds, groups: Groups, rng: Rng, what: str = "policy"
) -> Target:  # fmt: skip
    """Return a policy (agent, action, function or table) as a distribution for each context of a log."""
    draws, decisions = 0, {node.name for node in model.decisions}
    ask: Callable[[dict[str, Any]], Any]
    if callable(getattr(policy, "act", None)):
        draws = int(np.clip(ALL_DRAWS // max(1, len(groups)), 50, MOST_DRAWS))
        ask = _acts_of(policy, draws, int(rng.integers(2**63)), bool(model.contexts))
    elif resembles_action(model, policy) or (isinstance(policy, Mapping) and policy.keys() == decisions):
        ask = _always(policy)
    elif isinstance(policy, Mapping):
        ask = looked_up(policy, model, what)
    elif callable(policy):
        ask = _function(policy, {node.name: list(node.values) for node in model.decisions})
    elif hasattr(policy, "columns") or hasattr(policy, "column_names"):
        ask = looked_up(table_of(policy, model, what), model, what)
    else:
        needed = "an agent, an action, a function of the context, a table, or columns of the log"
        raise PolicyError(f"{what} must be {needed}, got {brief(policy)}")
    actions: list[Ints] = []
    probabilities: list[Floats] = []
    encoded: dict[Any, Ints] = {}
    for at in groups.example.tolist():
        own, shares = distribution(ask(context_of(model, rounds, at)), model, encoded, what)
        actions.append(own)
        probabilities.append(shares)
    first = np.cumsum([0, *(len(own) for own in probabilities)]).astype(np.int64)
    table = np.concatenate([np.empty((0, len(model.decisions)), np.int64), *actions])
    return Target(groups.of_round, first, table, np.concatenate([np.empty(0), *probabilities]), draws)


def _acts_of(agent: Any, draws: int, seed: int, contextual: bool) -> Callable[[dict[str, Any]], Any]:
    """Return a function of the context that draws an agent's actions; the agent does not change."""
    own = copy_of(agent, seed)

    def ask(context: dict[str, Any]) -> Any:
        counts: dict[tuple[Any, ...], list[Any]] = {}
        for _ in range(draws):
            action = own.act(context) if contextual else own.act()
            counts.setdefault(tuple(action.values()), [action, 0])[1] += 1
        return [(action, number / draws) for action, number in counts.values()]

    return ask


def copy_of(agent: Any, seed: int) -> Any:
    """Return a copy of an agent, with random numbers of its own where it offers that."""
    try:
        return agent.copy(seed)
    except (AttributeError, TypeError):
        return copy.deepcopy(agent)


def _function(policy: Callable[..., Any], allowed: dict[str, list[Any]]) -> Callable[[dict[str, Any]], Any]:
    """Return a function of the context; one with an argument `allowed` also gets the choices of each decision."""
    try:
        parameters = inspect.signature(policy).parameters
    except (TypeError, ValueError):  # of compiled functions
        return policy
    named = {"allowed": allowed} if "allowed" in parameters else {}
    positional = [
        name
        for name, own in parameters.items()
        if own.kind in (own.POSITIONAL_ONLY, own.POSITIONAL_OR_KEYWORD, own.VAR_POSITIONAL) and name != "allowed"
    ]
    return lambda context: policy(context, **named) if positional else policy(**named)


def _always(action: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda _: action
