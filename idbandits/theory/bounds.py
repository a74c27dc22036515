"""The paper's theorem for any diagram: checks of its assumptions, its constants, and its bound on Bayes regret.

Theorem 1: if Assumptions 1 and 2 hold, the Bayes regret of exact Thompson sampling in n rounds is at most C √(6 (d + L)
O_max n log n (1 + log n)) + (C + 2π²/3 B) (d + L). docs/explanation/regret-bound.md defines the symbols. No learner
loses more than B per round, so a bound above the trivial one, n B, says nothing: `Bound` has both, and the number of
rounds from which on the theorem's bound is lower.

After an action, the expected reward and the probabilities of observation are polynomials of the means. Their degree in
each mean is the number of nodes that may be drawn from it: mostly 1. So they are determined by their values on a small
grid, and their Bernstein coefficients (for degree 1: the values at the corners of the cube) bound them everywhere: what
follows from these, for one action of every kind, is proved. If there are too many means or actions, some are drawn, and
results are marked as not proved.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model, compile
from idbandits.circuit.reference import slot_weights, up
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, check_number, check_whole
from idbandits.kernel.array_types import Floats, Ints
from idbandits.theory.action_symmetry import Symmetry
from idbandits.theory.observations import max_observations
from idbandits.theory.round_outcomes import RoundOutcomes, RowIndex, row_slice, rows_of

MOST_CORNERS = 1 << 12  # points of a grid over the means that an action uses
LINES = 32  # per mean, drawn if a grid would have more points
ROUNDING = 1e-9  # of rewards, relative to their size
MOST_N = 10**18  # rounds of a bound
NEVER = 1e-12  # probabilities of observation up to here count as 0


@final
class Example(NamedTuple):
    """Action and two sets of means that demonstrate a result.

    Attributes
    ----------
    action : dict of str to label
        Choice of every decision.
    first, second : dict of str to array
        Means by learned table.

    Examples
    --------
    >>> from idbandits import models
    >>> sorted(check_decomposition(models.rank1(2, 2)).example.action)
    ['A1', 'A2']
    """

    action: dict[str, Label]
    first: dict[str, Floats]
    second: dict[str, Floats]


@final
class Monotone(NamedTuple):
    """Result of `check_monotone`.

    Attributes
    ----------
    holds : bool
        Whether Assumption 1 holds.
    proved : bool
        Whether that is proved.
    signs : dict of str to array
        Entry per row of every learned table: 1 if the expected reward never falls in its mean, -1 if it never rises, 0
        if it does not depend on it, NaN if it does both.
    rises, falls : Example or None
        Examples of a rise and a fall if the assumption fails, perhaps of two interchangeable rows.

    Examples
    --------
    >>> d = Diagram("sign")
    >>> d.reward(d.observed("heads", [d.decision("coin", 2)]), [1.0, -1.0])
    >>> result = check_monotone(d)
    >>> result.holds, result.signs["heads"].tolist()
    (True, [-1.0, -1.0])
    """

    holds: bool
    proved: bool
    signs: dict[str, Floats]
    rises: Example | None
    falls: Example | None


@final
class Decomposition(NamedTuple):
    """Result of `check_decomposition`.

    Attributes
    ----------
    constant : float
        Constant C of Assumption 2; infinite if the assumption fails. If it is not proved, it equals `least`.
    proved : bool
        Whether the constant is proved.
    least : float
        Highest ratio |r(a, first) - r(a, second)| / Σ P(E(i) | second, a) |first - second| that was found: no smaller
        constant is possible.
    example : Example or None
        Action and means of that ratio.

    Examples
    --------
    >>> from idbandits import models
    >>> check_decomposition(models.semi_bandit(3, 2)).constant
    1.0
    """

    constant: float
    proved: bool
    least: float
    example: Example | None


@final
class Bound(NamedTuple):
    """Bound on n-step Bayes regret, returned by `bound`.

    It says nothing unless `value` is below `trivial`, which holds for every learner.

    Attributes
    ----------
    value : float
        Bound on the total regret of n rounds; infinite if there is none.
    proved : bool
        Whether all constants are proved.
    d : int
        Learned rows that do not depend on a decision.
    L : int
        Learned rows that do.
    omax : float
        Highest expected number of rows that a round shows.
    C : float
        Constant of Assumption 2.
    B : float
        Range of the expected reward: no round loses more.
    trivial : float
        n B.
    useful_from : float
        Number of rounds from which on `value` is below `trivial`; may be infinite.

    Examples
    --------
    >>> from idbandits import models
    >>> bound(models.cascade(10, 2), 1000).useful_from
    8290
    """

    value: float
    proved: bool
    d: int  # learned rows that do not depend on a decision
    L: int  # learned rows that do
    omax: float
    C: float
    B: float  # the range of the expected reward: no round loses more
    trivial: float  # n B
    useful_from: float  # the number of rounds from which on `value` is below `trivial`, or infinite


def check_monotone(d: Diagram) -> Monotone:
    """Check Assumption 1: the expected reward is monotone in each mean, in one direction for all actions and means.

    Parameters
    ----------
    d : Diagram
        Diagram with a reward and without contexts.

    Returns
    -------
    Monotone
        Verdict, directions by row, and a counterexample.

    Examples
    --------
    >>> from idbandits import models
    >>> check_monotone(models.cascade(4, 2)).signs["attraction"].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    model = compile(d)
    surveys = model.derived(Surveys)
    by_orbit: dict[int, dict[int, Example | None]] = {}  # 1: the reward may rise in rows of this orbit; -1: fall
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
        if len(shown) == 2:
            counterexample = counterexample or directions
    if counterexample is not None:
        return Monotone(False, True, signs, counterexample[1], counterexample[-1])
    return Monotone(True, proved, signs, None, None)


