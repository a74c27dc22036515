"""Ready diagrams: the paper's models and the click models of web search, each a few lines.

Nodes are numbered by position from 1, as in the paper: A1, … decisions, W1, … attraction, E1, … examination, C1, …
clicks, S1, … satisfaction. `distinct` forbids lists that show an item twice; the paper's action set allows them.
`empty` adds the choice "(nothing)" to every position: an empty slot, never clicked, which may occur any number of
times. `prior`, `fixed` and `features` are those of the learned tables, by name: `fixed={"examination": {0: 1.0}}`.
`pooled` names the tables whose rows have a prior that is learned from all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, final

from idbandits.diagram.diagram import MOST_VALUES, Diagram, Node
from idbandits.diagram.tables import Label, Learned
from idbandits.errors import ODD, DiagramError, brief, check_flag, check_whole, is_integer

Items: TypeAlias = int | Iterable[Label]
Table: TypeAlias = Learned | Callable[[int, int], float]
ByTable: TypeAlias = Mapping[str, Any] | None  # settings of learned tables by their names

MOST_POSITIONS = 100_000
NOTHING = "(nothing)"  # the choice that leaves a slot empty


@final
class _Declaring:
    """A model that is being declared: its diagram, its items, and its learned tables as the settings say."""

    def __init__(
        self, name: str, prior: ByTable, fixed: ByTable, features: ByTable, pooled: Iterable[str],
        distinct: bool = False, empty: bool = False,
    ) -> None:  # fmt: skip
        self.d, self._name = Diagram(name), f"model {name!r}"
        by_table = {"prior": prior, "fixed": fixed, "features": features}
        self._settings = {key: self._by_table(key, settings) for key, settings in by_table.items()}
        self._settings["pooled"] = self._names("pooled", pooled)
        self._distinct = check_flag(f"{self._name}: distinct", distinct, error=DiagramError)
        self._empty = check_flag(f"{self._name}: empty", empty, error=DiagramError)
        self._tables: list[str] = []

    def _by_table(self, key: str, given: Any) -> dict[str, Any]:
        try:
            return {} if given is None else dict(given)
        except ODD:
            raise DiagramError(f"{self._name}: {key} maps names of tables to settings, not {brief(given)}") from None

    def _names(self, key: str, names: Any) -> dict[str, Any]:
        try:
            if not isinstance(names, str):
                return dict.fromkeys(names, True)
        except ODD:
            pass
        raise DiagramError(f"{self._name}: {key} is a list of names of tables, not {brief(names)}")

    def items(self, items: Items, positions: int) -> Items:
        """The choices of every position."""
        check_whole(f"{self._name}: positions", positions, 1, MOST_POSITIONS, error=DiagramError)
        if isinstance(items, Iterable) and not isinstance(items, str):
            with suppress(*ODD):  # as of an array that is a number; the diagram will refuse it
                items = list(items)  # for all decisions
        if not self._empty:
            return items
        if is_integer(items) and 1 <= items < MOST_VALUES:
            items = list(range(items))
        return [*items, NOTHING] if isinstance(items, list) else items

    def table(self, name: str, *, rows: int | None = None, of_nothing: Mapping[Any, float] | None = None) -> Learned:
        """A learned table; `of_nothing` has the rows of an empty slot."""
        self._tables.append(name)
        fixed = self._settings["fixed"].get(name)
        if self._empty and of_nothing:
            fixed = {**self._by_table(f"fixed[{name!r}]", fixed), **of_nothing}
        prior, features = self._settings["prior"].get(name, 1.0), self._settings["features"].get(name)
        return Learned(name, prior, rows, fixed, features, pooled=name in self._settings["pooled"])

    def finish(self) -> Diagram:
        """The diagram."""
        for key, tables in self._settings.items():
            if unknown := [name for name in tables if name not in self._tables]:
                has = f"{brief(unknown[0])}; the learned tables are {', '.join(self._tables)}"
                raise DiagramError(f"{self._name}: {key} is given for {has}")
        if self._distinct and self._empty:
            self.d.all_different(except_=[NOTHING])
        elif self._distinct:
            self.d.all_different()
        return self.d


def cascade(
    items: Items, positions: int, *, distinct: bool = True, learn_conditionals: bool = False, empty: bool = False,
    prior: ByTable = None, fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The cascade model: a user looks from the top, clicks the first attractive item and leaves.

    Learned: `attraction`; with `learn_conditionals` also `click` P(C | W, E) and `examination` P(E' | C, E).
    The reward is the number of clicks.

    >>> cascade(20, 2)
    Diagram 'cascade': 2 decisions, 4 latent nodes, 2 observed nodes, 1 learned table, 2 reward terms
    """
    known = (lambda w, e: w * e, lambda c, e: (1 - c) * e)
    m = _Declaring("cascade", prior, fixed, features, pooled, distinct, empty)
    return _cascade(m, items, positions, learn_conditionals, known, 0.0)


