"""Compilation: in several processes, how it ends early, and what is kept."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba import types

from idbandits.machine import compile_together, compiled, direct

SOURCE = """
import os
import time

def first(): pass
def second(): pass

def compile(how):
    folder, then = how
    open(os.path.join(folder, str(os.getpid())), "w").close()
    if then == "sleep":
        time.sleep(60)
    if then == "die":
        os._exit(9)

first.compile = second.compile = compile
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """Two functions that pretend to be compiled, and tell of it by a file each."""
    (tmp_path / "pretended.py").write_text(SOURCE)
    (tmp_path / "told").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("pretended")
    monkeypatch.delitem(sys.modules, "pretended")
    functions = [SimpleNamespace(py_func=getattr(module, name)) for name in ("first", "second")]
    return lambda then: [(function, (str(tmp_path / "told"), then)) for function in functions]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def test_all_are_compiled_elsewhere(kernels: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_together(kernels("end"), 2)
    told = {int(path.name) for path in (tmp_path / "told").iterdir()}
    assert told
    assert os.getpid() not in told
    assert "compiling 2 functions" in capsys.readouterr().err


def test_one_function_is_left_to_this_process(kernels: Any, tmp_path: Path) -> None:
    compile_together(kernels("end")[:1], 2)
    assert not list((tmp_path / "told").iterdir())


def test_ctrl_c_ends_all_processes_at_once(kernels: Any, tmp_path: Path) -> None:
    pressed = []

    def press() -> None:
        until(lambda: len(list((tmp_path / "told").iterdir())) == 2)
        for path in (tmp_path / "told").iterdir():
            os.kill(int(path.name), signal.SIGINT)  # a terminal tells all processes: they leave it to the first
        time.sleep(0.2)
        assert len(active_children()) == 2
        pressed.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        compile_together(kernels("sleep"), 2)
    assert pressed
    pressing.join()
    assert active_children() == []
    for path in (tmp_path / "told").iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


def test_a_process_that_is_killed_leaves_the_work_to_this_one(kernels: Any, capsys: pytest.CaptureFixture[str]) -> None:
    compile_together(kernels("die"), 2)
    assert "going on in one" in capsys.readouterr().err
    assert active_children() == []


def test_a_function_is_kept_as_long_as_it_is_known_by_its_id() -> None:
    def make(number: int) -> Any:
        @compiled
        def function(x: int) -> int:
            return x + number

        return function

    signature = types.int64(types.int64)
    alive = []
    for number in range(3):
        function = make(number)
        assert direct(function, signature)(1) == 1 + number
        alive.append(weakref.ref(function))
        del function
    gc.collect()
    assert all(known() is not None for known in alive)  # else another one might get its id, and its machine code
