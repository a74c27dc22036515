"""Replaced items: regret and time of `moved_to`.

An agent that moves is compared with an agent that restarts at each replacement, and with an agent whose diagram
contains all items from the start and that gets the available ones as eligible items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.report import DisagreementError, Row, Topic, duration
from benchmarks.rounds import joined
from benchmarks.timing import timed
from idbandits import Diagram, models
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS, REPLACED = 30, 5, 3
ATTRACTION = 0.02, 0.5  # range
EXAMINATION = 0.95, 0.8, 0.65, 0.5, 0.35
PHASES, ROUNDS, RUNS = 10, 1000, 6  # ROUNDS in each phase
TARGET = 1 / 3  # ratio to the regret of restarting
MANY = 100_000  # rounds of a log that are almost all distinct

Make: TypeAlias = Callable[[Sequence[int]], Diagram]


class Kind(NamedTuple):
    """Model of a list of items, its table with one row per item, and a function that draws the other means."""

    make: Make
    item_table: str
    others: Callable[[Rng], Mapping[str, Floats]]


KINDS = {
    "semi-bandit": Kind(lambda items: models.semi_bandit(items, POSITIONS), "mean", lambda rng: {}),
    "cascade": Kind(lambda items: models.cascade(items, POSITIONS), "attraction", lambda rng: {}),
    "position-based": Kind(
        lambda items: models.position_based(items, POSITIONS),
        "attraction",
        lambda rng: {"examination": np.array(EXAMINATION)},
    ),
    "position-based, first examination known": Kind(
        lambda items: models.position_based(items, POSITIONS, fixed={"examination": {0: EXAMINATION[0]}}),
        "attraction",
        lambda rng: {"examination": np.array(EXAMINATION)},
    ),
    "dependent click": Kind(
        lambda items: models.dependent_click(items, POSITIONS),
        "attraction",
        lambda rng: {"satisfaction": rng.uniform(0.2, 0.6, POSITIONS)},
    ),
}


class Run(NamedTuple):
    """Result of a run: total regrets, number of compared rows, groups at the end, and seconds of each move."""

    regrets: Floats  # restarting, moving, all items from the start
    rows: int
    groups: int
    seconds: Sequence[float]


def unchanged(before: idb.Thompson, after: idb.Thompson) -> int:
    """Return the number of rows in both agents; raise unless their pseudo-counts are bit-identical."""
    old, new = (agent.learner.evidence.entries.rows for agent in (before, after))
    common = old.keys() & new.keys()
    for name in common:
        pairs = ((before, old[name].first), (after, new[name].first))
        first, second = (agent.state.floats[at : at + name[1]] for agent, at in pairs)
        if first.tobytes() != second.tobytes():
            raise DisagreementError(f"{name}: {first} before the move, {second} after it")
    return len(common)


def play(kind: Kind, phases: int, rounds: int, seed: int) -> Run:
    """Let all agents play in the same worlds; in each phase some items are replaced by new ones."""
    rng, every = np.random.default_rng(seed), range(ITEMS + REPLACED * (phases - 1))
    others, items, attraction = kind.others(rng), list(range(ITEMS)), rng.uniform(*ATTRACTION, ITEMS)
    moved, complete = (idb.Thompson(kind.make(own), seed=seed) for own in (items, every))
    regrets, rows, seconds = np.zeros(3), 0, []
    for phase in range(phases):
        if phase:
            for place in rng.choice(ITEMS, REPLACED, replace=False).tolist():
                items[place], attraction[place] = max(items) + 1, rng.uniform(*ATTRACTION)
            before = moved
            moved, taken = timed(before.moved_to, kind.make(items))
            rows += unchanged(before, moved)
            seconds.append(taken)
        d = kind.make(items)
        world = idb.World(d, {kind.item_table: attraction, **others})
        for which, agent in enumerate((idb.Thompson(d, seed=[seed, phase]), moved, complete)):
            copy = world.copy(seed=[seed, phase])
            for _ in range(rounds):
                action = agent.act(allowed=items if agent is complete else None)
                outcome = copy.step(action)
                agent.update(action, outcome.observation)
                regrets[which] += outcome.regret
    return Run(regrets, rows, groups_of(moved), seconds)


def groups_of(agent: idb.Thompson) -> int:
    """Return the number of groups of rounds that an agent keeps."""
    carried = agent.moved_to(agent.diagram).carried
    return carried.groups if carried else 0


def _of_kind(name: str, kind: Kind, phases: int, rounds: int, runs: int) -> Row:
    played = [play(kind, phases, rounds, seed) for seed in range(1, runs + 1)]
    restarted, moved, complete = np.array([run.regrets for run in played]).T
    ratio = float(moved.mean() / restarted.mean())
    error = float((moved - ratio * restarted).std(ddof=1) / np.sqrt(runs) / restarted.mean())
    missed = [f"{ratio:.2f} of the regret of restarting, target {TARGET:.2f}"] * int(ratio > TARGET)
    return Row(
        [
            name,
            *(f"{r.mean():.0f} ± {r.std(ddof=1) / np.sqrt(runs):.0f}" for r in (restarted, moved, complete)),
            f"{ratio:.2f} ± {error:.2f}",
            f"{sum(run.rows for run in played):,}",
            f"{np.median([run.groups for run in played]):,.0f}",
            duration(float(np.median([s for run in played for s in run.seconds]))),
            "no" if missed else "yes",
        ],
        missed,
    )


def _of_many_groups(rounds: int) -> Row:
    """Time a move with many groups: one latent node joins all positions, so that most rounds are distinct."""
    rng, d = np.random.default_rng(0), joined()
    lists = np.argsort(rng.random((rounds, 20)), axis=1)[:, :5]
    agent = idb.Thompson(d, seed=0)
    agent.update_many(
        {f"A{k + 1}": lists[:, k] for k in range(5)}, {f"C{k + 1}": rng.integers(0, 2, rounds) for k in range(5)}
    )
    moves = [timed(agent.moved_to, joined(23)) for _ in range(3)]
    seconds = float(np.median([taken for _, taken in moves]))
    name, rows = f"one latent node, 5 of 20, {rounds:,} rounds", unchanged(agent, moves[0][0])
    return Row([name, "–", "–", "–", "–", f"{rows:,}", f"{groups_of(agent):,}", duration(seconds), "–"])


def _rows(quick: bool) -> Iterator[Row]:
    phases, runs = (3, 2) if quick else (PHASES, RUNS)
    for name, kind in KINDS.items():
        yield _of_kind(name, kind, phases, ROUNDS, runs)
    yield _of_many_groups(MANY // 10 if quick else MANY)


TOPIC = Topic(
    "Replaced items",
    f"{ITEMS} items × {POSITIONS} positions, attraction uniform between {ATTRACTION[0]} and {ATTRACTION[1]}; "
    f"{REPLACED} random items are replaced every {ROUNDS:,} rounds, {PHASES * ROUNDS:,} rounds in all, default "
    f"inference. Total regret, mean and standard error of {RUNS} runs: of an agent that restarts at each replacement, "
    "of an agent that moves to the next diagram (`moved_to`), and of an agent that has all items from the start and "
    "gets the available ones as eligible items. *Ratio*: moved to restarted. *Unchanged rows*: rows in both diagrams "
    "whose pseudo-counts are bit-identical after a move; any difference would stop the benchmark. *Time of a move* "
    f"includes compiling the new diagram. Target: a ratio of {TARGET:.2f}.",
    [
        "model",
        "restarted",
        "moved",
        "all from the start",
        "ratio",
        "unchanged rows",
        "groups",
        "time of a move",
        "target met",
    ],
    _rows,
)
