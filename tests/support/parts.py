"""Parts of compiled functions, made callable from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def alone(part: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function that does nothing but call a part, which Python cannot."""

    @njit(error_model="numpy")
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call
