"""`idbandits models` and `idbandits draw`: diagrams out of nothing, and pictures of them."""

import io
import json
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

import idbandits as idb
from idbandits.cli.arguments import read_diagram
from idbandits.errors import FormatError


def test_models_lists_all_ready_models(call):
    status, out, err = call("models")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    settings = "prior=None, fixed=None, features=None, pooled=()"
    assert lines[0] == f"cascade(items, positions, learn_conditionals=False, {settings}, distinct=True, empty=False)"
    assert lines[1].strip() == idb.models.cascade.__doc__.splitlines()[0]
    assert f"rank1(rows, columns, {settings})" in lines
    names = [line.partition("(")[0] for line in lines[::2]]
    assert all(callable(getattr(idb.models, name)) for name in names)
    assert {"position_based", "semi_bandit", "user_browsing"} < set(names)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("cascade --items 5 --positions 2", lambda m: m.cascade(5, 2)),
        ("cascade --items a,b,c --positions 2 --no-distinct", lambda m: m.cascade(["a", "b", "c"], 2, distinct=False)),
        ("cascade --items 5 --positions 2 --learn-conditionals", lambda m: m.cascade(5, 2, learn_conditionals=True)),
        ("position-based --items '[1, 2.5]' --positions 1", lambda m: m.position_based([1, 2.5], 1)),
        ("dependent_click --items 4 --positions 2 --reward clicks", lambda m: m.dependent_click(4, 2, reward="clicks")),
        (
            """position_based --items 3 --positions 2 --fixed '{"examination": {"0": 1.0}}' --prior '{"attraction": [1, 9]}'""",
            lambda m: m.position_based(3, 2, fixed={"examination": {0: 1.0}}, prior={"attraction": [1, 9]}),
        ),
        ("rank1 --rows 3 --columns x,y", lambda m: m.rank1(3, ["x", "y"])),
        (
            "rank1 --rows 3 --columns x,y --pooled row --pooled column",
            lambda m: m.rank1(3, ["x", "y"], pooled=["row", "column"]),
        ),
    ],
)
def test_models_writes_the_diagram_that_python_makes(call, arguments, expected):
    status, out, _ = call("models", *shlex.split(arguments))
    assert status == 0
    assert json.loads(out) == expected(idb.models).to_dict()
    assert call("models", *shlex.split(arguments), "--out", "d.json")[:2] == (0, "")
    assert idb.Diagram.load("d.json").to_dict() == json.loads(out)


ITEMS = pd.DataFrame({"price": [3.5, None, 2], "kind": ["thai", "tea, hot", None]}, index=["b", "a", "other"])


def test_models_reads_features_from_a_file(call):
    ITEMS.to_csv("items.csv")
    options = ["--items", "a,b", "--positions", "2", "--empty"]
    status, out, _ = call("models", "cascade", *options, "--features", "attraction=items.csv")
    assert status == 0
    assert json.loads(out) == idb.models.cascade(["a", "b"], 2, empty=True, features={"attraction": ITEMS}).to_dict()
    Path("rows.csv").write_text("row,size\n1,0.5\n0,7\n\n")
    given = ("--features", "row=rows.csv", "--features", "column=rows.csv")
    status, out, _ = call("models", "rank1", "--rows", "2", "--columns", "2", *given)
    own = pd.DataFrame({"size": [7, 0.5]})
    assert json.loads(out) == idb.models.rank1(2, 2, features={"row": own, "column": own}).to_dict()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["d.csv", "not CSV"]),
        ("item,price\n", ["d.csv", "a header"]),
        ("item\na\nb\n", ["d.csv", "at least one feature"]),
        ("item,price\na,1\nb,2,3\n", ["d.csv", "not CSV", "line 3"]),
        ("item,price\na,1\nc,2\n", ["no line for 'b'"]),
        ("item,price\na,1\nb,inf\n", ["column 'price' must be finite, got inf for 'b'"]),
        ("item,price\na,1\nb,2\nb,3\n", ["two lines for 'b'"]),
        ('item,price\na,"1\nb,2\n', ["d.csv", "not CSV"]),
    ],
)
def test_models_rejects_wrong_features(rejected, content, words):
    Path("d.csv").write_text(content)
    rejected("models", "cascade", "--items", "a,b", "--positions", "1", "--features", "attraction=d.csv", words=words)


