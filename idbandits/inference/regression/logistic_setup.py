"""Logistic tables: built from a diagram, kept in states, shown, and carried to other diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.features.context_features import Logistic, RequestFeatures, hyperprior
from idbandits.diagram.labels import row_labels
from idbandits.diagram.tables import Label, LearnedTable
from idbandits.errors import FormatError, ObservationError
from idbandits.inference.regression.logistic import Logistics, bridge_rows
from idbandits.inference.rounds.round import NO_FEATURES
from idbandits.inference.state.state import State
from idbandits.inference.transfer.row_index import Entries
from idbandits.kernel.array_types import Bools, Floats, Ints

if TYPE_CHECKING:  # `evidence` imports this module
    from idbandits.inference.rounds.evidence import Evidence


LEAST_PART = 0.1  # of a prior: what is left of pseudo-counts, at least, when a round is taken back
LEAST_DIAGONAL = 1e-3  # of a factor of a precision, which is never less than that of the prior
UNCHANGED = (
    1e-3  # part of the variance or of the deviation beforehand: a residual that is nearer to its prior is not kept
)


def logistics_of(entries: Entries, before: int) -> Logistics:
    """The logistic tables among these entries, for kernels; in fits, they come after so many other numbers."""
    tables = zip(entries.table_firsts, entries.model.learned.values(), strict=True)
    own = [(first, t, t.logistic) for first, t in tables if t.logistic]
    number = len(own)
    own += [(0, t, t.logistic) for t in entries.absent if t.logistic]
    slots = _slots(entries)
    widths = [len(slot.features.columns) for slot in slots]
    requests = [*accumulate(widths, initial=before)]
    rows, sizes = [t.size // 2 for _, t, _ in own], [len(logistic.names) for _, _, logistic in own]
    rows[number:] = [0] * len(entries.absent)
    retired = [list(entries.retired_of(t.name, 2, len(t.shape))) for _, t, _ in own]
    designs = [
        np.vstack([logistic.design[:live], logistic.encoded([line for _, line in gone])])
        for (_, _, logistic), live, gone in zip(own, rows, retired, strict=True)
    ]
    total = [len(design) for design in designs]
    numbers = [size + size * size + 2 * n for size, n in zip(sizes, total, strict=True)]
    retired_table, retired_row = (np.full(entries.learned - entries.live, -1) for _ in range(2))
    for t, gone in enumerate(retired):
        for k, (first, _) in enumerate(gone):
            place = slice(first - entries.live, first - entries.live + 2)
            retired_table[place], retired_row[place] = t, rows[t] + k
    centres = [np.zeros(size) for size in sizes]
    spreads = [np.zeros(size) for size in sizes]
    for (_, table, _), centre, spread in zip(own, centres, spreads, strict=True):
        prior = hyperprior(table)
        spread[:] = prior.slope_sd
        centre[0], spread[0] = prior.intercepts[0], prior.intercept_sd
    ends = [0, *(first + t.size for first, t, _ in own[:number])]
    return Logistics(
        number=number, every=len(own), most_coefficients=max(sizes, default=0),
        entry=[first for first, _, _ in own], rows=rows, total=total, columns=[design.shape[1] for design in designs],
        width=[len(logistic.request.columns) for _, _, logistic in own],
        products=[int(logistic.products) for _, _, logistic in own], size=sizes,
        fit=[*accumulate(numbers, initial=before + sum(widths))][:-1],
        request=[requests[_slot_of(slots, logistic)] for _, _, logistic in own],
        first=[*accumulate(sizes, initial=0)][:-1],
        line=[*accumulate((design.size for design in designs), initial=0)][:-1],
        row_start=[*accumulate(rows, initial=0)][:-1],
        fixed=[int(k in t.fixed) for _, t, _ in own[:number] for k in range(t.size // 2)],
        retired_table=retired_table.tolist(), retired_row=retired_row.tolist(),
        others=len(ends), other_start=ends, other_end=[*(first for first, _, _ in own[:number]), entries.live],
        residual=np.array([logistic.residuals**2 for _, _, logistic in own]),
        design=np.concatenate([np.empty(0), *(design.ravel() for design in designs)]),
        centre=np.concatenate([np.empty(0), *centres]), spread=np.concatenate([np.empty(0), *spreads]),
    )  # fmt: skip


class _Slot(NamedTuple):
    """Where a state has the features of a context in the present request."""

    context: str
    features: RequestFeatures

    def is_of(self, logistic: Logistic) -> bool:
        """Whether a table reads this slot."""
        return self.context == logistic.context and self.features.to_data() == logistic.request.to_data()

    @property
    def names(self) -> list[str]:
        """The names of its numbers."""
        return [f"{self.context}.{column}" for column in self.features.columns]


def _slots(entries: Entries) -> list[_Slot]:
    """The slots of the contexts that the diagram has, then of those that absent tables depend on."""
    slots = [_Slot(node.name, node.features) for node in entries.model.contexts if node.features is not None]
    for table in entries.absent:
        if table.logistic is not None and not any(slot.is_of(table.logistic) for slot in slots):
            slots.append(_Slot(table.logistic.context, table.logistic.request))
    return slots


def _slot_of(slots: list[_Slot], logistic: Logistic) -> int:
    return next(k for k, slot in enumerate(slots) if slot.is_of(logistic))


def first_beliefs(entries: Entries, q: Logistics) -> Floats:
    """The fits of logistic tables before the first round, and a request whose features are all zero."""
    if not q.every:
        return np.empty(0)
    parts: list[Floats] = [np.zeros(request_size(entries))]
    for t in range(q.every):
        own = slice(q.first[t], q.first[t] + q.size[t])
        variance = np.full(q.total[t], float(np.asarray(q.residual)[t]))
        factor = np.diag(1.0 / np.asarray(q.spread)[own])
        parts += [np.asarray(q.centre)[own], factor.ravel(), np.zeros(q.total[t]), variance]
    return np.concatenate(parts)


def request_names(entries: Entries) -> list[str]:
    """Return the names of the numbers that a state has for requests."""
    return [name for slot in _slots(entries) for name in slot.names]


def request_width(model: Model) -> int:
    """Return how many numbers the features of all contexts have."""
    return sum(len(node.features.columns) for node in model.contexts if node.features is not None)


def translated_requests(requests: Floats, old: Model, new: Entries, rounds: int) -> Floats:
    """Return the features of contexts in rounds of an earlier diagram as states have them: one line per round.

    Columns of the same name have the same encoding (`Diagram.with_encodings_of`); those that are new are 0.
    """
    places = {name: k for k, name in enumerate(name for slot in _slots(Entries(old)) for name in slot.names)}
    names = request_names(new)
    translated = np.zeros((rounds, len(names)))
    for k, name in enumerate(names):
        if name in places:
            translated[:, k] = requests[:, places[name]]
    return translated


def request_size(entries: Entries) -> int:
    """How many numbers a state has for requests."""
    return sum(len(slot.features.columns) for slot in _slots(entries))


def request_in(evidence: Evidence, state: State) -> Floats:
    """The vector of the present request in a state (a view): that of the diagram's own contexts comes first."""
    first = evidence.first_request
    return state.fits[first : first + evidence.request_size]


