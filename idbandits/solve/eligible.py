"""Eligible choices: `allowed=` of a request, packed for kernels, and the rows of tables that they read.

Packed, it is one array: for every decision its choice in some feasible action, then where its list begins, then where
it ends (both from the start of the array; -1 if it may make every choice), then the lists. Decisions with equal lists
share one. An empty array stands for every choice of every decision.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.circuit.circuit import Circuit
from idbandits.circuit.model import Model
from idbandits.circuit.passes import entry
from idbandits.diagram.tables import Label
from idbandits.errors import ActionError, InfeasibleError, brief
from idbandits.kernel.array_types import Bools, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import Decisions, choice_at, have_same_choices, number_of_choices

Allowed: TypeAlias = Iterable[Label] | Mapping[str, Iterable[Label]] | None  # choices, or choices by decision, or all
Lists: TypeAlias = Sequence[Ints | None]  # of a decision: the choices that it may make, ascending; None if all
EVERY_CHOICE: Ints = np.empty(0, dtype=np.int64)
WORD, RESIDUES = 32, 37  # bits of a word in a set of rows; powers of two differ modulo this prime
FEW, SPARSE = 64, 64  # a list is short if it has at most so many choices, or at most one in this number of them
REPEATED = 16  # choices of a slot from which on it is worth looking for an equal one


@final
class Eligibility:
    """Translator of `allowed=` into the choices that a model's decisions may make."""

    def __init__(self, model: Model) -> None:
        self._decisions, self._feasibility = model.decisions, model.feasibility
        self._places = {node.name: k for k, node in enumerate(model.decisions)}
        kinds: dict[Any, list[int]] = {}
        for k, node in enumerate(model.decisions):
            kinds.setdefault((node.values, tuple(self._feasibility.repeatable[k])), []).append(k)
        self._kinds = list(kinds.values())  # sets of decisions with equal values, of which the same may repeat
        self._kind = {k: kind for kind, decisions in enumerate(self._kinds) for k in decisions}
        self._index = [
            None if isinstance(values, range) else {label: place for place, label in enumerate(values)}
            for values, _ in kinds
        ]  # of a kind: the places of labels; None if labels are places
        self._default = self._feasibility.some_action()
        bound = {k for clique in self._feasibility.cliques for k in clique}
        self._alone = [k for k in range(len(self._decisions)) if k not in bound]  # no other one wants their choices
        self._turns: Ints = np.zeros(len(self._decisions), dtype=np.int64)  # of a decision: its place in its clique
        for clique in self._feasibility.cliques:
            self._turns[clique] = range(len(clique))
        self._longest_clique = int(self._turns.max(initial=0)) + 1

    def packed(self, allowed: Allowed) -> Ints:
        """Return the choices that may be made, for kernels."""
        if allowed is None:
            return EVERY_CHOICE
        if isinstance(allowed, Mapping):
            lists = self._by_decision(allowed)
        elif len(self._kinds) == 1:
            return self._packed_alike(_listed("allowed", allowed))
        else:
            lists = self._common(_listed("allowed", allowed))
        if all(own is None for own in lists):
            return EVERY_CHOICE
        begin, end, first = list[int](), list[int](), 3 * len(lists)
        spans, choices = {id(None): (-1, -1)}, list[Ints]()
        for own in lists:
            span = spans.get(id(own))
            if span is None:
                assert own is not None
                span = spans[id(own)] = first, first + len(own)
                first += len(own)
                choices.append(own)
            begin.append(span[0])
            end.append(span[1])
        return np.concatenate([np.array([*self._feasible(lists), *begin, *end], dtype=np.int64), *choices])

    def _packed_alike(self, labels: Sequence[Any]) -> Ints:
        """Pack one list for all decisions, which have equal choices."""
        choices = self._choices("allowed", 0, labels)
        if choices is None:
            return EVERY_CHOICE
        number = len(self._decisions)
        first = 3 * number
        numbers = np.empty(first + len(choices), dtype=np.int64)
        if len(choices) < self._longest_clique or self._feasibility.overlaps:
            numbers[:number] = self._feasible([choices] * number)
        else:
            numbers[:number] = choices[self._turns]
        numbers[number : 2 * number], numbers[2 * number : first], numbers[first:] = first, len(numbers), choices
        return numbers

    def _common(self, labels: Sequence[Any]) -> Lists:
        """Apply one list to decisions with different choices: each may make those of the choices that it has."""
        lists: list[Ints | None] = [None] * len(self._decisions)
        for decisions in self._kinds:
            own = self._choices("allowed", decisions[0], self._own(decisions[0], labels))
            for k in decisions:
                lists[k] = own
        for label in labels:
            if all(node.index(label) is None for node in self._decisions):
                raise ActionError(f"allowed: {brief(label)} is no choice of any decision")
        return lists

    def _own(self, k: int, labels: Sequence[Any]) -> Sequence[Any]:
        """Return those labels that a decision has."""
        if not labels:
            return labels
        node = self._decisions[k]
        own = [label for label in labels if node.index(label) is not None]
        if not own and not self._feasibility.repeatable[k]:
            what = f"allowed: decision {node.name!r} has none of {brief(labels)}; its choices are {node.allowed()}"
            raise InfeasibleError(f"{what} (with lists by decision, those that are left out may make any choice)")
        return own

    def _by_decision(self, allowed: Mapping[str, Iterable[Label]]) -> Lists:
        """Apply one list per decision; those that are left out may make every choice."""
        lists: list[Ints | None] = [None] * len(self._decisions)
        seen: dict[tuple[int, bytes], Ints] = {}  # by kind of decision, and the choices
        for name, labels in allowed.items():
            k = self._places.get(name) if isinstance(name, str) else None
            if k is None:
                names = ", ".join(self._places) or "none"
                raise ActionError(f"allowed: {brief(name)} is not a decision; the decisions are {names}")
            where = f"allowed: decision {name!r}"
            own = self._choices(where, k, _listed(where, labels))
            lists[k] = None if own is None else seen.setdefault((self._kind[k], own.tobytes()), own)
        return lists

    def _choices(self, where: str, k: int, labels: Sequence[Any]) -> Ints | None:
        """Return the places of labels, all of which a decision has, and of what may repeat; None if these are all."""
        node, repeatable = self._decisions[k], self._feasibility.repeatable[k]
        if not labels and not repeatable:
            raise ActionError(f"{where}: the list is empty; the choices are {node.allowed()}")
        index, states = self._index[self._kind[k]], node.states
        try:
            places = array("q", labels if index is None else map(index.__getitem__, labels))
        except (KeyError, TypeError, OverflowError):  # not there, or equal to a choice but of another type
            places = array("q", node.indices(labels) or (-1,))
        if len(places) <= FEW or SPARSE * len(places) < states:
            places.extend(repeatable)
            choices = np.array(places, dtype=np.int64)
            choices.sort()
            if choices[0] >= 0 and choices[-1] < states:
                if np.count_nonzero(choices[1:] == choices[:-1]):  # faster than `any`
                    choices = np.unique(choices)
                return None if len(choices) == states else choices
        elif np.asarray(places).view(np.uint64).max(initial=0) < states:  # negative ones are large
            mask = np.zeros(states, dtype=np.bool_)
            mask[np.asarray(places)] = True
            mask[repeatable] = True
            return None if mask.all() else np.flatnonzero(mask)
        strange = next(label for label in labels if node.index(label) is None)
        raise ActionError(f"{where}: {brief(strange)} is not a choice; these are {node.allowed()}")

    def _feasible(self, lists: Lists) -> Sequence[int]:
        """Return an action that these lists and the constraints allow."""
        feasibility, action = self._feasibility, [0] * len(lists)
        for k in self._alone:
            if (own := lists[k]) is not None:
                action[k] = int(own[0])
        for clique in feasibility.cliques:
            own = lists[clique[0]]
            if len({id(lists[k]) for k in clique}) > 1:
                break
            choices = [self._default[k] for k in clique] if own is None else own[: len(clique)].tolist()
            choices += feasibility.repeatable[clique[0]][:1] * (len(clique) - len(choices))
            if len(choices) < len(clique):
                break
            for k, choice in zip(clique, choices, strict=True):
                action[k] = choice
        else:
            if not feasibility.overlaps:
                return action
        nodes = zip(self._decisions, lists, strict=True)
        return feasibility.some_action([range(n.states) if own is None else own.tolist() for n, own in nodes])


