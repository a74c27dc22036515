"""Check of logged propensities: those of all choices of a context must have the sum 1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints

SAME = 1e-6  # largest difference of probabilities that are equal, as files round them
OFF = 4.0  # standard errors of the probability of choices that do not occur in the log
ROUNDED = 1e-3  # error of a sum of rounded probabilities
FEWEST = 20  # rounds of a context


class Cells(NamedTuple):
    """Distinct choices in each context of a log."""

    example: Ints  # a round of each cell; sorted by context
    of_round: Ints  # cell of each round


def cells_of(group: Ints, choices: Ints) -> Cells:
    """Return the distinct choices of the rounds of each context."""
    rows = np.column_stack([group, choices])
    _, example, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return Cells(example.astype(np.int64), inverse.ravel().astype(np.int64))


def is_constant(propensity: Floats, cells: Cells) -> bool:
    """Return whether propensities depend on context and choice alone, that is, the policy did not change."""
    return bool(np.abs(propensity - propensity[cells.example][cells.of_round]).max(initial=0.0) <= SAME)


def sum_error(propensity: Floats, weights: Floats, group: Ints, cells: Cells) -> str | None:
    """Return what is wrong about the sums of propensities; None if they agree with how often choices occurred.

    What is missing to 1 belongs to choices that do not occur in the log. Their probability is known up to a standard
    error by the number of choices that occur once or twice (Good 1953). Contexts with few rounds, and policies that
    changed within the log, are not checked.
    """
    if not len(propensity) or not is_constant(propensity, cells):
        return None
    of_group = group[cells.example]
    number, sums = np.bincount(group, weights), np.bincount(of_group, propensity[cells.example])
    count = np.bincount(cells.of_round, weights)
    large = number >= FEWEST
    rounds = float(number[large].sum())
    if not rounds:
        return None
    own = large[of_group]
    once, twice = float((own & (count <= 1)).sum()), float((own & (count > 1) & (count <= 2)).sum())
    total = float(number[large] @ sums[large]) / rounds
    expected = 1 - once / rounds
    error = np.sqrt(once + 2 * twice + 1) / rounds + 0.4 * float(large.sum()) / rounds  # noise, and bias by context
    if abs(total - expected) <= OFF * error + ROUNDED:
        return None
    return f"propensities of the choices in the log have the sum {total:.3g} instead of {expected:.3g}"
