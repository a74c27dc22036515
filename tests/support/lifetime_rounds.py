"""Diagrams and rounds of lifetimes."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import idbandits as idb
from internals import row_names

Rng = np.random.Generator
Labels = dict[str, Any]

KINDS = ("plain", "fixed", "pooled", "features", "users", "several")
NAMES = ("exact", "gibbs", "ep", "variational", "incremental", "moments", "particles")
IN_ORDER = ("incremental", "moments")  # beliefs that depend on the order of rounds, but not on random numbers
SEGMENTS = ("new", "loyal")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CATALOGUE = pd.DataFrame(
    {"price": [1.0, 2.0, 4.0, 3.0, 9.0, *range(21)], "kind": list("xxyzy" + 21 * "x")}, index=list(LETTERS)
)
USER: dict[str, Any] = {"age": (40, 15), "country": ["de", "fr"]}
FIXED = {("attraction", ("c",)): 0.0, ("examination", (0,)): 1.0}  # if the kind is "fixed"
MEANS = 4  # sets of random means at which log-likelihoods are compared


# -- diagrams ----------------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """Parameters of a diagram that an agent moves through."""

    items: str  # one letter per item
    positions: int = 2
    rated: bool = False  # True if a rating of the first item is observed


EVERYTHING = Shape("abcde", 2, True)
SHAPES = (
    Shape("abcd"), Shape("dbe"), Shape("ce", 2, True), Shape("acde", 2, True), Shape("ab"), EVERYTHING,
    Shape("abcd", 3), Shape("ecb", 3, True), Shape("bd", 1, True), Shape("edcba", 1),
)  # fmt: skip
TWO_POSITIONS = tuple(shape for shape in SHAPES if shape.positions == 2)


class Setting(NamedTuple):
    """Kind of agent."""

    inference: str
    kind: str = "plain"  # one of KINDS, or several: "fixed+pooled"
    latent: bool = True  # False: everything is observed
    forget: idb.Forget | None = None

    def __str__(self) -> str:
        words = [self.inference, self.kind, "latent" if self.latent else "seen"]
        return "-".join(words + ([] if self.forget is None else [str(self.forget.settings["half_life"])]))

    def has(self, kind: str) -> bool:
        """Return True if the setting is of a kind."""
        return kind in self.kind.split("+")

    @property
    def counts(self) -> bool:
        """True if the state contains the likelihood of all rounds exactly."""
        if self.has("users") or self.inference == "particles":
            return False
        return not self.latent or self.inference not in IN_ORDER

    @property
    def in_order(self) -> bool:
        """True if the belief is that of an agent that never moved."""
        deterministic = self.inference in IN_ORDER and self.kind in ("plain", "fixed", "several")
        return (self.has("users") and not self.has("several")) or (self.latent and deterministic)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Return the diagrams to move through; EVERYTHING contains all rounds of two positions."""
        return TWO_POSITIONS if self.in_order else SHAPES


def is_supported(setting: Setting) -> bool:
    """Return True if the agent can be created; others are rejected (test_capability_pairs.py)."""
    if setting.inference == "exact" and setting.latent:
        return False
    if setting.inference == "particles":
        return setting.kind in ("plain", "fixed", "several") and setting.forget is None
    return not setting.has("users") or setting.inference in ("exact", *IN_ORDER)


@functools.cache
def diagrams_of(setting: Setting, shape: Shape) -> dict[str, idb.Diagram]:
    """Return the structures of an agent by name."""
    structures = {"lifetime": declared("lifetime", setting, shape)}
    return structures | ({"noisy": declared("noisy", setting, shape, noise=0.1)} if setting.has("several") else {})


def declared(name: str, setting: Setting, shape: Shape, noise: float = 0.0) -> idb.Diagram:
    """Return a diagram of clicks on items in positions, with a rating of the first item."""
    d, items, latent = idb.Diagram(name), list(shape.items), setting.latent
    segment = d.context("segment", SEGMENTS)
    user = [d.context("user", features=USER)] if setting.has("users") else []
    settings: dict[str, Any] = {"prior": [1.5, 1.0]}
    if setting.has("users"):
        settings = {"features": CATALOGUE, "residuals": 0.5}
    elif setting.has("features"):
        settings["features"] = CATALOGUE
    pooled = ("rating" if "features" in settings else "attraction") if setting.has("pooled") else ""
    fixed = (
        {"attraction": {"c": 0.0} if "c" in items else None, "examination": {0: 1.0}} if setting.has("fixed") else {}
    )
    settings["pooled"] = pooled == "attraction"
    attraction = idb.Learned("attraction", fixed=fixed.get("attraction"), **settings)
    examination = idb.Learned("examination", rows=3, fixed=fixed.get("examination"))
    for k in range(shape.positions):
        item = d.decision(f"A{k + 1}", items)
        if not latent:
            click = d.observed(f"C{k + 1}", [item, *user], attraction)
        else:
            attracts = d.latent(f"W{k + 1}", [item, *user], attraction)
            examined = d.latent(f"E{k + 1}", cpd=examination[k])
            click = d.observed(f"C{k + 1}", [attracts, examined], lambda w, e: (1 - noise) * w * e)
        d.reward(click)
    if shape.rated:
        rating = d.observed(
            "R",
            [d.nodes["A1"], segment],
            idb.Learned("rating", prior=[2.0, 1.0, 0.5], pooled=pooled == "rating"),
            states=3,
        )
        d.reward(rating, lambda r: 0.1 * float(r))
    if shape.positions > 1:
        d.all_different()
    return d


