"""Ready diagrams: the paper's models and the click models of web search, each a few lines.

Nodes are numbered by position from 1, as in the paper: A1, … decisions, W1, … attraction, E1, … examination, C1, …
clicks, S1, … satisfaction. `distinct` forbids lists that show an item twice; the paper's action set allows them.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import Label, Learned
from idbandits.errors import ODD, DiagramError, brief, check_flag, check_whole

Items: TypeAlias = int | Iterable[Label]
Table: TypeAlias = Learned | Callable[[int, int], float]

MOST_POSITIONS = 100_000
CONDITIONALS = Learned("click"), Learned("examination")  # P(C | W, E) and P(E' | C, E) of the cascade models


def cascade(items: Items, positions: int, *, distinct: bool = True, learn_conditionals: bool = False) -> Diagram:
    """The cascade model: a user looks from the top, clicks the first attractive item and leaves.

    Learned: `attraction`; with `learn_conditionals` also `click` P(C | W, E) and `examination` P(E' | C, E).
    The reward is the number of clicks.

    >>> cascade(20, 2)
    Diagram 'cascade': 2 decisions, 4 latent nodes, 2 observed nodes, 1 learned table, 2 reward terms
    """
    learned = check_flag("model 'cascade': learn_conditionals", learn_conditionals, error=DiagramError)
    tables = CONDITIONALS if learned else (lambda w, e: w * e, lambda c, e: (1 - c) * e)
    return _cascade("cascade", items, positions, distinct, *tables)


def cascade_inverted(
    items: Items, positions: int, *, distinct: bool = True, learn_conditionals: bool = False
) -> Diagram:
    """The paper's cascade model 2: unattractive items are clicked, and a click leads on to the next position."""
    learned = check_flag("model 'cascade, inverted': learn_conditionals", learn_conditionals, error=DiagramError)
    tables = CONDITIONALS if learned else (lambda w, e: (1 - w) * e, lambda c, e: c * e)
    return _cascade("cascade, inverted", items, positions, distinct, *tables)


def _cascade(name: str, items: Items, positions: int, distinct: bool, click: Table, examination: Table) -> Diagram:
    d, items, attraction = _start(name, items, positions)
    examined = d.latent("E1", cpd=1.0)
    for k in range(1, positions + 1):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", items)], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], click)
        d.reward(clicked)
        if k < positions:
            examined = d.latent(f"E{k + 1}", [clicked, examined], examination)
    return _finish(d, distinct)


def position_based(items: Items, positions: int, *, distinct: bool = True) -> Diagram:
    """The position-based model: each position is examined with a probability of its own.

    Learned: `attraction`, and `examination` with one entry per position. The reward is the number of clicks.
    """
    d, items, attraction = _start("position-based", items, positions)
    examination = Learned("examination", rows=positions)
    for k in range(1, positions + 1):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", items)], attraction)
        examined = d.latent(f"E{k}", cpd=examination[k - 1])
        d.reward(d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e))
    return _finish(d, distinct)


def semi_bandit(items: Items, positions: int, *, distinct: bool = True) -> Diagram:
    """The combinatorial semi-bandit: the reward of every chosen item is seen. Learned: `mean`."""
    d, items, _ = _start("semi-bandit", items, positions)
    mean = Learned("mean")
    for k in range(1, positions + 1):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", items)], mean))
    return _finish(d, distinct)


def rank1(rows: Items, columns: Items) -> Diagram:
    """The Bernoulli rank-1 bandit: a row and a column, and only the product of their factors is seen.

    Learned: `row` and `column`. The reward is what is seen.
    """
    d = Diagram("rank-1")
    row = d.latent("Z1", [d.decision("A1", rows)], Learned("row"))
    column = d.latent("Z2", [d.decision("A2", columns)], Learned("column"))
    d.reward(d.observed("X", [row, column], lambda r, c: r * c))
    return d


def dependent_click(items: Items, positions: int, *, distinct: bool = True, reward: str = "clicks") -> Diagram:
    """The dependent click model: after a click the user may be satisfied and leave, or go on.

    Learned: `attraction`, and `satisfaction` P(S = 1 | C = 1) with one entry per position. The reward is the number of
    clicks, or, with `reward="satisfaction"`, leaving satisfied, as in DCM bandits (Katariya et al. 2016). But whether
    a click at the last position satisfied, no click can tell: its entry is not learned, and where it decides which
    position gets the best item, neither is the best action. (DCM bandits are told the order of these entries.)
    """
    return _finish(_satisfying("dependent click", items, positions, reward, per_item=False), distinct)


def dynamic_bayesian(
    items: Items, positions: int, *, distinct: bool = True, simplified: bool = False, reward: str = "satisfaction"
) -> Diagram:
    """The dynamic Bayesian network model: an item attracts, and once clicked it satisfies, with its own probabilities.

    Learned: `attraction`, `satisfaction` with one entry per item, and `continuation`, the probability that an
    unsatisfied user goes on to the next position; the simplified model has none: there the user always does.
    The reward is leaving satisfied, or `reward="clicks"`.
    """
    simplified = check_flag("model 'dynamic Bayesian network': simplified", simplified, error=DiagramError)
    name, goes_on = ", simplified" if simplified else "", None if simplified else Learned("continuation")
    return _finish(_satisfying(f"dynamic Bayesian network{name}", items, positions, reward, goes_on), distinct)


