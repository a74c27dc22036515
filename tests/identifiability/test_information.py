"""Information of rounds against the rank of all probabilities by enumeration, and reduction of choices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import random_diagram
from idbandits import Diagram, Learned, models
from idbandits.identifiability.information import Information, eliminated
from idbandits.identifiability.reduce_choices import Reduced


def rank_by_enumeration(info: Information) -> int:
    """Return the rank of the derivatives of all probabilities of all observations, by fourth-order differences."""
    d, means, step = info.model.diagram, info.point.means, 1e-3
    contexts = d.of_kind("context")

    def probabilities(parameters: np.ndarray) -> np.ndarray:
        tables, columns = info.model.tables_of_means(parameters), []
        for action in reference.actions(d):
            for values in itertools.product(*(range(n.states) for n in contexts)):
                given = action | {n.name: v for n, v in zip(contexts, values, strict=True)}
                seen: dict[tuple[int, ...], float] = {}
                for states, p in reference.joint(d, given, tables):
                    key = tuple(states[n.name] for n in info.model.observed)
                    seen[key] = seen.get(key, 0.0) + p
                columns += [p for _, p in sorted(seen.items())]
        return np.array(columns)

    slopes = []
    for direction in np.eye(len(info.row_of)):
        near, far = (
            probabilities(means + h * info.entries(direction)) - probabilities(means - h * info.entries(direction))
            for h in (step, 2 * step)
        )
        slopes.append((8 * near - far) / (12 * step))
    return int((np.linalg.svd(np.array(slopes), compute_uv=False) > 1e-8).sum())


def test_the_rank_is_that_of_all_probabilities() -> None:
    ranks = []
    for seed in itertools.count():
        d = random_diagram(np.random.default_rng(seed), most_chance=5, most_joint=40)
        actions = sum(1 for _ in itertools.islice(reference.actions(d), 40))
        reduced = Reduced(idb.compile(d))
        if not d.learned or reduced.directions > 25 or actions >= 40 or not reduced.is_full or reduced.model is None:
            continue
        info = Information(reduced.model, 0)
        info.settle()
        rank = len(info.row_of) - len(info.point.free)
        assert rank == rank_by_enumeration(info), seed
        ranks.append((rank, len(info.row_of)))
        if len(ranks) == 40:
            break
    assert sum(0 < rank < most for rank, most in ranks) > 5
    assert sum(rank == most for rank, most in ranks) > 5


def test_fully_observed_diagrams_raise_no_alarm() -> None:
    checked = 0
    for seed in range(100, 140):
        d = random_diagram(np.random.default_rng(seed), most_chance=5).revealed()
        report = d.check()
        assert {finding.kind for finding in report} <= {"size", "search", "unseen", "not examined"}, seed
        for finding in report.of_kind("unseen"):
            assert finding.sentence.startswith("No node reads"), seed
        checked += bool(d.learned)
    assert checked > 25


def test_elimination_finds_a_basis_and_the_rows_that_make_it() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 12)) * np.exp(rng.normal(size=(40, 1)) * 10)
    basis, taken = eliminated(rows)
    assert len(basis) == len(taken) == 5
    np.testing.assert_allclose(basis @ basis.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(rows - rows @ basis.T @ basis, axis=1) / np.linalg.norm(rows, axis=1), 0, atol=1e-12
    )
    more, _ = eliminated(np.eye(12), basis)
    np.testing.assert_allclose(more @ more.T, np.eye(12), atol=1e-12)


# -- fewer choices --------------------------------------------------------------------------------------------------


def test_fewer_choices_change_neither_rewards_nor_likelihoods() -> None:
    d = Diagram("large")
    kind = d.context("kind", [f"kind {k}" for k in range(300)])
    first, second = (
        d.decision("A", [f"item {k}" for k in range(500)]),
        d.decision("B", [f"item {k}" for k in range(400, 900)]),
    )
    table = Learned("taste", prior=[1, 2])
    clicks = [d.observed(f"C{k}", [item, kind], table) for k, item in enumerate((first, second))]
    known = np.linspace(0, 1, 500 * 2).reshape(500, 2)
    d.reward(d.observed("X", [first, clicks[0]], known))
    d.reward([second, clicks[1]], np.arange(1000.0).reshape(500, 2))
    d.all_different()
    reduced = Reduced(idb.compile(d))
    assert not reduced.is_full
    assert reduced.model is not None
    small = reduced.model
    assert len(small.nodes["A"].values) < 50
    info = Information(small, 0)
    whole = idb.compile(d)
    means = {"taste": np.zeros((500, 300))}
    for row in info.rows:
        means["taste"][reduced.row("taste", row.number)] = info.point.means[row.first + 1]
    for vector in info.actions(10):
        action = small.action_of(vector)
        context = {"kind": small.nodes["kind"].values[vector[2]]}
        tables = small.tables_of_means(info.point.means)
        assert idb.expected_reward(small.diagram, action, tables, context) == pytest.approx(
            idb.expected_reward(whole.diagram, action, means, context)
        )
        seen = {"C0": 1, "C1": 0, "X": 1}
        assert idb.log_likelihood(small.diagram, action, seen, tables, context) == pytest.approx(
            idb.log_likelihood(whole.diagram, action, seen, means, context)
        )


def test_choices_with_different_known_zeros_are_kept() -> None:
    d = models.position_based(1000, 2)
    d.reward([d.observed("seen", ["A1", "C1"], lambda item, c: 0.0 if item == 777 else 0.5)])
    reduced = Reduced(idb.compile(d))
    assert reduced.model is not None
    assert 777 in reduced.model.nodes["A1"].values


def test_few_choices_are_all_kept() -> None:
    model = idb.compile(models.position_based(20, 5))
    reduced = Reduced(model)
    assert reduced.is_full
    assert reduced.model is model
