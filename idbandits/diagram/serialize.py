"""Diagrams as plain data: written, parsed from JSON, validated by the schema, and declared again."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from idbandits.diagram import schema
from idbandits.diagram.features.context_features import features_of_data
from idbandits.diagram.features.read_frame import source_of_data
from idbandits.diagram.tables import Known, Learned, LearnedTable, Use
from idbandits.diagram.values import check_hashes, check_name, first_repeated
from idbandits.errors import DiagramError, FormatError, brief, is_integer
from idbandits.files import read_stream, read_whole

if TYPE_CHECKING:  # `diagram` imports this module
    from idbandits.diagram.diagram import Diagram, Node

FORMAT, VERSION = "idbandits diagram", 1  # as in the schema
MOST_REPEATED = 10_000_000  # entries of known tables that are given as one number: small files make small diagrams
MOST_BYTES, MOST_DEPTH = 10**8, 100  # of JSON, and of nested lists and objects in it
MOST_ERRORS = 100  # of the schema, of which the most telling one is reported
LONG = {"known", "table", "select", "prior", "states", "labels", "values", "categories"}  # keys of long lists
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def to_data(diagram: Diagram, different: list[Any]) -> dict[str, Any]:
    """Return a diagram as plain data; `different` has its all_different groups as they are saved."""
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


# -- JSON --------------------------------------------------------------------------------------------------------------


def read_json(source: Path | BinaryIO) -> Any:
    """Return the data in a JSON file or stream of at most `MOST_BYTES`."""
    content = read_whole(source, MOST_BYTES) if isinstance(source, Path) else read_stream(source, MOST_BYTES)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"not text in UTF-8, so not JSON: {error}") from None
    return parse_json(text)


def parse_json(text: str) -> Any:
    """Return the data in a JSON text without infinite numbers, repeated keys, lone surrogates and deep nesting."""
    try:
        data = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_without_repeated_keys)
        check_depth(data)
        if SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except FormatError:
        raise
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError as error:
        raise FormatError(f"text must be valid Unicode, got a lone surrogate, {error.object[error.start]!r}") from None
    except ValueError as error:  # also for an integer with too many digits
        raise FormatError(f"not JSON: {error}") from None
    return data


def check_depth(data: Any) -> None:
    """Reject data that is nested deeper than any diagram: recursive checks would fail."""
    waiting = [(0, [data])]
    while waiting:
        depth, values = waiting.pop()
        if depth > MOST_DEPTH:
            raise _too_deep()
        nested = [value for value in values if isinstance(value, (Mapping, list, tuple))]
        waiting += [(depth + 1, [*(v.values() if isinstance(v, Mapping) else v)]) for v in nested]


def _too_deep() -> FormatError:
    return FormatError(f"nested deeper than {MOST_DEPTH} lists or objects in each other")


def _reject_constant(name: str) -> float:
    raise FormatError(f"numbers must be finite, got {name}")


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise FormatError(f"the key {brief(first_repeated(key for key, _ in pairs))} occurs twice in one object")
    return data


# -- declared again ----------------------------------------------------------------------------------------------------


def declare_all(diagram: Diagram, data: Mapping[str, Any]) -> None:
    """Declare in an empty diagram what data describes; errors begin with the place in the data."""
    check_depth(data)
    _check_schema(data)
    tables, repeated, where = dict[str, Learned](), 0, "name"
    try:
        diagram.name = check_name("the name of a diagram", data["name"])
        for i, entry in enumerate(data["learned"]):
            where = f"learned[{i}]"
            if entry["name"] in tables:
                raise FormatError(f"table {entry['name']!r} is declared twice")
            tables[entry["name"]] = _learned(entry)
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
            diagram.reward(entry["nodes"], entry["table"])
        for i, group in enumerate(data["all_different"]):
            where = f"all_different[{i}]"
            names, excepted = (group["decisions"], group["except"]) if isinstance(group, Mapping) else (group, ())
            diagram.all_different(*([] if names == "all" else names), except_=excepted)
    except DiagramError as error:
        raise FormatError(f"{where}: {error}") from None
    if unused := [name for name in tables if name not in diagram.learned]:
        raise FormatError(f"learned: no node uses table {unused[0]!r}")
    if list(diagram.learned) != list(tables):  # the order of means and states is the order of first use
        raise FormatError(f"learned: tables must be listed in the order of their first use, {list(diagram.learned)}")


def _learned(entry: Mapping[str, Any]) -> Learned:
    owner, known = f"learned table {entry['name']!r}", entry.get("fixed", ())
    rows = [tuple(fixed["row"]) if isinstance(fixed["row"], list) else fixed["row"] for fixed in known]
    check_hashes(f"{owner}: fixed rows", rows)
    fixed = {row: fixed["value"] for row, fixed in zip(rows, known, strict=True)}
    if len(fixed) < len(rows):
        raise FormatError(f"{owner}: one row is fixed twice")
    features = None if "features" not in entry else source_of_data(owner, entry["features"])
    flags = {key: entry[key] for key in ("products", "pooled", "residuals") if key in entry}
    return Learned(entry["name"], entry["prior"], entry.get("rows"), fixed, features, **flags)


def _declare_node(diagram: Diagram, tables: Mapping[str, Learned], entry: Mapping[str, Any]) -> None:
    name, kind, states = entry["name"], entry["kind"], entry["states"]
    if "features" in entry:
        if kind != "context" or states != 1:
            raise FormatError(f"node {name!r}: only a context with one state may have features")
        diagram.context(name, features=features_of_data(f"node {name!r}", entry["features"]))
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
            cpd = cpd.select(_selector(diagram.resolve(f"node {name!r}", entry["parents"]), entry["select"]))
    getattr(diagram, kind)(name, entry["parents"], cpd, states=states)


def _selector(nodes: Sequence[Node], nested: Any) -> Callable[..., Any]:
    """Return a function of the nodes' values that reads a nested list of integers."""
    try:
        table = np.asarray(nested)
    except ValueError:
        table = np.empty(0, dtype=object)
    if table.dtype.kind not in "iu":
        raise FormatError("select must be a regular nested list of integers")
    if table.shape != (shape := tuple(node.states for node in nodes)):
        raise FormatError(f"select must have the shape {shape} of the parents' values, got {table.shape}")
    return lambda *values: table[tuple(node.index(v) for node, v in zip(nodes, values, strict=True))].item()


