"""Every mistake raises its own class before anything has changed; messages name what is wrong, and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import Diagram, Learned, models
from idbandits.errors import (
    ActionError,
    ComplexityError,
    ContextError,
    DiagramError,
    FormatError,
    IdbanditsError,
    ImpossibleObservationError,
    InfeasibleError,
    MeansError,
    ObservationError,
    PriorError,
    TableError,
    brief,
    check_number,
    check_whole,
)

ROWS = Learned("rows", rows=3)
OTHER = Diagram("other")
STRANGER = OTHER.latent("stranger")
NAMESAKE = OTHER.latent("L")


def small() -> Diagram:
    """Two decisions, a context, a latent node, two observed nodes."""
    d = Diagram("small")
    a, b, s = d.decision("A", 3), d.decision("B", ["p", "q"]), d.context("S", ["new", "loyal"])
    latent = d.latent("L", [a, s], SHARED)
    d.reward(d.observed("O", [latent, b], [[0, 0.5], [1, 0.25]]))
    d.observed("T", [b], [[0.5, 0.25, 0.25], [0, 0, 1]], states=["low", "mid", "high"])
    d.all_different()
    return d


SHARED = Learned("L")
MEANS = {"L": np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])}
ACTION = {"A": 1, "B": "p"}
CONTEXT = {"S": "new"}


def refused(d: Diagram, error: type[Exception], words: tuple[str, ...], do: Callable[[Diagram], Any]) -> None:
    before = d.to_dict()
    with pytest.raises(IdbanditsError) as raised:
        do(d)
    assert raised.type is error, raised.value
    message = str(raised.value)
    missing = [word for word in words if word not in message]
    assert not missing, message
    assert len(message) < 600
    assert d.to_dict() == before


def case(name: str, error: type[Exception], words: str, do: Callable[[Diagram], Any]) -> Any:
    """A mistake, the error it raises and words of the message, separated by bars."""
    return pytest.param(error, tuple(words.split("|")), do, id=name)


def cases(*parameters: Any) -> Any:
    return pytest.mark.parametrize(("error", "words", "do"), parameters)


# -- declaring -------------------------------------------------------------------------------------------------------


@cases(
    case("name taken", DiagramError, "'A'|declared already", lambda d: d.decision("A", 2)),
    case("name taken by another kind", DiagramError, "'S'|declared already", lambda d: d.observed("S")),
    case("empty name", DiagramError, "''|non-empty string", lambda d: d.latent("")),
    case("name not a string", DiagramError, "7|string", lambda d: d.context(7, 2)),
    case("unknown parent", DiagramError, "'X'|'Q'|'small'", lambda d: d.latent("X", ["Q"])),
    case("parent not a node", DiagramError, "'X'|5", lambda d: d.latent("X", [5])),
    case("its own parent", DiagramError, "'X'", lambda d: d.latent("X", ["X"])),
    case("parent of another diagram", DiagramError, "'X'|'stranger'|another", lambda d: d.latent("X", [STRANGER])),
    case("parent named like ours", DiagramError, "'X'|'L'|another", lambda d: d.latent("X", [NAMESAKE])),
    case("parent twice", DiagramError, "'X'|'A'|twice", lambda d: d.latent("X", ["A", d.nodes["A"]])),
    case("cpd in place of parents", DiagramError, "'X'|1.0", lambda d: d.latent("X", 1.0)),
    case("no parents by None", DiagramError, "'X'|None", lambda d: d.latent("X", None)),
    case("unknown node in reward", DiagramError, "reward|'Q'", lambda d: d.reward("Q")),
    case("reward of another diagram", DiagramError, "reward|'stranger'|another", lambda d: d.reward([STRANGER])),
    case("reward of a node twice", DiagramError, "reward|'O'|twice", lambda d: d.reward(["O", "O"], max)),
    case("reward of nothing", DiagramError, "reward|at least one", lambda d: d.reward([])),
    case("reward of None", DiagramError, "reward|None", lambda d: d.reward(None)),
    case("reward of labels", DiagramError, "'T'|labels|function", lambda d: d.reward("T")),
    case("reward of two, no function", DiagramError, "'O'|'A'|function", lambda d: d.reward(["O", "A"])),
    case("reward of wrong shape", TableError, "'A'|(2,)|(3,)", lambda d: d.reward("A", [1, 2])),
    case("reward not of numbers", TableError, "'A'|'ab'|array", lambda d: d.reward("A", "ab")),
    case(
        "reward NaN", DiagramError, "'A'|A = 1|nan|finite", lambda d: d.reward("A", lambda a: math.nan if a == 1 else 0)
    ),
    case(
        "reward inf", DiagramError, "'A'|A = 2|inf|finite", lambda d: d.reward("A", lambda a: math.inf if a == 2 else 0)
    ),
    case("reward beyond floats", DiagramError, "'A'|A = 0|inf|finite", lambda d: d.reward("A", lambda a: 10**400)),
    case("reward masked", TableError, "'A'|A = 0|one number", lambda d: d.reward("A", lambda a: np.ma.masked)),
    case("reward a list", TableError, "the reward of 'A'|A = 0|one number", lambda d: d.reward("A", lambda a: [a, a])),
    case("reward a string", TableError, "reward of|'A'|A = 0|'1'", lambda d: d.reward("A", lambda a: "1")),
    case("reward None", TableError, "'A'|A = 0|None", lambda d: d.reward("A", lambda a: None)),
    case("all_different unknown", DiagramError, "all_different|'Q'", lambda d: d.all_different("A", "Q")),
    case("all_different twice", DiagramError, "all_different|'A'|twice", lambda d: d.all_different("A", "A")),
    case("all_different latent", DiagramError, "all_different|'L'|latent", lambda d: d.all_different("A", "L")),
    case("all_different context", DiagramError, "all_different|'S'|context", lambda d: d.all_different("S")),
)
def test_nodes_and_rewards(error: type[Exception], words: tuple[str, ...], do: Callable[[Diagram], Any]) -> None:
    refused(small(), error, words, do)


@pytest.mark.parametrize("add", ["decision", "context", "latent", "observed"])
@pytest.mark.parametrize(
    ("states", "words"),
    [
        (0, "at least one|0"), (-1, "at least one|-1"), (2.5, "integer|2.5"), ("ab", "integer|labels|'ab'"),
        (None, "None"), (True, "integer|True"), ([], "at least one|[]"), (["a", "a"], "'a'|twice"),
        ([1, True], "True|twice"), ([1.0, 1], "1|twice"), ([["a"], ["b"]], "label|['a']"), ([{}, 1], "label|{}"),
        ([None, 1], "label|None"), ([math.nan, 1], "label|nan"), (np.eye(2), "label|array"), ([b"a", b"b"], "label|b'a'"),
    ],
)  # fmt: skip
def test_states_and_choices(add: str, states: Any, words: str) -> None:
    def do(d: Diagram) -> None:
        if add in ("decision", "context"):
            getattr(d, add)("X", states)
        else:
            getattr(d, add)("X", states=states)

    refused(small(), DiagramError, ("'X'", *words.split("|")), do)


@pytest.mark.parametrize("states", [1, ["only"], 1001, range(1001)])
def test_a_chance_node_has_several_states_but_not_too_many(states: Any) -> None:
    number = states if isinstance(states, int) else len(states)
    refused(small(), DiagramError, ("'X'", "2 to 1000", str(number)), lambda d: d.latent("X", states=states))


def test_no_file_can_hold_an_infinite_label() -> None:
    refused(small(), DiagramError, ("'X'", "label", "inf"), lambda d: d.decision("X", [math.inf, 0.0]))


def three(d: Diagram, cpd: Any) -> Any:
    return d.latent("X", ["A", "B"], cpd, states=3)


def two(d: Diagram, cpd: Any) -> Any:
    return d.observed("X", ["A", "B"], cpd)


THIRDS = np.full((3, 2, 3), 1 / 3)


def with_entry(value: float, at: tuple[int, ...] = (2, 0, 1)) -> np.ndarray:
    table = THIRDS.copy()
    table[at] = value
    return table


@cases(
    case("too few", TableError, "'X'|(2, 2)|(3, 2)|3 values of 'A' x 2 values of 'B'", lambda d: two(d, np.zeros((2, 2)))),
    case("transposed", TableError, "'X'|(2, 3)|(3, 2)", lambda d: two(d, np.zeros((2, 3)))),
    case("flat", TableError, "'X'|(6,)|(3, 2)", lambda d: two(d, np.zeros(6))),
    case("two states spelt out", TableError, "'X'|(3, 2, 2)|(3, 2)|only P(1)", lambda d: two(d, np.full((3, 2, 2), 0.5))),
    case("no states axis", TableError, "'X'|(3, 2)|(3, 2, 3)|last axis", lambda d: three(d, np.zeros((3, 2)))),
    case("states axis first", TableError, "'X'|(3, 3, 2)|(3, 2, 3)", lambda d: three(d, np.full((3, 3, 2), 1 / 3))),
    case("a number for three states", TableError, "'X'|()|(3, 2, 3)", lambda d: three(d, 0.5)),
    case("no parents, a list", TableError, "'X'|(2,)|no parents", lambda d: d.latent("X", (), [0.5, 0.5])),
    case("ragged", TableError, "'X'", lambda d: two(d, [[0, 1], [0], [1]])),
    case("above 1", TableError, "'X'|1.5|A = 2, B = 'q'|[0, 1]", lambda d: two(d, [[0, 1], [1, 0], [0, 1.5]])),
    case("below 0", TableError, "'X'|-0.5|A = 0, B = 'p'|[0, 1]", lambda d: two(d, [[-0.5, 1], [1, 0], [0, 1]])),
    case("just above 1", TableError, "'X'|[0, 1]", lambda d: two(d, 1 + 1e-7)),
    case("NaN", TableError, "'X'|nan|A = 1, B = 'p'", lambda d: two(d, [[0, 1], [math.nan, 0], [0, 1]])),
    case("inf", TableError, "'X'|inf", lambda d: two(d, math.inf)),
    case("row above 1", TableError, "'X'|1.5|A = 2, B = 'p'", lambda d: three(d, with_entry(1.5))),
    case("row with NaN", TableError, "'X'|nan|A = 2, B = 'p'", lambda d: three(d, with_entry(math.nan))),
    case("row does not sum to 1", TableError, "'X'|A = 2, B = 'p'|sum|1.16", lambda d: three(d, with_entry(0.5))),
    case("row misses 1 by little", TableError, "'X'|A = 2, B = 'p'|sum", lambda d: three(d, with_entry(1 / 3 + 1e-7))),
    case("a string", TableError, "'X'|'0.5'|numbers", lambda d: two(d, "0.5")),
    case("strings", TableError, "'X'|numbers", lambda d: two(d, [["0", "1"]] * 3)),
    case("a dictionary", TableError, "'X'|numbers", lambda d: two(d, {"p": 0.5})),
    case("None inside", TableError, "'X'|None", lambda d: two(d, [[0, None]] * 3)),
    case("complex", TableError, "'X'|numbers", lambda d: two(d, 0.5j)),
    case("function: None", TableError, "'X'|A = 0, B = 'p'|None", lambda d: two(d, lambda a, b: None)),
    case("function: a string", TableError, "'X'|A = 0, B = 'p'|'1'", lambda d: two(d, lambda a, b: "1")),
    case("function: above 1", TableError, "'X'|A = 2, B = 'p'|2.0", lambda d: two(d, lambda a, b: a)),
    case("function: two for one", TableError, "'X'|A = 0, B = 'p'|[0.5, 0.5]|one number", lambda d: two(d, lambda a, b: [0.5, 0.5])),
    case("function: one for three", TableError, "'X'|A = 0, B = 'p'|0.5|3", lambda d: three(d, lambda a, b: 0.5)),
    case("function: two for three", TableError, "'X'|A = 0, B = 'p'|[0.5, 0.5]|3", lambda d: three(d, lambda a, b: [0.5, 0.5])),
    case("function: not a distribution", TableError, "'X'|A = 0, B = 'p'|sum", lambda d: three(d, lambda a, b: [0.5, 0.4, 0])),
    case("too large", TableError, "'X'|50,000,000", lambda d: d.latent("X", ["A", many(d), "B"], 0.5)),
    case("too large a reward", TableError, "'huge'|50,000,000", lambda d: d.reward([many(d), "A"], max)),
)  # fmt: skip
def test_known_tables(error: type[Exception], words: tuple[str, ...], do: Callable[[Diagram], Any]) -> None:
    d = small()
    d.decision("huge", 20_000_000)
    refused(d, error, words, do)


def many(d: Diagram) -> Any:
    return d.nodes["huge"]


@pytest.mark.parametrize(
    "do",
    [
        pytest.param(lambda d, f: d.latent("X", ["A"], f), id="table"),
        pytest.param(lambda d, f: d.latent("X", ["A"], ROWS.select(f)), id="select"),
        pytest.param(lambda d, f: d.reward("A", f), id="reward"),
    ],
)
def test_functions_that_raise(do: Callable[..., Any]) -> None:
    """The error names the node, the values of its parents and what was raised, and leads to a user's own error."""
    d = small()
    before = d.to_dict()
    with pytest.raises(TableError, match=r"'[XA]'.* raised ZeroDivisionError: .* where A = 1$") as raised:
        do(d, lambda a: 1 // (1 - a))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert d.to_dict() == before


@cases(
    case("row out of range", DiagramError, "'rows'|3|0 to 2", lambda d: d.latent("X", (), ROWS[3])),
    case("row below 0", DiagramError, "'rows'|-1|0 to 2", lambda d: d.latent("X", (), ROWS[-1])),
    case("row not an integer", DiagramError, "'rows'|1.0", lambda d: d.latent("X", (), ROWS[1.0])),
    case("row of a table without", DiagramError, "'free'|rows=", lambda d: d.latent("X", (), Learned("free")[0])),
    case("select of a table without", DiagramError, "'free'|rows=", lambda d: Learned("free").select(int)),
    case("iterate a table without", DiagramError, "'free'|rows=", lambda d: list(Learned("free"))),
    case("select not a function", DiagramError, "'rows'|2|function", lambda d: ROWS.select(2)),
    case("select beyond", TableError, "'X'|'rows'|3|A = 2|0 to 2", lambda d: d.latent("X", ["A"], ROWS.select(lambda a: a + 1))),
    case("select below", TableError, "'X'|'rows'|-1|A = 0|0 to 2", lambda d: d.latent("X", ["A"], ROWS.select(lambda a: a - 1))),
    case("select a float", TableError, "'X'|'rows'|0.0|A = 0", lambda d: d.latent("X", ["A"], ROWS.select(float))),
    case("select None", TableError, "'X'|'rows'|None|A = 0", lambda d: d.latent("X", ["A"], ROWS.select(lambda a: None))),
    case("rows for other combinations", DiagramError, "'X'|'rows'|3|2", lambda d: d.latent("X", ["B"], ROWS)),
    case("rows=0", DiagramError, "'z'|0|integer >= 1", lambda d: Learned("z", rows=0)),
    case("rows=2.5", DiagramError, "'z'|2.5|integer >= 1", lambda d: Learned("z", rows=2.5)),
    case("no name", DiagramError, "''|string", lambda d: Learned("")),
    case("shared, other parents", DiagramError, "'X'|'L'|(3, 2)|(2,)", lambda d: d.latent("X", ["B"], SHARED)),
    case("shared, other order", DiagramError, "'X'|'L'|(3, 2)|(2, 3)", lambda d: d.latent("X", ["B", "A"], SHARED)),
    case("shared, other states", DiagramError, "'X'|'L'|3 states", lambda d: d.latent("X", ["A", "S"], SHARED, states=3)),
    case("another of that name", DiagramError, "'X'|'L'|same Learned", lambda d: d.latent("X", ["A", "S"], Learned("L"))),
    case("a node's own of that name", DiagramError, "'L'", lambda d: _namesake()),
    case("prior 0", PriorError, "'z'|0.0|from 1e-09 to 1e+15", lambda d: d.latent("X", (), Learned("z", prior=0))),
    case("prior negative", PriorError, "'z'|-1.0|from 1e-09", lambda d: d.latent("X", (), Learned("z", prior=[1, -1]))),
    case("prior NaN", PriorError, "'z'|nan|to 1e+15", lambda d: d.latent("X", (), Learned("z", prior=math.nan))),
    case("prior inf", PriorError, "'z'|inf|to 1e+15", lambda d: d.latent("X", (), Learned("z", prior=[math.inf, 1]))),
    case("prior subnormal", PriorError, "'z'|1e-310|from 1e-09 to 1e+15", lambda d: d.latent("X", (), Learned("z", prior=1e-310))),
    case("prior below", PriorError, "'z'|9.9e-10|1e-09", lambda d: d.latent("X", (), Learned("z", prior=[1, 9.9e-10]))),
    case("prior above", PriorError, "'z'|1.1e+16|1e+15", lambda d: d.latent("X", (), Learned("z", prior=[[1, 1.1e16]]))),
    case("prior at the end of floats", PriorError, "'z'|1.7e+308|1e+15", lambda d: d.latent("X", (), Learned("z", prior=1.7e308))),
    case("prior beyond floats", PriorError, "'z'|inf|1e+15", lambda d: d.latent("X", (), Learned("z", prior=[1, 10**400]))),
    case("prior masked", PriorError, "'z'|masked", lambda d: d.latent("X", (), Learned("z", prior=np.ma.array([1, 2], mask=[0, 1])))),
    case("prior shape", PriorError, "'z'|(3,)|(3, 2)", lambda d: d.latent("X", ["A"], Learned("z", prior=[1, 2, 3]))),
    case("prior ragged", PriorError, "'z'|[[1], [1, 2]]", lambda d: d.latent("X", (), Learned("z", prior=[[1], [1, 2]]))),
    case("prior words", PriorError, "'z'|'a'", lambda d: d.latent("X", (), Learned("z", prior="a"))),
    case("prior digits", PriorError, "'z'|'3'", lambda d: d.latent("X", (), Learned("z", prior="3"))),
    case("prior None", PriorError, "'z'|None", lambda d: d.latent("X", (), Learned("z", prior=None))),
    case("too large", TableError, "'X'|50,000,000", lambda d: d.latent("X", (), Learned("z", rows=10**9)[0])),
)  # fmt: skip
def test_learned_tables(error: type[Exception], words: tuple[str, ...], do: Callable[[Diagram], Any]) -> None:
    refused(small(), error, words, do)


def _namesake() -> None:
    d = Diagram()
    d.latent("X", (), Learned("L"))
    try:
        d.latent("L")
    finally:
        assert list(d.nodes) == ["X"]


def test_one_row_for_many_combinations() -> None:
    d = Diagram()
    parents = [d.decision("A", 10**7), d.decision("B", 10**7)]
    d.latent("X", parents, ROWS[0])  # no table of 10¹⁴ entries is made
    assert d.learned["rows"].means_shape == (3,)


@pytest.mark.parametrize("prior", [np.ones(2), [1.0, 1.0]], ids=["array", "list"])
def test_a_prior_is_the_diagrams_own(prior: Any) -> None:
    d = Diagram()
    d.latent("X", (), Learned("X", prior=prior))
    prior[:] = [5.0, 5.0]
    assert (d.learned["X"].prior == 1).all()
    assert np.all(np.array(d.to_dict()["learned"][0]["prior"]) == 1)


def test_a_known_table_is_the_diagrams_own() -> None:
    table = np.full(3, 0.5)
    d = small()
    d.latent("X", ["A"], table)
    before = d.to_dict()
    table[:] = 1.0
    assert d.to_dict() == before


def test_cycles() -> None:
    """Handles cannot make one; a dictionary can try."""
    data = small().to_dict()
    node = next(n for n in data["nodes"] if n["name"] == "L")
    for parents in (["A", "O"], ["A", "L"]):
        with pytest.raises(FormatError, match=rf"nodes\[3\].*'L'.*'{parents[1]}'.*before"):
            Diagram.from_dict({**data, "nodes": [{**n, "parents": parents} if n is node else n for n in data["nodes"]]})
    with pytest.raises(FormatError, match=r"nodes\[0\].*'T'.*'B'.*before"):
        Diagram.from_dict({**data, "nodes": data["nodes"][::-1]})


# -- constraints -----------------------------------------------------------------------------------------------------


def test_too_few_choices() -> None:
    d = Diagram()
    for name in ("A", "B", "C"):
        d.decision(name, ["x", "y"])
    refused(d, InfeasibleError, ("A, B, C", "got 2", "3"), lambda d: d.all_different())
    refused(d, InfeasibleError, ("A, B, C", "got 2", "3"), lambda d: d.all_different("A", "B", "C"))
    refused(Diagram(), DiagramError, ("all_different", "no decisions"), lambda d: d.all_different())
    with pytest.raises(InfeasibleError, match="3 decisions"):
        models.cascade(2, 3)
    assert len(models.cascade(2, 3, distinct=False).of_kind("decision")) == 3


@pytest.mark.parametrize("late", [False, True])
def test_groups_that_exclude_each_other(late: bool) -> None:
    d = Diagram("triangle")
    names = ["A", "B", "C"]
    if late:  # each group fits while it is declared, all decisions together do not
        d.decision("A", 2)
        d.all_different()
        d.decision("B", 2)
        d.decision("C", 2)
    else:
        for name in names:
            d.decision(name, 2)
        for pair in (names[:2], names[1:], names[::2]):
            d.all_different(*pair)
    d.reward("A")
    refused(d, InfeasibleError, ("'triangle'", "all_different", "A, B"), lambda d: idb.best_action(d, {}))
    d.decision("D", ["w"])
    refused(d, InfeasibleError, ("'triangle'",), lambda d: idb.best_action(d, {}))


def test_overlapping_groups_that_fit() -> None:
    d = Diagram()
    for name in ("A", "B", "C"):
        d.reward(d.observed(f"O{name}", [d.decision(name, 2)]))
    d.all_different("A", "B")
    d.all_different("B", "C")
    solution = idb.best_action(d, {"OA": [0.1, 0.3], "OB": [0.2, 0.9], "OC": [0.5, 0.6]})
    assert solution.action == {"A": 0, "B": 1, "C": 0}
    assert solution.value == pytest.approx(1.5)


def test_many_decisions_with_too_few_items_are_rejected_at_once() -> None:
    d = Diagram()
    for k in range(31):
        d.decision(f"A{k}", 30)
    d.decision("Z", [f"z{i}" for i in range(9)])
    d.reward("A0")
    d.all_different()
    with pytest.raises(InfeasibleError, match="A0, A1"):
        idb.best_action(d, {})


# -- asking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"A": 3, "B": "p"}, "'A'|3|0 to 2"), ({"A": -1, "B": "p"}, "'A'|-1|0 to 2"), ({"A": 1}, "'B'|missing|A, B"),
        ({}, "'A'|missing|A, B"), ({"A": 1, "B": "p", "C": 0}, "'C'|A, B"), ({"A": 1, "B": "p", "S": "new"}, "'S'|A, B"),
        ({"A": 1, "b": "p"}, "'b'|A, B"), (None, "None|A, B"), ([1, "p"], "[1, 'p']|A, B"), ({"A": None, "B": "p"}, "'A'|None"),
        ({"A": [1], "B": "p"}, "'A'|[1]"), ({"A": "1", "B": "p"}, "'A'|'1'|0 to 2"), ({"A": 1, "B": 0}, "'B'|0|'p', 'q'"),
        ({"A": 1.5, "B": "p"}, "'A'|1.5|0 to 2"), ({"A": 3.0, "B": "p"}, "'A'|3.0|0 to 2"), ({"A": 1, "B": ["p"]}, "'B'|['p']"),
    ],
)  # fmt: skip
def test_actions(action: Any, words: str) -> None:
    for ask in (
        lambda d: idb.expected_reward(d, action, MEANS, CONTEXT),
        lambda d: idb.log_likelihood(d, action, {"O": 1}, MEANS, CONTEXT),
        lambda d: idb.posterior_of_latents(d, action, {"O": 1}, MEANS, CONTEXT),
    ):
        refused(small(), ActionError, ("action", *words.split("|")), ask)


