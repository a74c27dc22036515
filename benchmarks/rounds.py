"""Time of `update` and `act` after 1,000 to 200,000 rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from benchmarks.timing import timed

MARKS = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)
SMALL = 100_000  # last mark of small diagrams
TIMED = 300  # rounds at each mark
CLICKED = 0.2  # probability of a click
MAX_HUMP, MAX_UPDATE, MAX_ACT = 2.0, 250e-6, 500e-6


def carousel(cards: int = 6, slots: int = 2) -> idb.Diagram:
    """Return a diagram of cards whose clicks depend on a latent mood, with a learned examination."""
    d = idb.Diagram("carousel")
    mood = d.latent("mood", cpd=idb.Learned("mood"))
    appeal, looks = idb.Learned("appeal"), idb.Learned("looks")
    for k in range(1, slots + 1):
        liked = d.latent(f"liked{k}", [d.decision(f"A{k}", cards), mood], appeal)
        seen = d.latent(f"seen{k}", [mood], looks) if k > 1 else d.latent("seen1", cpd=1.0)
        d.reward(d.observed(f"C{k}", [liked, seen], lambda a, b: a * b))
    d.all_different()
    return d


def joined(cards: int = 20, slots: int = 5) -> idb.Diagram:
    """Return a diagram in which the clicks on all cards depend on one latent node."""
    d = idb.Diagram("one mood")
    mood, appeal = d.latent("mood", cpd=idb.Learned("mood")), idb.Learned("appeal")
    for k in range(1, slots + 1):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", cards), mood], appeal))
    d.all_different()
    return d


class Case(NamedTuple):
    """Diagram and the number of rounds to play in it."""

    make: Callable[[], idb.Diagram]
    rounds: int = SMALL


CASES = {
    "dependent click, 30 × 5": Case(lambda: idb.models.dependent_click(30, 5)),
    "dynamic Bayesian network, 30 × 5": Case(lambda: idb.models.dynamic_bayesian(30, 5)),
    "click chain, 30 × 5": Case(lambda: idb.models.click_chain(30, 5)),
    "user browsing, 30 × 5": Case(lambda: idb.models.user_browsing(30, 5)),
    "carousel, 2 of 6": Case(carousel),
    "one latent node, 5 of 20": Case(joined),
    "rank-1, 1,000 × 1,000": Case(lambda: idb.models.rank1(1_000, 1_000), MARKS[-1]),
    "dynamic Bayesian network, 1,000 × 5": Case(lambda: idb.models.dynamic_bayesian(1_000, 5), MARKS[-1]),
}


def _rows(quick: bool) -> Iterator[Row]:
    for name, case in CASES.items():
        yield _row(name, case.make(), [mark for mark in MARKS if mark <= (3_000 if quick else case.rounds)])


def _row(name: str, d: idb.Diagram, marks: list[int]) -> Row:
    """Learn rounds of random actions and clicks; time the last rounds before each mark."""
    rng, agent = np.random.default_rng(0), idb.Thompson(d, seed=1)
    decisions, clicks = d.of_kind("decision"), [node.name for node in d.of_kind("observed")]
    updates: list[float] = []
    taken: list[float] = []
    for t in range(1, marks[-1] + 1):
        if d.different:
            chosen = rng.choice(decisions[0].states, len(decisions), replace=False, shuffle=False).tolist()
        else:
            chosen = [int(rng.integers(node.states)) for node in decisions]
        action = {node.name: choice for node, choice in zip(decisions, chosen, strict=True)}
        observation = dict(zip(clicks, (rng.random(len(clicks)) < CLICKED).astype(int).tolist(), strict=True))
        taken.append(timed(agent.update, action, observation)[1])
        if t in marks:
            updates.append(median(taken[-TIMED:]))
            taken.clear()
    act = median(timed(agent.act)[1] for _ in range(TIMED))
    hump = max(updates) / max(updates[0], updates[-1])
    missed = [f"update takes up to {hump:.1f} times the time at both ends, target {MAX_HUMP:g}"] * int(hump > MAX_HUMP)
    missed += [f"update takes {duration(updates[-1])}, target {duration(MAX_UPDATE)}"] * int(updates[-1] > MAX_UPDATE)
    missed += [f"act takes {duration(act)}, target {duration(MAX_ACT)}"] * int(act > MAX_ACT)
    cells = [*map(duration, updates), *["–"] * (len(MARKS) - len(updates))]
    return Row([name, *cells, f"{hump:.2f}", duration(act)], missed)


TOPIC = Topic(
    "Update time against number of rounds",
    "`update` called from Python with the default inference, random actions and random clicks: medians of the last "
    f"{TIMED} rounds before each number of rounds. Items × positions. *Hump*: the largest time divided by the larger "
    f"of the first and last. *act*: median after the last round. Targets: hump at most {MAX_HUMP:g}, `update` at most "
    f"{duration(MAX_UPDATE)} and `act` at most {duration(MAX_ACT)} at the end.",
    ["diagram", *(f"{mark:,}" for mark in MARKS), "hump", "act"],
    _rows,
)
