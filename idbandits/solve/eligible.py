"""Which choices may be made in a round: `allowed=` as users give it, and packed for kernels.

Packed, it is one array: for every decision its choice in some feasible action, then where its list begins, then where
it ends (both from the start of the array; -1 if it may make every choice), then the lists. Decisions with equal lists
share one. An empty array stands for every choice of every decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.circuit.circuit import Circuit
from idbandits.circuit.model import Model
from idbandits.circuit.passes import entry
from idbandits.diagram.tables import Label
from idbandits.errors import ODD, ActionError, InfeasibleError, brief
from idbandits.kernel.array_types import Bools, Ints
from idbandits.kernel.compile import linked
from idbandits.solve.candidates import Decisions, choice_at, number_of_choices

Allowed: TypeAlias = Iterable[Label] | Mapping[str, Iterable[Label]] | None  # choices, or choices by decision, or all
Lists: TypeAlias = Sequence[list[int] | None]  # of a decision: the choices that it may make, None if all
EVERY_CHOICE: Ints = np.empty(0, dtype=np.int64)


@final
class Eligibility:
    """Turns `allowed=` into the choices that a model's decisions may make."""

    def __init__(self, model: Model) -> None:
        self._decisions, self._feasibility = model.decisions, model.feasibility
        self._places = {node.name: k for k, node in enumerate(model.decisions)}
        alike: dict[Any, list[int]] = {}
        for k, node in enumerate(model.decisions):
            alike.setdefault((node.values, tuple(self._feasibility.repeatable[k])), []).append(k)
        self._alike = list(alike.values())  # sets of decisions with the same values, of which the same may repeat
        self._kind = {k: kind for kind, decisions in enumerate(self._alike) for k in decisions}
        self._default = self._feasibility.some_action()

    def packed(self, allowed: Allowed) -> Ints:
        """The choices that may be made, for kernels."""
        if allowed is None:
            return EVERY_CHOICE
        lists = self._by_decision(allowed) if isinstance(allowed, Mapping) else self._common(allowed)
        if not any(lists):
            return EVERY_CHOICE
        begin, end, choices, spans = list[int](), list[int](), list[int](), {id(None): (-1, -1)}
        for own in lists:
            if own is not None and id(own) not in spans:
                first = 3 * len(lists) + len(choices)
                spans[id(own)] = first, first + len(own)
                choices += own
            span = spans[id(own)]
            begin.append(span[0])
            end.append(span[1])
        return np.array([*self._feasible(lists), *begin, *end, *choices], dtype=np.int64)

    def _common(self, allowed: Iterable[Label]) -> Lists:
        """One list for all decisions: each may make those of the choices that it has."""
        labels = _listed("allowed", allowed)
        lists: list[list[int] | None] = [None] * len(self._decisions)
        for decisions in self._alike:
            own = self._completed(decisions[0], self._indices("allowed", decisions[0], self._own(decisions[0], labels)))
            for k in decisions:
                lists[k] = own
        if len(self._alike) != 1:
            for label in labels:
                if all(node.index(label) is None for node in self._decisions):
                    raise ActionError(f"allowed: {brief(label)} is no choice of any decision")
        return lists

    def _own(self, k: int, labels: Sequence[Any]) -> Sequence[Any]:
        """Those labels that a decision has; all, if every decision has the same."""
        if len(self._alike) == 1 or not labels:
            return labels
        node = self._decisions[k]
        own = [label for label in labels if node.index(label) is not None]
        if not own and not self._feasibility.repeatable[k]:
            what = f"allowed: decision {node.name!r} has none of {brief(labels)}; its choices are {node.allowed()}"
            raise InfeasibleError(f"{what} (with lists by decision, those that are left out may make any choice)")
        return own

    def _by_decision(self, allowed: Mapping[str, Iterable[Label]]) -> Lists:
        """One list per decision; those that are left out may make every choice."""
        lists: list[list[int] | None] = [None] * len(self._decisions)
        seen: dict[tuple[int, ...], list[int]] = {}  # by kind of decision, and the choices
        try:
            by_name = dict(allowed)
        except ODD:
            raise ActionError(f"allowed: {brief(allowed)} cannot be read") from None
        for name, labels in by_name.items():
            k = self._places.get(name) if isinstance(name, str) else None
            if k is None:
                names = ", ".join(self._places) or "none"
                raise ActionError(f"allowed: {brief(name)} is not a decision; the decisions are {names}")
            where = f"allowed: decision {name!r}"
            own = self._completed(k, self._indices(where, k, _listed(where, labels)))
            lists[k] = None if own is None else seen.setdefault((self._kind[k], *own), own)
        return lists

    def _indices(self, where: str, k: int, labels: Sequence[Any]) -> set[int]:
        """The places of labels among the choices of a decision, which has all of them."""
        node = self._decisions[k]
        places = node.indices(labels)
        if places is None:
            strange = next(label for label in labels if node.index(label) is None)
            raise ActionError(f"{where}: {brief(strange)} is not a choice; these are {node.allowed()}")
        if not places and not self._feasibility.repeatable[k]:
            raise ActionError(f"{where}: the list is empty; the choices are {node.allowed()}")
        return places

    def _completed(self, k: int, places: set[int]) -> list[int] | None:
        """The list of a decision, with what may repeat; None if it has all choices."""
        places.update(self._feasibility.repeatable[k])
        return None if len(places) == self._decisions[k].states else sorted(places)

    def _feasible(self, lists: Lists) -> Sequence[int]:
        """An action that these lists and the constraints allow."""
        feasibility, action = self._feasibility, [0 if own is None else own[0] for own in lists]
        for clique in feasibility.cliques:
            own = lists[clique[0]]
            if any(lists[k] is not own for k in clique):
                break
            choices = [self._default[k] for k in clique] if own is None else own
            missing = len(clique) - len(choices)
            choices = choices + feasibility.repeatable[clique[0]][:1] * missing
            if len(choices) < len(clique):
                break
            for k, choice in zip(clique, choices, strict=False):
                action[k] = choice
        else:
            if not feasibility.overlaps:
                return action
        every = [range(node.states) for node in self._decisions]
        return feasibility.some_action([all_ if own is None else own for own, all_ in zip(lists, every, strict=True)])