@pytest.mark.parametrize("labels", [3, ["x", "y", "z"]])
def test_repeats(labels: Any) -> None:
    d = models.semi_bandit(labels, 2)
    same = {"A1": d.nodes["A1"].values[1], "A2": d.nodes["A1"].values[1]}
    words = ("'A1'", "'A2'", repr(same["A1"]), "all_different")
    refused(d, ActionError, words, lambda d: idb.expected_reward(d, same, {"mean": [0.1, 0.2, 0.3]}))
    mixed = {"A1": 1, "A2": np.int64(1)}
    refused(
        models.semi_bandit(3, 2),
        ActionError,
        words[:2],
        lambda d: idb.expected_reward(d, mixed, {"mean": [0.1, 0.2, 0.3]}),
    )


def test_repeats_are_of_labels_not_of_places() -> None:
    d = Diagram()
    a, b = d.decision("A", ["x", "y"]), d.decision("B", ["y", "z"])
    d.all_different(a, b)
    d.reward([a, b], lambda a, b: (a == "x") + 2 * (b == "z"))
    assert idb.expected_reward(d, {"A": "x", "B": "y"}, {}) == 1
    refused(d, ActionError, ("'A'", "'B'", "'y'"), lambda d: idb.expected_reward(d, {"A": "y", "B": "y"}, {}))


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (None, "'S'|missing"), ({}, "'S'|missing"), ({"S": "old"}, "'S'|'old'|'new', 'loyal'"), ({"S": 0}, "'S'|0|'new', 'loyal'"),
        ({"S": "new", "Q": 1}, "'Q'|S"), ({"A": 1}, "'A'|S"), ("new", "'new'|S"), ({"S": None}, "'S'|None"),
    ],
)  # fmt: skip
def test_contexts(context: Any, words: str) -> None:
    for ask in (
        lambda d: idb.expected_reward(d, ACTION, MEANS, context),
        lambda d: idb.best_action(d, MEANS, context),
        lambda d: idb.log_likelihood(d, ACTION, {"O": 1}, MEANS, context),
    ):
        refused(small(), ContextError, ("context", *words.split("|")), ask)


