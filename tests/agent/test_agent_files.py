"""Agents in files: they continue unchanged; files that are broken or of something else are rejected."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from error_checks import assert_raises
from idbandits import models
from idbandits.errors import FormatError
from inferences import INFERENCES, agent_of, every
from internals import kept
from labelled_log import tea_room
from played_rounds import go_on, world_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """File of an agent."""
    return tmp_path / "agent.npz"


def saved(path: Path, inference: str = "variational", rounds: int = 60) -> idb.Thompson:
    """An agent with some experience, in a file."""
    d = models.position_based(6, 2)
    agent = agent_of(inference, d, seed=3)
    go_on(world_of(d), agent, rounds)
    agent.save(path)
    return agent


# -- as if nothing had happened ------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("d", [models.position_based(6, 2), tea_room()], ids=["position-based", "tea room"])
def test_an_agent_from_a_file_goes_on(name: str, d: idb.Diagram, path: Path) -> None:
    world, agent = world_of(d), agent_of(name, d, seed=3)
    go_on(world, agent, 60)
    agent.save(path)
    own = agent_of(name, d).inference if name == "own" else None
    loaded = idb.Thompson.load(str(path), inference=own, diagram=agent.diagram)
    assert kept(loaded) == kept(agent)
    assert repr(loaded) == repr(agent)
    assert loaded.inference.settings == agent.inference.settings
    assert loaded.diagram.to_dict() == agent.diagram.to_dict()
    assert go_on(world.copy(), loaded, 100) == go_on(world.copy(), agent, 100)
    assert kept(loaded) == kept(agent)
    assert os.listdir(path.parent) == ["agent.npz"]


def test_an_agent_from_a_file_goes_on_in_another_process(tmp_path: Path) -> None:
    code = """
        import json, pathlib, sys
        import idbandits as idb
        histories = {}
        for file in sorted(pathlib.Path(sys.argv[1]).glob("*.npz")):
            agent = idb.Thompson.load(file)
            for t in range(100):
                action = agent.act()
                click = {"1": t % 2, "2": int(t % 3 == 0)}  # by position; latent nodes are as clicks say
                agent.update(action, {n.name: click[n.name[1]] for n in agent.diagram.of_kind("observed")})
                histories.setdefault(file.stem, []).append([int(item) for item in action.values()])
            histories[file.stem].append([p.mean.tolist() for p in agent.posterior().values()])
        print(json.dumps(histories))
    """
    agents = {name: saved(tmp_path / f"{name}.npz", name) for name in INFERENCES if name != "own"}
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    there = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    here = {}
    for name, agent in agents.items():
        history: list[Any] = []
        for t in range(100):
            action = agent.act()
            click = {"1": t % 2, "2": int(t % 3 == 0)}
            agent.update(action, {n.name: click[n.name[1]] for n in agent.diagram.of_kind("observed")})
            history.append(list(action.values()))
        here[name] = [*history, [p.mean.tolist() for p in agent.posterior().values()]]
    assert there == here


@pytest.mark.parametrize(
    "inference",
    [
        idb.Variational(sweeps=3, tolerance=0.01, start="random", literal=True),
        idb.Incremental(4, literal=True),
        idb.Gibbs(2),
        idb.EP(3, damping=0.8),
        idb.Particles(9, width=0.2),
    ],
    ids=lambda inference: type(inference).__name__,
)
def test_settings_are_kept(inference: Any, path: Path) -> None:
    d = models.position_based(6, 2)
    world, agent = world_of(d), idb.Thompson(d, inference, seed=3)
    go_on(world, agent, 60)
    agent.save(path)
    loaded = idb.Thompson.load(path)
    assert type(loaded.inference) is type(inference)
    assert loaded.inference.settings == inference.settings
    assert go_on(world.copy(), loaded, 50) == go_on(world.copy(), agent, 50)


@pytest.mark.parametrize(
    "kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
)
def test_any_generator_is_kept(kind: Any, path: Path) -> None:
    agent = idb.Thompson(models.semi_bandit(6, 2), "exact", seed=np.random.Generator(kind(5)))
    agent.act()
    agent.save(path)
    loaded = idb.Thompson.load(path)
    assert [loaded.act() for _ in range(20)] == [agent.act() for _ in range(20)]


# -- writing -------------------------------------------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = saved(path)
    before = path.read_bytes()
    agent.update({"A1": 0, "A2": 1}, {"C1": 1})

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="no space"):
                agent.save(path)
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == ["agent.npz"]
    agent.save(path)
    assert idb.Thompson.load(path).rounds == 61


def test_a_missing_folder_or_file_is_an_error_of_the_system(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        idb.Thompson(models.cascade(4, 2)).save(path.parent / "nowhere" / "agent.npz")
    with pytest.raises(FileNotFoundError):
        idb.Thompson.load(path)


# -- files of other agents -----------------------------------------------------------------------------------------


def test_an_agent_of_another_diagram_is_rejected(path: Path) -> None:
    saved(path)
    assert idb.Thompson.load(path, diagram=models.position_based(6, 2)).rounds == 60
    for other in (
        models.position_based(7, 2),
        models.position_based(6, 2, distinct=False),
        models.position_based(6, 2).revealed(),
        models.cascade(6, 2),
    ):
        words = ("agent.npz", "another diagram", "'position-based'", repr(other.name))
        assert_raises(FormatError, words, lambda other=other: idb.Thompson.load(path, diagram=other))


@every
def test_an_agent_of_another_inference_is_rejected(name: str, path: Path) -> None:
    d = models.position_based(6, 2)
    agent_of(name, d).save(path)
    for other, case in INFERENCES.items():
        if other == name:
            assert idb.Thompson.load(path, inference=case.make()).rounds == 0
        else:
            words = ("agent.npz", type(INFERENCES[name].make()).__name__, type(case.make()).__name__)
            assert_raises(FormatError, words, lambda case=case: idb.Thompson.load(path, inference=case.make()))


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        (idb.Variational(), idb.Variational(sweeps=5)),
        (idb.Variational(), idb.Variational(literal=True)),
        (idb.Gibbs(), idb.Gibbs(3)),
        (idb.EP(), idb.EP(damping=1.0)),
        (idb.Particles(), idb.Particles(5)),
        (idb.Particles(), idb.Particles(width=0.3)),
        (idb.Incremental(), idb.Incremental(1)),
    ],
    ids=lambda inference: f"{type(inference).__name__} {inference.settings}",
)
def test_an_agent_with_other_settings_is_rejected(settings: Any, others: Any, path: Path) -> None:
    idb.Thompson(models.position_based(6, 2), settings).save(path)
    words = ("agent.npz", str(settings.settings), str(others.settings))
    assert_raises(FormatError, words, lambda: idb.Thompson.load(path, inference=others))
    assert idb.Thompson.load(path, inference=type(settings)()).inference.settings == settings.settings


def test_an_own_inference_has_to_be_passed_again(path: Path) -> None:
    agent_of("own", models.semi_bandit(5, 2)).save(path)
    assert_raises(FormatError, ("agent.npz", "'Counts'", "inference="), lambda: idb.Thompson.load(path))


# -- broken files --------------------------------------------------------------------------------------------------


def parts_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def head_of(parts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    head = json.loads(str(parts["head"])) | changes
    return parts | {"head": np.array(json.dumps({k: v for k, v in head.items() if v is not ...}))}


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "foreign": lambda p: {"weights": np.arange(3.0)},
    "no arrays": lambda p: {"head": p["head"]},
    "no floats": lambda p: {"head": p["head"], "ints": p["ints"]},
    "another format": lambda p: head_of(p, format="idbandits agent 99"),
    "no format": lambda p: head_of(p, format=...),
    "head is a list": lambda p: p | {"head": np.array("[1, 2]")},
    "head is not JSON": lambda p: p | {"head": np.array("{")},
    "head is numbers": lambda p: p | {"head": np.arange(4)},
    "swapped": lambda p: p | {"ints": p["floats"], "floats": p["ints"]},
    "ints as int32": lambda p: p | {"ints": p["ints"].astype(np.int32)},
    "floats as float32": lambda p: p | {"floats": p["floats"].astype(np.float32)},
    "floats in two dimensions": lambda p: p | {"floats": p["floats"].reshape(1, -1)},
    "ints in no dimension": lambda p: p | {"ints": np.array(3)},
    "ints too short": lambda p: p | {"ints": p["ints"][:-1]},
    "ints too long": lambda p: p | {"ints": np.append(p["ints"], 0)},
    "no ints": lambda p: p | {"ints": p["ints"][:0]},
    "floats too short": lambda p: p | {"floats": p["floats"][:-1]},
    "floats too long": lambda p: p | {"floats": np.append(p["floats"], 0)},
    "no floats left": lambda p: p | {"floats": p["floats"][:0]},
    "another diagram's": lambda p: head_of(p, diagram=models.position_based(7, 3).to_dict()),
    "no diagram": lambda p: head_of(p, diagram=...),
    "a diagram that is broken": lambda p: head_of(p, diagram={"name": "x"}),
    "no inference": lambda p: head_of(p, inference=...),
    "an inference that does not exist": lambda p: head_of(p, inference="magic"),
    "settings that do not exist": lambda p: head_of(p, settings={"magic": 1}),
    "settings that are wrong": lambda p: head_of(p, settings={"sweeps": -1}),
    "no settings": lambda p: head_of(p, settings=...),
    "no random numbers": lambda p: head_of(p, rng=...),
    "random numbers of an unknown kind": lambda p: head_of(p, rng={"bit_generator": "Dice"}),
    "random numbers that are broken": lambda p: head_of(p, rng={"bit_generator": "PCG64"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_are_not_those_of_an_agent_are_rejected(change: str, path: Path) -> None:
    saved(path)
    np.savez_compressed(path, **CHANGES[change](parts_of(path)))
    assert_raises(FormatError, ("agent.npz",), lambda: idb.Thompson.load(path))


@pytest.mark.parametrize("inference", ["exact", "moments", "ep", "particles"])
@pytest.mark.parametrize("which", ["ints", "floats"])
def test_arrays_of_another_length_are_rejected(inference: str, which: str, path: Path) -> None:
    saved(path, inference)
    parts = parts_of(path)
    for wrong in (parts[which][:-1], np.append(parts[which], 0).astype(parts[which].dtype)):
        np.savez_compressed(path, **(parts | {which: wrong}))
        assert_raises(FormatError, ("agent.npz",), lambda: idb.Thompson.load(path))


def test_files_that_are_cut_are_rejected(path: Path) -> None:
    saved(path)
    content = path.read_bytes()
    for length in [0, 1, 3, 4, 10, 100, *range(200, len(content), 150), len(content) - 1]:
        path.write_bytes(content[:length])
        assert_raises(FormatError, ("agent.npz",), lambda: idb.Thompson.load(path))


def test_files_that_are_damaged_are_rejected_unless_nothing_of_the_agent_was_hit(path: Path) -> None:
    agent = saved(path)
    content = path.read_bytes()
    rejections = 0
    for at in np.random.default_rng(0).integers(len(content), size=80):
        damaged = bytearray(content)
        damaged[at] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            loaded = idb.Thompson.load(path)
        except FormatError:
            rejections += 1
        else:  # a byte that says nothing, like the time of writing
            assert kept(loaded) == kept(agent)
    assert rejections > 50  # most of the file is what the agent knows


def array_file() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(4.0))
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"hello\n", b"", b"{}", b"\x93NUMPY", b"PK\x03\x04", bytes(1000), array_file()])
def test_other_files_are_rejected(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    assert_raises(FormatError, ("agent.npz",), lambda: idb.Thompson.load(path))
