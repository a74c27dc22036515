"""Invalid arguments of public functions: a result, an error of the library in one short line, or a TypeError or ValueError."""

from __future__ import annotations

import decimal
import fractions
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import idbandits as idb
from idbandits import baselines, models, theory
from idbandits.errors import IdbanditsError, brief, check_flag
from simulation_cases import coin_world, coins

INVALID: list[Any] = [
    None, "x", "", b"b", np.nan, np.inf, -np.inf, -1, 0, 1, 2.0, 2.5, 2**63, 2**70, -(2**70), 10**400, True,
    np.array([1, 2]), np.array(3), np.array([]), np.eye(2), np.int8(2), np.uint64(3), np.float32(2), np.bool_(True),
    np.datetime64("2020"), [], {}, {1: 2}, set(), (1, 2), [1, [2, [3]]], object(), int, len,
    iter([1, 2]), range(3), 1 + 2j, decimal.Decimal(2), fractions.Fraction(1, 2), pd.NA, pd.NaT, pd.Series([1, 2]),
    pd.DataFrame({"a": [1]}), np.ma.masked, "9" * 5000, ["a", "a"], 1e308, 5e-324, [None],
    [np.nan], np.random.default_rng(0), pa.array([1, 2]),
]  # fmt: skip
HUGE = (2**63, 2**70, 10**400)


def rejects_or_returns(function: Callable[..., Any], arguments: dict[str, Any], name: str, value: Any) -> None:
    """Call a function with one of its arguments replaced."""
    try:
        function(**arguments | {name: value})
    except IdbanditsError as error:
        message = str(error)
        assert len(message) < 600
        assert "\n" not in message
    except (TypeError, ValueError):
        pass  # Python's own, for a value of another type
    except Exception as error:
        raise AssertionError(f"{name}={brief(value)}: {type(error).__name__}: {error}") from error


def play(make: Callable[..., Any]) -> Callable[..., None]:
    """Make a learner, and let it play a round in its own diagram."""

    def playing(**arguments: Any) -> None:
        learner = make(**arguments)
        learner.update(learner.act(), {node.name: 0 for node in learner.diagram.of_kind("observed")})
        learner.copy(seed=1)
        repr(learner)

    return playing


