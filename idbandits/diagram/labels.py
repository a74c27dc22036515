"""What the rows of a learned table are called: by the labels of the nodes that pick them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from idbandits.diagram.tables import Label, LearnedTable, Use

if TYPE_CHECKING:  # `declare` imports what this module needs
    from idbandits.diagram.declare import Node


class Declared(Protocol):
    """A diagram, or a compiled one."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name."""

    @property
    def learned(self) -> Mapping[str, LearnedTable]:
        """The learned tables by name."""


@final
class RowLabels(NamedTuple):
    """The names of a table's axes, and the label of every place on each of them."""

    axes: tuple[str, ...]
    labels: tuple[Sequence[Label], ...]


def row_labels(declared: Declared, table: str) -> RowLabels:
    """How to call the rows of a learned table: one axis per parent of the nodes that read it.

    Axes have the names of the parents, if all that read the table have the same ones; otherwise `row`, or `row 1` and
    so on. Labels that differ between readers are numbers, and so are the rows of a table that was declared with them.

    >>> from idbandits import models
    >>> row_labels(models.cascade(["tea", "milk", "rice"], 2), "attraction")
    RowLabels(axes=('row',), labels=(('tea', 'milk', 'rice'),))
    """
    own = declared.learned[table]
    readers = [n for n in declared.nodes.values() if isinstance(n.cpd, Use) and n.cpd.name == table]
    if own.declared.rows is not None:
        return RowLabels(("row",), (range(own.shape[0]),))
    parents = [[declared.nodes[name] for name in reader.parents] for reader in readers]
    names = {reader.parents for reader in readers}
    numbered = ("row",) if len(own.shape) == 1 else tuple(f"row {k + 1}" for k in range(len(own.shape)))
    return RowLabels(
        names.pop() if len(names) == 1 else numbered, tuple(_shared_values(axis) for axis in zip(*parents, strict=True))
    )


def _shared_values(nodes: Sequence[Node]) -> Sequence[Label]:
    """The values of nodes that have the same ones, or numbers in their place."""
    first = nodes[0].values
    return first if all(node.values == first for node in nodes) else range(len(first))
