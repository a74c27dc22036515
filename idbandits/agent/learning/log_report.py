"""Reports of logs, and which logs are small."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from idbandits.errors import IdbanditsError, brief
from idbandits.kernel.array_types import Ints
from idbandits.notebook import html_table

SMALL = 0.1  # rounds of a log that changes little, as a part of those learned from before
MOST_SMALL = 200  # rounds of such a log: to settle thoroughly takes about as many sweeps, of all groups at once


@final
@dataclass(frozen=True, eq=False)
class LogReport:
    """Result of learning from many rounds.

    Attributes
    ----------
    rounds : int
        Number of rounds that were learned.
    impossible : ndarray of int64
        Numbers, from 0, of rounds that the diagram gives probability zero.

    Examples
    --------
    >>> import idbandits as idb
    >>> agent = idb.Thompson(idb.models.cascade(3, 2), seed=0)
    >>> agent.update_many({"A1": [0, 0], "A2": [1, 1]}, {"C1": [1, 1], "C2": [0, 1]}, impossible="skip")
    LogReport(rounds=1, impossible=[1])
    """

    rounds: int
    impossible: Ints

    def _repr_html_(self) -> str:
        return html_table([{"rounds learned": self.rounds, "impossible": len(self.impossible)}])

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.impossible[:8].tolist()))
        more = f", … ({len(self.impossible):,} in all)" if len(self.impossible) > 8 else ""
        return f"LogReport(rounds={self.rounds}, impossible=[{shown}{more}])"


def report_of(length: int, impossible: Sequence[int]) -> LogReport:
    """Return the report of a log of `length` rounds, of which these were impossible."""
    return LogReport(length - len(impossible), np.array(impossible, dtype=np.int64))


def is_small(length: int, before: int) -> bool:
    """Return whether a log is learned round by round, as by `update`; after others, even empty ones, agents settle."""
    return 0 < length <= max(1, min(MOST_SMALL, SMALL * before))


def check_skipping(impossible: Any) -> bool:
    """Return whether impossible rounds are skipped."""
    if not isinstance(impossible, str) or impossible not in ("error", "skip"):
        raise IdbanditsError(f"impossible must be 'error' or 'skip', got {brief(impossible)}")
    return impossible == "skip"
