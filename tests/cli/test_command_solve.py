"""`idbandits solve`: what it prints, and all ways to give means and contexts, right and wrong."""

import json
import re
from pathlib import Path

import pytest

import idbandits as idb

MEANS = ["--means", "attraction=0.1,0.4,0.2,0.3"]


def repeated(option, values):
    return [word for value in values for word in (option, value)]


def test_solve_prints_text_or_json(call, cascade):
    status, out, err = call("solve", cascade, *MEANS)
    assert (status, err) == (0, "")
    assert "best action: A1 = b, A2 = d" in out
    assert "expected reward: 0.58, proven optimal" in out
    answer = json.loads(call("solve", cascade, *MEANS, "--json")[1])
    best = idb.best_action(idb.Diagram.load(cascade), {"attraction": [0.1, 0.4, 0.2, 0.3]})
    assert answer == {**best._asdict(), "means": {"attraction": [0.1, 0.4, 0.2, 0.3]}, "context": {}}


@pytest.mark.parametrize(
    "means",
    [
        ["attraction=0.1,0.4,0.2,0.3"],
        ["attraction=[0.1, 0.4, 0.2, 0.3]"],
        ['{"attraction": [0.1, 0.4, 0.2, 0.3]}'],
        ["means.json"],
        ["random", "attraction=0.1,0.4,0.2,0.3"],
    ],
)
def test_all_forms_of_means(call, cascade, means):
    Path("means.json").write_text('{"attraction": [0.1, 0.4, 0.2, 0.3]}')
    assert json.loads(call("solve", cascade, *repeated("--means", means), "--json")[1])["value"] == pytest.approx(0.58)


def test_solve_without_a_proof_says_what_no_action_exceeds(call):
    call("models", "cascade", "--items", 20, "--positions", 8, "--learn-conditionals", "--out", "hard.json")
    status, out, _ = call("solve", "hard.json", "--means", "random", "--seed", 3, "--effort", 0)
    assert status == 0
    assert re.search(r"not proven: no action exceeds \d", out)
    answer = json.loads(call("solve", "hard.json", "--means", "random", "--seed", 3, "--effort", 0, "--json")[1])
    assert not answer["exact"]
    assert answer["bound"] > answer["value"]


def test_random_means_are_printed_and_follow_the_seed(call, cascade):
    first, again, other = (
        json.loads(call("solve", cascade, "--means", "random", "--seed", s, "--json")[1]) for s in (3, 3, 4)
    )
    assert first == again
    assert first["means"] != other["means"]
    out = call("solve", cascade, "--means", "random", "--seed", 3)[1]
    assert "drawn from the prior with seed 3" in out
    assert all(f"{mean:.4f}"[:5] in out for mean in first["means"]["attraction"])


def test_random_means_of_a_table_do_not_depend_on_those_of_others(call, shop):
    context = repeated("--context", ["segment=new", "hour=0"])
    drawn, mixed = (
        json.loads(call("solve", shop, *repeated("--means", means), *context, "--json")[1])["means"]
        for means in (["random"], ["click=0.1,0.9,0.8,0.2", "random"])
    )
    assert mixed == {"click": [[0.1, 0.9], [0.8, 0.2]], "stay": drawn["stay"]}


