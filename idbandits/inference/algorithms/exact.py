"""Conjugate counts: exact where what is seen is always a single product of table entries, which is checked."""

import math
from collections.abc import Iterable
from typing import final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import DiagramError
from idbandits.inference.ageing import fade
from idbandits.inference.learn import learner
from idbandits.inference.protocol import CONTEXT_FEATURES, FEATURES, FORGET, MOVE, REVISE, Inference
from idbandits.inference.rounds.counting import add_uses, drop_certain, is_below_prior, lift
from idbandits.inference.rounds.evidence import Evidence, folded
from idbandits.inference.rounds.factors import list_entries
from idbandits.inference.rounds.reduction import reduce
from idbandits.inference.rounds.round import AMBIGUOUS, DONE, IMPOSSIBLE, UNKNOWN, Round
from idbandits.inference.rounds.workspace import Workspace, held, scratch, workspace
from idbandits.inference.state.state import NO_STATE, ROUNDS, STATE, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, kernel, unmanaged
from idbandits.kernel.structs import PACKED, Packed, pointer

view = Inference.declared.view
MOST = 20_000  # choices and observations of a part that are all tried; of more, as many are drawn
TRIES = 20  # at an action that breaks no constraint


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Add the uses of table entries."""
    alpha, prior = view(state, w.v.learned)
    if round_.times != 0:
        if not reduce(w, round_.action, round_.seen):
            return IMPOSSIBLE
        drop_certain(w)
        if w.places[0] > 0:
            return AMBIGUOUS
        if state.ints[ROUNDS] + round_.times < 0:
            return UNKNOWN
        if round_.keep < 1.0:
            fade(alpha, prior, w.v.learned, round_.keep)
        add_uses(w, alpha, round_.times * round_.weight)
        if round_.times < 0 and is_below_prior(w, alpha, prior, round_.weight):
            add_uses(w, alpha, -round_.times * round_.weight)
            return UNKNOWN
        if round_.weight < 1.0:
            lift(w, alpha, prior)
        state.ints[ROUNDS] += round_.times
    return DONE


@final
class Exact(Inference):
    """Exact posterior: counts the table entries that a round used.

    It is accepted where every observation is a single product of table entries: the semi-bandit, the cascade models,
    and every diagram whose latent nodes are revealed.

    Examples
    --------
    >>> import idbandits as idb
    >>> agent = idb.Thompson(idb.models.cascade(3, 2), inference=Exact(), seed=0)
    >>> agent.update({"A1": 2, "A2": 0}, {"C1": 0, "C2": 1})
    >>> agent.posterior()["attraction"].alpha.tolist()  # failures and successes of each item, with the prior
    [[1.0, 2.0], [1.0, 1.0], [2.0, 1.0]]
    """

    capabilities = frozenset({REVISE, FORGET, FEATURES, CONTEXT_FEATURES, MOVE})
    learn = learner("Exact")(learn)


def check_exact(model: Model, alternatives: str) -> None:
    """Raise if some observation is not a single product; each one that is learned from is checked again."""
    ambiguous = model.derived(_find_ambiguous)
    if ambiguous is not None:
        raise_ambiguous(model, *ambiguous, alternatives)


def _find_ambiguous(model: Model) -> tuple[Ints, Ints] | None:
    """Return an action and an observation that is not a single product; None if none is found among all or many."""
    evidence = model.derived(folded)
    rng = np.random.default_rng(0)
    nodes = [*model.decisions, *model.contexts]
    marks = np.zeros(evidence.learned)
    for axes, observed in evidence.sources:
        sizes = [*(nodes[k].states for k in axes), *(model.observed[k].states for k in observed)]
        number = math.prod(sizes)
        for i in range(min(number, MOST)):
            places = np.unravel_index(i, sizes) if number <= MOST else [rng.integers(s) for s in sizes]
            chosen = [int(place) for place in places]
            action = _random_action(model, dict(zip(axes, chosen, strict=False)), rng)
            if action is None:
                continue
            seen = np.full(len(model.observed), -1, np.int64)
            seen[list(observed)] = chosen[len(axes) :]
            if number > MOST:  # node by node, another observation that can be seen
                order = rng.permutation(np.flatnonzero(seen >= 0)).tolist()
                seen[:] = -1
                _see(evidence, action, seen, ((k, rng.permutation(model.observed[k].states)) for k in order))
            if unclear(evidence.packed, NO_STATE, action, seen, marks) > 0:
                unseen = np.flatnonzero(seen < 0).tolist()
                _see(evidence, action, seen, ((k, range(model.observed[k].states)) for k in unseen))
                return action, seen
    return None


def _random_action(model: Model, fixed: dict[int, int], rng: Rng) -> Ints | None:
    """Return an allowed action with its contexts and some fixed choices; None if none was found."""
    number = len(model.decisions)
    action = model.feasibility.random_action(rng, {k: i for k, i in fixed.items() if k < number}, TRIES)
    if action is None:
        return None
    contexts = [fixed.get(number + k, int(rng.integers(node.states))) for k, node in enumerate(model.contexts)]
    return np.concatenate([action, np.array(contexts, dtype=np.int64)])


def _see(evidence: Evidence, action: Ints, seen: Ints, tries: Iterable[tuple[int, Iterable[int]]]) -> None:
    """Give nodes, one by one, the first of the states to try with which the observation can be seen."""
    for k, states in tries:
        for state in states:
            seen[k] = state
            if unclear(evidence.packed, NO_STATE, action, seen, np.zeros(evidence.learned)) >= 0:
                break


def raise_ambiguous(model: Model, action: Ints, seen: Ints, alternatives: str, where: str = "") -> None:
    """Raise an error that names an observation that is not a single product, and the reason."""
    evidence = model.derived(folded)
    tables = np.zeros(evidence.learned)
    unclear(evidence.packed, NO_STATE, action, seen, tables)
    offsets = model.parameters.offsets
    open_tables = {name for name, table in model.learned.items() if tables[offsets[name] :][: table.size].any()}
    near = [n for n in model.nodes.values() if getattr(n.cpd, "name", None) in open_tables]
    ways = {n.name for n in near if n.kind == "latent"}
    ways |= {p for n in near for p in n.parents if model.nodes[p].kind == "latent"}
    states = list(zip(model.observed, seen.tolist(), strict=True))
    shown = ", ".join(f"{n.name} = {n.values[s]!r}" for n, s in states if s >= 0)
    missing = [n.name for n, s in states if s < 0]
    unseen = f" ({', '.join(missing)} not seen)" if missing else ""
    hidden = f"latent {', '.join(n for n in model.nodes if n in ways)}" if ways else "what was not seen"
    raise DiagramError(
        f"{where}inference 'exact' cannot learn from the observation {shown or 'of nothing'}{unseen} in diagram "
        f"{model.name!r}: {hidden} may have been one or the other, so what it says of "
        f"{' and '.join(sorted(open_tables))} is a mixture; use {alternatives}, or exact on d.revealed()"
    )


@kernel(types.int64(PACKED, STATE, INTS, INTS, FLOATS))
def unclear(evidence: Packed, state: State, action: Ints, seen: Ints, marks: Floats) -> int:
    """Mark the learned entries that may or may not have been used; their number, or -1 if this cannot be seen."""
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    number = -1
    if reduce(w, action, seen):
        drop_certain(w)
        number = 0
        for i in range(w.places[0]):
            number = list_entries(w, pointer(w.factors, w.places[1 + i]), number, False)
        for r in range(number):
            marks[w.rows[r]] = 1.0
    return int(held(number, int_scratch, float_scratch))
