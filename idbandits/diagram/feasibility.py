"""Which actions the constraints allow: the one place that knows what `all_different` means, kernels aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import numpy as np

from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import Label
from idbandits.errors import ActionError, InfeasibleError
from idbandits.kernel.types import Bools, Ints, Rng

MOST_STEPS = 100_000  # back, in the search for an action that overlapping constraints allow


@final
class Feasibility:
    """The constraints on the actions of a diagram. Actions are places among the choices, unless it says labels.

    `conflicts` says which pairs of decisions may not choose the same label. `items` numbers the choices of each
    decision so that equal labels of different decisions have equal numbers; None where the places will do.
    """

    def __init__(self, d: Diagram) -> None:
        self._name, self._groups = d.name, tuple(d.different)
        self.decisions: Sequence[Node] = d.of_kind("decision")
        places = {n.name: k for k, n in enumerate(self.decisions)}
        self._places = [[places[name] for name in group] for group in self._groups]
        self.conflicts: Bools = np.zeros((len(places), len(places)), dtype=np.bool_)
        for group in self._places:
            self.conflicts[np.ix_(group, group)] = True
        np.fill_diagonal(self.conflicts, False)
        self._rivals = [np.flatnonzero(row).tolist() for row in self.conflicts]
        self.items = self._number_items()

    def _number_items(self) -> list[list[int]] | None:
        values = [n.values if rivals else range(0) for n, rivals in zip(self.decisions, self._rivals, strict=True)]
        if all(isinstance(v, range) for v in values) or len({tuple(v) for v in values if len(v)}) == 1:
            return None
        numbers: dict[Label, int] = {}
        return [[numbers.setdefault(label, len(numbers)) for label in v] for v in values]

    # -- is it allowed? --------------------------------------------------------------------------------------------

    def check(self, action: Mapping[str, Label]) -> None:
        """Raise unless an action, given as labels, breaks no constraint."""
        for group in self._groups:
            holders: dict[Label, str] = {}
            for name in group:
                other = holders.setdefault(action[name], name)
                if other != name:
                    raise ActionError(
                        f"action: {other!r} and {name!r} are both {action[name]!r}; all_different forbids repeats"
                    )

    def check_columns(self, columns: Sequence[Ints]) -> None:
        """Raise unless many actions, one column per decision, break no constraint."""
        for group in self._places:
            for i, a in enumerate(group):
                for b in group[i + 1 :]:
                    first, second = self.decisions[a], self.decisions[b]
                    same_label = np.array([-1 if (at := second.index(v)) is None else at for v in first.values])
                    repeats = same_label[columns[a]] == columns[b]
                    if repeats.any():
                        at = int(np.argmax(repeats))
                        raise ActionError(
                            f"actions: {first.name!r} and {second.name!r} in round {at} are both "
                            f"{second.values[columns[b][at]]!r}; all_different forbids repeats"
                        )

    def choices_left(self, k: int, action: Mapping[int, int]) -> list[int]:
        """The choices of decision k that conflict with none of those already made."""
        taken = {self.decisions[j].values[action[j]] for j in self._rivals[k] if j in action}
        return [choice for choice, label in enumerate(self.decisions[k].values) if label not in taken]

    # -- actions that are ------------------------------------------------------------------------------------------

    def all_actions(self) -> Iterator[tuple[int, ...] | None]:
        """All actions in order; None for every partial action that was looked at, so that callers can give up."""
        stack: list[tuple[int, ...]] = [()]
        while stack:
            action = stack.pop()
            if len(action) == len(self.decisions):
                yield action
                continue
            yield None
            left = self.choices_left(len(action), dict(enumerate(action)))
            stack.extend((*action, choice) for choice in reversed(left))

    def random_action(self, rng: Rng, fixed: Mapping[int, int], tries: int) -> Ints | None:
        """An action with some choices fixed and the others drawn; None if none was found that is allowed."""
        for _ in range(tries):
            action = dict(fixed)
            if any(action[k] not in self.choices_left(k, action) for k in fixed):
                return None
            for k in range(len(self.decisions)):
                if k not in action:
                    left = self.choices_left(k, action)
                    if not left:
                        break
                    action[k] = left[int(rng.integers(len(left)))]
            else:
                return np.array([action[k] for k in range(len(self.decisions))], dtype=np.int64)
        return None

    def some_action(self) -> list[int]:
        """Some action that is allowed.

        Decisions that all exclude each other are matched with items. Where groups overlap, choices are made one after
        the other and taken back, which is given up after many steps.
        """
        action = [0] * len(self.decisions)
        bound = [k for k, rivals in enumerate(self._rivals) if rivals]
        reach = self.conflicts | np.eye(len(action), dtype=np.bool_)
        for k in bound:
            clique = np.flatnonzero(reach[k]).tolist()
            if clique[0] == k and reach[np.ix_(clique, clique)].all():
                self._match(clique, action)
        if (reach @ reach != reach).any():
            self._backtrack(bound, action)
        return action

    def _item(self, k: int, choice: int) -> int:
        return self.items[k][choice] if self.items else choice

    def _match(self, clique: Sequence[int], action: list[int]) -> None:
        """Give different items to all of a clique: the first that is free to each, or a matching where that fails."""
        taken: set[int] = set()
        for k in reversed(clique):
            states = range(self.decisions[k].states)
            free = next((choice for choice in states if self._item(k, choice) not in taken), None)
            if free is None:
                return self._match_all(clique, action)
            action[k] = free
            taken.add(self._item(k, free))
        return None

    def _match_all(self, clique: Sequence[int], action: list[int]) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        edges = [(row, self._item(k, i), i) for row, k in enumerate(clique) for i in range(self.decisions[k].states)]
        choice = {(row, item): i for row, item, i in edges}
        rows, items, _ = zip(*edges, strict=True)
        graph = csr_array((np.ones(len(edges), dtype=np.int8), (rows, items)))
        matched = maximum_bipartite_matching(graph, perm_type="column").tolist()
        for row, (k, item) in enumerate(zip(clique, matched, strict=True)):
            if item < 0:
                raise self._infeasible()
            action[k] = choice[row, item]

    def _backtrack(self, bound: Sequence[int], action: list[int]) -> None:
        order = sorted(bound, key=lambda k: self.decisions[k].states)
        ahead = [0] * len(order)  # the next choice to try
        depth, steps = 0, 0
        while depth < len(order):
            k = order[depth]
            taken = {self._item(j, action[j]) for j in order[:depth] if self.conflicts[j, k]}
            choice = ahead[depth]
            while choice < self.decisions[k].states and self._item(k, choice) in taken:
                choice += 1
            if choice < self.decisions[k].states:
                action[k], ahead[depth] = choice, choice + 1
                depth += 1
                continue
            ahead[depth] = 0
            depth -= 1
            steps += 1
            if depth < 0 or steps > MOST_STEPS:
                raise self._infeasible()

    def _infeasible(self) -> InfeasibleError:
        groups = "; ".join(", ".join(group) for group in self._groups)
        return InfeasibleError(f"diagram {self._name!r}: no action was found that satisfies all_different ({groups})")
