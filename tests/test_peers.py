"""Queries and best actions against pyAgrum, an independent library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pyagrum_peer import PyAgrumDiagram, gum, network, table_of

import idbandits as idb
import reference
from diagrams import labels, random_diagram, random_given, random_means

YES_NO = ["yes", "no"]
ASIA = {  # Lauritzen and Spiegelhalter (1988): parents, and P(yes) for each combination of theirs, yes before no
    "visit": ([], 0.01),
    "smoker": ([], 0.5),
    "tuberculosis": (["visit"], [0.05, 0.01]),
    "cancer": (["smoker"], [0.1, 0.01]),
    "bronchitis": (["smoker"], [0.6, 0.3]),
    "either": (["tuberculosis", "cancer"], [[1.0, 1.0], [1.0, 0.0]]),
    "x-ray": (["either"], [0.98, 0.05]),
    "dyspnoea": (["either", "bronchitis"], [[0.9, 0.7], [0.8, 0.1]]),
}
DISEASES = ("tuberculosis", "cancer", "bronchitis", "either")


def asia() -> idb.Diagram:
    d = idb.Diagram("Asia")
    for name, (parents, yes) in ASIA.items():
        declare = d.latent if name in DISEASES else d.observed
        declare(name, parents, 1 - np.asarray(yes), states=YES_NO)  # a two-state table holds the second state's
    return d


def asia_in_pyagrum() -> gum.LazyPropagation:
    net = gum.BayesNet("Asia")
    for name, (parents, yes) in ASIA.items():
        net.add(gum.LabelizedVariable(name, name, YES_NO))
        for parent in parents:
            net.addArc(parent, name)
        for at in np.ndindex(np.shape(yes)):
            p = float(np.asarray(yes)[at])
            given = {parent: YES_NO[i] for parent, i in zip(parents, at, strict=True)}
            if given:
                net.cpt(name)[given] = [p, 1 - p]
            else:
                net.cpt(name).fillWith([p, 1 - p])
    return gum.LazyPropagation(net)


@pytest.mark.parametrize(
    "seen",
    [
        {},
        {"x-ray": "yes"},
        {"visit": "yes", "dyspnoea": "yes"},
        {"smoker": "no", "x-ray": "yes", "dyspnoea": "no"},
        {"visit": "no", "smoker": "yes", "x-ray": "no", "dyspnoea": "yes"},
        {"visit": "yes", "smoker": "yes", "x-ray": "yes", "dyspnoea": "yes"},
    ],
)
def test_asia_with_hidden_diseases(seen: dict[str, str]) -> None:
    d, inference = asia(), asia_in_pyagrum()
    inference.setEvidence(seen)
    inference.makeInference()
    posterior = idb.posterior_of_latents(d, {}, seen, {})
    assert set(posterior) == set(DISEASES)
    for name in DISEASES:
        np.testing.assert_allclose(posterior[name], inference.posterior(name).toarray(), rtol=0, atol=1e-9)
    expected = inference.evidenceProbability() if seen else 1.0
    assert idb.log_likelihood(d, {}, seen, {}) == pytest.approx(math.log(expected), abs=1e-9)
    unseen = {name: None for name in ASIA if name not in DISEASES and name not in seen}
    again = idb.posterior_of_latents(d, {}, {**seen, **unseen}, {})
    assert all((again[name] == posterior[name]).all() for name in DISEASES)


@pytest.mark.parametrize(
    "d",
    [
        idb.models.rank1(8, 10),
        idb.models.cascade(20, 2, distinct=False),
        idb.models.cascade_inverted(5, 3, distinct=False),
        idb.models.cascade(4, 3, distinct=False, learn_conditionals=True),
        idb.models.dependent_click(5, 3, distinct=False, reward="clicks"),
    ],
    ids=["rank-1", "cascade", "inverted cascade", "learned conditionals", "dependent click"],
)
def test_best_action(d: idb.Diagram) -> None:
    rng = np.random.default_rng(0)
    peer = PyAgrumDiagram(d)
    for _ in range(10):
        means = random_means(rng, d)
        peer.fill(means)
        action, inference = peer.solve()
        solution = idb.best_action(d, means)
        assert solution.exact
        assert solution.value == pytest.approx(inference.MEU()["mean"], abs=1e-9)
        assert solution.value == pytest.approx(idb.expected_reward(d, action, means), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_random_diagrams(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng)
    means = random_means(rng, d)
    actions = list(reference.actions(d))
    action, (_, context) = actions[rng.integers(len(actions))], random_given(rng, d)
    given = {**action, **context}
    net = network(d, given, means)
    for share in (1.0, 0.5):
        states = dict(given)
        for node in d.of_kind("latent", "observed"):
            row = table_of(d, node, means)[tuple(states[p] for p in node.parents)]
            states[node.name] = int(rng.choice(node.states, p=row))
        seen = {n.name: states[n.name] for n in d.of_kind("observed") if rng.random() < share}
        inference = gum.LazyPropagation(net)
        inference.setEvidence(seen)
        inference.makeInference()
        asked = (labels(d, action), labels(d, seen), means, labels(d, context))
        expected = math.log(inference.evidenceProbability()) if seen else 0.0
        assert idb.log_likelihood(d, *asked) == pytest.approx(expected, abs=1e-9)
        posterior = idb.posterior_of_latents(d, *asked)
        assert set(posterior) == {n.name for n in d.of_kind("latent")}
        for name, answer in posterior.items():
            np.testing.assert_allclose(answer, inference.posterior(name).toarray(), rtol=0, atol=1e-9)
