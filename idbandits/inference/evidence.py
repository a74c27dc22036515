"""What a round says of the learned tables: the likelihood in independent parts, as compiled functions need it.

The likelihood is a product of parts that share no chance node, so a round is learned from part by part, and a
part's rounds with equal choices and equal observations are one group, whatever the rest of the action was.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.build import Arrays, starts
from idbandits.circuit.model import Likelihood, Model
from idbandits.circuit.passes import Circuit, add_logs, entry, index, pack
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.types import Floats, Ints

MEANS, GEOMETRIC, GIVEN, GENERIC, KEPT = 0, 1, 2, 3, 4  # what weighs a slot: see `weigh`
SUM, PRODUCT, PAIR = 0, 1, 2  # what an inner node is: a pair is a sum of two nodes, both with weights
TINY = 1e-200  # a part's value below which logarithms are used
ROUNDING = 1e-9


class Parts(NamedTuple):
    """The parts of a likelihood, packed like a `Circuit`; the last part is the whole likelihood again."""

    parts: int  # how many, the whole aside
    width: int  # of a group's key: the part's number, then its choices and observations, then padding
    learned: int  # how many learned entries
    axes: int  # decisions and contexts
    observed: int  # nodes that may be seen
    most_slots: int  # of a part
    literal: int  # 1: rows whose states do not matter are kept
    clashes: int  # how many entries in `clash`
    generic: int  # where the generic means begin among the numbers
    node: int  # a part's inner nodes: node[j] to node[j + 1] - 1
    bends: int  # a part: 1 if known entries in it depend on the action: then rows may not matter for some actions
    use_start: int  # a part's slots
    use: int
    read: int  # three numbers a use: its entry is a base and a stride times the choice on an axis: see `_reading`
    shared: int  # a part: 1 if two of its slots may read the same learned entry
    form: int  # five numbers an inner node: what it is, its two children and their slots
    source_start: int  # what a part's key is made of
    source: int  # three numbers each: an axis, -1, 0; or an observed node, its first leaf, its number of states
    row: int  # a learned entry: the first entry of its row
    size: int  # a learned entry: the number of entries of its row
    whole_row: int  # an inner node: 1 if it is a sum over all states of one learned row
    clash_start: int  # a part: pairs of slots that may be used together and may read the same row
    clash: int
    data: Ints


@final
class Evidence:
    """The parts of a model's likelihood: a program for compiled functions, and the numbers that belong to it."""

    def __init__(self, model: Model, *, literal: bool = False) -> None:
        likelihood = model.literal if literal else model.likelihood
        finished = likelihood.parts
        c, arrays, ends = finished.circuit, finished.arrays, finished.ends
        count = len(ends) - 2
        slots = [_slots_between(arrays, a, b) for a, b in pairwise(ends)]
        sources = [_sources(model, likelihood, arrays, slots[j], ends[j], ends[j + 1]) for j in range(count)]
        rows, sizes = _rows(model)
        offsets = [model.parameters.offsets[name] for name in model.learned]
        clashes = [_clashes(model, arrays, c.leaves, slots[j], a, b, sizes) for j, (a, b) in enumerate(pairwise(ends))]
        packed = pack(
            node=ends,
            bends=[any(_is_bent(arrays, s, len(sizes)) for s in part) for part in slots],
            use_start=starts(slots),
            use=[s for part in slots for s in part],
            read=[x for part in slots for s in part for x in _reading(arrays, s)],
            shared=[_may_share(arrays, part, offsets, len(sizes)) for part in slots],
            form=[x for n in range(c.inner) for x in _form(arrays, n)],
            source_start=starts(sources),
            source=[x for part in sources for source in part for x in source],
            row=rows,
            size=sizes,
            whole_row=[_is_whole_row(arrays, n, sizes) for n in range(c.inner)],
            clash_start=starts(clashes),
            clash=[x for part in clashes for pair in part for x in pair],
        )
        parts = Parts(
            parts=count,
            width=1 + max([len(s) for s in sources], default=0),
            learned=model.parameters.learned_size,
            axes=len(model.decisions) + len(model.contexts),
            observed=len(model.observed),
            most_slots=max([1, *(len(s) for s in slots[:count])]),
            literal=int(literal),
            clashes=sum(len(part) for part in clashes),
            generic=model.parameters.learned_size + len(model.parameters.known),
            **packed,
        )
        counts = 9
        heads = len(c) - 1 + len(parts) - 1
        self.program = np.concatenate(
            [
                np.array([*c[:3], *(place + heads for place in c[3:-1])], dtype=np.int64),
                np.array([*parts[:counts], *(place + heads + len(c.data) for place in parts[counts:-1])], np.int64),
                c.data,
                parts.data,
            ]
        )
        prior = [np.ravel(t.prior) for t in model.learned.values()]
        self.numbers = np.concatenate([*prior, model.parameters.known, _generic_means(rows, sizes)])
        self.parts, self.width, self.learned, self.most_slots = count, parts.width, parts.learned, parts.most_slots
        self.prior = self.numbers[: self.learned]
        self.sources = [_that_matter(arrays, slots[j], sources[j], self.learned) for j in range(count)]


