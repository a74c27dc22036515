"""Version, citation, changelog and licences of a release."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import yaml

import idbandits as idb

ROOT = Path(__file__).parents[2]


def test_the_version_is_that_of_citation_and_changelog() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == idb.__version__
    assert citation["preferred-citation"]["title"].startswith("Influence Diagram Bandits")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    latest = re.search(r"^## (\S+) \((\S+)\)$", changelog, re.MULTILINE)
    assert latest is not None
    assert latest.groups() == (idb.__version__, str(citation["date-released"]))


def test_the_changelog_has_three_kinds_of_changes() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (.+)$", changelog, re.MULTILINE)) == {"Added", "Changed", "Fixed"}


def test_the_page_of_licences_is_current() -> None:
    licences: Any = module(ROOT / "docs" / "reference" / "licences.py")
    text = licences.PAGE.read_text(encoding="utf-8")
    assert licences.page(text) == text, "python docs/reference/licences.py"
    assert "| unknown |" not in text
    assert {"numba", "duckdb", "ibis-framework"} < set(licences.dependencies())


def module(file: Path) -> Any:
    """Return a module that is not part of a package."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
