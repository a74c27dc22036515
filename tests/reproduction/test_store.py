"""File of finished runs: round trips, damaged files, and versions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import scipy

import idbandits
from idbandits.errors import FormatError, IdbanditsError
from idbandits.reproduction import run_store as module
from idbandits.reproduction.run_store import Store, version
from idbandits.simulation.loop import Run

RUN = Run(np.arange(6.0).reshape(2, 3), 5)
OTHER = Run(2 * RUN.totals, 5)


# -- runs and notes ------------------------------------------------------------------------------------------------


def test_stored_runs_are_found_in_a_reopened_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        assert store.get("a") is None
        store.put("a", RUN)
        store.put("b", Run(RUN.totals[:, ::-1], 0))  # not contiguous
        store.put("a", OTHER)
    with Store(path) as store:
        a, b = store.get("a"), store.get("b")
    assert a is not None
    assert b is not None
    assert a.totals.tolist() == OTHER.totals.tolist()
    assert b.totals.tolist() == RUN.totals[:, ::-1].tolist()
    assert (a.skipped, b.skipped) == (5, 0)


def test_a_note_is_made_once_per_settings_and_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.note(["a", 1], lambda: "first") == "first"
    assert store.note(["a", 1], lambda: pytest.fail("it was stored")) == "first"
    assert store.note(["a", 2], lambda: "other") == "other"
    monkeypatch.setattr(module, "version", lambda: "newer")
    assert store.note(["a", 1], lambda: "new") == "new"


def test_a_note_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        store.note("a", lambda: str(1 / 0))
    assert store.note("a", lambda: "later") == "later"


def test_two_processes_may_use_one_file(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.sqlite") as writer, Store(tmp_path / "runs.sqlite") as reader:
        assert reader.get("a") is None
        writer.put("a", RUN)
        assert reader.get("a") is not None
        reader.put("b", RUN)
        assert writer.get("b") is not None


# -- foreign files -------------------------------------------------------------------------------------------------


def text(path: Path) -> None:
    path.write_bytes(b"Not a database at all, but a text of some length. " * 40)


def other_tables(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE songs (title TEXT)")
        database.execute("INSERT INTO songs VALUES ('Ode')")
    database.close()


def other_columns(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (name TEXT)")
    database.close()


def truncated(path: Path) -> None:
    with Store(path) as store:
        for i in range(50):
            store.put(str(i), Run(np.ones((200, 3)), 0))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flipped_bit(path: Path) -> None:
    with Store(path) as store:
        store.put("0", Run(np.full((200, 3), 1.25), 0))
    content = bytearray(path.read_bytes())
    content[content.rindex(np.full(20, 1.25).tobytes()) + 6] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [text, other_tables, other_columns, truncated, flipped_bit])
def test_a_damaged_or_foreign_file_is_rejected_by_name_and_left_as_it_was(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "runs.sqlite"
    damage(path)
    before = path.read_bytes()

    def read() -> None:
        with Store(path) as store:
            for i in range(50):
                store.get(str(i))

    with pytest.raises(FormatError, match=r"runs\.sqlite is not a file of finished runs .*; move it away"):
        read()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["runs.sqlite"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(IdbanditsError, match=r"nowhere.runs\.sqlite"):
        Store(tmp_path / "nowhere" / "runs.sqlite")
    (tmp_path / "runs.sqlite").mkdir()
    with pytest.raises(IdbanditsError, match=r"runs\.sqlite"):
        Store(tmp_path / "runs.sqlite")


def test_a_file_that_another_process_has_locked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with Store(path, timeout=0.01) as store:
        other = sqlite3.connect(path)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(IdbanditsError, match=r"runs\.sqlite: database is locked"):
            store.put("a", RUN)
        other.close()
        store.put("a", RUN)
        assert store.get("a") is not None


# -- versions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_version() -> Iterator[Callable[[], str]]:
    """Function that computes the version at each call."""

    def compute() -> str:
        version.cache_clear()
        return version()

    yield compute
    version.cache_clear()


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("agent/thompson.py", True), ("inference/algorithms/ep.py", True), ("baselines/grab.py", True), ("models.py", True),
        ("theory/measured_regret.py", True), ("simulation/workers.py", True), ("reproduction/problems.py", True),
        ("reproduction/literal.py", True), ("reproduction/paper_report.py", False), ("reproduction/runs.py", False), ("reproduction/claims.py", False),
        ("reproduction/report.html", False), ("cli/main.py", False), ("cli/progress.py", False), ("__main__.py", False),
    ],
)  # fmt: skip
def test_the_version_changes_with_the_sources_that_results_depend_on(
    monkeypatch: pytest.MonkeyPatch, fresh_version: Callable[[], str], file: str, changes: bool
) -> None:
    before = fresh_version()
    changed = Path(idbandits.__file__).parent / file
    assert changed.is_file()
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: original(path) + b"#" * (path == changed))
    assert (fresh_version() != before) == changes


@pytest.mark.parametrize("library", [np, numba, scipy])
def test_the_version_changes_with_the_libraries(
    monkeypatch: pytest.MonkeyPatch, fresh_version: Callable[[], str], library: Any
) -> None:
    before = fresh_version()
    monkeypatch.setattr(library, "__version__", "99")
    assert fresh_version() != before
