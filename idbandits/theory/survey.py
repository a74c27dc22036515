"""The expected reward and the probabilities of observation after an action, as polynomials of the means.

Their degree in each mean is the number of nodes which may be drawn from it: mostly 1. So their values on a small grid
say everything about them, and their Bernstein coefficients (for degree 1: the values at the corners of the cube) bound
them everywhere. Where a grid would have too many points, pairs of points are drawn instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.plain import slot_weights, up
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError
from idbandits.kernel.types import Floats, Ints
from idbandits.theory.rounds import Round, Row, learned_nodes, refuse_contexts, row_slice
from idbandits.theory.symmetry import Symmetry

MOST_CORNERS = 1 << 12  # points of a grid over the means that matter after an action
LINES = 32  # per mean, drawn where a grid would have more points
ROUNDING = 1e-9  # of rewards, relative to their size
NEVER = 1e-12  # probabilities of observation up to here count as 0


@final
class Example(NamedTuple):
    """An action and two sets of means that show something."""

    action: dict[str, Label]
    first: dict[str, Floats]
    second: dict[str, Floats]


class Summary(NamedTuple):
    """What a survey of one action says."""

    directions: dict[Row, dict[int, Example | None]]  # 1: the reward may rise in this mean; -1: fall; None: not shown
    ratio: float
    example: Example | None  # of that ratio
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
        self.shape = tuple(degree + 1 for degree in self.degrees)
        self.gridded = math.prod(self.shape) <= MOST_CORNERS
        self.grid = self._grid() if self.gridded else self._lines()  # one column per point, one row per mean
        model, number = round_.model, self.grid.shape[1]
        self.points = np.repeat(round_.generic_point, number, axis=1)
        for row, mean in zip(self.rows, self.grid, strict=True):
            self.points[row_slice(model, row)] = 1 - mean, mean
        circuit = model.rewards.circuit
        values = up(circuit, [np.ones(number)], slot_weights(circuit, self.points, round_.action))
        self.rewards = np.sum([values[end] for end in model.rewards.ends[1:]], axis=0) + np.zeros(number)
        chances = round_.chances(self.points)
        self.chances = [chances.get(row, np.zeros(number)) for row in self.rows]
        self.coefficients = self._bernstein(self.rewards) if self.gridded else None
        self.slopes: list[Floats] | None = None
        if self.coefficients is not None:
            self.slopes = [degree * np.diff(self.coefficients, axis=i) for i, degree in enumerate(self.degrees)]

    def _grid(self) -> Floats:
        points = np.array(list(itertools.product(*(range(size) for size in self.shape))), np.float64)
        return (points / np.array(self.degrees, np.float64)).T

    def _lines(self) -> Floats:
        """Points in pairs that differ in one mean: half of the pairs inside the cube, half at its corners.

        The corners go from all 0 to all 1: a product of many means hardly changes except where all others are 1.
        """
        rng = np.random.default_rng(0)
        number = len(self.rows)
        starts = rng.random((number, LINES, number))
        starts[:, ::2] = starts[:, ::2] < np.linspace(0, 1, LINES // 2)[:, None]
        ends = np.stack([starts, starts], axis=-2)
        for i in range(number):
            ends[i, :, :, i] = 0.0, 1.0
        return ends.reshape(-1, number).T

    def _bernstein(self, values: Floats) -> Floats:
        """The coefficients of the polynomial that has these values on the grid."""
        table = values.reshape(self.shape)
        for axis, degree in enumerate(self.degrees):
            if degree > 1:
                x = np.arange(degree + 1)[:, None] / degree
                basis = np.array([math.comb(degree, k) for k in range(degree + 1)]) * x ** np.arange(degree + 1)
                basis = basis * (1 - x) ** np.arange(degree, -1, -1)
                table = np.moveaxis(np.tensordot(np.linalg.inv(basis), table, (1, axis)), 0, axis)
        return table

    def _pairs(self, i: int) -> Iterator[tuple[Ints, Ints]]:
        """Columns of points that differ in mean i only, the lower ones first."""
        columns = np.arange(self.grid.shape[1])
        if not self.gridded:
            lines = columns.reshape(len(self.rows), LINES, 2)[i]
            yield lines[:, 0], lines[:, 1]
            return
        columns = np.moveaxis(columns.reshape(self.shape), i, 0)
        for low, high in itertools.combinations(range(self.shape[i]), 2):
            yield columns[low].ravel(), columns[high].ravel()

    def summary(self, tolerance: float) -> Summary:
        """What is kept of a survey."""
        directions: dict[Row, dict[int, Example | None]] = {}
        for i, row in enumerate(self.rows):
            directions[row] = {}
            for sign in (1, -1):
                rise, example = self.steepest(i, sign)
                if rise > tolerance:
                    directions[row][sign] = example
                elif self.slopes is not None and (sign * self.slopes[i]).max() > tolerance:
                    directions[row][sign] = None  # not ruled out
        values = self.rewards if self.coefficients is None else self.coefficients
        low, high = float(values.min()), float(values.max())
        return Summary(directions, *self.ratio(tolerance), self.telescope(tolerance), low, high, self.gridded)

    def steepest(self, i: int, sign: int) -> tuple[float, Example | None]:
        """How much the reward rises at most (sign 1), or falls (-1), as mean i grows; and where."""
        best, example = 0.0, None
        for low, high in self._pairs(i):
            rise = sign * (self.rewards[high] - self.rewards[low])
            at = int(rise.argmax())
            if rise[at] > best:
                best, example = float(rise[at]), self._example(low[at], high[at])
        return best, example

    def ratio(self, tolerance: float) -> tuple[float, Example | None]:
        """The highest ratio of the two sides of Assumption 2 at these points, and where it is."""
        best, example = 0.0, None
        for i in range(len(self.rows)):
            for low, high in self._pairs(i):
                for first, second in ((low, high), (high, low)):
                    change = np.abs(self.rewards[first] - self.rewards[second])
                    share = np.abs(self.grid[i, first] - self.grid[i, second]) * self.chances[i][second]
                    ratios = _ratio(change, share, tolerance)
                    at = int(ratios.argmax())
                    if ratios[at] > best:
                        best, example = float(ratios[at]), self._example(first[at], second[at])
        return best, example

    def telescope(self, tolerance: float) -> float:
        """A constant for which Assumption 2 holds after this action: the smallest that changing means in turn gives.

        When mean i has its turn, those before it are θ₂'s on both sides, those after it are θ₁'s in the reward and
        θ₂'s in the probability of observation. More means before it only help, so the cheapest may always go next.
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

    def _example(self, first: int, second: int) -> Example:
        """The means at two points."""
        model = self.round.model
        means = (model.tables_of_means(self.points[:, column].copy()) for column in (first, second))
        return Example(model.action_of(self.round.action), *means)


