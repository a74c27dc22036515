"""Rounds played in a world, in the forms of agents and of the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import reference
from diagrams import labels, random_means
from feature_diagrams import random_request
from idbandits import Diagram, Result, Thompson, World
from internals import begin

Rng = np.random.Generator


class Played(NamedTuple):
    """Round with labels for agents and indices for the oracle."""

    action: dict[str, Any]
    observation: dict[str, Any]  # missing nodes are None or omitted
    context: dict[str, Any] | None
    round: reference.Round


def play(d: Diagram, rng: Rng, count: int, unseen: float = 0.0, world: Diagram | None = None) -> list[Played]:
    """Play random feasible actions in a world with random means, whose diagram may differ from that of the learner."""
    truth = d if world is None else world
    requests = {n.name: partial(random_request, n) for n in truth.of_kind("context") if n.features is not None}
    real = World(truth, random_means(rng, truth), seed=int(rng.integers(2**32)), contexts=requests or None)
    actions = list(reference.actions(d))
    rounds = []
    for _ in range(count):
        action = labels(d, actions[rng.integers(len(actions))])
        outcome = real.step(action, real.context())
        seen = {name: v for name, v in outcome.seen_by(d).items() if rng.random() >= unseen}
        missing = {n.name: None for n in d.of_kind("observed") if n.name not in seen and rng.random() < 0.5}
        round = places(d, action | outcome.context), places(d, seen)
        rounds.append(Played(action, seen | missing, outcome.context or None, round))
    return rounds


def places(d: Diagram, values: Mapping[str, Any]) -> dict[str, int]:
    """Convert values to indices."""
    return {name: 0 if d.nodes[name].features else list(d.nodes[name].values).index(v) for name, v in values.items()}


def rounds_of(played: Sequence[Played]) -> list[reference.Round]:
    """Return rounds in the form of the oracle."""
    return [p.round for p in played]


def learn(agent: Thompson, played: Sequence[Played]) -> Thompson:
    """Return the agent after learning rounds one by one."""
    for p in played:
        agent.update(p.action, p.observation, p.context)
    return agent


def learn_at_once(agent: Thompson, played: Sequence[Played]) -> Thompson:
    """Return the agent after learning rounds as a log."""
    agent.update_many(*columns(agent.diagram, played))
    return agent


def columns(d: Diagram, played: Sequence[Played]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]:
    """Return rounds as arguments of `update_many`."""

    def column(values: list[Any]) -> np.ndarray:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array

    actions = {n.name: column([p.action[n.name] for p in played]) for n in d.of_kind("decision")}
    seen = {n.name: column([p.observation.get(n.name) for p in played]) for n in d.of_kind("observed")}
    contexts = {n.name: column([(p.context or {})[n.name] for p in played]) for n in d.of_kind("context")}
    return actions, seen, contexts or None


def alpha_of(agent: Thompson) -> dict[str, np.ndarray]:
    """Return the pseudo-counts of an agent."""
    return {name: p.alpha for name, p in agent.posterior().items()}


def assert_close(alpha: reference.Alpha, wanted: reference.Alpha, rtol: float = 1e-8, atol: float = 0.0) -> None:
    """Assert that pseudo-counts are close to the expected ones."""
    assert alpha.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(alpha[name], wanted[name], rtol=rtol, atol=atol, err_msg=name)


# -- acting learner ------------------------------------------------------------------------------------------------


def world_of(d: Diagram, seed: int = 0) -> World:
    """Return a world with random means."""
    return World(d, random_means(np.random.default_rng(seed), d), seed=seed)


def go_on(world: World, learner: Any, rounds: int) -> list[tuple[Any, ...]]:
    """Act and learn; return action, observation, reward and regret of each round."""
    contextual = bool(world.diagram.of_kind("context"))
    history = []
    for _ in range(rounds):
        context = {"context": world.context()} if contextual else {}
        action = learner.act(**context)
        outcome = world.step(action, **context)
        seen = outcome.seen_by(getattr(learner, "diagram", world.diagram))
        learner.update(action, seen, **context)
        history.append((action, seen, outcome.reward, outcome.regret))
    return history


def totals_by_hand(world: World, learner: Any, name: str, seed: int, run: int, rounds: int) -> np.ndarray:
    """Return total reward and regret of a run of `simulate` by calling `act` and `update`."""
    history = go_on(*begin(world, learner, name, seed, run), rounds)
    return np.cumsum([round[2:] for round in history], axis=0)


def totals_of(result: Result, name: str, run: int) -> np.ndarray:
    """Return total reward and regret at every checkpoint of a run."""
    frame = result.frame
    return frame[(frame["learner"] == name) & (frame["run"] == run)][["reward", "regret"]].to_numpy()
