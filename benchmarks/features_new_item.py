"""A good item that comes late: how soon it is shown as often as it deserves, with features and without."""

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
BEFORE, AFTER, WORLDS, COPIES = 20_000, 10_000, 10, 3  # rounds; each agent goes on so many times after the move
WINDOW, LAST = 20, 4  # rounds that a share is averaged over; the final one, over a last quarter of the rounds
SHARE, BAR = 0.9, 1 / 5  # of the final share; of the rounds of plain

Bools: TypeAlias = NDArray[np.bool_]


def names(letter: str) -> list[str]:
    """Of one node per position."""
    return [f"{letter}{k}" for k in range(1, POSITIONS + 1)]


class Kind(NamedTuple):
    """A model, its table of items, its clicks, and which of them there are if these items would attract."""

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
    """In which rounds after the move the new item was shown, by learner: one line per copy of the agent."""
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
    """Play some rounds; 1 where the new item was shown, else 0. (`World.step` would also compute regrets.)"""
    shown, luck = np.zeros(rounds), np.random.default_rng([1, *seed]).random((rounds, POSITIONS))
    for t in range(rounds):
        action = agent.act()
        chosen = [int(item) for item in action.values()]
        clicked = kind.seen(luck[t] < attraction[chosen])
        agent.update(action, dict(zip(kind.clicks, clicked.astype(int).tolist(), strict=True)))
        shown[t] = ITEMS in chosen
    return shown


def rounds_until(shown: Floats) -> int:
    """After how many rounds the share of impressions, averaged over lines and a window, is near the final one."""
    share = np.convolve(shown.mean(axis=0), np.full(WINDOW, 1 / WINDOW), "valid")
    return WINDOW + int(np.argmax(share >= SHARE * final_share(shown)))


def final_share(shown: Floats) -> float:
    """The share of the last rounds in which the item was shown."""
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
            missed = [f"{rounds:,} rounds, {plain:,} of plain, bar {BAR:g} of these"] * int(rounds > BAR * plain)
            missed = missed if name == FEATURED else []
            by_world = np.array([rounds_until(one) for one in shown[name]], dtype=np.float64)
            met = "–" if name != FEATURED else "no" if missed else "yes"
            ratio = f"{rounds / plain:.2f}"
            figures = f"{final_share(own):.2f}", f"{own[:, :100].mean():.2f}", f"{rounds:,}", mean_and_error(by_world)
            yield Row([model, name, *figures, ratio, met], missed)


TOPIC = Topic(
    "A new item whose features say that it is good",
    f"{ITEMS:,} items × {POSITIONS} positions, attraction as above at high signal. After {BEFORE:,} rounds agents move "
    "(`moved_to`) to a diagram with one more item, about as good as the second best; its features say just that. "
    f"{WORLDS} worlds, {COPIES} continuations in each, {AFTER:,} rounds. *Rounds*: until the share of rounds in which "
    f"it is shown, averaged over all runs and the {WINDOW} rounds before, first reaches {SHARE:.0%} of the final "
    f"share, which is that of the last quarter; at least {WINDOW}, because of the window. *By world*: the same for "
    "each world, mean and standard error. "
    f"*Bar*: with features at most {BAR:g} of the rounds of plain.",
    ["model", "learner", "final share", "share in the first 100", "rounds", "by world", "to plain", "met"],
    _rows,
)
