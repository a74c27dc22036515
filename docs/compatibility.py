"""Write docs/compatibility.md: `python docs/compatibility.py`, in one or two minutes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Test all pairs and write the page."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    text: str = importlib.import_module("capability_pairs").page()
    (ROOT / "docs" / "compatibility.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
