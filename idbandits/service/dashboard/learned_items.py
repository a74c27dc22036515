"""Belief of an agent as tables of a page: leaderboards, heat maps, other tables and regressions."""

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
COLUMNS = ("item", "mean", "rounds", "impressions", "shown")  # by which a leaderboard can be sorted


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
    labels: tuple[Label, ...]  # on the other axes, and the state
    mean: float
    low: float
    high: float
    rounds: float
    impressions: int
    shown: float  # probability of being shown in a round


class Leaderboard(NamedTuple):
    """Items of a group with their beliefs; `axes` names the other axes, which are columns."""

    table: str | None
    group: Group
    axes: tuple[str, ...]
    lines: list[Line]


class Heat(NamedTuple):
    """Heat map of items by position: share of closed rounds, and probability of being shown now."""

    decisions: list[str]
    lines: list[tuple[Label, list[float | None], list[float | None]]]  # item, shares, probabilities


class OtherTable(NamedTuple):
    """Learned table without items; or, if the name is None, all learned tables with a single row."""

    name: str | None
    axes: tuple[str, ...]
    lines: list[tuple[tuple[Label, ...], float, float, float, float]]  # labels, mean, interval, rounds
    hidden: int  # number of rows that are not listed


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
    other_tables: list[OtherTable]
    coefficients: list[Coefficients]
    draws: int


def groups_of(model: Model) -> list[Group]:
    """Group decisions by the items they choose among."""
    groups: dict[tuple[Label, ...], list[Node]] = {}
    for node in model.decisions:
        groups.setdefault(tuple(node.values), []).append(node)
    return [
        Group(nodes[0].name if len(nodes) == 1 else f"{nodes[0].name} to {nodes[-1].name}", nodes, items)
        for items, nodes in groups.items()
    ]


def axes_of(d: Diagram, table: str) -> list[Axis]:
    """Return the axes of a learned table."""
    readers = [node for node in d.nodes.values() if isinstance(node.cpd, Use) and node.cpd.name == table]
    learned_table = d.learned[table]
    if learned_table.declared.rows is not None:
        return [Axis("row", "row", range(learned_table.shape[0]))]
    axes = []
    parents = [[d.nodes[name] for name in reader.parents] for reader in readers]
    for nodes in zip(*parents, strict=True):
        names, kinds = {node.name for node in nodes}, {node.kind for node in nodes}
        are_equal = all(node.values == nodes[0].values for node in nodes)
        name = nodes[0].name if len(names) == 1 else "item" if kinds == {"decision"} else "row"
        kind = kinds.pop() if len(kinds) == 1 else "row"
        axes.append(Axis(name, kind, nodes[0].values if are_equal else range(len(nodes[0].values))))
    return axes


def contexts_of(model: Model) -> list[Node]:
    """Return the contexts without features; the page shows the belief for a chosen value of each."""
    return [node for node in model.contexts if node.features is None]


def learned(agent: Thompson, model: Model, statistics: Statistics, context: Mapping[str, Label]) -> Learned:
    """Return the belief of an agent for one value of each context."""
    request: dict[str, Any] = {node.name: {} for node in model.contexts if node.features is not None}
    chances: dict[str, Any] = {}
    draws = 0
    try:
        marginals = agent.marginals({**request, **context} or None, draws=DRAWS)
        chances, draws = {name: by_item.to_dict() for name, by_item in marginals.probability.items()}, DRAWS
    except IdbanditsError:  # no action is eligible
        pass
    d, posterior = model.diagram, agent.posterior()
    groups, shown = groups_of(model), {name: dict(counts) for name, counts in dict(statistics.shown).items()}
    boards, other_tables = list[Leaderboard](), list[OtherTable]()
    for name, belief in posterior.items():
        axes = axes_of(d, name)
        numbers = _numbers(belief, d, name, axes)
        at = next((k for k, axis in enumerate(axes) if axis.kind == "decision"), None)
        group = None if at is None else next((g for g in groups if tuple(axes[at].labels) == tuple(g.items)), None)
        if at is None or group is None:
            other_tables.append(_other_table(name, axes, numbers))
        else:
            boards.append(_board(name, axes, at, group, numbers, context, shown, chances))
    with_board = [board.group for board in boards]
    for group in groups:
        if group not in with_board:
            boards.append(_plain_board(group, shown, chances))
    heats = [_heat(group, shown, chances, max(statistics.rounds, 1)) for group in groups]
    of_one_row = [table for table in other_tables if not table.axes]
    if of_one_row:
        other_tables = [table for table in other_tables if table.axes]
        combined = OtherTable(None, ("table",), [((table.name or "",), *table.lines[0][1:]) for table in of_one_row], 0)
        other_tables.append(combined)
    return Learned(boards, heats, other_tables, _coefficients(posterior), draws)


