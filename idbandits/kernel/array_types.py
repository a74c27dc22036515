"""What kernels work on: arrays of numbers, and random numbers."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from idbandits.errors import IdbanditsError, brief, is_integer

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = Sequence[int] | Ints  # of a structure: a list or an array, and in kernels a pointer
Rng: TypeAlias = np.random.Generator


def generator(seed: object) -> Rng:
    """A generator of random numbers from a seed, or the generator itself."""
    several = isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim == 1)
    numbers: Any = seed if several else [] if seed is None else [seed]
    kinds = np.random.SeedSequence, np.random.BitGenerator, np.random.Generator
    if not isinstance(seed, kinds) and not all(is_integer(number) and number >= 0 for number in numbers):
        raise IdbanditsError(  # NumPy is not asked: it crashes for a list that holds itself
            f"seed is a whole number from 0, several of them, a SeedSequence, a Generator or None, not {brief(seed)}"
        )
    return np.random.default_rng(seed)  # type: ignore[arg-type]
