"""Possible observations after an action, the learned rows that each shows, and their probabilities."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model
from idbandits.circuit.reference import down, slot_weights, up
from idbandits.diagram.diagram import Node
from idbandits.diagram.tables import Use
from idbandits.errors import ComplexityError, DiagramError
from idbandits.kernel.array_types import Bools, Floats, Ints

RowIndex: TypeAlias = tuple[str, tuple[int, ...]]  # a learned table, and the index of one of its rows

MOST_OBSERVATIONS = 1 << 14  # of one connected part of a diagram
MOST_COLUMNS = 1 << 15  # that are evaluated at once


def check_in_theory(model: Model) -> None:
    """Raise if a diagram has features or contexts, which the paper's theorem does not cover."""
    for table in model.learned.values():
        if table.features is not None:
            what = f"learned table {table.name!r} has features, but in the paper's theory rows have independent priors"
            raise DiagramError(f"diagram {model.name!r}: {what}")
    if model.contexts:
        what = f"context node {model.contexts[0].name!r} is outside the paper's theory"
        raise DiagramError(f"diagram {model.name!r}: {what}, which covers decisions, latent and observed nodes")


def rows_of(model: Model) -> list[RowIndex]:
    """Return all learned rows that are not fixed, in the order of the parameters."""
    return [
        (name, index)
        for name, table in model.learned.items()
        for number, index in enumerate(np.ndindex(table.shape))
        if number not in table.fixed
    ]


def row_slice(model: Model, row: RowIndex) -> slice:
    """Return the parameters of a row."""
    name, index = row
    table = model.learned[name]
    flat = int(np.ravel_multi_index(index, table.shape)) if index else 0
    first = model.parameters.offsets[name] + flat * table.states
    return slice(first, first + table.states)


class Part(NamedTuple):
    """Possible observations of connected chance nodes, and the learned rows that they show."""

    names: list[str]  # of the nodes that are seen
    observations: Ints  # one row per observation
    leaves: list[Bools]  # of the revealed likelihood, one column per observation
    known: dict[RowIndex, Bools]  # the observations for which conditions 1 and 2 of the paper's event hold
    fair: dict[RowIndex, Bools]  # the observations for which condition 3 holds too


