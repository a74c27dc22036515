"""Fixtures that run commands in a temporary folder, in this process or in another one."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import idbandits as idb
from idbandits.cli import main as cli

READY = "import sys; from idbandits.cli.main import main; print('ready', flush=True); sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def call(capsys, monkeypatch, tmp_path, without_notices):
    """Function that runs a command and returns its exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, without_notices(err)

    return run


@pytest.fixture
def rejected(call):
    """Function that runs a command and asserts that it fails with one line that contains these words."""

    def run(*arguments, words=(), stdin="", prints_before=False):
        status, out, err = call(*arguments, stdin=stdin)
        assert (status, err.count("\n")) == (2, 1), err
        assert prints_before or out == ""
        assert err.startswith("idbandits: error: ")
        missing = [word for word in words if word not in err]
        assert not missing, err

    return run


@pytest.fixture
def process(tmp_path):
    """Function that starts a command in a new process group, which gets Ctrl-C as on a terminal.

    It returns when `main` is about to run, because Python handles Ctrl-C before that.
    """
    started = []

    def start(*arguments, code=READY, **environment):
        environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])} | environment
        begun = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)], cwd=tmp_path, text=True, start_new_session=True,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(begun)
        assert code != READY or begun.stdout.readline() == "ready\n"
        return begun

    yield start
    for begun in started:
        if begun.poll() is None:
            begun.kill()
        begun.communicate()


@pytest.fixture
def cascade(call, tmp_path):
    """File with a cascade of the items a, b, c, d and two positions."""
    assert call("models", "cascade", "--items", "a,b,c,d", "--positions", 2, "--out", "cascade.json")[0] == 0
    return tmp_path / "cascade.json"


@pytest.fixture
def shop(call, tmp_path):
    """File with a diagram that has contexts, a table with two axes and one with three states."""
    d = idb.Diagram("shop")
    segment, hour = d.context("segment", ["new", "loyal"]), d.context("hour", 2)
    card = d.decision("card", ["shoes", "bags"])
    d.reward(d.observed("click", [card, segment]))
    d.reward(d.observed("stay", [hour], states=3))
    d.save(tmp_path / "shop.json")
    return tmp_path / "shop.json"
