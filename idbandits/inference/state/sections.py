"""Declaration of a state: named sections, from which offsets, initial values and file layout are derived.

An inference declares its state once, as a NamedTuple whose defaults say what each section is:

    class Sections(NamedTuple):
        sweeps: int = setting()                      # a constant that kernels read
        alpha: Floats = per_entry(PSEUDO_COUNTS)     # one number per learned entry; actions are drawn from the first
        prior: Floats = per_entry(PSEUDO_COUNTS)     # always the second section: regressions change it

    DECLARED = Declaration(Sections)

In kernels, `DECLARED.view(state, learned)` returns the NamedTuple with settings as numbers and sections as pointers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final, get_type_hints

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from idbandits.inference.state.state import BASE, BEFORE, HEADER, LEAST, MOST, State, with_groups, without_groups
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.structs import INT_POINTER, TYPES

FIELDS = TYPES | {Ints: INT_POINTER}
MOST_ROUNDS = 2**50  # that are counted: sums of them, and floats, hold all of these numbers exactly


class Kind(NamedTuple):
    """Meaning and range of the numbers of a section."""

    name: str
    least: float = -np.inf
    most: float = np.inf
    kept: bool = True  # in files; otherwise they are those of a new state


PSEUDO_COUNTS = Kind("pseudo-counts", LEAST, MOST)  # of learned entries: shifted with the prior, renumbered by a move
MEANS = Kind("means", 0, 1)  # of learned entries
NUMBERS = Kind("numbers", -1e250, 1e250)  # of which sums over all rounds are finite
COUNTS = Kind("counts", 0, MOST_ROUNDS)
SWITCHES = Kind("switches", 0, 1)
DERIVED = Kind("derived", kept=False)  # settings, and numbers that are computed before they are used

Size: TypeAlias = int | str  # a number, or the name of the setting that has it


class Section(NamedTuple):
    """Section of a state: its kind, its size and its initial value."""

    kind: Kind
    initial: float | None = None  # None: the prior
    entries: Size = 0  # numbers per learned entry
    extra: Size = 0  # numbers besides
    beside: bool = False  # beside every number of a key of a group, instead
    by_row: bool = False  # of these: as many as a row has entries, where the row occurs first in the key


def setting() -> Any:
    """Declare a constant that kernels read: an `int` or a `float`.

    Returns
    -------
    object
        Default of a field of the named tuple that `Declaration` gets.

    Examples
    --------
    >>> class Sections(NamedTuple):
    ...     alpha: Floats = per_entry(PSEUDO_COUNTS)
    ...     prior: Floats = per_entry(PSEUDO_COUNTS)
    ...     sweeps: int = setting()
    >>> Declaration(Sections).integer("sweeps") - HEADER
    0
    """
    return Section(DERIVED, 0, extra=1)


def per_entry(kind: Kind, initial: float | None = None, entries: Size = 1) -> Any:
    """Declare numbers for every learned entry.

    Parameters
    ----------
    kind : Kind
        Meaning of the numbers, such as `PSEUDO_COUNTS`.
    initial : float, optional
        Initial value; the prior by default.
    entries : int or str
        Numbers per learned entry, or the name of a setting.

    Returns
    -------
    object
        Default of a field of the named tuple that `Declaration` gets.

    Examples
    --------
    >>> per_entry(PSEUDO_COUNTS).kind.name
    'pseudo-counts'
    """
    return Section(kind, initial, entries)


def numbers(kind: Kind, initial: float = 0.0, size: Size = 1) -> Any:
    """Declare a few numbers (`Floats`) or integers (`Ints`).

    Parameters
    ----------
    kind : Kind
        Meaning of the numbers, such as `COUNTS`.
    initial : float
        Initial value.
    size : int or str
        How many there are, or the name of a setting.

    Returns
    -------
    object
        Default of a field of the named tuple that `Declaration` gets.

    Examples
    --------
    >>> numbers(COUNTS, size=2).extra
    2
    """
    return Section(kind, initial, extra=size)


def per_number(kind: Kind, *, by_row: bool = False) -> Any:
    """Declare numbers beside every number in the keys of groups; the state then keeps groups.

    Parameters
    ----------
    kind : Kind
        Meaning of the numbers, such as `COUNTS`.
    by_row : bool
        Whether there are as many as a row has entries, where the row occurs first in a key.

    Returns
    -------
    object
        Default of a field of the named tuple that `Declaration` gets.

    Examples
    --------
    >>> per_number(COUNTS).beside
    True
    """
    return Section(kind, 0.0, beside=True, by_row=by_row)


Runs: TypeAlias = Sequence[tuple[Kind, int]]  # of consecutive numbers; all that follow the last run are derived


class Layout(NamedTuple):
    """Kinds of the numbers of a state, in their order."""

    floats: Runs
    site: Runs = ()  # the floats beside one number of a key
    ints: Runs = ()  # after the header
    check_keys: Callable[[Ints, Ints], None] | None = None  # raises if the keys, of these sizes, are not factors
    sites_by_row: bool = False


@final
class Declaration:
    """State of an inference, by the NamedTuple that declares its sections.

    In kernels, `view(state, learned)` returns the NamedTuple with settings as numbers and sections as pointers.

    Parameters
    ----------
    kind : type
        NamedTuple whose defaults are declared by `setting`, `per_entry`, `numbers` and `per_number`. The first two
        floats are the pseudo-counts that actions are drawn from, and their prior.
    grouped : bool
        Whether the state keeps groups of equal factors.
    linked : bool
        Whether keys of groups are linked by the rows that they read.

    Examples
    --------
    >>> class Sections(NamedTuple):
    ...     alpha: Floats = per_entry(PSEUDO_COUNTS)
    ...     prior: Floats = per_entry(PSEUDO_COUNTS)
    ...     keep: float = setting()
    >>> from idbandits import compile, models
    >>> from idbandits.inference.rounds.evidence import folded
    >>> declared, evidence = Declaration(Sections), compile(models.semi_bandit(2, 1)).derived(folded)
    >>> state = declared.start(evidence, {"keep": 0.9})
    >>> declared.section(state, evidence.learned, "alpha").tolist(), float(state.floats[-1])
    ([1.0, 1.0, 1.0, 1.0], 0.9)
    """

    def __init__(self, kind: Any, *, grouped: bool = False, linked: bool = False) -> None:
        hints = get_type_hints(kind)
        self.kind, self.grouped, self.linked = kind, grouped, linked
        self.sections: dict[str, Section] = dict(kind._field_defaults)
        self._types = {name: FIELDS[hints[name]] for name in kind._fields}
        is_int = {name: hints[name] not in (float, Floats) for name in kind._fields}
        self._ints = [name for name in kind._fields if is_int[name]]
        self._floats = [n for n in kind._fields if not is_int[n] and not self.sections[n].beside]
        self._beside = [n for n in kind._fields if self.sections[n].beside]
        self.view = _viewer(self)

    def start(self, evidence: Any, values: Mapping[str, Any], prior: Floats | None = None) -> State:
        """Return the state before the first round.

        Parameters
        ----------
        evidence : Evidence
            Likelihood of the diagram.
        values : mapping of str to numbers
            Settings, and sections that start otherwise than declared.
        prior : array, optional
            Pseudo-counts to start with, shape (learned,); those of the diagram by default.

        Returns
        -------
        State
            Initial values, without groups.
        """
        n, first, floats = evidence.learned, evidence.prior if prior is None else prior, list[Floats]()
        ints = np.array([values.get(name, self.sections[name].initial) for name in self._ints], np.int64)
        for name, _, size in self._places(values, n):
            section = self.sections[name]
            initial = (
                np.tile(first, size // max(1, n)) if section.initial is None else np.full(size, float(section.initial))
            )
            initial[:] = values.get(name, initial)
            floats.append(initial)
        everything = np.concatenate([np.empty(0), *floats])
        if not self.grouped:
            return without_groups(everything, ints)
        sizes = evidence.most_groups, evidence.most_numbers, self.each(evidence), 2 * n if self.linked else 0
        state = with_groups(everything, ints, *sizes)
        state.ints[BASE] = next(at for name, at, _ in self._places(values, n) if name == "base")
        return state

    def each(self, evidence: Any) -> int:
        """Return how many floats there are beside every number of a key, with the factors of `evidence`."""
        return sum(evidence.widest if self.sections[name].by_row else 1 for name in self._beside)

    def layout(self, evidence: Any, settings: Mapping[str, Any]) -> Layout:
        """Return the kinds of all numbers of a state with the factors of `evidence` and these `settings`."""
        return Layout(
            [(self.sections[name].kind, size) for name, _, size in self._places(settings, evidence.learned)],
            [(self.sections[name].kind, self.each(evidence)) for name in self._beside],
            [(self.sections[name].kind, 1) for name in self._ints],
            evidence.check_factors if self.grouped else None,
            any(self.sections[name].by_row for name in self._beside),
        )

    def section(self, state: State, learned: int, name: str) -> Floats:
        """Return a section of the floats of a state.

        Parameters
        ----------
        state : State
            State.
        learned : int
            Number of learned entries, `evidence.learned`.
        name : str
            Name of the section.

        Returns
        -------
        array
            View of the numbers: changes go to the state.
        """
        settings = dict(zip(self._ints, state.ints[HEADER:].tolist(), strict=False))
        at, size = next((at, size) for own, at, size in self._places(settings, learned) if own == name)
        return state.floats[at : at + size]

    def integer(self, name: str) -> int:
        """Return the place of the setting or integer `name` in the ints of a state."""
        return HEADER + self._ints.index(name)

    def _places(self, settings: Mapping[str, Any], learned: int) -> Iterator[tuple[str, int, int]]:
        """Yield name, offset and size of each section of floats; some sizes are settings."""
        at = 0
        for name in self._floats:
            entries, extra = self.sections[name].entries, self.sections[name].extra
            size = learned * (settings[entries] if isinstance(entries, str) else entries)
            size += settings[extra] if isinstance(extra, str) else extra
            yield name, at, size
            at += size


def _viewer(declared: Declaration) -> Any:
    """Return a function for kernels: the sections of a state, as the NamedTuple that declares them."""
    result = types.NamedTuple(list(declared._types.values()), declared.kind)
    word = ir.IntType(64)

    @intrinsic
    def view(typing_context: Any, state: Any, learned: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            ints, floats = (
                context.make_array(signature.args[0][k])(context, builder, builder.extract_value(arguments[0], k)).data
                for k in range(2)
            )
            entries = arguments[1]

            def integer(place: int) -> Any:
                return builder.gep(ints, [ir.Constant(word, place)])

            def size_of(size: Size) -> Any:
                if isinstance(size, str):
                    return builder.load(integer(declared.integer(size)))
                return ir.Constant(word, size)

            values, at = dict[str, Any](), ir.Constant(word, 0)
            for name in declared._floats:
                values[name] = builder.gep(floats, [at])
                section = declared.sections[name]
                own = builder.add(builder.mul(size_of(section.entries), entries), size_of(section.extra))
                at = builder.add(at, own)
            for name in declared._beside:
                values[name] = builder.gep(floats, [builder.load(integer(BEFORE))])
            for name in declared._ints:
                values[name] = integer(declared.integer(name))
            fields = [
                values[name] if isinstance(kind, types.CPointer) else builder.load(values[name])
                for name, kind in declared._types.items()
            ]
            return context.make_tuple(builder, result, fields)

        return result(state, types.int64), generate

    return view
