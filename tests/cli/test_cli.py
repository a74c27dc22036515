"""Command line: help, start-up, invalid arguments, signals and pipes."""

import re
import shlex
import threading
from pathlib import Path

import pytest

from idbandits.cli import main as cli

COMMANDS = [command.name for command in cli.COMMANDS]

LOADED = """
import sys
from idbandits.cli.main import main
statuses = [main(line.split()) for line in sys.argv[1:]]
print(statuses, [name for name in ("numpy", "numba", "pandas", "matplotlib", "tqdm") if name in sys.modules])
"""
INTERRUPTED = """
import os, signal, sys
from idbandits.cli.main import main

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.Signals[sys.argv[2]])

sys.meta_path.insert(0, Press())
sys.exit(main(sys.argv[3:]))
"""


# -- help and start-up ---------------------------------------------------------------------------------------------


def test_no_command_shows_the_help(call):
    status, out, _ = call()
    assert status == 2
    assert call("--help") == (0, out, "")
    assert all(re.search(rf"^    {name} ", out, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_examples_in_the_help_work(call, command):
    status, text, _ = call(*command.split(), "--help")
    assert status == 0
    assert all(len(line) <= 120 for line in text.splitlines())
    examples = text.partition("\nexample:\n")[2].strip().splitlines()
    assert examples
    for line in examples:
        out = ""
        for part in line.split(" | "):
            words = shlex.split(part)
            assert words[0] == "idbandits"
            if words[1] == "serve":  # which runs until a signal comes: tests/service/test_serve.py
                continue
            status, out, err = call(*words[1:], stdin=out)
            assert status == 0, err
            assert all(Path(words[i + 1]).exists() for i, word in enumerate(words) if word == "--out")


def test_help_and_mistakes_in_options_are_answered_without_slow_imports(process):
    mistakes = ["slove", "draw", "solve d.json --seed x", "simulate d.json --rounds 0", "paper --runs x", "theory --x"]
    helps = ["--help", *(f"{name} --help" for name in COMMANDS)]
    out, err = process(*helps, *mistakes, code=LOADED).communicate(timeout=60)
    assert out.splitlines()[-1] == f"{[0] * len(helps) + [2] * len(mistakes)} []", err


def test_wrong_commands(rejected):
    rejected("slove", words=["command 'slove'", "did you mean 'solve'", *COMMANDS])
    rejected("xyz", words=["command 'xyz'", *COMMANDS])
    rejected("--verbose", words=["--verbose"])


# -- signals and pipes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "arguments"),
    [
        ("numpy", "models"),
        ("numpy", "draw cascade.json"),
        ("numpy", "solve cascade.json --means random"),
        ("numpy", "learners"),
        ("numpy", "simulate cascade.json --means random"),
        ("numpy", "paper --figure 2a"),
        ("numpy", "theory --out new"),
        ("numba", "paper --figure 2a"),
        ("numba", "theory --out new"),
    ],
)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interruption_during_imports_ends_the_command_after_them(process, tmp_path, name, library, arguments):
    started = process(library, name, *arguments.split(), code=INTERRUPTED)
    assert started.communicate(timeout=60) == ("", "idbandits: interrupted; nothing was kept\n")
    assert started.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_commands_run_in_any_thread(call):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(call("models")))
    thread.start()
    thread.join(60)
    assert answers == [call("models")]


def test_a_closed_pipe_is_quiet(process):
    started = process("models", "cascade", "--items", 2000, "--positions", 400)
    assert started.stdout.readline() == "{\n"
    started.stdout.close()
    assert started.stderr.read() == ""
    assert started.wait(timeout=60) == 141
