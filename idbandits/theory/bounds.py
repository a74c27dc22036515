"""The paper's theorem for any diagram: its assumptions checked, its constants computed, its bound on Bayes regret.

After an action, the expected reward and the probabilities of observation are polynomials of the means, of a degree
in each mean that is the number of nodes which may be drawn from it: mostly 1. So their values on a small grid say
everything about them, and their Bernstein coefficients (for degree 1: the values at the corners of the cube) bound
them everywhere. What follows from these coefficients, for one action of every kind, is proved; where there are too
many means or actions, some are drawn, and what is found is said not to be proved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label, Use
from idbandits.errors import DiagramError, IdbanditsError, is_integer
from idbandits.kernel.types import Floats
from idbandits.theory.observing import Round, Row, learned_nodes, max_observations, refuse_contexts, rows_of, up
from idbandits.theory.symmetry import Patterns

MOST_CORNERS = 1 << 12  # points of a grid over the means that matter after an action
LINES = 32  # per mean, drawn where a grid would have more points
ROUNDING = 1e-9  # of rewards, relative to their size
NEVER = 1e-12  # probabilities of observation up to here count as none


@final
class Example(NamedTuple):
    """An action and two sets of means that show something."""

    action: dict[str, Label]
    first: dict[str, Floats]
    second: dict[str, Floats]


@final
class Monotone(NamedTuple):
    """Whether Assumption 1 holds, whether that is proved, and if it fails, where the reward rises and falls.

    `signs` has an entry a row: 1 where the expected reward never falls in its mean, -1 where it never rises, 0 where
    it does not depend on it, NaN where it does both; `rises` and `falls` may be about two rows of equal standing.
    """

    holds: bool
    proved: bool
    signs: dict[str, Floats]
    rises: Example | None
    falls: Example | None


@final
class Decomposition(NamedTuple):
    """The constant C of Assumption 2, and whether it is proved; infinite where the assumption fails.

    `least` is the highest ratio |r(a, first) - r(a, second)| / Σ P(E(i) | second, a) |first - second| met, at
    `example`: no smaller constant will do. A constant that is not proved is this one.
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
    seen: dict[int, dict[int, Example | None]] = {}  # rows of one orbit: 1 where the reward may rise, -1 where fall
    for summary in surveys.summaries:
        for row, found in summary.ways.items():
            ways = seen.setdefault(surveys.orbit(row), {})
            for sign, example in found.items():
                ways[sign] = ways.get(sign) or example
    signs = {name: np.zeros(t.shape) for name, t in model.learned.items()}
    broken, open_ = None, not surveys.complete
    for name, at in rows_of(model):
        ways = seen.get(surveys.orbit((name, at)), {})
        shown = [sign for sign, example in ways.items() if example is not None]
        open_ |= len(shown) < len(ways) and len(ways) > 1
        signs[name][at] = math.nan if len(shown) == 2 else sum(shown)
        broken = broken or (ways if len(shown) == 2 else None)
    if broken:
        return Monotone(False, True, signs, broken[1], broken[-1])
    return Monotone(True, not open_, signs, None, None)


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
        raise IdbanditsError(f"n is a whole number of rounds from 1, not {n!r}")
    for name, given in (("parameters", parameters), ("omax", omax), ("C", C), ("B", B)):
        if not (isinstance(given, (int, float, np.number)) and given >= 0):
            raise IdbanditsError(f"{name} is a number from 0, not {given!r}")
    if math.isinf(C):
        return math.inf
    log = math.log(n)
    return float(C * math.sqrt(6 * parameters * omax * n * log * (1 + log)) + (C + 2 * math.pi**2 / 3 * B) * parameters)


def bound(d: Diagram, n: int) -> Bound:
    """The theorem's bound on the n-step Bayes regret of exact Thompson sampling in a diagram; infinite if it has none.

    B is the range of the expected reward over all actions and means, which is all that the proof uses. Where O_max is
    not proved, the number of nodes with learned tables stands for it: there cannot be more.

    >>> from idbandits import models
    >>> found = bound(models.cascade(10, 2), 1000)
    >>> found.d, found.L, found.omax, found.C, found.B, found.proved
    (0, 10, 1.5, 1.0, 1.0, True)
    """
    model = compile(d)
    surveys = surveys_of(model)
    monotone, decomposition, most = check_monotone(d), check_decomposition(d), max_observations(d)
    omax = most.value if most.proved else float(learned_nodes(model))
    decided = {
        n.cpd.name for n in d.nodes.values()
        if isinstance(n.cpd, Use) and any(d.nodes[p].kind == "decision" for p in n.parents)
    }  # fmt: skip
    rows = {name: math.prod(t.shape) for name, t in model.learned.items()}
    of_actions = sum(rows[name] for name in decided)
    others = sum(rows.values()) - of_actions
    span = surveys.span(d)
    constant = decomposition.constant if monotone.holds else math.inf
    value = regret_bound(n, others + of_actions, omax, constant, span)
    return Bound(
        value, monotone.proved and decomposition.proved, others, of_actions, omax, decomposition.constant, span
    )


