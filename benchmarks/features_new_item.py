"""New items: rounds until a good new item is shown as often as in the long run, with and without features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import idbandits as idb
from benchmarks.feature_worlds import (
    FEATURED,
    INTERCEPT,
    PLAIN,
    SIGNALS,
    Make,
    diagrams,
    items,
    logistic,
    mean_and_error,
)
from benchmarks.report import Row, Topic
from idbandits import models
from idbandits.kernel.array_types import Floats

ITEMS, POSITIONS = 1_000, 5
BEFORE, AFTER, WORLDS, COPIES = 10_000, 8_000, 6, 2  # rounds before and after the move; continuations per agent
WINDOW, LAST = 20, 4  # rounds in the moving average; the final share is over the last 1 / LAST of the rounds
SHARE, TARGET = 0.9, 1 / 5  # of the final share; ratio to the rounds of plain

Bools: TypeAlias = NDArray[np.bool_]


def names(letter: str) -> list[str]:
    """Return the names of one node per position."""
    return [f"{letter}{k}" for k in range(1, POSITIONS + 1)]


class Kind(NamedTuple):
    """Model, its table of items, its clicks, and a function from attracted positions to clicks."""

    model: Make
    table: str
    clicks: Sequence[str]
    seen: Callable[[Bools], Bools]


KINDS = {
    "semi-bandit": Kind(models.semi_bandit, "mean", names("X"), lambda attracted: attracted),
    "cascade": Kind(
        models.cascade, "attraction", names("C"), lambda attracted: attracted & (np.cumsum(attracted) == 1)
    ),
}


def impressions(kind: Kind, before: int, after: int, copies: int, seed: int) -> dict[str, Floats]:
    """Return by learner whether the new item was shown in each round after the move, one row per copy."""
    own = items(ITEMS, SIGNALS["high"], np.random.default_rng(seed))
    best = np.sort(own.features @ own.weights)[-2]  # the new item is about as good as the second best
    features = np.vstack([own.features, best * own.weights / (own.weights @ own.weights)])
    attraction = np.append(own.attraction, logistic(np.array(INTERCEPT + best)))
    old = diagrams(partial(kind.model, ITEMS, POSITIONS), {kind.table: own.features})
    new = diagrams(partial(kind.model, ITEMS + 1, POSITIONS), {kind.table: features})
    shown = {}
    for name, d in old.items():
        agent = idb.Thompson(d, seed=seed)
        _play(agent, kind, attraction, before, [seed, 0])
        moved = [agent.copy([seed, copy]).moved_to(new[name]) for copy in range(1, copies + 1)]
        shown[name] = np.array([_play(each, kind, attraction, after, [seed, k]) for k, each in enumerate(moved, 1)])
    return shown


def _play(agent: idb.Thompson, kind: Kind, attraction: Floats, rounds: int, seed: Sequence[int]) -> Floats:
    """Play rounds and return 1 where the new item was shown, else 0."""
    shown, uniforms = np.zeros(rounds), np.random.default_rng([1, *seed]).random((rounds, POSITIONS))
    for t in range(rounds):
        action = agent.act()
        chosen = [int(item) for item in action.values()]
        clicked = kind.seen(uniforms[t] < attraction[chosen])
        agent.update(action, dict(zip(kind.clicks, clicked.astype(int).tolist(), strict=True)))
        shown[t] = ITEMS in chosen
    return shown


def rounds_until(shown: Floats) -> int:
    """Return the number of rounds until the moving average of impressions reaches SHARE of the final share."""
    share = np.convolve(shown.mean(axis=0), np.full(WINDOW, 1 / WINDOW), "valid")
    return WINDOW + int(np.argmax(share >= SHARE * final_share(shown)))


def final_share(shown: Floats) -> float:
    """Return the share of the last rounds in which the item was shown."""
    return float(shown[:, -shown.shape[1] // LAST :].mean())


def _rows(quick: bool) -> Iterator[Row]:
    before, after, worlds, copies = (2_000, 2_000, 2, 2) if quick else (BEFORE, AFTER, WORLDS, COPIES)
    for model, kind in KINDS.items():
        each = [impressions(kind, before, after, copies, seed) for seed in range(worlds)]
        shown = {name: np.array([world[name] for world in each]) for name in each[0]}  # by world, copy, round
        flat = {name: own.reshape(-1, after) for name, own in shown.items()}
        plain = rounds_until(flat[PLAIN])
        for name, own in flat.items():
            rounds = rounds_until(own)
            missed = [f"{rounds:,} rounds, {plain:,} of plain, target {TARGET:g} of these"] * int(
                rounds > TARGET * plain
            )
            missed = missed if name == FEATURED else []
            by_world = np.array([rounds_until(one) for one in shown[name]], dtype=np.float64)
            met = "–" if name != FEATURED else "no" if missed else "yes"
            ratio = f"{rounds / plain:.2f}"
            figures = f"{final_share(own):.2f}", f"{own[:, :100].mean():.2f}", f"{rounds:,}", mean_and_error(by_world)
            yield Row([model, name, *figures, ratio, met], missed)


TOPIC = Topic(
    "New items with features",
    f"{ITEMS:,} items × {POSITIONS} positions, attraction as above at high signal. After {BEFORE:,} rounds agents "
    "move (`moved_to`) to a diagram with one more item whose features predict that it is about as good as the second "
    f"best. {WORLDS} worlds, {COPIES} continuations in each, {AFTER:,} rounds. *Rounds*: until the share of rounds in "
    f"which it is shown, averaged over all runs and {WINDOW} rounds, first reaches {SHARE:.0%} of the final share "
    "(that of the last quarter). *By world*: mean and standard error over worlds. Target: with features at most "
    f"{TARGET:g} of the rounds of plain.",
    ["model", "learner", "final share", "share in the first 100", "rounds", "by world", "to plain", "target met"],
    _rows,
)
