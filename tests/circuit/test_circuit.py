"""Circuits and the passes over them against plain enumeration; their sizes; draws of latent counts.

Error rates: with other seeds, a statistical test would fail for a correct library with a probability of about 1e-6, all
of its seeds together. The seeds are fixed, so it always passes or never does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import labels, random_diagram, random_given, random_means
from idbandits import Diagram, Learned, models
from idbandits.circuit.model import Likelihood, Model
from idbandits.circuit.passes import bind, down, entry, split, up
from idbandits.diagram.tables import Known, Use
from parts import alone

split_alone = alone(split)

ALPHA = 1e-6  # the error rate of a test


@dataclass
class Round:
    """A random diagram with means, an action and an observation that is possible."""

    d: Diagram
    means: dict[str, np.ndarray]
    given: dict[str, int]  # action and context, as places
    seen: dict[str, int]

    @property
    def model(self) -> Model:
        return idb.compile(self.d)

    @property
    def vector(self) -> np.ndarray:
        split_at = {n.name for n in self.d.of_kind("decision")}
        places = labels(self.d, self.given)
        context = {name: v for name, v in places.items() if name not in split_at}
        vector = self.model.context_vector(context)
        return np.array([self.given[n.name] for n in self.d.of_kind("decision")] + vector, dtype=np.int64)

    def parameters(self, likelihood: Likelihood) -> np.ndarray:  # the argument is compiled by then: known tables grow
        assert likelihood.circuit.inner
        return self.model.parameter_vector(self.means)


def random_round(seed: int, most_chance: int = 7, most_joint: int = 500) -> Round:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance, most_joint)
    means = random_means(rng, d)
    action, context = random_given(rng, d)
    given = {**action, **context}
    possible = [values for values, p in reference.joint(d, given, means) if p > 0]
    values = possible[rng.integers(len(possible))]
    seen = {n.name: values[n.name] for n in d.of_kind("observed") if rng.random() < 0.8}
    return Round(d, means, given, seen)


def upwards(r: Round, likelihood: Likelihood, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights of the slots and the values of the nodes."""
    c = likelihood.circuit
    weights, values = np.empty(c.slots), np.empty(c.leaves + c.inner)
    bind(c, r.vector, parameters, weights)
    values[: c.leaves] = likelihood.leaves(r.seen)
    up(c, 0, c.inner, weights, values)
    return weights, values


def by_entry(r: Round, likelihood: Likelihood, by_slot: np.ndarray) -> np.ndarray:
    """What belongs to slots, summed into the entries of the learned tables."""
    total = np.zeros(r.model.parameters.learned_size, dtype=by_slot.dtype)
    for slot, x in enumerate(by_slot):
        at = entry(likelihood.circuit, slot, r.vector)
        if at < total.size:
            total[at] += x
    return total


def expected_counts(r: Round, likelihood: Likelihood) -> tuple[float, np.ndarray]:
    """The root, and weight × derivative / root of every learned entry."""
    c = likelihood.circuit
    weights, values = upwards(r, likelihood, r.parameters(likelihood))
    slopes, counts = np.empty_like(values), np.zeros(c.slots)
    down(c, 0, c.inner, weights, values, slopes, counts)
    return values[-1], by_entry(r, likelihood, weights * counts / values[-1])


def place(r: Round, name: str, index: tuple[int, ...]) -> int:
    """Where an entry of a learned table stands among the parameters."""
    table = r.d.learned[name]
    return r.model.parameters.offsets[name] + int(np.ravel_multi_index(index, (*table.shape, table.states)))


def as_vector(r: Round, counts: Any) -> np.ndarray:
    vector = np.zeros(r.model.parameters.learned_size)
    for (name, index), count in counts:
        vector[place(r, name, index)] += count
    return vector


def rows_of(r: Round) -> list[slice]:
    """The learned rows as parts of the parameters."""
    return [
        slice(start, start + t.states)
        for t in r.d.learned.values()
        for start in range(r.model.parameters.offsets[t.name], r.model.parameters.offsets[t.name] + t.size, t.states)
    ]


# -- size ----------------------------------------------------------------------------------------------------------


