"""Random numbers in kernels: those that NumPy's generators draw, from the same streams.

A kernel is handed a NumPy `Generator`, of which it sees the bit generator alone: a structure of functions and their
state, which NumPy documents for use from C. Numba's own way to unpack a `Generator` runs Python code, and a signal
handler that raises an exception in there crashes the process; ours runs none, and takes a hundredth of the time.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy.random._generator as numpy_generator  # NumPy's docs call functions of this library from CFFI
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, overload_method, register_model, unbox


class BitGenerator(types.Type):
    """What a kernel sees of a `Generator`: the address of its bit generator."""

    def __init__(self) -> None:
        super().__init__(name="BitGenerator")


RNG = BitGenerator()

ADDRESS, INT, DOUBLE = cgutils.voidptr_t, ir.IntType(64), ir.DoubleType()
NEXT_DOUBLE = ir.FunctionType(DOUBLE, [ADDRESS])
# NumPy's bitgen_t: the state, and the functions of it that draw 64 bits, 32 bits, a double and raw bits
FIELDS = ir.LiteralStructType([ADDRESS, ADDRESS, ADDRESS, NEXT_DOUBLE.as_pointer(), ADDRESS])
STATE, DRAW = 0, 3
MEMORY = ir.ArrayType(INT, 64)  # more than a binomial_t, which NumPy's binomial draws note constants in


def _bit_generator_of(kind: Any, generator: Any, context: Any) -> NativeValue:
    """The address in the documented attribute `bit_generator.capsule`, read in C."""
    builder, python = context.builder, context.pyapi
    read = ir.FunctionType(ADDRESS, [ADDRESS, ADDRESS])
    read_capsule = cgutils.get_or_insert_function(builder.module, read, "PyCapsule_GetPointer")
    address = cgutils.alloca_once_value(builder, ir.Constant(ADDRESS, None))
    bits = python.object_getattr_string(generator, "bit_generator")
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, bits)):
        capsule = python.object_getattr_string(bits, "capsule")
        with cgutils.if_likely(builder, cgutils.is_not_null(builder, capsule)):
            name = context.context.insert_const_string(builder.module, "BitGenerator")
            builder.store(builder.call(read_capsule, [capsule, name]), address)
            python.decref(capsule)
        python.decref(bits)  # the generator, which the caller holds, keeps it alive
    value = builder.load(address)
    return NativeValue(value, is_error=cgutils.is_null(builder, value))


def _next_double(typing_context: Any, rng: Any) -> Any:
    """A number in [0, 1)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        fields = builder.bitcast(arguments[0], FIELDS.as_pointer())
        draw = builder.load(cgutils.gep_inbounds(builder, fields, 0, DRAW))
        return builder.call(draw, [builder.load(cgutils.gep_inbounds(builder, fields, 0, STATE))])

    return types.float64(rng), generate


def _numpy(name: str, function: ir.FunctionType) -> Callable[[Any], Any]:
    """A function of NumPy's library, declared in the module of its caller."""
    symbol = f"numpy.{name}"
    address = ctypes.cast(getattr(ctypes.CDLL(numpy_generator.__file__), name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(symbol, address)
    return lambda builder: cgutils.get_or_insert_function(builder.module, function, symbol)


NORMAL = _numpy("random_standard_normal", ir.FunctionType(DOUBLE, [ADDRESS]))
BINOMIAL = _numpy("random_binomial", ir.FunctionType(INT, [ADDRESS, DOUBLE, INT, ADDRESS]))


def _normal(typing_context: Any, rng: Any) -> Any:
    """A draw from the standard normal distribution."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(NORMAL(builder), arguments)

    return types.float64(rng), generate


def _binomial(typing_context: Any, rng: Any, n: Any, p: Any) -> Any:
    """How many of `n` succeed, each with the probability `p` in [0, 1]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = cgutils.alloca_once(builder, MEMORY)
        builder.store(ir.Constant(MEMORY, None), memory)
        rng, n, p = arguments
        return builder.call(BINOMIAL(builder), [rng, p, n, builder.bitcast(memory, ADDRESS)])

    return types.int64(rng, types.int64, types.float64), generate


next_double: Any = intrinsic(_next_double)
normal: Any = intrinsic(_normal)
binomial: Any = intrinsic(_binomial)
register_model(BitGenerator)(models.OpaqueModel)
unbox(BitGenerator)(_bit_generator_of)
# the methods of a Generator that kernels call; NumPy's binomial draws do not end for what is not a probability
overload_method(BitGenerator, "random")(lambda rng: lambda rng: next_double(rng))
overload_method(BitGenerator, "standard_normal")(lambda rng: lambda rng: normal(rng))
overload_method(BitGenerator, "binomial")(
    lambda rng, n, p: lambda rng, n, p: binomial(rng, n, p) if 0.0 < p < 1.0 else n if p >= 1.0 else 0
)
