"""Gibbs sampling: latent counts given means, means given latent counts; converges to the exact posterior."""

from typing import final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.circuit.passes import split
from idbandits.errors import check_whole
from idbandits.inference.counting import count_round
from idbandits.inference.evidence import Evidence
from idbandits.inference.protocol import DONE, LATER, MOST_STEPS, THOROUGHLY, BuiltIn, Round, learner
from idbandits.inference.workspace import MEANS as BY_MEANS
from idbandits.kernel.columns import DERIVED, PSEUDO_COUNTS, Layout
from idbandits.kernel.compiling import FLOATS, INTS, bare, kernel
from idbandits.kernel.draws import draw_rows
from idbandits.kernel.fields import pointer
from idbandits.kernel.random import RNG
from idbandits.kernel.states import FIGURES, SETTING, USED, Groups, State, copy, groups_in, section, with_groups
from idbandits.kernel.types import Floats, Ints, Rng

from idbandits.inference.workspace import (  # isort: skip
    GIVEN, Workspace, held, mark_same, nodes_of, read_key, scratch, unmark_same, value_of_part, workspace,
)  # fmt: skip

STEPS = SETTING  # of the header
ALPHA, BASE, MEANS = range(3)  # sections of the floats: pseudo-counts given latent counts, those of what is determined,
# drawn means
MANY_STEPS = 200  # after many rounds at once
CHAIN = 2000  # steps that describe the posterior


@bare
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Count the round, then draw latent counts anew."""
    learned, groups = w.v.learned, groups_in(ints)
    base = section(floats, BASE, learned)
    status, _ = count_round(w, groups, base, round_)
    if status != DONE or round_.effort == LATER:
        return status
    many = round_.effort == THOROUGHLY and ints[USED] > 0
    for _ in range(max(ints[STEPS], MANY_STEPS) if many else ints[STEPS]):
        step(w, groups, section(floats, ALPHA, learned), base, section(floats, MEANS, learned), rng)
    return DONE


@bare
def step(w: Workspace, groups: Groups, alpha: Floats, base: Floats, means: Floats, rng: Rng) -> None:
    """Draw all means, and with them all latent counts; the pseudo-counts are then those given these counts."""
    v, used = w.v, groups.header[USED]
    if used == 0:
        copy(base, alpha, v.learned)
        return
    draw_rows(v.size, v.learned, alpha, rng, means)
    copy(base, w.fresh, v.learned)
    for g in range(used):
        times = groups.counts[g]
        if times == 0:
            continue
        key = pointer(groups.keys, g * v.width)
        j = key[0]
        missing = read_key(w, key)
        if missing:
            mark_same(w, j)
        if value_of_part(w, j, GIVEN, means) < 1e-290:  # means at the edge of what numbers can hold
            value_of_part(w, j, BY_MEANS, alpha)
        for t in range(v.use_start[j], v.use_start[j + 1]):
            w.marks[v.use[t]] = 0
        split(nodes_of(w, j), w.weights, w.values, w.same, times, rng, w.visits, w.marks)
        for t in range(v.use_start[j], v.use_start[j + 1]):
            slot = v.use[t]
            if w.entries[slot] < v.learned:
                w.fresh[w.entries[slot]] += w.marks[slot]
        if missing:
            unmark_same(w, j)
    copy(w.fresh, alpha, v.learned)


@kernel(types.int64(INTS, FLOATS, INTS, FLOATS, RNG, types.float64[:, ::1]))
def chain(program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, draws: Floats) -> int:
    """Draws of the means along a chain that goes on from a state, one per row; how many."""
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    learned, groups = w.v.learned, groups_in(ints)
    alpha, base = section(floats, ALPHA, learned), section(floats, BASE, learned)
    for i in range(len(draws)):
        step(w, groups, alpha, base, section(floats, MEANS, learned), rng)
        draw_rows(w.v.size, learned, alpha, rng, pointer(draws, i * learned))
    return int(held(len(draws), int_scratch, float_scratch))


@final
class Gibbs(BuiltIn):
    """Gibbs sampling: `steps` draws of all latent counts per round, at a cost that does not grow with the counts."""

    revisable = True
    learn = learner("Gibbs")(learn)

    def __init__(self, steps: int = 1) -> None:
        self.settings = {"steps": check_whole("steps", steps, 1, MOST_STEPS)}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        floats = np.concatenate([evidence.prior, np.zeros(FIGURES), evidence.prior, evidence.prior])
        return with_groups(floats, evidence.parts, evidence.width, 0, (self.settings["steps"],))

    def layout(self, evidence: Evidence) -> Layout:
        """The pseudo-counts of two sections; means are drawn before they are used."""
        n = evidence.learned
        return Layout([(PSEUDO_COUNTS, n), (DERIVED, FIGURES), (PSEUDO_COUNTS, n)], keys=evidence.key_ranges)

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Draws along a chain that goes on from the state; where nothing is latent, the pseudo-counts say all."""
        if state.ints[USED] == 0:
            return state.floats[: evidence.learned]
        draws = np.empty((CHAIN, evidence.learned))
        chain(evidence.program, evidence.numbers, state.ints, state.floats.copy(), rng, draws)
        return draws
