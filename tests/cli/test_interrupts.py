"""One Ctrl-C ends a command at any time, even where Python or a library would swallow the exception."""

import ctypes
import importlib
import os
import pkgutil
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from idbandits.cli.interrupts import PAUSE, interruptible

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals of Unix")
MOMENTS = 8


def interrupted_by(action):
    """Return whether KeyboardInterrupt ends a loop after an action."""
    deadline = time.monotonic() + 60
    try:
        with interruptible():
            action()
            while time.monotonic() < deadline:
                pass
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_raise_keyboard_interrupt_and_handlers_are_restored(number):
    before = sys.unraisablehook, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert interrupted_by(lambda: signal.raise_signal(number))
    assert (sys.unraisablehook, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_interruption_swallowed_by_a_destructor_is_repeated():
    class Closing:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    assert interrupted_by(Closing)


def test_an_interruption_swallowed_by_a_callback_of_c_is_repeated():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(a, b):
        signal.raise_signal(signal.SIGINT)
        return 0

    library = ctypes.CDLL(None)
    numbers = (ctypes.c_int * 2)(2, 1)
    assert interrupted_by(lambda: library.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare))


def test_an_interruption_waits_for_the_end_of_an_import(tmp_path, monkeypatch):
    source = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    raise ImportError("the library is not built")
done = True
"""
    (tmp_path / "slowly_imported.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert interrupted_by(lambda: importlib.import_module("slowly_imported"))
    assert sys.modules.pop("slowly_imported").done


def test_an_interruption_that_was_handled_is_not_repeated():
    class Closing:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    def obey_and_clean_up():
        try:
            Closing()
            raise KeyboardInterrupt  # as code does that counts signals
        except KeyboardInterrupt:
            deadline = time.monotonic() + 5 * PAUSE
            while time.monotonic() < deadline:
                pass

    with interruptible():
        obey_and_clean_up()


def test_ignored_signals_stay_ignored(call, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(pkgutil, "resolve_name", lambda _: lambda _: signal.raise_signal(signal.SIGINT))
        assert call("learners") == (0, "", "")
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_errors_of_destructors_are_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))

    class Failing:
        def __del__(self):
            raise ZeroDivisionError

    with interruptible():
        Failing()
    assert reported == [ZeroDivisionError]


def test_a_command_ends_at_whatever_call_the_interruption_comes(call, tmp_path):
    arguments = ["paper", "--figure", "B3d", "--rounds", 3, "--runs", 1, "--no-progress", "--workers", 1]
    calls, moment = 0, -1

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call"
        if event == "call" and calls == moment:
            os.kill(os.getpid(), signal.SIGINT)

    def profiled(folder):
        nonlocal calls
        calls = 0
        sys.setprofile(count)
        try:
            return call(*arguments, "--out", folder)
        finally:
            sys.setprofile(None)

    assert profiled("warm")[0] == 0  # imports and compiles
    assert profiled("whole")[0] == 0
    whole, names, rng = calls, sorted(os.listdir("whole")), random.Random(7)
    interrupted = 0
    for part in range(MOMENTS):
        moment = int(whole * rng.uniform(part, part + 1) / MOMENTS)
        status, out, err = profiled(f"part {part}")
        lines = [line for line in err.splitlines() if not line.startswith("idbandits: compil")]
        if status == 0:  # it had just finished
            assert sorted(os.listdir(f"part {part}")) == names, moment
            continue
        interrupted += 1
        assert (status, out, len(lines)) == (130, "", 1), (moment, err)
        assert lines[0].startswith("idbandits: interrupted; "), moment
        left = list(Path(f"part {part}").glob("*.tmp")) if Path(f"part {part}").exists() else []
        assert not left, moment
        moment = -1
        assert call(*arguments, "--out", f"part {part}")[0] == 0  # continues from there
        assert sorted(os.listdir(f"part {part}")) == names, moment
    assert interrupted >= MOMENTS - 1
