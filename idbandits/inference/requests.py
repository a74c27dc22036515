"""Logistic tables: built from a diagram, kept in states, shown, and carried to other diagrams."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.labels import row_labels
from idbandits.diagram.requests import hyperprior
from idbandits.diagram.tables import Label, LearnedTable
from idbandits.errors import FormatError
from idbandits.inference.entries import Entries
from idbandits.inference.logistic import Logistics, bridge_rows
from idbandits.kernel.states import State
from idbandits.kernel.types import Bools, Floats

if TYPE_CHECKING:  # `evidence` imports this module
    from idbandits.inference.evidence import Evidence


LEAST_DIAGONAL = 1e-3  # of a factor of a precision, which is never less than that of the prior
UNCHANGED = (
    1e-3  # part of the variance or of the deviation beforehand: a residual that is nearer to its prior is not kept
)


def logistics_of(entries: Entries, before: int) -> Logistics:
    """The logistic tables among these entries, for kernels; in fits, they come after so many other numbers."""
    model, tables = entries.model, list(entries.model.learned.values())
    own = [(first, t, t.logistic) for first, t in zip(entries.table_firsts, tables, strict=True) if t.logistic]
    contexts = [node for node in model.contexts if node.features is not None]
    widths = [len(node.features.columns) for node in contexts if node.features is not None]
    requests = dict(zip((node.name for node in contexts), accumulate(widths, initial=before), strict=False))
    rows, sizes = [t.size // 2 for _, t, _ in own], [len(logistic.names) for _, _, logistic in own]
    retired = [list(entries.retired_of(t.name, 2, len(t.shape))) for _, t, _ in own]
    designs = [
        np.vstack([logistic.design, logistic.encoded([line for _, line in gone])])
        for (_, _, logistic), gone in zip(own, retired, strict=True)
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
    ends = [0, *(first + t.size for first, t, _ in own)]
    return Logistics(
        number=len(own), most_coefficients=max(sizes, default=0), entry=[first for first, _, _ in own], rows=rows,
        total=total, columns=[design.shape[1] for design in designs],
        width=[len(logistic.request.columns) for _, _, logistic in own],
        products=[int(logistic.products) for _, _, logistic in own], size=sizes,
        fit=[*accumulate(numbers, initial=before + sum(widths))][:-1],
        request=[requests[logistic.context] for _, _, logistic in own],
        first=[*accumulate(sizes, initial=0)][:-1],
        line=[*accumulate((design.size for design in designs), initial=0)][:-1],
        row_start=[*accumulate(rows, initial=0)][:-1],
        fixed=[int(k in t.fixed) for _, t, _ in own for k in range(t.size // 2)],
        retired_table=retired_table.tolist(), retired_row=retired_row.tolist(),
        others=len(ends), other_start=ends, other_end=[*(first for first, _, _ in own), entries.live],
        residual=np.array([logistic.residuals**2 for _, _, logistic in own]),
        design=np.concatenate([np.empty(0), *(design.ravel() for design in designs)]),
        centre=np.concatenate([np.empty(0), *centres]), spread=np.concatenate([np.empty(0), *spreads]),
    )  # fmt: skip


def first_beliefs(model: Model, q: Logistics) -> Floats:
    """The fits of logistic tables before the first round, and a request whose features are all zero."""
    if not q.number:
        return np.empty(0)
    parts: list[Floats] = [np.zeros(request_width(model))]
    for t in range(q.number):
        own = slice(q.first[t], q.first[t] + q.size[t])
        variance = np.full(q.total[t], float(np.asarray(q.residual)[t]))
        factor = np.diag(1.0 / np.asarray(q.spread)[own])
        parts += [np.asarray(q.centre)[own], factor.ravel(), np.zeros(q.total[t]), variance]
    return np.concatenate(parts)


def request_width(model: Model) -> int:
    """How many numbers the features of all contexts have."""
    return sum(len(node.features.columns) for node in model.contexts if node.features is not None)


def translated_requests(requests: Floats, old: Model, new: Model, rounds: int) -> Floats:
    """Return the features of contexts in rounds of an earlier diagram as the present one has them: one line per round.

    Columns of the same name have the same encoding (`Diagram.with_encodings_of`); those that are new are 0.
    """
    places = {name: k for k, name in enumerate(_request_names(old))}
    translated = np.zeros((rounds, request_width(new)))
    for k, name in enumerate(_request_names(new)):
        if name in places:
            translated[:, k] = requests[:, places[name]]
    return translated


def _request_names(model: Model) -> list[str]:
    """The names of all numbers of a request."""
    contexts = [node for node in model.contexts if node.features is not None]
    return [f"{n.name}.{column}" for n in contexts for column in (n.features.columns if n.features else ())]


def request_in(evidence: Evidence, state: State) -> Floats:
    """The vector of the present request in a state (a view)."""
    first = evidence.first_request
    return state.fits[first : first + request_width(evidence.entries.model)]


def bridged(evidence: Evidence, state: State, belief: Floats) -> Floats:
    """A copy of pseudo-counts with those of logistic rows for the present request of a state in place."""
    if not evidence.logistics.number:
        return belief
    belief = belief.copy()
    bridge_rows(*evidence.packed, state.fits, belief)
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
    own, belief = evidence.entries.model.learned[table], _belief(evidence, state, table)
    assert own.logistic is not None
    half = np.linalg.inv(belief.factor)
    residuals = belief.residuals[:, : own.size // 2].copy()
    return Coefficients(own.logistic.names, belief.mean.copy(), half @ half.T, *residuals)


def check_beliefs(evidence: Evidence, state: State) -> None:
    """Refuse a state from a file with beliefs of logistic tables that are none."""
    if evidence.logistics.number and request_in(evidence, state).any():
        raise FormatError("it has a request, which no file has")
    for name, table in evidence.entries.model.learned.items():
        if table.logistic is None:
            continue
        _, factor, (_, variance) = _belief(evidence, state, name)
        if not (np.diag(factor) >= LEAST_DIAGONAL).all() or np.tril(factor, -1).any():
            raise FormatError(f"learned table {name!r}: the precision of its coefficients has no such factor")
        if (variance > 0).all() != (table.logistic.residuals > 0) or (variance < 0).any():
            raise FormatError(f"learned table {name!r}: its residuals have other variances")


def _number(evidence: Evidence, table: str) -> int:
    return [t.name for t in evidence.entries.model.learned.values() if t.logistic is not None].index(table)


def _places(entries: Entries, table: LearnedTable) -> dict[tuple[Label, ...], int]:
    """The places of all rows of a logistic table among its residuals, retired rows included, by their labels."""
    axes = len(table.shape)
    own = [
        row.labels for row in entries.retired if (row.table, len(row.prior), len(row.labels)) == (table.name, 2, axes)
    ]
    return {labels: k for k, labels in enumerate([*_rows(entries.model, table.name), *own])}


def _with_residuals(model: Model) -> dict[str, LearnedTable]:
    """The logistic tables whose rows have residuals."""
    return {name: t for name, t in model.learned.items() if t.logistic is not None and t.logistic.residuals}


def has_residual(old: Evidence, state: State, model: Model) -> Bools:
    """Of every entry of a state: whether its row has a residual that was learned, and that another model may have."""
    entries, learned = old.entries, np.zeros(old.learned, np.bool_)
    for name, table in _with_residuals(entries.model).items():
        if name not in _with_residuals(model):
            continue
        assert table.logistic is not None
        (mean, variance), prior = _belief(old, state, name).residuals, table.logistic.residuals**2
        changed = (variance < (1 - UNCHANGED) * prior) | (np.abs(mean) > UNCHANGED * table.logistic.residuals)
        for labels, k in _places(entries, table).items():
            first = entries.rows[name, 2, labels].first
            learned[first : first + 2] = changed[k]
    return learned


def carry(old: Evidence, before: State, new: Evidence, after: State) -> None:
    """Put what was known of coefficients into a state of another diagram: by their names, residuals by rows' labels.

    Coefficients that are new start from their prior, apart from the others; those that are gone are integrated out.
    """
    for name, table in new.entries.model.learned.items():
        other = old.entries.model.learned.get(name)
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