def evidence_of(model: Model, *, literal: bool = False) -> Evidence:
    """The parts of a model's likelihood, made once: with every latent node, or folded."""
    return model.once("literal evidence" if literal else "evidence", lambda: Evidence(model, literal=literal))


def _that_matter(
    arrays: Arrays, slots: list[int], sources: list[tuple[int, ...]], learned: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of what decides the value of a part: the axes that known entries depend on, and the observed nodes.

    Which learned entries are read makes no difference to whether a part is a single product.
    """
    bent = [s for s in slots if _is_bent(arrays, s, learned)]
    axes = {a for s in bent for a in arrays.slot_axis[arrays.slot_start[s] : arrays.slot_start[s + 1]]}
    return tuple(sorted(axes)), tuple(source[0] for source in sources if source[1] >= 0)


def _slots_between(arrays: Arrays, first: int, last: int) -> list[int]:
    return sorted({s for s in arrays.slot[arrays.start[first] : arrays.start[last]] if s >= 0})


def _is_bent(arrays: Arrays, slot: int, learned: int) -> bool:
    return _first_entry(arrays, slot) >= learned and arrays.slot_start[slot] < arrays.slot_start[slot + 1]


def _sources(
    model: Model, likelihood: Likelihood, arrays: Arrays, slots: list[int], first: int, last: int
) -> list[tuple[int, ...]]:
    """What decides the value of a part: the axes its slots read, and the nodes whose indicators it has."""
    axes = {a for s in slots for a in arrays.slot_axis[arrays.slot_start[s] : arrays.slot_start[s + 1]]}
    children = set(arrays.child[arrays.start[first] : arrays.start[last]])
    found: list[tuple[int, ...]] = [(axis, -1, 0) for axis in sorted(axes)]
    for number, node in enumerate(model.observed):
        leaf = likelihood.indicators[node.name]
        if children & set(range(leaf, leaf + node.states)):
            found.append((number, leaf, node.states))
    return found


def _rows(model: Model) -> tuple[list[int], list[int]]:
    rows: list[int] = []
    sizes: list[int] = []
    for name, table in model.learned.items():
        offset = model.parameters.offsets[name]
        rows.extend((offset + np.arange(table.size) // table.states * table.states).tolist())
        sizes.extend([table.states] * table.size)
    return rows, sizes


def _generic_means(rows: list[int], sizes: list[int]) -> Floats:
    """Means of all learned entries with no pattern in them."""
    e = np.arange(1, len(sizes) + 1)
    x = 0.6180339887498949 * e + 0.4142135623730951 * e * e
    drawn = 1.0 + x - np.floor(x)
    return np.array([drawn[i] / sum(drawn[rows[i] : rows[i] + sizes[i]]) for i in range(len(sizes))], dtype=np.float64)


def _reading(arrays: Arrays, slot: int) -> tuple[int, int, int]:
    """A slot's entry as base, stride and axis; the axis is -1 if there is none (stride 0), or not just one (1)."""
    base, terms = arrays.slot_base[slot], range(arrays.slot_start[slot], arrays.slot_start[slot + 1])
    if arrays.slot_lookup[slot] >= 0 or len(terms) > 1:
        return base, 1, -1
    return (base, arrays.slot_stride[terms[0]], arrays.slot_axis[terms[0]]) if terms else (base, 0, -1)


def _may_share(arrays: Arrays, slots: list[int], offsets: list[int], learned: int) -> bool:
    """Whether two slots may read the same learned entry: they read one table, and not side by side."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for s in slots:
        if _first_entry(arrays, s) < learned:
            table = int(np.searchsorted(offsets, _first_entry(arrays, s), side="right"))
            found.setdefault(table, []).append(arrays.atom(s))
    return any(len({a[1:] for a in atoms}) > 1 or len({a[0] for a in atoms}) < len(atoms) for atoms in found.values())


def _form(arrays: Arrays, n: int) -> tuple[int, int, int, int, int]:
    first, last = arrays.start[n], arrays.start[n + 1]
    if last - first != 2 or (not arrays.product[n] and min(arrays.slot[first:last]) < 0):
        return SUM, 0, 0, 0, 0
    form = PRODUCT if arrays.product[n] else PAIR
    return form, arrays.child[first], arrays.child[first + 1], arrays.slot[first], arrays.slot[first + 1]


def _is_whole_row(arrays: Arrays, n: int, sizes: list[int]) -> bool:
    slots = arrays.slot[arrays.start[n] : arrays.start[n + 1]]
    if arrays.product[n] or min(slots, default=-1) < 0:
        return False
    atoms = sorted(arrays.atom(s) for s in slots)
    base, strides, lookup = atoms[0]
    at = base if lookup < 0 else arrays.lookup[lookup] + base  # any row of the table that is read
    if at >= len(sizes) or len(slots) != sizes[at]:
        return False
    return [(base + i, strides, lookup) for i in range(sizes[at])] == atoms


def _clashes(
    model: Model, arrays: Arrays, leaves: int, slots: list[int], first: int, last: int, sizes: list[int]
) -> list[tuple[int, int]]:
    """Pairs of slots of learned rows that one joint state may use both, and that some action makes read one row."""
    learned = [s for s in slots if _first_entry(arrays, s) < len(sizes)]
    offsets = [model.parameters.offsets[name] for name in model.learned]
    table = {s: int(np.searchsorted(offsets, _first_entry(arrays, s), side="right")) for s in learned}
    at: dict[int, set[int]] = {s: set() for s in learned}
    for n in range(first, last):
        for s in arrays.slot[arrays.start[n] : arrays.start[n + 1]]:
            if s in at:
                at[s].add(n)
    pairs = {
        (s, t)
        for i, s in enumerate(learned)
        for t in learned[i:]
        if table[s] == table[t] and len(at[s] | at[t]) > 1 and not _kept_apart(model, arrays, s, t)
    }
    return sorted(pairs & _used_together(arrays, leaves, first, last)) if pairs else []


def _first_entry(arrays: Arrays, slot: int) -> int:
    lookup = arrays.slot_lookup[slot]
    return arrays.slot_base[slot] + (arrays.lookup[lookup] if lookup >= 0 else 0)


def _kept_apart(model: Model, arrays: Arrays, s: int, t: int) -> bool:
    """Whether two slots read an item's row by two decisions that may not choose the same item."""
    terms = [range(arrays.slot_start[x], arrays.slot_start[x + 1]) for x in (s, t)]
    if any(len(x) != 1 for x in terms) or arrays.slot_lookup[s] >= 0 or arrays.slot_lookup[t] >= 0:
        return False
    (i,), (j,) = terms
    axes = arrays.slot_axis[i], arrays.slot_axis[j]
    if max(axes) >= len(model.decisions) or axes[0] == axes[1] or arrays.slot_stride[i] != arrays.slot_stride[j]:
        return False
    a, b = (model.decisions[axis] for axis in axes)
    same_row = abs(arrays.slot_base[s] - arrays.slot_base[t]) < arrays.slot_stride[i]
    return same_row and a.values == b.values and any(a.name in g and b.name in g for g in model.different)


def _used_together(arrays: Arrays, leaves: int, first: int, last: int) -> set[tuple[int, int]]:
    """Pairs of slots that occur in one term of the polynomial of the last node."""
    below: dict[int, frozenset[int]] = {}
    pairs: set[tuple[int, int]] = set()
    for n in range(first, last):
        edges = range(arrays.start[n], arrays.start[n + 1])
        sets = [below.get(arrays.child[e] - leaves, frozenset()) for e in edges]
        if arrays.product[n]:
            pairs |= {(min(a, b), max(a, b)) for a in sets[0] for b in sets[1]}
            below[n] = sets[0] | sets[1]
        else:
            own = [arrays.slot[e] for e in edges]
            pairs |= {(min(s, b), max(s, b)) for s, found in zip(own, sets, strict=True) if s >= 0 for b in found}
            below[n] = frozenset().union(*sets) | {s for s in own if s >= 0}
    return pairs


# -- compiled ------------------------------------------------------------------------------------------------------


@merged
def unpack(h: Ints) -> tuple[Circuit, Parts]:
    """The circuit and the parts that a program holds."""
    c = Circuit(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h)
    v = Parts(
        h[14], h[15], h[16], h[17], h[18], h[19], h[20], h[21], h[22], h[23], h[24], h[25], h[26], h[27], h[28],
        h[29], h[30], h[31], h[32], h[33], h[34], h[35], h[36], h,
    )  # fmt: skip
    return c, v


@bare
def tail(x: float) -> float:
    """The digamma function less the logarithm, of a positive number: small and without loss for a large one."""
    shift, y = 0.0, x
    while y < 10.0:
        shift += 1.0 / y
        y += 1.0
    f = 1.0 / (y * y)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * (691 / 32760))))))
    return np.log(y / x) - shift - 0.5 / y - series


