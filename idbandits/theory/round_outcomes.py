"""One round with its action fixed: what can be seen after it, which learned rows that shows, and how likely it is."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.reference import down, slot_weights, up
from idbandits.diagram.diagram import Node
from idbandits.diagram.tables import Use
from idbandits.errors import ComplexityError, DiagramError
from idbandits.kernel.array_types import Bools, Floats, Ints

Row: TypeAlias = tuple[str, tuple[int, ...]]  # a learned table, and the index of one of its rows

MOST_OBSERVATIONS = 1 << 14  # of one connected part of a diagram
MOST_COLUMNS = 1 << 15  # that are evaluated at once


def refuse_what_is_new(model: Model) -> None:
    """The paper has neither contexts nor features, and neither has its theorem."""
    for table in model.learned.values():
        if table.features is not None:
            what = f"learned table {table.name!r} has features, but in the paper's theory rows have independent priors"
            raise DiagramError(f"diagram {model.name!r}: {what}")
    if model.contexts:
        what = f"context node {model.contexts[0].name!r} is outside the paper's theory"
        raise DiagramError(f"diagram {model.name!r}: {what}, which covers decisions, latent and observed nodes")


def rows_of(model: Model) -> list[Row]:
    """All learned rows that are not fixed, in the order of the parameters."""
    return [
        (name, index)
        for name, table in model.learned.items()
        for number, index in enumerate(np.ndindex(table.shape))
        if number not in table.fixed
    ]


def row_slice(model: Model, row: Row) -> slice:
    """Where the entries of a row are among the parameters."""
    name, index = row
    table = model.learned[name]
    flat = int(np.ravel_multi_index(index, table.shape)) if index else 0
    first = model.parameters.offsets[name] + flat * table.states
    return slice(first, first + table.states)


def learned_nodes(model: Model) -> list[tuple[Node, Use]]:
    """The nodes that are drawn from learned tables: no round shows more rows than there are such nodes."""
    return [(node, node.cpd) for node in model.nodes.values() if isinstance(node.cpd, Use)]


class Part(NamedTuple):
    """Connected chance nodes: what can be seen of them, one row per observation, and the learned rows this shows."""

    names: list[str]
    observations: Ints
    leaves: list[Bools]  # of the revealed likelihood, one column per observation
    known: dict[Row, Bools]  # the observations for which conditions 1 and 2 of the paper's event hold
    fair: dict[Row, Bools]  # those for which condition 3 holds too


@final
class Round:
    """An action, and all that can be seen after it. Nodes that are not among `seen` count as latent."""

    def __init__(self, model: Model, action: Ints, seen: Sequence[str] | None = None) -> None:
        self.model, self.action = model, action
        self._circuit, self._indicators = model.revealed.circuit, model.revealed.indicators
        self._seen = [n.name for n in model.observed] if seen is None else seen
        self._rows = set(rows_of(model))
        rng = np.random.default_rng(0)
        means = [rng.dirichlet(np.full(t.states, 9.0), t.shape).ravel() for t in model.learned.values()]
        # a point in general position: polynomials that agree there agree everywhere
        self.generic_point = np.concatenate([*means, model.parameters.known])[:, None]

    @cached_property
    def uses(self) -> dict[Row, int]:
        """The learned rows that nodes may be drawn from, and by how many nodes: the degree of any probability."""
        uses: dict[Row, int] = {}
        for node, use in learned_nodes(self.model):
            for row in {row for _, row in self._rows_at(node, use)}:
                uses[row] = uses.get(row, 0) + 1
        return {row: uses[row] for row in rows_of(self.model) if row in uses}

    def _rows_at(self, node: Node, use: Use) -> Iterator[tuple[dict[str, int], Row]]:
        """The row that a node is drawn from, for all states of its chance parents."""
        nodes, axes, shape = self.model.nodes, self.model.parameters.axes, self.model.learned[use.name].shape
        above = [p for p in node.parents if nodes[p].is_chance]
        for states in itertools.product(*(range(nodes[p].states) for p in above)):
            chance = dict(zip(above, states, strict=True))
            index = tuple(chance[p] if p in chance else int(self.action[axes[p]]) for p in node.parents)
            if isinstance(use.rows, int):
                index = (use.rows,)
            elif use.rows is not None:
                index = (int(use.rows[index]),)
            elif len(shape) != len(index):  # declared with rows, read by all combinations in turn
                index = (int(np.ravel_multi_index(index, [nodes[p].states for p in node.parents])),)
            yield chance, (use.name, index)

    @cached_property
    def parts(self) -> list[Part]:
        """The connected parts of the diagram, decisions left out: independent of each other, given the action."""
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
        # the states that each node may have been in: one row per state, one column per observation
        states = {name: np.array([slopes[i] & leaves[i] for i in self._leaves_of(name)]) for name in names}
        numbers = [leaf.astype(float) for leaf in leaves]
        chance = up(self._circuit, numbers, slot_weights(self._circuit, self.generic_point, self.action))[-1]
        part = Part(seen, observations, leaves, {}, {})
        for node, use in learned_nodes(self.model):
            if node.name not in names:
                continue
            below = {node.name}  # with all that descends from it
            for other in self.model.nodes.values():  # parents first
                below |= {other.name} if below.intersection(other.parents) else set()
            not_below = [k for k, name in enumerate(seen) if name not in below]
            groups = np.unique(observations[:, not_below], axis=0, return_inverse=True)[1].ravel()
            for row, shown in self._known_rows(node, use, states, leaves).items():
                means = self.generic_point[row_slice(self.model, row), 0]
                # for each state s: P(the row is known, the node is in s, what is seen of nodes not below it) / P(s)
                pairs = zip(states[node.name], means, strict=True)
                ratios = [np.bincount(groups, shown * state * chance) / mean for state, mean in pairs]
                even = np.isclose(np.min(ratios, axis=0), np.max(ratios, axis=0), rtol=1e-9, atol=0)
                part.known[row] = part.known.get(row, False) | shown
                part.fair[row] = part.fair.get(row, False) | (shown & even[groups])
        return part

    @cached_property
    def _possible(self) -> list[Any]:
        """Whether the weight of each slot can be positive: learned entries count as strictly between 0 and 1."""
        parameters = self.model.parameters
        positive = np.concatenate([np.ones(parameters.learned_size), parameters.known]) > 0
        return slot_weights(self._circuit, positive, self.action)

    def _observations(self, seen: Sequence[str]) -> Ints:
        """All possible states of the nodes that are seen, one row per observation."""
        observations = np.zeros((1, 0), np.int64)
        for k, name in enumerate(seen):
            number = self.model.nodes[name].states
            last = np.tile(np.arange(number), len(observations))
            observations = np.column_stack([np.repeat(observations, number, axis=0), last])
            leaves = self._leaves(seen[: k + 1], observations)
            observations = observations[up(self._circuit, leaves, self._possible)[-1]]
            if len(observations) > MOST_OBSERVATIONS:
                where, most = f"diagram {self.model.name!r}: nodes {', '.join(seen)}", f"{MOST_OBSERVATIONS:,} ways"
                message = f"can be seen in more than {most} after one action, which is the most that can be enumerated"
                raise ComplexityError(f"{where} {message}")
        return observations

    def _leaves(self, seen: Sequence[str], observations: Ints) -> list[Bools]:
        leaves = [np.ones(len(observations), np.bool_)] * self._circuit.leaves
        for name, states in zip(seen, observations.T, strict=True):
            for state, leaf in enumerate(self._leaves_of(name)):
                leaves[leaf] = states == state
        return leaves

    def _leaves_of(self, name: str) -> range:
        return range(self._indicators[name], self._indicators[name] + self.model.nodes[name].states)

    def _known_rows(self, node: Node, use: Use, states: dict[str, Bools], leaves: list[Bools]) -> dict[Row, Bools]:
        """The observations that leave no doubt about a node's state, nor about the row it was drawn from: by row."""
        certain = states[node.name].sum(axis=0) == 1
        for jointly in (False, True):  # parents one by one allow too many rows; jointly takes one pass per row
            possible: dict[Row, Bools] = {}
            for parents, row in self._rows_at(node, use):
                allowed = certain & np.all([states[p][s] for p, s in parents.items()], axis=0)
                if jointly and allowed.any():
                    held = list(leaves)
                    for p, s in parents.items():
                        for state, leaf in enumerate(self._leaves_of(p)):
                            held[leaf] = held[leaf] if state == s else np.zeros_like(allowed)
                    allowed = allowed & up(self._circuit, held, self._possible)[-1]
                possible[row] = possible.get(row, False) | allowed
            number = np.sum([*possible.values()], axis=0)
            if (number <= 1).all():
                break
        rows = [row for row in possible if row in self._rows]
        return {row: only for row in rows if (only := possible[row] & (number == 1)).any()}

    def chances(self, points: Floats) -> dict[Row, Floats]:
        """P(E(i)) of the rows that can be shown; parameters with one column per point."""
        missed, number = dict[Row, Floats](), points.shape[1]
        for part in self.parts:
            fair = {row: shown for row, shown in part.fair.items() if shown.any()}
            step = max(1, MOST_COLUMNS // len(part.observations))
            for first in range(0, number if fair else 0, step):
                batch = points[:, first : first + step]
                leaves = [np.repeat(leaf.astype(float), batch.shape[1]) for leaf in part.leaves]
                weights = slot_weights(self._circuit, batch, self.action)
                tiled = [np.tile(weight, len(part.observations)) for weight in weights]
                chance = up(self._circuit, leaves, tiled)[-1].reshape(len(part.observations), -1)
                for row, shown in fair.items():  # parts are independent: a row is missed if all of them miss it
                    missed.setdefault(row, np.ones(number))[first : first + step] *= 1 - shown @ chance
        return {row: np.clip(1 - miss, 0.0, 1.0) for row, miss in missed.items()}
