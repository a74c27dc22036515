"""Probabilities that quantiles are asked for at."""

from typing import Any

import numpy as np

from idbandits.errors import ODD, IdbanditsError, brief
from idbandits.kernel.array_types import Floats

MOST_QUANTILES = 10**8


def probabilities(q: Any, size: int, each: str) -> Floats:
    """The probabilities as an array, if all are some; `each` of so many numbers has a quantile at every one."""
    try:
        wanted = np.asarray(q)
    except ODD:  # ragged or endless lists
        wanted = np.array(None)
    if wanted.size * size > MOST_QUANTILES:
        raise IdbanditsError(f"at most {MOST_QUANTILES:,} quantiles are given at once, not {wanted.size} of {each}")
    if wanted.dtype.kind not in "biuf" or np.ma.is_masked(q) or not ((wanted >= 0) & (wanted <= 1)).all():
        raise IdbanditsError(f"a quantile is asked for at a probability in [0, 1], not {brief(q)}")
    return wanted.astype(np.float64)
