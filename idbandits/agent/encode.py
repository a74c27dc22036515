"""Rounds as kernels take them: labels become places among the values of their nodes, -1 where nothing was seen."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.diagram.features.dataframes import column_names, is_lazy
from idbandits.diagram.features.read_column import RawColumn, read_column
from idbandits.diagram.values import is_missing, plain
from idbandits.errors import ODD, ActionError, ContextError, IdbanditsError, ObservationError, brief
from idbandits.kernel.array_types import Bools, Ints

WRONG = -2  # in place of a value that is not one of its node
FOREIGN = -3  # in place of all values of a round that has some of nodes that the diagram lacks
FACTORIZED = "biufcmMUO"  # kinds of arrays whose distinct values pandas finds
FEW = 100  # rounds whose distinct values are not looked for: that takes pandas, which is slow to import


class Part(NamedTuple):
    """One of the three parts of a log: what it is called, its nodes, and where their columns are."""

    what: str
    nodes: Sequence[Node]
    data: Any
    error: type[IdbanditsError]
    requests: Sequence[Node] = ()  # contexts with features, whose columns `agent.requests` reads


def encode_rounds(
    model: Model, actions: Any, observations: Any, contexts: Any, columns: Mapping[str, Hashable] | None = None, *,
    others: Sequence[Model] = (),
) -> list[Ints]:  # fmt: skip
    """Encode many rounds as columns: decisions, contexts, observed nodes (-1 where missing).

    If actions alone are given, all is in them. `columns` has the names that nodes have there, where these differ. If
    rounds may be those of `others`, values that are not those of their nodes are WRONG, and not rejected; a round with
    the value of a node that only others have is FOREIGN.
    """
    whole, strict = observations is None and contexts is None, not others
    absent = {node.name for other in others for node in other.nodes.values()} - set(model.nodes)
    named: Mapping[str, Hashable] = columns if isinstance(columns, Mapping) else {}
    foreign = {named.get(name, name) for name in absent}
    parts = [
        Part("actions", model.decisions, actions, ActionError),
        Part(
            "contexts", [n for n in model.contexts if n.features is None], actions if whole else contexts, ContextError,
            [n for n in model.contexts if n.features is not None],
        ),
        Part("observations", model.observed, actions if whole else observations, ObservationError),
    ]  # fmt: skip
    own = columns if absent.isdisjoint(named) else {n: column for n, column in named.items() if n not in absent}
    names = _column_names_of(parts, own)
    tables = _collected(parts, names, foreign)
    encoded: dict[str, Ints] = {}
    for part, data in zip(parts, tables, strict=True):
        if columns is None:
            holds_all = whole or not isinstance(data, Mapping)  # it may hold the whole log
            _refuse_others(model, part, data, parts if holds_all else [part], foreign)
        encoded |= _encode_part(part, data, names, columns or {}, strict)
    length = next((len(column) for column in encoded.values()), 0)
    for part in parts:
        for node in part.nodes:
            if len(encoded.get(node.name, range(length))) != length:
                rounds = f"has {len(encoded[node.name])} rounds, others have {length}"
                raise part.error(f"{part.what}: {node.name!r} {rounds}")
    missing = np.full(length, -1, dtype=np.int64)
    nothing = np.zeros(length, dtype=np.int64)  # of a context with features, which has one value
    encoded |= {node.name: nothing for node in model.contexts if node.features is not None}
    ordered = [encoded.get(n.name, missing) for n in (*model.decisions, *model.contexts, *model.observed)]
    if strict:
        model.feasibility.check_columns(ordered)
        return ordered
    is_foreign = np.zeros(length, np.bool_)
    for data in tables:
        for name in foreign.intersection(column_names(data) or []):
            values = read_column(data[name])
            is_foreign |= ~values.missing if values.missing.shape == is_foreign.shape else True
    ordered = [np.where(is_foreign, FOREIGN, column) for column in ordered]
    right = np.flatnonzero(is_right(ordered))
    model.feasibility.check_columns([column[right] for column in ordered])
    return ordered


def is_right(columns: Sequence[Ints]) -> Bools:
    """Return for every round whether the diagram can have all its values."""
    return np.asarray(np.all([column > WRONG for column in columns], axis=0))


def _column_names_of(parts: Sequence[Part], columns: Any) -> dict[str, Hashable]:
    """The name of each node's column."""
    names: dict[str, Hashable] = {node.name: node.name for part in parts for node in part.nodes}
    requests = {node.name: node for part in parts for node in part.requests}
    if columns is not None and not isinstance(columns, Mapping):
        raise IdbanditsError(
            f"columns: a mapping of names of nodes to names of columns is needed, not {brief(columns)}"
        )
    for node, column in (columns or {}).items():
        if node in requests:
            _check_request(requests[node], column)
            continue
        if node not in names:
            raise IdbanditsError(
                f"columns: {brief(node)} is not among the nodes of a log; these are {', '.join([*names, *requests])}"
            )
        if not isinstance(column, Hashable):
            raise IdbanditsError(f"columns: that of {node!r} has a name, not {brief(column)}")
        names[node] = column
    return names


