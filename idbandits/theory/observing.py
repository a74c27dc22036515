"""De facto observations (section 5 of the paper): which learned rows a round shows, and how likely that is.

Circuits are evaluated in plain NumPy here, for many observations or means at once: a column each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.special import roots_jacobi

from idbandits.circuit.build import Arrays
from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import Label, Use
from idbandits.errors import ComplexityError, DiagramError, ImpossibleObservationError
from idbandits.kernel.types import Floats, Ints
from idbandits.theory.symmetry import Patterns

Row: TypeAlias = tuple[str, tuple[int, ...]]  # a learned table, and the index of one of its rows
Bools: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = Sequence[npt.NDArray[Any]]

MOST_OBSERVATIONS = 1 << 14  # of one connected part of a diagram
MOST_POINTS = 1 << 12  # of a quadrature over the prior; draws, where it would need more
WIDE = 1 << 15  # columns that are evaluated at once


@final
class Observations(NamedTuple):
    """The probability that each learned row is de facto observed, their sum, and whether they are exact or drawn."""

    rows: dict[str, Floats]
    total: float
    exact: bool


@final
class Most(NamedTuple):
    """The most expected observations (O_max), an action that has them, and whether no action is proven to have more."""

    value: float
    action: dict[str, Label]
    proved: bool


def observed_parameters(
    d: Diagram, action: Action, observation: Mapping[str, Any], *, biased: bool = False
) -> list[Row]:
    """The learned rows that a round shows: those i of which the paper's event E(i) holds.

    A node shows row i if its state is seen or follows from what was seen, if the same goes for the row that it was
    drawn from, and if it is a fair draw: given what was seen of nodes that are not below it, its state does not
    decide whether it is known. A click in the position-based model tells that the item attracts, but an item that
    does not attract is never known, so such rows are listed with `biased` only. Learned entries count as strictly
    between 0 and 1. A row that several nodes show is listed once; one of more than two states counts as one sample.
    Nodes that the observation leaves out were not seen.

    >>> from idbandits import models
    >>> observed_parameters(models.cascade(9, 3), {"A1": 7, "A2": 5, "A3": 1}, {"C1": 0, "C2": 1, "C3": 0})
    [('attraction', (5,)), ('attraction', (7,))]
    """
    model = compile(d)
    vector = action_without_context(model, action)
    seen = model.observation_states(observation)
    found: set[Row] = set()
    for part in Round(model, vector, [n.name for n in model.observed if n.name in seen]).parts:
        same = (part.seen == [seen[name] for name in part.names]).all(axis=1)
        if not same.any():
            shown = ", ".join(f"{name} = {observation[name]!r}" for name in part.names)
            raise ImpossibleObservationError(
                f"observation {shown}: diagram {d.name!r} gives it probability zero for action {dict(action)!r}"
            )
        found.update(row for row, marks in (part.known if biased else part.fair).items() if marks[same].any())
    return [row for row in rows_of(model) if row in found]


def observation_probabilities(d: Diagram, action: Action, means: Means | None = None) -> Observations:
    """P(E(i) | means, action) of every learned row; without means, expected under the prior.

    The prior's expectation is exact, by a quadrature of the degree in which rows appear more than once, unless that
    has too many points: then it is an average over draws.

    >>> from idbandits import models
    >>> seen = observation_probabilities(models.cascade(4, 3), {"A1": 0, "A2": 1, "A3": 2})
    >>> seen.rows["attraction"].tolist(), seen.total
    ([1.0, 0.5, 0.25, 0.0], 1.75)
    """
    model = compile(d)
    round_ = Round(model, action_without_context(model, action))
    if means is None:
        return round_.expected()
    points = model.parameter_vector(means)[:, None]
    return collect(model, {row: float(chance[0]) for row, chance in round_.chances(points).items()}, True)


def max_observations(d: Diagram) -> Most:
    """O_max: the highest expected number of learned rows that an action shows, means drawn from the prior.

    Actions that differ only in which of several choices of equal standing they take are tried once. Where too many
    remain, some are drawn, and `proved` is False unless one shows as many rows as there are nodes with learned tables.

    >>> from idbandits import models
    >>> max_observations(models.cascade(100, 3))
    Most(value=1.75, action={'A1': 0, 'A2': 1, 'A3': 2}, proved=True)
    """
    model = compile(d)
    refuse_contexts(model)
    patterns = Patterns(model)
    best, chosen, exact = -1.0, np.empty(0, np.int64), True
    for vector in patterns.actions:
        seen = Round(model, vector).expected()
        exact &= seen.exact
        if seen.total > best + 1e-12:
            best, chosen = seen.total, vector
    proved = exact and (patterns.complete or best >= learned_nodes(model) - 1e-12)
    return Most(best, model.action_of(chosen), proved)


def learned_nodes(model: Model) -> int:
    """How many nodes are drawn from learned tables: no round shows more rows."""
    return sum(isinstance(n.cpd, Use) for n in model.nodes.values())


def refuse_contexts(model: Model) -> None:
    """The paper has no contexts, and neither has its theorem."""
    if model.contexts:
        raise DiagramError(
            f"diagram {model.name!r}: context node {model.contexts[0].name!r} is outside the paper's theory; "
            "it covers decisions, latent and observed nodes"
        )


def action_without_context(model: Model, action: Action) -> Ints:
    """A checked action in a diagram without contexts."""
    refuse_contexts(model)
    return model.action_vector(action)


def rows_of(model: Model) -> list[Row]:
    """All learned rows, in the order of the parameters."""
    return [(name, tuple(row)) for name, t in model.learned.items() for row in np.ndindex(t.shape)]


def collect(model: Model, chances: Mapping[Row, float], exact: bool) -> Observations:
    """Probabilities of rows as arrays; the rows that are missing have none."""
    rows = {name: np.zeros(t.shape) for name, t in model.learned.items()}
    for (name, row), chance in chances.items():
        rows[name][row] = chance
    return Observations(rows, math.fsum(chances.values()), exact)


# -- one action ------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Chance nodes that hang together: all that can be seen of them, a row each, and the learned rows this shows."""

    names: list[str]
    seen: Ints
    leaves: list[Bools]  # of the revealed likelihood, a column an observation
    known: dict[Row, Bools]  # conditions 1 and 2 of the paper's event
    fair: dict[Row, Bools]  # condition 3 too


