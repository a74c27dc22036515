"""Build the files of a release in `dist`: an sdist, a pure wheel, and one with machine code per version of Python.

Machine code depends on the version of Python, and on a level of processors that tags of wheels cannot express. So each
wheel contains packs of all levels (`idbandits.kernel.pack`). Its tags are those of Numba's wheel: machine code needs
nothing that Numba does not bring.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ["python3.11", "python3.12", "python3.13", "python3.14"]
LIBRARIES = ["numba", "numpy", "scipy"]  # that kernels need
TAGS = "from importlib.metadata import distribution; print(distribution('numba').read_text('WHEEL'))"
LEVELS = "from idbandits.kernel import pack; print(*pack.levels())"


def run(*command: str | Path, **settings: str) -> str:
    """Run a command with additional environment variables, and return its output."""
    done = subprocess.run(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def build_pure(out: Path, *options: str) -> Path:
    """Build the sdist from tracked files only, and from it the wheel without machine code; return the wheel."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        for file in run("git", "-C", ROOT, "ls-files", "-z").rstrip("\0").split("\0"):
            if (ROOT / file).exists():
                (tree / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, tree / file)
        run(sys.executable, "-m", "build", "--outdir", out, *options, tree)
    [wheel] = out.glob("*-py3-none-any.whl")
    return wheel


@contextmanager
def unpacked(wheel: Path) -> Iterator[Path]:
    """Unpack a wheel in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", folder, wheel)
        [content] = Path(folder).iterdir()
        yield content


def add_packs(pure: Path, packs: Sequence[Path], tags: Sequence[str], out: Path) -> Path:
    """Build a wheel with these tags that contains packs of machine code; return its path."""
    with unpacked(pure) as content, tempfile.TemporaryDirectory() as built:
        (content / "idbandits" / "machine_code").mkdir()
        for pack in packs:
            shutil.copyfile(pack, content / "idbandits" / "machine_code" / pack.name)
        [about] = content.glob("*.dist-info/WHEEL")
        lines = [line for line in about.read_text().splitlines() if line and not line.startswith(("Root-", "Tag:"))]
        lines += ["Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags)]
        about.write_text("\n".join(lines) + "\n")
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", built, content)
        [wheel] = Path(built).iterdir()
        return Path(shutil.copy(wheel, out))


def tags_of_numba(python: Path | str) -> list[str]:
    """Return the tags of the wheel from which Numba was installed."""
    return re.findall(r"^Tag: (.+)$", run(python, "-c", TAGS), re.MULTILINE)


def build_with_machine_code(pure: Path, python: str, out: Path) -> Path:
    """Build the wheel with machine code of a version of Python."""
    with unpacked(pure) as content, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "venv")
        own = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run(own, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", *LIBRARIES)
        settings = {"PYTHONPATH": str(content), "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONSAFEPATH": "1"}
        for level in run(own, "-c", LEVELS, **settings).split():
            run(own, "-m", "idbandits.kernel.build_pack", "--out", folder / "packs", "--level", level, **settings)
        return add_packs(pure, sorted((folder / "packs").iterdir()), tags_of_numba(own), out)


def install_alone(wheel: Path, folder: Path, *, libraries: Path) -> Path:
    """Install a wheel in a new virtual environment that reads its dependencies from a folder; return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (packages / "libraries.pth").write_text(f"{libraries}\n")
    return python


def main() -> None:
    """Build and check all files of a release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", action="append", metavar="PYTHON", help=f"(repeatable; default: {', '.join(PYTHONS)})"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist")
    arguments = parser.parse_args()
    out: Path = arguments.out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    started = time.perf_counter()
    pure = build_pure(out)
    for python in arguments.python or PYTHONS:
        if not arguments.python and not runs(python):
            print(f"{python} is not installed: no wheel with machine code for it")
            continue
        build_with_machine_code(pure, python, out)
    files = sorted(out.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    run(sys.executable, "-m", "check_wheel_contents", *out.glob("*.whl"))
    for file in files:
        print(f"{file.stat().st_size / 1e6:5.1f} MB  {file.relative_to(out)}")
    print(f"built and checked in {time.perf_counter() - started:.0f} s")


def runs(python: str) -> bool:
    """Return whether an interpreter is installed."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    main()
