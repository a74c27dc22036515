"""Progress: bars on a terminal, otherwise lines."""

from __future__ import annotations

import io
import math
import sys
import threading

import pytest

from idbandits.cli import progress
from idbandits.cli.progress import Progress

PARTS = {"one": 100, "two": 300}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_line_per_finished_part_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PAUSE", math.inf)
    with Progress("all", PARTS, show=True) as shown:
        shown.add("one", 60)
        shown.add("two", 30)
        assert capsys.readouterr().err == ""
        shown.add("one", 40)
        assert capsys.readouterr().err.endswith(" s: all 32 % (one 100 %, two 10 %)\n")
        shown.add("two", 270)
        assert capsys.readouterr().err.endswith(" s: all 100 % (one 100 %, two 100 %)\n")


def test_a_line_after_a_pause(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with Progress("all", PARTS, show=True) as shown:
        now += progress.PAUSE + 1
        shown.add("two", 30)
        shown.add("two", 30)
    assert capsys.readouterr().err == "   16 s: all 7 % (one 0 %, two 10 %)\n"


def test_percentages_are_rounded_down(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", {"one": 1000, "two": 1}, show=True) as shown:
        shown.add("one", 999)
        shown.add("two", 1)
        assert "(one 99 %, two 100 %)" in capsys.readouterr().err


@pytest.mark.parametrize("terminal", [False, True])
def test_no_output_if_disabled(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with Progress("all", PARTS, show=False) as shown:
        shown.add("one", 100)
    assert out.getvalue() == ""


def test_one_bar_per_part_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with Progress("all", PARTS, show=True) as shown:
        shown.add("one", 100)
        shown.add("two", 150)
    text = out.getvalue()
    assert "one 100% |" in text
    assert "two  50% |" in text
    assert "all  62% |" in text
    assert " s: " not in text


def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", {}, show=True):
        pass
    with Progress("all", {"none": 0}, show=True) as shown:
        shown.add("none", 0)
    assert capsys.readouterr().err.count("\n") == 1


def test_many_threads_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("all", {"one": 8000}, show=True) as shown:
        threads = [threading.Thread(target=lambda: [shown.add("one", 1) for _ in range(1000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert capsys.readouterr().err.count("100 %") == 2  # of everything and of the part, in one line