@final
class Round:
    """An action, and all that can be seen after it. Unseen nodes count as latent."""

    def __init__(self, model: Model, vector: Ints, seen: Sequence[str] | None = None) -> None:
        self.model, self.vector = model, vector
        self.arrays, self.indicators = model.revealed.arrays, model.revealed.indicators
        self.seen = [n.name for n in model.observed] if seen is None else seen
        self.known = model.parameters.known
        generic = np.random.default_rng(0)
        means = [generic.dirichlet(np.full(t.states, 9.0), t.shape).ravel() for t in model.learned.values()]
        self.generic = np.concatenate([*means, self.known])[:, None]

    @cached_property
    def uses(self) -> dict[Row, int]:
        """The learned rows that nodes may be drawn from, and by how many nodes: the degree of any probability."""
        uses: dict[Row, int] = {}
        for node in self.model.nodes.values():
            if isinstance(node.cpd, Use):
                for row in {row for _, row in self.rows_at(node)}:
                    uses[row] = uses.get(row, 0) + 1
        return {row: uses[row] for row in rows_of(self.model) if row in uses}

    def rows_at(self, node: Node) -> Iterator[tuple[dict[str, int], Row]]:
        """The row that a node is drawn from, for all states of its chance parents."""
        nodes, axes = self.model.nodes, self.model.parameters.axes
        assert isinstance(node.cpd, Use)
        shape = self.model.learned[node.cpd.name].shape
        above = [p for p in node.parents if nodes[p].is_chance]
        for states in itertools.product(*(range(nodes[p].states) for p in above)):
            chance = dict(zip(above, states, strict=True))
            at = tuple(chance[p] if p in chance else int(self.vector[axes[p]]) for p in node.parents)
            if isinstance(node.cpd.rows, int):
                at = (node.cpd.rows,)
            elif node.cpd.rows is not None:
                at = (int(node.cpd.rows[at]),)
            elif len(shape) != len(at):  # declared with rows, read by all combinations in turn
                at = (int(np.ravel_multi_index(at, [nodes[p].states for p in node.parents])),)
            yield chance, (node.cpd.name, at)

    @cached_property
    def parts(self) -> list[Part]:
        """The connected parts of the diagram, decisions left out: independent of each other, given the action."""
        group: dict[str, set[str]] = {}
        for node in self.model.nodes.values():
            if node.is_chance:
                joined = {node.name}.union(*(group[p] for p in node.parents if p in group))
                group.update(dict.fromkeys(joined, joined))
        return [self._part(names) for names in {id(g): g for g in group.values()}.values()]

    def _part(self, names: set[str]) -> Part:
        possible = self.weights(np.concatenate([np.ones(self.model.parameters.learned_size), self.known]) > 0)
        shown = [n for n in self.seen if n in names]
        seen = np.zeros((1, 0), np.int64)
        for k, name in enumerate(shown):
            number = self.model.nodes[name].states
            seen = np.column_stack([np.repeat(seen, number, axis=0), np.tile(np.arange(number), len(seen))])
            seen = seen[up(self.arrays, self._leaves(shown[: k + 1], seen), possible)[-1]]
            if len(seen) > MOST_OBSERVATIONS:
                raise ComplexityError(
                    f"diagram {self.model.name!r}: nodes {', '.join(shown)} can be seen in more than "
                    f"{MOST_OBSERVATIONS:,} ways after one action; that many are tried"
                )
        leaves = self._leaves(shown, seen)
        values = up(self.arrays, leaves, possible)
        slopes = down(self.arrays, values, possible, len(leaves))
        states = {name: self._states(name, slopes, leaves) for name in names}
        chance = up(self.arrays, [leaf.astype(float) for leaf in leaves], self.weights(self.generic))[-1]
        known: dict[Row, Bools] = {}
        fair: dict[Row, Bools] = {}
        for node in self.model.nodes.values():
            if node.name in names and isinstance(node.cpd, Use):
                above = [k for k, name in enumerate(shown) if name not in self._below(node)]
                groups = np.unique(seen[:, above], axis=0, return_inverse=True)[1].ravel()
                for row, marks in self._shown_by(node, states, leaves, possible).items():
                    mean = self.generic[self.places(row), 0]
                    free = [
                        np.bincount(groups, marks * s * chance) / m
                        for s, m in zip(states[node.name], mean, strict=True)
                    ]
                    even = np.isclose(np.min(free, axis=0), np.max(free, axis=0), rtol=1e-9, atol=0)
                    known[row] = known.get(row, False) | marks
                    fair[row] = fair.get(row, False) | (marks & even[groups])
        return Part(shown, seen, leaves, known, fair)

    def _shown_by(
        self, node: Node, states: Mapping[str, Bools], leaves: list[Bools], possible: Columns
    ) -> dict[Row, Bools]:
        """For every row, the observations after which this node's state is certain and so is that it has this row."""
        certain = states[node.name].sum(axis=0) == 1
        rows: dict[Row, Bools] = {}
        for jointly in (False, True):  # first by what each parent may have been, which allows too many rows
            rows = {}
            for chance, row in self.rows_at(node):
                marks = certain & np.all([states[p][s] for p, s in chance.items()], axis=0)
                if jointly and marks.any():
                    held = list(leaves)
                    for p, s in chance.items():
                        for other in range(self.model.nodes[p].states):
                            if other != s:
                                held[self.indicators[p] + other] = np.zeros_like(marks)
                    marks = marks & up(self.arrays, held, possible)[-1]
                rows[row] = rows.get(row, False) | marks
            if (np.sum([*rows.values()], axis=0) <= 1).all():
                break
        alone = np.sum([*rows.values()], axis=0) == 1
        return {row: marks & alone for row, marks in rows.items() if (marks & alone).any()}

    def _below(self, node: Node) -> set[str]:
        below = {node.name}
        for other in self.model.nodes.values():  # parents first
            if below.intersection(other.parents):
                below.add(other.name)
        return below

    def _leaves(self, shown: Sequence[str], seen: Ints) -> list[Bools]:
        leaves = [np.ones(len(seen), np.bool_) for _ in range(self.model.revealed.circuit.leaves)]
        for name, states in zip(shown, seen.T, strict=True):
            for s in range(self.model.nodes[name].states):
                leaves[self.indicators[name] + s] = states == s
        return leaves

    def _states(self, name: str, slopes: Columns, leaves: Columns) -> Bools:
        """The states that a node may have been in: a row each."""
        first = self.indicators[name]
        return np.array([slopes[i] & leaves[i] for i in range(first, first + self.model.nodes[name].states)])

    # -- probabilities -------------------------------------------------------------------------------------------------

    def places(self, row: Row) -> slice:
        """Where the entries of a row are among the parameters."""
        table = self.model.learned[row[0]]
        flat = int(np.ravel_multi_index(row[1], table.shape)) if row[1] else 0
        first = self.model.parameters.offsets[row[0]] + flat * table.states
        return slice(first, first + table.states)

    def weights(self, points: npt.NDArray[Any], arrays: Arrays | None = None) -> list[npt.NDArray[Any]]:
        """The weights of all slots, for parameters in columns."""
        arrays = self.arrays if arrays is None else arrays
        read = [points[entry_of(arrays, s, self.vector)] for s in range(len(arrays.slot_base))]
        for s, also in enumerate(arrays.slot_also):
            while also >= 0:
                read[s], also = read[s] * points[entry_of(arrays, also, self.vector)], arrays.slot_also[also]
        return read

    def chances(self, points: Floats) -> dict[Row, Floats]:
        """P(E(i)) of the rows that can be shown, for parameters in columns."""
        missed: dict[Row, Floats] = {}
        number = points.shape[1]
        for part in self.parts:
            step = max(1, WIDE // len(part.seen))
            for at in range(0, number if any(m.any() for m in part.fair.values()) else 0, step):
                some = points[:, at : at + step]
                leaves = [np.repeat(leaf.astype(float), some.shape[1]) for leaf in part.leaves]
                weights = [np.tile(w, len(part.seen)) for w in self.weights(some)]
                chance = up(self.arrays, leaves, weights)[-1].reshape(len(part.seen), -1)
                for row, marks in part.fair.items():
                    if marks.any():  # parts are independent: a row is missed if all of them miss it
                        missed.setdefault(row, np.ones(number))[at : at + step] *= 1 - marks @ chance
        return {row: np.clip(1 - miss, 0.0, 1.0) for row, miss in missed.items()}

    def expected(self) -> Observations:
        """P(E(i)) expected under the prior."""
        means = [t.prior / t.prior.sum(axis=-1, keepdims=True) for t in self.model.learned.values()]
        plain = np.concatenate([*(m.ravel() for m in means), self.known])
        repeated = {row: degree for row, degree in self.uses.items() if degree > 1}
        rules = [quadrature(self.model.learned[name].prior[row], n) for (name, row), n in repeated.items()]
        exact = math.prod(len(weights) for _, weights in rules) <= MOST_POINTS
        if exact:
            grid = np.array(list(itertools.product(*(range(len(weights)) for _, weights in rules))), np.int64)
            points = np.repeat(plain[:, None], len(grid), axis=1)
            weights = np.ones(len(grid))
            for row, (values, chances), at in zip(repeated, rules, grid.T, strict=True):
                points[self.places(row)] = values[at].T
                weights *= chances[at]
        else:
            rng = np.random.default_rng(0)
            points = np.repeat(plain[:, None], MOST_POINTS, axis=1)
            weights = np.full(MOST_POINTS, 1 / MOST_POINTS)
            for row in repeated:
                prior = self.model.learned[row[0]].prior[row[1]]
                points[self.places(row)] = rng.dirichlet(prior, MOST_POINTS).T
        chance = {row: float(chances @ weights) for row, chances in self.chances(points).items()}
        return collect(self.model, chance, exact)


def quadrature(prior: Floats, degree: int) -> tuple[Floats, Floats]:
    """Rows and weights that average any polynomial of this degree under a Dirichlet prior exactly.

    >>> rows, weights = quadrature(np.array([1.0, 1.0]), 3)
    >>> round(float(weights @ rows[:, 1] ** 3), 12)  # of a uniform variable: 1 / 4
    0.25
    """
    rows, weights, rest = np.zeros((1, 0)), np.ones(1), np.ones(1)
    for k in range(len(prior) - 1):  # a Dirichlet breaks a stick into pieces, each a beta share of what is left
        x, w = roots_jacobi(degree // 2 + 1, prior[k + 1 :].sum() - 1, prior[k] - 1)
        share, w = np.tile((1 + x) / 2, len(weights)), w / w.sum()
        rest = np.repeat(rest, len(x))
        rows = np.column_stack([np.repeat(rows, len(x), axis=0), rest * share])
        rest, weights = rest * (1 - share), np.repeat(weights, len(x)) * np.tile(w, len(weights))
    return np.column_stack([rows, rest]), weights


# -- circuits, a column a case ---------------------------------------------------------------------------------------


def entry_of(arrays: Arrays, slot: int, vector: Ints) -> int:
    """The parameter that a slot stands for."""
    base, strides, place = arrays.atom(slot)
    index = sum(stride * int(vector[axis]) for axis, stride in strides)
    return base + (arrays.lookup[place + index] if place >= 0 else index)


def up(arrays: Arrays, leaves: Columns, weights: Columns) -> list[npt.NDArray[Any]]:
    """The values of all nodes; with bools, whether there is a way to make them positive."""
    values = list(leaves)
    for n, product in enumerate(arrays.product):
        edges = range(arrays.start[n], arrays.start[n + 1])
        if product:
            values.append(values[arrays.child[edges[0]]] * values[arrays.child[edges[1]]])
            continue
        total = np.zeros_like(leaves[0])
        for e in edges:
            slot, value = arrays.slot[e], values[arrays.child[e]]
            total = total + (value if slot < 0 else weights[slot] * value)
        values.append(total)
    return values


def down(arrays: Arrays, values: Columns, weights: Columns, leaves: int) -> list[npt.NDArray[Any]]:
    """The derivatives of the last node by all nodes."""
    slopes = [np.zeros_like(values[0]) for _ in values]
    slopes[-1] = np.ones_like(values[0])
    for n in range(len(arrays.product) - 1, -1, -1):
        slope = slopes[leaves + n]
        edges = range(arrays.start[n], arrays.start[n + 1])
        if arrays.product[n]:
            left, right = arrays.child[edges[0]], arrays.child[edges[1]]
            slopes[left] = slopes[left] + slope * values[right]
            slopes[right] = slopes[right] + slope * values[left]
            continue
        for e in edges:
            slot, child = arrays.slot[e], arrays.child[e]
            slopes[child] = slopes[child] + (slope if slot < 0 else weights[slot] * slope)
    return slopes
