"""How functions become machine code: compiled by Numba, kept on disk, and without work that nobody needs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

if config.DISABLE_JIT:  # type: ignore[attr-defined]  # Numba makes its settings attributes when it is imported
    raise ImportError("idbandits works with Numba's compiler only: unset NUMBA_DISABLE_JIT")

Function = TypeVar("Function", bound=Callable[..., Any])
INTS, FLOATS = types.int64[::1], types.float64[::1]


def compiled(function: Function) -> Function:
    """Compile on the first call, keep the machine code on disk, and let other threads run meanwhile."""
    return _kept(function)


def inlined(function: Function) -> Function:
    """Compile into every function that calls it: for small ones, where passing arguments costs more than the work."""
    return _kept(function, inline="always")


def _kept(function: Function, **options: Any) -> Function:
    """Compile, and keep the machine code where Numba finds a folder for it: beside the source, or one of the user's."""
    how: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}
    try:
        made: Any = njit(cache=True, **how)(function)
    except RuntimeError:  # there is none that may be written to
        return cast(Function, njit(**how)(function))
    _forget_stale(Path(made.stats.cache_path))
    return cast(Function, made)


class _Part(JITCodeLibrary):
    """Code that is linked into what calls it, and optimised there: not once more at every level of calls."""

    def finalize(self) -> None:
        """Link, and leave the rest to the callers."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """What Python runs if it calls a part: a function that raises a TypeError."""
        return cast(int, ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value)

    @property
    def codegen(self) -> _Part:
        """Where Numba puts the globals of a function that runs on its own: nowhere."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """There are none."""


class _PartCompiler(Compiler):
    """Numba's compiler, with such a library."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        part: Any = _Part
        super().__init__(typing, target, library or part(target.codegen(), "part"), *rest)  # type: ignore[no-untyped-call]


PART: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
    "pipeline_class": _PartCompiler,
}  # fmt: skip


def _as_part(function: Function, **options: Any) -> Function:
    """Compile for compiled callers only, once for all integers: Numba would do it for every constant apart."""
    made: Any = njit(**(PART | options))(function)
    template = made.get_call_template
    made.get_call_template = lambda args, kws: template([types.unliteral(a) for a in args], kws)
    return cast(Function, made)


def part(function: Function) -> Function:
    """Compile into its callers: for what makes arrays and is never called from Python."""
    return _as_part(function)


def bare(function: Function) -> Function:
    """A part that does not count references to arrays, which costs more than a small pass does.

    Such a function makes no arrays. It may return parts of those that it was handed, but to bare functions only.
    """
    return _as_part(function, _nrt=False)


def merged(function: Function) -> Function:
    """A bare function that becomes part of every caller: for the smallest passes."""
    return _as_part(function, _nrt=False, forceinline=True)


_warm: dict[int, Any] = {}  # functions by their ids, which are those of no other as long as they are here
_entries: dict[int, Any] = {}


def run(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function; the first call tells the user if it has to wait for the compiler."""
    if id(kernel) in _warm:
        return kernel(*arguments)
    result = _announced(kernel, lambda: kernel(*arguments))
    _warm[id(kernel)] = kernel
    return result


def ready(kernel: Function, signature: Any) -> Function:
    """Compile a function for these types and no others: then compiled functions can be handed it as an argument."""
    if id(kernel) not in _warm:
        dispatcher: Any = kernel
        with _compiling:
            if id(kernel) not in _warm:
                _announced(dispatcher, lambda: dispatcher.compile(signature))
                dispatcher.disable_compile()
                _warm[id(kernel)] = kernel
    return kernel


def direct(kernel: Function, signature: Any) -> Function:
    """What `ready` makes, for calls from Python with arguments that are of these types for certain: nobody looks.

    To look at a random generator takes Numba as long as to unpack it.
    """
    if id(kernel) not in _entries:
        made: Any = ready(kernel, signature)
        _entries[id(kernel)] = made.overloads[signature.args].entry_point
    return cast(Function, _entries[id(kernel)])


def compile_together(kernels: Iterable[tuple[Any, Any]], processes: int | None) -> None:
    """Compile functions for their types in several processes at once (all cores if None); the disk hands them on."""
    wanted = {
        (kernel.py_func.__module__, kernel.py_func.__qualname__, signature): None
        for kernel, signature in kernels
        if id(kernel) not in _warm and kernel.stats.cache_path is not None and not _is_kept(kernel)
    }
    if len(wanted) < 2:
        return
    _say(f"idbandits: compiling {len(wanted)} functions for the first time; the result is kept on disk …")
    started = time.perf_counter()
    others = set(active_children())
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _end_with_parent) as pool:
            try:
                with _deaf():
                    compiling = pool.map(_compile_elsewhere, *zip(*wanted, strict=True))
                list(compiling)
            except BaseException:
                for child in set(active_children()) - others:
                    child.kill()  # else it would go on to the end of its function
                raise
    except (BrokenExecutor, OSError) as error:  # no processes here, or one was killed: all is compiled in this one
        _say(f"idbandits: compiling in several processes failed ({error}); going on in one")
        return
    _say(f"idbandits: compiled in {time.perf_counter() - started:.0f} s")


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Hold Ctrl-C back: processes that are started meanwhile never hear it, and leave it to this one to end them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_kept(kernel: Any) -> bool:
    """Whether there is machine code on disk; if it is for another machine, it is compiled again later."""
    function = kernel.py_func
    source = Path(function.__code__.co_filename)
    pattern = f"{source.stem}.{function.__qualname__}-{function.__code__.co_firstlineno}.*.nbi"
    return any(Path(kernel.stats.cache_path).glob(pattern))


def _end_with_parent() -> None:
    """In a process of its own: end with the one that began it, which may be killed and then tells nobody."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compile_elsewhere(module: str, name: str, signature: Any) -> None:
    """In a process of its own: compile a function, which leaves the result on disk."""
    attrgetter(name)(importlib.import_module(module)).compile(signature)


def in_python(kernel: Function) -> Function:
    """The same function without compilation, for what is done once and costs less than the compiler."""
    dispatcher: Any = kernel
    return cast(Function, dispatcher.py_func)


_compiling = threading.Lock()


def _announced(kernel: Any, work: Callable[[], Any]) -> Any:
    notice = threading.Timer(1.0, _say, ["idbandits: compiling for the first time; the result is kept on disk …"])
    notice.daemon = True
    started = time.perf_counter()
    notice.start()
    try:
        result = work()
    finally:
        notice.cancel()
    if sum(kernel.stats.cache_misses.values()) and time.perf_counter() - started > 1.0:
        _say(f"idbandits: compiled {kernel.__name__} in {time.perf_counter() - started:.1f} s")
    return result


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


MARK = b"idbandits.kernel.compiling"  # in every source of machine code, but for constants of `tables`


@functools.cache
def _changed() -> float:
    """When a source of machine code was changed last."""
    folder = Path(__file__).parent.parent
    sources = [source for source in folder.rglob("*.py") if MARK in source.read_bytes()]
    return max(source.stat().st_mtime for source in [folder / "diagram" / "tables.py", *sources])


@functools.cache
def _forget_stale(folder: Path) -> None:
    """Delete machine code that is older than a source of it: Numba looks only at the file of the outermost function."""
    for kept in folder.glob("*.nb[ic]"):  # Numba's indices, and the machine code that they name
        with contextlib.suppress(OSError):
            if kept.stat().st_mtime < _changed():
                kept.unlink()