def bridged(evidence: Evidence, state: State, belief: Floats, features: Floats = NO_FEATURES) -> Floats:
    """Return a copy of pseudo-counts in which those of logistic rows are for these features of contexts."""
    if not evidence.logistics.number:
        return belief
    belief, fits = belief.copy(), state.fits.copy()
    fits[evidence.first_request :][: len(features)] = features
    bridge_rows(*evidence.packed, fits, belief)
    return belief


@final
class Coefficients(NamedTuple):
    """What is believed of the coefficients of a logistic table: a normal distribution; and of residuals of rows."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    residual_mean: Floats
    residual_variance: Floats


class _Belief(NamedTuple):
    """What a state has of a logistic table: views."""

    mean: Floats
    factor: Floats
    residuals: Floats  # means, then variances, of all rows, retired ones after those of the diagram


def _belief(evidence: Evidence, state: State, table: str) -> _Belief:
    q, t = evidence.logistics, _number(evidence, table)
    size, rows, at = int(q.size[t]), int(q.total[t]), int(q.fit[t])
    mean, factor, residuals = np.split(state.fits[at : at + size + size * size + 2 * rows], [size, size + size * size])
    return _Belief(mean, factor.reshape(size, size), residuals.reshape(2, rows))


def coefficients_of(evidence: Evidence, state: State, table: str) -> Coefficients:
    """The coefficients of a logistic table in a state, and the residuals of the rows that the diagram has."""
    own, belief = evidence.entries.logistic[table], _belief(evidence, state, table)
    assert own.logistic is not None
    half = np.linalg.inv(belief.factor)
    residuals = belief.residuals[:, : evidence.logistics.rows[_number(evidence, table)]].copy()
    return Coefficients(own.logistic.names, belief.mean.copy(), half @ half.T, *residuals)


def check_beliefs(evidence: Evidence, state: State) -> None:
    """Refuse a state from a file with beliefs of logistic tables that are none."""
    if evidence.logistics.every and request_in(evidence, state).any():
        raise FormatError("it has a request, which no file has")
    for name, table in evidence.entries.logistic.items():
        assert table.logistic is not None
        _, factor, (_, variance) = _belief(evidence, state, name)
        if not (np.diag(factor) >= LEAST_DIAGONAL).all() or np.tril(factor, -1).any():
            raise FormatError(f"learned table {name!r}: the precision of its coefficients has no such factor")
        if ((variance > 0) != (table.logistic.residuals > 0)).any() or (variance < 0).any():
            raise FormatError(f"learned table {name!r}: its residuals have other variances")


def _number(evidence: Evidence, table: str) -> int:
    return list(evidence.entries.logistic).index(table)


def _places(entries: Entries, table: LearnedTable) -> dict[tuple[Label, ...], int]:
    """The places of all rows of a logistic table among its residuals, retired rows included, by their labels."""
    axes = len(table.shape)
    own = [
        row.labels for row in entries.retired if (row.table, len(row.prior), len(row.labels)) == (table.name, 2, axes)
    ]
    live = _rows(entries.model, table.name) if table.name in entries.model.learned else []
    return {labels: k for k, labels in enumerate([*live, *own])}


def _with_residuals(entries: Entries) -> dict[str, LearnedTable]:
    """The logistic tables whose rows have residuals."""
    return {name: t for name, t in entries.logistic.items() if t.logistic is not None and t.logistic.residuals}


def has_residual(old: Evidence, state: State, new: Entries) -> Bools:
    """Of every entry of a state: whether its row has a residual that was learned, and that other states may have."""
    entries, learned = old.entries, np.zeros(old.learned, np.bool_)
    for name, table in _with_residuals(entries).items():
        if name not in _with_residuals(new):
            continue
        assert table.logistic is not None
        (mean, variance), prior = _belief(old, state, name).residuals, table.logistic.residuals**2
        changed = (variance < (1 - UNCHANGED) * prior) | (np.abs(mean) > UNCHANGED * table.logistic.residuals)
        for labels, k in _places(entries, table).items():
            first = entries.rows[name, 2, labels].first
            learned[first : first + 2] = changed[k]
    return learned


class Contribution(NamedTuple):
    """What is left of what a round added to a state (`sites.learn_request`), and the request of the round."""

    entries: Ints
    values: Floats
    request: Floats


def take_back(evidence: Evidence, state: State, rounds: Sequence[Contribution]) -> None:
    """Subtract what rounds added from a state, in place."""
    q, live = evidence.logistics, evidence.live
    entries = np.concatenate([own.entries for own in rounds])
    values = np.concatenate([own.values for own in rounds])
    requests = np.zeros((len(entries), evidence.request_size))
    first = 0
    for own in rounds:
        requests[first : first + len(own.entries), : len(own.request)] = own.request
        first += len(own.entries)
    is_logistic = np.zeros(len(entries), np.bool_)
    for t, table in enumerate(evidence.entries.logistic.values()):
        start, rows = int(q.entry[t]), int(q.rows[t])
        own_lines, row = (entries >= start) & (entries < start + 2 * rows), (entries - start) // 2
        if len(q.retired_table):
            retired = np.maximum(entries - live, 0)
            gone = (entries >= live) & (np.asarray(q.retired_table)[retired] == t)
            own_lines, row = own_lines | gone, np.where(gone, np.asarray(q.retired_row)[retired], row)
        is_logistic |= own_lines
        if own_lines.any():
            belief = _belief(evidence, state, table.name)
            _subtract(belief, table, evidence, t, row[own_lines], requests[own_lines], values[own_lines])
    plain = entries[~is_logistic]
    counts = np.bincount(plain, values[~is_logistic, 0], minlength=evidence.learned)
    changed = np.unique(plain)
    least = LEAST_PART * state.floats[evidence.learned + changed]  # rounds do not add up exactly
    state.floats[changed] = np.maximum(state.floats[changed] - counts[changed], least)


def _subtract(
    belief: _Belief, table: LearnedTable, evidence: Evidence, t: int, rows: Ints, requests: Floats, values: Floats
) -> None:
    """Subtract natural parameters from the belief of a logistic table."""
    q, logistic = evidence.logistics, table.logistic
    assert logistic is not None
    first, columns = int(q.line[t]), int(q.columns[t])
    design = np.asarray(q.design)[first : first + int(q.total[t]) * columns].reshape(-1, columns)[rows]
    own = requests[:, int(q.request[t]) - evidence.first_request :][:, : int(q.width[t])]
    lines = np.hstack([design, own])
    if q.products[t]:
        lines = np.hstack([lines, (design[:, 1:, None] * own[:, None, :]).reshape(len(rows), -1)])
    precision = belief.factor.T @ belief.factor
    shift = precision @ belief.mean - values[:, 1] @ lines
    precision -= (lines * values[:, :1]).T @ lines
    try:
        belief.factor[:] = np.linalg.cholesky((precision + precision.T) / 2).T
    except np.linalg.LinAlgError:
        reason = f"less than nothing would be left of the coefficients of {table.name!r}"
        raise ObservationError(f"the round cannot be taken back: {reason}") from None
    belief.mean[:] = np.linalg.solve(precision, shift)
    if logistic.residuals:
        means, variances = belief.residuals
        size = belief.residuals.shape[1]
        precisions, shifts = (np.bincount(rows, values[:, k], minlength=size) for k in (2, 3))
        after = np.maximum(1.0 / variances - precisions, 1.0 / logistic.residuals**2)
        means[:] = (means / variances - shifts) / after
        variances[:] = 1.0 / after


def carry(old: Evidence, before: State, new: Evidence, after: State) -> None:
    """Put what was known of coefficients into a state of another diagram: by their names, residuals by rows' labels.

    Coefficients that are new start from their prior, apart from the others; those that are gone are integrated out.
    """
    for name, table in new.entries.logistic.items():
        other = old.entries.logistic.get(name)
        if table.logistic is None or other is None or other.logistic is None:
            continue
        known, own = _belief(old, before, name), _belief(new, after, name)
        if table.logistic.names == other.logistic.names:
            own.mean[:], own.factor[:] = known.mean, known.factor
        else:
            _carry_coefficients(coefficients_of(old, before, name), coefficients_of(new, after, name), own)
        if table.logistic.residuals and other.logistic.residuals:
            places = _places(old.entries, other)
            for labels, k in _places(new.entries, table).items():
                if labels in places:
                    own.residuals[:, k] = known.residuals[:, places[labels]]


def _carry_coefficients(known: Coefficients, fresh: Coefficients, own: _Belief) -> None:
    places = {column: i for i, column in enumerate(known.names)}
    here = [i for i, column in enumerate(fresh.names) if column in places]
    there = [places[fresh.names[i]] for i in here]
    fresh.mean[here] = known.mean[there]
    fresh.covariance[np.ix_(here, here)] = known.covariance[np.ix_(there, there)]
    precision = np.linalg.inv(fresh.covariance)
    own.mean[:], own.factor[:] = fresh.mean, np.linalg.cholesky((precision + precision.T) / 2).T


def _rows(model: Model, table: str) -> list[tuple[Label, ...]]:
    labels = row_labels(model, table).labels
    shape = model.learned[table].shape
    return [tuple(axis[i] for axis, i in zip(labels, index, strict=True)) for index in np.ndindex(shape)]
