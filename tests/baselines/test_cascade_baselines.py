"""CascadeKLUCB and CascadeUCB1 against their indices, computed again after every round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from baseline_cases import kl_index
from idbandits import models
from idbandits.baselines import CascadeKLUCB, CascadeUCB1
from internals import level


@pytest.mark.parametrize("make", [CascadeKLUCB, CascadeUCB1])
@pytest.mark.parametrize("reading", ["first", "last"])
def test_cascades_rank_by_their_indices(make: Callable[..., Any], reading: str) -> None:
    d = models.cascade(5, 3)
    learner = make(d, 0, reading=reading)
    rng = np.random.default_rng(1)
    examined, clicks = np.zeros(5), np.zeros(5)
    for t in range(1, 200):
        action = list(learner.act().values()) if t % 2 else rng.permutation(5)[:3].tolist()
        seen = rng.random(3) < 0.3
        end = np.flatnonzero(seen)[0 if reading == "first" else -1] + 1 if seen.any() else 3
        for k in range(end):
            examined[action[k]] += 1
            clicks[action[k]] += seen[k]
        learner.update(
            {f"A{k + 1}": i for k, i in enumerate(action)}, {f"C{k + 1}": int(c) for k, c in enumerate(seen)}
        )
        if examined.all():
            means = clicks / examined
            index = (
                [kl_index(m, level(t + 1) / n) for m, n in zip(means, examined, strict=True)]
                if make is CascadeKLUCB
                else means + np.sqrt(1.5 * math.log(t) / examined)
            )
            shown = np.array(index)[list(learner.act().values())]
            np.testing.assert_allclose(shown, np.sort(index)[::-1][:3], rtol=1e-9)