def choices_of(states: int, eligible: Ints, k: int, decisions: int) -> Sequence[int]:
    """Return the choices that decision k may make, as packed for so many decisions; it has `states` in all."""
    if not len(eligible) or eligible[decisions + k] < 0:
        return range(states)
    choices: list[int] = eligible[eligible[decisions + k] : eligible[2 * decisions + k]].tolist()
    return choices


def are_eligible(action: Ints, eligible: Ints, decisions: int) -> bool:
    """Return whether all choices of an action may be made, as packed for so many decisions."""
    states = int(action[:decisions].max(initial=0)) + 1
    return all(action[k] in choices_of(states, eligible, k, decisions) for k in range(decisions))


def _listed(where: str, labels: Any) -> Sequence[Any]:
    """Return choices as a list."""
    if type(labels) is list:
        return labels
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        return labels.tolist()
    if not isinstance(labels, (str, bytes, Mapping)):
        try:
            return list(labels)
        except TypeError:
            pass  # not iterable
    raise ActionError(f"{where}: must be a list of choices, got {brief(labels)}")


@linked
def readable_rows(c: Circuit, s: Decisions, eligible: Ints, action: Ints) -> Ints:
    """Return where the learned rows begin that the reward may read with eligible choices in the context of an action.

    They are in ascending order.
    """
    words, large, number = np.zeros(s.learned // WORD + 1, np.int64), np.empty(c.slots, np.int64), 0
    trial, at = action.copy(), np.zeros(s.decisions, np.int64)
    for slot in range(c.slots):
        looks_up = c.slot_lookup[slot] >= 0  # some rows that it reads may be fixed
        if not looks_up and c.slot_base[slot] >= s.learned:  # a known parameter
            continue
        begin, states = (0, 1) if looks_up else table_at(s, c.slot_base[slot])
        combinations = 1.0
        for t in range(c.slot_start[slot], c.slot_start[slot + 1]):
            k = c.slot_axis[t]
            if k < s.decisions:
                combinations *= number_of_choices(s, eligible, k)
                trial[k], at[k] = choice_at(s, eligible, k, 0), 0
        if combinations > s.learned:  # through a lookup: to go through them costs more than to read all rows
            mark_all_rows(s, words)
            break
        if combinations >= REPEATED and not looks_up:
            repeated = False
            for i in range(number):
                repeated |= reads_same_rows(c, s, eligible, large[i], slot, begin, states)
            if repeated:
                continue
            large[number] = slot
            number += 1
        axes, stride = c.slot_start[slot + 1] - c.slot_start[slot], c.slot_stride[c.slot_start[slot]]
        place, more = begin + (entry(c, slot, trial) - begin) // states * states, True
        if axes == 1 and combinations > 1.0 and not looks_up and stride % states == 0:
            k, more = c.slot_axis[c.slot_start[slot]], False
            for i in range(number_of_choices(s, eligible, k)):
                mark(words, place + stride * (choice_at(s, eligible, k, i) - trial[k]))
        while more:
            read = entry(c, slot, trial)
            if read < s.learned:
                first, size = table_at(s, read)
                mark(words, first + (read - first) // size * size)
            more = False
            for t in range(c.slot_start[slot], c.slot_start[slot + 1]):  # the next combination, first decision fastest
                k = c.slot_axis[t]
                if k < s.decisions:
                    at[k] += 1
                    more = at[k] < number_of_choices(s, eligible, k)
                    if more:
                        trial[k] = choice_at(s, eligible, k, at[k])
                        break
                    trial[k], at[k] = choice_at(s, eligible, k, 0), 0
    return marked(words)


@inlined
def table_at(s: Decisions, parameter: int) -> tuple[int, int]:
    """Return where the learned table of a parameter begins, and its number of states."""
    table, begin = 0, 0
    while parameter >= begin + s.table_states[table] * s.table_rows[table]:
        begin += s.table_states[table] * s.table_rows[table]
        table += 1
    return begin, s.table_states[table]


@inlined
def mark(words: Ints, number: int) -> None:
    """Add a number to a set."""
    words[number // WORD] |= 1 << number % WORD


@unmanaged
def mark_all_rows(s: Decisions, words: Ints) -> None:
    """Add where all learned rows begin to a set."""
    at = 0
    for t in range(s.tables):
        for _ in range(s.table_rows[t]):
            mark(words, at)
            at += s.table_states[t]


@linked
def marked(words: Ints) -> Ints:
    """Return the numbers in a set, ascending."""
    size = 0
    for i in range(len(words)):
        rest = words[i]
        while rest:
            rest &= rest - 1
            size += 1
    numbers, size = np.empty(size, np.int64), 0
    place = np.empty(RESIDUES, np.int64)
    for bit in range(WORD):
        place[(1 << bit) % RESIDUES] = bit
    for i in range(len(words)):
        rest = words[i]
        while rest:
            numbers[size] = i * WORD + place[(rest & -rest) % RESIDUES]
            rest &= rest - 1
            size += 1
    return numbers


@unmanaged
def reads_same_rows(c: Circuit, s: Decisions, eligible: Ints, a: int, b: int, begin: int, states: int) -> bool:
    """Return whether two slots read the same rows of a table, which begins there and has so many states."""
    first, other, length = c.slot_start[a], c.slot_start[b], c.slot_start[a + 1] - c.slot_start[a]
    same = c.slot_lookup[a] < 0 and c.slot_lookup[b] < 0 and length == c.slot_start[b + 1] - other
    same = same and (c.slot_base[a] - begin) // states == (c.slot_base[b] - begin) // states
    for t in range(length if same else 0):
        j, k = c.slot_axis[first + t], c.slot_axis[other + t]
        same = same and c.slot_stride[first + t] == c.slot_stride[other + t] and c.slot_stride[first + t] % states == 0
        if j != k:
            same = same and j < s.decisions and k < s.decisions and s.choices[j] == s.choices[k]
            same = same and have_same_choices(s, eligible, j, k)
    return same


@linked
def mark_readable(c: Circuit, s: Decisions, eligible: Ints, action: Ints, readable: Bools) -> None:
    """Mark the first parameters of `readable_rows`."""
    for row in readable_rows(c, s, eligible, action):
        readable[row] = True
