"""The command line, used as a person would: what it prints and writes, what it refuses, and the examples of its help."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from told import told

import idbandits as idb
from idbandits.app import cli
from idbandits.app.arguments import read_diagram
from idbandits.errors import FormatError
from idbandits.inference import BY_NAME

COMMANDS = ["paper", "theory", "models", "draw", "solve", "learners", "simulate"]
CASCADE = ["models", "cascade", "--items", "a,b,c,d", "--positions", "2"]
MEANS = ["--means", "attraction=0.1,0.4,0.2,0.3"]
SHORT = ["--rounds", "50", "--runs", "2"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run a command in a folder of its own, and give the exit status, the output and what was said beside it."""
    monkeypatch.chdir(tmp_path)

    def one(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return status, out, told(err)

    return one


@pytest.fixture
def cascade(call, tmp_path):
    assert call(*CASCADE, "--out", "cascade.json")[0] == 0
    return tmp_path / "cascade.json"


@pytest.fixture
def shop(call, tmp_path):
    """A diagram with contexts, a table of two axes and one of three states."""
    d = idb.Diagram("shop")
    segment, hour = d.context("segment", ["new", "loyal"]), d.context("hour", 2)
    card = d.decision("card", ["shoes", "bags"])
    d.reward(d.observed("click", [card, segment]))
    d.reward(d.observed("stay", [hour], states=3))
    d.save(tmp_path / "shop.json")
    return tmp_path / "shop.json"


def refused(answer, *words):
    """The command has failed with a line, which has these words."""
    status, out, err = answer
    assert (status, out) == (2, "")
    assert err.startswith("idbandits: error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


# -- models --------------------------------------------------------------------------------------------------------


def test_models_lists_all_ready_models(call):
    status, out, err = call("models")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "cascade(items, positions, distinct=True, learn_conditionals=False)"
    assert lines[1].strip() == idb.models.cascade.__doc__.splitlines()[0]
    assert "rank1(rows, columns)" in lines
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
        ("rank1 --rows 3 --columns x,y", lambda m: m.rank1(3, ["x", "y"])),
    ],
)
def test_models_write_the_diagram_that_python_makes(call, arguments, expected):
    status, out, _ = call("models", *shlex.split(arguments))
    assert status == 0
    assert json.loads(out) == expected(idb.models).to_dict()
    assert call("models", *shlex.split(arguments), "--out", "d.json")[:2] == (0, "")
    assert idb.Diagram.load("d.json").to_dict() == json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("casade", ["'casade'", "did you mean 'cascade'", "rank1"]),
        ("cascade --items 5", ["--positions", "idbandits models cascade --help"]),
        ("cascade --items 5 --positions 0", ["--positions", "from 1", "'0'"]),
        ("cascade --items 3 --positions 4", ["4 decisions", "3 choices"]),
        ("cascade --items a,,b --positions 2", ["--items", "empty"]),
        ("cascade --items [1 --positions 2", ["--items", "not JSON"]),
        ("cascade --items " + "[" * 100_000 + " --positions 2", ["--items", "[[…'", "not JSON"]),
        (f"cascade --items {10**30} --positions 2", ["'A1'", "at most", str(10**30)]),
        (f"cascade --items 3 --positions {10**30}", ["--positions", "from 1 to"]),
        ("cascade --items a,a --positions 2", ["'a'", "twice"]),
        ("cascade --items 3 --positions 2 --flavour x", ["--flavour"]),
        ("cascade --items 3 --positions 2 --out nowhere/d.json", ["nowhere/d.json: No such file"]),
        ("dependent_click --items 3 --positions 2 --reward joy", ["'joy'", "satisfaction"]),
        ("--items 3", ["--items"]),
    ],
)
def test_models_refuse(call, arguments, words):
    refused(call("models", *shlex.split(arguments)), *words)


# -- draw ----------------------------------------------------------------------------------------------------------


