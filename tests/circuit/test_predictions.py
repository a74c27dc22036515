"""Sequential predictions and best means against plain enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import random_diagram, random_means
from idbandits.circuit.likelihood import Fitting
from played_rounds import places, play


def encoded(d: idb.Diagram, rounds: list[reference.Round]) -> np.ndarray:
    """Encode rounds as rows: decisions, contexts, observed nodes, -1 if not seen."""
    kinds = [n.name for kind in ("decision", "context") for n in d.of_kind(kind)]
    observed = [n.name for n in d.of_kind("observed")]
    return np.array([[*(g[n] for n in kinds), *(s.get(n, -1) for n in observed)] for g, s in rounds], dtype=np.int64)


def learned_means(d: idb.Diagram, means: dict[str, np.ndarray]) -> np.ndarray:
    return idb.compile(d).parameter_vector(means)[: idb.compile(d).parameters.learned_size]


@pytest.mark.parametrize("seed", range(25))
def test_predictions_condition_on_earlier_nodes(seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    d = random_diagram(rng, most_chance=6, most_joint=300)
    rounds = [p.round for p in play(d, rng, 4, unseen=0.3)]
    means = random_means(rng, d)
    fitting = Fitting(idb.compile(d))
    found = fitting.probabilities(learned_means(d, means), encoded(d, rounds))
    for (given, seen), line in zip(rounds, found, strict=True):
        before: dict[str, int] = {}
        for k, node in enumerate(d.of_kind("observed")):
            states = line[fitting.columns[k] : fitting.columns[k + 1]]
            if node.name not in seen:
                assert np.isnan(states).all()
                continue
            joint = [reference.likelihood(d, given, before | {node.name: s}, means) for s in range(node.states)]
            if sum(joint) > 0:  # else the world's means, which are others, saw what these rule out
                np.testing.assert_allclose(states, np.array(joint) / sum(joint), atol=1e-12)
            before[node.name] = seen[node.name]


@pytest.mark.parametrize("seed", range(10))
def test_a_step_counts_expected_uses(seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    d = random_diagram(rng, most_chance=5, most_joint=200)
    rounds = [p.round for p in play(d, rng, 3, unseen=0.2)]
    fitting = Fitting(idb.compile(d))
    start = fitting.normalised(rng.gamma(2.0, size=len(fitting.prior)), fitting.prior)
    means = idb.compile(d).tables_of_means(start)
    counts, log_likelihood = np.zeros(len(start)), 0.0
    for given, seen in rounds:
        likely = [(v, p) for v, p in reference.joint(d, given, means) if all(v[n] == s for n, s in seen.items())]
        total = sum(p for _, p in likely)
        log_likelihood += np.log(total)
        for values, p in likely:
            for (table, row), times in reference.entries_used(d, values).items():
                learned = d.learned[table]
                at = np.ravel_multi_index(row, (*learned.shape, learned.states))
                counts[idb.compile(d).parameters.offsets[table] + at] += times * p / total
    stepped, value = fitting._step(start, fitting._by_part(encoded(d, rounds), np.ones(3)), np.zeros(len(start)))
    assert value == pytest.approx(log_likelihood, abs=1e-9)
    used = fitting.row_totals(counts) > 1e-12
    np.testing.assert_allclose(stepped[used], (counts / fitting.row_totals(counts).clip(1e-300))[used], atol=1e-9)
    np.testing.assert_array_equal(stepped[~used], start[~used])  # rows that play no part stay


def test_best_means_of_fully_observed_rounds_are_frequencies() -> None:
    d = idb.models.semi_bandit(3, 2)
    fitting = Fitting(idb.compile(d))
    rounds = np.array([[0, 1, 1, 0], [0, 1, 0, 0], [1, 0, 1, -1]])
    means, value = fitting.best_means(np.full(6, 0.5), rounds, np.array([3.0, 1.0, 2.0]), np.zeros(6))
    np.testing.assert_allclose(means[1::2], [3 / 4, 2 / 6, 0.5], atol=1e-9)
    assert value == pytest.approx(3 * np.log(3 / 4) + np.log(1 / 4) + 2 * np.log(1 / 3) + 4 * np.log(2 / 3), abs=1e-6)
    base = np.array([0.0, 0.0, 1e6, 1e6, 0.0, 0.0])  # a prior that outweighs the rounds
    held, _ = fitting.best_means(np.full(6, 0.5), rounds, np.array([3.0, 1.0, 2.0]), base)
    assert held[3] == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("model", [idb.models.position_based, idb.models.dynamic_bayesian, idb.models.user_browsing])
def test_best_means_explain_as_much_as_the_truth(model: object) -> None:
    rng = np.random.default_rng(3)
    d = model(5, 3)  # type: ignore[operator]
    means = random_means(rng, d)
    world = idb.World(d, means, seed=1)
    rounds = []
    for _ in range(400):
        action = {f"A{k + 1}": int(item) for k, item in enumerate(rng.permutation(5)[:3])}
        rounds.append((action, places(d, world.step(action).observation)))
    rows, times, nothing = encoded(d, rounds), np.ones(400), np.zeros(len(learned_means(d, means)))
    fitting = Fitting(idb.compile(d))
    _, truth = fitting._step(learned_means(d, means), fitting._by_part(rows, times), nothing)
    start = fitting.normalised(rng.gamma(2.0, size=len(nothing)), nothing)
    best, value = fitting.best_means(start, rows, times, nothing)
    assert value > truth  # 95 % of the gain of a fit lies below 15 for tables of this size
    assert value < truth + 20
    assert fitting._step(best, fitting._by_part(rows, times), nothing)[1] >= value - 1e-9  # EM never loses


def test_long_lists_do_not_underflow() -> None:
    d = idb.models.cascade(130, 120)
    fitting = Fitting(idb.compile(d))
    row = np.concatenate([np.arange(120), np.zeros(120)]).astype(np.int64)[None]  # nothing was clicked
    states = np.array([0.001, 0.999])  # 0.001 ** 120 is smaller than any float
    means = np.tile(states, len(fitting.prior) // 2)
    found = fitting.probabilities(means, row)
    np.testing.assert_allclose(found.reshape(-1, 2), np.tile(states, (120, 1)), rtol=1e-9)
    stepped, value = fitting._step(means, fitting._by_part(row, np.ones(1)), np.zeros(len(means)))
    assert value == pytest.approx(120 * np.log(0.001))
    np.testing.assert_allclose(stepped[1:240:2], 0.0, atol=1e-9)
