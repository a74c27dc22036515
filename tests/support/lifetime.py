"""Lifetime of an agent: calls of all kinds in any order, and invariants after each of them.

The model is a plain list, the *ledger*, of the remaining rounds (learned and not removed), each with its diagram. After
any sequence of calls, the belief of an agent must agree with its ledger:

- *counts and groups*: the log-likelihood in the state of an inference that counts is the sum of `idb.log_likelihood`
  over the ledger, at random means of all rows (up to a constant, so differences between means are compared);
- *order-dependent beliefs* (`IN_ORDER`): pseudo-counts are those of an agent that never moved, in a diagram that has
  everything, and received the same rounds;
- *every inference*: an agent that received only the calls that learn or move (no files, copies, pickles, reads) is
  bit-identical, including its random numbers.
"""

from __future__ import annotations

import copy
import functools
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import idbandits as idb
from idbandits.errors import IdbanditsError, ImpossibleObservationError, ObservationError
from inferences import INFERENCES
from internals import held_by, knowledge_of, log_likelihood_held, row_names
from lifetime_rounds import (
    EVERYTHING,
    IN_ORDER,
    KINDS,
    MEANS,
    NAMES,
    Labels,
    Played,
    Rng,
    Setting,
    Shape,
    diagrams_of,
    impossible_round,
    is_supported,
    log_of,
    random_observation,
    random_round,
    row_mean,
)  # fmt: skip

# -- lifetime ----------------------------------------------------------------------------------------------------------


@dataclass
class Clock:
    """Clock of an agent with forgetting: a round has full weight until the step of its time ends."""

    forget: idb.Forget | None
    now: float = 0.0  # seconds, or number of rounds ever learned
    step: float = 1.0  # last step of discounting

    @property
    def by_time(self) -> bool:
        """True if rounds have times."""
        return self.forget is not None and self.forget.by_time

    def learn(self, at: float) -> None:
        """Advance the clock to the time of a learned or revised round."""
        if self.forget is not None:
            self.step = max(self.step, self._step_of(at if self.by_time else self.now))

    def _step_of(self, at: float) -> float:
        return float(np.floor(at / self._length))

    @property
    def _half_life(self) -> float:
        half_life: Any = self.forget.half_life if self.forget is not None else np.inf
        return float(half_life.total_seconds() if self.by_time else half_life)

    @property
    def _length(self) -> float:
        return self._half_life / 64 if self.by_time else max(1.0, self._half_life / 64)

    def weight(self, at: float) -> float:
        """Return the current weight of a round."""
        if self.forget is None:
            return 1.0
        return float(0.5 ** ((self.step - min(self.step, self._step_of(at))) * self._length / self._half_life))


