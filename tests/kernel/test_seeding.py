"""Generators of decisions draw what NumPy's draw for equal seeds, and reject other seeds in equal words."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from idbandits.errors import IdbanditsError
from idbandits.kernel.array_types import generator
from idbandits.kernel.seeding import ShortSeed, decision_generator

LARGE = np.random.default_rng(0).integers(2**63, size=1000).tolist()
SEEDS = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, *LARGE, *(seed >> at % 63 for at, seed in enumerate(LARGE))]


def test_generators_are_those_of_numpy() -> None:
    for seed in SEEDS:
        ours, numpys = decision_generator(seed), np.random.default_rng(seed)
        assert isinstance(ours.bit_generator.seed_seq, ShortSeed)
        assert ours.bit_generator.state == numpys.bit_generator.state
        assert copy.deepcopy(ours).random() == numpys.random()


@pytest.mark.parametrize("seed", [2**63, 2**200, np.int64(5), [1, 2], np.random.SeedSequence(3)])
def test_other_seeds_are_those_of_numpy(seed: Any) -> None:
    assert decision_generator(seed).random() == np.random.default_rng(seed).random()


@pytest.mark.parametrize(("n_words", "dtype"), [(4, np.uint64), (4, np.uint32), (8, np.uint32), (9, np.uint64)])
def test_states_of_all_lengths(n_words: int, dtype: Any) -> None:
    expected = np.random.SeedSequence(2**40 + 1).generate_state(n_words, dtype)
    state = ShortSeed(2**40 + 1).generate_state(n_words, dtype)
    assert state.dtype == expected.dtype
    assert state.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", [-1, 1.5, "one", True])
def test_seeds_are_rejected_in_equal_words(seed: Any) -> None:
    with pytest.raises(IdbanditsError) as expected:
        generator(seed)
    with pytest.raises(IdbanditsError) as error:
        decision_generator(seed)
    assert str(error.value) == str(expected.value)
