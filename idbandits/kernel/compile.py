"""How functions become kernels: compiled by Numba on first use, kept on disk, called from Python or by address.

A *kernel* is what Python calls, or what another kernel is handed as an argument. It is compiled for one signature. What
kernels are made of are parts (`linked`, `unmanaged`, `inlined`): functions that only kernels call, compiled into them.

Numba optimises a function anew at every level of calls. Parts are linked only, and optimised once, in the kernel, which
takes half of the time. That needs private names of Numba; where one is missing, public means do the same, more slowly.
"""

from __future__ import annotations

import _thread
import atexit
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
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from multiprocessing import active_children, get_context, parent_process
from operator import attrgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast, final

from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from idbandits.kernel import disk_cache as disk

if config.DISABLE_JIT:  # type: ignore[attr-defined]  # Numba makes its settings attributes when it is imported
    raise ImportError("idbandits works with Numba's compiler only: unset NUMBA_DISABLE_JIT")

Function = TypeVar("Function", bound=Callable[..., Any])
INTS, FLOATS = types.int64[::1], types.float64[::1]
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
PER_BYTE = 2e-4  # seconds that a byte of Python's bytecode takes to compile, roughly, where nothing better is known
PATIENCE = 1.0  # seconds of work that nobody needs to be told of
STARTING = 1.5  # seconds that a process takes to start


def _private_options() -> dict[str, Any]:
    """Options by which Numba links a part into its callers and optimises it there; none if this Numba cannot."""
    try:
        from numba.core.codegen import JITCodeLibrary
        from numba.core.compiler import Compiler
        from numba.core.dispatcher import Dispatcher
        from numba.core.options import DefaultOptions

        _ = JITCodeLibrary._get_module_for_linking, Dispatcher.get_call_template
        _ = DefaultOptions._nrt, DefaultOptions.no_cfunc_wrapper
    except (ImportError, AttributeError):
        return {}

    class Library(JITCodeLibrary):
        """Code that is linked into what calls it, and optimised there."""

        def finalize(self) -> None:
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:  # what Python would call raises a TypeError
            return cast(int, ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value)

        @property
        def codegen(self) -> Library:  # where Numba puts the globals of a function that runs on its own: nowhere
            return self

        def set_env(self, name: str, env: Any) -> None:
            pass

    class PartCompiler(Compiler):
        def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
            made: Any = Library
            super().__init__(typing, target, library or made(target.codegen(), "part"), *rest)  # type: ignore[no-untyped-call]

    return {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}


PRIVATE = _private_options()
UNCOUNTED: dict[str, Any] = {"_nrt": False} if PRIVATE else {}


def linked(function: Function, **options: Any) -> Function:
    """Compile into its callers: for functions that make arrays."""
    dispatcher: Any = njit(**(OPTIONS | PRIVATE | options))(function)
    if PRIVATE:  # once for all integers: Numba would do it for every constant apart
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template([types.unliteral(a) for a in args], kws)
    return cast(Function, dispatcher)


def unmanaged(function: Function) -> Function:
    """A part that does not count references to arrays: it makes none, and returns parts of them to bare parts only."""
    return linked(function, **UNCOUNTED)


def inlined(function: Function) -> Function:
    """A bare part that is inlined into every caller: for the smallest functions."""
    return linked(function, **UNCOUNTED, forceinline=True)


def in_python(function: Function) -> Function:
    """The same function without compilation, for what is done once and costs less than the compiler."""
    return cast(Function, cast(Any, function).py_func)


_compiling = threading.Lock()
atexit.register(_compiling.acquire)  # LLVM is not to be left in the middle of its work


