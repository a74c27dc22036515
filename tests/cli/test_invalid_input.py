"""Invalid input of commands: deep, endless or damaged files, closed or full streams, and invalid options."""

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import idbandits as idb
from idbandits.cli import main as cli
from idbandits.cli.arguments import json_or_text

DEEP = "[" * 100_000
NESTED = '{"a": ' * 300 + "1" + "}" * 300


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000, NESTED, "[" * 200 + "]" * 200])
def test_deep_json_is_rejected_from_files_pipes_and_options(rejected, cascade, text):
    Path("deep.json").write_text(text)
    rejected("draw", "-", stdin=text, words=["standard input: ", "deeper than 100"])
    rejected("solve", "deep.json", words=["deep.json: ", "deeper than 100"])
    rejected("solve", cascade, "--means", "deep.json", words=["deep.json: ", "deeper than 100"])
    if text.startswith("{"):
        rejected("solve", cascade, "--means", text, words=["--means: ", "deeper than 100"])
    else:
        rejected("solve", cascade, "--means", f"attraction={text}", words=["--means attraction: ", "deeper than 100"])
        rejected("simulate", cascade, "--means", "random", "--learner", f"variational:sweeps={text}", words=["sweeps"])


@pytest.mark.parametrize("command", ["draw", "solve", "simulate"])
def test_an_endless_file_is_rejected_with_the_limit(rejected, command):
    rejected(command, "/dev/zero", words=["/dev/zero: ", "100,000,000 bytes"])


def test_an_endless_pipe_is_rejected_with_the_limit(call, monkeypatch):
    with open("/dev/zero", "rb") as endless:
        monkeypatch.setattr(io, "StringIO", lambda _: io.TextIOWrapper(endless))
        status, out, err = call("draw", "-")
    assert (status, out) == (2, "")
    assert err == "idbandits: error: standard input: larger than the 100,000,000 bytes that are read at most\n"


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, bytes(range(256)), '{"a": 1}'.encode("utf-16"), b"\xff\xfe", b"\xed\xa0\x80"]
)
def test_other_bytes_are_rejected_alike_from_a_file_and_a_pipe(rejected, call, monkeypatch, content):
    Path("d.json").write_bytes(content)
    rejected("draw", "d.json", words=["d.json: "])
    monkeypatch.setattr(io, "StringIO", lambda _: io.TextIOWrapper(io.BytesIO(content), "latin-1"))
    status, _, err = call("draw", "-")
    assert (status, err.count("\n"), err[:35]) == (2, 1, "idbandits: error: standard input: n")


def test_pipes_are_read_as_utf_8_whatever_the_language(call, monkeypatch):
    d = idb.Diagram("日本")
    d.decision("A", 2)
    d.save("d.json")
    content = Path("d.json").read_text().encode().replace(b"\\u65e5", "日".encode())
    monkeypatch.setattr(io, "StringIO", lambda _: io.TextIOWrapper(io.BytesIO(content), "ascii"))
    status, out, err = call("draw", "-")
    assert (status, err) == (0, "")
    assert "日本" in out


# -- files to write ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
def test_a_full_device_is_an_error_and_stays(rejected, cascade, tmp_path):
    rejected("models", "cascade", "--items", 3, "--positions", 2, "--out", "/dev/full", words=["/dev/full: No space"])
    Path("full.svg").symlink_to("/dev/full")
    rejected("draw", cascade, "--out", "full.svg", words=["full.svg: No space"])
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "summary.csv").symlink_to("/dev/full")
    options = ["--means", "random", "--rounds", 5, "--runs", 1, "--out", folder]
    rejected("simulate", cascade, *options, words=["summary.csv: No space"], prints_before=True)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_simulate_keeps_links_and_modes(call, cascade, tmp_path):
    folder, target = tmp_path / "out", tmp_path / "target"
    folder.mkdir()
    target.write_text("old")
    target.chmod(0o600)
    (folder / "means.json").symlink_to(target)
    assert call("simulate", cascade, "--means", "random", "--rounds", 5, "--runs", 1, "--out", folder)[0] == 0
    assert (folder / "means.json").is_symlink()
    assert "attraction" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


# -- streams -------------------------------------------------------------------------------------------------------


def shell(command, tmp_path):
    """Run a shell command in which `idbandits` is this package, and return its exit status and stderr."""
    python = f"import sys; sys.path[:0] = [{str(Path(idb.__file__).parents[1])!r}]; from idbandits.cli.main import main; sys.exit(main())"
    line = command.replace("idbandits", f'{sys.executable} -c "{python}"')
    ended = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [
        ("idbandits models >&-", 0, ""),
        ("idbandits models nothing 2>&-", 2, ""),
        ("idbandits draw - <&-", 2, "idbandits: error: standard input: it is closed\n"),
        ("idbandits draw nowhere.json <&- >&- 2>&-", 2, ""),
        ("idbandits models > /dev/full", 2, "idbandits: error: No space left on device\n"),
        ("idbandits models nothing 2> /dev/full", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path, command, status, error):
    assert shell(command, tmp_path) == (status, error)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_simulate_and_paper_without_streams(call, cascade, monkeypatch, stream):
    monkeypatch.setattr(sys, stream, None)
    assert cli.main(["simulate", str(cascade), "--means", "random", "--rounds", "5", "--runs", "1"]) == 0
    assert cli.main(["paper", "--figure", "B3d", "--rounds", "3", "--runs", "1", "--out", "out"]) == 0


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["models", "x" * 100_000], ["model", "…", "is unknown"]),
        (["x" * 100_000], ["command", "is unknown"]),
        (["models", "cascade", "--items", "3", "--positions", "100001"], ["--positions", "100000"]),
        (["models", "cascade", "--items", "[" * 100_000, "--positions", "2"], ["--items"]),
        (["models", "cascade", "--items", "3", "--positions", "2", "--out", "\ud800"], ["--out", "path"]),
        (["draw", "\ud800"], ["path"]),
        (["paper", "--figure", "B3d", "--runs", "1000000"], ["runs", "50,000,000"]),
        (["paper", "--runs", "1000000"], ["runs", "50,000,000"]),
        (["theory", "--runs", "1000001"], ["--runs", "1000000"]),
        (["paper", "--rounds", "1000000000001"], ["--rounds", "1000000000000"]),
    ],
)
def test_invalid_options_are_rejected_in_a_line_of_limited_length(call, arguments, words):
    status, _, err = call(*arguments)
    assert (status, err.count("\n")) == (2, 1), err
    assert len(err) < 1100
    assert not [word for word in words if word not in err], err


def test_simulate_rejects_more_than_fits_in_memory(rejected, cascade):
    rejected(
        "simulate", cascade, "--means", "random", "--runs", 1_000_000, words=["50,000,000 rows"], prints_before=True
    )


def test_a_setting_that_is_deep_is_a_word():
    assert json_or_text(DEEP) == DEEP
