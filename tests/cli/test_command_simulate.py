"""`idbandits simulate` and `idbandits learners`: results, learners and their settings, failures and interruptions."""

import json
import os
import re
import signal
import warnings
from pathlib import Path

import pandas as pd
import pytest

import idbandits as idb
from idbandits import baselines
from idbandits.inference import BY_NAME, default_inference

MEANS = ["--means", "attraction=0.1,0.4,0.2,0.3"]
SHORT = ["--rounds", "50", "--runs", "2"]
SIMULATE = "idbandits.simulation.simulate.simulate"  # where it is defined
FILES = ["means.json", "regret.png", "regret.svg", "results.parquet", "reward.png", "reward.svg", "summary.csv"]


def test_simulate_equals_that_in_python(call, cascade):
    status, out, err = call(
        "simulate", cascade, *MEANS, *SHORT, "--seed", 5, "--learner", "ep", "--learner", "full", "--out", "new/results"
    )
    assert status == 0
    assert err == f"idbandits: wrote {', '.join(FILES)} to new/results\n"
    d = idb.Diagram.load(cascade)
    means = {"attraction": [0.1, 0.4, 0.2, 0.3]}
    learners = {"ep": idb.Thompson(d), "full": idb.Thompson(d.revealed(), "exact")}
    expected = idb.simulate(idb.World(d, means), learners, rounds=50, runs=2, seed=5, progress=False)
    folder = Path("new/results")
    result = idb.Result.load(folder / "results.parquet")
    pd.testing.assert_frame_equal(result.frame.drop(columns="seconds"), expected.frame.drop(columns="seconds"))
    summary = pd.read_csv(folder / "summary.csv")
    pd.testing.assert_frame_equal(result.summary(), summary, check_dtype=False)
    assert "expected reward: 0.58, proven" in out
    assert f"{summary['reward_mean'][0]:.4f}" in out
    assert json.loads((folder / "means.json").read_text()) == means
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert "average reward" in (folder / "reward.svg").read_text()
    assert sorted(os.listdir(folder)) == FILES


@pytest.mark.parametrize("command", ["simulate", "compile"])
def test_help_states_the_default_of_the_library(call, command):
    plain, featured = idb.Diagram("plain"), idb.Diagram("featured")
    featured.context("user", features=["age"])
    status, out, _ = call(command, "--help")
    assert status == 0
    stated = f"{default_inference(plain)}; {default_inference(featured)} if a context has features"
    assert f"default: {stated})" in " ".join(out.split())
    assert f"Default: {stated}\n" in call("learners")[1]


def test_the_default_depends_on_the_diagram(call, cascade, monkeypatch):
    monkeypatch.setattr("idbandits.cli.simulate_command.default_inference", lambda _: "moments")
    _, out, _ = call("simulate", cascade, *MEANS, *SHORT)
    assert re.search(r"^ *moments +2 +50 ", out, re.M)


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
    names = [line.partition(":")[0] for line in out.splitlines()[:-1:2]]
    assert names == [*BY_NAME, "full", *baselines.__all__]
    assert "\nvariational:sweeps=1,tolerance=0.0,start=warm,literal=False\n" in out


def test_a_new_baseline_is_a_learner(call, cascade, monkeypatch):
    class Stubborn:
        """Constant action."""

        def __init__(self, d, seed=0, *, first="a"):
            self.diagram, self.first = d, first

        def act(self):
            return {"A1": self.first, "A2": "d"}

        def update(self, action, observation):
            pass

    monkeypatch.setattr(baselines, "Stubborn", Stubborn, raising=False)
    monkeypatch.setattr(baselines, "__all__", [*baselines.__all__, "Stubborn"])
    status, out, _ = call(
        "simulate", cascade, *MEANS, *SHORT, "--learner", "STUB-born:first=b", "--learner", "Stubborn"
    )
    assert status == 0
    regrets = {line.split()[0]: float(line.split()[5]) for line in out.splitlines()[-2:]}
    assert regrets == pytest.approx({"STUB-born:first=b": 0.0, "Stubborn": 50 * 0.21})
    assert "Stubborn:first=a\n    Constant action." in call("learners")[1]


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
        (f"--learner ep:sweeps={10**30}", ["sweeps", "at most", str(10**12)]),
        ("--learner ep:sweeps=" + "9" * 5000, ["sweeps", "must be an integer"]),
        (f"--learner particles:number={10**30}", ["number", "at most"]),
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
def test_simulate_rejects(rejected, cascade, arguments, words):
    rejected("simulate", cascade, *MEANS, *arguments.split(), words=words, prints_before=True)
    assert cascade.is_file()


def test_exact_inference_is_rejected_if_it_is_not_exact(call, rejected):
    call("models", "position_based", "--items", 4, "--positions", 2, "--out", "list.json")
    rejected("simulate", "list.json", "--means", "random", "--learner", "exact", words=["exact"])


def test_warnings_are_lines(call, cascade, monkeypatch):
    def noisy(*arguments, **options):
        warnings.warn("mind the gap", stacklevel=2)
        return simulate(*arguments, **options)

    simulate = idb.simulate
    monkeypatch.setattr(SIMULATE, noisy)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert call("simulate", cascade, *MEANS, *SHORT)[::2] == (0, "idbandits: warning: mind the gap\n")


# -- failures and interruptions ------------------------------------------------------------------------------------


def test_a_failure_keeps_what_was_in_the_folder(call, cascade, monkeypatch):
    assert call("simulate", cascade, *MEANS, *SHORT, "--out", "out")[0] == 0
    before = {file.name: file.read_bytes() for file in Path("out").iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device", "regret.png")

    monkeypatch.setattr(idb.Result, "plot", full)
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
    settings = done.settings | {"interrupted": True}
    monkeypatch.setattr(SIMULATE, lambda *_, **__: idb.Result(done.frame, settings))
    status, out, err = call("simulate", cascade, *MEANS, "--runs", 7, "--out", "out")
    assert status == 130
    assert err.endswith("idbandits: interrupted; kept the 2 of 7 runs that had finished\n")
    assert "reward_mean" in out
    assert idb.Result.load("out/results.parquet").settings["interrupted"]
    monkeypatch.setattr(SIMULATE, lambda *_, **__: idb.Result(done.frame[:0], settings))
    assert call("simulate", cascade, *MEANS, "--out", "new")[::2] == (130, "idbandits: interrupted; nothing was kept\n")
    assert not Path("new").exists()


def test_control_c_in_a_process(process, cascade, without_notices):
    started = process("simulate", cascade, *MEANS, "--rounds", 100_000_000, "--runs", 2)
    assert started.stdout.readline().startswith("Diagram 'cascade'")
    assert started.stdout.readline().startswith("best action")
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert without_notices(err) == "idbandits: interrupted; nothing was kept\n"
    assert "reward_mean" not in out
