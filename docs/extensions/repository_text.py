"""Texts of files outside of docs, with links that work in the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {  # pages of the site for files and folders outside of docs
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "benchmarks/results.md": "explanation/results.md", "examples": "how-to/examples.md", "docs": "index.md",
    "LICENSE": "licence.md",
}  # fmt: skip
LINK = re.compile(r"(\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def with_site_links(text: str, source: Path, page: Path) -> str:
    """Rewrite relative links of a file for a page of the site.

    Files outside of docs are replaced by their page; those without one are named without a link.
    """

    def rewritten(link: re.Match[str]) -> str:
        label, target = link[1], link[2]
        path, mark, heading = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return link[0]
        full = Path(os.path.normpath(source.parent / path))
        if not full.is_relative_to(DOCS):
            name = full.relative_to(ROOT).as_posix()
            if name not in PAGES:
                return label[1:-1]
            full = DOCS / PAGES[name]
        return f"{label}({os.path.relpath(full, page.parent)}{mark}{heading})"

    return LINK.sub(rewritten, text)


def repository_file(name: str, page: Path) -> str:
    """Return a file outside of docs as text of a page."""
    return with_site_links((ROOT / name).read_text(encoding="utf-8"), ROOT / name, page)


def example_scripts() -> str:
    """Return a section with description and source of each example script."""
    parts = []
    for path in sorted((ROOT / "examples").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        parts.append(f"## {name}\n\n```{{literalinclude}} ../../{name}\n:language: python\n```")
    return "\n\n".join(parts) + "\n"