def test_a_context_for_a_diagram_without() -> None:
    d, means = models.semi_bandit(3, 1), {"mean": [0.1, 0.2, 0.3]}
    refused(d, ContextError, ("'S'", "none"), lambda d: idb.best_action(d, means, {"S": "new"}))
    assert idb.best_action(d, means, {}) == idb.best_action(d, means)


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        ({"L": 1}, "'L'|latent|O, T"), ({"A": 1}, "'A'|decision|O, T"), ({"S": "new"}, "'S'|context|O, T"), ({"Q": 1}, "'Q'|O, T"),
        ({"O": 2}, "'O'|2|0 to 1"), ({"O": -1}, "'O'|-1|0 to 1"), ({"O": "1"}, "'O'|'1'|0 to 1"), ({"O": 0.5}, "'O'|0.5|0 to 1"),
        ({"O": [1]}, "'O'|[1]"), ({"T": 0}, "'T'|0|'low', 'mid', 'high'"), (None, "None"), ([1], "[1]"),
        ({"T": "tall"}, "'T'|'tall'|'low', 'mid', 'high'"), ({"L": None}, "'L'|latent"),
    ],
)  # fmt: skip
def test_observations(observation: Any, words: str) -> None:
    for ask in (idb.log_likelihood, idb.posterior_of_latents):
        refused(
            small(), ObservationError, ("observation", *words.split("|")),
            lambda d, ask=ask: ask(d, ACTION, observation, MEANS, CONTEXT),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("means", "words"),
    [
        (None, "None"), ([1], "[1]"), ({}, "'L'|missing|(3, 2)"), ({"Q": 0.5}, "'Q'|L"), ({**MEANS, "Q": 0.5}, "'Q'|L"),
        ({"L": 0.5}, "'L'|()|(3, 2)"), ({"L": MEANS["L"].T}, "'L'|(2, 3)|(3, 2)"), ({"L": np.full((3, 2, 2), 0.5)}, "'L'|(3, 2, 2)|(3, 2)"),
        ({"L": MEANS["L"] + 0.5}, "'L'|[2, 1]|1.1|[0, 1]"), ({"L": MEANS["L"] - 0.15}, "'L'|[0, 0]|-0.0|[0, 1]"),
        ({"L": np.where(MEANS["L"] == 0.4, math.nan, 0.5)}, "'L'|[1, 1]|nan"), ({"L": np.where(MEANS["L"] == 0.4, math.inf, 0.5)}, "'L'|inf"),
        ({"L": [["a", "b"]] * 3}, "'L'|numbers"), ({"L": None}, "'L'|None|numbers"), ({"L": np.ma.masked_greater(MEANS["L"], 0.3)}, "'L'|masked|numbers"), ({"L": [[1], [0, 1]]}, "'L'"), ({"L": 0.5j}, "'L'|numbers"),
    ],
)  # fmt: skip
def test_means(means: Any, words: str) -> None:
    for ask in (
        lambda d: idb.expected_reward(d, ACTION, means, CONTEXT),
        lambda d: idb.best_action(d, means, CONTEXT),
        lambda d: idb.log_likelihood(d, ACTION, {"O": 1}, means, CONTEXT),
        lambda d: idb.posterior_of_latents(d, ACTION, {"O": 1}, means, CONTEXT),
    ):
        refused(small(), MeansError, ("means", *words.split("|")), ask)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0.5, 0.5, 0.5], "sum|1.5"),
        ([0.5, 0.7, -0.2], "-0.2|[0, 1]"),
        ([math.nan] * 3, "nan"),
        ([1 / 3, 1 / 3, 0.3333], "sum"),
    ],
)
def test_means_of_many_states(row: list[float], words: str) -> None:
    d = Diagram()
    d.reward(d.observed("X", [d.decision("A", 2)], states=3))
    refused(d, MeansError, ("'X'", "[1", *words.split("|")), lambda d: idb.best_action(d, {"X": [[1, 0, 0], row]}))
    refused(d, MeansError, ("'X'", "(2,)", "(2, 3)"), lambda d: idb.best_action(d, {"X": [0.1, 0.2]}))


