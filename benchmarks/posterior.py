"""Coverage of posterior intervals in worlds drawn from the prior, and mixing of the Gibbs chain."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.hard_worlds import latent_class
from benchmarks.report import Row, Topic
from idbandits import models
from idbandits.diagram.tables import prior_means

WORLDS, FEATURE_WORLDS = 200, 60
LOW, HIGH = 0.86, 0.94  # targets of 90 % intervals
INTERVAL = np.array([0.05, 0.95])

Rng: TypeAlias = np.random.Generator
Means: TypeAlias = dict[str, Any]


class Case(NamedTuple):
    """Diagram, number of rounds, table that is reported first, and products determined by observations."""

    make: Callable[[Rng], idb.Diagram]
    rounds: int
    table: str | None = None  # report rows of this table apart from other rows; None: all rows
    products: Callable[[Means], Any] | None = None


def _outer(first: str, second: str) -> Callable[[Means], Any]:
    return lambda means: means[first][..., :, None] * means[second][..., None, :]


def _click(means: Means) -> Any:
    mood = means["mood"][..., None]
    return means["appeal"][..., 0] * (1 - mood) + means["appeal"][..., 1] * mood


def _one_table(rows: int, columns: int) -> Callable[[Rng], idb.Diagram]:
    """Return a function that makes a diagram of one decision whose table has features."""

    def make(rng: Rng) -> idb.Diagram:
        d = idb.Diagram("one table")
        table = idb.Learned("mean", features=rng.normal(size=(rows, columns)))
        d.reward(d.observed("click", [d.decision("item", rows)], table))
        return d

    return make


def _featured(
    model: Callable[..., idb.Diagram], items: int, positions: int, columns: int
) -> Callable[[Rng], idb.Diagram]:
    return lambda rng: model(items, positions, features={"attraction": rng.normal(size=(items, columns))})


CASES = {
    "rank-1, 4 × 4": Case(lambda rng: models.rank1(4, 4), 300, products=_outer("row", "column")),
    "position-based, 6 × 3": Case(
        lambda rng: models.position_based(6, 3), 300, products=_outer("attraction", "examination")
    ),
    "latent class, 2 of 4 cards": Case(lambda rng: latent_class(4, 2, 2), 300, products=_click),
    "one table, 100 rows, 5 features": Case(_one_table(100, 5), 1_000, "mean"),
    "one table, 20 rows, 3 features": Case(_one_table(20, 3), 200, "mean"),
    "position-based, 20 × 3, 4 features": Case(_featured(models.position_based, 20, 3, 4), 300, "attraction"),
    "position-based, 40 × 5, 3 features": Case(_featured(models.position_based, 40, 5, 3), 1_000, "attraction"),
    "user browsing, 30 × 3, 4 features": Case(_featured(models.user_browsing, 30, 3, 4), 300, "attraction"),
}
MIXING = ((10, 5, 2_000), (20, 2, 5_000), (10, 5, 20_000))  # items, positions, rounds


def trained(d: idb.Diagram, means: Means, rounds: int, seed: int) -> idb.Thompson:
    """Return an agent after rounds of random actions in the world with these means."""
    rng, world = np.random.default_rng([seed, 2]), idb.World(d, means, seed=seed)
    decisions = d.of_kind("decision")
    if d.different:
        choices = [rng.permutation(decisions[0].states)[: len(decisions)] for _ in range(rounds)]
    else:
        choices = [np.array([rng.integers(node.states) for node in decisions]) for _ in range(rounds)]
    actions = [dict(zip((node.name for node in decisions), map(int, row), strict=True)) for row in choices]
    observations = [world.step(action).observation for action in actions]
    agent = idb.Thompson(d, seed=seed)
    agent.update_many(
        {name: [action[name] for action in actions] for name in actions[0]},
        {name: [observation[name] for observation in observations] for name in observations[0]},
    )
    return agent


def effective_size(draws: Any) -> float:
    """Return the effective sample size of a chain, by autocorrelations up to the first pair with a negative sum."""
    n, centred = len(draws), draws - draws.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    correlations = np.fft.irfft(spectrum * spectrum.conj())[:n]
    pairs = (correlations[1 : n - 1 : 2] + correlations[2:n:2]) / correlations[0]
    positive = pairs[: int(np.argmax(pairs < 0))] if (pairs < 0).any() else pairs
    return n / (1 + 2 * float(positive.sum()))


def covered(name: str, seed: int) -> tuple[list[bool], list[bool]]:
    """Return which rows of the reported table and which other rows or products are inside their intervals."""
    case, rng = CASES[name], np.random.default_rng([seed, 1])
    d = case.make(rng)
    means = prior_means(d.learned, rng)
    agent = trained(d, means, case.rounds, seed)
    first: list[bool] = []
    others: list[bool] = []
    for table, belief in agent.posterior().items():
        low, high = belief.quantile(INTERVAL)
        inside = ((low - 1e-6 <= means[table]) & (means[table] <= high + 1e-6)).ravel().tolist()
        (first if case.table in (None, table) else others).extend(inside)
    if case.products is not None:
        low, high = np.quantile(case.products(agent.draws(2000)), INTERVAL, axis=0)
        truth = case.products({table: np.asarray(own) for table, own in means.items()})
        others = ((low <= truth) & (truth <= high)).ravel().tolist()
    return first, others


def _coverage(name: str, worlds: int, pool: ProcessPoolExecutor) -> Row:
    results = list(pool.map(covered, [name] * worlds, range(worlds)))
    hits = [[hit for result in results for hit in result[which]] for which in (0, 1)]
    shares = [float(np.mean(own)) if own else None for own in hits]
    names = "rows", "products" if CASES[name].products else "other rows"
    missed = [
        f"intervals of {what} cover {share:.1%}"
        for what, share in zip(names, shares, strict=True)
        if share is not None and not LOW <= share <= HIGH
    ]
    first, second = ("–" if share is None else f"{share:.1%}" for share in shares)
    products, others = (second, "–") if CASES[name].products else ("–", second)
    return Row([name, f"{CASES[name].rounds:,}", str(worlds), first, others, products, "–", "–"], missed)


def _mixing(items: int, positions: int, rounds: int) -> Row:
    d, rng = models.position_based(items, positions), np.random.default_rng(3)
    means = {"attraction": rng.uniform(0.05, 0.8, items), "examination": np.linspace(0.95, 0.3, positions)}
    agent = trained(d, means, rounds, 0)
    agent.draws(100)
    started = time.process_time()
    draws = agent.draws(2000)
    seconds = time.process_time() - started
    size = min(effective_size(column) for table in draws.values() for column in table.T)
    cells = f"{size:.0f}", f"{size / seconds:,.0f}"
    return Row([f"mixing: position-based, {items} × {positions}", f"{rounds:,}", *["–"] * 4, *cells])


def _rows(quick: bool) -> Iterator[Row]:
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for name, case in CASES.items():
            worlds = WORLDS if case.table is None else FEATURE_WORLDS
            yield _coverage(name, worlds // 10 if quick else worlds, pool)
    for size in MIXING:
        yield _mixing(*size)


TOPIC = Topic(
    "Posterior coverage and mixing",
    "Share of 90 % intervals of `posterior()` that contain the truth, in worlds drawn from the prior, after rounds of "
    "random actions, default inference. *Rows*: of all tables, or of the table with features; *other rows*: of tables "
    "without features; *products*: quantities that observations determine, by `draws`. *Mixing*: smallest effective "
    f"sample size of an entry among 2,000 draws, and per second of one core. Target: coverage of {LOW:.0%} to "
    f"{HIGH:.0%}.",
    ["diagram", "rounds", "worlds", "rows", "other rows", "products", "effective draws", "per second"],
    _rows,
)