def choices_of(states: int, eligible: Ints, k: int, decisions: int) -> Sequence[int]:
    """The choices that decision k of so many may make, as packed; it has so many states."""
    if not len(eligible) or eligible[decisions + k] < 0:
        return range(states)
    choices: list[int] = eligible[eligible[decisions + k] : eligible[2 * decisions + k]].tolist()
    return choices


def are_eligible(action: Ints, eligible: Ints, decisions: int) -> bool:
    """Whether all of so many choices may be made, as packed."""
    states = int(action[:decisions].max(initial=0)) + 1
    return all(action[k] in choices_of(states, eligible, k, decisions) for k in range(decisions))


def _listed(where: str, labels: Any) -> Sequence[Any]:
    """Choices as a list, whatever they came in."""
    if type(labels) is list:
        return labels
    if not isinstance(labels, (str, bytes, Mapping)):
        try:
            return list(labels)
        except ODD:
            pass  # not iterable, or not readable
    raise ActionError(f"{where}: a list of choices is needed, not {brief(labels)}")


@linked
def mark_readable(c: Circuit, s: Decisions, eligible: Ints, action: Ints, readable: Bools) -> None:
    """Mark the learned parameters that the reward may read, with eligible choices in the context of an action."""
    trial, at = action.copy(), np.zeros(s.decisions, np.int64)
    for slot in range(c.slots):
        first, last, combinations = c.slot_start[slot], c.slot_start[slot + 1], 1.0
        for t in range(first, last):
            k = c.slot_axis[t]
            if k < s.decisions:
                combinations *= number_of_choices(s, eligible, k)
                trial[k], at[k] = choice_at(s, eligible, k, 0), 0
        if combinations > len(readable):  # through a lookup: to go through them costs more than to draw all
            readable[:] = True
            return
        more = True
        while more:
            place = entry(c, slot, trial)
            if place < len(readable):
                readable[place] = True
            more = False
            for t in range(first, last):  # the next combination, first decision fastest
                k = c.slot_axis[t]
                if k < s.decisions:
                    at[k] += 1
                    more = at[k] < number_of_choices(s, eligible, k)
                    if more:
                        trial[k] = choice_at(s, eligible, k, at[k])
                        break
                    trial[k], at[k] = choice_at(s, eligible, k, 0), 0
