"""Diagrams as plain data: written, parsed from JSON, checked against the schema, and declared again."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from idbandits.diagram import schema
from idbandits.diagram.features.context_features import features_of_data
from idbandits.diagram.features.read_frame import source_of_data
from idbandits.diagram.tables import Known, Learned, LearnedTable, Use, check_name
from idbandits.diagram.values import check_hashes, first_repeated
from idbandits.errors import ODD, DiagramError, FormatError, brief, is_integer
from idbandits.files import read_stream, read_whole

if TYPE_CHECKING:  # `declare` imports this module
    from idbandits.diagram.diagram import Diagram, Node

FORMAT, VERSION = "idbandits diagram", 1  # as in the schema
MOST_REPEATED = 10_000_000  # entries of known tables that are given as one number: small files make small diagrams
MOST_BYTES, MOST_DEPTH = 10**8, 100  # of JSON that is read, and of lists and objects in each other
MOST_ERRORS = 100  # of which the most telling one is reported
MOST_NUMBER = 10**308  # about the largest float
_TABLES = (
    "known",
    "table",
    "select",
    "prior",
    "states",
    "labels",
    "values",
    "categories",
)  # keys whose values are long lists in large diagrams


def to_data(diagram: Diagram, different: list[Any]) -> dict[str, Any]:
    """A diagram as plain data; `different` has its all_different groups as they are saved."""
    return {
        "format": FORMAT, "version": VERSION, "name": diagram.name,
        "learned": [_learned_data(table) for table in diagram.learned.values()],
        "nodes": [_node_data(node) for node in diagram.nodes.values()],
        "rewards": [{"nodes": list(r.parents), "table": r.table.tolist()} for r in diagram.rewards],
        "all_different": different,
    }  # fmt: skip


def _learned_data(table: LearnedTable) -> dict[str, Any]:
    learned = table.declared
    data: dict[str, Any] = {"name": learned.name, "prior": learned.prior.tolist()}
    if learned.rows is not None:
        data["rows"] = int(learned.rows)
    if learned.fixed:
        rows = learned.fixed.items()
        data["fixed"] = [
            {"row": list(row) if isinstance(row, tuple) else row, "value": value.tolist()} for row, value in rows
        ]
    if table.features is not None:
        features = table.features.to_data()
        data |= {"pooled": True} if features is None else {"features": features}
        data |= {"products": True} if learned.products else {}
    return data if learned.residuals is None else data | {"residuals": learned.residuals}


def without_encodings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a diagram without the encodings that were declared for features."""
    learned = []
    for entry in data["learned"]:
        lines = [*entry.get("features", {}).get("parents", ()), entry.get("features", {}).get("rows")]
        columns = [[(c["name"], c["values"]) for c in own["columns"]] for own in lines if own is not None]
        learned.append({**entry, "features": columns})
    return {**data, "learned": learned}


def _node_data(node: Node) -> dict[str, Any]:
    states = node.states if isinstance(node.values, range) else list(node.values)
    data: dict[str, Any] = {"name": node.name, "kind": node.kind, "states": states}
    if node.features is not None:
        data["features"] = node.features.to_data()
    if isinstance(node.cpd, Known):
        table = node.cpd.table[..., 1] if node.states == 2 else node.cpd.table
        data |= {"parents": list(node.parents), "known": table.tolist()}
    elif isinstance(node.cpd, Use):
        data |= {"parents": list(node.parents), "learned": node.cpd.name}
        if node.cpd.rows is not None:
            data["select"] = node.cpd.rows if isinstance(node.cpd.rows, int) else node.cpd.rows.tolist()
    return data


def read_json(source: Path | BinaryIO) -> Any:
    """The data in a JSON file or stream, of at most `MOST_BYTES`."""
    content = read_whole(source, MOST_BYTES) if isinstance(source, Path) else read_stream(source, MOST_BYTES)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"not text in UTF-8, so not JSON: {error}") from None
    return parse_json(text)


