"""Cache on disk: outdated or damaged machine code is compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import idbandits
from idbandits.kernel.disk_cache import sources_of_kernels
from internals import delete_stale_machine_code, time_of_last_change

PROGRAM = """
from numba import types
from idbandits.kernel.compile import kernel

@kernel(types.int64(types.int64))
def double(x):
    return 2 * x

print(double(21), sum(double._dispatcher.stats.cache_hits.values()))
"""


def run_in(folder: Path) -> tuple[str, str]:
    """Double 21 in another process; return the result and the number of cache hits."""
    (folder / "program.py").write_text(PROGRAM)
    os.utime(folder / "program.py", (1e9, 1e9))
    environment = os.environ | {"PYTHONPATH": str(Path(idbandits.__file__).parents[1])}
    command = [sys.executable, str(folder / "program.py")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    result, hits = ended.stdout.split()
    return result, hits


def flip(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 64]) + content[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": flip,
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "other bytes": lambda content: b"\x80garbage",
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    assert run_in(folder) == ("42", "0")
    assert run_in(folder) == ("42", "1")
    return folder


@pytest.mark.parametrize("suffix", [".nbi", ".nbc", ".nbc.sha256"])
def test_damaged_machine_code_is_compiled_again(kept: Path, suffix: str) -> None:
    for damage in DAMAGES.values():  # each finds the files that were compiled after the one before
        (file,) = (path for path in (kept / "__pycache__").iterdir() if path.name.endswith(suffix))
        file.write_bytes(damage(file.read_bytes()))
        assert run_in(kept) == ("42", "0")
    assert run_in(kept) == ("42", "1")


def test_machine_code_that_is_older_than_a_source_is_deleted(tmp_path: Path) -> None:
    changed = time_of_last_change()
    for name, age in (("a.nbi", 1), ("a.1.nbc", 1), ("a.1.nbc.sha256", 1), ("b.nbi", -1), ("other.txt", 1)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (changed - age, changed - age))
    delete_stale_machine_code(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.nbi", "other.txt"]


def test_machine_code_depends_on_sources_with_kernels_and_what_they_import(tmp_path: Path) -> None:
    package = tmp_path / "package"
    texts = {
        "__init__.py": "",
        "sums.py": "from package.kernel.compile import kernel\nfrom package.inner import (\n    constants,\n)\n",
        "inner/__init__.py": "",
        "inner/constants.py": "from package.deep import SIZE\n",
        "deep.py": "SIZE = 1\n",
        "command.py": "from package import sums\n",
    }
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    found = {str(file.relative_to(package)) for file in sources_of_kernels(package)}
    assert found == {"sums.py", "inner/__init__.py", "inner/constants.py", "deep.py"}
