"""Calls of worlds, simulations, results, baselines and theory."""

from __future__ import annotations

import copy
import functools
import pickle
import types
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import idbandits as idb
from baseline_cases import costly, odd_choices
from diagrams import random_means
from feature_diagrams import chances_of, has_requests
from idbandits import baselines, models, theory
from internals import knowledge
from played_rounds import play

from .agents import any_diagram, feasible, problem
from .attempts import Call, Session
from .invalid_values import Rng, garbage, spoil


class Worlds(Session):
    """World, learners, and the result of a simulation."""

    WEIGHTS: ClassVar[dict[str, int]] = {"step": 10, "simulate": 2, "plot": 1, "load": 3, "pickle": 1, "make": 6}

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.d = problem(rng)
        self.means = random_means(rng, self.d)
        self.chances = chances_of(rng, self.d)
        self.world = idb.World(self.d, self.means, seed=0, contexts=self.chances)
        self.rounds = play(self.d, rng, 6)
        learners = {"ep": idb.Thompson(self.d, seed=0)}
        self.result = idb.simulate(self.world, learners, rounds=4, runs=2, workers=1, progress=False)

    def objects(self) -> list[Any]:
        return [self.world, self.d, self.result]

    def call_make(self) -> Call:
        arguments = {"d": self.d, "means": self.means, "seed": 1, "contexts": self.chances}
        return Call(
            "World", idb.World, arguments, lambda world: [world.best(played.context) for played in self.rounds[:1]]
        )

    def call_context(self) -> Call:
        return Call("World.context", self.world.context)

    def call_step(self) -> Call:
        def check(outcome: idb.Outcome) -> None:
            assert set(outcome.observation) == {n.name for n in self.d.of_kind("observed")}
            assert np.isfinite([outcome.reward, outcome.regret]).all()
            assert outcome.regret >= 0
            assert outcome.seen_by(self.d) == outcome.observation

        played = self.one(self.rounds)
        context = played.context if self.rng.random() < 0.6 else None
        return Call("World.step", self.world.step, {"action": played.action, "context": context}, check)

    def call_best(self) -> Call:
        check = functools.partial(feasible, self.d)
        return Call(
            "World.best", self.world.best, {"context": self.one(self.rounds).context}, lambda s: check(s.action)
        )

    def call_expected(self) -> Call:
        played, ask = self.one(self.rounds), self.one([self.world.expected, self.world.regret])
        return Call(
            "World.expected", ask, {"action": played.action, "context": played.context}, lambda v: _true(np.isfinite(v))
        )

    def call_seen_by(self) -> Call:
        played = self.one(self.rounds)
        context = None if has_requests(self.d) else played.context  # worlds draw requests
        outcome = self.world.copy().step(played.action, context)
        return Call("seen_by", outcome.seen_by, {"d": self.d.revealed()})

    def call_copy(self) -> Call:
        return Call(
            "World.copy", self.world.copy, {"seed": self.one([None, 3])}, lambda w: _true(isinstance(w, idb.World))
        )

    def call_pickle(self) -> Call:
        return Call("pickle world", lambda: (copy.deepcopy(self.world), pickle.loads(pickle.dumps(self.world))))

    def call_simulate(self) -> Call:
        learners = {"ep": idb.Thompson(self.d, seed=0), "revealed": idb.Thompson(self.d.revealed(), "exact", seed=1)}
        arguments = {
            "world": self.world, "learners": learners, "rounds": self.number(1, 5), "runs": 2, "seed": 0, "workers": 1,
            "progress": False, "checkpoints": self.one([3, "every"]),
        }  # fmt: skip

        def check(result: idb.Result) -> None:
            assert len(result.summary()) == len(result.settings["learners"])
            self.result = result

        return Call(
            "simulate", idb.simulate, arguments, check, efforts=("rounds", "runs", "workers", "checkpoints", "seed")
        )

    def call_odd_learner(self) -> Call:
        """Simulate a custom learner that acts unexpectedly."""
        oddity = spoil(self.rng, self.one(self.rounds).action)
        learner = types.SimpleNamespace(
            act=lambda **_: oddity, update=lambda *_, **__: self.one([None, garbage(self.rng)])
        )

        def use(learners: Any) -> None:
            idb.simulate(self.world, learners, rounds=2, runs=1, workers=1, progress=False)

        return Call("odd learner", use, {"learners": {"odd": learner}})

    # -- results -----------------------------------------------------------------------------------------------------

    def call_result(self) -> Call:
        def ask(**arguments: Any) -> None:
            result = idb.Result(**arguments)
            repr(result)
            result.summary()
            result.save("odd.parquet")
            idb.Result.load("odd.parquet")

        frame, settings = self.result.frame.copy(), dict(self.result.settings)
        column = self.one(list(frame.columns))
        if self.rng.random() < 0.5:
            frame[column] = self.one([0, "x", None, np.nan, np.inf, -1, 2**62])
        return Call("Result", ask, {"frame": frame, "settings": settings}, files=True)

    def call_plot(self) -> Call:
        return Call(
            "plot", self.result.plot, {"what": self.one(["reward", "regret"]), "ax": None}, lambda ax: ax.figure.clear()
        )

    def call_save(self) -> Call:
        return Call("Result.save", self.result.save, {"path": "result.parquet"}, files=True)

    def call_load(self) -> Call:
        self.result.save("result.parquet")
        content = bytearray(Path("result.parquet").read_bytes())
        if self.rng.random() < 0.7:
            content[self.number(0, len(content) - 1)] ^= 1 << self.number(0, 7)
        Path("result.parquet").write_bytes(content)
        return Call("Result.load", idb.Result.load, {"path": "result.parquet"}, lambda r: r.summary(), files=True)


