"""Logistic tables: built from a diagram, stored in states, taken back by rounds, and carried to other diagrams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.features.context_features import Logistic, RequestFeatures, hyperprior
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
UNCHANGED = 1e-3  # part of the prior variance or deviation by which a residual must differ to be kept


def offsets(sizes: Iterable[int], first: int = 0) -> list[int]:
    """Return the places of consecutive stretches of these sizes."""
    return [*accumulate(sizes, initial=first)][:-1]


def _logistic(table: LearnedTable) -> Logistic:
    assert table.logistic is not None
    return table.logistic


def logistics_of(entries: Entries, before: int) -> Logistics:
    """Return the logistic tables of a state, for kernels; in fits, they come after `before` other numbers."""
    tables = list(entries.logistic.values())
    own, number = [_logistic(t) for t in tables], len(tables) - len(entries.absent)
    firsts = dict(zip(entries.model.learned, entries.table_firsts, strict=True))
    entry = [firsts.get(t.name, 0) for t in tables]
    rows, sizes = [t.size // 2 for t in tables[:number]], [len(logistic.names) for logistic in own]
    rows += [0] * len(entries.absent)
    retired = [list(entries.retired_of(t.name, 2, len(t.shape))) for t in tables]
    designs = [
        np.vstack([logistic.design[:live], logistic.encoded([line for _, line in gone])])
        for logistic, live, gone in zip(own, rows, retired, strict=True)
    ]
    total = [len(design) for design in designs]
    retired_table, retired_row = (np.full(entries.learned - entries.live, -1) for _ in range(2))
    for t, gone in enumerate(retired):
        for k, (first, _) in enumerate(gone):
            place = slice(first - entries.live, first - entries.live + 2)
            retired_table[place], retired_row[place] = t, rows[t] + k
    priors, firsts_of_coefficients = [hyperprior(table) for table in tables], offsets(sizes)
    centre, spread = np.zeros(sum(sizes)), np.repeat([prior.slope_sd for prior in priors], np.array(sizes, np.int64))
    centre[firsts_of_coefficients] = [prior.intercepts[0] for prior in priors]
    spread[firsts_of_coefficients] = [prior.intercept_sd for prior in priors]
    slots = _slots(entries)
    widths = [len(slot.features.columns) for slot in slots]
    requests = offsets(widths, before)
    return Logistics(
        number=number, every=len(tables), most_coefficients=max(sizes, default=0), entry=entry, rows=rows, total=total,
        columns=[design.shape[1] for design in designs], width=[len(logistic.request.columns) for logistic in own],
        products=[int(logistic.products) for logistic in own], size=sizes,
        fit=offsets((n + n * n + 2 * k for n, k in zip(sizes, total, strict=True)), before + sum(widths)),
        request=[requests[[slot.is_of(logistic) for slot in slots].index(True)] for logistic in own],
        first=firsts_of_coefficients, line=offsets(design.size for design in designs), row_start=offsets(rows),
        fixed=[int(k in t.fixed) for t in tables[:number] for k in range(t.size // 2)],
        retired_table=retired_table.tolist(), retired_row=retired_row.tolist(),
        others=number + 1, other_start=[0, *(first + t.size for first, t in zip(entry, tables[:number], strict=False))],
        other_end=[*entry[:number], entries.live], residual=np.array([logistic.residuals**2 for logistic in own]),
        design=np.concatenate([np.empty(0), *(design.ravel() for design in designs)]), centre=centre, spread=spread,
    )  # fmt: skip


class _Slot(NamedTuple):
    """A context whose features in the current request are stored in states."""

    context: str
    features: RequestFeatures

    def is_of(self, logistic: Logistic) -> bool:
        """Return whether a table reads this slot."""
        return self.context == logistic.context and self.features.to_data() == logistic.request.to_data()


def _slots(entries: Entries) -> list[_Slot]:
    """Return the slots of the contexts of the diagram, then of those that only absent tables depend on."""
    slots = [_Slot(node.name, node.features) for node in entries.model.contexts if node.features is not None]
    for logistic in map(_logistic, entries.absent):
        if not any(slot.is_of(logistic) for slot in slots):
            slots.append(_Slot(logistic.context, logistic.request))
    return slots


def first_beliefs(entries: Entries, q: Logistics) -> Floats:
    """Return the fits of logistic tables before the first round, after a request whose features are all zero."""
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
    return [f"{slot.context}.{column}" for slot in _slots(entries) for column in slot.features.columns]


def request_size(entries: Entries) -> int:
    """Return how many numbers a state has for requests."""
    return len(request_names(entries))


def request_width(model: Model) -> int:
    """Return how many numbers the features of all contexts have."""
    return sum(len(node.features.columns) for node in model.contexts if node.features is not None)


def translated_requests(requests: Floats, old: Model, new: Entries, rounds: int) -> Floats:
    """Return the features of contexts in rounds of an earlier diagram as states have them: one line per round.

    Columns with equal names have equal encodings (`Diagram.with_encodings_of`); new columns are 0.
    """
    places = {name: k for k, name in enumerate(request_names(old.derived(Entries)))}
    names = request_names(new)
    translated = np.zeros((rounds, len(names)))
    for k, name in enumerate(names):
        if name in places:
            translated[:, k] = requests[:, places[name]]
    return translated


def request_in(evidence: Evidence, state: State) -> Floats:
    """Return the vector of the current request in a state (a view); the contexts of the diagram come first."""
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
    """Normal belief of the coefficients of a logistic table and of the residuals of its rows."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    residual_mean: Floats
    residual_variance: Floats


