"""Structures for kernels: packed fields are read unchanged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numba import types

from idbandits.kernel.array_types import Floats, Indices, Ints
from idbandits.kernel.compile import FLOATS, INTS, kernel
from idbandits.kernel.structs import pack, pointer, unpacker


class First(NamedTuple):
    """All kinds of fields."""

    number: int
    row: Indices
    share: float
    weights: Floats
    nothing: Indices


class Second(NamedTuple):
    """Second structure in the same arrays."""

    weights: Floats
    number: int
    row: Indices


unpack_both, unpack_first = unpacker(First, Second), unpacker(First)


@kernel(types.void(INTS, FLOATS, FLOATS))
def read_both(ints: Ints, floats: Floats, found: Floats) -> None:
    a, b = unpack_both(ints, floats)
    found[0], found[1], found[2], found[3] = a.number, a.row[0], a.row[2], a.share
    found[4], found[5], found[6], found[7] = a.weights[1], b.weights[0], b.number, b.row[1]


@kernel(types.float64(INTS, FLOATS))
def double_weights(ints: Ints, floats: Floats) -> float:
    a = unpack_first(ints, floats)
    second = pointer(a.weights, 1)
    second[0] *= 2.0
    return pointer(floats, 0)[0] + a.weights[1]


def test_every_field_is_read_where_it_was_packed() -> None:
    packed = pack(First(7, [1, 2, 3], 0.5, np.array([0.1, 0.2]), []), Second(np.array([9.0]), -4, [5, 6]))
    found = np.zeros(8)
    read_both(*packed, found)
    assert found.tolist() == [7, 1, 3, 0.5, 0.2, 9.0, -4, 6]


def test_writes_through_a_pointer_change_the_array() -> None:
    packed = pack(First(0, [], 0.25, np.array([1.0, 3.0]), [1]))
    assert double_weights(*packed) == pytest.approx(0.25 + 6.0)
    assert packed.floats.tolist() == [0.25, 1.0, 6.0]