# -- what is known of the rewards after one action -------------------------------------------------------------------


class Summary(NamedTuple):
    """What a survey of one action found."""

    ways: dict[Row, dict[int, Example | None]]  # 1: the reward may rise in this mean, as shown or not; -1: it may fall
    ratio: float
    example: Example | None
    telescoped: float
    low: float
    high: float
    gridded: bool


@final
class Survey:
    """The expected reward and the probabilities of observation after one action, on a grid of means or on lines."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.rows = list(round_.uses)
        self.degrees = list(round_.uses.values())
        self.shape = tuple(m + 1 for m in self.degrees)
        self.gridded = math.prod(self.shape) <= MOST_CORNERS
        grid = self._grid() if self.gridded else self._lines()
        self.grid = grid  # a column a point, a row a mean
        model = round_.model
        self.points = np.repeat(round_.generic, grid.shape[1], axis=1)
        for row, mean in zip(self.rows, grid, strict=True):
            self.points[round_.places(row)] = 1 - mean, mean
        rewards = model.rewards
        values = up(rewards.arrays, [np.ones(grid.shape[1])], round_.weights(self.points, rewards.arrays))
        self.rewards = np.sum([values[end] for end in rewards.ends[1:]], axis=0) + np.zeros(grid.shape[1])
        found = round_.chances(self.points)
        self.chances = [found.get(row, np.zeros(grid.shape[1])) for row in self.rows]
        self.coefficients = self._bernstein(self.rewards) if self.gridded else None
        self.slopes: list[Floats] | None = None
        if self.coefficients is not None:
            self.slopes = [m * np.diff(self.coefficients, axis=i) for i, m in enumerate(self.degrees)]

    def _grid(self) -> Floats:
        points = np.array(list(itertools.product(*(range(size) for size in self.shape))), np.float64)
        return (points / np.array(self.degrees, np.float64)).T

    def _lines(self) -> Floats:
        """Points in pairs that differ in one mean: half of them corners, others from all 0 to all 1, half inside.

        A product of many means hardly changes anywhere else than where all others are 1.
        """
        rng = np.random.default_rng(0)
        number = len(self.rows)
        inside = rng.random((number, LINES, number))
        inside[:, ::2] = inside[:, ::2] < np.linspace(0, 1, LINES // 2)[:, None]
        ends = np.stack([inside, inside], axis=-2)
        for i in range(number):
            ends[i, :, :, i] = 0.0, 1.0
        return ends.reshape(-1, number).T

    def _bernstein(self, values: Floats) -> Floats:
        """The coefficients of the polynomial that has these values on the grid."""
        table = values.reshape(self.shape)
        for axis, m in enumerate(self.degrees):
            if m > 1:
                x = np.arange(m + 1)[:, None] / m
                basis = np.array([math.comb(m, k) for k in range(m + 1)]) * x ** np.arange(m + 1)
                basis = basis * (1 - x) ** np.arange(m, -1, -1)
                table = np.moveaxis(np.tensordot(np.linalg.inv(basis), table, (1, axis)), 0, axis)
        return table

    def _pairs(self, i: int) -> Iterator[tuple[Any, Any]]:
        """Columns of points that differ in mean i only, the lower ones first."""
        if not self.gridded:
            columns = np.arange(self.grid.shape[1]).reshape(len(self.rows), LINES, 2)[i]
            yield columns[:, 0], columns[:, 1]
            return
        columns = np.moveaxis(np.arange(self.grid.shape[1]).reshape(self.shape), i, 0)
        for low, high in itertools.combinations(range(self.shape[i]), 2):
            yield columns[low].ravel(), columns[high].ravel()

    def summary(self, tolerance: float) -> Summary:
        """All that is kept."""
        ways: dict[Row, dict[int, Example | None]] = {}
        for i, row in enumerate(self.rows):
            ways[row] = {}
            for sign in (1, -1):
                rise, example = self.steepest(i, sign)
                if rise > tolerance:
                    ways[row][sign] = example
                elif self.slopes is not None and (sign * self.slopes[i]).max() > tolerance:
                    ways[row][sign] = None  # not ruled out
        values = self.rewards if self.coefficients is None else self.coefficients
        low, high = float(values.min()), float(values.max())
        return Summary(ways, *self.ratio(tolerance), self.telescope(tolerance), low, high, self.gridded)

    def steepest(self, i: int, sign: int) -> tuple[float, Example | None]:
        """Where the reward rises most (sign 1) or falls most (-1) as mean i grows."""
        best, example = 0.0, None
        for low, high in self._pairs(i):
            rise = sign * (self.rewards[high] - self.rewards[low])
            at = int(rise.argmax())
            if rise[at] > best:
                best, example = float(rise[at]), self.example(low[at], high[at])
        return best, example

    def ratio(self, tolerance: float) -> tuple[float, Example | None]:
        """The highest ratio of the two sides of Assumption 2 met, and where."""
        best, example = 0.0, None
        for i in range(len(self.rows)):
            for low, high in self._pairs(i):
                for first, second in ((low, high), (high, low)):
                    change = np.abs(self.rewards[first] - self.rewards[second])
                    share = np.abs(self.grid[i, first] - self.grid[i, second]) * self.chances[i][second]
                    ratios = _ratio(change, share, tolerance)
                    at = int(ratios.argmax())
                    if ratios[at] > best:
                        best, example = float(ratios[at]), self.example(first[at], second[at])
        return best, example

    def telescope(self, tolerance: float) -> float:
        """A constant for which Assumption 2 holds after this action: the smallest that changing means in turn gives.

        When mean i has its turn, those before it are θ₂'s on both sides, those after it are θ₁'s in the reward and
        θ₂'s in the probability of observation. More means before it only help, so the cheapest may always go next.
        """
        if self.slopes is None:
            return math.inf
        chances = [self._bernstein(chance) for chance in self.chances]
        cost, before = 0.0, list[int]()
        while len(before) < len(self.rows):
            costs = {}
            for i in set(range(len(self.rows))).difference(before):
                after = tuple(k for k in range(len(self.rows)) if k not in before)
                change = np.abs(self.slopes[i]).max(axis=after)
                costs[i] = float(_ratio(change, chances[i].min(axis=after), tolerance).max())
            cheapest = min(costs, key=lambda i: costs[i])
            cost = max(cost, costs[cheapest])
            before.append(cheapest)
        return cost

    def example(self, first: int, second: int) -> Example:
        """Two points of the grid, as means."""
        model = self.round.model
        return Example(
            model.action_of(self.round.vector), *(means_of(model, self.points[:, k]) for k in (first, second))
        )


def _ratio(change: Floats, share: Floats, tolerance: float) -> Floats:
    """change / share, where nothing has changed: 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change <= tolerance, 0.0, np.where(share <= NEVER, np.inf, change / share))