def test_solve_in_a_context_with_larger_tables(call, shop):
    means = repeated("--means", ["click=0.1,0.9,0.8,0.2", "stay=0.5,0.5,0,0,0,1"])
    answer = json.loads(call("solve", shop, *means, "--json", "--context", "segment=loyal", "--context", "hour=1")[1])
    assert (answer["action"], answer["value"]) == ({"card": "shoes"}, pytest.approx(2.9))
    assert answer["means"]["click"] == [[0.1, 0.9], [0.8, 0.2]]
    assert answer["context"] == {"segment": "loyal", "hour": 1}
    answer = json.loads(call("solve", shop, *means, "--json", "--context", '{"segment": "new", "hour": 0}')[1])
    assert (answer["action"], answer["value"]) == ({"card": "bags"}, pytest.approx(1.3))


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ([], ["'attraction' is missing", "(4,)"]),
        (["attraction"], ["'attraction'", "not a file", "attraction of shape (4,)"]),
        (["attraction=0.1,0.2"], ["'attraction'", "shape (4,)", "(2,)"]),
        (["attraction=0.1,x,0.2,0.3"], ["'attraction'", "must be numbers", "0.1,x,0.2,0.3"]),
        (["attraction="], ["'attraction'", "must be numbers"]),
        (["attraction=0.1,0.2,1.3,0.4"], ["'attraction'", "[2]", "1.3"]),
        (["attraction=0.1,0.2,nan,0.4"], ["'attraction'", "[2]", "nan"]),
        (["attraction=[[0.1], 0.2]"], ["'attraction'", "array of numbers"]),
        (["attraction=[0.1"], ["attraction", "not JSON"]),
        (["atraction=0.1,0.2,0.3,0.4"], ["'atraction'", "attraction"]),
        ([*MEANS[1:], *MEANS[1:]], ["'attraction'", "twice"]),
        (["{"], ["--means", "not JSON"]),
        (["atraction=" + "0.5," * 2000 + "0.5"], ["'atraction'", "attraction"]),
        (['{"attraction": [NaN]}'], ["--means", "NaN"]),
        (["list.json"], ["list.json", "[1, 2]"]),
        (["."], [".: Is a directory"]),
        (["random", "examination=0.5"], ["'examination'", "attraction"]),
        (["attraction=[" + "9" * 5000 + "]"], ["--means attraction", "not JSON", "digits"]),
    ],
)  # fmt: skip
def test_wrong_means(rejected, cascade, means, words):
    Path("list.json").write_text("[1, 2]")
    rejected("solve", cascade, *repeated("--means", means), words=words)


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ([], ["'segment' is missing"]),
        (["loyal"], ["'loyal'", "node=value"]),
        (["segment=old", "hour=0"], ["'segment'", "'old'", "'loyal'"]),
        (["segment=new", "hour=7"], ["'hour'", "'7'", "0 to 1"]),
        (["segment=new", "hour=0", "day=1"], ["'day'"]),
        (["{]"], ["--context", "not JSON"]),
        (["segment=new", "hour=0", "segment=loyal"], ["--context", "'segment'", "twice"]),
        (["segment=new", '{"hour": 0, "segment": "new"}'], ["--context", "'segment'", "twice"]),
    ],
)
def test_wrong_contexts(rejected, shop, context, words):
    rejected("solve", shop, "--means", "random", *repeated("--context", context), words=words)


def test_names_with_equals_signs_and_labels_that_print_alike(call):
    d = idb.Diagram("alike")
    c, a = d.context("c", [1, "1"]), d.decision("a", 2)
    d.reward(d.observed("t", [a, c]))
    d.reward(d.observed("t=1", [a]))
    d.save("d.json")
    solve = ["solve", "d.json", *repeated("--means", ["t=1=0.1,0.2", "t=0.1,0.2,0.3,0.4"]), "--json"]
    answer = json.loads(call(*solve, "--context", '{"c": "1"}')[1])
    assert (answer["means"], answer["context"]) == ({"t": [[0.1, 0.2], [0.3, 0.4]], "t=1": [0.1, 0.2]}, {"c": "1"})
    assert json.loads(call(*solve, "--context", '{"c": 1}')[1])["context"] == {"c": 1}


def test_other_wrong_arguments(rejected, cascade):
    rejected("solve", cascade, *MEANS, "--effort", "-1", words=["effort", "-1"])
    rejected("solve", cascade, *MEANS, "--effort", "much", words=["--effort", "'much'"])
    rejected("solve", cascade, *MEANS, "--seed", "-1", words=["--seed", ">= 0", "'-1'"])
