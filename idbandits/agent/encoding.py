"""Rounds as kernels take them: labels become places among the values of their nodes, -1 where nothing was seen."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.declare import Node
from idbandits.errors import ActionError, ContextError, IdbanditsError, ObservationError, brief
from idbandits.kernel.types import Ints


def encode_rounds(model: Model, actions: Any, observations: Any, contexts: Any) -> list[Ints]:
    """Many rounds as columns: decisions, contexts, observed nodes (-1 where missing)."""
    groups: list[tuple[str, Sequence[Node], Any, type[IdbanditsError]]] = [
        ("actions", model.decisions, actions, ActionError),
        ("contexts", model.contexts, contexts, ContextError),
        ("observations", model.observed, observations, ObservationError),
    ]
    columns = [_encode_nodes(model, *group) for group in groups]
    length = next((len(column) for own in columns for column in own.values()), 0)
    for (what, _, _, error), own in zip(groups, columns, strict=True):
        for name, column in own.items():
            if len(column) != length:
                raise error(f"{what}: {name!r} has {len(column)} rounds, others have {length}")
    by_name, missing = columns[0] | columns[1] | columns[2], np.full(length, -1, dtype=np.int64)
    encoded = [by_name.get(n.name, missing) for n in (*model.decisions, *model.contexts, *model.observed)]
    model.feasibility.check_columns(encoded)
    return encoded


def _encode_nodes(
    model: Model, what: str, nodes: Sequence[Node], data: Any, error: type[IdbanditsError]
) -> dict[str, Ints]:
    """The columns of nodes by name; observed nodes may be missing."""
    data = {} if data is None else data
    if not isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise error(f"{what}: arrays by node name or a data frame are needed, not {brief(data)}")
    names = list(data if isinstance(data, Mapping) else data.columns)
    allowed = ", ".join(n.name for n in nodes) or "none"
    for name in names:
        of_others = hasattr(data, "columns") and name in model.nodes  # one frame may hold the whole log
        if not of_others and all(n.name != name for n in nodes):
            raise error(f"{what}: {name!r} is not such a node of diagram {model.name!r}; these are {allowed}")
    columns: dict[str, Ints] = {}
    for node in nodes:
        if node.name in names:
            columns[node.name] = encode_column(what, node, data[node.name], error)
        elif what != "observations":
            raise error(f"{what}: {node.name!r} is missing; needed are {allowed}")
    return columns


def encode_column(what: str, node: Node, data: Any, error: type[IdbanditsError]) -> Ints:
    """The places of values among a node's; -1 for None and NaN where they may be missing."""
    try:
        values = np.asarray(data, dtype=object if isinstance(data, (list, tuple)) else None)
    except ValueError:
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given {brief(data)}") from None
    if values.ndim != 1:
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given shape {values.shape}")
    if values.dtype.kind in "iu" and node.values == range(node.states):
        places = values.astype(np.int64)
        wrong = (places < 0) | (places >= node.states)
    else:
        places = _places_of_labels(what, node, values, error)
        wrong = places == -2
    if wrong.any():
        at = int(np.argmax(wrong))
        raise error(f"{what}: {node.name!r} in round {at} cannot be {values[at]!r}; allowed: {node.allowed()}")
    return places


def _places_of_labels(what: str, node: Node, values: Any, error: type[IdbanditsError]) -> Ints:
    """The same for labels of any type; -2 for what is not a value of the node."""
    import pandas  # slow to import, and only needed here

    try:
        codes, distinct = pandas.factorize(values, use_na_sentinel=True)
    except TypeError:
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given {brief(values)}") from None
    places = [node.index(_without_point(value)) for value in np.asarray(distinct).tolist()]
    missing = -1 if what == "observations" else -2
    table = np.array([*(-2 if place is None else place for place in places), missing], dtype=np.int64)
    return np.asarray(table[codes])


def _without_point(value: Any) -> Any:
    """A whole number as an integer: columns with missing values are floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
