"""When exact is exact: whether all that can be seen is a single product of table entries."""

from __future__ import annotations

import math

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import DiagramError
from idbandits.inference.evidence import GENERIC, ROUNDING, Evidence, expect, put, unpack
from idbandits.inference.groups import room_in, scratch
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints

MOST = 20_000  # choices and observations of a part that are all tried; of more, as many are drawn
TRIES = 20  # at an action that breaks no constraint


def check_exact(model: Model, evidence: Evidence) -> None:
    """Raise if some observation is not a single product; each one that is learned from is checked again."""
    found = model.once("ambiguous", lambda: _find_ambiguous(model, evidence))
    if found is not None:
        refuse_ambiguous(model, evidence, *found)


def _find_ambiguous(model: Model, evidence: Evidence) -> tuple[Ints, Ints] | None:
    """An action and an observation that is not a single product, if one is found; all are tried if not too many."""
    rng = np.random.default_rng(0)
    nodes = [*model.decisions, *model.contexts]
    marks = np.zeros(evidence.learned)
    for axes, observed in evidence.sources:
        sizes = [*(nodes[k].states for k in axes), *(model.observed[k].states for k in observed)]
        number = math.prod(sizes)
        for i in range(min(number, MOST)):
            places = np.unravel_index(i, sizes) if number <= MOST else [rng.integers(s) for s in sizes]
            chosen = [int(place) for place in places]
            action = _allowed(model, dict(zip(axes, chosen, strict=False)), rng)
            if action is None:
                continue
            seen = np.full(len(model.observed), -1, np.int64)
            seen[list(observed)] = chosen[len(axes) :]
            if number > MOST:
                _make_possible(evidence, action, seen, [n.states for n in model.observed], marks, rng)
            if unclear(evidence.program, evidence.numbers, action, seen, marks) > 0:
                _see_all(evidence, action, seen, [n.states for n in model.observed], marks)
                return action, seen
    return None


def _allowed(model: Model, fixed: dict[int, int], rng: np.random.Generator) -> Ints | None:
    """An action with some choices fixed that breaks no constraint; None if none was found."""
    nodes = [*model.decisions, *model.contexts]
    names = [n.name for n in model.decisions]
    for _ in range(TRIES):
        action = np.array([fixed.get(k, int(rng.integers(n.states))) for k, n in enumerate(nodes)], np.int64)
        clash = False
        for group in model.different:
            taken: set[object] = set()
            for name in sorted(group, key=lambda name: names.index(name) not in fixed):
                k = names.index(name)
                free = [i for i, v in enumerate(nodes[k].values) if v not in taken]
                if nodes[k].values[action[k]] in taken:
                    if k in fixed or not free:
                        clash = True
                        break
                    action[k] = free[int(rng.integers(len(free)))]
                taken.add(nodes[k].values[action[k]])
        if not clash:
            return action
    return None


def _see_all(evidence: Evidence, action: Ints, seen: Ints, sizes: list[int], marks: Floats) -> None:
    """Complete an observation in a way that can be seen."""
    for k in np.flatnonzero(seen < 0).tolist():
        for state in range(sizes[k]):
            seen[k] = state
            if unclear(evidence.program, evidence.numbers, action, seen, marks) >= 0:
                break


def _make_possible(
    evidence: Evidence, action: Ints, seen: Ints, sizes: list[int], marks: Floats, rng: np.random.Generator
) -> None:
    """Change an observation, node by node, into one that can be seen."""
    wanted = [int(k) for k in np.flatnonzero(seen >= 0)]
    seen[:] = -1
    for k in rng.permutation(wanted).tolist():
        for state in rng.permutation(sizes[k]).tolist():
            seen[k] = state
            if unclear(evidence.program, evidence.numbers, action, seen, marks) >= 0:
                break


def refuse_ambiguous(model: Model, evidence: Evidence, action: Ints, seen: Ints, where: str = "") -> None:
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
    shown = ", ".join(
        f"{n.name} = {n.values[s]!r}" for n, s in zip(model.observed, seen.tolist(), strict=True) if s >= 0
    )
    missing = [n.name for n, s in zip(model.observed, seen.tolist(), strict=True) if s < 0]
    unseen = f" ({', '.join(missing)} not seen)" if missing else ""
    hidden = f"latent {', '.join(n for n in model.nodes if n in ways)}" if ways else "what was not seen"
    raise DiagramError(
        f"{where}inference 'exact' cannot learn from the observation {shown or 'of nothing'}{unseen} in diagram "
        f"{model.name!r}: {hidden} may have been one or the other, so what it says of "
        f"{' and '.join(sorted(open_tables))} is a mixture; use 'variational', 'incremental', 'moments', 'gibbs', "
        "'ep' or 'particles', or exact on d.revealed()"
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
            if room.entries[slot] < v.learned and abs(uses - np.floor(uses + 0.5)) > ROUNDING:
                found[room.entries[slot]] = 1.0
                number += 1
    return number
