"""Generators for single decisions: equal to `numpy.random.default_rng(seed)`, in a quarter of the time.

`SeedSequence` takes most of the time of seeding. NumPy guarantees its results, so the kernel `put_state` computes them,
for seeds of at most 63 bits (M. O'Neill, "Developing a seed_seq alternative", 2015).
"""

from typing import Any, final

import numpy as np
from numba import types
from numpy.random.bit_generator import ISeedSequence

from idbandits.kernel.array_types import Ints, Rng, generator
from idbandits.kernel.compile import INTS, inlined, kernel

WORD, HALF = 0xFFFFFFFF, 16  # mask of 32 bits; products wrap at 64 bits, which leaves the lower 32 as they are
POOL, STATE = 4, 4  # words of 32 bits in the pool, and of 64 bits in the state of PCG64
MOST = 2**63 - 1  # largest seed of the kernel
INIT_A, MULT_A, INIT_B, MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_L, MIX_R = 0xCA01F9DD, 0x4973F715


@inlined
def hashed(value: int, multiplier: int, following: int) -> int:
    """Return the hash of a word."""
    value = (value ^ multiplier) * following & WORD
    return value ^ value >> HALF


@kernel(types.void(types.int64, INTS))
def put_state(seed: int, state: Ints) -> None:
    """Write `SeedSequence(seed).generate_state(4, uint64)`."""
    pool, multiplier = np.zeros(POOL, np.int64), INIT_A
    pool[0], pool[1] = seed & WORD, seed >> 32
    for i in range(POOL):
        following = multiplier * MULT_A & WORD
        pool[i] = hashed(pool[i], multiplier, following)
        multiplier = following
    for i in range(POOL):
        for j in range(POOL):
            if i != j:
                following = multiplier * MULT_A & WORD
                mixed = MIX_L * pool[j] - MIX_R * hashed(pool[i], multiplier, following) & WORD
                pool[j] = mixed ^ mixed >> HALF
                multiplier = following
    multiplier, state[:] = INIT_B, 0
    for i in range(2 * STATE):
        following = multiplier * MULT_B & WORD
        state[i // 2] |= hashed(pool[i % POOL], multiplier, following) << 32 * (i % 2)
        multiplier = following


@final
class ShortSeed(ISeedSequence):
    """Seed sequence of an integer of at most 63 bits; it does not spawn others."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return the words that `SeedSequence` generates."""
        if n_words != STATE or dtype is not np.uint64:
            return np.random.SeedSequence(self._seed).generate_state(n_words, dtype)
        state = np.empty(STATE, np.int64)
        put_state.entry(self._seed, state)
        return state.view(np.uint64)


def decision_generator(seed: Any) -> Rng:
    """Return a generator with the random numbers of `generator(seed)`, for a single decision."""
    if type(seed) is int and 0 <= seed <= MOST:
        words: Any = ShortSeed(seed)  # NumPy's annotations want a SeedSequence
        return np.random.Generator(np.random.PCG64(words))
    return generator(seed)
