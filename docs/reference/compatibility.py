"""Write docs/reference/compatibility.md: `python docs/reference/compatibility.py`, in one or two minutes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Test all pairs and write the page."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    text: str = importlib.import_module("capability_pairs").page()
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
