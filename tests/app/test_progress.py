"""Progress and the pool of threads: what is told, what is kept, and what comes out."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator

import pytest

from idbandits.app import progress
from idbandits.app.progress import Progress
from idbandits.simulation.workers import run_all

PARTS = {"one": 100, "two": 300}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# -- progress ------------------------------------------------------------------------------------------------------


def test_a_line_for_every_part_that_is_done_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", PARTS, show=True) as shown:
        shown.tell("one", 60)
        shown.tell("two", 30)
        assert capsys.readouterr().err == ""
        shown.tell("one", 40)
        assert capsys.readouterr().err.endswith(" s: all 32 % (one 100 %, two 10 %)\n")
        shown.tell("two", 270)
        assert capsys.readouterr().err.endswith(" s: all 100 % (one 100 %, two 100 %)\n")


def test_a_line_after_a_pause(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with Progress("all", PARTS, show=True) as shown:
        now += progress.PAUSE + 1
        shown.tell("two", 30)
        shown.tell("two", 30)
    assert capsys.readouterr().err == "   16 s: all 7 % (one 0 %, two 10 %)\n"


def test_a_hundred_percent_is_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", {"one": 1000, "two": 1}, show=True) as shown:
        shown.tell("one", 999)
        shown.tell("two", 1)
        assert "(one 99 %, two 100 %)" in capsys.readouterr().err


@pytest.mark.parametrize("terminal", [False, True])
def test_silence_if_asked_for(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with Progress("all", PARTS, show=False) as shown:
        shown.tell("one", 100)
    assert out.getvalue() == ""


def test_a_bar_a_part_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with Progress("all", PARTS, show=True) as shown:
        shown.tell("one", 100)
        shown.tell("two", 150)
        for bar in shown._bars.values():
            bar.refresh()
    text = out.getvalue()
    assert "one 100% |" in text
    assert "two  50% |" in text
    assert "all  62% |" in text
    assert " s: " not in text


def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", {}, show=True):
        pass
    with Progress("all", {"none": 0}, show=True) as shown:
        shown.tell("none", 0)
    assert capsys.readouterr().err.count("\n") == 1


def test_many_threads_tell_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", {"one": 8000}, show=True) as shown:
        threads = [threading.Thread(target=lambda: [shown.tell("one", 1) for _ in range(1000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert capsys.readouterr().err.count("100 %") == 2  # of the whole and the part, once


# -- the pool ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [None, 1, 4])
def test_everything_is_done_and_kept_in_this_thread(workers: int | None) -> None:
    kept: dict[int, int] = {}
    threads = set()

    def keep(job: int, made: int) -> None:
        kept[job] = made
        threads.add(threading.current_thread())

    assert run_all(range(50), lambda job, stop: job * job, keep, workers)
    assert kept == {job: job * job for job in range(50)}
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

    assert run_all(range(21), work, lambda job, made: None, 3)
    assert most == 3


def test_an_error_ends_the_others_and_keeps_what_is_finished() -> None:
    kept: dict[int, int] = {}
    ready, begun = threading.Barrier(3), []

    def work(job: int, stop: threading.Event) -> int | None:
        begun.append(job)
        ready.wait(60)
        if job == 0:
            raise ZeroDivisionError("job 0")
        assert stop.wait(60)
        return None if job == 1 else job

    with pytest.raises(ZeroDivisionError, match="job 0"):
        run_all(range(100), work, kept.__setitem__, 3)
    assert 2 in kept  # it was finished after the error
    assert 1 not in kept
    assert sorted(begun) == [0, 1, 2]


@pytest.mark.parametrize("where", ["jobs", "keep"])
def test_ctrl_c_anywhere_keeps_what_is_finished(where: str) -> None:
    kept: dict[int, int] = {}
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

    def keep(job: int, made: int) -> None:
        pressed = where == "keep" and job not in kept  # once
        kept[job] = made
        if pressed:
            raise KeyboardInterrupt

    assert not run_all(jobs(), work, keep, 2)
    assert kept == {0: 0}


def test_what_cannot_be_kept_is_said() -> None:
    def keep(job: int, made: int) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_all(range(5), lambda job, stop: job, keep, 2)
