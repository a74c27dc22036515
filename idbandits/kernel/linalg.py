"""Cholesky factors of small matrices in kernels; matrices are stored row by row behind pointers."""

import numpy as np

from idbandits.kernel.array_types import Floats
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.structs import pointer

MAX_DAMPING = 1e12  # on the diagonal of a matrix that has no factor


@inlined
def dot(a: Floats, b: Floats, first: int, last: int) -> float:
    """Return an inner product, as four sums that can be computed in parallel."""
    s, t, u, v, i = 0.0, 0.0, 0.0, 0.0, first
    while i + 4 <= last:
        s += a[i] * b[i]
        t += a[i + 1] * b[i + 1]
        u += a[i + 2] * b[i + 2]
        v += a[i + 3] * b[i + 3]
        i += 4
    while i < last:
        s += a[i] * b[i]
        i += 1
    return (s + t) + (u + v)


# -- lower factors: L L' is the matrix ---------------------------------------------------------------------------------


@unmanaged
def factorise(matrix: Floats, size: int, rows: int, damping: float, factor: Floats) -> bool:
    """Write L of the first rows and columns of a matrix with `damping` added to its diagonal; return False if none.

    Only the lower half of the matrix is read, and only that of the factor is written.
    """
    for i in range(rows):
        for j in range(i + 1):
            total = matrix[i * size + j]
            if i == j:
                total += damping
            for m in range(j):
                total -= factor[i * size + m] * factor[j * size + m]
            if i > j:
                factor[i * size + j] = total / factor[j * size + j]
            else:
                if not 1e-12 < total < 1e300:
                    return False
                factor[i * size + i] = np.sqrt(total)
    return True


@unmanaged
def factorise_damped(matrix: Floats, size: int, rows: int, damping: float, factor: Floats) -> float:
    """Factorise a matrix with as much damping as needed; return the damping, at least MAX_DAMPING on failure."""
    while not factorise(matrix, size, rows, damping, factor) and damping < MAX_DAMPING:
        damping = max(10.0 * damping, 1e-3)
    return damping


@inlined
def solve_lower(factor: Floats, size: int, first: int, last: int, x: Floats) -> None:
    """Replace x by L^-1 x; x is zero before `first`, and only rows before `last` are used."""
    for i in range(first, last):
        for j in range(first, i):
            x[i] -= factor[i * size + j] * x[j]
        x[i] /= factor[i * size + i]


@inlined
def solve_lower_transposed(factor: Floats, size: int, rows: int, x: Floats) -> None:
    """Replace x by L'^-1 x, for the first rows of L."""
    for i in range(rows - 1, -1, -1):
        x[i] /= factor[i * size + i]
        for j in range(i):
            x[j] -= factor[i * size + j] * x[i]


# -- upper factors: U'U is the matrix ----------------------------------------------------------------------------------


@unmanaged
def solve_upper(factor: Floats, size: int, x: Floats) -> None:
    """Replace x by U^-1 x."""
    for k in range(size - 1, -1, -1):
        row = pointer(factor, k * size)
        x[k] = (x[k] - dot(row, x, k + 1, size)) / row[k]


@unmanaged
def solve_upper_transposed(factor: Floats, size: int, x: Floats) -> None:
    """Replace x by U'^-1 x."""
    for k in range(size):
        row = pointer(factor, k * size)
        x[k] /= row[k]
        pivot = x[k]
        if pivot != 0.0:
            for i in range(k + 1, size):
                x[i] -= row[i] * pivot


@unmanaged
def add_outer_product(factor: Floats, size: int, x: Floats) -> None:
    """Change U so that x x' is added to U'U, by Givens rotations; x is overwritten."""
    for k in range(size):
        if x[k] == 0.0:
            continue
        row = pointer(factor, k * size)
        length = np.sqrt(row[k] * row[k] + x[k] * x[k])
        c, s = row[k] / length, x[k] / length
        row[k] = length
        for i in range(k + 1, size):
            old = row[i]
            row[i] = c * old + s * x[i]
            x[i] = c * x[i] - s * old
