"""Sources of the documentation site: every public name has a page, and generated texts are complete."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import idbandits
from idbandits.cli.main import COMMANDS
from idbandits.errors import IdbanditsError
from public_names import public

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 1800


@pytest.fixture(scope="module")
def extension() -> object:
    """Return a function that imports a module of the extension of Sphinx."""

    def load(name: str) -> ModuleType:
        sys.path.insert(0, str(DOCS / "extensions"))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.pop(0)

    return load


def test_every_public_name_has_a_directive_of_autodoc(extension) -> None:
    documented = {
        name: id(pkgutil.resolve_name(name))
        for text in extension("api_text").api_pages().values()
        for name in re.findall(r"^\.\. auto\w+:: (\S+)$", text, flags=re.MULTILINE)
    }
    assert len(documented) > 100
    missing = [name for name, own in public().items() if name not in documented and own not in documented.values()]
    assert missing == []


def test_models_and_errors_are_documented(extension) -> None:
    pages = extension("api_text").api_pages()
    functions = [
        name
        for name, value in vars(idbandits.models).items()
        if getattr(value, "__module__", "") == "idbandits.models" and callable(value) and name[0].islower()
    ]
    text = "\n".join(pages.values())
    assert [name for name in functions if f"idbandits.models.{name}\n" not in text] == []
    errors = [
        name
        for name, value in vars(idbandits.errors).items()
        if isinstance(value, type) and issubclass(value, (IdbanditsError, Warning))
    ]
    assert [name for name in errors if f"idbandits.errors.{name}\n" not in text] == []
    table = extension("error_text").error_tables()
    assert [name for name in errors if f"| `{name}` |" not in table] == []


def test_pages_of_names_have_different_files_on_all_systems(extension) -> None:
    files = [name.lower() for name in extension("api_text").api_pages()]
    assert len(set(files)) == len(files)


def test_every_command_and_option_is_listed(extension) -> None:
    pages = extension("command_text").command_pages()
    assert [*pages] == [f"{command.name}.md" for command in COMMANDS]
    assert all(text.startswith(f"# idbandits {name[:-3]}\n") for name, text in pages.items())
    assert "| `--propensity COLUMNS` |" in pages["evaluate.md"]
    assert "| `{create,list,revoke}` |" in pages["token.md"]


def test_long_classes_are_divided_and_no_member_is_lost(extension) -> None:
    pages = extension("api_text").api_pages()
    methods = [name for name in ("act", "update", "posterior", "save", "load") if f"Thompson.{name}.md" not in pages]
    assert methods == []
    assert "automethod:: idbandits.Thompson.act\n" in pages["Thompson.act.md"]
    assert ":members:" not in pages["Thompson.md"]
    assert ":members:" in pages["World.md"]


def test_every_route_and_message_is_listed(extension) -> None:
    from idbandits.service.http.openapi import openapi_document

    document, own = openapi_document(), extension("http_text")
    text = own.http_routes() + own.http_messages()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"\n**`{method.upper()} {path}`**\n" in text
    for message in document["components"]["schemas"]:
        assert f"\n## {message}\n" in text
    targets = set(re.findall(r"\]\(#([\w-]+)\)", text))
    assert targets - set(re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE)) == set()


def test_links_of_files_outside_of_docs_lead_to_pages(extension) -> None:
    own = extension("repository_text")
    text = own.with_site_links(
        "[a](docs/how-to/drift.md#x) [b](examples/) [c](Makefile) [d](#e)", ROOT / "README.md", DOCS / "contributing.md"
    )
    assert text == "[a](how-to/drift.md#x) [b](getting-started/examples.md) c [d](#e)"
    assert [page for page in own.PAGES.values() if "generated" not in page and not (DOCS / page).exists()] == []
    text = own.with_site_links(
        "[a](../gallery/plot_drift.py) [b](../../examples/news_page.py) [c](../../benchmarks/results.md#live-service) "
        "[d](../../benchmarks/results.md)",
        DOCS / "how-to" / "drift.md", DOCS / "how-to" / "drift.md",
    )  # fmt: skip
    assert text == (
        "[a](../generated/gallery/plot_drift.rst) [b](../generated/examples/news_page.md) "
        "[c](../generated/results/live-service.md) [d](../explanation/results.md)"
    )


def test_every_cited_section_of_results_has_a_page(extension) -> None:
    pages = extension("repository_text").result_pages()
    cited = {
        heading
        for page in DOCS.rglob("*.md")
        for heading in re.findall(r"benchmarks/results\.md#([\w-]+)", page.read_text())
    }
    assert len(cited) > 20
    assert sorted(cited - {name.removesuffix(".md") for name in pages}) == []


def test_docstrings_become_restructuredtext(extension) -> None:
    lines = ["Multiply `a` by 2*b, see x_ and docs/how-to/drift.md.", "", ">>> 2 * 3", "6", "", "a | b"]
    wanted = [r"Multiply ``a`` by 2\*b, see x\_ and :doc:`/how-to/drift`.", "", ">>> 2 * 3", "6", "", r"a \| b"]
    assert extension("docstring_text").rst(lines) == wanted


def pages() -> list[Path]:
    """Return the written pages."""
    return sorted(page for page in [*DOCS.rglob("*.md"), ROOT / "README.md"] if "generated" not in page.parts)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_pages_are_short_and_pictures_have_alternative_texts(page: Path) -> None:
    text = page.read_text()
    limit = 800 if page.name == "README.md" else MOST_WORDS
    assert len(text.split()) <= limit
    assert [target for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", text) if len(alt) < 20] == []


def test_terms_of_the_glossaries_are_unique() -> None:
    terms = []
    for page in ("glossary", "code-terms"):
        for block in re.findall(
            r"^```\{glossary\}\n(.*?)^```", (DOCS / "reference" / f"{page}.md").read_text(), re.M | re.S
        ):
            terms += [line for line in block.splitlines() if line and line[0] != " "]
    assert len(terms) > 100
    assert sorted({term for term in terms if terms.count(term) > 1}) == []


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set()
    for index in DOCS.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", index.read_text(), re.M | re.S):
            for entry in (line for line in block.splitlines() if line and line[0] != ":"):
                name = re.sub(r"^.* <(.*)>$", r"\1", entry)
                listed |= {path.resolve() for path in index.parent.glob(f"{name.removesuffix('*')}.md")}
    assert [page.name for page in pages() if page.name not in ("README.md", "index.md") and page not in listed] == []
