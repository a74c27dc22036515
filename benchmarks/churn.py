"""Items that come and go: what moving to the next diagram gains over starting anew, changes, and costs.

Beside both plays an agent that knows from the start which items will come, and is told which are eligible: if moving
loses nothing, it does as well as this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.cost import joined
from benchmarks.report import DisagreementError, Row, Topic, duration
from benchmarks.timing import timed
from idbandits import Diagram, models
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS, REPLACED = 30, 5, 3
WORTH = 0.02, 0.5  # how attractive items are: anything between
EXAMINATION = 0.95, 0.8, 0.65, 0.5, 0.35
PHASES, ROUNDS, RUNS = 10, 1000, 12  # rounds of a phase
BAR = 1 / 3  # of the regret of starting anew
MANY = 100_000  # rounds of a log in which hardly two are the same

Make: TypeAlias = Callable[[Sequence[int]], Diagram]


class Kind(NamedTuple):
    """A model of some items, the table that has a row for each of them, and how the other means are drawn."""

    make: Make
    of_items: str
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
    """One run: total regrets, how many remaining rows were compared, groups at the end, and seconds of each move."""

    regrets: Floats  # starting anew, moved, one that had all items from the start
    rows: int
    groups: int
    seconds: Sequence[float]


def unchanged(before: idb.Thompson, after: idb.Thompson) -> int:
    """The number of rows that both agents have; their pseudo-counts are equal, bit by bit."""
    old, new = (agent.learner.evidence.entries.rows for agent in (before, after))
    common = old.keys() & new.keys()
    for name in common:
        pairs = ((before, old[name].first), (after, new[name].first))
        first, second = (agent.state.floats[at : at + name[1]] for agent, at in pairs)
        if first.tobytes() != second.tobytes():
            raise DisagreementError(f"{name}: {first} before the move, {second} after it")
    return len(common)


def play(kind: Kind, phases: int, rounds: int, seed: int) -> Run:
    """All agents meet the same worlds: the items of one phase, less some, and as many new ones, are in the next."""
    rng, every = np.random.default_rng(seed), range(ITEMS + REPLACED * (phases - 1))
    others, items, worth = kind.others(rng), list(range(ITEMS)), rng.uniform(*WORTH, ITEMS)
    moved, ready = (idb.Thompson(kind.make(own), seed=seed) for own in (items, every))
    regrets, rows, seconds = np.zeros(3), 0, []
    for phase in range(phases):
        if phase:
            for place in rng.choice(ITEMS, REPLACED, replace=False).tolist():
                items[place], worth[place] = max(items) + 1, rng.uniform(*WORTH)
            before = moved
            moved, taken = timed(before.moved_to, kind.make(items))
            rows += unchanged(before, moved)
            seconds.append(taken)
        d = kind.make(items)
        world = idb.World(d, {kind.of_items: worth, **others})
        for which, agent in enumerate((idb.Thompson(d, seed=[seed, phase]), moved, ready)):
            answering = world.copy(seed=[seed, phase])
            for _ in range(rounds):
                action = agent.act(allowed=items if agent is ready else None)
                outcome = answering.step(action)
                agent.update(action, outcome.observation)
                regrets[which] += outcome.regret
    return Run(regrets, rows, groups_of(moved), seconds)


def groups_of(agent: idb.Thompson) -> int:
    """How many groups of rounds an agent keeps."""
    carried = agent.moved_to(agent.diagram).carried
    return carried.groups if carried else 0


def _of_kind(name: str, kind: Kind, phases: int, rounds: int, runs: int) -> Row:
    played = [play(kind, phases, rounds, seed) for seed in range(1, runs + 1)]
    anew, moved, ready = np.array([run.regrets for run in played]).T
    ratio = float(moved.mean() / anew.mean())
    error = float((moved - ratio * anew).std(ddof=1) / np.sqrt(runs) / anew.mean())
    missed = [f"{ratio:.2f} of the regret of starting anew, bar {BAR:.2f}"] * int(ratio > BAR)
    return Row(
        [
            name,
            *(f"{r.mean():.0f} ± {r.std(ddof=1) / np.sqrt(runs):.0f}" for r in (anew, moved, ready)),
            f"{ratio:.2f} ± {error:.2f}",
            f"{sum(run.rows for run in played):,}",
            f"{np.median([run.groups for run in played]):,.0f}",
            duration(float(np.median([s for run in played for s in run.seconds]))),
            "no" if missed else "yes",
        ],
        missed,
    )


def _of_many_groups(rounds: int) -> Row:
    """A move after so many rounds that one latent node joins, most of them a group of their own."""
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
    "Items that come and go",
    f"{ITEMS} items × {POSITIONS} positions, attraction evenly from {WORTH[0]} to {WORTH[1]}; {REPLACED} items, chosen "
    f"at random, are replaced every {ROUNDS:,} rounds, {PHASES * ROUNDS:,} rounds in all; the default inference. Total "
    f"regret, mean and standard error of {RUNS} runs, of an agent that starts anew each time, and of one that moves to "
    "the next diagram (`moved_to`); and of one that has all items from the start, and is told which are eligible. "
    "Unchanged rows: how often a row was in both diagrams, or retired, and had exactly the same pseudo-counts after a "
    "move as before it; one that had not would end the measurement. A move includes compiling "
    f"the new diagram. *Bar*: at most {BAR:.2f} of the regret.",
    [
        "model",
        "starting anew",
        "moved",
        "all from the start",
        "ratio",
        "unchanged rows",
        "groups",
        "a move takes",
        "met",
    ],
    _rows,
)
