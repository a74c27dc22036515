"""Structures for kernels: named fields, packed into one array of integers and one of floats.

A structure is a NamedTuple of numbers (`int`, `float`) and of rows of numbers (`Indices`, `Floats`). `pack` writes
structures into two flat arrays, because each argument of a kernel costs time. `unpacker` returns the function that
reads them in kernels: there a row is a pointer, so `circuit.child[e]` is one load without counts of references.
"""

import functools
from collections.abc import Callable
from itertools import chain, islice
from typing import Any, NamedTuple, cast, get_type_hints

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from idbandits.kernel.array_types import Floats, Indices, Ints

INT_POINTER, FLOAT_POINTER = types.CPointer(types.int64), types.CPointer(types.float64)
TYPES = {int: types.int64, float: types.float64, Indices: INT_POINTER, Floats: FLOAT_POINTER}


class Packed(NamedTuple):
    """Structures as two arrays: `ints` begins with one integer per field, a number or the place of a row."""

    ints: Ints
    floats: Floats


PACKED = types.NamedTuple([types.int64[::1], types.float64[::1]], Packed)


def pack(*structures: Any) -> Packed:
    """Write structures into two arrays."""
    header: list[int] = []
    ints: list[Ints] = []
    floats: list[Floats] = [np.empty(0)]
    int_end, float_end = sum(len(structure) for structure in structures), 0
    for structure in structures:
        for kind, value in zip(_hints(cast(Any, type(structure))), structure, strict=True):
            if kind is int:
                header.append(int(value))
            elif kind == Indices:
                header.append(int_end)
                ints.append(np.asarray(value, np.int64).ravel())
                int_end += ints[-1].size
            else:  # a `float` is a row of one
                header.append(float_end)
                floats.append(np.asarray(value, np.float64).ravel())
                float_end += floats[-1].size
    return Packed(np.concatenate([np.array(header, np.int64), *ints]), np.concatenate(floats))


@functools.cache
def _hints(kind: Any) -> list[Any]:
    hints = get_type_hints(kind)
    return [hints[name] for name in kind._fields]


def unpacker(*kinds: Any) -> Any:
    """Return a function for kernels that reads structures from `ints` and `floats`: a tuple if there are several."""
    structures = [types.NamedTuple([TYPES[hint] for hint in _hints(kind)], kind) for kind in kinds]
    result = types.Tuple(structures) if len(kinds) > 1 else structures[0]

    @intrinsic
    def unpack(typing_context: Any, ints: Any, floats: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            int_data, float_data = (
                context.make_array(kind)(context, builder, value).data
                for kind, value in zip(signature.args, arguments, strict=True)
            )
            fields = []
            for place, hint in enumerate(chain(*map(_hints, kinds))):
                number = builder.load(builder.gep(int_data, [ir.Constant(ir.IntType(64), place)]))
                row = builder.gep(int_data if hint == Indices else float_data, [number])
                fields.append(number if hint is int else builder.load(row) if hint is float else row)
            left = iter(fields)
            tuples = [context.make_tuple(builder, kind, list(islice(left, len(kind)))) for kind in structures]
            return context.make_tuple(builder, result, tuples) if len(kinds) > 1 else tuples[0]

        return result(ints, floats), generate

    return unpack


def _pointer(typing_context: Any, row: Any, first: Any) -> Any:
    is_pointer = isinstance(row, types.CPointer)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arguments[0] if is_pointer else context.make_array(row)(context, builder, arguments[0]).data
        return builder.gep(data, [arguments[1]])

    return (row if is_pointer else types.CPointer(row.dtype))(row, types.int64), generate


def _as_floats(typing_context: Any, row: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(FLOAT_POINTER))

    return FLOAT_POINTER(INT_POINTER), generate


# In kernels: read the bits of integers as floats, like `array.view(np.float64)` in Python.
as_floats = cast(Callable[[Any], Any], intrinsic(_as_floats))

# In kernels: a pointer to an element of an array or of another pointer. It does not keep the array alive: the caller
# holds the array until after the last use of the pointer.
pointer = cast(Callable[[Any, int], Any], intrinsic(_pointer))


def _split(typing_context: Any, row: Any, sizes: Any) -> Any:
    pointer_type = types.CPointer(row.dtype)
    result = types.UniTuple(pointer_type, len(sizes))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointers = []
        for k in range(len(sizes)):
            pointers.append(at)
            at = builder.gep(at, [builder.extract_value(arguments[1], k)])
        return context.make_tuple(builder, result, pointers)

    return result(row, sizes), generate


# In kernels: pointers to consecutive parts of an array, which have these sizes; see `pointer`.
split = cast(Callable[[Any, Any], Any], intrinsic(_split))