@final
class Kernel:
    """A function compiled for one signature when it is first called; callers guarantee the types of its arguments."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.function, self.signature = function, signature
        self._address: Any = None  # of the machine code, once it is there
        try:
            self._dispatcher: Any = njit(cache=True, **OPTIONS)(function)
            self.folder: Path | None = Path(self._dispatcher.stats.cache_path)
            disk.delete_stale(self.folder)
        except RuntimeError:  # no folder may be written to, neither that of the source nor one of the user's
            self._dispatcher, self.folder = njit(**OPTIONS)(function), None
        functools.update_wrapper(self, function)

    def compile(self) -> None:
        """Compile it, or read the machine code from the disk; the user is told if that takes long.

        That happens in another thread: handlers of signals run in the main thread, and an exception that one of them
        raised would be lost in the callbacks of LLVM. Here it is raised at once, and the other thread goes on.
        """
        if self._address is not None:
            return
        compiled: Future[None] = Future()

        def work() -> None:
            try:
                with _compiling:
                    self._compile()
                compiled.set_result(None)
            except BaseException as error:
                compiled.set_exception(error)

        seconds, name = estimated_seconds(self.function, self.folder), self.function.__qualname__
        announced = seconds > PATIENCE and (self.folder is None or not self.is_on_disk())
        kept = "; the result is kept on disk …" if self.folder is not None else " …"
        notice = f"idbandits: compiling {name}, about {max(seconds, 2.0):.0f} s{kept}"
        if announced:
            _say(notice)
        started = time.perf_counter()
        _thread.start_new_thread(work, ())  # not threading.Thread, whose start must not be interrupted
        if not wait([compiled], timeout=PATIENCE).done and not announced:
            _say(notice)
        compiled.result()
        took = time.perf_counter() - started
        if sum(self._dispatcher.stats.cache_misses.values()) and (announced or took > PATIENCE):
            _say(f"idbandits: compiled {name} in {took:.1f} s")

    def _compile(self) -> None:
        """Use what is on disk, if it is sound; add checksums to what is new there."""
        if self._address is not None:
            return  # another thread did it meanwhile
        if not disk.are_sound(self._files()):
            disk.delete(self._files())
        started = time.perf_counter()
        try:
            self._dispatcher.compile(self.signature)
        except Exception:
            if self.signature.args not in self._dispatcher.overloads:  # else it only could not be kept on disk
                disk.delete(self._files())
                self._dispatcher.compile(self.signature)
        if self._dispatcher.stats.cache_misses:
            disk.add_checksums(self._files())
            if self.folder is not None:
                disk.note_seconds(self.function, self.folder, time.perf_counter() - started)
        self._address = self._find_address()

    def _find_address(self) -> Any:
        """Ask LLVM where the machine code is: not in the main thread, where a signal would leave LLVM locked."""
        if not PRIVATE:
            return self._dispatcher
        code = self._dispatcher.overloads[self.signature.args]
        return code.library.get_pointer_to_function(code.fndesc.llvm_func_name)

    def _files(self) -> list[Path]:
        return [] if self.folder is None else disk.files_of(self.function, self.folder)

    @functools.cached_property
    def entry(self) -> Callable[..., Any]:
        """What Python calls: straight into the machine code, without a look at types."""
        self.compile()
        return cast(Callable[..., Any], self._dispatcher.overloads[self.signature.args].entry_point)

    @functools.cached_property
    def handle(self) -> Any:
        """By what other kernels are handed it: `handle_type` has its type, and `function_at` makes it callable."""
        self.compile()  # an address, because to hand a function to a kernel takes Numba 70 µs
        if not PRIVATE:
            self._dispatcher.disable_compile()
        return self._address

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        return self.entry(*arguments)

    def __reduce__(self) -> Any:
        return _named, (self.function.__module__, self.function.__qualname__)

    def is_on_disk(self) -> bool:
        """Whether there is machine code on disk; if it is for another machine, it is compiled again later."""
        return self.folder is None or bool(disk.indices_of(self.function, self.folder))  # None: nor can there be


def estimated_seconds(function: Any, folder: Path | None) -> float:
    """About how long a function takes to compile: as long as last time, else by the size of its code."""
    noted = None if folder is None else disk.noted_seconds(function, folder)
    return PER_BYTE * _bytecode(function, set()) if noted is None else noted


def _bytecode(function: Any, counted: set[Any]) -> int:
    """The bytes of Python's bytecode of a function and of all parts that it reaches, each counted once."""
    if function in counted:
        return 0
    counted.add(function)
    code = function.__code__
    values = [function.__globals__.get(name) for name in code.co_names]
    values += [
        getattr(module, name, None) for module in values if isinstance(module, ModuleType) for name in code.co_names
    ]
    values += [cell.cell_contents for cell in function.__closure__ or ()]
    parts = [value.py_func for value in values if hasattr(value, "py_func")]
    return len(code.co_code) + sum(_bytecode(part, counted) for part in parts)


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel with this signature."""
    return lambda function: Kernel(function, signature)


def generated(template: Callable[..., Any], signature: Any, name: str, work: Any) -> Kernel:
    """A kernel with the code of a template, in which the global name `work` stands for this part.

    It is as if it was written where its part is, under this name: Numba does not keep closures on disk.
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
    """The type of the handles of kernels with this signature."""
    return types.int64 if PRIVATE else types.FunctionType(signature)


def function_at(signature: Any) -> Any:
    """A function for kernels that turns the handle of a kernel with this signature into what can be called."""

    @intrinsic
    def called(typing_context: Any, handle: Any) -> Any:
        function_type = types.FunctionType(signature)

        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            if not PRIVATE:
                return arguments[0]
            function = cgutils.create_struct_proxy(function_type)(context, builder)
            function.jit_addr = function.c_addr = builder.inttoptr(arguments[0], cgutils.voidptr_t)
            function.py_addr = ir.Constant(cgutils.voidptr_t, None)
            return function._getvalue()

        return function_type(handle), generate

    return called


def compile_together(kernels: Iterable[Kernel], processes: int | None) -> None:
    """Compile kernels in several processes at once (one per core if None); the disk hands them on."""
    missing = {(k.function.__module__, k.function.__qualname__): k for k in kernels if not k.is_on_disk()}
    if len(missing) < 2:
        return
    seconds = {name: estimated_seconds(kernel.function, kernel.folder) for (_, name), kernel in missing.items()}
    longest = max(seconds, key=seconds.__getitem__)
    at_once = min(processes or os.cpu_count() or 1, len(missing))
    about = f"about {STARTING + max(seconds[longest], sum(seconds.values()) / at_once):.0f} s"
    _say(f"idbandits: compiling {len(missing)} functions, of which {longest} takes longest, {about}; kept on disk …")
    started, others = time.perf_counter(), set(active_children())
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _end_with_parent) as pool:
            try:
                with _sigint_blocked():
                    longest_first = sorted(missing, key=lambda names: -seconds[names[1]])
                    compiling = pool.map(_compile_named, *zip(*longest_first, strict=True))
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
def _sigint_blocked() -> Iterator[None]:
    """Hold Ctrl-C back: processes that are started meanwhile never get it, and leave it to this one to end them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In a process of its own: end with the one that began it, which may be killed without notice."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _named(module: str, name: str) -> Any:
    """The kernel with this name."""
    return attrgetter(name)(importlib.import_module(module))


def _compile_named(module: str, name: str) -> None:
    """In a process of its own: compile a kernel, which leaves the result on disk."""
    _named(module, name).compile()


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
