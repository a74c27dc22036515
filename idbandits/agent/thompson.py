"""Thompson sampling: an agent that acts in a diagram and learns from what it sees."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from idbandits.agent.bundle import is_bundle
from idbandits.agent.encoding import encode_rounds
from idbandits.agent.fit import FitReport, fit_report
from idbandits.agent.marginals import MOST_DRAWS, NEVER, Marginals, Propensity, Tally, propensity_of
from idbandits.agent.posterior import Posterior, means_of
from idbandits.agent.sample import Sample
from idbandits.agent.storage import Saved, load_agent, save_agent
from idbandits.checking import warn_once
from idbandits.circuit.model import Action, Model, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import ODD, IdbanditsError, ImpossibleObservationError, ObservationError, check_whole
from idbandits.files import path_of
from idbandits.inference import BY_NAME, DONE, LATER, NOW, Inference, beginning, name_of, named
from idbandits.inference.exact import Exact, check_exact, refuse_ambiguous
from idbandits.inference.protocol import (
    AMBIGUOUS,
    IMPOSSIBLE,
    THOROUGHLY,
    UNKNOWN,
    Bounded,
    Player,
    Predictive,
    Revisable,
    act,
    draw,
    joint_draws,
    learn_all,
    no_action,
)
from idbandits.inference.repeating import NOTHING, count_acts
from idbandits.kernel.compiling import Kernel
from idbandits.kernel.states import ROUNDS, State, grown
from idbandits.kernel.types import Floats, Ints, Rng, generator
from idbandits.solve.best import BUDGET, Solution, Solver, check_effort
from idbandits.solve.eligible import Allowed, are_eligible

CHUNK = 1_000_000  # rounds of a log that are encoded at once
INEXACT = " or ".join(", ".join(repr(name) for name in BY_NAME if name != "exact").rsplit(", ", 1))
REVISABLE = " and ".join(", ".join(name for name, kind in BY_NAME.items() if kind.revisable).rsplit(", ", 1))
BOUNDED = " and ".join(name for name, kind in BY_NAME.items() if issubclass(kind, Bounded))


@final
class Thompson:
    """An agent that draws means from its belief and takes the action that is best under them.

    `inference` is a name or an object with settings (`idb.Variational(sweeps=5)`); docs/learning.md compares them.
    `effort` is that of `best_action`: a factor on the search for the best action under the means that are drawn.
    Threads may share an agent: rounds are taken in one after the other, and compiled code runs without the GIL.
    With several diagrams, in a list or by name, it weighs them by how well they predict (`Structures`).

    >>> d = Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> agent = Thompson(d, seed=1)
    >>> for _ in range(200):
    ...     action = agent.act()
    ...     agent.update(action, {"heads": int(action["coin"] == 2)})
    >>> agent.act()
    {'coin': 2}
    >>> agent.posterior()["heads"].mean.round(2)[2]
    np.float64(0.99)
    """

    def __new__(cls, d: Any = None, *settings: Any, **named_settings: Any) -> Any:
        """An agent; of several diagrams, one that weighs them (`Structures`)."""
        if not isinstance(d, (list, tuple, Mapping)):
            return object.__new__(cls)
        from idbandits.agent.several import Structures

        return Structures(d, *settings, **named_settings)

    def __init__(
        self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram], inference: str | Inference = "gibbs",
        seed: Any = None, *, effort: float = 1.0,
    ) -> None:  # fmt: skip
        d = cast(Diagram, d)  # several are refused here: they never come this far
        model, effort = compile(d), check_effort(effort)
        self._bind(d.copy(), model, named(inference), effort)
        if isinstance(self.inference, Exact):
            check_exact(model, INEXACT)
        self.rng = generator(seed)
        self.state = self._beginning()
        self._sample = self._nothing_kept()
        warn_once(model, stacklevel=2)

    def _bind(self, d: Diagram, model: Model, inference: Inference, effort: float) -> None:
        self.diagram, self._model, self.inference, self.effort = d, model, inference, effort
        self._evidence = inference.evidence(model)
        self._solver = model.derived(Solver)
        self._solve, self._program = self._solver.kernel_for(effort), self._solver.program_for(effort)
        self._learn: Any = inference.learn
        self._last_round: tuple[Ints, Ints, int] | None = None
        self._latest: tuple[Any, Any, Ints] = (None, None, self._solver.blank_action(None, check=False))
        self._states = [(n.name, {(type(v), v): i for i, v in enumerate(n.values)}) for n in model.observed]
        self._nothing_seen = np.full(len(model.observed), -1, dtype=np.int64)

    def _beginning(self) -> State:
        """The state before the first round."""
        return beginning(self.inference, self._model, self._evidence, self.rng)

    def _nothing_kept(self) -> Sample:
        return Sample(len(self._latest[2]) + len(self._nothing_seen))

    @property
    def player(self) -> Player | None:
        """How it acts and learns in compiled code; None if its inference is not a kernel."""
        if not isinstance(self._learn, Kernel):
            return None
        return Player(act, self._learn, self._solve, self._program, self._evidence.packed)

    def act(self, context: Action | None = None, *, allowed: Allowed = None) -> dict[str, Label]:
        """The action that is best under means drawn from the belief.

        Only choices in `allowed` are made: a list for all decisions, or lists by decision, as in `best_action`.
        """
        action, eligible = self._solver.blank_action(context), self._solver.eligible(allowed)
        with self.rng.bit_generator.lock:
            self._choose(self.state, self.rng, action, eligible)
        chosen = self._model.action_of(action)
        self._latest = dict(chosen), None if context is None else dict(context), action
        return chosen

    def _choose(self, state: State, rng: Rng, action: Ints, eligible: Ints) -> None:
        if not act.entry(self._solve.handle, self._program, self._evidence.packed, state, rng, action, eligible):
            raise no_action(f"inference {name_of(self.inference)!r}", self.diagram, state)

    def _snapshot(self) -> tuple[State, Rng]:
        """Copies of the state and of the random numbers, which other threads do not change."""
        with self.rng.bit_generator.lock:
            return self.state.copy(), copy.deepcopy(self.rng)

    def _all_known(self) -> tuple[State, Rng, Sample]:
        """The same, and the rounds that are remembered."""
        with self.rng.bit_generator.lock:
            return self.state.copy(), copy.deepcopy(self.rng), self._remembered().copy()

    def _remembered(self) -> Sample:
        """The sample, with the last round of `update`: it is added late, because nothing may follow learning there."""
        if self._last_round is not None:
            vector, seen, rounds = self._last_round
            self._last_round = None
            if self.rounds > rounds:
                self._sample.add(vector, seen)
        return self._sample

    def best_action(self, context: Action | None = None, *, allowed: Allowed = None) -> Solution:
        """The action that is best under the mean of the belief: what to do where nothing more is to be learned."""
        action, eligible = self._solver.blank_action(context), self._solver.eligible(allowed)
        with self.rng.bit_generator.lock:
            return self._best(self.state, action, eligible)

    def _best(self, state: State, action: Ints, eligible: Ints) -> Solution:
        if isinstance(self.inference, Predictive):
            belief = self.inference.predictive(self._evidence, state)
        else:
            belief = self.inference.belief(self._evidence, state, copy.deepcopy(self.rng))
        means = means_of(self._model.learned.values(), belief)
        value, bound, sound = self._solve.entry(*self._program, means, True, action, eligible, BUDGET)
        if not sound:
            raise no_action(f"inference {name_of(self.inference)!r}", self.diagram, state)
        return Solution(self._model.action_of(action), value, bound == value, bound)

    def propensity(
        self, action: Action, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000
    ) -> Propensity:
        """The probability that `act` would take this action now: by draws that the agent's own do not notice."""
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        wanted, eligible = self._model.action_vector(action, context), self._solver.eligible(allowed)
        if not are_eligible(wanted, eligible, len(self._model.decisions)):
            return NEVER
        state, rng = self._snapshot()
        rng = np.random.default_rng(rng.integers(2**63))  # not what the next act will draw
        return propensity_of(self._count_acts(state, rng, wanted.copy(), eligible, number, wanted=wanted), number)

    def marginals(self, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000) -> Marginals:
        """The probability of each choice of each decision if `act` was called now, by draws as for `propensity`.

        >>> from idbandits import models
        >>> Thompson(models.cascade(items=["tea", "coffee", "juice"], positions=2), seed=0).marginals()
        Marginals by 1,000 draws:
                   A1     A2
        choice
        tea     0.328  0.329
        coffee  0.329  0.350
        juice   0.343  0.321
        """
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        action, eligible, tally = self._solver.blank_action(context), self._solver.eligible(allowed), Tally(self._model)
        state, rng = self._snapshot()
        rng = np.random.default_rng(rng.integers(2**63))  # not what the next act will draw
        self._count_acts(state, rng, action, eligible, number, tally)
        return Marginals(self._model.decisions, eligible, list(tally.by_name().values()), number)

    def _count_acts(
        self, state: State, rng: Rng, action: Ints, eligible: Ints, number: int, tally: Tally | None = None,
        wanted: Ints = NOTHING,
    ) -> int:  # fmt: skip
        """Act so many times and tally the choices; how often this was the wanted action."""
        first, counts = (NOTHING, NOTHING) if tally is None else (tally.first, tally.counts)
        hits = count_acts(
            self._solve, self._program, self._evidence.packed, state, rng, action, eligible, wanted, first, counts,
            number,
        )  # fmt: skip
        if hits < 0:
            raise no_action(f"inference {name_of(self.inference)!r}", self.diagram, state)
        return hits

    def update(self, action: Action, observation: Mapping[str, Any], context: Action | None = None) -> None:
        """Learn from a round; observed nodes that are missing or None were not seen."""
        vector, seen = self._encoded(action, context), self._seen(observation)
        with self.rng.bit_generator.lock:
            sample = self._remembered()
            state = self.state if isinstance(self._learn, Kernel) else self.state.copy()  # Python may be interrupted
            self._last_round = vector, seen, self.rounds
            try:
                self.state = self._learned(state, vector, seen, 1, NOW)
            except ImpossibleObservationError:
                sample.impossible += 1
                raise

    def update_many(self, actions: Any, observations: Any, contexts: Any = None) -> None:
        """Learn from many rounds at once: arrays by node name, or a data frame of all of them, passed for each.

        Missing values (None, NaN, NA, masked ones) were not seen.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, inference="exact")
        >>> agent.update_many({"coin": [0, 0, 2]}, {"heads": [1, 0, 1]})
        >>> agent.posterior()["heads"].alpha.tolist()
        [[2.0, 2.0], [1.0, 1.0], [1.0, 2.0]]
        """
        columns = encode_rounds(self._model, actions, observations, contexts)
        with self._all_or_nothing() as state:
            sample = self._remembered().copy()
            for first in range(0, len(columns[0]) if columns else 0, CHUNK):
                rounds = np.stack([c[first : first + CHUNK] for c in columns], axis=1)
                state = self._all_learned(state, rounds, first)
                sample.add_many(rounds)
            state = self._learned(state, self._latest[2], self._nothing_seen, 0, THOROUGHLY)
            self.state, self._sample = state, sample

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[State]:
        """A copy of the state to learn in, while other threads wait; in the end, it becomes the agent's."""
        with self.rng.bit_generator.lock:
            before = self.rng.bit_generator.state
            try:
                yield self.state.copy()
            except BaseException:
                self.rng.bit_generator.state = before
                raise

    def _all_learned(self, state: State, rounds: Ints, number: int) -> State:
        width, done = rounds.shape[1] - len(self._nothing_seen), 0
        while done < len(rounds):
            if not state.has_room():
                state = grown(state)
            if isinstance(self._learn, Kernel):
                learn, evidence = self._learn.handle, self._evidence.packed
                done += learn_all(learn, evidence, state, self.rng, rounds[done:], width)
            if done < len(rounds) and state.has_room():  # refused, or not a kernel
                row = np.ascontiguousarray(rounds[done])
                state = self._learned(state, row[:width], row[width:], 1, LATER, f"in round {number + done}, ")
                done += 1
        return state

    def revise(
        self, action: Action, old_observation: Mapping[str, Any], new_observation: Mapping[str, Any] | None,
        context: Action | None = None,
    ) -> None:  # fmt: skip
        """Complete or correct a round that was learned from; take it back if the new observation is None."""
        check_revisable(self.inference)
        vector = self._model.action_vector(action, context)
        old = self._seen(old_observation)
        new = None if new_observation is None else self._seen(new_observation)
        with self._all_or_nothing() as state:
            sample = self._remembered().copy()
            sample.replace(np.append(vector, old), None if new is None else np.append(vector, new))
            state = self._learned(state, vector, old, -1, NOW if new is None else LATER)
            state = state if new is None else self._learned(state, vector, new, 1, NOW)
            self.state, self._sample = state, sample

    def _encoded(self, action: Action, context: Action | None) -> Ints:
        last_action, last_context, vector = self._latest
        try:  # faster than checking again what `act` chose
            if _are_same(action, last_action) and (context is last_context or _are_same(context, last_context)):
                return vector
        except ODD:  # an array, or whatever else, where a value is expected
            pass
        return self._model.action_vector(action, context)

    def _seen(self, observation: Mapping[str, Any]) -> Ints:
        if type(observation) is dict and len(observation) == len(self._states):
            try:
                return np.array([place[type(v := observation[name]), v] for name, place in self._states], np.int64)
            except ODD:
                pass  # something is missing, of another type, or to be refused
        states = self._model.observation_states(observation)
        return np.array([states.get(n.name, -1) for n in self._model.observed], dtype=np.int64)

    def _learned(self, state: State, vector: Ints, seen: Ints, times: int, effort: int, where: str = "") -> State:
        """The state after a round: the same arrays, or larger ones."""
        if not state.has_room():
            state = grown(state)
        status = self._learn(*self._evidence.packed, *state, self.rng, vector, seen, times, effort)
        if type(status) is not int or not DONE <= status <= UNKNOWN:  # of an inference of the user's
            said = f"what `learn` of inference {name_of(self.inference)!r} says"
            status = check_whole(said, status, DONE, UNKNOWN)
        if status != DONE:
            self._refuse(status, vector, seen, where)
        return state

    def _refuse(self, status: int, vector: Ints, seen: Ints, where: str) -> None:
        model, action = self._model, self._model.action_of(vector)
        states = zip(model.observed, seen.tolist(), strict=True)
        shown = ", ".join(f"{n.name} = {n.values[s]!r}" for n, s in states if s >= 0)
        if status == IMPOSSIBLE:
            raise ImpossibleObservationError(
                f"{where}observation {shown}: diagram {model.name!r} gives it probability zero for action {action!r}, "
                "whatever the means"
            )
        if status == AMBIGUOUS:
            refuse_ambiguous(model, vector, seen, INEXACT, where)
        shown = shown or "(nothing seen)"
        raise ObservationError(f"{where}observation {shown} for action {action!r} was not learned before")

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return int(self.state.ints[ROUNDS])

    def weights(self) -> dict[str, float]:
        """The weight of each structure by name: there is one."""
        return {self.diagram.name: 1.0}

    def sample(self) -> dict[str, Floats]:
        """One draw of the means of all learned tables."""
        means = np.empty(self._evidence.learned)
        with self.rng.bit_generator.lock:
            if not draw(self._evidence.packed, self.state, self.rng, means):
                raise no_action(f"inference {name_of(self.inference)!r}", self.diagram, self.state)
        return self._model.tables_of_means(means)

    def draws(self, number: int) -> dict[str, Floats]:
        """So many draws of all means from the belief, by table: all that stand at one place belong together.

        Products of means, and whatever else is computed of several tables, have honest intervals this way. They do not
        use up the agent's random numbers.

        >>> from idbandits import models
        >>> agent = Thompson(models.rank1(3, 2), seed=0)
        >>> for _ in range(200):
        ...     agent.update({"A1": 0, "A2": 1}, {"X": 1})
        >>> draws = agent.draws(1000)
        >>> product = draws["row"][:, 0] * draws["column"][:, 1]
        >>> product.shape, bool(0.97 < product.mean() < 1)
        ((1000,), True)
        """
        count = check_whole("the number of draws", number, 1, MOST_DRAWS // max(1, self._evidence.learned))
        state, rng = self._snapshot()
        rng = np.random.default_rng(rng.integers(2**63))  # not what the next act will draw
        means = joint_draws(self.inference, self._evidence, state, rng, count)
        if means is None:
            raise no_action(f"inference {name_of(self.inference)!r}", self.diagram, state)
        return self._model.tables_of_means(means)

    def posterior(self) -> dict[str, Posterior]:
        """The belief of every learned table."""
        belief = self.inference.belief(self._evidence, *self._snapshot())
        offsets = self._model.parameters.offsets
        return {
            name: Posterior(table, belief[..., offsets[name] : offsets[name] + table.size])
            for name, table in self._model.learned.items()
        }

    def fit_report(self) -> FitReport:
        """Whether what was seen speaks against the structure of the diagram, and where.

        It looks at a sample of the rounds (all of the first 8,192), and may be asked for at any time, as often as one
        likes: its p-values account for that.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, seed=1)
        >>> agent.update({"coin": 2}, {"heads": 1})
        >>> agent.fit_report()
        1 round: too few to judge the structure by; 100 are needed.
        """
        state, _, sample = self._all_known()
        return fit_report(self._model, state.floats[: self._evidence.learned], sample)

    def elbo(self) -> float:
        """The evidence lower bound L(q) of the paper, for variational inference."""
        if not isinstance(self.inference, Bounded):
            raise IdbanditsError(f"inference {name_of(self.inference)!r} has no ELBO; {BOUNDED} has")
        return float(self.inference.elbo(self._evidence, self._snapshot()[0]))

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.inference.settings.items())
        settings += f", effort={self.effort:g}" if self.effort != 1.0 else ""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"Thompson({self.diagram.name!r}, {name_of(self.inference)}{settings}; {rounds})"

    def copy(self, seed: Any = None) -> Thompson:
        """An agent that knows the same; with its own random numbers if a seed is given."""
        other = object.__new__(Thompson)
        other._bind(self.diagram.copy(), self._model, self.inference, self.effort)
        other.state, other.rng, other._sample = self._all_known()
        if seed is not None:
            other.rng = generator(seed)
            if not other.rounds:
                other.state = other._beginning()
        return other

    def with_state(self, state: State, rng: Rng) -> Thompson:
        """An agent like this one that goes on with this state and these random numbers."""
        other = object.__new__(Thompson)
        other._bind(self.diagram, self._model, self.inference, self.effort)
        other.state, other.rng, other._sample = state, rng, self._nothing_kept()
        return other

    def predictive(self, state: State) -> State:
        """A state as predictions are made from it: it begins with the pseudo-counts, or means, to predict by."""
        if isinstance(self.inference, Predictive):
            return State(state.ints, self.inference.predictive(self._evidence, state))
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> Thompson:
        return self.copy()

    def __reduce__(self) -> Any:
        return _restored, (self.diagram, self.inference, self.effort, *self._all_known())

    def save(self, path: str | Path) -> None:
        """Write all that the agent knows to a file, whole or not at all; `load` goes on as if nothing happened."""
        state, rng, sample = self._all_known()
        save_agent(path_of(path), Saved(self.diagram, self.inference, rng, state, sample, self.effort), self._evidence)

    @staticmethod
    def load(path: str | Path, *, diagram: Any = None, inference: Inference | None = None) -> Thompson:
        """An agent from a file. With `diagram`, one of another diagram is refused; own inferences are passed again."""
        if is_bundle(where := path_of(path)):
            from idbandits.agent.several import Structures

            return cast(Thompson, Structures.load(where, structures=diagram, inference=inference))
        saved = load_agent(where, diagram, inference)
        return _restored(saved.diagram, saved.inference, saved.effort, saved.state, saved.rng, saved.sample)


def check_revisable(inference: Inference) -> None:
    """Raise unless this inference can take rounds back."""
    if not (isinstance(inference, Revisable) and inference.revisable):
        name = name_of(inference)
        raise IdbanditsError(f"inference {name!r} cannot take a round back exactly; {REVISABLE} can")


def _are_same(values: Any, last: Any) -> bool:
    """Whether these are the same labels: equal values with equal hashes, which those of arrays do not have."""
    return type(values) is dict and values == last and hash((*values.values(),)) == hash((*last.values(),))


def _restored(
    d: Diagram, inference: Inference, effort: float, state: State, rng: Rng, sample: Sample | None = None
) -> Thompson:
    """An agent that goes on with this state, these random numbers and these rounds."""
    agent = object.__new__(Thompson)
    agent._bind(d, compile(d), inference, effort)
    agent.state, agent.rng, agent._sample = state, rng, agent._nothing_kept() if sample is None else sample
    return agent