def check_decomposition(d: Diagram) -> Decomposition:
    """Check Assumption 2: find a constant C with |r(a, θ₁) - r(a, θ₂)| ≤ C Σ P(E(i) | θ₂, a) |θ₁(i) - θ₂(i)|.

    The proof changes θ₂ into θ₁ one mean after the other, as the paper does for cascades, in the best order: each step
    is at most C times its share.

    Parameters
    ----------
    d : Diagram
        Diagram with a reward and without contexts.

    Returns
    -------
    Decomposition
        Constant, and whether it is proved.

    Examples
    --------
    >>> from idbandits import models
    >>> check_decomposition(models.cascade(4, 2))[:3]
    (1.0, True, 1.0)
    >>> check_decomposition(models.rank1(3, 3)).constant  # its rows are never de facto observed
    inf
    """
    surveys = compile(d).derived(Surveys)
    least, example = max(((s.ratio, s.example) for s in surveys.summaries), key=lambda pair: pair[0])
    most = max(s.telescoped for s in surveys.summaries)
    if math.isinf(least) or not surveys.complete or math.isinf(most):
        return Decomposition(least, math.isinf(least), least, example)
    return Decomposition(round(max(most, least), 12), True, least, example)


def regret_bound(n: int, parameters: int, omax: float, C: float, B: float) -> float:  # noqa: N803  the paper's names
    """Return the theorem's bound with the constants of its proof (appendix B).

    Parameters
    ----------
    n : int
        Number of rounds.
    parameters : int
        Number of learned rows, d + L.
    omax : float
        Highest expected number of rows that a round shows.
    C : float
        Constant of Assumption 2.
    B : float
        Range of the expected reward of a round.

    Returns
    -------
    float
        Bound on the total regret, in units of the reward; infinite if a constant is.

    Examples
    --------
    >>> round(regret_bound(1000, parameters=10, omax=2, C=1, B=1))
    2636
    """
    n = check_whole("n", n, 1, MOST_N)
    constants = {"parameters": parameters, "omax": omax, "C": C, "B": B}
    if math.inf in [check_number(name, value, 0, math.inf) for name, value in constants.items()]:
        return math.inf
    log = math.log(n)
    return C * math.sqrt(6 * parameters * omax * n * log * (1 + log)) + (C + 2 * math.pi**2 / 3 * B) * parameters


def useful_from(parameters: int, omax: float, C: float, B: float) -> float:  # noqa: N803  the paper's names
    """Return the number of rounds from which on `regret_bound` is below the trivial bound, n B.

    Parameters
    ----------
    parameters : int
        Number of learned rows, d + L.
    omax : float
        Highest expected number of rows that a round shows.
    C : float
        Constant of Assumption 2.
    B : float
        Range of the expected reward of a round.

    Returns
    -------
    float
        Number of rounds, or infinity.

    Examples
    --------
    >>> useful_from(parameters=10, omax=1.75, C=1, B=1)
    10032
    """

    def is_useful(n: int) -> bool:
        return regret_bound(n, parameters, omax, C, B) < n * B

    late = 6  # from 6 rounds on, log n (1 + log n) / n falls, and with it the ratio of the two bounds
    while not is_useful(late):
        if late > MOST_N // 2:
            return math.inf
        late *= 2
    first = 6 + bisect.bisect_left(range(6, late), True, key=is_useful)
    while 1 < first <= 6 and is_useful(first - 1):
        first -= 1
    return first


