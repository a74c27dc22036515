"""Data frames of other libraries, without importing these."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def is_lazy(data: Any) -> bool:
    """Return True for queries, such as Polars' LazyFrame."""
    return hasattr(data, "collect_schema") and hasattr(data, "collect")


def column_names(data: Any) -> list[Any] | None:
    """Return the names of columns of a mapping, a data frame, a pyarrow table or a structured array, else None."""
    if isinstance(data, np.ndarray):
        return None if data.dtype.names is None else list(data.dtype.names)
    if isinstance(data, Mapping):
        return list(data)
    try:
        if is_lazy(data):
            return list(data.collect_schema().names())
        return list(data.column_names if hasattr(data, "column_names") else data.columns)
    except (AttributeError, TypeError):
        return None
