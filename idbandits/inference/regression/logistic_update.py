"""How a round is learned where tables are logistic: pseudo-counts stand in for rows while an inference learns it.

Before the round, each row that it may be about gets the pseudo-counts that match the belief of its logit (the Laplace
bridge). The inference learns the round as always, latent nodes included. What it did to the pseudo-counts of a row then
becomes a density of the row's logit, and multiplies the belief of the coefficients; the row gets its own counts back.
"""

from typing import Any

import numpy as np
from numba import types

from idbandits.circuit.passes import entry
from idbandits.inference.act import put_features, remove_features
from idbandits.inference.ageing import age_of
from idbandits.inference.learn import LEARN, learn_at
from idbandits.inference.regression.logistic import (
    Logistics,
    bridge,
    fade_logistic,
    logit_of,
    multiply,
    site_of,
    unpack,
)
from idbandits.inference.rounds.round import DONE, ROUND, Round
from idbandits.inference.rounds.workspace import Parts
from idbandits.inference.state.state import STATE, State, prior_section
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import INTS, handle_type, inlined, kernel
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import PACKED, Packed, pointer


@inlined
def table_of(q: Logistics, v: Parts, e: int) -> int:
    """The logistic table that an entry is of, if its row is not fixed; else -1."""
    if e >= v.live:
        return q.retired_table[e - v.live] if e < v.learned else -1
    for t in range(q.number):
        if q.entry[t] <= e < q.entry[t] + 2 * q.rows[t]:
            return -1 if q.fixed[q.row_start[t] + (e - q.entry[t]) // 2] else t
    return -1


@inlined
def row_of(q: Logistics, v: Parts, t: int, e: int) -> int:
    """The row that an entry of a logistic table is of."""
    return q.retired_row[e - v.live] if e >= v.live else (e - q.entry[t]) // 2


LINES = types.float64[:, ::1]


@kernel(types.int64(handle_type(LEARN), PACKED, STATE, RNG, ROUND, INTS, LINES))
def learn_request(
    learn: Any, evidence: Packed, state: State, rng: Rng, round_: Round, entries: Ints, added: Floats
) -> int:
    """Take in a round whose request stands in the state, by the kernel of an inference; says what that says.

    `added` gets what the round added to the belief, by which it can be taken back: for a logistic row, the four numbers
    of `multiply`; for an entry of another row, its pseudo-count. The first of `entries` is the number of these lines,
    then come their entries.
    """
    c, v, _, q = unpack(evidence.ints, evidence.floats)
    fits, alpha, prior = pointer(state.fits, 0), pointer(state.floats, 0), prior_section(state.floats, v.learned)
    keep = age_of(state.ints, round_.time, round_.times).keep
    put_features(v, state, round_.features)
    faded = keep < 1.0
    backup = state.fits.copy() if faded else np.empty(0)
    if faded:
        fade_logistic(q, fits, keep)
    most = v.use_start[v.parts]
    rows, tables = np.empty(most, np.int64), np.empty(most, np.int64)
    counts, scratch = np.empty((most, 6)), np.empty(2 * q.most_coefficients)
    x, y = pointer(scratch, 0), pointer(scratch, q.most_coefficients)
    number, lines = 0, 0
    for i in range(most):
        e = entry(c, v.use[i], round_.action)
        if v.renumbered:
            e = v.place[e]
        if e >= v.learned:
            continue
        t, e = table_of(q, v, e), v.row[e]
        known = False
        for j in range(number):
            known |= rows[j] == e
        if known:
            continue
        rows[number], tables[number] = e, t
        number += 1
        if t >= 0:
            own = pointer(counts, 6 * (number - 1))
            own[0], own[1], own[2], own[3] = alpha[e], alpha[e + 1], prior[e], prior[e + 1]
            bridge(logit_of(q, t, row_of(q, v, t, e), fits, x), pointer(own, 4))
            alpha[e], alpha[e + 1] = own[4], own[5]
            prior[e], prior[e + 1] = own[4], own[5]  # so that nothing fades
        else:
            for k in range(e, e + v.size[e]):
                lines += 1
                entries[lines] = k
                added[lines - 1, 0] = -(prior[k] + keep * (alpha[k] - prior[k]))
                added[lines - 1, 1], added[lines - 1, 2], added[lines - 1, 3] = 0.0, 0.0, 0.0
    status = learn_at(learn)(evidence, state, rng, round_)
    for i in range(lines):
        added[i, 0] += alpha[entries[1 + i]]
    for j in range(number):
        own, e, t = pointer(counts, 6 * j), rows[j], tables[j]
        if t < 0:
            continue
        site = site_of(pointer(own, 4), pointer(alpha, e))
        alpha[e], alpha[e + 1], prior[e], prior[e + 1] = own[0], own[1], own[2], own[3]
        if status == DONE:
            lines += 1
            entries[lines] = e
            multiply(q, t, row_of(q, v, t, e), site, fits, x, y, pointer(added, 4 * (lines - 1)))
    entries[0] = lines
    if status != DONE and faded:
        state.fits[:] = backup
    remove_features(v, state, round_.features)
    counts[:, 0], scratch[0] = 0.0, 0.0  # holds them until here
    return status
