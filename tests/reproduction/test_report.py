"""Report: files, figures, tables and the page, from artificial findings."""

from __future__ import annotations

import base64
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from idbandits.reproduction import paper_report as report
from idbandits.reproduction.claims import verdicts
from idbandits.reproduction.paper_report import (
    Findings,
    draw,
    findings_of,
    looks,
    run_times,
    seconds_at,
    times_as_long,
    write,
)
from idbandits.reproduction.problems import (
    AS_WRITTEN,
    FIGURES,
    FULL,
    INC,
    KLUCB,
    LEARNERS,
    PAPER,
    PROBLEMS,
    ROUNDS,
    TABLE,
    VI,
    Contender,
    Figure,
    Panel,
    Problem,
)
from idbandits.reproduction.runs import Cell, Job, Settings
from idbandits.simulation.loop import Run
from idbandits.simulation.result_tables import shown
from idbandits.simulation.results import Result
from idbandits.simulation.simulate import CHECKPOINTS, marks_of

SETTINGS = Settings(1000, 3, 0)
COLUMNS = "experiment,problem,learner,runs,rounds,reward_mean,reward_se,regret_mean,regret_se,worst_regret,seconds_mean"
KEYS = {panel.key: panel for figure in FIGURES for panel in figure.panels} | {TABLE.key: TABLE}


def made_up(panels: list[Panel], settings: Settings = SETTINGS) -> Findings:
    """Return runs with rewards by learner and run, regrets like a square root, and a millisecond per round."""
    runs = {}
    rng = np.random.default_rng(0)
    for panel in panels:
        for name in panel.learners:
            cell = Cell(panel.problem, name)
            marks = marks_of(cell.rounds(settings), CHECKPOINTS)
            for number in range(cell.runs(settings)):
                if Job(cell, number) not in runs:
                    reward, regret = 0.5 + 0.1 * rng.random(), 1 + rng.random()
                    totals = np.stack([reward * marks, regret * np.sqrt(marks), 0.001 * marks], axis=1)
                    runs[Job(cell, number)] = Run(totals, 0)
    return findings_of(runs, settings, panels)


