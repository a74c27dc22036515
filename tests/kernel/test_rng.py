"""Random numbers in kernels equal those of NumPy for all bit generators, also if kernels and Python take turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import types

import idbandits
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import FLOATS, kernel
from idbandits.kernel.rng import RNG

BIT_GENERATORS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
CASES = [(0, 0.5), (1, 0.2), (10, 0.5), (10, 0.999), (1000, 0.01), (1000, 0.4), (10**6, 0.7), (10**12, 1e-9)]


@kernel(types.void(RNG, FLOATS))
def draw_numbers(rng: Rng, numbers: Floats) -> None:
    for i in range(0, len(numbers), 2):
        numbers[i] = rng.random()
        numbers[i + 1] = rng.standard_normal()


@kernel(types.int64(RNG, types.int64, types.float64))
def draw_binomial(rng: Rng, n: int, p: float) -> int:
    return rng.binomial(n, p)


@pytest.mark.parametrize("bit_generator", BIT_GENERATORS)
def test_kernels_draw_what_numpy_draws(bit_generator: Any) -> None:
    ours, numpys = np.random.Generator(bit_generator(3)), np.random.Generator(bit_generator(3))
    numbers = np.empty(20_000)
    draw_numbers(ours, numbers)
    assert [f() for _ in range(10_000) for f in (numpys.random, numpys.standard_normal)] == numbers.tolist()
    for n, p in CASES * 20:
        assert draw_binomial(ours, n, p) == numpys.binomial(n, p)
    assert ours.random() == numpys.random()


@pytest.mark.parametrize(("p", "drawn"), [(0.0, 0), (1.0, 10**9), (1.5, 10**9), (-0.5, 0), (float("nan"), 0)])
def test_binomial_draws_end_whatever_the_probability(p: float, drawn: int) -> None:
    assert draw_binomial(np.random.default_rng(0), 10**9, p) == drawn


@pytest.mark.parametrize("value", [None, 3, np.random.RandomState(0), np.random.PCG64(0)])
def test_other_values_than_generators_raise(value: Any) -> None:
    with pytest.raises((AttributeError, ValueError)):
        draw_numbers(value, np.empty(2))


PROGRAM = """
{without}
import numpy as np
from idbandits.kernel import numba_private
from test_rng import draw_numbers
numbers = np.empty(2000)
draw_numbers(np.random.default_rng(5), numbers)
print(numba_private.standard_normal is None, numbers.sum())
"""


def test_a_numba_without_private_names_draws_the_same(tmp_path: Path) -> None:
    folders = os.pathsep.join([str(Path(idbandits.__file__).parents[1]), str(Path(__file__).parent)])
    outputs = []
    numbas = "import numba.np.random.generator_methods, numba.np.random.distributions as module"
    for without in ("", f"{numbas}; del module.random_standard_normal"):
        environment = os.environ | {"PYTHONPATH": folders, "NUMBA_CACHE_DIR": str(tmp_path / str(len(outputs)))}
        command = [sys.executable, "-c", PROGRAM.format(without=without)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.append(ended.stdout.split())
    assert [each[0] for each in outputs] == ["False", "True"]
    assert outputs[0][1] == outputs[1][1]
