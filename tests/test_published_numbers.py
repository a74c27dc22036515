"""Published numbers: pages agree with the committed result files, and these with the current library."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import threading
from collections import Counter
from typing import Any

import pandas as pd
import pytest

from benchmarks import __main__ as runner
from benchmarks import pages
from benchmarks.figures import NUMBERS, Paper, Sources, Tables, tables_in
from benchmarks.pages import MARKED, collected, differences, dumped, marked, refilled
from idbandits.reproduction.claims import HOLDS
from idbandits.reproduction.problems import AS_WRITTEN, FIGURES, TABLE, VI
from idbandits.reproduction.runs import Cell, Prepared, Settings

PAGE = """# Page

| a | b |
|---|---|
| 1 | old |

Between | the tables.

| | c |
|:--|--:|
| x | 5 |
| y | 6 |
End.
"""
UNTESTED = {
    "evaluation",
    "networks",
    "bandit_peers",
    "features_peers",
    "features_yelp",
    "logs",
}  # need other libraries, or data
RENEW = "run `make numbers` (3 minutes), read the diff, and correct the prose around it"


def test_pages_agree_with_the_result_files() -> None:
    assert differences() == [], RENEW


def test_every_number_is_marked_in_a_page() -> None:
    texts = [path.read_text() for path in (pages.README, *pages.DOCS.rglob("*.md"))]
    keys = {key for text in texts for key, _ in MARKED.findall(text)}
    assert keys == set(NUMBERS)


def test_a_changed_number_is_reported(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(pages.DOCS, tmp_path / "docs")
    paper = (pages.DOCS / "explanation" / "paper.md").read_text().replace("| 1,990.5 |", "| 1,990.6 |")
    (tmp_path / "docs" / "explanation" / "paper.md").write_text(paper)
    (tmp_path / "README.md").write_text(pages.README.read_text().replace("<!--=hold-->", "<!--=hold-->1"))
    monkeypatch.setattr(pages, "README", tmp_path / "README.md")
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    assert [line.partition(": ")[0] for line in differences()] == ["README.md", "paper.md"]


def test_every_benchmark_topic_is_cited() -> None:
    titles = {
        importlib.import_module(f"benchmarks.{name}").TOPIC.title for name in runner.TOPICS if name not in UNTESTED
    }
    cited = " ".join(path.read_text() for path in (pages.README, *pages.DOCS.rglob("*.md")))
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    assert {anchor for anchor in anchors if f"results.md#{anchor}" not in cited} == set()


def test_finished_topics_are_not_measured_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(name: str, quick: bool, data: Any) -> Any:
        if name == "allowed" and not measured.count("allowed"):
            measured.append(name)
            raise KeyboardInterrupt
        measured.append(name)
        return {"title": name, "section": f"## {name}\n\n| a | b |\n|---|---|\n| 1 | 2 s |\n", "seconds": 61.0}

    shutil.copytree(pages.ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "measure", measure)
    out = tmp_path / "benchmarks" / "results.md"
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", "circuits", "--only", "allowed", "--out", str(out)])
    assert runner.main() == 130
    assert runner.main() == 0
    assert measured == ["circuits", "allowed", "allowed"]
    assert Tables(out.read_text()).rows("circuits") == [{"a": "1", "b": "2 s"}]
    assert runner.expected_seconds() == {"circuits": 61.0, "allowed": 61.0}


def test_claims_that_do_not_hold_are_explained() -> None:
    """docs/explanation/paper.md explains which claims of the paper do not hold."""
    open_claims = {claim.claim: claim.verdict for claim in Paper.load().verdicts() if claim.verdict != HOLDS}
    assert open_claims == {
        "cascade model 1: idTSvi earns more than CascadeKL-UCB": "within noise",
        "cascade model 2: idTSinc varies more from run to run than idTSvi": "within noise",
        "position-based model 2: idTSinc varies more from run to run than idTSvi": "within noise",
        "Table 1: idTSinc earns 0.983 ± 0.006": "does not hold",
        "Table 1: PF (5 particles) earns 0.835 ± 0.019": "does not hold",
        "Table 1: PF (10 particles) earns 0.878 ± 0.015": "does not hold",
        "Table 1: idTSvi takes longest, idTSinc much less": "does not hold",
    }, "correct docs/explanation/paper.md and this list"


PLAYED = [panel for figure in FIGURES if figure.key in ("2", "B1") for panel in figure.panels]


@pytest.mark.parametrize("panel", PLAYED, ids=lambda panel: panel.key)
def test_a_repeated_run_agrees_with_the_result_file(panel: Any) -> None:
    paper = Paper.load()
    for learner in panel.learners:
        published = paper.cells[panel.problem, learner]
        cell = Cell(panel.problem, learner)
        prepared = Prepared(cell, Settings(published["rounds"], len(published["reward"]), paper.data["seed"]))
        run = prepared.run(0, threading.Event(), lambda _: None)
        assert run is not None
        wanted = [published["reward"][0], published["regret"][0]]
        assert run.totals[-1, :2].tolist() == pytest.approx(wanted, rel=1e-9, abs=1e-5), f"{learner}: {RENEW}"


def test_the_result_file_contains_commit_and_versions() -> None:
    data = Paper.load().data
    assert len(data["commit"].rstrip("+")) == 40
    assert set(data["versions"]) == {"idbandits", "numpy", "scipy", "numba"}
    assert all(len(cell["reward"]) in (2, 20) for cell in data["cells"])
    assert not [
        cell for cell, number in Counter((c["problem"], c["learner"]) for c in data["cells"]).items() if number > 1
    ]


def test_results_are_collected_from_a_report(tmp_path: Any) -> None:
    rows = [
        (TABLE.key, "cascade 1", learner, run, number, number * 0.5 + run, number * 0.25, number * 1e-3)
        for learner, rounds in ((VI, (10, 20)), (AS_WRITTEN, (5, 10)))
        for run in (1, 0)
        for number in rounds
    ]
    columns = ["experiment", "problem", "learner", "run", "round", "reward", "regret", "seconds"]
    again = [("2a", *row[1:]) for row in rows if row[2] == VI]  # also in another figure
    pd.DataFrame(rows + again, columns=columns).to_parquet(tmp_path / "results.parquet")
    data = collected(tmp_path)
    assert json.loads(dumped(data)) == data
    assert data["as_written"] == {"rounds": 10, "seconds": 0.01, "seconds_of_ours": 0.01}
    assert data["cells"] == [
        {"problem": "cascade 1", "learner": VI, "rounds": 20, "reward": [10.0, 11.0], "regret": [5.0, 5.0],
         "seconds": [0.02, 0.02]},
        {"problem": "cascade 1", "learner": AS_WRITTEN, "rounds": 10, "reward": [5.0, 6.0], "regret": [2.5, 2.5],
         "seconds": [0.01, 0.01]},
    ]  # fmt: skip
    summary = Paper(data).summary("cascade 1", VI)
    assert summary is not None
    assert (summary["reward_mean"], summary["reward_se"], summary["runs"]) == pytest.approx((0.525, 0.025, 2))


def test_numbers_of_tables_by_hand() -> None:
    text = """## Replaced items