@merged
def put(v: Parts, j: int, action: Ints, seen: Ints, keys: Ints, at: int) -> None:
    """Write the key of a part of a round to keys[at:]."""
    keys[at] = j
    first = v.data[v.source_start + j]
    for t in range(first, v.data[v.source_start + j + 1]):
        x = v.source + 3 * t
        keys[at + 1 + t - first] = action[v.data[x]] if v.data[x + 1] < 0 else seen[v.data[x]]
    for i in range(1 + v.data[v.source_start + j + 1] - first, v.width):
        keys[at + i] = 0


@merged
def take(v: Parts, keys: Ints, at: int, action: Ints, values: Floats) -> bool:
    """The choices of a key into `action`, its observations into the leaves; says whether rows may not matter."""
    j = keys[at]
    values[0] = 1.0
    missing = v.data[v.bends + j] != 0
    first = v.data[v.source_start + j]
    for t in range(first, v.data[v.source_start + j + 1]):
        x = v.source + 3 * t
        value = keys[at + 1 + t - first]
        leaf = v.data[x + 1]
        if leaf < 0:
            action[v.data[x]] = value
        else:
            missing |= value < 0
            for i in range(v.data[x + 2]):
                values[np.uint64(leaf + i)] = 1.0 if value < 0 or value == i else 0.0
    return missing


