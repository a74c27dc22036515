"""The chain of Gibbs sampling: its distribution, its cost, and that it goes on after files and copies."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import NAMED, random_learning_diagram, same_item_twice, three_states
from inferences import diagram_of
from played_rounds import go_on, learn, learn_at_once, play, rounds_of, world_of

from internals import (  # isort: skip
    determined, groups, kept, latent_counts, learn_repeatedly, moved, next_group, number_of_groups, pseudo_counts,
    pseudo_counts_of_updates, room_for_groups, with_all_derived_again,
)  # fmt: skip


def mixture() -> idb.Diagram:
    """A hidden class with a learned answer; the prior says which class is which."""
    d = idb.Diagram("mixture")
    z = d.latent("Z", [d.decision("A", 2)], idb.Learned("class"))
    d.reward(d.observed("X", [z], idb.Learned("answer", prior=[[4.0, 1.0], [1.0, 4.0]])))
    return d


def three_items() -> idb.Diagram:
    """Two latent rows of three states whose sum is seen, if both are not in the last state."""
    d, weights = idb.Diagram("three items"), idb.Learned("level", prior=[2.0, 1.0, 1.0])
    first = d.latent("Z1", [d.decision("A1", 2)], weights, states=3)
    second = d.latent("Z2", [d.decision("A2", 2)], idb.Learned("other", prior=[1.0, 1.0, 2.0]), states=3)
    d.reward(d.observed("X", [first, second], lambda a, b: 0.0 if a + b < 2 else 1.0))
    return d


CASES: dict[str, tuple[Callable[[], idb.Diagram], int]] = {
    "rank-1": (lambda: idb.models.rank1(2, 2), 12),
    "mixture": (mixture, 10),
    "three states": (three_states, 7),
    "three items": (three_items, 9),
    "same item twice": (same_item_twice, 8),
}


class Exact(NamedTuple):
    """A diagram, an agent that learned in it, and the exact posterior."""

    diagram: idb.Diagram
    played: list[Any]
    first: np.ndarray  # moments of all learned entries
    second: np.ndarray


@functools.cache
def enumerated(case: str) -> Exact:
    """Rounds in a diagram, and the exact moments by enumeration of all histories."""
    make, count = CASES[case]
    d = make()
    played = play(d, np.random.default_rng(11), count)
    return Exact(d, played, *reference.posterior_moments_by_enumeration(d, rounds_of(played)))


def totals(d: idb.Diagram, alpha: np.ndarray) -> np.ndarray:
    """The sum of its row, for every learned entry on the last axis."""
    sums, first = np.empty_like(alpha), 0
    for t in d.learned.values():
        part = alpha[..., first : first + t.size].reshape(*alpha.shape[:-1], -1, t.states)
        sums[..., first : first + t.size] = np.repeat(part.sum(axis=-1), t.states, axis=-1)
        first += t.size
    return sums


def test_enumeration_is_quadrature() -> None:
    for case in ("rank-1", "mixture"):
        d, played, first, second = enumerated(case)
        mean, variance = reference.posterior_moments_by_quadrature(d, rounds_of(played), 16)
        np.testing.assert_allclose(first[1::2], np.concatenate([m.ravel() for m in mean.values()]), rtol=1e-9)
        spread = second[1::2] - first[1::2] ** 2
        np.testing.assert_allclose(spread, np.concatenate([v.ravel() for v in variance.values()]), rtol=1e-8)


# -- the distribution ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [(1, 0, 1), (1, 5, 1), (1, 2, 2), (2, 5, 1)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_few_visits_per_update_keep_the_exact_posterior(case: str, settings: tuple[int, int, int]) -> None:
    d, played, first, second = enumerated(case)
    chains, updates = 25, 3_500
    means, squares = [], []
    for seed in range(chains):
        agent = learn(idb.Thompson(d, idb.Gibbs(*settings), seed=seed), played)
        alpha = pseudo_counts_of_updates(agent, updates)[500:]
        whole = totals(d, alpha)  # of the means given latent counts, moments are known
        means.append((alpha / whole).mean(axis=0))
        squares.append((alpha * (alpha + 1) / (whole * (whole + 1))).mean(axis=0))
    for drawn, wanted in ((means, first), (squares, second)):
        error = np.std(drawn, axis=0, ddof=1) / np.sqrt(chains)
        # t with 24 degrees of freedom passes 7 with probability 3e-7; 560 comparisons in all: below 2e-4
        assert (abs(np.mean(drawn, axis=0) - wanted) < 7 * error + 1e-12).all()
        assert (7 * error < 0.25 * np.sqrt(second - first**2)).all()  # so it would notice


def exact_draws(d: idb.Diagram, played: list[Any], number: int, seed: int) -> np.ndarray:
    """Draws of all means from the exact posterior, one per row."""
    rng = np.random.default_rng(seed)
    parts = reference.histories(d, rounds_of(played))
    weights = np.array([w for _, w in parts])
    chosen = rng.choice(len(parts), size=number, p=weights / weights.sum())
    flat = np.array([np.concatenate([a.ravel() for a in alpha.values()]) for alpha, _ in parts])[chosen]
    drawn: np.ndarray = rng.standard_gamma(flat)
    return np.asarray(drawn / totals(d, drawn))


@pytest.mark.parametrize("tables", [False, True], ids=["pairs", "tables"])
@pytest.mark.parametrize("case", CASES)
def test_moves_keep_the_exact_posterior(case: str, tables: bool) -> None:
    d, played, first, second = enumerated(case)
    number = 20_000
    agent = learn(idb.Thompson(d, "gibbs", seed=0), played)
    before = exact_draws(d, played, number, seed=1)
    after = moved(agent, before, 20, tables=tables)
    np.testing.assert_allclose(totals(d, after), 1, rtol=1e-9)
    has_moved = abs(after - before).max(axis=-1) > 1e-3
    assert has_moved.mean() > 0.5
    spread = np.sqrt(second - first**2)
    for power, wanted in ((1, first), (2, second)):
        drawn = after**power
        error = drawn.std(axis=0) / np.sqrt(number)
        # draws are independent; 6 standard errors, 200 comparisons in all: below 1e-6
        assert (abs(drawn.mean(axis=0) - wanted) < 6 * error).all()
        assert (6 * error < 0.1 * spread).all()
    for a, b in ((0, -1), (1, len(first) // 2)):  # products, which moves keep roughly: the same, as draws of before
        one, two = before[:, a] * before[:, b], after[:, a] * after[:, b]
        assert abs((one - two).mean()) < 6 * (one - two).std() / np.sqrt(number)


# -- files and copies ----------------------------------------------------------------------------------------------


def saved_and_loaded(agent: idb.Thompson, path: Path) -> idb.Thompson:
    """Return the agent after saving and loading."""
    agent.save(path)
    return idb.Thompson.load(path)


AGAIN: dict[str, Callable[[idb.Thompson, Path], idb.Thompson]] = {
    "file": saved_and_loaded,
    "pickle": lambda agent, path: pickle.loads(pickle.dumps(agent)),
    "copy": lambda agent, path: agent.copy(),
    "deep copy": lambda agent, path: copy.deepcopy(agent),
}


@pytest.mark.parametrize("how", AGAIN)
@pytest.mark.parametrize("make", [*NAMED, lambda: idb.models.rank1(20, 20), *range(5)])
def test_the_chain_goes_on_as_before(make: Callable[[], idb.Diagram] | int, how: str, tmp_path: Path) -> None:
    d = diagram_of(make)
    world = world_of(d)
    agent = idb.Thompson(d, idb.Gibbs(2, 3, 2), seed=3)
    go_on(world, agent, 150)
    again = AGAIN[how](agent, tmp_path / "agent")
    assert kept(again) == kept(agent)
    assert pseudo_counts(again).tobytes() == pseudo_counts(agent).tobytes()
    here, there = (go_on(copy.deepcopy(world), a, 40) for a in (agent, again))
    assert here == there
    assert kept(again) == kept(agent)
    assert pseudo_counts(again).tobytes() == pseudo_counts(agent).tobytes()


def test_the_chain_of_a_file_has_links_beyond_its_first_room() -> None:
    agent = idb.Thompson(idb.models.rank1(20, 20), seed=0)
    go_on(world_of(agent.diagram), agent, 2)
    before = room_for_groups(agent)
    for i in range(20):
        for k in range(20):
            agent.update({"A1": i, "A2": k}, {"X": 0})
    assert room_for_groups(agent) > before
    assert number_of_groups(agent) == 400
    other = with_all_derived_again(agent)
    assert kept(other) == kept(agent)
    assert pseudo_counts(other).tobytes() == pseudo_counts(agent).tobytes()
    world = world_of(agent.diagram)
    assert go_on(copy.deepcopy(world), agent, 30) == go_on(world, other, 30)


@pytest.mark.parametrize("make", [*NAMED, *range(20)])
def test_pseudo_counts_are_what_is_certain_and_latent_counts(make: Callable[[], idb.Diagram] | int) -> None:
    d = diagram_of(make)
    agent = idb.Thompson(d, idb.Gibbs(1, 3, 2), seed=0)
    learn(agent, play(d, np.random.default_rng(4), 40, unseen=0.2))
    other = with_all_derived_again(agent)
    assert pseudo_counts(other).tobytes() == pseudo_counts(agent).tobytes()
    total = determined(agent).copy()
    for key, latent in zip(all_keys(agent), latent_counts(agent), strict=True):
        assert (latent >= 0).all()
        for member, uses in zip(key, latent, strict=True):
            if uses:  # never beside a number that is not a learned entry
                total[member] += uses
    np.testing.assert_allclose(pseudo_counts(agent), total, rtol=1e-12)


def all_keys(agent: idb.Thompson) -> list[tuple[int, ...]]:
    """The keys of all groups, in order; every one was counted."""
    keys = list(groups(agent))
    assert len(keys) == number_of_groups(agent)
    return keys


@pytest.mark.parametrize("how", [learn, learn_at_once])
@pytest.mark.parametrize("make", [*NAMED, *range(20)])
def test_nothing_is_left_of_rounds_that_were_all_taken_back(
    make: Callable[[], idb.Diagram] | int, how: Callable[..., idb.Thompson]
) -> None:
    d = random_learning_diagram(make) if isinstance(make, int) else make()
    saved = d.to_dict()
    for table in saved["learned"]:
        table["prior"] = 0.375  # of which sums with whole numbers are exact
    d = idb.Diagram.from_dict(saved)
    played = play(d, np.random.default_rng(5), 25, unseen=0.2)
    agent = how(idb.Thompson(d, "gibbs", seed=0), played)
    for i in np.random.default_rng(6).permutation(25):
        agent.revise(played[i].action, played[i].observation, None, played[i].context)
    assert agent.rounds == 0
    assert not groups(agent)
    assert (pseudo_counts(agent) == 0.375).all()
    assert (determined(agent) == 0.375).all()
    assert all((latent == 0).all() for latent in latent_counts(agent))


# -- cost ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visits", [1, 3, 16])
def test_an_update_visits_no_more_groups_however_many_there_are(visits: int) -> None:
    d = idb.models.position_based(400, 1)
    agent = idb.Thompson(d, idb.Gibbs(1, 0, visits), seed=0)
    for item in range(400):
        learn_repeatedly(agent, {"A1": item}, {"C1": 0}, 1000)  # so that every visit changes latent counts
        before, first, used = latent_counts(agent), next_group(agent), number_of_groups(agent)
        assert used == item + 1
        agent.update({"A1": item}, {"C1": 0})
        assert (next_group(agent) - first) % used <= visits
        after = latent_counts(agent)
        changed = [g for g in range(used) if (before[g] != after[g]).any()]
        assert len(changed) <= visits + 1
        turn = {(first + 1 + i) % used for i in range(min(visits, used))}
        assert set(changed) <= turn | {item}
        assert used < 10 or len(set(changed)) >= min(visits, used) / 2


def test_moves_look_at_a_bounded_number_of_groups() -> None:
    d = idb.models.rank1(50, 50)
    agent = idb.Thompson(d, idb.Gibbs(1, 100, 1), seed=0)
    for i in range(50):
        for k in range(50):
            learn_repeatedly(agent, {"A1": i, "A2": k}, {"X": k % 2}, 2)
            learn_repeatedly(agent, {"A1": i, "A2": k}, {"X": 0}, 10)
    assert number_of_groups(agent) == 2500
    most = 0
    for t in range(40):
        before = latent_counts(agent)
        agent.update({"A1": t, "A2": t}, {"X": 0})
        most = max(most, sum((b != a).any() for b, a in zip(before, latent_counts(agent), strict=True)))
    assert most <= 400 + 256 + 2  # links that moves in a row may look at, those of the last one, the round, its visit
    assert most > 20  # something was moved


def test_every_group_has_its_turn() -> None:
    agent = idb.Thompson(idb.models.position_based(30, 1), idb.Gibbs(1, 0, 4), seed=0)
    for item in range(30):
        learn_repeatedly(agent, {"A1": item}, {"C1": 0}, 10_000)
    before = latent_counts(agent)
    for _ in range(8):
        agent.update({"A1": 0}, {"C1": 1})
    assert all((b != a).any() for b, a in zip(before, latent_counts(agent), strict=True))
