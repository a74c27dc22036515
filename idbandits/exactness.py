"""When exact is exact: whether all that can be seen is a single product of table entries."""

from __future__ import annotations

import numpy as np

from idbandits.compiled import Model
from idbandits.errors import DiagramError
from idbandits.evidence import GENERIC, ROUNDING, Evidence, expect, put, unpack
from idbandits.inference.groups import room_in, scratch
from idbandits.passes import bare, compiled
from idbandits.tables import Floats, Ints

MOST = 4096  # observations of a diagram that are all tried; of more, as many are drawn
TRIES = 3  # actions an observation


def check_exact(model: Model, evidence: Evidence) -> None:
    """Raise if some observation is not a single product; each one that is learned from is checked again."""
    found = model.once("ambiguous", lambda: _find_ambiguous(model, evidence))
    if found is not None:
        refuse_ambiguous(model, evidence, *found)


def _find_ambiguous(model: Model, evidence: Evidence) -> tuple[Ints, Ints] | None:
    rng = np.random.default_rng(0)
    nodes = [*model.decisions, *model.contexts]
    sizes = [n.states for n in model.observed]
    marks = np.zeros(evidence.learned)
    number = float(np.prod(sizes, dtype=np.float64))
    for i in range(int(min(number, MOST))):
        every = number <= MOST
        seen = np.array(np.unravel_index(i, sizes) if every and sizes else [rng.integers(s) for s in sizes], np.int64)
        for _ in range(TRIES):
            action = np.array([rng.integers(n.states) for n in nodes], np.int64)
            if not every:
                seen = _walk(evidence, action, sizes, marks, rng)
            if unclear(evidence.program, evidence.numbers, action, seen, marks) > 0:
                return action, seen
    return None


def _walk(evidence: Evidence, action: Ints, sizes: list[int], marks: Floats, rng: np.random.Generator) -> Ints:
    """An observation that is possible: one node after the other takes a random state that leaves it so."""
    seen = np.full(len(sizes), -1, np.int64)
    for k in rng.permutation(len(sizes)):
        for state in rng.permutation(sizes[k]):
            seen[k] = state
            if unclear(evidence.program, evidence.numbers, action, seen, marks) >= 0:
                break
    return seen


def refuse_ambiguous(model: Model, evidence: Evidence, action: Ints, seen: Ints) -> None:
    """Say which observation is not a single product, and what stands in the way."""
    tables = np.zeros(evidence.learned)
    unclear(evidence.program, evidence.numbers, action, seen, tables)
    at = 0
    open_tables = set()
    for name, table in model.learned.items():
        if tables[at : at + table.size].any():
            open_tables.add(name)
        at += table.size
    near = [n for n in model.nodes.values() if getattr(n.cpd, "name", None) in open_tables]
    ways = {n.name for n in near if n.kind == "latent"}
    ways |= {p for n in near for p in n.parents if model.nodes[p].kind == "latent"}
    shown = ", ".join(f"{n.name} = {n.values[s]!r}" for n, s in zip(model.observed, seen.tolist(), strict=True) if s >= 0)
    missing = [n.name for n, s in zip(model.observed, seen.tolist(), strict=True) if s < 0]
    unseen = f" ({', '.join(missing)} not seen)" if missing else ""
    hidden = f"latent {', '.join(n for n in model.nodes if n in ways)}" if ways else "what was not seen"
    raise DiagramError(
        f"inference 'exact' cannot learn from the observation {shown or 'of nothing'}{unseen} in diagram "
        f"{model.name!r}: {hidden} may have been one or the other, so {', '.join(sorted(open_tables))} is a mixture; "
        "use 'variational', 'incremental', 'moments', 'gibbs', 'ep' or 'particles', or exact on d.revealed()"
    )


@compiled
def unclear(program: Ints, numbers: Floats, action: Ints, seen: Ints, found: Floats) -> int:
    """Mark the learned entries that may or may not have been used; their number, or -1 if this cannot be seen."""
    whole, real = scratch(program)
    return mark_unclear(program, numbers, action, seen, found, whole, real)


@bare
def mark_unclear(
    program: Ints, numbers: Floats, action: Ints, seen: Ints, found: Floats, whole: Ints, real: Floats
) -> int:
    """The work of `unclear`."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    number = 0
    for j in range(v.parts):
        put(v, j, action, seen, room.key, 0)
        root = expect(
            c, v, GENERIC, room.key, 0, numbers, numbers, numbers, room.action, room.entries, room.weights,
            room.values, room.same, room.slopes, room.counts,
        )  # fmt: skip
        if root == -np.inf:
            return -1
        for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
            slot = v.data[v.use + t]
            uses = room.counts[slot]
            if room.entries[slot] < v.learned and abs(uses - np.round(uses)) > ROUNDING:
                found[room.entries[slot]] = 1.0
                number += 1
    return number
