"""Unsupported diagrams and invalid settings of baselines are rejected with the reason."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import idbandits as idb
from baseline_cases import chain
from idbandits import baselines, models
from idbandits.errors import DiagramError, IdbanditsError


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
    ("name", "d", "message"),
    [
        ("CascadeUCB1", other_items(), "CascadeUCB1: all decisions must have the same items.*'A' has 0 to 1, 'B' has 0 to 2"),
        ("TopRank", crossed(), "TopRank: 'X' must be the click on 'A'; it depends on B"),
        ("TopRank", clicks_of_three(), "TopRank: clicks must have 2 states; 'X' has 3"),
        ("TopRank", models.position_based(2, 3, distinct=False), "at least as many items as positions.* has 2 and 3"),
        ("GRAB", models.rank1(3, 3), "GRAB needs one click per decision.*2 decisions and observes X"),
        ("Rank1Elim", models.cascade(3, 3), "Rank1Elim needs two decisions without constraints.*A1, A2, A3, all different"),
        ("Rank1ElimKL", constrained(), "Rank1ElimKL needs two decisions without constraints.*A, B, all different"),
        ("Rank1Elim", three_states(), "must observe one node with two states.*'X' with 3 states"),
        ("Rank1Elim", turned(), "'X' = 1 must have a higher reward"),
        ("Rank1Elim", crossed(), "must observe one node.*'X' with 2 states, 'Y' with 2 states"),
        ("CombUCB1", product_of_two(), r"CombUCB1: each reward term must depend on one observed node.*depends on 'X' \(observed\), 'Y' \(observed\)"),
        ("KLCombUCB1", latent_reward(), r"KLCombUCB1: each reward term must depend on one observed node.*depends on 'H' \(latent\)"),
        ("CombUCB1", unrewarded(), "CombUCB1: the reward of diagram 'unrewarded' must depend on a decision"),
        ("CombUCB1", models.rank1(1000, 101), "at most 100,000 base arms, got 101,000 at 'X', which depends on A1, A2"),
        ("UCB1", latent_reward(), "UCB1: the reward must depend on decisions and observed nodes only.*depends on 'H', a latent node"),
        ("EpsilonGreedy", unrewarded(), "EpsilonGreedy needs a reward; diagram 'unrewarded' has none"),
        ("UCB1", without_actions(), "UCB1: no action of diagram 'chain' satisfies all_different"),
        ("Uniform", without_actions(), "Uniform: no action"),
        ("CombUCB1", without_actions(), "diagram 'chain': no action was found"),
        ("UCB1", chain(6, 10), "UCB1 needs at most 100,000 actions.*6 decisions"),
        ("Uniform", overlapping(7), "Uniform needs at most 100,000 actions"),
    ],
)  # fmt: skip
def test_a_diagram_that_does_not_fit_is_rejected(name: str, d: idb.Diagram, message: str) -> None:
    with pytest.raises(DiagramError, match=message):
        getattr(baselines, name)(d)


def test_listing_actions_ends_where_constraints_leave_next_to_none() -> None:
    with pytest.raises(DiagramError, match=r"UCB1 needs a list of all actions; [\d,]+ steps found 0 .*diagram 'chain'"):
        baselines.UCB1(without_actions(11, 10))  # 10 million ways to begin, none that ends


@pytest.mark.parametrize("model", [models.cascade, models.dependent_click, models.user_browsing])
def test_many_positions_are_checked_quickly(model: Callable[..., idb.Diagram]) -> None:
    assert (
        baselines.TopRank(model(40, 40), 0).rounds == 0
    )  # there are 2^40 ways from the last click up to the first decision


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("CascadeKLUCB", {"reading": "second"}, "reading must be 'first' or 'last', got 'second'"),
        ("TopRank", {"horizon": 1}, "TopRank: horizon .* from 2 to .*, got 1"),
        ("TopRank", {"delta": 0}, "TopRank: delta must be a number > 0 and <= 1, got 0"),
        ("KLCombUCB1", {"horizon": 2.5}, "KLCombUCB1: horizon .* got 2.5"),
        ("CombUCB1", {"factor": 0}, "CombUCB1: factor must be a number > 0, got 0"),
        ("GRAB", {"gamma": -1}, "GRAB: gamma must be an integer from 0 to .*, got -1"),
        ("EpsilonGreedy", {"epsilon": 1.5}, "epsilon must be a number from 0 to 1, got 1.5"),
        ("EpsilonGreedy", {"decay": -1}, "decay must be a number > 0, got -1"),
        ("Rank1ElimKL", {"level": -2}, "Rank1ElimKL: level must be a number > 0, got -2"),
        ("UCB1", {"seed": "x"}, "seed must be an integer"),
    ],
)
def test_wrong_settings_are_rejected(name: str, settings: dict[str, Any], message: str) -> None:
    d = models.rank1(2, 2) if name.startswith("Rank1") else models.position_based(4, 2)
    with pytest.raises(IdbanditsError, match=message):
        getattr(baselines, name)(d, **settings)
