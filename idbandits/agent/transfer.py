"""Moving to another diagram: all that is known is carried over, by the names of tables and the labels of rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from idbandits.agent.encoding.era import Era, key_of
from idbandits.agent.learner import INEXACT, MOST_EARLIER, Learner, Past
from idbandits.agent.learning.ledger import Ledger
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramWarning, brief
from idbandits.inference.algorithms.exact import Exact, check_exact
from idbandits.inference.regression.logistic_setup import carry, has_residual, request_names
from idbandits.inference.regression.prior import carry_fits
from idbandits.inference.state.state import State
from idbandits.inference.state.state_file import columns_of, state_of
from idbandits.inference.transfer.renumber import Old, needed, renumbered, without_empty_groups
from idbandits.inference.transfer.row_index import Entries, absent_tables, names_of
from idbandits.kernel.array_types import Rng
from idbandits.notebook import html_table

FAR = 50.0  # scales from a center


class Rows(NamedTuple):
    """Numbers of rows of a learned table that were kept, are new, and are retired."""

    kept: int
    new: int
    retired: int


class Moved(NamedTuple):
    """A learner of another diagram, its state, and what was carried."""

    learner: Learner
    state: State
    carried: Carried


@final
class Carried:
    """Summary of the knowledge that an agent kept when it moved to another diagram (`Thompson.moved_to`).

    Attributes
    ----------
    tables : dict of Rows
        Numbers of rows by table: `kept`, `new`, and `retired`. Retired rows are those that the new diagram lacks and
        that something was learned of: they still inform the others, and are restored if they come back.
    groups : int
        Number of groups of rounds with latent nodes.

    Examples
    --------
    >>> import idbandits as idb
    >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], 1), seed=0)
    >>> agent.update({"A1": "tea"}, {"C1": 1})
    >>> agent.moved_to(idb.models.cascade(["milk", "rice"], 1)).carried.tables
    {'attraction': Rows(kept=1, new=1, retired=1)}
    """

    def __init__(self, old: Entries, new: Entries, groups: int) -> None:
        self.groups = groups
        tables: dict[str, list[int]] = {}
        for name in names_of(new.model):
            tables.setdefault(name[0], [0, 0, 0])[name not in old.rows] += 1
        for row in new.retired:
            tables.setdefault(row.table, [0, 0, 0])[2] += 1
        self.tables = {name: Rows(*numbers) for name, numbers in tables.items()}

    def _repr_html_(self) -> str:
        rows = [{"table": name, **rows._asdict()} for name, rows in self.tables.items()]
        return html_table(rows, f"{self.groups:,} groups of rounds")

    def __repr__(self) -> str:
        lines = []
        for name, rows in self.tables.items():
            numbers = [f"{n:,} {what}" for what, n in zip(Rows._fields, rows, strict=True) if n]
            lines.append(f"{name}: rows {', '.join(numbers)}")
        return "\n".join([*lines, f"{self.groups:,} groups of rounds"])


def moved(
    learner: Learner, state: State, rng: Rng, d: Diagram, earlier: tuple[Diagram, ...], ledger: Ledger | None
) -> Moved:  # fmt: skip
    """Return a learner of another diagram that knows all that the first one knew.

    `earlier` are the diagrams whose rounds it may still learn from; `ledger` has rounds that may be taken back.
    """
    d = d.with_encodings_of(learner.diagram, *learner.past.earlier)  # others would change what coefficients mean
    _warn_of_distant_values(d)
    model = compile(d)
    if isinstance(learner.inference, Exact):
        check_exact(model, INEXACT)
    old = _known(learner, state)
    own = Entries(model, absent=absent_tables(model, earlier))
    wanted = has_residual(learner.evidence, state, own)
    wanted[ledger.entries() if ledger is not None else []] = True
    entries = needed(old, own, wanted)
    past = Past(entries.retired, entries.constants, learner.evidence.longest, earlier)
    other = Learner(compiled_copy(d), model, learner.settings, past)
    carried = Carried(old.entries, entries, len(old.columns.sizes))
    return Moved(other, transferred(learner, state, other, rng), carried)


def moved_ledger(old: Learner, ledger: Ledger | None, new: Learner) -> Ledger | None:
    """Return the ledger of a learner that moved: entries by labels, features of contexts by names."""
    if not new.keeps_ledger:
        return None
    before, after = old.evidence.entries, new.evidence.entries
    columns = {name: i for i, name in enumerate(request_names(before))}
    places = np.array([columns.get(name, -1) for name in request_names(after)], np.int64)
    return Ledger(len(places)) if ledger is None else ledger.moved(after.places_of_entries(before), places)


def earlier_eras(present: Era, past: Sequence[Era], new: Sequence[Diagram]) -> list[Era]:
    """Return the eras of an agent that moves to new diagrams whose rounds may still be learned from, latest first."""
    eras = {era.key: era for era in reversed([present, *past])}
    eras.pop(key_of(new), None)
    return list(reversed(eras.values()))[:MOST_EARLIER]


def _warn_of_distant_values(d: Diagram) -> None:
    """Warn of numbers that the center and the scale of their column do not fit: those were chosen by earlier items."""
    for name, table in d.learned.items():
        for column, distance in table.features.distances() if table.features is not None else ():
            if distance > FAR:
                far = f"values must be within {FAR:g} scales of the center, got one at {distance:,.0f}"
                _, center, scale, _ = column.encoding
                what = f"center {center:g} and scale {scale:g} are those that the agent learned with"
                hint = "an agent that starts with idb.Features(…, center=…, scale=…) avoids this"
                text = f"learned table {name!r}: column {brief(column.name)}: {far}; {what}; {hint}"
                warnings.warn(text, DiagramWarning, stacklevel=4)


def compiled_copy(d: Diagram) -> Diagram:
    """Return a copy of a diagram that is compiled already."""
    own = d.copy()
    own.cache["model"] = compile(d)
    return own


def hosting(learner: Learner, state: State, rng: Rng, model: Model) -> tuple[Learner, State]:
    """Return a learner and its state that have all rows that rounds of an earlier diagram may read."""
    if model is learner.model or learner.guest(model) is not None:
        return learner, state
    host = learner.with_guest(model)
    return host, transferred(learner, state, host, rng)


def transferred(learner: Learner, state: State, other: Learner, rng: Rng) -> State:
    """Return what a learner knows as a state of another one, whose entries include all that is needed."""
    fresh = other.beginning(np.random.default_rng(copy.deepcopy(rng).integers(2**63)))  # rng itself is not used up
    layout = other.inference.layout(other.evidence)
    columns = renumbered(_known(learner, state), other.evidence.entries, layout, columns_of(fresh, layout))
    result = state_of(columns, layout, fresh)
    result = other.inference.restored(other.evidence, result)
    carry_fits(learner.evidence, state, other.evidence, result)
    other.fit_regressions(result, copy.deepcopy(rng))
    carry(learner.evidence, state, other.evidence, result)
    return result


def _known(learner: Learner, state: State) -> Old:
    layout = learner.inference.layout(learner.evidence)
    columns = columns_of(learner.with_declared_priors(state), layout)
    return Old(learner.evidence.entries, layout, without_empty_groups(columns))
