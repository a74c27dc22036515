"""Several structures at once: a belief in each, weights by how well they predicted, and actions by one of them."""

from __future__ import annotations

import copy
import io
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from idbandits.agent.agreement import Order, named_structures, places_in, rewarded
from idbandits.agent.bundle import Bundle, load_bundle, save_bundle
from idbandits.agent.encoding import encode_rounds
from idbandits.agent.learner import Learner, Round
from idbandits.agent.locks import make_fork_safe
from idbandits.agent.log import LogReport, check_skipping, is_small, report_of
from idbandits.agent.marginals import MOST_DRAWS, NEVER, Marginals, Propensity, Tally, propensity_of
from idbandits.agent.metadata import checked_metadata
from idbandits.agent.posterior import Posterior
from idbandits.agent.storage import content_of, read_agent
from idbandits.agent.thompson import Thompson, restored
from idbandits.agent.warming import Warmth, kernels_behind, warm_up
from idbandits.circuit.model import Action
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import FormatError, IdbanditsError, ImpossibleObservationError, check_whole
from idbandits.files import path_of
from idbandits.inference import BY_NAME, NOW, Exact, Inference, State, name_of
from idbandits.inference.comparing import Standing, first_standing, pack_rewarded, settle, settle_all, weigh
from idbandits.inference.forgetting import Forget, When, when_all_played, when_played
from idbandits.inference.predicting import Predictor, predict, predict_all
from idbandits.inference.protocol import THOROUGHLY
from idbandits.kernel.compiling import Kernel
from idbandits.kernel.states import AT, ZONE, grown
from idbandits.kernel.types import Floats, Ints, Rng, generator
from idbandits.solve.best import Solution
from idbandits.solve.eligible import Allowed, are_eligible

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
        agents = {name: Thompson(d, seed=rng, **settings) for name, d in diagrams.items()}
        self._bind({name: agent.learner for name, agent in agents.items()}, rng)
        self._known = Known([agent.state for agent in agents.values()], first_standing(len(agents)))

    metadata: dict[str, Any]  # what the user stored with it (`save`); empty if it is not from a file

    def _bind(self, members: dict[str, Learner], rng: Rng, metadata: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._members, self.rng, self.metadata = members, rng, copy.deepcopy(dict(metadata))
        make_fork_safe(self)
        learners = list(members.values())
        self._learners, self._first = learners, learners[0]
        models = [learner.model for learner in learners]
        self._predictors = [model.derived(Predictor) for model in models]
        self._orders = [Order(models[0], model) for model in models]
        self._rewarded = pack_rewarded(*rewarded(models))
        kinds = [type(learner.inference) for learner in learners]
        self._never_refuses = all(kind in BY_NAME.values() and kind is not Exact for kind in kinds)

    @property
    def diagrams(self) -> dict[str, Diagram]:
        """The structures by name."""
        return {name: learner.diagram for name, learner in self._members.items()}

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
        acting = np.empty(len(self._learners))
        weigh(known.standing, acting)
        return acting

    def act(self, context: Action | None = None, *, allowed: Allowed = None) -> dict[str, Label]:
        """The action that is best under means drawn from the belief of a structure, which is drawn by its weight.

        Only choices in `allowed` are made: a list for all decisions, or lists by decision, as in `best_action`.
        """
        requests = self._requests(context, allowed)
        with self.rng.bit_generator.lock:
            drawn = int(np.searchsorted(np.cumsum(self._weights(self._known)), self.rng.random(), side="right"))
            drawn = min(drawn, len(self._learners) - 1)
            learner, (action, eligible) = self._learners[drawn], requests[drawn]
            learner.choose(self._known.states[drawn], self.rng, action, eligible)
        chosen = learner.model.action_of(action)
        if self._orders[drawn].same:
            self._first.remember(chosen, context, action)
        return chosen

    def _requests(self, context: Action | None, allowed: Allowed) -> list[tuple[Ints, Ints]]:
        """Of each structure: an action with the contexts filled in, and the choices that may be made."""
        solvers = [learner.solver for learner in self._learners]
        action, eligible = solvers[0].blank_action(context), solvers[0].eligible(allowed)
        return [
            (action.copy(), eligible) if order.same else (solver.blank_action(context), solver.eligible(allowed))
            for solver, order in zip(solvers, self._orders, strict=True)
        ]

    def best_action(self, context: Action | None = None, *, allowed: Allowed = None) -> Solution:
        """The action that is best under the mean of the belief of the structure that weighs most."""
        requests = self._requests(context, allowed)
        with self.rng.bit_generator.lock:
            heaviest = int(np.argmax(self._weights(self._known)))
            return self._learners[heaviest].best(self._known.states[heaviest], self.rng, *requests[heaviest])

    def propensity(
        self, action: Action, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000
    ) -> Propensity:
        """The probability that `act` would take this action now: by draws that the agent's own do not notice."""
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        wanted = [learner.model.action_vector(action, context) for learner in self._learners]
        eligible = [own for _, own in self._requests(context, allowed)]
        if not are_eligible(wanted[0], eligible[0], len(self._first.model.decisions)):
            return NEVER
        hits = 0
        for i, state, rng, share in self._shares(number):
            own = wanted[i]
            hits += self._learners[i].count_acts(state, rng, own.copy(), eligible[i], share, wanted=own)
        return propensity_of(hits, number)

    def marginals(self, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000) -> Marginals:
        """The probability of each choice of each decision if `act` was called now, by draws as for `propensity`."""
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        requests = self._requests(context, allowed)
        decisions = self._first.model.decisions
        counts = [np.zeros(node.states, dtype=np.int64) for node in decisions]
        for i, state, rng, share in self._shares(number):
            learner, tally = self._learners[i], Tally(self._learners[i].model)
            learner.count_acts(state, rng, *requests[i], share, tally)
            by_name = tally.by_name()
            for node, total in zip(decisions, counts, strict=True):
                total += by_name[node.name][places_in(node, learner.model.nodes[node.name])]
        return Marginals(decisions, requests[0][1], counts, number)

    def _shares(self, draws: int) -> Iterator[tuple[int, State, Rng, int]]:
        """How many of so many draws each structure makes, with states and random numbers apart from the agent's."""
        known, rng = self._snapshot()
        rng = np.random.default_rng(rng.integers(2**63))  # not what the next act will draw
        weights = self._weights(known)
        shares = rng.multinomial(draws, weights / weights.sum()).tolist()
        return ((i, known.states[i], rng, share) for i, share in enumerate(shares) if share)

    def update(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Learn from a round; observed nodes that are left out, None, NaN or NA were not seen.

        A structure in which it is impossible is out from now on; if it is impossible in all that are left, nothing
        changes and an error is raised. `at` is when the round was played, as in `Thompson.update`.
        """
        self._learn_now(self._first.action_vector(action, context), self._first.seen(observation), at)

    def check_round(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Validate a round without learning: raise what `update` would raise, and change nothing."""
        self.copy().update(action, observation, context, at=at)

    def _learn_now(self, vector: Ints, seen: Ints, at: Any, where: str = "") -> None:
        with self.rng.bit_generator.lock:
            if self._never_refuses and not any(state.wants_fit(more=1) for state in self._known.states):
                self._learn_in_place(vector, seen, at, where)
            else:
                with self._all_or_nothing() as known:
                    self._known = self._learned(known, vector, seen, self._when(at), where)

    def _when(self, at: Any) -> When | None:
        return when_played(self._first.forget, at, self.rounds, self._zone)

    @property
    def _zone(self) -> int:
        """The zone of all times so far: structures that are out do not hear of them."""
        return max(int(state.ints[ZONE]) for state in self._known.states)

    def _predicted(
        self, known: Known, vector: Ints, seen: Ints, where: str = ""
    ) -> tuple[list[tuple[Ints, Ints]], Floats, Floats]:
        """The round in each structure's numbers; its probabilities, as logarithms, and the marginals of its nodes."""
        rounds = [order.of_round(vector, seen) for order in self._orders]
        joint, marginals = np.empty(len(rounds)), np.empty((len(rounds), sum(self._predictors[0].states)))
        for i, (learner, state, own) in enumerate(zip(self._learners, known.states, rounds, strict=True)):
            belief = learner.predictive(state)
            joint[i] = predict.entry(*self._predictors[i].packed, belief, *own, marginals[i])
        joint[known.standing.weights == -np.inf] = -np.inf
        if not (joint > -np.inf).any():
            self._refuse(known, vector, seen, where)
        return rounds, joint, marginals

    def _learn_in_place(self, vector: Ints, seen: Ints, at: Any, where: str) -> None:
        states, standing = self._known
        when = self._when(at)
        rounds, joint, marginals = self._predicted(self._known, vector, seen, where)
        if not all(state.has_room() for state in states):
            states = [state if state.has_room() else grown(state) for state in states]
            self._known = Known(states, standing)
        if when is not None:
            for learner, state in zip(self._learners, states, strict=True):
                state.floats[learner.evidence.learned + AT], state.ints[ZONE] = when
        calls: list[tuple[Any, ...]] = [
            (learner.learn.entry, *learner.evidence.packed, *state[:2], self.rng, *own, 1, NOW)
            for learner, state, own, p in zip(self._learners, states, rounds, joint, strict=True)
            if p > -np.inf
        ]
        calls.append((settle.entry, *self._rewarded, standing, joint, marginals, seen))
        # One call from Python's view, so that no handler of a signal runs when some have learned and others have not.
        list(starmap(operator.call, calls))

    def _learned(self, known: Known, vector: Ints, seen: Ints, when: When | None, where: str) -> Known:
        """What is known after a round, by states of its own."""
        rounds, joint, marginals = self._predicted(known, vector, seen, where)
        states = [
            learner.learned(state, self.rng, Round(*own), 1, NOW, when=when, where=where) if p > -np.inf else state
            for learner, state, own, p in zip(self._learners, known.states, rounds, joint, strict=True)
        ]
        settle(*self._rewarded, known.standing, joint, marginals, seen)
        return Known(states, known.standing)

    def _refuse(self, known: Known, vector: Ints, seen: Ints, where: str) -> NoReturn:
        model = self._first.model
        shown = ", ".join(
            f"{n.name} = {n.values[s]!r}" for n, s in zip(model.observed, seen.tolist(), strict=True) if s >= 0
        )
        out = zip(self._members, known.standing.is_out(), strict=True)
        left = ", ".join(repr(name) for name, is_out in out if not is_out)
        raise ImpossibleObservationError(
            f"{where}observation {shown}: every structure that is left ({left}) gives it probability zero for action "
            f"{model.action_of(vector)!r}, whatever the means"
        )

    def update_many(
        self, actions: Any, observations: Any = None, contexts: Any = None, *,
        columns: Mapping[str, Any] | None = None, impossible: str = "error", at: Any = None,
    ) -> LogReport:  # fmt: skip
        """Learn from many rounds at once: arrays by node name, or one data frame of all of them.

        Its arguments are those of `Thompson.update_many`; impossible is what is so in all structures that are left.
        Rounds are predicted in blocks, each by what was known before it; a block is a tenth of what came before.
        """
        skips = check_skipping(impossible)
        encoded = encode_rounds(self._first.model, actions, observations, contexts, columns)
        length = len(encoded[0]) if encoded else 0
        if length == 1 and at is None:
            return self._one_learned(np.array([column[0] for column in encoded], dtype=np.int64), skips)
        with self._all_or_nothing() as known:
            times, zone = when_all_played(self._first.forget, at, self.rounds, self._zone, length)
            for state in known.states:
                state.ints[ZONE] = zone
            learn = self._few_learned if is_small(length, self.rounds) else self._many_learned
            self._known, skipped = learn(known, encoded, times, skips)
        return report_of(length, skipped)

    def _one_learned(self, row: Ints, skips: bool) -> LogReport:
        """Learn from a log of one round, as `update` does."""
        width = self._orders[0].width
        try:
            self._learn_now(row[:width], row[width:], None, "in round 0, ")
        except ImpossibleObservationError:
            if not skips:
                raise
            return report_of(1, [0])
        return report_of(1, [])

    def _few_learned(
        self, known: Known, encoded: Sequence[Ints], times: Floats, skips: bool
    ) -> tuple[Known, list[int]]:
        """What is known after some rounds, each learned as by `update`; and which of them were skipped."""
        width, skipped = self._orders[0].width, list[int]()
        for t, row in enumerate(np.stack(encoded, axis=1)):
            when = When(times[t], int(known.states[0].ints[ZONE])) if len(times) else None
            try:
                known = self._learned(known, row[:width], row[width:], when, f"in round {t}, ")
            except ImpossibleObservationError:
                if not skips:
                    raise
                skipped.append(t)
        return known, skipped

    def _many_learned(
        self, known: Known, encoded: Sequence[Ints], times: Floats, skips: bool
    ) -> tuple[Known, list[int]]:
        """The same for more rounds, block by block."""
        length, done, skipped = len(encoded[0]) if encoded else 0, 0, list[int]()
        while done < length:
            size = max(1, min(BLOCK, int(GROWTH * known.standing.rounds[0])))
            block = np.stack([column[done : done + size] for column in encoded], axis=1)
            known, refused = self._block_learned(known, block, times[done : done + size], done, skips)
            skipped += [done + t for t in refused]
            done += size
        return self._refreshed(known, THOROUGHLY), skipped

    def _block_learned(
        self, known: Known, rounds: Ints, times: Floats, number: int, skips: bool
    ) -> tuple[Known, list[int]]:
        """What is known after a block of rounds, the first of which has this number; and which were skipped."""
        structures, length = len(self._learners), len(rounds)
        joint, columns = np.empty((structures, length)), sum(self._predictors[0].states)
        marginals = np.empty((structures, length, columns))
        own = [np.ascontiguousarray(order.of_rounds(rounds)) for order in self._orders]
        for i, (learner, state) in enumerate(zip(self._learners, known.states, strict=True)):
            belief, width = learner.predictive(state), self._orders[i].width
            predict_all(*self._predictors[i].packed, belief, own[i], width, joint[i], marginals[i])
        refused = self._settled(known, rounds, joint, marginals, number, skips)
        left = np.delete(times, refused) if len(times) else times
        numbers = np.delete(np.arange(number, number + len(rounds)), refused)
        states = [
            state
            if out
            else learner.all_learned(state, self.rng, np.delete(own[i], refused, axis=0), numbers, at=left)[0]
            for i, (learner, state, out) in enumerate(
                zip(self._learners, known.states, known.standing.is_out(), strict=True)
            )
        ]
        return self._refreshed(Known(states, known.standing), NOW), refused

    def _settled(
        self, known: Known, rounds: Ints, joint: Floats, marginals: Floats, number: int, skips: bool
    ) -> list[int]:
        """Weigh the structures by rounds that were predicted; which rounds are impossible in all that are left."""
        width, first, refused = self._orders[0].width, 0, list[int]()
        by_round, marginals = np.ascontiguousarray(joint.T), np.ascontiguousarray(marginals.swapaxes(0, 1))
        seen = np.ascontiguousarray(rounds[:, width:])
        while first < len(rounds):
            first += settle_all(*self._rewarded, known.standing, by_round[first:], marginals[first:], seen[first:])
            if first < len(rounds):
                if not skips:
                    row = rounds[first]
                    self._refuse(known, row[:width], row[width:], f"in round {number + first}, ")
                refused.append(first)
                first += 1
        return refused

    def _refreshed(self, known: Known, effort: int) -> Known:
        """Bring all beliefs up to date, after rounds that were only counted."""
        states = [
            state if out else learner.settled(state, self.rng, effort)
            for learner, state, out in zip(self._learners, known.states, known.standing.is_out(), strict=True)
        ]
        return Known(states, known.standing)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[Known]:
        """A copy of what is known to learn in, while other threads wait; in the end, it becomes the agent's."""
        with self.rng.bit_generator.lock:
            before, known = self.rng.bit_generator.state, self._known
            try:
                yield known.copy()
            except BaseException:
                if self._known is known:  # else a signal came when all was done
                    self.rng.bit_generator.state = before
                raise

    def revise(
        self, action: Action, old_observation: Mapping[str, Any], new_observation: Mapping[str, Any] | None,
        context: Action | None = None, *, at: Any = None,
    ) -> None:  # fmt: skip
        """Complete or correct a round that was learned from; take it back if the new observation is None.

        Weights are those of predictions that were made before, and remain.
        """
        for learner in self._learners:
            learner.check_revisable()
        first = self._first
        vector, old = first.model.action_vector(action, context), first.seen(old_observation)
        new = None if new_observation is None else first.seen(new_observation)
        with self._all_or_nothing() as known:
            out = known.standing.is_out()
            if new is not None:
                _, joint, _ = self._predicted(known, vector, new)
                known.standing.weights[joint == -np.inf] = -np.inf
            when = self._when(at)
            states = list(known.states)
            for i, (learner, order) in enumerate(zip(self._learners, self._orders, strict=True)):
                if out[i]:
                    continue
                taken_back = new is None or known.standing.weights[i] == -np.inf
                replacement = None if new is None or taken_back else Round(*order.of_round(vector, new))
                states[i] = learner.revised(states[i], self.rng, Round(*order.of_round(vector, old)), replacement, when)
            self._known = Known(states, known.standing)

    def moved_to(self, structures: Sequence[Diagram] | Mapping[str, Diagram]) -> Structures:
        """An agent with other diagrams by the same names that knows all that this one knows, as `Thompson.moved_to`.

        Rounds that were played before are learned from as long as the new diagrams can have them.
        """
        diagrams = named_structures(structures)
        if list(diagrams) != list(self._members):
            these = f"{', '.join(map(repr, self._members))}, in this order"
            raise IdbanditsError(f"an agent of several structures moves to as many with the same names: {these}")
        known, rng = self._snapshot()
        agents = self._apart(known, rng)
        moved = {name: agents[name].moved_to(d) for name, d in diagrams.items()}
        return _restored(moved, known.standing, rng, self.metadata)

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
        return {name: Thompson.of(learner, state, rng) for (name, learner), state in members}

    def _snapshot(self) -> tuple[Known, Rng]:
        """Copies of what is known and of the random numbers, which other threads do not change."""
        with self.rng.bit_generator.lock:
            return self._known.copy(), copy.deepcopy(self.rng)

    def copy(self, seed: Any = None) -> Structures:
        """An agent that knows the same; with its own random numbers if a seed is given."""
        known, rng = self._snapshot()
        if seed is not None:
            rng = generator(seed)
        other = _restored(self._apart(known, rng), known.standing, rng, self.metadata)
        if seed is not None and not other.rounds:
            states = [learner.beginning(rng) for learner in other._learners]
            other._known = Known(states, known.standing)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Structures:
        return self.copy()

    def __reduce__(self) -> Any:
        known, rng = self._snapshot()
        return _restored, (self._apart(known, rng), known.standing, rng, self.metadata)

    def save(self, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write all that the agent knows to a file, whole or not at all, with metadata as in `Thompson.save`."""
        own = checked_metadata(self.metadata if metadata is None else metadata)
        known, rng = self._snapshot()
        agents = self._apart(known, rng)
        contents = [partial(_content, agent) for agent in agents.values()]
        save_bundle(path_of(path), Bundle(list(agents), known.standing, rng, own), contents)

    @staticmethod
    def load(
        path: str | Path, *, structures: Sequence[Diagram] | Mapping[str, Diagram] | None = None,
        inference: Inference | None = None, seed: Any = None,
    ) -> Structures:  # fmt: skip
        """Read an agent from a file, with a `seed` as in `Thompson.load`.

        With `structures`, an agent of others is rejected. Custom inferences are passed again.
        """
        wanted = None if structures is None else named_structures(structures)
        members: dict[str, Thompson] = {}

        def load(name: str, content: bytes) -> None:
            if wanted is not None and name not in wanted:
                raise FormatError(f"it is not one of {', '.join(map(repr, wanted))}")
            diagram = None if wanted is None else wanted[name]
            members[name] = restored(*read_agent(io.BytesIO(content), len(content), diagram, inference))

        bundle = load_bundle(where := path_of(path), load)
        if missing := [name for name in wanted or {} if name not in members]:
            raise FormatError(f"{where}: the agent in it has no structure {missing[0]!r}")
        try:
            named_structures({name: agent.diagram for name, agent in members.items()})
        except IdbanditsError as error:
            raise FormatError(f"{where}: {error}") from None
        agent = _restored(members, bundle.standing, bundle.rng, bundle.metadata)
        return agent if seed is None else agent.copy(seed)

    @property
    def kernels(self) -> list[Kernel]:
        """All compiled functions that any of its methods may need."""
        members = (kernel for agent in self._apart(self._known, self.rng).values() for kernel in agent.kernels)
        return list(dict.fromkeys([*members, *kernels_behind(__name__)]))

    def warm_up(self, *, processes: int | None = 1) -> Warmth:
        """Compile all that any method may need, as `Thompson.warm_up` does."""
        return warm_up(self.kernels, processes)

    def __repr__(self) -> str:
        inferences = ", ".join(dict.fromkeys(name_of(learner.inference) for learner in self._learners))
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        forget = "" if self._first.forget is None else f", forget={self._first.forget!r}"
        return f"Thompson([{', '.join(map(repr, self._members))}], {inferences}{forget}; {rounds})"


def _content(agent: Thompson) -> bytes:
    """Return the content of the file of a member."""
    return content_of(agent.to_saved(), agent.learner.evidence)


def _restored(members: dict[str, Thompson], standing: Standing, rng: Rng, metadata: Mapping[str, Any]) -> Structures:
    """An agent that goes on with these states, these random numbers and this metadata."""
    agent = object.__new__(Structures)
    agent._bind({name: member.learner for name, member in members.items()}, rng, metadata)
    agent._known = Known([member.state for member in members.values()], standing)
    return agent