| model | ratio | time of a move |
|-------|------:|---------------:|
| semi-bandit | 0.32 ± 0.02 | 7.24 ms |
| cascade | 0.365 ± 0.02 | 900 µs |
| one latent node | – | 582 ms |
"""
    sources = Sources(Paper({"cells": []}), Tables(text))
    assert NUMBERS["moved"](sources) == "0.32 to 0.37"
    assert NUMBERS["a move"](sources) == "1 to 7"


def test_marked_numbers_are_replaced_and_nothing_else_changes() -> None:
    text = "a <!--=x-->1<!--/--> b <!--=y, z-->old\nold<!--/--> c"
    assert marked(text, {"x": "2", "y, z": "new"}.__getitem__) == "a <!--=x-->2<!--/--> b <!--=y, z-->new<!--/--> c"
    for broken in ("<!--=x-->1", "1<!--/-->", "<!--=x-->1 <!--=y-->2<!--/-->"):
        with pytest.raises(SystemExit, match="has no end"):
            marked(broken, lambda _: "2")


def test_tables_are_found() -> None:
    assert tables_in(PAGE) == [[["a", "b"], ["1", "old"]], [["", "c"], ["x", "5"], ["y", "6"]]]


def test_one_table_is_refilled_and_nothing_else_changes() -> None:
    changed = refilled(PAGE, ["a", "b"], lambda old: [[*old[0][:1], "new"], ["2", "more"]])
    assert changed == PAGE.replace("| 1 | old |", "| 1 | new |\n| 2 | more |")
    assert refilled(PAGE, ["", "c"], lambda old: old) == PAGE


def test_a_missing_table_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no table has the columns a, c"):
        refilled(PAGE, ["a", "c"], lambda old: old)
