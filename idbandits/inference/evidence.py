"""What a round says of the learned tables: the likelihood in independent parts, as kernels need it.

The likelihood is a product of parts that share no chance node, so a round is learned from part by part, and a
part's rounds with equal choices and equal observations are one group, whatever the rest of the action was.
"""

from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.circuit.build import starts
from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.model import Likelihood, Model
from idbandits.inference.workspace import Parts
from idbandits.kernel.fields import pack
from idbandits.kernel.types import Floats

Source: TypeAlias = tuple[int, int, int]  # an axis, -1, 0; or an observed node, its first leaf, its number of states
Span: TypeAlias = tuple[int, int]  # of nodes


@final
class Evidence:
    """The parts of a model's likelihood, packed for kernels: with every latent node, or folded."""

    def __init__(self, model: Model, likelihood: Likelihood, *, literal: bool) -> None:
        c, ends = likelihood.parts.circuit, likelihood.parts.ends
        runs = list(pairwise(ends))  # one per part, then the whole likelihood again
        slots = [c.slots_between(*run) for run in runs]
        sources = [_sources(model, likelihood, c, slots[j], runs[j]) for j in range(len(runs) - 1)]
        rows, sizes = _rows(model)
        learned = model.parameters.learned_size
        clashes = [_clashes(model, c, own, run, sizes) for own, run in zip(slots, runs, strict=True)]
        every_slot = [slot for own in slots for slot in own]
        readings = [_reading(c, slot) for slot in every_slot]
        every_source = [source for own in sources for source in own]
        every_clash = [pair for own in clashes for pair in own]
        self.parts, self.learned = len(sources), learned
        self.width = 1 + max([len(own) for own in sources], default=0)
        self.most_slots = max([1, *(len(own) for own in slots[:-1])])
        nodes = [*model.decisions, *model.contexts]
        self.key_ranges = [  # by part: what each number of a key after the first may be; -1 is not seen
            [(0, nodes[k].states - 1) if leaf < 0 else (-1, states - 1) for k, leaf, states in own] for own in sources
        ]
        self.prior = np.concatenate([np.empty(0), *(np.ravel(t.prior) for t in model.learned.values())])
        offsets = [model.parameters.offsets[name] for name in model.learned]
        self.program, self.numbers = self.packed = pack(
            c,
            Parts(
                parts=self.parts, width=self.width, learned=learned, axes=len(model.decisions) + len(model.contexts),
                literal=int(literal), node=ends, bends=[any(_is_bent(c, s, learned) for s in own) for own in slots],
                use_start=starts(slots), use=every_slot,
                base=[r[0] for r in readings], stride=[r[1] for r in readings], axis=[r[2] for r in readings],
                shared=[_may_share(c, own, offsets, learned) for own in slots],
                source_start=starts(sources), source=[s[0] for s in every_source],
                source_leaf=[s[1] for s in every_source], source_states=[s[2] for s in every_source],
                row=rows, size=sizes, whole_row=[_is_whole_row(c, n, sizes) for n in range(c.inner)],
                clash_start=starts(clashes), clash=[p[0] for p in every_clash], clash_with=[p[1] for p in every_clash],
                parameters=np.concatenate([self.prior, model.parameters.known]), generic=_generic_means(rows, sizes),
            ),
        )  # fmt: skip
        self.sources = [_that_matter(c, slots[j], sources[j], learned) for j in range(self.parts)]


def folded(model: Model) -> Evidence:
    """The evidence in which what cannot matter is summed out; `model.derived(folded)` makes it once."""
    return Evidence(model, model.likelihood, literal=False)


def literal(model: Model) -> Evidence:
    """The evidence with every latent node, as in the paper's equations."""
    return Evidence(model, model.literal, literal=True)


def _that_matter(c: Circuit, slots: list[int], sources: list[Source], learned: int) -> tuple[list[int], list[int]]:
    """Of what decides whether a part is a single product: the axes that known entries depend on, and observed nodes."""
    axes = {a for s in slots if _is_bent(c, s, learned) for a in c.axes(s)}
    return sorted(axes), [number for number, leaf, _ in sources if leaf >= 0]


def _is_bent(c: Circuit, slot: int, learned: int) -> bool:
    return c.first_entry(slot) >= learned and len(c.axes(slot)) > 0


def _sources(model: Model, likelihood: Likelihood, c: Circuit, slots: list[int], run: Span) -> list[Source]:
    """What decides the value of a part: the axes its slots read, and the nodes whose indicators it has."""
    axes = {a for s in slots for a in c.axes(s)}
    children = set(c.child[c.start[run[0]] : c.start[run[1]]])
    sources = [(axis, -1, 0) for axis in sorted(axes)]
    for number, node in enumerate(model.observed):
        leaf = likelihood.indicators[node.name]
        if children & set(range(leaf, leaf + node.states)):
            sources.append((number, leaf, node.states))
    return sources