def test_draw(call, cascade):
    picture = idb.Diagram.load(cascade).draw()
    assert call("draw", cascade) == (0, picture.mermaid(), "")
    assert call("draw", cascade, "--out", "c.svg") == (0, "", "idbandits: wrote c.svg\n")
    assert Path("c.svg").read_text() == picture.svg()
    assert call("draw", "-", "--out", "c.png", stdin=cascade.read_text())[0] == 0
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_draw_refuses(call, cascade):
    refused(call("draw", cascade, "--out", "c.gif"), "c.gif", ".svg")
    refused(call("draw", cascade, "--out", "nowhere/c.svg"), "nowhere/c.svg: No such file")
    refused(call("draw", "nothing.json"), "nothing.json: No such file")
    refused(call("draw", "."), ".: Is a directory")
    refused(call("draw"), "FILE", "idbandits draw --help")


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
def test_what_is_no_diagram_is_refused_alike_from_a_file_and_a_pipe(call, text, words):
    Path("d.json").write_text(text)
    refused(call("draw", "d.json"), "d.json: ", *words)
    refused(call("draw", "-", stdin=text), "standard input: ", *words)


def test_bytes_that_are_no_text_are_refused_from_a_pipe(call, monkeypatch):
    call()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
    with pytest.raises(FormatError, match="standard input: not text"):
        read_diagram("-")


def test_labels_that_the_output_has_no_letters_for(tmp_path):
    d = idb.Diagram("日本")
    d.decision("A", 2)
    d.save(tmp_path / "d.json")
    run = process("draw", str(tmp_path / "d.json"), PYTHONIOENCODING="ascii")
    out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, "")
    assert "\\u65e5\\u672c" in out


# -- solve ---------------------------------------------------------------------------------------------------------


def test_solve_for_people_and_for_programs(call, cascade):
    status, out, err = call("solve", cascade, *MEANS)
    assert (status, err) == (0, "")
    assert "best action: A1 = b, A2 = d" in out
    assert "expected reward: 0.58, proven to be the best" in out
    found = json.loads(call("solve", cascade, *MEANS, "--json")[1])
    best = idb.best_action(idb.Diagram.load(cascade), {"attraction": [0.1, 0.4, 0.2, 0.3]})
    assert found == {**best._asdict(), "means": {"attraction": [0.1, 0.4, 0.2, 0.3]}, "context": {}}


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
def test_all_ways_to_give_means(call, cascade, means):
    Path("means.json").write_text('{"attraction": [0.1, 0.4, 0.2, 0.3]}')
    given = [word for text in means for word in ("--means", text)]
    assert json.loads(call("solve", cascade, *given, "--json")[1])["value"] == pytest.approx(0.58)


def test_solve_without_a_proof_says_what_no_action_exceeds(call):
    call("models", "cascade", "--items", 20, "--positions", 8, "--learn-conditionals", "--out", "hard.json")
    status, out, _ = call("solve", "hard.json", "--means", "random", "--seed", 3, "--effort", 0)
    assert status == 0
    assert re.search(r"not proven: no action exceeds \d", out)
    found = json.loads(call("solve", "hard.json", "--means", "random", "--seed", 3, "--effort", 0, "--json")[1])
    assert not found["exact"]
    assert found["bound"] > found["value"]


def test_random_means_are_told_and_follow_the_seed(call, cascade):
    first, again, other = (
        json.loads(call("solve", cascade, "--means", "random", "--seed", s, "--json")[1]) for s in (3, 3, 4)
    )
    assert first == again
    assert first["means"] != other["means"]
    out = call("solve", cascade, "--means", "random", "--seed", 3)[1]
    assert "drawn from the prior with seed 3" in out
    assert all(f"{mean:.4f}"[:5] in out for mean in first["means"]["attraction"])


def test_solve_in_a_context_with_larger_tables(call, shop):
    given = ["--means", "click=0.1,0.9,0.8,0.2", "--means", "stay=0.5,0.5,0,0,0,1", "--json"]
    found = json.loads(call("solve", shop, *given, "--context", "segment=loyal", "--context", "hour=1")[1])
    assert (found["action"], found["value"]) == ({"card": "shoes"}, pytest.approx(2.9))
    assert found["means"]["click"] == [[0.1, 0.9], [0.8, 0.2]]
    assert found["context"] == {"segment": "loyal", "hour": 1}
    found = json.loads(call("solve", shop, *given, "--context", '{"segment": "new", "hour": 0}')[1])
    assert (found["action"], found["value"]) == ({"card": "bags"}, pytest.approx(1.3))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ["'attraction' is missing", "(4,)"]),
        (["attraction"], ["'attraction'", "no file", "attraction of shape (4,)"]),
        (["attraction=0.1,0.2"], ["'attraction'", "shape (2,)", "(4,)"]),
        (["attraction=0.1,x,0.2,0.3"], ["'attraction'", "not numbers", "0.1,x,0.2,0.3"]),
        (["attraction="], ["'attraction'", "not numbers"]),
        (["attraction=0.1,0.2,1.3,0.4"], ["'attraction'", "[2]", "1.3"]),
        (["attraction=0.1,0.2,nan,0.4"], ["'attraction'", "[2]", "nan"]),
        (["attraction=[[0.1], 0.2]"], ["'attraction'", "not numbers"]),
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
def test_wrong_means(call, cascade, given, words):
    Path("list.json").write_text("[1, 2]")
    refused(call("solve", cascade, *(word for text in given for word in ("--means", text))), *words)


