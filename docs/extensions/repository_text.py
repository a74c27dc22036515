"""Texts of files outside of docs, with links that work in the site."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results.md"
PAGES = {  # pages of the site for files and folders that are no pages
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "benchmarks/results.md": "explanation/results.md", "examples": "getting-started/examples.md",
    "examples/README.md": "getting-started/examples.md", "docs": "index.md", "LICENSE": "licence.md",
    "docs/gallery/README.rst": "generated/gallery/index.rst",
}  # fmt: skip
GENERATED = (  # pages that are made of a file, or of the section with a heading
    (re.compile(r"benchmarks/results\.md#(.+)"), r"generated/results/\1.md"),
    (re.compile(r"examples/(\w+)\.py"), r"generated/examples/\1.md"),
    (re.compile(r"docs/gallery/(\w+)\.py"), r"generated/gallery/\1.rst"),
)
LINK = re.compile(r"(\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def with_site_links(text: str, source: Path, page: Path) -> str:
    """Rewrite relative links of a file for a page of the site.

    Files that are no pages are replaced by their page; those without one are named without a link.
    """

    def rewritten(link: re.Match[str]) -> str:
        label, target = link[1], link[2]
        path, _, heading = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return link[0]
        found = _page_of(os.path.relpath(source.parent / path, ROOT), heading)
        if found is None:
            return label[1:-1]
        return f"{label}({os.path.relpath(DOCS / found[0], page.parent)}{found[1]})"

    return LINK.sub(rewritten, text)


def _page_of(name: str, heading: str) -> tuple[str, str] | None:
    """Return the page of a file and the anchor in it; None if the site has no such page."""
    anchor = f"#{heading}" if heading else ""
    if name in PAGES and not (name == "benchmarks/results.md" and heading):
        return PAGES[name], anchor
    for pattern, page in GENERATED:
        if found := pattern.fullmatch(name + anchor):
            return found.expand(page), ""
    return (name.removeprefix("docs/"), anchor) if name.startswith("docs/") else None


def repository_file(name: str, page: Path) -> str:
    """Return a file outside of docs as text of a page."""
    return with_site_links((ROOT / name).read_text(encoding="utf-8"), ROOT / name, page)


def contents(folder: str, names: list[str]) -> str:
    """Return a hidden table of contents of generated pages."""
    entries = "\n".join(f"../generated/{folder}/{name}" for name in names)
    return f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def example_pages() -> dict[str, str]:
    """Return a page for each example program: description and source."""
    texts = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        source = f"```{{literalinclude}} ../../../examples/{path.name}\n:language: python\n```"
        texts[f"{path.stem}.md"] = f"# {path.name}\n\n{described.partition(chr(10) * 2)[0]}\n\n{source}\n"
    return texts


def example_contents() -> str:
    """Return the table of contents of the example programs."""
    return contents("examples", [name.removesuffix(".md") for name in example_pages()])


def result_pages() -> dict[str, str]:
    """Return a page for each section of the measured results."""
    texts = {}
    for section in RESULTS.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        name = f"{re.sub(r'[^a-z0-9_ -]', '', title.lower()).replace(' ', '-')}.md"
        page = DOCS / "generated" / "results" / name
        texts[name] = with_site_links(f"# {title}\n{text.rstrip()}\n", RESULTS, page)
    return texts


def result_contents() -> str:
    """Return what was measured when and where, and a list of the pages of results."""
    head = RESULTS.read_text(encoding="utf-8").partition("\n## ")[0]
    pages = result_pages()
    titles = {name: text.partition("\n")[0].removeprefix("# ") for name, text in pages.items()}
    rows = "\n".join(f"- [{title}](../generated/results/{name})" for name, title in titles.items())
    head = head.replace("# Benchmarks", "# Tables of results", 1)
    return f"{head}\n\n{rows}\n\n{contents('results', [name.removesuffix('.md') for name in pages])}"
