"""Pages of the dashboard, served as in production, against the journal's data and in a browser."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from html import unescape
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

import idbandits as idb
from browser import browser, chromium
from database_servers import missing
from http_service import served
from idbandits.service.dashboard import experiment_status
from idbandits.service.dashboard.background_values import BackgroundValues
from idbandits.service.dashboard.formatting import number, percent, whole
from idbandits.service.live.live import Live
from service_demo import Clock, fill

if reason := missing("apsw", "uvicorn"):
    pytest.skip(reason, allow_module_level=True)

HOSTILE = ["<script>alert(1)</script>", "\"quoted\" & 'co'", "</script><img src=x onerror=alert(2)>", "plain"]
HOUR = 3600.0


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return a service with the experiments of the demonstration and some odd ones, and a second look at its store."""
    url = f"sqlite:///{tmp_path_factory.mktemp('demo')}/demo.db"
    clock = Clock(time.time())
    with Live(url, clock=clock, background=False) as live:
        fill(live, clock, days=9, rounds=5)
        odd(live, clock)
    with (
        served(url) as address,
        Live(url, background=False) as live,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield SimpleNamespace(client=client, live=live, address=address)


def odd(live, clock):
    """Add experiments with hostile labels, hidden rewards, features of contexts, and nothing at all."""
    end = clock.now
    clock.now = end - 5 * HOUR
    d = idb.Diagram("<script>alert(3)</script>")
    d.reward(d.observed("<b>seen</b>", [d.decision("<i>choice</i>", HOSTILE)]))
    live.put("hostile", d, who="<script>alert(4)</script>", horizon="1m", holdout=0.3)
    hidden = idb.Diagram("hidden")
    wants = hidden.latent("wants", [hidden.decision("item", ["tea", "milk"])])
    hidden.reward(wants)
    hidden.observed("click", [wants], lambda w: 0.1 + 0.5 * w)
    live.put("hidden", hidden, horizon="1m", holdout=0.2)
    users = idb.Diagram("users")
    user = users.context("user", features={"age": (40, 15), "country": ["de", "fr"]})
    users.reward(
        users.observed(
            "bought", [users.decision("item", ["tea", "milk", "rice"]), user], idb.Learned("taste", residuals=True)
        )
    )
    live.put("users", users, horizon="1m")
    rng = np.random.default_rng(0)
    for k in range(30):
        clock.now += 60.0
        decision = live.decide("hostile", unit=f"<u>{k}</u>")
        live.report(decision.id, {"<b>seen</b>": int(rng.integers(2))})
        live.report(live.decide("hidden").id, {"click": int(rng.integers(2))})
        live.report(live.decide("users", {"user": {"age": 30, "country": "fr"}}).id, {"bought": int(rng.integers(2))})
    clock.now = end
    live.journal.add_letters([("hostile", end, "too-late", "<script>alert(5)</script>", "{}")])
    empty = idb.Diagram("empty")
    empty.reward(empty.observed("weather", cpd=idb.Learned("rain")))
    live.put("no-decisions", empty)
    live.tick()


def page(demo, path):
    """Return a page when everything on it was computed."""
    end = time.monotonic() + 120
    while True:
        answer = demo.client.get(f"/dashboard{path}")
        assert answer.status_code == 200, answer.text[:500]
        if 'id="pending"' not in answer.text or time.monotonic() > end:
            return answer.text
        time.sleep(0.2)


def data_of(text, name):
    return json.loads(
        re.search(rf'<script type="application/json" id="data-{name}"[^>]*>(.*?)</script>', text, re.DOTALL)[1]
    )


def rows_of(text, part):
    """Return the cells of the body of a table."""
    block = text.split(f'id="{part}"', 1)[1].split("</table>", 1)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", block.split("<tbody>", 1)[1], re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in row] for row in cells]


def sql(demo, statement, *values):
    with demo.live.store.transaction(write=False) as own:
        return own.all(statement, values)


def test_overview_has_every_experiment_with_a_sentence(demo):
    text = page(demo, "")
    sentences = [unescape(s) for s in re.findall(r'<p class="sentence">(.*?)</p>', text)]
    assert len(sentences) == len(demo.live.experiments()) == 8
    for name in demo.live.experiments():
        assert f'href="/dashboard/{name}"' in text
    assert any(
        re.fullmatch(r".* reward per round; (gains|gain over) .* holdout.*; .* pending; up to date\.", s)
        for s in sentences
    )
    assert "No decisions yet." in sentences
    assert sum("shadow mode" in s or "agrees with the caller" in s for s in sentences) == 1
    assert sum("Rewards are not observed" in s for s in sentences) == 1


def test_page_of_an_experiment_has_the_numbers_of_the_journal(demo):
    text = page(demo, "/shop-page")
    table = dict(rows_of(text, "counts-table"))
    decisions = sql(
        demo, "SELECT state, count(*) FROM decisions_with_outcomes WHERE experiment = 'shop-page' GROUP BY state"
    )
    assert table["Decisions"] == whole(sum(count for _, count in decisions))
    for state, count in decisions:
        assert table[f"… {state}"] == whole(count)
    until = (time.time() - 7 * 24 * HOUR) // HOUR * HOUR
    for arm in ("policy", "holdout"):
        where = "experiment = 'shop-page' AND arm = ? AND at < ? AND reward IS NOT NULL"
        ((mean,),) = sql(demo, f"SELECT avg(reward) FROM decisions_with_outcomes WHERE {where}", arm, until)
        assert f"{arm} {number(mean)}" in text
    gain = demo.live.gain("shop-page")
    assert f"{whole(gain.rounds['holdout'])} rounds in the holdout" in text or number(gain.low) in text
    ratio = demo.live.sample_ratio("shop-page")
    assert table["Holdout: rounds, expected"] == f"{whole(ratio.holdout)}, {whole(ratio.expected)}"


def test_plots_have_the_numbers_of_the_journal(demo):
    text = page(demo, "/search")
    reward = data_of(text, "reward")
    assert [s["label"] for s in reward["series"]] == ["policy", "holdout"]
    for series in reward["series"]:
        for mean, low, high in zip(series["values"], series["low"], series["high"], strict=True):
            assert mean is None or low <= mean <= high
    gain, path = demo.live.gain("search"), data_of(text, "gain")["series"][0]
    assert path["values"][-1] == pytest.approx(gain.estimate, rel=1e-3)
    assert path["low"][-1] == pytest.approx(gain.low, rel=1e-3)
    shares = data_of(text, "shares")["series"]
    assert np.sum([s["values"] for s in shares], axis=0) == pytest.approx(1, abs=1e-3)
    fit = data_of(text, "fit")
    assert fit["ticks"] == [f"C{k}" for k in range(1, 7)]
    clicks = sql(
        demo,
        "SELECT learned FROM decisions_with_outcomes WHERE experiment = 'search' AND learns = 1 AND learned IS NOT NULL",
    )
    assert fit["series"][0]["values"][0] == pytest.approx(np.mean([json.loads(x)["C1"] for (x,) in clicks]), rel=1e-3)
    ages = data_of(page(demo, "/shop-page"), "ages")
    assert {s["label"] for s in ages["series"]} == {"click", "bought"}
    assert all(s["values"][-1] == 1 for s in ages["series"])
    assert [m["label"] for m in data_of(page(demo, "/shop-page"), "reward")["markers"]] == ["version 2"]


def test_leaderboard_is_by_context_and_sorted_by_every_column(demo):
    text = page(demo, "/shop-page/learned?c.segment=2")
    rows = rows_of(text, "board")
    posterior = demo.live.posterior("shop-page")["appeal"]
    model = demo.live.view("shop-page").version.model
    items = list(model.decisions[0].values)
    mean = dict(zip(items, posterior.mean[:, 2], strict=True))
    assert [row[1] for row in rows] == sorted(items, key=lambda item: -mean[item])
    assert [row[2] for row in rows] == [number(mean[row[1]]) for row in rows]
    shown = Counter()
    for (action,) in sql(
        demo, "SELECT action FROM decisions_with_outcomes WHERE experiment = 'shop-page' AND learned IS NOT NULL"
    ):
        shown.update(json.loads(action).values())
    assert {row[1]: row[5] for row in rows} == {item: whole(shown[item]) for item in items}
    assert sum(float(row[6].rstrip(" %")) for row in rows) == pytest.approx(400, abs=5)  # four positions
    for column, place in (("impressions", 5), ("mean", 2), ("rounds", 4), ("shown", 6)):
        for order, sign in (("up", 1), ("down", -1)):
            rows = rows_of(page(demo, f"/shop-page/learned?sort={column}&order={order}"), "board")
            values = [float(row[place].rstrip(" %").replace(",", "")) for row in rows]
            assert values == sorted(values, key=lambda x: sign * x)
    names = [row[1] for row in rows_of(page(demo, "/shop-page/learned?sort=item"), "board")]
    assert names == sorted(items, key=str.casefold)


def test_times_to_outcomes_are_those_of_closed_rounds(demo, monkeypatch):
    """The latest rounds are still open: those of a week before are counted."""
    monkeypatch.setattr(experiment_status, "LATEST", 50)
    where = "experiment = 'shop-page' AND state = 'closed' ORDER BY n DESC LIMIT 50"
    events = [
        event
        for (text,) in sql(demo, f"SELECT events FROM decisions_with_outcomes WHERE {where}")
        for event in json.loads(text or "[]")
        if event[1]
    ]
    ages = experiment_status.received_of(demo.live.store, "shop-page").ages
    assert len(events) == sum(map(len, ages.values())) > 0


def test_leaderboard_and_heat_map_have_pages(demo):
    pages = [rows_of(page(demo, f"/search/learned?page={k}&heat_page={k}"), "board") for k in (1, 2, 3)]
    assert [len(own) for own in pages] == [25, 25, 10]
    assert len({row[1] for own in pages for row in own}) == 60
    heat = rows_of(page(demo, "/search/learned?heat_of=now"), "heat-table")
    assert len(heat) == 20
    assert len(heat[0]) == 7
    assert all(0 <= float(x) <= 100 for row in heat for x in row[1:])


def test_regressions_have_their_coefficients(demo):
    text = page(demo, "/search/learned")
    frame = demo.live.posterior("search")["attraction"].regression.to_frame()
    rows = {row[0]: row[1] for row in rows_of(text, "regression-1")}
    assert set(rows) == set(frame["feature"])
    price = float(rows["price"].replace("−", "-"))
    assert price == pytest.approx(float(frame.set_index("feature").loc["price", "mean"]), abs=0.1)
    users = page(demo, "/users/learned")
    assert "LogisticRegression" in users
    assert "user.age" in users


def test_decisions_have_pages_and_events(demo):
    first = page(demo, "/shop-page/decisions")
    rows = rows_of(first, "decisions")
    assert len(rows) == 50
    before = re.search(r"\?before=(\d+)", first)[1]
    second = rows_of(page(demo, f"/shop-page/decisions?before={before}"), "decisions")
    expected = [
        id for (id,) in sql(demo, "SELECT id FROM decisions WHERE experiment = 'shop-page' ORDER BY n DESC LIMIT 100")
    ]
    assert [row[1] for row in rows + second] == expected
    events = sql(
        demo,
        "SELECT id, json_array_length(events) FROM decisions_with_outcomes WHERE experiment = 'shop-page' "
        "AND events IS NOT NULL ORDER BY n DESC LIMIT 1",
    )
    shown = {row[1]: row[5] for row in rows}
    if events[0][0] in shown:
        assert shown[events[0][0]].count(" after ") == events[0][1]


def test_changes_have_versions_and_rejected_reports(demo):
    text = page(demo, "/shop-page/changes")
    assert [row[0] for row in rows_of(text, "versions")] == ["2", "1"]
    assert [row[1:3] for row in rows_of(text, "audit")] == [["anna", "version"]] * 2
    assert "paused" in page(demo, "/checkout-banner/changes")


@pytest.mark.parametrize("path", ["", "/hostile", "/hostile/learned", "/hostile/decisions", "/hostile/changes"])
def test_hostile_labels_are_escaped(demo, path):
    text = page(demo, path)
    assert not re.search(r"<script>|<img src=x|<b>seen|<i>choice|<u>", text)
    assert len(re.findall("</script>", text)) == len(re.findall("<script ", text))
    if path == "/hostile/learned":
        assert {row[1] for row in rows_of(text, "board")} == set(HOSTILE)


@pytest.mark.parametrize("name", ["hidden", "users", "no-decisions", "checkout-banner", "newsletter", "hostile"])
@pytest.mark.parametrize("path", ["", "/learned", "/decisions", "/changes"])
def test_odd_experiments_have_pages(demo, name, path):
    text = page(demo, f"/{name}{path}")
    assert 'id="pending"' not in text
    if name == "users" and not path:
        ((mean,),) = sql(demo, "SELECT avg(reward) FROM decisions_with_outcomes WHERE experiment = 'users'")
        assert f"{number(mean)} reward per round" in text
    if name == "hidden" and not path:
        assert "Rewards are not observed" in text
    if name == "hostile" and not path:
        assert "Holdout: units, expected" in text


def test_pages_need_nothing_from_elsewhere(demo):
    for path in ("", "/search", "/search/learned", "/search/decisions", "/search/changes"):
        text = page(demo, path)
        assert not re.search(r"\son[a-z]+=|\sstyle=|javascript:|https?://", text)
        for attributes in re.findall(r"<script([^>]*)>", text):
            assert 'src="/static/' in attributes or 'type="application/json"' in attributes
        for address in re.findall(r'(?:src|href)="(/static/[^"]*)"', text):
            assert demo.client.get(address).status_code == 200
        ids = re.findall(r'\sid="([^"]*)"', text)
        assert len(ids) == len(set(ids))
        assert len(re.findall(r"<h1", text)) == 1
    policy = demo.client.get("/dashboard").headers.get_list("content-security-policy")
    assert all("default-src 'none'" in own and "unsafe" not in own for own in policy)
    picture = demo.client.get("/dashboard/search/diagram.svg?version=1")
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "</svg>" in picture.text


def test_unknown_experiments_and_odd_queries(demo):
    for path in ("/nothing", "/nothing/learned", "/nothing/decisions", "/nothing/changes", "/nothing/events"):
        assert demo.client.get(f"/dashboard{path}").status_code == 404
    assert demo.client.get("/dashboard/search/diagram.svg?version=99").status_code == 404
    page(demo, "/shop-page/learned?sort=none&order=x&page=-1&heat_page=999&c.segment=99&table=x&heat=7")
    page(demo, "/shop-page/learned?page=9&heat_page=9")
    page(demo, "/shop-page/decisions?before=abc")
    assert "no decisions" in page(demo, "/shop-page/decisions?before=0")


def test_stream_says_when_something_changes(demo):
    with demo.client.stream("GET", "/dashboard/checkout-banner/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        messages = (
            json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")
        )
        assert next(messages)[0][3] == "paused"
        demo.live.set_status("checkout-banner", "retired")
        assert next(messages)[0][3] == "retired"
        demo.live.set_status("checkout-banner", "paused")


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """Return a tab of a browser."""
    if chromium() is None:
        pytest.skip("needs chromium")
    with browser(tmp_path_factory.mktemp("profile")) as own:
        yield own


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_browser_draws_plots(demo, tab, width, dark):
    page(demo, "/shop-page")
    tab.events.clear()
    tab.look(width=width, dark=dark)
    tab.open(f"{demo.address}/dashboard/shop-page")
    tab.until("document.querySelectorAll('[data-drawn] canvas').length === 5")
    background = tab.value("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 24, 30)" if dark else "rgb(255, 255, 255)")
    assert tab.value("document.documentElement.scrollWidth") <= width
    sizes = tab.value(
        "[...document.querySelectorAll('[data-drawn]')].map((x) => [x.clientWidth, x.querySelector('canvas').clientWidth])"
    )
    assert all(box - 1 <= canvas <= box for box, canvas in sizes)
    painted = """[...document.querySelectorAll('[data-drawn] canvas')].map((c) =>
        new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)"""
    assert min(tab.value(painted)) > 20  # colours: not only axes
    tab.value("document.querySelector('details.numbers summary').click()")
    tab.until("document.querySelectorAll('details.numbers table tbody tr').length > 0")
    assert tab.errors() == []
    assert {httpx.URL(own).host for own in tab.requests()} == {"127.0.0.1"}


@pytest.mark.parametrize(
    "path", ["", "/search", "/search/learned", "/search/decisions", "/search/changes", "/users/learned"]
)
def test_no_page_is_wider_than_a_phone(demo, tab, path):
    page(demo, path)
    tab.events.clear()
    tab.look(width=390)
    tab.open(f"{demo.address}/dashboard{path}")
    tab.until("document.querySelector('#live-state').textContent === 'live'")
    assert tab.value("document.documentElement.scrollWidth") <= 390
    assert tab.errors() == []


def test_browser_sorts_without_loading_the_page_again(demo, tab):
    page(demo, "/search/learned")
    tab.events.clear()
    tab.look()
    tab.open(f"{demo.address}/dashboard/search/learned")
    tab.value("window.same = true")
    cells = (
        "[...document.querySelectorAll('.board tbody tr')].map((r) => +r.children[5].textContent.replaceAll(',', ''))"
    )
    link = "document.querySelectorAll('.board thead a')[3]"
    for order, sign in (("descending", -1), ("ascending", 1)):
        tab.value(f"{link}.focus(), {link}.click()")
        tab.until(f"{link}.parentElement.ariaSort === '{order}'")
        impressions = tab.value(cells)
        assert impressions == sorted(impressions, key=lambda x: sign * x)
    assert tab.value(f"document.activeElement === {link}")
    assert tab.value("window.same")
    assert tab.errors() == []


def test_browser_follows_changes(demo, tab):
    page(demo, "/users/decisions")
    tab.events.clear()
    tab.open(f"{demo.address}/dashboard/users/decisions")
    tab.until("document.querySelector('#live-state').textContent === 'live'")
    time.sleep(2)  # the first event says how things are
    new = demo.live.decide("users", {"user": {}}, id="this-is-new")
    tab.until(f"document.querySelector('#decisions').textContent.includes('{new.id}')")
    assert tab.errors() == []


def test_old_values_are_shown_while_new_ones_are_computed():
    values, go = BackgroundValues(), threading.Event()
    assert values.get("slow", 1, lambda: go.wait(30) and "new", time.monotonic() + 0.01) is None
    go.set()
    assert values.get("slow", 1, lambda: "other", time.monotonic() + 30) == "new"
    assert values.get("slow", 2, lambda: "newer", time.monotonic() + 30) == "new"  # it was computed just now
    time.sleep(1.1)
    go.clear()
    assert values.get("slow", 2, lambda: go.wait(30) and "newer", time.monotonic() + 0.01) == "new"
    go.set()
    assert values.get("slow", 2, lambda: "other", time.monotonic() + 30) == "newer"
    with pytest.raises(ZeroDivisionError):
        values.get("wrong", 1, lambda: 1 / 0, time.monotonic() + 30)


def test_percent_is_as_on_the_pages():
    assert percent(0.5) == "50 %"
