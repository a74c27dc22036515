"""Write the page on which capabilities go together: `python docs/compatibility.py`, a minute or two."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Try all pairs, and write the page."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    text: str = importlib.import_module("capability_pairs").page()
    (ROOT / "docs" / "compatibility.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
