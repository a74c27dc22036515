"""Moving to another diagram: all that is known goes along, by the names of tables and the labels of rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, TypeAlias, final

import numpy as np

from idbandits.agent.encoding import WRONG, encode_rounds, is_right
from idbandits.agent.learner import INEXACT, MOST_EARLIER, Learner, Past
from idbandits.circuit.model import Action, compile
from idbandits.diagram.declare import Diagram
from idbandits.errors import ActionError, ContextError, DiagramError, IdbanditsError, ObservationError, brief
from idbandits.inference.entries import Entries, names_of
from idbandits.inference.exact import Exact, check_exact
from idbandits.inference.protocol import Derived, Described
from idbandits.inference.renumbering import Old, needed, renumbered, without_empty_groups
from idbandits.inference.requests import carry
from idbandits.kernel.columns import Layout, columns_of, state_of
from idbandits.kernel.states import CAPACITY, LONGEST, PER_ROUND, State
from idbandits.kernel.types import Ints, Rng

MISFITS = ActionError, ContextError, ObservationError  # of rounds that a diagram cannot have

Log: TypeAlias = tuple[Any, Any, Any, Any]  # actions, observations, contexts, names of columns


class Rows(NamedTuple):
    """What became of the rows of a learned table: how many were kept, are new, and are retired."""

    kept: int
    new: int
    retired: int


@final
class Carried:
    """What an agent took along when it moved: of each table, how many rows; and how many groups of rounds.

    Retired rows are those that the new diagram lacks, and that something was learned of: it still informs the rest,
    and is there again if they come back.
    """

    def __init__(self, old: Entries, new: Entries, groups: int) -> None:
        self.groups = groups
        tables: dict[str, list[int]] = {}
        for name in names_of(new.model):
            tables.setdefault(name[0], [0, 0, 0])[name not in old.rows] += 1
        for row in new.retired:
            tables.setdefault(row.table, [0, 0, 0])[2] += 1
        self.tables = {name: Rows(*numbers) for name, numbers in tables.items()}

    def __repr__(self) -> str:
        lines = []
        for name, rows in self.tables.items():
            numbers = [f"{n:,} {what}" for what, n in zip(Rows._fields, rows, strict=True) if n]
            lines.append(f"{name}: rows {', '.join(numbers)}")
        return "\n".join([*lines, f"{self.groups:,} groups of rounds"])


def moved(learner: Learner, state: State, rng: Rng, d: Any) -> tuple[Learner, State, Carried]:
    """A learner of another diagram, and the state in which it knows all that the first one knew."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"an agent moves to a Diagram, not to {brief(d)}")
    model = compile(d)
    if isinstance(learner.inference, Exact):
        check_exact(model, INEXACT)
    old = _known(learner, state)
    entries = needed(old, Entries(model))
    kept = {str(other.to_dict()): other for other in reversed([learner.diagram, *learner.past.earlier])}
    kept.pop(str(d.to_dict()), None)
    earlier = tuple(reversed(kept.values()))[:MOST_EARLIER]
    if learner.evidence.logistics.number or any(t.logistic is not None for t in model.learned.values()):
        earlier = ()  # a logistic table keeps no rows that are gone
    past = Past(entries.retired, entries.constants, learner.evidence.longest, earlier)
    other = Learner(d.copy(), model, learner.settings, past)
    carried = Carried(old.entries, entries, len(old.columns.counts))
    return other, transferred(learner, state, other, rng), carried


def transferred(learner: Learner, state: State, other: Learner, rng: Rng) -> State:
    """What a learner knows, as a state of another one, whose entries include all that is needed."""
    fresh = other.beginning(np.random.default_rng(copy.deepcopy(rng).integers(2**63)))  # rng itself goes on as it is
    layout = _layout(other)
    columns = renumbered(_known(learner, state), other.evidence.entries, layout, columns_of(fresh, layout))
    result = state_of(columns, layout, fresh)
    inference = other.inference
    if isinstance(inference, Derived):
        result = inference.restored(other.evidence, result)
    other.fit_regressions(result, copy.deepcopy(rng))
    carry(learner.evidence, state, other.evidence, result)
    return result


