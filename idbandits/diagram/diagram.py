"""Influence diagrams: declared node by node, every step validated."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, final, get_args

from numpy.typing import ArrayLike

from idbandits.diagram.chance_tables import chance_table, check_no_features
from idbandits.diagram.drawing.draw import Picture, picture_of
from idbandits.diagram.features.context_features import RequestFeatures, request_features
from idbandits.diagram.findings import Report
from idbandits.diagram.known_tables import reward_table
from idbandits.diagram.serialize import declare_all, read_json, to_data
from idbandits.diagram.support import possible
from idbandits.diagram.tables import Known, Label, LearnedTable, Use
from idbandits.diagram.values import check_labels, check_name, list_of, plain
from idbandits.errors import ODD, DiagramError, FormatError, IdbanditsError, InfeasibleError, brief, is_integer
from idbandits.files import path_of, write_whole
from idbandits.kernel.array_types import Floats
from idbandits.notebook import html_picture, html_text

Kind: TypeAlias = Literal["decision", "context", "latent", "observed"]
MOST_VALUES = 50_000_000  # of a decision or a context
MOST_DRAWN = 60  # nodes of a diagram that notebooks draw
MOST_STATES = 1000  # of a chance node: beyond that, a circuit is the wrong tool


@final
@dataclass(frozen=True, eq=False)
class Node:
    """Node of a diagram; the handle that declares it as a parent.

    Attributes
    ----------
    name : str
        Name, unique in the diagram.
    kind : str
        "decision", "context", "latent" or "observed".
    values : sequence of labels
        Labels of the values; `range(n)` if the node was declared with the number n.
    parents : tuple of str
        Names of the nodes that its table depends on.
    cpd : object
        Table of a chance node, known or learned; None for decisions and contexts.
    features : object
        Encodings of the features of a context, or None.

    Examples
    --------
    >>> node = Diagram("shop").decision("card", ["tea", "milk", "rice"])
    >>> node.kind, node.states, node.is_chance, node.index("rice"), node.indices(["milk", "tea"])
    ('decision', 3, False, 2, {0, 1})
    >>> print(node.allowed())
    'tea', 'milk', 'rice'
    """

    name: str
    kind: Kind
    values: Sequence[Label]  # a range if declared with a number
    parents: tuple[str, ...] = ()
    cpd: Known | Use | None = None  # None for decisions and contexts
    features: RequestFeatures | None = None  # of a context whose values are vectors, one value in circuits

    @property
    def states(self) -> int:
        """Number of its values."""
        return len(self.values)

    @property
    def is_chance(self) -> bool:
        """True for latent and observed nodes, which are drawn from a table."""
        return self.cpd is not None

    def index(self, value: object) -> int | None:
        """Return the place of a `value`, from 0; None if the node has no equal value.

        The values 1, 1.0, True and `np.int8(1)` are equal.
        """
        if type(value) is int or type(value) is str:
            if not isinstance(self.values, range):
                return self._places.get(value)
            return value if isinstance(value, int) and 0 <= value < self.states else None
        try:
            label: Any = plain(value)
            if not isinstance(self.values, range):
                return self._places[label]
            place = hash(label)  # equal numbers have equal hashes, and that of a small integer is the integer
            return place if 0 <= place < self.states and label == place else None
        except (KeyError, TypeError, ValueError):  # not among the values, not hashable, or not comparable
            return None

    def indices(self, values: Sequence[Any]) -> set[int] | None:
        """Return the places of many `values`; None if the node lacks one of them.

        It is fast for Python's integers and strings.
        """
        try:
            if not isinstance(self.values, range):
                return {*map(self._places.__getitem__, values)}
            if {*map(type, values)} == {int} and min(values) >= 0 and max(values) < self.states:
                return {*values}
        except (KeyError, TypeError):  # not among the values, or not hashable
            pass
        places = {self.index(value) for value in values}
        return None if None in places else {place for place in places if place is not None}

    @cached_property
    def _places(self) -> Mapping[Any, int]:
        return {v: i for i, v in enumerate(self.values)}

    def allowed(self) -> str:
        """Return the values as text for messages: the first eight if there are more."""
        if isinstance(self.values, range):
            return f"0 to {self.states - 1}"
        shown = ", ".join(repr(v) for v in self.values[:8])
        return shown + (f", … ({self.states} in all)" if self.states > 8 else "")


@final
@dataclass(frozen=True, eq=False)
class Reward:
    """Term of the reward: a table over the values of the nodes it depends on."""

    parents: tuple[str, ...]
    table: Floats


class Different(NamedTuple):
    """Group of decisions that may not share a choice, except for the choices with these labels."""

    decisions: tuple[str, ...] | None  # None: all, also those declared later
    except_: tuple[Label, ...]


Nodes: TypeAlias = Node | str | Iterable[Node | str]  # handles or names
States: TypeAlias = int | Iterable[Label]  # a number of values, or their labels


@final
class Diagram:
    """Structured decision problem: decisions, contexts, latent and observed nodes, tables, and a reward.

    Nodes are declared one by one, parents before children. Each method that declares a node returns it, to be passed as
    a parent of others.

    Parameters
    ----------
    name : str
        Name, shown in messages and pictures.

    Examples
    --------
    >>> d = Diagram("coin")
    >>> coin = d.decision("coin", ["fair", "bent"])
    >>> heads = d.observed("heads", [coin], lambda which: 0.5 if which == "fair" else 0.8)
    >>> d.reward(heads)
    >>> d
    Diagram 'coin': 1 decision, 1 observed node, 1 reward term
    >>> list(d.nodes), [node.name for node in d.of_kind("decision")], list(d.learned), len(d.rewards)
    (['coin', 'heads'], ['coin'], [], 1)
    """

    def __init__(self, name: str = "diagram") -> None:
        self.name = check_name("the name of a diagram", name)
        self._nodes: dict[str, Node] = {}
        self._learned: dict[str, LearnedTable] = {}
        self._rewards: list[Reward] = []
        self._different: dict[Different, None] = {}
        self._bound: dict[str | None, Different] = {}  # a group of each decision (None: all of them)
        self.cache: dict[str, Any] = {}  # compiled parts; emptied by every change

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, parents before children."""
        return MappingProxyType(self._nodes)

    @property
    def learned(self) -> Mapping[str, LearnedTable]:
        """Learned tables by name, in the order of their first use."""
        return MappingProxyType(self._learned)

    @property
    def rewards(self) -> Sequence[Reward]:
        """Terms of the reward."""
        return tuple(self._rewards)

    @property
    def different(self) -> Sequence[tuple[str, ...]]:
        """Groups of names of decisions that may not share a choice."""
        return tuple(names for names, _ in self.constraints)

    @property
    def constraints(self) -> Sequence[tuple[tuple[str, ...], tuple[Label, ...]]]:
        """Groups of decisions that may not share a choice, each with the labels that may repeat."""
        every = tuple(n.name for n in self.of_kind("decision"))
        return tuple((every if group is None else group, excepted) for group, excepted in self._different)

    def of_kind(self, *kinds: Kind) -> list[Node]:
        """Return the nodes of some `kinds`, in the order of declaration.

        Kinds are "decision", "context", "latent" and "observed".
        """
        for kind in kinds:
            if not isinstance(kind, str) or kind not in get_args(Kind):
                raise DiagramError(f"a kind of nodes must be one of {', '.join(get_args(Kind))}, got {brief(kind)}")
        return [n for n in self._nodes.values() if n.kind in kinds]

    def __repr__(self) -> str:
        parts = {kind if kind == "decision" else f"{kind} node": len(self.of_kind(kind)) for kind in get_args(Kind)}
        parts |= {"learned table": len(self._learned), "reward term": len(self._rewards)}
        counts = ", ".join(f"{n} {part}{'s' if n > 1 else ''}" for part, n in parts.items() if n)
        return f"Diagram {self.name!r}: {counts or 'empty'}"

    def _repr_html_(self) -> str:
        text = html_text(repr(self))
        return text if len(self._nodes) > MOST_DRAWN else f"{html_picture(self.draw().svg(), repr(self))}\n{text}"

    def resolve(self, user: str, nodes: Nodes) -> list[Node]:
        """Return nodes by their handles or names.

        Parameters
        ----------
        user : str
            Beginning of error messages: what needs the nodes.
        nodes : Node, str, or iterable of these
            Handles or names.

        Returns
        -------
        list of Node
            Nodes in this order.

        Raises
        ------
        DiagramError
            A node is not declared in this diagram, or listed twice.
        """
        resolved: dict[Node, None] = {}
        needed = f"{user} needs a list of nodes or names"
        for handle in [nodes] if isinstance(nodes, (Node, str)) else list_of(needed, nodes):
            name = handle.name if isinstance(handle, Node) else handle
            node = self._nodes.get(name) if isinstance(name, str) else None
            if node is None or (isinstance(handle, Node) and handle is not node):
                other = " (a node of another diagram)" if isinstance(handle, Node) else ""
                raise DiagramError(f"{user}: {brief(name)}{other} is not declared before it in diagram {self.name!r}")
            if node in resolved:
                raise DiagramError(f"{user}: {name!r} is listed twice")
            resolved[node] = None
        return list(resolved)

    def decision(self, name: str, choices: States) -> Node:
        """Declare a node that the agent sets.

        Parameters
        ----------
        name : str
            Name of the node.
        choices : int or iterable of labels
            Labels of the choices (strings or numbers), or their number n, for the labels 0 to n - 1.

        Returns
        -------
        Node
            Handle of the node.

        Examples
        --------
        >>> d = Diagram("menu")
        >>> d.decision("dish", ["curry", "pho"]).values
        ('curry', 'pho')
        >>> d.decision("seat", 40).values
        range(0, 40)
        """
        return self._add(Node(self._new_name(name), "decision", _values(name, choices, "choice")))

    def context(self, name: str, values: States | None = None, *, features: Any = None) -> Node:
        """Declare a node that is known before each decision.

        Pass exactly one of `values` and `features`. With `features`, the value in a round is a mapping of features, and
        learned tables that depend on the node are logistic (docs/how-to/features-of-users.md).

        Parameters
        ----------
        name : str
            Name of the node.
        values : int or iterable of labels
            Labels of the values, or their number.
        features : list, mapping or Features
            Names of numbers of about -1 to 1; or a mapping of names to None (a number like that), to (center, scale),
            or to a list of categories. `Features` of a frame of typical values declares the columns of the frame:
            numbers by center and scale, texts by their categories.

        Returns
        -------
        Node
            Handle of the node.

        Examples
        --------
        >>> d = Diagram("shop")
        >>> d.context("weekday", 7).states
        7
        >>> user = d.context("user", features={"age": (40, 15), "country": ["de", "fr", "it"]})
        >>> user.features.columns
        ('age', 'country=fr', 'country=it')
        """
        name = self._new_name(name)
        if (values is None) == (features is None):
            got = "neither (values=None)" if values is None else "both"
            needed = "exactly one of values (an integer, or a list of labels) and features"
            raise DiagramError(f"node {name!r}: a context needs {needed}, got {got}")
        if features is not None:
            own = request_features(f"node {name!r}", features)
            return self._add(Node(name, "context", range(1), features=own))
        return self._add(Node(name, "context", _values(name, values, "value")))

    def latent(self, name: str, parents: Nodes = (), cpd: Any = None, *, states: States = 2) -> Node:
        """Declare a random node that is never observed.

        Parameters
        ----------
        name : str
            Name of the node.
        parents : Node, str, or iterable of these
            Nodes that its distribution depends on.
        cpd : number, array, function, Learned, or row of a Learned
            Distribution given the parents. Known: P(1) for two states, else the probabilities of all states; as one
            number or list, as an array with an axis per parent, or as a function of the parents' values. Learned: a
            `Learned` table, `table[k]` or `table.select(function)`. By default, a learned table with the name of the
            node.
        states : int or iterable of labels
            Labels of the states, or their number.

        Returns
        -------
        Node
            Handle of the node.

        Raises
        ------
        TableError
            The known table is not a probability table of this shape.

        Examples
        --------
        >>> d = Diagram("search")
        >>> item = d.decision("item", ["tea", "milk"])
        >>> attracted = d.latent("attracted", [item])
        >>> examined = d.latent("examined", cpd=0.9)
        >>> mood = d.latent("mood", cpd=[0.2, 0.5, 0.3], states=["bad", "fair", "good"])
        >>> list(d.learned), mood.states
        (['attracted'], 3)
        """
        return self._chance("latent", name, parents, cpd, states)

    def observed(self, name: str, parents: Nodes = (), cpd: Any = None, *, states: States = 2) -> Node:
        """Declare a random node that is observed after the decision.

        Parameters
        ----------
        name : str
            Name of the node.
        parents : Node, str, or iterable of these
            Nodes that its distribution depends on.
        cpd : number, array, function, Learned, or row of a Learned
            Distribution given the parents, as for `latent`.
        states : int or iterable of labels
            Labels of the states, or their number.

        Returns
        -------
        Node
            Handle of the node.

        Examples
        --------
        >>> d = Diagram("search")
        >>> attracted, examined = d.latent("attracted", cpd=0.3), d.latent("examined", cpd=0.9)
        >>> d.observed("click", [attracted, examined], lambda a, e: a * e)
        Node(name='click', kind='observed', values=range(0, 2), parents=('attracted', 'examined'), ...)
        """
        return self._chance("observed", name, parents, cpd, states)

    def reward(self, nodes: Nodes, function: Callable[..., float] | ArrayLike | None = None) -> None:
        """Add a term to the reward.

        Parameters
        ----------
        nodes : Node, str, or iterable of these
            Nodes that the term depends on.
        function : function or array, optional
            Function of the nodes' values; or an array with one axis per node, in this order. By default, the term is
            the value of the only node. The sum of all terms must be in -1e300 to 1e300.

        Examples
        --------
        >>> d = Diagram("two coins")
        >>> coins = d.observed("first", cpd=0.5), d.observed("second", cpd=0.5)
        >>> d.reward("first")
        >>> d.reward(coins, lambda first, second: 10 * first * second)
        >>> d.reward(coins, [[0, 1], [1, 5]])
        >>> len(d.rewards)
        3
        """
        if not (parents := self.resolve("a reward term", nodes)):
            raise DiagramError("a reward term needs at least one node")
        check_no_features("a reward term", parents)
        self._rewards.append(Reward(tuple(p.name for p in parents), reward_table(parents, function)))
        self.cache.clear()

    def all_different(self, *decisions: Node | str, except_: Iterable[Label] = ()) -> None:
        """Forbid that two of these decisions take the same choice.

        Parameters
        ----------
        *decisions : Node or str
            Decisions of the group; all decisions, also those declared later, if none is named.
        except_ : iterable of labels
            Choices that may repeat, such as a slot that stays empty. Groups that have a decision in common must except
            the same labels.

        Raises
        ------
        InfeasibleError
            There are fewer choices than decisions.

        Examples
        --------
        >>> d = Diagram("two slots")
        >>> slots = [d.decision(f"A{k}", ["tea", "coffee", "(nothing)"]) for k in (1, 2, 3)]
        >>> d.all_different(except_=["(nothing)"])
        >>> d.different
        (('A1', 'A2', 'A3'),)
        """
        group = self.resolve("all_different", decisions)
        if wrong := next((node for node in group if node.kind != "decision"), None):
            raise DiagramError(f"all_different needs decisions, got {wrong.name!r} ({wrong.kind})")
        if not (bound := group or self.of_kind("decision")):
            raise DiagramError("all_different: the diagram has no decisions yet")
        excepted = _excepted(bound, except_)
        if excepted:
            bound = [node for node in bound if all(node.index(label) is None for label in excepted)]
        choices: set[Label] = set()
        for node in bound:
            if len(choices) < len(bound):  # more are not needed
                choices.update(node.values[: len(bound)])
        if len(choices) < len(bound):
            names = f"{len(bound)} decisions ({', '.join(node.name for node in bound)})"
            raise InfeasibleError(f"all_different: {names} need {len(bound)} choices, got {len(choices)} among them")
        new = Different(tuple(n.name for n in group) or None, excepted)
        self._check_exceptions(new)
        self._different[new] = None  # once, even if declared several times
        self._bound |= dict.fromkeys([None] if new.decisions is None else new.decisions, new)
        self.cache.clear()

    def _check_exceptions(self, new: Different) -> None:
        """Raise unless groups that have a decision in common with this one except the same labels."""
        near = self._bound if new.decisions is None else (None, *new.decisions)
        for names, excepted in (self._bound[name] for name in near if name in self._bound):
            if set(excepted) != set(new.except_):
                these = f"{brief(list(new.except_))} here, {brief(list(excepted))} in {', '.join(names or ['all'])}"
                needed = "groups that have a decision in common must except the same labels"
                raise DiagramError(f"all_different: {needed}, got {these}")

    def revealed(self) -> Diagram:
        """Return a copy with every latent node observed.

        Examples
        --------
        >>> d = Diagram("coin")
        >>> d.reward(d.latent("heads", [d.decision("coin", 2)]))
        >>> d.revealed()
        Diagram 'coin': 1 decision, 1 observed node, 1 learned table, 1 reward term
        """
        other = self.copy()
        other._nodes |= {node.name: replace(node, kind="observed") for node in self.of_kind("latent")}
        return other

    def copy(self) -> Diagram:
        """Return a copy that can be changed on its own."""
        other = Diagram(self.name)
        other._nodes, other._learned = dict(self._nodes), dict(self._learned)
        other._rewards, other._different = list(self._rewards), dict(self._different)
        other._bound = dict(self._bound)
        return other

    def with_encodings_of(self, *others: Diagram) -> Diagram:
        """Return the diagram with the encodings of features in tables of other diagrams.

        Coefficients that were learned in the others then mean the same in this one. New columns keep their own
        encodings, and new categories come after the others.

        Parameters
        ----------
        *others : Diagram
            Diagrams, the latest first.

        Returns
        -------
        Diagram
            A copy, or the diagram itself if no encoding changes.

        Raises
        ------
        TableError
            An encoding is declared otherwise in this diagram.
        """
        carried = {}
        for name, table in self._learned.items():
            learned = [other._learned[name] for other in others if name in other._learned]
            if learned and (table.features is not None or table.logistic is not None):
                carried[name] = table.carried(learned)
        if not carried:
            return self
        own = self.copy()
        own._learned |= carried
        return own

    def _chance(self, kind: Kind, name: str, parents: Nodes, cpd: Any, states: States) -> Node:
        name = self._new_name(name)
        above = self.resolve(f"node {name!r}", parents)
        values = _values(name, states, "state")
        if not 2 <= len(values) <= MOST_STATES:
            raise DiagramError(f"node {name!r} must have 2 to {MOST_STATES} states, got {len(values)}")
        table = chance_table(name, cpd, above, len(values), self._learned, partial(possible, self._nodes))
        return self._add(Node(name, kind, values, tuple(p.name for p in above), table))

    def _add(self, node: Node) -> Node:
        self._nodes[node.name] = node
        self.cache.clear()
        return node

    def _new_name(self, name: str) -> str:
        if check_name("the name of a node", name) in self._nodes:
            raise DiagramError(f"node {name!r} is declared already")
        return name

    def draw(self) -> Picture:
        """Return a picture of the diagram, which notebooks show.

        Returns
        -------
        Picture
            Picture with the methods `save("file.svg")`, `svg()`, `png()` and `mermaid()`.

        Examples
        --------
        >>> d = Diagram("coin")
        >>> d.reward(d.observed("heads", [d.decision("coin", 2)]))
        >>> d.draw().svg().startswith("<?xml")
        True
        """
        return picture_of(self)

    def check(self) -> Report:
        """Report what cannot be learned or distinguished, and how large the diagram is.

        Findings are numerical, from derivatives of likelihood and reward at random means. Decisions and contexts with
        many values are represented by some of them, which yields equal findings where items are alike.

        Returns
        -------
        Report
            Findings; serious ones are also warned of when an agent is created.

        Examples
        --------
        >>> d = Diagram("coins")
        >>> coin = d.decision("coin", 3)
        >>> d.reward(d.latent("luck", [coin]))
        >>> print(d.check().serious[0].kind)
        reward
        """
        checking = importlib.import_module("idbandits.identifiability")  # a package above
        report: Report = checking.check(self)
        return report

    def to_dict(self) -> dict[str, Any]:
        """Return the diagram as plain data, as in JSON, from which `from_dict` restores it exactly.

        Examples
        --------
        >>> d = Diagram("coin")
        >>> d.reward(d.observed("heads", [d.decision("coin", 2)]))
        >>> Diagram.from_dict(d.to_dict())
        Diagram 'coin': 1 decision, 1 observed node, 1 learned table, 1 reward term
        """
        return to_data(self, [_constraint_data(group) for group in self._different])

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Diagram:
        """Return the diagram that `to_dict` described.

        Parameters
        ----------
        data : mapping
            Plain data; `idbandits/diagram/diagram.schema.json` is its JSON schema.

        Returns
        -------
        Diagram
            The diagram.

        Raises
        ------
        FormatError
            The data does not describe a diagram; the message names the place in the data.
        """
        try:
            declare_all(diagram := Diagram(), data)
        except IdbanditsError:
            raise
        except ODD:  # values that JSON does not have
            raise FormatError(f"the data cannot be read; it must be plain, as of JSON, got {brief(data)}") from None
        return diagram

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the diagram as JSON, atomically.

        Parameters
        ----------
        path : str or path
            File to write or to replace.

        Examples
        --------
        >>> import tempfile
        >>> d = Diagram("coin")
        >>> d.reward(d.observed("heads", [d.decision("coin", 2)]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     d.save(f"{folder}/coin.json")
        ...     Diagram.load(f"{folder}/coin.json")
        Diagram 'coin': 1 decision, 1 observed node, 1 learned table, 1 reward term
        """
        write_whole(path_of(path), json.dumps(self.to_dict(), indent=1, allow_nan=False).encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Diagram:
        """Read a file of `save`.

        Parameters
        ----------
        path : str or path
            File of at most 100 MB.

        Returns
        -------
        Diagram
            The diagram.

        Raises
        ------
        FormatError
            The file does not describe a diagram.
        """
        try:
            return Diagram.from_dict(read_json(path_of(path)))
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None


def _excepted(decisions: Sequence[Node], labels: Any) -> tuple[Label, ...]:
    """Return the labels that may repeat, as the decisions have them."""
    excepted: dict[Label, None] = {}
    for label in list_of("all_different: except_ must be a list of labels", labels):
        places = ((node, node.index(label)) for node in decisions)
        owner, place = next(((node, place) for node, place in places if place is not None), (None, 0))
        if owner is None:
            names = ", ".join(node.name for node in decisions)
            raise DiagramError(f"all_different: except_ must have choices of {names}, got {brief(label)}")
        excepted[owner.values[place]] = None
    return tuple(excepted)


def _constraint_data(group: Different) -> Any:
    """Return a constraint as it is saved."""
    names: Any = "all" if group.decisions is None else list(group.decisions)
    return {"decisions": names, "except": list(group.except_)} if group.except_ else names


def _values(name: object, states: Any, unit: str) -> Sequence[Label]:
    """Return the values of a node that is declared with a number or labels; messages call a value by `unit`."""
    needed = f"node {name!r}: {unit}s must be an integer or a list of labels, at least one and at most {MOST_VALUES:,}"
    size = states if is_integer(states) else len(states) if isinstance(states, Sequence) else 1  # a range may be huge
    if 1 <= size <= MOST_VALUES:
        if is_integer(states):
            return range(int(states))
        if labels := check_labels(f"node {name!r}", list_of(needed, states)):
            return labels
    raise DiagramError(f"{needed}, got {brief(states)}")