class Baselines(Session):
    """Baseline, and rounds that it can learn."""

    WEIGHTS: ClassVar[dict[str, int]] = {"act": 8, "update": 12, "make": 10}
    FIT: ClassVar[dict[str, Any]] = {  # diagrams and settings by baseline
        "CascadeKLUCB": (lambda: models.cascade(4, 2), {"reading": "first"}), "CascadeUCB1": (lambda: models.cascade(4, 2), {"reading": "last"}),
        "TopRank": (lambda: models.position_based(4, 2), {"horizon": 50, "delta": 0.5}), "UCB1": (lambda: models.cascade(["a", "b", "c"], 2), {}),
        "Rank1Elim": (lambda: models.rank1(3, 3), {"horizon": 30}), "Rank1ElimKL": (lambda: models.rank1(4, 2), {"horizon": 10, "level": 1.0}),
        "CombUCB1": (odd_choices, {"factor": 0.5}), "KLCombUCB1": (lambda: models.position_based(4, 2), {"horizon": 40}),
        "GRAB": (lambda: models.position_based(4, 2), {"horizon": 100, "gamma": 1}), "Uniform": (lambda: models.user_browsing(4, 2), {}),
        "EpsilonGreedy": (costly, {"epsilon": 0.5, "decay": 10}),
    }  # fmt: skip

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.name = self.one(list(self.FIT))
        make, self.settings = self.FIT[self.name]
        self.d = make()
        self.kind = getattr(baselines, self.name)
        self.learner = self.kind(self.d, 0, **self.settings)
        self.rounds = play(self.d, rng, 8)

    def objects(self) -> list[Any]:
        return [self.learner, self.d]

    def call_make(self) -> Call:
        d = self.d if self.rng.random() < 0.7 else any_diagram(self.rng)

        def make(**arguments: Any) -> None:
            learner = self.kind(**arguments)
            learner.act()
            if d is self.d:
                for played in self.rounds:
                    learner.update(played.action, played.observation)
                feasible(d, learner.act())

        return Call(self.name, make, {"d": d, "seed": 0, **self.settings})

    def call_act(self) -> Call:
        return Call(f"{self.name}.act", self.learner.act, {}, functools.partial(feasible, self.d))

    def call_update(self) -> Call:
        played, before = self.one(self.rounds), self.learner.rounds
        arguments = {"action": played.action, "observation": played.observation}
        return Call(
            f"{self.name}.update", self.learner.update, arguments, lambda _: _true(self.learner.rounds == before + 1)
        )

    def call_copy(self) -> Call:
        def check(other: Any) -> None:
            assert call.arguments.get("seed") is not None or knowledge(other) == knowledge(self.learner)
            repr(other), other.settings, copy.deepcopy(other)

        call = Call(f"{self.name}.copy", self.learner.copy, {"seed": self.one([None, 3])}, check)
        return call

    def call_pickle(self) -> Call:
        return Call(f"{self.name} pickle", lambda: pickle.loads(pickle.dumps(self.learner)))