def test_messages_stay_short() -> None:
    d = models.semi_bandit(10_000, 1)
    refused(d, MeansError, ("'mean'",), lambda d: idb.best_action(d, {"mean": ["a"] * 10_000}))


def test_values_of_other_types_that_mean_the_same() -> None:
    d = small()
    wanted = idb.expected_reward(d, {"A": 2, "B": "q"}, MEANS, CONTEXT)
    for two in (np.int64(2), np.uint8(2), np.int32(2)):
        assert idb.expected_reward(d, {"A": two, "B": np.str_("q")}, MEANS, {"S": np.str_("new")}) == wanted
    wanted = idb.log_likelihood(d, ACTION, {"O": 1}, MEANS, CONTEXT)
    for one in (True, np.bool_(True), np.int64(1)):
        assert idb.log_likelihood(d, ACTION, {"O": one}, MEANS, CONTEXT) == wanted
    assert idb.expected_reward(d, ACTION, {"L": MEANS["L"].tolist()}, CONTEXT) == idb.expected_reward(
        d, ACTION, MEANS, CONTEXT
    )
    coin = Diagram()
    coin.reward(coin.observed("X", [coin.decision("A", 2)]))
    assert idb.expected_reward(coin, {"A": True}, {"X": [0, 1]}) == 1
    assert idb.expected_reward(coin, {"A": np.bool_(False)}, {"X": np.array([True, False])}) == 1


