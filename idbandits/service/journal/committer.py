"""Group commit: writes of all threads that arrive while a transaction is under way share the next one."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from idbandits.service.journal.journal import Journal, Write
from idbandits.service.service_errors import ServiceError, unavailable

LOG = logging.getLogger(__name__)
MOST_WRITES = 400  # of a transaction
PAUSE = 0.0015  # seconds after a transaction of several: other processes get the lock, and the next one is larger

Answered = Callable[[Sequence[tuple[Any, Any]]], None]  # gets pairs of what was passed to `submit`, and answers


@final
class Committer:
    """Thread that writes to a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._waiting, self._wake = journal, deque[tuple[Write, Answered, Any]](), threading.Event()
        self._closing, self._submitting = False, threading.Lock()
        self._thread = threading.Thread(target=self._run, name="idbandits-journal", daemon=True)
        self._thread.start()

    def submit(self, write: Write, answered: Answered, key: Any = None) -> None:
        """Write soon; `answered` is called in the thread of the committer, once for all writes that share it."""
        with self._submitting:
            if self._closing:
                raise ServiceError("unavailable", "the service is shutting down")
            self._waiting.append((write, answered, key))
        if not self._wake.is_set():  # else the thread looks again before it waits
            self._wake.set()

    def do(self, write: Write) -> Any:
        """Write, and return the answer when it is durable; raise if it is a `ServiceError`."""
        done, answers = threading.Event(), list[Any]()

        def answered(pairs: Sequence[tuple[Any, Any]]) -> None:
            answers.extend(answer for _, answer in pairs)
            done.set()

        self.submit(write, answered)
        done.wait()
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def do_all(self, writes: Sequence[Write]) -> list[Any]:
        """Write all; return an answer or an error for each."""
        done, answers = threading.Event(), dict[int, Any]()

        def answered(pairs: Sequence[tuple[Any, Any]]) -> None:
            answers.update(pairs)
            if len(answers) == len(writes):
                done.set()

        if not writes:
            return []
        with self._submitting:  # all or none
            if self._closing:
                raise ServiceError("unavailable", "the service is shutting down")
            self._waiting.extend((write, answered, i) for i, write in enumerate(writes))
        self._wake.set()
        done.wait()
        return [answers[i] for i in range(len(writes))]

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            is_last = self._closing  # nothing is submitted after this
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_WRITES))]
                self._commit(batch)
                if len(batch) > 1:
                    time.sleep(PAUSE)
            if is_last:
                return

    def _commit(self, batch: Sequence[tuple[Write, Answered, Any]]) -> None:
        answers = self._answers([write for write, _, _ in batch])
        grouped: dict[Answered, list[tuple[Any, Any]]] = {}
        for (_, answered, key), answer in zip(batch, answers, strict=True):
            grouped.setdefault(answered, []).append((key, answer))
        for answered, pairs in grouped.items():
            try:
                answered(pairs)
            except Exception:  # of a caller that has gone: others wait for theirs
                LOG.exception("an answer was not delivered")

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
        """Write what is waiting, and end."""
        with self._submitting:
            self._closing = True
        self._wake.set()
        self._thread.join()