def fitting(name: str) -> tuple[idb.World, Any]:
    """Return a baseline in a world that it supports."""
    make, settings = Baselines.FIT[name]
    d = make()
    return idb.World(d, random_means(np.random.default_rng(0), d), seed=0), getattr(baselines, name)(d, 0, **settings)


class Theory(Session):
    """Small diagram, and calls of the theory."""

    WEIGHTS: ClassVar[dict[str, int]] = {"plot": 1, "study": 2}

    SMALL = (
        lambda: models.cascade(3, 2), lambda: models.semi_bandit(3, 2), lambda: models.position_based(3, 2),
        lambda: models.rank1(2, 2), lambda: models.cascade_inverted(["a", "b"], 2),
    )  # fmt: skip

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.d = self.one(self.SMALL)()
        self.means = random_means(rng, self.d)
        self.rounds = play(self.d, rng, 4)

    def objects(self) -> list[Any]:
        return [self.d]

    def call_regret_bound(self) -> Call:
        arguments = {"n": 100, "parameters": 3, "omax": 1.5, "C": 1.0, "B": 2}
        return Call("regret_bound", theory.regret_bound, arguments, lambda v: _true(v >= 0), efforts=("n",))

    def call_bound(self) -> Call:
        return Call("bound", theory.bound, {"d": self.d, "n": 100})

    def call_check(self) -> Call:
        ask = self.one([theory.check_monotone, theory.check_decomposition, theory.max_observations])
        return Call(ask.__name__, ask, {"d": self.d})

    def call_observed(self) -> Call:
        played = self.one(self.rounds)
        arguments = {
            "d": self.d,
            "action": played.action,
            "observation": played.observation,
            "biased": self.one([True, False]),
        }
        return Call("observed_parameters", theory.observed_parameters, arguments)

    def call_probabilities(self) -> Call:
        arguments = {"d": self.d, "action": self.one(self.rounds).action, "means": self.one([None, self.means])}
        return Call(
            "observation_probabilities",
            theory.observation_probabilities,
            arguments,
            lambda seen: _true(np.isfinite(seen.total)),
        )

    def call_bayes_regret(self) -> Call:
        arguments = {
            "d": models.semi_bandit(3, 1), "rounds": self.one([5, [2, 4]]), "runs": 2, "learner": None, "seed": 0, "workers": 1,
        }  # fmt: skip
        return Call("bayes_regret", theory.bayes_regret, arguments, efforts=("rounds", "runs", "workers"))

    def call_prior_means(self) -> Call:
        return Call("prior_means", theory.prior_means, {"d": self.d, "rng": np.random.default_rng(0)})

    def call_study(self) -> Call:
        arguments = {
            "rounds": [2, 4], "items": [3], "positions": [1], "usual": (3, 3, 1), "runs": 1, "seed": 0, "workers": 1,
        }  # fmt: skip
        efforts = tuple(arguments)
        return Call(
            "study",
            theory.study,
            arguments,
            lambda frame: theory.plot(frame) if self.rng.random() < 0.1 else None,
            efforts=efforts,
        )

    def call_plot(self) -> Call:
        frame = theory.study([2], [3], [1], usual=(3, 3, 1), runs=1, workers=1)
        return Call("theory.plot", theory.plot, {"frame": frame})


def _true(condition: Any) -> None:
    assert condition
