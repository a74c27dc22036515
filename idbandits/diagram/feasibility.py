"""Which actions the constraints allow: the one place that knows what `all_different` means, kernels aside."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import final

import numpy as np

from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import Label
from idbandits.errors import ActionError, InfeasibleError
from idbandits.kernel.types import Bools, Ints, Rng

MOST_STEPS = 100_000  # of the search for an action that overlapping constraints allow


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
        self.items: list[list[int]] | None = None
        values = [n.values if rivals else range(0) for n, rivals in zip(self.decisions, self._rivals, strict=True)]
        if not all(isinstance(v, range) for v in values) and len({tuple(v) for v in values if len(v)}) != 1:
            numbers: dict[Label, int] = {}
            self.items = [[numbers.setdefault(label, len(numbers)) for label in v] for v in values]

    def check(self, action: Mapping[str, Label]) -> None:
        """Raise unless an action, given as labels, breaks no constraint."""
        for group in self._groups:
            holders: dict[Label, str] = {}
            for name in group:
                if (other := holders.setdefault(action[name], name)) != name:
                    pair = f"{other!r} and {name!r}"
                    raise ActionError(f"action: {pair} are both {action[name]!r}; all_different forbids repeats")

    def check_columns(self, columns: Sequence[Ints]) -> None:
        """Raise unless many actions, one column per decision, break no constraint."""
        for a, b in (pair for group in self._places for pair in itertools.combinations(group, 2)):
            first, second = self.decisions[a], self.decisions[b]
            same_label = columns[a]
            if not isinstance(first.values, range) or not isinstance(second.values, range):  # else places are labels
                same_label = np.array([-1 if (at := second.index(v)) is None else at for v in first.values])[same_label]
            if (repeats := same_label == columns[b]).any():
                at = int(np.argmax(repeats))
                pair, label = f"{first.name!r} and {second.name!r}", second.values[columns[b][at]]
                raise ActionError(f"actions: {pair} in round {at} are both {label!r}; all_different forbids repeats")

    def choices_left(self, k: int, action: Mapping[int, int]) -> Iterator[int]:
        """The choices of decision k that conflict with none of those already made."""
        taken = {self.decisions[j].values[action[j]] for j in self._rivals[k] if j in action}
        return (choice for choice, label in enumerate(self.decisions[k].values) if label not in taken)

    def all_actions(self) -> Iterator[tuple[int, ...] | None]:
        """All actions in order; None for every partial action that was looked at, so that callers can give up."""
        for action in self._search(range(len(self.decisions))):
            yield None if action is None else tuple(action.values())

    def random_action(self, rng: Rng, fixed: Mapping[int, int], tries: int) -> Ints | None:
        """An action with some choices fixed and the others drawn; None if none was found that is allowed."""
        if any(choice not in self.choices_left(k, fixed) for k, choice in fixed.items()):
            return None
        for _ in range(tries):
            action = dict(fixed)
            for k in range(len(self.decisions)):
                if k not in action:
                    left = list(self.choices_left(k, action))
                    if not left:
                        break
                    action[k] = left[int(rng.integers(len(left)))]
            else:
                return np.array([action[k] for k in range(len(self.decisions))], dtype=np.int64)
        return None

    def some_action(self) -> list[int]:
        """Some action that is allowed: found by matching, or where groups overlap, by a search that may give up."""
        action = dict.fromkeys(range(len(self.decisions)), 0)
        bound = [k for k, rivals in enumerate(self._rivals) if rivals]
        reach = self.conflicts | np.eye(len(action), dtype=np.bool_)
        for k in bound:
            clique = np.flatnonzero(reach[k]).tolist()
            if clique[0] == k and reach[np.ix_(clique, clique)].all():
                action |= self._match(clique)
        if (reach @ reach != reach).any():
            search = self._search(sorted(bound, key=lambda k: self.decisions[k].states))
            complete = next(filter(None, itertools.islice(search, MOST_STEPS)), None)
            if complete is None:
                raise self._infeasible()
            action |= complete
        return list(action.values())

    def _search(self, order: Sequence[int]) -> Iterator[dict[int, int] | None]:
        """All ways to make these decisions, one after the other; None for every one that is not complete."""

        def extended(action: dict[int, int], k: int) -> Iterator[dict[int, int]]:
            return (action | {k: choice} for choice in self.choices_left(k, action))

        branches: list[Iterator[dict[int, int]]] = [iter([{}])]
        while branches:
            action = next(branches[-1], None)
            if action is None:
                branches.pop()
            elif len(action) == len(order):
                yield action
            else:
                yield None
                branches.append(extended(action, order[len(action)]))

    def _match(self, clique: Sequence[int]) -> dict[int, int]:
        """Different items for all of a clique: the first that is free to each, or a matching where that fails."""
        action: dict[int, int] = {}
        for k in reversed(clique):
            if (choice := next(self.choices_left(k, action), None)) is not None:
                action[k] = choice
        if len(action) == len(clique):
            return action
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        items = [self.items[k] if self.items else range(self.decisions[k].states) for k in clique]
        rows = np.repeat(range(len(clique)), [len(choices) for choices in items])
        graph = csr_array((np.ones(len(rows), dtype=np.int8), (rows, list(itertools.chain(*items)))))
        matched = maximum_bipartite_matching(graph, perm_type="column").tolist()
        if min(matched) < 0:
            raise self._infeasible()
        return {k: choices.index(item) for k, choices, item in zip(clique, items, matched, strict=True)}

    def _infeasible(self) -> InfeasibleError:
        groups = "; ".join(", ".join(group) for group in self._groups)
        return InfeasibleError(f"diagram {self._name!r}: no action was found that satisfies all_different ({groups})")
