"""Labels of the rows and states of a learned table: those of the nodes that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from idbandits.diagram.tables import Label, LearnedTable, Use

if TYPE_CHECKING:  # `diagram` imports what this module needs
    from idbandits.diagram.diagram import Node


class Declared(Protocol):
    """Diagram, or a compiled one."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""

    @property
    def learned(self) -> Mapping[str, LearnedTable]:
        """Learned tables by name."""


@final
class RowLabels(NamedTuple):
    """Names of the axes of a table, and the labels on each of them."""

    axes: tuple[str, ...]
    labels: tuple[Sequence[Label], ...]


def row_labels(declared: Declared, table: str) -> RowLabels:
    """Return the labels of the rows of a learned table: one axis per parent of the nodes that read it.

    Axes have the names of the parents, if all readers have the same ones; otherwise `row`, or `row 1` and so on.
    Labels that differ between readers are numbers, and so are the rows of a table that was declared with `rows`.

    >>> from idbandits import models
    >>> row_labels(models.cascade(["tea", "milk", "rice"], 2), "attraction")
    RowLabels(axes=('row',), labels=(('tea', 'milk', 'rice'),))
    """
    own, readers = declared.learned[table], _readers(declared, table)
    if own.declared.rows is not None:
        return RowLabels(numbered_axes(1), (range(own.shape[0]),))
    parents = [[declared.nodes[name] for name in reader.parents] for reader in readers]
    names = {reader.parents for reader in readers}
    axes = names.pop() if len(names) == 1 else numbered_axes(len(own.shape))
    return RowLabels(axes, tuple(_shared_values(axis) for axis in zip(*parents, strict=True)))


def state_labels(declared: Declared, table: str) -> Sequence[Label]:
    """Return the labels of the states of a learned table: those of its readers, or numbers if these differ."""
    return _shared_values(_readers(declared, table))


def numbered_axes(number: int) -> tuple[str, ...]:
    """Return names for axes without a name."""
    return ("row",) if number == 1 else tuple(f"row {k + 1}" for k in range(number))


def _readers(declared: Declared, table: str) -> list[Node]:
    return [n for n in declared.nodes.values() if isinstance(n.cpd, Use) and n.cpd.name == table]


def _shared_values(nodes: Sequence[Node]) -> Sequence[Label]:
    """Return the values of nodes if all have the same ones, else numbers."""
    first = nodes[0].values
    return first if all(node.values == first for node in nodes) else range(len(first))
