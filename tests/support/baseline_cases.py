"""Diagrams for tests of baselines, and reference formulas."""

from __future__ import annotations

import itertools
import math
from typing import Any

import idbandits as idb

WORDS = ["tea", "coffee", "juice", "water"]


def odd_choices() -> idb.Diagram:
    """Return a diagram whose decisions have different choices, some shared, and nodes of three states."""
    d = idb.Diagram("odd choices")
    a, b = d.decision("A", ["x", "y", "z"]), d.decision("B", ["y", "z", "w", "v"])
    d.decision("idle", ["v", "u"])
    tone = d.observed("tone", [a], states=["bad", "fair", "good"])
    sound = d.observed("sound", [d.latent("hidden", [b, a])], [0.2, 0.9])
    d.observed("aside", [b])
    d.reward(tone, lambda v: {"bad": -2.0, "fair": 0.5, "good": 1.0}[v])
    d.reward(sound, lambda v: 2.0 * v)
    d.all_different()
    return d


def costly() -> idb.Diagram:
    """Return a diagram whose reward depends on decisions and two observed nodes."""
    d = idb.Diagram("costly")
    a, b = d.decision("A", 3), d.decision("B", 2)
    x, y = d.observed("X", [a, b]), d.observed("Y", [b], states=3)
    d.reward([x, y], lambda x, y: x * y - 0.3 * y)
    d.reward([a], lambda a: -0.1 * a)
    return d


def chain(decisions: int, items: int) -> idb.Diagram:
    """Return a diagram in which each decision has a separate reward."""
    d = idb.Diagram("chain")
    for k in range(decisions):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", items)]))
    return d


def actions_of(d: idb.Diagram) -> list[dict[str, Any]]:
    """Return all actions that satisfy `all_different`."""
    nodes = d.of_kind("decision")
    every = (dict(zip((n.name for n in nodes), c, strict=True)) for c in itertools.product(*(n.values for n in nodes)))
    return [a for a in every if all(len({a[n] for n in group}) == len(group) for group in d.different)]


def divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli distributions."""
    part = 0.0 if p == 0 else p * math.log(p / q)
    return part + (0.0 if p == 1 else (1 - p) * (math.log1p(-p) - math.log1p(-q)))


def kl_index(p: float, allowance: float) -> float:
    """Return the largest q with an allowed divergence from p, by bisection."""
    low, high = p, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if middle < 1 and divergence(p, middle) <= allowance else (low, middle)
    return low