def test_none_is_not_seen() -> None:
    d = small()
    for ask in (idb.log_likelihood, idb.posterior_of_latents):
        for seen in ({"O": 1, "T": None}, {"O": 1}):
            np.testing.assert_equal(ask(d, ACTION, seen, MEANS, CONTEXT), ask(d, ACTION, {"O": 1}, MEANS, CONTEXT))
    assert idb.log_likelihood(d, ACTION, {"O": None, "T": None}, MEANS, CONTEXT) == pytest.approx(0, abs=1e-15)


def test_impossible_observations() -> None:
    cascade, half = models.cascade(3, 2), {"attraction": [0.5, 0.5, 0.5]}
    action, both = {"A1": 0, "A2": 1}, {"C1": 1, "C2": 1}
    for ask in (idb.log_likelihood, idb.posterior_of_latents):
        words = ("C1 = 1", "C2 = 1", "'cascade'", "zero")
        refused(cascade, ImpossibleObservationError, words, lambda d, ask=ask: ask(d, action, both, half))
    never = {"attraction": [0.0, 0.5, 0.5]}  # by the means only
    assert idb.log_likelihood(cascade, action, {"C1": 1, "C2": 0}, never) == -math.inf
    refused(
        cascade, ImpossibleObservationError, ("C1", "zero", "means"),
        lambda d: idb.posterior_of_latents(d, action, {"C1": 1, "C2": 0}, never),
    )  # fmt: skip
    by_action = small()  # T = 'low' is possible for B = 'p' only
    assert idb.log_likelihood(by_action, ACTION, {"T": "low"}, MEANS, CONTEXT) == pytest.approx(math.log(0.5))
    refused(
        by_action, ImpossibleObservationError, ("T = 'low'", "'B': 'q'"),
        lambda d: idb.log_likelihood(d, {"A": 1, "B": "q"}, {"T": "low"}, MEANS, CONTEXT),
    )  # fmt: skip


