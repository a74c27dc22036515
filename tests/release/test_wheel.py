"""A wheel with machine code, installed in a new environment: nothing is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numba
import pytest

from idbandits.kernel import pack
from tools import build_wheels

README = build_wheels.ROOT / "README.md"
PROGRAM = f"""
import doctest, gc, json
import idbandits
failed, tried = doctest.testfile({str(README)!r}, module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
from idbandits.kernel import pack
from idbandits.kernel.compile import Kernel
kernels = [each._dispatcher.stats for each in gc.get_objects() if isinstance(each, Kernel)]
loaded, compiled = (sum(sum(getattr(each, kind).values()) for each in kernels) for kind in ("cache_hits", "cache_misses"))
print(json.dumps([failed, tried > 5, loaded > 3, compiled, pack.described(), idbandits.__file__]))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel without machine code, and the wheel with that of this checkout."""
    for module in ("build", "setuptools", "wheel"):
        pytest.importorskip(module)
    out = tmp_path_factory.mktemp("dist")
    pure = build_wheels.build_pure(out, "--no-isolation")
    subprocess.run([sys.executable, "-m", "idbandits.kernel.build_pack"], env=environment(), check=True)
    packs = sorted(pack.FOLDER.glob("*.pack"))
    return pure, build_wheels.add_packs(pure, packs, build_wheels.tags_of_numba(sys.executable), out)


def environment(**settings: str) -> dict[str, str]:
    left_out = {pack.NATIVE, "NUMBA_CACHE_DIR"} | ({"PYTHONPATH"} if settings else set())
    return {name: value for name, value in os.environ.items() if name not in left_out} | settings


def test_the_example_of_the_readme_compiles_nothing(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    python = build_wheels.install_alone(wheels[1], tmp_path / "venv", libraries=Path(numba.__file__).parents[1])
    [package] = (tmp_path / "venv").glob("**/site-packages/idbandits")
    outputs = [run(python, NUMBA_CACHE_DIR=str(tmp_path / "cache"))]
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    for folder in [path for path in (package, *package.rglob("*/")) if path.name != "__pycache__"]:
        if not (folder / "__pycache__").exists():
            (folder / "__pycache__").touch()
    outputs.append(run(python, HOME="/dev/null", XDG_CACHE_HOME="/dev/null"))
    assert outputs[0] == outputs[1]
    assert '[0, true, true, 0, "machine code of the package: ' in outputs[0]
    assert str(package) in outputs[0]
    assert not list(package.rglob("*.nbi"))


def run(python: Path, **settings: str) -> str:
    """Run the example in another process, which prints nothing but the result."""
    command = [python, "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment(**settings), cwd=python.parent, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_wheels_contain_what_they_need(wheels: tuple[Path, Path]) -> None:
    pure, packed = (set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels)
    added = {name for name in packed - pure if "machine_code/" in name}
    assert packed - pure == added
    assert added
    assert not [name for name in packed if "__pycache__" in name or name.startswith("tests")]
    licences = sorted(name.partition("/licenses/")[2] for name in pure if "/licenses/" in name)
    project = tomllib.loads((build_wheels.ROOT / "pyproject.toml").read_text())["project"]
    assert licences == sorted(project["license-files"])
    sources = {path.relative_to(pack.PACKAGE.parent).as_posix() for path in pack.PACKAGE.rglob("*.py")}
    assert {name for name in pure if name.endswith(".py")} == sources


def test_tags_are_those_of_machine_code(wheels: tuple[Path, Path]) -> None:
    pure, packed = wheels
    assert pure.name.endswith("-py3-none-any.whl")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in packed.name
    about = zipfile.ZipFile(packed).read(next(name for name in zipfile.ZipFile(packed).namelist() if "/WHEEL" in name))
    assert b"Root-Is-Purelib: false" in about
    assert about.count(b"Root-Is-Purelib") == 1
    assert b"py3-none-any" not in about