@final
class RoundOutcomes:
    """Possible observations after an action. Nodes that are not among `seen` count as latent."""

    def __init__(self, model: Model, action: Ints, seen: Sequence[str] | None = None) -> None:
        self.model, self.action = model, action
        self._circuit, self._indicators = model.revealed.circuit, model.revealed.indicators
        self._seen = [n.name for n in model.observed] if seen is None else seen
        self._rows = set(rows_of(model))
        rng = np.random.default_rng(0)
        means = [rng.dirichlet(np.full(t.states, 9.0), t.shape).ravel() for t in model.learned.values()]
        # in general position: polynomials that agree there agree everywhere
        self.generic_point = np.concatenate([*means, model.parameters.known])[:, None]

    @cached_property
    def uses(self) -> dict[RowIndex, int]:
        """The learned rows that nodes may be drawn from, and by how many: the degree of probabilities in each row."""
        uses: dict[RowIndex, int] = {}
        for node, use in self.model.learned_nodes:
            for row in {row for _, row in self._rows_at(node, use)}:
                uses[row] = uses.get(row, 0) + 1
        return {row: uses[row] for row in rows_of(self.model) if row in uses}

    def _rows_at(self, node: Node, use: Use) -> Iterator[tuple[dict[str, int], RowIndex]]:
        """Iterate over the states of a node's chance parents, and the row that it is then drawn from."""
        nodes, axes, shape = self.model.nodes, self.model.parameters.axes, self.model.learned[use.name].shape
        rows = rows_of_use(self.model.diagram, node)
        above = [p for p in node.parents if nodes[p].is_chance]
        for states in itertools.product(*(range(nodes[p].states) for p in above)):
            chance = dict(zip(above, states, strict=True))
            number = rows[tuple(chance[p] if p in chance else self.action[axes[p]] for p in node.parents)]
            yield chance, (use.name, tuple(int(i) for i in np.unravel_index(number, shape)) if shape else ())

    @cached_property
    def parts(self) -> list[Part]:
        """The connected parts of the diagram without decisions: independent of each other, given the action."""
        part_of: dict[str, set[str]] = {}
        for node in self.model.nodes.values():
            if node.is_chance:
                joined = {node.name}.union(*(part_of[p] for p in node.parents if p in part_of))
                part_of.update(dict.fromkeys(joined, joined))
        return [self._part(names) for names in {id(names): names for names in part_of.values()}.values()]

    def _part(self, names: set[str]) -> Part:
        seen = [name for name in self._seen if name in names]
        observations = self._observations(seen)
        leaves = self._leaves(seen, observations)
        slopes = down(self._circuit, up(self._circuit, leaves, self._possible), self._possible)
        # by node: its possible states, one row per state, one column per observation
        states = {name: np.array([slopes[i] & leaves[i] for i in self._leaves_of(name)]) for name in names}
        numbers = [leaf.astype(float) for leaf in leaves]
        chance = up(self._circuit, numbers, slot_weights(self._circuit, self.generic_point, self.action))[-1]
        part = Part(seen, observations, leaves, {}, {})
        for node, use in self.model.learned_nodes:
            if node.name not in names:
                continue
            below = {node.name}  # and its descendants
            for other in self.model.nodes.values():  # parents first
                below |= {other.name} if below.intersection(other.parents) else set()
            not_below = [k for k, name in enumerate(seen) if name not in below]
            groups = np.unique(observations[:, not_below], axis=0, return_inverse=True)[1].ravel()
            for row, shown in self._known_rows(node, use, states, leaves).items():
                means = self.generic_point[row_slice(self.model, row), 0]
                # for each state s: P(row is known, node is in s, observations of nodes not below it) / P(s)
                pairs = zip(states[node.name], means, strict=True)
                ratios = [np.bincount(groups, shown * state * chance) / mean for state, mean in pairs]
                even = np.isclose(np.min(ratios, axis=0), np.max(ratios, axis=0), rtol=1e-9, atol=0)
                part.known[row] = part.known.get(row, False) | shown
                part.fair[row] = part.fair.get(row, False) | (shown & even[groups])
        return part

    @cached_property
    def _possible(self) -> list[Any]:
        """For each slot, whether its weight can be positive: learned entries count as strictly between 0 and 1."""
        parameters = self.model.parameters
        positive = np.concatenate([np.ones(parameters.learned_size), parameters.known]) > 0
        return slot_weights(self._circuit, positive, self.action)

    def _observations(self, seen: Sequence[str]) -> Ints:
        """Return all possible states of the nodes that are seen, one row per observation."""
        observations = np.zeros((1, 0), np.int64)
        for k, name in enumerate(seen):
            number = self.model.nodes[name].states
            last = np.tile(np.arange(number), len(observations))
            observations = np.column_stack([np.repeat(observations, number, axis=0), last])
            leaves = self._leaves(seen[: k + 1], observations)
            observations = observations[up(self._circuit, leaves, self._possible)[-1]]
            if len(observations) > MOST_OBSERVATIONS:
                what = f"more than {MOST_OBSERVATIONS:,} ways after one action, too many to enumerate"
                raise ComplexityError(f"diagram {self.model.name!r}: nodes {', '.join(seen)} can be seen in {what}")
        return observations

    def _leaves(self, seen: Sequence[str], observations: Ints) -> list[Bools]:
        states = dict(zip(seen, observations.T, strict=True))
        return list(self.model.revealed.leaves(states, (len(observations),)) > 0)

    def _leaves_of(self, name: str) -> range:
        return range(self._indicators[name], self._indicators[name] + self.model.nodes[name].states)

    def _known_rows(self, node: Node, use: Use, states: dict[str, Bools], leaves: list[Bools]) -> dict[RowIndex, Bools]:
        """Return, by row, the observations that determine a node's state and that it was drawn from this row."""
        certain = states[node.name].sum(axis=0) == 1
        for jointly in (False, True):  # parents one by one allow more rows; jointly takes one pass per row
            possible: dict[RowIndex, Bools] = {}
            for parents, row in self._rows_at(node, use):
                allowed = certain & np.all([states[p][s] for p, s in parents.items()], axis=0)
                if jointly and allowed.any():
                    given_parents = list(leaves)
                    for p, s in parents.items():
                        for state, leaf in enumerate(self._leaves_of(p)):
                            if state != s:
                                given_parents[leaf] = np.zeros_like(allowed)
                    allowed = allowed & up(self._circuit, given_parents, self._possible)[-1]
                possible[row] = possible.get(row, False) | allowed
            number = np.sum([*possible.values()], axis=0)
            if (number <= 1).all():
                break
        rows = [row for row in possible if row in self._rows]
        return {row: only for row in rows if (only := possible[row] & (number == 1)).any()}

    def chances(self, points: Floats) -> dict[RowIndex, Floats]:
        """Return P(E(i)) of the rows that can be shown, at points given as columns of parameters."""
        missed, number = dict[RowIndex, Floats](), points.shape[1]
        for part in self.parts:
            fair = {row: shown for row, shown in part.fair.items() if shown.any()}
            step = max(1, MOST_COLUMNS // len(part.observations))
            for first in range(0, number if fair else 0, step):
                batch = points[:, first : first + step]
                leaves = [np.repeat(leaf.astype(float), batch.shape[1]) for leaf in part.leaves]
                weights = slot_weights(self._circuit, batch, self.action)
                tiled = [np.tile(weight, len(part.observations)) for weight in weights]
                chance = up(self._circuit, leaves, tiled)[-1].reshape(len(part.observations), -1)
                for row, shown in fair.items():  # parts are independent
                    missed.setdefault(row, np.ones(number))[first : first + step] *= 1 - shown @ chance
        return {row: np.clip(1 - miss, 0.0, 1.0) for row, miss in missed.items()}
