"""Rounds as kernels take them: labels become places among the values of their nodes, -1 where nothing was seen."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.declare import Node
from idbandits.diagram.tables import plain
from idbandits.errors import ODD, ActionError, ContextError, IdbanditsError, ObservationError, brief
from idbandits.kernel.types import Ints

WRONG = -2  # in place of a value that is not one of its node
FACTORIZED = "biufcmMUO"  # kinds of arrays whose distinct values pandas finds


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
    names = column_names(data)
    if names is None:
        raise error(f"{what}: arrays by node name or a data frame are needed, not {brief(data)}")
    allowed = ", ".join(n.name for n in nodes) or "none"
    own, frame = {n.name for n in nodes}, not isinstance(data, Mapping)
    for i, name in enumerate(names):
        of_others = frame and name in model.nodes  # one frame may hold the whole log
        if not of_others and name not in own:
            raise error(f"{what}: {name!r} is not such a node of diagram {model.name!r}; these are {allowed}")
        if name in names[:i]:
            raise error(f"{what}: column {name!r} occurs twice")
    columns: dict[str, Ints] = {}
    for node in nodes:
        if node.name in names:
            try:
                column = data[node.name]
            except ODD:
                raise error(f"{what}: there is no column {node.name!r} in {brief(data)}") from None
            columns[node.name] = encode_column(what, node, column, error)
        elif what != "observations":
            raise error(f"{what}: {node.name!r} is missing; needed are {allowed}")
    return columns


def column_names(data: Any) -> list[Any] | None:
    """The names of the columns of arrays by name, a data frame, a table of pyarrow or a structured array, or None."""
    if isinstance(data, np.ndarray):
        return None if data.dtype.names is None else list(data.dtype.names)
    if isinstance(data, Mapping):
        return list(data)
    try:
        return list(data.column_names if hasattr(data, "column_names") else data.columns)
    except (AttributeError, TypeError):
        return None


def encode_column(what: str, node: Node, data: Any, error: type[IdbanditsError]) -> Ints:
    """The places of values among a node's; -1 for None, NaN and what is masked, where they may be missing."""
    values = _flat(what, node, data, error)
    if values.dtype.kind in "iu" and node.values == range(node.states):
        places: Ints = values.astype(np.int64)
        places[(places < 0) | (places >= node.states)] = WRONG
    else:
        places = _places_of_labels(what, node, values)
    if isinstance(data, np.ma.MaskedArray):
        places[np.ma.getmaskarray(data)] = _missing(what)
    if (wrong := places == WRONG).any():
        at = int(np.argmax(wrong))
        masked = isinstance(data, np.ma.MaskedArray) and np.ma.getmaskarray(data)[at]
        shown = "masked" if masked else brief(plain(values[at]))
        raise error(f"{what}: {node.name!r} in round {at} cannot be {shown}; allowed: {node.allowed()}")
    return places


def _flat(what: str, node: Node, data: Any, error: type[IdbanditsError]) -> Any:
    """A column as a flat array, of a kind that pandas knows."""
    try:
        values = np.asarray(data, dtype=object if isinstance(data, (list, tuple)) else None)
    except ODD:  # ragged lists, and whatever else
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given {brief(data)}") from None
    if values.ndim != 1:
        given = f"{brief(data)}, of shape {values.shape}"
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given {given}")
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "fc" and size not in (4, 8, 16):  # half and long doubles
        return values.astype(np.float64 if kind == "f" else np.complex128)
    return values.astype(values.dtype.newbyteorder("=") if kind in FACTORIZED else object, copy=False)


def _missing(what: str) -> int:
    """What stands for a missing value: only observations may miss some."""
    return -1 if what == "observations" else WRONG


def _places_of_labels(what: str, node: Node, values: Any) -> Ints:
    """The same for labels of any type."""
    import pandas  # slow to import, and only needed here

    try:
        codes, distinct = pandas.factorize(values, use_na_sentinel=True)
    except ODD:  # values that cannot be hashed: arrays, what is masked, lists
        codes, distinct = np.arange(len(values)), values
    places = [node.index(value) for value in distinct]
    for i, value in enumerate(distinct):
        if places[i] is None:
            with contextlib.suppress(*ODD):  # as of Decimal("sNaN")
                places[i] = _missing(what) if value is np.ma.masked or pandas.isna(value) is True else None
    table = np.array([*(WRONG if place is None else place for place in places), _missing(what)], dtype=np.int64)
    return np.asarray(table[codes])
