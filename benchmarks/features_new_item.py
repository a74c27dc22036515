"""A good item that comes late: how soon it is shown as often as it deserves, with features and without."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import idbandits as idb
from benchmarks.feature_worlds import FEATURED, INTERCEPT, PLAIN, SIGNALS, diagrams, items, logistic, mean_and_error
from benchmarks.report import Row, Topic
from idbandits import Diagram, models
from idbandits.kernel.types import Floats

ITEMS, POSITIONS = 1_000, 5
BEFORE, AFTER, WORLDS, COPIES = 20_000, 20_000, 10, 4  # rounds; each agent goes on so many times after the move
WINDOW, LAST = 20, 4  # rounds that a share is averaged over; the final one, over a last quarter of the rounds
SHARE, BAR = 0.9, 1 / 5  # of the final share; of the rounds of plain
KINDS = {"semi-bandit": (models.semi_bandit, "mean"), "cascade": (models.cascade, "attraction")}


def impressions(kind: str, before: int, after: int, copies: int, seed: int) -> dict[str, Floats]:
    """In which rounds after the move the new item was shown, by learner: one line per copy of the agent."""
    model, table = KINDS[kind]
    own = items(ITEMS, SIGNALS["high"], np.random.default_rng(seed))
    best = np.sort(own.features @ own.weights)[-2]  # the new item is about as good as the second best
    features = np.vstack([own.features, best * own.weights / (own.weights @ own.weights)])
    attraction = np.append(own.attraction, logistic(np.array(INTERCEPT + best)))
    old = diagrams(partial(model, ITEMS, POSITIONS), {table: own.features})
    new = diagrams(partial(model, ITEMS + 1, POSITIONS), {table: features})
    shown = {}
    for name, d in old.items():
        agent = idb.Thompson(d, seed=seed)
        _play(agent, idb.World(old[PLAIN], {table: own.attraction}, seed), before)
        world = idb.World(new[PLAIN], {table: attraction})
        shown[name] = np.array([_after(agent, new[name], world, after, [seed, copy]) for copy in range(copies)])
    return shown


def _after(agent: idb.Thompson, d: Diagram, world: idb.World, rounds: int, seed: Any) -> Floats:
    return _play(agent.copy(seed).moved_to(d), world.copy(seed), rounds)


def _play(agent: idb.Thompson, world: idb.World, rounds: int) -> Floats:
    """Play some rounds; 1 where the last item of all was shown, else 0."""
    shown = np.zeros(rounds)
    for t in range(rounds):
        action = agent.act()
        agent.update(action, world.step(action).observation)
        shown[t] = ITEMS in action.values()
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
    for kind in KINDS:
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
            yield Row([kind, name, *figures, ratio, met], missed)


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
