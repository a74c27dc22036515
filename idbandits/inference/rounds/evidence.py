"""Evidence: the likelihood of a round in independent parts, packed for kernels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias, final

import numpy as np

from idbandits.circuit.build import starts
from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.model import Likelihood, Model
from idbandits.circuit.reference import entries_after, entries_read
from idbandits.errors import FormatError
from idbandits.identifiability import relabellings
from idbandits.inference.regression.logistic_setup import logistics_of, request_size
from idbandits.inference.regression.prior import cost_of_fit, first_fits, regressions_of
from idbandits.inference.rounds.factors import find_wrong
from idbandits.inference.rounds.workspace import Parts, new_scratch
from idbandits.inference.transfer.row_index import Entries
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.kernel.messages import say
from idbandits.kernel.structs import pack

Source: TypeAlias = tuple[int, int, int]  # an observed node, its first leaf, its number of states
Span: TypeAlias = tuple[int, int]  # of nodes
LARGE, BYTES = 5_000_000, 250  # learned entries that are announced; what an agent needs for each
NUMBERS = itertools.count(1)  # of evidences
NO_PLACES: Ints = np.empty(0, np.int64)


class Longest(NamedTuple):
    """Largest sizes of factors."""

    nodes: int
    terms: int


@final
class Evidence:
    """The parts of a model's likelihood, packed for kernels: with every latent node, or folded.

    `folded` and `literal` build it. Its attributes are `model`, `prior` (pseudo-counts, shape (learned,)), `learned`
    (number of learned entries) and `packed` (arrays for kernels).

    Parameters
    ----------
    model : Model
        Compiled diagram.
    likelihood : Likelihood
        Circuit of its likelihood.
    literal : bool
        Whether the circuit has every latent node.
    entries : Entries, optional
        Entries of the states that it is for; they may be those of another model, whose rows have equal names.
    longest : Longest, optional
        Largest sizes of factors from elsewhere that these states may have.

    Examples
    --------
    >>> from idbandits import compile, models
    >>> evidence = compile(models.cascade(4, 2)).derived(folded)
    >>> evidence.learned, evidence.entry("attraction", [2, 1])  # item 2, attractive
    (8, 5)
    """

    def __init__(
        self, model: Model, likelihood: Likelihood, *, literal: bool, entries: Entries | None = None,
        longest: Longest | None = None,
    ) -> None:  # fmt: skip
        self.model, self._likelihood, self._literal = model, likelihood, literal
        self.entries = model.derived(Entries) if entries is None else entries
        c, ends = likelihood.parts.circuit, likelihood.parts.ends
        runs = list(pairwise(ends))
        slots = [c.slots_between(*run) for run in runs]
        sources = [_sources(model, likelihood, c, run) for run in runs]
        every_slot = [slot for own in slots for slot in own]
        readings = [_reading(c, slot) for slot in every_slot]
        every_source = [source for own in sources for source in own]
        bent = _bent_slots(model, c)
        sums = sum(c.kind[n] != PRODUCT and len(c.edges(n)) > 1 for n in range(c.inner))
        edges, own = c.start[c.inner], self.entries
        self.parts, self.learned, self.widest = len(runs), own.learned, int(own.size.max(initial=1))
        self.uses = len(every_slot)  # entries that one round may read, at most
        self.live, self.prior = own.live, own.prior
        self.most_groups, self.most_numbers = sums + 1, 3 * edges + 2 * c.inner + sums + self.parts + 3
        nodes, terms = longest or (0, 0)
        self.longest = Longest(max(c.inner + 1, nodes), max(edges + c.inner, terms))
        tables = model.learned.values()
        sizes = np.repeat(np.array([t.states for t in tables], np.int64), [t.size for t in tables])
        is_home = model is own.model and not own.retired
        places = self._places = NO_PLACES if is_home else own.places_of_entries(model.derived(Entries))
        self.generic = _generic_means(own.row, own.size)
        self.regressions = regressions_of(own)
        self.cost_of_fit = cost_of_fit(self.regressions)
        self.first_request = len(first_fits(self.regressions))  # where requests stand in fits
        self.logistics, self.request_size = logistics_of(own, self.first_request), request_size(own)
        parts = Parts(
                number=next(NUMBERS), parts=self.parts, learned=self.learned, live=self.live,
                parameter_count=self.learned + len(own.known), literal=int(literal), most_groups=self.most_groups,
                most_numbers=self.most_numbers, most_nodes=self.longest.nodes, most_terms=self.longest.terms,
                first_feature=self.first_request, node=ends,
                bends=[not bent.isdisjoint(own_slots) for own_slots in slots],
                use_start=starts(slots), use=every_slot,
                base=[r[0] for r in readings], stride=[r[1] for r in readings], axis=[r[2] for r in readings],
                source_start=starts(sources), source=[s[0] for s in every_source],
                source_leaf=[s[1] for s in every_source], source_states=[s[2] for s in every_source],
                renumbered=int(not is_home), place=places,
                table_start=starts(own.rows_by_table), table_row=np.concatenate([NO_PLACES, *own.rows_by_table]),
                table=own.table, row=own.row, size=own.size,
                whole_row=[_is_whole_row(model, c, n, sizes) for n in range(c.inner)],
                parameters=np.concatenate([own.prior, own.known]), generic=self.generic,
        )  # fmt: skip
        self.structures = c, parts
        self.program, self.numbers = self.packed = pack(c, parts, self.regressions, self.logistics)
        self.sources = [_that_matter(c, bent.intersection(slots[j]), sources[j]) for j in range(self.parts)]

    def entry(self, table: str, index: Sequence[int]) -> int:
        """Return the place in states of an entry of a learned table.

        Parameters
        ----------
        table : str
            Name of the table.
        index : sequence of int
            States of the parents, then the state of the node; with `rows`, the row, then the state.

        Returns
        -------
        int
            Place in the sections of a state that have a number per entry.
        """
        shape = (*self.model.learned[table].shape, self.model.learned[table].states)
        number = self.model.parameters.offsets[table] + int(np.ravel_multi_index(tuple(index), shape))
        return int(self._places[number]) if len(self._places) else number

    def new_scratch(self) -> tuple[Ints, Floats]:
        """Return arrays for a workspace that a state keeps."""
        return new_scratch(*self.structures)

    def about(self, entries: Entries, longest: Longest) -> Evidence:
        """Return this likelihood for states with other `entries`, and with factors up to the size `longest`."""
        return Evidence(self.model, self._likelihood, literal=self._literal, entries=entries, longest=longest)

    def lacking(self, actions: Ints) -> tuple[Entries, Bools]:
        """Return the model's entries, and which of them these `actions` read but states lack."""
        own, c = Entries(self.model), self._likelihood.parts.circuit
        wanted = np.zeros(own.learned + len(own.known), np.bool_)
        for slot in range(c.slots):
            wanted[entries_after(c, slot, actions)] = True
        return own, wanted & (self.entries.places_of_entries(own) < 0)

    @cached_property
    def relabellings(self) -> list[list[Ints]]:
        """Orders of the learned entries that change neither prior nor likelihood, of neighbouring latent states.

        The likelihood is that of rounds of the model: what a state holds of other diagrams may still tell states apart.
        """
        orders = self.model.derived(relabellings)
        return [[self.entries.with_retired(order) for order in own] for own in orders]

    def check_factors(self, keys: Ints, sizes: Ints) -> None:
        """Raise if a key is not a factor over the entries of this model.

        `keys` follow one another with these `sizes`.
        """
        wrong = find_wrong(*self.packed, keys, sizes)
        if wrong >= 0:
            raise FormatError(f"the key of group {wrong} is not a factor of this diagram's likelihood")


