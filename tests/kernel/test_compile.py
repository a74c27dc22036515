"""Compilation: worker processes, interrupts, notices and the cache on disk."""

from __future__ import annotations

import importlib
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba import types

import idbandits
from idbandits.circuit.passes import bind
from idbandits.inference import Gibbs
from idbandits.kernel import disk_cache as disk
from idbandits.kernel.compile import Kernel, compile_together, estimated_seconds, kernel, linked

SOURCE = """
import os
import time

def first(): pass
def second(): pass

def compile():
    open(os.path.join({folder!r}, str(os.getpid())), "w").close()
    if {then!r} == "sleep":
        time.sleep(60)
    if {then!r} == "die":
        os._exit(9)

first.compile = second.compile = compile
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """Two functions that pretend to be compiled: each leaves a file named after its process."""
    (tmp_path / "processes").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    def pretended(then: str) -> list[Any]:
        (tmp_path / "pretended.py").write_text(SOURCE.format(folder=str(tmp_path / "processes"), then=then))
        module = importlib.import_module("pretended")
        monkeypatch.delitem(sys.modules, "pretended")
        return [pretended_kernel(getattr(module, name), tmp_path / "cache") for name in ("first", "second")]

    return pretended


def pretended_kernel(function: Any, folder: Path) -> Any:
    kernel: Any = SimpleNamespace(function=function, folder=folder)
    kernel.is_packed = lambda: False
    kernel.is_on_disk = lambda: Kernel.is_on_disk(kernel)
    return kernel


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def test_kernels_are_compiled_in_worker_processes(
    kernels: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compile_together(kernels("end"), 2)
    processes = {int(path.name) for path in (tmp_path / "processes").iterdir()}
    assert processes
    assert os.getpid() not in processes
    assert capsys.readouterr().err.startswith(
        "idbandits: compiling 2 functions, of which first takes longest, about 2 s;"
    )


def test_a_single_kernel_is_left_to_this_process(kernels: Any, tmp_path: Path) -> None:
    compile_together(kernels("end")[:1], 2)
    assert not list((tmp_path / "processes").iterdir())


def test_ctrl_c_ends_all_processes_at_once(kernels: Any, tmp_path: Path) -> None:
    pressed = threading.Event()

    def press() -> None:
        wait_for(lambda: len(list((tmp_path / "processes").iterdir())) == 2)
        for path in (tmp_path / "processes").iterdir():
            os.kill(int(path.name), signal.SIGINT)  # as a terminal does; workers leave it to their parent
        time.sleep(0.2)
        assert len(active_children()) == 2
        pressed.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        compile_together(kernels("sleep"), 2)
    assert pressed.is_set()
    pressing.join()
    assert active_children() == []
    for path in (tmp_path / "processes").iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


def test_a_killed_worker_leaves_the_work_to_this_process(kernels: Any, capsys: pytest.CaptureFixture[str]) -> None:
    compile_together(kernels("die"), 2)
    assert "going on in one" in capsys.readouterr().err
    assert active_children() == []


def test_workers_end_with_their_parent(kernels: Any, tmp_path: Path) -> None:
    files = tmp_path / "processes"
    kernels("sleep")
    program = """
from types import SimpleNamespace
import pretended
from idbandits.kernel.compile import compile_together

if __name__ == "__main__":
    functions = pretended.first, pretended.second
    compile_together([SimpleNamespace(function=each, folder=None, is_on_disk=lambda: False) for each in functions], 2)
"""
    (tmp_path / "program.py").write_text(program)
    folders = os.pathsep.join([str(tmp_path), str(Path(idbandits.__file__).parents[1])])
    command = [sys.executable, str(tmp_path / "program.py")]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": folders}, stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(list(files.iterdir())) == 2)
        process.kill()
        try:
            process.communicate(timeout=120)  # returns when the last process that holds stderr has ended
        except subprocess.TimeoutExpired:
            for path in files.iterdir():
                os.kill(int(path.name), signal.SIGKILL)
            pytest.fail("the processes went on without their parent")


def test_cached_kernels_are_not_compiled_again(
    kernels: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").mkdir()
    for name, line in (("first", 5), ("second", 6)):
        (tmp_path / "cache" / f"pretended.{name}-{line}.py311.nbi").touch()
    compile_together(kernels("end"), 2)
    assert not list((tmp_path / "processes").iterdir())
    assert capsys.readouterr().err == ""


def test_kernels_that_cannot_be_cached_are_left_to_this_process(kernels: Any, tmp_path: Path) -> None:
    functions = kernels("end")
    for function in functions:
        function.folder = None
    compile_together(functions, 2)
    assert not list((tmp_path / "processes").iterdir())


def test_kernels_that_cannot_be_cached_are_compiled_again() -> None:
    names: dict[str, Any] = {}
    exec(compile("def double(x): return 2 * x", "<no file>", "exec"), names)  # Numba finds no folder for it
    double = kernel(types.int64(types.int64))(names["double"])
    assert double(4) == 8
    assert double.is_on_disk()  # nothing can be cached


def compiled_noisily(function: Any, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return the messages before and after the compilation of a function."""
    compile_now, before = function._dispatcher.compile, []

    def compile_noting(signature: Any) -> None:
        before.append(capsys.readouterr().err)
        compile_now(signature)

    function._dispatcher.compile = compile_noting
    function.compile()
    [said] = before
    return said, capsys.readouterr().err


