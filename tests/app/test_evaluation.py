"""`idbandits paper` and `idbandits theory` as a person uses them: selections, second starts, interruptions, mistakes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from told import told

import idbandits as idb
from idbandits.app import cli, evaluation
from idbandits.paper import problems as paper
from idbandits.paper import runs
from idbandits.paper.runs import Prepared

TINY = ["--rounds", "50", "--runs", "2", "--no-progress"]
FILES = ["figure-2.png", "figure-2.svg", "index.html", "results.parquet", "runs.sqlite", "summary.csv"]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run a command in a folder of its own, and give the exit status, the output and what was said beside it."""
    monkeypatch.chdir(tmp_path)

    def one(*arguments: Any) -> tuple[int, str, str]:
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, told(err)

    return one


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are begun from now on."""
    found: list[str] = []
    original = Prepared.run

    def run(self: Prepared, *arguments: Any) -> Any:
        found.append(self.cell.learner)
        return original(self, *arguments)

    monkeypatch.setattr(Prepared, "run", run)
    return found


def numbers(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Results and summary, without what a clock says."""
    results, summary = pd.read_parquet(folder / "results.parquet"), pd.read_csv(folder / "summary.csv")
    return results.drop(columns="seconds"), summary.drop(columns="seconds_mean")


def same_numbers(a: Path, b: Path) -> None:
    for one, other in zip(numbers(a), numbers(b), strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


# -- paper ---------------------------------------------------------------------------------------------------------


def test_one_panel_and_a_second_start(call: Call, begun: list[str], tmp_path: Path) -> None:
    status, out, err = call("paper", *TINY, "--figure", "2a", "--out", "a/b")
    assert (status, out) == (0, "")
    assert err.count("\n") == 1
    assert err.startswith("idbandits: wrote figure-2.png, ")
    assert err.endswith(f"to a/b; read {Path('a/b/index.html')}\n")
    folder = tmp_path / "a" / "b"
    assert sorted(os.listdir(folder)) == FILES
    assert len(begun) == 4 * 2
    assert numbers(folder)[1]["learner"].tolist() == list(paper.FIGURES[0].panels[0].learners)
    assert set(numbers(folder)[1]["rounds"]) == {50}
    page = (folder / "index.html").read_text()
    assert "idbandits paper --figure 2a --runs 2 --rounds 50</code>" in page
    before = {name: (folder / name).read_bytes() for name in FILES}
    assert call("paper", *TINY, "--figure", "2a", "--out", "a/b")[0] == 0
    assert len(begun) == 4 * 2  # nothing was made again
    for name in set(FILES) - {"index.html"}:
        assert (folder / name).read_bytes() == before[name], name


def test_a_changed_setting_makes_all_again_and_more_runs_the_rest(call: Call, begun: list[str], tmp_path: Path) -> None:
    common = ["paper", "--figure", "B3d", "--no-progress", "--out", "out"]
    for settings, made in [
        (["--rounds", 40, "--runs", 2], 6), (["--rounds", 40, "--runs", 2, "--seed", 1], 6),
        (["--rounds", 41, "--runs", 2], 6), (["--rounds", 40, "--runs", 3], 3), (["--rounds", 40, "--runs", 2], 0),
    ]:  # fmt: skip
        begun.clear()
        assert call(*common, *settings)[0] == 0
        assert len(begun) == made, settings
    assert set(numbers(tmp_path / "out")[1]["runs"]) == {2}


def test_another_version_makes_all_again(call: Call, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    common = ["paper", *TINY, "--figure", "B3d", "--out", "out"]
    assert call(*common)[0] == 0
    monkeypatch.setattr(runs, "version", lambda: "newer")
    assert call(*common)[0] == 0
    assert len(begun) == 12


def test_workers_do_not_change_results(call: Call, tmp_path: Path) -> None:
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
def test_what_is_selected(keys: list[str], experiments: list[str]) -> None:
    panels, theory = evaluation._selected(keys)
    assert [panel.key for panel in panels] == experiments
    assert not theory
    assert evaluation._selected([*keys, "Theory"]) == (panels, True)


def test_everything_is_selected_if_nothing_is_said() -> None:
    panels, theory = evaluation._selected(None)
    assert len(panels) == 6 + 3 + 6 + 6 + 4 + 1
    assert theory


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--figure", "2g"], ["'2g'", "2a", "3c", "B3", "table 1", "theory"]),
        (["--figure", ""], ["''", "theory"]),
        (["--rounds", "0"], ["--rounds", "from 1"]),
        (["--runs", "-1"], ["--runs", "from 1"]),
        (["--seed", "-1"], ["--seed", "from 0"]),
        (["--workers", "0"], ["--workers", "from 1"]),
        (["--workers", "1" + "0" * 30], ["--workers", "from 1 to 1000"]),
        (["--rounds", "1" + "0" * 30], ["--rounds", "from 1 to 1000000000000"]),
        (["--runs", "1" + "0" * 5000], ["--runs", "from 1 to 1000000", "000…'"]),
        (["--figure", "2a", "--out", "file"], ["file: File exists"]),
        (["--figure", "2a", "--out", "file/below"], ["file/below: Not a directory"]),
        (["--figure", "2a", "--out", "/proc/nowhere"], ["/proc/nowhere: No such file"]),
        (["--figure", "2a", "--out", "taken"], ["taken/runs.sqlite"]),
        (["--figure", "2a", "--out", "foreign"], ["foreign/runs.sqlite", "move it away"]),
        (["--figure", "2a", "--cluster", "", "--out", "new"], ["--cluster", "''", "Dask"]),
    ],
)
def test_mistakes_are_a_line(call: Call, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken" / "runs.sqlite").mkdir(parents=True)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "runs.sqlite").write_text("a text that is no database " * 50)
    status, out, err = call("paper", *TINY, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("idbandits: error: ")
    assert all(word in err for word in words), err
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("arguments", [["--runs", "1", "--rounds", "1"], ["--runs", "2", "--rounds", "2"]])
def test_the_least_that_can_be_asked_for(call: Call, tmp_path: Path, arguments: list[str]) -> None:
    keys = [word for key in ("2c", "2e", "B2f", "table 1") for word in ("--figure", key)]
    status, _, err = call("paper", *arguments, *keys, "--no-progress", "--out", "out")
    assert (status, err.count("\n")) == (0, 1), err
    assert set(numbers(tmp_path / "out")[1]["rounds"]) <= {1, int(arguments[-1])}


def test_theory_alone(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(evaluation, "THEORY_ROUNDS", 200)
    monkeypatch.setattr(evaluation, "THEORY_RUNS", 2)
    status, _, err = call("paper", "--figure", "theory", "--no-progress", "--out", "out")
    assert status == 0
    assert err.startswith("idbandits: wrote theory.png, theory.svg, summary.csv, results.parquet, index.html to out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Assumption 2 with C = 1" in page
    monkeypatch.setattr(idb.theory, "bayes_regret", lambda *_, **__: pytest.fail("it was kept"))
    assert call("paper", "--figure", "theory", "--no-progress", "--out", "out")[0] == 0


def test_an_interruption_at_any_step_is_a_line_and_the_next_start_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch, begun: list[str], tmp_path: Path
) -> None:
    from idbandits.paper import report

    def press(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "THEORY_ROUNDS", 100)
    monkeypatch.setattr(evaluation, "THEORY_RUNS", 2)
    common = ["paper", *TINY, "--figure", "B3d", "--figure", "theory", "--out", "out"]
    steps = [
        (Prepared, "__init__"), (runs, "compile_together"), (runs, "plan"), (runs.Store, "put"),
        (evaluation, "_theory_section"), (runs.Store, "note"), (report, "findings_of"), (report, "write"),
        (report, "draw"), (report, "write_whole"),
    ]  # fmt: skip
    for where, name in steps:
        with monkeypatch.context() as patched:
            patched.setattr(where, name, press)
            status, out, err = call(*common)
        assert (status, out) == (130, ""), name
        assert err == (
            f"idbandits: interrupted; finished runs are kept in {Path('out/runs.sqlite')}: "
            "the same command goes on from there\n"
        ), name
        assert not (tmp_path / "out" / "index.html").exists()
    assert call(*common)[0] == 0
    assert call("paper", *TINY, "--figure", "B3d", "--out", "undisturbed")[0] == 0
    same_numbers(tmp_path / "out", tmp_path / "undisturbed")


# -- theory --------------------------------------------------------------------------------------------------------


def test_theory_prints_and_writes(call: Call, tmp_path: Path) -> None:
    status, out, err = call("theory", "--runs", 2, "--rounds", 50, "--seed", 3)
    assert (status, err) == (0, "")
    assert out.split()[:4] == ["model", "items", "positions", "rounds"]
    status, again, err = call("theory", "--runs", 2, "--rounds", 50, "--seed", 3, "--workers", 1, "--out", "new/theory")
    assert (status, again) == (0, out)
    assert err == "idbandits: wrote theory.csv, theory.png, theory.svg to new/theory\n"
    frame = pd.read_csv(tmp_path / "new" / "theory" / "theory.csv")
    assert len(frame) == len(out.splitlines()) - 1
    assert (frame["regret_mean"] < frame["bound"]).all()
    assert (tmp_path / "new" / "theory" / "theory.png").read_bytes().startswith(b"\x89PNG")
    assert call("theory", "--runs", 1, "--rounds", 1)[0] == 0


def test_theory_asks_for_its_folder_before_the_work(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(evaluation, "_study", lambda *_: pytest.fail("the work began"))
    assert call("theory", "--out", "file") == (2, "", "idbandits: error: file: File exists\n")


# -- Ctrl-C in a process -------------------------------------------------------------------------------------------

ARGUMENTS = ["paper", "--rounds", "6000", "--runs", "3", "--figure", "2a", "--figure", "table 1"]


def process(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command, in a group of its own, which hears Ctrl-C as a whole, as on a terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "idbandits", *arguments], cwd=folder, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def interrupt(started: subprocess.Popen[str], how: signal.Signals = signal.SIGINT) -> str:
    """Press Ctrl-C: it ends soon, with one more line, which is given, and no traceback."""
    os.killpg(started.pid, how)
    out, err = started.communicate(timeout=60)
    if started.returncode == 0 or "idbandits: wrote" in err:  # it had just finished
        return ""
    assert started.returncode in (130, -signal.SIGINT), err  # the latter is what shells call 130
    assert "Traceback" not in err
    lines = [line for line in told(err).splitlines() if not line.endswith("%)")]
    assert len(lines) == 1, err
    assert lines[0].startswith("idbandits: interrupted; "), err
    assert out == ""
    return lines[0]


def is_loading(pid: int, library: str) -> bool:
    with open(f"/proc/{pid}/maps") as maps:
        return library in maps.read()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="/proc shows what a process has loaded")
def test_ctrl_c_while_all_is_imported(tmp_path: Path) -> None:
    for library in ("_multiarray_umath", "llvmlite"):
        (tmp_path / library).mkdir()
        started = process(tmp_path / library, *ARGUMENTS)
        while not is_loading(started.pid, library):
            assert started.poll() is None
            time.sleep(0.002)
        if "nothing was done" in interrupt(started):  # else this process slept for long, and that one went on
            assert started.returncode == 130
            assert os.listdir(tmp_path / library) == []


def test_sigterm_is_obeyed_like_ctrl_c(tmp_path: Path) -> None:
    started = process(tmp_path, "paper", "--rounds", "100000000", "--runs", "1", "--figure", "B3d")
    while not (tmp_path / "report" / "runs.sqlite").exists():
        assert started.poll() is None
        time.sleep(0.02)
    assert "finished runs are kept" in interrupt(started, signal.SIGTERM)
    assert started.returncode == 130


def test_interrupted_at_random_and_started_again_it_ends_with_the_results_of_an_undisturbed_run(tmp_path: Path) -> None:
    rng = random.Random(5)
    begun = time.monotonic()
    undisturbed = process(tmp_path, *ARGUMENTS, "--out", "whole")
    assert undisturbed.wait(timeout=600) == 0, undisturbed.communicate()
    took = time.monotonic() - begun
    undisturbed.communicate()
    for _ in range(3):
        started = process(tmp_path, *ARGUMENTS, "--out", "parts")
        while Path("/proc/self/maps").exists() and not is_loading(started.pid, "_multiarray_umath"):
            time.sleep(0.01)  # earlier, Ctrl-C is Python's own
        time.sleep(took * rng.uniform(0.1, 0.7))
        interrupt(started)
    last = process(tmp_path, *ARGUMENTS, "--out", "parts")
    err = last.communicate(timeout=600)[1]
    assert last.returncode == 0, err
    same_numbers(tmp_path / "whole", tmp_path / "parts")
    assert sorted(os.listdir(tmp_path / "whole")) == sorted(os.listdir(tmp_path / "parts"))
