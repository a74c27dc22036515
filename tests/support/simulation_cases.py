"""Worlds, and learners in Python, for tests of `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import idbandits as idb
from diagrams import SHOP_CONTEXTS, SHOP_MEANS, random_diagram, random_means, shop
from idbandits import models
from played_rounds import world_of

# -- worlds --------------------------------------------------------------------------------------------------------


def labelled() -> idb.Diagram:
    """Return a diagram with latent and observed nodes of three states, with and without labels."""
    d = idb.Diagram("labelled")
    a, b = d.decision("A", 4), d.decision("B", ["x", "y"])
    mood = d.latent("mood", [a], states=3)
    said = d.observed("said", [mood, b], states=["bad", "fair", "good"])
    d.observed("hint", [mood], [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], states=3)
    d.reward(said, lambda s: {"bad": -1.0, "fair": 0.25, "good": 2.0}[s])
    return d


def random_world(seed: int) -> idb.World:
    """Return a random diagram with random means and probabilities of contexts."""
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance=6)
    chances = {n.name: rng.dirichlet(np.ones(n.states)) for n in d.of_kind("context")}
    return idb.World(d, random_means(rng, d), contexts=chances)


WORLDS: dict[str, Callable[[], idb.World]] = {
    "cascade": lambda: world_of(models.cascade(6, 2)),
    "cascade, learned": lambda: world_of(models.cascade(5, 2, learn_conditionals=True)),
    "position-based": lambda: world_of(models.position_based(5, 2)),
    "rank-1": lambda: world_of(models.rank1(3, 4)),
    "user browsing": lambda: world_of(models.user_browsing(5, 3)),
    "shop": lambda: idb.World(shop(), SHOP_MEANS, contexts=SHOP_CONTEXTS),
    "labelled": lambda: world_of(labelled(), 1),
    **{f"random {seed}": lambda seed=seed: random_world(seed) for seed in range(14)},
}


def coins(
    decision: str = "coin",
    choices: Any = 3,
    observed: str = "heads",
    states: Any = 2,
    context: str = "",
    values: Any = 2,
) -> idb.Diagram:
    """Return a diagram of a decision among coins, in a context if it has a name."""
    d = idb.Diagram("coins")
    parents = [d.decision(decision, choices)]
    if context:
        parents.append(d.context(context, values))
    d.reward(d.observed(observed, parents, states=states), lambda v: float(v == 1))
    return d


def coin_world() -> idb.World:
    """Return a world of three coins, the last of which is best."""
    return idb.World(coins(), {"heads": [0.2, 0.5, 0.8]})


# -- learners in Python --------------------------------------------------------------------------------------------


class Wrapped:
    """Thompson agent that `simulate` treats as a learner in Python."""

    def __init__(self, agent: idb.Thompson) -> None:
        self.agent = agent
        self.diagram = agent.diagram

    def __deepcopy__(self, memo: dict[int, Any]) -> Wrapped:
        return Wrapped(self.agent.copy())

    def act(self, **context: Any) -> dict[str, Any]:
        return self.agent.act(**context)

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any], **context: Any) -> None:
        self.agent.update(action, observation, **context)


class Greedy:
    """Learner without a diagram: takes the first choice with the best average."""

    def __init__(self, decision: str, choices: int, reward: str) -> None:
        self.decision, self.reward = decision, reward
        self.sums, self.times = [0.0] * choices, [0] * choices

    def act(self) -> dict[str, Any]:
        means = [s / n if n else 1.0 for s, n in zip(self.sums, self.times, strict=True)]
        return {self.decision: means.index(max(means))}

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any]) -> None:
        self.sums[action[self.decision]] += observation[self.reward]
        self.times[action[self.decision]] += 1


class Always(Greedy):
    """Learner that always takes the same choice."""

    def __init__(self, choice: int) -> None:
        super().__init__("coin", 3, "heads")
        self.choice = choice

    def act(self) -> dict[str, Any]:
        return {"coin": self.choice}


class Seeded:
    """Learner that chooses at random."""

    def __init__(self, seed: Any = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self) -> dict[str, Any]:
        return {"coin": int(self.rng.integers(3))}

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any]) -> None:
        pass


# -- results -------------------------------------------------------------------------------------------------------

TOTALS = ["learner", "run", "round", "reward", "regret"]


def assert_same_totals(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Assert that results are equal except for times."""
    frames = (frame[TOTALS].astype({"learner": str}).reset_index(drop=True) for frame in (one, other))
    pd.testing.assert_frame_equal(*frames, check_exact=True)
