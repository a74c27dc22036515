"""Reports of logs, and which logs are small."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from idbandits.errors import IdbanditsError, brief
from idbandits.kernel.array_types import Ints

SMALL = 0.1  # rounds of a log that changes little, as a part of those learned from before
MOST_SMALL = 200  # rounds of such a log: to settle thoroughly takes about as many sweeps, of all groups at once


@final
@dataclass(frozen=True, eq=False)
class LogReport:
    """Result of learning from a log: how many rounds were learned from, and which ones were impossible."""

    rounds: int
    impossible: Ints

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
