"""States carried to other entries: groups and pseudo-counts are renumbered."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from idbandits.inference.rounds.counting import FADED_ROW
from idbandits.inference.rounds.factors import terms_of_keys
from idbandits.inference.state.sections import MEANS, PSEUDO_COUNTS, Kind, Layout
from idbandits.inference.state.state import LEAST, NEXT_FIT, ROUNDS
from idbandits.inference.state.state_file import ALWAYS, Columns
from idbandits.inference.transfer.row_index import Entries
from idbandits.kernel.array_types import Bools, Floats, Ints

ROUNDING = 1e-9  # of pseudo-counts, as a part of them


def rename(keys: Ints, sizes: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Return keys with renumbered entries, members of terms in ascending order; and the old place of each number."""
    terms = terms_of_keys(keys, sizes)
    is_member = terms >= 0
    renamed, source = keys.copy(), np.arange(len(keys))
    entries = np.flatnonzero(is_member & (keys >= 0))
    renamed[entries] = places[keys[entries]]
    own = np.flatnonzero(is_member)
    source[own] = own[np.lexsort((renamed[own], terms[own]))]
    return renamed[source], source


def first_of_rows(keys: Ints, sizes: Ints, rows: Ints) -> Ints:
    """Return the place where its row occurs first in the factor, for every learned entry in keys; -1 for others.

    `rows` has the first entry of the row of each learned entry.
    """
    firsts = np.full(len(keys), -1)
    own = np.flatnonzero((terms_of_keys(keys, sizes) >= 0) & (keys >= 0) & (keys < len(rows)))
    group = np.repeat(np.arange(len(sizes)), sizes)[own]
    _, first, number = np.unique(group * max(1, len(rows)) + rows[keys[own]], return_index=True, return_inverse=True)
    firsts[own] = own[first[number]]
    return firsts


class Old(NamedTuple):
    """Columns of a state, with its entries and layout."""

    entries: Entries
    layout: Layout
    columns: Columns


def without_empty_groups(columns: Columns) -> Columns:
    """Return columns without the groups that have faded."""
    some = (columns.counts > 0) | (columns.weights >= FADED_ROW)
    if some.all():
        return columns
    kept = np.repeat(some, columns.sizes)
    return columns._replace(
        keys=columns.keys[kept], sizes=columns.sizes[some], weights=columns.weights[some], phases=columns.phases[some],
        sites=columns.sites[kept],
    )  # fmt: skip


def needed(old: Old, new: Entries, has_residual: Bools) -> Entries:
    """Return new entries with all that the old columns depend on: rows that were learned about, and known values.

    `has_residual` marks old entries of rows whose residuals were learned.
    """
    keys, is_needed = old.columns.keys, np.zeros(old.entries.learned + len(old.entries.known), np.bool_)
    is_needed[keys[(terms_of_keys(keys, old.columns.sizes) >= 0) & (keys >= 0)]] = True
    is_needed[: old.entries.learned] |= _is_learned(old) | has_residual
    return new.including(old.entries, is_needed)


def _is_learned(old: Old) -> Bools:
    """Return whether pseudo-counts differ from the prior, for every old entry, except for what has faded.

    Means do not tell: after the first round, all entries count as learned.
    """
    prior, rounds = old.entries.prior, int(old.columns.ints[list(ALWAYS).index(ROUNDS)])
    changed = np.zeros(len(prior), np.bool_)
    for kind, run in _kept_runs(old.columns.floats, old.layout):
        if kind is PSEUDO_COUNTS:
            changed |= (np.abs(_by_entry(run, len(prior)) - prior) > FADED_ROW + ROUNDING * prior).any(axis=0)
        elif kind is MEANS and rounds:
            changed[:] = True
    return changed


def _by_entry(run: Floats, learned: int) -> Floats:
    """Return a run with one number per entry, once or several times, as a matrix with a column per entry."""
    return run.reshape(len(run) // max(1, learned), learned)


def _kept_runs(floats: Floats, layout: Layout) -> Iterator[tuple[Kind, Floats]]:
    """Yield views of the runs of kept floats with their kinds."""
    first = 0
    for kind, size in layout.floats:
        if kind.kept:
            yield kind, floats[first : first + size]
            first += size


def renumbered(old: Old, new: Entries, layout: Layout, fresh: Columns) -> Columns:
    """Return old columns for new entries; entries that are new are as in `fresh`."""
    places, columns = new.places_of_entries(old.entries), old.columns
    floats = fresh.floats.copy()
    own = np.flatnonzero(places[: old.entries.learned] >= 0)
    at = places[own]
    shift = new.prior[at] - old.entries.prior[own]
    runs = zip(_kept_runs(columns.floats, old.layout), _kept_runs(floats, layout), strict=True)
    for (kind, before), (_, after) in runs:
        if kind is PSEUDO_COUNTS or kind is MEANS:
            if len(own) == 0:  # one of the two may have no entries at all
                continue
            known = _by_entry(before, old.entries.learned)[:, own]
            if kind is PSEUDO_COUNTS:
                known = np.where(shift == 0, known, np.maximum(known + shift, LEAST))
            _by_entry(after, new.learned)[:, at] = known
        else:
            after[:] = before
    keys, source = rename(columns.keys, columns.sizes, places)
    sites = np.zeros((len(keys), fresh.sites.shape[1]))
    width = min(sites.shape[1], columns.sites.shape[1])
    sites[:, :width] = columns.sites[source, :width]
    if layout.sites_by_row:
        first_before = first_of_rows(columns.keys, columns.sizes, old.entries.row)
        first_after = first_of_rows(keys, columns.sizes, new.row)
        firsts = np.flatnonzero(first_after == np.arange(len(keys)))
        sites[first_after >= 0] = 0.0
        sites[firsts, :width] = columns.sites[first_before[source[firsts]], :width]
    ints, next_fit = columns.ints.copy(), list(ALWAYS).index(NEXT_FIT)
    ints[next_fit] = fresh.ints[next_fit]
    return columns._replace(ints=ints, floats=floats, keys=keys, sites=sites, fits=fresh.fits)
