"""Numbers of NumPy are accepted wherever settings are given, and are the same settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import models

D = models.cascade(5, 2)
MEANS = {"attraction": [0.5, 0.4, 0.3, 0.2, 0.1]}
Kinds = Callable[[Any], Any]

# what is made of whole numbers, of floats and of bools, whose types are given
SETTINGS: dict[str, Callable[[Kinds, Kinds, Kinds], Any]] = {
    "models": lambda w, f, b: models.dynamic_bayesian(w(4), w(2), simplified=b(True), distinct=b(True)).to_dict(),
    "Learned": lambda w, f, b: idb.Learned("x", prior=f(0.5), rows=w(3))[w(1)].row,
    "states": lambda w, f, b: idb.Diagram("x").observed("y", states=w(3)).states,
    "a known table": lambda w, f, b: idb.Diagram("x").observed("y", cpd=f(0.25)).cpd.table.tolist(),  # type: ignore[union-attr]
    "Gibbs": lambda w, f, b: idb.Thompson(D, idb.Gibbs(w(2), w(3), w(4)), seed=w(1), effort=f(2.0)),
    "Variational": lambda w, f, b: idb.Thompson(D, idb.Variational(w(2), f(0.5), literal=b(True)), seed=w(1)),
    "Incremental": lambda w, f, b: idb.Thompson(D, idb.Incremental(w(2), literal=b(False)), seed=w(1)),
    "EP": lambda w, f, b: idb.Thompson(D, idb.EP(w(2), f(0.25), f(0.5)), seed=w(1)),
    "Particles": lambda w, f, b: idb.Thompson(D, idb.Particles(w(5), f(0.25)), seed=w(1)),
    "propensity": lambda w, f, b: idb.Thompson(D, "exact", w(1)).propensity({"A1": w(0), "A2": f(1)}, draws=w(3)),
    "draws": lambda w, f, b: idb.Thompson(D, "exact", w(1)).draws(w(2))["attraction"].tolist(),
    "best_action": lambda w, f, b: idb.best_action(D, MEANS, effort=f(0.5)),
    "best_action without end": lambda w, f, b: idb.best_action(D, MEANS, effort=f(np.inf)),
    "simulate": lambda w, f, b: idb.simulate(
        idb.World(D, MEANS, w(1), effort=f(2)), {"x": idb.Thompson(D, "exact")}, rounds=w(6), runs=w(2), seed=w(1),
        workers=w(1), checkpoints=w(2), progress=b(False),
    ).frame[["run", "round", "reward"]].to_numpy().tolist(),
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("whole", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_numbers_of_numpy_are_settings(setting: str, whole: Kinds, real: Kinds, tmp_path: Path) -> None:
    expected, given = SETTINGS[setting](int, float, bool), SETTINGS[setting](whole, real, np.bool_)
    assert repr(given) == repr(expected)
    if isinstance(given, idb.Thompson):
        given.save(tmp_path / "agent")
        assert repr(idb.Thompson.load(tmp_path / "agent")) == repr(expected)
