"""Several structures at once: a belief in each, weights by how well they predicted, and actions by one of them."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from idbandits.agent.agreement import Order, named_structures, rewarded
from idbandits.agent.bundle import Bundle, load_bundle, save_bundle
from idbandits.agent.encoding import encode_rounds
from idbandits.agent.posterior import Posterior
from idbandits.agent.thompson import MOST_DRAWS, Propensity, Thompson, check_revisable
from idbandits.circuit.model import Action
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import FormatError, IdbanditsError, ImpossibleObservationError, check_whole
from idbandits.files import path_of
from idbandits.inference import BY_NAME, LATER, NOW, Exact, Inference, State, name_of
from idbandits.inference.comparing import Standing, first_standing, pack_rewarded, settle, settle_all, weigh
from idbandits.inference.forgetting import Forget, When, when_all_played, when_played
from idbandits.inference.predicting import Predictor, predict, predict_all
from idbandits.inference.protocol import THOROUGHLY
from idbandits.kernel.states import AT, ZONE, grown
from idbandits.kernel.types import Floats, Ints, Rng, generator

BLOCK = 4096  # rounds that are predicted at once, at most
GROWTH = 0.1  # rounds of a log that are predicted by one belief, as a part of those learned from before


class Known(NamedTuple):
    """All that is learned: the state of each structure, and how they stand."""

    states: list[State]
    standing: Standing

    def copy(self) -> Known:
        """The same, to be changed apart."""
        return Known([state.copy() for state in self.states], self.standing.copy())


@final
class Structures:
    """An agent that holds several diagrams possible; `Thompson([d1, d2, …])` makes one.

    It keeps a belief in each, draws one by its weight, and acts by it. Weights follow how well each predicted what was
    seen; docs/learning.md has the rule. A structure in which a round was impossible is out. The diagrams, in a
    list or by name, share the names and values of decisions, contexts and observed nodes, and mean the same by reward.

    >>> from idbandits import models
    >>> agent = Thompson([models.cascade(5, 2), models.position_based(5, 2)], seed=1)
    >>> agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})  # in a cascade there is one click at most
    >>> agent.weights()
    {'cascade': 0.0, 'position-based': 1.0}
    """

    def __init__(
        self, structures: Sequence[Diagram] | Mapping[str, Diagram], inference: str | Inference | None = None,
        seed: Any = None, *, effort: float = 1.0, forget: Forget | None = None,
    ) -> None:  # fmt: skip
        diagrams, rng = named_structures(structures), generator(seed)
        settings: dict[str, Any] = {"effort": effort, "forget": forget}
        settings |= {} if inference is None else {"inference": inference}
        self._bind({name: Thompson(d, seed=rng, **settings) for name, d in diagrams.items()}, rng)
        self._known = Known([agent.state for agent in self._agents], first_standing(len(self._agents)))

    def _bind(self, members: dict[str, Thompson], rng: Rng) -> None:
        self._members, self.rng = members, rng
        agents = list(members.values())
        for agent in agents:
            agent.rng = rng
        self._agents, self._first = agents, agents[0]
        models = [agent._model for agent in agents]
        self._predictors = [model.derived(Predictor) for model in models]
        self._orders = [Order(models[0], model) for model in models]
        self._rewarded = pack_rewarded(*rewarded(models))
        kinds = [type(agent.inference) for agent in agents]
        self._never_refuses = all(kind in BY_NAME.values() and kind is not Exact for kind in kinds)

    @property
    def diagrams(self) -> dict[str, Diagram]:
        """The structures by name."""
        return {name: agent.diagram for name, agent in self._members.items()}

    @property
    def diagram(self) -> Diagram:
        """The first structure, which has the decisions and observed nodes of all."""
        return self._first.diagram

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return int(self._known.standing.rounds[0])

    def weights(self) -> dict[str, float]:
        """The probability of each structure to be the one that is acted by."""
        with self.rng.bit_generator.lock:
            return dict(zip(self._members, self._weights(self._known).tolist(), strict=True))

    def _weights(self, known: Known) -> Floats:
        acting = np.empty(len(self._agents))
        weigh(known.standing, acting)
        return acting

    def act(self, context: Action | None = None) -> dict[str, Label]:
        """The action that is best under means drawn from the belief of a structure, which is drawn by its weight."""
        action = self._first._solver.blank_action(context)
        with self.rng.bit_generator.lock:
            chosen, vector = self._choose(self._known, self.rng, action, context)
        if vector is not None:
            self._first._latest = dict(chosen), None if context is None else dict(context), vector
        return chosen

    def _choose(
        self, known: Known, rng: Rng, blank: Ints, context: Action | None
    ) -> tuple[dict[str, Label], Ints | None]:
        """An action, and its numbers in the first structure, if they are at hand."""
        drawn = int(np.searchsorted(np.cumsum(self._weights(known)), rng.random(), side="right"))
        drawn = min(drawn, len(self._agents) - 1)
        agent, same = self._agents[drawn], self._orders[drawn].same
        vector = blank if same else agent._solver.blank_action(context)
        agent._choose(known.states[drawn], rng, vector)
        return agent._model.action_of(vector), vector if same else None

    def propensity(self, action: Action, context: Action | None = None, *, draws: int = 1000) -> Propensity:
        """The probability that `act` would take this action now: by draws that the agent's own do not notice."""
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        wanted = self._first._model.action_of(self._first._model.action_vector(action, context))
        known, rng = self._snapshot()
        rng = np.random.default_rng(rng.integers(2**63))  # not what the next act will draw
        blank = self._first._solver.blank_action(context)
        hits = sum(self._choose(known, rng, blank, context)[0] == wanted for _ in range(number))
        spread = (hits + 1) / (number + 2)  # never certain after finitely many draws
        return Propensity(hits / number, float(np.sqrt(spread * (1 - spread) / number)))

    def update(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Learn from a round; observed nodes that are missing or None were not seen.

        A structure in which it is impossible is out from now on; if it is impossible in all that are left, nothing
        changes and an error is raised. `at` is when the round was played, as in `Thompson.update`.
        """
        vector, seen = self._first._encoded(action, context), self._first._seen(observation)
        with self.rng.bit_generator.lock:
            if self._never_refuses:
                self._learn_in_place(vector, seen, at)
            else:
                with self._all_or_nothing() as known:
                    self._known = self._learned(known, vector, seen, at)

    def _when(self, at: Any) -> When | None:
        return when_played(self._first.forget, at, self.rounds, self._zone)

    @property
    def _zone(self) -> int:
        """The zone of all times so far: structures that are out do not hear of them."""
        return max(int(state.ints[ZONE]) for state in self._known.states)

    def _predicted(self, known: Known, vector: Ints, seen: Ints) -> tuple[list[tuple[Ints, Ints]], Floats, Floats]:
        """The round in each structure's numbers; its probabilities, as logarithms, and the marginals of its nodes."""
        rounds = [order.of_round(vector, seen) for order in self._orders]
        joint, marginals = np.empty(len(rounds)), np.empty((len(rounds), sum(self._predictors[0].states)))
        for i, (agent, state, own) in enumerate(zip(self._agents, known.states, rounds, strict=True)):
            belief = agent.predictive(state)
            joint[i] = predict.entry(*self._predictors[i].packed, belief, *own, marginals[i])
        joint[known.standing.weights == -np.inf] = -np.inf
        if not (joint > -np.inf).any():
            self._refuse(known, vector, seen, "")
        return rounds, joint, marginals

    def _learn_in_place(self, vector: Ints, seen: Ints, at: Any) -> None:
        states, standing = self._known
        when = self._when(at)
        rounds, joint, marginals = self._predicted(self._known, vector, seen)
        if not all(state.has_room() for state in states):
            states = [state if state.has_room() else grown(state) for state in states]
            self._known = Known(states, standing)
        if when is not None:
            for agent, state in zip(self._agents, states, strict=True):
                state.floats[agent._evidence.learned + AT], state.ints[ZONE] = when
        calls: list[tuple[Any, ...]] = [
            (agent._learn.entry, *agent._evidence.packed, *state, self.rng, *own, 1, NOW)
            for agent, state, own, p in zip(self._agents, states, rounds, joint, strict=True)
            if p > -np.inf
        ]
        calls.append((settle.entry, *self._rewarded, standing, joint, marginals, seen))
        # One call from Python's view, so that no handler of a signal runs when some have learned and others have not.
        list(starmap(operator.call, calls))

    def _learned(self, known: Known, vector: Ints, seen: Ints, at: Any) -> Known:
        """What is known after a round, by states of its own."""
        when = self._when(at)
        rounds, joint, marginals = self._predicted(known, vector, seen)
        states = [
            agent._learned(state, *own, 1, NOW, when=when) if p > -np.inf else state
            for agent, state, own, p in zip(self._agents, known.states, rounds, joint, strict=True)
        ]
        settle(*self._rewarded, known.standing, joint, marginals, seen)
        return Known(states, known.standing)

    def _refuse(self, known: Known, vector: Ints, seen: Ints, where: str) -> NoReturn:
        model = self._first._model
        shown = ", ".join(
            f"{n.name} = {n.values[s]!r}" for n, s in zip(model.observed, seen.tolist(), strict=True) if s >= 0
        )
        out = zip(self._members, known.standing.is_out(), strict=True)
        left = ", ".join(repr(name) for name, is_out in out if not is_out)
        raise ImpossibleObservationError(
            f"{where}observation {shown}: every structure that is left ({left}) gives it probability zero for action "
            f"{model.action_of(vector)!r}, whatever the means"
        )

    def update_many(self, actions: Any, observations: Any, contexts: Any = None, *, at: Any = None) -> None:
        """Learn from many rounds at once: arrays by node name, or a data frame of all of them, passed for each.

        Missing values (None, NaN, NA, masked ones) were not seen. Rounds are predicted in blocks, each by what was
        known before it; a block is a tenth of what came before. `at` is a column of the times of `update`.
        """
        columns = encode_rounds(self._first._model, actions, observations, contexts)
        length, done = len(columns[0]) if columns else 0, 0
        with self._all_or_nothing() as known:
            times, zone = when_all_played(self._first.forget, at, self.rounds, self._zone, length)
            for state in known.states:
                state.ints[ZONE] = zone
            while done < length:
                size = max(1, min(BLOCK, int(GROWTH * known.standing.rounds[0])))
                block = np.stack([column[done : done + size] for column in columns], axis=1)
                known = self._block_learned(known, block, done, times[done : done + size])
                done += size
            self._known = self._refreshed(known, THOROUGHLY)

    def _block_learned(self, known: Known, rounds: Ints, number: int, at: Floats) -> Known:
        structures, length = len(self._agents), len(rounds)
        joint, columns = np.empty((structures, length)), sum(self._predictors[0].states)
        marginals = np.empty((structures, length, columns))
        own = [np.ascontiguousarray(order.of_rounds(rounds)) for order in self._orders]
        for i, (agent, state) in enumerate(zip(self._agents, known.states, strict=True)):
            belief, width = agent.predictive(state), self._orders[i].width
            predict_all(*self._predictors[i].packed, belief, own[i], width, joint[i], marginals[i])
        width, standing = self._orders[0].width, known.standing
        settled = settle_all(
            *self._rewarded, standing, np.ascontiguousarray(joint.T), np.ascontiguousarray(marginals.swapaxes(0, 1)),
            np.ascontiguousarray(rounds[:, width:]),
        )  # fmt: skip
        if settled < length:
            row = rounds[settled]
            self._refuse(known, row[:width], row[width:], f"in round {number + settled}, ")
        states = [
            state if out else agent._all_learned(state, own[i], number, at)
            for i, (agent, state, out) in enumerate(zip(self._agents, known.states, standing.is_out(), strict=True))
        ]
        return self._refreshed(Known(states, standing), NOW)

    def _refreshed(self, known: Known, effort: int) -> Known:
        """Bring all beliefs up to date, after rounds that were only counted."""
        states = [
            state if out else agent._learned(state, agent._latest[2], agent._nothing_seen, 0, effort)
            for agent, state, out in zip(self._agents, known.states, known.standing.is_out(), strict=True)
        ]
        return Known(states, known.standing)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[Known]:
        """A copy of what is known to learn in, while other threads wait; in the end, it becomes the agent's."""
        with self.rng.bit_generator.lock:
            before = self.rng.bit_generator.state
            try:
                yield self._known.copy()
            except BaseException:
                self.rng.bit_generator.state = before
                raise

    def revise(
        self, action: Action, old_observation: Mapping[str, Any], new_observation: Mapping[str, Any] | None,
        context: Action | None = None, *, at: Any = None,
    ) -> None:  # fmt: skip
        """Complete or correct a round that was learned from; take it back if the new observation is None.

        Weights are those of predictions that were made before, and remain.
        """
        for agent in self._agents:
            check_revisable(agent.inference)
        first = self._first
        vector, old = first._model.action_vector(action, context), first._seen(old_observation)
        new = None if new_observation is None else first._seen(new_observation)
        with self._all_or_nothing() as known:
            out = known.standing.is_out()
            if new is not None:
                _, joint, _ = self._predicted(known, vector, new)
                known.standing.weights[joint == -np.inf] = -np.inf
            when = self._when(at)
            states = list(known.states)
            for i, (agent, order) in enumerate(zip(self._agents, self._orders, strict=True)):
                if out[i]:
                    continue
                impossible = known.standing.weights[i] == -np.inf
                effort = NOW if new is None or impossible else LATER
                states[i] = agent._learned(states[i], *order.of_round(vector, old), -1, effort, when=when)
                if new is not None and not impossible:
                    states[i] = agent._learned(states[i], *order.of_round(vector, new), 1, NOW, when=when)
            self._known = Known(states, known.standing)

    def sample(self) -> dict[str, dict[str, Floats]]:
        """One draw of the means of all learned tables, by structure."""
        with self.rng.bit_generator.lock:
            return {name: agent.sample() for name, agent in self._apart(self._known, self.rng).items()}

    def posterior(self) -> dict[str, dict[str, Posterior]]:
        """The belief of every learned table, by structure."""
        return {name: agent.posterior() for name, agent in self._apart(*self._snapshot()).items()}

    def elbo(self) -> float:
        """Refused: the bound is that of one structure."""
        raise IdbanditsError("several structures have no ELBO: it bounds the evidence of one; weights() compares them")

    def _apart(self, known: Known, rng: Rng) -> dict[str, Thompson]:
        """The structures as agents of their own, with these states."""
        members = zip(self._members.items(), known.states, strict=True)
        return {name: agent.with_state(state, rng) for (name, agent), state in members}

    def _snapshot(self) -> tuple[Known, Rng]:
        """Copies of what is known and of the random numbers, which other threads do not change."""
        with self.rng.bit_generator.lock:
            return self._known.copy(), copy.deepcopy(self.rng)

    def copy(self, seed: Any = None) -> Structures:
        """An agent that knows the same; with its own random numbers if a seed is given."""
        known, rng = self._snapshot()
        if seed is not None:
            rng = generator(seed)
        other = _restored(self._apart(known, rng), known.standing, rng)
        if seed is not None and not other.rounds:
            states = [agent._beginning() for agent in other._agents]
            other._known = Known(states, known.standing)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Structures:
        return self.copy()

    def __reduce__(self) -> Any:
        known, rng = self._snapshot()
        return _restored, (self._apart(known, rng), known.standing, rng)

    def save(self, path: str | Path) -> None:
        """Write all that the agent knows to a file, whole or not at all; `load` goes on as if nothing happened."""
        known, rng = self._snapshot()
        saves = {name: agent.save for name, agent in self._apart(known, rng).items()}
        save_bundle(path_of(path), Bundle(list(saves), known.standing, rng), saves)

    @staticmethod
    def load(
        path: str | Path, *, structures: Sequence[Diagram] | Mapping[str, Diagram] | None = None,
        inference: Inference | None = None,
    ) -> Structures:  # fmt: skip
        """An agent from a file. With `structures`, one of others is refused; own inferences are passed again."""
        wanted = None if structures is None else named_structures(structures)
        members: dict[str, Thompson] = {}

        def load(name: str, part: Path) -> None:
            if wanted is not None and name not in wanted:
                raise FormatError(f"it is not one of {', '.join(map(repr, wanted))}")
            members[name] = Thompson.load(part, diagram=None if wanted is None else wanted[name], inference=inference)

        bundle = load_bundle(where := path_of(path), load)
        if missing := [name for name in wanted or {} if name not in members]:
            raise FormatError(f"{where}: the agent in it has no structure {missing[0]!r}")
        try:
            named_structures({name: agent.diagram for name, agent in members.items()})
        except IdbanditsError as error:
            raise FormatError(f"{where}: {error}") from None
        return _restored(members, bundle.standing, bundle.rng)

    def __repr__(self) -> str:
        inferences = ", ".join(dict.fromkeys(name_of(agent.inference) for agent in self._agents))
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        forget = "" if self._first.forget is None else f", forget={self._first.forget!r}"
        return f"Thompson([{', '.join(map(repr, self._members))}], {inferences}{forget}; {rounds})"


def _restored(members: dict[str, Thompson], standing: Standing, rng: Rng) -> Structures:
    """An agent that goes on with these states and these random numbers."""
    agent = object.__new__(Structures)
    agent._bind(members, rng)
    agent._known = Known([member.state for member in members.values()], standing)
    return agent
