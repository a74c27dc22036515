"""Diagrams for tests of the theory."""

from __future__ import annotations

import itertools

import numpy as np

import idbandits as idb
from diagrams import random_diagram
from idbandits import Diagram


def without_contexts(seed: int, *, two_states: bool = False) -> Diagram:
    """Return a random diagram with learned tables and without contexts."""
    for attempt in itertools.count():
        d = random_diagram(np.random.default_rng([seed, attempt]), most_chance=6, most_joint=200)
        if d.of_kind("context") or not d.learned:
            continue
        if not two_states or all(t.states == 2 for t in d.learned.values()):
            return d
    raise AssertionError


def gates(seed: int) -> Diagram:
    """Return a diagram of random gates over latent coins, some of them observed."""
    rng = np.random.default_rng(seed)
    d = Diagram("gates")
    arms = [d.decision(f"A{k}", 3) for k in range(2)]
    table, coin = idb.Learned("arm", prior=[[1, 2]]), idb.Learned("coin", rows=2)
    drawn = [d.latent(f"W{k}", [arm], table) for k, arm in enumerate(arms)]
    drawn += [d.latent(f"Z{k}", cpd=coin[int(rng.integers(2))]) for k in range(int(rng.integers(1, 3)))]
    for k in range(3):
        add = d.latent if rng.random() < 0.3 else d.observed
        over = [drawn[i] for i in rng.permutation(len(drawn))[: int(rng.integers(1, 4))]]
        sharp = rng.integers(2, size=[2] * len(over)).astype(float)
        if rng.random() < 0.2:
            sharp.flat[0] = 0.5
        drawn.append(add(f"G{k}", over, sharp))
    if rng.random() < 0.5:  # a learned table below latent nodes
        drawn.append(d.observed("X", [drawn[int(i)] for i in rng.permutation(len(drawn))[:2]], idb.Learned("last")))
    d.reward(drawn[-1])
    return d


DIAGRAMS = [(without_contexts, seed) for seed in range(15)] + [(gates, seed) for seed in range(40)]


def contextual() -> Diagram:
    d = Diagram("with context")
    d.reward(d.observed("X", [d.decision("A", 2), d.context("segment", 2)]))
    return d


def of_three_states() -> Diagram:
    d = Diagram("three")
    d.reward(d.observed("X", [d.decision("A", 2)], idb.Learned("rating"), states=3))
    return d
