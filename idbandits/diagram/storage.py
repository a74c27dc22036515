"""Diagrams as plain data: written, parsed from JSON, and declared again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from idbandits.diagram.tables import Known, Learned, Use
from idbandits.diagram.validation import FORMAT, VERSION
from idbandits.errors import DiagramError, FormatError

if TYPE_CHECKING:  # `declare` imports this module
    from idbandits.diagram.declare import Diagram, Node


def to_data(diagram: Diagram, different: list[Any]) -> dict[str, Any]:
    """A diagram as plain data; `different` has its all_different groups as they are saved: names, or "all"."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": diagram.name,
        "learned": [_learned_data(table.declared) for table in diagram.learned.values()],
        "nodes": [_node_data(node) for node in diagram.nodes.values()],
        "rewards": [{"nodes": list(r.parents), "table": r.table.tolist()} for r in diagram.rewards],
        "all_different": different,
    }


def _learned_data(learned: Learned) -> dict[str, Any]:
    data = {"name": learned.name, "prior": learned.prior.tolist()}
    return data if learned.rows is None else data | {"rows": int(learned.rows)}


def _node_data(node: Node) -> dict[str, Any]:
    states = node.states if isinstance(node.values, range) else list(node.values)
    data: dict[str, Any] = {"name": node.name, "kind": node.kind, "states": states}
    if isinstance(node.cpd, Known):
        table = node.cpd.table[..., 1] if node.states == 2 else node.cpd.table
        data |= {"parents": list(node.parents), "known": table.tolist()}
    elif isinstance(node.cpd, Use):
        data |= {"parents": list(node.parents), "learned": node.cpd.name}
        if node.cpd.rows is not None:
            data["select"] = node.cpd.rows if isinstance(node.cpd.rows, int) else node.cpd.rows.tolist()
    return data


def parse_json(text: str) -> Any:
    """The data in a JSON text; numbers that are not finite, and repeated keys, are refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeated_keys)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError also for a whole number with too many digits
        raise FormatError(f"not JSON: {error}") from None


def _refuse_constant(name: str) -> float:
    raise FormatError(f"{name} is not a finite number")


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise FormatError(f"the key {key!r} occurs twice in one object")
    return dict(pairs)


def declare_all(diagram: Diagram, data: Mapping[str, Any]) -> None:
    """Declare in an empty diagram what data describes; the data has passed `check_format`."""
    tables: dict[str, Learned] = {}
    for i, entry in enumerate(data["learned"]):
        if entry["name"] in tables:
            raise FormatError(f"learned[{i}]: table {entry['name']!r} is declared twice")
        with _located(f"learned[{i}]"):
            tables[entry["name"]] = Learned(entry["name"], prior=entry["prior"], rows=entry.get("rows"))
    for i, entry in enumerate(data["nodes"]):
        with _located(f"nodes[{i}] ({entry['name']!r})"):
            _declare_node(diagram, tables, entry)
    unused = [name for name in tables if name not in diagram.learned]
    if unused:
        raise FormatError(f"learned: no node uses table {unused[0]!r}")
    for i, entry in enumerate(data["rewards"]):
        with _located(f"rewards[{i}]"):
            nodes = diagram.resolve("a reward term", entry["nodes"])
            diagram.reward(nodes, _lookup(nodes, entry["table"], "iuf"))
    for i, group in enumerate(data["all_different"]):
        with _located(f"all_different[{i}]"):
            diagram.all_different(*([] if group == "all" else group))
    if list(diagram.learned) != list(tables):  # the order of means and states is the order of first use
        raise FormatError(f"learned: tables must be listed in the order of their first use, {list(diagram.learned)}")


def _declare_node(diagram: Diagram, tables: Mapping[str, Learned], entry: Mapping[str, Any]) -> None:
    name, kind, states = entry["name"], entry["kind"], entry["states"]
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
    shape = tuple(node.states for node in nodes)
    if table.shape != shape:
        raise FormatError(f"the table has shape {table.shape}, but the nodes it depends on have {shape} values")
    return lambda *values: table[tuple(node.index(v) for node, v in zip(nodes, values, strict=True))].item()


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """Begin the messages of errors with the place in the data."""
    try:
        yield
    except DiagramError as error:
        raise FormatError(f"{where}: {error}") from None
