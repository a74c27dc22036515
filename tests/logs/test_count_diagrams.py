"""Counts of any diagram are those of its rounds one by one, and have the likelihood of plain enumeration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idbandits as idb
import reference
from diagrams import (
    in_context,
    learned_conditionals,
    partly_known,
    random_learning_diagram,
    random_means,
    same_item_twice,
    same_table_twice,
    shop,
    three_states,
    with_fixed_rows,
)
from equal_counts import assert_equal, value_of_counts
from internals import certain_counts, groups, held_by
from played_rounds import Played, columns, learn_at_once, play, rounds_of

NAMED = [
    same_table_twice, three_states, in_context, learned_conditionals, same_item_twice, partly_known, shop,
    lambda: idb.models.cascade(3, 2, empty=True),
    lambda: idb.models.position_based(3, 2, pooled=["attraction"]),
    lambda: idb.models.dynamic_bayesian(3, 2),
    lambda: idb.models.click_chain(3, 2),
    lambda: idb.models.user_browsing(3, 2),
    lambda: idb.models.position_based(1, 1),
]  # fmt: skip


def frame_of(d: idb.Diagram, played: Sequence[Played]) -> pd.DataFrame:
    """Return rounds as a wide log."""
    actions, seen, contexts = columns(d, played)
    return pd.DataFrame(actions | seen | (contexts or {})).astype(object)


def drawn(d: idb.Diagram, seed: int, rounds: int = 15) -> tuple[list[Played], pd.DataFrame]:
    """Return rounds with missing observations, and their log."""
    played = play(d, np.random.default_rng(seed), rounds, unseen=0.25)
    return played, frame_of(d, played)


def by_values(agent: idb.Thompson) -> dict[tuple[Any, ...], int]:
    """Return the groups of an agent with the values of known entries: counts may read another entry of one value."""
    entries = agent.learner.evidence.entries
    known, learned = np.asarray(entries.known), agent.learner.evidence.learned
    counts: dict[tuple[Any, ...], int] = {}
    for key, count in groups(agent).items():
        numbers, named = iter(key), list[Any]()
        for _ in range(next(numbers)):  # nodes, each with a number of terms, each with a number of members
            named.append(terms := next(numbers))
            for _ in range(terms):
                named.append(members := next(numbers))
                own = [next(numbers) for _ in range(members)]
                named += [f"value {known[m - learned]:.12g}" if m >= learned else m for m in own]
        counts[tuple(named)] = counts.get(tuple(named), 0) + count
    return counts


def check(d: idb.Diagram, seed: int) -> None:
    """Compare the counts of a log with its rounds."""
    played, frame = drawn(d, seed)
    counts = idb.count(d, frame)
    assert (counts.rounds, counts.impossible) == (len(played), 0)
    for k in range(3):  # other means than those of the world, under which some rounds may be impossible
        means = random_means(np.random.default_rng([seed, k]), d)
        chances = [reference.likelihood(d, *own, means) for own in rounds_of(played)]
        value = math.fsum(map(math.log, chances)) if all(chances) else -math.inf
        assert value_of_counts(counts, means) == pytest.approx(value, rel=1e-9)
    weighted = frame.assign(times=np.arange(len(frame)) % 4)
    several = idb.count(d, weighted.loc[np.repeat(frame.index, weighted["times"])].drop(columns="times"), threads=1)
    assert_equal(idb.count(d, weighted, weight="times"), several)
    agent, other = idb.Thompson(d, "variational", seed=0), idb.Thompson(d, "variational", seed=0)
    learn_at_once(agent, played)
    other.learn(counts)
    assert by_values(other) == by_values(agent)
    (own,), (expected,) = held_by(other).values(), held_by(agent).values()
    np.testing.assert_allclose(certain_counts(own), certain_counts(expected), rtol=1e-12, atol=1e-9)


@pytest.mark.filterwarnings("ignore::idbandits.errors.DiagramWarning")  # of scales
@pytest.mark.parametrize("make", NAMED)
@pytest.mark.parametrize("seed", range(3))
def test_counts_of_named_diagrams(make: Any, seed: int) -> None:
    check(make(), seed)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_counts_of_random_diagrams(seed: int, fixed: bool) -> None:
    d = random_learning_diagram(seed)
    check(with_fixed_rows(np.random.default_rng(seed), d) if fixed else d, seed)