def test_models_rejects_features_that_are_not_there(rejected):
    for given, words in {
        "attraction": ["table=file.csv"], "attraction=none.csv": ["none.csv: No such file"], "attraction=.": ["directory"],
    }.items():  # fmt: skip
        rejected("models", "cascade", "--items", "a,b", "--positions", "1", "--features", given, words=words)
    rejected("models", "cascade", "--items", "a,b", "--positions", "1", "--pooled", "examination", words=["attraction"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("casade", ["'casade'", "did you mean 'cascade'", "rank1"]),
        ("cascade --items 5", ["--positions", "idbandits models cascade --help"]),
        ("cascade --items 5 --positions 0", ["--positions", "from 1", "'0'"]),
        ("cascade --items 3 --positions 4", ["4 decisions", "need 4 choices, got 3"]),
        ("cascade --items a,,b --positions 2", ["--items", "empty"]),
        ("cascade --items [1 --positions 2", ["--items", "not JSON"]),
        ("cascade --items " + "[" * 100_000 + " --positions 2", ["--items", "[[…", "not JSON"]),
        (f"cascade --items {10**30} --positions 2", ["'A1'", "at most", str(10**30)]),
        (f"cascade --items 3 --positions {10**30}", ["--positions", "from 1 to"]),
        ("cascade --items a,a --positions 2", ["'a'", "twice"]),
        ("cascade --items 3 --positions 2 --flavour x", ["--flavour"]),
        ("cascade --items 3 --positions 2 --out nowhere/d.json", ["nowhere/d.json: No such file"]),
        ("dependent_click --items 3 --positions 2 --reward joy", ["'joy'", "satisfaction"]),
        ("--items 3", ["--items"]),
    ],
)
def test_models_rejects(rejected, arguments, words):
    rejected("models", *shlex.split(arguments), words=words)


def test_the_help_of_a_model_has_its_parameters(call):
    status, out, _ = call("models", "dependent_click", "--help")
    assert status == 0
    assert "usage: idbandits models dependent_click" in out
    for words in ("--items ITEMS", "--positions N", "--no-distinct", "(default: clicks)", "Katariya"):
        assert words in out
    assert out.count("default: True") == 1
    assert ">>>" not in call("models", "cascade", "--help")[1]


# -- draw ----------------------------------------------------------------------------------------------------------


def test_draw(call, cascade):
    picture = idb.Diagram.load(cascade).draw()
    assert call("draw", cascade) == (0, picture.mermaid(), "")
    assert call("draw", cascade, "--out", "c.svg") == (0, "", "idbandits: wrote c.svg\n")
    assert Path("c.svg").read_text() == picture.svg()
    assert call("draw", "-", "--out", "c.png", stdin=cascade.read_text())[0] == 0
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_draw_rejects(rejected, cascade):
    rejected("draw", cascade, "--out", "c.gif", words=["c.gif", ".svg"])
    rejected("draw", cascade, "--out", "nowhere/c.svg", words=["nowhere/c.svg: No such file"])
    rejected("draw", "nothing.json", words=["nothing.json: No such file"])
    rejected("draw", ".", words=[".: Is a directory"])
    rejected("draw", words=["FILE", "idbandits draw --help"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["not JSON"]),
        ("", ["not JSON"]),
        ("[]", ["object"]),
        ('{"format": "x"}', []),
        ('{"a": 1, "a": 2}', ["'a'", "twice"]),
        ("[" + "9" * 5000 + "]", ["not JSON", "digits"]),
    ],
)
def test_text_that_is_not_a_diagram_is_rejected_alike_from_a_file_and_a_pipe(rejected, text, words):
    Path("d.json").write_text(text)
    rejected("draw", "d.json", words=["d.json: ", *words])
    rejected("draw", "-", stdin=text, words=["standard input: ", *words])


def test_bytes_that_are_not_text_are_rejected_from_a_pipe(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
    with pytest.raises(FormatError, match="standard input: not text"):
        read_diagram("-")


def test_labels_that_the_encoding_of_the_output_lacks(process, tmp_path):
    d = idb.Diagram("日本")
    d.decision("A", 2)
    d.save(tmp_path / "d.json")
    drawing = process("draw", tmp_path / "d.json", PYTHONIOENCODING="ascii")
    out, err = drawing.communicate(timeout=60)
    assert (drawing.returncode, err) == (0, "")
    assert "\\u65e5\\u672c" in out
