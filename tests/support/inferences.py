"""All inferences, the built-in ones and one that a user wrote, and what shows of their agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from idbandits.circuit.model import Model
from idbandits.inference.evidence import Evidence
from idbandits.inference.groups import (
    DONE,
    FIGURES,
    IMPOSSIBLE,
    ROUNDS,
    USED,
    WIDTH,
    State,
    counts_at,
    keys_at,
    no_groups,
)
from playing import learn, play


class Counts:
    """Conjugate counts in plain Python, for diagrams in which every chance node is seen: an inference of one's own."""

    def __init__(self, weight: float = 1.0) -> None:
        self.settings: dict[str, Any] = {"weight": weight}

    def evidence(self, model: Model) -> Evidence:
        self.model = model
        return model.once("evidence", lambda: Evidence(model))

    def start(self, model: Model, evidence: Evidence, rng: np.random.Generator) -> State:
        return no_groups(np.concatenate([evidence.prior, np.zeros(4)]))

    def belief(self, evidence: Evidence, state: State, rng: np.random.Generator) -> np.ndarray:
        return state.floats[: evidence.learned]

    def learn(
        self, program: Any, numbers: Any, ints: Any, floats: Any, rng: Any, action: Any, seen: Any, times: int, effort: int
    ) -> int:  # fmt: skip
        d = self.model._diagram
        given = dict(zip((n.name for n in [*self.model.decisions, *self.model.contexts]), action.tolist(), strict=True))
        values = dict(zip((n.name for n in self.model.observed), seen.tolist(), strict=True))
        if min(values.values()) < 0:  # not all was seen: nothing is learned
            ints[ROUNDS] += times
            return DONE
        if reference.known_part(d, given | values) == 0:
            return IMPOSSIBLE
        ints[ROUNDS] += times
        for (name, at), uses in reference.entries_used(d, given | values).items():
            table = d.learned[name]
            place = int(np.ravel_multi_index(at, (*table.shape, table.states)))
            floats[self.model.parameters.offsets[name] + place] += times * uses * self.settings["weight"]
        return DONE


MAKE: dict[str, Callable[[], Any]] = {
    "exact": idb.Exact,
    "variational": idb.Variational,
    "literal": lambda: idb.Variational(2, literal=True),
    "random": lambda: idb.Variational(start="random"),
    "incremental": idb.Incremental,
    "moments": idb.Moments,
    "gibbs": idb.Gibbs,
    "ep": idb.EP,
    "particles": idb.Particles,
    "own": Counts,
}
ALL = list(MAKE)
CONJUGATE = [name for name in ALL if name != "particles"]  # where everything is seen
GROUPED = ("variational", "literal", "random", "gibbs", "ep")
SEES_ALL = ("exact", "own")  # these are handed the revealed diagram
every = pytest.mark.parametrize("name", ALL)


def agent_of(name: str, d: idb.Diagram, seed: int = 0) -> idb.Thompson:
    return idb.Thompson(d.revealed() if name in SEES_ALL else d, MAKE[name](), seed=seed)


def position_based() -> idb.Diagram:
    return idb.models.position_based(4, 2)


def taught(name: str, d: idb.Diagram, rounds: int = 15, seed: int = 0, unseen: float = 0.0) -> idb.Thompson:
    agent = agent_of(name, d, seed)
    return learn(agent, play(agent.diagram, np.random.default_rng(seed), rounds, unseen, world=d))


def belief(agent: idb.Thompson) -> dict[str, Any]:
    """All of an agent that shows, now and later."""
    seen = {name: (p.mean.tolist(), p.sd.tolist(), p.alpha.tolist()) for name, p in agent.posterior().items()}
    return {"belief": seen, "rounds": agent.rounds, "randomness": agent._rng.bit_generator.state}


def groups(agent: idb.Thompson) -> dict[tuple[int, ...], int]:
    """How often each group of rounds was counted: its part, choices and observations."""
    ints = agent._state.ints
    used, width, keys, counts = int(ints[USED]), int(ints[WIDTH]), keys_at(ints), counts_at(ints)
    every = ints[keys : keys + used * width].reshape(used, width).tolist()
    return {tuple(k): int(n) for k, n in zip(every, ints[counts : counts + used], strict=True) if n}


def determined(agent: idb.Thompson) -> np.ndarray:
    """The pseudo-counts of what is determined, beside the groups."""
    size = agent._evidence.learned
    return agent._state.floats[size + FIGURES : 2 * size + FIGURES]


def truth(seed: int = 5) -> idb.World:
    means = {"attraction": [0.9, 0.5, 0.2, 0.6], "examination": [0.9, 0.4]}
    return idb.World(position_based(), means, seed=seed)
