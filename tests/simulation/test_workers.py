"""Jobs in threads: all are done, and what is finished before an error or Ctrl-C is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from idbandits.simulation.workers import run_all


@pytest.mark.parametrize("workers", [None, 1, 4])
def test_all_jobs_are_done_and_kept_in_this_thread(workers: int | None) -> None:
    results: dict[int, int] = {}
    threads = set()

    def keep(job: int, result: int) -> None:
        results[job] = result
        threads.add(threading.current_thread())

    assert run_all(range(50), lambda job, stop: job * job, keep, workers)
    assert results == {job: job * job for job in range(50)}
    assert threads == {threading.main_thread()}
    assert run_all([], lambda job, stop: job, keep, workers)


def test_as_many_threads_as_workers() -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    all_there = threading.Barrier(3)

    def work(job: int, stop: threading.Event) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        all_there.wait(30)
        with lock:
            at_once -= 1
        return job

    assert run_all(range(21), work, lambda job, result: None, 3)
    assert most == 3


def test_an_error_stops_the_others_and_keeps_what_is_finished() -> None:
    results: dict[int, int] = {}
    ready, begun = threading.Barrier(3), []

    def work(job: int, stop: threading.Event) -> int | None:
        begun.append(job)
        ready.wait(60)
        if job == 0:
            raise ZeroDivisionError("job 0")
        assert stop.wait(60)
        return None if job == 1 else job

    with pytest.raises(ZeroDivisionError, match="job 0"):
        run_all(range(100), work, results.__setitem__, 3)
    assert 2 in results  # it was finished after the error
    assert 1 not in results
    assert sorted(begun) == [0, 1, 2]


@pytest.mark.parametrize("where", ["jobs", "keep"])
def test_ctrl_c_anywhere_keeps_what_is_finished(where: str) -> None:
    results: dict[int, int] = {}
    finished = threading.Event()

    def jobs() -> Iterator[int]:
        yield 0
        finished.wait(60)
        if where == "jobs":
            raise KeyboardInterrupt
        yield 1

    def work(job: int, stop: threading.Event) -> int | None:
        if job == 1:
            return None if stop.wait(60) else 1
        finished.set()
        return 0

    def keep(job: int, result: int) -> None:
        pressed = where == "keep" and job not in results  # only the first time
        results[job] = result
        if pressed:
            raise KeyboardInterrupt

    assert not run_all(jobs(), work, keep, 2)
    assert results == {0: 0}


def test_an_error_while_keeping_is_raised() -> None:
    def keep(job: int, result: int) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_all(range(5), lambda job, stop: job, keep, 2)
