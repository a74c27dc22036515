"""Long logs, sessions of PyClick and events of OpenSearch are read as plain Python reads them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idbandits as idb
from idbandits.logs.read.open_log import open_log
from idbandits.logs.read.read_report import LogError
from log_files import ITEMS, SOURCES, Row, columns, compressed, delimited, json_lines, labelled, settings_of

FORM = idb.Long(session="s", position="p", item="i", observed={"C": "c"})
DUPLICATES, GAPS = "duplicate rows, of which one was read", "positions that are missing above others of the list"
BEYOND = "rows at positions beyond the 2 of the diagram, which were ignored"
NO_SESSION, NO_POSITION = "the session is missing", "a position is missing or not an integer >= 0"
CONFLICT = "two rows of one position have different values"
UNSTABLE = "a column that must be constant has different values in one session"
EMPTY = "(nothing)"


def shop(empty: bool = True) -> idb.Diagram:
    return idb.models.position_based(ITEMS, 2, empty=empty)


def pivoted(rows: Sequence[Row], positions: int = 2) -> tuple[list[tuple[Any, ...]], dict[str, int], dict[str, int]]:
    """Return the lists of sessions in order of appearance, with reasons and notes: the oracle.

    Positions are integers or None, other values texts or None.
    """
    numbers = [row["p"] for row in rows if row["p"] is not None and row["p"] >= 0]
    top = 0 if 0 in numbers else 1
    sessions = dict[Any, list[Row]]()
    for row in rows:
        sessions.setdefault(row["s"], []).append(row)
    read, skipped, notes = list[tuple[Any, ...]](), dict[str, int](), dict[str, int]()
    zeros = sum(any(row["p"] == 0 for row in own) for session, own in sessions.items() if session is not None)
    known = len(sessions.keys() - {None})
    if top == 0 and 2 * zeros < known:
        guess = f"position 0 occurs in {zeros} of {known} sessions and was read as the top one"
        notes[f"{guess}; first=1 or first=0 of the format decides"] = 1
    for session, own in sessions.items():
        cells = dict[int, list[Row]]()
        for row in own:
            if row["p"] is not None:
                cells.setdefault(row["p"] - top + 1, []).append(row)
        inside = {p: cell for p, cell in cells.items() if 1 <= p <= positions}
        for text, number in (
            (DUPLICATES, sum(len(cell) - 1 for cell in inside.values())),
            (BEYOND, sum(len(cell) for p, cell in cells.items() if p > positions)),
            (GAPS, max(0, min(max(cells, default=0), positions) - len(inside))),
            ("rows without a session", len(own) if session is None else 0),
        ):
            if number:
                notes[text] = notes.get(text, 0) + number
        conflict = any(
            len({row[name] for row in cell} - {None}) > 1 for cell in inside.values() for name in ("i", "c")
        )  # fmt: skip
        reason = None
        if session is None:
            reason = NO_SESSION
        elif any(row["p"] is None or row["p"] < top for row in own):
            reason = NO_POSITION
        elif conflict:
            reason = CONFLICT
        values = [
            next((row[name] for row in inside.get(p, []) if row[name] is not None), None)
            for name in ("i", "c") for p in range(1, positions + 1)
        ]  # fmt: skip
        shown, clicks = [EMPTY if own is None else own for own in values[:positions]], values[positions:]
        if reason is None:
            unknown = [k for k, item in enumerate(shown, 1) if item not in (*ITEMS, EMPTY)]
            if unknown:
                reason = f"'A{unknown[0]}' has a value that is not in the diagram"
            elif shown[0] == shown[1] != EMPTY:
                reason = "'A1' and 'A2' are equal, which all_different forbids"
        if reason is None:
            read.append((*shown, *(None if click is None else int(click in ("1", "true", "yes")) for click in clicks)))
        else:
            skipped[reason] = skipped.get(reason, 0) + 1
    return read, skipped, notes


CLICKS = [None, "0", "1", "true", "false", "yes", "no"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "s": st.sampled_from([None, "u", "v", "w", "ü"]), "p": st.sampled_from([None, 0, 1, 1, 2, 2, 3, -1]),
            "i": st.sampled_from([None, *ITEMS, "fig"]), "c": st.sampled_from(CLICKS),
        }
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_random_long_logs_are_pivoted_like_plain_rows(rows: list[Row]) -> None:
    expected, skipped, notes = pivoted(rows)
    opened = open_log(shop(), columns(rows), format=FORM)
    assert labelled(opened) == expected
    assert opened.report.skipped == skipped
    assert opened.report.notes == notes


def random_lists(seed: int, sessions: int = 40) -> list[Row]:
    """Return rows of shorter lists in random order, with duplicates, gaps and conflicts."""
    rng, rows = random.Random(seed), list[Row]()
    for k in range(sessions):
        for p, item in enumerate(rng.sample(ITEMS, rng.randrange(1, 4)), 1):
            if rng.random() < 0.9:
                rows.append({"s": f"s{k}", "p": p, "i": item, "c": rng.choice(["0", "1", "true", "no"])})
            if rows and rng.random() < 0.1:
                rows.append(dict(rows[-1]))
            if rows and rng.random() < 0.05:
                rows.append({**rows[-1], "i": "egg"})
    rng.shuffle(rows)
    return rows


@pytest.mark.parametrize("source", SOURCES)
def test_long_logs_of_every_source(source: str, tmp_path: Path) -> None:
    rows = random_lists(1)
    log = SOURCES[source](rows, tmp_path)
    opened = open_log(shop(), log, format=FORM, **settings_of(log))
    expected, skipped, notes = pivoted(rows)
    assert labelled(opened) == expected
    assert labelled(opened) == expected  # again
    assert opened.report.skipped == skipped
    assert opened.report.notes == notes


def test_the_top_position_is_found_or_given() -> None:
    def read(positions: list[Any], **own: Any) -> list[tuple[Any, ...]]:
        log = {"s": [1] * len(positions), "p": positions, "i": ITEMS[: len(positions)], "c": [0] * len(positions)}
        form = idb.Long(session="s", position="p", item="i", observed={"C": "c"}, **own)
        return [row[:2] for row in labelled(open_log(shop(), log, format=form))]

    assert read([0, 1]) == read([1, 2]) == read(["1", "2"]) == read([0.0, 1.0]) == [("ale", "bun")]
    assert read([2, 1]) == read([" 1 ", "0"]) == [("bun", "ale")]
    assert read([2]) == [(EMPTY, "ale")]
    assert read([1], first=0) == [(EMPTY, "ale")]
    assert read([2, 3], first=2) == [("ale", "bun")]
    for wrong in ("x", 1.5, -1, None, float("nan"), float("inf"), 10**30, "1e400"):
        assert read([1, wrong]) == []


def test_lists_end_early_with_and_without_empty_slots() -> None:
    log = {"s": ["u", "v", "v"], "p": [1, 1, 2], "i": ["ale", "bun", "ale"], "c": [1, 0, 1]}
    assert labelled(open_log(shop(), log, format=FORM)) == [("ale", EMPTY, 1, None), ("bun", "ale", 0, 1)]
    opened = open_log(shop(empty=False), log, format=FORM)
    assert labelled(opened) == [("ale", None, 1, None), ("bun", "ale", 0, 1)]
    assert opened.report.notes == {"rounds in which some decisions are missing": 1}


def test_items_of_several_columns_are_pairs_that_occur(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"s": 1, "p": 1, "query": "q", "doc": 7, "c": 1}, {"s": 1, "p": 2, "query": "q", "doc": 8, "c": 0},
        {"s": 2, "p": 1, "query": "r", "doc": 7, "c": 0}, {"s": 3, "p": 1, "query": None, "doc": 7, "c": 0},
    ]  # fmt: skip
    form = idb.Long(session="s", position="p", item=["query", "doc"], observed={"C": "c"})
    for log in (rows, columns(rows)):
        own = compressed(tmp_path / "log.csv.gz", delimited(rows).encode()) if log is rows else log
        opened = open_log(lambda pairs: idb.models.cascade(pairs, 2, empty=True), own, format=form, items="from log")
        assert opened.diagram.nodes["A1"].values == ("q|7", "q|8", "r|7", EMPTY)
        assert labelled(opened) == [("q|7", "q|8", 1, 0), ("r|7", EMPTY, 0, None), (EMPTY, EMPTY, 0, None)]
        replaced = open_log(idb.models.cascade(2, 2, empty=True), own, format=form, items="from log")
        assert labelled(replaced) == labelled(opened)


def test_sessions_of_several_columns_and_clusters() -> None:
    log = {
        "user": ["u", "u", "v", "v"], "visit": [1, 2, 1, 1], "p": [1, 1, 1, 2], "i": ["ale", "bun", "cod", "dip"],
        "c": [0, 1, 0, 1],
    }  # fmt: skip
    form = idb.Long(session=["user", "visit"], position="p", item="i", observed={"C": "c"})
    opened = open_log(shop(), log, format=form)
    assert [row[:2] for row in labelled(opened)] == [("ale", EMPTY), ("bun", EMPTY), ("cod", "dip")]
    assert len(set(opened.all().sessions.tolist())) == 3
    by_user = open_log(shop(), log, format=form, session="user").all().sessions.tolist()
    assert by_user[0] == by_user[1] != by_user[2]


def test_contexts_weights_and_further_columns_are_constant_in_a_session() -> None:
    d = idb.Diagram("shop")
    hour = d.context("hour", ["day", "night"])
    item = d.decision("A1", ITEMS)
    d.reward(d.observed("C1", [hour, item], idb.Learned("clicks")))
    log = {
        "s": [1, 1, 2, 3, 3, 4], "p": [1, 2, 1, 1, 2, 1], "i": ["ale", "bun", "cod", "dip", "egg", "ale"],
        "c": [1, 0, 0, 1, 1, 1], "h": ["day", "day", "night", "day", "night", None], "w": [2, 2, 3, 1, 1, 1],
        "t": [5.0, 4.0, 9.0, 1.0, 1.0, 1.0], "price": [7, 7, 8, 9, 9, 9],
    }  # fmt: skip
    form = idb.Long(session="s", position="p", item="i", observed={"C": "c"}, context={"hour": "h"})
    opened = open_log(d, log, format=form, weight="w", at="t", extra=["price"])
    rounds = opened.all()
    assert labelled(opened) == [("ale", "day", 1), ("cod", "night", 0)]
    assert opened.report.skipped == {UNSTABLE: 1, "context 'hour' is missing": 1}
    assert rounds.weights.tolist() == [2.0, 3.0]
    assert rounds.times.tolist() == [5.0, 9.0]  # of the first rows
    assert np.asarray(rounds.extra["price"]).tolist() == [7, 8]


def test_items_and_clicks_by_prefix_and_by_name() -> None:
    d, clicks = idb.Diagram("two kinds"), idb.Learned("clicks")
    for k in (1, 2):
        item, price = d.decision(f"item{k}", ITEMS), d.decision(f"price{k}", [1, 2])
        d.reward(d.observed(f"click{k}", [item, price], clicks))
    bought = d.observed("bought", [], 0.5)
    assert bought.name == "bought"
    log = {
        "s": [1, 1, 2], "p": [1, 2, 1], "doc": ["ale", "bun", "cod"], "eur": [1, 2, 2], "c": ["yes", "no", "yes"],
        "b": [1, 1, 0],
    }  # fmt: skip
    form = idb.Long("s", "p", {"item": "doc", "price": "eur"}, {"click": "c", "bought": "b"})
    opened = open_log(d, log, format=form)
    names = [node.name for node in (*opened.model.decisions, *opened.model.observed)]
    read = [dict(zip(names, row, strict=True)) for row in labelled(opened)]
    assert read[0] == {
        "item1": "ale", "price1": 1, "item2": "bun", "price2": 2, "click1": 1, "click2": 0, "bought": 1,
    }  # fmt: skip
    assert read[1]["item2"] is None
    assert read[1]["bought"] == 0


FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "session": ({"session": 3}, "Long: session must be the name of a column, or a list of names, got 3"),
    "no session": ({"session": []}, r"Long: session must be .* got \[\]"),
    "position": ({"position": ["p"]}, r"Long: position must be the name of a column, got \['p'\]"),
    "item": ({"item": {"A": 3}}, r"Long: item\['A'\] must be the name of a column, or a list of names, got 3"),
    "no item": ({"item": {}}, r"Long: item must be .* got \{\}"),
    "observed": ({"observed": "c"}, "Long: observed must map names of nodes to columns, got 'c'"),
    "prefix": ({"observed": {"D": "c"}}, r"observed must map names of nodes, or .* \(C1, C2\) to columns, got 'D'"),
    "context": ({"context": {"hour": "p"}}, r"context must have contexts of the diagram \(none\), got 'hour'"),
    "context list": ({"context": ["hour"]}, r"Long: context must map contexts to columns, got \['hour'\]"),
    "first": ({"first": -1}, "Long: first must be an integer >= 0, got -1"),
    "column": ({"item": "q"}, "arrays must have the column 'q', got s, p, i, c"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_errors_of_the_format_say_what_is_needed(case: str) -> None:
    arguments, message = FORMS[case]
    log = {"s": [1], "p": [1], "i": ["ale"], "c": [1]}
    with pytest.raises(LogError, match=message):
        open_log(
            shop(),
            log,
            format=idb.Long(**{"session": "s", "position": "p", "item": "i", "observed": {"C": "c"}} | arguments),
        )


def test_a_report_of_a_long_log_names_the_session() -> None:
    log = {"s": ["u", "u", "v"], "p": [1, 1, 1], "i": ["ale", "bun", "cod"], "c": [1, 1, 0]}
    opened = open_log(shop(), log, format=FORM)
    assert len(opened.all()) == 1
    assert str(opened.report).splitlines()[:2] == [
        "arrays by session: 1 rounds read, 1 skipped",
        f"  1 skipped: {CONFLICT} (arrays by session, row 0, column '(session)': 'u')",
    ]


# -- PyClick and Yandex ----------------------------------------------------------------------------------------------


def plain_pyclick(text: str, positions: int) -> list[tuple[Any, ...]]:
    """Read sessions of PyClick: items are pairs of query and document."""
    read = list[tuple[Any, ...]]()
    for piece in text.replace("\n", ";").split(";"):
        if piece.strip():
            query, lists = piece.strip().split("\t")
            shown, clicked = (part.split(",") for part in lists.split(":"))
            cells = [
                f"{query}|{own}" if k < len(shown) else EMPTY
                for k, own in enumerate((shown + [""] * positions)[:positions])
            ]
            clicks = [
                int(own in clicked) if k < len(shown) else None
                for k, own in enumerate((shown + [""] * positions)[:positions])
            ]
            read.append((*cells, *clicks))
    return read


def test_sessions_of_pyclick(tmp_path: Path) -> None:
    rng, pieces, foreign = random.Random(3), list[str](), 0
    for _ in range(50):
        shown = rng.sample("abcdef", rng.randrange(1, 5))
        clicked = [own for own in shown if rng.random() < 0.3] * rng.choice([1, 1, 2])
        if rng.random() < 0.2:
            clicked.append("zzz")
            foreign += 1
        pieces.append(f"{rng.choice('qr')}_{rng.randrange(3)}\t{','.join(shown)}:{','.join(clicked)}")
    text = ";".join(pieces[:20]) + ";\n" + "\n".join(pieces[20:]) + "\n"
    for name in ("sessions.txt", "sessions.txt.gz", "sessions.txt.zst"):
        file = compressed(tmp_path / name, text.encode())
        opened = open_log(
            lambda pairs: idb.models.cascade(pairs, 3, empty=True), file, format=idb.formats.PyClick(), items="from log"
        )
        assert labelled(opened) == plain_pyclick(text, 3)
        assert opened.report.notes["clicks on documents that were not shown, which were ignored"] == foreign
        assert opened.report.skipped == {}
        assert len(set(opened.all().sessions.tolist())) == 50


def test_lines_of_yandex(tmp_path: Path) -> None:
    lines = [
        "0\t0\tQ\t8\t1\ta\tb\tc", "0\t5\tC\tb", "0\t9\tQ\t8\t1\tb\td", "0\t10\tC\ta", "0\t12\tC\tb", "0\t13\tC\tx",
        "1\t0\tC\ta", "1\t0\tQ\t9\t2\ta\tb", "nonsense", "2\t0\tQ\t9\t2\tb",
    ]  # fmt: skip
    file = compressed(tmp_path / "log.txt", "\n".join(lines).encode())
    d = idb.models.cascade(["a", "b", "c", "d"], 2, empty=True)
    opened = open_log(d, file, format=idb.formats.PyClick(pairs=False), extra="query")
    assert labelled(opened) == [("a", "b", 1, 1), ("b", "d", 1, 0), ("a", "b", 0, 0), ("b", EMPTY, 0, None)]
    rounds = opened.all()
    assert rounds.extra["query"].tolist() == ["8_1", "8_1", "9_2", "9_2"]
    sessions = rounds.sessions.tolist()
    assert sessions[0] == sessions[1]
    assert len(set(sessions)) == 3
    assert opened.report.notes == {
        "clicks before the first result page of a session, which were ignored": 1,
        "clicks on documents that were not shown, which were ignored": 1,
        "documents at positions beyond the 2 of the diagram, which were ignored": 1,
    }
    ((reason, number),) = opened.report.skipped.items()
    assert (number, str(opened.report.examples[reason][0])) == (1, f"{file}, line 9, row 8")


def test_sessions_of_yandex_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from idbandits.logs.read import pyclick_format

    monkeypatch.setattr(pyclick_format, "MOST_LINES", 5)
    d, form = idb.models.cascade(["a", "b"], 2), idb.formats.PyClick(pairs=False)
    lines = ["0\t0\tQ\t8\t1\ta\tb", *["0\t1\tC\ta"] * 4]
    for session in ("1", "0"):  # another one, and a sixth line of the first
        file = compressed(tmp_path / "log.txt", "\n".join([*lines, lines[0].replace("0", session, 1)]).encode())
        if session == "1":
            assert labelled(open_log(d, file, format=form)) == [("a", "b", 1, 0), ("a", "b", 0, 0)]
            continue
        with pytest.raises(LogError, match=r"log\.txt, line 6: a session must have at most 5 lines, got more"):
            open_log(d, file, format=form).all()


WSCD = Path(__file__).parents[3] / "shared" / "data" / "yandex-wscd" / "sessions.txt.gz"
TOP60 = WSCD.parents[1] / "yandex-top60" / "counts.csv"


@pytest.mark.skipif(not WSCD.exists(), reason="the Yandex log is not there")
def test_a_real_log_is_read_completely() -> None:
    opened = open_log(
        lambda pairs: idb.models.position_based(pairs, 10, empty=True),
        WSCD,
        format=idb.formats.PyClick(),
        items="from log",
    )
    rounds = opened.all()
    assert (len(rounds), opened.report.skipped) == (35_064, {})
    assert opened.report.notes == {"clicks on documents that were not shown, which were ignored": 369}
    assert len(opened.diagram.nodes["A1"].values) == 1_024 + 1
    rates = [round(float((rounds.seen[:, k] == 1).mean()), 3) for k in range(10)]
    assert rates == [0.257, 0.249, 0.170, 0.154, 0.106, 0.073, 0.069, 0.047, 0.050, 0.045]


@pytest.mark.skipif(not TOP60.exists(), reason="the counts of Yandex are not there")
def test_a_real_table_of_counts_is_read_with_weights() -> None:
    import pandas as pd

    frame = pd.read_csv(TOP60)
    log = pd.concat([
        frame.assign(C1=1, w=frame["Click"]), frame.assign(C1=0, w=frame["Impression"] - frame["Click"]),
    ])  # fmt: skip
    opened = open_log(
        lambda items: idb.models.cascade(items, 1), log, columns={"A1": "dict_index"}, items="from log", weight="w"
    )
    rounds = opened.all()
    assert opened.report.skipped == {
        "the weight is not a number >= 0": int((log["w"] < 0).sum())
    }  # clicks > impressions
    assert rounds.weights.sum() == log["w"].clip(0).sum()
    assert rounds.weights[rounds.seen[:, 0] == 1].sum() == 2_447_523
    counts = idb.count(opened.diagram, log, columns={"A1": "dict_index"}, weight="w")
    assert counts.rounds == log["w"].clip(0).sum()


# -- OpenSearch UBI --------------------------------------------------------------------------------------------------


def ubi_log() -> tuple[list[Row], list[Row]]:
    """Return queries and events; q2 has shorter results, q3 an event on another object, q4 no events."""
    queries: list[Row] = [
        {"query_id": f"q{k}", "user_query": text, "client_id": "me", "query_response_hit_ids": hits,
         "query_attributes": {"device": "phone" if k % 2 else "desk"}}
        for k, (text, hits) in enumerate([("tea", ["ale", "bun", "cod"]), ("pie", ["bun"]), ("tea", ["cod", "ale"]), ("x", ["dip", "egg"])], 1)
    ]  # fmt: skip
    acts = [
        ("q1", "click", "bun"),
        ("q1", "click", "bun"),
        ("q1", "hover", "ale"),
        ("q2", "purchase", "bun"),
        ("q3", "click", "egg"),
        ("q9", "click", "ale"),
    ]
    events: list[Row] = [
        {"query_id": q, "action_name": act, "event_attributes": {"object": {"object_id": item}}}
        for q, act, item in acts
    ]
    return queries, events


UBI_READ = [("ale", "bun", 0, 1), ("bun", EMPTY, 0, None), ("cod", "ale", 0, 0), ("dip", "egg", 0, 0)]


@pytest.mark.parametrize("source", ["JSON lines", "JSON", "JSON lines, gz", "arrays", "pandas", "Polars", "Parquet"])
def test_queries_and_events_of_opensearch(source: str, tmp_path: Path) -> None:
    logs = dict[str, Any]()
    for name, rows in zip(("queries", "events"), ubi_log(), strict=True):
        (tmp_path / name).mkdir()
        logs[name] = SOURCES[source](rows, tmp_path / name)
    opened = open_log(shop(), logs, format=idb.formats.UBI())
    assert labelled(opened) == UBI_READ
    assert opened.report.notes == {
        "events on objects that were not shown, which were ignored": 2,
        "rows at positions beyond the 2 of the diagram, which were ignored": 1,
    }
    bought = open_log(shop(), logs, format=idb.formats.UBI(observed={"C": "purchase"}), extra="user_query")
    assert [row[2] for row in labelled(bought)] == [0, 1, 0, 0]
    assert list(bought.all().extra["user_query"]) == ["tea", "pie", "tea", "x"]
    pairs = open_log(
        lambda items: idb.models.cascade(items, 2, empty=True),
        logs,
        format=idb.formats.UBI(pairs=True),
        items="from log",
    )
    assert [row[:2] for row in labelled(pairs)] == [
        ("tea|ale", "tea|bun"), ("pie|bun", EMPTY), ("tea|cod", "tea|ale"), ("x|dip", "x|egg"),
    ]  # fmt: skip


def test_contexts_of_opensearch_may_be_nested() -> None:
    d = idb.Diagram("device")
    device = d.context("device", ["phone", "desk"])
    d.reward(d.observed("C1", [device, d.decision("A1", ITEMS)], idb.Learned("clicks")))
    queries, events = ubi_log()
    form = idb.formats.UBI(context={"device": "query_attributes.device"})
    opened = open_log(d, {"queries": columns(queries), "events": columns(events)}, format=form)
    assert [row[:2] for row in labelled(opened)] == [
        ("ale", "phone"),
        ("bun", "desk"),
        ("cod", "phone"),
        ("dip", "desk"),
    ]


def test_impressions_of_opensearch_as_flat_columns(tmp_path: Path) -> None:
    queries, events = ubi_log()
    rows: list[Row] = [
        {"query_id": own["query_id"], "action_name": "impression", "event_attributes.object.object_id": item,
         "event_attributes.position.ordinal": k}
        for own in queries for k, item in enumerate(own["query_response_hit_ids"], 1)
    ]  # fmt: skip
    rows += [
        {"query_id": own["query_id"], "action_name": own["action_name"],
         "event_attributes.object.object_id": own["event_attributes"]["object"]["object_id"],
         "event_attributes.position.ordinal": None}
        for own in events
    ]  # fmt: skip
    file = compressed(tmp_path / "events.csv", delimited(rows).encode())
    for log in (file, {"events": columns(rows)}):
        assert labelled(open_log(shop(), log, format=idb.formats.UBI())) == UBI_READ
    by_queries = {
        "events": file,
        "queries": columns([{k: v for k, v in own.items() if k != "query_response_hit_ids"} for own in queries]),
    }
    opened = open_log(shop(), by_queries, format=idb.formats.UBI(), extra="user_query")
    assert labelled(opened) == UBI_READ
    assert list(opened.all().extra["user_query"]) == ["tea", "pie", "tea", "x"]


def test_lines_of_opensearch_that_are_not_objects_are_counted(tmp_path: Path) -> None:
    queries, events = ubi_log()
    texts = {"queries": json_lines(queries) + "{broken\n", "events": "[]\n" + json_lines(events) + "\udcff\n"}
    logs = {
        name: compressed(tmp_path / f"{name}.jsonl", own.encode("utf-8", "surrogateescape"))
        for name, own in texts.items()
    }
    opened = open_log(shop(), logs, format=idb.formats.UBI())
    assert labelled(opened) == UBI_READ
    assert opened.report.skipped == {"a line is not a JSON object": 3}


@pytest.mark.parametrize(
    ("log", "form", "message"),
    [
        ({"queries": {"query_id": [1]}}, idb.formats.UBI(), "log must have the key 'events', got only 'queries'"),
        (
            {"events": {"query_id": [1]}},
            idb.formats.UBI(),
            r"arrays must have the column 'action_name', got \['query_id'\]",
        ),
        ({"query_id": [1]}, idb.formats.UBI(), "must have the column 'action_name'"),
        ({"query_id": [1]}, idb.formats.PyClick(), r"log must be paths of files of PyClick, got \{'query_id': \[1\]\}"),
    ],
)
def test_errors_of_named_formats(log: Any, form: Any, message: str) -> None:
    with pytest.raises(LogError, match=message):
        open_log(shop(), log, format=form)


def test_options_of_opensearch_are_checked() -> None:
    with pytest.raises(LogError, match="UBI: observed must map prefixes of nodes to names of actions, got 'click'"):
        idb.formats.UBI(observed="click")  # type: ignore[arg-type]
    assert len(list(itertools.chain(*ubi_log()))) == 10
