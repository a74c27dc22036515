"""Everything that an agent knows, as one value: a learner and a state for each structure, weights, and a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.encoding.era import Era
from idbandits.agent.fit_report.sample import Sample
from idbandits.agent.learner import INEXACT, Learner, Settings
from idbandits.agent.learning.ledger import Ledger
from idbandits.agent.transfer import compiled_copy, hosting
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.inference import Exact, default_inference, named
from idbandits.inference.algorithms.exact import check_exact
from idbandits.inference.forgetting import Forget
from idbandits.inference.state.state import PLAYED, ROUNDS, ZONE, State
from idbandits.inference.structures.weights import Standing, first_standing, weigh
from idbandits.kernel.array_types import Floats, Rng


class Snapshot(NamedTuple):
    """Everything that an agent knows. One structure has the weight 1.

    Arrays may be changed in place by whoever holds the agent's lock; the tuple itself is replaced as a whole.
    """

    learners: tuple[Learner, ...]
    states: tuple[State, ...]
    standing: Standing
    sample: Sample
    ledger: Ledger | None = None  # where contexts have features

    def copy(self) -> Snapshot:
        """Return a copy that can be changed independently."""
        ledger = None if self.ledger is None else self.ledger.copy()
        states = tuple(state.copy() for state in self.states)
        return Snapshot(self.learners, states, self.standing.copy(), self.sample.copy(), ledger)

    @property
    def reference(self) -> State:
        """Return the state of the first structure that is not excluded: it has learned from all rounds."""
        if len(self.states) == 1:
            return self.states[0]
        return next(state for state, out in zip(self.states, self.standing.is_out(), strict=True) if not out)

    @property
    def rounds(self) -> int:
        """Return the number of rounds learned from, without those removed since."""
        return int(self.reference.ints[ROUNDS])

    @property
    def played(self) -> int:
        """Return the number of rounds ever learned from, including those removed since."""
        return int(self.reference.ints[PLAYED])

    @property
    def zone(self) -> int:
        """Return the kind of time zone of all times so far; structures that are excluded no longer receive times."""
        return max(int(state.ints[ZONE]) for state in self.states)

    def set_zone(self, zone: int) -> None:
        """Note the kind of time zone of all times so far."""
        for state in self.states:
            state.ints[ZONE] = zone

    def weights(self) -> Floats:
        """Return the probability of each structure to be the one that is acted by."""
        acting = np.empty(len(self.learners))
        weigh(self.standing, acting)
        return acting

    def hosting(self, era: Era, rng: Rng) -> Snapshot:
        """Return the same knowledge with all rows that rounds of an era may read."""
        pairs = [
            hosting(learner, state, rng, model)
            for learner, state, model in zip(self.learners, self.states, era.models, strict=True)
        ]
        return self._replace(learners=tuple(pair[0] for pair in pairs), states=tuple(pair[1] for pair in pairs))

    def settled(self, rng: Rng, effort: int) -> Snapshot:
        """Bring all beliefs up to date, after rounds that were only counted."""
        members = zip(self.learners, self.states, self.standing.is_out(), strict=True)
        states = [state if out else learner.settled(state, rng, effort) for learner, state, out in members]
        return self._replace(states=tuple(states))


def first_snapshot(diagrams: Mapping[str, Diagram], how: tuple[Any, float, Forget | None], rng: Rng) -> Snapshot:
    """Return what an agent of these structures knows before the first round; `how` are its `Settings`.

    The inference may be a name, or None for the default of each diagram.
    """
    inference, effort, forget = how
    learners, states = list[Learner](), list[State]()
    for own in diagrams.values():
        settings = Settings(named(default_inference(own) if inference is None else inference), effort, forget)
        learner = Learner(compiled_copy(own), compile(own), settings)
        if isinstance(learner.inference, Exact):
            check_exact(learner.model, INEXACT)
        learners.append(learner)
        states.append(learner.beginning(rng))
    first = learners[0]
    ledger = Ledger(first.evidence.request_size) if first.keeps_ledger else None
    sample = Sample(sum(map(len, first.blank[:2])))
    return Snapshot(tuple(learners), tuple(states), first_standing(len(learners)), sample, ledger)
