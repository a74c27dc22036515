"""Kernels: functions compiled by Numba on first use, cached on disk, called from Python or by address.

A *kernel* is called by Python, or passed to another kernel as an argument, and is compiled for one signature. Functions
that only kernels call are decorated with `linked`, `unmanaged` or `inlined` and compiled into the kernels.

Numba optimises a function again at every level of calls. Linked functions are optimised once, in the kernel, which
halves the compile time (`kernel.numba_private`).
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from operator import attrgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast, final

from numba import config, njit, types
from numba.extending import intrinsic

from idbandits.kernel import disk_cache as disk
from idbandits.kernel import numba_private as private
from idbandits.kernel import pack as packs
from idbandits.kernel.messages import say

if config.DISABLE_JIT:  # type: ignore[attr-defined]  # Numba defines its settings when it is imported
    raise ImportError("idbandits needs Numba's compiler: unset NUMBA_DISABLE_JIT")

Function = TypeVar("Function", bound=Callable[..., Any])
INTS, FLOATS = types.int64[::1], types.float64[::1]
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
PER_BYTE = 2e-4  # seconds to compile a byte of Python's bytecode, roughly, if nothing better is known
PATIENCE = 1.0  # seconds of work that are not announced
STARTING = 1.5  # seconds until a process has started


def linked(function: Function, **options: Any) -> Function:
    """Compile a function into the kernels that call it; it may create arrays."""
    dispatcher: Any = njit(**(OPTIONS | private.LINKING | options))(function)
    if private.AVAILABLE:
        private.compile_once_for_all_integers(dispatcher)
    return cast(Function, dispatcher)


def unmanaged(function: Function) -> Function:
    """Link a function that does not count references: it creates no arrays, and returns none to managed callers."""
    return linked(function, **private.UNCOUNTED)


def inlined(function: Function) -> Function:
    """Link an unmanaged function that is inlined into every caller: for the smallest functions."""
    return linked(function, **private.UNCOUNTED, forceinline=True)


def in_python(function: Function) -> Function:
    """Return a linked function without compilation, for work done once that costs less than the compiler."""
    return cast(Function, cast(Any, function).py_func)


_compiling = threading.Lock()
atexit.register(_compiling.acquire)  # do not exit while LLVM is working


@final
class Kernel:
    """Function compiled for one signature when it is first called; callers guarantee the types of its arguments.

    Parameters
    ----------
    function : function
        Python function that Numba can compile.
    signature : Numba signature
        Types of the result and the arguments.

    Examples
    --------
    >>> from numba import types
    >>> double = Kernel(lambda x: 2 * x, types.int64(types.int64))
    >>> double(21)
    42
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.function, self.signature = function, signature
        self._address: Any = None  # of the machine code, once compiled; the dispatcher if there are no private names
        try:
            self._dispatcher: Any = njit(cache=True, **OPTIONS)(function)
            self.folder: Path | None = Path(self._dispatcher.stats.cache_path)
            disk.delete_stale(self.folder)
        except RuntimeError:  # neither the folder of the source nor one of the user is writable
            self._dispatcher, self.folder = njit(**OPTIONS)(function), None
        if private.AVAILABLE:
            private.add_packed_code(self._dispatcher, self._packed_code)
        functools.update_wrapper(self, function)

    def compile(self) -> None:
        """Compile the function, or load its machine code from disk; announce it if that takes long.

        Another thread does the work: signal handlers run in the main thread, and an exception that one of them raises
        would be lost in the callbacks of LLVM. So it is raised at once, and the other thread finishes.
        """
        if self._address is not None:
            return
        finished: SimpleQueue[BaseException | None] = SimpleQueue()  # not Future, whose result must not be interrupted

        def work() -> None:
            error = None
            try:
                with _compiling:
                    self._compile()
            except BaseException as own:
                error = own
            finished.put(error)

        seconds, name = estimated_seconds(self.function, self.folder), self.function.__qualname__
        cached = "; the result is kept on disk …" if self.folder is not None else " …"
        notice = f"compiling {name}, about {max(seconds, 2.0):.0f} s{cached}"
        packed = self.is_packed()
        announced = seconds > PATIENCE and not packed and (self.folder is None or not self.is_on_disk())
        if announced:
            say(notice)
        started = time.perf_counter()
        _thread.start_new_thread(work, ())  # not threading.Thread, whose start must not be interrupted
        try:
            error = finished.get(timeout=PATIENCE)
        except Empty:
            if not announced and not packed:
                say(notice)
            error = finished.get()
        if error is not None:
            raise error
        took = time.perf_counter() - started
        if sum(self._dispatcher.stats.cache_misses.values()) and (announced or took > PATIENCE):
            say(f"compiled {name} in {took:.1f} s")

    def _compile(self) -> None:
        """Load intact machine code, or compile and add checksums."""
        if self._address is not None:
            return  # another thread has done it
        if not disk.are_intact(self._files()):
            disk.delete(self._files())
        started = time.perf_counter()
        try:
            self._dispatcher.compile(self.signature)
        except Exception:
            if self.signature.args not in self._dispatcher.overloads:  # else only writing to the disk failed
                disk.delete(self._files())
                self._dispatcher.compile(self.signature)
        if self._dispatcher.stats.cache_misses:
            disk.add_checksums(self._files())
            if self.folder is not None:
                disk.record_seconds(self.function, self.folder, time.perf_counter() - started)
        # ask LLVM for the address here: in the main thread, a signal would leave LLVM locked
        available = private.AVAILABLE
        self._address = private.address_of(self._dispatcher, self.signature) if available else self._dispatcher

    def _files(self) -> list[Path]:
        return [] if self.folder is None else disk.files_of(self.function, self.folder)

    @functools.cached_property
    def entry(self) -> Callable[..., Any]:
        """Entry point for Python, without checks of types."""
        self.compile()
        return cast(Callable[..., Any], self._dispatcher.overloads[self.signature.args].entry_point)

    @functools.cached_property
    def handle(self) -> Any:
        """Argument that passes the kernel to another one, of type `handle_type`; `function_at` makes it callable."""
        self.compile()  # an address, because Numba needs 70 µs to pass a function to a kernel
        if not private.AVAILABLE:
            self._dispatcher.disable_compile()
        return self._address

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel."""
        return self.entry(*arguments)

    def __reduce__(self) -> Any:
        return _named, (self.function.__module__, self.function.__qualname__)

    def is_on_disk(self) -> bool:
        """Return whether there is machine code on disk, perhaps of another machine; True if there cannot be any."""
        return self.folder is None or self.is_packed() or bool(disk.indices_of(self.function, self.folder))

    def is_packed(self) -> bool:
        """Return whether the package brings machine code of the function for this machine."""
        return (pack := packs.usable()) is not None and name_of(self) in pack.places

    def _packed_code(self) -> bytes | None:
        return pack.code(name_of(self)) if self.is_packed() and (pack := packs.usable()) is not None else None

    def code_on_disk(self) -> bytes:
        """Return the machine code on disk, for a pack."""
        return private.code_on_disk(self._dispatcher, self.signature)


def name_of(kernel: Any) -> str:
    """Return the name of a kernel in packs."""
    return f"{kernel.function.__module__}:{kernel.function.__qualname__}"


def estimated_seconds(function: Any, folder: Path | None) -> float:
    """Estimate the compile time of a function: that of the last time, else from the size of its bytecode."""
    recorded = None if folder is None else disk.recorded_seconds(function, folder)
    return PER_BYTE * _bytecode(function, set()) if recorded is None else recorded


def _bytecode(function: Any, counted: set[Any]) -> int:
    """Return the bytes of Python's bytecode of a function and of all linked functions it reaches, each counted once."""
    if function in counted:
        return 0
    counted.add(function)
    names = function.__code__.co_names
    values = [function.__globals__.get(name) for name in names]
    values += [getattr(module, name, None) for module in values if isinstance(module, ModuleType) for name in names]
    values += [cell.cell_contents for cell in function.__closure__ or ()]
    callees = [value.py_func for value in values if hasattr(value, "py_func")]
    return len(function.__code__.co_code) + sum(_bytecode(callee, counted) for callee in callees)


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that turns a function into a kernel.

    Parameters
    ----------
    signature : Numba signature
        Types of the result and the arguments.

    Returns
    -------
    function
        Decorator that returns a `Kernel`.

    Examples
    --------
    >>> from numba import types
    >>> @kernel(types.int64(types.int64))
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    return lambda function: Kernel(function, signature)


