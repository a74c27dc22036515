"""Dead letters: outcomes that were rejected, stored in the background and reported again on request."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import Any, final

from idbandits.errors import IdbanditsError
from idbandits.service.http.answers import encode
from idbandits.service.http.message_types import OutcomeReport, ReplayAnswer
from idbandits.service.journal.journal import Journal
from idbandits.service.json_text import decoded
from idbandits.service.live.live import Live
from idbandits.service.service_errors import ServiceError

STORED_KINDS = frozenset({"unknown-decision", "unknown-node", "impossible", "too-late"})
LONGEST = 16_384  # bytes of a letter; longer ones are counted, and not stored
MOST_WAITING = 10_000
PAUSE = 0.25  # seconds between transactions


@final
class LetterBox:
    """Queue of dead letters for the journal; those that are too long, or find it full, are counted in `dropped`."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._waiting = journal, deque[tuple[str, float, str, str, str]]()
        self.dropped = 0

    def add(self, experiment: str, report: OutcomeReport, error: ServiceError) -> None:
        """Queue a rejected outcome, if its error concerns its decision or values."""
        if error.kind not in STORED_KINDS:
            return
        now = time.time()
        body = encode(letter_of(report, now))
        if len(body) > LONGEST or len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append((experiment, now, error.kind, str(error)[:LONGEST], body.decode()))

    def flush(self) -> None:
        """Store the queued letters; they stay in the queue if the journal is not available."""
        letters = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if letters:
            try:
                self._journal.add_letters(letters)
            except BaseException:
                self._waiting.extendleft(reversed(letters))
                raise

    async def run(self) -> None:
        """Store letters until cancelled."""
        while True:
            await asyncio.sleep(PAUSE)
            if self._waiting:
                try:
                    await asyncio.to_thread(self.flush)
                except IdbanditsError:
                    await asyncio.sleep(1.0)


def letter_of(report: OutcomeReport, now: float) -> dict[str, Any]:
    """Return the content of a dead letter; an outcome without a time gets `now`."""
    return {
        "decision": report.decision, "values": report.values, "at": now if report.at is None else report.at,
        "complete": report.complete,
    }  # fmt: skip


def replay_letters(live: Live, experiment: str, limit: int) -> ReplayAnswer:
    """Report dead letters again, and mark those that are accepted now."""
    live.replica(experiment)
    reports, numbers, rejected = list[dict[str, Any]](), list[int](), Counter[str]()
    for n, _, reason, _, body, _ in live.journal.letters(experiment, limit):
        outcome = decoded(body)
        if not isinstance(outcome, dict) or "values" not in outcome:  # of a round that could not be closed
            rejected[reason] += 1
            continue
        numbers.append(n)
        reports.append({"id": outcome.pop("decision"), **outcome})
    answers = live.report_many(experiment, reports)
    rejected.update(answer.kind for answer in answers if isinstance(answer, ServiceError))
    done = [n for n, answer in zip(numbers, answers, strict=True) if not isinstance(answer, ServiceError)]
    live.journal.mark_replayed(done)
    return ReplayAnswer(answers.count("accepted"), answers.count("unchanged"), dict(rejected))
