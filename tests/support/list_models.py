"""Models of lists, and a check of all search methods for the best action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from internals import groups_of_decisions

LISTS: dict[str, Callable[..., idb.Diagram]] = {
    "cascade": idb.models.cascade,
    "cascade_inverted": idb.models.cascade_inverted,
    "cascade, learned": lambda *a, **k: idb.models.cascade(*a, learn_conditionals=True, **k),
    "position_based": idb.models.position_based,
    "semi_bandit": idb.models.semi_bandit,
    "dependent_click": lambda *a, **k: idb.models.dependent_click(*a, reward="satisfaction", **k),
    "dependent_click, clicks": idb.models.dependent_click,
    "dynamic_bayesian": idb.models.dynamic_bayesian,
    "dynamic_bayesian, simplified": lambda *a, **k: idb.models.dynamic_bayesian(*a, simplified=True, **k),
    "click_chain": idb.models.click_chain,
    "user_browsing": idb.models.user_browsing,
}


def impatient(items: int, positions: int, *, distinct: bool = True) -> idb.Diagram:
    """Return a dynamic Bayesian network whose continuation depends on the position, so that stages differ."""
    d = idb.Diagram("impatient users")
    attraction, satisfaction = idb.Learned("attraction"), idb.Learned("satisfaction")
    continuation = idb.Learned("continuation", rows=positions)
    examined = d.latent("E1", cpd=1.0)
    for k in range(1, positions + 1):
        item = d.decision(f"A{k}", items)
        clicked = d.observed(f"C{k}", [d.latent(f"W{k}", [item], attraction), examined], lambda w, e: w * e)
        d.reward(clicked)
        satisfied = d.latent(f"S{k}", [clicked, d.latent(f"R{k}", [item], satisfaction)], lambda c, r: c * r)
        going_on = d.latent(f"G{k}", cpd=continuation[k - 1])
        examined = d.latent(f"E{k + 1}", [satisfied, examined, going_on], lambda s, e, g: (1 - s) * e * g)
    if distinct:
        d.all_different()
    return d


def hard_means(d: idb.Diagram, seed: int) -> dict[str, np.ndarray]:
    """Draw means of `impatient` under which the best list is hard to prove."""
    rng = np.random.default_rng(seed)
    means = {t.name: rng.random(t.means_shape) for t in d.learned.values()}
    return means | {"continuation": 0.9 + 0.1 * means["continuation"]}


def check_all_searches(
    d: idb.Diagram, means: Mapping[str, Any], context: Mapping[str, int], allowed: Any = None
) -> set[str]:
    """Check that every search finds a feasible action, the best one if it proves it; return the searches."""
    tried = set()
    for group in groups_of_decisions(d, means, context, allowed):
        best = group.best_value()
        for result in group.search_all():
            tried.add(result.search)
            assert result.feasible
            assert result.value == pytest.approx(result.evaluated, abs=1e-9)
            assert result.value <= best + 1e-9 <= result.bound + 2e-9
            if result.proves:
                assert result.value == pytest.approx(best, abs=1e-9)
                assert result.bound == pytest.approx(best, abs=1e-9)
    return tried
