"""Group commit: writes of all threads that arrive during a transaction share the next transaction."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, final

from idbandits.service.journal.journal import Journal, Write
from idbandits.service.service_errors import ServiceError, unavailable

LOG = logging.getLogger(__name__)
MOST_WRITES = 400  # in a transaction

Answered = Callable[[Sequence[Any]], None]  # called with an answer or an error for each write


@final
class Committer:
    """Thread that writes to a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._waiting, self._wake = journal, deque[tuple[Sequence[Write], Answered]](), threading.Event()
        self._closing, self._submitting = False, threading.Lock()
        self._thread = threading.Thread(target=self._run, name="idbandits-journal", daemon=True)
        self._thread.start()

    def submit(self, writes: Sequence[Write], answered: Answered) -> None:
        """Queue writes for a common transaction; `answered` is called in the committer's thread."""
        with self._submitting:
            if self._closing:
                raise ServiceError("unavailable", "the service is shutting down")
            self._waiting.append((writes, answered))
        if not self._wake.is_set():  # otherwise the thread checks the queue again before it waits
            self._wake.set()

    def do(self, write: Write) -> Any:
        """Write and wait until the write is durable; return its answer, or raise its error."""
        (answer,) = self.do_all([write])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def do_all(self, writes: Sequence[Write]) -> list[Any]:
        """Write and wait until all writes are durable; return an answer or an error for each write."""
        waiting = list[SimpleQueue[Sequence[Any]]]()
        for first in range(0, len(writes), MOST_WRITES):
            batch, answers = writes[first : first + MOST_WRITES], SimpleQueue[Sequence[Any]]()
            waiting.append(answers)
            try:
                self.submit(batch, answers.put)
            except ServiceError as error:
                answers.put([error] * len(batch))
        return [answer for answers in waiting for answer in answers.get()]

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            is_last = self._closing  # `submit` raises from now on
            while self._waiting:
                groups, room = list[tuple[Sequence[Write], Answered]](), MOST_WRITES
                while self._waiting and room > 0:
                    groups.append(self._waiting.popleft())
                    room -= len(groups[-1][0])
                self._commit(groups)
            if is_last:
                return

    def _commit(self, groups: Sequence[tuple[Sequence[Write], Answered]]) -> None:
        answers = self._answers([write for writes, _ in groups for write in writes])
        first = 0
        for writes, answered in groups:
            try:
                answered(answers[first : first + len(writes)])
            except Exception:  # the caller may be gone; other callers wait for their answers
                LOG.exception("an answer was not delivered")
            first += len(writes)

    def _answers(self, writes: Sequence[Write]) -> list[Any]:
        """Return an answer or an error for each write; a write that the store rejects does not affect others."""
        try:
            return self._journal.write(writes)
        except ServiceError as error:
            return [error] * len(writes)
        except Exception as error:
            if len(writes) == 1:
                return [unavailable(error)]
            half = len(writes) // 2
            return self._answers(writes[:half]) + self._answers(writes[half:])

    def close(self) -> None:
        """Write what is queued, and end the thread."""
        with self._submitting:
            self._closing = True
        self._wake.set()
        self._thread.join()
