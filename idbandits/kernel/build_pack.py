"""Build a pack, machine code of all kernels: `python -m idbandits.kernel.build_pack`.

Kernels are compiled in parallel processes into an empty cache, and packed from there; those of a pack that is still
valid are kept. Only NumPy, Numba and SciPy must be installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from idbandits.files import write_whole
from idbandits.kernel import disk_cache as disk
from idbandits.kernel import numba_private as private
from idbandits.kernel import pack
from idbandits.kernel.compile import Kernel, compile_together, name_of

SOURCES = sorted(disk.sources_of_kernels(pack.PACKAGE))
IN_SIMULATIONS = ("ACT", "LEARN", "act", "learn", "loop", "solve_easily", "unclear")  # names of kernels


def all_kernels() -> Iterator[Kernel]:
    """Yield all kernels of the package that are attributes of a module or of a class in it."""
    for source in SOURCES:
        for value in list(vars(importlib.import_module(disk.module_of(source, pack.PACKAGE))).values()):
            members = vars(value).values() if isinstance(value, type) else [value]
            yield from (member for member in members if isinstance(member, Kernel))


def build(level: str, folder: Path, options: Sequence[str]) -> None:
    """Build the pack of a level in a new process, because Numba reads its target when it is imported."""
    features = ",".join(f"+{feature}" for feature in pack.levels()[level])
    file = folder / f"{level}{pack.SUFFIX}"
    with tempfile.TemporaryDirectory() as cache:
        target = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": features, "NUMBA_DISABLE_INTEL_SVML": "1"}
        settings = os.environ | target | {"NUMBA_CACHE_DIR": cache, pack.NATIVE: "1"}
        command = [sys.executable, "-m", __spec__.name, *options, "--write", str(file)]
        subprocess.run(command, env=settings, check=True)


def write(file: Path, simulations: bool, processes: int | None) -> None:
    """Compile the kernels that a pack lacks for the target of this process, and write the pack."""
    sources = [source.relative_to(pack.PACKAGE).as_posix() for source in SOURCES]
    digest = pack.digest_of(sources)
    codes = dict[str, bytes]()
    with contextlib.suppress(pack.UnusableError):
        before = pack.read_pack(file)
        codes = {name: before.code(name) for name in before.places}
    missing = {name_of(kernel): kernel for kernel in all_kernels() if name_of(kernel) not in codes}
    if simulations:
        missing = {name: kernel for name, kernel in missing.items() if name.endswith(IN_SIMULATIONS)}
    if not missing:
        return
    compile_together(missing.values(), processes)
    for name, kernel in missing.items():
        kernel.compile()
        codes[name] = kernel.code_on_disk()
    if pack.digest_of(sources) != digest:
        sys.exit("sources changed while they were compiled: build the pack again")
    head = {
        "platform": pack.platform_now(), "features": sorted(private.processor_features()),
        "sources": sources, "digest": digest,
    }  # fmt: skip
    file.parent.mkdir(exist_ok=True)
    write_whole(file, pack.packed(head, codes))


def main() -> None:
    """Complete the pack of the best level of this processor, or those of the named levels."""
    parser = argparse.ArgumentParser(prog="python -m idbandits.kernel.build_pack", description=__doc__)
    parser.add_argument("--level", action="append", choices=list(pack.levels()), help="repeatable; default: the best")
    parser.add_argument("--out", type=Path, default=pack.FOLDER, metavar="FOLDER", help="folder of the packs")
    parser.add_argument("--simulations", action="store_true", help="only kernels that simulations of learners need")
    parser.add_argument("--processes", type=int, metavar="N", help="parallel processes (default: one per core)")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.write, arguments.simulations, arguments.processes)
        return
    if not private.AVAILABLE or not pack.levels():
        print("machine code cannot be packed on this platform: kernels are compiled on first use", file=sys.stderr)
        return
    best = [level for level, needed in pack.levels().items() if private.processor_features() >= set(needed)][:1]
    for level in arguments.level or best:
        build(level, arguments.out, sys.argv[1:])


if __name__ == "__main__":
    main()