def _known(learner: Learner, state: State) -> Old:
    layout = _layout(learner)
    columns = columns_of(learner.with_declared_priors(state), layout)
    return Old(learner.evidence.entries, layout, without_empty_groups(columns))


def _layout(learner: Learner) -> Layout:
    if not isinstance(learner.inference, Described):
        raise IdbanditsError(f"{learner.name} cannot move to another diagram: it has no `layout` of its states")
    return learner.inference.layout(learner.evidence)


# -- rounds of earlier diagrams ----------------------------------------------------------------------------------------


class Late(NamedTuple):
    """Rounds of an earlier diagram: one per line, decisions, contexts and observed nodes; their numbers in a log."""

    diagram: Diagram
    rounds: Ints
    numbers: Ints


def late_round(learner: Learner, action: Action, observation: Mapping[str, Any], context: Action | None) -> Late | None:
    """A round of the latest earlier diagram that can have had it; None if there is none."""
    for d in learner.past.earlier:
        model = compile(d)
        with suppress(*MISFITS):
            vector, states = model.action_vector(action, context), model.observation_states(observation)
            seen = [states.get(node.name, -1) for node in model.observed]
            return Late(d, np.array([[*vector, *seen]], dtype=np.int64), np.zeros(1, np.int64))
    return None


def sorted_log(learner: Learner, log: Log) -> tuple[list[Ints], Ints, list[Late]]:
    """A log whose rounds may be of earlier diagrams: those of the present one and their numbers, and the others."""
    try:
        encoded = encode_rounds(learner.model, *log)
        return encoded, np.arange(len(encoded[0]) if encoded else 0), []
    except MISFITS:
        if not learner.past.earlier:
            raise
    encoded = encode_rounds(learner.model, *log, strict=False)
    present = is_right(encoded)
    left, late = ~present, list[Late]()
    for d in learner.past.earlier:
        with suppress(*MISFITS):
            columns = encode_rounds(compile(d), *log, strict=False)
            own = np.flatnonzero(left & is_right(columns))
            left[own] = False
            late += [Late(d, np.stack([column[own] for column in columns], axis=1), own)] if len(own) else []
    if left.any():
        _refuse(learner, encoded, int(np.argmax(left)))
    return [column[present] for column in encoded], np.flatnonzero(present), late


def _refuse(learner: Learner, encoded: Sequence[Ints], number: int) -> NoReturn:
    """Raise the error of a round that fits no diagram."""
    model = learner.model
    nodes = [*model.decisions, *model.contexts, *model.observed]
    node = next(n for n, column in zip(nodes, encoded, strict=True) if column[number] == WRONG)
    error = {"decision": ActionError, "context": ContextError}.get(node.kind, ObservationError)
    never = "has a value that it has neither in this diagram nor in an earlier one"
    raise error(f"{node.name!r} in round {number} {never}; allowed: {node.allowed()}")


class Hosted(NamedTuple):
    """A learner and its state, ready for rounds of an earlier diagram, and the guest that learns from them."""

    host: Learner
    state: State
    guest: Learner


def hosting(learner: Learner, state: State, rng: Rng, late: Late) -> Hosted:
    """Make room for rounds of an earlier diagram: for rows that are in no state yet, and for long factors."""
    guest = learner.guest(late.diagram)
    own, lacking = guest.evidence.lacking(late.rounds)
    entries, longest = learner.evidence.entries.including(own, lacking), guest.evidence.longest
    if lacking.any() or longest != learner.evidence.longest:
        past = learner.past._replace(retired=entries.retired, constants=entries.constants, longest=longest)
        host = Learner(learner.diagram, learner.model, learner.settings, past)
        learner, state, guest = host, transferred(learner, state, host, rng), host.guest(late.diagram)
    if state.ints[CAPACITY]:
        state.ints[PER_ROUND] = max(int(state.ints[PER_ROUND]), guest.evidence.most_groups)
        state.ints[LONGEST] = max(int(state.ints[LONGEST]), guest.evidence.most_numbers)
    return Hosted(learner, state, guest)
