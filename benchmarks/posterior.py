"""Whether posteriors are right: how often intervals cover the truth, and how fast chains mix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import idbandits as idb
from benchmarks.hard_worlds import latent_class
from benchmarks.report import Row, Topic

SETS, ROUNDS = 200, 300
LOW, HIGH = 0.87, 0.93  # of intervals of 90 %
INSIDE = np.array([0.05, 0.95])


class Case(NamedTuple):
    """A diagram, and numbers that its observations determine, of its means or of draws of them."""

    name: str
    diagram: idb.Diagram
    products: Callable[[dict[str, Any]], Any]


def cases() -> Iterator[Case]:
    """Products of two factors, and what a class that is never seen makes of appeal."""
    yield Case("rank-1, 4 × 4", idb.models.rank1(4, 4), lambda m: m["row"][..., :, None] * m["column"][..., None, :])
    position_based = idb.models.position_based(6, 3)
    yield Case(
        "position-based, 6 × 3",
        position_based,
        lambda m: m["attraction"][..., :, None] * m["examination"][..., None, :],
    )
    yield Case(
        "latent class, 2 of 4 cards",
        latent_class(4, 2, 2),
        lambda m: m["appeal"][..., 0] * (1 - m["mood"][..., None]) + m["appeal"][..., 1] * m["mood"][..., None],
    )


def taught(d: idb.Diagram, means: dict[str, Any], rounds: int, seed: int) -> idb.Thompson:
    """An agent after rounds of random actions in the world with these means."""
    rng, world = np.random.default_rng([seed, 2]), idb.World(d, means, seed=seed)
    decisions = d.of_kind("decision")
    if d.different:
        rows = [rng.permutation(decisions[0].states)[: len(decisions)] for _ in range(rounds)]
    else:
        rows = [np.array([rng.integers(n.states) for n in decisions]) for _ in range(rounds)]
    actions = [dict(zip((n.name for n in decisions), map(int, row), strict=True)) for row in rows]
    seen = [world.step(action).observation for action in actions]
    agent = idb.Thompson(d, seed=seed)
    agent.update_many({k: [a[k] for a in actions] for k in actions[0]}, {k: [o[k] for o in seen] for k in seen[0]})
    return agent


def effective_size(draws: Any) -> float:
    """The effective sample size of a chain: by its autocorrelations, up to the first pair with a negative sum."""
    n, centred = len(draws), draws - draws.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    correlations = np.fft.irfft(spectrum * spectrum.conj())[:n]
    pairs = (correlations[1 : n - 1 : 2] + correlations[2:n:2]) / correlations[0]
    kept = pairs[: int(np.argmax(pairs < 0))] if (pairs < 0).any() else pairs
    return n / (1 + 2 * float(kept.sum()))


def _coverage(case: Case, sets: int) -> Row:
    entries, products, started = [], [], time.process_time()
    for seed in range(sets):
        rng = np.random.default_rng([seed, 1])
        means: dict[str, Any] = {t.name: rng.random(t.means_shape) for t in case.diagram.learned.values()}
        agent = taught(case.diagram, means, ROUNDS, seed)
        posterior = agent.posterior()
        for name, truth in means.items():
            low, high = posterior[name].quantile(INSIDE)
            entries.append(((low <= truth) & (truth <= high)).ravel())
        low, high = np.quantile(case.products(agent.draws(2000)), INSIDE, axis=0)
        truth = case.products({name: np.asarray(m) for name, m in means.items()})
        products.append(((low <= truth) & (truth <= high)).ravel())
    shares = [float(np.concatenate(hits).mean()) for hits in (entries, products)]
    names = zip(("entries", "products"), shares, strict=True)
    missed = [f"intervals of {what} cover {share:.1%}" for what, share in names if not LOW <= share <= HIGH]
    seconds = (time.process_time() - started) / sets
    return Row([case.name, f"{ROUNDS}", f"{shares[0]:.1%}", f"{shares[1]:.1%}", "–", "–", f"{seconds:.2f}"], missed)


def _mixing(items: int, positions: int, rounds: int) -> Row:
    d, rng = idb.models.position_based(items, positions), np.random.default_rng(3)
    means = {"attraction": rng.uniform(0.05, 0.8, items), "examination": np.linspace(0.95, 0.3, positions)}
    agent = taught(d, means, rounds, 0)
    agent.draws(100)
    started = time.process_time()
    draws = agent.draws(2000)
    seconds = time.process_time() - started
    sizes = [effective_size(column) for table in draws.values() for column in table.T]
    cells = [f"{min(sizes):.0f}", f"{min(sizes) / seconds:,.0f}", f"{seconds:.2f}"]
    return Row([f"position-based, {items} × {positions}", f"{rounds}", "–", "–", *cells])


def _rows(quick: bool) -> Iterator[Row]:
    for case in cases():
        yield _coverage(case, 20 if quick else SETS)
    for size in ((10, 5, 2000), (20, 2, 5000), (10, 5, 20_000)):
        yield _mixing(*size)


TOPIC = Topic(
    "Posteriors of the default",
    f"Intervals of 90 %: how many of them cover the truth, over {SETS} worlds drawn from the prior, after "
    f"{ROUNDS} rounds of "
    "random actions, and all entries of all tables, or all products that observations determine (for the "
    "latent class: the "
    "probability of a click on a card). Mixing: the least effective sample size of an entry among 2,000 "
    "draws, and the same "
    f"per second. *Seconds*: per world, or for the 2,000 draws. *Bar*: coverage between {LOW:.0%} and {HIGH:.0%}.",
    ["diagram", "rounds", "entries covered", "products covered", "effective draws", "per second", "seconds"],
    _rows,
)
