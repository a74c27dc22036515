"""Diagrams are kept exactly, broken files are refused with the place, and what was compiled stays what it was."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import idbandits
import idbandits as idb
import reference
from diagrams import labels, random_diagram, random_given, random_means
from idbandits import Diagram, Learned, models
from idbandits.diagram.declare import schema
from idbandits.errors import DiagramError, FormatError, ImpossibleObservationError

READY = [
    models.cascade(4, 3),
    models.cascade(["a", "b", "c"], 2, distinct=False, learn_conditionals=True),
    models.cascade_inverted(4, 3),
    models.position_based(4, 3),
    models.semi_bandit(4, 3),
    models.rank1(3, ["x", "y"]),
    models.dependent_click(4, 3),
    models.dynamic_bayesian(4, 3),
    models.dynamic_bayesian(4, 3, simplified=True, reward="clicks"),
    models.click_chain(4, 3),
    models.user_browsing(4, 3),
]


def answers(d: Diagram, rng: np.random.Generator) -> list[Any]:
    """Whatever can be asked, at a random point."""
    means = random_means(rng, d)
    actions = list(reference.actions(d))
    action = labels(d, actions[rng.integers(len(actions))])
    context = labels(d, random_given(rng, d)[1])
    likely = {n.name: n.values[int(rng.integers(n.states))] for n in d.of_kind("observed") if rng.random() < 0.3}
    told: list[Any] = [idb.expected_reward(d, action, means, context), idb.best_action(d, means, context)]
    for ask in (idb.log_likelihood, idb.posterior_of_latents):
        try:
            answer = ask(d, action, likely, means, context)
        except ImpossibleObservationError as error:
            answer = str(error)
        told.append({k: v.tolist() for k, v in answer.items()} if isinstance(answer, dict) else answer)
    return told


def same(d: Diagram, other: Diagram, seed: int = 0) -> None:
    """No difference that anyone could see."""
    assert other.to_dict() == d.to_dict()
    assert json.dumps(other.to_dict()) == json.dumps(d.to_dict())
    assert repr(other) == repr(d)
    assert list(other.nodes) == list(d.nodes)
    for name, node in d.nodes.items():
        assert (other.nodes[name].kind, other.nodes[name].values, other.nodes[name].parents) == (
            node.kind,
            node.values,
            node.parents,
        )
        assert [type(v) for v in other.nodes[name].values] == [type(v) for v in node.values]
    assert list(other.learned) == list(d.learned)
    for name, table in d.learned.items():
        assert (other.learned[name].shape, other.learned[name].states) == (table.shape, table.states)
        np.testing.assert_array_equal(other.learned[name].prior, table.prior)
    assert list(other.different) == list(d.different)
    assert answers(other, np.random.default_rng(seed)) == answers(d, np.random.default_rng(seed))


# -- kept exactly ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_random_diagrams_are_kept(seed: int, tmp_path: Path) -> None:
    d = random_diagram(np.random.default_rng(seed), most_chance=6, most_joint=200)
    data = d.to_dict()
    Draft202012Validator(schema()).validate(data)
    same(d, Diagram.from_dict(data), seed)
    same(d, Diagram.from_dict(json.loads(json.dumps(data))), seed)
    d.save(tmp_path / "d.json")
    same(d, Diagram.load(tmp_path / "d.json"), seed)
    same(d, d.copy(), seed)
    assert Diagram.from_dict(data).to_dict() == data  # and from_dict left its argument alone


@pytest.mark.parametrize("d", READY, ids=lambda d: d.name)
def test_ready_models_are_kept(d: Diagram, tmp_path: Path) -> None:
    Draft202012Validator(schema()).validate(d.to_dict())
    d.save(str(tmp_path / "d.json"))
    other = Diagram.load(str(tmp_path / "d.json"))
    assert other.to_dict() == d.to_dict()
    assert json.loads((tmp_path / "d.json").read_text()) == d.to_dict()
    means = random_means(np.random.default_rng(0), d)
    assert idb.best_action(other, means) == idb.best_action(d, means)


def test_numbers_and_labels_are_kept_to_the_bit(tmp_path: Path) -> None:
    d = Diagram("odd “numbers”\n")
    values = ["", "ü\n", 0.1, -0.0, 1e300, 5e-324, 2**70, True]
    a = d.decision("A", values)
    table = Learned("t", prior=[[0.1, 1 / 3], [1e-300, 1e300]], rows=2)
    node = d.latent("naïve [0]", [a], table.select(lambda v: int(v == 0.1)))
    d.observed("B", [node], [1 / 3, np.nextafter(1.0, 0)])
    d.reward([a, node], lambda v, n: -0.1 * n + 1e300 * (v is True))
    d.context("C", [False, 3, "3"])
    d.save(tmp_path / "d.json")
    other = Diagram.load(tmp_path / "d.json")
    assert repr(other.nodes["A"].values) == repr(d.nodes["A"].values) == repr(tuple(values))
    assert repr(other.to_dict()) == repr(d.to_dict())
    np.testing.assert_array_equal(other.learned["t"].prior, [[0.1, 1 / 3], [1e-300, 1e300]])


def test_the_schema_is_a_schema_and_says_no() -> None:
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    assert not validator.is_valid({})
    data = READY[0].to_dict()
    assert not validator.is_valid({**data, "version": 2})
    assert not validator.is_valid({**data, "extra": 1})
    schema()["type"] = "array"  # a fresh copy each time: nobody can spoil it
    assert schema()["type"] == "object"


# -- broken files ----------------------------------------------------------------------------------------------------


def kept() -> dict[str, Any]:
    """nodes: 0 A, 1 S, 2 L (learned), 3 M (selects rows), 4 R (a row), 5 O (known), 6 T (three states), 7 B."""
    d = Diagram("kept")
    a, s, rows = d.decision("A", ["x", "y", "z"]), d.context("S", 2), Learned("rows", rows=3, prior=[2, 1])
    latent = d.latent("L", [a])
    m = d.latent("M", [a, s], rows.select(lambda a, s: s))
    d.latent("R", cpd=rows[2])
    o = d.observed("O", [latent, m], [[0, 0.25], [0.5, 1]])
    d.observed("T", [o], [[0.2, 0.3, 0.5], [1, 0, 0]], states=3)
    d.reward([o, a], lambda o, a: o)
    d.decision("B", 2)
    d.all_different()
    return d.to_dict()


def changed(path: str, value: Any) -> dict[str, Any]:
    """The data with one place set; `...` deletes it."""
    data = kept()
    *way, last = [int(p) if p.isdigit() else p for p in re.findall(r"\w+", path)]
    at: Any = data
    for step in way:
        at = at[step]
    if value is ...:
        del at[last]
    elif isinstance(at, list) and last == len(at):
        at.append(value)
    else:
        at[last] = value
    return data


BROKEN = [
    ("version", 0, "version|1"),
    ("version", "1", "version|1"),
    ("version", True, "version|1"),
    ("version", ..., "'version'"),
    ("version", 2, "version|2|newer|1"),
    ("format", "another", "format|'idbandits diagram'"),
    ("name", ..., "'name'"),
    ("name", 3, "name|3|string"),
    ("rewards", ..., "'rewards'"),
    ("surplus", 1, "'surplus'"),
    ("nodes", {}, "nodes|array"),
    ("nodes[0]", 3, "nodes[0]|3|object"),
    ("nodes[2].name", ..., "nodes[2]|'name'"),
    ("nodes[2].parents", ..., "nodes[2]|'L'|'parents'"),
    ("nodes[2].surplus", 1, "nodes[2]|'L'|'surplus'"),
    ("nodes[2].states", 2.5, "nodes[2].states|'L'|2.5"),
    ("nodes[2].states", 0, "nodes[2].states|'L'|0"),
    ("nodes[2].states", 1, "nodes[2]|'L'|1|2 to 1000"),
    ("nodes[0].states", ["x", "x", "z"], "nodes[0]|'A'|'x'|twice"),
    ("nodes[0].states", ["x", None, "z"], "nodes[0].states[1]|'A'|None"),
    ("nodes[5].name", "L", "nodes[5]|'L'|already"),
    ("nodes[5].parents", ["L", "Q"], "nodes[5]|'O'|'Q'"),
    ("nodes[5].parents", ["L", "T"], "nodes[5]|'O'|'T'|before"),
    ("nodes[5].parents", ["L", "L"], "nodes[5]|'O'|'L'|twice"),
    ("nodes[5].parents", "L", "nodes[5].parents|'O'|'L'|array"),
    ("nodes[5].known", [[0, 0.25]], "nodes[5]|'O'|(1, 2)|(2, 2)"),
    ("nodes[5].known", [[0, 0.25], [0.5, 1.5]], "nodes[5]|'O'|1.5|L = 1, M = 1"),
    ("nodes[5].known", [[0, 0.25], [0.5, math.nan]], "nodes[5]|'O'|nan"),
    ("nodes[5].known", [[0, 0.25], [0.5, "1"]], "nodes[5].known[1][1]|'O'|'1'"),
    ("nodes[5].known", [[0, 0.25], [0.5]], "nodes[5]|'O'"),
    ("nodes[5].known", None, "nodes[5].known|'O'|None"),
    ("nodes[6].known", [[0.2, 0.3, 0.6], [1, 0, 0]], "nodes[6]|'T'|sum|O = 0"),
    ("nodes[2].learned", "Q", "nodes[2]|'L'|'Q'"),
    ("nodes[2].select", [0, 0, 0], "nodes[2]|'L'|rows"),
    ("nodes[3].select", [[0, 1]] * 2, "nodes[3]|(2, 2)|(3, 2)"),
    ("nodes[3].select", [[0, 3]] * 3, "nodes[3]|'M'|'rows'|3|0 to 2"),
    ("nodes[3].select", [[0, -1]] * 3, "nodes[3].select[0][1]|'M'|-1"),
    ("nodes[3].select", [[0, 1.5]] * 3, "nodes[3].select[0][1]|'M'|1.5"),
    ("learned[0].prior", [1, -1], "'L'|-1.0|positive"),
    ("learned[0].prior", [1, None], "learned[0].prior[1]|'L'|None"),
    ("learned[0].prior", [1, 1, 1], "'L'|(3,)|(3, 2)"),
    ("learned[0].prior", ..., "learned[0]|'L'|'prior'"),
    ("learned[0].name", "rows", "learned[1]|'rows'|twice"),
    ("learned[1].rows", 0, "learned[1].rows|'rows'|0"),
    ("learned[1].rows", ..., "nodes[3]|'rows'"),
    ("learned[2]", {"name": "idle", "prior": 1}, "learned|'idle'"),
    ("rewards[0].table", [[0, 0, 0]], "rewards[0]|(1, 3)|(2, 3)"),
    ("rewards[0].table", [[0, 0, 0], [1, 1]], "rewards[0]"),
    ("rewards[0].table", [[0, 0, 0], [1, 1, "a"]], "rewards[0].table[1][2]|'a'"),
    ("rewards[0].table", [[0, 0, 0], [1, 1, math.inf]], "rewards[0]|inf|O = 1, A = 'z'"),
    ("rewards[0].table", ..., "rewards[0]|'table'"),
    ("rewards[0].nodes", ["O", "Q"], "rewards[0]|'Q'"),
    ("rewards[0].nodes", ["O", "O"], "rewards[0]|'O'|twice"),
    ("rewards[0].nodes", [], "rewards[0].nodes"),
    ("all_different", [["A", "L"]], "all_different[0]|'L'|latent"),
    ("all_different", [["A", "Q"]], "all_different[0]|'Q'"),
    ("all_different", ["some"], "all_different[0]|'some'"),
    ("all_different", [[]], "all_different[0]|[]"),
    ("nodes[2].kind", "latnt", "nodes[2].kind|'latnt'"),
    ("nodes[0].known", 0.5, "nodes[0]|'A'|known"),
    ("nodes[5].select", [0], "nodes[5]|'O'|select"),
    ("nodes[5].learned", "L", "nodes[5]|'O'|known|learned|both"),
    ("nodes[2].learned", ..., "nodes[2]|'L'|'known'|'learned'"),
    ("nodes[5].known", "0.5", "nodes[5].known|'O'|'0.5'|number"),
    ("nodes[2].states", 2.5, "nodes[2].states|2.5|integer"),
    ("version", 0, "version|0|1"),
    ("learned[0].prior", [1, -1], "learned[0]|'L'|-1.0"),
    ("learned[1].rows", 2, "nodes[4]|'R'|not 2|0 to 1"),
]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    BROKEN,
    ids=[f"{p}={'(none)' if v is ... else v}" for p, v, *_ in BROKEN],
)
def test_broken_data(path: str, value: Any, words: str) -> None:
    data = changed(path, value)
    before = copy.deepcopy(data)
    with pytest.raises(FormatError) as raised:
        Diagram.from_dict(data)
    message = str(raised.value)
    assert not [word for word in words.split("|") if word not in message], message
    assert "where ;" not in message
    assert repr(data) == repr(before)


def test_learned_tables_stand_in_the_order_of_first_use() -> None:
    data = kept()
    data["learned"].reverse()
    with pytest.raises(FormatError, match=r"learned.*order.*'L', 'rows'"):
        Diagram.from_dict(data)


@pytest.mark.parametrize("data", [None, [], 3, "text", {}])
def test_no_data(data: Any) -> None:
    with pytest.raises(FormatError, match="the file"):
        Diagram.from_dict(data)


def text(change: Callable[[str], str]) -> str:
    return change(json.dumps(kept(), indent=1))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(text(lambda t: t[:200]), "d.json|not JSON|line", id="truncated"),
        pytest.param("", "d.json|not JSON", id="empty"),
        pytest.param(text(lambda t: t + "}"), "d.json|not JSON|line", id="too long"),
        pytest.param(b"\xff\xfe", "d.json|not JSON", id="no UTF-8"),
        pytest.param(pickle.dumps(kept()), "d.json|not JSON", id="a pickle"),
        pytest.param(text(lambda t: t.replace("0.25", "NaN")), "NaN", id="NaN"),
        pytest.param(text(lambda t: t.replace("0.25", "-Infinity")), "-Infinity", id="-Infinity"),
        pytest.param(text(lambda t: t.replace("0.25", "1e999")), "nodes[5]|'O'|inf", id="overflow"),
        pytest.param("[1]", "the file|object", id="a list"),
        pytest.param(text(lambda t: t.replace("0.25", "NaN")), "d.json|NaN", id="NaN, which file"),
        pytest.param("[1]", "d.json", id="a list, which file"),
        pytest.param(
            text(lambda t: t.replace('"version": 1,', '"version": 1, "version": 1,')), "version|twice", id="key twice",
        ),
        pytest.param("[" * 100_000, "d.json", id="deep"),
    ],
)  # fmt: skip
def test_broken_files(content: str | bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(FormatError) as raised:
        Diagram.load(path)
    assert not [word for word in words.split("|") if word not in str(raised.value)], raised.value


def test_a_missing_file() -> None:
    with pytest.raises(FileNotFoundError):
        Diagram.load("no such file.json")


# -- written whole ---------------------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.json"
    models.semi_bandit(3, 2).save(path)
    old = path.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    for what in ("os.replace", "os.fdopen", "os.chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(what, fail)
            try:
                models.cascade(3, 2).save(path)
            except OSError as error:
                assert str(error) == "no room"
            else:
                assert what != "os.replace"  # the others may not be used
                models.semi_bandit(3, 2).save(path)
        assert path.read_bytes() == old
        assert os.listdir(tmp_path) == ["d.json"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "d.json"
    models.semi_bandit(3, 2).save(path)
    old = path.read_bytes()
    large = models.cascade([f"item {i}" for i in range(5_000)], 2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))  # writing more is an OSError, as on a full disk
    try:
        with pytest.raises(OSError, match="large") as raised:
            large.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.filename == str(path)  # not the scratch file
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["d.json"]
    large.save(path)
    assert Diagram.load(path).to_dict() == large.to_dict()


def test_a_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    models.semi_bandit(3, 2).save(tmp_path / "d.json")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "d.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_nothing_is_pickled() -> None:
    package = Path(idbandits.__file__).parent
    for path in package.rglob("*.py"):
        assert not re.search(
            r"import pickle|from pickle|allow_pickle\s*=\s*True|import (dill|joblib|shelve|marshal)", path.read_text()
        )


# -- changed, copied, compiled ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [*READY, Diagram.from_dict(kept())], ids=lambda d: d.name)
def test_revealed_changes_kinds_only(d: Diagram) -> None:
    before = d.to_dict()
    shown = d.revealed().to_dict()
    assert not d.revealed().of_kind("latent")
    assert [n["name"] for n in before["nodes"] if n["kind"] == "latent"] == [
        b["name"] for b, s in zip(before["nodes"], shown["nodes"], strict=True) if b["kind"] != s["kind"]
    ]
    for node in shown["nodes"]:
        if d.nodes[node["name"]].kind == "latent":
            node["kind"] = "latent"
    assert shown == before == d.to_dict()


def test_a_copy_is_changed_apart() -> None:
    d = models.cascade(3, 2)
    before, model = d.to_dict(), idb.compile(d)
    for other in (d.copy(), d.revealed()):
        other.observed("new", ["A1"])
        other.reward("new")
        other.all_different("A1")
        assert list(other.learned) == ["attraction", "new"]
    assert d.to_dict() == before
    assert idb.compile(d) is model


def test_compiled_once_until_changed() -> None:
    d = models.semi_bandit(3, 2)
    means = {"mean": np.array([0.1, 0.2, 0.7])}
    model = idb.compile(d)
    assert idb.compile(d) is model
    idb.best_action(d, means)
    assert idb.compile(d) is model
    with pytest.raises(DiagramError):
        d.decision("A1", 2)
    assert idb.compile(d) is model  # nothing has changed
    changes: list[Callable[[], Any]] = [
        lambda: d.decision("B", 2),
        lambda: d.context("S", 2),
        lambda: d.latent("Z", ["B", "S"], 0.5),
        lambda: d.observed("Y", ["Z"], 0.5),
        lambda: d.reward("Y", lambda y: 10 * y),
        lambda: d.all_different("A1", "B"),
    ]
    for change in changes:
        before = idb.compile(d)
        change()
        assert idb.compile(d) is not before
        assert idb.compile(d) is idb.compile(d)


def test_an_old_model_stays_as_it_was() -> None:
    d = models.cascade(3, 2)
    model, untouched = idb.compile(d), idb.compile(models.cascade(3, 2))
    d.context("S", 2)
    d.latent("more", ["S", "A1"])
    d.observed("seen", ["more"], [0.25, 0.75])
    d.reward("seen", lambda y: 100 * y)
    d.all_different("A1")
    assert repr(model) == repr(untouched)
    for part in ("likelihood", "literal", "revealed", "rewards"):  # those made later, too
        mine, theirs = getattr(model, part).circuit, getattr(untouched, part).circuit
        assert mine[:-1] == theirs[:-1]
        np.testing.assert_array_equal(mine[-1], theirs[-1])
    assert [n.name for n in model.contexts] == []
    assert list(model.learned) == ["attraction"]
    assert model.different == (("A1", "A2"),)


def test_all_different_holds_for_decisions_yet_to_come() -> None:
    d = Diagram()
    d.decision("A", 3)
    d.all_different()
    d.decision("B", 3)
    assert list(d.different) == [("A", "B")]
    assert Diagram.from_dict(d.to_dict()).different == d.different
    assert Diagram.from_dict(d.to_dict()).to_dict()["all_different"] == ["all"]


def test_labels_are_taken_and_given_wherever_an_action_is() -> None:
    d = Diagram()
    colour, size = d.decision("colour", ["red", "blue"]), d.decision("size", np.array([38, 42]))
    who = d.context("who", ["new", "loyal"])
    taste = d.latent("taste", [colour, who], states=["cold", "warm"])
    bought = d.observed("bought", [taste, size], lambda t, s: (t == "warm") * s / 100, states=["no", "yes"])
    d.reward([bought, size], lambda b, s: s if b == "yes" else 0)
    means = {"taste": [[0.1, 0.9], [0.6, 0.2]]}
    solution = idb.best_action(d, means, {"who": "loyal"})
    assert solution.action == {"colour": "red", "size": 42}
    assert type(solution.action["size"]) is int
    assert solution.value == pytest.approx(0.9 * 0.42 * 42)
    assert idb.expected_reward(d, solution.action, means, {"who": "loyal"}) == pytest.approx(solution.value)
    here = ({"colour": "blue", "size": np.int64(38)}, {"bought": "yes"}, means, {"who": "new"})
    assert idb.log_likelihood(*(d, *here)) == pytest.approx(math.log(0.6 * 0.38))
    np.testing.assert_allclose(idb.posterior_of_latents(*(d, *here))["taste"], [0, 1])
    other = Diagram.from_dict(json.loads(json.dumps(d.to_dict())))
    assert idb.best_action(other, means, {"who": "loyal"}) == solution


def test_what_a_diagram_holds_cannot_be_changed_from_outside() -> None:
    d = Diagram.from_dict(kept())
    with pytest.raises(TypeError):
        d.nodes["new"] = d.nodes["A"]
    with pytest.raises(TypeError):
        del d.learned["L"]
    with pytest.raises(AttributeError):
        d.nodes["A"].kind = "latent"
    for array in (d.nodes["O"].cpd.table, d.learned["L"].prior, d.rewards[0].table):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.5
    data = d.to_dict()
    data["nodes"][5]["known"][0][0] = 1.0
    data["nodes"][0]["states"].append("w")
    assert d.to_dict() == kept()


def test_the_rows_that_a_node_reads_cannot_be_changed_either() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Diagram.from_dict(kept()).nodes["M"].cpd.rows[...] = 0