@merged
def row_sum(v: Parts, e: int, alpha: Floats) -> float:
    """The sum of the row that a learned entry is in."""
    first, size = v.data[v.row + e], v.data[v.size + e]
    if size == 2:
        return alpha[np.uint64(first)] + alpha[np.uint64(first + 1)]
    total = 0.0
    for i in range(first, first + size):
        total += alpha[i]
    return total


@merged
def weigh(v: Parts, kind: int, e: int, numbers: Floats, alpha: Floats, memo: Floats) -> float:
    """The weight of an entry: its mean or geometric mean under pseudo-counts, as given, or a generic mean.

    `memo` has three numbers an entry, the geometric mean and what it was computed from; KEPT takes it as it is.
    """
    if e >= v.learned:
        return numbers[e]
    if kind == GIVEN:
        return alpha[np.uint64(e)]
    if kind == GENERIC:
        return numbers[v.generic + e]
    if kind == KEPT:
        return memo[np.uint64(3 * e + 2)]
    total = row_sum(v, e, alpha)
    if kind == MEANS:
        return alpha[e] / total
    if memo[3 * e] != alpha[e] or memo[3 * e + 1] != total:
        memo[3 * e], memo[3 * e + 1] = alpha[e], total
        memo[3 * e + 2] = alpha[e] / total * np.exp(tail(alpha[e]) - tail(total))
    return memo[3 * e + 2]


@bare
def remember(v: Parts, alpha: Floats, memo: Floats) -> None:
    """The geometric means of all entries into `memo`."""
    e = 0
    while e < v.learned:
        size = v.data[v.size + e]
        total = row_sum(v, e, alpha)
        if size == 2 and memo[3 * e] == alpha[e] and memo[3 * e + 3] == alpha[e + 1]:
            e += size
            continue
        whole = tail(total)
        for i in range(e, e + size):
            memo[3 * i], memo[3 * i + 1] = alpha[i], total
            memo[3 * i + 2] = alpha[i] / total * np.exp(tail(alpha[i]) - whole)
        e += size


@bare
def log_weigh(v: Parts, kind: int, e: int, numbers: Floats, alpha: Floats, memo: Floats) -> float:
    """The logarithm of a weight, also where the weight is too small for a number."""
    if kind in (GEOMETRIC, KEPT) and e < v.learned:
        total = row_sum(v, e, alpha)
        return np.log(alpha[e] / total) + tail(alpha[e]) - tail(total)
    return np.log(weigh(v, kind, e, numbers, alpha, memo))


