"""Belief of an agent, as tables of a page: leaderboard, heat map, other tables and regressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.thompson import Thompson
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.labels import state_labels
from idbandits.diagram.tables import Label, Use
from idbandits.errors import IdbanditsError
from idbandits.service.live.statistics import Statistics, key_of

DRAWS = 500  # of probabilities of being shown
MOST_OTHER_ROWS = 200  # of tables without items
MOST_COEFFICIENTS = 60
ENDS = [0.05, 0.95]
COLUMNS = ("item", "mean", "rounds", "impressions", "shown")  # that a leaderboard is sorted by


class Group(NamedTuple):
    """Decisions that choose among the same items."""

    name: str
    decisions: list[Node]
    items: Sequence[Label]


class Axis(NamedTuple):
    """Axis of a learned table: the nodes that select its rows, and their labels."""

    name: str
    kind: str
    labels: Sequence[Label]


class Line(NamedTuple):
    """Line of a leaderboard."""

    item: Label
    others: tuple[Label, ...]  # labels on the other axes, and the state
    mean: float
    low: float
    high: float
    rounds: float
    impressions: int
    shown: float  # probability of being shown in a round


class Leaderboard(NamedTuple):
    """Items with what was learned of them; `others` names further columns."""

    table: str | None
    group: Group
    others: tuple[str, ...]
    lines: list[Line]


class Heat(NamedTuple):
    """Items by positions: shares of rounds, and probabilities of being shown now."""

    decisions: list[str]
    lines: list[tuple[Label, list[float | None], list[float | None]]]


class OtherTable(NamedTuple):
    """Learned table without items, or all that have one row."""

    name: str | None
    axes: tuple[str, ...]
    lines: list[tuple[tuple[Label, ...], float, float, float, float]]  # labels, mean, interval, rounds
    hidden: int  # further lines


class Coefficients(NamedTuple):
    """Regression of a table on features."""

    table: str
    about: str
    lines: list[tuple[str, float, float, float]]  # name, mean, interval
    hidden: int


class Learned(NamedTuple):
    """Belief of an agent in a context."""

    boards: list[Leaderboard]
    heats: list[Heat]
    others: list[OtherTable]
    coefficients: list[Coefficients]
    draws: int


def groups_of(model: Model) -> list[Group]:
    """Return the decisions by what they choose among."""
    groups: dict[tuple[Label, ...], list[Node]] = {}
    for node in model.decisions:
        groups.setdefault(tuple(node.values), []).append(node)
    return [
        Group(own[0].name if len(own) == 1 else f"{own[0].name} to {own[-1].name}", own, items)
        for items, own in groups.items()
    ]


def axes_of(d: Diagram, table: str) -> list[Axis]:
    """Return the axes of a learned table."""
    readers = [node for node in d.nodes.values() if isinstance(node.cpd, Use) and node.cpd.name == table]
    own = d.learned[table]
    if own.declared.rows is not None:
        return [Axis("row", "row", range(own.shape[0]))]
    axes = []
    parents = [[d.nodes[name] for name in reader.parents] for reader in readers]
    for nodes in zip(*parents, strict=True):
        names, kinds = {node.name for node in nodes}, {node.kind for node in nodes}
        same = all(node.values == nodes[0].values for node in nodes)
        name = nodes[0].name if len(names) == 1 else "item" if kinds == {"decision"} else "row"
        kind = kinds.pop() if len(kinds) == 1 else "row"
        axes.append(Axis(name, kind, nodes[0].values if same else range(len(nodes[0].values))))
    return axes


def contexts_of(model: Model) -> list[Node]:
    """Return the contexts that have values, of which one is chosen on the page."""
    return [node for node in model.contexts if node.features is None]


def learned(agent: Thompson, model: Model, statistics: Statistics, context: Mapping[str, Label]) -> Learned:
    """Return what was learned, for one value of each context."""
    request: dict[str, Any] = {node.name: {} for node in model.contexts if node.features is not None}
    chances: dict[str, Any] = {}
    draws = 0
    try:
        marginals = agent.marginals({**request, **context} or None, draws=DRAWS)
        chances, draws = {name: own.to_dict() for name, own in marginals.probability.items()}, DRAWS
    except IdbanditsError:  # no action is eligible
        pass
    d, posterior = model.diagram, agent.posterior()
    groups, shown = groups_of(model), {name: dict(own) for name, own in dict(statistics.shown).items()}
    boards, others = list[Leaderboard](), list[OtherTable]()
    for name, belief in posterior.items():
        axes = axes_of(d, name)
        numbers = _numbers(belief, d, name, axes)
        at = next((k for k, axis in enumerate(axes) if axis.kind == "decision"), None)
        group = None if at is None else next((g for g in groups if tuple(axes[at].labels) == tuple(g.items)), None)
        if at is None or group is None:
            others.append(_other_table(name, axes, numbers))
        else:
            boards.append(_board(name, axes, at, group, numbers, context, shown, chances))
    with_board = [board.group for board in boards]
    for group in groups:
        if group not in with_board:
            boards.append(_plain_board(group, shown, chances))
    heats = [_heat(group, shown, chances, max(statistics.rounds, 1)) for group in groups]
    single = [own for own in others if not own.axes]
    if single:
        others = [own for own in others if own.axes]
        others.append(OtherTable(None, ("table",), [((own.name or "",), *own.lines[0][1:]) for own in single], 0))
    return Learned(boards, heats, others, _coefficients(posterior), draws)


class _Numbers(NamedTuple):
    """Columns of a table: one row of labels per number."""

    names: tuple[str, ...]  # of the axes, and of the state if there are more than two
    labels: list[Sequence[Label]]
    places: Any  # indices of labels, by axis
    mean: Any
    low: Any
    high: Any
    rounds: Any


def _numbers(belief: Any, d: Diagram, name: str, axes: Sequence[Axis]) -> _Numbers:
    mean, (low, high) = np.asarray(belief.mean), belief.quantile(ENDS)
    names, labels, rounds = [axis.name for axis in axes], [axis.labels for axis in axes], belief.rounds
    if d.learned[name].states > 2:
        names.append("state")
        labels.append(state_labels(d, name))
        rounds = np.repeat(rounds[..., None], d.learned[name].states, axis=-1)
    places = np.indices(mean.shape).reshape(mean.ndim, mean.size)
    columns = (np.ravel(own) for own in (mean, low, high, rounds))
    return _Numbers(tuple(names), labels, places, *columns)


def _chance(group: Group, item: Label, chances: Mapping[str, Mapping[Label, float]]) -> float:
    """Return the expected number of positions at which an item is shown: its probability where all differ."""
    own = (chances.get(node.name, {}).get(item, 0.0) for node in group.decisions)
    return float(sum(x for x in own if x == x))


def _impressions(group: Group, item: Label, shown: Mapping[str, Mapping[str, int]]) -> int:
    return sum(shown.get(node.name, {}).get(key_of(item), 0) for node in group.decisions)


def _board(
    name: str, axes: Sequence[Axis], at: int, group: Group, own: _Numbers, context: Mapping[str, Label],
    shown: Mapping[str, Mapping[str, int]], chances: Mapping[str, Mapping[Label, float]],
) -> Leaderboard:  # fmt: skip
    kept, columns = np.ones(len(own.mean), np.bool_), list[int]()
    for k, axis in enumerate(own.names):
        if k < len(axes) and axes[k].kind == "context" and axis in context:
            kept &= own.places[k] == list(own.labels[k]).index(context[axis])
        elif k != at and len(own.labels[k]) > 1:  # a context with features has one
            columns.append(k)
    of_item = {item: (_impressions(group, item, shown), _chance(group, item, chances)) for item in group.items}
    lines = []
    for i in np.nonzero(kept)[0].tolist():
        item = own.labels[at][own.places[at, i]]
        others = tuple(own.labels[k][own.places[k, i]] for k in columns)
        mean, low, high, rounds = (float(column[i]) for column in (own.mean, own.low, own.high, own.rounds))
        lines.append(Line(item, others, mean, low, high, rounds, *of_item[item]))
    return Leaderboard(name, group, tuple(own.names[k] for k in columns), lines)


def _plain_board(
    group: Group, shown: Mapping[str, Mapping[str, int]], chances: Mapping[str, Mapping[Label, float]]
) -> Leaderboard:
    nan = float("nan")
    lines = [
        Line(item, (), nan, nan, nan, nan, _impressions(group, item, shown), _chance(group, item, chances))
        for item in group.items
    ]
    return Leaderboard(None, group, (), lines)


def _heat(
    group: Group, shown: Mapping[str, Mapping[str, int]], chances: Mapping[str, Mapping[Label, float]], rounds: int
) -> Heat:
    names = [node.name for node in group.decisions]
    lines = []
    for item in group.items:
        key = key_of(item)
        counts = [shown.get(name, {}).get(key, 0) / rounds for name in names]
        now = [chances.get(name, {}).get(item, 0.0) for name in names]
        lines.append((item, list[float | None](counts), [None if x != x else float(x) for x in now]))
    lines.sort(key=lambda line: -sum(x or 0.0 for x in line[1]))
    return Heat(names, lines)


def _other_table(name: str, axes: Sequence[Axis], own: _Numbers) -> OtherTable:
    lines = []
    for i in range(min(len(own.mean), MOST_OTHER_ROWS)):
        labels = tuple(own.labels[k][own.places[k, i]] for k in range(len(own.names)))
        mean, low, high, rounds = (float(column[i]) for column in (own.mean, own.low, own.high, own.rounds))
        lines.append((labels, mean, low, high, rounds))
    return OtherTable(name, own.names, lines, len(own.mean) - len(lines))


def _coefficients(posterior: Mapping[str, Any]) -> list[Coefficients]:
    tables = []
    for name, belief in posterior.items():
        regression = belief.regression
        if regression is None:
            continue
        frame = regression.to_frame()
        has_states = "state" in frame.columns
        lines = [
            (f"{row[0]} → {row[1]}" if has_states else str(row[0]), float(mean), float(low), float(high))
            for row, mean, low, high in zip(
                frame.itertuples(index=False, name=None), frame["mean"], frame["5 %"], frame["95 %"], strict=True
            )
        ]
        lines.sort(key=lambda line: (line[0].split(" → ")[0] != "(constant)", -abs(line[1])))
        about = repr(regression).split("\n", 1)[0]
        tables.append(Coefficients(name, about, lines[:MOST_COEFFICIENTS], max(0, len(lines) - MOST_COEFFICIENTS)))
    return tables


def sorted_lines(board: Leaderboard, by: str, descending: bool) -> list[Line]:
    """Return the lines of a leaderboard in the order of a column; unknown numbers are last."""
    if by == "item":
        return sorted(board.lines, key=lambda line: str(line.item).casefold(), reverse=descending)
    sign = -1.0 if descending else 1.0
    own = [float(getattr(line, by)) for line in board.lines]
    order = sorted(range(len(own)), key=lambda i: (own[i] != own[i], sign * own[i] if own[i] == own[i] else 0.0))
    return [board.lines[i] for i in order]