D, MEANS, ACTION = models.cascade(4, 2), {"attraction": [0.1, 0.2, 0.3, 0.4]}, {"A1": 0, "A2": 1}
FRAME = theory.study(rounds=[2], items=[3], positions=[2], usual=(2, 3, 2), runs=2)
CONTEXTUAL = idb.World(coins(context="S"), {"heads": np.full((3, 2), 0.5)})
FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "bound": (theory.bound, {"d": D, "n": 10}),
    "regret_bound": (theory.regret_bound, {"n": 10, "parameters": 2, "omax": 1.0, "C": 1.0, "B": 1.0}),
    "check_monotone": (theory.check_monotone, {"d": D}),
    "check_decomposition": (theory.check_decomposition, {"d": D}),
    "bayes_regret": (
        theory.bayes_regret, {"d": models.semi_bandit(3, 2), "rounds": 2, "runs": 2, "seed": 0, "learner": None, "workers": 1}
    ),
    "prior_means": (theory.prior_means, {"d": D, "rng": np.random.default_rng(0)}),
    "study": (
        theory.study,
        {"rounds": [2], "items": [3], "positions": [2], "usual": (2, 3, 2), "runs": 1, "seed": 0, "workers": 1},
    ),
    "plot": (theory.plot, {"frame": FRAME}),
    "max_observations": (theory.max_observations, {"d": D}),
    "observation_probabilities": (theory.observation_probabilities, {"d": D, "action": ACTION, "means": MEANS}),
    "observed_parameters": (
        theory.observed_parameters, {"d": D, "action": ACTION, "observation": {"C1": 0, "C2": 0}, "biased": False}
    ),
    "World": (idb.World, {"d": D, "means": MEANS, "seed": 0, "contexts": None}),
    "World with contexts": (
        lambda **contexts: idb.World(coins(context="S"), {"heads": np.full((3, 2), 0.5)}, contexts=contexts),
        {"S": [0.5, 0.5]},
    ),
    "World with means": (lambda **means: idb.World(D, means), MEANS),
    "step": (CONTEXTUAL.step, {"action": {"coin": 1}, "context": {"S": 0}}),
    "step with values": (lambda coin, S: CONTEXTUAL.step({"coin": coin}, {"S": S}), {"coin": 1, "S": 0}),  # noqa: N803
    "best": (CONTEXTUAL.best, {"context": {"S": 0}}),
    "expected": (CONTEXTUAL.expected, {"action": {"coin": 1}, "context": {"S": 0}}),
    "regret": (CONTEXTUAL.regret, {"action": {"coin": 1}, "context": {"S": 0}}),
    "copy": (CONTEXTUAL.copy, {"seed": 0}),
    "seen_by": (coin_world().step({"coin": 1}).seen_by, {"d": coins()}),
    "simulate": (
        idb.simulate,
        {"world": coin_world(), "learners": {"a": idb.Thompson(coins())}, "rounds": 2, "runs": 1, "seed": 0,
         "workers": 1, "progress": False, "checkpoints": 2},
    ),
    "simulate a learner": (lambda a: idb.simulate(coin_world(), {"a": a}, 2, 1, progress=False), {"a": None}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_invalid_arguments_of_worlds_simulations_and_theory(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    for argument in arguments:
        for value in INVALID:
            rejects_or_returns(function, arguments, argument, value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model", [m for m in vars(models).values() if inspect.isfunction(m) and m.__module__ == models.__name__ and m.__name__[0] != "_"]
)  # fmt: skip
def test_invalid_arguments_of_models(model: Callable[..., Any]) -> None:
    parameters = inspect.signature(model).parameters
    needed = {name: 3 if name != "positions" else 2 for name, p in parameters.items() if p.default is p.empty}
    for name in parameters:
        for value in INVALID:
            rejects_or_returns(model, needed, name, value)
            if name in ("items", "rows", "columns"):
                rejects_or_returns(model, needed, name, ["a", value, "b"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", baselines.__all__)
def test_invalid_arguments_of_baselines(name: str) -> None:
    d = models.rank1(3, 4) if name.startswith("Rank1") else D
    for argument in inspect.signature(getattr(baselines, name)).parameters:
        for value in INVALID:
            rejects_or_returns(play(getattr(baselines, name)), {"d": d}, argument, value)


# -- numbers that no memory holds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [10**6 + 1, 10**10, *HUGE])
def test_too_many_runs(runs: int) -> None:
    for call in (
        lambda: idb.simulate(coin_world(), {"a": idb.Thompson(coins())}, 2, runs, progress=False),
        lambda: theory.bayes_regret(models.semi_bandit(3, 2), 2, runs),
        lambda: theory.study([2], [3], [2], usual=(2, 3, 2), runs=runs),
    ):
        with pytest.raises(IdbanditsError, match="runs must be an integer from 1 to 1000000, got"):
            call()


def test_results_that_would_not_fit_in_memory() -> None:
    learners = {name: idb.Thompson(coins()) for name in "ab"}
    for runs, rounds, checkpoints in ((1_000_000, 10**6, 200), (1, 10**12, "every"), (10, 10**12, 10**11)):
        with pytest.raises(IdbanditsError, match=r"at most 50,000,000 rows, got .* runs .* checkpoints"):
            idb.simulate(coin_world(), learners, rounds, runs, progress=False, checkpoints=checkpoints)


def test_flags() -> None:
    assert [check_flag("x", value) for value in (True, False, 1, 0, np.True_, np.int8(0))] == [True, False] * 3
    for value in (None, 2, -1, "True", 1.0, [], np.array([True]), pd.NA):
        with pytest.raises(IdbanditsError, match="x must be True or False, got"):
            check_flag("x", value)
