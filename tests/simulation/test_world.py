"""Worlds: outcomes have the diagram's distribution, rewards and regrets are those of plain enumeration."""

from __future__ import annotations

import copy
import itertools
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

import idbandits as idb
import reference
from diagrams import SHOP_CONTEXTS, SHOP_MEANS, labels, random_diagram, random_given, random_means, shop
from error_checks import assert_raises
from idbandits import models
from idbandits.errors import ActionError, ContextError, DiagramError, IdbanditsError, MeansError

RATE = 1e-5  # at which a test of a distribution fails although all is well


ACTION = {"first": "tea", "second": "water"}
CONTEXT = {"segment": "new", "hour": 2}


def world() -> idb.World:
    return idb.World(shop(), SHOP_MEANS, seed=0, contexts=SHOP_CONTEXTS)


def fits(seen: Counter[Any], wanted: dict[Any, float], number: int) -> None:
    """Test counts against probabilities by chi-square, with rare ones together."""
    assert all(wanted.get(key, 0) > 0 for key in seen), "impossible states were drawn"
    common = [key for key, p in wanted.items() if p * number >= 5]
    counts, expected = [seen[key] for key in common], [wanted[key] * number for key in common]
    rest = number - sum(expected)
    if rest > 5:
        counts, expected = [*counts, number - sum(counts)], [*expected, rest]
    if len(counts) > 1:
        expected = [e * sum(counts) / sum(expected) for e in expected]
        assert stats.chisquare(counts, expected).pvalue > RATE


def random_case(seed: int) -> tuple[np.random.Generator, idb.Diagram, dict[str, Any], dict[str, int], dict[str, int]]:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance=5, most_joint=200)
    means = random_means(rng, d)
    actions = list(reference.actions(d))
    _, context = random_given(rng, d)
    return rng, d, means, actions[rng.integers(len(actions))], context


@pytest.mark.parametrize("seed", range(40))
def test_outcomes_have_the_diagrams_distribution(seed: int) -> None:
    _, d, means, action, context = random_case(seed)
    world = idb.World(d, means, seed=seed)
    chance = [n for n in d.nodes.values() if n.is_chance]
    wanted: dict[Any, float] = {}
    rewards = {}
    for values, p in reference.joint(d, {**action, **context}, means):
        key = tuple(n.values[values[n.name]] for n in chance)
        wanted[key] = p
        rewards[key] = reference.reward(d, values)
    regret = reference.best_value(d, context, means) - reference.expected_reward(d, {**action, **context}, means)
    seen: Counter[Any] = Counter()
    number = 1500
    for _ in range(number):
        outcome = world.step(labels(d, action), labels(d, context))
        assert set(outcome.observation) == {n.name for n in d.of_kind("observed")}
        assert set(outcome.latent) == {n.name for n in d.of_kind("latent")}
        assert outcome.context == labels(d, context)
        key = tuple((outcome.observation | outcome.latent)[n.name] for n in chance)
        seen[key] += 1
        assert outcome.reward == pytest.approx(rewards[key], abs=1e-12)
        assert outcome.regret == pytest.approx(regret, abs=1e-9)
        assert outcome.regret >= 0
    fits(seen, wanted, number)


@pytest.mark.parametrize("seed", range(100, 140))
def test_regret_equals_that_by_enumeration(seed: int) -> None:
    rng, d, means, _, _ = random_case(seed)
    world = idb.World(d, means, seed=0)
    for _ in range(4):
        _, context = random_given(rng, d)
        best = reference.best_value(d, context, means)
        labelled = labels(d, context)
        assert world.best(labelled).value == pytest.approx(best, abs=1e-9)
        assert world.regret(world.best(labelled).action, labelled) == pytest.approx(0, abs=1e-9)
        for action in itertools.islice(reference.actions(d), 10):
            expected = reference.expected_reward(d, {**action, **context}, means)
            assert world.expected(labels(d, action), labelled) == pytest.approx(expected, abs=1e-9)
            assert world.regret(labels(d, action), labelled) == pytest.approx(best - expected, abs=1e-9)


def test_the_average_reward_is_the_expected_one() -> None:
    d = models.user_browsing(6, 3)
    world = idb.World(d, random_means(np.random.default_rng(0), d), seed=0)
    action = {"A1": 0, "A2": 1, "A3": 2}
    rewards = [world.step(action).reward for _ in range(4000)]
    error = np.std(rewards) / np.sqrt(len(rewards))
    assert abs(np.mean(rewards) - world.expected(action)) < 4.5 * error  # fails once in 100,000