def parse_json(text: str) -> Any:
    """The data in a JSON text; numbers that are not finite, repeated keys, and deep nesting are refused."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeated_keys)
    except FormatError:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also for a whole number with too many digits
        raise FormatError(f"not JSON: {error}") from None
    check_depth(data)
    return data


def check_depth(data: Any) -> None:
    """Refuse data that is nested deeper than any diagram: checks that call themselves would not end well."""
    waiting = [(0, [data])]
    while waiting:
        depth, values = waiting.pop()
        if depth > MOST_DEPTH:
            raise _too_deep()
        nested = [value for value in values if isinstance(value, (Mapping, list, tuple))]
        waiting += [(depth + 1, [*(v.values() if isinstance(v, Mapping) else v)]) for v in nested]


def _too_deep() -> FormatError:
    return FormatError(f"nested deeper than {MOST_DEPTH} lists or objects in each other")


def _refuse_constant(name: str) -> float:
    raise FormatError(f"{name} is not a finite number")


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        repeated = first_repeated(key for key, _ in pairs)
        raise FormatError(f"the key {brief(repeated)} occurs twice in one object")
    return data


def declare_all(diagram: Diagram, data: Mapping[str, Any]) -> None:
    """Declare in an empty diagram what data describes; errors begin with the place in the data."""
    check_depth(data)
    _check_format(data)
    tables, where = dict[str, Learned](), "name"
    try:
        diagram.name = check_name("a diagram", data["name"])
        for i, entry in enumerate(data["learned"]):
            where = f"learned[{i}]"
            if entry["name"] in tables:
                raise FormatError(f"table {entry['name']!r} is declared twice")
            rows = [_row(known["row"]) for known in entry.get("fixed", ())]
            check_hashes(f"learned table {entry['name']!r}: fixed rows", rows)
            fixed = {row: known["value"] for row, known in zip(rows, entry.get("fixed", ()), strict=True)}
            if len(fixed) < len(entry.get("fixed", ())):
                raise FormatError(f"learned table {entry['name']!r}: one row is fixed twice")
            tables[entry["name"]] = _learned(entry, fixed)
        repeated = 0
        for i, entry in enumerate(data["nodes"]):
            where = f"nodes[{i}] ({entry['name']!r})"
            if isinstance(entry.get("known"), (int, float)):
                parents = diagram.resolve(f"node {entry['name']!r}", entry["parents"])
                repeated += math.prod(parent.states for parent in parents)
                if repeated > MOST_REPEATED:
                    raise FormatError(f"single numbers stand for tables of more than {MOST_REPEATED:,} entries")
            _declare_node(diagram, tables, entry)
        for i, entry in enumerate(data["rewards"]):
            where = f"rewards[{i}]"
            nodes = diagram.resolve("a reward term", entry["nodes"])
            diagram.reward(nodes, _lookup(nodes, entry["table"], "iuf"))
        for i, group in enumerate(data["all_different"]):
            where = f"all_different[{i}]"
            names, excepted = (group["decisions"], group["except"]) if isinstance(group, Mapping) else (group, ())
            diagram.all_different(*([] if names == "all" else names), except_=excepted)
    except (DiagramError, OverflowError) as error:  # of a whole number beyond all floats
        raise FormatError(f"{where}: {error}") from None
    if unused := [name for name in tables if name not in diagram.learned]:
        raise FormatError(f"learned: no node uses table {unused[0]!r}")
    if list(diagram.learned) != list(tables):  # the order of means and states is the order of first use
        raise FormatError(f"learned: tables must be listed in the order of their first use, {list(diagram.learned)}")


def _learned(entry: Mapping[str, Any], fixed: Mapping[Any, Any]) -> Learned:
    features, products, pooled = entry.get("features"), entry.get("products", False), entry.get("pooled", False)
    if features is not None:
        features = source_of_data(f"learned table {entry['name']!r}", features)
    residuals = entry.get("residuals")
    return Learned(entry["name"], entry["prior"], entry.get("rows"), fixed, features, products, pooled, residuals)


def _row(row: Any) -> Any:
    """A row as `Learned` takes it: several labels are a tuple."""
    return tuple(row) if isinstance(row, list) else row


def _declare_node(diagram: Diagram, tables: Mapping[str, Learned], entry: Mapping[str, Any]) -> None:
    name, kind, states = entry["name"], entry["kind"], entry["states"]
    if "features" in entry:
        if kind != "context" or states != 1:
            raise FormatError(f"node {name!r}: only a context has features, and one state then")
        diagram.context(name, features=features_of_data(entry["features"]))
        return
    if kind in ("decision", "context"):
        getattr(diagram, kind)(name, states)
        return
    cpd: Any = entry.get("known")
    if cpd is None:
        if entry["learned"] not in tables:
            raise FormatError(f"node {name!r}: table {entry['learned']!r} is not among the learned tables")
        cpd = tables[entry["learned"]]
        if isinstance(entry.get("select"), int):
            cpd = cpd[entry["select"]]
        elif "select" in entry:
            parents = diagram.resolve(f"node {name!r}", entry["parents"])
            cpd = cpd.select(_lookup(parents, entry["select"], "iu"))
    getattr(diagram, kind)(name, entry["parents"], cpd, states=states)


def _lookup(nodes: Sequence[Node], nested: Any, dtype_kinds: str) -> Callable[..., Any]:
    """A function of the nodes' values that reads a nested list of numbers."""
    try:
        table = np.asarray(nested)
    except ValueError:
        table = np.empty(0, dtype=object)
    if table.dtype.kind not in dtype_kinds:
        raise FormatError("the table is not a regular nested list of numbers")
    if table.shape != (shape := tuple(node.states for node in nodes)):
        raise FormatError(f"the table has shape {table.shape}, but the nodes it depends on have {shape} values")
    return lambda *values: table[tuple(node.index(v) for node, v in zip(nodes, values, strict=True))].item()


