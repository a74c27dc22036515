"""Values that can occur together, rows of zeros for those that cannot, and rewards given as arrays."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import random_diagram
from idbandits import Diagram
from idbandits.diagram.support import possible
from idbandits.diagram.tables import Known, Use
from idbandits.errors import DiagramError, TableError


def possible_by_enumeration(d: Diagram, names: list[str]) -> np.ndarray:
    """Return where the joint probability is positive if all learned entries are."""
    result = np.zeros([d.nodes[name].states for name in names], dtype=bool)
    nodes = list(d.nodes.values())
    for states in itertools.product(*(range(n.states) for n in nodes)):
        values = {n.name: s for n, s in zip(nodes, states, strict=True)}
        tables = [(n, n.cpd.table) for n in nodes if isinstance(n.cpd, Known)]
        if all(table[(*(values[p] for p in n.parents), values[n.name])] > 0 for n, table in tables):
            result[tuple(values[name] for name in names)] = True
    return result


def test_what_is_possible_is_what_enumeration_says() -> None:
    impossible = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d = random_diagram(rng, most_chance=5, most_joint=30)
        if math.prod(n.states for n in d.nodes.values()) > 3000:
            continue
        names = [str(name) for name in rng.choice(list(d.nodes), size=min(3, len(d.nodes)), replace=False)]
        found = possible(d.nodes, names)
        np.testing.assert_array_equal(found, possible_by_enumeration(d, names))
        impossible += not found.all()
    assert impossible > 5


def weather() -> Diagram:
    """Rain comes with clouds only."""
    d = Diagram("weather")
    season = d.context("season", 2)
    sky = d.latent("sky", [season], states=["clear", "clouds"])
    d.latent("rain", [sky], lambda s: [1, 0, 0] if s == "clear" else [0.5, 0.3, 0.2], states=3)
    return d


ROWS = np.array([[[0.7, 0.2, 0.1], [0, 0, 0], [0, 0, 0]], [[0.1, 0.8, 0.1], [0, 0.5, 0.5], [0.2, 0.2, 0.6]]])


@pytest.mark.parametrize("given", ["array", "function"])
def test_rows_of_impossible_parents_may_be_zeros(given: str) -> None:
    d, filled = weather(), weather()
    place = {"clear": 0, "clouds": 1}
    d.reward(
        d.observed("mood", ["sky", "rain"], ROWS if given == "array" else lambda s, r: ROWS[place[s], r], states=3)
    )
    any_rows = np.where(ROWS.sum(axis=-1, keepdims=True) == 0, 1 / 3, ROWS)
    filled.reward(filled.observed("mood", ["sky", "rain"], any_rows, states=3))
    means = {"sky": [0.3, 0.8]}
    for season, state in itertools.product(range(2), range(3)):
        asked = {}, {"mood": state}, means, {"season": season}
        assert idb.log_likelihood(d, *asked) == pytest.approx(idb.log_likelihood(filled, *asked))
        given_season = {"season": season}
        assert math.exp(idb.log_likelihood(d, *asked)) == pytest.approx(
            reference.likelihood(filled, given_season, {"mood": state}, means)
        )
    assert Diagram.from_dict(d.to_dict()).to_dict() == d.to_dict()
    world = idb.World(d, means, seed=0)
    for _ in range(50):
        world.step({}, context=world.context())


def test_rows_of_zeros_for_possible_parents_are_rejected() -> None:
    rows = ROWS.copy()
    rows[1, 2] = 0
    with pytest.raises(
        TableError,
        match=r"node 'mood': probabilities must sum to 1, got \[0.0, 0.0, 0.0\], with sum 0.0 where sky = 'clouds', rain = 2",
    ):
        weather().observed("mood", ["sky", "rain"], rows, states=3)
    d = Diagram("learned zeros")  # learned entries may be anything
    d.latent("Z")
    with pytest.raises(TableError, match=r"must sum to 1, got .*, with sum 0\.0"):
        d.observed("X", ["Z"], [[1, 0, 0], [0, 0, 0]], states=3)
    with pytest.raises(TableError, match=r"must sum to 1, got .*, with sum 0\.0"):
        d.observed("Y", cpd=[0, 0, 0], states=3)


def test_rewards_given_as_arrays() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 2, 3)).round(2)
    given, computed = Diagram(), Diagram()
    for d in (given, computed):
        item = d.decision("item", ["a", "b", "c"])
        click = d.observed("click", [item])
        d.observed("rating", [click], states=3)
    given.reward(["item", "click", "rating"], values)
    computed.reward(["item", "click", "rating"], lambda i, c, r: values["abc".index(i), c, r])
    given.reward("item", [1, 2.5, True])
    computed.reward("item", lambda i: {"a": 1, "b": 2.5, "c": 1}[i])
    assert given.to_dict() == computed.to_dict() == Diagram.from_dict(given.to_dict()).to_dict()
    values[:] = 0  # the diagram has its own
    assert given.to_dict() == computed.to_dict()
    assert isinstance(given.nodes["click"].cpd, Use)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 3)), r"the reward of 'A', 'X': its table must have the shape \(3, 2\) \(3 values of 'A' x 2 values of 'X'\), got \(2, 3\)"),
        (1.0, r"the reward of 'A', 'X': its table must have the shape \(3, 2\) \(3 values of 'A' x 2 values of 'X'\), got \(\)"),
        ([[1, 2], [3]], r"the reward of 'A', 'X' needs a function, or an array of numbers, got \[\[1, 2\], \[3\]\]"),
        ("text", "the reward of 'A', 'X' needs a function, or an array of numbers, got 'text'"),
        ([["1", "2"]] * 3, "an array of numbers"),
        ([[0, 0], [0, np.inf], [0, 0]], "the reward of 'A', 'X' must be finite, got inf where A = 1, X = 1"),
    ],
)  # fmt: skip
def test_arrays_that_are_not_rewards(values: object, message: str) -> None:
    d = Diagram()
    d.decision("A", 3)
    d.observed("X", ["A"])
    before = d.to_dict()
    with pytest.raises(DiagramError, match=message):
        d.reward(["A", "X"], values)
    assert d.to_dict() == before
