"""Calls of agents, and queries of diagrams with given means."""

from __future__ import annotations

import copy
import functools
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import idbandits as idb
from diagrams import NAMED, random_diagram, random_learning_diagram, random_means, shop, with_fixed_rows
from feature_diagrams import has_regressions, has_requests, random_menu, random_request, random_shop, with_features
from inferences import INFERENCES, Counts, agent_of
from internals import groups, kept, knowledge
from labelled_log import tea_room
from played_rounds import Played, columns, play

from .attempts import Call, Session
from .invalid_values import Changing, NotAMapping, Rng, garbage, spoil

READY = [
    lambda: idb.models.cascade(4, 2), lambda: idb.models.cascade(["a", "b", "c"], 2, learn_conditionals=True),
    lambda: idb.models.cascade_inverted(3, 2), lambda: idb.models.position_based(4, 2), lambda: idb.models.semi_bandit(5, 2),
    lambda: idb.models.rank1(3, ["x", "y"]), lambda: idb.models.dependent_click(3, 2), lambda: idb.models.dynamic_bayesian(3, 2),
    lambda: idb.models.click_chain(3, 2), lambda: idb.models.user_browsing(3, 3), tea_room, shop, *NAMED,
]  # fmt: skip
FEATURED = float(os.environ.get("FUZZ_FEATURED", "0.35"))  # share of problems
PRIORS = [1e-300, 1e-9, 1e-6, 0.01, 0.5, 1.0, 3.0, 1e3, 1e9, 1e12, 1e15]


def problem(rng: Rng) -> idb.Diagram:
    """Return a diagram to learn: a model, a named or a random diagram; sometimes with features or unusual priors."""
    if rng.random() < FEATURED:
        return random_shop(rng) if rng.random() < 0.3 else with_odd_priors(rng, random_menu(rng))
    if rng.random() < 0.4:
        d = READY[int(rng.integers(len(READY)))]()
    else:
        d = random_learning_diagram(int(rng.integers(2**32)))
    if rng.random() < 0.2:
        d = with_fixed_rows(rng, d)
    if rng.random() < 0.15:
        d = with_features(rng, d)
    return with_odd_priors(rng, d)


def with_odd_priors(rng: Rng, d: idb.Diagram) -> idb.Diagram:
    """Return the diagram, sometimes with unusual priors."""
    if rng.random() < 0.15:
        data = d.to_dict()
        for table in data["learned"]:
            table["prior"] = [float(PRIORS[i]) for i in rng.integers(len(PRIORS), size=d.learned[table["name"]].states)]
        try:
            return idb.Diagram.from_dict(data)
        except idb.errors.FormatError:  # priors have a range
            return d
    return d


def is_able(name: str, d: idb.Diagram) -> bool:
    """Return True if an inference supports the features of a diagram."""
    if has_requests(d):
        return name in ("exact", "moments", "incremental")
    return name not in ("particles", "own") or not has_regressions(d)


def feasible(d: idb.Diagram, action: Any) -> None:
    """Raise unless an action satisfies the constraints."""
    assert set(action) == {n.name for n in d.of_kind("decision")}, action
    assert all(action[n.name] in n.values for n in d.of_kind("decision")), action
    for group, excepted in d.constraints:
        chosen = [action[name] for name in group if action[name] not in excepted]
        assert len(set(chosen)) == len(chosen), action


def probabilities(values: Any) -> None:
    """Raise unless numbers are probabilities."""
    array = np.asarray(values, float)
    assert ((array >= 0) & (array <= 1 + 1e-9)).all(), array


def one_by_one(agent: idb.Thompson, rounds: int, actions: Any, observations: Any, contexts: Any) -> None:
    """Learn a log round by round: `update` must accept what `update_many` accepts, with equal results."""
    observations = {} if observations is None else observations
    for k in range(rounds):
        action, seen = ({name: cell(column, k) for name, column in own.items()} for own in (actions, observations))
        context = None if contexts is None else {name: cell(column, k) for name, column in contexts.items()}
        agent.update(action, seen, context)


def cell(column: Any, k: int) -> Any:
    """Return the k-th value of a column, None if it is missing."""
    column = np.asarray(column) if isinstance(column, memoryview) else column
    value = column.iloc[k] if isinstance(column, pd.Series) else column[k]
    value = value.as_py() if hasattr(value, "as_py") else value
    return None if value is np.ma.masked or pd.isna(value) else value


