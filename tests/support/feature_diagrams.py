"""Diagrams with features of rows and of contexts, fixed and random."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import idbandits as idb
from idbandits.errors import DiagramError, FormatError

Rng = np.random.Generator

ITEMS = ["tea", "milk", "rice", "soup", "cake", "bread"]
SEGMENTS = ["new", "loyal"]
USER: dict[str, Any] = {"age": (40, 15), "country": ["de", "fr", "it"], "visits": None}
COLUMNS = ["price", "kind", "size", "x0", "x1", "kind=a"]  # names of columns that diagrams may share


# -- fixed -------------------------------------------------------------------------------------------------------------


def catalogue(items: Sequence[str] = ITEMS) -> pd.DataFrame:
    """Return a number, a category and a number with missing values for each item."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"price": rng.normal(size=6), "kind": ["a", "b", "a", "b", "c", "a"], "size": [1, None, 3, 4, 5, 6]},
        index=ITEMS,
    )
    return frame.loc[list(items)]


def menu(items: Sequence[str] = ITEMS, features: Any = None, states: int = 2) -> idb.Diagram:
    """Return a diagram of two positions whose items have features; the second is observed with noise."""
    d = idb.Diagram("menu")
    segment = d.context("segment", SEGMENTS)
    taste = idb.Learned("taste", features=catalogue(items) if features is None else features)
    first, second = d.decision("A1", list(items)), d.decision("A2", list(items))
    d.reward(d.observed("X1", [first], taste))
    d.observed("X2", [d.latent("Z2", [second], taste)], [0.1, 0.8])
    rating = idb.Learned("rating", features=[catalogue(items)[["price"]], np.array([[0.0], [1.0]])], products=True)
    d.reward(d.observed("R", [first, segment], rating, states=max(states, 3)), lambda r: 0.1 * float(r))
    return d


def seen_menu(items: Sequence[str] = ITEMS) -> idb.Diagram:
    """Return a diagram of one fully observed position with a table of three states."""
    d = idb.Diagram("seen menu")
    d.reward(
        d.observed("X", [d.decision("A", list(items))], idb.Learned("taste", features=catalogue(items)), states=3),
        float,
    )
    return d


def shop(items: Sequence[str] = ITEMS, user: Any = None, **settings: Any) -> idb.Diagram:
    """Return a diagram of items and users with features, and a table that does not depend on them."""
    d = idb.Diagram("requests")
    context = d.context("user", features=USER if user is None else user)
    item = d.decision("A", list(items))
    settings = {"features": catalogue(items)[["price"]], "products": True} | settings
    click = d.observed("C", [item, context], idb.Learned("click", **settings))
    d.reward(click)
    d.reward(d.observed("B", [click], idb.Learned("bought")))
    return d


# -- random ------------------------------------------------------------------------------------------------------------


def with_features(rng: Rng, d: idb.Diagram) -> idb.Diagram:
    """Return the diagram with random features of some tables."""
    data = d.to_dict()
    for entry in data["learned"]:
        table = d.learned[entry["name"]]
        if rng.random() < 0.2 or table.logistic is not None:
            continue
        for key in ("features", "products", "pooled"):
            entry.pop(key, None)
        entry["prior"] = table.prior.reshape(-1, table.states)[0].tolist()
        if rng.random() < 0.2:
            entry["pooled"] = True
        elif "rows" in entry or not table.shape or rng.random() < 0.3:
            entry["features"] = {"rows": {"columns": random_columns(rng, math.prod(table.shape))}}
        else:
            own = [None if rng.random() < 0.3 else {"columns": random_columns(rng, n)} for n in table.shape]
            if any(own):
                entry["features"], entry["products"] = {"parents": own}, bool(rng.random() < 0.5 and len(own) > 1)
    try:
        return idb.Diagram.from_dict(data)
    except (FormatError, DiagramError):  # nodes read rows by different labels, or the design is too large
        return d


def random_columns(rng: Rng, lines: int) -> list[dict[str, Any]]:
    """Draw columns; names may occur in other diagrams."""
    names = rng.permutation(COLUMNS)[: rng.integers(1, 5)].tolist()
    return [{"name": name} | random_encoded_column(rng, lines) for name in names]