@pytest.mark.parametrize(
    ("given", "words"),
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
def test_wrong_contexts(call, shop, given, words):
    refused(call("solve", shop, "--means", "random", *(word for text in given for word in ("--context", text))), *words)


def test_names_with_equals_signs_and_labels_that_are_written_alike(call):
    d = idb.Diagram("alike")
    c, a = d.context("c", [1, "1"]), d.decision("a", 2)
    d.reward(d.observed("t", [a, c]))
    d.reward(d.observed("t=1", [a]))
    d.save("d.json")
    given = ["solve", "d.json", "--means", "t=1=0.1,0.2", "--means", "t=0.1,0.2,0.3,0.4", "--json"]
    found = json.loads(call(*given, "--context", '{"c": "1"}')[1])
    assert (found["means"], found["context"]) == ({"t": [[0.1, 0.2], [0.3, 0.4]], "t=1": [0.1, 0.2]}, {"c": "1"})
    assert json.loads(call(*given, "--context", '{"c": 1}')[1])["context"] == {"c": 1}


def test_other_wrong_arguments(call, cascade):
    refused(call("solve", cascade, *MEANS, "--effort", "-1"), "effort", "-1")
    refused(call("solve", cascade, *MEANS, "--effort", "much"), "--effort", "'much'")
    refused(call("solve", cascade, *MEANS, "--seed", "-1"), "--seed", "from 0", "'-1'")
    refused(call("slove"), "command 'slove'", "did you mean 'solve'", *COMMANDS)
    refused(call("xyz"), "command 'xyz'", *COMMANDS)
    refused(call("--verbose"), "--verbose")


# -- simulate ------------------------------------------------------------------------------------------------------


def test_simulate_is_what_python_gives(call, cascade):
    status, out, err = call(
        "simulate", cascade, *MEANS, *SHORT, "--seed", 5, "--learner", "ep", "--learner", "full", "--out", "new/results"
    )
    assert status == 0
    assert (
        err
        == "idbandits: wrote means.json, regret.png, regret.svg, results.parquet, reward.png, reward.svg, summary.csv to new/results\n"
    )
    d = idb.Diagram.load(cascade)
    means = {"attraction": [0.1, 0.4, 0.2, 0.3]}
    learners = {"ep": idb.Thompson(d), "full": idb.Thompson(d.revealed(), "exact")}
    expected = idb.simulate(idb.World(d, means), learners, rounds=50, runs=2, seed=5, progress=False)
    folder = Path("new/results")
    found = idb.Result.load(folder / "results.parquet")
    pd.testing.assert_frame_equal(found.frame.drop(columns="seconds"), expected.frame.drop(columns="seconds"))
    summary = pd.read_csv(folder / "summary.csv")
    pd.testing.assert_frame_equal(summary, found.summary(), check_dtype=False)
    assert "expected reward: 0.58, proven" in out
    assert f"{summary['reward_mean'][0]:.4f}" in out
    assert json.loads((folder / "means.json").read_text()) == means
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert "average reward" in (folder / "reward.svg").read_text()
    assert sorted(os.listdir(folder)) == [
        "means.json",
        "regret.png",
        "regret.svg",
        "results.parquet",
        "reward.png",
        "reward.svg",
        "summary.csv",
    ]


@pytest.mark.parametrize("inference", BY_NAME)
def test_every_inference_is_a_learner(call, cascade, inference):
    status, out, _ = call("simulate", cascade, *MEANS, *SHORT, "--learner", inference.upper(), "--no-progress")
    assert status == 0
    assert inference.upper() in out


def test_learners_have_settings(call, cascade):
    names = ["variational:sweeps=2,start=random,literal=True", "ep:damping=0.7", "particles:number=5"]
    status, out, _ = call(
        "simulate", cascade, *MEANS, *SHORT, *(word for name in names for word in ("--learner", name))
    )
    assert status == 0
    assert all(name in out for name in names)


def test_learners_lists_names_and_settings(call):
    status, out, err = call("learners")
    assert (status, err) == (0, "")
    assert [line.partition(":")[0] for line in out.splitlines()[::2]][:8] == [*BY_NAME, "full"]
    assert "\nvariational:sweeps=1,tolerance=0.0,start=warm,literal=False\n" in out


def test_baselines_are_learners_once_they_are_there(call, cascade, monkeypatch):
    class RoundRobin:
        """Takes one action for ever."""

        def __init__(self, d, seed=0, *, first="a"):
            self.diagram, self.first = d, first

        def act(self):
            return {"A1": self.first, "A2": "d"}

        def update(self, action, observation):
            pass

    monkeypatch.setattr(
        idb,
        "baselines",
        SimpleNamespace(__all__=["RoundRobin", "other"], RoundRobin=RoundRobin, other=1),
        raising=False,
    )
    status, out, _ = call(
        "simulate", cascade, *MEANS, *SHORT, "--learner", "round-robin:first=b", "--learner", "RoundRobin"
    )
    assert status == 0
    regrets = {line.split()[0]: float(line.split()[5]) for line in out.splitlines()[-2:]}
    assert regrets == pytest.approx({"round-robin:first=b": 0.0, "RoundRobin": 50 * 0.21})
    assert "RoundRobin:first=a\n    Takes one action for ever." in call("learners")[1]


def test_simulate_with_contexts(call, shop):
    status, out, err = call(
        "simulate", shop, "--means", "random", *SHORT, "--contexts", '{"hour": {"0": 0.25, "1": 0.75}}'
    )
    assert (status, err) == (0, "")
    assert "stay (2 x 3):" in out
    Path("contexts.json").write_text('{"segment": [0.9, 0.1]}')
    assert call("simulate", shop, "--means", "random", *SHORT, "--contexts", "contexts.json")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--rounds -5", ["--rounds", "from 1", "'-5'"]),
        ("--runs 0", ["--runs", "from 1", "'0'"]),
        ("--runs many", ["--runs", "'many'"]),
        ("--workers 0", ["--workers", "from 1"]),
        (f"--rounds {10**30}", ["--rounds", "to 1000000000000", f"'{10**30}'"]),
        (f"--runs {10**30}", ["--runs", "to 1000000"]),
        (f"--workers {10**30}", ["--workers", "to 1000"]),
        ("--learner ep:sweeps=1,sweeps=2", ["sweeps", "twice"]),
        (f"--learner ep:sweeps={10**30}", ["sweeps", "up to", str(10**12)]),
        ("--learner ep:sweeps=" + "9" * 5000, ["sweeps", "whole number"]),
        (f"--learner particles:number={10**30}", ["number", "up to"]),
        ("--learner toprunk", ["'toprunk'", *BY_NAME, "full"]),
        ("--learner variatonal", ["did you mean 'variational'?"]),
        ("--learner ep --learner ep", ["'ep'", "twice"]),
        ("--learner ep:swings=3", ["'swings'", "sweeps, damping"]),
        ("--learner moments:x=3", ["'x'", "none"]),
        ("--learner ep:sweeps=many", ["sweeps", "'many'"]),
        ("--learner variational:literal=maybe", ["literal", "'maybe'"]),
        ("--contexts {}}", ["--contexts", "not JSON"]),
        ("--contexts {\"hour\":[1]}", ["'hour'"]),
        ("--contexts nothing.json", ["nothing.json: No such file"]),
        ("--out cascade.json", ["cascade.json: File exists"]),
    ],
)  # fmt: skip
def test_simulate_refuses(call, cascade, arguments, words):
    status, _, err = call("simulate", cascade, *MEANS, *arguments.split())
    refused((status, "", err), *words)
    assert cascade.is_file()


