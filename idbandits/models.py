"""Ready diagrams: the paper's models and the click models of web search, each a few lines.

- Lists of items with clicks: `cascade`, `position_based`, `dependent_click`, `dynamic_bayesian`, `click_chain`,
  `user_browsing`, `saturated`, and `cascade_inverted`, the second cascade model of the paper.
- Other problems: `semi_bandit`, where the reward of every chosen item is seen, and `rank1`, a row and a column.

Nodes are numbered by position from 1, as in the paper: A1, … decisions, W1, … attraction, E1, … examination, C1, …
clicks, S1, … satisfaction. docs/getting-started/which-model.md helps to choose.

>>> from idbandits import models
>>> d = models.cascade(["tea", "milk", "rice"], positions=2, prior={"attraction": [9, 1]})
>>> list(d.nodes)
['E1', 'A1', 'W1', 'C1', 'E2', 'A2', 'W2', 'C2']
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, final, get_args

from idbandits.diagram.diagram import MOST_VALUES, Diagram, Node
from idbandits.diagram.tables import Label, Learned
from idbandits.diagram.values import dict_of, list_of
from idbandits.errors import DiagramError, brief, check_flag, check_whole, is_integer

Items: TypeAlias = int | Iterable[Label]
Table: TypeAlias = Learned | Callable[[int, int], float]
ByTable: TypeAlias = Mapping[str, Any] | None  # settings of learned tables by their names

MOST_POSITIONS = 100_000
NOTHING = "(nothing)"  # the choice that leaves a slot empty


class TableSettings(TypedDict, total=False):
    """Settings of the learned tables of a model."""

    prior: ByTable
    fixed: ByTable
    features: ByTable
    pooled: Iterable[str]


class ListSettings(TableSettings, total=False):
    """Settings of a model of lists of items."""

    distinct: bool
    empty: bool


_PARAMETERS = {  # types and meanings
    "items": ("int or iterable of labels", "Items to choose from, or their number n, for the labels 0 to n - 1."),
    "positions": ("int", "Number of positions of a list, from 1 to 100,000."),
    "rows": ("int or iterable of labels", "Choices of the first decision, or their number."),
    "columns": ("int or iterable of labels", "Choices of the second decision, or their number."),
    "learn_conditionals": ("bool", "Whether the tables of clicks and examination are learned, not known."),
    "reward": ("str", 'Reward of a round: "clicks", their number, or "satisfaction", 1 if the user leaves satisfied.'),
    "simplified": ("bool", "Whether unsatisfied users always go on."),
    "prior": ("mapping, optional", "Pseudo-counts of learned tables by name, as in `Learned`."),
    "fixed": ("mapping, optional", 'Known rows of learned tables by name: `{"examination": {0: 1.0}}`.'),
    "features": ("mapping, optional", "Features of the rows of learned tables by name, as in `Learned`."),
    "pooled": ("iterable of str", "Names of learned tables whose rows have a common prior, which is learned."),
    "distinct": ("bool", "Whether an item may be shown only once; the paper's action set allows repetitions."),
    "empty": ("bool", 'Whether positions have the choice "(nothing)", which is never clicked and may be repeated.'),
}
_SECTIONS = """Returns
-------
Diagram
    The diagram; add nodes, rewards or constraints to it as to any other.

Raises
------
DiagramError
    An argument is invalid, or names a table that the model does not have.