def test_circuits_of_a_long_cascade_are_small() -> None:
    model = idb.compile(models.cascade(1_000, 20))
    assert model.likelihood.circuit.inner < 1_000
    assert model.rewards.circuit.inner < 1_000
    assert model.literal.circuit.inner < 1_000


@pytest.mark.parametrize("which", ["likelihood", "literal", "rewards"])
@pytest.mark.parametrize(
    "build",
    [models.cascade, models.position_based, models.dependent_click, models.dynamic_bayesian, models.click_chain],
)
def test_circuits_grow_linearly(build: Any, which: str) -> None:
    ten, twenty, forty = (getattr(idb.compile(build(50, k)), which).circuit.inner for k in (10, 20, 40))
    assert forty - twenty == 2 * (twenty - ten)


def test_circuits_do_not_grow_with_the_items() -> None:
    few, many = idb.compile(models.cascade(5, 3)), idb.compile(models.cascade(5_000, 3))
    assert few.likelihood.circuit.inner == many.likelihood.circuit.inner
    assert few.rewards.circuit.inner == many.rewards.circuit.inner


# -- up and down -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_expected_counts(seed: int) -> None:
    r = random_round(seed)
    distribution = reference.distribution_of_counts(r.d, r.given, r.seen, r.means)
    wanted = sum((p * as_vector(r, counts) for counts, p in distribution.items()), np.zeros(1))
    likelihood = reference.likelihood(r.d, r.given, r.seen, r.means)
    root, literal = expected_counts(r, r.model.literal)
    assert root == pytest.approx(likelihood, rel=1e-9)
    np.testing.assert_allclose(literal, np.broadcast_to(wanted, literal.shape), atol=1e-9)

    root, folded = expected_counts(r, r.model.likelihood)
    assert root == pytest.approx(likelihood, rel=1e-9)
    theta = r.parameters(r.model.likelihood)
    for row in rows_of(r):  # a row that vanished was used, but says nothing: what is missing is its own distribution
        missing = literal[row] - folded[row]
        assert missing.min() > -1e-9
        np.testing.assert_allclose(missing, missing.sum() * theta[row], atol=1e-9)


@pytest.mark.parametrize("seed", range(80))
def test_literal_circuit_with_weights_that_do_not_sum_to_one(seed: int) -> None:
    """The variational E-step: the root is the sum over all joint states of the product of their weights."""
    r = random_round(seed)
    literal = r.model.literal
    parameters = r.parameters(literal)
    size = r.model.parameters.learned_size
    parameters[:size] = np.random.default_rng(seed).uniform(0.1, 3.0, size)
    total, counts = 0.0, np.zeros(size)
    for values in (v for v, _ in reference.joint(r.d, r.given, r.means) if r.seen.items() <= v.items()):
        product = math.prod(
            float(n.cpd.table[(*(values[p] for p in n.parents), values[n.name])])
            if isinstance(n.cpd, Known)
            else parameters[place(r, name, (*row, values[n.name]))]
            for n in r.d.nodes.values()
            if n.is_chance
            for name, row in [("", ()) if isinstance(n.cpd, Known) else reference.entry_of(r.d, n, values)]
        )
        total += product
        counts += product * as_vector(r, reference.entries_used(r.d, values).items())
    c = literal.circuit
    weights, node_values = upwards(r, literal, parameters)
    slopes, derivatives = np.empty_like(node_values), np.zeros(c.slots)
    down(c, 0, c.inner, weights, node_values, slopes, derivatives)
    assert node_values[-1] == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(by_entry(r, literal, weights * derivatives), counts, rtol=1e-9, atol=1e-12)


def test_down_adds_to_what_is_there() -> None:
    r = random_round(0)
    literal = r.model.literal
    weights, values = upwards(r, literal, r.parameters(literal))
    once, twice = np.zeros(len(weights)), np.ones(len(weights))
    down(literal.circuit, 0, literal.circuit.inner, weights, values, np.full_like(values, np.nan), once)
    down(literal.circuit, 0, literal.circuit.inner, weights, values, np.full_like(values, np.nan), twice)
    np.testing.assert_array_equal(twice, once + 1)
    assert once.any()


# -- drawing latent counts -------------------------------------------------------------------------------------------


