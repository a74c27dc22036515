"""Independent jobs in threads; results finished before an interruption are kept."""

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

MOST_ROUNDS, MOST_RUNS, MOST_WORKERS = 10**12, 10**6, 1000  # limits of arguments
MOST_ROWS = 5 * 10**7  # limit of the rows of a result, one per checkpoint of each run
AHEAD = 4  # jobs per thread that are submitted in advance

Job = TypeVar("Job")
Made = TypeVar("Made")


def run_all(
    jobs: Iterable[Job], work: Callable[[Job, threading.Event], Made | None], keep: Callable[[Job, Made], None],
    workers: int | None,
) -> bool:  # fmt: skip
    """Call `work` for every job in `workers` threads (None: one per core), and `keep` each result in this thread.

    Ctrl-C and exceptions, which are raised again, set the event passed to `work`, which should then soon return None.
    Return False after Ctrl-C, even if all jobs had just been done.
    """
    stop, remaining = threading.Event(), iter(jobs)
    threads = workers or os.cpu_count() or 1

    def attempt(job: Job) -> Made | None:
        if stop.is_set():
            return None
        try:
            return work(job, stop)
        except BaseException:
            stop.set()  # before this thread takes another job
            raise

    pool = ThreadPoolExecutor(threads)
    waiting: dict[Future[Made | None], Job] = {}

    def submit() -> None:
        for job in itertools.islice(remaining, AHEAD * threads - len(waiting)):
            waiting[pool.submit(attempt, job)] = job

    def collect(futures: Iterable[Future[Made | None]]) -> None:
        for future in futures:
            if not future.cancelled() and (made := future.result()) is not None:
                keep(waiting[future], made)
            del waiting[future]  # last, because Ctrl-C may come again, and keeping a result twice does no harm

    try:
        with deferring() as deliver:
            submit()
            while waiting:
                collect(wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED).done)
                deliver()
                submit()
            pool.shutdown()
    except BaseException as error:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        collect([future for future in waiting if future.cancelled() or future.exception() is None])
        if not isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


@contextmanager
def deferring() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C and SIGTERM until the yielded function is called, or until the end.

    Otherwise KeyboardInterrupt may be raised anywhere, even where a lock has just been taken and is never released.
    """
    arrived: list[int] = []
    in_main_thread = threading.current_thread() is threading.main_thread()  # the only one that handles signals
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM) if in_main_thread}
    replaced = {int(number): handler for number, handler in handlers.items() if callable(handler)}

    def deliver() -> None:
        while arrived:
            number = arrived.pop(0)
            replaced[number](number, sys._getframe())

    try:
        for number in replaced:
            signal.signal(number, lambda number, _: arrived.append(number))
        yield deliver
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
    deliver()
