"""What a chain that describes a posterior does in each step: rows to draw, groups to visit, entries to record.

Rows in no group need no draws: their pseudo-counts say all. Groups that read a retired row are visited in some steps
only, together with all others: so the cost of a step is that of the present diagram, however often an agent moved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import starts
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import terms_of_keys
from idbandits.inference.state.state import FILLED, HEADER, USED, State, group_columns
from idbandits.inference.state.state_likelihood import keeps_evidence
from idbandits.kernel.array_types import Bools, Indices, Ints
from idbandits.kernel.messages import say
from idbandits.kernel.structs import Packed, pack, unpacker

CHAIN = 2000  # steps that describe a posterior, if they are affordable
FEWEST_STEPS = 100  # else
WARM_UP = 0.2  # the part of these that is not recorded
BUDGET, LONGEST = 6e8, 5e9  # about how many nanoseconds they may take; more than the first only to be as many as that
FEWEST_SWEEPS = 20  # of all groups
LONG = 1.5e9  # nanoseconds, by this estimate, which is low where a latent node has many states: the user is told
SWEEP_COST = 1.5  # of a group in a sweep, in which tables move, as a multiple of that in other steps
FEW_GROUPS = 64  # not worth a distinction
MOST_VISITS = 10_000  # of groups in a step, unless it is a sweep of all
# about how many nanoseconds a step takes for a number in a key, for an entry that is drawn, and for one that moves
NUMBER, ENTRY, MOVED_ENTRY = 25.0, 40.0, 60.0


class Plan(NamedTuple):
    """What a chain does in each step, as a structure for kernels."""

    rows: int
    row: Indices  # rows to draw in every step, by their first entries
    currents: int
    current: Indices  # groups to visit in every step
    visits: int  # of these, in a step
    sweep_every: int  # steps: then all groups are visited, and tables move
    update_every: int  # steps: then the parameters of regressions are drawn
    fit_every: int  # steps, a multiple: then regressions are fitted again
    columns: int
    column: Indices  # entries to record
    symmetries: int  # sets of latent states that are interchangeable
    symmetry: Indices  # of a set: its exchanges of neighbouring states; last, the end
    exchange: Indices  # of an exchange: its places in the next two; last, the end
    target: Indices  # an entry
    source: Indices  # the one that takes its place


unpack_plan = unpacker(Plan)


class Planned(NamedTuple):
    """A plan, and what follows from it."""

    packed: Packed
    columns: Ints  # entries that are recorded
    steps: int  # that are affordable
    warm_up: int  # steps before these, in which the chain forgets where it started
    cost: float  # of a step: about how many nanoseconds

    def announce(self, steps: int) -> None:
        """Tell the user that steps of the chain take long, if they do."""
        if self.cost * steps > LONG:
            say(f"drawing {len(self.columns):,} means along a chain of {steps:,} steps; this takes a while …")


class Visits(NamedTuple):
    """Which groups are visited in which steps."""

    current: Ints  # in every step, or in turn if there are many
    number: int  # of these in a step
    sweep_every: int  # steps: then all groups


class Pace(NamedTuple):
    """How many steps are affordable, and in which of them regressions are drawn and fitted."""

    update_every: int
    fit_every: int
    steps: int
    cost: float  # of a step: about how many nanoseconds


def planned(evidence: Evidence, state: State, *, whole: bool) -> Planned:
    """The plan for a state. All live rows are drawn and recorded if `whole`, else those that need it.

    Of rows with two states, only the second one is recorded then.
    """
    live, own = evidence.live, evidence.entries
    changing = _changing_rows(evidence, state)
    firsts, entries = own.firsts[own.firsts < live], np.arange(live)
    rows = firsts if whole else firsts[changing[firsts]]
    shown = changing[own.row[:live]] & ((own.size[:live] != 2) | (own.row[:live] != entries))
    columns = entries if whole else np.flatnonzero(shown)
    visits = _visits(evidence, state)
    pace = _pace(evidence, state, visits, rows, changing)
    sets = symmetries_of(evidence, state)
    orders = [order for every in sets for order in every]
    moved = [np.flatnonzero(order != entries).tolist() for order in orders]
    plan = Plan(
        rows=len(rows), row=rows.tolist(), currents=len(visits.current), current=visits.current.tolist(),
        visits=visits.number, sweep_every=visits.sweep_every, update_every=pace.update_every, fit_every=pace.fit_every,
        columns=len(columns), column=columns.tolist(), symmetries=len(sets), symmetry=starts(sets),
        exchange=starts(moved), target=[e for places in moved for e in places],
        source=[e for order, places in zip(orders, moved, strict=True) for e in order[places].tolist()],
    )  # fmt: skip
    # `learn` leaves a chain where it belongs, but for regressions, which it keeps, and for logs that are long
    is_settled = pace.steps == CHAIN and not evidence.regressions.number
    return Planned(pack(plan), columns, pace.steps, 0 if is_settled else int(WARM_UP * pace.steps), pace.cost)


def _changing_rows(evidence: Evidence, state: State) -> Bools:
    """Of the first entry of a row: whether a group reads the row, or its prior is a regression."""
    n = evidence.learned
    changing: Bools = state.ints[HEADER + n : HEADER + 2 * n] > 0
    changing[np.asarray(evidence.regressions.row, np.int64)] = True
    return changing


def _visits(evidence: Evidence, state: State) -> Visits:
    groups = group_columns(state.ints)
    current = np.arange(used := len(groups.counts))
    if evidence.live < evidence.learned:
        retired = (groups.keys >= evidence.live) & (groups.keys < evidence.learned)
        retired &= terms_of_keys(groups.keys, sizes := np.diff(groups.starts)) >= 0
        past = np.unique(np.repeat(current, sizes)[retired])
        if len(past) > FEW_GROUPS:
            current = np.delete(current, past)
    number = min(len(current), MOST_VISITS)
    sweep_every = max(1, -(-used // max(number, FEW_GROUPS)))
    return Visits(current, number, sweep_every if sweep_every == 1 else int(SWEEP_COST * sweep_every))


def _pace(evidence: Evidence, state: State, visits: Visits, rows: Ints, changing: Bools) -> Pace:
    own, numbers, groups = evidence.entries, int(state.ints[FILLED]), int(state.ints[USED])
    firsts = own.firsts[:-1]
    sweep = NUMBER * numbers + MOVED_ENTRY * float(own.size[firsts[changing[firsts]]].sum())
    cost = 1000.0 + ENTRY * float(own.size[rows].sum()) + sweep / visits.sweep_every
    if visits.sweep_every > 1:
        cost += NUMBER * numbers * visits.number / groups
    with_features = np.asarray(evidence.regressions.row, np.int64)
    update_every = max(1, -(-len(with_features) // max(FEW_GROUPS, int((with_features < evidence.live).sum()))))
    fit_every = update_every * (1 + int(evidence.cost_of_fit / (cost * update_every)))
    cost += evidence.cost_of_fit / fit_every
    fewest = max(FEWEST_STEPS if cost * FEWEST_STEPS < LONGEST else 0, FEWEST_SWEEPS * visits.sweep_every)
    return Pace(update_every, fit_every, int(np.clip(BUDGET / cost, min(fewest, CHAIN), CHAIN)), cost)


def symmetries_of(evidence: Evidence, state: State) -> list[list[Ints]]:
    """Sets of exchanges of neighbouring latent states that leave all that is known in a state unchanged.

    An exchange is an order of the entries that actions read.
    """
    sets = list[list[Ints]]()
    for orders in evidence.relabellings:
        is_kept = [keeps_evidence(evidence, state, order) for order in orders]
        for order, kept, before in zip(orders, is_kept, [False, *is_kept], strict=False):
            if kept and not before:
                sets.append([])
            if kept:
                sets[-1].append(order[: evidence.live])
    return sets
