"""Jobs in threads: all are done, and results finished before an error or Ctrl-C are kept."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator

import pytest

from idbandits.simulation.workers import AHEAD, run_all


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


# -- real signals ------------------------------------------------------------------------------------------------------

unix = pytest.mark.skipif(os.name != "posix", reason="sends signals of Unix")


@unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_at_any_moment_keeps_what_is_finished(number: signal.Signals) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        rng, stopped = random.Random(3), 0
        for _ in range(20):
            at, results = rng.randrange(60), dict[int, int]()

            def work(job: int, stop: threading.Event, at: int = at) -> int:
                if job == at:
                    os.kill(os.getpid(), number)
                return job

            whole = run_all(range(60), work, results.__setitem__, 3)
            assert not whole  # also if all were done
            assert results.items() <= {job: job for job in range(60)}.items()
            assert at in results
            stopped += len(results) < 60
        assert stopped
        assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


@unix
def test_a_signal_while_a_result_is_kept_does_not_tear_it() -> None:
    kept: list[int] = []

    def keep(job: int, result: int) -> None:
        if not kept:
            signal.raise_signal(signal.SIGINT)
        kept.append(job)  # KeyboardInterrupt is not raised before this

    assert not run_all(range(100), lambda job, stop: job, keep, 1)
    assert 0 in kept


@unix
def test_a_handler_that_does_not_raise_stops_nothing() -> None:
    handled = []
    before = signal.signal(signal.SIGINT, lambda *signalled: handled.append(signalled[0]))
    try:
        results: dict[int, int] = {}

        def work(job: int, stop: threading.Event) -> int:
            if job == 5:
                os.kill(os.getpid(), signal.SIGINT)
            return job

        assert run_all(range(50), work, results.__setitem__, 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert handled == [signal.SIGINT]
    assert len(results) == 50


@unix
def test_a_second_ctrl_c_is_not_deferred() -> None:
    begun, end = threading.Event(), threading.Event()

    def press() -> None:
        begun.wait(60)
        while not end.is_set():  # the job does not obey the first; the second gets through
            os.kill(os.getpid(), signal.SIGINT)
            end.wait(0.3)

    def work(job: int, stop: threading.Event) -> int:
        begun.set()
        end.wait(60)
        return job

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_all([0], work, lambda job, result: None, 1)
    finally:
        end.set()
        presser.join()


def test_few_jobs_are_submitted_in_advance() -> None:
    drawn, most = 0, 0

    def jobs() -> Iterator[int]:
        nonlocal drawn
        for job in range(1000):
            drawn += 1
            yield job

    def keep(job: int, result: int) -> None:
        nonlocal most
        most = max(most, drawn - job)

    assert run_all(jobs(), lambda job, stop: job, keep, 2)
    assert drawn == 1000
    assert most <= 4 * AHEAD