def _check_schema(data: Any) -> None:
    """Raise unless data fits the schema, with the place and the node."""
    from jsonschema import Draft202012Validator  # slow to import, and only needed here
    from jsonschema.exceptions import best_match

    if isinstance(data, Mapping) and is_integer(data.get("version")) and data["version"] > VERSION:
        raise FormatError(f"version {data['version']} is newer than this library, which reads up to version {VERSION}")
    errors = Draft202012Validator(schema()).iter_errors(_shortened(data))
    error = best_match(itertools.islice(errors, MOST_ERRORS))
    if error is None:
        return
    path = list(error.absolute_path)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "the file"
    entry = data[path[0]][path[1]] if len(path) >= 2 and path[0] in ("nodes", "learned") else None
    if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
        where += f" ({entry['name']!r})"
    message = str(error.message)
    if error.validator == "const":
        message = f"expected {error.validator_value!r}, got {brief(error.instance)}"
    elif error.validator == "oneOf":
        message = "exactly one of 'known' and 'learned' is needed"
    elif error.validator == "anyOf":
        message = f"expected {error.schema['description']}, got {brief(error.instance)}"
    raise FormatError(f"{where}: {message if len(message) < 300 else message[:300] + '…'}")


def _shortened(data: Any, is_long: bool = False) -> Any:
    """Return data with long lists cut: validators would take seconds for them, and declaring checks them, too."""
    if isinstance(data, Mapping):
        return {key: _shortened(value, key in LONG) for key, value in data.items()}
    if isinstance(data, list):
        return [_shortened(value, is_long) for value in (data[:100] if is_long else data)]
    return data