def means_of(model: Model, point: Floats) -> dict[str, Floats]:
    """The means in a vector of parameters."""
    means = {}
    for name, table in model.learned.items():
        first = model.parameters.offsets[name]
        full = point[first : first + table.size].reshape(*table.shape, table.states)
        means[name] = full[..., 1].copy() if table.states == 2 else full.copy()
    return means


@final
class Surveys:
    """What is found after every kind of action."""

    def __init__(self, model: Model) -> None:
        refuse_contexts(model)
        for node in model.nodes.values():
            if isinstance(node.cpd, Use) and node.states > 2:
                raise DiagramError(
                    f"diagram {model.name!r}: node {node.name!r} is drawn from learned table {node.cpd.name!r} of "
                    f"{node.states} states; the paper's assumptions are about means of two-state nodes"
                )
        self._patterns = Patterns(model)
        self._any = Round(model, self._patterns.actions[0])
        tolerance = ROUNDING * max(1.0, model.rewards.scale)
        self.summaries = [Survey(Round(model, vector)).summary(tolerance) for vector in self._patterns.actions]
        self.complete = self._patterns.complete and all(s.gridded for s in self.summaries)

    def orbit(self, row: Row) -> int:
        """A number that rows share which renamed choices turn into each other."""
        return int(self._patterns.orbit[self._any.places(row)][0])

    def span(self, d: Diagram) -> float:
        """The range of the expected reward, or where that is not known for sure, of the sum of all reward tables."""
        if not self.complete:
            return float(sum(np.ptp(term.table) for term in d.rewards))
        return max(s.high for s in self.summaries) - min(s.low for s in self.summaries)


def surveys_of(model: Model) -> Surveys:
    """The surveys of a diagram, made once."""
    return model.once("surveys", lambda: Surveys(model))
