"""Baselines: one suite that all pass, and each against a slow reading of its paper."""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from parts import alone
from scipy.optimize import linear_sum_assignment
from test_simulate import by_hand, totals_of, world_of

import idbandits as idb
from idbandits import baselines, models
from idbandits.baselines import (
    GRAB,
    UCB1,
    CascadeKLUCB,
    CascadeUCB1,
    CombUCB1,
    EpsilonGreedy,
    KLCombUCB1,
    Rank1Elim,
    Rank1ElimKL,
    TopRank,
    Uniform,
    confidence,
)
from idbandits.baselines.baseline import Baseline, feasible_actions
from idbandits.baselines.grab import FIRST
from idbandits.errors import ActionError, DiagramError, IdbanditsError, ObservationError
from idbandits.inference.groups import CAPACITY, USED
from idbandits.kernel.compiling import in_python
from idbandits.simulation.simulate import begin, simulate
from idbandits.solve.assignment import match

Make = Callable[..., Baseline]

kl_above, kl_below, kl_exponent, level, ucb1 = (
    alone(part)
    for part in (confidence.kl_above, confidence.kl_below, confidence.kl_exponent, confidence.level, confidence.ucb1)
)


# -- diagrams that some fit ----------------------------------------------------------------------------------------


def odd_choices() -> idb.Diagram:
    """Decisions with choices of their own, some of them the same, one that nothing depends on, and three states."""
    d = idb.Diagram("odd choices")
    a, b = d.decision("A", ["x", "y", "z"]), d.decision("B", ["y", "z", "w", "v"])
    d.decision("idle", ["v", "u"])
    tone = d.observed("tone", [a], states=["bad", "fair", "good"])
    sound = d.observed("sound", [d.latent("hidden", [b, a])], [0.2, 0.9])
    d.observed("aside", [b])
    d.reward(tone, lambda v: {"bad": -2.0, "fair": 0.5, "good": 1.0}[v])
    d.reward(sound, lambda v: 2.0 * v)
    d.all_different()
    return d


def weighted() -> idb.Diagram:
    """A semi-bandit in which the first position earns less."""
    d, mean = idb.Diagram("weighted"), idb.Learned("mean")
    for k, weight in ((1, 0.4), (2, 1.0)):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", 5)], mean), lambda v, weight=weight: weight * v)
    d.all_different()
    return d


def costly() -> idb.Diagram:
    """A reward that decisions and two observed nodes share in."""
    d = idb.Diagram("costly")
    a, b = d.decision("A", 3), d.decision("B", 2)
    x, y = d.observed("X", [a, b]), d.observed("Y", [b], states=3)
    d.reward([x, y], lambda x, y: x * y - 0.3 * y)
    d.reward([a], lambda a: -0.1 * a)
    return d


def in_context() -> idb.Diagram:
    d = idb.Diagram("in context")
    who = d.context("who", 2)
    d.reward(d.observed("C1", [d.decision("A1", 3), who]))
    return d


WORDS = ["tea", "coffee", "juice", "water"]
CASES: dict[str, tuple[Make, Callable[[], idb.Diagram]]] = {
    "CascadeKLUCB": (CascadeKLUCB, lambda: models.cascade(6, 2)),
    "CascadeKLUCB, last": (
        lambda d, seed: CascadeKLUCB(d, seed, reading="last"),
        lambda: models.cascade_inverted(WORDS, 3),
    ),
    "CascadeUCB1": (CascadeUCB1, lambda: models.cascade(5, 2, distinct=False)),
    "TopRank": (TopRank, lambda: models.position_based(6, 3)),
    "TopRank, cascade": (
        lambda d, seed: TopRank(d, seed, delta=0.5),
        lambda: models.cascade(WORDS, 2, distinct=False),
    ),
    "Rank1Elim": (lambda d, seed: Rank1Elim(d, seed, horizon=30), lambda: models.rank1(3, WORDS)),
    "Rank1ElimKL": (lambda d, seed: Rank1ElimKL(d, seed, horizon=10, level=1.0), lambda: models.rank1(4, 2)),
    "CombUCB1": (CombUCB1, lambda: models.semi_bandit(6, 2)),
    "CombUCB1, odd choices": (lambda d, seed: CombUCB1(d, seed, factor=0.5), odd_choices),
    "KLCombUCB1": (KLCombUCB1, lambda: models.position_based(WORDS, 2)),
    "KLCombUCB1, free": (
        lambda d, seed: KLCombUCB1(d, seed, horizon=None),
        lambda: models.position_based(5, 2, distinct=False),
    ),
    "GRAB": (GRAB, lambda: models.position_based(5, 3)),
    "GRAB, fixed": (
        lambda d, seed: GRAB(d, seed, horizon=200, gamma=1),
        lambda: models.position_based(WORDS, 2, distinct=False),
    ),
    "UCB1": (UCB1, lambda: models.cascade(WORDS, 2)),
    "UCB1, costly": (UCB1, costly),
    "EpsilonGreedy": (EpsilonGreedy, odd_choices),
    "EpsilonGreedy, decay": (lambda d, seed: EpsilonGreedy(d, seed, epsilon=1, decay=30), lambda: models.rank1(3, 3)),
    "Uniform": (Uniform, lambda: models.user_browsing(5, 3)),
    "Uniform, odd choices": (Uniform, odd_choices),
}