def _check_request(node: Node, columns: Any) -> None:
    """Raise unless `columns` maps features of a context to names of columns."""
    assert node.features is not None
    features = node.features.listed()
    if not isinstance(columns, Mapping):
        needed = f"columns: entry {node.name!r} must be a mapping of its features ({features}) to names of columns"
        raise IdbanditsError(f"{needed}, got {brief(columns)}")
    for feature, column in columns.items():
        if not any(feature == own.name for own in node.features.features):
            entry = f"columns: entry {brief(feature)} of {node.name!r}"
            raise IdbanditsError(f"{entry} must be one of its features, which are {features}")
        if not isinstance(column, Hashable):
            raise IdbanditsError(f"columns: entry {feature!r} of {node.name!r} must be a name, got {brief(column)}")


def _collected(parts: Sequence[Part], names: Mapping[str, Hashable], foreign: Collection[Hashable]) -> list[Any]:
    """What each part is read from: lazy frames are collected, each once, with the columns that are needed."""
    collected: dict[int, Any] = {}
    for part in parts:
        if is_lazy(part.data) and id(part.data) not in collected:
            present = column_names(part.data) or []
            wanted = [*foreign, *(names[n.name] for other in parts if other.data is part.data for n in other.nodes)]
            try:
                collected[id(part.data)] = part.data.select([name for name in present if name in wanted]).collect()
            except Exception as error:  # of another library: files that are missing, columns that cannot be computed
                raise part.error(f"{part.what}: the lazy frame cannot be collected ({brief(error)})") from error
    return [collected.get(id(part.data), {} if part.data is None else part.data) for part in parts]


def _refuse_others(
    model: Model, part: Part, data: Any, readable: Sequence[Part], foreign: Collection[Hashable]
) -> None:
    """Refuse columns that belong to no node and no feature, or to those that have no place in the `readable` parts."""
    names = _names_in(part, part.data if is_lazy(part.data) else data)
    own: set[Hashable] = {node.name for node in (part.nodes if len(readable) == 1 else model.nodes.values())}
    own |= {*foreign, *(name for other in readable for name in _requested(other))}
    for i, name in enumerate(names):
        if name not in own:
            listed = [*(node.name for node in part.nodes), *(name for other in readable for name in _dotted(other))]
            these = f"these are {', '.join(listed) or 'none'}; columns= names those to read, and ignores all others"
            raise part.error(f"{part.what}: {brief(name)} is not such a node of diagram {model.name!r}; {these}")
        if name in names[:i]:
            raise part.error(f"{part.what}: column {name!r} occurs twice")


def _requested(part: Part) -> list[str]:
    """The names that columns of features may have, and those of columns of mappings."""
    nodes = [(node, node.features) for node in part.requests if node.features is not None]
    plain_names = [feature.name for _, own in nodes for feature in own.features]
    return [*(node.name for node, _ in nodes), *_dotted(part), *plain_names]


