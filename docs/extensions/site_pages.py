"""Extension of Sphinx: generated texts in pages, pages of the API, and links from code to the API."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

from api_text import api_index, api_pages
from command_text import command_contents, command_pages
from docstring_text import rst
from error_text import error_tables
from http_text import http_messages, http_routes
from repository_text import (
    DOCS,
    example_contents,
    example_pages,
    repository_file,
    result_contents,
    result_pages,
    with_site_links,
)  # fmt: skip

MARK = re.compile(r"^<!-- generated: (\w+)(?: (\S+))? -->$", re.MULTILINE)
OPTIONAL = re.compile(r"^([\w./-]+\*)\n", re.MULTILINE)
TEXTS: dict[str, Callable[[], str]] = {
    "api": api_index, "commands": command_contents, "errors": error_tables, "examples": example_contents,
    "messages": http_messages, "results": result_contents, "routes": http_routes,
}  # fmt: skip
PAGES: dict[str, Callable[[], dict[str, str]]] = {  # by folder in docs/generated
    "api": api_pages, "commands": command_pages, "examples": example_pages, "results": result_pages,
}  # fmt: skip
CODE = re.compile(r"(?:idb|idbandits)\.([A-Za-z_][\w.]*)(?:\(.*\))?")


def generated(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace marks of generated texts and links to files outside of docs; drop entries `page*` that match no file."""
    page = DOCS / f"{name}.md"
    if not page.exists():
        return

    def text(mark: re.Match[str]) -> str:
        return repository_file(mark[2], page) if mark[1] == "file" else TEXTS[mark[1]]()

    def existing(entry: re.Match[str]) -> str:
        return entry[0] if any(page.parent.glob(f"{entry[1]}.*")) else ""

    source[0] = OPTIONAL.sub(existing, MARK.sub(text, with_site_links(source[0], page, page)))


def pages_with_marks(*_: Any) -> list[str]:
    """Return the written pages with generated texts, which may change without a change of the page."""
    written = (path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
    marked = (path for path in written if MARK.search(path.read_text(encoding="utf-8")))
    return [path.relative_to(DOCS).with_suffix("").as_posix() for path in marked]


def write_pages(*_: Any) -> None:
    """Write the generated pages that changed, and remove those that do not exist any more."""
    for name, pages in PAGES.items():
        folder, texts = DOCS / "generated" / name, pages()
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.md"):
            if path.name not in texts:
                path.unlink()
        for file, text in texts.items():
            path = folder / file
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


def is_inside(node: nodes.Node, *kinds: type[nodes.Node]) -> bool:
    """Return whether a node is part of one of some kinds."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def linked_code(app: Sphinx, document: nodes.document, name: str) -> None:
    """Link `idb.Thompson` and other public names in code to the API, except in headings and links."""
    domain = app.env.domains["py"]
    for literal in list(document.findall(nodes.literal)):
        found = CODE.fullmatch(literal.astext())
        if found is None or is_inside(literal, nodes.reference, nodes.title, pending_xref):
            continue
        own = domain.objects.get(f"idbandits.{found[1]}")
        if own is not None and own.docname != name:
            link = make_refnode(app.builder, name, own.docname, own.node_id, literal.deepcopy())
            literal.replace_self(link)


def described_plots(app: Sphinx, document: nodes.document, name: str) -> None:
    """Describe the plots of gallery scripts by the title of the script."""
    for image in document.findall(lambda node: type(node).__name__ == "imgsgnode"):
        image["alt"] = f"Plot: {next(document.findall(nodes.title)).astext()}"


def plain_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring with code in single backticks into reStructuredText; drop that of the type of a constant.

    Napoleon takes the text before a colon in the first line of a property as its type, so that line is empty.
    """
    inherited = what == "data" and getattr(value, "__doc__", None) in (
        type(value).__doc__,
        getattr(getattr(value, "__origin__", None), "__doc__", ""),
    )
    lines[:] = [] if inherited else [""] * (what == "property") + rst(lines)


def skip_fields(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Skip fields of named tuples, which the docstrings of their classes describe."""
    return True if (getattr(value, "__doc__", None) or "").startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the functions of this module."""
    app.connect("builder-inited", write_pages)
    app.connect("env-get-outdated", pages_with_marks)
    app.connect("source-read", generated)
    app.connect("doctree-resolved", linked_code)
    app.connect("doctree-resolved", described_plots)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)  # before napoleon
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