def test_all_are_in_the_suite() -> None:
    assert {name.split(",")[0] for name in CASES} == set(baselines.__all__)


def play(world: idb.World, learner: Any, rounds: int) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    played = []
    for _ in range(rounds):
        action = learner.act()
        observation = world.step(action).seen_by(learner.diagram)
        learner.update(action, observation)
        played.append((action, observation))
    return played


def same_state(one: Baseline, other: Baseline) -> None:
    for a, b in zip(one._state, other._state, strict=True):
        np.testing.assert_array_equal(a, b)


# -- what all of them do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_fused_loop_does_what_act_and_update_do(case: str) -> None:
    make, of = CASES[case]
    world = world_of(of())
    learner = make(world.diagram, 3)
    result = simulate(world, {case: learner}, rounds=400, runs=2, seed=5, progress=False, checkpoints="every")
    wanted = by_hand(world, learner, case, 5, 1, 400)
    found = totals_of(result, case, 1)
    np.testing.assert_array_equal(found[:, 0], wanted[:, 0])
    np.testing.assert_allclose(found[:, 1], wanted[:, 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_seeds_copies_and_rounds(case: str) -> None:
    make, of = CASES[case]
    world = world_of(of())
    one, other = make(world.diagram, 8), make(world.diagram, 8)
    assert one.rounds == 0
    assert play(world.copy(1), one, 60) == play(world.copy(1), other, 60)
    kept = one.copy()
    deep = copy.deepcopy(one)
    assert one.rounds == kept.rounds == 60
    assert repr(one) == f"{type(one).__name__}({world.diagram.name!r}; 60 rounds)"
    ahead = play(world.copy(2), one, 40)
    same_state(kept, deep)
    assert kept.rounds == 60
    assert play(world.copy(2), kept, 40) == play(world.copy(2), deep, 40) == ahead
    same_state(one, kept)
    seeded, again = one.copy(seed=1), one.copy(seed=1)
    assert [seeded.act() for _ in range(10)] == [again.act() for _ in range(10)]


@pytest.mark.parametrize("case", CASES)
def test_actions_are_allowed_and_acting_alone_teaches_nothing(case: str) -> None:
    make, of = CASES[case]
    d = of()
    learner = make(d, 0)
    model = idb.compile(d)
    for _ in range(30):
        model.action_vector(learner.act())
    assert learner.rounds == 0
    play(world_of(d), learner, 30)
    assert learner.rounds == 30


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_is_refused_and_changes_nothing(case: str) -> None:
    make, of = CASES[case]
    world = world_of(of())
    learner = make(world.diagram, 1)
    ((action, observation),) = play(world, learner, 1)
    before = learner.copy()
    first, last = next(iter(observation)), next(iter(action))
    for wrong, why in (
        ({k: v for k, v in observation.items() if k != first}, f"{first!r} was not seen"),
        ({**observation, first: None}, f"{first!r} was not seen"),
        ({**observation, first: 17}, f"node {first!r} cannot be 17"),
        ({**observation, last: 0}, f"{last!r} is a decision node"),
    ):
        with pytest.raises(ObservationError, match=why):
            learner.update(action, wrong)
    with pytest.raises(ActionError, match=f"decision {last!r} cannot be 'nothing'"):
        learner.update({**action, last: "nothing"}, observation)
    same_state(learner, before)
    assert learner.rounds == 1


@pytest.mark.parametrize("name", baselines.__all__)
def test_contexts_and_what_is_no_diagram_are_refused(name: str) -> None:
    make = getattr(baselines, name)
    with pytest.raises(DiagramError, match=f"{name} makes no use of contexts; diagram 'in context' has 'who'"):
        make(in_context())
    with pytest.raises(DiagramError, match=f"{name} is built from a Diagram, not 3"):
        make(3)
    empty = idb.Diagram("empty")
    empty.reward(empty.observed("X"))
    with pytest.raises(DiagramError, match=f"{name} has nothing to choose: diagram 'empty' has no decisions"):
        make(empty)


@pytest.mark.parametrize("name", baselines.__all__)
def test_one_choice_is_enough(name: str) -> None:
    d = models.rank1(1, 1) if name.startswith("Rank1") else models.position_based(["only"], 1)
    learner = getattr(baselines, name)(d, 0)
    world = world_of(d)
    play(world, learner, 20)
    assert set(learner.act().values()) == ({0} if name.startswith("Rank1") else {"only"})


@pytest.mark.parametrize("name", [n for n in baselines.__all__ if not n.startswith("Rank1")])
@pytest.mark.parametrize("distinct", [True, False])
def test_they_play_where_items_may_or_may_not_repeat(name: str, distinct: bool) -> None:
    world = idb.World(
        models.position_based(5, 2, distinct=distinct),
        {"attraction": [0.1, 0.2, 0.3, 0.4, 0.9], "examination": [0.9, 0.5]},
    )
    result = simulate(world, {name: getattr(baselines, name)(world.diagram)}, 300, runs=3, progress=False)
    assert result.summary()["reward_mean"][0] > (0.4 if name == "Uniform" else 0.55)


def product_of_two() -> idb.Diagram:
    d = idb.Diagram("product")
    a, b = d.decision("A", 2), d.decision("B", 2)
    x, y = d.observed("X", [a]), d.observed("Y", [b])
    d.reward([x, y], lambda x, y: x * y)
    return d


def latent_reward() -> idb.Diagram:
    d = idb.Diagram("latent reward")
    hidden = d.latent("H", [d.decision("A", 2)])
    d.observed("X", [hidden], [0.2, 0.9])
    d.reward(hidden)
    return d


def crossed() -> idb.Diagram:
    d = idb.Diagram("crossed")
    a, b = d.decision("A", 2), d.decision("B", 2)
    d.reward(d.observed("X", [b]))
    d.reward(d.observed("Y", [a]))
    return d


def turned() -> idb.Diagram:
    d = idb.Diagram("turned")
    d.reward(d.observed("X", [d.decision("A", 2), d.decision("B", 2)]), lambda x: 1 - x)
    return d


def three_states() -> idb.Diagram:
    d = idb.Diagram("three states")
    d.reward(d.observed("X", [d.decision("A", 2), d.decision("B", 2)], states=3))
    return d


def constrained() -> idb.Diagram:
    d = idb.Diagram("constrained")
    d.reward(d.observed("X", [d.decision("A", 2), d.decision("B", 2)]))
    d.all_different()
    return d


def clicks_of_three() -> idb.Diagram:
    d = idb.Diagram("clicks")
    d.reward(d.observed("X", [d.decision("A", 2)], states=3))
    return d


def other_items() -> idb.Diagram:
    d = idb.Diagram("other items")
    for k, items in (("A", 2), ("B", 3)):
        d.reward(d.observed(f"X{k}", [d.decision(k, items)]))
    return d


def unrewarded() -> idb.Diagram:
    d = idb.Diagram("unrewarded")
    d.observed("X", [d.decision("A", 2)])
    return d


def chain(decisions: int, items: int) -> idb.Diagram:
    d = idb.Diagram("chain")
    for k in range(decisions):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", items)]))
    return d


def overlapping(decisions: int) -> idb.Diagram:
    d = chain(decisions, 10)
    for k in range(decisions - 1):
        d.all_different(f"A{k}", f"A{k + 1}")
    return d


def without_actions(decisions: int = 3, items: int = 2) -> idb.Diagram:
    d = chain(decisions, items)
    for a, b in itertools.combinations(range(decisions), 2):
        d.all_different(f"A{a}", f"A{b}")
    return d


@pytest.mark.parametrize(
    ("make", "d", "message"),
    [
        (CascadeUCB1, other_items(), "CascadeUCB1 ranks items.*'A' has 0 to 1, 'B' has 0 to 2"),
        (TopRank, crossed(), "TopRank: 'X' is to be the click on 'A'; it depends on B"),
        (TopRank, clicks_of_three(), "TopRank learns from clicks, 0 or 1; 'X' has 3 states"),
        (TopRank, models.position_based(2, 3, distinct=False), "3 decisions need as many, not 2"),
        (GRAB, models.rank1(3, 3), "GRAB learns from one click a decision.*2 decisions and observes X"),
        (Rank1Elim, models.cascade(3, 3), "Rank1Elim chooses a row and a column.*A1, A2, A3, all different"),
        (Rank1ElimKL, constrained(), "Rank1ElimKL chooses a row and a column.*A, B, all different"),
        (Rank1Elim, three_states(), "sees one node with two states.*'X' with 3 states"),
        (Rank1Elim, turned(), "'X' = 1 is to be worth more"),
        (Rank1Elim, crossed(), "sees one node.*'X' with 2 states, 'Y' with 2 states"),
        (CombUCB1, product_of_two(), r"CombUCB1 adds up.*depends on 'X' \(observed\), 'Y' \(observed\)"),
        (KLCombUCB1, latent_reward(), r"KLCombUCB1 adds up.*depends on 'H' \(latent\)"),
        (CombUCB1, unrewarded(), "CombUCB1 has nothing to learn"),
        (CombUCB1, models.rank1(1000, 101), "with 'X', which depends on A1, A2, there are 101,000.*at most 100,000"),
        (UCB1, latent_reward(), "UCB1 learns from rewards that it sees.*depends on 'H', a latent node"),
        (EpsilonGreedy, unrewarded(), "EpsilonGreedy learns from rewards; diagram 'unrewarded' has none"),
        (UCB1, without_actions(), "UCB1 has nothing to choose: no action of diagram 'chain' satisfies all_different"),
        (Uniform, without_actions(), "Uniform has nothing to choose: no action"),
        (CombUCB1, without_actions(), "diagram 'chain': no action was found"),
        (UCB1, chain(6, 10), "UCB1 keeps a number for every action.*more than 100,000.*6 decisions"),
        (Uniform, overlapping(7), "Uniform keeps a number for every action.*more than 100,000"),
    ],
    ids=lambda x: getattr(x, "__name__", "") if isinstance(x, type) else "",
)  # fmt: skip
def test_a_diagram_that_does_not_fit_is_refused(make: Make, d: idb.Diagram, message: str) -> None:
    with pytest.raises(DiagramError, match=message):
        make(d)


def test_the_list_of_actions_ends_where_constraints_leave_next_to_none() -> None:
    with pytest.raises(DiagramError, match=r"UCB1 lists all actions; 201 steps found 0 that .* diagram 'chain' allow"):
        feasible_actions("UCB1", without_actions(6, 5), 10)


@pytest.mark.parametrize("model", [models.cascade, models.dependent_click, models.user_browsing])
def test_many_positions_are_looked_at_once(model: Callable[..., idb.Diagram]) -> None:
    assert TopRank(model(40, 40), 0).rounds == 0  # there are 2^40 ways from the last click up to the first decision


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (CascadeKLUCB, {"reading": "second"}, "reading is 'first' or 'last'.*'second'"),
        (TopRank, {"horizon": 1}, "TopRank: horizon .* from 2; not 1"),
        (TopRank, {"delta": 0}, "TopRank: delta is a probability above 0, not 0"),
        (KLCombUCB1, {"horizon": 2.5}, "KLCombUCB1: horizon .* not 2.5"),
        (CombUCB1, {"factor": 0}, "CombUCB1: factor is a positive number, not 0"),
        (GRAB, {"gamma": -1}, "GRAB: gamma is a whole number from 0, not -1"),
        (EpsilonGreedy, {"epsilon": 1.5}, "epsilon is a probability, not 1.5"),
        (EpsilonGreedy, {"decay": -1}, "decay is a positive number or None, not -1"),
        (UCB1, {"seed": "x"}, "seed is a whole number"),
    ],
)
def test_wrong_settings_are_refused(make: Make, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(IdbanditsError, match=message):
        make(models.position_based(4, 2), **settings)
    with pytest.raises(IdbanditsError, match="Rank1ElimKL: level is a positive number or None, not -2"):
        Rank1ElimKL(models.rank1(2, 2), level=-2)


# -- confidence bounds ---------------------------------------------------------------------------------------------


def divergence(p: float, q: float) -> float:
    part = 0.0 if p == 0 else p * math.log(p / q)
    return part + (0.0 if p == 1 else (1 - p) * (math.log1p(-p) - math.log1p(-q)))


def by_bisection(p: float, allowance: float) -> float:
    low, high = p, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if middle < 1 and divergence(p, middle) <= allowance else (low, middle)
    return low


@pytest.mark.parametrize("times", [1, 2, 7, 100, 10_000, 10**9])
def test_bounds_by_divergence(times: int) -> None:
    ones = {0, 1, times // 3, times // 2, times - 1, times}
    for hits, allowed in itertools.product(sorted(ones), (1e-3, 0.5, 7.0, 30.0, 700.0)):
        mean = hits / times
        found = kl_above(mean, allowed / times)
        wanted = by_bisection(mean, allowed / times)
        width = max(wanted - mean, 1e-12)
        assert abs(found - wanted) <= 1e-6 * width + 4e-16 / width, (hits, allowed)  # rounding of the divergence
        assert mean <= found <= 1.0
        assert kl_below(1 - mean, allowed / times) == pytest.approx(1 - found, abs=1e-12)
        for near in (1e-9, 0.3, 3.0, 50.0, math.inf):  # from anywhere
            if 0 < mean < 1 and times < 10**6:
                x = kl_exponent(mean, allowed / times, near)
                assert -math.expm1(-x) == pytest.approx(wanted, rel=1e-7, abs=1e-8 * width)


def test_indices_by_hand() -> None:
    assert kl_above(0.0, 0.5) == pytest.approx(1 - math.exp(-0.5), rel=1e-14)
    assert kl_above(1.0, 0.5) == 1.0
    assert kl_above(0.3, 0.0) == 0.3
    assert kl_below(1.0, 0.5) == pytest.approx(math.exp(-0.5), rel=1e-14)
    assert ucb1(0.5, 6.0, 100) == pytest.approx(0.5 + math.sqrt(1.5 * math.log(100) / 6))
    assert level(1000) == pytest.approx(math.log(1000) + 3 * math.log(math.log(1000)))
    assert level(1) == 0.0
    assert level(2) == pytest.approx(math.log(2))


# -- cascades ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [CascadeKLUCB, CascadeUCB1])
@pytest.mark.parametrize("reading", ["first", "last"])
def test_cascades_rank_by_their_indices(make: Make, reading: str) -> None:
    d = models.cascade(5, 3)
    learner = make(d, 0, reading=reading)
    rng = np.random.default_rng(1)
    examined, clicks = np.zeros(5), np.zeros(5)
    for t in range(1, 200):
        action = list(learner.act().values()) if t % 2 else rng.permutation(5)[:3].tolist()
        seen = rng.random(3) < 0.3
        end = np.flatnonzero(seen)[0 if reading == "first" else -1] + 1 if seen.any() else 3
        for k in range(end):
            examined[action[k]] += 1
            clicks[action[k]] += seen[k]
        learner.update(
            {f"A{k + 1}": i for k, i in enumerate(action)}, {f"C{k + 1}": int(c) for k, c in enumerate(seen)}
        )
        if examined.all():
            means = clicks / examined
            index = (
                [by_bisection(m, level(t + 1) / n) for m, n in zip(means, examined, strict=True)]
                if make is CascadeKLUCB
                else means + np.sqrt(1.5 * math.log(t) / examined)
            )
            shown = np.array(index)[list(learner.act().values())]
            np.testing.assert_allclose(shown, np.sort(index)[::-1][:3], rtol=1e-9)


# -- TopRank -------------------------------------------------------------------------------------------------------


class SlowTopRank:
    """Algorithm 1 of the paper, with sets."""

    def __init__(self, items: int, delta: float) -> None:
        self.items, self.delta = items, delta
        self.beaten: set[tuple[int, int]] = set()  # (j, i): i is better
        self.s, self.n = Counter[tuple[int, int]](), Counter[tuple[int, int]]()

    def blocks(self) -> list[list[int]]:
        left, made = set(range(self.items)), []
        while left:
            block = {i for i in left if not any((i, j) in self.beaten for j in left)} or left
            made.append(sorted(block))
            left -= block
        return made

    def update(self, clicked: set[int]) -> None:
        c = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
        for block in self.blocks():
            for i, j in itertools.permutations(block, 2):
                u = (i in clicked) - (j in clicked)
                self.s[i, j] += u
                self.n[i, j] += abs(u)
        for (i, j), n in list(self.n.items()):
            if n > 0 and self.s[i, j] >= math.sqrt(2 * n * math.log(c * math.sqrt(n) / self.delta)):
                self.beaten.add((j, i))


@pytest.mark.parametrize("delta", [None, 0.9])
def test_toprank_splits_blocks_as_the_paper_says(delta: float | None) -> None:
    attraction = np.array([0.05, 0.9, 0.3, 0.5, 0.1, 0.7])
    world = idb.World(models.position_based(6, 3), {"attraction": attraction, "examination": [0.9, 0.8, 0.7]}, seed=4)
    learner = TopRank(world.diagram, 2, horizon=500, delta=delta)
    slow = SlowTopRank(6, 1 / 500 if delta is None else delta)
    sizes = set()
    for _ in range(1500):
        action = learner.act()
        shown = list(action.values())
        blocks = slow.blocks()
        flat = [i for block in blocks for i in block]
        for block in blocks:  # filled one after the other
            here = shown[: len(block)]
            assert set(here) <= set(block)
            shown = shown[len(block) :]
        assert sorted(flat) == list(range(6))
        seen = world.step(action).observation
        learner.update(action, seen)
        slow.update({action[f"A{k}"] for k in (1, 2, 3) if seen[f"C{k}"]})
        assert learner.blocks == slow.blocks()
        sizes.add(len(blocks))
    assert len(sizes) > 3


def test_toprank_survives_a_cycle_and_shows_blocks_in_any_order() -> None:
    learner = TopRank(models.position_based(3, 3), 0, delta=1.0)
    state = learner._state.ints
    beats = 16 + 4 * 3
    for i, j in ((0, 1), (1, 2), (2, 0)):
        state[beats + 3 * i + j] = 1
    for _ in range(60):  # until one more is beaten, which sorts anew
        learner.update({"A1": 0, "A2": 1, "A3": 2}, {"C1": 1, "C2": 0, "C3": 0})
    assert sorted(i for block in learner.blocks for i in block) == [0, 1, 2]
    fresh = TopRank(models.position_based(4, 2), 0)
    counts = Counter(tuple(fresh.act().values()) for _ in range(6000))
    assert len(counts) == 12
    assert max(abs(n - 500) for n in counts.values()) < 5 * math.sqrt(500)


# -- Rank1Elim -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "factor"), [(Rank1Elim, 4), (Rank1ElimKL, 16)])
@pytest.mark.parametrize("seed", range(6))
def test_rank1_eliminates_as_the_paper_says(make: Make, factor: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    horizon, rows, columns = 8, 5, 6
    means = {
        "row": np.append(rng.uniform(0.2, 1.0, rows - 1), 1.0),
        "column": np.append(rng.uniform(0.2, 1.0, columns - 1), 1.0),
    }
    world = idb.World(models.rank1(rows, columns), means, seed=seed)
    learner = make(world.diagram, seed, horizon=horizon)
    log = math.log(horizon)
    sums = [np.zeros(rows), np.zeros(columns)]
    h = [list(range(rows)), list(range(columns))]
    done = 0
    left = []
    for stage in range(3 if factor == 4 else 2):
        n = math.ceil(factor * 4**stage * log)
        for _ in range(n - done):
            for side in (0, 1):
                drawn = None
                for i in sorted(set(h[side])):
                    first, again = learner.act(), learner.act()
                    assert first == again  # until it is answered
                    drawn = first[f"A{2 - side}"] if drawn is None else drawn
                    assert drawn in h[1 - side]
                    assert first == {f"A{1 + side}": i, f"A{2 - side}": drawn}
                    seen = world.step(first).observation
                    sums[side][i] += seen["X"]
                    learner.update(first, seen)
        done = n
        for side in (0, 1):
            means = sums[side] / n
            if make is Rank1Elim:
                low, high = means - math.sqrt(log / n), means + math.sqrt(log / n)
            else:
                allowed = (log + 3 * math.log(log)) / n
                low = np.array([1 - by_bisection(1 - m, allowed) for m in means])
                high = np.array([by_bisection(m, allowed) for m in means])
            best = max(sorted(set(h[side])), key=lambda i: low[i])
            h[side] = [best if high[i] <= low[best] else i for i in h[side]]
        left.append([len(set(side)) for side in h])
    assert sum(left[-1]) < rows + columns


def test_rank1_ignores_what_it_did_not_choose() -> None:
    learner = Rank1Elim(models.rank1(2, 2), 0)
    action = learner.act()
    learner.update({"A1": 1 - action["A1"], "A2": action["A2"]}, {"X": 1})
    assert learner.act() == action
    assert learner.rounds == 1
    assert learner._state.floats[2:].sum() == 0


# -- combinatorial -------------------------------------------------------------------------------------------------


def actions_of(d: idb.Diagram) -> list[dict[str, Any]]:
    nodes = d.of_kind("decision")
    every = (dict(zip((n.name for n in nodes), c, strict=True)) for c in itertools.product(*(n.values for n in nodes)))
    return [a for a in every if all(len({a[n] for n in g}) == len(g) for g in d.different)]


def arms_of(where: str, action: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    if where in ("semi-bandit", "weighted"):
        return [(action["A1"],), (action["A2"],)]
    if where == "odd choices":
        return [("tone", action["A"]), ("sound", action["A"], action["B"])]
    return [(1, action["A1"]), (2, action["A2"])]


@pytest.mark.parametrize("where", ["semi-bandit", "weighted", "position-based", "free", "odd choices"])
@pytest.mark.parametrize(
    "make",
    [CombUCB1, KLCombUCB1, lambda d, seed: KLCombUCB1(d, seed, horizon=None)],
    ids=["CombUCB1", "KLCombUCB1", "anytime"],
)
def test_combucb1_shows_the_best_action_under_its_indices(where: str, make: Make) -> None:
    d = {
        "semi-bandit": lambda: models.semi_bandit(5, 2),
        "weighted": weighted,
        "position-based": lambda: models.position_based(4, 2),
        "free": lambda: models.position_based(4, 2, distinct=False),
        "odd choices": odd_choices,
    }[where]()
    world, learner = world_of(d, 3), make(d, 0)
    actions = actions_of(d)
    earned = (
        [{"bad": 0.0, "fair": 2.5 / 3, "good": 1.0}, {0: 0.0, 1: 1.0}]
        if where == "odd choices"
        else [{0: 0.0, 1: 1.0}] * 2
    )
    weights = {"odd choices": [3.0, 2.0], "weighted": [0.4, 1.0]}.get(where, [1.0, 1.0])
    times, sums = Counter[Any](), Counter[Any]()
    shown = 0
    for t in range(1, 150):
        action = learner.act()
        untried = [len({a for a in arms_of(where, x) if times[a] == 0}) for x in actions]
        here = len({a for a in arms_of(where, action) if times[a] == 0})
        if max(untried) > 0:
            assert here == max(untried)
        else:
            shown += 1
            index = {}
            for a in times:
                mean = sums[a] / times[a]
                if make is CombUCB1:
                    index[a] = mean + math.sqrt(1.5 * math.log(t - 1) / times[a])
                else:
                    index[a] = by_bisection(mean, (math.log(20_000) if make is KLCombUCB1 else level(t)) / times[a])
            best, found = (
                max(sum(w * index[a] for w, a in zip(weights, arms_of(where, x), strict=True)) for x in among)
                for among in (actions, [action])
            )
            assert found == pytest.approx(best, rel=1e-7)
        seen = world.step(action).seen_by(d)
        learner.update(action, seen)
        values = [seen[n] for n in (("tone", "sound") if where == "odd choices" else seen)]
        for a, value, table in zip(arms_of(where, action), values, earned, strict=True):
            times[a] += 1
            sums[a] += table[value]
    assert shown > 50


@pytest.mark.parametrize("distinct", [True, False])
def test_arms_that_earn_little_are_tried_before_anything_is_repeated(distinct: bool) -> None:
    d = models.position_based(4, 2, distinct=distinct)
    d.reward(d.observed("pair", ["A1", "A2"]), lambda v: 0.001 * v)
    world, learner = world_of(d), CombUCB1(d, 0)
    number = len(actions_of(d))
    assert len({tuple(action.items()) for action, _ in play(world, learner, number)}) == number


def test_a_table_is_shared_by_nodes_that_read_it_by_one_decision_and_by_two() -> None:
    d, table = idb.Diagram("shapes"), idb.Learned("mean", rows=6)
    a, b, c = d.decision("A", 6), d.decision("B", 2), d.decision("C", 3)
    d.reward(d.observed("X", [a], table))
    d.reward(d.observed("Y", [b, c], table))
    learner = CombUCB1(d, 0)
    for _ in range(300):
        action = learner.act()
        read = action["A"], 3 * action["B"] + action["C"]
        learner.update(action, {"X": int(read[0] == 4), "Y": int(read[1] == 4)})
    assert learner._state.floats[-18:-12].sum() == 600  # six arms in all
    assert learner.act() == {"A": 4, "B": 1, "C": 1}


def test_untried_arms_take_turns_at_random() -> None:
    d = models.position_based(6, 2)
    assert len({tuple(CombUCB1(d, seed).act().values()) for seed in range(200)}) == 30
    counts = Counter(CombUCB1(odd_choices(), seed).act()["idle"] for seed in range(200))
    assert set(counts) == {"u", "v"}


def test_matching_finds_the_best_assignment() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        positions = int(rng.integers(1, 6))
        items = int(rng.integers(positions, 9))
        scores = (
            rng.integers(0, 5, (positions, items)) / 4 if rng.random() < 0.5 else rng.normal(size=(positions, items))
        )
        action = np.zeros(positions, dtype=np.int64)
        room = np.empty(2 * items + 2, dtype=np.int64), np.empty(positions + 1 + 2 * (items + 1))
        in_python(match)(scores.ravel(), positions, items, *room, action)
        assert len(set(action)) == positions
        wanted = scores[linear_sum_assignment(-scores)].sum()
        assert scores[np.arange(positions), action].sum() == pytest.approx(wanted)


# -- GRAB ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [None, 1000])
@pytest.mark.parametrize(("items", "positions"), [(4, 2), (4, 3), (3, 3)])
def test_grab_shows_the_leader_or_a_neighbour(horizon: int | None, items: int, positions: int) -> None:
    rng = np.random.default_rng(2)
    means = {"attraction": rng.random(items), "examination": rng.random(positions)}
    world = idb.World(models.position_based(items, positions), means, seed=6)
    learner = GRAB(world.diagram, 1, horizon=horizon)
    times, sums = np.zeros((positions, items)), np.zeros((positions, items))
    led = Counter[tuple[int, ...]]()
    explored = 0
    for _ in range(400):
        action = tuple(learner.act().values())
        leader = tuple(int(x) for x in learner._state.floats[FIRST : FIRST + positions])
        mean = sums / np.maximum(times, 1)
        total = mean[np.arange(positions), list(leader)].sum()
        assert total == pytest.approx(mean[linear_sum_assignment(-mean)].sum(), abs=1e-7)
        if led[leader] % items == 0:  # gamma + 1
            assert action == leader
        else:
            allowed = level(led[leader]) if horizon is None else math.log(horizon)
            index = np.ones((positions, items))
            for k, i in zip(*np.nonzero(times), strict=True):
                index[k, i] = by_bisection(mean[k, i], allowed / times[k, i])
            clicks = mean[np.arange(positions), list(leader)]
            order = np.argsort(-clicks, kind="stable")
            if len(set(clicks)) == positions:  # else the order of positions is open
                near = [leader]
                for i in range(positions - 1):
                    swapped = list(leader)
                    swapped[order[i]], swapped[order[i + 1]] = swapped[order[i + 1]], swapped[order[i]]
                    near.append(tuple(swapped))
                for item in set(range(items)) - set(leader):
                    near.append(tuple(item if k == order[-1] else i for k, i in enumerate(leader)))
                assert len(near) == items
                assert action in near
                value = {x: index[np.arange(positions), list(x)].sum() for x in near}
                assert value[action] == pytest.approx(max(value.values()), abs=1e-7)
                explored += 1
        seen = list(world.step(learner._model.action_of(np.array(action))).observation.values())
        learner.update({f"A{k + 1}": i for k, i in enumerate(action)}, {f"C{k + 1}": c for k, c in enumerate(seen)})
        led[leader] += 1
        for k, i in enumerate(action):
            times[k, i] += 1
            sums[k, i] += seen[k]
    assert explored > 100


def test_grab_makes_room_for_leaders() -> None:
    learner = GRAB(models.position_based(100, 1), 0)
    for item in range(100):  # one after the other leads
        learner.update({"A1": item}, {"C1": 1})
        assert learner.act() == {"A1": item}
        learner.update({"A1": item}, {"C1": 0})
    assert learner._state.ints[USED] == 100
    assert learner._state.ints[CAPACITY] == 128


# -- whole actions -------------------------------------------------------------------------------------------------


def test_ucb1_shows_the_highest_index() -> None:
    d = costly()
    world, learner = world_of(d, 2), UCB1(d, 0)
    times, sums = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    low, high = -0.6 - 0.2, 1.4  # the sum of the lowest and of the highest values of the terms
    for t in range(200):
        action = learner.act()
        key = tuple(action.values())
        if t < 6:
            assert times[key] == 0
        else:
            index = {a: sums[a] / times[a] + math.sqrt(2 * math.log(t) / times[a]) for a in times}
            assert index[key] == pytest.approx(max(index.values()), rel=1e-9)
        outcome = world.step(action)
        learner.update(action, outcome.observation)
        times[key] += 1
        sums[key] += (outcome.reward - low) / (high - low)
    assert len(times) == 6


def test_epsilon_greedy_explores_as_often_as_it_says() -> None:
    d = models.rank1(3, 4)
    for settings, wanted in (({"epsilon": 0.0}, 0.0), ({"epsilon": 0.3}, 0.3), ({"epsilon": 1.0}, 1.0)):
        learner = EpsilonGreedy(d, 0, **settings)
        for action in actions_of(d):
            learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
        others = sum(learner.act() != {"A1": 1, "A2": 2} for _ in range(4000)) / 4000
        assert others == pytest.approx(wanted * 11 / 12, abs=0.03)
    learner = EpsilonGreedy(d, 0, epsilon=1, decay=12)
    for _ in range(10):
        for action in actions_of(d):
            learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
    others = sum(learner.act() != {"A1": 1, "A2": 2} for _ in range(4000)) / 4000
    assert others == pytest.approx(12 / 121 * 11 / 12, abs=0.02)


@pytest.mark.parametrize("of", [odd_choices, lambda: models.cascade(4, 3), lambda: models.rank1(3, 4)])
def test_uniform_is_uniform(of: Callable[[], idb.Diagram]) -> None:
    d = of()
    learner = Uniform(d, 0)
    every = {tuple(a.values()) for a in actions_of(d)}
    counts = Counter(tuple(learner.act().values()) for _ in range(300 * len(every)))
    assert set(counts) == every
    assert sum((n - 300) ** 2 / 300 for n in counts.values()) < len(every) + 5 * math.sqrt(2 * len(every))


def test_uniform_needs_no_list_where_decisions_are_alike() -> None:
    action = Uniform(models.cascade(30, 30), 0).act()
    assert sorted(action.values()) == list(range(30))
    assert Uniform(chain(20, 10), 0).act().keys() == chain(20, 10).nodes.keys() - {f"X{k}" for k in range(20)}


# -- regret --------------------------------------------------------------------------------------------------------

LEARNING: dict[str, tuple[Make, str]] = {
    "CascadeKLUCB": (CascadeKLUCB, "cascade"),
    "CascadeUCB1": (CascadeUCB1, "cascade"),
    "TopRank": (TopRank, "position-based"),
    "CombUCB1": (CombUCB1, "position-based"),
    "KLCombUCB1": (KLCombUCB1, "position-based"),
    "KLCombUCB1, anytime": (lambda d: KLCombUCB1(d, horizon=None), "position-based"),
    "GRAB": (GRAB, "position-based"),
    "GRAB, fixed": (lambda d: GRAB(d, horizon=20_000), "position-based"),
    "Rank1Elim": (Rank1Elim, "rank-1"),
    "Rank1ElimKL": (Rank1ElimKL, "rank-1"),
    "UCB1": (UCB1, "rank-1"),
    "EpsilonGreedy, decay": (lambda d: EpsilonGreedy(d, epsilon=1, decay=100), "rank-1"),
}
EASY = {
    "cascade": idb.World(models.cascade(5, 2), {"attraction": [0.05, 0.1, 0.15, 0.5, 0.6]}),
    "position-based": idb.World(
        models.position_based(4, 2), {"attraction": [0.1, 0.2, 0.6, 0.9], "examination": [0.9, 0.5]}
    ),
    "rank-1": idb.World(models.rank1(2, 3), {"row": [0.2, 0.9], "column": [0.1, 0.2, 0.9]}),
}


@pytest.mark.parametrize("name", LEARNING)
def test_regret_grows_slowly(name: str) -> None:
    make, where = LEARNING[name]
    world = EASY[where]
    learners = {name: make(world.diagram), "Uniform": Uniform(world.diagram)}
    result = simulate(world, learners, rounds=20_000, runs=4, progress=False, checkpoints=4).frame
    regret = result.groupby(["learner", "round"], observed=True)["regret"].mean()
    assert regret["Uniform", 20_000] > 3.8 * regret["Uniform", 5_000]
    assert regret[name, 20_000] < 1.9 * regret[name, 5_000] + 1.0
    assert regret[name, 20_000] < 0.25 * regret["Uniform", 20_000]


def test_begin_gives_each_run_its_own_numbers() -> None:
    world = EASY["rank-1"]
    one, other = (begin(world, Uniform(world.diagram, 0), "u", 0, run)[1] for run in (0, 1))
    assert [one.act() for _ in range(20)] != [other.act() for _ in range(20)]
