"""Actions up to renaming of choices: where all items are alike beforehand, one list of items is like any other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from idbandits.circuit.circuit import Circuit
from idbandits.circuit.model import Model
from idbandits.diagram.tables import Label
from idbandits.errors import InfeasibleError
from idbandits.kernel.types import Ints

MOST_ACTIONS = 1000  # that differ in more than names of choices
SOME_ACTIONS = 200  # that are drawn where there are more
MOST_ENTRIES = 2_000_000  # that are compared to find interchangeable choices


@final
class Symmetry:
    """One action of every kind: two are of one kind if renaming interchangeable choices turns one into the other.

    Two choices are interchangeable if swapping them wherever they occur maps the rows that are read onto rows of
    equal prior, and known entries onto equal ones. `orbit` numbers the parameters: those which such swaps map onto
    each other share a number. `complete` is False where there are too many kinds: then `actions` are drawn.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        circuits = (model.rewards.circuit, model.revealed.circuit)
        slots = [(circuit, slot) for circuit in circuits for slot in range(circuit.slots)]
        self._entries = [self._entries_read(circuit, slot) for circuit, slot in slots]
        self._axes = [list(circuit.axes(slot)) for circuit, slot in slots]
        self.orbit = np.arange(model.parameters.learned_size + model.parameters.known.size)
        self._classes = self._interchangeable()
        actions = list(itertools.islice(self._kinds_of_actions([]), MOST_ACTIONS + 1))
        self.complete = len(actions) <= MOST_ACTIONS
        self.actions = actions if self.complete else self._drawn()
        if not self.actions:
            raise InfeasibleError(f"diagram {model.name!r}: no action was found that satisfies all_different")

    def _entries_read(self, circuit: Circuit, slot: int) -> Ints:
        """The parameters that a slot stands for, one axis per decision that it depends on."""
        base, strides, place = circuit.atom(slot)
        index = np.zeros([self.model.decisions[axis].states for axis, _ in strides], np.int64)
        for k, (_, stride) in enumerate(strides):
            along = [-1 if j == k else 1 for j in range(len(strides))]
            index = index + stride * np.arange(index.shape[k]).reshape(along)
        return base + (np.asarray(circuit.lookup)[place + index] if place >= 0 else index)

    def _interchangeable(self) -> dict[Label, Label]:
        """For each choice the first one that it is interchangeable with; joins the orbits of the parameters."""
        labels = list(dict.fromkeys(label for node in self.model.decisions for label in node.values))
        if sum(entries.size for entries in self._entries) > MOST_ENTRIES:
            return {label: label for label in labels}
        kind = self._kinds_of_parameters()
        entries = self._after_swap()
        order = np.argsort(entries, kind="stable")
        first = np.flatnonzero(np.diff(entries[order], prepend=-1))  # of each parameter, among those in order
        classes: dict[Label, Label] = {}
        for label in labels:
            for other in dict.fromkeys(classes.values()):
                if any((node.index(label) is None) != (node.index(other) is None) for node in self.model.decisions):
                    continue  # a decision has one of them only
                swapped = self._after_swap(label, other)
                if (kind[entries] != kind[swapped]).any():
                    continue
                low, high = (
                    bound.reduceat(swapped[order], first) if len(entries) else entries
                    for bound in (np.minimum, np.maximum)
                )
                if (low == high).all():  # each parameter is mapped onto one
                    self._join_orbits(entries, swapped)
                    classes[label] = other
                    break
            classes.setdefault(label, label)
        return classes

    def _kinds_of_parameters(self) -> Ints:
        """A number that parameters share which are equal beforehand: learned ones of equal prior, equal known ones."""
        kinds: list[Any] = [
            (table.name, *row, state)
            for table in self.model.learned.values()
            for row in table.prior.reshape(-1, table.states).tolist()
            for state in range(table.states)
        ]
        kinds += self.model.parameters.known.tolist()
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)

    def _after_swap(self, *labels: Label) -> Ints:
        """The entries that all slots read, two labels swapped in every decision that has them."""
        orders = []
        for node in self.model.decisions:
            order = np.arange(node.states)
            places = [place for label in labels if (place := node.index(label)) is not None]
            order[places] = places[::-1]
            orders.append(order)
        entries = (
            entries[np.ix_(*(orders[axis] for axis in axes))].ravel()
            for entries, axes in zip(self._entries, self._axes, strict=True)
        )
        return np.concatenate([np.empty(0, np.int64), *entries])

    def _join_orbits(self, entries: Ints, swapped: Ints) -> None:
        changed = entries != swapped
        for a, b in {*zip(entries[changed].tolist(), swapped[changed].tolist(), strict=True)}:
            if self.orbit[a] != self.orbit[b]:
                self.orbit[self.orbit == self.orbit[a]] = self.orbit[b]

    # -- actions -------------------------------------------------------------------------------------------------------

    def _kinds_of_actions(self, taken: list[Label]) -> Iterator[Ints]:
        """Of interchangeable choices that were not taken yet, only the first is tried."""
        if len(taken) == len(self.model.decisions):
            yield self._vector(taken)
            return
        tried: set[Label] = set()
        for label in self._free(taken):
            if label not in taken:
                if self._classes[label] in tried:
                    continue
                tried.add(self._classes[label])
            yield from self._kinds_of_actions([*taken, label])

    def _drawn(self) -> list[Ints]:
        """Some actions, drawn at random."""
        rng = np.random.default_rng(0)
        drawn = (self.model.feasibility.random_action(rng, {}, tries=1) for _ in range(100 * SOME_ACTIONS))
        return list(itertools.islice((action for action in drawn if action is not None), SOME_ACTIONS))

    def _free(self, taken: list[Label]) -> list[Label]:
        """The choices of the next decision that all_different leaves after those of the first ones."""
        k = len(taken)
        action = dict(enumerate(self._vector(taken).tolist()))
        return [self.model.decisions[k].values[i] for i in self.model.feasibility.choices_left(k, action)]

    def _vector(self, labels: list[Label]) -> Ints:
        return np.array([node.index(v) for node, v in zip(self.model.decisions, labels, strict=False)], np.int64)
