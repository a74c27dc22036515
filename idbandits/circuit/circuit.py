"""What an arithmetic circuit is: nodes, weighted edges, and the parameters that weights stand for."""

from typing import NamedTuple, TypeAlias

from idbandits.kernel.array_types import Indices

SUM, PRODUCT = range(2)  # kinds of inner nodes

Atom: TypeAlias = tuple[int, tuple[tuple[int, int], ...], int]  # base, (axis, stride) …, place in the lookup or -1


class Circuit(NamedTuple):
    """An arithmetic circuit, as a structure for kernels (see `kernel.fields`).

    Nodes are numbered leaves first (node 0 is the constant 1, then one evidence indicator per state of every observed
    node), children before parents. An inner node is the product of two nodes or a weighted sum of nodes, where the
    weight of an edge is a slot. A slot stands for one parameter, and which one depends on the action: its base plus
    the strides times the action's choices, or what the lookup holds there.
    """

    leaves: int  # how many
    inner: int  # how many nodes above the leaves
    slots: int  # how many
    kind: Indices  # of an inner node: SUM or PRODUCT
    start: Indices  # the edges of inner node n are start[n] to start[n + 1] - 1
    child: Indices  # of an edge: the node that it leads to
    slot: Indices  # of an edge: its weight, -1 for the weight 1
    slot_base: Indices
    slot_start: Indices  # the axes that slot s depends on are slot_start[s] to slot_start[s + 1] - 1
    slot_axis: Indices
    slot_stride: Indices
    slot_lookup: Indices  # where the part of `lookup` begins that the index goes through, else -1
    slot_also: Indices  # a slot that it is multiplied with, or -1
    lookup: Indices

    def edges(self, node: int) -> range:
        """The edges of an inner node."""
        return range(self.start[node], self.start[node + 1])

    def slots_between(self, first: int, last: int) -> list[int]:
        """The slots on the edges of the inner nodes first to last - 1."""
        return sorted({slot for slot in self.slot[self.start[first] : self.start[last]] if slot >= 0})

    def axes(self, slot: int) -> Indices:
        """The places in an action that a slot depends on by itself."""
        return self.slot_axis[self.slot_start[slot] : self.slot_start[slot + 1]]

    def atom(self, slot: int) -> Atom:
        """What a slot reads by itself, whatever it is multiplied with."""
        terms = range(self.slot_start[slot], self.slot_start[slot + 1])
        strides = tuple((self.slot_axis[t], self.slot_stride[t]) for t in terms)
        return self.slot_base[slot], strides, self.slot_lookup[slot]

    def first_entry(self, slot: int) -> int:
        """Some parameter that a slot may stand for: it tells which table the slot reads."""
        lookup = self.slot_lookup[slot]
        return self.slot_base[slot] + (self.lookup[lookup] if lookup >= 0 else 0)


class Run(NamedTuple):
    """A run of a circuit's inner nodes, first to last - 1: what a pass goes through. The last is its root."""

    c: Circuit
    first: int
    last: int