def test_exact_where_it_is_not_exact_is_refused(call):
    call("models", "position_based", "--items", 4, "--positions", 2, "--out", "list.json")
    refused(call("simulate", "list.json", "--means", "random", "--learner", "exact"), "exact")


def test_warnings_are_lines(call, cascade, monkeypatch):
    def noisy(*arguments, **options):
        warnings.warn("mind the gap", stacklevel=2)
        return simulate(*arguments, **options)

    simulate = idb.simulate
    monkeypatch.setattr(idb, "simulate", noisy)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert call("simulate", cascade, *MEANS, *SHORT)[::2] == (0, "idbandits: warning: mind the gap\n")


# -- what may happen meanwhile -------------------------------------------------------------------------------------


def test_a_failure_keeps_what_was_in_the_folder(call, cascade, monkeypatch):
    assert call("simulate", cascade, *MEANS, *SHORT, "--out", "out")[0] == 0
    before = {file.name: file.read_bytes() for file in Path("out").iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device", "regret.png")

    monkeypatch.setattr(cli, "_plot", full)
    for folder in ("out", "new"):
        status, _, err = call("simulate", cascade, *MEANS, *SHORT, "--seed", 1, "--out", folder)
        assert (status, err) == (2, "idbandits: error: regret.png: No space left on device\n")
    assert {file.name: file.read_bytes() for file in Path("out").iterdir()} == before
    assert not Path("new").exists()


def test_an_interruption_keeps_finished_runs(call, cascade, monkeypatch):
    d = idb.Diagram.load(cascade)
    done = idb.simulate(
        idb.World(d, {"attraction": [0.1, 0.4, 0.2, 0.3]}), {"ep": idb.Thompson(d)}, 50, 2, progress=False
    )
    monkeypatch.setattr(idb, "simulate", lambda *_, **__: idb.Result(done.frame, done.settings | {"interrupted": True}))
    status, out, err = call("simulate", cascade, *MEANS, "--runs", 7, "--out", "out")
    assert status == 130
    assert err.endswith("idbandits: interrupted; kept the 2 of 7 runs that had finished\n")
    assert "reward_mean" in out
    assert idb.Result.load("out/results.parquet").settings["interrupted"]
    monkeypatch.setattr(
        idb, "simulate", lambda *_, **__: idb.Result(done.frame[:0], done.settings | {"interrupted": True})
    )
    assert call("simulate", cascade, *MEANS, "--out", "new")[::2] == (130, "idbandits: interrupted; nothing was kept\n")
    assert not Path("new").exists()


def process(*arguments, **environment):
    command = [sys.executable, "-m", "idbandits", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])} | environment
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_control_c_in_a_process(cascade):
    started = process("simulate", str(cascade), *MEANS, "--rounds", "100000000", "--runs", "2")
    assert started.stdout.readline().startswith("Diagram 'cascade'")
    assert started.stdout.readline().startswith("best action")
    time.sleep(0.5)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert told(err) == "idbandits: interrupted; nothing was kept\n"
    assert "reward_mean" not in out


