"""All inferences of the tests, with their expected properties.

Add a new inference as a line in INFERENCES; the conformance suite and all tests of every inference then include it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import random_learning_diagram
from idbandits.inference import DONE, FEATURES, IMPOSSIBLE, Evidence, Inference, Round, State
from played_rounds import learn, play


class Counts(Inference):
    """Custom inference: conjugate counts in Python for fully observed diagrams."""

    def __init__(self, weight: float = 1.0) -> None:
        self.settings: dict[str, Any] = {"weight": weight}

    def learn(self, evidence: Evidence, state: State, rng: np.random.Generator, round_: Round) -> int:
        model = evidence.model
        nodes = {n.name: n for n in (*model.decisions, *model.contexts, *model.observed)}
        values = dict(zip(nodes, [*round_.action.tolist(), *round_.seen.tolist()], strict=True))
        if -1 in values.values():  # not everything was seen: nothing is learned
            return DONE
        d: Any = SimpleNamespace(nodes=nodes, learned=model.learned)
        if reference.known_part(d, values) == 0:
            return IMPOSSIBLE
        for (name, entry), uses in reference.entries_used(d, values).items():
            table = model.learned[name]
            place = model.parameters.offsets[name] + int(np.ravel_multi_index(entry, (*table.shape, table.states)))
            state.floats[place] += round_.times * uses * self.settings["weight"]
        return DONE


class CountsOfFeatures(Counts):
    """Custom inference for tables with features: its states contain the prior as second section."""

    capabilities = frozenset({FEATURES})


class Case(NamedTuple):
    """Constructor of an inference and its expected properties."""

    make: Callable[[], Any]
    revealed: bool = False  # requires the revealed diagram, in which nothing is latent
    conjugate: bool = True  # equals conjugate counts if everything is observed
    grouped: bool = False  # keeps groups of equal rounds
    sequential: bool = False  # learns a log like its rounds one by one
    revisable: bool = False  # can remove rounds
    sampled: bool = False  # posterior is a sample


INFERENCES: dict[str, Case] = {
    "exact": Case(idb.Exact, revealed=True, sequential=True, revisable=True),
    "variational": Case(idb.Variational, grouped=True, revisable=True),
    "literal": Case(lambda: idb.Variational(2, literal=True), grouped=True, revisable=True),
    "random": Case(lambda: idb.Variational(start="random"), grouped=True, revisable=True),
    "incremental": Case(idb.Incremental, sequential=True),
    "moments": Case(idb.Moments, sequential=True),
    "gibbs": Case(idb.Gibbs, grouped=True, revisable=True, sampled=True),
    "ep": Case(idb.EP, grouped=True, revisable=True),
    "particles": Case(idb.Particles, conjugate=False, sequential=True, sampled=True),
    "own": Case(Counts, revealed=True, sequential=True),
}


def those(**properties: bool) -> Any:
    """Parametrise a test over inferences with these properties."""
    names = [name for name, case in INFERENCES.items() if properties.items() <= case._asdict().items()]
    return pytest.mark.parametrize("name", names)


every = those()


def agent_of(name: str, d: idb.Diagram, seed: Any = 0) -> idb.Thompson:
    """Return an agent in a diagram, or in the revealed diagram if its inference requires it."""
    case = INFERENCES[name]
    return idb.Thompson(d.revealed() if case.revealed else d, case.make(), seed)


def taught(name: str, d: idb.Diagram, rounds: int = 15, seed: int = 0) -> idb.Thompson:
    """Return an agent after rounds of random actions in a random world."""
    agent = agent_of(name, d, seed)
    return learn(agent, play(agent.diagram, np.random.default_rng(seed), rounds, world=d))


def position_based() -> idb.Diagram:
    """Return a small diagram with latent nodes."""
    return idb.models.position_based(4, 2)


def position_based_world(seed: int = 5) -> idb.World:
    """Return the world of `position_based`, equal for every agent."""
    return idb.World(position_based(), {"attraction": [0.9, 0.5, 0.2, 0.6], "examination": [0.9, 0.4]}, seed=seed)


def diagram_of(make: Callable[[], idb.Diagram] | int) -> idb.Diagram:
    """Return a named diagram, or the random diagram with this seed."""
    return random_learning_diagram(make) if isinstance(make, int) else make()


def seen_without_clicks(agent: idb.Thompson) -> dict[str, int]:
    """Return the full observation of a round without a click in a cascade."""
    return {n.name: int(n.name.startswith("E")) for n in agent.diagram.of_kind("observed")}
