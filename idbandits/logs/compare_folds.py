"""Folds of a log: rounds to fit on and rounds to predict, split by session or by time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from idbandits.errors import IdbanditsError, brief, check_whole
from idbandits.kernel.array_types import Bools, Ints
from idbandits.logs.rounds import Rounds

MOST_FOLDS = 1000


def folds_of(rounds: Rounds, number: int, by: str, seed: int) -> Iterator[tuple[Bools, Bools]]:
    """Yield masks of the rounds to fit on and of those to predict.

    By session, each part is predicted by a fit on all others. By time, sessions are in `number` + 1 parts by their
    first round, each of which but the first is predicted by a fit on earlier ones. Rounds of a session are never split;
    rounds of earlier sessions that are later than the first one of a part are not used to predict it.
    """
    sessions: Ints = rounds.sessions if len(rounds.sessions) else np.arange(len(rounds))
    _, first, labels = np.unique(sessions, return_index=True, return_inverse=True)
    clusters = np.argsort(np.argsort(first))[labels]  # numbered as they appear: labels of sessions do not matter
    if by not in ("session", "time"):
        raise IdbanditsError(f"by must be 'session' or 'time', got {brief(by)}")
    parts = check_whole("folds", number, 2 if by == "session" else 1, MOST_FOLDS)
    blocks = parts if by == "session" else parts + 1
    times = rounds.times if len(rounds.times) else rounds.numbers.astype(np.float64)
    if len(first) < blocks:
        raise IdbanditsError(f"the log must have at least {blocks} sessions for {parts} folds, got {len(first)}")
    if by == "session":
        order = np.random.default_rng(seed).permutation(len(first))
    else:
        starts = np.full(len(first), np.inf)
        np.minimum.at(starts, clusters, times)
        order = np.argsort(starts, kind="stable")
    block = np.empty(len(first), np.int64)
    block[order] = np.arange(len(first)) * blocks // len(first)
    own = block[clusters]
    for k in range(blocks):
        if by == "session":
            yield own != k, own == k
        elif k:
            yield (own < k) & (times <= times[own == k].min()), own == k
