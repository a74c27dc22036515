"""Types of arrays and of random generators."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from idbandits.errors import IdbanditsError, brief, is_integer

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = Sequence[int] | Ints  # field of a structure: a list or an array, and a pointer in kernels
Rng: TypeAlias = np.random.Generator


def generator(seed: Any) -> Rng:
    """Return a random generator for a seed, or the seed itself if it is a generator."""
    if type(seed) is int and seed >= 0:  # as it is in every decision of a service
        return np.random.default_rng(seed)
    is_sequence = isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim == 1)
    numbers = seed if is_sequence else [] if seed is None else [seed]
    kinds = np.random.SeedSequence, np.random.BitGenerator, np.random.Generator
    if not isinstance(seed, kinds) and not all(is_integer(number) and number >= 0 for number in numbers):
        allowed = "an integer >= 0, a sequence of such integers, a SeedSequence, a Generator or None"
        raise IdbanditsError(f"seed must be {allowed}, got {brief(seed)}")
    return np.random.default_rng(seed)