def _ratio(change: Floats, share: Floats, tolerance: float) -> Floats:
    """change / share; 0 where nothing has changed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change <= tolerance, 0.0, np.where(share <= NEVER, np.inf, change / share))


@final
class Surveys:
    """Summaries of one action of every kind; `complete` where no other action and no other means say more."""

    def __init__(self, model: Model) -> None:
        refuse_contexts(model)
        for node, use in learned_nodes(model):
            if node.states > 2:
                raise DiagramError(
                    f"diagram {model.name!r}: node {node.name!r} is drawn from learned table {use.name!r} of "
                    f"{node.states} states; the paper's assumptions are about means of two-state nodes"
                )
        self._model, self._symmetry = model, Symmetry(model)
        tolerance = ROUNDING * max(1.0, model.rewards.scale)
        self.summaries = [Survey(Round(model, action)).summary(tolerance) for action in self._symmetry.actions]
        self.complete = self._symmetry.complete and all(s.gridded for s in self.summaries)

    def orbit(self, row: Row) -> int:
        """A number that rows share which renamed choices turn into each other."""
        return int(self._symmetry.orbit[row_slice(self._model, row)][0])

    def span(self, d: Diagram) -> float:
        """The range of the expected reward, or where that is not known for sure, of the sum of all reward tables."""
        if not self.complete:
            return float(sum(np.ptp(term.table) for term in d.rewards))
        return max(s.high for s in self.summaries) - min(s.low for s in self.summaries)


def surveys_of(model: Model) -> Surveys:
    """The surveys of a diagram, made once."""
    return model.derived(Surveys)