class Agents(Session):
    """Agent, rounds that it can learn, and means."""

    WEIGHTS: ClassVar[dict[str, int]] = {
        "act": 12, "update": 20, "update_many": 14, "revise": 8, "make": 4, "load_damaged": 3, "load": 2, "save": 2,
        "inference": 4, "structures": 1, "elbo": 1, "repr": 1, "compile": 1, "deepcopy": 1, "pickle": 1,
    }  # fmt: skip

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.d = problem(rng)
        self.name = self.one([name for name in INFERENCES if is_able(name, self.d)])
        kinds = [
            np.random.PCG64,
            np.random.PCG64,
            np.random.MT19937,
            np.random.Philox,
            np.random.SFC64,
            np.random.PCG64DXSM,
        ]
        self.agent = agent_of(self.name, self.d, np.random.Generator(self.one(kinds)(int(rng.integers(2**32)))))
        if self.name not in ("own", "particles") and rng.random() < 0.2:
            forget = idb.Forget(half_life=self.one([0.5, 3, 100, 10**9]))
            self.agent = idb.Thompson(self.agent.diagram, self.agent.inference, self.agent.rng, forget=forget)
        self._go_on(self.agent)
        self.late: list[Played] = []  # rounds of earlier diagrams

    def _go_on(self, agent: idb.Thompson) -> None:
        """Continue with an agent that may be in another diagram."""
        self.agent, self.d = agent, agent.diagram.copy()
        self.means = random_means(self.rng, self.d)
        self.rounds: list[Played] = play(self.d, self.rng, 12, unseen=0.0 if self.name in ("exact", "own") else 0.2)
        self.learned: list[Played] = []

    def objects(self) -> list[Any]:
        return [self.agent, self.d]

    def _round(self) -> Played:
        played: Played = self.one(self.rounds)
        return played

    def call_make(self) -> Call:
        arguments = {"d": self.d, "inference": self._inference(), "seed": self.number(0, 9)}
        return Call("Thompson", idb.Thompson, arguments)

    def _inference(self) -> Any:
        kinds: list[Any] = [
            ("EP", {"sweeps": 2, "damping": 0.5, "share": 0.1}), ("Gibbs", {"steps": 2}), ("Particles", {"number": 5, "width": 0.1}),
            ("Variational", {"sweeps": 2, "tolerance": 0.1, "start": "warm", "literal": False}), ("Moments", {}), ("Exact", {}),
            ("Incremental", {"iterations": 3, "start": "warm", "literal": False}),
        ]  # fmt: skip
        return "ep" if self.rng.random() < 0.3 else getattr(idb, self.one(kinds)[0])()

    def call_inference(self) -> Call:
        kind, settings = self.one([
            (idb.EP, {"sweeps": 2, "damping": 0.5, "share": 0.1}), (idb.Gibbs, {"steps": 2}), (idb.Particles, {"number": 5, "width": 0.1}),
            (idb.Variational, {"sweeps": 2, "tolerance": 0.1, "start": "warm", "literal": False}),
            (idb.Incremental, {"iterations": 3, "start": "warm", "literal": False}),
        ])  # fmt: skip

        def make(**arguments: Any) -> Any:
            agent = idb.Thompson(self.d, kind(**arguments), seed=0)
            played = self._round()
            agent.update(played.action, played.observation, played.context)
            agent.act(played.context)
            return agent

        return Call(kind.__name__, make, settings, lambda agent: agent.posterior(), efforts=tuple(settings))

    def call_own_inference(self) -> Call:
        """Call a custom inference with one invalid member."""
        own = Counts()
        part = self.one(["settings", "evidence", "start", "belief", "learn"])
        made = getattr(own, part)
        if callable(made) and self.rng.random() < 0.7:
            broken = spoil(self.rng, self._made(own, part))
            setattr(own, part, lambda *_: broken)
        else:
            setattr(own, part, garbage(self.rng))

        def use(inference: Any) -> None:
            agent = idb.Thompson(self.d, inference, seed=0)
            for played in self.rounds[:3]:
                agent.act(played.context)
                agent.update(played.action, played.observation, played.context)
            agent.posterior()
            agent.save("own.idb")

        call = Call(f"own inference, {part}", use, {"inference": own}, foreign=True)
        call.spoil = lambda rng: None  # type: ignore[method-assign]  # already invalid
        return call

    def _made(self, own: Counts, part: str) -> Any:
        """Return a valid result of a member of an inference."""
        model = idb.compile(self.d)
        evidence = own.evidence(model)
        state = own.start(model, evidence, self.agent.rng)
        return {"evidence": evidence, "start": tuple(state), "belief": state.floats, "learn": 0}[part]

    def call_act(self) -> Call:
        arguments = {"context": self._round().context, "allowed": self._allowed()}
        return Call("act", self.agent.act, arguments, functools.partial(feasible, self.d))

    def _allowed(self) -> Any:
        """Return some of the choices, or None."""
        if self.rng.random() < 0.5:
            return None
        lists = {n.name: [v for v in n.values if self.rng.random() < 0.8] for n in self.d.of_kind("decision")}
        return lists if self.rng.random() < 0.5 else next(iter(lists.values()), [])

    def call_best_action_of_agent(self) -> Call:
        arguments = {"context": self._round().context, "allowed": self._allowed()}
        check = functools.partial(feasible, self.d)
        return Call("best_action", self.agent.best_action, arguments, lambda found: check(found.action), reads=True)

    def call_marginals(self) -> Call:
        arguments = {"context": self._round().context, "allowed": self._allowed(), "draws": self.number(1, 9)}

        def check(result: Any) -> None:
            repr(result)
            probabilities(result.probability.to_numpy()[~result.probability.isna().to_numpy()])

        return Call("marginals", self.agent.marginals, arguments, check, efforts=("draws",), reads=True)

    def call_moved_to(self) -> Call:
        other = self.one([problem, problem, lambda _: self.d, lambda rng: with_features(rng, self.d)])(self.rng)

        def check(moved: idb.Thompson) -> None:
            assert moved.rounds == self.agent.rounds
            repr(moved.carried)
            moved.posterior()
            self.late += self.rounds
            self._go_on(moved)

        return Call("moved_to", self.agent.moved_to, {"d": other}, check)

    def call_update_late(self) -> Call:
        played = self.one(self.late) if self.late else self._round()
        arguments = {"action": played.action, "observation": played.observation, "context": played.context}
        return Call("late update", self.agent.update, arguments, lambda _: self.agent.act(self._round().context))

    def call_update(self) -> Call:
        played, before, twin = self._round(), self.agent.rounds, self.agent.copy()
        if self.rng.random() < 0.3:  # choices of `act` are validated differently
            acted = self.agent.act(played.context)
            twin = self.agent.copy()
            if self.d.of_kind("observed") and self.name not in ("exact", "own"):
                played = played._replace(action=acted, observation={})
        arguments = {"action": played.action, "observation": played.observation, "context": played.context}
        call = Call("update", self.agent.update, arguments)

        def check(_: Any) -> None:
            assert self.agent.rounds == before + 1
            if not any(isinstance(value, (Changing, NotAMapping)) for value in call.arguments.values()):
                twin.update(**call.arguments)  # a copy does not know the choice of `act`, and must accept it
                assert knowledge(twin) == knowledge(self.agent)
            self.learned.append(played)

        call.check = check
        return call

    def call_update_many(self) -> Call:
        log = [self._round() for _ in range(self.number(0, 12))]
        actions, observations, contexts = columns(self.d, log)
        if self.rng.random() < 0.5:  # lists instead of object arrays
            actions, observations = ({k: v.tolist() for k, v in own.items()} for own in (actions, observations))
        before, twin = self.agent.rounds, self.agent.copy()
        arguments = {"actions": actions, "observations": observations, "contexts": contexts}
        call = Call("update_many", self.agent.update_many, arguments)

        def check(_: Any) -> None:
            added = self.agent.rounds - before
            assert added == len(log) or call.spoiled
            if all(type(value) is dict for value in call.arguments.values() if value is not None):
                one_by_one(twin, added, **call.arguments)
                assert twin.rounds == self.agent.rounds
                if self.agent.forget is not None:  # discounting is random
                    return
                assert groups(twin) == groups(self.agent)
                if has_regressions(self.d):  # fits happen at other times
                    return
                assert not INFERENCES[self.name].sequential or knowledge(twin) == knowledge(self.agent)

        call.check = check
        return call

    def call_revise(self) -> Call:
        played, other, before = self.one(self.learned or self.rounds), self._round(), self.agent.rounds
        new = None if self.rng.random() < 0.3 else other.observation
        arguments = {
            "action": played.action, "old_observation": played.observation, "new_observation": new, "context": played.context,
        }  # fmt: skip
        call = Call("revise", self.agent.revise, arguments)

        def check(_: Any) -> None:
            assert self.agent.rounds == before - (call.arguments["new_observation"] is None)

        call.check = check
        return call

    def call_sample(self) -> Call:
        return Call("sample", self.agent.sample, {}, lambda means: [probabilities(table) for table in means.values()])

    def call_posterior(self) -> Call:
        def check(belief: Any) -> None:
            for name, table in belief.items():
                learned = table.alpha[np.isfinite(table.alpha).all(axis=-1)]  # infinite for fixed rows
                assert learned.size == table.alpha.size - len(self.d.learned[name].fixed) * table.alpha.shape[-1]
                assert (learned > 0).all(), table.alpha
                assert np.isfinite(table.sd).all(), table.sd
                probabilities(table.mean)
                repr(table)

        return Call("posterior", self.agent.posterior, {}, check, reads=True)

    def call_regression(self) -> Call:
        """Call all methods of regressions, one argument of which may be invalid."""
        tables = self.agent.posterior()
        regressions = {name: table.regression for name, table in tables.items() if table.regression is not None}
        if not regressions:
            return self.call_posterior()
        name = self.one(list(regressions))
        regression = regressions[name]
        if (logistic := self.d.learned[name].logistic) is not None:
            request = random_request(self.d.nodes[logistic.context], self.rng)
            return Call("regression.means", regression.means, {"request": request}, probabilities, reads=True)

        def ask(q: Any, plots: bool) -> Any:
            repr(regression), regression.to_frame()
            if plots is True:
                regression.plot()
            return regression.quantile(q), regression.strength_quantile(q)

        def check(_: Any) -> None:
            fixed = np.zeros(int(np.prod(self.d.learned[name].shape)), bool)
            fixed[list(self.d.learned[name].fixed)] = True
            own = regression.prior_mean.reshape(len(fixed), -1)
            probabilities(own[~fixed])
            assert np.isfinite([*regression.coefficients.flat, *regression.sd.flat, regression.strength]).all()
            assert (regression.observations >= 0).all()

        arguments = {"q": self.one([0.5, [0.1, 0.9]]), "plots": bool(self.rng.random() < 0.03)}
        return Call("regression", ask, arguments, check, reads=True)

    def call_structures(self) -> Call:
        """Call agents of several structures, one of which has other features."""

        def use(d: Any, other: Any, inference: Any) -> None:
            agent = idb.Thompson([d, other], inference, seed=0)
            for played in self.rounds[:3]:
                agent.act(played.context)
                agent.update(played.action, played.observation, played.context)
            agent.posterior()
            agent.save("several.idb")
            idb.Thompson.load("several.idb").act(self.rounds[0].context)

        inference = None if self.name == "own" else self.agent.inference
        other = idb.Diagram.from_dict(with_features(self.rng, self.d).to_dict() | {"name": "other"})
        return Call("several", use, {"d": self.d, "other": other, "inference": inference}, files=True)

    def call_quantile(self) -> Call:
        belief = self.one(list(self.agent.posterior().values()))

        def check(quantiles: Any) -> None:
            if (np.asarray(call.arguments["q"], float) > 1e-9).all():  # SciPy returns NaN below
                probabilities(quantiles)

        call = Call("quantile", belief.quantile, {"q": self.one([0.5, [0.1, 0.9]])}, check)
        return call

    def call_propensity(self) -> Call:
        played = self._round()
        arguments = {"action": played.action, "context": played.context, "draws": self.number(1, 9)}
        arguments["allowed"] = self._allowed()
        return Call("propensity", self.agent.propensity, arguments, probabilities, efforts=("draws",), reads=True)

    def call_elbo(self) -> Call:
        return Call("elbo", self.agent.elbo, {}, lambda value: _true(np.isfinite(value)), reads=True)

    def call_copy(self) -> Call:
        def check(other: idb.Thompson) -> None:
            assert other.rounds == self.agent.rounds
            assert call.arguments.get("seed") is not None or knowledge(other) == knowledge(self.agent)
            self.agent = other

        call = Call("copy", self.agent.copy, {"seed": self.one([None, 0])}, check)
        return call

    def call_deepcopy(self) -> Call:
        return Call("deepcopy", lambda: copy.deepcopy(self.agent), {}, self._same)

    def call_pickle(self) -> Call:
        return Call("pickle", lambda: pickle.loads(pickle.dumps(self.agent)), {}, self._same)

    def _same(self, other: idb.Thompson) -> None:
        assert knowledge(other) == knowledge(self.agent)

    def call_repr(self) -> Call:
        return Call("repr", lambda: repr(self.agent), reads=True)

    def call_check_round(self) -> Call:
        played = self._round()
        arguments = {"action": played.action, "observation": played.observation, "context": played.context}
        return Call("check_round", self.agent.check_round, arguments, reads=True)

    def call_save(self) -> Call:
        metadata = self.one([None, {}, {"learned up to": 7, "by": ["a", None]}])
        return Call("save", self.agent.save, {"path": "agent.idb", "metadata": metadata}, files=True, reads=True)

    def call_load_seeded(self) -> Call:
        self.agent.save("saved.idb", metadata={"n": 3})
        inference = self.agent.inference if self.name == "own" else None

        def load(seed: Any) -> idb.Thompson:
            return idb.Thompson.load("saved.idb", inference=inference, seed=seed)

        def check(other: idb.Thompson) -> None:
            assert other.metadata == {"n": 3}
            assert other.rounds == self.agent.rounds
            other.act(self.rounds[0].context)

        return Call("load with a seed", load, {"seed": self.one([None, 5])}, check, files=True)

    def call_load(self) -> Call:
        self.agent.save("saved.idb")
        inference = self.agent.inference if self.name == "own" else None
        call = Call(
            "load",
            idb.Thompson.load,
            {"path": "saved.idb", "diagram": self.one([None, self.d]), "inference": inference},
            files=True,
        )

        def check(other: idb.Thompson) -> None:
            if not call.spoiled:
                assert kept(other) == kept(self.agent)
                self.agent = other

        call.check = check
        return call

    def call_load_damaged(self) -> Call:
        self.agent.save("saved.idb")
        content = bytearray(Path("saved.idb").read_bytes())
        for _ in range(self.number(1, 3)):
            kind, at = self.number(0, 3), self.number(0, len(content) - 1)
            if kind == 0:
                content[at] ^= 1 << self.number(0, 7)
            elif kind == 1:
                del content[at : at + self.number(1, 40)]
            elif kind == 2:
                content[at:at] = self.rng.bytes(self.number(1, 9))
            else:
                del content[at + 1 :]
        Path("damaged.idb").write_bytes(content)
        inference = self.agent.inference if self.name == "own" else None

        def load(path: Any) -> None:
            agent = idb.Thompson.load(path, inference=inference)
            agent.act(self.rounds[0].context)
            agent.posterior()

        return Call("load damaged", load, {"path": "damaged.idb"}, files=True)

    # -- queries -----------------------------------------------------------------------------------------------------

    def call_compile(self) -> Call:
        return Call("compile", idb.compile, {"d": self.d}, repr)

    def call_best_action(self) -> Call:
        def check(solution: idb.Solution) -> None:
            feasible(self.d, solution.action)
            assert solution.bound >= solution.value - 1e-9
            assert np.isfinite([solution.value, solution.bound]).all()

        arguments = {
            "d": self.d,
            "means": self.means,
            "context": self._round().context,
            "effort": self.one([1.0, 0.5, 2]),
        }
        return Call("best_action", idb.best_action, arguments, check, reads=True)

    def call_expected_reward(self) -> Call:
        played = self._round()
        arguments = {"d": self.d, "action": played.action, "means": self.means, "context": played.context}
        return Call(
            "expected_reward", idb.expected_reward, arguments, lambda value: _true(np.isfinite(value)), reads=True
        )

    def call_log_likelihood(self) -> Call:
        return Call(
            "log_likelihood", idb.log_likelihood, self._question(), lambda value: _true(value <= 1e-9), reads=True
        )

    def call_posterior_of_latents(self) -> Call:
        def check(latents: Mapping[str, Any]) -> None:
            assert all(abs(chances.sum() - 1) < 1e-9 for chances in latents.values())

        return Call("posterior_of_latents", idb.posterior_of_latents, self._question(), check, reads=True)

    def _question(self) -> dict[str, Any]:
        played = self._round()
        return {
            "d": self.d, "action": played.action, "observation": played.observation, "means": self.means, "context": played.context,
        }  # fmt: skip


def _true(condition: Any) -> None:
    assert condition


def any_diagram(rng: Rng) -> idb.Diagram:
    """Return a diagram with or without learned tables."""
    return problem(rng) if rng.random() < 0.5 else random_diagram(rng, most_chance=5, most_joint=200)
