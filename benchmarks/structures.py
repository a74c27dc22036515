"""Several structures: regret compared with known structure, in worlds of one of the structures and of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic
from idbandits import Diagram, Learned, models
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS = 10, 5
ROUNDS, RUNS = 6_000, 8
KNOWN, UNKNOWN = 1.5, 1.2  # targets: ratio to the known structure; to the saturated table
SATURATED = "saturated"

Truth: TypeAlias = Callable[[Floats, Rng], tuple[Diagram, Mapping[str, Any]]]  # attraction -> diagram and means


def structures() -> dict[str, Diagram]:
    """Return the structures of the agent."""
    shape = ITEMS, POSITIONS
    return {
        "cascade": models.cascade(*shape),
        "position-based": models.position_based(*shape),
        "dependent click": models.dependent_click(*shape, reward="clicks"),
        "DBN": models.dynamic_bayesian(*shape, reward="clicks"),
        "user browsing": models.user_browsing(*shape),
        SATURATED: models.saturated(*shape),
    }


# -- worlds ------------------------------------------------------------------------------------------------------------


def _even(rng: Rng) -> Floats:
    return rng.permutation(0.5 * 0.85 ** np.arange(ITEMS) * rng.uniform(0.8, 1.2, ITEMS))


def _peaked(rng: Rng) -> Floats:
    shape = np.concatenate([[1, 0.25, 0.12, 0.08, 0.06], 0.04 * 0.9 ** np.arange(ITEMS)])[:ITEMS]
    return rng.permutation(np.clip(0.87 * shape * rng.uniform(0.6, 1.15, ITEMS), 0.005, 0.95))


MEANS = {"even": _even, "peaked": _peaked}


def _examination(rng: Rng) -> Floats:
    """Draw examination of the user browsing model: it falls with position and distance from the last click."""
    rows = [
        max(0.97 - 0.12 * (k - 1), 0.3) if j == 0 else max(0.85 - 0.17 * (k - j - 1) - 0.03 * k, 0.1)
        for k in range(1, POSITIONS + 1)
        for j in range(k)
    ]
    return np.clip(np.array(rows) * rng.uniform(0.9, 1.08, len(rows)), 0.02, 0.99)


def _by_position(rng: Rng) -> Floats:
    return (1 - 0.16 * np.arange(POSITIONS)) * rng.uniform(0.85, 1.0, POSITIONS)


INSIDE: dict[str, Callable[[Floats, Rng], Mapping[str, Any]]] = {  # the means, from attraction
    "cascade": lambda a, rng: {"attraction": a},
    "position-based": lambda a, rng: {"attraction": a, "examination": _by_position(rng)},
    "dependent click": lambda a, rng: {"attraction": a, "satisfaction": rng.uniform(0.3, 0.9, POSITIONS)},
    "DBN": lambda a, rng: {
        "attraction": a, "satisfaction": rng.uniform(0.2, 0.9, ITEMS), "continuation": np.array(rng.uniform(0.7, 0.97)),
    },
    "user browsing": lambda a, rng: {"attraction": a, "examination": _examination(rng)},
}  # fmt: skip


def _table(a: Floats, rng: Rng) -> Floats:
    """Draw click probabilities by item and position, with interactions."""
    places = 1 - 0.13 * np.arange(POSITIONS)
    clicks: Floats = np.clip(a[:, None] * places * np.exp(rng.normal(0, 0.6, (ITEMS, POSITIONS))), 0.003, 0.97)
    return clicks


def _columns(table: Floats) -> dict[str, Floats]:
    return {f"click {k + 1}": table[:, k] for k in range(POSITIONS)}


def _decided(d: Diagram) -> list[Any]:
    decisions = [d.decision(f"A{k + 1}", ITEMS) for k in range(POSITIONS)]
    d.all_different()
    return decisions


def click_chain(a: Floats, rng: Rng) -> tuple[Diagram, Mapping[str, Any]]:
    """Return the click chain model and its means."""
    return models.click_chain(ITEMS, POSITIONS), {
        "attraction": a, "continuation": np.array([0.95, 0.75, 0.3]) * rng.uniform(0.9, 1.03, 3),
    }  # fmt: skip


def interactions(a: Floats, rng: Rng) -> tuple[Diagram, Mapping[str, Any]]:
    """Return independent clicks by item and position."""
    return models.saturated(ITEMS, POSITIONS), {"attraction": _table(a, rng)}


def one_look(a: Floats, rng: Rng) -> tuple[Diagram, Mapping[str, Any]]:
    """Return a model in which users look at one random position, so that there is at most one click."""
    d = Diagram("one look")
    share = np.array([2.0, *[1.5] * (POSITIONS - 1)])
    looked = d.latent("L", cpd=list(share / share.sum()), states=POSITIONS)
    for k, choice in enumerate(_decided(d)):
        attracted = d.latent(f"W{k + 1}", [choice], Learned(f"click {k + 1}"))
        d.reward(d.observed(f"C{k + 1}", [attracted, looked], lambda w, at, k=k: float(w * (at == k))))
    return d, _columns(_table(a, rng))


def two_moods(a: Floats, rng: Rng) -> tuple[Diagram, Mapping[str, Any]]:
    """Return a model with two latent kinds of users, whose clicks depend on each other."""
    d = Diagram("two moods")
    mood = d.latent("M", cpd=0.5)
    for k, choice in enumerate(_decided(d)):
        d.reward(d.observed(f"C{k + 1}", [choice, mood], Learned(f"click {k + 1}")))
    table = _table(a, rng)
    other = np.clip(1.3 * table[rng.permutation(ITEMS)], 0.003, 0.97)
    return d, {f"click {k + 1}": np.stack([table[:, k], other[:, k]], axis=-1) for k in range(POSITIONS)}


def upward(a: Floats, rng: Rng) -> tuple[Diagram, Mapping[str, Any]]:
    """Return a model of users who look from the bottom up and mostly leave after a click."""
    d = Diagram("upward")
    choices, examined = _decided(d), d.latent(f"E{POSITIONS}", cpd=1.0)
    for k in range(POSITIONS, 0, -1):
        attracted = d.latent(f"W{k}", [choices[k - 1]], Learned(f"click {k}"))
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        d.reward(clicked)
        if k > 1:
            examined = d.latent(f"E{k - 1}", [clicked, examined], lambda c, e: e * (1 - 0.7 * c))
    return d, _columns(_table(a, rng))


OUTSIDE: dict[str, Truth] = {
    "click chain": click_chain,
    "item × position": interactions,
    "one look": one_look,
    "two moods": two_moods,
    "upward": upward,
}


def world(name: str, means: str, seed: int) -> idb.World:
    """Return a world by name and kind of attraction."""
    rng = np.random.default_rng(seed)
    attraction = MEANS[means](rng)
    if name in INSIDE:
        return idb.World(structures()[name], INSIDE[name](attraction, rng))
    return idb.World(*OUTSIDE[name](attraction, rng))


# -- measurement -------------------------------------------------------------------------------------------------------


class Played(NamedTuple):
    """Regrets of the compared agent and of the agent with several structures."""

    peer: Floats
    several: Floats

    @property
    def ratio(self) -> float:
        """Ratio of mean regrets."""
        return float(self.several.mean() / self.peer.mean())


def play(name: str, means: str, rounds: int, runs: int, seed: int, **settings: Any) -> Played:
    """Simulate both agents in a world."""
    known = structures()
    learners = {
        "peer": idb.Thompson(known[name if name in known else SATURATED], **settings),
        "several": idb.Structures(known, **settings),
    }
    frame = idb.simulate(world(name, means, seed), learners, rounds=rounds, runs=runs, seed=seed, progress=False).frame
    last = frame[frame["round"] == rounds]
    return Played(*(last[last["learner"] == who]["regret"].to_numpy() for who in learners))


def _rows(quick: bool) -> Iterator[Row]:
    rounds, runs = (2_000, 2) if quick else (ROUNDS, RUNS // len(MEANS))
    for name in (*INSIDE, *OUTSIDE):
        for seed, means in enumerate(MEANS, 1):
            played, target = play(name, means, rounds, runs, seed), KNOWN if name in INSIDE else UNKNOWN
            missed = (
                [f"{played.ratio:.2f} times the regret with {means} means, target {target:g}"]
                if played.ratio > target
                else []
            )
            yield Row(
                [
                    name, means, *(f"{r.mean():.0f} ± {r.std() / np.sqrt(len(r)):.0f}" for r in played),
                    f"{played.several.max():.0f}", f"{played.ratio:.2f}", f"{target:g}", "no" if missed else "yes",
                ],
                missed,
            )  # fmt: skip


TOPIC = Topic(
    "Several structures",
    f"Regret of `Thompson` with five click models and a saturated table, {ITEMS} items × {POSITIONS} positions, "
    f"{RUNS // len(MEANS)} runs of {ROUNDS:,} rounds per row, default inference. In worlds of one of the five models "
    "it is compared with the agent that knows the model; in other worlds, with the saturated table alone.",
    ["world", "attraction", "compared regret", "regret", "worst run", "ratio", "target", "target met"],
    _rows,
)