def random_encoded_column(rng: Rng, lines: int) -> dict[str, Any]:
    """Draw the values of a column and sometimes a declared encoding."""
    values = random_column(rng, lines)
    data: dict[str, Any] = {"values": values}
    if rng.random() < 0.2:
        if any(isinstance(value, str) for value in values):
            data["categories"] = rng.permutation(["a", "b", "other"])[: rng.integers(1, 4)].tolist()
        elif any(value is not None for value in values):
            data |= {"centre": float(rng.choice([0.0, 3.0, 1e300])), "scale": float(rng.choice([1.0, 0.1, 1e-300]))}
        data |= {"missing": True} if rng.random() < 0.5 else {}
    return data


def random_column(rng: Rng, lines: int) -> list[Any]:
    """Draw numbers or strings, mostly ordinary ones."""
    makers: list[Callable[[], list[Any]]] = [
        lambda: rng.normal(size=lines).tolist(), lambda: rng.normal(size=lines).tolist(), lambda: rng.integers(3, size=lines).tolist(),
        lambda: rng.choice(list("abcde"), lines).tolist(), lambda: rng.choice(["a", "b", ""], lines).tolist(),
        lambda: [2.5] * lines, lambda: ["same"] * lines, lambda: (1e300 * rng.normal(size=lines)).tolist(),
        lambda: (1e-300 * rng.normal(size=lines)).tolist(), lambda: rng.choice([0.0, 1e308, -1e308, 5e-324], lines).tolist(),
        lambda: [None] * lines, lambda: [f"own {k}" for k in range(lines)], lambda: rng.choice([True, False], lines).tolist(),
    ]  # fmt: skip
    values = makers[int(rng.integers(len(makers)))]()
    return [None if rng.random() < 0.15 else v for v in values] if rng.random() < 0.4 else values


def random_menu(rng: Rng) -> idb.Diagram:
    """Return a menu of some of the items with random features."""
    items = [item for item in ITEMS if rng.random() < 0.6] or ITEMS[:2]
    kind = int(rng.integers(4))
    if kind == 3:
        return with_features(rng, seen_menu(items))
    d = menu(items, states=int(rng.integers(2, 5)))
    return d if kind == 0 else with_features(rng, d)


def random_shop(rng: Rng) -> idb.Diagram:
    """Return a diagram with random context features and tables that depend on them."""
    items = [item for item in ITEMS if rng.random() < 0.6] or ITEMS[:2]
    kinds: list[Any] = [None, (40, 15), (0.0, 1e-100), (1e100, 1e100), ["de", "fr"], [1, 2, "x"], [True, 2.5, -1]]
    names = [*USER, "odd"]
    user = {
        name: kinds[int(rng.integers(len(kinds)))] for name in rng.permutation(names)[: rng.integers(1, 4)].tolist()
    }
    settings: dict[str, Any] = {}
    if rng.random() < 0.3:
        settings = {"features": None, "products": False, "residuals": 0.5}
    elif rng.random() < 0.5:
        settings["residuals"] = float(rng.choice([0.0, 1e-6, 1.0, 100.0]))
    return shop(items, user, **settings)


def random_request(node: Any, rng: Rng) -> dict[str, Any]:
    """Draw a request with ordinary, huge or missing values."""
    own: dict[str, Any] = {}
    for feature in node.features.features:
        numbers = [rng.normal(40, 15), 0, -1.5, 1e308, -1e300, 5e-324, 10**30, True, float("nan"), None, pd.NA]
        values = numbers if feature.labels is None else [*feature.labels, "new", 17, None, float("nan")]
        if rng.random() < 0.9:
            own[feature.name] = values[int(rng.integers(len(values)))] if rng.random() < 0.5 else values[0]
    return own


def chances_of(rng: Rng, d: idb.Diagram) -> dict[str, Any]:
    """Return the distribution of contexts of a world: probabilities, or functions that draw requests."""
    chances: dict[str, Any] = {}
    for node in d.of_kind("context"):
        if node.features is None:
            chances[node.name] = rng.dirichlet(np.ones(node.states)).tolist()
        else:
            chances[node.name] = partial(random_request, node)
    return chances


def has_regressions(d: idb.Diagram) -> bool:
    """Return True if a table has features or is pooled, and is not logistic."""
    return any(table.features is not None and table.logistic is None for table in d.learned.values())


def has_requests(d: idb.Diagram) -> bool:
    """Return True if a context has features."""
    return any(node.features is not None for node in d.of_kind("context"))