def _dotted(part: Part) -> list[str]:
    """The features of contexts with the names of these."""
    nodes = [(node.name, node.features) for node in part.requests if node.features is not None]
    return [f"{name}.{feature.name}" for name, own in nodes for feature in own.features]


def _names_in(part: Part, data: Any) -> list[Any]:
    names = column_names(data)
    if names is None:
        raise part.error(f"{part.what}: arrays by node name or a data frame are needed, not {brief(data)}")
    return names


def _listed(part: Part) -> str:
    return ", ".join(node.name for node in part.nodes) or "none"


def _encode_part(
    part: Part, data: Any, names: Mapping[str, Hashable], required: Mapping[str, Hashable], strict: bool
) -> dict[str, Ints]:
    """The columns of nodes by name; observed nodes may be missing, unless their columns were named."""
    present, encoded = _names_in(part, data), dict[str, Ints]()
    for node in part.nodes:
        name = names[node.name]
        if name in present:
            if present.count(name) > 1:
                raise part.error(f"{part.what}: column {brief(name)} occurs twice")
            try:
                column = data[name]
            except ODD:
                raise part.error(f"{part.what}: there is no column {brief(name)} in {brief(data)}") from None
            encoded[node.name] = encode_column(part.what, node, column, part.error, strict)
        elif node.name in required:
            raise part.error(f"{part.what}: there is no column {brief(name)}, which is that of {node.name!r}")
        elif part.what != "observations":
            raise part.error(f"{part.what}: {node.name!r} is missing; needed are {_listed(part)}")
    return encoded


def encode_column(what: str, node: Node, data: Any, error: type[IdbanditsError], strict: bool = True) -> Ints:
    """The places of values among a node's; -1 for what is missing, where it may be, and WRONG unless it is strict."""
    values, masked, *_ = _flat(what, node, data, error)
    if values.dtype.kind in "iu" and node.values == range(node.states):
        places: Ints = values.astype(np.int64)
        places[(places < 0) | (places >= node.states)] = WRONG
    else:
        places = _places_of_labels(what, node, values)
    if masked.any():
        places[masked] = _missing(what)
    if strict and (wrong := places == WRONG).any():
        at = int(np.argmax(wrong))
        shown = "a missing value (masked or null)" if masked[at] else brief(plain(values[at]))
        raise error(f"{what}: {node.name!r} in round {at} cannot be {shown}; allowed: {node.allowed()}")
    return places


def _flat(what: str, node: Node, data: Any, error: type[IdbanditsError]) -> RawColumn:
    """A column as a flat array, of a kind that pandas knows."""
    try:
        column = read_column(data)
    except ODD:  # ragged lists, and whatever else
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given {brief(data)}") from None
    values = column.values
    if values.ndim != 1:
        given = f"{brief(data)}, of shape {values.shape}"
        raise error(f"{what}: {node.name!r} is one value per round, a flat array; given {given}")
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "fc" and size not in (4, 8, 16):  # half and long doubles
        return column._replace(values=values.astype(np.float64 if kind == "f" else np.complex128))
    known = values.dtype.newbyteorder("=") if kind in FACTORIZED else object
    return column._replace(values=values.astype(known, copy=False))


def _missing(what: str) -> int:
    """What stands for a missing value: only observations may miss some."""
    return -1 if what == "observations" else WRONG


def _places_of_labels(what: str, node: Node, values: Any) -> Ints:
    """The same for labels of any type."""
    codes, distinct = _factorized(values)
    table = [_missing(what)]  # reached by -1, which stands for what is missing
    for value in distinct:
        place = node.index(value)
        table.append(place if place is not None else _missing(what) if is_missing(value) else WRONG)
    return np.array(table, dtype=np.int64)[codes + 1]


def _factorized(values: Any) -> tuple[Ints, Any]:
    """The number of each value among those that differ, and these; -1, perhaps, for what is missing."""
    if len(values) > FEW:
        import pandas  # slow to import, and only needed here

        try:
            codes, distinct = pandas.factorize(values, use_na_sentinel=True)
            return codes, distinct
        except ODD:  # values that cannot be hashed: arrays, what is masked, lists
            pass
    return np.arange(len(values)), values