def test_the_notice_names_function_and_time_before_compilation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "new.py").write_text("def quadruple(x):\n    return 4 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    quadruple = kernel(types.int64(types.int64))(importlib.import_module("new").quadruple)
    monkeypatch.delitem(sys.modules, "new")
    folder = quadruple.folder
    assert folder is not None
    folder.mkdir(exist_ok=True)
    disk.record_seconds(quadruple.function, folder, 12.3)
    before, after = compiled_noisily(quadruple, capsys)
    assert before == "idbandits: compiling quadruple, about 12 s; the result is kept on disk …\n"
    assert re.fullmatch(r"idbandits: compiled quadruple in \d+\.\d s\n", after)
    assert quadruple(3) == 12
    noted = disk.recorded_seconds(quadruple.function, folder)
    assert noted is not None
    assert noted != 12.3  # replaced by the new time


def test_short_compilations_are_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled_noisily(kernel(types.int64(types.int64))(lambda x: 5 * x), capsys)[0] == ""


def test_estimates_without_a_record_grow_with_the_code(tmp_path: Path) -> None:
    small, large = (estimated_seconds(each.function, tmp_path) for each in (bind, Gibbs.learn))
    assert small < 0.5
    assert 3 < large < 30  # 7 s on 2 cores of an AMD EPYC
    assert estimated_seconds(loops, None) == pytest.approx(estimated_seconds(loop.py_func, None), rel=0.3)


@linked
def loop(n: int) -> float:
    total = 0.0
    for i in range(n):
        for k in range(i):
            total += math.sqrt(i * k) / (1 + math.log(1 + i)) + math.cos(k) * math.sin(i) - math.exp(-i)
    return total


def loops(n: int) -> float:
    return loop(n) + loop(2 * n)  # compiled once


@pytest.mark.parametrize("content", [b"", b"soon", b"nan", b"-3", b"\xff"])
def test_a_damaged_record_is_ignored(tmp_path: Path, content: bytes) -> None:
    disk.record_seconds(loops, tmp_path, 7.0)
    assert estimated_seconds(loops, tmp_path) == 7.0
    [file] = tmp_path.iterdir()
    file.write_bytes(content)
    assert estimated_seconds(loops, tmp_path) == estimated_seconds(loops, None) < 1


def test_an_exception_of_a_signal_handler_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises in the callbacks of LLVM would be ignored; compiling goes on in its own thread."""
    begun, pressed = threading.Event(), threading.Event()
    triple = kernel(types.int64(types.int64))(lambda x: 3 * x)
    compile_now = triple._dispatcher.compile

    def compile_later(signature: Any) -> None:
        begun.set()
        assert pressed.wait(60)
        compile_now(signature)

    def press() -> None:
        assert begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    monkeypatch.setattr(triple._dispatcher, "compile", compile_later)
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        triple(4)
    pressed.set()
    assert triple(4) == 12  # waits for the thread that is compiling


def test_a_disabled_compiler_is_rejected_at_once() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(idbandits.__file__).parents[1])}
    command = [sys.executable, "-c", "import idbandits; idbandits.Thompson"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "unset NUMBA_DISABLE_JIT" in ended.stderr.splitlines()[-1]


PLAY = """
import numpy as np
import idbandits as idb
from idbandits.kernel import numba_private
d = idb.models.position_based(3, 2)
agent, rng = idb.Thompson(d, "moments", seed=0), np.random.default_rng(0)
for _ in range(30):
    action = agent.act()
    agent.update(action, {{"C1": int(rng.integers(2)), "C2": int(rng.integers(2))}})
agent.update_many({{"A1": [0, 1], "A2": [1, 2]}}, {{"C1": [1, 0], "C2": [0, 1]}})
world = idb.World(d, {{"attraction": [0.1, 0.5, 0.9], "examination": [0.9, 0.5]}})
frame = idb.simulate(world, {{"it": agent}}, rounds=50, runs=1, progress=False).frame
print(action, agent.posterior()["attraction"].mean.tolist(), frame["regret"].tolist(), numba_private.AVAILABLE)
"""


def test_a_numba_without_private_names_gives_the_same_results(tmp_path: Path) -> None:
    outputs = []
    for private in (True, False):
        without = "" if private else "import numba.core.codegen as codegen\ndel codegen.JITCodeLibrary\n"
        environment = os.environ | {"PYTHONPATH": str(Path(idbandits.__file__).parents[1])}
        if not private:
            environment["NUMBA_CACHE_DIR"] = str(tmp_path)
        command = [sys.executable, "-c", without + PLAY.format()]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0].endswith("True\n")
    assert outputs[1] == outputs[0].replace("True", "False")
