"""Thompson sampling: an agent that acts in a diagram and learns from what it sees."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from idbandits.agent.bundle import is_bundle
from idbandits.agent.fit import FitReport, fit_report
from idbandits.agent.learner import INEXACT, Learner, Past, Round, Settings, rounds_in
from idbandits.agent.log import LogReport, check_skipping, is_small, report_of
from idbandits.agent.marginals import MOST_DRAWS, NEVER, Marginals, Propensity, Tally, propensity_of
from idbandits.agent.moving import MISFITS, Carried, Late, hosting, late_round, moved, sorted_log
from idbandits.agent.posterior import Posterior
from idbandits.agent.requests import encode_requests
from idbandits.agent.sample import Sample
from idbandits.agent.storage import Saved, load_agent, save_agent
from idbandits.agent.warming import Warmth, kernels_behind, warm_up
from idbandits.checking import warn_of_scales, warn_once
from idbandits.circuit.model import Action, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import IdbanditsError, ImpossibleObservationError, brief, check_whole
from idbandits.files import path_of
from idbandits.inference import BY_NAME, LATER, NOW, Inference, default_inference, name_of, named
from idbandits.inference.exact import Exact, check_exact
from idbandits.inference.forgetting import Forget, forgetting
from idbandits.inference.protocol import THOROUGHLY, Bounded, Player, Refreshed
from idbandits.kernel.compiling import Kernel
from idbandits.kernel.states import ZONE, State
from idbandits.kernel.types import Floats, Ints, Rng, generator
from idbandits.solve.best import Solution, check_effort
from idbandits.solve.eligible import EVERY_CHOICE, Allowed, are_eligible

CHUNK = 1_000_000  # rounds of a log that are encoded at once
BOUNDED = " and ".join(name for name, kind in BY_NAME.items() if issubclass(kind, Bounded))


@final
class Thompson:
    """An agent that draws means from its belief and takes the action that is best under them.

    `inference` is a name or an object with settings (`idb.Variational(sweeps=5)`); docs/learning.md compares them.
    Without, it is "gibbs", or "moments" where a context has features.
    `effort` is that of `best_action`: a factor on the search for the best action under the means that are drawn.
    With `forget`, what was learned fades: for worlds that change (docs/drift.md).
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

    learner: Learner  # all but its state
    carried: Carried | None = None  # what it took along, if it moved

    def __new__(cls, d: Any = None, *settings: Any, **named_settings: Any) -> Any:
        """An agent; of several diagrams, one that weighs them (`Structures`)."""
        if not isinstance(d, (list, tuple, Mapping)):
            return object.__new__(cls)
        from idbandits.agent.several import Structures

        return Structures(d, *settings, **named_settings)

    def __init__(
        self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram], inference: str | Inference | None = None,
        seed: Any = None, *, effort: float = 1.0, forget: Forget | None = None,
    ) -> None:  # fmt: skip
        d = cast(Diagram, d)  # several are refused here: they never come this far
        model = compile(d)
        own = named(default_inference(d) if inference is None else inference)
        settings = Settings(own, check_effort(effort), forgetting(forget))
        self.learner = Learner(d.copy(), model, settings)
        if isinstance(self.inference, Exact):
            check_exact(model, INEXACT)
        self.rng = generator(seed)
        self.state = self.learner.beginning(self.rng)
        self._sample = _no_rounds(self.learner)
        self._last_round: tuple[Round, int] | None = None
        warn_once(model, stacklevel=2)
        if not isinstance(self.inference, Refreshed):
            warn_of_scales(model, stacklevel=2)

    @staticmethod
    def of(learner: Learner, state: State, rng: Rng, sample: Sample | None = None) -> Thompson:
        """An agent that goes on with this state, these random numbers and these remembered rounds."""
        agent: Thompson = object.__new__(Thompson)
        agent.learner, agent.state, agent.rng, agent._last_round = learner, state, rng, None
        agent._sample = _no_rounds(learner) if sample is None else sample
        return agent

    @property
    def diagram(self) -> Diagram:
        """The diagram that it acts in."""
        return self.learner.diagram

    @property
    def inference(self) -> Inference:
        """How it learns."""
        return self.learner.inference

    @property
    def effort(self) -> float:
        """The factor on the search for the best action."""
        return self.learner.settings.effort

    @property
    def forget(self) -> Forget | None:
        """How fast what was learned fades, if it does."""
        return self.learner.forget

    @property
    def player(self) -> Player | None:
        """How it acts and learns in compiled code; None if its inference is not a kernel, or rounds need times."""
        return self.learner.player

    def make_ready(self) -> None:
        """Give the state room for another round, and fit regressions if that is due."""
        self.state = self.learner.with_room(self.state)
        if self.state.wants_fit():
            self.learner.fit_regressions(self.state, self.rng)

    def eligible(self, allowed: Allowed) -> Ints:
        """The choices that may be made, as numbers for kernels; none if all may."""
        return self.learner.solver.eligible(allowed)

    def act(self, context: Action | None = None, *, allowed: Allowed = None) -> dict[str, Label]:
        """The action that is best under means drawn from the belief.

        Only choices in `allowed` are made: a list for all decisions, or lists by decision, as in `best_action`.
        """
        learner, rng = self.learner, self.rng
        action = learner.solver.blank_action(context)
        eligible = EVERY_CHOICE if allowed is None else learner.solver.eligible(allowed)
        request = learner.request(context)
        with rng.bit_generator.lock:
            learner.choose(self.state, rng, action, eligible, request)
        chosen = learner.model.action_of(action)
        learner.remember(chosen, context, action)
        return chosen

    def _snapshot(self) -> tuple[State, Rng]:
        """Copies of the state and of the random numbers, which other threads do not change."""
        with self.rng.bit_generator.lock:
            return self.learner.without_request(self.state.copy()), copy.deepcopy(self.rng)

    def _apart(self) -> tuple[State, Rng]:
        """A copy of the state, and random numbers other than those of the next actions."""
        state, rng = self._snapshot()
        return state, np.random.default_rng(rng.integers(2**63))

    def _all_known(self) -> tuple[State, Rng, Sample]:
        """The same, and the rounds that are remembered."""
        with self.rng.bit_generator.lock:
            state = self.learner.without_request(self.state.copy())
            return state, copy.deepcopy(self.rng), self._remembered().copy()

    def _remembered(self) -> Sample:
        """The sample, with the last round of `update`: it is added late, because nothing may follow learning there."""
        if self._last_round is not None:
            round_, rounds = self._last_round
            self._last_round = None
            if self.rounds > rounds:
                self._sample.add(round_.action, round_.seen)
        return self._sample

    def best_action(self, context: Action | None = None, *, allowed: Allowed = None) -> Solution:
        """The action that is best under the mean of the belief: what to do where nothing more is to be learned."""
        learner, solver = self.learner, self.learner.solver
        action, eligible = solver.blank_action(context), solver.eligible(allowed)
        request = learner.request(context)
        with self.rng.bit_generator.lock, learner.requested(self.state, request):
            return learner.best(self.state, self.rng, action, eligible)

    def propensity(
        self, action: Action, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000
    ) -> Propensity:
        """The probability that `act` would take this action now: by draws that the agent's own do not notice."""
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        learner = self.learner
        wanted, eligible = learner.model.action_vector(action, context), learner.solver.eligible(allowed)
        if not are_eligible(wanted, eligible, len(learner.model.decisions)):
            return NEVER
        state, rng = self._apart()
        with learner.requested(state, learner.request(context)):
            hits = learner.count_acts(state, rng, wanted.copy(), eligible, number, wanted=wanted)
        return propensity_of(hits, number)

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
        learner = self.learner
        action, eligible = learner.solver.blank_action(context), learner.solver.eligible(allowed)
        state, rng = self._apart()
        with learner.requested(state, learner.request(context)):
            learner.count_acts(state, rng, action, eligible, number, tally := Tally(learner.model))
        return Marginals(learner.model.decisions, eligible, list(tally.by_name().values()), number)

    def update(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Learn from a round; observed nodes that are left out, None, NaN or NA were not seen.

        An agent that forgets needs to know when the round was played (`at`), unless it counts rounds and it was now.
        """
        try:
            learner = self.learner
            vector = learner.action_vector(action, context)
            round_ = Round(vector, learner.seen(observation), learner.request(context))
        except MISFITS:
            late = late_round(self.learner, action, observation, context)
            if late is None:
                raise
            self._learn_late(late, at)
            return
        with self.rng.bit_generator.lock:
            sample = self._remembered()
            try:
                self._learn_in_place(round_, at)
            except ImpossibleObservationError:
                sample.impossible += 1
                raise

    def _learn_in_place(self, round_: Round, at: Any, where: str = "") -> None:
        if self.state.wants_fit(more=1):  # learning and fitting are two steps
            with self._all_or_nothing() as state:
                self._learn_in(state, round_, at, where)
        elif isinstance(self.learner.learn, Kernel):
            self._learn_in(self.state, round_, at, where)
        else:  # Python may be interrupted
            self._learn_in(self.state.copy(), round_, at, where)

    def _learn_in(self, state: State, round_: Round, at: Any, where: str) -> None:
        learner, rounds = self.learner, rounds_in(state)
        when = learner.when(state, rounds, at) if learner.forget is not None or at is not None else None
        self._last_round = round_, rounds
        self.state = learner.learned(state, self.rng, round_, 1, NOW, when=when, where=where)

    def _learn_late(self, late: Late, at: Any) -> None:
        """Learn from a round of a diagram that it was in before."""
        with self._all_or_nothing() as state:
            when = self.learner.when(state, self.rounds, at)
            host, state, guest = hosting(self.learner, state, self.rng, late)
            state = guest.learned(state, self.rng, guest.round_of(late.rounds[0]), 1, NOW, when=when)
            self._go_on(host, state, self._remembered())

    def _go_on(self, learner: Learner, state: State, sample: Sample) -> None:
        """Go on with all of these, none of which is seen without the others, whatever a handler of signals does."""
        vars(self).update(learner=learner, state=state, _sample=sample)

    def update_many(
        self, actions: Any, observations: Any = None, contexts: Any = None, *,
        columns: Mapping[str, Any] | None = None, impossible: str = "error", at: Any = None,
    ) -> LogReport:  # fmt: skip
        """Learn from many rounds at once: arrays by node name, or one data frame of all of them.

        Missing values (None, NaN, NA, masked ones) were not seen. `columns` maps nodes to the names of their columns,
        where these differ; columns of no node are then ignored. A round that the diagram rules out is an error, and
        nothing is learned; with `impossible="skip"`, the others are. `at` is a column of the times of `update`.
        Features of a context are columns, too: `age` or `user.age`, or by `columns={"user": {"age": …}}`.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, inference="exact")
        >>> agent.update_many({"coin": [0, 0, 2]}, {"heads": [1, 0, 1]})
        LogReport(rounds=3, impossible=[])
        >>> agent.posterior()["heads"].alpha.tolist()
        [[2.0, 2.0], [1.0, 1.0], [1.0, 2.0]]
        """
        skips, learner = check_skipping(impossible), self.learner
        encoded, numbers, late = sorted_log(learner, (actions, observations, contexts, columns))
        requests = encode_requests(learner.model, (actions, observations, contexts, columns), len(numbers))
        length, skipped = len(numbers), list[int]()
        if length == 1 and at is None and not late:
            row = np.array([column[0] for column in encoded], dtype=np.int64)
            return self._one_learned(learner.round_of(row, requests[:1].ravel()), skips)
        with self._all_or_nothing() as state:
            total = length + sum(len(rest.numbers) for rest in late)
            times, zone = learner.when_all(state, self.rounds, at, total)
            sample, small = self._remembered().copy(), is_small(length, self.rounds)
            for first in range(0, length, CHUNK):
                rounds = np.stack([column[first : first + CHUNK] for column in encoded], axis=1)
                own, effort = numbers[first : first + CHUNK], NOW if small else LATER
                state, refused = learner.all_learned(
                    state, self.rng, rounds, own, effort=effort, skips=skips, at=times[own] if len(times) else times,
                    requests=requests[first : first + CHUNK],
                )  # fmt: skip
                sample.add_many(np.delete(rounds, refused, axis=0) if refused else rounds)
                skipped += own[refused].tolist()
            for rest in late:
                learner, state, guest = hosting(learner, state, self.rng, rest)
                when = times[rest.numbers] if len(times) else times
                state, refused = guest.all_learned(state, self.rng, rest.rounds, rest.numbers, skips=skips, at=when)
                skipped += rest.numbers[refused].tolist()
            state.ints[ZONE] = zone
            if not small:
                state = learner.settled(state, self.rng, THOROUGHLY)
            sample.impossible += len(skipped)
            self._go_on(learner, state, sample)
        return report_of(total, sorted(skipped))

    def _one_learned(self, round_: Round, skips: bool) -> LogReport:
        """Learn from a log of one round, as `update` does."""
        with self.rng.bit_generator.lock:
            sample = self._remembered()
            try:
                self._learn_in_place(round_, None, "in round 0, ")
            except ImpossibleObservationError:
                if not skips:
                    raise
                sample.impossible += 1
                return report_of(1, [0])
        return report_of(1, [])

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[State]:
        """A copy of the state to learn in, while other threads wait; in the end, it becomes the agent's."""
        with self.rng.bit_generator.lock:
            before, known = self.rng.bit_generator.state, self.state
            try:
                yield self.learner.without_request(known.copy())
            except BaseException:
                if self.state is known:  # else a signal came when all was done
                    self.rng.bit_generator.state = before
                raise

    def revise(
        self, action: Action, old_observation: Mapping[str, Any], new_observation: Mapping[str, Any] | None,
        context: Action | None = None, *, at: Any = None,
    ) -> None:  # fmt: skip
        """Complete or correct a round that was learned from; take it back if the new observation is None.

        `at` is when it was played, as in `update`: of a round that has faded, as much is taken back as is left.
        """
        learner, late = self.learner, None
        learner.check_revisable()
        try:
            vector, old = learner.model.action_vector(action, context), learner.seen(old_observation)
        except MISFITS:
            late = late_round(learner, action, old_observation, context)
            if late is None:
                raise
        with self._all_or_nothing() as state:
            when, guest, sample = learner.when(state, self.rounds, at), learner, self._remembered().copy()
            if late is not None:
                learner, state, guest = hosting(learner, state, self.rng, late)
                vector, old, _ = guest.round_of(late.rounds[0])
            new = None if new_observation is None else guest.seen(new_observation)
            if late is None:
                sample.replace(np.append(vector, old), None if new is None else np.append(vector, new))
            replacement = None if new is None else Round(vector, new)
            state = guest.revised(state, self.rng, Round(vector, old), replacement, when)
            self._go_on(learner, state, sample)

    def moved_to(self, d: Diagram) -> Thompson:
        """An agent in another diagram that knows all that this one knows about what both have, by names and labels.

        Rows that are new start from their prior. Rows that are gone still inform the rest, and rounds that were played
        before may still be learned from (`update`, `update_many`, `revise`). `carried` says what was taken along.

        >>> from idbandits import models
        >>> agent = Thompson(models.cascade(["tea", "milk"], 1), seed=0)
        >>> agent.update({"A1": "tea"}, {"C1": 1})
        >>> agent = agent.moved_to(models.cascade(["tea", "rice"], 1))
        >>> agent.posterior()["attraction"].alpha.tolist()
        [[1.0, 2.0], [1.0, 1.0]]
        >>> agent.carried
        attraction: rows 1 kept, 1 new
        0 groups of rounds
        """
        state, rng, sample = self._all_known()
        learner, state, carried = moved(self.learner, state, rng, d)
        agent = Thompson.of(learner, state, rng, sample.moved(self.learner.model, learner.model))
        agent.carried = carried
        warn_once(learner.model, stacklevel=2)
        return agent

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return rounds_in(self.state)

    def weights(self) -> dict[str, float]:
        """The weight of each structure by name: there is one."""
        return {self.diagram.name: 1.0}

    def sample(self) -> dict[str, Floats]:
        """One draw of the means of all learned tables."""
        with self.rng.bit_generator.lock:
            return self.learner.sample(self.learner.without_request(self.state), self.rng)

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
        count = check_whole("the number of draws", number, 1, MOST_DRAWS // max(1, self.learner.evidence.learned))
        return self.learner.draws(*self._apart(), count)

    def posterior(self) -> dict[str, Posterior]:
        """The belief of every learned table."""
        return self.learner.posterior(*self._snapshot())

    def fit_report(self) -> FitReport:
        """Whether what was seen speaks against the structure of the diagram, and where.

        It examines a sample of the rounds (all of the first 65,536; fewer if a round has more than 32 numbers), and may
        be asked for at any time, as often as one likes: its p-values account for that.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, seed=1)
        >>> agent.update({"coin": 2}, {"heads": 1})
        >>> agent.fit_report()
        1 round: too few to judge the structure by; 100 are needed.
        """
        for node in self.learner.model.contexts:
            if node.features is not None:
                raise IdbanditsError(
                    f"context {node.name!r} has features: the rounds to judge the structure by lack them"
                )
        state, _, sample = self._all_known()
        return fit_report(self.learner.model, state.floats[: self.learner.evidence.live], sample)

    def elbo(self) -> float:
        """The evidence lower bound L(q) of the paper, for variational inference."""
        if not isinstance(self.inference, Bounded):
            raise IdbanditsError(f"inference {name_of(self.inference)!r} has no ELBO; {BOUNDED} has")
        return float(self.inference.elbo(self.learner.evidence, self._snapshot()[0]))

    @property
    def kernels(self) -> list[Kernel]:
        """All compiled functions that any of its methods may need."""
        learn = self.learner.learn
        own = [self.learner.solve, *([learn] if isinstance(learn, Kernel) else [])]
        return list(dict.fromkeys([*own, *kernels_behind(__name__, type(self.inference).__module__)]))

    def warm_up(self, *, processes: int | None = 1) -> Warmth:
        """Compile all that any method may need, so that no later call waits for it; what is on disk is only read.

        With `processes`, so many compile at once (None: one per core): as always with `multiprocessing`, each of them
        imports the main module, so a script needs `if __name__ == "__main__":`.
        """
        return warm_up(self.kernels, processes)

    def __repr__(self) -> str:
        settings = "".join(f", {name}={brief(value)}" for name, value in self.inference.settings.items())
        settings += f", effort={self.effort:g}" if self.effort != 1.0 else ""
        settings += f", forget={self.forget!r}" if self.forget is not None else ""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"Thompson({self.diagram.name!r}, {name_of(self.inference)}{settings}; {rounds})"

    def copy(self, seed: Any = None) -> Thompson:
        """An agent that knows the same; with its own random numbers if a seed is given."""
        state, rng, sample = self._all_known()
        if seed is not None:
            rng = generator(seed)
            state = state if rounds_in(state) else self.learner.beginning(rng)
        return Thompson.of(self.learner, state, rng, sample)

    def __deepcopy__(self, memo: dict[int, Any]) -> Thompson:
        return self.copy()

    def __reduce__(self) -> Any:
        return _restored, (self.diagram, self.learner.settings, self.learner.past, *self._all_known())

    def save(self, path: str | Path) -> None:
        """Write all that the agent knows to a file, whole or not at all; `load` goes on as if nothing happened."""
        state, rng, sample = self._all_known()
        saved = Saved(self.diagram, self.learner.settings, self.learner.past, rng, state, sample)
        save_agent(path_of(path), saved, self.learner.evidence)

    @staticmethod
    def load(path: str | Path, *, diagram: Any = None, inference: Inference | None = None) -> Thompson:
        """An agent from a file. With `diagram`, one of another diagram is refused; own inferences are passed again."""
        if is_bundle(where := path_of(path)):
            from idbandits.agent.several import Structures

            return cast(Thompson, Structures.load(where, structures=diagram, inference=inference))
        saved = load_agent(where, diagram, inference)
        return _restored(saved.diagram, saved.settings, saved.past, saved.state, saved.rng, saved.sample)


def _no_rounds(learner: Learner) -> Sample:
    """A sample of no rounds."""
    return Sample(sum(map(len, learner.blank)))


def _restored(d: Diagram, settings: Settings, past: Past, state: State, rng: Rng, sample: Sample) -> Thompson:
    return Thompson.of(Learner(d, compile(d), settings, past), state, rng, sample)
