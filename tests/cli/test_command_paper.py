"""`idbandits paper` as a person uses it: selections, second starts, interruptions, mistakes."""

import os
import random
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from idbandits.cli import paper_command as paper
from idbandits.reproduction import paper_report as report
from idbandits.reproduction import problems, runs
from idbandits.reproduction.runs import Prepared

TINY = ["--rounds", "50", "--runs", "2", "--no-progress"]
FILES = ["figure-2.png", "figure-2.svg", "index.html", "results.parquet", "runs.sqlite", "summary.csv"]


@pytest.fixture
def begun(monkeypatch):
    """List of the learners of the runs that begin from now on."""
    learners = []
    original = Prepared.run

    def run(self, *arguments):
        learners.append(self.cell.learner)
        return original(self, *arguments)

    monkeypatch.setattr(Prepared, "run", run)
    return learners


def numbers(folder):
    """Return results and summary without times."""
    results, summary = pd.read_parquet(folder / "results.parquet"), pd.read_csv(folder / "summary.csv")
    return results.drop(columns="seconds"), summary.drop(columns="seconds_mean")


def same_numbers(a, b):
    for frame, expected in zip(numbers(a), numbers(b), strict=True):
        pd.testing.assert_frame_equal(frame, expected, check_exact=True)


def test_one_panel_and_a_second_start(call, begun, tmp_path):
    status, out, err = call("paper", *TINY, "--figure", "2a", "--out", "a/b")
    assert (status, out) == (0, "")
    assert err.count("\n") == 1
    assert err.startswith("idbandits: wrote figure-2.png, ")
    assert err.endswith(f"to a/b; read {Path('a/b/index.html')}\n")
    folder = tmp_path / "a" / "b"
    assert sorted(os.listdir(folder)) == FILES
    assert len(begun) == 4 * 2
    assert numbers(folder)[1]["learner"].tolist() == list(problems.FIGURES[0].panels[0].learners)
    assert set(numbers(folder)[1]["rounds"]) == {50}
    page = (folder / "index.html").read_text()
    assert "idbandits paper --figure 2a --runs 2 --rounds 50</code>" in page
    before = {name: (folder / name).read_bytes() for name in FILES}
    assert call("paper", *TINY, "--figure", "2a", "--out", "a/b")[0] == 0
    assert len(begun) == 4 * 2  # none was made again
    for name in set(FILES) - {"index.html"}:
        assert (folder / name).read_bytes() == before[name], name


def test_a_changed_setting_makes_all_runs_again_and_more_runs_only_the_rest(call, begun, tmp_path):
    common = ["paper", "--figure", "B3d", "--no-progress", "--out", "out"]
    for settings, number in [
        (["--rounds", 40, "--runs", 2], 6), (["--rounds", 40, "--runs", 2, "--seed", 1], 6),
        (["--rounds", 41, "--runs", 2], 6), (["--rounds", 40, "--runs", 3], 3), (["--rounds", 40, "--runs", 2], 0),
    ]:  # fmt: skip
        begun.clear()
        assert call(*common, *settings)[0] == 0
        assert len(begun) == number, settings
    assert set(numbers(tmp_path / "out")[1]["runs"]) == {2}


def test_another_version_makes_all_runs_again(call, begun, monkeypatch):
    common = ["paper", *TINY, "--figure", "B3d", "--out", "out"]
    assert call(*common)[0] == 0
    monkeypatch.setattr(runs, "version", lambda: "newer")
    assert call(*common)[0] == 0
    assert len(begun) == 12


def test_workers_do_not_change_results(call, tmp_path):
    for workers in (1, 3):
        assert call("paper", *TINY, "--figure", "3b", "--workers", workers, "--out", f"w{workers}")[0] == 0
    same_numbers(tmp_path / "w1", tmp_path / "w3")


@pytest.mark.parametrize(
    ("keys", "experiments"),
    [
        (["2A"], ["2a"]),
        (["Figure 2A", "Table1"], ["2a", "table 1"]),
        (["B3d", "b3", "B3d"], ["B3d", "B3a", "B3b", "B3c"]),
        (["table 1"], ["table 1"]),
    ],
)
def test_selection(keys, experiments):
    panels, with_theory = paper.select(keys)
    assert [panel.key for panel in panels] == experiments
    assert not with_theory
    assert paper.select([*keys, "Theory"]) == (panels, True)


def test_everything_is_selected_by_default():
    panels, with_theory = paper.select(None)
    assert panels == [panel for figure in problems.FIGURES for panel in figure.panels] + [problems.TABLE]
    assert with_theory


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--figure", "2g"], ["'2g'", "2a", "3c", "B3", "table 1", "theory"]),
        (["--figure", ""], ["''", "theory"]),
        (["--rounds", "0"], ["--rounds", "from 1"]),
        (["--runs", "-1"], ["--runs", "from 1"]),
        (["--seed", "-1"], ["--seed", ">= 0"]),
        (["--workers", "0"], ["--workers", "from 1"]),
        (["--workers", "1" + "0" * 30], ["--workers", "from 1 to 1000"]),
        (["--rounds", "1" + "0" * 30], ["--rounds", "from 1 to 1000000000000"]),
        (["--runs", "1" + "0" * 5000], ["--runs", "from 1 to 1000000", "000…"]),
        (["--figure", "2a", "--out", "file"], ["file: File exists"]),
        (["--figure", "2a", "--out", "file/below"], ["file/below: Not a directory"]),
        (["--figure", "2a", "--out", "/proc/nowhere"], ["/proc/nowhere: No such file"]),
        (["--figure", "2a", "--out", "taken"], ["taken/runs.sqlite"]),
        (["--figure", "2a", "--out", "foreign"], ["foreign/runs.sqlite", "move it away"]),
        (["--figure", "2a", "--cluster", "", "--out", "new"], ["--cluster", "''", "Dask"]),
    ],
)
def test_errors_are_one_line(rejected, tmp_path, arguments, words):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken" / "runs.sqlite").mkdir(parents=True)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "runs.sqlite").write_text("a text, not a database " * 50)
    rejected("paper", *TINY, *arguments, words=words)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("arguments", [["--runs", "1", "--rounds", "1"], ["--runs", "2", "--rounds", "2"]])
