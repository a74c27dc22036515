"""`idbandits compile` and `idbandits --version`."""

import os
import re

import pytest

import idbandits as idb
from idbandits.kernel import pack
from idbandits.kernel.compile import Kernel


@pytest.fixture
def compiled(monkeypatch):
    """List of the kernels passed to the compiler, which is replaced."""
    kernels = []
    monkeypatch.setattr(Kernel, "compile", lambda kernel: kernels.append(kernel))
    monkeypatch.setattr(Kernel, "is_on_disk", lambda kernel: kernel.__qualname__ != "draw")
    return kernels


def test_all_that_learners_need_is_compiled(call, cascade, compiled):
    status, out, err = call("compile", cascade, "--learner", "variational:sweeps=2", "--learner", "UCB1")
    assert (status, err) == (0, "")
    needed = set(idb.Thompson(idb.Diagram.load(cascade), "variational").kernels)
    assert needed < set(compiled)
    assert {"UCB1.ACT", "UCB1.LEARN"} <= {kernel.__qualname__ for kernel in compiled}
    assert re.search(rf"^variational:sweeps=2: {len(needed)} kernels, compiled 1; \d", out, re.MULTILINE)
    assert re.search(r"^(machine code of the package: |no machine code of the package is used \()", out, re.MULTILINE)
    assert re.search(r"^new code is stored in /", out, re.MULTILINE)


def test_the_default_is_that_of_agents(call, cascade, compiled):
    assert call("compile", cascade)[0] == 0
    assert compiled == idb.Thompson(idb.Diagram.load(cascade)).kernels


def test_native_code_is_compiled_although_there_is_a_pack(call, cascade, compiled, monkeypatch):
    monkeypatch.setenv(pack.NATIVE, "")
    assert call("compile", cascade, "--native")[0] == 0
    assert pack.usable() is None
    assert os.environ[pack.NATIVE] == "1"


def test_invalid_arguments_are_rejected(rejected, cascade):
    rejected("compile", "missing.json", words=["missing.json"])
    rejected("compile", cascade, "--learner", "gibs", words=["'gibs'", "gibbs"])


def test_the_version_is_that_of_the_library(call):
    assert call("--version") == (0, f"idbandits {idb.__version__}\n", "")
