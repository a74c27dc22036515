"""Logistic tables: built from a diagram, kept in states, shown, and carried to other diagrams."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.labels import row_labels
from idbandits.diagram.requests import Logistic, hyperprior
from idbandits.errors import FormatError
from idbandits.inference.entries import Entries
from idbandits.inference.logistic import Logistics, bridge_rows
from idbandits.kernel.states import State
from idbandits.kernel.types import Floats

if TYPE_CHECKING:  # `evidence` imports this module
    from idbandits.inference.evidence import Evidence


LEAST_DIAGONAL = 1e-3  # of a factor of a precision, which is never less than that of the prior


def logistics_of(entries: Entries, before: int) -> Logistics:
    """The logistic tables among these entries, for kernels; in fits, they come after so many other numbers."""
    model, tables = entries.model, list(entries.model.learned.values())
    own = [(first, t, t.logistic) for first, t in zip(entries.table_firsts, tables, strict=True) if t.logistic]
    contexts = [node for node in model.contexts if node.features is not None]
    widths = [len(node.features.columns) for node in contexts if node.features is not None]
    requests = dict(zip((node.name for node in contexts), accumulate(widths, initial=before), strict=False))
    rows, sizes = [t.size // 2 for _, t, _ in own], [len(logistic.names) for _, _, logistic in own]
    designs = [logistic.design for _, _, logistic in own]
    numbers = [size + size * size + 2 * n for size, n in zip(sizes, rows, strict=True)]
    centres = [np.zeros(size) for size in sizes]
    spreads = [np.zeros(size) for size in sizes]
    for (_, table, _), centre, spread in zip(own, centres, spreads, strict=True):
        prior = hyperprior(table)
        spread[:] = prior.slope_sd
        centre[0], spread[0] = prior.intercepts[0], prior.intercept_sd
    ends = [0, *(first + t.size for first, t, _ in own)]
    return Logistics(
        number=len(own), most_coefficients=max(sizes, default=0), entry=[first for first, _, _ in own], rows=rows,
        columns=[design.shape[1] for design in designs],
        width=[len(logistic.request.columns) for _, _, logistic in own],
        products=[int(logistic.products) for _, _, logistic in own], size=sizes,
        fit=[*accumulate(numbers, initial=before + sum(widths))][:-1],
        request=[requests[logistic.context] for _, _, logistic in own],
        first=[*accumulate(sizes, initial=0)][:-1],
        line=[*accumulate((design.size for design in designs), initial=0)][:-1],
        row_start=[*accumulate(rows, initial=0)][:-1],
        fixed=[int(k in t.fixed) for _, t, _ in own for k in range(t.size // 2)],
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
        variance = np.full(q.rows[t], float(np.asarray(q.residual)[t]))
        factor = np.diag(1.0 / np.asarray(q.spread)[own])
        parts += [np.asarray(q.centre)[own], factor.ravel(), np.zeros(q.rows[t]), variance]
    return np.concatenate(parts)


def request_width(model: Model) -> int:
    """How many numbers the features of all contexts have."""
    return sum(len(node.features.columns) for node in model.contexts if node.features is not None)


def request_in(evidence: Evidence, state: State) -> Floats:
    """The vector of the present request in a state (a view)."""
    first = evidence.first_request
    return state.fits[first : first + request_width(evidence.model)]


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


def coefficients_of(evidence: Evidence, state: State, table: str) -> Coefficients:
    """The coefficients of a logistic table in a state."""
    own = evidence.entries.model.learned[table]
    assert own.logistic is not None
    t, size = _number(evidence, table), len(own.logistic.names)
    at, rows = evidence.logistics.fit[t], own.size // 2
    factor = np.linalg.inv(state.fits[at + size : at + size + size * size].reshape(size, size))
    residuals = state.fits[at + size + size * size :][: 2 * rows].reshape(2, rows)
    return Coefficients(own.logistic.names, state.fits[at : at + size].copy(), factor @ factor.T, *residuals.copy())


def check_beliefs(evidence: Evidence, state: State) -> None:
    """Refuse a state from a file with beliefs of logistic tables that are none."""
    if evidence.logistics.number and request_in(evidence, state).any():
        raise FormatError("it has a request, which no file has")
    for name, table in evidence.entries.model.learned.items():
        if table.logistic is None:
            continue
        at, size = evidence.logistics.fit[_number(evidence, name)], len(table.logistic.names)
        factor = state.fits[at + size : at + size + size * size].reshape(size, size)
        variance = state.fits[at + size + size * size + table.size // 2 :][: table.size // 2]
        if not (np.diag(factor) >= LEAST_DIAGONAL).all() or np.tril(factor, -1).any():
            raise FormatError(f"learned table {name!r}: the precision of its coefficients has no such factor")
        if (variance > 0).all() != (table.logistic.residuals > 0) or (variance < 0).any():
            raise FormatError(f"learned table {name!r}: its residuals have other variances")


def _number(evidence: Evidence, table: str) -> int:
    return [t.name for t in evidence.entries.model.learned.values() if t.logistic is not None].index(table)


def carry(old: Evidence, before: State, new: Evidence, after: State) -> None:
    """Put what was known of coefficients into a state of another diagram: by their names, residuals by rows' labels.

    Coefficients that are new start from their prior, apart from the others; those that are gone are integrated out.
    """
    for name, table in new.entries.model.learned.items():
        other = old.entries.model.learned.get(name)
        if table.logistic is None or other is None or other.logistic is None:
            continue
        known = coefficients_of(old, before, name)
        _carry_coefficients(known, new, after, name, table.logistic)
        t, size = _number(new, name), len(table.logistic.names)
        first = new.logistics.fit[t] + size + size * size
        residuals = after.fits[first : first + 2 * (table.size // 2)].reshape(2, table.size // 2)
        if table.logistic.residuals and other.logistic.residuals:
            places = {labels: k for k, labels in enumerate(_rows(old.entries.model, name))}
            for k, labels in enumerate(_rows(new.entries.model, name)):
                if labels in places:
                    residuals[:, k] = known.residual_mean[places[labels]], known.residual_variance[places[labels]]


def _carry_coefficients(known: Coefficients, new: Evidence, after: State, table: str, logistic: Logistic) -> None:
    fresh = coefficients_of(new, after, table)
    places = {column: i for i, column in enumerate(known.names)}
    here = [i for i, column in enumerate(logistic.names) if column in places]
    there = [places[logistic.names[i]] for i in here]
    mean, covariance = fresh.mean, fresh.covariance
    mean[here] = known.mean[there]
    covariance[np.ix_(here, here)] = known.covariance[np.ix_(there, there)]
    at, size = new.logistics.fit[_number(new, table)], len(mean)
    precision = np.linalg.inv(covariance)
    after.fits[at : at + size] = mean
    after.fits[at + size : at + size + size * size] = np.linalg.cholesky((precision + precision.T) / 2).T.ravel()


def _rows(model: Model, table: str) -> list[tuple[object, ...]]:
    labels = row_labels(model, table).labels
    shape = model.learned[table].shape
    return [tuple(axis[i] for axis, i in zip(labels, index, strict=True)) for index in np.ndindex(shape)]
