"""Every pair of capabilities of every inference is tested, or rejected before anything was learned; and the page says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from capability_pairs import CAPABILITIES, HEAD, INFERENCES, cell_of, cells_of, page_of
from idbandits.inference import BY_NAME

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")


def test_all_inferences_are_on_the_page() -> None:
    assert set(BY_NAME) <= set(INFERENCES)
    assert PAGE.startswith(HEAD)
    assert [line[3:] for line in PAGE.splitlines() if line.startswith("## ")] == list(INFERENCES)


@pytest.mark.parametrize("inference", INFERENCES)
def test_pairs_of_capabilities_work_or_are_rejected_in_time(inference: str) -> None:
    cells = cells_of(inference)
    wrong = {" and ".join(pair): cell.message for pair, cell in cells.items() if cell.sign == "✗"}
    assert not wrong
    assert page_of(inference, cells) in PAGE, "run: python docs/reference/compatibility.py"


@pytest.mark.filterwarnings("ignore::idbandits.errors.DiagramWarning")
@pytest.mark.parametrize("name", ["late rounds", "revise"])
def test_late_and_revised_rounds_are_learned_where_a_context_has_features(name: str) -> None:
    """A page with user features, items that leave and late clicks is the ordinary case: "moments" is its default."""
    users, other = (next(c for c in CAPABILITIES if c.name == wanted) for wanted in ("context features", name))
    cell = cell_of("moments", users, other)
    assert cell.sign == "✓", cell.message
