"""Packs of machine code: used if everything matches, else kernels are compiled; results do not depend on it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
import pytest

from idbandits.kernel import build_pack, pack
from idbandits.kernel import numba_private as private

PROGRAM = """
import json, sys
from idbandits.kernel import pack
loaded, code = [], pack.Pack.code
pack.Pack.code = lambda self, name: loaded.append(name) or code(self, name)
from idbandits.circuit.passes import bind
bind.compile()
stats = bind._dispatcher.stats
print(json.dumps([pack.described(), len(loaded), sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""
PLAY = """
import numpy as np
import idbandits as idb
rng = np.random.default_rng(0)
for d, inference in ((idb.models.semi_bandit(6, 3), "exact"), (idb.models.position_based(6, 3), "moments")):
    agent = idb.Thompson(d, inference, seed=1)
    for _ in range(200):
        action = agent.act()
        agent.update(action, {node.name: int(rng.integers(2)) for node in d.of_kind("observed")})
    print(inference, action, [mean.hex() for table in agent.posterior().values() for mean in table.mean.tolist()])
"""


@pytest.fixture(scope="module")
def content() -> bytes:
    """A usable pack of this checkout."""
    subprocess.run([sys.executable, "-m", "idbandits.kernel.build_pack"], env=environment(pack.PACKAGE), check=True)
    pack.packs.cache_clear()
    best = pack.usable()
    assert best is not None, pack.described()
    return (pack.FOLDER / f"{best.level}.pack").read_bytes()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], str]]:
    """Put a pack of the best level in an empty folder, and return the description of what is used."""
    monkeypatch.setattr(pack, "FOLDER", tmp_path)
    monkeypatch.delenv(pack.NATIVE, raising=False)

    def describe(content: bytes) -> str:
        pack.packs.cache_clear()
        (tmp_path / f"{next(iter(pack.levels()))}.pack").write_bytes(content)
        return pack.described()

    yield describe
    pack.packs.cache_clear()


@pytest.fixture
def package(content: bytes, tmp_path: Path) -> Path:
    """A copy of the package with a pack; its modification times are those of the sources."""
    copy = tmp_path / "idbandits"
    shutil.copytree(pack.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "machine_code"))
    put(copy, content)
    return copy


def put(package: Path, content: bytes) -> None:
    (package / "machine_code").mkdir(exist_ok=True)
    (package / "machine_code" / f"{head_of(content)['level']}.pack").write_bytes(content)


def environment(package: Path, **settings: str) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name not in (pack.NATIVE, "NUMBA_CACHE_DIR")}
    return variables | {"PYTHONPATH": str(package.parent)} | settings


