"""Plan of a chain that describes a posterior: rows to draw, groups to visit and entries to record in each step.

Rows in no group need no draws: their pseudo-counts are the posterior. Groups that read a retired row are visited only
in some steps, together with all others, so the cost of a step does not grow with the moves of an agent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import starts
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import terms_of_keys
from idbandits.inference.state.state import FILLED, GROUPS, USED, State, group_columns
from idbandits.inference.state.state_likelihood import keeps_evidence
from idbandits.kernel.array_types import Bools, Indices, Ints
from idbandits.kernel.messages import say
from idbandits.kernel.structs import Packed, pack, unpacker

CHAIN = 2000  # steps that describe a posterior, if they are affordable
FEWEST_STEPS = 100  # otherwise
WARM_UP = 0.2  # part of these that is discarded
BUDGET, LONGEST = 6e8, 5e9  # nanoseconds that they may take: more than the first only for FEWEST_STEPS
FEWEST_SWEEPS = 20  # of all groups
LONG = 1.5e9  # estimated nanoseconds that are announced; the estimate is low for latent nodes with many states
SWEEP_COST = 1.5  # of a group in a sweep, in which tables move, relative to other steps
FEW_GROUPS = 64  # not worth a distinction
MOST_VISITS = 10_000  # of groups in a step that is not a sweep
# nanoseconds of a step, roughly: for a number in a key, for an entry that is drawn, and for one that moves
NUMBER, ENTRY, MOVED_ENTRY = 25.0, 40.0, 60.0


class Plan(NamedTuple):
    """Plan of a chain, as a structure for kernels."""

    rows: int
    row: Indices  # rows to draw in every step, by their first entries
    currents: int
    current: Indices  # groups to visit in every step
    visits: int  # of these, in a step
    sweep_every: int  # steps between visits to all groups, in which tables move
    update_every: int  # steps between draws of the parameters of regressions
    fit_every: int  # steps between fits of regressions, a multiple of `update_every`
    columns: int
    column: Indices  # entries to record
    symmetries: int  # sets of latent states that are interchangeable
    symmetry: Indices  # of a set: its exchanges of neighbouring states; last, the end
    exchange: Indices  # of an exchange: its places in the next two; last, the end
    target: Indices  # an entry
    source: Indices  # the one that takes its place


unpack_plan = unpacker(Plan)


class Planned(NamedTuple):
    """A plan with its length and cost."""

    packed: Packed
    columns: Ints  # entries that are recorded
    steps: int  # that are affordable
    warm_up: int  # steps before these, which are discarded
    cost: float  # of a step: nanoseconds, roughly

    def announce(self, steps: int) -> None:
        """Print a notice if steps of the chain take long."""
        if self.cost * steps > LONG:
            say(f"drawing {len(self.columns):,} means along a chain of {steps:,} steps; this takes a while …")


def planned(evidence: Evidence, state: State, *, whole: bool) -> Planned:
    """Return the plan for a state. All live rows are drawn and recorded if `whole`, else those that need it.

    If not `whole`, only the second state is recorded of rows with two states.
    """
    live, own = evidence.live, evidence.entries
    changing = _changing_rows(evidence, state)
    firsts, entries = own.firsts[own.firsts < live], np.arange(live)
    rows = firsts if whole else firsts[changing[firsts]]
    shown = changing[own.row[:live]] & ((own.size[:live] != 2) | (own.row[:live] != entries))
    columns = entries if whole else np.flatnonzero(shown)
    current = _current_groups(evidence, state)
    groups, numbers, visits = int(state.ints[USED]), int(state.ints[FILLED]), min(len(current), MOST_VISITS)
    sweep_every = max(1, -(-groups // max(visits, FEW_GROUPS)))
    sweep_every = sweep_every if sweep_every == 1 else int(SWEEP_COST * sweep_every)
    moved_entries = float(own.size[own.firsts[:-1][changing[own.firsts[:-1]]]].sum())
    cost = 1000.0 + ENTRY * float(own.size[rows].sum()) + (NUMBER * numbers + MOVED_ENTRY * moved_entries) / sweep_every
    if sweep_every > 1:
        cost += NUMBER * numbers * visits / groups
    with_features = np.asarray(evidence.regressions.row, np.int64)
    update_every = max(1, -(-len(with_features) // max(FEW_GROUPS, int((with_features < live).sum()))))
    fit_every = update_every * (1 + int(evidence.cost_of_fit / (cost * update_every)))
    cost += evidence.cost_of_fit / fit_every
    fewest = max(FEWEST_STEPS if cost * FEWEST_STEPS < LONGEST else 0, FEWEST_SWEEPS * sweep_every)
    steps = int(np.clip(BUDGET / cost, min(fewest, CHAIN), CHAIN))
    sets = symmetries_of(evidence, state)
    orders = [order for every in sets for order in every]
    moved = [np.flatnonzero(order != entries).tolist() for order in orders]
    plan = Plan(
        rows=len(rows), row=rows.tolist(), currents=len(current), current=current.tolist(), visits=visits,
        sweep_every=sweep_every, update_every=update_every, fit_every=fit_every,
        columns=len(columns), column=columns.tolist(), symmetries=len(sets), symmetry=starts(sets),
        exchange=starts(moved), target=[e for places in moved for e in places],
        source=[e for order, places in zip(orders, moved, strict=True) for e in order[places].tolist()],
    )  # fmt: skip
    # `learn` leaves a chain in equilibrium, except for regressions, which it keeps, and for long logs
    is_settled = steps == CHAIN and not evidence.regressions.number
    return Planned(pack(plan), columns, steps, 0 if is_settled else int(WARM_UP * steps), cost)


def _changing_rows(evidence: Evidence, state: State) -> Bools:
    """Return whether a group reads a row or its prior is a regression, for the first entry of every row."""
    n = evidence.learned
    changing: Bools = state.ints[int(state.ints[GROUPS]) + n :][:n] > 0
    changing[np.asarray(evidence.regressions.row, np.int64)] = True
    return changing


def _current_groups(evidence: Evidence, state: State) -> Ints:
    """Return the groups that read no retired row; all groups if the others are few."""
    groups = group_columns(state.ints)
    every = np.arange(len(groups.counts))
    if evidence.live == evidence.learned:
        return every
    sizes = np.diff(groups.starts)
    retired = (groups.keys >= evidence.live) & (groups.keys < evidence.learned)
    past = np.unique(np.repeat(every, sizes)[retired & (terms_of_keys(groups.keys, sizes) >= 0)])
    return np.delete(every, past) if len(past) > FEW_GROUPS else every


def symmetries_of(evidence: Evidence, state: State) -> list[list[Ints]]:
    """Return sets of exchanges of neighbouring latent states that leave prior and likelihood of a state unchanged.

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