def generated(template: Callable[..., Any], signature: Any, name: str, work: Any) -> Kernel:
    """Return a kernel with the code of a template whose global name `work` stands for a linked function.

    It reports the file and line of the linked function, so that Numba can cache it: closures are not cached.
    """
    function: Any = in_python(work)
    at, last = function.__code__, name.rpartition(".")[2]
    code = template.__code__.replace(
        co_filename=at.co_filename, co_firstlineno=at.co_firstlineno, co_name=last, co_qualname=name
    )
    copy = FunctionType(code, {**template.__globals__, "work": work}, code.co_name, template.__defaults__)
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, name, function.__doc__
    return Kernel(copy, signature)


def handle_type(signature: Any) -> Any:
    """Return the type of the handles of kernels with this signature."""
    return types.int64 if private.AVAILABLE else types.FunctionType(signature)


def function_at(signature: Any) -> Any:
    """Return a function for kernels that makes the handle of a kernel with this signature callable."""

    @intrinsic
    def callable_at(typing_context: Any, handle: Any) -> Any:
        function_type = types.FunctionType(signature)

        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            [value] = arguments
            return private.emit_function(context, builder, function_type, value) if private.AVAILABLE else value

        return function_type(handle), generate

    return callable_at


def compile_together(kernels: Iterable[Kernel], processes: int | None) -> None:
    """Compile kernels in several processes (one per core if None), which leave machine code on disk."""
    missing = {(k.function.__module__, k.function.__qualname__): k for k in kernels if not k.is_on_disk()}
    if len(missing) < 2:
        return
    seconds = {names: estimated_seconds(kernel.function, kernel.folder) for names, kernel in missing.items()}
    longest_first = sorted(missing, key=lambda names: -seconds[names])
    longest, at_once = longest_first[0], min(processes or os.cpu_count() or 1, len(missing))
    about = f"about {STARTING + max(seconds[longest], sum(seconds.values()) / at_once):.0f} s"
    say(f"compiling {len(missing)} functions, of which {longest[1]} takes longest, {about}; kept on disk …")
    started, others = time.perf_counter(), set(active_children())
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _exit_with_parent) as pool:
            try:
                with _sigint_blocked():
                    compiling = pool.map(_compile_named, *zip(*longest_first, strict=True))
                list(compiling)
            except BaseException:
                for child in set(active_children()) - others:
                    child.kill()  # or it would finish its function first
                raise
    except (BrokenExecutor, OSError) as error:  # processes cannot be started, or one was killed
        say(f"compiling in several processes failed ({error}); going on in one")
        return
    say(f"compiled in {time.perf_counter() - started:.0f} s")


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block Ctrl-C: processes started meanwhile never receive it, and this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_with_parent() -> None:
    """Exit a worker process when its parent ends, which may be killed without notice."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _named(module: str, name: str) -> Any:
    """Return the kernel with this name."""
    return attrgetter(name)(importlib.import_module(module))


def _compile_named(module: str, name: str) -> None:
    """Compile a kernel in a worker process."""
    _named(module, name).compile()