def bound(d: Diagram, n: int) -> Bound:
    """Return the theorem's bound on the n-step Bayes regret of exact Thompson sampling; infinite if there is none.

    B is the range of the expected reward over all actions and means, which is all that the proof uses. If O_max is not
    proved, it is replaced by the number of nodes with learned tables, which is an upper bound.

    Parameters
    ----------
    d : Diagram
        Diagram with a reward and without contexts.
    n : int
        Number of rounds.

    Returns
    -------
    Bound
        Bound, its constants, and the trivial bound.

    Raises
    ------
    ComplexityError
        An action can be followed by too many observations to enumerate.

    Examples
    --------
    >>> from idbandits import models
    >>> limit = bound(models.cascade(10, 2), 1000)
    >>> limit.d, limit.L, limit.omax, limit.C, limit.B, limit.proved
    (0, 10, 1.5, 1.0, 1.0, True)
    >>> round(limit.value), limit.trivial, limit.useful_from
    (2293, 1000.0, 8290)
    """
    model = compile(d)
    span = model.derived(Surveys).span(d)
    monotone, decomposition, most = check_monotone(d), check_decomposition(d), max_observations(d)
    omax = most.value if most.proved else float(len(model.learned_nodes))
    decisions, rows = {n.name for n in model.decisions}, rows_of(model)
    decided = {use.name for node, use in model.learned_nodes if decisions.intersection(node.parents)}
    of_actions = sum(name in decided for name, _ in rows)
    constants = len(rows), omax, decomposition.constant if monotone.holds else math.inf, span
    return Bound(
        value=regret_bound(n, *constants), proved=monotone.proved and decomposition.proved, d=len(rows) - of_actions,
        L=of_actions, omax=omax, C=decomposition.constant, B=span, trivial=n * span,
        useful_from=useful_from(*constants),
    )  # fmt: skip


class Summary(NamedTuple):
    """Results of a survey of one action."""

    directions: dict[RowIndex, dict[int, Example | None]]  # 1: the reward may rise in this row; -1: fall
    ratio: float  # highest ratio of the two sides of Assumption 2
    example: Example | None  # of that ratio
    telescoped: float  # constant of Assumption 2
    low: float  # bounds of the expected reward
    high: float
    gridded: bool