def test_contexts_are_drawn_with_their_probabilities() -> None:
    here = world()
    number = 4000
    seen = Counter(tuple(here.context().items()) for _ in range(number))
    segments, hours = {"new": 0.8, "loyal": 0.2}, {0: 0.1, 1: 0.6, 2: 0.3}
    wanted = {(("segment", s), ("hour", h)): p * q for s, p in segments.items() for h, q in hours.items()}
    fits(seen, wanted, number)


def test_contexts_are_equally_likely_by_default() -> None:
    here = idb.World(shop(), SHOP_MEANS, seed=0, contexts={"segment": [0, 1]})
    seen = Counter(tuple(here.context().items()) for _ in range(3000))
    fits(seen, {(("segment", "loyal"), ("hour", h)): 1 / 3 for h in range(3)}, 3000)
    stepped = Counter(here.step(ACTION).context["hour"] for _ in range(3000))
    fits(stepped, dict.fromkeys(range(3), 1 / 3), 3000)


def test_a_step_uses_the_context_that_was_drawn_last() -> None:
    here = world()
    for _ in range(50):
        here.context()
        drawn = here.context()
        drawn["segment"] = "changed by the caller"
        drawn = here.context()
        assert here.step(ACTION).context == drawn
    several = {tuple(here.step(ACTION).context.items()) for _ in range(200)}
    assert len(several) > 3  # each step draws its own
    here.context()
    assert here.step(ACTION, CONTEXT).context == CONTEXT  # a given one goes first
    assert len({tuple(here.step(ACTION).context.items()) for _ in range(100)}) > 3


def test_regret_depends_on_the_context() -> None:
    here = world()
    d = here.diagram
    for _ in range(30):
        outcome = here.step(ACTION)
        places = {name: d.nodes[name].index(v) for name, v in (ACTION | outcome.context).items()}
        context = {name: places[name] for name in ("segment", "hour")}
        wanted = reference.best_value(d, context, SHOP_MEANS) - reference.expected_reward(d, places, SHOP_MEANS)
        assert outcome.regret == pytest.approx(wanted, abs=1e-9)
        states = {n: d.nodes[n].index(v) for n, v in (outcome.observation | outcome.latent).items()}
        assert outcome.reward == pytest.approx(reference.reward(d, places | states), abs=1e-12)


def test_what_a_learner_sees() -> None:
    outcome = world().step(ACTION, CONTEXT)
    d = shop()
    assert outcome.seen_by(d) == outcome.observation
    assert set(outcome.observation) == {"sip", "mood"}
    assert outcome.seen_by(d.revealed()) == outcome.observation | outcome.latent
    assert list(outcome.seen_by(d.revealed())) == ["taste", "sip", "mood"]
    less = idb.Diagram("less")
    less.reward(less.observed("sip", [less.decision("first", 3)]))
    less.latent("mood")
    assert outcome.seen_by(less) == {"sip": outcome.observation["sip"]}
    other = idb.Diagram("other")
    other.observed("sound")
    with pytest.raises(DiagramError, match=r"'other'.*'sound'"):
        outcome.seen_by(other)
    decided = idb.Diagram("decided")
    decided.observed("first")
    with pytest.raises(DiagramError, match=r"'decided'.*'first'"):
        outcome.seen_by(decided)


def steps(world: idb.World, number: int = 30) -> list[idb.Outcome]:
    return [world.step(ACTION) for _ in range(number)]


def test_outcomes_depend_on_the_seed() -> None:
    one, again, other = (idb.World(shop(), SHOP_MEANS, seed=s) for s in (1, 1, 2))
    first = steps(one)
    assert first == steps(again)
    assert first != steps(other)
    assert steps(idb.World(shop(), SHOP_MEANS)) != steps(idb.World(shop(), SHOP_MEANS))
    assert steps(idb.World(shop(), SHOP_MEANS, seed=np.random.default_rng(1))) == first


def test_copies_are_independent() -> None:
    here = world()
    here.step(ACTION)
    twin, seeded, deep = here.copy(), here.copy(seed=5), copy.deepcopy(here)
    drawn = here.context()
    after = here.copy()
    assert after.step(ACTION).context == drawn
    first = steps(here)
    assert steps(twin) == first
    assert steps(deep) == first
    assert steps(seeded) == steps(world().copy(seed=5))
    assert steps(seeded) != first
    assert steps(here) != first


def test_later_changes_of_arguments_do_not_change_a_world() -> None:
    d, means = shop(), {name: m.copy() for name, m in SHOP_MEANS.items()}
    chances = {"segment": [0.8, 0.2], "hour": np.array([0.1, 0.6, 0.3])}
    here = idb.World(d, means, seed=0, contexts=chances)
    regret = here.regret(ACTION, CONTEXT)
    means["taste"][:] = 0
    chances["hour"][:] = [1, 0, 0]
    d.reward("sip", lambda v: 100.0 * v)
    d.decision("third", 2)
    assert here.regret(ACTION, CONTEXT) == regret
    assert here.copy().regret(ACTION, CONTEXT) == regret
    assert [o[:4] for o in steps(here)] == [o[:4] for o in steps(world())]
    assert list(here.diagram.nodes) == list(shop().nodes)


