"""Random numbers in kernels: those that NumPy's generators draw, from the same streams.

A kernel is handed a NumPy `Generator`, of which it sees the bit generator alone: a structure of functions and their
state, which NumPy documents for use from C. Numba's own way to unpack a `Generator` runs Python code, and a signal
handler that raises an exception in there crashes the process; ours runs none, and takes a hundredth of the time.

Normal draws are Numba's, which it merges into kernels, or else NumPy's own, which are the same but slower.
"""

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy.random._generator as numpy_generator  # NumPy's docs call functions of this library from CFFI
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, overload_method, register_model, unbox

random_standard_normal: Any = None
with contextlib.suppress(ImportError):  # private names
    from numba.core.types import NumPyRandomBitGeneratorType
    from numba.np.random.distributions import random_standard_normal

ADDRESS, INT, DOUBLE = cgutils.voidptr_t, ir.IntType(64), ir.DoubleType()
FIELDS = "state", "next_uint64", "next_uint32", "next_double", "next_raw"  # of NumPy's bitgen_t, all addresses
MEMORY = ir.ArrayType(INT, 64)  # more than a binomial_t, which NumPy's binomial draws note constants in


class BitGenerator(types.Type):
    """What a kernel sees of a `Generator`."""

    def __init__(self) -> None:
        super().__init__(name="BitGenerator")


class Layout(models.StructModel):
    """How a kernel holds it: the fields of a bitgen_t, and its address."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.voidptr) for name in (*FIELDS, "address")])  # type: ignore[no-untyped-call]


RNG = BitGenerator()


def _unpack(kind: Any, generator: Any, context: Any) -> NativeValue:
    """Read the documented attribute `bit_generator.capsule`, in C."""
    builder, python = context.builder, context.pyapi
    read = ir.FunctionType(ADDRESS, [ADDRESS, ADDRESS])
    read_capsule = cgutils.get_or_insert_function(builder.module, read, "PyCapsule_GetPointer")
    rng = cgutils.create_struct_proxy(kind)(context.context, builder)
    bits = python.object_getattr_string(generator, "bit_generator")
    with builder.if_then(cgutils.is_not_null(builder, bits)):
        capsule = python.object_getattr_string(bits, "capsule")
        with builder.if_then(cgutils.is_not_null(builder, capsule)):
            name = context.context.insert_const_string(builder.module, "BitGenerator")
            rng.address = builder.call(read_capsule, [capsule, name])
            python.decref(capsule)
        python.decref(bits)  # the generator, which the caller holds, keeps it alive
    missing = cgutils.is_null(builder, rng.address)  # and Python knows the error
    with builder.if_then(builder.not_(missing)):
        fields = builder.bitcast(rng.address, ADDRESS.as_pointer())
        for number, field in enumerate(FIELDS):
            setattr(rng, field, builder.load(cgutils.gep(builder, fields, number)))
    return NativeValue(rng._getvalue(), is_error=missing)


def _next_double(typing_context: Any, rng: Any) -> Any:
    """A number in [0, 1)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        its = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        draw = builder.bitcast(its.next_double, ir.FunctionType(DOUBLE, [ADDRESS]).as_pointer())
        return builder.call(draw, [its.state])

    return types.float64(rng), generate


def _as_numbas(typing_context: Any, rng: Any) -> Any:
    """What Numba makes of the same bit generator."""
    kind = NumPyRandomBitGeneratorType("bit_generator")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ours = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        numbas = cgutils.create_struct_proxy(kind)(context, builder)
        numbas.state = builder.ptrtoint(ours.state, INT)
        numbas.fnptr_next_uint64 = builder.ptrtoint(ours.next_uint64, INT)
        numbas.fnptr_next_double = builder.ptrtoint(ours.next_double, INT)
        return numbas._getvalue()

    return kind(rng), generate


def _numpys(name: str, function: ir.FunctionType) -> Callable[[Any], Any]:
    """A function of NumPy's library, declared in the module of its caller."""
    symbol = f"numpy.{name}"
    address = ctypes.cast(getattr(ctypes.CDLL(numpy_generator.__file__), name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(symbol, address)
    return lambda builder: cgutils.get_or_insert_function(builder.module, function, symbol)


NORMAL = _numpys("random_standard_normal", ir.FunctionType(DOUBLE, [ADDRESS]))
BINOMIAL = _numpys("random_binomial", ir.FunctionType(INT, [ADDRESS, DOUBLE, INT, ADDRESS]))


def _normal(typing_context: Any, rng: Any) -> Any:
    """A draw from the standard normal distribution."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        its = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        return builder.call(NORMAL(builder), [its.address])

    return types.float64(rng), generate


def _binomial(typing_context: Any, rng: Any, n: Any, p: Any) -> Any:
    """How many of `n` succeed, each with the probability `p` in [0, 1]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        its = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        memory = cgutils.alloca_once(builder, MEMORY)
        builder.store(ir.Constant(MEMORY, None), memory)
        return builder.call(
            BINOMIAL(builder), [its.address, arguments[2], arguments[1], builder.bitcast(memory, ADDRESS)]
        )

    return types.int64(rng, types.int64, types.float64), generate


register_model(BitGenerator)(Layout)
unbox(BitGenerator)(_unpack)
next_double: Any = intrinsic(_next_double)
as_numbas: Any = intrinsic(_as_numbas)
normal: Any = intrinsic(_normal)
binomial: Any = intrinsic(_binomial)

# the methods of a Generator that kernels call; NumPy's binomial draws do not end for what is not a probability
overload_method(BitGenerator, "random")(lambda rng: lambda rng: next_double(rng))
overload_method(BitGenerator, "standard_normal")(
    (lambda rng: lambda rng: random_standard_normal(as_numbas(rng)))
    if random_standard_normal
    else (lambda rng: lambda rng: normal(rng))
)
overload_method(BitGenerator, "binomial")(
    lambda rng, n, p: lambda rng, n, p: binomial(rng, n, p) if 0.0 < p < 1.0 else n if p >= 1.0 else 0
)
