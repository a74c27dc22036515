"""Diagrams and settings that a baseline is not made for are refused, with the reason."""

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
        ("CascadeUCB1", other_items(), "CascadeUCB1 ranks items.*'A' has 0 to 1, 'B' has 0 to 2"),
        ("TopRank", crossed(), "TopRank: 'X' must be the click on 'A'; it depends on B"),
        ("TopRank", clicks_of_three(), "TopRank learns from clicks, 0 or 1; 'X' has 3 states"),
        ("TopRank", models.position_based(2, 3, distinct=False), "3 decisions need as many, not 2"),
        ("GRAB", models.rank1(3, 3), "GRAB learns from one click per decision.*2 decisions and observes X"),
        ("Rank1Elim", models.cascade(3, 3), "Rank1Elim chooses a row and a column.*A1, A2, A3, all different"),
        ("Rank1ElimKL", constrained(), "Rank1ElimKL chooses a row and a column.*A, B, all different"),
        ("Rank1Elim", three_states(), "sees one node with two states.*'X' with 3 states"),
        ("Rank1Elim", turned(), "'X' = 1 must be worth more"),
        ("Rank1Elim", crossed(), "sees one node.*'X' with 2 states, 'Y' with 2 states"),
        ("CombUCB1", product_of_two(), r"CombUCB1 adds up.*depends on 'X' \(observed\), 'Y' \(observed\)"),
        ("KLCombUCB1", latent_reward(), r"KLCombUCB1 adds up.*depends on 'H' \(latent\)"),
        ("CombUCB1", unrewarded(), "CombUCB1 has nothing to learn"),
        ("CombUCB1", models.rank1(1000, 101), "with 'X', which depends on A1, A2, there are 101,000.*at most 100,000"),
        ("UCB1", latent_reward(), "UCB1 learns from rewards that it sees.*depends on 'H', a latent node"),
        ("EpsilonGreedy", unrewarded(), "EpsilonGreedy learns from rewards; diagram 'unrewarded' has none"),
        ("UCB1", without_actions(), "UCB1 has nothing to choose: no action of diagram 'chain' satisfies all_different"),
        ("Uniform", without_actions(), "Uniform has nothing to choose: no action"),
        ("CombUCB1", without_actions(), "diagram 'chain': no action was found"),
        ("UCB1", chain(6, 10), "UCB1 keeps a number for every action.*more than 100,000.*6 decisions"),
        ("Uniform", overlapping(7), "Uniform keeps a number for every action.*more than 100,000"),
    ],
)  # fmt: skip
def test_a_diagram_that_does_not_fit_is_rejected(name: str, d: idb.Diagram, message: str) -> None:
    with pytest.raises(DiagramError, match=message):
        getattr(baselines, name)(d)


def test_listing_actions_ends_where_constraints_leave_next_to_none() -> None:
    with pytest.raises(DiagramError, match=r"UCB1 lists all actions; [\d,]+ steps found 0 .*diagram 'chain'"):
        baselines.UCB1(without_actions(11, 10))  # 10 million ways to begin, none that ends


@pytest.mark.parametrize("model", [models.cascade, models.dependent_click, models.user_browsing])
def test_many_positions_are_checked_in_no_time(model: Callable[..., idb.Diagram]) -> None:
    assert (
        baselines.TopRank(model(40, 40), 0).rounds == 0
    )  # there are 2^40 ways from the last click up to the first decision


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("CascadeKLUCB", {"reading": "second"}, "reading is 'first' or 'last'.*'second'"),
        ("TopRank", {"horizon": 1}, "TopRank: horizon .* from 2 to .*, not 1"),
        ("TopRank", {"delta": 0}, "TopRank: delta is a number above 0 and at most 1, not 0"),
        ("KLCombUCB1", {"horizon": 2.5}, "KLCombUCB1: horizon .* not 2.5"),
        ("CombUCB1", {"factor": 0}, "CombUCB1: factor is a number above 0, not 0"),
        ("GRAB", {"gamma": -1}, "GRAB: gamma is a whole number from 0 to .*, not -1"),
        ("EpsilonGreedy", {"epsilon": 1.5}, "epsilon is a number from 0 to 1, not 1.5"),
        ("EpsilonGreedy", {"decay": -1}, "decay is a number above 0, not -1"),
        ("Rank1ElimKL", {"level": -2}, "Rank1ElimKL: level is a number above 0, not -2"),
        ("UCB1", {"seed": "x"}, "seed is a whole number"),
    ],
)
def test_wrong_settings_are_rejected(name: str, settings: dict[str, Any], message: str) -> None:
    d = models.rank1(2, 2) if name.startswith("Rank1") else models.position_based(4, 2)
    with pytest.raises(IdbanditsError, match=message):
        getattr(baselines, name)(d, **settings)