@bare
def fold(c: Circuit, v: Parts, j: int, entries: Ints, numbers: Floats, values: Floats, same: Ints) -> None:
    """Find the sums over rows that do not matter, because of what is missing: all their terms are equal.

    After `locate`. Terms are compared as functions of the learned means, by their values at generic ones.
    """
    for n in range(v.data[v.node + j], v.data[v.node + j + 1]):
        first, last = c.data[c.start + n], c.data[c.start + n + 1]
        if c.data[c.product + n]:
            values[c.leaves + n] = values[c.data[c.child + first]] * values[c.data[c.child + first + 1]]
            continue
        low, high, total = np.inf, 0.0, 0.0
        for edge in range(first, last):
            child = values[c.data[c.child + edge]]
            slot = c.data[c.slot + edge]
            if slot < 0:
                total += child
            else:
                total += child * weigh(v, GENERIC, entries[slot], numbers, numbers, numbers)
            low, high = min(low, child), max(high, child)
        same[n] = v.data[v.whole_row + n] and high - low <= 1e-13 * high
        values[c.leaves + n] = total


@merged
def locate(c: Circuit, v: Parts, j: int, action: Ints, entries: Ints) -> None:
    """The entry of every slot of a part."""
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        slot, x = index(v.data, v.use + t), v.read + 3 * t
        if v.data[x + 2] >= 0:
            entries[slot] = v.data[x] + v.data[x + 1] * action[v.data[x + 2]]
        elif v.data[x + 1] == 0:
            entries[slot] = v.data[x]
        else:
            entries[slot] = entry(c, v.data[v.use + t], action)


@merged
def weigh_slots(
    v: Parts, j: int, kind: int, numbers: Floats, alpha: Floats, memo: Floats, entries: Ints, weights: Floats
) -> None:
    """The weight of every slot of a part, after `locate`."""
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        slot = index(v.data, v.use + t)
        weights[slot] = weigh(v, kind, entries[slot], numbers, alpha, memo)


@merged
def rise(c: Circuit, v: Parts, j: int, weights: Floats, values: Floats, same: Ints) -> float:
    """The value of a part, from its leaves."""
    last = v.data[v.node + j + 1]
    for n in range(v.data[v.node + j], last):
        x = v.form + 5 * n
        a, b = index(v.data, x + 1), index(v.data, x + 2)
        if v.data[x] == PRODUCT:
            values[c.leaves + n] = values[a] * values[b]
        elif same[n]:
            values[c.leaves + n] = values[c.data[c.child + c.data[c.start + n]]]
        elif v.data[x] == PAIR:
            k, m = index(v.data, x + 3), index(v.data, x + 4)
            values[c.leaves + n] = weights[k] * values[a] + weights[m] * values[b]
        else:
            total = 0.0
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                slot = c.data[c.slot + e]
                child = values[c.data[c.child + e]]
                total += child if slot < 0 else weights[slot] * child
            values[c.leaves + n] = total
    return values[c.leaves + last - 1]


@merged
def fall(
    c: Circuit, v: Parts, j: int, weights: Floats, values: Floats, same: Ints, slopes: Floats, counts: Floats
) -> None:
    """How often each slot of a part is expected to be used, given what was seen: after `rise`."""
    first, last = v.data[v.node + j], v.data[v.node + j + 1]
    for n in range(first, last):
        slopes[c.leaves + n] = 0.0
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        counts[index(v.data, v.use + t)] = 0.0
    slopes[c.leaves + last - 1] = 1.0 / values[c.leaves + last - 1]
    for n in range(last - 1, first - 1, -1):
        slope = slopes[c.leaves + n]
        if slope == 0.0:
            continue
        x = v.form + 5 * n
        a, b = index(v.data, x + 1), index(v.data, x + 2)
        if v.data[x] == PRODUCT:
            slopes[a] += slope * values[b]
            slopes[b] += slope * values[a]
        elif same[n]:
            slopes[c.data[c.child + c.data[c.start + n]]] += slope
        elif v.data[x] == PAIR:
            k, m = index(v.data, x + 3), index(v.data, x + 4)
            at_a, at_b = slope * weights[k], slope * weights[m]
            slopes[a] += at_a
            slopes[b] += at_b
            counts[k] += at_a * values[a]
            counts[m] += at_b * values[b]
        else:
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                slot, child = c.data[c.slot + e], c.data[c.child + e]
                if slot < 0:
                    slopes[child] += slope
                else:
                    slopes[child] += slope * weights[slot]
                    counts[slot] += slope * weights[slot] * values[child]


