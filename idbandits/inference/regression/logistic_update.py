"""Learning of rounds about logistic tables: pseudo-counts stand in for rows while an inference learns a round.

Before the round, each row that it may read gets the pseudo-counts that match the belief of its logit (the Laplace
bridge). The inference learns the round as usual, including latent nodes. The change of the pseudo-counts of a row then
becomes a density of the row's logit, which multiplies the belief of the coefficients; the row gets its counts back.
"""

from typing import Any

import numpy as np
from numba import types

from idbandits.circuit.passes import entry
from idbandits.inference.act import put_features, remove_features
from idbandits.inference.ageing import age_of
from idbandits.inference.learn import LEARN, learn_at
from idbandits.inference.rounds.round import DONE, ROUND, Round
from idbandits.inference.rounds.workspace import Parts
from idbandits.inference.state.state import STATE, State, prior_section
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import INTS, handle_type, inlined, kernel
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import PACKED, Packed, pointer

from idbandits.inference.regression.logistic import (  # isort: skip
    Logistics, bridge, fade_logistic, logistic_at, logit_of, multiply, site_of, unpack,
)  # fmt: skip

LINES = types.float64[:, ::1]


@inlined
def table_of(q: Logistics, v: Parts, e: int) -> int:
    """Return the logistic table of an entry; -1 if it has none or its row is fixed."""
    if e >= v.live:
        return q.retired_table[e - v.live]
    for t in range(q.number):
        if q.entry[t] <= e < q.entry[t] + 2 * q.rows[t]:
            return -1 if q.fixed[q.row_start[t] + (e - q.entry[t]) // 2] else t
    return -1


@inlined
def row_of(q: Logistics, v: Parts, t: int, e: int) -> int:
    """Return the row of an entry of a logistic table."""
    return q.retired_row[e - v.live] if e >= v.live else (e - q.entry[t]) // 2


@inlined
def is_listed(rows: Ints, number: int, row: int) -> bool:
    """Return whether a row is among the first `number` of `rows`."""
    found = False
    for j in range(number):
        found |= rows[j] == row
    return found


@kernel(types.int64(handle_type(LEARN), PACKED, STATE, RNG, ROUND, INTS, LINES))
def learn_request(
    learn: Any, evidence: Packed, state: State, rng: Rng, round_: Round, entries: Ints, added: Floats
) -> int:
    """Learn a round by the kernel of an inference, for the features of contexts of the round; return its status.

    `added` gets the contribution of the round, by which it can be taken back: for a logistic row, the four numbers of
    `multiply`; for an entry of another row, its pseudo-count. `entries` gets the number of lines, then their entries.
    """
    c, v, _, q = unpack(evidence.ints, evidence.floats)
    fits, alpha, prior = pointer(state.fits, 0), pointer(state.floats, 0), prior_section(state.floats, v.learned)
    keep = age_of(state.ints, round_.time, round_.times).keep
    put_features(v, state, round_.features)
    backup = state.fits.copy() if keep < 1.0 else np.empty(0)
    if keep < 1.0:
        fade_logistic(q, fits, keep)
    most, number, lines = v.use_start[v.parts], 0, 0
    rows, tables = np.empty(most, np.int64), np.empty(most, np.int64)
    counts, scratch = np.empty((most, 6)), np.empty(2 * q.most_coefficients)
    x, y = pointer(scratch, 0), pointer(scratch, q.most_coefficients)
    for i in range(most):
        e = entry(c, v.use[i], round_.action)
        e = v.place[e] if v.renumbered else e
        if e >= v.learned or is_listed(rows, number, v.row[e]):
            continue
        t, e = table_of(q, v, e), v.row[e]
        rows[number], tables[number] = e, t
        own = pointer(counts, 6 * number)
        number += 1
        if t >= 0:
            own[0], own[1], own[2], own[3] = alpha[e], alpha[e + 1], prior[e], prior[e + 1]
            bridge(logit_of(logistic_at(q, t, fits), row_of(q, v, t, e), x), pointer(own, 4))
            alpha[e], alpha[e + 1] = own[4], own[5]
            prior[e], prior[e + 1] = own[4], own[5]  # so that nothing fades
            continue
        for k in range(e, e + v.size[e]):
            entries[1 + lines] = k
            added[lines] = 0.0
            added[lines, 0] = -(prior[k] + keep * (alpha[k] - prior[k]))
            lines += 1
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
            entries[1 + lines] = e
            multiply(logistic_at(q, t, fits), row_of(q, v, t, e), site, x, y, pointer(added, 4 * lines))
            lines += 1
    entries[0] = lines
    if status != DONE and keep < 1.0:
        state.fits[:] = backup
    remove_features(v, state, round_.features)
    counts[:, 0], scratch[0] = 0.0, 0.0  # keeps them alive until here
    return status
