"""Arithmetic circuits: nodes, weighted edges, and the parameters that weights stand for."""

from typing import NamedTuple, TypeAlias

from idbandits.kernel.array_types import Indices

SUM, PRODUCT = range(2)  # kinds of inner nodes

Atom: TypeAlias = tuple[int, tuple[tuple[int, int], ...], int]  # base, (axis, stride) …, place in the lookup or -1


class Circuit(NamedTuple):
    """Arithmetic circuit, as a structure for kernels (see `kernel.structs`).

    Nodes are numbered leaves first (node 0 is the constant 1, then one evidence indicator per state of every observed
    node), children before parents. An inner node is the product of two nodes or a weighted sum of nodes, where the
    weight of an edge is a slot. A slot stands for one parameter that depends on the action: the parameter at its base
    plus the strides times the action's choices, or plus the entry of the lookup at that sum.
    """

    leaves: int  # number of leaves
    inner: int  # number of nodes above the leaves
    slots: int  # number of slots
    kind: Indices  # by inner node: SUM or PRODUCT
    start: Indices  # the edges of inner node n are start[n] to start[n + 1] - 1
    child: Indices  # by edge: the node below it
    slot: Indices  # by edge: its weight, -1 for the weight 1
    slot_base: Indices
    slot_start: Indices  # the axes that slot s depends on are slot_start[s] to slot_start[s + 1] - 1
    slot_axis: Indices
    slot_stride: Indices
    slot_lookup: Indices  # by slot: the first place of its part of `lookup`, or -1
    slot_also: Indices  # by slot: another slot that multiplies it, or -1
    lookup: Indices

    def edges(self, node: int) -> range:
        """Return the edges of an inner node."""
        return range(self.start[node], self.start[node + 1])

    def slots_between(self, first: int, last: int) -> list[int]:
        """Return the slots on the edges of the inner nodes first to last - 1."""
        return sorted({slot for slot in self.slot[self.start[first] : self.start[last]] if slot >= 0})

    def chain(self, slot: int) -> list[int]:
        """Return a slot and the slots that multiply it."""
        slots = []
        while slot >= 0:
            slots.append(slot)
            slot = self.slot_also[slot]
        return slots

    def axes(self, slot: int) -> Indices:
        """Return the places in an action that a slot depends on, without the slots that multiply it."""
        return self.slot_axis[self.slot_start[slot] : self.slot_start[slot + 1]]

    def atom(self, slot: int) -> Atom:
        """Return what a slot reads, without the slots that multiply it."""
        terms = range(self.slot_start[slot], self.slot_start[slot + 1])
        strides = tuple((self.slot_axis[t], self.slot_stride[t]) for t in terms)
        return self.slot_base[slot], strides, self.slot_lookup[slot]


class Run(NamedTuple):
    """Inner nodes first to last - 1 of a circuit, which a pass goes through; the last is the root."""

    c: Circuit
    first: int
    last: int