@functools.cache
def row_mean(setting: Setting, number: int, name: Any) -> np.ndarray:
    """Return a random mean of a row, equal for equal rows of all diagrams."""
    table, states, labels = name
    if setting.has("fixed") and (table, labels) in FIXED:
        return np.array([1 - FIXED[table, labels], FIXED[table, labels]])
    return np.random.default_rng([number, zlib.crc32(repr(name).encode())]).dirichlet(np.full(states, 2.0))


@functools.cache
def table_means(setting: Setting, number: int, shape: Shape, structure: str) -> dict[str, np.ndarray]:
    """Return the means of `row_mean` in the form of `idb.log_likelihood`."""
    d = diagrams_of(setting, shape)[structure]
    rows: dict[str, list[np.ndarray]] = {}
    for name in row_names(d):
        rows.setdefault(name[0], []).append(row_mean(setting, number, name))
    return {
        table.name: (np.array(rows[table.name])[:, 1] if table.states == 2 else np.array(rows[table.name])).reshape(
            table.means_shape
        )
        for table in d.learned.values()
    }


# -- rounds ------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Played:
    """Learned round."""

    shape: Shape
    action: Labels
    observation: Labels
    context: Labels
    at: float = 0.0  # seconds, or number of rounds learned before
    log_likelihoods: dict[str, np.ndarray] = field(default_factory=dict)  # by structure, at all means

    def evaluate(self, setting: Setting) -> None:
        """Compute the log-likelihoods by the public function."""
        unseen = {node.name for node in diagrams_of(setting, self.shape)["lifetime"].of_kind("observed")} - {
            name for name, value in self.observation.items() if value is not None
        }
        for structure, d in diagrams_of(setting, self.shape).items():
            if setting.inference == "own" and unseen:  # the custom inference of the tests learns nothing
                self.log_likelihoods[structure] = np.zeros(MEANS)
                continue
            tables = (table_means(setting, k, self.shape, structure) for k in range(MEANS))
            self.log_likelihoods[structure] = np.array(
                [idb.log_likelihood(d, self.action, self.observation, means, self.context) for means in tables]
            )


def random_round(setting: Setting, shape: Shape, rng: Rng, unseen: float = 0.2) -> Played:
    """Draw a possible round with missing values."""
    items = rng.permutation(list(shape.items))[: shape.positions].tolist()
    action = {f"A{k + 1}": item for k, item in enumerate(items)}
    context: Labels = {"segment": str(rng.choice(SEGMENTS))}
    if setting.has("users"):
        context["user"] = {"age": float(rng.integers(20, 60)), "country": str(rng.choice(["de", "fr"]))}
    return Played(shape, action, random_observation(setting, shape, action, rng, unseen), context)


def random_observation(setting: Setting, shape: Shape, action: Labels, rng: Rng, unseen: float) -> Labels:
    """Draw an observation of an action; nodes that are not observed are None or omitted."""
    seen: Labels = {}
    for k in range(shape.positions):
        never = setting.has("fixed") and action[f"A{k + 1}"] == "c"
        seen[f"C{k + 1}"] = 0 if never else int(rng.random() < 0.4)
    if shape.rated:
        seen["R"] = int(rng.integers(3))
    hidden = [name for name in seen if rng.random() < unseen]
    return {
        name: None if name in hidden else value
        for name, value in seen.items()
        if name not in hidden or rng.random() < 0.5
    }


def impossible_round(setting: Setting, shape: Shape, rng: Rng) -> Played | None:
    """Return an impossible round; None if there is none."""
    if not setting.has("fixed") or "c" not in shape.items or setting.inference == "own":
        return None  # the custom inference of the tests takes every round
    played = random_round(setting, shape, rng, unseen=0.0)
    if "c" not in played.action.values():
        played.action["A1"] = "c"
    position = next(name for name, item in played.action.items() if item == "c")
    played.observation[f"C{position[1:]}"] = 1
    return played


def log_of(rounds: Sequence[Played], shape: Shape) -> tuple[Labels, Labels, Labels]:
    """Return rounds as arguments of `update_many`."""

    def column(values: list[Any]) -> np.ndarray:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array

    positions = range(1, shape.positions + 1)
    seen = [f"C{k}" for k in positions] + (["R"] if shape.rated else [])
    contexts = {"segment": column([r.context["segment"] for r in rounds])}
    if any("user" in r.context for r in rounds):
        contexts |= {f"user.{name}": column([r.context["user"][name] for r in rounds]) for name in USER}
    return (
        {f"A{k}": column([r.action[f"A{k}"] for r in rounds]) for k in positions},
        {name: column([r.observation.get(name) for r in rounds]) for name in seen},
        contexts,
    )
