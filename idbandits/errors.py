"""What can go wrong, one class per kind: messages name the node or argument, what was given and what is allowed."""

from __future__ import annotations

from numbers import Integral
from typing import TypeGuard


class IdbanditsError(ValueError):
    """Any mistake that the library reports; nothing has changed when it is raised."""


class DiagramError(IdbanditsError):
    """A diagram that cannot be built: names, parents, states, rewards."""


class TableError(DiagramError):
    """A known table that is no probability table, or has the wrong shape."""


class PriorError(DiagramError):
    """Pseudo-counts that are no Dirichlet prior for their table."""


class InfeasibleError(DiagramError):
    """Constraints that no action satisfies."""


class ComplexityError(DiagramError):
    """A diagram whose circuit would not fit in memory."""


class FormatError(DiagramError):
    """A file or dictionary that does not describe a diagram, an agent or a result."""


class ActionError(IdbanditsError):
    """An action that is incomplete, out of range, or breaks a constraint."""


class ContextError(IdbanditsError):
    """A context that is incomplete or out of range."""


class ObservationError(IdbanditsError):
    """An observation of nodes that are not observed, or of states they do not have."""


class ImpossibleObservationError(ObservationError):
    """An observation that has probability zero."""


class MeansError(IdbanditsError):
    """Means that do not fit the learned tables of the diagram."""


def is_integer(value: object) -> TypeGuard[int]:
    """A whole number of any type, bools excepted."""
    return isinstance(value, (int, Integral)) and not isinstance(value, bool)


def brief(value: object) -> str:
    """A value as messages show it: not more than a line of it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