# -- small and large -------------------------------------------------------------------------------------------------


def test_no_decisions() -> None:
    d = Diagram()
    d.reward(d.observed("X"))
    d.reward("X", lambda x: -4 * x)
    assert idb.best_action(d, {"X": 0.25}) == idb.Solution({}, -0.75, True, -0.75)
    assert idb.expected_reward(d, {}, {"X": 0.25}) == -0.75
    refused(d, ActionError, ("'A'", "none"), lambda d: idb.expected_reward(d, {"A": 1}, {"X": 0.25}))


def test_no_reward() -> None:
    d = Diagram("plain")
    d.observed("X", [d.decision("A", 2)])
    refused(d, DiagramError, ("'plain'", "no reward"), lambda d: idb.best_action(d, {"X": [0.1, 0.2]}))
    refused(d, DiagramError, ("'plain'", "no reward"), lambda d: idb.expected_reward(d, {"A": 0}, {"X": [0.1, 0.2]}))
    assert idb.log_likelihood(d, {"A": 1}, {"X": 1}, {"X": [0.1, 0.5]}) == pytest.approx(math.log(0.5))


def test_nothing_at_all() -> None:
    assert idb.log_likelihood(Diagram(), {}, {}, {}) == 0
    assert idb.posterior_of_latents(Diagram(), {}, {}, {}) == {}
    refused(Diagram(), ObservationError, ("'X'", "none"), lambda d: idb.log_likelihood(d, {}, {"X": 1}, {}))
    for ask in (idb.compile, lambda d: idb.best_action(d, {}), lambda d: idb.log_likelihood(d, {}, {}, {})):
        refused(Diagram(), DiagramError, ("Diagram", "'cascade'"), lambda _, ask=ask: ask("cascade"))


