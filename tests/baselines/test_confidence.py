"""Confidence bounds against bisection and by hand."""

from __future__ import annotations

import itertools
import math

import pytest

from baseline_cases import kl_index
from internals import kl_above, kl_below, kl_exponent, level, ucb1


@pytest.mark.parametrize("times", [1, 2, 7, 100, 10_000, 10**9])
def test_bounds_by_divergence(times: int) -> None:
    ones = {0, 1, times // 3, times // 2, times - 1, times}
    for hits, allowed in itertools.product(sorted(ones), (1e-3, 0.5, 7.0, 30.0, 700.0)):
        mean = hits / times
        bound = kl_above(mean, allowed / times)
        wanted = kl_index(mean, allowed / times)
        width = max(wanted - mean, 1e-12)
        assert abs(bound - wanted) <= 1e-6 * width + 4e-16 / width, (hits, allowed)  # rounding of the divergence
        assert mean <= bound <= 1.0
        assert kl_below(1 - mean, allowed / times) == pytest.approx(1 - bound, abs=1e-12)
        for near in (1e-9, 0.3, 3.0, 50.0, math.inf):  # from anywhere
            if 0 < mean < 1 and times < 10**6:
                x = kl_exponent(mean, allowed / times, near)
                assert -math.expm1(-x) == pytest.approx(wanted, rel=1e-7, abs=1e-8 * width)


def test_indices_by_hand() -> None:
    assert kl_above(0.0, 0.5) == pytest.approx(1 - math.exp(-0.5), rel=1e-14)
    assert kl_above(1.0, 0.5) == 1.0
    assert kl_above(0.3, 0.0) == 0.3
    assert kl_below(1.0, 0.5) == pytest.approx(math.exp(-0.5), rel=1e-14)
    assert ucb1(0.5, 6.0, 100) == pytest.approx(0.5 + math.sqrt(1.5 * math.log(100) / 6))
    assert level(1000) == pytest.approx(math.log(1000) + 3 * math.log(math.log(1000)))
    assert level(1) == 0.0
    assert level(2) == pytest.approx(math.log(2))
