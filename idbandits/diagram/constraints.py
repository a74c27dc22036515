"""Feasible actions: the meaning of `all_different`, outside of kernels."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import final

import numpy as np

from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Label
from idbandits.errors import ActionError, InfeasibleError
from idbandits.kernel.array_types import Bools, Ints, Rng

MOST_STEPS = 100_000  # of the search for an action that overlapping constraints allow


@final
class Feasibility:
    """Constraints on the actions of a diagram. Actions are places among the choices, except where labels are named.

    `conflicts` marks pairs of decisions that may not choose the same label. `items` numbers the choices of each
    decision so that equal labels of different decisions have equal numbers; None where places are enough. A
    choice that may repeat has its own number in each decision, from `shared_items` on, so that it conflicts with none.
    """

    def __init__(self, d: Diagram) -> None:
        self._name, self._groups = d.name, tuple(d.different)
        self._excepted = [frozenset(excepted) for _, excepted in d.constraints]
        self.decisions: Sequence[Node] = d.of_kind("decision")
        places = {n.name: k for k, n in enumerate(self.decisions)}
        self._places = [[places[name] for name in group] for group in self._groups]
        self._rival_choices = [(itemgetter(*group), len(group)) for group in self._places if len(group) > 1]
        self.conflicts: Bools = np.zeros((len(places), len(places)), dtype=np.bool_)
        for group in self._places:
            self.conflicts[np.ix_(group, group)] = True
        np.fill_diagonal(self.conflicts, False)
        self._rivals = [np.flatnonzero(row).tolist() for row in self.conflicts]
        labels: list[set[Label]] = [set() for _ in self.decisions]
        for group, excepted in zip(self._places, self._excepted, strict=True):
            for k in group:
                labels[k] |= excepted
        self.repeatable = [
            sorted(at for label in own if (at := n.index(label)) is not None)
            for n, own in zip(self.decisions, labels, strict=True)
        ]  # of a decision: the choices that others may make too
        self.items, self.shared_items = self._numbered()

    def _numbered(self) -> tuple[list[list[int]] | None, int]:
        """Return the numbers of items, and how many of them several decisions may want."""
        values = [n.values if rivals else range(0) for n, rivals in zip(self.decisions, self._rivals, strict=True)]
        alike = all(isinstance(v, range) for v in values) or len({tuple(v) for v in values if len(v)}) == 1
        if alike and not any(self.repeatable):
            return None, max((len(v) for v in values), default=0)
        numbers: dict[Label, int] = {}
        items = [[numbers.setdefault(label, len(numbers)) for label in v] for v in values]
        own = itertools.count(len(numbers))
        for choices, repeatable in zip(items, self.repeatable, strict=True):
            for choice in repeatable if choices else ():
                choices[choice] = next(own)
        return items, len(numbers)

    def is_surely_feasible(self, action: Sequence[int]) -> bool:
        """Return True for places of choices that repeat none; False: only `check` knows."""
        return self.items is None and all(len({*choices(action)}) == size for choices, size in self._rival_choices)

    def check(self, action: Mapping[str, Label]) -> None:
        """Raise unless an action, given as labels, breaks no constraint."""
        for group, excepted in zip(self._groups, self._excepted, strict=True):
            holders: dict[Label, str] = {}
            for name in group:
                if action[name] not in excepted and (other := holders.setdefault(action[name], name)) != name:
                    pair = f"{other!r} and {name!r}"
                    raise ActionError(f"action: {pair} are both {action[name]!r}; all_different forbids repeats")

    def check_columns(self, columns: Sequence[Ints]) -> None:
        """Raise unless many actions, one column per decision, break no constraint."""
        for a, b in np.argwhere(np.triu(self.conflicts)).tolist():
            first, second = self.decisions[a], self.decisions[b]
            same_label = columns[a]
            if not isinstance(first.values, range) or not isinstance(second.values, range):  # else places are labels
                same_label = np.array([-1 if (at := second.index(v)) is None else at for v in first.values])[same_label]
            repeats = same_label == columns[b]
            if self.repeatable[b]:
                repeats &= ~np.isin(columns[b], self.repeatable[b])
            if repeats.any():
                at = int(np.argmax(repeats))
                pair, label = f"{first.name!r} and {second.name!r}", second.values[columns[b][at]]
                raise ActionError(f"actions: {pair} in round {at} are both {label!r}; all_different forbids repeats")

    def choices_left(self, k: int, action: Mapping[int, int], among: Sequence[int] | None = None) -> Iterator[int]:
        """Iterate over the choices of decision k, or those in `among`, that conflict with none of an action."""
        choices = range(self.decisions[k].states) if among is None else among
        if self.items is None:
            taken = {action[j] for j in self._rivals[k] if j in action}
            return (choice for choice in choices if choice not in taken)
        items = self.items[k]
        taken = {self.items[j][action[j]] for j in self._rivals[k] if j in action}
        return (choice for choice in choices if not taken or items[choice] not in taken)

    def all_actions(self) -> Iterator[tuple[int, ...] | None]:
        """Iterate over all actions in order; None for every partial action, so that callers can give up."""
        for action in self._search(range(len(self.decisions))):
            yield None if action is None else tuple(action.values())

    def random_action(self, rng: Rng, fixed: Mapping[int, int], tries: int) -> Ints | None:
        """Return an action with some choices fixed and the others drawn; None if no feasible one was found."""
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

    def some_action(self, eligible: Sequence[Sequence[int]] | None = None) -> list[int]:
        """Return a feasible action: found by matching, or where groups overlap, by a search that may give up.

        `eligible` has the choices that each decision may make; None for all.
        """
        choices = [range(n.states) for n in self.decisions] if eligible is None else eligible
        action = {k: own[0] for k, own in enumerate(choices)}
        for clique in self.cliques:
            action |= self._match(clique, choices)
        if self.overlaps:
            search = self._search(sorted(self._bound, key=lambda k: len(choices[k])), choices)
            complete = next(filter(None, itertools.islice(search, MOST_STEPS)), None)
            if complete is None:
                raise self._infeasible(self._bound[0], choices)
            action |= complete
        return list(action.values())

    @cached_property
    def _bound(self) -> list[int]:
        """Decisions that conflict with others."""
        return [k for k, rivals in enumerate(self._rivals) if rivals]

    @cached_property
    def _reach(self) -> Bools:
        return self.conflicts | np.eye(len(self.decisions), dtype=np.bool_)

    @cached_property
    def cliques(self) -> list[list[int]]:
        """Sets of decisions that all conflict with each other, and with no other decision; and parts of larger sets."""
        own = [np.flatnonzero(self._reach[k]).tolist() for k in self._bound]
        return [c for k, c in zip(self._bound, own, strict=True) if c[0] == k and self._reach[np.ix_(c, c)].all()]

    @cached_property
    def overlaps(self) -> bool:
        """True if some groups overlap, so that conflicts are not only within cliques."""
        return bool((self._reach @ self._reach != self._reach).any())

    def _search(
        self, order: Sequence[int], choices: Sequence[Sequence[int]] | None = None
    ) -> Iterator[dict[int, int] | None]:
        """Iterate over all ways to make these decisions, one after the other; None for every incomplete one."""

        def extended(action: dict[int, int], k: int) -> Iterator[dict[int, int]]:
            among = None if choices is None else choices[k]
            return (action | {k: choice} for choice in self.choices_left(k, action, among))

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

    def _match(self, clique: Sequence[int], eligible: Sequence[Sequence[int]]) -> dict[int, int]:
        """Different items for all of a clique: the first that is free to each, or a matching where that fails."""
        action: dict[int, int] = {}
        for k in reversed(clique):
            if (choice := next(self.choices_left(k, action, eligible[k]), None)) is not None:
                action[k] = choice
        if len(action) == len(clique):
            return action
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        items = [eligible[k] if self.items is None else [self.items[k][i] for i in eligible[k]] for k in clique]
        rows = np.repeat(range(len(clique)), [len(choices) for choices in items])
        graph = csr_array((np.ones(len(rows), dtype=np.int8), (rows, list(itertools.chain(*items)))))
        matched = maximum_bipartite_matching(graph, perm_type="column").tolist()
        if min(matched) < 0:
            raise self._infeasible(clique[matched.index(min(matched))], eligible)
        return {k: eligible[k][own.index(item)] for k, own, item in zip(clique, items, matched, strict=True)}

    def _infeasible(self, k: int, eligible: Sequence[Sequence[int]]) -> InfeasibleError:
        groups = "; ".join(", ".join(group) for group in self._groups)
        what = f"diagram {self._name!r}: no action was found that satisfies all_different ({groups})"
        node, own = self.decisions[k], eligible[k]
        if len(own) < node.states:
            what += f"; no choice is left for {node.name!r}, which may be {self.shown(k, own)}"
        return InfeasibleError(what)

    def shown(self, k: int, choices: Sequence[int]) -> str:
        """Return some choices of a decision, for messages."""
        labels = ", ".join(repr(self.decisions[k].values[choice]) for choice in choices[:8])
        return labels + (f", … ({len(choices)} in all)" if len(choices) > 8 else "")
