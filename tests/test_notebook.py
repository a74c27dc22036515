"""HTML of objects in notebooks."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from idbandits.agent.warmup import WarmUpReport
from idbandits.diagram.diagram import MOST_DRAWN
from idbandits.notebook import MOST_COLUMNS, MOST_LETTERS, MOST_ROWS, html_table, html_text


class Read(HTMLParser):
    """Cells, tags and other texts of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.note = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "img":
            return
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self._open and self._open[-1] == "p":
            self.note += data


def test_labels_are_escaped_everywhere() -> None:
    bad = "<script>alert('&')</script>"
    for rows in ([{bad: bad}], pd.DataFrame({bad: [bad]})):
        read = Read(html_table(rows, bad))
        assert read.rows == [[bad], [bad]]
        assert "script" not in read.tags
    assert Read(html_text(bad)).tags == {"pre"}


@pytest.mark.parametrize("empty", [[], pd.DataFrame(), iter(())], ids=["list", "frame", "iterator"])
def test_without_rows_there_is_an_empty_table(empty) -> None:
    read = Read(html_table(empty))
    assert read.rows == [[]]
    assert read.note == ""


@pytest.mark.parametrize("kind", [pd.DataFrame, list, iter])
def test_long_tables_end_with_the_number_of_rows_that_are_not_shown(kind) -> None:
    read = Read(html_table(kind([{"k": k} for k in range(1234 + MOST_ROWS)])))
    assert read.rows[1:] == [[str(k)] for k in range(MOST_ROWS)]
    assert read.note == "… and 1,234 more rows"
    assert len(Read(html_table(kind([{"k": k} for k in range(5)]), most=3)).rows) == 4


def test_wide_tables_and_long_cells_are_shortened() -> None:
    read = Read(html_table([{f"c{k}": "x" * 1000 for k in range(MOST_COLUMNS + 1)}]))
    assert {len(row) for row in read.rows} == {MOST_COLUMNS}
    assert {len(cell) for cell in read.rows[1]} == {MOST_LETTERS}
    assert read.note == "… and 1 more column"


def test_numbers_are_rounded_and_other_cells_are_texts() -> None:
    row = {"a": 1 / 3, "b": 12345678, "c": np.float32(12345.678), "d": np.nan, "e": True, "f": None, "g": 1e300}
    assert Read(html_table([row])).rows[1] == ["0.3333", "12,345,678", "12,346", "nan", "True", "None", "1e+300"]
    assert Read(html_table(pd.DataFrame([row]))).rows[1][:2] == ["0.3333", "12,345,678"]


def test_rows_may_have_different_columns() -> None:
    assert Read(html_table([{"a": 1}, {"b": 2}])).rows == [["a", "b"], ["1", ""], ["", "2"]]


def test_there_are_no_colours_and_no_files() -> None:
    text = html_table([{"a": 1}], "caption") + html_text("a")
    assert not any(word in text for word in ("color", "style", "src", "href", "class"))


BAD = "<script>alert('&')</script>"


def test_diagrams_are_pictures_with_a_description() -> None:
    d = idb.models.semi_bandit([BAD, "tea"], 2)
    d.name = BAD
    text = d._repr_html_()
    assert Read(text).tags == {"img", "pre"}
    found = re.search(r"src=\"data:image/svg\+xml;base64,([^\"]+)\"", text)
    assert found is not None
    picture = ElementTree.fromstring(base64.b64decode(found[1]))
    assert picture.tag.endswith("svg")
    assert not [element for element in picture.iter() if element.tag.endswith("script")]


def test_large_diagrams_are_not_drawn() -> None:
    d = idb.Diagram("large")
    for k in range(MOST_DRAWN + 1):
        d.decision(f"A{k}", 2)
    assert Read(d._repr_html_()).tags == {"pre"}


def test_findings_are_rows_the_serious_ones_first() -> None:
    d = idb.Diagram(BAD)
    d.reward(d.latent("luck", [d.decision("coin", 2)]))
    read = Read(d.check()._repr_html_())
    assert read.rows[1][:2] == ["!", "reward"]
    assert "script" not in read.tags
    assert len(read.rows) == 1 + len(d.check().findings)


def result(runs: int) -> idb.Result:
    """Return a result of a learner."""
    rows = {"learner": BAD, "run": range(runs), "round": 10, "reward": 2.0, "regret": 5.0, "seconds": 0.1}
    settings = {"world": BAD, "learners": [BAD], "rounds": 10, "runs": 2, "seed": 0, "interrupted": True}
    return idb.Result(pd.DataFrame(rows), settings)


