"""Private names of Numba: linking of functions, calls by address, machine code of packs, draws of normal numbers.

No other file uses them. `AVAILABLE` is False if this version of Numba lacks one; public means then do the same, slower.
"""

from __future__ import annotations

import contextlib
import ctypes
import pickle
from collections.abc import Callable
from typing import Any, cast

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic


def _linking_options() -> dict[str, Any]:
    """Return the options by which Numba links a function into its callers and optimises it there; {} if it cannot."""
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
        """Code that is linked into its callers, and optimised there."""

        def finalize(self) -> None:
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:  # a call from Python raises a TypeError
            return cast(int, ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value)

        @property
        def codegen(self) -> Library:  # Numba stores the globals of a function there, by `set_env`
            return self

        def set_env(self, name: str, env: Any) -> None:
            pass

    class LinkingCompiler(Compiler):
        def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
            new_library: Any = Library
            super().__init__(typing, target, library or new_library(target.codegen(), "linked"), *rest)  # type: ignore[no-untyped-call]

    return {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": LinkingCompiler}


LINKING = _linking_options()
AVAILABLE = bool(LINKING)
UNCOUNTED: dict[str, Any] = {"_nrt": False} if AVAILABLE else {}  # no counts of references to arrays


def compile_once_for_all_integers(dispatcher: Any) -> None:
    """Make a dispatcher treat constants as any integer: Numba would compile the function once for each of them."""
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template([types.unliteral(a) for a in args], kws)


def address_of(dispatcher: Any, signature: Any) -> int:
    """Return the address of the machine code of a compiled function."""
    code = dispatcher.overloads[signature.args]
    return cast(int, code.library.get_pointer_to_function(code.fndesc.llvm_func_name))


def emit_function(context: Any, builder: Any, function_type: Any, address: Any) -> Any:
    """Emit the value of a function type that calls the machine code at an address."""
    function = cgutils.create_struct_proxy(function_type)(context, builder)
    function.jit_addr = function.c_addr = builder.inttoptr(address, cgutils.voidptr_t)
    function.py_addr = ir.Constant(cgutils.voidptr_t, None)
    return function._getvalue()


class PackedCache:
    """Cache of a function on disk that falls back to machine code from elsewhere."""

    def __init__(self, on_disk: Any, packed: Callable[[], bytes | None]) -> None:
        self._on_disk, self._packed = on_disk, packed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._on_disk, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return a compiled function; None if there is none, or none that can be loaded."""
        loaded = self._on_disk.load_overload(signature, context)
        if loaded is None:
            from numba.core.compiler import CompileResult

            context.refresh()
            with contextlib.suppress(Exception):
                if (code := self._packed()) is not None:
                    loaded = CompileResult._rebuild(context, *pickle.loads(code))
        return loaded


def add_packed_code(dispatcher: Any, packed: Callable[[], bytes | None]) -> None:
    """Make a dispatcher load packed machine code if there is none on disk."""
    dispatcher._cache = PackedCache(dispatcher._cache, packed)


def code_on_disk(dispatcher: Any, signature: Any) -> bytes:
    """Return machine code on disk in the form that `PackedCache` loads."""
    from numba.core.serialize import dumps

    cache = dispatcher._cache
    reduced = list(cache._cache_file.load(cache._index_key(signature, dispatcher.targetctx.codegen())))
    name, kind, (machine_code, intermediate_code) = reduced[0]
    reduced[0] = name, kind, (machine_code, _symbols(intermediate_code))
    reduced[6] = ""  # types of variables as a text, for debugging
    return cast(bytes, dumps(tuple(reduced)))


def _symbols(intermediate_code: bytes) -> bytes:
    """Reduce intermediate code to its symbols, a fourth of the size: kernels are not linked into other functions."""
    module = binding.parse_bitcode(intermediate_code)
    functions = [
        f'define void @"{each.name}"() {{ unreachable }}' for each in module.functions if not each.is_declaration
    ]
    variables = [f'@"{each.name}" = global i8 0' for each in module.global_variables if not each.is_declaration]
    return cast(bytes, binding.parse_assembly("\n".join(functions + variables)).as_bitcode())


def processor_features() -> set[str]:
    """Return the features of processors, as LLVM names them, that Numba may use in this process."""
    features = config.CPU_FEATURES  # type: ignore[attr-defined]  # Numba defines its settings when it is imported
    text = get_host_cpu_features() if features is None else features
    return {feature[1:] for feature in text.split(",") if feature.startswith("+")}


standard_normal: Any = None  # Numba's draw of a normal number
with contextlib.suppress(ImportError):
    from numba.core.types import NumPyRandomBitGeneratorType
    from numba.np.random.distributions import random_standard_normal

    standard_normal = random_standard_normal


def _as_numba_bit_generator(typing_context: Any, rng: Any) -> Any:
    kind = NumPyRandomBitGeneratorType("bit_generator")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        target = cgutils.create_struct_proxy(kind)(context, builder)
        target.state = builder.ptrtoint(source.state, ir.IntType(64))
        target.fnptr_next_uint64 = builder.ptrtoint(source.next_uint64, ir.IntType(64))
        target.fnptr_next_double = builder.ptrtoint(source.next_double, ir.IntType(64))
        return target._getvalue()

    return kind(rng), generate


# In kernels: convert a bit generator of `kernel.rng` into what `standard_normal` takes.
as_numba_bit_generator: Any = intrinsic(_as_numba_bit_generator)
