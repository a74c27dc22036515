"""Random rounds of a model: feasible actions with all choices in turn, and observations of all nodes or of few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.diagram.tables import Known, Use
from idbandits.kernel.array_types import Bools, Ints, Rng

NEAREST = 6  # observed nodes that a round for a row shows at most


class Row(NamedTuple):
    """Learned row: its table, its number there, its first parameter, and the number of its parameters."""

    table: str
    number: int
    first: int
    states: int


class Rounds(NamedTuple):
    """Encoded rounds: one line of choices and contexts each, and one of observations, -1 if not seen."""

    actions: Ints
    seen: Ints


class Reader(NamedTuple):
    """Node that reads a learned table, its row for all values of its parents, and the nearest observed nodes."""

    node: Node
    rows: Ints
    near: list[str]


def drawn_as_possible(number: int) -> Bools:
    """Return which of `number` rounds are certainly possible; in the others, a few nodes are in any states."""
    return np.arange(number) % 4 < 2


@final
class RoundSampler:
    """Random rounds of a model."""

    def __init__(self, model: Model, rng: Rng) -> None:
        self.model, self.rng = model, rng
        self._axes: Mapping[str, int] = model.parameters.axes
        self._nodes = [*model.decisions, *model.contexts]
        self._some_action = model.feasibility.some_action()
        self._rivals = [np.flatnonzero(row).tolist() for row in model.feasibility.conflicts]
        items = model.feasibility.items
        self._items = [np.asarray(items[k]) if items else np.arange(n.states) for k, n in enumerate(model.decisions)]
        self._choices = [(k, choice) for k, node in enumerate(model.decisions) for choice in range(node.states)]
        self._turn = 0
        self._observed = {node.name: i for i, node in enumerate(model.observed)}
        self._readers: dict[str, list[Reader]] = {}

    def actions(self, number: int) -> Ints:
        """Draw feasible actions with random contexts; all choices of all decisions take turns."""
        wanted = np.full((number, len(self._nodes)), -1)
        for line in wanted if self._choices else ():
            self._turn = (self._turn + 1) % len(self._choices)
            decision, choice = self._choices[self._turn]
            line[decision] = choice
        return self._completed(wanted)

    def _completed(self, wanted: Ints) -> Ints:
        """Draw the choices that are -1; use any feasible action if that fails."""
        actions, number = wanted.copy(), len(wanted)
        decisions, failed = len(self._items), np.zeros(number, dtype=np.bool_)
        for k, node in enumerate(self._nodes):
            chances = self.rng.random((number, node.states))
            for j in self._rivals[k] if k < decisions else ():
                taken = np.where(actions[:, j] >= 0, self._items[j][actions[:, j]] if len(self._items[j]) else -1, -1)
                chances[self._items[k] == taken[:, np.newaxis]] = -1.0
            actions[:, k] = np.where(actions[:, k] >= 0, actions[:, k], chances.argmax(axis=1))
            failed |= chances[np.arange(number), actions[:, k]] < 0
        actions[failed, :decisions] = self._some_action
        return actions

    def rounds(self, number: int) -> Rounds:
        """Draw rounds of which all or a few nodes were seen."""
        actions = self.actions(number)
        if not self.model.observed:
            return Rounds(actions, np.empty((number, 0), dtype=np.int64))
        states = self._states(actions)
        seen = np.stack([states[node.name] for node in self.model.observed], axis=1)
        few = self.rng.random(seen.shape).argsort(axis=1).argsort(axis=1) < self.rng.integers(1, 4, size=(number, 1))
        guesses = self.rng.integers([[node.states for node in self.model.observed]], size=seen.shape)
        seen = np.where(drawn_as_possible(number)[:, np.newaxis], seen, guesses)
        return Rounds(actions, np.where(few | (np.arange(number) % 4 == 0)[:, np.newaxis], seen, -1))

    def rounds_for(self, rows: Sequence[Row]) -> Rounds:
        """Draw a round for each row in which it may be read, and in which nodes near a reader of it were seen."""
        rng, wanted = self.rng, np.full((len(rows), len(self._nodes)), -1)
        seen = np.full((len(rows), len(self._observed)), -1)
        near: list[list[str]] = []
        for i, row in enumerate(rows):
            readers = [r for r in self.readers(row.table) if (r.rows == row.number).any()]
            if not readers:
                near.append([])
                continue
            reader = readers[int(rng.integers(len(readers)))]
            places = np.argwhere(reader.rows == row.number)
            near.append(reader.near)
            for name, value in zip(reader.node.parents, places[int(rng.integers(len(places)))], strict=True):
                if name in self._axes:
                    wanted[i, self._axes[name]] = value
                elif name in self._observed:
                    seen[i, self._observed[name]] = value
        actions = self._completed(wanted)
        states = self._states(actions)
        for i, names in enumerate(near):
            for name in names:
                if seen[i, self._observed[name]] < 0 and rng.random() < 0.6:
                    guess = rng.integers(self.model.nodes[name].states) if rng.random() < 0.5 else states[name][i]
                    seen[i, self._observed[name]] = guess
        return Rounds(actions, seen)

    def readers(self, table: str) -> list[Reader]:
        """Return the nodes that read a table."""
        if table not in self._readers:
            nodes = [node for node, _ in self.model.readers(table)]
            rows = [rows_of_use(self.model.diagram, node) for node in nodes]
            self._readers[table] = [Reader(n, own, self._nearest(n)) for n, own in zip(nodes, rows, strict=True)]
        return self._readers[table]

    def _nearest(self, start: Node) -> list[str]:
        """Return the observed nodes that are nearest to a node, whatever the direction of edges."""
        nodes = self.model.nodes
        reached, nearest, ring = {start.name}, list[str](), [start.name]
        while ring and len(nearest) < NEAREST:
            nearest += [name for name in ring if name in self._observed]
            around = {p for name in ring for p in nodes[name].parents if nodes[p].is_chance}
            around |= {child.name for child in nodes.values() if set(child.parents) & set(ring)}
            ring = sorted(around - reached)
            reached |= around
        return nearest[:NEAREST]

    def _states(self, actions: Ints) -> dict[str, Ints]:
        """Draw the states of all nodes, parents first: all possible states are equally likely."""
        states = {name: actions[:, axis] for name, axis in self._axes.items()}
        for node in self.model.nodes.values():
            if not node.is_chance:
                continue
            possible = self._possible(node, tuple(states[p] for p in node.parents))
            if possible is None:
                states[node.name] = self.rng.integers(node.states, size=len(actions))
            else:
                possible = np.broadcast_to(possible, (len(actions), node.states))
                states[node.name] = (self.rng.random(possible.shape) * possible).argmax(axis=1)
        return states

    def _possible(self, node: Node, parents: tuple[Ints, ...]) -> Bools | None:
        """Return the possible states of a node, one line per round, given those of its parents; None for all states."""
        if isinstance(node.cpd, Known):
            return node.cpd.table[parents] > 0
        assert isinstance(node.cpd, Use)
        table = self.model.learned[node.cpd.name]
        if not table.fixed:
            return None
        entries = table.with_fixed(np.ones(table.size)).reshape(-1, table.states)
        return entries[rows_of_use(self.model.diagram, node)[parents]] > 0
