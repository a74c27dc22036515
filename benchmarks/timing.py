"""Time one call. Medians of many are reported, because others may use the machine too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def timed(
    call: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> tuple[Result, float]:
    """The result of a call, and how many seconds it took."""
    start = time.perf_counter()
    result = call(*args, **kwargs)
    return result, time.perf_counter() - start
