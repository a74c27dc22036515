"""Actions up to renaming of choices: if all items have equal priors, one list of items is like any other."""

import itertools
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.reference import entries_read
from idbandits.diagram.tables import Label
from idbandits.errors import InfeasibleError
from idbandits.kernel.array_types import Ints
from idbandits.theory.round_outcomes import check_in_theory

MOST_ACTIONS = 1000  # that differ in more than names of choices
SOME_ACTIONS = 200  # that are drawn if there are more
MOST_ENTRIES = 2_000_000  # that are compared to find interchangeable choices


@final
class Symmetry:
    """One action of every kind: actions are of one kind if renaming interchangeable choices maps them onto each other.

    Two choices are interchangeable if swapping them everywhere maps the rows that are read onto rows of equal prior,
    and known entries onto equal ones. `orbit` numbers the parameters: those that such swaps map onto each other share a
    number. If there are too many kinds, `complete` is False and `actions` are drawn.
    """

    def __init__(self, model: Model) -> None:
        check_in_theory(model)
        self.model = model
        circuits = (model.rewards.circuit, model.revealed.circuit)
        slots = [(circuit, slot) for circuit in circuits for slot in range(circuit.slots)]
        sizes = [node.states for node in model.decisions]
        self._entries = [entries_read(circuit, slot, sizes) for circuit, slot in slots]
        self._axes = [list(circuit.axes(slot)) for circuit, slot in slots]
        self.orbit = np.arange(model.parameters.learned_size + model.parameters.known.size)
        self._classes = self._interchangeable()
        actions = list(itertools.islice(self._kinds_of_actions({}), MOST_ACTIONS + 1))
        self.complete = len(actions) <= MOST_ACTIONS
        self.actions = actions if self.complete else self._drawn()
        if not self.actions:
            raise InfeasibleError(f"diagram {model.name!r}: no action was found that satisfies all_different")

    def _interchangeable(self) -> dict[Label, Label]:
        """Return for each choice the first one that it is interchangeable with; join the orbits of the parameters."""
        labels = list(dict.fromkeys(label for node in self.model.decisions for label in node.values))
        if sum(entries.size for entries in self._entries) > MOST_ENTRIES:
            return {label: label for label in labels}
        kind, entries = self._kinds_of_parameters(), self._after_swap()
        classes: dict[Label, Label] = {}
        for label in labels:
            for other in dict.fromkeys(classes.values()):
                if any(self._role(k, label) != self._role(k, other) for k in range(len(self.model.decisions))):
                    continue
                swapped = self._after_swap(label, other)
                if (kind[entries] != kind[swapped]).any():
                    continue
                image = np.empty_like(self.orbit)
                image[entries] = swapped
                if (image[entries] == swapped).all():  # the swap is a function of parameters
                    self._join_orbits(entries, swapped)
                    classes[label] = other
                    break
            classes.setdefault(label, label)
        return classes

    def _role(self, k: int, label: Label) -> bool | None:
        """Return whether a choice of a decision may repeat; None if the decision has no such choice."""
        choice = self.model.decisions[k].index(label)
        return None if choice is None else choice in self.model.feasibility.repeatable[k]

    def _kinds_of_parameters(self) -> Ints:
        """Return a number for each parameter; learned ones of equal prior share one, and equal known ones."""
        kinds: list[Any] = []
        for table in self.model.learned.values():
            rows = table.prior.reshape(-1, table.states).tolist()
            kinds += [(table.name, *row, state) for row in rows for state in range(table.states)]
        kinds += self.model.parameters.known.tolist()
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)

    def _after_swap(self, *labels: Label) -> Ints:
        """Return the entries that all slots read, with two labels swapped in every decision that has them."""
        orders = [np.arange(node.states) for node in self.model.decisions]
        for order, node in zip(orders, self.model.decisions, strict=True):
            places = [place for label in labels if (place := node.index(label)) is not None]
            order[places] = places[::-1]
        slots = zip(self._entries, self._axes, strict=True)
        swapped = [entries[np.ix_(*(orders[axis] for axis in axes))].ravel() for entries, axes in slots]
        return np.concatenate([np.empty(0, np.int64), *swapped])

    def _join_orbits(self, entries: Ints, swapped: Ints) -> None:
        changed = entries != swapped
        for a, b in {*zip(entries[changed].tolist(), swapped[changed].tolist(), strict=True)}:
            if self.orbit[a] != self.orbit[b]:
                self.orbit[self.orbit == self.orbit[a]] = self.orbit[b]

    def _kinds_of_actions(self, action: dict[int, int]) -> Iterator[Ints]:
        """Iterate over actions; of interchangeable choices that were not taken yet, only the first is tried."""
        decisions, k = self.model.decisions, len(action)
        if k == len(decisions):
            yield np.array(list(action.values()), np.int64)
            return
        taken = {decisions[j].values[choice] for j, choice in action.items()}
        tried: set[Label] = set()
        for choice in self.model.feasibility.choices_left(k, action):
            label = decisions[k].values[choice]
            if label not in taken:
                if self._classes[label] in tried:
                    continue
                tried.add(self._classes[label])
            yield from self._kinds_of_actions(action | {k: choice})

    def _drawn(self) -> list[Ints]:
        rng = np.random.default_rng(0)
        drawn = (self.model.feasibility.random_action(rng, {}, tries=1) for _ in range(100 * SOME_ACTIONS))
        return list(itertools.islice((action for action in drawn if action is not None), SOME_ACTIONS))
