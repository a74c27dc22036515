"""Random choices in compiled code."""

from __future__ import annotations

from idbandits.kernel.compiling import merged
from idbandits.kernel.types import Rng


@merged
def below(rng: Rng, number: int) -> int:
    """A whole number from 0 to `number` - 1, all equally likely: as `rng.integers`, which makes an array each time."""
    return int(rng.random() * number)
