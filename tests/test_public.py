"""Public names, and modules that `import idbandits` loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import idbandits as idb


def test_only_public_names_are_shown() -> None:
    assert dir(idb) == sorted(idb.__all__)
    assert all(getattr(idb, name) is not None for name in idb.__all__)


def test_rooms_can_be_reached_but_nothing_else() -> None:
    assert idb.errors.DiagramError is sys.modules["idbandits.errors"].DiagramError
    with pytest.raises(AttributeError, match="'idbandits' has no attribute 'nothing'"):
        _ = idb.nothing


CODE = """
import signal, sys
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), list(sys.argv)
import idbandits
assert not {"numpy", "numba"} & set(sys.modules)
names = [getattr(idbandits, name) for name in idbandits.__all__]
assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), list(sys.argv)) == before
print(sorted({"pandas", "pyarrow", "matplotlib", "igraph", "jsonschema", "tqdm", "jinja2"} & set(sys.modules)))
print("scipy.special" in sys.modules, "scipy.sparse" in sys.modules)
"""


def test_an_import_has_no_side_effects_and_loads_nothing_heavy() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])}
    ended = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\nFalse False\n", ended.stderr
