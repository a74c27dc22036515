"""What a round costs after a thousand rounds, and after a hundred thousand, where one node joins all positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration

EARLY, LATE, LAST = 1000, 100_000, 500
MOST_GROWTH, MOST_UPDATE, MOST_ACT = 1.5, 250e-6, 500e-6
LOG, LOG_SECONDS = 1_000_000, 20.0


def carousel(cards: int = 6, slots: int = 2) -> idb.Diagram:
    """The problem of docs/guide.md: users are in one of two moods, and look at the second card more or less often."""
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
    """One latent node that joins all cards."""
    d = idb.Diagram("one mood")
    mood, appeal = d.latent("mood", cpd=idb.Learned("mood")), idb.Learned("appeal")
    for k in range(1, slots + 1):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", cards), mood], appeal))
    d.all_different()
    return d


DIAGRAMS: dict[str, Callable[[], idb.Diagram]] = {
    "dependent click, 30 × 5": lambda: idb.models.dependent_click(30, 5),
    "dynamic Bayesian, 30 × 5": lambda: idb.models.dynamic_bayesian(30, 5),
    "click chain, 30 × 5": lambda: idb.models.click_chain(30, 5),
    "user browsing, 30 × 5": lambda: idb.models.user_browsing(30, 5),
    "carousel, 2 of 6": carousel,
    "one latent node, 5 of 20": joined,
}


def _rows(quick: bool) -> Iterator[Row]:
    marks = (EARLY, 10_000 if quick else LATE)
    for name, make in DIAGRAMS.items():
        d, rng = make(), np.random.default_rng(0)
        world = idb.World(d, {t.name: rng.uniform(0.1, 0.6, t.means_shape) for t in d.learned.values()}, seed=2)
        agent = idb.Thompson(d, seed=1)
        times: list[tuple[float, float]] = []
        medians = {}
        for t in range(1, marks[-1] + 1):
            started = time.perf_counter()
            action = agent.act()
            acted = time.perf_counter()
            seen = world.step(action).observation
            told = time.perf_counter()
            agent.update(action, seen)
            times.append((acted - started, time.perf_counter() - told))
            if t in marks:
                medians[t] = np.median(times[-LAST:], axis=0)
        (_, early), (act, late) = medians[marks[0]], medians[marks[-1]]
        missed = [f"update grows {late / early:.2f} times, bar {MOST_GROWTH}"] * int(late > MOST_GROWTH * early)
        missed += [f"update takes {duration(late)}, bar {duration(MOST_UPDATE)}"] * int(late > MOST_UPDATE)
        missed += [f"act takes {duration(act)}, bar {duration(MOST_ACT)}"] * int(act > MOST_ACT)
        yield Row([name, *map(duration, (early, late)), f"{late / early:.2f}", duration(act)], missed)
    yield _log(LOG // 10 if quick else LOG)


def _log(rounds: int) -> Row:
    """A log of the user browsing model with ten positions."""
    d, rng = idb.models.user_browsing(30, 10), np.random.default_rng(1)
    lists = np.argsort(rng.random((rounds, 30)), axis=1)[:, :10]
    clicks = (rng.random((rounds, 10)) < 0.2).astype(int)
    agent = idb.Thompson(d, seed=0)
    started = time.perf_counter()
    agent.update_many({f"A{k + 1}": lists[:, k] for k in range(10)}, {f"C{k + 1}": clicks[:, k] for k in range(10)})
    seconds = time.perf_counter() - started
    missed = [f"{seconds:.0f} s, bar {LOG_SECONDS:.0f} s"] * int(seconds > LOG_SECONDS)
    return Row([f"update_many, {rounds:,} rounds, user browsing, 30 × 10", "–", duration(seconds), "–", "–"], missed)


TOPIC = Topic(
    "What a round costs, early and late",
    f"`update` and `act` called from Python, the default, medians of the last {LAST} of {EARLY:,} and of "
    f"{LATE:,} rounds, where "
    "one latent or deterministic node joins all positions, so that hardly two rounds are the same. *Bars*: "
    "update grows at "
    f"most {MOST_GROWTH} times and takes at most {duration(MOST_UPDATE)}, act at most {duration(MOST_ACT)}; a log of "
    f"{LOG:,} rounds of the user browsing model with ten positions takes at most {LOG_SECONDS:.0f} s.",
    ["diagram", f"update after {EARLY:,}", f"after {LATE:,}", "growth", "act"],
    _rows,
)