def test_reward_without_chance() -> None:
    d = Diagram()
    a, s = d.decision("price", np.array([9.5, 10.0, 12.0])), d.context("S", ["new", "loyal"])
    d.reward(a, lambda price: -price)
    d.reward([s, a], lambda who, price: 100 * (who == "new" and price == 12))
    assert idb.best_action(d, {}, {"S": "new"}) == idb.Solution({"price": 12.0}, 88.0, True, 88.0)
    assert idb.best_action(d, {}, {"S": "loyal"}) == idb.Solution({"price": 9.5}, -9.5, True, -9.5)
    only_context = Diagram()
    only_context.reward(only_context.context("S", 3))
    assert idb.best_action(only_context, {}, {"S": 2}) == idb.Solution({}, 2.0, True, 2.0)


def test_a_million_choices() -> None:
    d = models.semi_bandit(10**6, 2)
    mean = np.full(10**6, 0.25)
    mean[[123_456, 999_999]] = 0.75, 0.5
    assert idb.best_action(d, {"mean": mean}).value == 1.25
    assert idb.expected_reward(d, {"A1": 999_999, "A2": 0}, {"mean": mean}) == 0.75
    refused(
        d,
        ActionError,
        ("'A2'", "1000000", "0 to 999999"),
        lambda d: idb.expected_reward(d, {"A1": 0, "A2": 10**6}, {"mean": mean}),
    )
    refused(
        d,
        MeansError,
        ("'mean'", "[7]", "2.0"),
        lambda d: idb.best_action(d, {"mean": np.where(np.arange(10**6) == 7, 2.0, mean)}),
    )


def pairs(add: str) -> Diagram:
    """Every pair of ten dice has a child."""
    d = Diagram("pairs")
    dice = [d.latent(f"Z{i}", cpd=[1 / 8] * 8, states=8) for i in range(10)]
    equal = [getattr(d, add)(f"X{i}{j}", [dice[i], dice[j]], lambda a, b: a == b) for i in range(10) for j in range(i)]
    last = equal[0]
    for node in equal[1:]:
        last = d.latent(f"or {node.name}", [last, node], max)
    d.reward(last)
    return d


def test_too_entangled() -> None:
    for _ in range(2):  # the second time is refused too: nothing half made is kept
        refused(pairs("observed"), ComplexityError, ("'pairs'", "cells", "2,000,000", "Z0 (8), Z1 (8)"), idb.compile)
    hidden = pairs("latent")  # nothing is seen: the likelihood is simple, the reward is not
    for _ in range(2):
        assert idb.log_likelihood(hidden, {}, {}, {}) == 0
        refused(hidden, ComplexityError, ("'pairs'", "cells", "2,000,000"), lambda d: idb.expected_reward(d, {}, {}))
        refused(hidden, ComplexityError, ("'pairs'",), lambda d: idb.compile(d).literal)


def test_entangled_only_by_the_sum_of_rewards() -> None:
    d = Diagram()
    coins = [d.latent(f"Z{i}", cpd=0.5) for i in range(30)]
    for i in range(30):
        for j in range(i):
            d.reward([coins[i], coins[j]], lambda a, b: a * b - 1)
    assert idb.expected_reward(d, {}, {}) == pytest.approx(-0.75 * 435)


@pytest.mark.parametrize("rewards", [[1e308, 1e308], [1e308], [-1.1e300], [6e299, -6e299]])
def test_rewards_that_overflow(rewards: list[float]) -> None:
    d = Diagram()
    node = d.observed("X")
    for reward in rewards:
        d.reward(node, lambda x, reward=reward: reward * x)
    with pytest.raises(DiagramError, match=r"add up to at most 1e\+300, so that floats .*\(that of X\)"):
        idb.expected_reward(d, {}, {"X": 0.5})


@pytest.mark.parametrize("reward", [1e300, -1e300, 5e-324, -1e-310])
def test_rewards_at_the_ends_of_their_range(reward: float) -> None:
    d = models.semi_bandit(5, 2)
    data = d.to_dict()
    for term in data["rewards"]:
        term["table"] = [0.0, reward / 2]
    solution = idb.best_action(Diagram.from_dict(data), {"mean": [0.0, 1.0, 0.25, 0.75, 0.5]})
    assert solution.exact
    assert solution.value == reward / 2 * (1.75 if reward > 0 else 0.25)


# -- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effort", [None, "1", -1, math.nan, [1], 1 + 0j, np.array([1.0, 1.0])])
def test_effort_that_is_not_a_number_from_0(effort: Any) -> None:
    d, means = models.cascade(3, 2), {"attraction": [0.1, 0.2, 0.3]}
    words = ("effort must be a number", repr(effort))
    refused(d, IdbanditsError, words, lambda d: idb.best_action(d, means, effort=effort))
    refused(d, IdbanditsError, words, lambda d: idb.Thompson(d, effort=effort))
    refused(d, IdbanditsError, words, lambda d: idb.World(d, means, effort=effort))


@pytest.mark.parametrize("effort", [0, 2, 0.5, math.inf, np.float64(1), np.int64(1), np.float32(1), 10**400])
def test_effort_of_any_number_type(effort: Any) -> None:
    solution = idb.best_action(models.cascade(3, 2), {"attraction": [0.1, 0.2, 0.3]}, effort=effort)
    assert solution.action == {"A1": 2, "A2": 1}
    assert idb.World(models.cascade(3, 2), {"attraction": [0.1, 0.2, 0.3]}, effort=effort).best() == solution
    assert set(idb.Thompson(models.cascade(3, 2), effort=effort).act()) == {"A1", "A2"}


