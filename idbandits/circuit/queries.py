"""Queries of a diagram under fixed means: expected reward, likelihood, posterior of latent nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from idbandits.circuit.model import Action, Likelihood, Means, Model, Rewards, compile
from idbandits.circuit.passes import bind, differentiate_logs, evaluate
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.values import is_missing
from idbandits.errors import ImpossibleObservationError, brief
from idbandits.kernel.array_types import Floats, Ints


def expected_reward(d: Diagram, action: Action, means: Means, context: Action | None = None) -> float:
    """Return the expected reward of an action.

    Parameters
    ----------
    d : Diagram
        Diagram with a reward.
    action : mapping of str to label
        Choice of every decision.
    means : mapping of str to array
        Means by learned table: P(1) of every row, in the shape of the rows; for more than two states, the probabilities
        of all states on an additional last axis.
    context : mapping of str to label, optional
        Value of every context; needed if the diagram has contexts.

    Returns
    -------
    float
        Expected reward of a round.

    Raises
    ------
    ActionError, ContextError, MeansError
        An argument is incomplete or out of range.

    Examples
    --------
    >>> d = Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> expected_reward(d, {"coin": 2}, {"heads": [0.1, 0.5, 0.8]})
    0.8
    """
    model = compile(d)
    return reward_at(model.rewards, model.action_vector(action, context), model.parameter_vector(means))


def reward_at(rewards: Rewards, action: Ints, parameters: Floats) -> float:
    """Return the expected reward of an action vector."""
    c = rewards.circuit
    weights, values = np.empty(c.slots), np.ones(c.leaves + c.inner)
    bind(rewards.program, action, parameters, weights)
    evaluate(rewards.program, weights, values, False)
    return float(sum(values[c.leaves + end - 1] for end in rewards.ends[1:]))


def log_likelihood(
    d: Diagram, action: Action, observation: Mapping[str, Any], means: Means, context: Action | None = None
) -> float:
    """Return the natural logarithm of the probability of an observation.

    Parameters
    ----------
    d : Diagram
        Diagram.
    action : mapping of str to label
        Choice of every decision.
    observation : mapping of str to label
        States of observed nodes; nodes that are left out or None are summed over.
    means : mapping of str to array
        Means by learned table, as for `expected_reward`.
    context : mapping of str to label, optional
        Value of every context.

    Returns
    -------
    float
        Logarithm of the probability; minus infinity if these means rule the observation out.

    Raises
    ------
    ImpossibleObservationError
        The diagram rules the observation out, whatever the means.

    Examples
    --------
    >>> d = Diagram("coins")
    >>> heads = d.observed("heads", [d.decision("coin", 3)])
    >>> log_likelihood(d, {"coin": 1}, {"heads": 1}, {"heads": [0.1, 0.5, 0.8]})  # log(0.5)
    -0.6931471805599453
    """
    model = compile(d)
    vector, seen = model.action_vector(action, context), model.observation_states(observation)
    values, _ = _log_values(model.likelihood, vector, seen, model.parameter_vector(means))
    if values[-1] == -np.inf:
        _check_possible(model, vector, seen, observation)
    return float(values[-1])


def posterior_of_latents(
    d: Diagram, action: Action, observation: Mapping[str, Any], means: Means, context: Action | None = None
) -> dict[str, Floats]:
    """Return the distribution of every latent node over its states, given an observation and the means.

    Parameters
    ----------
    d : Diagram
        Diagram.
    action : mapping of str to label
        Choice of every decision.
    observation : mapping of str to label
        States of observed nodes; nodes that are left out or None are summed over.
    means : mapping of str to array
        Means by learned table, as for `expected_reward`.
    context : mapping of str to label, optional
        Value of every context.

    Returns
    -------
    dict of str to array
        Probabilities of the states of each latent node, shape (states,).

    Raises
    ------
    ImpossibleObservationError
        The observation has probability zero.

    Examples
    --------
    >>> d = Diagram("rank 1")
    >>> row, column = d.latent("Z1", [d.decision("A1", 2)]), d.latent("Z2", [d.decision("A2", 2)])
    >>> seen = d.observed("X", [row, column], lambda r, c: r * c)
    >>> means = {"Z1": [0.5, 0.9], "Z2": [0.5, 0.9]}
    >>> posterior_of_latents(d, {"A1": 0, "A2": 1}, {"X": 0}, means)["Z1"].round(3).tolist()
    [0.909, 0.091]
    """
    model = compile(d)
    vector, seen = model.action_vector(action, context), model.observation_states(observation)
    likelihood = model.revealed
    values, weights = _log_values(likelihood, vector, seen, model.parameter_vector(means))
    if values[-1] == -np.inf:
        _check_possible(model, vector, seen, observation)
        raise ImpossibleObservationError(f"observation {_shown(observation)} has probability zero under these means")
    slopes = np.empty_like(values)
    differentiate_logs(likelihood.program, weights, values, slopes)
    posterior = {}
    for node in model.latents:
        first = likelihood.indicators[node.name]
        joint = np.exp(slopes[first : first + node.states] - values[-1])
        posterior[node.name] = joint / joint.sum()
    return posterior


def _log_values(
    likelihood: Likelihood, action: Ints, seen: Mapping[str, int], parameters: Floats
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return the logarithms of the values of all nodes, and of the weights of all slots."""
    c = likelihood.circuit
    weights, values = np.empty(c.slots), np.empty(c.leaves + c.inner)
    bind(likelihood.program, action, parameters, weights)
    with np.errstate(divide="ignore"):
        np.log(weights, out=weights)
        values[: c.leaves] = np.log(likelihood.leaves(seen))
    evaluate(likelihood.program, weights, values, True)
    return values, weights


def _check_possible(model: Model, action: Ints, seen: Mapping[str, int], observation: Mapping[str, Any]) -> None:
    """Raise unless some means give the observation a positive probability: then all learned entries at 1 do."""
    possible = np.concatenate([np.ones(model.parameters.learned_size), model.parameters.known])
    values, _ = _log_values(model.likelihood, action, seen, possible)
    if values[-1] == -np.inf:
        why = f"gives it probability zero for action {model.action_of(action)!r}, whatever the means"
        raise ImpossibleObservationError(f"observation {_shown(observation)}: diagram {model.name!r} {why}")


def _shown(observation: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {brief(value)}" for name, value in observation.items() if not is_missing(value))