def folded(model: Model) -> Evidence:
    """Return the evidence with irrelevant nodes summed out; `model.derived(folded)` builds it once.

    Parameters
    ----------
    model : Model
        Compiled diagram.

    Returns
    -------
    Evidence
        Likelihood for kernels.

    Examples
    --------
    >>> from idbandits import compile, models
    >>> compile(models.cascade(4, 2)).derived(folded).prior.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    _announce(model)
    return Evidence(model, model.likelihood, literal=False)


def literal(model: Model) -> Evidence:
    """Return the evidence with every latent node, as in the paper's equations; `model.derived(literal)` builds it once.

    Parameters
    ----------
    model : Model
        Compiled diagram.

    Returns
    -------
    Evidence
        Likelihood for kernels.

    Examples
    --------
    >>> from idbandits import compile, models
    >>> compile(models.cascade(4, 2)).derived(literal).learned
    8
    """
    _announce(model)
    return Evidence(model, model.literal, literal=True)


def _announce(model: Model) -> None:
    """Announce tables whose entries take gigabytes."""
    entries = model.parameters.learned_size
    if entries > LARGE:
        largest = max(model.learned.values(), key=lambda table: table.size)
        say(
            f"diagram {model.name!r} has {entries:,} learned entries, {largest.size:,} of them in table "
            f"{largest.name!r}; an agent needs about {entries * BYTES / 1e9:.1f} GB …"
        )


def _that_matter(c: Circuit, bent: set[int], sources: list[Source]) -> tuple[list[int], list[int]]:
    """Return the axes of known entries and the observed nodes that decide whether a part is a single product."""
    return sorted({axis for slot in bent for axis in c.axes(slot)}), [number for number, _, _ in sources]


def _bent_slots(model: Model, c: Circuit) -> set[int]:
    """Return the slots that are a known entry after some actions only."""
    learned = model.parameters.learned_size
    moving = [slot for slot in range(c.slots) if len(c.axes(slot)) > 0]
    return {slot for slot in moving if (_entries_read(model, c, slot) >= learned).any()}


def _entries_read(model: Model, c: Circuit, slot: int) -> Ints:
    """Return the parameters that a slot may read; without a lookup one of them: all are learned, or none."""
    if c.slot_lookup[slot] < 0:
        return np.array([c.slot_base[slot]])
    return entries_read(c, slot, [n.states for n in (*model.decisions, *model.contexts)]).ravel()


def _sources(model: Model, likelihood: Likelihood, c: Circuit, run: Span) -> list[Source]:
    """Return the observed nodes whose indicators a part has."""
    children = set(c.child[c.start[run[0]] : c.start[run[1]]])
    sources = []
    for number, node in enumerate(model.observed):
        leaf = likelihood.indicators[node.name]
        if children & set(range(leaf, leaf + node.states)):
            sources.append((number, leaf, node.states))
    return sources


def _generic_means(rows: Ints, sizes: Ints) -> Floats:
    """Means of all learned entries with no pattern in them."""
    e = np.arange(1, len(sizes) + 1)
    x = 0.6180339887498949 * e + 0.4142135623730951 * e * e
    drawn = 1.0 + x - np.floor(x)
    return np.asarray(drawn / np.bincount(rows, drawn, minlength=len(sizes))[rows])


def _reading(c: Circuit, slot: int) -> tuple[int, int, int]:
    """Return a slot's entry as base, stride and axis; the axis is -1 if there is none (stride 0) or several (1)."""
    base, strides, lookup = c.atom(slot)
    if lookup >= 0 or len(strides) > 1:
        return base, 1, -1
    return (base, strides[0][1], strides[0][0]) if strides else (base, 0, -1)


def _is_whole_row(model: Model, c: Circuit, n: int, sizes: Ints) -> bool:
    slots = [c.slot[e] for e in c.edges(n)]
    if c.kind[n] == PRODUCT or min(slots, default=-1) < 0:
        return False
    atoms = sorted(c.atom(slot) for slot in slots)
    base, strides, lookup = atoms[0]
    entries = _entries_read(model, c, slots[0])
    learned = entries[entries < len(sizes)]  # of a table whose rows may be fixed in part
    if len(learned) == 0 or len(slots) != sizes[learned[0]]:
        return False
    return [(base + i, strides, lookup) for i in range(len(slots))] == atoms
