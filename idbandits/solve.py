"""The best action under given means, with a proof of optimality where there is one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from idbandits.compiled import Action, Means, Model, compile
from idbandits.diagram import Diagram
from idbandits.errors import IdbanditsError, InfeasibleError
from idbandits.passes import Circuit, run
from idbandits.search import GENERAL, PRODUCT, SORTED, SUM, Decisions, solve
from idbandits.tables import Ints, Label

BUDGET = 400_000.0  # edges that branch and bound may look at: a few milliseconds


@final
@dataclass(frozen=True)
class Solution:
    """The best action found, its expected reward, whether it is proven to be the best, and what nothing exceeds."""

    action: dict[str, Label]
    value: float
    exact: bool
    bound: float


def best_action(d: Diagram, means: Means, context: Action | None = None, *, effort: float = 1.0) -> Solution:
    """The action with the highest expected reward; all decisions are made before anything is seen.

    The proof may be out of reach for many entangled decisions: then `exact` is False, `value` is that of the best
    action found and `bound` is an upper bound. More `effort` (a factor on the time allowed) may close the gap.

    >>> d = Diagram("two coins")
    >>> coin = ["fair", "bent"]
    >>> heads = d.observed("first", [d.decision("A1", coin)]), d.observed("second", [d.decision("A2", coin)])
    >>> d.reward(heads, lambda first, second: first * (1 - second))
    >>> best_action(d, {"first": [0.5, 0.8], "second": [0.5, 0.9]})
    Solution(action={'A1': 'bent', 'A2': 'fair'}, value=0.4, exact=True, bound=0.4)
    """
    if not (isinstance(effort, (int, float)) and effort >= 0):
        raise IdbanditsError(f"effort is a number from 0, not {effort!r}")
    model = compile(d)
    decisions = decisions_of(model)
    action = np.array([*decisions.feasible, *model.context_vector(context)], dtype=np.int64)
    parameters = model.parameter_vector(means)
    value, bound = run(solve, model.rewards.circuit, decisions, parameters, action, BUDGET * effort)
    exact = bound <= value + 1e-12 * (1 + abs(value))
    return Solution(model.action_of(action), value, exact, value if exact else bound)


def decisions_of(model: Model) -> Decisions:
    """What the search needs to know, made once a model."""
    return model.once("decisions", lambda: _decisions(model))


def _decisions(model: Model) -> Decisions:
    rewards = model.rewards
    c = rewards.circuit
    number = len(model.decisions)
    conflict = np.zeros((number, number), dtype=np.bool_)
    places = {n.name: i for i, n in enumerate(model.decisions)}
    for group in model.different:
        for a in group:
            for b in group:
                conflict[places[a], places[b]] = a != b
    by_slot = [
        [int(a) for a in c.slot_axis[c.slot_start[s] : c.slot_start[s + 1]] if a < number] for s in range(len(c.slot_base))
    ]
    edge_node = np.repeat(np.arange(len(c.product)), np.diff(c.start))
    uses: list[list[int]] = [[] for _ in range(number)]
    depends: list[list[int]] = [[] for _ in range(len(c.product))]
    for e, s in enumerate(c.slot.tolist()):
        for k in by_slot[s] if s >= 0 else ():
            uses[k].append(e)
            if k not in depends[edge_node[e]]:
                depends[edge_node[e]].append(k)
    item_start, items = _items(model)
    linear = _linear(c, by_slot, number)
    key = [_key(c, uses[k], by_slot, rewards.complement) for k in range(number)]
    groups = [sorted(group) for group in rewards.groups]
    shape = Decisions(
        choices=np.array([n.states for n in model.decisions], dtype=np.int64),
        conflict=conflict,
        item_start=item_start,
        items=items,
        dep_start=_starts(depends),
        dep=_flat(depends),
        use_start=_starts(uses),
        use=_flat(uses),
        edge_node=edge_node,
        linear=linear,
        key=np.array(key, dtype=np.int64),
        like=_like(model, c, key, conflict),
        group_start=_starts(groups),
        group=_flat(groups),
        group_end=np.array(rewards.ends, dtype=np.int64),
        form=np.zeros(len(groups), dtype=np.int64),
        zero=np.zeros(len(groups)),
        feasible=_feasible(model, conflict, item_start, items),
    )
    for g, members in enumerate(groups):
        shape.form[g], shape.zero[g] = _form(model, shape, g, members)
    return shape


def _form(model: Model, s: Decisions, g: int, members: Sequence[int]) -> tuple[int, float]:
    """How the reward of a group is composed, if that helps."""
    inside = s.conflict[np.ix_(members, members)]
    if not inside.any():
        return GENERAL, 0.0
    reach = inside | np.eye(len(members), dtype=np.bool_)
    if (reach @ reach == reach).all():  # to exclude each other is transitive: disjoint sets of decisions
        if all(len(part & set(members)) <= 1 for part in model.rewards.separable_parts):
            return SUM, 0.0
        zero = _product_form(model, s, g, members)
        if zero is not None:
            return PRODUCT, zero
    c = model.rewards.circuit
    first, last = s.group_end[g], s.group_end[g + 1]
    plain = not c.product[first:last].any() and (np.diff(s.dep_start[first : last + 1]) <= 1).all()
    alike = all(s.linear[k] and s.key[k] >= 0 and s.like[k] == s.like[members[0]] for k in members)
    return (SORTED if plain and alike and reach.all() else GENERAL), 0.0


PRIME = 2**521 - 1


def _product_form(model: Model, s: Decisions, g: int, members: Sequence[int]) -> float | None:
    """The constant z for which the reward is z plus a product of one factor a decision, whatever the means.

    A polynomial identity, tested at random points of a large prime field: there is no rounding, and the chance
    that a wrong identity passes is below 10^-100.
    """
    draw = random.Random(0)
    zeros = set()
    for _ in range(2):
        parameters = _random_parameters(model, draw)
        base, other = ([draw.randrange(n.states) for n in (*model.decisions, *model.contexts)] for _ in range(2))
        other[len(model.decisions) :] = base[len(model.decisions) :]

        def at(moved: Sequence[int]) -> int:
            action = [other[k] if k in moved else base[k] for k in range(len(base))]
            return _value_in_field(model.rewards.circuit, s, g, parameters, action)

        movable = [k for k in members if base[k] != other[k]]
        if len(movable) < 2:
            movable = [k for k in members if s.choices[k] > 1]
            for k in movable:
                other[k] = (base[k] + 1) % int(s.choices[k])
            if len(movable) < 2:
                return None
        corner, left, right, both = at([]), at(movable[:1]), at(movable[1:2]), at(movable[:2])
        bend = (corner + both - left - right) % PRIME
        if not bend:
            return None
        zero = (corner * both - left * right) * pow(bend, -1, PRIME) % PRIME
        product = 1
        for k in movable:
            product = product * (at([k]) - zero) % PRIME
        if (product - (at(movable) - zero) * pow(corner - zero, len(movable) - 1, PRIME)) % PRIME:
            return None
        zeros.add(zero)
    return _as_number(zeros.pop()) if len(zeros) == 1 else None


def _random_parameters(model: Model, draw: random.Random) -> list[int]:
    """Means drawn at random from the field, rows summing to 1 there; known entries as the numbers they are."""
    parameters: list[int] = []
    for table in model.learned.values():
        for _ in range(table.size // table.states):
            row = [draw.randrange(PRIME) for _ in range(table.states - 1)]
            parameters += [(1 - sum(row)) % PRIME, *row]
    for value in model.parameters.known.tolist():
        numerator, denominator = float(value).as_integer_ratio()
        parameters.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return parameters


def _value_in_field(c: Circuit, s: Decisions, g: int, parameters: Sequence[int], action: Sequence[int]) -> int:
    values = {0: 1}
    for n in range(s.group_end[g], s.group_end[g + 1]):
        terms = []
        for e in range(c.start[n], c.start[n + 1]):
            slot, child = c.slot[e], values[int(c.child[e])]
            terms.append(child if slot < 0 else parameters[_entry(c, slot, action)] * child)
        values[c.leaves + n] = (terms[0] * terms[1] if c.product[n] else sum(terms)) % PRIME
    return values[c.leaves + int(s.group_end[g + 1]) - 1]


def _entry(c: Circuit, slot: int, action: Sequence[int]) -> int:
    index = sum(int(c.slot_stride[t]) * action[c.slot_axis[t]] for t in range(c.slot_start[slot], c.slot_start[slot + 1]))
    place = int(c.slot_lookup[slot])
    return int(c.slot_base[slot]) + (index if place < 0 else int(c.lookup[place + index]))


def _as_number(element: int) -> float | None:
    """The fraction with small terms that a field element stands for, if there is one."""
    before, after = (PRIME, 0), (element, 1)
    while after[0] * after[0] * 2 > PRIME:
        quotient = before[0] // after[0]
        before, after = after, (before[0] - quotient * after[0], before[1] - quotient * after[1])
    numerator, denominator = after
    return numerator / denominator if denominator and denominator**2 * 2 < PRIME else None


def _key(c: Circuit, edges: Sequence[int], by_slot: Sequence[Sequence[int]], complement: Mapping[int, int]) -> int:
    slots = sorted({int(c.slot[e]) for e in edges})
    if any(len(by_slot[slot]) > 1 for slot in slots):
        return -1
    if len(slots) == 1:
        return slots[0]
    if len(slots) == 2:
        for a, b in (slots, slots[::-1]):
            if complement.get(a) == b:
                return b
    return -1


def _linear(c: Circuit, by_slot: Sequence[Sequence[int]], number: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Decisions no two of whose weights are ever multiplied."""
    linear = np.ones(number, dtype=np.bool_)
    below: list[frozenset[int]] = [frozenset()] * (c.leaves + len(c.product))
    for n in range(len(c.product)):
        parts = []
        for e in range(c.start[n], c.start[n + 1]):
            own = frozenset(by_slot[c.slot[e]]) if c.slot[e] >= 0 else frozenset[int]()
            for k in own & below[c.child[e]]:
                linear[k] = False
            parts.append(own | below[c.child[e]])
        if c.product[n]:
            for k in parts[0] & parts[1]:
                linear[k] = False
        below[c.leaves + n] = frozenset().union(*parts)
    return linear