def _check_format(data: Any) -> None:
    """Refuse data that does not fit the schema, naming the place and the node."""
    from jsonschema import Draft202012Validator  # slow to import, and only needed here
    from jsonschema.exceptions import best_match

    if isinstance(data, Mapping) and is_integer(data.get("version")) and data["version"] > VERSION:
        raise FormatError(f"version {data['version']} is newer than this library, which reads up to version {VERSION}")
    try:
        errors = Draft202012Validator(schema()).iter_errors(_shortened(data))
        error = best_match(itertools.islice(errors, MOST_ERRORS))
    except ODD:
        raise FormatError("the data is not plain: it holds values that JSON does not have") from None
    if error is not None:
        path = list(error.absolute_path)
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "the file"
        entry = data[path[0]][path[1]] if len(path) >= 2 and path[0] in ("nodes", "learned") else None
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            where += f" ({entry['name']!r})"
        raise FormatError(f"{where}: {_explanation(error)}")


def _shortened(data: Any, in_table: bool = False) -> Any:
    """The same data with long tables cut: the schema would take seconds for them, and NumPy checks them later.

    What validators cannot compare or show is refused here.
    """
    if isinstance(data, np.ndarray) or (is_integer(data) and abs(data) > MOST_NUMBER):
        raise FormatError(f"{brief(data)} is not plain data, or beyond all floats")
    if isinstance(data, Mapping):
        return {key: _shortened(value, key in _TABLES) for key, value in data.items()}
    if isinstance(data, list):
        return [_shortened(value, in_table) for value in (data[:100] if in_table else data)]
    return data


def _explanation(error: Any) -> str:
    """What a validation error means, where its own message would not help."""
    if error.validator == "const":
        return f"expected {error.validator_value!r}, not {brief(error.instance)}"
    if error.validator == "oneOf":
        has = "has both 'known' and" if {"known", "learned"} <= error.instance.keys() else "has neither 'known' nor"
        return f"{has} 'learned'; exactly one of them is needed"
    if error.validator == "anyOf":
        return f"{brief(error.instance)} is not {error.schema['description']}"
    return str(error.message) if len(error.message) < 300 else f"{error.message[:300]}…"
