"""Diagrams and pictures for tests of drawing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from idbandits import Diagram, Learned, delayed, models
from idbandits.diagram.drawing.boxes import Box
from idbandits.diagram.drawing.draw import Picture

MODELS = [
    models.cascade(4, 3),
    models.cascade(["a", "b", "c"], 2, distinct=False, learn_conditionals=True),
    models.cascade_inverted(4, 3),
    models.position_based(4, 3),
    models.semi_bandit(4, 3),
    models.rank1(3, ["x", "y"]),
    models.dependent_click(4, 3),
    models.dynamic_bayesian(4, 3),
    models.dynamic_bayesian(4, 3, simplified=True, reward="clicks"),
    models.click_chain(4, 3),
    models.user_browsing(4, 3),
]


def every_feature() -> dict[str, Any]:
    """Return a diagram with nodes 0 A, 1 S, 2 L (learned), 3 M (selected rows), 4 R (row), 5 O (known), 6 T (three states), 7 B."""
    d = Diagram("every feature")
    a, s, rows = d.decision("A", ["x", "y", "z"]), d.context("S", 2), Learned("rows", rows=3, prior=[2, 1])
    latent = d.latent("L", [a])
    m = d.latent("M", [a, s], rows.select(lambda a, s: s))
    d.latent("R", cpd=rows[2])
    o = d.observed("O", [latent, m], [[0, 0.25], [0.5, 1]])
    d.observed("T", [o], [[0.2, 0.3, 0.5], [1, 0, 0]], states=3)
    d.reward([o, a], lambda o, a: o)
    d.decision("B", 2)
    d.all_different()
    return d.to_dict()


# -- pictures --------------------------------------------------------------------------------------------------------


KINDS = {"A": "decision", "C": "observed", "X": "observed", "r": "reward"}


def picture(
    title: str, edges: Sequence[tuple[str, str]], tables: Mapping[str, str] | None = None, nodes: Iterable[str] = ()
) -> Picture:
    """Return a picture whose nodes have kinds by initial: A, C, X, reward; others are latent."""
    names = dict.fromkeys([*itertools.chain.from_iterable(edges), *nodes])
    boxes = [
        Box(n, KINDS.get(n[0], "latent"), (tables or {}).get(n, ""), "20 choices" if n[0] == "A" else "") for n in names
    ]
    return Picture(title, tuple(boxes), tuple(edges), ())


def model_picture(name: str, positions: int, **options: Any) -> Picture:
    drawn: Picture = getattr(models, name)(20, positions, **options).draw()
    return drawn


def _contexts() -> Picture:
    base = model_picture("cascade", 4)
    boxes = (Box("user", "context", "", "5 states"), Box("query", "context", "", "8 states"))
    edges = (*(("user", f"W{k}") for k in range(1, 5)), ("query", "E1"), ("query", "reward"))
    return Picture("Contexts", base.boxes + boxes, base.edges + edges, base.different)


def late_page(positions: int, times: Sequence[int]) -> Picture:
    """Return a diagram of late purchases in several positions."""
    d, attraction, delay = Diagram("late purchases"), Learned("attraction"), Learned("delay")
    for k in range(1, positions + 1):
        bought = d.latent(f"B{k}", [d.decision(f"A{k}", 6)], attraction)
        d.reward(bought)
        delayed(d, bought, by=times, delay=delay)
    d.all_different()
    return d.draw()


def _far_reaching() -> Picture:
    """Return a picture in which all earlier clicks point to a position, with long flat edges."""
    base = model_picture("position_based", 5)
    browse = tuple((f"C{i}", f"E{j}") for i, j in itertools.combinations(range(1, 6), 2))
    return Picture("Far reaching", base.boxes, base.edges + browse, base.different)


def _scattered(stem: str, chance: float, seed: int) -> Picture:
    """Return a random acyclic picture of 30 nodes."""
    rng = random.Random(seed)
    names = [f"{stem}{i}" if stem else chr(0x3B1 + i) for i in range(30)]
    edges = [pair for pair in itertools.combinations(names, 2) if rng.random() < chance]
    return picture("Random", edges, {name: rng.choice(["", "t", "u[1]"]) for name in names}, names)


MODEL_PICTURES = {
    f"{name} {k}" if not options else f"{name} {options} {k}": model_picture(name, k, **options)
    for name, options in [
        ("cascade", {}),
        ("cascade", {"learn_conditionals": True}),
        ("cascade_inverted", {}),
        ("position_based", {}),
        ("semi_bandit", {}),
        ("dependent_click", {}),
        ("dynamic_bayesian", {}),
        ("dynamic_bayesian", {"simplified": True, "reward": "clicks"}),
        ("click_chain", {}),
        ("user_browsing", {}),
    ]
    for k in (2, 3, 5)
}

_LONG = "a_name_of_sixty_characters_that_goes_on_and_on_until_the_end"
OTHER_PICTURES = {
    "rank 1": models.rank1(8, 6).draw(),
    "empty": Diagram("empty").draw(),
    "late": late_page(1, [1, 3, 7, 14, 30]),
    "late 2": late_page(2, [3, 7]),
    "late 3": late_page(3, [3, 7, 14, 30]),
    "late 5": late_page(5, [1, 3, 7]),
    "single": picture("One", [], nodes=["A"]),
    "no title": picture("", [], nodes=["A"]),
    "30 numbered nodes": _scattered("X", 0.08, 1),
    "30 nodes": _scattered("", 0.12, 2),
    "dense": picture("Dense", list(itertools.combinations([chr(0x3B1 + i) for i in range(20)], 2))),
    "fan-in": picture("Fan", [(f"X{i}", "reward") for i in range(1, 25)]),
    "long names": picture("Long", [("A", _LONG), (_LONG, "C"), ("A", "x" * 60)]),
    "contexts": _contexts(),
    "far reaching": _far_reaching(),
    "parts": picture("Parts", [("A", "C"), ("B", "D")], nodes=["E", "F"]),
    "stem is a name too": picture("Mixed", [("A", "A1"), ("A1", "A2"), ("A01", "A2")]),
}
_ALONE, _READ = [f"context {chr(97 + i)}" for i in range(20)], [f"input {chr(97 + i)}" for i in range(12)]
CROWDED_PICTURES = {
    "20 contexts": picture("Crowd", [("A", "C"), (_ALONE[0], "C")], nodes=_ALONE),
    "20 numbered contexts": picture("Crowd", [("A", "C"), ("x3", "C")], nodes=[f"x{i}" for i in range(20)]),
    "12 contexts that are read": picture("Crowd", [("A", "C"), *((name, "C") for name in _READ)]),
    "contexts of both sorts": picture("Crowd", [("A", "C"), *((name, "C") for name in _READ)], nodes=_ALONE),
    "contexts of positions": picture(
        "Crowd", [(f"A{k}", f"C{k}") for k in range(4)] + [(name, "C1") for name in _READ[:3]], nodes=_ALONE
    ),
}
PICTURES = MODEL_PICTURES | OTHER_PICTURES | CROWDED_PICTURES


def over(pictures: Mapping[str, Picture]) -> pytest.MarkDecorator:
    """Parametrise a test over pictures."""
    return pytest.mark.parametrize("drawn", pictures.values(), ids=pictures)
