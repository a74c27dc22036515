"""Comparison of counts by key, and a small log to count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from idbandits.agent.counts.counts import Counts
from idbandits.agent.counts.counts_table import CONSTANT, to_arrow
from idbandits.inference.counts.reduction_plans import KNOWN

ITEMS = ["ale", "bun", "cod", "dip", "egg"]


def sums(counts: Counts) -> dict[Any, float]:
    """Return weights by entry or factor. The members of a product have no order, so that they are sorted."""
    rows, keyed = to_arrow(counts).to_pylist(), dict[Any, float]()
    assert len({(row["entry"], row["shape"], row["arguments"]) for row in rows}) == len(rows)
    for row in rows:
        key = row["entry"] if row["shape"] is None else _factor(row["shape"], row["arguments"])
        keyed[key] = keyed.get(key, 0.0) + row["weight"]
    return keyed


def _factor(shape: bytes, arguments: bytes) -> tuple[Any, ...]:
    """Return a factor with entries in the place of arguments, as described in `idbandits.inference.rounds.factors`."""
    numbers, entries = np.frombuffer(shape, "<i8").tolist(), np.frombuffer(arguments, "<i4").tolist()
    factor, at = [numbers[0]], 1
    for _ in range(numbers[0]):
        terms, at = numbers[at], at + 1
        factor.append(terms)
        for _ in range(terms):
            own = numbers[at + 1 : at + 1 + numbers[at]]
            factor += [len(own), *sorted(entries[k] if 0 <= k < KNOWN else k for k in own)]
            at += 1 + len(own)
    return tuple(factor)


def assert_equal(left: Counts, right: Counts) -> None:
    """Compare all counts exactly, except a sum of logarithms."""
    own, other, constant = sums(left), sums(right), CONSTANT
    assert own.pop(constant) == pytest.approx(other.pop(constant), rel=1e-12, abs=1e-9)
    assert own == other
    assert left.rounds == right.rounds
    assert left.skipped[:2] == right.skipped[:2]


def logged(rounds: int, seed: int) -> pd.DataFrame:
    """Sessions with missing clicks, equal rounds, several clicks (impossible in a cascade), and unknown items."""
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(len(ITEMS))[:3] for _ in range(rounds)])
    frame = pd.DataFrame({f"A{k + 1}": np.array(ITEMS, object)[lists[:, k]] for k in range(3)})
    for k in range(3):
        clicks = pd.array((rng.random(rounds) < 0.4 / (k + 1)).astype(int), "Int64")
        clicks[rng.random(rounds) < 0.05] = pd.NA
        frame[f"C{k + 1}"] = clicks
    frame["impressions"] = rng.integers(1, 5, rounds)
    frame.loc[[3, rounds - 2], "A2"] = "fig"
    return frame


def value_of_counts(counts: Counts, means: Any) -> float:
    """Return the log-likelihood of counts under means, by the definitions of certain uses and factors."""
    parameters = counts.model.parameter_vector(means).tolist()
    total = 0.0
    for key, weight in sums(counts).items():
        if isinstance(key, tuple):
            total += weight * _log(_value(key, parameters))
        elif key == CONSTANT:
            total += weight
        elif key >= 0 and weight:
            total += weight * _log(parameters[key])
    return total


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0.0 else -np.inf


def _value(factor: tuple[int, ...], parameters: list[float]) -> float:
    numbers, nodes = iter(factor), list[float]()
    for _ in range(next(numbers)):
        total = 0.0
        for _ in range(next(numbers)):
            product = 1.0
            for member in [next(numbers) for _ in range(next(numbers))]:
                place = member - KNOWN if member >= KNOWN else member
                product *= nodes[-1 - member] if member < 0 else parameters[place]
            total += product
        nodes.append(total)
    return nodes[-1]