class _Belief(NamedTuple):
    """Belief of a logistic table in a state: views."""

    mean: Floats
    factor: Floats
    residuals: Floats  # means, then variances, of all rows; retired rows come last


def _belief(evidence: Evidence, state: State, table: str) -> _Belief:
    q, t = evidence.logistics, list(evidence.entries.logistic).index(table)
    size, rows, at = int(q.size[t]), int(q.total[t]), int(q.fit[t])
    mean, factor, residuals = np.split(state.fits[at : at + size + size * size + 2 * rows], [size, size + size * size])
    return _Belief(mean, factor.reshape(size, size), residuals.reshape(2, rows))


def coefficients_of(evidence: Evidence, state: State, table: str) -> Coefficients:
    """Return the coefficients of a logistic table in a state, and the residuals of its rows in the diagram."""
    own, belief = evidence.entries.logistic[table], _belief(evidence, state, table)
    half = np.linalg.inv(belief.factor)
    rows = own.size // 2 if table in evidence.entries.model.learned else 0
    return Coefficients(_logistic(own).names, belief.mean.copy(), half @ half.T, *belief.residuals[:, :rows].copy())


def check_beliefs(evidence: Evidence, state: State) -> None:
    """Raise if a state from a file has invalid beliefs of logistic tables."""
    if evidence.logistics.every and request_in(evidence, state).any():
        raise FormatError("the features of the current request must be zero in a file")
    for name, table in evidence.entries.logistic.items():
        _, factor, (_, variance) = _belief(evidence, state, name)
        if not (np.diag(factor) >= LEAST_DIAGONAL).all() or np.tril(factor, -1).any():
            raise FormatError(f"learned table {name!r}: the factor of a precision must be triangular and positive")
        if ((variance > 0) != (_logistic(table).residuals > 0)).any() or (variance < 0).any():
            raise FormatError(f"learned table {name!r}: variances of residuals must be positive where declared, else 0")


def _places(entries: Entries, table: LearnedTable) -> dict[tuple[Label, ...], int]:
    """Return the places of all rows of a logistic table among its residuals by labels; retired rows come last."""
    kind = table.name, 2, len(table.shape)
    own = [labels for name, states, labels in entries.rows if (name, states, len(labels)) == kind]
    return {labels: k for k, labels in enumerate(own)}


