"""Actions up to the names of choices: where all items are alike beforehand, one list of items is like any other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from idbandits.circuit.build import Arrays
from idbandits.circuit.model import Model
from idbandits.diagram.tables import Label
from idbandits.errors import InfeasibleError
from idbandits.kernel.types import Ints

MOST_ACTIONS = 1000  # that differ in more than names of choices
SOME_ACTIONS = 200  # that are drawn where there are more
MOST_READ = 2_000_000  # entries that are compared to find choices of equal standing


@final
class Patterns:
    """Actions, one of each kind: two are of a kind if choices of equal standing can be renamed to turn them into one.

    Two choices are of equal standing if swapping them wherever they occur maps the rows that are read onto rows of
    equal prior and known entries onto equal ones. `orbit` numbers the parameters so that those which such swaps map
    onto each other share a number.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.labels = list(dict.fromkeys(v for n in model.decisions for v in n.values))
        size = model.parameters.learned_size
        circuits = (model.rewards.arrays, model.revealed.arrays)
        self.orbit = np.arange(size + model.parameters.known.size)
        self._read = [self._entries(a, s) for a in circuits for s in range(len(a.slot_base))]
        self._axes = [[axis for axis, _ in a.atom(s)[1]] for a in circuits for s in range(len(a.slot_base))]
        kinds = [
            (t.name, *row, state) for t in model.learned.values() for row in t.prior.reshape(-1, t.states).tolist()
            for state in range(t.states)
        ]  # fmt: skip
        numbers: dict[Any, int] = {}
        every = [*kinds, *model.parameters.known.tolist()]
        self._kind = np.array([numbers.setdefault(kind, len(numbers)) for kind in every])
        self.classes = self._classes() if sum(r.size for r in self._read) <= MOST_READ else {v: v for v in self.labels}
        found = list(itertools.islice(self._walk([]), MOST_ACTIONS + 1))
        self.complete = len(found) <= MOST_ACTIONS
        self.actions = found if self.complete else self._drawn()
        if not self.actions:
            raise InfeasibleError(f"diagram {model.name!r}: no action was found that satisfies all_different")

    def _entries(self, arrays: Arrays, slot: int) -> Ints:
        base, strides, place = arrays.atom(slot)
        index = np.zeros([self.model.decisions[axis].states for axis, _ in strides], np.int64)
        for k, (_, stride) in enumerate(strides):
            along = [-1 if j == k else 1 for j in range(len(strides))]
            index = index + stride * np.arange(index.shape[k]).reshape(along)
        return base + (np.asarray(arrays.lookup)[place + index] if place >= 0 else index)

    def _classes(self) -> dict[Label, Label]:
        flat = np.concatenate([r.ravel() for r in self._read] or [np.empty(0, np.int64)])
        order = np.argsort(flat, kind="stable")
        first = np.flatnonzero(np.diff(flat[order], prepend=-1))
        classes: dict[Label, Label] = {}
        for label in self.labels:
            for other in dict.fromkeys(classes.values()):
                moved = self._swapped(label, other)
                if moved is None or (self._kind[flat] != self._kind[moved]).any():
                    continue
                low, high = (f.reduceat(moved[order], first) if len(flat) else flat for f in (np.minimum, np.maximum))
                if (low == high).all():
                    changed = flat != moved
                    for a, b in {*zip(flat[changed].tolist(), moved[changed].tolist(), strict=True)}:
                        if self.orbit[a] != self.orbit[b]:
                            self.orbit[self.orbit == self.orbit[a]] = self.orbit[b]
                    classes[label] = other
                    break
            classes.setdefault(label, label)
        return classes

    def _swapped(self, a: Label, b: Label) -> Ints | None:
        """The entries that are read after two labels are swapped; None where a decision has one of them only."""
        places = []
        for node in self.model.decisions:
            i, j = node.index(a), node.index(b)
            if (i is None) != (j is None):
                return None
            turn = np.arange(node.states)
            if i is not None and j is not None:
                turn[[i, j]] = j, i
            places.append(turn)
        read = (r[np.ix_(*(places[k] for k in axes))] for r, axes in zip(self._read, self._axes, strict=True))
        return np.concatenate([r.ravel() for r in read] or [np.empty(0, np.int64)])

    def _walk(self, taken: list[Label]) -> Iterator[Ints]:
        """Of choices of equal standing that were not taken yet, only the first is tried."""
        decisions = self.model.decisions
        if len(taken) == len(decisions):
            yield np.array([n.index(v) for n, v in zip(decisions, taken, strict=True)], np.int64)
            return
        fresh: set[Label] = set()
        for label in decisions[len(taken)].values:
            if label not in taken:
                if self.classes[label] in fresh:
                    continue
                fresh.add(self.classes[label])
            if not self._forbidden(label, taken):
                yield from self._walk([*taken, label])

    def _forbidden(self, label: Label, taken: list[Label]) -> bool:
        names = [n.name for n in self.model.decisions]
        own = names[len(taken)]
        return any(
            own in group and name in group and other == label
            for group in self.model.different
            for name, other in zip(names, taken, strict=False)
        )

    def _drawn(self) -> list[Ints]:
        """Some actions, drawn."""
        rng = np.random.default_rng(0)
        found: list[Ints] = []
        for _ in range(100 * SOME_ACTIONS):
            taken: list[Label] = []
            for node in self.model.decisions:
                free = [v for v in node.values if not self._forbidden(v, taken)]
                if not free:
                    break
                taken.append(free[int(rng.integers(len(free)))])
            else:
                found.append(np.array([n.index(v) for n, v in zip(self.model.decisions, taken, strict=True)]))
            if len(found) == SOME_ACTIONS:
                break
        return found