def test_a_diagram_may_differ_from_the_learners() -> None:
    truth = models.cascade_inverted(5, 2)
    here = idb.World(truth, {"attraction": [0.1, 0.3, 0.5, 0.7, 0.9]}, seed=0)
    agent = idb.Thompson(models.position_based(5, 2), seed=0)
    for _ in range(50):
        action = agent.act()
        agent.update(action, here.step(action).seen_by(agent.diagram))
    assert agent.rounds == 50


def test_means_of_0_and_1() -> None:
    d = idb.Diagram("sure")
    a = d.decision("A", 2)
    d.reward(d.observed("two", [a]))
    d.reward(d.observed("three", [a], states=3))
    here = idb.World(d, {"two": [0, 1], "three": [[0, 0, 1], [1, 0, 0]]}, seed=0)
    for _ in range(200):
        assert here.step({"A": 0}).observation == {"two": 0, "three": 2}
        assert here.step({"A": 1}).observation == {"two": 1, "three": 0}


def test_probabilities_that_miss_1_by_rounding() -> None:
    d = idb.Diagram("rounded")
    d.reward(d.observed("it", [d.decision("A", 1)], states=7))
    here = idb.World(d, {"it": [[1 / 7 - 1e-10] * 7]}, seed=0)
    assert {here.step({"A": 0}).observation["it"] for _ in range(300)} == set(range(7))


def test_nothing_learned_and_no_decisions() -> None:
    d = idb.Diagram("clock")
    d.reward(d.observed("tick", cpd=0.5))
    here = idb.World(d, {}, seed=0)
    outcome = here.step({})
    assert outcome.regret == 0
    assert outcome.reward == outcome.observation["tick"]
    assert outcome.context == {}
    assert here.best().action == {}


def test_repr() -> None:
    assert repr(world()) == "World('shop')"


# -- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "words"),
    [
        (None, ("means", "None")),
        ([0.5], ("means", "[0.5]")),
        ({}, ("'taste'", "missing", "(3, 2)")),
        ({"taste": SHOP_MEANS["taste"]}, ("'mood'", "missing", "(3, 2, 3)")),
        (SHOP_MEANS | {"taste": [0.5, 0.5]}, ("'taste'", "(2,)", "(3, 2)")),
        (SHOP_MEANS | {"taste": np.full((3, 2), 1.5)}, ("'taste'", "1.5", "[0, 1]")),
        (SHOP_MEANS | {"taste": np.full((3, 2), np.nan)}, ("'taste'", "nan", "[0, 1]")),
        (SHOP_MEANS | {"taste": "high"}, ("'taste'", "'high'")),
        (SHOP_MEANS | {"mood": np.full((3, 2, 3), 0.5)}, ("'mood'", "1.5", "sum to 1")),
        (SHOP_MEANS | {"colour": [0.5]}, ("'colour'", "taste, mood")),
    ],
)
def test_means_that_do_not_fit_are_rejected(means: Any, words: tuple[str, ...]) -> None:
    assert_raises(MeansError, words, lambda: idb.World(shop(), means))


@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        ({"day": [0.5, 0.5]}, ("contexts", "'day'", "segment, hour")),
        ({"first": [0.5, 0.5, 0]}, ("contexts", "'first'", "segment, hour")),
        ({"hour": [0.5, 0.5]}, ("'hour'", "3 probabilities", "[0.5, 0.5]")),
        ({"hour": [0.5, 0.5, 0.5]}, ("'hour'", "sum to 1")),
        ({"hour": [1.5, -0.5, 0]}, ("'hour'", "-0.5")),
        ({"hour": [np.nan, 0.5, 0.5]}, ("'hour'", "nan")),
        ({"hour": 0.5}, ("'hour'", "0.5")),
        ({"hour": "late"}, ("'hour'", "'late'")),
        ({"hour": ["a", "b", "c"]}, ("'hour'", "'a'")),
        ({"hour": None}, ("'hour'", "None")),
        ({"segment": {"new": 1.0}}, ("'segment'", "'new', 'loyal'")),
        ({"segment": {"new": 0.5, "old": 0.5}}, ("'segment'", "'old'", "'new', 'loyal'")),
        ({"segment": {"new": 0.5, "loyal": 0.6}}, ("'segment'", "sum to 1")),
        ({"segment": {"new": "0.5", "loyal": 0.5}}, ("'segment'", "'0.5'")),
        ([0.5, 0.5], ("contexts", "segment, hour")),
        (0.5, ("contexts", "0.5")),
        ("segment", ("contexts",)),
        ([], ("contexts", "[]")),
    ],
)  # fmt: skip
def test_invalid_probabilities_of_contexts_are_rejected(contexts: Any, words: tuple[str, ...]) -> None:
    assert_raises(ContextError, words, lambda: idb.World(shop(), SHOP_MEANS, contexts=contexts))


