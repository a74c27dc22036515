"""The models of lists, and a check of every way of searching for the best action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import idbandits as idb
from inside import groups_of_decisions

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


def check_all_searches(
    d: idb.Diagram, means: Mapping[str, Any], context: Mapping[str, int], allowed: Any = None
) -> set[str]:
    """Every search finds a feasible action, the best one if it is to prove that; which searches there were."""
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
