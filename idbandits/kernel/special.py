"""The logarithm of the gamma function and its derivatives, in kernels."""

from typing import NamedTuple

import numpy as np

from idbandits.kernel.compile import inlined


class Change(NamedTuple):
    """Change of the logarithm of the gamma function and of its first two derivatives."""

    value: float
    slope: float
    curve: float


@inlined
def log_gamma(x: float) -> Change:
    """Return the logarithm of the gamma function and its derivatives: a series at x + n >= 8, then n steps back."""
    product, slope, curve = 1.0, 0.0, 0.0
    while x < 8.0:
        product *= x
        slope += 1.0 / x
        curve += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / x
    z, log_x = y * y, np.log(x)
    value = (x - 0.5) * log_x - x + 0.9189385332046727
    value += y * (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z / 1680)))
    first = log_x - 0.5 * y - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))
    second = y + 0.5 * z + y * z * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z / 30)))
    return Change(value - np.log(product), first - slope, second + curve)


@inlined
def change(a: float, n: float) -> Change:
    """Return the change of the logarithm of the gamma function from a to a + n; small integers n without loss."""
    if n <= 0.0:
        return Change(0.0, 0.0, 0.0)
    if n <= 12.0 and n == np.floor(n):
        product, slope, curve = 1.0, 0.0, 0.0
        while n > 0.5:
            y = 1.0 / a
            product *= a
            slope += y
            curve -= y * y
            a += 1.0
            n -= 1.0
        return Change(np.log(product), slope, curve)
    more, less = log_gamma(a + n), log_gamma(a)
    return Change(more.value - less.value, more.slope - less.slope, more.curve - less.curve)