def test_a_closed_pipe_is_quiet():
    started = process("models", "cascade", "--items", "2000", "--positions", "400")
    assert started.stdout.readline() == "{\n"
    started.stdout.close()
    assert started.stderr.read() == ""
    assert started.wait(timeout=60) == 141
    started.stderr.close()


# -- help ----------------------------------------------------------------------------------------------------------


def test_no_command_shows_the_help(call):
    status, out, _ = call()
    assert status == 2
    assert call("--help") == (0, out, "")
    assert all(re.search(rf"^    {name} ", out, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS)], ids=lambda words: " ".join(words) or "idbandits"
)
def test_the_examples_in_the_help_work(call, command):
    status, text, _ = call(*command, "--help")
    assert status == 0
    assert all(len(line) <= 120 for line in text.splitlines())
    examples = text.partition("\nexample:\n")[2].strip().splitlines()
    assert examples
    for line in examples:
        out = ""
        for part in line.split(" | "):
            words = shlex.split(part)
            assert words[0] == "idbandits"
            status, out, err = call(*words[1:], stdin=out)
            assert status == 0, err
            assert all(Path(words[i + 1]).exists() for i, word in enumerate(words) if word == "--out")


def test_the_help_of_a_model_has_its_parameters(call):
    status, out, _ = call("models", "dependent_click", "--help")
    assert status == 0
    assert "usage: idbandits models dependent_click" in out
    for words in ("--items ITEMS", "--positions N", "--no-distinct", "(default: satisfaction)", "Katariya"):
        assert words in out
    assert out.count("default: True") == 1
    assert ">>>" not in call("models", "cascade", "--help")[1]