@bare
def rise_and_fall_in_logs(
    c: Circuit, v: Parts, j: int, kind: int, numbers: Floats, alpha: Floats, memo: Floats, entries: Ints,
    weights: Floats, values: Floats, same: Ints, slopes: Floats, counts: Floats,
) -> float:  # fmt: skip
    """`rise` and `fall` by logarithms, for values that are too small for numbers; `weights` become logarithms."""
    first, last = v.data[v.node + j], v.data[v.node + j + 1]
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        slot = v.data[v.use + t]
        counts[slot] = 0.0
        weights[slot] = log_weigh(v, kind, entries[slot], numbers, alpha, memo)
    for i in range(c.leaves):
        values[i] = 0.0 if values[i] > 0.0 else -np.inf
        slopes[i] = -np.inf
    for n in range(first, last):
        slopes[c.leaves + n] = -np.inf
        e = c.data[c.start + n]
        if c.data[c.product + n]:
            values[c.leaves + n] = values[c.data[c.child + e]] + values[c.data[c.child + e + 1]]
        elif same[n]:
            values[c.leaves + n] = values[c.data[c.child + e]]
        else:
            total = -np.inf
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                slot = c.data[c.slot + e]
                total = add_logs(total, (0.0 if slot < 0 else weights[slot]) + values[c.data[c.child + e]])
            values[c.leaves + n] = total
    root = values[c.leaves + last - 1]
    slopes[c.leaves + last - 1] = -root
    for n in range(last - 1 if root > -np.inf else first - 1, first - 1, -1):
        slope = slopes[c.leaves + n]
        if slope == -np.inf:
            continue
        e = c.data[c.start + n]
        if c.data[c.product + n]:
            left, right = c.data[c.child + e], c.data[c.child + e + 1]
            slopes[left] = add_logs(slopes[left], slope + values[right])
            slopes[right] = add_logs(slopes[right], slope + values[left])
        elif same[n]:
            slopes[c.data[c.child + e]] = add_logs(slopes[c.data[c.child + e]], slope)
        else:
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                slot, child = c.data[c.slot + e], c.data[c.child + e]
                factor = 0.0 if slot < 0 else weights[slot]
                slopes[child] = add_logs(slopes[child], slope + factor)
                if slot >= 0:
                    counts[slot] += np.exp(slope + factor + values[child])
    for i in range(c.leaves):
        values[i] = np.exp(values[i])
    return root


@merged
def expect(
    c: Circuit, v: Parts, kind: int, keys: Ints, at: int, numbers: Floats, alpha: Floats, memo: Floats, action: Ints,
    entries: Ints, weights: Floats, values: Floats, same: Ints, slopes: Floats, counts: Floats,
) -> float:  # fmt: skip
    """The E-step of one group: the logarithm of its part's value, the entry of every slot and its expected uses."""
    missing = take(v, keys, at, action, values)
    locate(c, v, keys[at], action, entries)
    root = expect_there(
        c, v, keys[at], missing, kind, numbers, alpha, memo, entries, weights, values, same, slopes, counts
    )  # fmt: skip
    return np.log(root) if root > 0.0 else root


@merged
def expect_there(
    c: Circuit, v: Parts, j: int, missing: bool, kind: int, numbers: Floats, alpha: Floats, memo: Floats,
    entries: Ints, weights: Floats, values: Floats, same: Ints, slopes: Floats, counts: Floats,
) -> float:  # fmt: skip
    """`expect` after `take` and `locate`: the part's value, or its logarithm if that is TINY."""
    if missing and not v.literal:
        fold(c, v, j, entries, numbers, values, same)
    weigh_slots(v, j, kind, numbers, alpha, memo, entries, weights)
    root = rise(c, v, j, weights, values, same)
    if root > TINY:
        fall(c, v, j, weights, values, same, slopes, counts)
    else:
        root = rise_and_fall_in_logs(
            c, v, j, kind, numbers, alpha, memo, entries, weights, values, same, slopes, counts
        )  # fmt: skip
    if missing and not v.literal:
        for n in range(v.data[v.node + j], v.data[v.node + j + 1]):
            same[n] = 0
    return root
