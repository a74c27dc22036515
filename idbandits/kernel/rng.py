"""Random numbers in kernels: the draws of NumPy's generators, from the same streams.

A kernel sees the bit generator of a NumPy `Generator`: a structure of functions and their state, which NumPy documents
for use from C. Numba's way to unpack a `Generator` runs Python code, and a signal handler that raises an exception
there crashes the process; ours runs none, and takes a hundredth of the time.
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

from idbandits.kernel.numba_private import as_numba_bit_generator, standard_normal

ADDRESS, INT, DOUBLE = cgutils.voidptr_t, ir.IntType(64), ir.DoubleType()
FIELDS = "state", "next_uint64", "next_uint32", "next_double", "next_raw"  # of NumPy's bitgen_t, all addresses
SCRATCH = ir.ArrayType(INT, 64)  # larger than NumPy's binomial_t, in which binomial draws store constants


class BitGenerator(types.Type):
    """Type of a `Generator` in kernels."""

    def __init__(self) -> None:
        super().__init__(name="BitGenerator")


class BitGeneratorModel(models.StructModel):
    """Fields of a bit generator in kernels: those of a bitgen_t, and its address."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.voidptr) for name in (*FIELDS, "address")])  # type: ignore[no-untyped-call]


RNG = BitGenerator()


def _unpack(kind: Any, generator: Any, context: Any) -> NativeValue:
    """Read the documented attribute `bit_generator.capsule`, in C."""
    builder, python = context.builder, context.pyapi
    signature = ir.FunctionType(ADDRESS, [ADDRESS, ADDRESS])
    read_capsule = cgutils.get_or_insert_function(builder.module, signature, "PyCapsule_GetPointer")
    rng = cgutils.create_struct_proxy(kind)(context.context, builder)
    bits = python.object_getattr_string(generator, "bit_generator")
    with builder.if_then(cgutils.is_not_null(builder, bits)):
        capsule = python.object_getattr_string(bits, "capsule")
        with builder.if_then(cgutils.is_not_null(builder, capsule)):
            name = context.context.insert_const_string(builder.module, "BitGenerator")
            rng.address = builder.call(read_capsule, [capsule, name])
            python.decref(capsule)
        python.decref(bits)  # the generator, which the caller holds, keeps it alive
    missing = cgutils.is_null(builder, rng.address)  # then Python has set an error
    with builder.if_then(builder.not_(missing)):
        fields = builder.bitcast(rng.address, ADDRESS.as_pointer())
        for number, field in enumerate(FIELDS):
            setattr(rng, field, builder.load(cgutils.gep(builder, fields, number)))
    return NativeValue(rng._getvalue(), is_error=missing)


def _numpy_function(name: str, function: ir.FunctionType) -> Callable[[Any], Any]:
    """Return a function that declares a function of NumPy's library in the module of its caller."""
    symbol = f"numpy.{name}"
    address = ctypes.cast(getattr(ctypes.CDLL(numpy_generator.__file__), name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(symbol, address)
    return lambda builder: cgutils.get_or_insert_function(builder.module, function, symbol)


NORMAL = _numpy_function("random_standard_normal", ir.FunctionType(DOUBLE, [ADDRESS]))
BINOMIAL = _numpy_function("random_binomial", ir.FunctionType(INT, [ADDRESS, DOUBLE, INT, ADDRESS]))


def _random(typing_context: Any, rng: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        draw = builder.bitcast(bits.next_double, ir.FunctionType(DOUBLE, [ADDRESS]).as_pointer())
        return builder.call(draw, [bits.state])

    return types.float64(rng), generate


def _normal(typing_context: Any, rng: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        return builder.call(NORMAL(builder), [bits.address])

    return types.float64(rng), generate


def _binomial(typing_context: Any, rng: Any, n: Any, p: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = cgutils.create_struct_proxy(rng)(context, builder, arguments[0])
        scratch = cgutils.alloca_once(builder, SCRATCH)
        builder.store(ir.Constant(SCRATCH, None), scratch)
        scratch = builder.bitcast(scratch, ADDRESS)
        return builder.call(BINOMIAL(builder), [bits.address, arguments[2], arguments[1], scratch])

    return types.int64(rng, types.int64, types.float64), generate


register_model(BitGenerator)(BitGeneratorModel)
unbox(BitGenerator)(_unpack)
random: Any = intrinsic(_random)
normal: Any = intrinsic(_normal)
binomial: Any = intrinsic(_binomial)

# The methods of a Generator that kernels call. Numba's normal draws can be inlined; NumPy's are equal but slower.
# NumPy's binomial draws do not terminate if p is not a probability.
overload_method(BitGenerator, "random")(lambda rng: lambda rng: random(rng))
overload_method(BitGenerator, "standard_normal")(
    (lambda rng: lambda rng: standard_normal(as_numba_bit_generator(rng)))
    if standard_normal
    else (lambda rng: lambda rng: normal(rng))
)
overload_method(BitGenerator, "binomial")(
    lambda rng, n, p: lambda rng, n, p: binomial(rng, n, p) if 0.0 < p < 1.0 else n if p >= 1.0 else 0
)
