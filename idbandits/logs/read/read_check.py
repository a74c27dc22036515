"""Checks of what was read of a log, by the functions that learn from it or judge by it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from idbandits.errors import LogWarning
from idbandits.logs.read.open_log import OpenLog
from idbandits.logs.read.read_report import LogError, ReadReport
from idbandits.logs.rounds import Rounds

TOLERATED = 0.01  # share of rounds that are skipped without a warning
MOST_REASONS = 3  # in a message


def checked_batches(opened: OpenLog) -> Iterator[Rounds]:
    """Iterate over the batches of a log; raise at its end if no round was read."""
    yield from opened.batches()
    check_any_read(opened.report)


def check_any_read(report: ReadReport) -> None:
    """Raise if no round of a log was read."""
    if not report.read:
        reasons = "".join(f"; {reason}" for reason in report.reasons(MOST_REASONS))
        raise LogError(f"log must have at least one round that fits the diagram, got none in {report.source}{reasons}")


def warn_of_impossible(report: ReadReport, impossible: float, learned: float, *, stacklevel: int) -> None:
    """Issue a warning if many rounds were not learned because diagrams give them probability zero."""
    total = max(report.read, impossible + learned)
    if impossible > TOLERATED * total:
        text = f"{report.source}: {impossible:,} of {total:,} rounds have probability zero and were not learned"
        warnings.warn(f"{text}; another diagram may fit", LogWarning, stacklevel=stacklevel + 1)


def warn_of_skipped(report: ReadReport, *, stacklevel: int) -> None:
    """Issue a warning if many rounds were skipped, or if the report has doubtful notes."""
    skipped, parts = report.rows - report.read, list[str]()
    if skipped > TOLERATED * report.rows:
        parts.append(f"{skipped:,} of {report.rows:,} rounds {'was' if skipped == 1 else 'were'} skipped")
        parts += report.reasons(MOST_REASONS)
    parts += [text for text in report.notes if text in report.doubtful]
    if parts:
        text = f"{report.source}: {'; '.join(parts)}; idb.count(…).report lists all reasons"
        warnings.warn(text, LogWarning, stacklevel=stacklevel + 1)