def test_the_smallest_evaluation(call, tmp_path, arguments):
    keys = [word for key in ("2c", "2e", "B2f", "table 1") for word in ("--figure", key)]
    status, _, err = call("paper", *arguments, *keys, "--no-progress", "--out", "out")
    assert (status, err.count("\n")) == (0, 1), err
    assert set(numbers(tmp_path / "out")[1]["rounds"]) <= {1, int(arguments[-1])}


def test_theory_alone(call, monkeypatch, tmp_path):
    monkeypatch.setattr(paper, "THEORY_ROUNDS", 200)
    monkeypatch.setattr(paper, "THEORY_RUNS", 2)
    status, _, err = call("paper", "--figure", "theory", "--no-progress", "--out", "out")
    assert status == 0
    assert err.startswith("idbandits: wrote theory.png, theory.svg, summary.csv, results.parquet, index.html to out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Assumption 2 with C = 1" in page

    def measure(*_, **__):
        raise AssertionError("the regret is measured")

    monkeypatch.setattr("idbandits.theory.measured_regret.bayes_regret", measure)
    assert call("paper", "--figure", "theory", "--no-progress", "--out", "out")[0] == 0  # from what was kept
    with pytest.raises(AssertionError, match="measured"):
        call("paper", "--figure", "theory", "--no-progress", "--out", "out", "--seed", 1)


def test_an_interruption_at_any_step_is_one_line_and_the_next_start_continues(call, monkeypatch, begun, tmp_path):
    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "THEORY_ROUNDS", 100)
    monkeypatch.setattr(paper, "THEORY_RUNS", 2)
    common = ["paper", *TINY, "--figure", "B3d", "--figure", "theory", "--out", "out"]
    steps = [
        (Prepared, "__init__"), (runs, "compile_together"), (runs, "plan"), (runs.Store, "put"),
        (paper, "_theory_section"), (runs.Store, "note"), (report, "findings_of"), (report, "write"),
        (report, "draw"), (report, "write_whole"),
    ]  # fmt: skip
    for where, name in steps:
        with monkeypatch.context() as patched:
            patched.setattr(where, name, press)
            status, out, err = call(*common)
        assert (status, out) == (130, ""), name
        assert err == (
            f"idbandits: interrupted; finished runs are stored in {Path('out/runs.sqlite')}: the same command continues\n"
        ), name
        assert not (tmp_path / "out" / "index.html").exists()
    assert call(*common)[0] == 0
    assert call("paper", *TINY, "--figure", "B3d", "--out", "undisturbed")[0] == 0
    same_numbers(tmp_path / "out", tmp_path / "undisturbed")


# -- signals to a process ------------------------------------------------------------------------------------------


@pytest.fixture
def interrupt(without_notices):
    """Function that sends a signal to a process, asserts that it ends without traceback, and returns its message."""

    def send(started, number=signal.SIGINT):
        os.killpg(started.pid, number)
        out, err = started.communicate(timeout=60)
        if "idbandits: wrote" in err:  # it had just finished
            return ""
        assert (started.returncode, out) == (130, ""), err
        lines = [line for line in without_notices(err).splitlines() if not line.endswith("%)")]
        assert len(lines) == 1, err
        assert lines[0].startswith("idbandits: interrupted; ")
        return lines[0]

    return send


def test_sigterm_has_the_effect_of_ctrl_c(process, interrupt, tmp_path):
    started = process("paper", "--rounds", "100000000", "--runs", "1", "--figure", "B3d")
    while not (tmp_path / "report" / "runs.sqlite").exists():
        assert started.poll() is None
        time.sleep(0.02)
    assert "finished runs are stored" in interrupt(started, signal.SIGTERM)


def test_interrupted_at_random_and_started_again_it_ends_with_the_results_of_an_undisturbed_run(
    process, interrupt, tmp_path
):
    rng = random.Random(5)
    arguments = ["paper", "--rounds", "6000", "--runs", "3", "--figure", "2a", "--figure", "table 1"]
    begun = time.monotonic()
    undisturbed = process(*arguments, "--out", "undisturbed")
    err = undisturbed.communicate(timeout=600)[1]
    assert undisturbed.returncode == 0, err
    took = time.monotonic() - begun
    for _ in range(3):  # at any moments: what is asserted does not depend on them
        started = process(*arguments, "--out", "parts")
        time.sleep(took * rng.uniform(0, 0.7))
        interrupt(started)
    last = process(*arguments, "--out", "parts")
    err = last.communicate(timeout=600)[1]
    assert last.returncode == 0, err
    same_numbers(tmp_path / "undisturbed", tmp_path / "parts")
    assert sorted(os.listdir(tmp_path / "undisturbed")) == sorted(os.listdir(tmp_path / "parts"))
