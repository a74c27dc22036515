"""Structure of a diagram's decisions and reward, analysed once for all searches."""

import random
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from idbandits.circuit import reference as plain
from idbandits.circuit.build import starts
from idbandits.circuit.circuit import PRODUCT, Atom, Circuit
from idbandits.circuit.model import Model
from idbandits.solve.candidates import (
    ADDITIVE,
    ALIKE,
    DIFFERENT,
    FREE,
    GENERAL,
    MULTIPLICATIVE,
    SIMILAR,
    SORTED,
    Decisions,
)
from idbandits.solve.lists.stages import Stages, are_alike, column, stages_of

PRIME = 2**521 - 1
reduced = PRIME.__rmod__  # a number, modulo the prime
SMALL_TERMS = 2**64  # of a fraction: an element of the field that is none equals such a fraction by chance of 2**-392
FAR = 10  # times the largest reward: a constant beyond that would cost digits


def decisions_of(model: Model) -> Decisions:
    """Analyse a model for searches."""
    rewards, feasibility = model.rewards, model.feasibility
    c, conflict, number = rewards.circuit, feasibility.conflicts, len(model.decisions)
    by_slot = [_decided(c, slot, number) for slot in range(c.slots)]
    edge_node = [n for n in range(c.inner) for _ in c.edges(n)]
    uses: list[list[int]] = [[] for _ in range(number)]
    depends: list[dict[int, None]] = [{} for _ in range(c.inner)]
    for e, slot in enumerate(c.slot):
        for k in by_slot[slot] if slot >= 0 else ():
            uses[k].append(e)
            depends[edge_node[e]][k] = None
    deps = [list(d) for d in depends]
    key = [_key(c, uses[k], by_slot, rewards.complement) for k in range(number)]
    linear = _linear(c, by_slot, number)
    like = _like(model, key, linear)
    groups = [sorted(group) for group in rewards.groups]
    forms = []
    for g, members in enumerate(groups):
        nodes = range(rewards.ends[g], rewards.ends[g + 1])
        simple = all(c.kind[n] != PRODUCT and len(deps[n]) <= 1 for n in nodes)
        keyed = simple and all(linear[k] and key[k] >= 0 for k in members)
        alike = keyed and all(like[k] == like[members[0]] for k in members)
        forms.append(_form(model, nodes, members, keyed, alike))
    staged = [
        stages_of(c, range(rewards.ends[g], rewards.ends[g + 1]), deps, members, conflict[np.ix_(members, members)])
        if forms[g][0] in (GENERAL, SORTED) and members
        else None
        for g, members in enumerate(groups)
    ]
    forms = [
        (GENERAL, zero) if form == SORTED and own is None else (form, zero)
        for (form, zero), own in zip(forms, staged, strict=True)
    ]
    stages = [own or _no_stages(members) for own, members in zip(staged, groups, strict=True)]
    stage_nodes = [nodes for own in stages for pair in zip(own.ahead, own.nodes, strict=True) for nodes in pair]
    frontiers = [frontier for own in stages for frontier in own.frontier]
    items = feasibility.items
    rivals = {k: int(conflict[k, members].sum()) for members in groups for k in members}
    tables = model.learned.values()
    return Decisions(
        decisions=number, groups=len(groups), deps=sum(len(d) for d in deps), tables=len(tables),
        learned=model.parameters.learned_size,
        parameters=model.parameters.learned_size + len(model.parameters.known),
        choices=[n.states for n in model.decisions], conflict=conflict.ravel().tolist(),
        item_start=[-1] * number if items is None else starts(items)[:-1], items=[*chain(*(items or []))],
        shared_items=feasibility.shared_items,
        dep_start=starts(deps), dep=[*chain(*deps)], use_start=starts(uses), use=[*chain(*uses)], edge_node=edge_node,
        linear=linear, key=key, needed=[1 + rivals.get(k, 0) for k in range(number)], like=like,
        group_start=starts(groups), group=[*chain(*groups)], group_end=rewards.ends, form=[form for form, _ in forms],
        staged=[int(own is not None) for own in staged],
        alike=[_likeness(model, own) for own in staged], constant_start=starts([own.constant for own in stages]),
        constant=[*chain(*(own.constant for own in stages))],
        stage_decision=[*chain(*(own.decision for own in stages))],
        stage_start=starts(stage_nodes), stage_node=[*chain(*stage_nodes)], frontier_start=starts(frontiers),
        frontier=[*chain(*frontiers)], feasible=feasibility.some_action(), table_states=[t.states for t in tables],
        table_rows=[t.size // t.states for t in tables],
        effort=1.0, zero=np.array([*(zero for _, zero in forms), rewards.scale]), known=model.parameters.known,
    )  # fmt: skip


def _likeness(model: Model, stages: Stages | None) -> int:
    """Return how similar stages are, if no two may hold the same item and all have the same choices."""
    if stages is None or len(stages.decision) < 2 or any(len(frontier) != 1 for frontier in stages.frontier):
        return DIFFERENT
    members, feasibility = stages.decision, model.feasibility
    excluded = feasibility.conflicts[np.ix_(members, members)] | np.eye(len(members), dtype=np.bool_)
    choices = {(model.decisions[k].values, tuple(feasibility.repeatable[k])) for k in members}
    if not excluded.all() or len(choices) > 1:
        return DIFFERENT
    return ALIKE if are_alike(model.rewards.circuit, stages) else SIMILAR


def _no_stages(members: Sequence[int]) -> Stages:
    """Return empty stages, for a group that has none."""
    nothing: list[list[int]] = [[] for _ in members]
    return Stages([], [*members], nothing, nothing, nothing)


def _decided(c: Circuit, slot: int, number: int) -> list[int]:
    """Return the decisions that a slot, and those it is multiplied with, depend on."""
    found: set[int] = set()
    while slot >= 0:
        found.update(_own_decisions(c, slot, number))
        slot = c.slot_also[slot]
    return sorted(found)


def _form(model: Model, nodes: range, members: Sequence[int], keyed: bool, alike: bool) -> tuple[int, float]:
    """Return the form of a group's reward, and the constant that is added if it is a product.

    FREE is linear in one key per decision, without constraints; SORTED is linear too, and all decisions exclude each
    other and read one column. In ADDITIVE and MULTIPLICATIVE groups, they form disjoint sets that exclude each other.
    """
    conflict = model.feasibility.conflicts[np.ix_(members, members)]
    if not conflict.any():
        return (FREE if keyed else GENERAL), 0.0
    reach = conflict | np.eye(len(members), dtype=np.bool_)
    if (reach @ reach == reach).all():  # to exclude each other is transitive: disjoint sets of decisions
        if all(len(part & set(members)) <= 1 for part in model.rewards.separable_parts):
            return ADDITIVE, 0.0
        zero = _product_form(model, nodes, members)
        if zero is not None:
            return MULTIPLICATIVE, zero
    return (SORTED if alike and reach.all() else GENERAL), 0.0


def _product_form(model: Model, nodes: range, members: Sequence[int]) -> float | None:
    """Return z if the reward is z plus a product of one factor per decision, whatever the means; else None.

    A polynomial identity, tested at random points of a large prime field: there is no rounding, and the chance
    that a wrong identity passes is below 10^-100.
    """
    draw = random.Random(0)
    zeros = {_zero_of_product(model, nodes, members, draw) for _ in range(2)}
    zero = zeros.pop()
    number = None if zeros or zero is None else _as_number(zero)
    return None if number is None or abs(number) > FAR * model.rewards.scale else number


def _zero_of_product(model: Model, nodes: range, members: Sequence[int], draw: random.Random) -> int | None:
    """Return the constant of `_product_form` at a random point of the field, None if the identity fails there.

    The weights that a decision sets are drawn independently, P(0) = 1 - P(1) aside: then it holds for any choices.
    """
    c, number = model.rewards.circuit, len(model.decisions)
    axes = [_own_decisions(c, slot, number) for slot in range(c.slots)]
    if len(members) < 2 or any(len(a) > 1 for a in axes):
        return None
    fixed = _random_parameters(model, draw)
    action = [0] * number + [draw.randrange(n.states) for n in model.contexts]
    atoms = [c.atom(slot) for slot in range(c.slots)]
    points = []
    for _ in range(2):
        drawn = {atom: draw.randrange(PRIME) for atom in atoms}
        for zero_atom, one_atom in model.rewards.complement.items():
            drawn[zero_atom] = (1 - drawn.get(one_atom, draw.randrange(PRIME))) % PRIME
        points.append([drawn[atoms[i]] if axes[i] else fixed[plain.entry(c, i, action)] for i in range(c.slots)])
    here, there = points

    def at(moved: Sequence[int]) -> int:
        weights = [b if set(a) & set(moved) else w for a, w, b in zip(axes, here, there, strict=True)]
        return plain.up(c, [1] * c.leaves, plain.chained(c, weights, reduced), nodes, reduced)[-1]

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
    """Draw means from the field, with rows that sum to 1 there; known entries are mapped to it."""
    parameters: list[int] = []
    for table in model.learned.values():
        for _ in range(table.size // table.states):
            row = [draw.randrange(PRIME) for _ in range(table.states - 1)]
            parameters += [(1 - sum(row)) % PRIME, *row]
    for value in model.parameters.known.tolist():
        numerator, denominator = value.as_integer_ratio()
        parameters.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return parameters


def _own_decisions(c: Circuit, slot: int, number: int) -> list[int]:
    """Return the decisions that a slot depends on by itself."""
    return [axis for axis in c.axes(slot) if axis < number]


def _as_number(element: int) -> float | None:
    """Return the fraction with small terms that a field element stands for, if there is one."""
    before, after = (PRIME, 0), (element, 1)
    while after[0] * after[0] * 2 > PRIME:
        quotient = before[0] // after[0]
        before, after = after, (before[0] - quotient * after[0], before[1] - quotient * after[1])
    numerator, denominator = after
    return numerator / denominator if denominator and max(abs(numerator), abs(denominator)) < SMALL_TERMS else None


def _key(c: Circuit, edges: Sequence[int], by_slot: Sequence[Sequence[int]], complement: Mapping[Atom, Atom]) -> int:
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


def _linear(c: Circuit, by_slot: Sequence[Sequence[int]], number: int) -> list[bool]:
    """Return, for each decision, whether no two of its weights are ever multiplied."""
    linear = [True] * number
    below: list[frozenset[int]] = [frozenset()] * c.leaves
    for n in range(c.inner):
        parts = []
        for e in c.edges(n):
            own = frozenset(by_slot[c.slot[e]]) if c.slot[e] >= 0 else frozenset[int]()
            for k in own & below[c.child[e]]:
                linear[k] = False
            parts.append(own | below[c.child[e]])
        for k in parts[0] & parts[1] if c.kind[n] == PRODUCT else ():
            linear[k] = False
        below.append(frozenset().union(*parts))
    return linear


def _like(model: Model, key: Sequence[int], linear: Sequence[bool]) -> list[int]:
    """Return, for each decision, the first with equal key column, choices, number of rivals and linearity."""
    seen, like = dict[object, int](), list(range(len(key)))
    for k, slot in enumerate(key):
        if slot >= 0:
            rivals = int(model.feasibility.conflicts[k].sum())
            signature = (column(model.rewards.circuit, slot, k), linear[k], model.decisions[k].values, rivals)
            like[k] = seen.setdefault(signature, k)
    return like