class Page(HTMLParser):
    """Parsed page; tags must be balanced."""

    EMPTY = ("meta", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        assert len(attributes) == len(attrs)
        if tag not in self.EMPTY:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "img":
            self.images.append(attributes)
        assert not {"srcset", "onclick", "onload", "style"} & set(attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def checked(out: Path, names: list[str]) -> Page:
    """Return the page in a folder, after checking that it needs only the files beside it."""
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    text = (out / "index.html").read_text()
    assert "@import" not in text
    assert "url(" not in text
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "embed"} & set(page.tags)
    assert len(set(page.ids)) == len(page.ids)
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (out / link).is_file(), link
    for image in page.images:
        assert image["alt"]
        kind, _, content = str(image["src"]).partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(content, validate=True).startswith(b"\x89PNG")
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b|\{\{|\{%", page.text)
    return page


def test_the_page_does_not_claim_more_than_was_run(tmp_path: Path) -> None:
    def page_of(name: str, keys: list[str], settings: Settings = SETTINGS) -> str:
        (tmp_path / name).mkdir()
        write(made_up([KEYS[key] for key in keys], settings), tmp_path / name, "", "", None)
        return " ".join((tmp_path / name / "index.html").read_text().split())

    papers = [panel.key for figure in FIGURES[:2] for panel in figure.panels]
    part = page_of("part", ["3b"])
    complete = page_of("complete", [*papers, TABLE.key], Settings(ROUNDS, 2, 0))
    assert "<p>Experiments of Yu" in part
    assert "<p>All experiments of Yu" in complete
    assert "The paper speaks of runs of 20,000 rounds; after 1,000, claims may turn out differently." in part
    assert "The paper speaks" not in complete
    assert '<figure class="panel">' in part  # a single panel is not stretched over the page
    assert '<figure class="panel">' not in complete


# -- findings ------------------------------------------------------------------------------------------------------


def test_the_summary_has_one_row_per_learner_of_each_panel() -> None:
    panels = [KEYS["2a"], KEYS["3a"], TABLE]
    findings = made_up(panels)
    summary = findings.summary
    assert ",".join(summary.columns) == COLUMNS
    assert list(zip(summary["experiment"], summary["learner"], strict=True)) == [
        (panel.key, name) for panel in panels for name in panel.learners
    ]
    vi = summary[summary["learner"] == VI].drop(columns="experiment")
    assert len(vi) == 3
    assert len(vi.drop_duplicates()) == 1
    last = findings.results[panels[0]].frame.query("learner == @VI and round == 1000")
    assert vi["reward_mean"].iloc[0] == pytest.approx(last["reward"].mean() / 1000)
    assert vi["reward_se"].iloc[0] == pytest.approx(last["reward"].std(ddof=1) / 1000 / 3**0.5)
    assert vi["regret_mean"].iloc[0] == pytest.approx(last["regret"].mean())
    assert vi["worst_regret"].iloc[0] == last["regret"].max()
    assert vi["seconds_mean"].iloc[0] == pytest.approx(1.0)
    short = summary[summary["learner"] == AS_WRITTEN].iloc[0]
    assert (short["runs"], short["rounds"]) == (1, 100)


def test_one_learner_on_two_problems_is_not_mixed_up() -> None:
    findings = made_up([KEYS["2a"], KEYS["2b"]])
    rewards = findings.summary.query("learner == @VI").set_index("problem")["reward_mean"]
    table = findings.tidy()
    for problem, reward in rewards.items():
        rows = table[(table["problem"] == problem) & (table["learner"] == VI)]
        assert reward == pytest.approx(rows[rows["round"] == 1000]["reward"].mean() / 1000)
    assert rewards.nunique() == 2
    assert set(findings.results[KEYS["2a"]].frame["learner"]) == set(KEYS["2a"].learners)


def test_runs_are_put_in_order_whatever_order_they_come_in() -> None:
    panel = KEYS["2a"]
    marks = marks_of(1000, CHECKPOINTS)
    runs = {
        Job(Cell(panel.problem, name), number): Run(np.full((len(marks), 3), float(number)), 0)
        for number in (2, 0, 1)
        for name in reversed(panel.learners)
    }
    frame = findings_of(runs, SETTINGS, [panel]).tidy()
    assert (frame["reward"] == frame["run"]).all()
    assert frame["round"].tolist() == marks.tolist() * 12
    assert frame["learner"].drop_duplicates().tolist() == list(panel.learners)
    assert frame[frame["learner"] == VI]["run"].drop_duplicates().tolist() == [0, 1, 2]


# -- figures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_figures_have_one_line_and_one_band_per_learner(figure: Figure) -> None:
    findings = made_up(list(figure.panels))
    picture = draw(figure, findings)
    axes = [ax for ax in picture.axes if ax.get_visible()]
    assert len(axes) == len(figure.panels)
    summary = findings.summary.set_index(["experiment", "learner"])
    styles: dict[str, set[Any]] = {}
    for panel, ax in zip(figure.panels, axes, strict=True):
        assert PROBLEMS[panel.problem].title in ax.get_title(loc="left")
        lines = {str(line.get_label()): line for line in ax.lines}
        assert set(lines) == set(panel.learners)
        assert len(ax.collections) == len(lines)
        for band, (name, line) in zip(ax.collections, lines.items(), strict=True):
            row = summary.loc[panel.key, name]
            x, y = line.get_xdata()[-1], line.get_ydata()[-1]
            assert (x, y) == (row["rounds"], pytest.approx(row[f"{figure.measure}_mean"]))
            corners = band.get_paths()[0].vertices
            ends = corners[corners[:, 0] == x][:, 1]
            assert ends.min() == pytest.approx(y - row[f"{figure.measure}_se"])
            assert ends.max() == pytest.approx(y + row[f"{figure.measure}_se"])
            styles.setdefault(name, set()).add((line.get_color(), line.get_linestyle(), line.get_marker()))
        assert ax.get_yscale() == ("log" if figure.measure == "regret" else "linear")
        low, high = ax.get_ylim()
        assert all(low <= line.get_ydata()[-1] <= high for line in lines.values())
    assert all(len(style) == 1 for style in styles.values())
    assert len(set.union(*styles.values())) == len(styles)  # no two look alike
    [legend] = picture.legends
    assert {text.get_text() for text in legend.get_texts()} == set(styles)


def test_the_papers_three_look_the_same_in_all_figures() -> None:
    for figure in FIGURES:
        assert [looks(figure)[name] for name in (FULL, VI, INC)] == [0, 1, 2]


def test_only_panels_that_were_run_are_drawn() -> None:
    for keys in (["2c"], ["2a", "2e"], ["2a", "2b", "2c", "2d"], ["B3d"]):
        figure = next(figure for figure in FIGURES if KEYS[keys[0]] in figure.panels)
        picture = draw(figure, made_up([KEYS[key] for key in keys]))
        axes = [ax for ax in picture.axes if ax.get_visible()]
        assert [ax.get_title(loc="left")[1] for ax in axes] == [key[-1] for key in keys]
        assert {text.get_text() for text in picture.legends[0].get_texts()} == {
            name for key in keys for name in KEYS[key].learners
        }


# -- table 1 -------------------------------------------------------------------------------------------------------


def test_run_times_beside_the_papers() -> None:
    settings = Settings(20_000, 10, 0)
    rows = run_times(made_up([TABLE], settings))
    assert [row["learner"] for row in rows] == [*TABLE.learners[:-1], f"{AS_WRITTEN}, 2,000 rounds"]
    first, last = rows[0], rows[-1]
    assert first["paper_seconds"] == "1,990.5 ± 19.7"
    assert first["paper_reward"] == "0.999 ± 0.001"
    assert first["seconds"] == "20"
    assert first["ratio"] == "100 times"
    assert rows[2]["ratio"] == "5.9 times"  # 117.856 s
    assert last["ratio"].startswith("1 times: idTSvi takes 2 s for as many")
    assert run_times(made_up([KEYS["2a"]])) == []


def test_fewer_rounds_than_the_papers_are_not_called_faster() -> None:
    rows = run_times(made_up([TABLE]))
    assert {row["ratio"] for row in rows[:-1]} == {"–"}
    assert "times" in rows[-1]["ratio"]


def test_a_clock_that_is_too_coarse() -> None:
    findings = made_up([TABLE], Settings(20_000, 10, 0))
    result = findings.results[TABLE]
    still = Result(result.frame.assign(seconds=0.0), result.settings)
    rows = run_times(Findings({TABLE: still}, findings.settings))
    assert {row["ratio"].partition(":")[0] for row in rows} == {"–"}


def test_seconds_between_checkpoints() -> None:
    frame = pd.DataFrame({"learner": "A", "run": [0, 0, 1, 1], "round": [10, 20] * 2, "seconds": [1.0, 3.0, 3.0, 5.0]})
    assert seconds_at(frame, "A", 20) == 4.0
    assert seconds_at(frame, "A", 15) == 3.0
    assert seconds_at(frame, "A", 5) == 1.0


@pytest.mark.parametrize(("slow", "text"), [(123_456, "120,000"), (99.6, "100"), (12.34, "12"), (3.78, "3.8"), (0.126, "0.13")])  # fmt: skip
def test_ratios_of_times_have_two_digits(slow: float, text: str) -> None:
    assert times_as_long(slow, 1.0) == f"{text} times"


# -- all files -----------------------------------------------------------------------------------------------------

ALWAYS = ["index.html", "results.parquet", "summary.csv"]


def test_a_complete_report(tmp_path: Path) -> None:
    findings = made_up(list(KEYS.values()), Settings(500, 2, 7))
    figure_files = [f"figure-{figure.key}.{kind}" for figure in FIGURES for kind in ("png", "svg")]
    names = write(findings, tmp_path, "This start took 1 s.", "idbandits paper --seed 7", None)
    assert sorted(names) == sorted([*ALWAYS, *figure_files])
    page = checked(tmp_path, names)
    assert len(page.images) == len(FIGURES)
    lines = (tmp_path / "summary.csv").read_text().splitlines()
    assert lines[0] == COLUMNS
    assert len(lines) == 1 + sum(len(panel.learners) for panel in KEYS.values())
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "summary.csv"), findings.summary, check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), findings.tidy())
    for words in ("2 runs of 500 rounds each, seed 7.", "idbandits paper --seed 7", "This start took 1 s."):
        assert words in " ".join(page.text.split())
    for figure in FIGURES:
        assert figure.title in page.text
        assert figure.text in page.text
        for panel in figure.panels:
            assert f"{panel.key}: {PROBLEMS[panel.problem].title}; the best action earns" in page.text
    row = {"runs": 2, "rounds": SETTINGS.rounds, "reward_mean": 1, "reward_se": 1, "regret_se": 1, "seconds_mean": 1}
    claims = verdicts(lambda *_: row)
    assert f"These runs can test {len(claims)} of the paper's claims:" in " ".join(page.text.split())
    for claim in claims:
        assert claim.claim in page.text
    for kind in ("png", "svg"):
        content = (tmp_path / f"figure-2.{kind}").read_bytes()
        assert content.startswith(b"\x89PNG" if kind == "png" else b"<?xml")


def test_the_numbers_on_the_page_are_those_of_the_summary(tmp_path: Path) -> None:
    findings = made_up([KEYS["2a"]])
    write(findings, tmp_path, "", "", None)
    rows = re.findall(
        r"<tr><td>(.*?)</td><td>.*?</td>" + r'<td class="n">(.*?)</td>' * 4, (tmp_path / "index.html").read_text()
    )
    summary = findings.summary.to_dict("records")
    assert [row[0] for row in rows] == [row["learner"] for row in summary]
    for row, numbers in zip(rows, summary, strict=True):
        assert row[1] == shown(numbers, "reward")
        assert row[2] == shown(numbers, "regret")
        assert row[3] == f"{numbers['worst_regret']:,.0f}"
        assert float(row[4]) == pytest.approx(numbers["seconds_mean"], rel=0.05)


def test_the_same_findings_give_the_same_files(tmp_path: Path) -> None:
    findings = made_up([KEYS["B3d"]])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(findings, tmp_path / name, "", "", None)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("settings", [Settings(1, 1, 0), Settings(1, 3, 0), Settings(1000, 1, 0), Settings(2, 2, 0)])
@pytest.mark.parametrize("keys", [["2a"], ["table 1"], ["3c", "B3d"]], ids=" ".join)
def test_small_selections(tmp_path: Path, keys: list[str], settings: Settings) -> None:
    names = write(made_up([KEYS[key] for key in keys], settings), tmp_path, "", "", None)
    page = checked(tmp_path, names)
    assert len(pd.read_csv(tmp_path / "summary.csv")) == sum(len(KEYS[key].learners) for key in keys)
    if settings.runs == 1:
        assert "±" not in page.text or "table 1" in keys  # which has the paper's
        assert "does not hold" not in page.text  # one run shows nothing
        assert "standard error" not in page.text
    assert ("table-1" in page.ids) == ("table 1" in keys)


def theory() -> dict[str, Any]:
    from matplotlib.figure import Figure

    picture = Figure()
    picture.subplots().plot([1, 2])
    return {"text": "All <b>hold</b> & more.", "picture": picture, "columns": ("model", "n"), "rows": [["A", "1,000"]]}


@pytest.mark.parametrize("keys", [[], ["2a"]], ids=["alone", "beside 2a"])
def test_theory(tmp_path: Path, keys: list[str]) -> None:
    names = write(made_up([KEYS[key] for key in keys]), tmp_path, "", "", theory())
    page = checked(tmp_path, names)
    assert {"theory.png", "theory.svg", *ALWAYS} <= set(names)
    assert "All <b>hold</b> & more." in page.text
    assert "1,000" in page.text
    assert ("runs of" in page.text) == bool(keys)
    assert (tmp_path / "summary.csv").read_text().startswith(COLUMNS + "\n")
    assert set(pd.read_parquet(tmp_path / "results.parquet").columns) == {
        "experiment", "problem", "learner", "run", "round", "reward", "regret", "seconds",
    }  # fmt: skip


def test_odd_names_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "<b>A & 'B'</b> \"$x_1$\" 学"
    monkeypatch.setitem(LEARNERS, odd, Contender(LEARNERS[VI].make, PAPER, "<script>alert(1)</script>"))
    monkeypatch.setitem(PROBLEMS, "odd", Problem("<i>odd</i>", PROBLEMS["cascade 1"].make, PROBLEMS["cascade 1"].means))
    panel = Panel("Oa", "odd", (odd, KLUCB))
    figure = Figure("O", 'Figure O: "<u>', "reward", (panel,), "a < b & c")
    monkeypatch.setattr(report, "FIGURES", (figure,))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # fonts need not have it
        names = write(made_up([panel]), tmp_path, "<took>", "idbandits paper --figure '<x>'", None)
    page = checked(tmp_path, names)
    assert not {"b", "i", "u", "script", "took", "x"} & set(page.tags)
    for words in (odd, "<script>alert(1)</script>", "<i>odd</i>", "a < b & c", "<took>", "--figure '<x>'"):
        assert words in page.text
    assert pd.read_csv(tmp_path / "summary.csv")["learner"].tolist() == [odd, KLUCB]


def test_a_report_that_fails_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(made_up([KEYS["2a"]]), tmp_path, "", "first", None)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "verdicts", fail)
    with pytest.raises(KeyboardInterrupt):
        write(made_up([KEYS["2b"]]), tmp_path, "", "second", None)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_machine_is_named() -> None:
    assert re.fullmatch(r".+, \d+ cores, .+, Python \d\.\d+\.\d+", report.machine())