"""
_DEFAULTS = {"distinct": True, "empty": False, "pooled": ()}
_Function = TypeVar("_Function", bound=Callable[..., Diagram])


def _model(function: _Function) -> _Function:
    """Complete the signature and the docstring of a model, for `help` and the command line.

    The signature gets the keywords behind `**settings`, the docstring sections of parameters, results and errors.
    """
    *own, settings = inspect.signature(function).parameters.values()
    for name, kind in get_args(settings.annotation)[0].__annotations__.items():
        own.append(
            settings.replace(name=name, kind=settings.KEYWORD_ONLY, annotation=kind, default=_DEFAULTS.get(name))
        )
    function.__signature__ = inspect.Signature(own, return_annotation=Diagram)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in own}
    text, title, examples = inspect.cleandoc(function.__doc__ or "").partition("Examples\n")
    entries = (f"{p.name} : {_PARAMETERS[p.name][0]}\n    {_PARAMETERS[p.name][1]}" for p in own)
    function.__doc__ = "\n".join([f"{text}Parameters\n----------", *entries, "", f"{_SECTIONS}{title}{examples}"])
    return function


@final
class _Builder:
    """Diagram of a model that is being declared: slots with items, and learned tables with their settings."""

    def __init__(
        self, name: str, *, distinct: bool = True, empty: bool = False, prior: ByTable = None, fixed: ByTable = None,
        features: ByTable = None, pooled: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.d, self._name, self._tables = Diagram(name), f"model {name!r}", list[str]()
        self._distinct = check_flag(f"{self._name}: distinct", distinct, error=DiagramError)
        self._empty = check_flag(f"{self._name}: empty", empty, error=DiagramError)
        needed = "must map names of tables to settings"
        self._prior = dict_of(f"{self._name}: prior {needed}", prior)
        self._fixed = dict_of(f"{self._name}: fixed {needed}", fixed)
        self._features = dict_of(f"{self._name}: features {needed}", features)
        self._pooled = list_of(f"{self._name}: pooled must be a list of names of tables", pooled)

    def slots(self, items: Items, positions: int) -> range:
        """Set the choices of all positions, and return the numbers of positions."""
        check_whole(f"{self._name}: positions", positions, 1, MOST_POSITIONS, error=DiagramError)
        if not is_integer(items):
            items = list_of(f"{self._name}: items must be an integer or a list of labels", items)
        if self._empty and is_integer(items) and 1 <= items < MOST_VALUES:
            items = list(range(items))
        self._choices: Items = [*items, NOTHING] if self._empty and isinstance(items, list) else items
        return range(1, positions + 1)

    def decision(self, position: int) -> Node:
        """Declare the decision of a position."""
        return self.d.decision(f"A{position}", self._choices)

    def table(self, name: str, of_nothing: Mapping[Any, float] | None = None, *, rows: int | None = None) -> Learned:
        """Return a learned table; `of_nothing` has the rows of an empty slot."""
        self._tables.append(name)
        fixed = self._fixed.get(name)
        if self._empty and of_nothing:
            fixed = {**dict_of(f"{self._name}: fixed[{name!r}] must map rows to probabilities", fixed), **of_nothing}
        prior, features = self._prior.get(name, 1.0), self._features.get(name)
        return Learned(name, prior, rows, fixed, features, pooled=name in self._pooled)

    def finish(self) -> Diagram:
        """Return the diagram; raise if a setting names a table that it does not have."""
        for key in ("prior", "fixed", "features", "pooled"):
            if unknown := [name for name in getattr(self, f"_{key}") if name not in self._tables]:
                tables = ", ".join(self._tables)
                raise DiagramError(f"{self._name}: {key} must name learned tables ({tables}), got {brief(unknown[0])}")
        if self._distinct:
            self.d.all_different(except_=[NOTHING] if self._empty else ())
        return self.d


_OF_NOTHING = {NOTHING: 0.0}  # fixed row of a table of items: an empty slot is never attractive


@_model
def cascade(
    items: Items, positions: int, *, learn_conditionals: bool = False, **settings: Unpack[ListSettings]
) -> Diagram:
    """Cascade model: a user looks from the top, clicks the first attractive item and leaves.

    Learned: `attraction`, one entry per item; with `learn_conditionals` also `click` P(C | W, E) and `examination`
    P(E' | C, E). The reward is the number of clicks, 0 or 1.

    Examples
    --------
    >>> cascade(20, 2)
    Diagram 'cascade': 2 decisions, 4 latent nodes, 2 observed nodes, 1 learned table, 2 reward terms
    """
    m, known = _Builder("cascade", **settings), (lambda w, e: w * e, lambda c, e: (1 - c) * e)
    return _cascade(m, items, positions, learn_conditionals, known, _OF_NOTHING)


@_model
def cascade_inverted(
    items: Items, positions: int, *, learn_conditionals: bool = False, **settings: Unpack[ListSettings]
) -> Diagram:
    """Cascade model 2 of the paper: unattractive items are clicked, and a click leads on to the next position.

    Learned: as in `cascade`. The reward is the number of clicks.

    Examples
    --------
    >>> cascade_inverted(20, 2)
    Diagram 'cascade, inverted': 2 decisions, 4 latent nodes, 2 observed nodes, 1 learned table, 2 reward terms
    """
    m, known = _Builder("cascade, inverted", **settings), (lambda w, e: (1 - w) * e, lambda c, e: c * e)
    return _cascade(m, items, positions, learn_conditionals, known, {NOTHING: 1.0})


def _cascade(
    m: _Builder, items: Items, positions: int, learn_conditionals: bool, known: tuple[Table, Table],
    of_nothing: Mapping[Any, float],
) -> Diagram:  # fmt: skip
    slots, attraction, (click, examination) = m.slots(items, positions), m.table("attraction", of_nothing), known
    if check_flag(f"model {m.d.name!r}: learn_conditionals", learn_conditionals, error=DiagramError):
        click, examination = m.table("click"), m.table("examination")
    examined = m.d.latent("E1", cpd=1.0)
    for k in slots:
        attracted = m.d.latent(f"W{k}", [m.decision(k)], attraction)
        clicked = m.d.observed(f"C{k}", [attracted, examined], click)
        m.d.reward(clicked)
        if k < positions:
            examined = m.d.latent(f"E{k + 1}", [clicked, examined], examination)
    return m.finish()


@_model
def position_based(items: Items, positions: int, **settings: Unpack[ListSettings]) -> Diagram:
    """Position-based model: each position is examined with its own probability.

    Learned: `attraction` with one entry per item, and `examination` with one entry per position. The reward is the
    number of clicks.

    Examples
    --------
    >>> position_based(["news", "sports"], 2, fixed={"examination": {0: 1.0}}, empty=True)
    Diagram 'position-based': 2 decisions, 4 latent nodes, 2 observed nodes, 2 learned tables, 2 reward terms
    """
    m = _Builder("position-based", **settings)
    slots, attraction = m.slots(items, positions), m.table("attraction", _OF_NOTHING)
    examination = m.table("examination", rows=positions)
    for k in slots:
        attracted = m.d.latent(f"W{k}", [m.decision(k)], attraction)
        examined = m.d.latent(f"E{k}", cpd=examination[k - 1])
        m.d.reward(m.d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e))
    return m.finish()


@_model
def semi_bandit(items: Items, positions: int, **settings: Unpack[ListSettings]) -> Diagram:
    """Combinatorial semi-bandit: the reward of every chosen item is seen.

    Learned: `mean`, one entry per item. The reward is the number of successes X1, X2, …

    Examples
    --------
    >>> semi_bandit(["news", "sports"], 1)
    Diagram 'semi-bandit': 1 decision, 1 observed node, 1 learned table, 1 reward term
    """
    m = _Builder("semi-bandit", **settings)
    slots, mean = m.slots(items, positions), m.table("mean", _OF_NOTHING)
    for k in slots:
        m.d.reward(m.d.observed(f"X{k}", [m.decision(k)], mean))
    return m.finish()


@_model
def rank1(rows: Items, columns: Items, **settings: Unpack[TableSettings]) -> Diagram:
    """Bernoulli rank-1 bandit: a row and a column are chosen, and only the product of their factors is seen.

    Learned: `row` and `column`, one entry per choice. The reward is the product, 0 or 1.

    Examples
    --------
    >>> rank1(rows=["ad", "mail"], columns=5)
    Diagram 'rank-1': 2 decisions, 2 latent nodes, 1 observed node, 2 learned tables, 1 reward term
    """
    m = _Builder("rank-1", distinct=False, **settings)
    row = m.d.latent("Z1", [m.d.decision("A1", rows)], m.table("row"))
    column = m.d.latent("Z2", [m.d.decision("A2", columns)], m.table("column"))
    m.d.reward(m.d.observed("X", [row, column], lambda r, c: r * c))
    return m.finish()


@_model
def dependent_click(
    items: Items, positions: int, *, reward: str = "clicks", **settings: Unpack[ListSettings]
) -> Diagram:
    """Dependent click model: after a click the user may be satisfied and leave, or go on.

    Learned: `attraction` with one entry per item, and `satisfaction` P(S = 1 | C = 1) with one entry per position. The
    reward is the number of clicks, or, with `reward="satisfaction"`, leaving satisfied, as in DCM bandits (Katariya et
    al. 2016). Clicks do not show whether the last position satisfied: its entry is not learned, and where it decides
    which position gets the best item, neither is the best action. (DCM bandits are given the order of these entries.)

    Examples
    --------
    >>> dependent_click(10, 3).learned["satisfaction"].shape
    (3,)
    """
    m = _Builder("dependent click", **settings)
    return _satisfying(m, items, positions, reward, per_item=False)


@_model
def dynamic_bayesian(
    items: Items, positions: int, *, simplified: bool = False, reward: str = "satisfaction",
    **settings: Unpack[ListSettings],
) -> Diagram:  # fmt: skip
    """Dynamic Bayesian network model: an item attracts, and once clicked it satisfies, with its own probabilities.

    Learned: `attraction` and `satisfaction` with one entry per item each, and `continuation`, the probability that an
    unsatisfied user goes on to the next position. In the simplified model the user always does. The reward is leaving
    satisfied, or `reward="clicks"`.

    Examples
    --------
    >>> list(dynamic_bayesian(10, 3).learned), list(dynamic_bayesian(10, 3, simplified=True).learned)
    (['attraction', 'satisfaction', 'continuation'], ['attraction', 'satisfaction'])
    """
    simplified = check_flag("model 'dynamic Bayesian network': simplified", simplified, error=DiagramError)
    name = "dynamic Bayesian network, simplified" if simplified else "dynamic Bayesian network"
    m = _Builder(name, **settings)
    return _satisfying(m, items, positions, reward, per_item=True, goes_on=not simplified)


def _satisfying(
    m: _Builder, items: Items, positions: int, reward: str, *, per_item: bool, goes_on: bool = False
) -> Diagram:
    d, slots, attraction = m.d, m.slots(items, positions), m.table("attraction", _OF_NOTHING)
    if reward not in ("satisfaction", "clicks"):
        raise DiagramError(f"reward must be 'satisfaction' or 'clicks', got {brief(reward)}")
    satisfaction = m.table("satisfaction", _OF_NOTHING) if per_item else m.table("satisfaction", rows=positions)
    continuation = m.table("continuation") if goes_on else None
    examined = d.latent("E1", cpd=1.0)
    for k in slots:
        item = m.decision(k)
        attracted = d.latent(f"W{k}", [item], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        would_satisfy = d.latent(f"R{k}", [item] if per_item else [], satisfaction if per_item else satisfaction[k - 1])
        satisfied = d.latent(f"S{k}", [clicked, would_satisfy], lambda c, r: c * r)
        d.reward(satisfied if reward == "satisfaction" else clicked)
        if k < positions:
            going_on = [d.latent(f"G{k}", cpd=continuation)] if continuation else []
            examined = d.latent(f"E{k + 1}", [satisfied, examined, *going_on], lambda s, e, g=1: (1 - s) * e * g)
    return m.finish()


@_model
def click_chain(items: Items, positions: int, **settings: Unpack[ListSettings]) -> Diagram:
    """Click chain model: whether the user goes on depends on the click and on the relevance of the item.

    Learned: `attraction` (the relevance of an item), and `continuation` with three entries: after no click, after a
    click on an irrelevant item, after a click on a relevant one. Relevance is drawn again after the click, as in Guo et
    al. (2009). The reward is the number of clicks.

    Examples
    --------
    >>> click_chain(10, 3).learned["continuation"].shape
    (3,)
    """
    m = _Builder("click chain", **settings)
    d, slots, attraction = m.d, m.slots(items, positions), m.table("attraction", _OF_NOTHING)
    continuation = m.table("continuation", rows=3)
    examined = d.latent("E1", cpd=1.0)
    for k in slots:
        item = m.decision(k)
        attracted = d.latent(f"W{k}", [item], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        d.reward(clicked)
        if k < positions:
            relevant = d.latent(f"R{k}", [item], attraction)
            goes_on = d.latent(f"G{k}", [clicked, relevant], continuation.select(lambda c, r: c * (1 + r)))
            examined = d.latent(f"E{k + 1}", [examined, goes_on], lambda e, g: e * g)
    return m.finish()


@_model
def user_browsing(items: Items, positions: int, **settings: Unpack[ListSettings]) -> Diagram:
    """User browsing model: examination depends on the position and on the distance from the last click.

    Learned: `attraction` with one entry per item, and `examination` with one row per position k and position of the
    last click above it (0: none), in the order (1, 0), (2, 0), (2, 1), (3, 0), … The reward is the number of clicks.

    Examples
    --------
    >>> user_browsing(10, 3).learned["examination"].shape
    (6,)
    """
    m = _Builder("user browsing", **settings)
    d, slots, attraction = m.d, m.slots(items, positions), m.table("attraction", _OF_NOTHING)
    examination = m.table("examination", rows=positions * (positions + 1) // 2)
    last: list[Node] = []  # the position of the last click so far, from the second position on
    for k in slots:
        attracted = d.latent(f"W{k}", [m.decision(k)], attraction)
        row = examination.select(lambda j, first=k * (k - 1) // 2: first + j) if last else examination[0]
        examined = d.latent(f"E{k}", last, row)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        d.reward(clicked)
        if k < positions:
            last = [d.latent(f"L{k}", [clicked, *last], _last_click(k), states=k + 1)]
    return m.finish()


def _last_click(k: int) -> Callable[..., list[float] | float]:
    """Return the table of the position of the last click among the first k, 0 if there is none."""
    return lambda click, before=0: _always(k + 1, k if click else before)


@_model
def saturated(items: Items, positions: int, **settings: Unpack[ListSettings]) -> Diagram:
    """Saturated model: every item has its own click probability at each position, whatever is shown around it.

    Learned: `attraction`, with one entry per item and position. The reward is the number of clicks. It assumes least,
    so among several structures (`Thompson([d1, d2, …])`) it is the one to fall back on if all others are wrong.

    Examples
    --------
    >>> saturated(10, 3).learned["attraction"].shape
    (10, 3)
    """
    m = _Builder("saturated", **settings)
    slots = m.slots(items, positions)
    attraction = m.table("attraction", {(NOTHING, k - 1) if positions > 1 else NOTHING: 0.0 for k in slots})
    for k in slots:
        place = [m.d.latent(f"P{k}", cpd=_always(positions, k - 1), states=positions)] if positions > 1 else []
        m.d.reward(m.d.observed(f"C{k}", [m.decision(k), *place], attraction))
    return m.finish()


def _always(states: int, state: int) -> list[float] | float:
    """Return the distribution of a node that is always in one state."""
    return [float(i == state) for i in range(states)] if states > 2 else float(state)