def _rows(model: Model) -> tuple[list[int], list[int]]:
    offsets = model.parameters.offsets
    rows = [offsets[name] + i // t.states * t.states for name, t in model.learned.items() for i in range(t.size)]
    sizes = [t.states for t in model.learned.values() for _ in range(t.size)]
    return rows, sizes


def _generic_means(rows: list[int], sizes: list[int]) -> Floats:
    """Means of all learned entries with no pattern in them."""
    e = np.arange(1, len(sizes) + 1)
    x = 0.6180339887498949 * e + 0.4142135623730951 * e * e
    drawn = 1.0 + x - np.floor(x)
    return np.array([drawn[i] / sum(drawn[rows[i] : rows[i] + sizes[i]]) for i in range(len(sizes))], dtype=np.float64)


def _reading(c: Circuit, slot: int) -> tuple[int, int, int]:
    """A slot's entry as base, stride and axis; the axis is -1 if there is none (stride 0), or not just one (1)."""
    base, strides, lookup = c.atom(slot)
    if lookup >= 0 or len(strides) > 1:
        return base, 1, -1
    return (base, strides[0][1], strides[0][0]) if strides else (base, 0, -1)


def _may_share(c: Circuit, slots: list[int], offsets: list[int], learned: int) -> bool:
    """Whether two slots may read the same learned entry: they read one table, and not side by side."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for s in slots:
        if c.first_entry(s) < learned:
            table = int(np.searchsorted(offsets, c.first_entry(s), side="right"))
            found.setdefault(table, []).append(c.atom(s))
    return any(len({a[1:] for a in atoms}) > 1 or len({a[0] for a in atoms}) < len(atoms) for atoms in found.values())


def _is_whole_row(c: Circuit, n: int, sizes: list[int]) -> bool:
    slots = [c.slot[e] for e in c.edges(n)]
    if c.kind[n] == PRODUCT or min(slots, default=-1) < 0:
        return False
    atoms = sorted(c.atom(slot) for slot in slots)
    base, strides, lookup = atoms[0]
    at = base if lookup < 0 else c.lookup[lookup] + base  # any row of the table that is read
    if at >= len(sizes) or len(slots) != sizes[at]:
        return False
    return [(base + i, strides, lookup) for i in range(sizes[at])] == atoms


def _clashes(model: Model, c: Circuit, slots: list[int], run: Span, sizes: list[int]) -> list[tuple[int, int]]:
    """Pairs of slots of learned rows that one joint state may use both, and that some action makes read one row."""
    learned = [s for s in slots if c.first_entry(s) < len(sizes)]
    offsets = [model.parameters.offsets[name] for name in model.learned]
    table = {s: int(np.searchsorted(offsets, c.first_entry(s), side="right")) for s in learned}
    nodes: dict[int, set[int]] = {s: set() for s in learned}
    for n in range(*run):
        for e in c.edges(n):
            if c.slot[e] in nodes:
                nodes[c.slot[e]].add(n)
    pairs = {
        (s, t)
        for i, s in enumerate(learned)
        for t in learned[i:]
        if table[s] == table[t] and len(nodes[s] | nodes[t]) > 1 and not _exclude_each_other(model, c, s, t)
    }
    together = _used_together(c, run) if pairs else {}
    return sorted((s, t) for s, t in pairs if (together[s] >> t | together[t] >> s) & 1)


def _exclude_each_other(model: Model, c: Circuit, s: int, t: int) -> bool:
    """Whether two slots read an item's row by two decisions that may not choose the same item."""
    (base, strides, lookup), (other_base, other_strides, other_lookup) = c.atom(s), c.atom(t)
    if len(strides) != 1 or len(other_strides) != 1 or lookup >= 0 or other_lookup >= 0:
        return False
    ((axis, stride),), ((other_axis, other_stride),) = strides, other_strides
    if max(axis, other_axis) >= len(model.decisions) or axis == other_axis or stride != other_stride:
        return False
    same_row = abs(base - other_base) < stride
    same_choices = model.decisions[axis].values == model.decisions[other_axis].values
    return same_row and same_choices and bool(model.feasibility.conflicts[axis, other_axis])


def _used_together(c: Circuit, run: Span) -> dict[int, int]:
    """For each slot those that occur with it in a term of the last node, as bits; one way round at least."""
    below: dict[int, int] = {}  # of a node: the slots below it, as bits
    together = dict.fromkeys(range(c.slots), 0)
    for n in range(*run):
        slots = [c.slot[e] for e in c.edges(n)]
        sets = [below.get(c.child[e] - c.leaves, 0) for e in c.edges(n)]
        if c.kind[n] == PRODUCT:
            left, right = sorted(sets, key=int.bit_count)
            while left:
                together[left.bit_length() - 1] |= right
                left ^= 1 << left.bit_length() - 1
        below[n] = 0
        for slot, others in zip(slots, sets, strict=True):
            if slot >= 0:
                together[slot] |= others
                others |= 1 << slot
            below[n] |= others
    return together
