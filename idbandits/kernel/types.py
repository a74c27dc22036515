"""What kernels work on: arrays of numbers, and random numbers."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from idbandits.errors import IdbanditsError, brief

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = Sequence[int]  # of a structure: a list where Python studies it, a pointer in kernels
Rng: TypeAlias = np.random.Generator


def generator(seed: object) -> Rng:
    """A generator of random numbers from a seed, or the generator itself."""
    try:
        return np.random.default_rng(seed)  # type: ignore[arg-type]  # anything is tried
    except Exception:  # NumPy raises all sorts of things
        allowed = "a whole number from 0, a SeedSequence, a Generator or None"
        raise IdbanditsError(f"seed is {allowed}, not {brief(seed)}") from None
