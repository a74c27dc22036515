"""What the search for the best action needs to know of a diagram, found once when it is first asked."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from idbandits.circuit.build import Arrays, Atom, starts
from idbandits.circuit.model import Model
from idbandits.circuit.passes import pack
from idbandits.diagram.tables import Label
from idbandits.errors import InfeasibleError
from idbandits.solve.branch import FREE, GENERAL, PRODUCT, SORTED, SUM, Decisions


def decisions_of(model: Model) -> Decisions:
    """What the search needs to know, made once a model."""
    return model.once("decisions", lambda: _decisions(model))


def _decisions(model: Model) -> Decisions:
    rewards = model.rewards
    c = rewards.arrays
    number = len(model.decisions)
    places = {n.name: i for i, n in enumerate(model.decisions)}
    conflict = np.zeros((number, number), dtype=np.bool_)
    for group in model.different:
        for a in group:
            for b in group:
                conflict[places[a], places[b]] = a != b
    by_slot = [_decided(c, slot, number) for slot in range(len(c.slot_base))]
    edge_node = [n for n, (start, end) in enumerate(itertools.pairwise(c.start)) for _ in range(start, end)]
    uses: list[list[int]] = [[] for _ in range(number)]
    depends: list[dict[int, None]] = [{} for _ in c.product]
    for e, slot in enumerate(c.slot):
        for k in by_slot[slot] if slot >= 0 else ():
            uses[k].append(e)
            depends[edge_node[e]][k] = None
    deps = [list(d) for d in depends]
    key = [_key(c, uses[k], by_slot, rewards.complement) for k in range(number)]
    linear = _linear(c, model.rewards.circuit.leaves, by_slot, number)
    like = _like(model, c, key, linear, conflict)
    groups = [sorted(group) for group in rewards.groups]
    forms = []
    for g, members in enumerate(groups):
        nodes = range(rewards.ends[g], rewards.ends[g + 1])
        keyed = all(linear[k] and key[k] >= 0 for k in members) and not any(
            c.product[n] or len(deps[n]) > 1 for n in nodes
        )
        alike = keyed and all(like[k] == like[members[0]] for k in members)
        forms.append(_form(model, nodes, members, conflict[np.ix_(members, members)], keyed, alike))
    items = _items(model)
    return Decisions(
        number,
        sum(len(d) for d in deps),
        len(groups),
        **pack(
            choices=[n.states for n in model.decisions],
            conflict=conflict,
            item_start=[-1] * number if items is None else starts(items)[:-1],
            items=_flat(items or []),
            dep_start=starts(deps),
            dep=_flat(deps),
            use_start=starts(uses),
            use=_flat(uses),
            edge_node=edge_node,
            linear=linear,
            key=key,
            like=like,
            group_start=starts(groups),
            group=_flat(groups),
            group_end=rewards.ends,
            form=[form for form, _ in forms],
            feasible=_feasible(model, conflict, items),
        ),
        zero=np.array([*(zero for _, zero in forms), rewards.scale]),
    )


def _decided(c: Arrays, slot: int, number: int) -> list[int]:
    """The decisions that a slot and those it is multiplied with depend on."""
    found: set[int] = set()
    while slot >= 0:
        found.update(_own_decisions(c, slot, number))
        slot = c.slot_also[slot]
    return sorted(found)


def _form(
    model: Model, nodes: range, members: Sequence[int], conflict: npt.NDArray[np.bool_], keyed: bool, alike: bool
) -> tuple[int, float]:
    """How the reward of a group is composed, if that helps."""
    if not conflict.any():
        return (FREE if keyed else GENERAL), 0.0
    reach = conflict | np.eye(len(members), dtype=np.bool_)
    if (reach @ reach == reach).all():  # to exclude each other is transitive: disjoint sets of decisions
        if all(len(part & set(members)) <= 1 for part in model.rewards.separable_parts):
            return SUM, 0.0
        zero = _product_form(model, nodes, members)
        if zero is not None:
            return PRODUCT, zero
    return (SORTED if alike and reach.all() else GENERAL), 0.0


MOST_STEPS = 100_000  # back, in the search for an action that overlapping constraints allow
PRIME = 2**521 - 1
SMALL_TERMS = 2**64  # of a fraction: an element of the field that is none equals such a fraction by chance of 2**-392
FAR = 10  # times the largest reward: a constant beyond that would cost digits


def _product_form(model: Model, nodes: range, members: Sequence[int]) -> float | None:
    """The constant z for which the reward is z plus a product of one factor a decision, whatever the means.

    A polynomial identity, tested at random points of a large prime field: there is no rounding, and the chance
    that a wrong identity passes is below 10^-100.
    """
    draw = random.Random(0)
    zeros = {_zero_of_product(model, nodes, members, draw) for _ in range(2)}
    zero = zeros.pop()
    number = None if zeros or zero is None else _as_number(zero)
    return None if number is None or abs(number) > FAR * model.rewards.scale else number


def _zero_of_product(model: Model, nodes: range, members: Sequence[int], draw: random.Random) -> int | None:
    """That constant at one random point of the field, if the identity holds there.

    The weights that a decision sets are drawn as such, P(0) = 1 - P(1) aside: then it holds for any choices.
    """
    c, leaves = model.rewards.arrays, model.rewards.circuit.leaves
    number = len(model.decisions)
    axes = [_own_decisions(c, slot, number) for slot in range(len(c.slot_base))]
    if len(members) < 2 or any(len(a) > 1 for a in axes):
        return None
    fixed = _random_parameters(model, draw)
    given = [0] * number + [draw.randrange(n.states) for n in model.contexts]
    atoms = [c.atom(slot) for slot in range(len(c.slot_base))]
    points = []
    for _ in range(2):
        drawn = {atom: draw.randrange(PRIME) for atom in atoms}
        for zero_atom, one_atom in model.rewards.complement.items():
            drawn[zero_atom] = (1 - drawn.get(one_atom, draw.randrange(PRIME))) % PRIME
        points.append(
            [drawn[x] if a else fixed[_entry(c, i, given)] for i, (x, a) in enumerate(zip(atoms, axes, strict=True))]
        )
    here, there = points

    def at(moved: Sequence[int]) -> int:
        weights = [b if set(a) & set(moved) else w for a, w, b in zip(axes, here, there, strict=True)]
        return _value_in_field(c, leaves, nodes, weights)

    corner, left, right, both = at([]), at(members[:1]), at(members[1:2]), at(members[:2])
    bend = (corner + both - left - right) % PRIME
    if not bend:
        return None
    zero = (corner * both - left * right) * pow(bend, -1, PRIME) % PRIME
    product = 1
    for k in members:
        product = product * (at([k]) - zero) % PRIME
    if (product - (at(members) - zero) * pow(corner - zero, len(members) - 1, PRIME)) % PRIME:
        return None
    return zero


def _random_parameters(model: Model, draw: random.Random) -> list[int]:
    """Means drawn at random from the field, rows summing to 1 there; known entries as the numbers they are."""
    parameters: list[int] = []
    for table in model.learned.values():
        for _ in range(table.size // table.states):
            row = [draw.randrange(PRIME) for _ in range(table.states - 1)]
            parameters += [(1 - sum(row)) % PRIME, *row]
    for value in model.parameters.known.tolist():
        numerator, denominator = value.as_integer_ratio()
        parameters.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return parameters


def _own_decisions(c: Arrays, slot: int, number: int) -> list[int]:
    """The decisions that a slot depends on by itself."""
    return [axis for axis in c.slot_axis[c.slot_start[slot] : c.slot_start[slot + 1]] if axis < number]


def _value_in_field(c: Arrays, leaves: int, nodes: range, weights: Sequence[int]) -> int:
    values = {0: 1}
    for n in nodes:
        terms = []
        for e in range(c.start[n], c.start[n + 1]):
            slot, term = c.slot[e], values[c.child[e]]
            while slot >= 0:
                term = term * weights[slot] % PRIME
                slot = c.slot_also[slot]
            terms.append(term)
        values[leaves + n] = (terms[0] * terms[1] if c.product[n] else sum(terms)) % PRIME
    return values[leaves + nodes[-1]]


def _entry(c: Arrays, slot: int, action: Sequence[int]) -> int:
    index = sum(c.slot_stride[t] * action[c.slot_axis[t]] for t in range(c.slot_start[slot], c.slot_start[slot + 1]))
    place = c.slot_lookup[slot]
    return c.slot_base[slot] + (index if place < 0 else c.lookup[place + index])


def _as_number(element: int) -> float | None:
    """The fraction with small terms that a field element stands for, if there is one."""
    before, after = (PRIME, 0), (element, 1)
    while after[0] * after[0] * 2 > PRIME:
        quotient = before[0] // after[0]
        before, after = after, (before[0] - quotient * after[0], before[1] - quotient * after[1])
    numerator, denominator = after
    return numerator / denominator if denominator and max(abs(numerator), abs(denominator)) < SMALL_TERMS else None


def _key(c: Arrays, edges: Sequence[int], by_slot: Sequence[Sequence[int]], complement: Mapping[Atom, Atom]) -> int:
    slots = sorted({c.slot[e] for e in edges})
    if any(len(by_slot[slot]) > 1 for slot in slots):
        return -1
    if len(slots) == 1:
        return slots[0]
    if len(slots) == 2 and c.slot_also[slots[0]] < 0 and c.slot_also[slots[1]] < 0:
        for a, b in (slots, slots[::-1]):
            if complement.get(c.atom(a)) == c.atom(b):
                return b
    return -1


def _linear(c: Arrays, leaves: int, by_slot: Sequence[Sequence[int]], number: int) -> list[bool]:
    """Whether no two weights of a decision are ever multiplied."""
    linear = [True] * number
    below: list[frozenset[int]] = [frozenset()] * leaves
    for n, product in enumerate(c.product):
        parts = []
        for e in range(c.start[n], c.start[n + 1]):
            own = frozenset(by_slot[c.slot[e]]) if c.slot[e] >= 0 else frozenset[int]()
            for k in own & below[c.child[e]]:
                linear[k] = False
            parts.append(own | below[c.child[e]])
        for k in parts[0] & parts[1] if product else ():
            linear[k] = False
        below.append(frozenset().union(*parts))
    return linear


def _like(
    model: Model, c: Arrays, key: Sequence[int], linear: Sequence[bool], conflict: npt.NDArray[np.bool_]
) -> list[int]:
    """The first decision with the same key column, choices and number of rivals, as linear."""
    seen: dict[object, int] = {}
    like = list(range(len(key)))
    for k, slot in enumerate(key):
        if slot >= 0:
            signature = (_column(c, slot, k), linear[k], model.decisions[k].values, int(conflict[k].sum()))
            like[k] = seen.setdefault(signature, k)
    return like


def _column(c: Arrays, slot: int, k: int) -> tuple[object, ...]:
    """What a slot reads, in terms that do not name the decision k."""
    if slot < 0:
        return ()
    base, strides, place = c.atom(slot)
    unnamed = sorted((-1 if axis == k else axis, stride) for axis, stride in strides)
    return (base, *unnamed, place, _column(c, c.slot_also[slot], k))


def _items(model: Model) -> list[list[int]] | None:
    """Numbers for the choices, equal for equal labels of different decisions; None where the choices will do."""
    constrained = {name for group in model.different for name in group}
    values = [n.values if n.name in constrained else range(0) for n in model.decisions]
    if all(isinstance(v, range) for v in values) or len({tuple(v) for v in values if len(v)}) == 1:
        return None
    numbers: dict[Label, int] = {}
    return [[numbers.setdefault(label, len(numbers)) for label in v] for v in values]


def _feasible(model: Model, conflict: npt.NDArray[np.bool_], items: list[list[int]] | None) -> list[int]:
    """Some action that satisfies the constraints.

    Decisions that all exclude each other are matched with items. Where groups overlap, choices are made one after
    the other and taken back, which is given up after many steps.
    """
    action = [0] * len(model.decisions)
    bound = np.flatnonzero(conflict.any(axis=1)).tolist()
    reach = conflict | np.eye(len(action), dtype=np.bool_)
    groups = [[k for k in bound if reach[j, k]] for j in bound]
    for group in groups:
        if all(reach[j, k] for j in group for k in group):
            _match(model, group, items, action)
    if (reach @ reach != reach).any():
        _backtrack(model, bound, conflict, items, action)
    return action


def _match(model: Model, group: Sequence[int], items: list[list[int]] | None, action: list[int]) -> None:
    """Give different items to all of a group, along augmenting paths."""
    holder: dict[int, int] = {}

    def place(k: int, seen: set[int]) -> bool:
        for choice in range(model.decisions[k].states):
            item = items[k][choice] if items else choice
            if item not in seen:
                seen.add(item)
                if item not in holder or place(holder[item], seen):
                    holder[item], action[k] = k, choice
                    return True
        return False

    for k in group:
        if not place(k, set()):
            raise _infeasible(model)


def _backtrack(
    model: Model,
    bound: Sequence[int],
    conflict: npt.NDArray[np.bool_],
    items: list[list[int]] | None,
    action: list[int],
) -> None:
    order = sorted(bound, key=lambda k: model.decisions[k].states)
    ahead = [0] * len(order)  # the next choice to try
    depth, steps = 0, 0
    while depth < len(order):
        k = order[depth]
        taken = {items[j][action[j]] if items else action[j] for j in order[:depth] if conflict[j, k]}
        choice = ahead[depth]
        while choice < model.decisions[k].states and (items[k][choice] if items else choice) in taken:
            choice += 1
        if choice < model.decisions[k].states:
            action[k], ahead[depth] = choice, choice + 1
            depth += 1
            continue
        ahead[depth] = 0
        depth -= 1
        steps += 1
        if depth < 0 or steps > MOST_STEPS:
            raise _infeasible(model)


def _infeasible(model: Model) -> InfeasibleError:
    groups = "; ".join(", ".join(group) for group in model.different)
    return InfeasibleError(f"diagram {model.name!r}: no action was found that satisfies all_different ({groups})")


def _flat(parts: Sequence[Sequence[int]]) -> list[int]:
    return [x for part in parts for x in part]