class Life:
    """Agent, its ledger, and the agents it is compared with. Operations take random numbers and check nothing."""

    unseen = 0.2  # probability that a node is missing

    def __init__(self, setting: Setting, seed: int = 0, shape: Shape | None = None, *, mirrored: bool = True) -> None:
        self.setting, self.shape = setting, setting.shapes[0] if shape is None else shape
        self.first = self.shape
        self.visited, self.ledger, self.steps = [self.shape], list[Played](), list[str]()
        self.agent: Any = self.new_agent(self.shape, seed)
        self.mirror: Any = self.new_agent(self.shape, seed) if mirrored else None
        self.settled: Any = self.unmoved() if setting.in_order else None
        self.reordered = False  # rounds were revised: the belief is close to that of the remaining rounds in order
        self.weighed = True  # structures were weighed round by round, not by blocks of logs
        self.clock = Clock(setting.forget, step=-np.inf if Clock(setting.forget).by_time else 0.0)

    def new_agent(self, shape: Shape, seed: Any = 0) -> Any:
        """Return a new agent."""
        inference = INFERENCES[self.setting.inference].make()
        return idb.Thompson(self.targets(shape), inference, seed, forget=self.setting.forget)

    def unmoved(self) -> Any:
        """Return a new agent in a diagram that contains everything, with the encodings of this one."""
        return self.new_agent(self.first).moved_to(self.targets(EVERYTHING))

    def targets(self, shape: Shape) -> Any:
        """Return the diagram of a shape, or all of its structures."""
        diagrams = diagrams_of(self.setting, shape)
        return diagrams if self.setting.has("several") else next(iter(diagrams.values()))

    # -- learning

    def both(self, call: Callable[[Any], Any]) -> Any:
        """Call the agent and its mirror; return the result of the agent."""
        result = call(self.agent)
        if self.mirror is not None:
            call(self.mirror)
        return result

    def time(self, rng: Rng, late: bool = False) -> float:
        """Return the time of the next round; late rounds are older."""
        if not self.clock.by_time:
            return float(rng.integers(int(self.clock.now) + 1)) if late else self.clock.now
        self.clock.now += float(rng.integers(3600)) * (not late)
        return self.clock.now - float(rng.integers(20_000)) * late

    def at(self, at: float, *, said: bool) -> dict[str, Any]:
        """Return the time argument if it is required."""
        if self.setting.forget is None or not (said or self.clock.by_time):
            return {}
        return {"at": at if self.clock.by_time else int(at)}

    def enter(self, played: Played) -> None:
        """Append a round to the ledger."""
        self.clock.learn(played.at)
        self.ledger.append(played)
        if self.setting.counts:
            played.evaluate(self.setting)
        if self.settled is not None:
            self.learn_unmoved(played)
        if self.setting.forget is not None and not self.clock.by_time:
            self.clock.now += 1

    def learn_unmoved(self, played: Played) -> None:
        """Learn a round with the agent that never moved."""
        self.settled.update(played.action, played.observation, played.context, **self.at(played.at, said=True))

    def learn(self, played: Played, late: bool, rng: Rng) -> None:
        """Learn a round by `update`."""
        self.weighed &= not late
        played.at = self.time(rng, late)
        how = self.at(played.at, said=late) | self.named(played, rng)
        self.both(lambda agent: agent.update(played.action, played.observation, played.context, **how))
        self.enter(played)

    def named(self, played: Played, rng: Rng) -> dict[str, Any]:
        """Return the argument that names the diagram of a round, or nothing."""
        is_named = not self.setting.has("several") and rng.random() < 0.5
        return {"diagram": self.targets(played.shape)} if is_named else {}

    def act(self, rng: Rng) -> None:
        """Act, with or without eligible items, and learn the result."""
        played = random_round(self.setting, self.shape, rng)
        number = int(rng.integers(self.shape.positions, len(self.shape.items) + 1))
        allowed = rng.permutation(list(self.shape.items))[:number].tolist() if rng.random() < 0.5 else None
        seed = int(rng.integers(2**63)) if rng.random() < 0.5 else None
        played.action = self.both(lambda agent: agent.act(played.context, allowed=allowed, seed=seed))
        if seed is not None:  # the action is that of the seed and the belief, and uses up no random numbers
            assert self.both(lambda agent: agent.act(played.context, allowed=allowed, seed=seed)) == played.action
        assert set(played.action.values()) <= set(self.shape.items if allowed is None else allowed)
        assert len(set(played.action.values())) == self.shape.positions
        played.observation = random_observation(self.setting, self.shape, played.action, rng, self.unseen)
        self.learn(played, False, rng)

    def update(self, rng: Rng) -> None:
        """Learn a round played by someone else."""
        self.learn(random_round(self.setting, self.shape, rng, self.unseen), False, rng)

    def update_impossible(self, rng: Rng) -> None:
        """Check that an impossible round is rejected."""
        if (wrong := impossible_round(self.setting, self.shape, rng)) is not None:
            when = self.at(self.time(rng), said=False)

            def call(agent: Any) -> None:
                with pytest.raises(ImpossibleObservationError):
                    agent.update(wrong.action, wrong.observation, wrong.context, **when)

            self.both(call)

    def late_shapes(self) -> list[Shape]:
        """Return the earlier diagrams."""
        return [shape for shape in self.visited if shape != self.shape]

    def update_late(self, rng: Rng) -> None:
        """Learn a round of an earlier diagram."""
        if shapes := self.late_shapes():
            self.learn(random_round(self.setting, shapes[int(rng.integers(len(shapes)))], rng, self.unseen), True, rng)

    def update_many(self, rng: Rng) -> None:
        """Learn a log of any length, with or without late and impossible rounds."""
        own = (self.shape.positions, self.shape.rated)
        shapes = [shape for shape in self.late_shapes() if (shape.positions, shape.rated) == own]
        rounds, impossible = list[Played](), list[Played]()
        least = 1 if self.setting.has("users") else 0  # an empty log has no columns of features
        self.weighed, length = False, max(least, int(rng.choice([0, 1, 2, 8, 40])))
        skips, lates = rng.random() < 0.5, rng.choice([0.0, 0.5, 0.97])
        for _ in range(length):
            is_late = shapes and rng.random() < lates
            shape = shapes[int(rng.integers(len(shapes)))] if is_late else self.shape
            wrong = impossible_round(self.setting, shape, rng) if skips and rng.random() < 0.2 else None
            impossible += [] if wrong is None else [wrong]
            rounds.append(random_round(self.setting, shape, rng, self.unseen) if wrong is None else wrong)
        if self.setting.in_order or self.setting.forget is not None:
            rounds = self.by_diagram(rounds)
        log, how = log_of(rounds, self.shape), {"impossible": "skip"} if skips else {}
        by_time = self.clock.by_time
        times = [self.time(rng) if by_time else self.clock.now for _ in rounds]
        at: dict[str, Any] = {"at": np.array(times)} if by_time else {}
        report = self.both(lambda agent: agent.update_many(*log, **how, **at))
        assert report.impossible.tolist() == [number for number, played in enumerate(rounds) if played in impossible]
        assert report.rounds == length - len(impossible)
        for number, played in enumerate(rounds):
            if played not in impossible:
                played.at = times[number] if by_time else self.clock.now
                self.enter(played)
        if sum(played.shape != self.shape for played in rounds) > 0.5 * len(self.ledger):
            self.check_belief()  # immediately: later rounds could hide a log that was not learned

    def by_diagram(self, rounds: Sequence[Played]) -> list[Played]:
        """Sort rounds of a log by diagram, the current one first: agents may learn in this order."""
        own = self.shape._replace(items="")  # a log has the columns of one shape
        latest = [shape for shape in reversed([*self.late_shapes(), self.shape]) if shape._replace(items="") == own]
        return sorted(
            rounds, key=lambda r: [set(r.action.values()) <= set(shape.items) for shape in latest].index(True)
        )

    def learn_counts(self, rng: Rng) -> None:
        """Learn the counts of a log of this diagram or of an earlier one, or be told that counts do not do."""
        shapes = [self.shape, *self.late_shapes()]
        shape = shapes[int(rng.integers(len(shapes)))]
        rounds = [random_round(self.setting, shape, rng, self.unseen) for _ in range(int(rng.choice([1, 8, 40])))]
        for played in rounds:
            played.at = self.time(rng)
        if not self.agent.learns_counts:
            counts = idb.count(*self.table(rounds[:1], Setting("exact", latent=self.setting.latent), shape))

            def call(agent: Any) -> None:
                with pytest.raises(IdbanditsError):
                    agent.learn(counts)

            self.both(call)
            return
        forget = {"forget": self.setting.forget, "at": "at"} if self.clock.by_time else {}
        counts = idb.count(*self.table(rounds, self.setting, shape), **forget)
        self.weighed = False
        self.both(lambda agent: agent.learn(counts))
        for played in rounds:
            self.enter(played)
        if self.settled is not None:  # rounds of counts have no order: the belief is close, and compared no further
            wanted, self.settled = rows_of(self.settled), None
            for name, alpha in rows_of(self.agent).items():
                if not np.isfinite(alpha).all():  # a fixed row
                    continue
                mean, other = alpha / alpha.sum(), wanted[name] / wanted[name].sum()
                sd = np.sqrt(other * (1 - other) / (wanted[name].sum() + 1))
                assert (abs(mean - other) < 2 * sd).all(), f"{name}: {mean}, not {other} +- {sd}"
        self.check_belief()

    @staticmethod
    def table(rounds: Sequence[Played], setting: Setting, shape: Shape) -> tuple[idb.Diagram, Labels]:
        """Return a diagram and a log of it."""
        own = {name: column for columns in log_of(rounds, shape) for name, column in columns.items()}
        return next(iter(diagrams_of(setting, shape).values())), own | {"at": np.array([r.at for r in rounds])}

    def update_many_impossible(self, rng: Rng) -> None:
        """Check that a log with an impossible round is rejected."""
        if (wrong := impossible_round(self.setting, self.shape, rng)) is None:
            return
        rounds = [random_round(self.setting, self.shape, rng) for _ in range(int(rng.integers(4)))]
        rounds.insert(int(rng.integers(len(rounds) + 1)), wrong)
        log = log_of(rounds, self.shape)
        at: dict[str, Any] = {"at": np.array([self.time(rng) for _ in rounds])} if self.clock.by_time else {}

        def call(agent: Any) -> None:
            with pytest.raises(ImpossibleObservationError, match=f"in round {rounds.index(wrong)}, "):
                agent.update_many(*log, **at)

        self.both(call)

    def revise(self, rng: Rng, how: str = "") -> None:
        """Complete, correct or remove a round, late or not."""
        if not takes_back(self.setting) or not self.ledger:
            return
        old = self.ledger[int(rng.integers(len(self.ledger)))]
        how = how or str(rng.choice(["complete", "correct", "take back"]))
        new: Labels | None = None
        if how != "take back":
            unseen = 0.0 if how == "complete" else self.unseen
            new = random_observation(self.setting, old.shape, old.action, rng, unseen)
        if how == "complete":  # observed values stay
            new = {**(new or {}), **{name: value for name, value in old.observation.items() if value is not None}}
        when = self.at(old.at, said=True) | self.named(old, rng)
        self.both(lambda agent: agent.revise(old.action, old.observation, new, old.context, **when))
        self.clock.learn(old.at)
        place = self.ledger.index(old)
        if self.settled is not None:  # the latest of equal rounds is revised
            place = max(k for k, other in enumerate(self.ledger) if told(other) == told(old) and other.at == old.at)
        self.ledger.pop(place)
        later = len(self.ledger) - place
        if new is not None:
            now = self.clock.now  # the number of rounds is unchanged
            self.enter(Played(old.shape, old.action, new, old.context, old.at))
            self.clock.now = now
            self.ledger.insert(place, self.ledger.pop())
        if self.settled is not None:
            self.settled, self.reordered = self.unmoved(), self.reordered or later > 256
            for played in self.ledger:
                self.learn_unmoved(played)

    # -- moving, saving, reading

    def move(self, rng: Rng, shape: Shape | None = None) -> None:
        """Move to a diagram, possibly an earlier one."""
        self.shape = self.setting.shapes[int(rng.integers(len(self.setting.shapes)))] if shape is None else shape
        target = self.targets(self.shape)
        self.agent = self.agent.moved_to(target)
        self.mirror = None if self.mirror is None else self.mirror.moved_to(target)
        self.visited = [shape for shape in self.visited if shape != self.shape] + [self.shape]

    def save(self, rng: Rng) -> None:
        """Save the agent and continue with the loaded one."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent"
            self.agent.save(path)
            own = {"inference": INFERENCES["own"].make()} if self.setting.inference == "own" else {}
            self.agent = idb.Thompson.load(path, **own)

    def copy(self, rng: Rng) -> None:
        """Continue with a copy."""
        self.agent = self.agent.copy() if rng.random() < 0.5 else copy.deepcopy(self.agent)

    def pickle(self, rng: Rng) -> None:
        """Continue with a pickled agent."""
        self.agent = pickle.loads(pickle.dumps(self.agent))

    def look(self, rng: Rng) -> None:
        """Call all methods that read; nothing changes."""
        played = random_round(self.setting, self.shape, rng)
        agent, context = self.agent, played.context
        looks: list[Callable[[], Any]] = [
            agent.posterior, lambda: agent.best_action(context), lambda: agent.best_action(context, allowed=list(self.shape.items)),
            lambda: agent.propensity(played.action, context, draws=3), lambda: agent.marginals(context, draws=3),
            agent.weights, lambda: repr(agent),
        ]  # fmt: skip
        if not self.setting.has("several"):
            looks += [lambda: agent.draws(3)]
            looks += [agent.fit_report] if not self.setting.has("users") else []
        looks[int(rng.integers(len(looks)))]()

    # -- invariants

    def check(self) -> None:
        """Compare the agent with its ledger, its mirror and the agent that never moved."""
        assert self.agent.rounds == len(self.ledger)
        if self.mirror is not None:
            self.check_mirror()
        if self.setting.counts:
            self.check_likelihood()
        if self.settled is not None:
            self.check_order()

    def check_belief(self) -> None:
        """Check that the belief is close to that of a new agent.

        In 380 lifetimes, means differed by at most 0.35 standard deviations, because of pending sweeps and the error of
        chains. A chain with a regression fitted to one draw of latent counts differs by 1.5 to 6.
        """
        regression = self.setting.has("features") or self.setting.has("pooled")
        approximate = regression and self.setting.latent and self.setting.inference != "gibbs"
        if not self.setting.counts or approximate or self.setting.has("several") or self.setting.forget is not None:
            return
        found, wanted = self.agent.posterior(), self.rebuilt().posterior()
        for table, belief in wanted.items():
            off = abs(found[table].mean - belief.mean) / np.maximum(belief.sd, 1e-3)
            assert off.max() < 1.0, f"{table}: means are off by {off.max():.2f} standard deviations"

    def check_mirror(self) -> None:
        """Check that files, copies, pickles and reads change nothing, including random numbers."""
        assert knowledge_of(self.agent) == knowledge_of(self.mirror)

    def expected(self, structure: str) -> np.ndarray:
        """Return the log-likelihood of the ledger at all means, weighted by age."""
        total = np.zeros(MEANS)
        for played in self.ledger:
            total += self.clock.weight(played.at) * played.log_likelihoods[structure]
        return total

    def check_likelihood(self) -> None:
        """Check that the log-likelihood of the state is that of the ledger, up to a constant."""
        for name, held in held_by(self.agent).items():
            if self.agent.weights()[name] == 0:
                continue  # excluded structures do not learn
            mean_of = [functools.partial(row_mean, self.setting, k) for k in range(MEANS)]
            found = [log_likelihood_held(held, mean, rounded=False) for mean in mean_of]
            wanted, faded = self.expected(name), self.setting.forget is not None and self.setting.latent
            slack = 0.05 if faded else 1e-9 * (1 + abs(wanted).max())  # groups with negligible weight are dropped
            np.testing.assert_allclose(np.subtract(found, found[0]), wanted - wanted[0], rtol=1e-9, atol=slack)

    def rebuilt(self) -> Any:
        """Return a new agent that moved through all diagrams and then learned the remaining rounds in order."""
        agent = self.new_agent(self.first)
        for shape in self.visited:
            agent = agent.moved_to(self.targets(shape))
        for played in self.ledger:
            when = self.at(played.at, said=True)
            agent.update(played.action, played.observation, played.context, **when)
        return agent

    def check_order(self) -> None:
        """Check that rows have the pseudo-counts of an agent that never moved.

        With context features, rounds after a revised one are learned again if they are few. Otherwise coefficients are
        approximately equal: they depend on the order of rounds, by up to half a standard deviation.
        """
        wanted = rows_of(self.settled)
        if self.weighed:
            assert self.agent.weights() == pytest.approx(self.settled.weights(), abs=1e-9)
        for name, numbers in rows_of(self.agent).items():
            if self.reordered and len(name) == 3:
                (mean, sd), (other, other_sd) = numbers, wanted[name]
                assert abs(mean - other) < 1.0 * max(sd, other_sd), f"{name}: {mean} +- {sd}, not {other} +- {other_sd}"
            elif not self.reordered:
                np.testing.assert_allclose(numbers, wanted[name], rtol=1e-6, atol=1e-6, err_msg=str(name))


def told(played: Played) -> tuple[Any, ...]:
    """Return the arguments of `update` for a round."""
    seen = {name: value for name, value in played.observation.items() if value is not None}
    return played.action, seen, played.context


def rows_of(agent: Any) -> dict[Any, np.ndarray]:
    """Return pseudo-counts by row name; of coefficients, means and deviations by name."""
    several = len(agent.diagrams) > 1
    diagrams = agent.diagrams if several else {"lifetime": agent.diagram}
    beliefs = agent.posterior() if several else {"lifetime": agent.posterior()}
    found: dict[Any, np.ndarray] = {}
    for structure, d in diagrams.items():
        for table, belief in beliefs[structure].items():
            names = [(structure, *name) for name in row_names(d) if name[0] == table]
            found |= dict(zip(names, belief.alpha.reshape(len(names), -1), strict=True))
            if belief.regression is not None:
                frame = belief.regression.to_frame()
                found |= {
                    (structure, table, line.feature): np.array([line.mean, line.sd]) for line in frame.itertuples()
                }
    return found


@functools.cache
def takes_back(setting: Setting) -> bool:
    """Return True if rounds can be removed; with context features, a new agent is tested."""
    if not setting.has("users"):
        return INFERENCES[setting.inference].revisable
    life, played = Life(setting), random_round(setting, setting.shapes[0], np.random.default_rng(0))
    try:
        life.agent.revise(played.action, played.observation, None, played.context, **life.at(0.0, said=True))
    except ObservationError:
        return True
    except IdbanditsError:
        return False
    return True


OPERATIONS: dict[str, Callable[[Life, Rng], None]] = {
    "act": Life.act, "update": Life.update, "update_impossible": Life.update_impossible, "update_late": Life.update_late,
    "update_many": Life.update_many, "update_many_impossible": Life.update_many_impossible, "revise": Life.revise,
    "learn_counts": Life.learn_counts,
    "move": Life.move, "save": Life.save, "copy": Life.copy, "pickle": Life.pickle, "look": Life.look,
}  # fmt: skip

HALF_LIVES = (40, "2d")  # long enough that moves retire no row because of discounting
SETTINGS = [
    setting
    for name in NAMES
    for setting in [
        *(Setting(name, kind, latent) for kind in KINDS for latent in (True, False)),
        *(Setting(name, kind, False, idb.Forget(h)) for kind in ("plain", "features", "several") for h in HALF_LIVES),
        *(Setting(name, "plain", True, idb.Forget(h)) for h in HALF_LIVES if name not in IN_ORDER),
    ]
    if is_supported(setting)
]


class Step(NamedTuple):
    """Operation of a lifetime, with the seed of its random numbers."""

    operation: str
    seed: int


def live(setting: Setting, steps: Sequence[Step]) -> Life:
    """Run the steps of a lifetime; raise if a check fails."""
    life = Life(setting)
    for step in steps:
        OPERATIONS[step.operation](life, np.random.default_rng(step.seed))
        life.check()
    life.check_belief()
    return life
