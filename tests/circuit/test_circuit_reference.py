"""Plain evaluation of circuits against enumeration of all joint states: numbers, bools and a prime field."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import random_diagram, random_given, random_means
from idbandits import Diagram, Learned
from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.model import Likelihood
from idbandits.circuit.reference import chained, down, entry, slot_weights, up

PRIME = 2**61 - 1
SEEDS = range(30)


def small_diagram(seed: int) -> tuple[np.random.Generator, Diagram]:
    rng = np.random.default_rng(seed)
    return rng, random_diagram(rng, most_chance=6, most_joint=200)


def action_and_context(rng: np.random.Generator, d: Diagram) -> tuple[dict[str, int], list[int]]:
    """Decisions and contexts by name, and as an action vector."""
    action, context = random_given(rng, d)
    return {**action, **context}, [*action.values(), *context.values()]


def evidence(likelihood: Likelihood, observations: list[dict[str, int]]) -> list[np.ndarray]:
    """Return the leaves of a likelihood, one column per observation."""
    return list(np.array([likelihood.leaves(seen) for seen in observations]).T)


def some_observations(rng: np.random.Generator, d: Diagram, number: int = 5) -> list[dict[str, int]]:
    seen = d.of_kind("observed")
    return [{n.name: int(rng.integers(n.states)) for n in seen if rng.random() < 0.8} for _ in range(number)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_root_is_the_likelihood_of_each_column(seed: int) -> None:
    rng, d = small_diagram(seed)
    model = idb.compile(d)
    given, vector = action_and_context(rng, d)
    observations = some_observations(rng, d)
    means = [random_means(rng, d) for _ in observations]
    likelihood = model.likelihood
    points = np.array([model.parameter_vector(m) for m in means]).T
    weights = slot_weights(likelihood.circuit, points, vector)
    values = up(likelihood.circuit, evidence(likelihood, observations), weights)
    wanted = [reference.likelihood(d, given, seen, m) for seen, m in zip(observations, means, strict=True)]
    np.testing.assert_allclose(values[-1], wanted, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_slopes_are_joint_probabilities(seed: int) -> None:
    rng, d = small_diagram(seed)
    model = idb.compile(d)
    likelihood = model.revealed
    given, vector = action_and_context(rng, d)
    means = random_means(rng, d)
    [seen] = some_observations(rng, d, 1)
    weights = slot_weights(likelihood.circuit, model.parameter_vector(means), vector)
    leaves = evidence(likelihood, [seen])
    slopes = down(likelihood.circuit, up(likelihood.circuit, leaves, weights), weights)
    for node in d.of_kind("latent"):
        wanted = np.zeros(node.states)
        for values, p in reference.joint(d, given, means):
            if all(values[name] == state for name, state in seen.items()):
                wanted[values[node.name]] += p
        first = likelihood.indicators[node.name]
        np.testing.assert_allclose(np.ravel(slopes[first : first + node.states]), wanted, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_bools_say_where_numbers_are_positive(seed: int) -> None:
    rng, d = small_diagram(seed)
    model = idb.compile(d)
    circuit = model.revealed.circuit
    _, vector = action_and_context(rng, d)
    weights = slot_weights(circuit, model.parameter_vector(random_means(rng, d)), vector)
    leaves = evidence(model.revealed, some_observations(rng, d))
    values = up(circuit, leaves, weights)
    positive_weights, positive_leaves = [w > 0 for w in weights], [leaf > 0 for leaf in leaves]
    positive = up(circuit, positive_leaves, positive_weights)
    slopes, positive_slopes = down(circuit, values, weights), down(circuit, positive, positive_weights)
    for numbers, bools in zip([*values, *slopes], [*positive, *positive_slopes], strict=True):
        assert bools.dtype == np.bool_
        np.testing.assert_array_equal(numbers > 0, bools)


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_of_nodes_in_a_prime_field_add_up_to_the_expected_reward(seed: int) -> None:
    rng, d = small_diagram(seed)
    model = idb.compile(d)
    given, vector = action_and_context(rng, d)
    means = random_means(rng, d)
    rewards = model.rewards
    fractions = [Fraction(p) for p in model.parameter_vector(means).tolist()]
    integers = [f.numerator * pow(f.denominator, -1, PRIME) % PRIME for f in fractions]
    factors = [integers[entry(rewards.circuit, slot, vector)] for slot in range(rewards.circuit.slots)]
    in_field = chained(rewards.circuit, factors, lambda x: x % PRIME)
    exact = slot_weights(rewards.circuit, fractions, vector)
    total = Fraction(0)
    for first, last in zip(rewards.ends[:-1], rewards.ends[1:], strict=True):
        nodes = range(first, last)
        values = up(rewards.circuit, [Fraction(1)], exact, nodes)
        modulo = up(rewards.circuit, [1], in_field, nodes, lambda x: x % PRIME)
        assert len(values) == len(modulo) == 1 + last
        assert all(0 <= x < PRIME for x in modulo)
        assert modulo[-1] * values[-1].denominator % PRIME == values[-1].numerator % PRIME
        slopes = down(rewards.circuit, values, exact, nodes)
        assert slopes[-1] == 1
        assert len(slopes) == len(values)
        total += values[-1]
    assert float(total) == pytest.approx(reference.expected_reward(d, given, means), abs=1e-9)


def test_random_circuits_have_products_lookups_chains_and_empty_runs() -> None:
    shapes: set[str] = set()
    for seed in SEEDS:
        model = idb.compile(small_diagram(seed)[1])
        for circuit in (model.likelihood.circuit, model.rewards.circuit):
            edges = np.diff(circuit.start)
            shapes |= {"product"} if PRODUCT in circuit.kind else set()
            shapes |= {"lookup"} if max(circuit.slot_lookup, default=-1) >= 0 else set()
            shapes |= {"chain"} if max(circuit.slot_also, default=-1) >= 0 else set()
            shapes |= {"empty"} if (edges == 0).any() else set()
    assert shapes == {"product", "lookup", "chain", "empty"}


def test_a_slot_reads_the_row_that_the_action_selects() -> None:
    d, rows = Diagram("selected rows"), Learned("rows", rows=3)
    a, b = d.decision("A", 2), d.decision("B", 3)
    d.reward(d.observed("X", [a, b], rows.select(lambda a, b: (a + 2 * b) % 3)))
    circuit = idb.compile(d).rewards.circuit
    for i in range(2):
        for j in range(3):
            assert entry(circuit, 0, [i, j]) == 2 * ((i + 2 * j) % 3) + 1  # P(0) and P(1) of each row in turn


def test_chains_of_slots_multiply() -> None:
    fields: dict[str, Any] = dict.fromkeys(Circuit._fields, 0)
    circuit = Circuit(**fields | {"slot_also": [2, -1, 1]})
    assert chained(circuit, [2, 3, 5]) == [math.prod([2, 5, 3]), 3, math.prod([5, 3])]
    assert chained(circuit, [2, 3, 5], lambda x: x % 7) == [2, 3, 1]
