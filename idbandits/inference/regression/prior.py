"""Priors that are regressions on features: built from a diagram, stored in states, and fitted on a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idbandits.circuit.build import starts
from idbandits.diagram.features.design import TableFeatures
from idbandits.diagram.tables import LearnedTable
from idbandits.errors import FormatError
from idbandits.inference.regression.density import HIGH, LOW, SCALE, shift_priors, write_priors
from idbandits.inference.regression.fit import SCALES, SKEWS, refit
from idbandits.inference.regression.logistic_setup import first_beliefs, offsets
from idbandits.inference.rounds.workspace import Regressions
from idbandits.inference.state.sections import PSEUDO_COUNTS, Layout
from idbandits.inference.state.state import NEXT_FIT, ROUNDS, State
from idbandits.inference.transfer.row_index import Entries
from idbandits.kernel.array_types import Floats, Ints, Rng

if TYPE_CHECKING:  # `evidence` imports this module
    from idbandits.inference.rounds.evidence import Evidence

MOST_COUNT = 1e12  # of an entry, for a fit
LEAST_DIAGONAL = 1e-7  # of the factor of a precision, in files


class Schedule(NamedTuple):
    """Rounds after which regressions are fitted again; every action draws parameters from the last fit."""

    growth: float = 0.02  # the part of all rounds that is learned between two fits
    most_between: int = 100  # rounds between two fits, unless they are expensive
    fitting: float = 20_000.0  # nanoseconds of fitting that a round may cost, in the long run
    early: int = 5_000  # rounds whose share may be spent from the beginning

    def next(self, rounds: int, cost: float) -> int:
        """Return the round of the next fit after this one, which takes `cost` nanoseconds."""
        between = min(self.growth * rounds, self.most_between)
        return rounds + max(1, int(between), int(cost / self.allowance(rounds)))

    def allowance(self, rounds: int) -> float:
        """Return how many nanoseconds of fitting a round may cost."""
        return self.fitting * (1.0 + self.early / max(1, rounds))


SCHEDULE = Schedule()


def regressions_of(entries: Entries) -> Regressions:
    """Return the tables whose priors are regressions, for kernels."""
    states, columns, rows, designs = list[int](), list[int](), list[list[int]](), list[Floats]()
    of_table = [-1] * (int(entries.table.max(initial=-1)) + 1)
    centres, spreads = list[Floats](), list[Floats]()
    firsts = dict(zip(entries.model.learned, entries.table_firsts, strict=True))
    for table, features in _regressing(entries):
        first, own = firsts[table.name], [k for k in range(table.size // table.states) if k not in table.fixed]
        retired = list(entries.retired_of(table.name, table.states))
        of_table[entries.table[first]] = len(states)
        states.append(table.states)
        columns.append(len(features.names))
        rows.append([*(first + k * table.states for k in own), *(at for at, _ in retired)])
        designs += [features.design[own].ravel(), features.encoded([line for _, line in retired]).ravel()]
        hyperprior = features.hyperprior(table.prior, table.states, len(features.names))
        centre = np.zeros((table.states - 1, columns[-1]))
        centre[:, 0] = hyperprior.intercepts
        spread = np.full(centre.shape, hyperprior.slope_sd)
        spread[:, 0] = hyperprior.intercept_sd
        centres.append(np.append(centre, hyperprior.log_strength))
        spreads.append(np.append(spread, hyperprior.log_strength_sd))
    sizes = [len(centre) for centre in centres]
    return Regressions(
        number=len(states), most_parameters=max(sizes, default=0), states=states, columns=columns,
        first=offsets(sizes), fit=offsets(n * (n + 2) + 3 for n in sizes), start=starts(rows), of_table=of_table,
        row=np.array([e for own in rows for e in own], np.int64),
        line=offsets(len(own) * n for own, n in zip(rows, columns, strict=True)),
        design=np.concatenate([np.empty(0), *designs]), centre=np.concatenate([np.empty(0), *centres]),
        spread=np.concatenate([np.empty(0), *spreads]),
    )  # fmt: skip


def first_fits(r: Regressions) -> Floats:
    """Return the fits before the first round: the hyperpriors."""
    fits = list[Floats]()
    for first, states, columns in zip(r.first, r.states, r.columns, strict=True):
        own = slice(first, first + columns * (states - 1) + 1)
        centre = np.asarray(r.centre)[own]
        fits += [centre, np.diag(1.0 / np.asarray(r.spread)[own]).ravel(), centre, np.ones(3)]
    return np.concatenate([np.empty(0), *fits])


def carry_fits(old: Evidence, before: State, new: Evidence, after: State) -> None:
    """Start the regressions of a state from those of a state of another diagram, by the names of columns.

    A fit stops near the mode, at a point that depends on its start: otherwise the move alone would change rows.
    """
    places = {table.name: t for t, (table, _) in enumerate(_regressing(old.entries))}
    tables = old.entries.model.learned
    for t, (table, features) in enumerate(_regressing(new.entries)):
        there, other = places.get(table.name), tables.get(table.name)
        if there is None or other is None or other.features is None or other.states != table.states:
            continue
        known, own = _fit(old.regressions, there, before), _fit(new.regressions, t, after)
        columns = {column: i for i, column in enumerate(other.features.names)}
        here = [i for i, column in enumerate(features.names) if column in columns]
        from_ = [columns[features.names[i]] for i in here]
        states = table.states - 1
        own.mode[:-1].reshape(states, -1)[:, here] = known.mode[:-1].reshape(states, -1)[:, from_]
        own.mode[-1], own.shape[:] = known.mode[-1], known.shape
        if features.names == other.features.names:
            own.factor[:] = known.factor


def _regressing(entries: Entries) -> list[tuple[LearnedTable, TableFeatures]]:
    """Return the tables whose prior is a regression with their features, in their order in `fits`."""
    tables = entries.model.learned.values()
    return [(table, table.features) for table in tables if table.features is not None and table.logistic is None]


class _Fit(NamedTuple):
    """Fit of a regression in a state: views."""

    mode: Floats  # coefficients by state, then the logarithm of the strength
    factor: Floats
    shape: Floats  # two widths of the strength, and the scale of slopes


def _fit(r: Regressions, t: int, state: State) -> _Fit:
    size, at = r.columns[t] * (r.states[t] - 1) + 1, r.fit[t]
    own = state.fits[at : at + size * (size + 2) + 3]
    return _Fit(own[:size], own[size : size + size * size], own[size * (size + 2) :])


def with_regressions(evidence: Evidence, state: State) -> State:
    """Return a new state with the fits of regressions, and the beliefs of logistic tables."""
    if evidence.regressions.number:
        state.ints[NEXT_FIT] = 1
    beliefs = first_beliefs(evidence.entries, evidence.logistics)
    fits = np.concatenate([first_fits(evidence.regressions), beliefs])
    return State(state.ints, state.floats, fits, *evidence.new_scratch())


def prior_in(evidence: Evidence, state: State) -> Floats:
    """Return the prior of all entries in a state: as declared, or by regressions (a view)."""
    if not evidence.regressions.number:
        return evidence.prior
    return state.floats[evidence.learned : 2 * evidence.learned]


def check_fits(evidence: Evidence, state: State) -> None:
    """Raise if a state from a file has invalid fits of regressions."""
    for t, (table, _) in enumerate(_regressing(evidence.entries)):
        (mode, factor, shape), owner = _fit(evidence.regressions, t, state), f"learned table {table.name!r}"
        factor = factor.reshape(len(mode), len(mode))
        if not (np.diag(factor) >= LEAST_DIAGONAL).all() or np.triu(factor, 1).any():
            raise FormatError(f"{owner}: the factor of a precision must be triangular and positive")
        if not (min(SKEWS) <= shape[LOW] <= max(SKEWS) and min(SKEWS) <= shape[HIGH] <= max(SKEWS)):
            raise FormatError(f"{owner}: widths of the strength must be in [{SKEWS[0]}, {SKEWS[1]}], got {shape[:2]}")
        if not SCALES[0] <= shape[SCALE] <= SCALES[1]:
            raise FormatError(f"{owner}: the scale of slopes must be in [{SCALES[0]}, {SCALES[1]}], got {shape[SCALE]}")


def sections_of(layout: Layout, learned: int) -> Ints:
    """Return the places of the sections of pseudo-counts that are shifted with the prior: all but the prior itself."""
    first, sections = 0, [0]
    for kind, size in layout.floats:
        if kind is PSEUDO_COUNTS:
            sections += range(first, first + size, learned)
        first += size
    return np.array(sorted({*sections} - {learned}), dtype=np.int64)


def counts_in(evidence: Evidence, state: State) -> Floats:
    """Return the counts of a state: pseudo-counts without the prior."""
    return np.clip(state.floats[: evidence.learned] - prior_in(evidence, state), 0.0, MOST_COUNT)


def fit_regressions(evidence: Evidence, sections: Ints, state: State, rng: Rng, *, drawn: bool) -> None:
    """Fit all regressions of a state to its counts, and replace its priors by theirs.

    Priors are by parameters that are drawn, or by those at the mode.
    """
    refit(*evidence.packed, counts_in(evidence, state), state.fits, rng, drawn)
    put_priors(evidence, sections, state, priors_by_fits(evidence, state, at_modes=False))
    state.ints[NEXT_FIT] = SCHEDULE.next(int(state.ints[ROUNDS]), evidence.cost_of_fit)


def priors_by_fits(evidence: Evidence, state: State, *, at_modes: bool) -> Floats:
    """Return priors of rows with features, by parameters at the modes of the fits or by current ones; 0 for others."""
    prior = np.zeros(evidence.learned)
    write_priors(*evidence.packed, state.fits, at_modes, prior)
    return prior


def put_priors(evidence: Evidence, sections: Ints, state: State, prior: Floats) -> None:
    """Replace the priors of rows with features, and shift the pseudo-counts in sections of the state with them."""
    shift_priors(*evidence.packed, state.floats, sections, prior_in(evidence, state), prior)


def cost_of_fit(r: Regressions) -> float:
    """Return about how many nanoseconds a fit takes, if all rows have counts."""
    lengths = np.diff(r.start)
    sizes = np.asarray(r.columns, np.float64) * (np.asarray(r.states, np.float64) - 1) + 1
    return float((3 * (lengths * (80.0 * np.asarray(r.states) + 0.5 * sizes**2) + sizes**3)).sum())