def start(package: Path, **settings: str) -> subprocess.Popen[str]:
    command, variables = [sys.executable, "-c", PROGRAM], environment(package, **settings)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=variables, cwd=package.parent, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str]) -> Any:
    """Return what a process described, how often it read a pack, hits and misses; loading a pack is not announced."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    description, read, hits, misses = json.loads(out)
    assert misses or not read or not err
    return [description, read, hits, misses]


def run(package: Path, **settings: str) -> Any:
    return ended(start(package, **settings))


def parts_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    begin = len(pack.MAGIC) + pack.DIGEST
    codes = begin + pack.LENGTH + int.from_bytes(content[begin : begin + pack.LENGTH])
    return json.loads(content[begin + pack.LENGTH : codes]), content[codes:]


def head_of(content: bytes) -> dict[str, Any]:
    head, _ = parts_of(content)
    level = next(level for level, features in pack.levels().items() if sorted(features) == head["features"])
    return {"level": level, **head}


def crafted(head: bytes, codes: bytes = b"") -> bytes:
    """Return a pack with a valid checksum."""
    body = len(head).to_bytes(pack.LENGTH) + head + codes
    return pack.MAGIC + hashlib.sha256(body).digest() + body


def with_head(content: bytes, **changes: Any) -> bytes:
    head, codes = parts_of(content)
    return crafted(json.dumps(head | changes).encode(), codes)


# -- use -----------------------------------------------------------------------------------------------------------


def test_machine_code_of_a_pack_is_loaded_in_silence_and_nothing_is_written(package: Path, content: bytes) -> None:
    description, read, hits, misses = run(package, NUMBA_CACHE_DIR=str(package.parent / "cache"))
    assert description == f"machine code of the package: {head_of(content)['level']}"
    assert (read, hits, misses) == (1, 1, 0)
    assert not [path for path in (package.parent / "cache").rglob("*") if path.is_file()]


def test_all_kernels_are_in_the_pack(content: bytes) -> None:
    names = {f"{kernel.function.__module__}:{kernel.function.__qualname__}" for kernel in build_pack.all_kernels()}
    assert set(head_of(content)["kernels"]) == names
    assert {"idbandits.inference.act:act", "idbandits.inference.gibbs.gibbs:Gibbs.learn"} <= names


def test_native_code_is_compiled_if_wanted_and_then_used_before_the_pack(package: Path) -> None:
    native = {"IDBANDITS_NATIVE": "1"}
    assert run(package, **native) == ["no machine code of the package is used (native code is wanted)", 0, 0, 1]
    assert run(package, **native)[1:] == [0, 1, 0]
    description, *counts = run(package)
    assert description.startswith("machine code of the package: ")
    assert counts == [0, 1, 0]


def test_two_processes_load_the_pack_at_once(package: Path) -> None:
    processes = [start(package), start(package)]
    assert [ended(process)[1:] for process in processes] == [[1, 1, 0], [1, 1, 0]]


def test_packages_that_are_not_writable(package: Path) -> None:
    for folder in [package, *package.rglob("*/")]:
        (folder / "__pycache__").touch()  # no folder of this name can be created, not even by root
    nowhere = str(package / "__pycache__" / "nowhere")
    assert run(package, HOME=nowhere, XDG_CACHE_HOME=nowhere)[1:] == [1, 1, 0]


def test_results_are_identical_with_packs_and_native_code(package: Path) -> None:
    outputs = []
    for settings in ({}, {"IDBANDITS_NATIVE": "1"}):
        outputs.append(
            subprocess.run(
                [sys.executable, "-c", PLAY], env=environment(package, **settings), cwd=package.parent,
                capture_output=True, text=True, check=True,
            )
        )  # fmt: skip
    packed, native = outputs
    assert packed.stderr == ""
    assert packed.stdout == native.stdout
    assert packed.stdout.count("0x1.") >= 12
    assert list(package.rglob("*.nbi"))  # native code was compiled


# -- sources -------------------------------------------------------------------------------------------------------


def test_edited_kernels_are_compiled_and_the_pack_is_used_again_without_the_edit(package: Path) -> None:
    source = package / "circuit" / "passes.py"
    original, status = source.read_text(), source.stat()
    source.write_text(f"{original}\n# edited\n")
    description, *counts = run(package)
    assert "it was compiled from other sources" in description
    assert counts == [0, 0, 1]
    assert run(package)[1:] == [0, 1, 0]  # from the disk
    source.write_text(original)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run(package)[1:] == [1, 1, 0]


def test_edits_of_other_sources_do_not_matter(package: Path) -> None:
    with (package / "cli" / "main.py").open("a") as file:
        file.write("\n# edited\n")
    assert run(package)[1:] == [1, 1, 0]


# -- versions and processors ---------------------------------------------------------------------------------------


def test_other_versions_do_not_match(
    content: bytes, place: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place(content).startswith("machine code of the package: ")
    for library, name in ((numba, "Numba"), (llvmlite, "llvmlite")):
        with monkeypatch.context() as patch:
            patch.setattr(library, "__version__", "9.9")
            assert f"it is for {name} " in place(content)
            assert "this is 9.9" in place(content)
    platform = head_of(content)["platform"]
    assert "it is for Python .cpython-99" in place(
        with_head(content, platform=platform | {"Python": ".cpython-99-x86_64-linux-gnu.so"})
    )
    assert "it is for system Plan 9" in place(with_head(content, platform=platform | {"system": "Plan 9"}))
    assert place(with_head(content)).startswith("machine code of the package: ")


def test_processors_that_lack_a_feature_use_a_lower_level_or_none(
    content: bytes, place: Callable[[bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best, *lower = pack.levels()
    place(content)
    own = set(head_of(content)["features"])
    monkeypatch.setattr(private, "processor_features", lambda: own - {max(own)})
    assert f"{best}: the processor lacks {max(own)}" in place(content)
    for level in lower:
        (tmp_path / f"{level}.pack").write_bytes(with_head(content, features=[]))
        assert place(content) == f"machine code of the package: {level}"


def test_the_setting_of_numba_for_processors_counts(package: Path) -> None:
    description, *counts = run(package, NUMBA_CPU_NAME="generic")
    assert "the processor lacks" in description
    assert counts == [0, 0, 1]


# -- damage --------------------------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:-1],
    "only the head": lambda content: content[:100],
    "longer": lambda content: content + b"\0",
    "a bit of the machine code": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "a bit of the head": lambda content: content[:80] + bytes([content[80] ^ 1]) + content[81:],
    "another format": lambda content: content.replace(b"code 1", b"code 2", 1),
}
CRAFTED: dict[str, bytes] = {
    "no head": crafted(b""),
    "no JSON": crafted(b"{"),
    "deep JSON": crafted(b"[" * 100_000),
    "a list": crafted(b"[]"),
    "nothing": crafted(b"{}"),
    "a number": crafted(b"7"),
    "a length beyond the end": pack.MAGIC + hashlib.sha256(b"\xff" * 4).digest() + b"\xff" * 4,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_packs_are_not_used(content: bytes, place: Callable[[bytes], str], damage: str) -> None:
    assert "the file is damaged" in place(DAMAGES[damage](content))


@pytest.mark.parametrize("case", CRAFTED)
def test_invalid_packs_with_a_valid_checksum_are_not_used(place: Callable[[bytes], str], case: str) -> None:
    assert "it cannot be read: " in place(CRAFTED[case])


@pytest.mark.parametrize("change", [{"kernels": 7}, {"kernels": {"a": 3}}, {"sources": ["/missing"]}, {"features": 1}])
def test_invalid_fields_are_not_used(content: bytes, place: Callable[[bytes], str], change: dict[str, Any]) -> None:
    assert "it cannot be read: " in place(with_head(content, **change))


def test_a_missing_pack_is_described(place: Callable[[bytes], str], tmp_path: Path) -> None:
    place(b"")
    next(tmp_path.iterdir()).unlink()
    pack.packs.cache_clear()
    assert ": there is none" in pack.described()


def test_kernels_whose_code_cannot_be_loaded_are_compiled(package: Path, content: bytes) -> None:
    """Places beyond the end, bytes that are no pickle, and a pickle of something else."""
    head, _ = parts_of(content)
    name = "idbandits.circuit.passes:bind"
    fields = {key: value for key, value in head.items() if key != "kernels"}
    for codes in ({name: b"garbage"}, {name: b"\x80\x04K\x07."}):
        put(package, pack.packed(fields, codes))
        assert run(package, NUMBA_CACHE_DIR=str(package.parent / f"cache{len(codes[name])}"))[1:] == [1, 0, 1]
    put(package, with_head(content, kernels={name: [10**9, 10**9 + 5]}))
    assert run(package, NUMBA_CACHE_DIR=str(package.parent / "cache"))[1:] == [1, 0, 1]


def test_a_damaged_pack_means_that_kernels_are_compiled(package: Path, content: bytes) -> None:
    put(package, DAMAGES["a bit of the machine code"](content))
    description, *counts = run(package)
    assert "the file is damaged" in description
    assert counts == [0, 0, 1]
