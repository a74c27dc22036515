"""The pages say what the code has: the picture of the rooms, the files and functions they name, and their links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from idbandits import Diagram
from idbandits.inference import BY_NAME, default_inference

ROOT = Path(__file__).parents[1]
ARCHITECTURE = runpy.run_path(str(ROOT / "docs" / "explanation" / "architecture.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if "generated" not in p.parts)])
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_the_picture_shows_the_rooms_imports_and_functions_that_there_are() -> None:
    assert ARCHITECTURE["differences"]() == [], "run: python docs/explanation/architecture.py"


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        assert not heading or heading in anchors(other), target


@every_page
def test_source_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text())
    places = (ROOT, ROOT / "idbandits")
    assert [file for file in named if not any((place / file).exists() for place in places)] == []


def test_functions_on_the_road_of_a_round_exist() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    steps = re.findall(r"^\| [^|]+ \| `([\w.]+)` \| `([\w/]+\.py)` \|", text, flags=re.MULTILINE)
    assert len(steps) > 10
    assert [step for step in steps if step[0] not in ARCHITECTURE["definitions"](step[1])] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_default_inference_is_the_one_that_pages_and_examples_name() -> None:
    featured = Diagram("featured")
    featured.context("user", features=["age"])
    names = "|".join(BY_NAME)
    stated = re.compile(
        rf"\b({names})\b[^|.,(\n]{{0,10}}(?:\.py`)?(?:, | ?\()(?:the )?default\b( of `Thompson` where a)?", re.I
    )
    found = 0
    for page in [*PAGES, *(ROOT / "examples").glob("*.py"), *(ROOT / "docs").rglob("*.py")]:
        for name, where in stated.findall(page.read_text()):
            assert name.lower() == default_inference(featured if where else Diagram("plain")), page.name
            found += 1
    assert found >= 5
