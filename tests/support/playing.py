"""Rounds that a world answered, as agents are handed them and as the oracle reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import reference
from diagrams import labels, random_diagram, random_means
from idbandits import Diagram, Learned, Thompson, World

Rng = np.random.Generator


class Played(NamedTuple):
    """One round: labels for an agent, places among the values for the oracle."""

    action: dict[str, Any]
    observation: dict[str, Any]  # nodes that were not seen are None or left out
    context: dict[str, Any] | None
    round: reference.Round


def play(d: Diagram, rng: Rng, count: int, unseen: float = 0.0, world: Diagram | None = None) -> list[Played]:
    """Rounds of random feasible actions in a world with random means, whose diagram may differ from the learner's."""
    truth = d if world is None else world
    real = World(truth, random_means(rng, truth), seed=int(rng.integers(2**32)))
    allowed = list(reference.actions(d))
    rounds = []
    for _ in range(count):
        action = labels(d, allowed[rng.integers(len(allowed))])
        outcome = real.step(action, real.context())
        seen = {name: v for name, v in outcome.seen_by(d).items() if rng.random() >= unseen}
        missing = {n.name: None for n in d.of_kind("observed") if n.name not in seen and rng.random() < 0.5}
        given, states = places(d, action | outcome.context), places(d, seen)
        rounds.append(Played(action, seen | missing, outcome.context or None, (given, states)))
    return rounds


def places(d: Diagram, values: dict[str, Any]) -> dict[str, int]:
    """Values as their places among all values of their nodes."""
    return {name: list(d.nodes[name].values).index(v) for name, v in values.items()}


def rounds_of(played: Sequence[Played]) -> list[reference.Round]:
    return [p.round for p in played]


def learn(agent: Thompson, played: Sequence[Played]) -> Thompson:
    for p in played:
        agent.update(p.action, p.observation, p.context)
    return agent


def learn_at_once(agent: Thompson, played: Sequence[Played]) -> Thompson:
    agent.update_many(*columns(agent.diagram, played))
    return agent


def columns(d: Diagram, played: Sequence[Played]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]:
    """Rounds as `update_many` is handed them."""

    def column(values: list[Any]) -> np.ndarray:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array

    actions = {n.name: column([p.action[n.name] for p in played]) for n in d.of_kind("decision")}
    seen = {n.name: column([p.observation.get(n.name) for p in played]) for n in d.of_kind("observed")}
    contexts = {n.name: column([(p.context or {})[n.name] for p in played]) for n in d.of_kind("context")}
    return actions, seen, contexts or None


def alpha_of(agent: Thompson) -> dict[str, np.ndarray]:
    return {name: p.alpha for name, p in agent.posterior().items()}


def assert_close(found: reference.Alpha, wanted: reference.Alpha, rtol: float = 1e-8, atol: float = 0.0) -> None:
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=rtol, atol=atol, err_msg=name)


def random_learning_diagram(seed: int) -> Diagram:
    """A random diagram with a learned table and an observed node, with priors other than 1."""
    rng = np.random.default_rng(seed)
    while True:
        d = random_diagram(rng, most_chance=5, most_joint=100)
        if d.learned and d.of_kind("observed"):
            saved = d.to_dict()
            for table in saved["learned"]:
                table["prior"] = rng.uniform(0.3, 3.0, size=d.learned[table["name"]].states).round(2).tolist()
            return Diagram.from_dict(saved)


def same_table_twice() -> Diagram:
    """Both latent nodes read the same row where both decisions are equal."""
    d, table = Diagram("twice"), Learned("table", prior=[1.5, 0.7])
    first, second = (d.latent(f"Z{k}", [d.decision(f"A{k}", 2)], table) for k in (1, 2))
    d.reward(d.observed("X", [first, second], lambda a, b: 0.1 + 0.3 * a + 0.5 * b))
    return d


def three_states() -> Diagram:
    """A latent node of three states picks the row of a learned table of three states."""
    d = Diagram("three states")
    mood = d.latent("Z", [d.decision("A", 2)], Learned("mood", prior=[1.0, 2.0, 0.5]), states=3)
    d.reward(
        d.observed("X", [mood], Learned("answer", prior=[[2.0, 1.0, 1.0], [1.0, 3.0, 1.0], [0.5, 1.0, 4.0]]), states=3)
    )
    return d


def in_context() -> Diagram:
    """Labelled items, a context, a row that a latent and an observed node select together, and a shared table."""
    d = Diagram("in context")
    who = d.context("who", ["new", "loyal"])
    item = d.decision("item", ["red", "green", "blue"])
    rows = Learned("rows", rows=3)
    liked = d.latent("liked", [who, item], Learned("liked"))
    bought = d.observed("bought", [liked, who], rows.select(lambda z, w: z + (w == "loyal")))
    d.observed("kept", [bought, liked], rows.select(lambda b, z: 2 if b and z else 0))
    d.observed("noise", cpd=rows[1])
    d.reward(bought)
    return d