def has_residual(old: Evidence, state: State, new: Entries) -> Bools:
    """Return whether an entry's row has a residual that was learned and that `new` can have, for every entry."""
    entries, learned = old.entries, np.zeros(old.learned, np.bool_)
    for name, table in entries.logistic.items():
        other, sd = new.logistic.get(name), _logistic(table).residuals
        if not sd or other is None or not _logistic(other).residuals:
            continue
        mean, variance = _belief(old, state, name).residuals
        changed = (variance < (1 - UNCHANGED) * sd**2) | (np.abs(mean) > UNCHANGED * sd)
        for labels, k in _places(entries, table).items():
            first = entries.rows[name, 2, labels].first
            learned[first : first + 2] = changed[k]
    return learned


class Contribution(NamedTuple):
    """Remaining contribution of a round to a state (`logistic_update.learn_request`), and the request of the round."""

    entries: Ints
    values: Floats
    request: Floats


def take_back(evidence: Evidence, state: State, rounds: Sequence[Contribution]) -> None:
    """Subtract the contributions of rounds from a state, in place."""
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
            first = int(q.request[t]) - evidence.first_request
            request = requests[own_lines, first : first + int(q.width[t])]
            lines = _lines(q, t, row[own_lines], request)
            _subtract(_belief(evidence, state, table.name), table, row[own_lines], lines, values[own_lines])
    plain = entries[~is_logistic]
    counts = np.bincount(plain, values[~is_logistic, 0], minlength=evidence.learned)
    changed = np.unique(plain)
    least = LEAST_PART * state.floats[evidence.learned + changed]  # rounds do not add up exactly
    state.floats[changed] = np.maximum(state.floats[changed] - counts[changed], least)


def _lines(q: Logistics, t: int, rows: Ints, requests: Floats) -> Floats:
    """Return the factors of the coefficients of a logistic table, for some rows and requests."""
    first, columns = int(q.line[t]), int(q.columns[t])
    design = np.asarray(q.design)[first : first + int(q.total[t]) * columns].reshape(-1, columns)[rows]
    products = (design[:, 1:, None] * requests[:, None, :]).reshape(len(rows), -1)
    return np.hstack([design, requests, products] if q.products[t] else [design, requests])


def _subtract(belief: _Belief, table: LearnedTable, rows: Ints, lines: Floats, values: Floats) -> None:
    """Subtract natural parameters from the belief of a logistic table."""
    sd = _logistic(table).residuals
    precision = belief.factor.T @ belief.factor
    shift = precision @ belief.mean - values[:, 1] @ lines
    precision -= (lines * values[:, :1]).T @ lines
    try:
        belief.factor[:] = np.linalg.cholesky((precision + precision.T) / 2).T
    except np.linalg.LinAlgError:
        raise ObservationError(
            f"the round must have been learned: without it, the precision of {table.name!r} would be negative"
        ) from None
    belief.mean[:] = np.linalg.solve(precision, shift)
    if sd:
        means, variances = belief.residuals
        precisions, shifts = (np.bincount(rows, values[:, k], minlength=len(means)) for k in (2, 3))
        after = np.maximum(1.0 / variances - precisions, 1.0 / sd**2)
        means[:] = (means / variances - shifts) / after
        variances[:] = 1.0 / after


def carry(old: Evidence, before: State, new: Evidence, after: State) -> None:
    """Copy beliefs of coefficients by name, and of residuals by labels of rows, to a state of another diagram.

    New coefficients start from their prior, independent of the others; removed ones are integrated out.
    """
    for name, table in new.entries.logistic.items():
        other = old.entries.logistic.get(name)
        if other is None:
            continue
        known, own = _belief(old, before, name), _belief(new, after, name)
        if _logistic(table).names == _logistic(other).names:
            own.mean[:], own.factor[:] = known.mean, known.factor
        else:
            _carry_coefficients(coefficients_of(old, before, name), coefficients_of(new, after, name), own)
        if _logistic(table).residuals and _logistic(other).residuals:
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
