"""Time a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def timed(
    call: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> tuple[Result, float]:
    """Return the result of a call and its duration in seconds."""
    start = time.perf_counter()
    result = call(*args, **kwargs)
    return result, time.perf_counter() - start
