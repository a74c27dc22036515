"""What differs between two diagrams, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from idbandits.diagram.tables import Known, LearnedTable, Use
from idbandits.errors import brief

if TYPE_CHECKING:  # `declare` imports a neighbour of this module
    from idbandits.diagram.diagram import Diagram, Node

MOST_LABELS = 3  # that are named


def differences(a: Diagram, b: Diagram) -> list[str]:
    """What `b` has that `a` has not, and the other way round; nothing if they are the same problem, name included.

    >>> from idbandits import models
    >>> differences(models.cascade(["tea", "milk", "rice"], 2), models.cascade(["tea", "milk", "salt"], 2))[0]
    "decision 'A1': 'salt' was added, 'rice' is gone"
    """
    found = chain(_of_names(a, b), _of_nodes(a, b), _of_tables(a, b), _of_rewards(a, b), _of_constraints(a, b))
    return list(found)


def _of_names(a: Diagram, b: Diagram) -> Iterator[str]:
    if a.name != b.name:
        yield f"its name is {b.name!r}, not {a.name!r}"


def _of_nodes(a: Diagram, b: Diagram) -> Iterator[str]:
    for node in a.nodes.values():
        if node.name not in b.nodes:
            yield f"{node.kind} {node.name!r} is gone"
    for other in b.nodes.values():
        if other.name not in a.nodes:
            yield f"{other.kind} {other.name!r} was added"
        else:
            yield from _of_node(a.nodes[other.name], other)
    shared = [name for name in a.nodes if name in b.nodes]
    if shared != [name for name in b.nodes if name in a.nodes]:
        yield "the nodes are declared in another order"


def _of_node(a: Node, b: Node) -> Iterator[str]:
    who = f"{b.kind} {b.name!r}"
    if a.kind != b.kind:
        yield f"{b.name!r} is a node of kind {b.kind!r}, not {a.kind!r}"
    yield from _of_values(who, a, b)
    if a.parents != b.parents:
        yield f"{who} depends on {_named(b.parents)}, not on {_named(a.parents)}"
    elif not _is_same_table(a.cpd, b.cpd) and list(a.values) == list(b.values):
        yield f"{who} has another table" + (f", {b.cpd.name!r}" if isinstance(b.cpd, Use) else "")


def _of_values(who: str, a: Node, b: Node) -> Iterator[str]:
    own, others = (None if node.features is None else node.features.to_data() for node in (a, b))
    if own != others:
        change = "features now" if own is None else "no features any more" if others is None else "other features"
        yield f"{who} has {change}"
        return
    if isinstance(a.values, range) and isinstance(b.values, range):
        if a.states != b.states:
            yield f"{who} has {b.states} values, not {a.states}"
        return
    before, after = set(a.values), set(b.values)
    added, gone = [v for v in b.values if v not in before], [v for v in a.values if v not in after]
    changes = [f"{_labels(added)} added"] if added else []
    changes += [f"{_labels(gone, 'is', 'are')} gone"] if gone else []
    if changes:
        yield f"{who}: {', '.join(changes)}"
    elif list(map(_typed, a.values)) != list(map(_typed, b.values)):
        yield f"{who}: its values have another order or type"


def _typed(value: Any) -> tuple[type, Any]:
    return type(value), value


def _labels(labels: Sequence[Any], one: str = "was", several: str = "were") -> str:
    shown = ", ".join(brief(label) for label in labels[:MOST_LABELS])
    more = f" and {len(labels) - MOST_LABELS} more" if len(labels) > MOST_LABELS else ""
    return f"{shown}{more} {one if len(labels) == 1 else several}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _is_same_table(a: Known | Use | None, b: Known | Use | None) -> bool:
    """Whether two nodes have the same known table, or read the same rows of a learned one."""
    if isinstance(a, Known) and isinstance(b, Known):
        return np.array_equal(a.table, b.table)
    if isinstance(a, Use) and isinstance(b, Use):
        both_pick = a.rows is not None and b.rows is not None
        same_rows = np.array_equal(a.rows, b.rows) if both_pick else a.rows is b.rows  # type: ignore[arg-type]
        return a.name == b.name and same_rows
    return a is b


def _of_tables(a: Diagram, b: Diagram) -> Iterator[str]:
    for name in a.learned:
        if name not in b.learned:
            yield f"learned table {name!r} is gone"
    for name, table in b.learned.items():
        if name not in a.learned:
            yield f"learned table {name!r} was added"
        else:
            yield from _of_table(f"learned table {name!r}", a.learned[name], table)
    if list(a.learned) != list(b.learned) and set(a.learned) == set(b.learned):
        yield "the learned tables are first used in another order"


def _of_table(who: str, a: LearnedTable, b: LearnedTable) -> Iterator[str]:
    if (a.shape, a.states) != (b.shape, b.states):
        yield f"{who} has the shape {(*b.shape, b.states)}, not {(*a.shape, a.states)}"
    else:
        if not np.array_equal(a.prior, b.prior):
            yield f"{who} has another prior"
        if not np.array_equal(a.beforehand < 0, b.beforehand < 0):
            yield f"{who} has other rows that are fixed"
        elif not np.array_equal(np.minimum(a.beforehand, 0), np.minimum(b.beforehand, 0)):
            yield f"{who} has rows that are fixed at other values"
    yield from _of_features(who, a, b)


def _of_features(who: str, a: LearnedTable, b: LearnedTable) -> Iterator[str]:
    if a.declared.residuals != b.declared.residuals:
        yield f"{who} has other residuals"
    if a.features is None and b.features is None:
        return
    if a.features is None or b.features is None:
        yield f"{who} has {'features now' if a.features is None else 'no features any more'}"
    elif a.features.names != b.features.names:
        yield f"{who} has other columns of features"
    elif a.shape == b.shape and a.features.to_data() != b.features.to_data():
        yield f"{who} has other features"


def _of_rewards(a: Diagram, b: Diagram) -> Iterator[str]:
    if len(a.rewards) != len(b.rewards):
        yield f"the reward has {len(b.rewards)} terms, not {len(a.rewards)}"
    for before, after in zip(a.rewards, b.rewards, strict=False):
        if before.parents != after.parents:
            yield f"a term of the reward depends on {_named(after.parents)}, not on {_named(before.parents)}"
        elif not np.array_equal(before.table, after.table):
            yield f"the reward of {_named(after.parents)} is another"


def _of_constraints(a: Diagram, b: Diagram) -> Iterator[str]:
    if list(a.constraints) != list(b.constraints):
        yield "all_different holds for other decisions, or with other exceptions"
