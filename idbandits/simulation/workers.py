"""Independent jobs in threads; what is finished before an interruption is kept."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

MOST_ROUNDS, MOST_RUNS, MOST_WORKERS = 10**12, 10**6, 1000  # more would not end in a lifetime, or fit in memory

Job = TypeVar("Job")
Made = TypeVar("Made")


def run_all(
    jobs: Iterable[Job], work: Callable[[Job, threading.Event], Made | None], keep: Callable[[Job, Made], None],
    workers: int | None,
) -> bool:  # fmt: skip
    """Call `work` for every job in `workers` threads (None: one per core), and `keep` each result in this thread.

    Ctrl-C, or an exception, which is raised again, sets the event passed to `work`, which should then soon return None.
    Returns False after Ctrl-C, when not all jobs are done.
    """
    stop = threading.Event()

    def attempt(job: Job) -> Made | None:
        if stop.is_set():
            return None
        try:
            return work(job, stop)
        except BaseException:
            stop.set()  # here, before this thread takes another job
            raise

    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        waiting: dict[Future[Made | None], Job] = {}

        def collect(futures: Iterable[Future[Made | None]]) -> None:
            for future in futures:
                if not future.cancelled() and (made := future.result()) is not None:
                    keep(waiting[future], made)
                del waiting[future]  # last: Ctrl-C may come at any moment, and keeping a result twice does no harm

        try:
            for job in jobs:
                waiting[pool.submit(attempt, job)] = job
            while waiting:
                collect(wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED).done)
        except BaseException as error:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            collect(future for future in list(waiting) if future.cancelled() or future.exception() is None)
            if not isinstance(error, KeyboardInterrupt):
                raise
            return False
    return True