def draws(r: Round, times: int, number: int, seed: int, likelihood: Likelihood | None = None) -> np.ndarray:
    """Counts of the learned entries, a row a draw."""
    literal = r.model.literal if likelihood is None else likelihood
    c = literal.circuit
    weights, values = upwards(r, literal, r.parameters(literal))
    rng, visits = np.random.default_rng(seed), np.empty(c.leaves + c.inner, dtype=np.int64)
    by_slot = np.zeros((number, c.slots), dtype=np.int64)
    for counts in by_slot:
        split_alone(c, 0, c.inner, weights, values, np.zeros(c.inner, np.int64), times, rng, visits, counts)
    entries = np.array([entry(c, s, r.vector) for s in range(c.slots)], dtype=np.int64)
    learned = entries < r.model.parameters.learned_size
    total = np.zeros((number, r.model.parameters.learned_size), dtype=np.int64)
    np.add.at(total.T, entries[learned], by_slot.T[learned])
    return total


def chi_square_tail(x: float, degrees: int) -> float:
    """P(chi-square ≥ x), an odd number of degrees of freedom rounded up: then it is a sum, and no smaller."""
    term, total = math.exp(-x / 2), 0.0
    for i in range((degrees + 1) // 2):
        total += term
        term *= x / 2 / (i + 1)
    return total


def distribution(r: Round) -> dict[bytes, float]:
    found: Counter[bytes] = Counter()
    for counts, p in reference.distribution_of_counts(r.d, r.given, r.seen, r.means).items():
        found[as_vector(r, counts).astype(np.int64).tobytes()] += p
    return dict(found)


SEEDS = [1003, 1005, 1006, 1008, 1010, 1017, 1018, 1022, 1026, 1028, 1031, 1032]  # rounds with 4 to 40 possible counts


def small_round(seed: int) -> Round:
    return random_round(seed, most_chance=5, most_joint=100)


@pytest.mark.parametrize("seed", SEEDS)
def test_split_of_one_round_has_the_joint_distribution(seed: int) -> None:
    """Chi-square over all joint counts, those expected less than 10 times together; 1e-6 over all seeds."""
    number = 20_000
    r = small_round(seed)
    wanted = distribution(r)
    assert 4 <= len(wanted) <= 40
    found = Counter(row.tobytes() for row in draws(r, 1, number, seed))
    assert found.keys() <= wanted.keys()  # what is impossible is never drawn
    cells = [(found[key], number * p) for key, p in wanted.items() if number * p >= 10]
    seldom = [(found[key], number * p) for key, p in wanted.items() if number * p < 10]
    if seldom:
        cells.append((sum(o for o, _ in seldom), max(sum(e for _, e in seldom), 1e-9)))
    statistic = sum((o - e) ** 2 / e for o, e in cells if e >= 1)
    assert chi_square_tail(statistic, len(cells) - 1) > ALPHA / len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_split_of_many_rounds_has_mean_and_covariance(seed: int) -> None:
    """6 standard errors for means, 8 for covariances, which are less normal: 1e-6 over the some 150 entries of all seeds."""
    number, times = 4_000, 1_000
    r = small_round(seed)
    keys = distribution(r)
    vectors = np.array([np.frombuffer(key, dtype=np.int64) for key in keys])
    p = np.array([*keys.values()])
    mean = p @ vectors
    covariance = (vectors - mean).T @ ((vectors - mean) * p[:, None])
    found = draws(r, times, number, seed)
    sd = np.sqrt(times * np.diag(covariance))
    assert (np.abs(found.mean(axis=0) - times * mean) <= 6 * sd / math.sqrt(number) + 1e-9).all()
    centred = found - found.mean(axis=0)
    scatter = centred.T @ centred / number
    slack = 8 * np.sqrt(2 / number) * np.outer(sd, sd) + 1e-9
    assert (np.abs(scatter - times * covariance) <= slack).all()
    assert (np.abs(covariance) > 0).any()


@pytest.mark.parametrize("times", [0, 1, 7, 10**12])
@pytest.mark.parametrize("seed", range(20))
def test_split_conserves_counts_and_never_draws_the_impossible(seed: int, times: int) -> None:
    r = random_round(seed)
    counts = draws(r, times, 3, seed)
    uses = Counter(n.cpd.name for n in r.d.nodes.values() if isinstance(n.cpd, Use))
    for name, table in r.d.learned.items():
        start = r.model.parameters.offsets[name]
        assert (counts[:, start : start + table.size].sum(axis=1) == times * uses[name]).all()
    expected = expected_counts(r, r.model.literal)[1]
    assert (counts[:, expected == 0] == 0).all()
    assert (counts >= 0).all()
    np.testing.assert_array_equal(counts, draws(r, times, 3, seed))  # the same seed, the same draws
    if times == 10**12:  # an entry's count has a standard deviation below 8 / 2 * 1e6
        np.testing.assert_allclose(counts, np.broadcast_to(times * expected, counts.shape), atol=6.5 * 4e6)


def test_another_seed_gives_other_draws() -> None:
    r = small_round(SEEDS[0])
    assert (draws(r, 10**6, 1, 0) != draws(r, 10**6, 1, 1)).any()


# -- folding ---------------------------------------------------------------------------------------------------------


def test_unexamined_items_leave_the_folded_circuit() -> None:
    d = models.cascade(4, 3)
    means = {"attraction": np.array([0.2, 0.3, 0.4, 0.5])}
    r = Round(d, means, {"A1": 1, "A2": 3, "A3": 0}, {"C1": 0, "C2": 1, "C3": 0})
    _, folded = expected_counts(r, r.model.likelihood)
    np.testing.assert_allclose(folded.reshape(4, 2), [[0, 0], [1, 0], [0, 0], [0, 1]], atol=1e-12)
    _, literal = expected_counts(r, r.model.literal)
    np.testing.assert_allclose(literal.reshape(4, 2), [[0.8, 0.2], [1, 0], [0, 0], [0, 1]], atol=1e-12)
    np.testing.assert_array_equal(
        draws(r, 9, 1, 0, r.model.likelihood)[0].reshape(4, 2), [[0, 0], [9, 0], [0, 0], [0, 9]]
    )


def test_latents_below_what_is_seen_leave_the_folded_circuit() -> None:
    d = Diagram()
    seen = d.observed("X", [d.decision("A", 2)])
    d.latent("Z", [seen])
    r = Round(d, {"X": np.array([0.3, 0.6]), "Z": np.array([0.1, 0.7])}, {"A": 1}, {"X": 1})
    np.testing.assert_allclose(expected_counts(r, r.model.likelihood)[1], [0, 0, 0, 1, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(expected_counts(r, r.model.literal)[1], [0, 0, 0, 1, 0, 0, 0.3, 0.7], atol=1e-12)


def test_what_was_not_seen_folds_by_its_weights() -> None:
    """An unseen node has all indicators at 1: its row is summed over, whatever its means."""
    d = models.semi_bandit(3, 2)
    r = Round(d, {"mean": np.array([0.2, 0.3, 0.4])}, {"A1": 0, "A2": 2}, {"X2": 1})
    root, counts = expected_counts(r, r.model.likelihood)
    assert root == pytest.approx(0.4)
    np.testing.assert_allclose(counts, [0.8, 0.2, 0, 0, 0, 1], atol=1e-12)


# -- numbers of any size, structures of any direction ----------------------------------------------------------------


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
        wanted = [0.0, 1.0] if clicks[k] else [1 - a * (1 - means["examination"][k]) / (1 - p[k]), np.nan]
        assert posterior[f"W{k + 1}"][0] == pytest.approx(wanted[0], abs=1e-12)
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
    """The likelihood of what was seen, and the expected reward if nothing was: sums from the start of the S chain."""
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
def test_chains_that_run_against_each_other(length: int) -> None:
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
    assert idb.compile(d).likelihood.circuit.inner < 40 * length


def test_by_hand_equals_enumeration() -> None:
    d, means, seen = opposed_chains(3), {"start": [0.2, 0.9], "emission": [0.3, 0.6]}, {"X1": 1, "X3": 0}
    p, _ = opposed_by_hand(3, 1, seen, means)
    _, reward = opposed_by_hand(3, 1, {}, means)
    assert p == pytest.approx(reference.likelihood(d, {"A": 1}, seen, means))
    assert reward == pytest.approx(reference.expected_reward(d, {"A": 1}, means))