def cascade_inverted(
    items: Items, positions: int, *, distinct: bool = True, learn_conditionals: bool = False, empty: bool = False,
    prior: ByTable = None, fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The paper's cascade model 2: unattractive items are clicked, and a click leads on to the next position."""
    known = (lambda w, e: (1 - w) * e, lambda c, e: c * e)
    m = _Declaring("cascade, inverted", prior, fixed, features, pooled, distinct, empty)
    return _cascade(m, items, positions, learn_conditionals, known, 1.0)


def _cascade(
    m: _Declaring, items: Items, positions: int, learn_conditionals: bool, known: tuple[Table, Table], nothing: float
) -> Diagram:
    d, items, attraction = m.d, m.items(items, positions), m.table("attraction", of_nothing={NOTHING: nothing})
    click, examination = known
    if check_flag(f"model {d.name!r}: learn_conditionals", learn_conditionals, error=DiagramError):
        click, examination = m.table("click"), m.table("examination")
    examined = d.latent("E1", cpd=1.0)
    for k in range(1, positions + 1):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", items)], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], click)
        d.reward(clicked)
        if k < positions:
            examined = d.latent(f"E{k + 1}", [clicked, examined], examination)
    return m.finish()


def position_based(
    items: Items, positions: int, *, distinct: bool = True, empty: bool = False, prior: ByTable = None,
    fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The position-based model: each position is examined with a probability of its own.

    Learned: `attraction`, and `examination` with one entry per position. The reward is the number of clicks.

    >>> position_based(["news", "sports"], 2, fixed={"examination": {0: 1.0}}, empty=True)
    Diagram 'position-based': 2 decisions, 4 latent nodes, 2 observed nodes, 2 learned tables, 2 reward terms
    """
    m = _Declaring("position-based", prior, fixed, features, pooled, distinct, empty)
    d, items, attraction = _start(m, items, positions)
    examination = m.table("examination", rows=positions)
    for k in range(1, positions + 1):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", items)], attraction)
        examined = d.latent(f"E{k}", cpd=examination[k - 1])
        d.reward(d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e))
    return m.finish()


def semi_bandit(
    items: Items, positions: int, *, distinct: bool = True, empty: bool = False, prior: ByTable = None,
    fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The combinatorial semi-bandit: the reward of every chosen item is seen. Learned: `mean`."""
    m = _Declaring("semi-bandit", prior, fixed, features, pooled, distinct, empty)
    d, items, mean = m.d, m.items(items, positions), m.table("mean", of_nothing={NOTHING: 0.0})
    for k in range(1, positions + 1):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", items)], mean))
    return m.finish()


def rank1(
    rows: Items, columns: Items, *, prior: ByTable = None, fixed: ByTable = None, features: ByTable = None,
    pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The Bernoulli rank-1 bandit: a row and a column, and only the product of their factors is seen.

    Learned: `row` and `column`. The reward is what is seen.
    """
    m = _Declaring("rank-1", prior, fixed, features, pooled)
    row = m.d.latent("Z1", [m.d.decision("A1", rows)], m.table("row"))
    column = m.d.latent("Z2", [m.d.decision("A2", columns)], m.table("column"))
    m.d.reward(m.d.observed("X", [row, column], lambda r, c: r * c))
    return m.finish()


def dependent_click(
    items: Items, positions: int, *, distinct: bool = True, reward: str = "clicks", empty: bool = False,
    prior: ByTable = None, fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The dependent click model: after a click the user may be satisfied and leave, or go on.

    Learned: `attraction`, and `satisfaction` P(S = 1 | C = 1) with one entry per position. The reward is the number of
    clicks, or, with `reward="satisfaction"`, leaving satisfied, as in DCM bandits (Katariya et al. 2016). But whether
    a click at the last position satisfied, no click can tell: its entry is not learned, and where it decides which
    position gets the best item, neither is the best action. (DCM bandits are told the order of these entries.)
    """
    m = _Declaring("dependent click", prior, fixed, features, pooled, distinct, empty)
    return _satisfying(m, items, positions, reward, per_item=False)


def dynamic_bayesian(
    items: Items, positions: int, *, distinct: bool = True, simplified: bool = False, reward: str = "satisfaction",
    empty: bool = False, prior: ByTable = None, fixed: ByTable = None, features: ByTable = None,
    pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The dynamic Bayesian network model: an item attracts, and once clicked it satisfies, with its own probabilities.

    Learned: `attraction`, `satisfaction` with one entry per item, and `continuation`, the probability that an
    unsatisfied user goes on to the next position; the simplified model has none: there the user always does.
    The reward is leaving satisfied, or `reward="clicks"`.
    """
    simplified = check_flag("model 'dynamic Bayesian network': simplified", simplified, error=DiagramError)
    name = "dynamic Bayesian network, simplified" if simplified else "dynamic Bayesian network"
    m = _Declaring(name, prior, fixed, features, pooled, distinct, empty)
    return _satisfying(m, items, positions, reward, per_item=True, goes_on=not simplified)


def _satisfying(
    m: _Declaring, items: Items, positions: int, reward: str, *, per_item: bool, goes_on: bool = False
) -> Diagram:
    d, items, attraction = _start(m, items, positions)
    if not isinstance(reward, str) or reward not in ("satisfaction", "clicks"):
        raise DiagramError(f"reward must be 'satisfaction' or 'clicks', not {brief(reward)}")
    of_nothing = {NOTHING: 0.0} if per_item else {}
    satisfaction = m.table("satisfaction", rows=None if per_item else positions, of_nothing=of_nothing)
    continuation = m.table("continuation") if goes_on else None
    examined = d.latent("E1", cpd=1.0)
    for k in range(1, positions + 1):
        item = d.decision(f"A{k}", items)
        attracted = d.latent(f"W{k}", [item], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        would_satisfy = d.latent(f"R{k}", [item] if per_item else [], satisfaction if per_item else satisfaction[k - 1])
        satisfied = d.latent(f"S{k}", [clicked, would_satisfy], lambda c, r: c * r)
        d.reward(satisfied if reward == "satisfaction" else clicked)
        if k < positions:
            going_on = [d.latent(f"G{k}", cpd=continuation)] if continuation else []
            examined = d.latent(f"E{k + 1}", [satisfied, examined, *going_on], lambda s, e, g=1: (1 - s) * e * g)
    return m.finish()


def click_chain(
    items: Items, positions: int, *, distinct: bool = True, empty: bool = False, prior: ByTable = None,
    fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The click chain model: whether the user goes on depends on the click and on how relevant the item was.

    Learned: `attraction` (the relevance of an item), and `continuation` with three entries: after no click, after a
    click on an irrelevant item, after a click on a relevant one. Relevance is drawn again after the click, as in
    Guo et al. (2009). The reward is the number of clicks.
    """
    m = _Declaring("click chain", prior, fixed, features, pooled, distinct, empty)
    d, items, attraction = _start(m, items, positions)
    continuation = m.table("continuation", rows=3)
    examined = d.latent("E1", cpd=1.0)
    for k in range(1, positions + 1):
        item = d.decision(f"A{k}", items)
        attracted = d.latent(f"W{k}", [item], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        d.reward(clicked)
        if k < positions:
            relevant = d.latent(f"R{k}", [item], attraction)
            goes_on = d.latent(f"G{k}", [clicked, relevant], continuation.select(lambda c, r: c * (1 + r)))
            examined = d.latent(f"E{k + 1}", [examined, goes_on], lambda e, g: e * g)
    return m.finish()


def user_browsing(
    items: Items, positions: int, *, distinct: bool = True, empty: bool = False, prior: ByTable = None,
    fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """The user browsing model: examination depends on the position and on the distance from the last click.

    Learned: `attraction`, and `examination` with one row per position k and position of the last click
    above it (0: none), in the order (1, 0), (2, 0), (2, 1), (3, 0), … The reward is the number of clicks.
    """
    m = _Declaring("user browsing", prior, fixed, features, pooled, distinct, empty)
    d, items, attraction = _start(m, items, positions)
    examination = m.table("examination", rows=positions * (positions + 1) // 2)
    last: list[Node] = []  # the position of the last click so far, from the second position on
    for k in range(1, positions + 1):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", items)], attraction)
        row = examination.select(lambda j, first=k * (k - 1) // 2: first + j) if last else examination[0]
        examined = d.latent(f"E{k}", last, row)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        d.reward(clicked)
        if k < positions:
            last = [_last_click(d, k, clicked, last)]
    return m.finish()


def saturated(
    items: Items, positions: int, *, distinct: bool = True, empty: bool = False, prior: ByTable = None,
    fixed: ByTable = None, features: ByTable = None, pooled: Iterable[str] = (),
) -> Diagram:  # fmt: skip
    """Every item has a click probability of its own at each position, whatever is shown around it.

    Learned: `attraction`, with one entry per item and position. The reward is the number of clicks. It assumes least,
    so among several structures (`Thompson([d1, d2, …])`) it is the one to fall back on if all others are wrong.
    """
    m = _Declaring("saturated", prior, fixed, features, pooled, distinct, empty)
    d, items = m.d, m.items(items, positions)
    of_nothing = {(NOTHING, k) if positions > 1 else NOTHING: 0.0 for k in range(positions)}
    attraction = m.table("attraction", of_nothing=of_nothing)
    for k in range(positions):
        place = [d.latent(f"P{k + 1}", cpd=_one_of(positions, k), states=positions)] if positions > 1 else []
        d.reward(d.observed(f"C{k + 1}", [d.decision(f"A{k + 1}", items), *place], attraction))
    return m.finish()


def _one_of(states: int, state: int) -> list[float] | float:
    """The table of a node that is always in one state."""
    return [float(i == state) for i in range(states)] if states > 2 else float(state)


def _last_click(d: Diagram, k: int, clicked: Node, before: list[Node]) -> Node:
    """A node whose state is the position of the last click among the first k, 0 where there is none."""

    def where(c: int, j: int = 0) -> list[float] | float:
        at = k if c else j
        return [float(at == i) for i in range(k + 1)] if k > 1 else float(at)

    return d.latent(f"L{k}", [clicked, *before], where, states=k + 1)


def _start(m: _Declaring, items: Items, positions: int) -> tuple[Diagram, Items, Learned]:
    """The diagram, the choices of every position, and the table of attraction."""
    return m.d, m.items(items, positions), m.table("attraction", of_nothing={NOTHING: 0.0})