def _like(model: Model, c: Circuit, key: Sequence[int], conflict: Ints) -> Ints:
    """The first decision with the same key column, choices and number of rivals."""
    seen: dict[object, int] = {}
    like = np.arange(len(key))
    for k, slot in enumerate(key):
        if slot < 0:
            continue
        terms = range(c.slot_start[slot], c.slot_start[slot + 1])
        strides = sorted((-1 if c.slot_axis[t] == k else int(c.slot_axis[t]), int(c.slot_stride[t])) for t in terms)
        values = model.decisions[k].values
        column = (int(c.slot_base[slot]), tuple(strides), int(c.slot_lookup[slot]))
        like[k] = seen.setdefault((column, values, int(conflict[k].sum())), k)
    return like


def _items(model: Model) -> tuple[Ints, Ints]:
    """Numbers for the choices that are equal for equal labels of different decisions."""
    constrained = {name for group in model.different for name in group}
    values = [n.values if n.name in constrained else range(0) for n in model.decisions]
    if all(isinstance(v, range) for v in values) or len({tuple(v) for v in values if len(v)}) == 1:
        return np.full(len(values), -1, dtype=np.int64), np.empty(0, dtype=np.int64)
    numbers: dict[Label, int] = {}
    flat = [[numbers.setdefault(label, len(numbers)) for label in v] for v in values]
    return _starts(flat)[:-1], _flat(flat)


