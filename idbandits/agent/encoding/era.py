"""Diagrams that an agent is in at one time, and the encoding of single rounds (of logs: `encode`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import call
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from idbandits.agent.encoding.agreement import Translation, nodes_of_round, rewarded
from idbandits.agent.learning.ledger import KEY
from idbandits.circuit.model import Action, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.serialize import without_encodings
from idbandits.diagram.tables import Label
from idbandits.errors import ODD, ActionError, ContextError, ObservationError
from idbandits.inference.rounds.round import NO_FEATURES, Round
from idbandits.inference.structures.predict import Predictor
from idbandits.inference.structures.weights import pack_rewarded
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.structs import Packed

MISFITS = ActionError, ContextError, ObservationError  # errors of rounds that a diagram cannot have
MOST_SEEN = 4096  # observations whose encoding is remembered


@final
class Era:
    """Diagrams that an agent is in, or was in before it moved: one per structure.

    All have the same decisions, contexts and observed nodes. Rounds are in the numbers of the first diagram.
    """

    def __init__(self, diagrams: Mapping[str, Diagram]) -> None:
        self.names, self.diagrams = tuple(diagrams), tuple(diagrams.values())
        self.models = tuple(compile(d) for d in self.diagrams)
        model = self.model = self.models[0]
        self.width = len(model.decisions) + len(model.contexts)
        self.has_requests = any(node.features is not None for node in model.contexts)
        self._states = [{(type(v), v): i for i, v in enumerate(n.values)} for n in model.observed]
        self._observed = tuple(node.name for node in model.observed)
        self._decisions = tuple(node.name for node in model.decisions)
        self._places = [places_of(node) for node in model.decisions]
        self._seen: dict[tuple[Any, ...], Ints] = {}  # by values of all observed nodes
        self._translations = WeakKeyDictionary[Era, Translation]()
        self._latest: tuple[Any, Any, Ints] = (None, None, np.empty(0, np.int64))

    @cached_property
    def key(self) -> bytes:
        """Key of the diagrams."""
        return key_of(self.diagrams)

    def key_of_round(self, round_: Round) -> bytes:
        """Return a key of what was done and seen in a round, by names and labels, without features of contexts."""
        numbers = np.append(round_.action, round_.seen).tolist()
        texts = [own[numbers[k]] for k, own in self._texts if numbers[k] >= 0]
        return hashlib.blake2b(b"".join(texts), digest_size=KEY).digest()

    @cached_property
    def _texts(self) -> list[tuple[int, list[bytes]]]:
        """Place of each node in a round, and what stands for its values in keys; in the order of their names."""
        nodes = nodes_of_round(self.model)
        texts = [[f"{n.name!r}={v!r};".encode(errors="surrogatepass") for v in n.values] for n in nodes]
        return [(k, texts[k]) for k in sorted(range(len(nodes)), key=lambda k: nodes[k].name)]

    @cached_property
    def orders(self) -> list[Translation]:
        """Translations of rounds to the numbers of each structure."""
        return [Translation(self.model, own) for own in self.models]

    @cached_property
    def predictors(self) -> list[Predictor]:
        """Likelihood of each structure, to predict rounds by."""
        return [model.derived(Predictor) for model in self.models]

    @cached_property
    def rewarded(self) -> Packed:
        """Observed nodes that structures bet on."""
        return pack_rewarded(*rewarded(self.models))

    def round(self, action: Action, observation: Mapping[str, Any], context: Action | None) -> Round:
        """Encode a round, or raise one of MISFITS."""
        if self.has_requests:
            return self.rounds(action, (observation,), context)[0]
        return Round(self.action_vector(action, context), self.seen(observation), NO_FEATURES)

    def rounds(
        self, action: Action, observations: Sequence[Mapping[str, Any]], context: Action | None
    ) -> list[Round]:  # fmt: skip
        """Encode a round with each of some observations, or raise one of MISFITS."""
        if self.has_requests:
            numbers: list[float] = []
            vector = self.model.action_vector(action, context, numbers)
            request = np.array(numbers)
        else:
            vector, request = self.action_vector(action, context), NO_FEATURES
        return [Round(vector, self.seen(observation), request) for observation in observations]

    def round_of(self, row: Ints, request: Floats = NO_FEATURES) -> Round:
        """Return the round in one row of a log."""
        return Round(row[: self.width], row[self.width :], request)

    def translated(self, rounds: Ints, other: Era) -> Ints:
        """Return rounds, one per row, in the numbers of another era: those that it can have."""
        if other is self:
            return rounds
        if other not in self._translations:
            self._translations[other] = Translation(self.model, other.model)
        return self._translations[other].of_rounds(rounds)

    def in_other(self, round_: Round, other: Era) -> Round | None:
        """Return a round in the numbers of another era; None if that cannot have it."""
        if other is self:
            return round_
        rows = self.translated(np.concatenate([round_.action, round_.seen])[None], other)
        return other.round_of(rows[0]) if len(rows) else None

    def can_have(self, numbers: Ints) -> bool:
        """Return whether numbers, which may be from a file, are those of a round."""
        nodes = nodes_of_round(self.model)
        least = np.where(np.arange(len(nodes)) < self.width, 0, -1)
        most = np.array([node.states for node in nodes], np.int64)
        return len(numbers) == len(nodes) and bool(((numbers >= least) & (numbers < most)).all())

    def shown(self, round_: Round) -> str:
        """Describe what was seen, for messages."""
        states = zip(self.model.observed, round_.seen.tolist(), strict=True)
        return ", ".join(f"{n.name} = {n.values[s]!r}" for n, s in states if s >= 0) or "(nothing seen)"

    def remember(self, action: dict[str, Label], context: Action | None, vector: Ints) -> None:
        """Remember an action that was just chosen: it is likely to be the next one to encode."""
        self._latest = dict(action), None if context is None else dict(context), vector

    def action_vector(self, action: Action, context: Action | None) -> Ints:
        """Encode an action and its context."""
        last_action, last_context, vector = self._latest
        try:  # faster than validating again what `act` chose
            if _are_same(action, last_action) and (context is last_context or _are_same(context, last_context)):
                return vector
            if not context and not self.model.contexts and (*action,) == self._decisions:  # what `act` chose earlier
                chosen = [*map(call, self._places, action.values())]
                if self.model.feasibility.is_surely_feasible(chosen):
                    return np.array(chosen, np.int64)
        except ODD:  # an array where a value is expected, or no choice
            pass
        return self.model.action_vector(action, context)

    def seen(self, observation: Mapping[str, Any]) -> Ints:
        """Encode an observation; equal ones may share an array, which must not be changed."""
        if type(observation) is dict and (*observation,) == self._observed:
            values = (*observation.values(),)
            try:
                return self._seen[values]
            except ODD:  # new, or not hashable
                pass
            try:
                vector = np.array([place[type(v), v] for place, v in zip(self._states, values, strict=True)], np.int64)
                if len(self._seen) < MOST_SEEN:
                    self._seen[values] = vector
                return vector
            except ODD:
                pass  # a value is missing, of another type, or to be rejected
        states = self.model.observation_states(observation)
        return np.array([states.get(n.name, -1) for n in self.model.observed], dtype=np.int64)

    def request(self, context: Action | None) -> Floats:
        """Encode the features of contexts that have some, as one vector; the context was validated before."""
        return self.model.request_vector(context) if self.has_requests else NO_FEATURES


def places_of(node: Node) -> Callable[[Any], int]:
    """Return a function from values of a node to their places, which raises one of ODD for others."""
    if isinstance(node.values, range):
        return node.values.index
    return {value: place for place, value in enumerate(node.values)}.__getitem__


def key_of(diagrams: Sequence[Diagram]) -> bytes:
    """Return a key that diagrams share which have the same rounds: they may differ in encodings of features."""
    text = str([without_encodings(d.to_dict()) for d in diagrams])
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=KEY).digest()


def _are_same(values: Any, last: Any) -> bool:
    """Return whether these are the same labels: equal values with equal hashes, which those of arrays do not have."""
    return type(values) is dict and values == last and hash((*values.values(),)) == hash((*last.values(),))