LISTS = [
    models.cascade, models.cascade_inverted, models.position_based, models.semi_bandit, models.dependent_click,
    models.dynamic_bayesian, models.click_chain, models.user_browsing,
]  # fmt: skip


@pytest.mark.parametrize("build", LISTS)
@pytest.mark.parametrize("positions", [0, -1, 2.5, "2", None, True])
def test_positions_of_models(build: Any, positions: Any) -> None:
    refused(Diagram(), DiagramError, ("positions", repr(positions), "integer"), lambda _: build(3, positions))


@pytest.mark.parametrize("build", [*LISTS, models.rank1])
@pytest.mark.parametrize(
    ("items", "words"), [(0, "0"), (-1, "-1"), ([], "at least one"), (["a", "a"], "'a'|twice"), ([None], "label|None")]
)
def test_items_of_models(build: Any, items: Any, words: str) -> None:
    refused(Diagram(), DiagramError, ("'A1'", *words.split("|")), lambda _: build(items, 1))


@pytest.mark.parametrize("build", [models.rank1, *LISTS])
@pytest.mark.parametrize("items", [2.5, None, "ab", True])
def test_items_of_models_that_are_not_a_list(build: Any, items: Any) -> None:
    refused(Diagram(), DiagramError, (repr(items), "integer", "labels"), lambda _: build(items, 1))


@pytest.mark.parametrize("build", [models.dependent_click, models.dynamic_bayesian])
@pytest.mark.parametrize("reward", ["nonsense", None, "Clicks"])
def test_rewards_of_models(build: Any, reward: Any) -> None:
    words = ("reward", repr(reward), "'satisfaction'", "'clicks'")
    refused(Diagram(), DiagramError, words, lambda _: build(3, 2, reward=reward))


# -- classes and checks ---------------------------------------------------------------------------------------------


def test_every_error_is_one_of_ours_and_a_value_error() -> None:
    for error in (ActionError, ContextError, DiagramError, MeansError, ObservationError):
        assert issubclass(error, IdbanditsError)
        assert issubclass(error, ValueError)
    for error in (TableError, PriorError, InfeasibleError, ComplexityError, FormatError):
        assert issubclass(error, DiagramError)
    assert issubclass(ImpossibleObservationError, ObservationError)


@pytest.mark.parametrize("value", [0, 11, -1, 2.0, "2", None, True, np.bool_(True), math.nan, np.array([2])])
def test_check_whole_rejects(value: Any) -> None:
    with pytest.raises(IdbanditsError) as raised:
        check_whole("runs", value, 1, 10)
    assert str(raised.value) == f"runs must be an integer from 1 to 10, got {brief(value)}"
    with pytest.raises(DiagramError, match="rows must be an integer >= 1, got None"):
        check_whole("rows", None, 1, error=DiagramError)


@pytest.mark.parametrize("value", [1, 10, np.int64(10), np.uint8(1)])
def test_check_whole_gives_an_int(value: Any) -> None:
    assert type(check_whole("runs", value, 1, 10)) is int
    assert check_whole("runs", value, 1) == value


@pytest.mark.parametrize("value", [-0.5, 1.5, math.inf, math.nan, "0.5", None, 0.5j, np.array([0.5, 0.5])])
def test_check_number_rejects(value: Any) -> None:
    with pytest.raises(IdbanditsError) as raised:
        check_number("share", value, 0, 1)
    assert str(raised.value) == f"share must be a number from 0 to 1, got {value!r}"


def test_the_ends_of_check_number() -> None:
    for value in (0, 1, 0.5, np.float32(0.5), np.int64(1)):
        assert type(check_number("share", value, 0, 1)) is float
        assert check_number("share", value, 0, 1) == value
    assert check_number("effort", math.inf, 0, math.inf) == math.inf
    with pytest.raises(IdbanditsError, match="effort must be a number >= 0, got inf"):
        check_number("effort", math.inf, 0)
    with pytest.raises(IdbanditsError, match="damping must be a number > 0 and <= 1, got 0"):
        check_number("damping", 0, 0, 1, above=True)
    assert check_number("damping", 1, 0, 1, above=True) == 1


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(IdbanditsError, match=r"runs must be an integer >= 1, got '9{56}…"):
        check_whole("runs", "9" * 5000, 1)


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_that_cannot_show_itself_is_named() -> None:
    def fails() -> float:
        raise UnshowableError

    with pytest.raises(TableError, match=r"'X'.*UnshowableError"):
        small().latent("X", (), fails)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float64(0.5), "0.5"),
        (np.float32(0.1), "0.1"),
        (np.int64(3), "3"),
        (np.bool_(True), "True"),
        (np.str_("a b"), "'a b'"),
        ([np.float64(0.5), (np.int8(1),)], "[0.5, (1,)]"),
        ({"A": np.int64(1), np.str_("B"): [None]}, "{'A': 1, 'B': [None]}"),
        ("np.float64(0.5)", "'np.float64(0.5)'"),  # a text that was written so
        (np.array([0.5, 1.0]), "array([0.5, 1. ])"),
        (np.array(0.5), "array(0.5)"),
        (np.datetime64("2020-01-01"), "np.datetime64('2020-01-01')"),
        (np.ma.masked, "masked"),
        (np.float64, "<class 'numpy.float64'>"),
        ([[[[[[[np.float64(0.5)]]]]]]], "[[[[[[[np.float64(0.5)]]]]]]]"),  # deeper than anybody writes
        ([0] * 10**6, "[" + "0, " * 18 + "0,…"),
    ],
)
def test_messages_show_values_as_they_were_written(value: Any, shown: str) -> None:
    assert brief(value) == shown
    if isinstance(value, np.generic):
        with pytest.raises(IdbanditsError, match=r"got (?!np\.f|np\.i)"):
            check_number("x", value, 5)
