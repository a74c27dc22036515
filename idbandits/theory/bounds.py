"""The paper's theorem for any diagram: its assumptions checked, its constants computed, its bound on Bayes regret.

What follows from the polynomials of `survey`, for one action of every kind, is proved. Where there are too many means
or actions, some are drawn, and the result says that it is not proved.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np

from idbandits.circuit.model import compile
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError, is_integer
from idbandits.kernel.types import Floats
from idbandits.theory.observing import max_observations
from idbandits.theory.rounds import learned_nodes, rows_of
from idbandits.theory.survey import Example, surveys_of


@final
class Monotone(NamedTuple):
    """Whether Assumption 1 holds, whether that is proved, and if it fails, where the reward rises and falls.

    `signs` has one entry per row: 1 where the expected reward never falls in its mean, -1 where it never rises, 0
    where it does not depend on it, NaN where it does both. `rises` and `falls` may be about two interchangeable rows.
    """

    holds: bool
    proved: bool
    signs: dict[str, Floats]
    rises: Example | None
    falls: Example | None


@final
class Decomposition(NamedTuple):
    """The constant C of Assumption 2, and whether it is proved; infinite where the assumption fails.

    `least` is the highest ratio |r(a, first) - r(a, second)| / Σ P(E(i) | second, a) |first - second| that was met,
    at `example`: no smaller constant will do. A constant that is not proved is this one.
    """

    constant: float
    proved: bool
    least: float
    example: Example | None


@final
class Bound(NamedTuple):
    """The bound on n-step Bayes regret, what it was computed from, and whether all of that is proved."""

    value: float
    proved: bool
    d: int  # learned rows that do not depend on a decision
    L: int  # learned rows that do
    omax: float
    C: float
    B: float


def check_monotone(d: Diagram) -> Monotone:
    """Assumption 1: whether the expected reward is monotone in each mean, the same way for all actions and means.

    >>> from idbandits import models
    >>> check_monotone(models.cascade(4, 2)).signs["attraction"].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    model = compile(d)
    surveys = surveys_of(model)
    by_orbit: dict[int, dict[int, Example | None]] = {}  # 1: the reward may rise in these rows; -1: it may fall
    for summary in surveys.summaries:
        for row, directions in summary.directions.items():
            merged = by_orbit.setdefault(surveys.orbit(row), {})
            for sign, example in directions.items():
                merged[sign] = merged.get(sign) or example
    signs = {name: np.zeros(table.shape) for name, table in model.learned.items()}
    counterexample, proved = None, surveys.complete
    for name, index in rows_of(model):
        directions = by_orbit.get(surveys.orbit((name, index)), {})
        shown = [sign for sign, example in directions.items() if example is not None]
        proved &= len(directions) < 2 or len(shown) == len(directions)
        signs[name][index] = math.nan if len(shown) == 2 else sum(shown)
        if len(shown) == 2 and counterexample is None:
            counterexample = directions
    if counterexample is not None:
        return Monotone(False, True, signs, counterexample[1], counterexample[-1])
    return Monotone(True, proved, signs, None, None)


def check_decomposition(d: Diagram) -> Decomposition:
    """Assumption 2: a constant C with |r(a, θ₁) - r(a, θ₂)| ≤ C Σ P(E(i) | θ₂, a) |θ₁(i) - θ₂(i)|.

    It is proved by changing θ₂ into θ₁ one mean after the other, as the paper does for cascades, in the best order:
    each step is at most C times its share.

    >>> from idbandits import models
    >>> check_decomposition(models.cascade(4, 2))[:3]
    (1.0, True, 1.0)
    >>> check_decomposition(models.rank1(3, 3)).constant  # its rows are never de facto observed
    inf
    """
    surveys = surveys_of(compile(d))
    least, example = max(((s.ratio, s.example) for s in surveys.summaries), key=lambda pair: pair[0])
    most = max(s.telescoped for s in surveys.summaries)
    if math.isinf(least) or not surveys.complete or math.isinf(most):
        return Decomposition(least, math.isinf(least), least, example)
    return Decomposition(round(max(most, least), 12), True, least, example)


def regret_bound(n: int, parameters: int, omax: float, C: float, B: float) -> float:  # noqa: N803  the paper's names
    """The theorem's bound with the constants of its proof (appendix B).

    >>> round(regret_bound(1000, parameters=10, omax=2, C=1, B=1))
    2636
    """
    if not is_integer(n) or n < 1:
        raise IdbanditsError(f"n must be a positive whole number of rounds, not {n!r}")
    for name, value in (("parameters", parameters), ("omax", omax), ("C", C), ("B", B)):
        if not (isinstance(value, (int, float, np.number)) and value >= 0):
            raise IdbanditsError(f"{name} must be a number of at least 0, not {value!r}")
    if math.isinf(C):
        return math.inf
    log = math.log(n)
    return float(C * math.sqrt(6 * parameters * omax * n * log * (1 + log)) + (C + 2 * math.pi**2 / 3 * B) * parameters)


def bound(d: Diagram, n: int) -> Bound:
    """The theorem's bound on the n-step Bayes regret of exact Thompson sampling in a diagram; infinite if it has none.

    B is the range of the expected reward over all actions and means, which is all that the proof uses. Where O_max is
    not proved, the number of nodes with learned tables takes its place: there cannot be more.

    >>> from idbandits import models
    >>> limit = bound(models.cascade(10, 2), 1000)
    >>> limit.d, limit.L, limit.omax, limit.C, limit.B, limit.proved
    (0, 10, 1.5, 1.0, 1.0, True)
    """
    model = compile(d)
    span = surveys_of(model).span(d)
    monotone, decomposition, most = check_monotone(d), check_decomposition(d), max_observations(d)
    omax = most.value if most.proved else float(len(learned_nodes(model)))
    decided = {
        use.name for node, use in learned_nodes(model) if any(model.nodes[p].kind == "decision" for p in node.parents)
    }
    rows = {name: math.prod(table.shape) for name, table in model.learned.items()}
    of_actions = sum(rows[name] for name in decided)
    others = sum(rows.values()) - of_actions
    constant = decomposition.constant if monotone.holds else math.inf
    value = regret_bound(n, others + of_actions, omax, constant, span)
    proved = monotone.proved and decomposition.proved
    return Bound(value, proved, others, of_actions, omax, decomposition.constant, span)
