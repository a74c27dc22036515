"""Declare an influence diagram, check it, keep it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, final

import numpy as np

from idbandits.diagram.pictures import Box, Picture
from idbandits.diagram.tables import (
    Axis,
    Known,
    Label,
    Learned,
    LearnedTable,
    RowOf,
    Selected,
    Use,
    chosen_rows,
    known_table,
    learned_table,
    reward_table,
)
from idbandits.errors import DiagramError, FormatError, InfeasibleError, brief, is_integer
from idbandits.files import write_whole
from idbandits.kernel.types import Floats

Kind: TypeAlias = Literal["decision", "context", "latent", "observed"]
MOST_STATES = 1000  # of a chance node: beyond that, a circuit is the wrong tool
VERSION = 1  # of the dictionary and the JSON file


@final
@dataclass(frozen=True, eq=False)
class Node:
    """A node of a diagram; the handle that declares it as a parent."""

    name: str
    kind: Kind
    values: Sequence[Label]  # a range where the states or choices were given as a number
    parents: tuple[str, ...] = ()
    cpd: Known | Use | None = None  # None for decisions and contexts

    @property
    def states(self) -> int:
        """How many values it can take."""
        return len(self.values)

    @property
    def is_chance(self) -> bool:
        """Latent or observed: drawn from a table."""
        return self.cpd is not None

    def index(self, value: object) -> int | None:
        """The place of a value among its values; None where it is not one of them."""
        if isinstance(self.values, range):
            if isinstance(value, (bool, np.bool_)) and self.states == 2:
                return int(value)
            return int(value) if is_integer(value) and 0 <= value < self.states else None
        try:
            return self._places[value.item() if isinstance(value, np.generic) else value]
        except (KeyError, TypeError):
            return None

    @cached_property
    def _places(self) -> Mapping[Any, int]:
        return {v: i for i, v in enumerate(self.values)}

    def allowed(self) -> str:
        """The allowed values, for messages."""
        if isinstance(self.values, range):
            return f"0 to {self.states - 1}"
        shown = ", ".join(repr(v) for v in self.values[:8])
        return shown + (f", … ({self.states} in all)" if self.states > 8 else "")


@final
@dataclass(frozen=True, eq=False)
class Reward:
    """One term of the reward: a table over the values of the nodes it depends on."""

    parents: tuple[str, ...]
    table: Floats


@final
class Diagram:
    """A structured decision problem: what is decided, what is seen, what stays hidden, and what it is worth.

    >>> d = Diagram("coin")
    >>> coin = d.decision("coin", ["fair", "bent"])
    >>> heads = d.observed("heads", [coin], lambda which: 0.5 if which == "fair" else 0.8)
    >>> d.reward(heads)
    >>> d
    Diagram 'coin': 1 decision, 1 observed node, 1 reward term
    """

    def __init__(self, name: str = "diagram") -> None:
        if not isinstance(name, str) or not name:
            raise DiagramError(f"a diagram is named by a non-empty string, not {name!r}")
        self.name = name
        self._nodes: dict[str, Node] = {}
        self._learned: dict[str, LearnedTable] = {}
        self._declared: dict[str, Learned] = {}
        self._rewards: list[Reward] = []
        self._different: list[tuple[str, ...] | None] = []
        self.cache: dict[str, Any] = {}  # what was compiled; emptied by every change

    # -- what it holds -------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name, parents before children."""
        return MappingProxyType(self._nodes)

    @property
    def learned(self) -> Mapping[str, LearnedTable]:
        """The learned tables by name, in the order of their first use."""
        return MappingProxyType(self._learned)

    @property
    def rewards(self) -> Sequence[Reward]:
        """The terms of the reward."""
        return tuple(self._rewards)

    @property
    def different(self) -> Sequence[tuple[str, ...]]:
        """The groups of decisions that may not share a choice."""
        every = tuple(n.name for n in self.of_kind("decision"))
        return tuple(every if group is None else group for group in self._different)

    def of_kind(self, *kinds: Kind) -> list[Node]:
        """The nodes of these kinds, in the order of declaration."""
        return [n for n in self._nodes.values() if n.kind in kinds]

    def __repr__(self) -> str:
        def count(number: int, what: str) -> list[str]:
            return [f"{number} {what}{'s' if number != 1 else ''}"] if number else []

        parts = count(len(self.of_kind("decision")), "decision") + count(len(self.of_kind("context")), "context node")
        parts += count(len(self.of_kind("latent")), "latent node") + count(
            len(self.of_kind("observed")), "observed node"
        )
        parts += count(len(self._learned), "learned table") + count(len(self._rewards), "reward term")
        return f"Diagram {self.name!r}: {', '.join(parts) or 'empty'}"

    # -- declare -------------------------------------------------------------------------------------------------

    def decision(self, name: str, choices: int | Iterable[Label]) -> Node:
        """A node that the agent sets: to one of a number of choices, or of their labels."""
        return self._add(Node(self._new_name(name), "decision", _values(name, choices, "choice")))

    def context(self, name: str, values: int | Iterable[Label]) -> Node:
        """A node that is given before each decision."""
        return self._add(Node(self._new_name(name), "context", _values(name, values, "value")))

    def latent(
        self,
        name: str,
        parents: Iterable[Node | str] | Node = (),
        cpd: Any = None,
        *,
        states: int | Iterable[Label] = 2,
    ) -> Node:
        """A random node that is never seen; `cpd` is known (a number, an array, a function), or learned."""
        return self._chance("latent", name, parents, cpd, states)

    def observed(
        self,
        name: str,
        parents: Iterable[Node | str] | Node = (),
        cpd: Any = None,
        *,
        states: int | Iterable[Label] = 2,
    ) -> Node:
        """A random node that is seen after the decision; `cpd` as for `latent`."""
        return self._chance("observed", name, parents, cpd, states)

    def reward(self, nodes: Node | str | Iterable[Node | str], function: Callable[..., float] | None = None) -> None:
        """Add a term to the reward: the value of a node, or a function of the values of several."""
        parents = self._parents("a reward term", nodes)
        if not parents:
            raise DiagramError("a reward term depends on at least one node; none was given")
        table = reward_table([self._axis(p) for p in parents], function)
        self._rewards.append(Reward(tuple(p.name for p in parents), table))
        self.cache.clear()

    def all_different(self, *decisions: Node | str) -> None:
        """Forbid that two of these decisions (of all decisions, if none is named) take the same choice."""
        group = tuple(p.name for p in self._parents("all_different", decisions))
        for name in group:
            if self._nodes[name].kind != "decision":
                raise DiagramError(f"all_different is about decisions; {name!r} is a {self._nodes[name].kind} node")
        if group:
            self._check_enough_choices(group)
        elif decisions or not self.of_kind("decision"):
            raise DiagramError("all_different: the diagram has no decisions yet")
        else:
            self._check_enough_choices(tuple(n.name for n in self.of_kind("decision")))
        self._different.append(group or None)
        self.cache.clear()

    def revealed(self) -> Diagram:
        """The same diagram with every latent node observed."""
        other = self.copy()
        for node in self.of_kind("latent"):
            other._nodes[node.name] = replace(node, kind="observed")
        return other

    def copy(self) -> Diagram:
        """The same diagram, to be changed apart."""
        other = Diagram(self.name)
        other._nodes = dict(self._nodes)
        other._learned = dict(self._learned)
        other._declared = dict(self._declared)
        other._rewards = list(self._rewards)
        other._different = list(self._different)
        return other

    def _chance(self, kind: Kind, name: str, parents: Any, cpd: Any, states: Any) -> Node:
        name = self._new_name(name)
        above = self._parents(f"node {name!r}", parents)
        values = _values(name, states, "state")
        if not 2 <= len(values) <= MOST_STATES:
            raise DiagramError(f"node {name!r}: a chance node has 2 to {MOST_STATES} states, not {len(values)}")
        node = Node(name, kind, values, tuple(p.name for p in above))
        if cpd is None or isinstance(cpd, (Learned, RowOf, Selected)):
            use = self._use(node, Learned(name) if cpd is None else cpd)
            return self._add(replace(node, cpd=use))
        return self._add(replace(node, cpd=known_table(name, cpd, [self._axis(p) for p in above], len(values))))

    def _use(self, node: Node, cpd: Learned | RowOf | Selected) -> Use:
        learned = cpd if isinstance(cpd, Learned) else cpd.learned
        axes = [self._axis(self._nodes[p]) for p in node.parents]
        shape = tuple(len(a.values) for a in axes)
        if isinstance(cpd, RowOf):
            use = Use(learned.name, cpd.row)
        elif isinstance(cpd, Selected):
            use = Use(learned.name, chosen_rows(node.name, cpd, axes))
        else:
            use = Use(learned.name)
            if learned.rows is not None and learned.rows != math.prod(shape):
                raise DiagramError(
                    f"node {node.name!r}: learned table {learned.name!r} has {learned.rows} rows, its parents have "
                    f"{math.prod(shape)} combinations; pick rows by {learned.name}[k] or {learned.name}.select(f)"
                )
        rows = shape if learned.rows is None else (int(learned.rows),)
        known = self._learned.get(learned.name)
        if known is None:
            table = learned_table(node.name, learned, rows, node.states)
            self._learned[learned.name] = table
            self._declared[learned.name] = learned
        elif self._declared[learned.name] is not learned:
            raise DiagramError(
                f"node {node.name!r}: another learned table is named {learned.name!r} already; "
                "to share one table, pass the same Learned object"
            )
        elif (known.shape, known.states) != (rows, node.states):
            raise DiagramError(
                f"node {node.name!r}: shares learned table {learned.name!r} of {known.states} states and row shape "
                f"{known.shape}, but has {node.states} states and parents of shape {rows}"
            )
        return use

    def _add(self, node: Node) -> Node:
        self._nodes[node.name] = node
        self.cache.clear()
        return node

    def _new_name(self, name: object) -> str:
        if not isinstance(name, str) or not name:
            raise DiagramError(f"a node is named by a non-empty string, not {name!r}")
        if name in self._nodes:
            raise DiagramError(f"node {name!r} is declared already; each name is declared once")
        return name

    def _parents(self, what: str, given: Node | str | Iterable[Node | str]) -> list[Node]:
        if not isinstance(given, (Node, str, Iterable)):
            raise DiagramError(f"{what}: nodes are given as a list of handles or names, not {given!r}")
        handles = [given] if isinstance(given, (Node, str)) else list(given)
        found: list[Node] = []
        for handle in handles:
            name = handle.name if isinstance(handle, Node) else handle
            node = self._nodes.get(name) if isinstance(name, str) else None
            if node is None or (isinstance(handle, Node) and handle is not node):
                other = " (a node of another diagram)" if isinstance(handle, Node) else ""
                raise DiagramError(f"{what}: {name!r}{other} is not declared in diagram {self.name!r} before it")
            if node in found:
                raise DiagramError(f"{what}: {name!r} is given twice")
            found.append(node)
        return found

    def _axis(self, node: Node) -> Axis:
        return Axis(node.name, node.values)

    def _check_enough_choices(self, group: tuple[str, ...]) -> None:
        choices = {v for name in group for v in self._nodes[name].values}
        if len(choices) < len(group):
            raise InfeasibleError(
                f"all_different: {len(group)} decisions ({', '.join(group)}) have {len(choices)} choices among them"
            )

    # -- see -----------------------------------------------------------------------------------------------------

    def draw(self) -> Picture:
        """A picture of it: `.save("file.svg")`, `.svg()`, `.png()`, `.mermaid()`, or shown by a notebook."""
        boxes = [
            Box(n.name, n.kind, table, _states_caption(n), rows)
            for n in self._nodes.values()
            for table, rows in [_caption(n, self._learned)]
        ]
        edges = [(p, n.name) for n in self._nodes.values() for p in n.parents]
        if self._rewards:
            name = "reward"
            while name in self._nodes:
                name += "'"
            boxes.append(Box(name, "reward"))
            edges += dict.fromkeys((p, name) for term in self._rewards for p in term.parents)
        return Picture(self.name, tuple(boxes), tuple(edges), tuple(self.different))

    # -- keep ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` turns back into the same diagram, exactly."""
        learned = [{"name": name} | _prior_data(self._declared[name]) for name in self._learned]
        rewards = [{"nodes": list(r.parents), "table": r.table.tolist()} for r in self._rewards]
        different = ["all" if group is None else list(group) for group in self._different]
        return {
            "format": "idbandits diagram",
            "version": VERSION,
            "name": self.name,
            "learned": learned,
            "nodes": [_node_data(n) for n in self._nodes.values()],
            "rewards": rewards,
            "all_different": different,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Diagram:
        """The diagram that `to_dict` described; an error says where the data is wrong, and what is."""
        _check_schema(data)
        return _rebuild(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, whole or not at all."""
        write_whole(Path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False).encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Diagram:
        """Read what `save` wrote."""
        try:
            return Diagram.from_dict(parsed(Path(path).read_text(encoding="utf-8")))
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"{path}: not JSON: {error}") from None


def _values(name: object, given: Any, what: str) -> Sequence[Label]:
    if is_integer(given):
        if given < 1:
            raise DiagramError(f"node {name!r}: it needs at least one {what}, not {given}")
        if given > sys.maxsize:
            raise DiagramError(f"node {name!r}: it has at most {sys.maxsize} {what}s, not {given}")
        return range(int(given))
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise DiagramError(f"node {name!r}: {what}s are a whole number or a list of labels, not {given!r}")
    labels = [v.item() if isinstance(v, np.generic) else v for v in given]
    for label in labels:
        if not isinstance(label, (str, int, float, bool)) or (isinstance(label, float) and not math.isfinite(label)):
            raise DiagramError(f"node {name!r}: a label is a string or a finite number, not {label!r}")
    if not labels:
        raise DiagramError(f"node {name!r}: it needs at least one {what}; the list of labels is empty")
    if len(set(labels)) < len(labels):
        twice = next(v for i, v in enumerate(labels) if v in labels[:i])
        raise DiagramError(f"node {name!r}: label {twice!r} is given twice")
    return tuple(labels)


def _caption(node: Node, learned: Mapping[str, LearnedTable]) -> tuple[str, str]:
    """The name of its learned table, and which rows of it, where they are picked."""
    if not isinstance(node.cpd, Use):
        return "", ""
    rows = node.cpd.rows
    if rows is None or learned[node.cpd.name].shape == (1,):
        return node.cpd.name, ""
    return node.cpd.name, f"[{rows}]" if isinstance(rows, int) else "[…]"


def _states_caption(node: Node) -> str:
    if node.kind == "decision":
        return f"{node.states} choice{'s' if node.states > 1 else ''}"
    return f"{node.states} {'values' if node.kind == 'context' else 'states'}" if node.states != 2 else ""


def _prior_data(learned: Learned) -> dict[str, Any]:
    prior = learned.prior.tolist()
    return {"prior": prior} if learned.rows is None else {"prior": prior, "rows": int(learned.rows)}


def _node_data(node: Node) -> dict[str, Any]:
    values = node.states if isinstance(node.values, range) else list(node.values)
    data: dict[str, Any] = {"name": node.name, "kind": node.kind, "states": values}
    if isinstance(node.cpd, Known):
        table = node.cpd.table[..., 1] if node.states == 2 else node.cpd.table
        data |= {"parents": list(node.parents), "known": table.tolist()}
    elif isinstance(node.cpd, Use):
        data |= {"parents": list(node.parents), "learned": node.cpd.name}
        if node.cpd.rows is not None:
            data["select"] = node.cpd.rows if isinstance(node.cpd.rows, int) else node.cpd.rows.tolist()
    return data


def parsed(text: str) -> Any:
    """The data in a JSON text, of finite numbers and of objects without a key twice."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_key_twice)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:  # also a whole number of too many digits
        raise FormatError(f"not JSON: {error}") from None


def _no_constant(name: str) -> float:
    raise FormatError(f"{name} is not a number that a diagram can hold")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise FormatError(f"the key {key!r} is given twice in one object")
    return dict(pairs)


def schema() -> dict[str, Any]:
    """The JSON schema of a saved diagram, as published with the package."""
    text = resources.files("idbandits.diagram").joinpath("diagram.schema.json").read_text(encoding="utf-8")
    published: dict[str, Any] = json.loads(text)
    return published


def _check_schema(data: Any) -> None:
    from jsonschema import Draft202012Validator  # slow to import, and only needed here
    from jsonschema.exceptions import best_match

    if isinstance(data, Mapping) and is_integer(data.get("version")) and data["version"] > VERSION:
        raise FormatError(f"version {data['version']} is newer than this library, which reads up to version {VERSION}")
    error = best_match(Draft202012Validator(schema()).iter_errors(_outline(data)))
    if error is not None:
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".")
        name = _node_name_at(data, list(error.absolute_path))
        raise FormatError(f"{where or 'the file'}{name}: {_explained(error)}")


def _outline(data: Any, within_table: bool = False) -> Any:
    """The same data with long tables cut: a schema takes seconds for large ones, and NumPy checks the rest."""
    if isinstance(data, Mapping):
        return {
            key: _outline(value, key in ("known", "table", "select", "prior", "states")) for key, value in data.items()
        }
    if isinstance(data, list):
        return [_outline(value, within_table) for value in (data[:100] if within_table else data)]
    return data


def _explained(error: Any) -> str:
    """What a schema says of a mistake, where its own words would not help."""
    if error.validator == "const":
        return f"{brief(error.instance)} was given, {error.validator_value!r} is expected"
    if error.validator == "oneOf":
        both = {"known", "learned"} <= error.instance.keys()
        return (
            f"has {'both' if both else 'neither'} 'known' {'and' if both else 'nor'} 'learned'; one of them is needed"
        )
    if error.validator == "anyOf":
        return f"{brief(error.instance)} is not {error.schema['description']}"
    return str(error.message) if len(error.message) < 300 else f"{error.message[:300]}…"


def _node_name_at(data: Any, path: list[Any]) -> str:
    if len(path) >= 2 and path[0] in ("nodes", "learned"):
        entry = data[path[0]][path[1]]
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            return f" ({entry['name']!r})"
    return ""


def _rebuild(data: Mapping[str, Any]) -> Diagram:
    diagram = Diagram(data["name"])
    tables: dict[str, Learned] = {}
    for i, entry in enumerate(data["learned"]):
        if entry["name"] in tables:
            raise FormatError(f"learned[{i}]: table {entry['name']!r} is declared twice")
        with _located(f"learned[{i}]"):
            tables[entry["name"]] = Learned(entry["name"], prior=entry["prior"], rows=entry.get("rows"))
    for i, entry in enumerate(data["nodes"]):
        with _located(f"nodes[{i}] ({entry['name']!r})"):
            _rebuild_node(diagram, tables, entry)
    unused = [name for name in tables if name not in diagram.learned]
    if unused:
        raise FormatError(f"learned: no node uses table {unused[0]!r}")
    for i, entry in enumerate(data["rewards"]):
        with _located(f"rewards[{i}]"):
            axes = [diagram._axis(p) for p in diagram._parents("a reward term", entry["nodes"])]
            diagram.reward(entry["nodes"], _lookup(axes, entry["table"], "iuf"))
    for i, group in enumerate(data["all_different"]):
        with _located(f"all_different[{i}]"):
            diagram.all_different(*([] if group == "all" else group))
    if list(diagram.learned) != list(tables):  # the order of means and states is the order of first use
        raise FormatError(f"learned: tables stand in the order of their first use, {list(diagram.learned)}")
    return diagram


def _rebuild_node(diagram: Diagram, tables: Mapping[str, Learned], entry: Mapping[str, Any]) -> None:
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
            axes = [diagram._axis(p) for p in diagram._parents(f"node {name!r}", entry["parents"])]
            cpd = cpd.select(_lookup(axes, entry["select"], "iu"))
    getattr(diagram, kind)(name, entry["parents"], cpd, states=states)


def _lookup(axes: Sequence[Axis], nested: Any, kinds: str) -> Callable[..., Any]:
    """A function of the parents' values that reads a nested list."""
    shape = tuple(len(a.values) for a in axes)
    try:
        table = np.asarray(nested)
    except ValueError:
        table = np.empty(0, dtype=object)
    if table.dtype.kind not in kinds:
        raise FormatError("the table is no regular nested list of numbers")
    if table.shape != shape:
        raise FormatError(f"the table has shape {table.shape}, the nodes it depends on have {shape} values")
    places = [{v: i for i, v in enumerate(a.values)} for a in axes]
    return lambda *values: table[tuple(place[v] for place, v in zip(places, values, strict=True))].item()


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """Put the place in the file in front of what went wrong there."""
    try:
        yield
    except DiagramError as error:
        raise FormatError(f"{where}: {error}") from None