class _Numbers(NamedTuple):
    """Numbers of a learned table as columns, with the places of their labels."""

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
    columns = (np.ravel(values) for values in (mean, low, high, rounds))
    return _Numbers(tuple(names), labels, places, *columns)


def _chance(group: Group, item: Label, chances: Mapping[str, Mapping[Label, float]]) -> float:
    """Return the expected number of positions that show an item: its probability if items must be distinct."""
    probabilities = (chances.get(node.name, {}).get(item, 0.0) for node in group.decisions)
    return float(sum(p for p in probabilities if p == p))  # without NaN


def _impressions(group: Group, item: Label, shown: Mapping[str, Mapping[str, int]]) -> int:
    return sum(shown.get(node.name, {}).get(key_of(item), 0) for node in group.decisions)


def _board(
    name: str, axes: Sequence[Axis], at: int, group: Group, numbers: _Numbers, context: Mapping[str, Label],
    shown: Mapping[str, Mapping[str, int]], chances: Mapping[str, Mapping[Label, float]],
) -> Leaderboard:  # fmt: skip
    in_context, columns = np.ones(len(numbers.mean), np.bool_), list[int]()
    for k, axis in enumerate(numbers.names):
        if k < len(axes) and axes[k].kind == "context" and axis in context:
            in_context &= numbers.places[k] == list(numbers.labels[k]).index(context[axis])
        elif k != at and len(numbers.labels[k]) > 1:  # a context with features has a single label
            columns.append(k)
    of_item = {item: (_impressions(group, item, shown), _chance(group, item, chances)) for item in group.items}
    lines = []
    for i in np.nonzero(in_context)[0].tolist():
        item = numbers.labels[at][numbers.places[at, i]]
        labels = tuple(numbers.labels[k][numbers.places[k, i]] for k in columns)
        mean, low, high, rounds = (
            float(column[i]) for column in (numbers.mean, numbers.low, numbers.high, numbers.rounds)
        )
        lines.append(Line(item, labels, mean, low, high, rounds, *of_item[item]))
    return Leaderboard(name, group, tuple(numbers.names[k] for k in columns), lines)


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


def _other_table(name: str, axes: Sequence[Axis], numbers: _Numbers) -> OtherTable:
    lines = []
    for i in range(min(len(numbers.mean), MOST_OTHER_ROWS)):
        labels = tuple(numbers.labels[k][numbers.places[k, i]] for k in range(len(numbers.names)))
        mean, low, high, rounds = (
            float(column[i]) for column in (numbers.mean, numbers.low, numbers.high, numbers.rounds)
        )
        lines.append((labels, mean, low, high, rounds))
    return OtherTable(name, numbers.names, lines, len(numbers.mean) - len(lines))


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
    """Sort the lines of a leaderboard by a column; NaN is last."""
    if by == "item":
        return sorted(board.lines, key=lambda line: str(line.item).casefold(), reverse=descending)
    sign = -1.0 if descending else 1.0
    values = [float(getattr(line, by)) for line in board.lines]
    order = sorted(range(len(values)), key=lambda i: (0, sign * values[i]) if values[i] == values[i] else (1, 0.0))
    return [board.lines[i] for i in order]