@final
class Survey:
    """Expected reward and probabilities of observation after one action, on a grid of means or on lines."""

    def __init__(self, outcomes: RoundOutcomes) -> None:
        self.outcomes, self.rows, self.degrees = outcomes, list(outcomes.uses), list(outcomes.uses.values())
        self.shape = tuple(degree + 1 for degree in self.degrees)
        size = math.prod(self.shape)
        self.gridded = size <= MOST_CORNERS
        if self.gridded:  # one column per point, one row per mean
            self.grid = np.indices(self.shape).reshape(-1, size) / np.reshape(self.degrees, (-1, 1))
        else:
            self.grid = self._lines()
        model, number = outcomes.model, self.grid.shape[1]
        self.points = np.repeat(outcomes.generic_point, number, axis=1)
        for row, mean in zip(self.rows, self.grid, strict=True):
            self.points[row_slice(model, row)] = 1 - mean, mean
        circuit = model.rewards.circuit
        values = up(circuit, [np.ones(number)], slot_weights(circuit, self.points, outcomes.action))
        self.rewards = np.sum([values[end] for end in model.rewards.ends[1:]], axis=0) + np.zeros(number)
        chances = outcomes.chances(self.points)
        self.chances = [chances.get(row, np.zeros(number)) for row in self.rows]
        self.bounds, self.slopes = self.rewards, None  # of the reward and of its derivatives; on lines there are none
        if self.gridded:
            self.bounds = self._bernstein(self.rewards)
            self.slopes = [degree * np.diff(self.bounds, axis=i) for i, degree in enumerate(self.degrees)]

    def _lines(self) -> Floats:
        """Draw pairs of points that differ in one mean: half of the pairs inside the cube, half at its corners."""
        number = len(self.rows)
        starts = np.random.default_rng(0).random((number, LINES, number))
        # from all 0 to all 1: a product of many means hardly changes except where all others are 1
        starts[:, ::2] = starts[:, ::2] < np.linspace(0, 1, LINES // 2)[:, None]
        ends = np.stack([starts, starts], axis=-2)
        for i in range(number):
            ends[i, :, :, i] = 0.0, 1.0
        return ends.reshape(-1, number).T

    def _bernstein(self, values: Floats) -> Floats:
        """Return the Bernstein coefficients of the polynomial that has these values on the grid."""
        table = values.reshape(self.shape)
        for axis, degree in enumerate(self.degrees):
            if degree > 1:
                x = np.arange(degree + 1)[:, None] / degree
                basis = np.array([math.comb(degree, k) for k in range(degree + 1)]) * x ** np.arange(degree + 1)
                basis = basis * (1 - x) ** np.arange(degree, -1, -1)
                table = np.moveaxis(np.tensordot(np.linalg.inv(basis), table, (1, axis)), 0, axis)
        return table

    def _pairs(self, i: int) -> Iterator[tuple[Ints, Ints]]:
        """Iterate over pairs of columns of points that differ in mean i only, the lower one first."""
        columns: Ints = np.arange(self.grid.shape[1])
        if self.gridded:
            columns = np.moveaxis(columns.reshape(self.shape), i, 0).reshape(self.shape[i], -1)
        else:
            columns = columns.reshape(len(self.rows), LINES, 2)[i].T
        return itertools.combinations(columns, 2)

    def summary(self, tolerance: float) -> Summary:
        """Summarise the survey."""
        directions: dict[RowIndex, dict[int, Example | None]] = {row: {} for row in self.rows}
        for i, row in enumerate(self.rows):
            for sign in (1, -1):
                rises = [(sign * (self.rewards[high] - self.rewards[low]), low, high) for low, high in self._pairs(i)]
                highest, example = self._highest(rises)
                if highest > tolerance:
                    directions[row][sign] = example
                elif self.slopes is not None and (sign * self.slopes[i]).max() > tolerance:
                    directions[row][sign] = None  # possible, but no example
        low, high = float(self.bounds.min()), float(self.bounds.max())
        return Summary(directions, *self.ratio(tolerance), self.telescope(tolerance), low, high, self.gridded)

    def ratio(self, tolerance: float) -> tuple[float, Example | None]:
        """Return the highest ratio of the two sides of Assumption 2 at the points, and an example."""
        values = []
        for i in range(len(self.rows)):
            for pair in self._pairs(i):
                for first, second in (pair, pair[::-1]):
                    change = np.abs(self.rewards[first] - self.rewards[second])
                    share = np.abs(self.grid[i, first] - self.grid[i, second]) * self.chances[i][second]
                    values.append((_ratio(change, share, tolerance), first, second))
        return self._highest(values)

    def _highest(self, values: Iterable[tuple[Floats, Ints, Ints]]) -> tuple[float, Example | None]:
        """Return the highest of all positive values of pairs of points, and the means at the first pair that has it."""
        best, example, model = 0.0, None, self.outcomes.model
        for array, first, second in values:
            at = int(array.argmax())
            if array[at] > best:
                means = (model.tables_of_means(self.points[:, column].copy()) for column in (first[at], second[at]))
                best, example = float(array[at]), Example(model.action_of(self.outcomes.action), *means)
        return best, example

    def telescope(self, tolerance: float) -> float:
        """Return the smallest constant of Assumption 2 after this action that changing means in turn gives.

        When mean i is changed, those before it are θ₂'s on both sides, those after it are θ₁'s in the reward and θ₂'s
        in the probability of observation. More means before it only help, so the cheapest may always be next.
        """
        if self.slopes is None:
            return math.inf
        chances = [self._bernstein(chance) for chance in self.chances]
        cost, left = 0.0, list(range(len(self.rows)))
        while left:
            costs = {}
            for i in left:
                change = np.abs(self.slopes[i]).max(axis=tuple(left))
                costs[i] = float(_ratio(change, chances[i].min(axis=tuple(left)), tolerance).max())
            cheapest = min(costs, key=lambda i: costs[i])
            cost = max(cost, costs[cheapest])
            left.remove(cheapest)
        return cost


def _ratio(change: Floats, share: Floats, tolerance: float) -> Floats:
    """Return change / share, 0 for no change."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change <= tolerance, 0.0, np.where(share <= NEVER, np.inf, change / share))


@final
class Surveys:
    """Summaries of one action of every kind; `complete` if other actions and means cannot add anything."""

    def __init__(self, model: Model) -> None:
        self._model, self._symmetry = model, Symmetry(model)
        for node, use in model.learned_nodes:
            if node.states > 2:
                where = f"node {node.name!r} is drawn from learned table {use.name!r} of {node.states} states"
                why = "the paper's assumptions are about means of two-state nodes"
                raise DiagramError(f"diagram {model.name!r}: {where}; {why}")
        tolerance = ROUNDING * max(1.0, model.rewards.scale)
        self.summaries = [Survey(RoundOutcomes(model, action)).summary(tolerance) for action in self._symmetry.actions]
        self.complete = self._symmetry.complete and all(s.gridded for s in self.summaries)

    def orbit(self, row: RowIndex) -> int:
        """Return a number that rows share if renamed choices map them onto each other."""
        return int(self._symmetry.orbit[row_slice(self._model, row)][0])

    def span(self, d: Diagram) -> float:
        """Return the range of the expected reward or, if that is not proved, of the sum of all reward tables."""
        if not self.complete:
            return float(sum(np.ptp(term.table) for term in d.rewards))
        return max(s.high for s in self.summaries) - min(s.low for s in self.summaries)