def _feasible(model: Model, conflict: Ints, item_start: Ints, items: Ints) -> Ints:
    """Some action that satisfies the constraints, found by search with the most constrained decision first."""
    number = len(model.decisions)
    action = np.zeros(number, dtype=np.int64)
    order = sorted(np.flatnonzero(conflict.any(axis=1)), key=lambda k: model.decisions[k].states)
    at = [0] * len(order)
    depth = 0
    while depth < len(order):
        k = order[depth]
        taken = {_item(item_start, items, j, action[j]) for j in order[:depth] if conflict[j, k]}
        choice = at[depth]
        while choice < model.decisions[k].states and _item(item_start, items, k, choice) in taken:
            choice += 1
        if choice < model.decisions[k].states:
            action[k], at[depth] = choice, choice + 1
            depth += 1
            continue
        at[depth] = 0
        depth -= 1
        if depth < 0:
            groups = "; ".join(", ".join(group) for group in model.different)
            raise InfeasibleError(f"diagram {model.name!r}: no action satisfies all_different ({groups})")
    return action


def _item(item_start: Ints, items: Ints, k: int, choice: int) -> int:
    return int(choice) if item_start[k] < 0 else int(items[item_start[k] + choice])


def _starts(parts: Sequence[Sequence[int]]) -> Ints:
    return np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)


def _flat(parts: Sequence[Sequence[int]]) -> Ints:
    return np.array([x for part in parts for x in part], dtype=np.int64)
