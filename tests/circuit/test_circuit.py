"""Circuits against plain enumeration: values, expected counts, sizes and folding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from idbandits import Diagram, Learned, models
from idbandits.diagram.tables import Known
from internals import CIRCUITS, learned_size, place_of, size_of
from random_rounds import Round, random_round

# -- size ----------------------------------------------------------------------------------------------------------


def test_circuits_of_a_long_cascade_are_small() -> None:
    d = models.cascade(1_000, 20)
    assert all(size_of(d, circuit) < 1_000 for circuit in CIRCUITS)


@pytest.mark.parametrize("circuit", CIRCUITS)
@pytest.mark.parametrize(
    "build",
    [models.cascade, models.position_based, models.dependent_click, models.dynamic_bayesian, models.click_chain],
)
def test_circuits_grow_linearly_with_the_positions(build: Any, circuit: str) -> None:
    ten, twenty, forty = (size_of(build(50, k), circuit) for k in (10, 20, 40))
    assert forty - twenty == 2 * (twenty - ten)


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_circuits_do_not_grow_with_the_items(circuit: str) -> None:
    assert size_of(models.cascade(5, 3), circuit) == size_of(models.cascade(5_000, 3), circuit)


# -- values and expected counts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_expected_counts(seed: int) -> None:
    r = random_round(seed)
    distribution = reference.distribution_of_counts(r.d, r.given, r.seen, r.means)
    wanted = sum((p * r.as_vector(counts) for counts, p in distribution.items()), np.zeros(learned_size(r.d)))
    likelihood = reference.likelihood(r.d, r.given, r.seen, r.means)
    literal, folded = (r.evaluated(circuit) for circuit in ("literal", "likelihood"))
    assert literal.root == pytest.approx(likelihood, rel=1e-9)
    assert folded.root == pytest.approx(likelihood, rel=1e-9)
    counts = literal.weighted_counts() / literal.root
    np.testing.assert_allclose(counts, wanted, atol=1e-9)
    missing = counts - folded.weighted_counts() / folded.root
    assert missing.min(initial=0.0) > -1e-9
    for name, table in r.d.learned.items():  # what is missing of a row that was folded is its own distribution
        means = np.asarray(r.means[name]).reshape(-1, 1 if table.states == 2 else table.states)
        rows = np.concatenate([1 - means, means], axis=1) if table.states == 2 else means
        first = place_of(r.d, name, (0,) * (len(table.shape) + 1))
        parts = missing[first : first + table.size].reshape(-1, table.states)
        np.testing.assert_allclose(parts, parts.sum(axis=1, keepdims=True) * rows, atol=1e-9)


@pytest.mark.parametrize("seed", range(80))
def test_a_literal_circuit_takes_weights_that_do_not_sum_to_one(seed: int) -> None:
    """The variational E-step: the root is the sum over all joint states of the product of their weights."""
    r = random_round(seed)
    entries = np.random.default_rng(seed).uniform(0.1, 3.0, learned_size(r.d))
    total, counts = 0.0, np.zeros(len(entries))
    for values in (v for v, _ in reference.joint(r.d, r.given, r.means) if r.seen.items() <= v.items()):
        product = 1.0
        for n in (n for n in r.d.nodes.values() if n.is_chance):
            if isinstance(n.cpd, Known):
                product *= reference.probability(r.d, n, values, r.means)
            else:
                name, row = reference.entry_of(r.d, n, values)
                product *= entries[place_of(r.d, name, (*row, values[n.name]))]
        total += product
        counts += product * r.as_vector(reference.entries_used(r.d, values).items())
    literal = r.evaluated("literal", entries)
    assert literal.root == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(literal.weighted_counts(), counts, rtol=1e-9, atol=1e-12)


def test_derivatives_are_added_to_existing_values() -> None:
    literal = random_round(0).evaluated("literal")
    assert literal.weighted_derivatives().any()
    np.testing.assert_array_equal(literal.weighted_derivatives(before=1.0), literal.weighted_derivatives() + 1)


# -- folding -------------------------------------------------------------------------------------------------------


def expected_counts(r: Round, circuit: str) -> np.ndarray:
    evaluated = r.evaluated(circuit)
    return evaluated.weighted_counts() / evaluated.root


def test_unexamined_items_leave_the_folded_circuit() -> None:
    d = models.cascade(4, 3)
    means = {"attraction": np.array([0.2, 0.3, 0.4, 0.5])}
    r = Round(d, means, {"A1": 1, "A2": 3, "A3": 0}, {"C1": 0, "C2": 1, "C3": 0})
    folded, literal = (expected_counts(r, circuit).reshape(4, 2) for circuit in ("likelihood", "literal"))
    np.testing.assert_allclose(folded, [[0, 0], [1, 0], [0, 0], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(literal, [[0.8, 0.2], [1, 0], [0, 0], [0, 1]], atol=1e-12)


def test_latents_below_observed_nodes_leave_the_folded_circuit() -> None:
    d = Diagram()
    seen = d.observed("X", [d.decision("A", 2)])
    d.latent("Z", [seen])
    r = Round(d, {"X": np.array([0.3, 0.6]), "Z": np.array([0.1, 0.7])}, {"A": 1}, {"X": 1})
    np.testing.assert_allclose(expected_counts(r, "likelihood"), [0, 0, 0, 1, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(expected_counts(r, "literal"), [0, 0, 0, 1, 0, 0, 0.3, 0.7], atol=1e-12)


def test_unseen_nodes_fold_by_their_weights() -> None:
    """An unseen node has all indicators at 1: its row is summed over, whatever its means."""
    d = models.semi_bandit(3, 2)
    r = Round(d, {"mean": np.array([0.2, 0.3, 0.4])}, {"A1": 0, "A2": 2}, {"X2": 1})
    assert r.evaluated("likelihood").root == pytest.approx(0.4)
    np.testing.assert_allclose(expected_counts(r, "likelihood"), [0.8, 0.2, 0, 0, 0, 1], atol=1e-12)


# -- numbers of any size, structures of any direction --------------------------------------------------------------


def test_likelihoods_that_underflow() -> None:
    positions = 60
    rng = np.random.default_rng(0)
    d = models.position_based(positions, positions)
    means = {"attraction": 10 ** rng.uniform(-9, -7, positions), "examination": 10 ** rng.uniform(-6, -4, positions)}
    items = rng.permutation(positions)
    clicks = rng.random(positions) < 0.8
    p = means["attraction"][items] * means["examination"]
    assert math.prod(p[clicks]) == 0  # it does underflow
    action = {f"A{k + 1}": int(items[k]) for k in range(positions)}
    seen = {f"C{k + 1}": int(clicks[k]) for k in range(positions)}
    exact = math.fsum(math.log(q) if c else math.log1p(-q) for q, c in zip(p, clicks, strict=True))
    assert idb.log_likelihood(d, action, seen, means) == pytest.approx(exact, rel=1e-12)
    posterior = idb.posterior_of_latents(d, action, seen, means)
    for k in range(positions):
        a = means["attraction"][items[k]]
        attractive = 1.0 if clicks[k] else a * (1 - means["examination"][k]) / (1 - p[k])
        assert posterior[f"W{k + 1}"][1] == pytest.approx(attractive, rel=1e-9)
        assert posterior[f"W{k + 1}"].sum() == pytest.approx(1)


def opposed_chains(length: int) -> Diagram:
    """Two chains that run against each other: eliminating children first would join all of one of them."""
    d = Diagram("opposed")
    shift = d.decision("A", 2)
    up_chain: dict[int, Any] = {}
    for i in range(length, 0, -1):
        up_chain[i] = d.latent(f"H{i}", [up_chain[i + 1]] if i < length else [], [0.3, 0.8] if i < length else 0.4)
    state = d.latent("S0", [shift], Learned("start"))
    emission = Learned("emission")
    for i in range(1, length + 1):
        state = d.latent(f"S{i}", [state, up_chain[i]], [[0.1, 0.5], [0.4, 0.9]])
        d.observed(f"X{i}", [state], emission)
    d.reward(state, lambda s: 3 * s - 2)
    d.reward([state, shift], lambda s, a: -a * s)
    return d


def opposed_by_hand(length: int, action: int, seen: Mapping[str, int], means: Mapping[str, Any]) -> tuple[float, float]:
    """Likelihood of the observed nodes, and expected reward without observations: sums from the start of the S chain."""
    h_given = np.array([[0.7, 0.3], [0.2, 0.8]])  # next H, this H
    step = np.array([[0.1, 0.5], [0.4, 0.9]])
    start = means["start"][action]
    belief = np.broadcast_to(np.array([1 - start, start]), (2, 2))  # this H, last S: P(S, seen | H)
    for i in range(1, length + 1):
        after = np.stack([(belief * (1 - step.T)).sum(axis=1), (belief * step.T).sum(axis=1)], axis=1)
        if f"X{i}" in seen:
            p = np.asarray(means["emission"])
            after = after * (p if seen[f"X{i}"] else 1 - p)
        belief = h_given @ after if i < length else np.array([0.6, 0.4]) @ after
    reward = belief @ np.array([-2, 1 - action])
    return belief.sum(), reward


@pytest.mark.parametrize("length", [3, 30])
def test_opposed_chains(length: int) -> None:
    d = opposed_chains(length)
    means = {"start": [0.2, 0.9], "emission": [0.3, 0.6]}
    for a in range(2):
        expected = opposed_by_hand(length, a, {}, means)[1]
        assert idb.expected_reward(d, {"A": a}, means) == pytest.approx(expected, abs=1e-12)
        seen = {f"X{i}": i % 2 for i in range(1, length + 1) if i % 5}
        p = opposed_by_hand(length, a, seen, means)[0]
        assert idb.log_likelihood(d, {"A": a}, seen, means) == pytest.approx(math.log(p), abs=1e-9)
    best = max(opposed_by_hand(length, a, {}, means)[1] for a in range(2))
    assert idb.best_action(d, means).value == pytest.approx(best, abs=1e-12)
    assert size_of(d, "likelihood") < 40 * length


def test_opposed_by_hand_equals_enumeration() -> None:
    d, means, seen = opposed_chains(3), {"start": [0.2, 0.9], "emission": [0.3, 0.6]}, {"X1": 1, "X3": 0}
    p, _ = opposed_by_hand(3, 1, seen, means)
    _, reward = opposed_by_hand(3, 1, {}, means)
    assert p == pytest.approx(reference.likelihood(d, {"A": 1}, seen, means))
    assert reward == pytest.approx(reference.expected_reward(d, {"A": 1}, means))
