"""The built site in site/html (`make docs`): names, links, lengths, pictures, search without a server, accessibility."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from urllib.parse import unquote

import pytest

from browser import Browser, browser, chromium
from public_names import public

SITE = Path(__file__).parents[2] / "site" / "html"
PAGES = (  # one of each kind
    "index", "getting-started/which-model", "tutorials/first-steps", "how-to/drift", "reference/http-api",
    "reference/glossary", "generated/api/Thompson", "generated/api/Thompson.act", "generated/api/errors",
    "generated/commands/evaluate", "generated/examples/news_page", "generated/results/live-service",
    "explanation/paper", "explanation/architecture", "generated/gallery/index", "generated/gallery/plot_drift", "search",
)  # fmt: skip
IN_DARK = ("index", "tutorials/first-steps", "how-to/drift", "generated/api/Thompson", "generated/gallery/plot_drift")
MOST_WORDS = 1800
BLOCKS = {"p", "li", "td", "th", "dt", "dd", "div", "pre", "h1", "h2", "h3", "h4", "br"}
WIDTHS = (390, 1400)
SERIOUS = ("serious", "critical")

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs")
needs_browser = pytest.mark.skipif(chromium() is None, reason="no Chromium")


class Page(HTMLParser):
    """Links, anchors, pictures, loaded files and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors, self.pictures, self.loaded = list[str](), set[str](), list[dict](), list[str]()
        self.text, self._is_article = "", False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Store what a tag refers to."""
        own = {name: value or "" for name, value in attributes}
        self._is_article |= tag == "article"
        self.text += " " * (tag in BLOCKS)
        self.anchors |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        if tag == "img":
            self.pictures.append(own)
        if tag in ("script", "img", "link", "iframe", "source"):
            self.loaded += [own[name] for name in ("src", "href") if name in own and own.get("rel") != "canonical"]

    def handle_endtag(self, tag: str) -> None:
        """Notice the end of the article."""
        self._is_article &= tag != "article"

    def handle_data(self, data: str) -> None:
        """Store the text of the article."""
        self.text += data * self._is_article


@pytest.fixture(scope="module")
def site() -> dict[Path, Page]:
    """Return all pages."""
    return {path: Page(path) for path in SITE.rglob("*.html") if "_static" not in path.parts}


def test_every_public_name_is_in_the_inventory() -> None:
    head, _, rest = (SITE / "objects.inv").read_bytes().partition(b"using zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2")
    known = {line.split()[0] for line in zlib.decompress(rest).decode().splitlines() if " py:" in line}
    own = public()
    documented = {own[name] for name in own if name in known}
    assert [name for name in own if name not in known and own[name] not in documented] == []


def test_links_lead_to_pages_and_headings(site: dict[Path, Page]) -> None:
    broken = []
    for path, page in site.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            other = (path.parent / target.partition("?")[0]).resolve() if target else path
            if not other.exists() or (anchor and other in site and anchor not in site[other].anchors):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_pages_are_short(site: dict[Path, Page]) -> None:
    lengths = {path.relative_to(SITE).as_posix(): len(page.text.split()) for path, page in site.items()}
    assert lengths["how-to/drift.html"] > 500
    assert {name: words for name, words in lengths.items() if words > MOST_WORDS} == {}


def test_pictures_have_alternative_texts(site: dict[Path, Page]) -> None:
    thumbnails = "sphx_glr_"  # their title follows
    missing = [
        (path.name, own["src"])
        for path, page in site.items()
        for own in page.pictures
        if not own.get("alt") and not (own.get("alt") == "" and Path(own["src"]).name.startswith(thumbnails))
    ]
    assert missing == []


def test_nothing_is_loaded_from_other_hosts(site: dict[Path, Page]) -> None:
    outside = {address for page in site.values() for address in page.loaded if re.match(r"(https?:)?//", address)}
    assert outside == set()
    styles = {path.name: path.read_text(encoding="utf-8") for path in SITE.rglob("*.css")}
    assert [name for name, text in styles.items() if re.search(r"(@import|url\()\s*[\"']?(https?:)?//", text)] == []


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a browser."""
    with browser(tmp_path_factory.mktemp("profile")) as own:
        yield own


def existing() -> list[str]:
    """Return the pages to look at that there are."""
    return [page for page in PAGES if (SITE / f"{page}.html").exists()]


@needs_browser
@pytest.mark.parametrize("page", existing())
def test_pages_fit_the_width_and_load_nothing_else(tab: Browser, page: str) -> None:
    for width in WIDTHS:
        tab.look(width=width)
        tab.open((SITE / f"{page}.html").as_uri())
        assert tab.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert tab.errors() == []
    assert {address.partition(":")[0] for address in tab.requests()} <= {"file", "data"}


@needs_browser
@pytest.mark.parametrize(
    ("page", "dark"), [(page, dark) for page in existing() for dark in (False, True) if not dark or page in IN_DARK]
)
def test_accessibility_has_no_serious_findings(tab: Browser, page: str, dark: bool) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: pip install 'idbandits[docs]'")
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    tab.look(width=1400, dark=dark)
    tab.open((SITE / f"{page}.html").as_uri())
    tab.until("document.getAnimations().every(own => own.playState !== 'running')")  # colours change slowly
    tab.value(axe + ";0")
    found = tab.value(
        "axe.run(document, {resultTypes: ['violations']}).then(own => own.violations.map(violation => "
        "[violation.impact, violation.id, violation.nodes.slice(0, 3).map(node => node.html.slice(0, 200))]))"
    )
    assert [finding for finding in found if finding[0] in SERIOUS] == []


@needs_browser
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("half-life", "how-to/drift.html"),
        ("propensity", "reference/evaluation.html"),
        ("Thompson", "Thompson.html"),
        ("sold out", "how-to/eligible-items.html"),
        ("late purchase", "how-to/delayed-conversions.html"),
        ("csv log", "how-to/from-a-log-to-an-agent.html"),
        ("gain holdout", "how-to/serving.html"),
        ("DiagramWarning", "reference/diagrams.html"),
        ("latex", "how-to/publish-an-experiment.html"),
        ("dask", "how-to/run-on-a-cluster.html"),
        ("position bias", "how-to/rank-with-position-bias.html"),
        ("several processes", "how-to/several-processes.html"),
        ("two-stage", "how-to/two-stage-decisions.html"),
    ],
)
def test_search_works_without_a_server(tab: Browser, words: str, page: str) -> None:
    tab.look(width=1400)
    tab.open((SITE / "search.html").as_uri() + f"?q={words}")
    tab.until("document.querySelector('.search-summary')?.innerText.includes('finished')")
    links = tab.value("[...document.querySelectorAll('ul.search li a')].map(link => link.href.split('?')[0])")[:10]
    assert any(page in link for link in links)