def _satisfying(
    name: str, items: Items, positions: int, reward: str, continuation: Learned | None = None, per_item: bool = True
) -> Diagram:
    d, items, attraction = _start(name, items, positions)
    if not isinstance(reward, str) or reward not in ("satisfaction", "clicks"):
        raise DiagramError(f"reward must be 'satisfaction' or 'clicks', not {brief(reward)}")
    satisfaction = Learned("satisfaction", rows=None if per_item else positions)
    examined = d.latent("E1", cpd=1.0)
    for k in range(1, positions + 1):
        item = d.decision(f"A{k}", items)
        attracted = d.latent(f"W{k}", [item], attraction)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        would_satisfy = d.latent(f"R{k}", [item] if per_item else [], satisfaction if per_item else satisfaction[k - 1])
        satisfied = d.latent(f"S{k}", [clicked, would_satisfy], lambda c, r: c * r)
        d.reward(satisfied if reward == "satisfaction" else clicked)
        if k < positions:
            goes_on = [d.latent(f"G{k}", cpd=continuation)] if continuation else []
            examined = d.latent(f"E{k + 1}", [satisfied, examined, *goes_on], lambda s, e, g=1: (1 - s) * e * g)
    return d


def click_chain(items: Items, positions: int, *, distinct: bool = True) -> Diagram:
    """The click chain model: whether the user goes on depends on the click and on how relevant the item was.

    Learned: `attraction` (the relevance of an item), and `continuation` with three entries: after no click, after a
    click on an irrelevant item, after a click on a relevant one. Relevance is drawn again after the click, as in
    Guo et al. (2009). The reward is the number of clicks.
    """
    d, items, attraction = _start("click chain", items, positions)
    continuation = Learned("continuation", rows=3)
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
    return _finish(d, distinct)


def user_browsing(items: Items, positions: int, *, distinct: bool = True) -> Diagram:
    """The user browsing model: examination depends on the position and on the distance from the last click.

    Learned: `attraction`, and `examination` with one row per position k and position of the last click
    above it (0: none), in the order (1, 0), (2, 0), (2, 1), (3, 0), … The reward is the number of clicks.
    """
    d, items, attraction = _start("user browsing", items, positions)
    examination = Learned("examination", rows=positions * (positions + 1) // 2)
    last: list[Node] = []  # the position of the last click so far, from the second position on
    for k in range(1, positions + 1):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", items)], attraction)
        row = examination.select(lambda j, first=k * (k - 1) // 2: first + j) if last else examination[0]
        examined = d.latent(f"E{k}", last, row)
        clicked = d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e)
        d.reward(clicked)
        if k < positions:
            last = [_last_click(d, k, clicked, last)]
    return _finish(d, distinct)


def saturated(items: Items, positions: int, *, distinct: bool = True) -> Diagram:
    """Every item has a click probability of its own at each position, whatever is shown around it.

    Learned: `attraction`, with one entry per item and position. The reward is the number of clicks. It assumes least,
    so among several structures (`Thompson([d1, d2, …])`) it is the one to fall back on if all others are wrong.
    """
    d, items, attraction = _start("saturated", items, positions)
    for k in range(positions):
        place = [d.latent(f"P{k + 1}", cpd=_one_of(positions, k), states=positions)] if positions > 1 else []
        d.reward(d.observed(f"C{k + 1}", [d.decision(f"A{k + 1}", items), *place], attraction))
    return _finish(d, distinct)


def _one_of(states: int, state: int) -> list[float] | float:
    """The table of a node that is always in one state."""
    return [float(i == state) for i in range(states)] if states > 2 else float(state)


def _last_click(d: Diagram, k: int, clicked: Node, before: list[Node]) -> Node:
    """A node whose state is the position of the last click among the first k, 0 where there is none."""

    def where(c: int, j: int = 0) -> list[float] | float:
        at = k if c else j
        return [float(at == i) for i in range(k + 1)] if k > 1 else float(at)

    return d.latent(f"L{k}", [clicked, *before], where, states=k + 1)


def _start(name: str, items: Items, positions: int) -> tuple[Diagram, Items, Learned]:
    check_whole(f"model {name!r}: positions", positions, 1, MOST_POSITIONS, error=DiagramError)
    if isinstance(items, Iterable) and not isinstance(items, str):
        with suppress(*ODD):  # as of an array that is a number; the diagram will refuse it
            items = list(items)  # for all decisions
    return Diagram(name), items, Learned("attraction")


def _finish(d: Diagram, distinct: bool) -> Diagram:
    if check_flag(f"model {d.name!r}: distinct", distinct, error=DiagramError):
        d.all_different()
    return d
