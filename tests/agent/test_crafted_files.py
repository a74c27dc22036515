"""Crafted files do no harm, and agents from files continue unchanged, whatever the diagram.

A part of all crafted files is tried here. `python tests/support/crafted_files.py FOLDER 0 1` tries all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crafted_files
import idbandits as idb
from diagrams import random_learning_diagram
from error_checks import assert_raises
from idbandits.agent.storage import archive as storage
from idbandits.errors import FormatError, IdbanditsError
from inferences import INFERENCES, agent_of
from internals import kept
from played_rounds import learn, learn_at_once, play

SHARE = 18  # one of as many crafted files is tried


def test_crafted_files_are_rejected_or_harmless(tmp_path: Path) -> None:
    command = [sys.executable, crafted_files.__file__, str(tmp_path), "0", str(SHARE)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(crafted_files.__file__).parent), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    case = (tmp_path / "case").read_text().strip() if (tmp_path / "case").exists() else "before the first case"
    assert done.returncode == 0, f"{case}: ended with {done.returncode}\n{done.stderr[-3000:]}"
    result = json.loads(done.stdout)
    assert result["wrong"] == []
    assert result["refused"] > 300
    assert result["harmless"] > 50


def test_fits_of_regressions_that_are_none_are_rejected(tmp_path: Path) -> None:
    agent, path = crafted_files.agent_for(idb.Gibbs(), d=crafted_files.with_features()), tmp_path / "agent"
    parts = crafted_files.parts_of(agent, path)
    size = len(agent.posterior()["Z"].regression.names) + 1  # type: ignore[union-attr]
    shape = size * (size + 2)
    for place, value, words in [
        (size, 0.0, ("'Z'", "precision")),
        (size, -1.0, ("'Z'", "precision")),
        (size + 1, 1.0, ("'Z'", "precision")),  # above the diagonal
        (shape, 0.0, ("'Z'", "widths")),
        (shape + 1, 3.0, ("'Z'", "widths")),
        (shape + 2, 0.0, ("'Z'", "scale")),
        (shape + 4, 1e13, ("fits",)),
        (-1, 0.0, ("'table'", "scale")),
    ]:
        path.write_bytes(crafted_files.with_number(parts, "fits", place, value))
        assert_raises(FormatError, words, lambda: idb.Thompson.load(path))


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.npz"


def test_what_is_no_regular_file_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), Path("/dev/null")):
        assert_raises(FormatError, (str(odd), "regular file"), lambda odd=odd: idb.Thompson.load(odd))


def test_a_small_file_is_not_blown_up(path: Path) -> None:
    parts = crafted_files.parts_of(crafted_files.agent_for(idb.EP()), path)
    for column in ("floats", "keys"):
        blank = np.zeros(2**23 + 1, parts[column].dtype)  # 64 MB
        path.write_bytes(crafted_files.packed(parts | {column: blank}, zipfile.ZIP_DEFLATED))
        assert path.stat().st_size < 500_000
        assert_raises(FormatError, ("agent.npz", column, "bytes"), lambda: idb.Thompson.load(path))


def test_what_is_large_is_written_as_it_is_so_that_it_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = idb.Thompson(idb.models.position_based(1000, 2), "ep", seed=1)
    for large in (2**26, 2**10):
        monkeypatch.setattr(storage, "SMALL", large)
        monkeypatch.setattr(storage, "SMALL_HEAD", large)
        agent.save(path)
        with zipfile.ZipFile(path) as archive:
            stored = {info.filename for info in archive.infolist() if info.compress_type == zipfile.ZIP_STORED}
        assert stored == ({"head.npy", "floats.npy"} if large == 2**10 else set())
        assert kept(idb.Thompson.load(path)) == kept(agent)


# -- settings and random numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [idb.Variational, idb.Incremental, idb.Gibbs, idb.EP, idb.Particles])
def test_settings_of_wrong_types_and_sizes_are_rejected(kind: Any) -> None:
    for name in kind().settings:
        for value in (
            np.array([1, 2]), np.array([]), [1], None, "1", "warmer", 1j, -1, float("nan"), float("inf"), 10**12, 10**400,
            {}, object(), -(10**5000), b"1",
        ):  # fmt: skip
            number = isinstance(value, int) and name in ("tolerance", "width") and 0 < value <= 10**12
            if number:
                continue
            with pytest.raises(IdbanditsError):
                kind(**{name: value})


def test_particles_that_would_not_fit_in_memory_are_rejected() -> None:
    with pytest.raises(IdbanditsError, match="number of particles must be an integer from 1 to 1000000, got 10"):
        idb.Particles(10**12)
    with pytest.raises(IdbanditsError, match=r"particles.*20,000,000"):
        idb.Thompson(idb.models.semi_bandit(100, 2), idb.Particles(10**6))


def test_random_numbers_that_could_not_be_read_again_are_not_saved(path: Path) -> None:
    class Own(np.random.PCG64):
        pass

    agent = idb.Thompson(idb.models.cascade(4, 2), seed=np.random.Generator(Own(1)))
    assert_raises(IdbanditsError, ("Own", "PCG64DXSM"), lambda: agent.save(path))
    assert not path.exists()


class Weighted(idb.inference.Exact):
    """Custom inference with an array as a setting."""

    def __init__(self, weights: Any) -> None:
        self.settings = {"weights": weights}


def test_settings_may_be_arrays_and_must_be_plain(path: Path) -> None:
    d = idb.models.semi_bandit(4, 2)
    weights = np.arange(3.0)
    agent = idb.Thompson(d, Weighted(weights), seed=1)
    agent.save(path)
    assert kept(idb.Thompson.load(path, inference=Weighted(weights))) == kept(agent)
    assert_raises(
        FormatError, ("Weighted", "[0.0, 1.0, 2.0]"), lambda: idb.Thompson.load(path, inference=Weighted(weights + 1))
    )
    for value in (object(), float("nan"), {1, 2}):
        odd = idb.Thompson(d, Weighted(value))
        assert_raises(IdbanditsError, ("settings of Weighted",), lambda odd=odd: odd.save(path))


# -- as if nothing had happened ------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from([*INFERENCES]), rounds=st.integers(0, 80))
def test_agents_from_files_go_on_bit_by_bit(seed: int, name: str, rounds: int, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("files") / "agent.npz"
    d = random_learning_diagram(seed)
    agent = agent_of(name, d, seed)
    rng, unseen = np.random.default_rng(seed), 0.0 if name == "exact" else 0.2
    learn(agent, play(agent.diagram, rng, rounds, unseen=unseen, world=d))
    agent.save(path)
    loaded = idb.Thompson.load(path, inference=INFERENCES[name].make() if name == "own" else None)
    assert kept(loaded) == kept(agent)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    later = play(agent.diagram, rng, 30, unseen=unseen, world=d)
    for number, played in enumerate(later):
        for one in (agent, loaded):
            one.update(played.action, played.observation, played.context)
        assert loaded.act(played.context) == agent.act(played.context)
        if number % 10 == 0:
            assert kept(loaded) == kept(agent)
    for one in (agent, loaded):
        learn_at_once(one, later)
    assert kept(loaded) == kept(agent)
    for table, belief in agent.posterior().items():
        np.testing.assert_array_equal(loaded.posterior()[table].mean, belief.mean)
    assert {k: v.tolist() for k, v in loaded.sample().items()} == {k: v.tolist() for k, v in agent.sample().items()}
    if name in ("variational", "literal", "random"):
        assert loaded.elbo() == agent.elbo()


def test_files_of_older_formats_are_rejected_by_name(path: Path) -> None:
    parts = crafted_files.parts_of(crafted_files.agent_for(idb.EP()), path)
    for number in (1, 2):
        path.write_bytes(crafted_files.with_head(parts, ("format",), f"idbandits agent {number}"))
        assert_raises(
            FormatError,
            ("agent.npz", f"idbandits agent {number}", "idbandits agent 7"),
            lambda: idb.Thompson.load(path),
        )