def test_probabilities_of_contexts_are_rejected_without_contexts() -> None:
    d = models.cascade(4, 2)
    assert_raises(
        ContextError, ("'hour'", "none"), lambda: idb.World(d, {"attraction": [0.1] * 4}, contexts={"hour": [1]})
    )


@pytest.mark.parametrize("seed", [-1, 0.5, "0", object()])
def test_invalid_seeds_are_rejected(seed: Any) -> None:
    assert_raises(IdbanditsError, ("seed", repr(seed)), lambda: idb.World(shop(), SHOP_MEANS, seed))
    here = world()
    assert_raises(IdbanditsError, ("seed", repr(seed)), lambda: here.copy(seed))


@pytest.mark.parametrize("d", [None, "cascade", models.cascade])
def test_invalid_diagrams_are_rejected(d: Any) -> None:
    assert_raises(DiagramError, ("Diagram",), lambda: idb.World(d, SHOP_MEANS))


def test_a_diagram_without_reward_is_rejected() -> None:
    d = idb.Diagram("idle")
    d.observed("heads", [d.decision("coin", 3)], 0.5)
    assert_raises(DiagramError, ("'idle'", "reward"), lambda: idb.World(d, {}))


@pytest.mark.parametrize(
    ("action", "context", "error", "words"),
    [
        ({"first": "tea"}, CONTEXT, ActionError, ("'second'", "first, second")),
        (ACTION | {"third": 0}, CONTEXT, ActionError, ("'third'", "first, second")),
        (ACTION | {"first": "wine"}, CONTEXT, ActionError, ("'first'", "'wine'", "'tea', 'coffee', 'juice'")),
        (ACTION | {"first": 0}, CONTEXT, ActionError, ("'first'", "0", "'tea', 'coffee', 'juice'")),
        (ACTION | {"second": "tea"}, CONTEXT, ActionError, ("'first'", "'second'", "'tea'", "all_different")),
        (None, CONTEXT, ActionError, ("None", "first, second")),
        (["tea", "water"], CONTEXT, ActionError, ("first, second",)),
        (ACTION, {}, ContextError, ("'segment'", "segment, hour")),
        (ACTION, {"segment": "new"}, ContextError, ("'hour'", "segment, hour")),
        (ACTION, CONTEXT | {"hour": 3}, ContextError, ("'hour'", "3", "0 to 2")),
        (ACTION, CONTEXT | {"hour": "1"}, ContextError, ("'hour'", "'1'", "0 to 2")),
        (ACTION, CONTEXT | {"day": 3}, ContextError, ("'day'", "segment, hour")),
        (ACTION, "new", ContextError, ("'new'", "segment, hour")),
    ],
)
def test_actions_and_contexts_that_do_not_exist_are_rejected(
    action: Any, context: Any, error: type[Exception], words: tuple[str, ...]
) -> None:
    here = world()
    here.context()
    twin = here.copy()
    assert_raises(error, words, lambda: here.step(action, context))
    assert_raises(error, words, lambda: here.expected(action, context))
    assert_raises(error, words, lambda: here.regret(action, context))
    assert steps(here) == steps(twin)  # nothing has changed, not even what was drawn


def test_an_invalid_action_draws_no_context() -> None:
    here, twin = world(), world()
    assert_raises(ActionError, ("'second'",), lambda: here.step({"first": "tea"}))
    assert steps(here) == steps(twin)


def test_contexts_are_required_if_the_diagram_has_some() -> None:
    here = world()
    for do in (here.best, lambda: here.expected(ACTION), lambda: here.regret(ACTION)):
        assert_raises(ContextError, ("'segment'", "segment, hour"), do)
    without = idb.World(models.cascade(4, 2), {"attraction": [0.1] * 4})
    assert_raises(ContextError, ("'hour'", "none"), lambda: without.step({"A1": 0, "A2": 1}, {"hour": 1}))
    assert without.context() == {}


def test_messages_have_one_line() -> None:
    with pytest.raises(IdbanditsError) as raised:
        idb.World(shop(), SHOP_MEANS | {"mood": np.zeros((100, 100))})
    assert not re.search(r"\n", str(raised.value))