@pytest.mark.parametrize("runs", [0, 2])
def test_results_are_their_summary_also_without_runs(runs: int) -> None:
    read = Read(result(runs)._repr_html_())
    assert read.rows[0][:2] == ["learner", "runs"]
    assert read.rows[1][:2] == [BAD, str(runs)]
    assert "script" not in read.tags


def agent_of_items() -> idb.Thompson:
    """Return an agent whose labels contain HTML, with two rounds."""
    agent = idb.Thompson(idb.models.cascade([BAD, "tea", "rice"], 2), "exact", seed=0)
    agent.update_many({"A1": [BAD, "tea"], "A2": ["tea", BAD]}, {"C1": [0, 1], "C2": [1, 0]})
    return agent


def priced() -> idb.Thompson:
    """Return an agent that learned a regression on a column whose name contains HTML."""
    prices = pd.DataFrame({BAD: [1.0, 2.0, 3.0]}, index=["tea", "milk", "rice"])
    d = idb.Diagram("menu")
    d.reward(d.observed("sold", [d.decision("item", list(prices.index))], idb.Learned("sold", features=prices)))
    return idb.Thompson(d, "exact", seed=0)


LOG = {"A1": [BAD, "tea"] * 50, "C1": [1, 0] * 50}


def reports() -> dict[str, tuple[object, list[str], int]]:
    """Return objects with the titles of their first columns and their numbers of rows."""
    agent = agent_of_items()
    log = agent.update_many({"A1": ["tea"], "A2": ["rice"]}, {"C1": [1], "C2": [1]}, impossible="skip")
    moved = agent.moved_to(idb.models.cascade([BAD, "tea"], 2))
    d = idb.models.cascade([BAD, "tea"], 1)
    counts = idb.count(d, LOG | {"A1": [BAD, "wine"] * 50})
    action = {"A1": BAD, "A2": "tea"}
    regression = priced().posterior()["sold"].regression
    score = idb.score(idb.fit(d, LOG, seed=0), LOG)
    value = idb.evaluate({"A1": BAD}, LOG, d, propensity="uniform", seed=0)
    return {
        "posterior": (agent.posterior()["attraction"], ["row", "mean"], 3),
        "marginals": (agent.marginals(), ["choice", "A1", "A2"], 3),
        "propensity": (agent.propensity(action), ["probability", "standard_error", "upper"], 1),
        "log report": (log, ["rounds learned", "impossible"], 1),
        "carried": (moved.carried, ["table", "kept", "new", "retired"], 1),
        "warm-up": (WarmUpReport(3, 0, 0.5), ["kernels", "new", "seconds"], 1),
        "read report": (counts.report, ["reason", "rounds", "example"], 1),
        "regression": (regression, ["feature", "mean"], 2),
        "score": (score, ["node", "rounds"], 2),
        "comparison": (idb.compare({BAD: d}, LOG, folds=2), ["model", "log_likelihood"], 3),
        "evaluation": (value, ["estimator", "value", "low", "high"], len(value.estimates)),
    }


def test_reports_are_tables_with_escaped_labels() -> None:
    for name, (report, columns, rows) in reports().items():
        read = Read(report._repr_html_())
        assert read.rows[0][: len(columns)] == columns, name
        assert len(read.rows) == 1 + rows, name
        assert read.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "pre"}, name


def test_posteriors_are_the_rows_of_their_frame() -> None:
    read = Read(agent_of_items().posterior()["attraction"]._repr_html_())
    assert [row[0] for row in read.rows[1:]] == [BAD, "tea", "rice"]
    assert read.rows[2][:2] == ["tea", "0.75"]


def test_reports_of_nothing_are_sentences() -> None:
    agent = agent_of_items()
    assert Read(agent.fit_report()._repr_html_()).tags == {"pre"}
    assert Read(idb.count(agent.diagram, {"A1": ["tea"], "A2": ["rice"], "C1": [1]}).report._repr_html_()).tags == {
        "pre"
    }


def test_fit_reports_are_sentences_and_their_comparisons() -> None:
    d = idb.Diagram(BAD)
    coin = d.decision("coin", 2)
    d.reward([d.observed("first", [coin]), d.observed("second", [coin])], lambda first, second: first + second)
    agent = idb.Thompson(d, seed=0)
    agent.update_many({"coin": [0] * 200}, {"first": [0, 1] * 100, "second": [0, 1] * 100})
    report = agent.fit_report()
    read = Read(report._repr_html_())
    assert not report.fits
    assert "does not fit" in report._repr_html_()
    assert len(read.rows) == 1 + len(report.frame)
