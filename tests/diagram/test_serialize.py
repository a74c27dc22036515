"""Saved diagrams come back exactly, broken data is refused with its place, and files are written completely."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import idbandits as idb
import reference
from diagrams import labels, random_diagram, random_given, random_means
from drawn_diagrams import MODELS, every_feature
from idbandits import Diagram, Learned, models
from idbandits.diagram import schema
from idbandits.diagram import serialize as storage
from idbandits.errors import FormatError, ImpossibleObservationError


def answers(d: Diagram, rng: np.random.Generator) -> list[Any]:
    """Return answers of the library about a diagram, for random means, action, context and observation."""
    means = random_means(rng, d)
    actions = list(reference.actions(d))
    action = labels(d, actions[rng.integers(len(actions))])
    context = labels(d, random_given(rng, d)[1])
    observation = {n.name: n.values[int(rng.integers(n.states))] for n in d.of_kind("observed") if rng.random() < 0.3}
    results: list[Any] = [idb.expected_reward(d, action, means, context), idb.best_action(d, means, context)]
    for ask in (idb.log_likelihood, idb.posterior_of_latents):
        try:
            answer = ask(d, action, observation, means, context)
        except ImpossibleObservationError as error:
            answer = str(error)
        results.append({k: v.tolist() for k, v in answer.items()} if isinstance(answer, dict) else answer)
    return results


def assert_same(d: Diagram, other: Diagram, seed: int) -> None:
    """Nobody could tell them apart."""
    assert repr(other.to_dict()) == repr(d.to_dict())  # also the types of numbers, and the sign of zero
    assert repr(other) == repr(d)
    assert list(other.different) == list(d.different)
    for name, table in d.learned.items():
        np.testing.assert_array_equal(other.learned[name].prior, table.prior, strict=True)
    assert answers(other, np.random.default_rng(seed)) == answers(d, np.random.default_rng(seed))


# -- saved exactly ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_random_diagrams_are_saved_exactly(seed: int, tmp_path: Path) -> None:
    d = random_diagram(np.random.default_rng(seed), most_chance=6, most_joint=200)
    data = d.to_dict()
    Draft202012Validator(schema()).validate(data)
    assert_same(d, Diagram.from_dict(data), seed)
    assert data == d.to_dict()  # from_dict left its argument alone
    assert_same(d, d.copy(), seed)
    d.save(tmp_path / "d.json")
    assert_same(d, Diagram.load(tmp_path / "d.json"), seed)


@pytest.mark.parametrize("d", MODELS, ids=lambda d: d.name)
def test_models_are_saved_exactly(d: Diagram, tmp_path: Path) -> None:
    Draft202012Validator(schema()).validate(d.to_dict())
    d.save(str(tmp_path / "d.json"))
    other = Diagram.load(str(tmp_path / "d.json"))
    assert json.loads((tmp_path / "d.json").read_text()) == other.to_dict() == d.to_dict()
    means = random_means(np.random.default_rng(0), d)
    assert idb.best_action(other, means) == idb.best_action(d, means)


def test_numbers_and_labels_are_saved_to_the_bit(tmp_path: Path) -> None:
    d = Diagram("odd “numbers”\n")
    values = ["", "ü\n", 0.1, -0.0, 1e300, 5e-324, 2**70, True]
    a = d.decision("A", values)
    table = Learned("t", prior=[[0.1, 1 / 3], [1e-9, 1e15]], rows=2)
    node = d.latent("naïve [0]", [a], table.select(lambda v: int(v == 0.1)))
    d.observed("B", [node], [1 / 3, np.nextafter(1.0, 0)])
    d.reward([a, node], lambda v, n: -0.1 * n + 1e300 * (v is True))
    d.context("C", [False, 3, "3"])
    d.save(tmp_path / "d.json")
    other = Diagram.load(tmp_path / "d.json")
    assert repr(other.nodes["A"].values) == repr(d.nodes["A"].values) == repr(tuple(values))
    assert repr(other.to_dict()) == repr(d.to_dict())
    np.testing.assert_array_equal(other.learned["t"].prior, [[0.1, 1 / 3], [1e-9, 1e15]])


def test_the_schema_is_valid_and_rejects_other_data() -> None:
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    assert not validator.is_valid({})
    data = MODELS[0].to_dict()
    assert not validator.is_valid({**data, "version": 2})
    assert not validator.is_valid({**data, "extra": 1})
    schema()["type"] = "array"  # changes a copy
    assert schema()["type"] == "object"


# -- broken files ----------------------------------------------------------------------------------------------------


def changed(path: str, value: Any) -> dict[str, Any]:
    """The data with the value at one path replaced, deleted (by `...`), or appended to a list."""
    data = every_feature()
    *steps, last = [int(p) if p.isdigit() else p for p in re.findall(r"\w+", path)]
    inner: Any = data
    for step in steps:
        inner = inner[step]
    if value is ...:
        del inner[last]
    elif isinstance(inner, list) and last == len(inner):
        inner.append(value)
    else:
        inner[last] = value
    return data


BROKEN = [
    ("version", 0, "version|got 0|1"),
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
    ("nodes[2].states", 2.5, "nodes[2].states|'L'|2.5|integer"),
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
    ("learned[0].prior", [1, -1], "learned[0]|'L'|-1.0|from 1e-09"),
    ("learned[0].prior", [1, 1e-310], "learned[0]|'L'|1e-310|from 1e-09 to 1e+15"),
    ("learned[0].prior", 1.7e308, "learned[0]|'L'|1.7e+308|from 1e-09 to 1e+15"),
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
    ("nodes[5].learned", "L", "nodes[5]|'O'|exactly one|known|learned"),
    ("nodes[2].learned", ..., "nodes[2]|'L'|'known'|'learned'"),
    ("nodes[5].known", "0.5", "nodes[5].known|'O'|'0.5'|number"),
    ("learned[1].rows", 2, "nodes[4]|'R'|got 2|0 to 1"),
]


@pytest.mark.parametrize(
    ("path", "value", "words"), BROKEN, ids=[f"{p}={'(none)' if v is ... else v}" for p, v, *_ in BROKEN]
)
def test_broken_data_is_rejected_with_its_place(path: str, value: Any, words: str) -> None:
    data = changed(path, value)
    before = copy.deepcopy(data)
    with pytest.raises(FormatError) as raised:
        Diagram.from_dict(data)
    message = str(raised.value)
    assert not [word for word in words.split("|") if word not in message], message
    assert repr(data) == repr(before)


def test_learned_tables_stand_in_the_order_of_first_use() -> None:
    data = every_feature()
    data["learned"].reverse()
    with pytest.raises(FormatError, match=r"learned.*order.*'L', 'rows'"):
        Diagram.from_dict(data)


@pytest.mark.parametrize("data", [None, [], 3, "text", {}])
def test_data_of_another_kind_is_rejected(data: Any) -> None:
    with pytest.raises(FormatError, match="the file"):
        Diagram.from_dict(data)


def text(change: Callable[[str], str]) -> str:
    return change(json.dumps(every_feature(), indent=1))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(text(lambda t: t[:200]), "d.json|not JSON|line", id="truncated"),
        pytest.param("", "d.json|not JSON", id="empty"),
        pytest.param(text(lambda t: t + "}"), "d.json|not JSON|line", id="too long"),
        pytest.param(b"\xff\xfe", "d.json|not JSON", id="not UTF-8"),
        pytest.param(pickle.dumps(every_feature()), "d.json|not JSON", id="a pickle"),
        pytest.param(text(lambda t: t.replace("0.25", "NaN")), "d.json|NaN", id="NaN"),
        pytest.param(text(lambda t: t.replace("0.25", "-Infinity")), "d.json|-Infinity", id="-Infinity"),
        pytest.param(text(lambda t: t.replace("0.25", "1e999")), "nodes[5]|'O'|inf", id="overflow"),
        pytest.param("[1]", "d.json|the file|object", id="a list"),
        pytest.param(
            text(lambda t: t.replace('"version": 1,', '"version": 1, "version": 1,')), "version|twice", id="key twice",
        ),
        pytest.param("[" * 100_000, "d.json", id="deep"),
    ],
)  # fmt: skip
def test_broken_files_are_rejected(content: str | bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(FormatError) as raised:
        Diagram.load(path)
    assert not [word for word in words.split("|") if word not in str(raised.value)], raised.value


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Diagram.load(tmp_path / "no such file.json")


# -- written completely or not at all --------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [models.cascade(3, 2), models.cascade(3, 2).draw()], ids=["diagram", "picture"])
@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(
    saved: Any, fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.mmd"
    path.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, fails, fail)
    with pytest.raises(OSError, match="disk full"):
        saved.save(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.mmd"]


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


@pytest.mark.skipif(os.name != "posix", reason="other systems have no umask")
@pytest.mark.parametrize("saved", [models.cascade(3, 2), models.cascade(3, 2).draw()], ids=["diagram", "picture"])
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_has_the_permissions_that_the_umask_allows(saved: Any, mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        saved.save(tmp_path / "file.mmd")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file.mmd").stat().st_mode) == 0o666 & ~mask


def test_files_of_users_are_never_pickled() -> None:
    package = Path(idb.__file__).parent
    pickles = r"import pickle|from pickle|allow_pickle\s*=\s*True|import (dill|joblib|shelve|marshal)"
    found = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if re.search(pickles, path.read_text())
    }
    # machine code that was installed with the sources, and a folder that processes of one service share for a while
    assert found == {"kernel/numba_private.py", "service/live/shelf.py"}


# -- hostile text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a": ['])
@pytest.mark.parametrize("depth", [101, 900, 50_000])
def test_deep_json_is_rejected(opening: str, depth: int, tmp_path: Path) -> None:
    closing = opening[::-1].translate(str.maketrans("[{", "]}", '"a: '))
    (tmp_path / "d.json").write_text(opening * depth + "1" + closing * depth)
    with pytest.raises(FormatError, match=r"d\.json: nested deeper than 100"):
        Diagram.load(tmp_path / "d.json")


def test_deep_data_is_rejected() -> None:
    deep: Any = {}
    for _ in range(10_000):
        deep = {"x": [deep]}
    endless: list[Any] = []
    endless += [endless, endless]
    for data in (deep, [deep], endless, {"nodes": endless}, every_feature() | {"more": deep}):
        with pytest.raises(FormatError, match="nested deeper than 100"):
            Diagram.from_dict(data)


def test_the_largest_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.json"
    Diagram.from_dict(every_feature()).save(path)
    monkeypatch.setattr(storage, "MOST_BYTES", path.stat().st_size)
    assert Diagram.load(path).to_dict() == every_feature()
    path.write_text(path.read_text() + " ")
    with pytest.raises(FormatError, match=r"d\.json: larger than the [\d,]+ bytes"):
        Diagram.load(path)


@pytest.mark.parametrize("half", ["\ud800", "a\udfffb"])
def test_lone_surrogates_in_files_are_rejected(half: str, tmp_path: Path) -> None:
    text, path = json.dumps(models.cascade(["a", "b"], 1).to_dict()), tmp_path / "d.json"
    for name in ('"cascade"', '"a"', '"attraction"', '"W1"'):
        path.write_text(text.replace(name, json.dumps(half)))
        with pytest.raises(FormatError, match="lone surrogate"):
            Diagram.load(path)
    d = Diagram("🎉 日本")  # pairs of surrogates are fine
    d.decision("é", ["😀", "ß"])
    d.save(path)
    assert Diagram.load(path).to_dict() == d.to_dict()
