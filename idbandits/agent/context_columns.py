"""The features of contexts in logs: columns of a frame, one vector per round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.diagram.features.dataframes import column_names, is_lazy
from idbandits.diagram.features.read_column import read_column
from idbandits.errors import ODD, ContextError, brief
from idbandits.inference.regression.logistic_setup import request_width
from idbandits.kernel.array_types import Floats

Log: TypeAlias = tuple[Any, Any, Any, Any]  # actions, observations, contexts, names of columns


def request_columns(node: Node, present: Sequence[Any], columns: Any) -> dict[str, Any]:
    """The names of the columns of a context's features: as `columns` says, or `user.age`, or `age`."""
    own = columns.get(node.name) if isinstance(columns, Mapping) else None
    named = dict(own) if isinstance(own, Mapping) else {}
    found: dict[str, Any] = {}
    for feature in node.features.features if node.features is not None else ():
        if feature.name in named and named[feature.name] not in present:
            column = f"columns: {brief(named[feature.name])}, for feature {feature.name!r} of {node.name!r},"
            raise ContextError(f"{column} must be one of the columns, got {brief(list(present))}")
        names = [named[feature.name]] if feature.name in named else [f"{node.name}.{feature.name}", feature.name]
        if there := [name for name in names if name in present]:
            found[feature.name] = there[0]
    return found


def encode_requests(model: Model, log: Log, length: int) -> Floats:
    """The features of contexts in a log of so many rounds, one line per round; no columns if no context has some."""
    contexts = [node for node in model.contexts if node.features is not None]
    if not contexts:
        return np.empty((0, 0))
    actions, observations, data, columns = log
    data = actions if observations is None and data is None else data
    lines: list[list[float]] = [[] for _ in range(length)]
    for node in contexts:
        for number, (line, value) in enumerate(zip(lines, _values(node, data, columns, length), strict=True)):
            assert node.features is not None
            line += node.features.encoded(f"contexts: {node.name!r} in round {number}", value)
    return np.array(lines).reshape(length, request_width(model))


def _values(node: Node, data: Any, columns: Any, length: int) -> list[Any]:
    """The value of a context in every round: a mapping of its features."""
    who, features = f"contexts: {node.name!r}", node.features
    assert features is not None
    nested = isinstance(data, Mapping) and node.name in data and column_names(data[node.name]) is not None
    data = data[node.name] if nested else data  # nested: a frame, or columns by name, of the features alone
    present = column_names(data) or []
    found = request_columns(node, present, columns)
    is_named = isinstance(columns, Mapping) and bool(columns.get(node.name))
    has_mappings = node.name in present and not is_named
    if nested and columns is None and (unknown := [name for name in present if name not in found.values()]):
        raise ContextError(f"{who}: columns must be features, which are {features.listed()}; got {brief(unknown[0])}")
    if twice := [name for name in found.values() if present.count(name) > 1]:
        raise ContextError(f"{who}: column {brief(twice[0])} occurs twice")
    try:
        if is_lazy(data):
            data = data.select([node.name] if has_mappings else [*{*found.values()}]).collect()
        if has_mappings:
            values = read_column(data[node.name]).tolist()
        else:
            listed = {feature: read_column(data[column]).tolist() for feature, column in found.items()}
            values = [dict(zip(listed, line, strict=True)) for line in zip(*listed.values(), strict=True)]
    except ODD:
        raise ContextError(f"{who}: its features cannot be read from {brief(data)}") from None
    if not found and not has_mappings:
        raise ContextError(f"{who} is missing: no column has one of its features, {features.listed()}")
    if len(values) != length:
        raise ContextError(f"{who} has {len(values)} rounds, others have {length}")
    return values
