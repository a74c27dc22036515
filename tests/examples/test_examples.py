"""Every program of `examples` runs as a user would run it, with small sizes, and does what it says."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from pathlib import Path

import httpx
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import idbandits as idb

mpl.use("Agg")

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
every_program = pytest.mark.parametrize("name", PROGRAMS)


def load(name, monkeypatch):
    """Import a program under its name, as long as the test runs."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # for dataclasses
    spec.loader.exec_module(module)
    return module


@every_program
def test_program_is_short_and_its_help_says_what_it_does(name, monkeypatch, capsys):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 120
    module = load(name, monkeypatch)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    text = capsys.readouterr().out
    assert module.__doc__.strip() in text
    assert re.search(r"\b[Pp]rints?\b", text)


def test_list_of_programs_is_complete():
    listed = re.findall(r"\| \[`(\w+)\.py`\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())
    assert sorted(name for name, _ in listed) == PROGRAMS
    assert all(name == target for name, target in listed)


def test_news_page_learns_from_readers(tmp_path, monkeypatch):
    """Readers look at lower positions less; the page learns this, and which stories attract them."""
    news, rng, now = load("news_page", monkeypatch), np.random.default_rng(0), 0.0
    attraction = dict(zip(news.STORIES.values(), [0.1, 0.3, 0.6, 0.2, 0.1, 0.5], strict=True))
    store = f"sqlite:///{tmp_path / 'news.db'}"

    async def read_the_news(app, live, readers):
        nonlocal now
        clicks = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://news") as browser:
            for _ in range(readers):
                page = (await browser.get("/")).text
                links = re.findall(r'<a href="([^"]+)" rel=nofollow>([^<]+)</a>', page)
                assert len(links) == 4
                looked = rng.random(4) < [1.0, 0.6, 0.4, 0.2]
                read = [
                    own
                    for (own, title), look in zip(links, looked, strict=True)
                    if look and rng.random() < attraction[title]
                ]
                for link in read:
                    answer = await browser.get(link, follow_redirects=True)
                    assert answer.status_code == 200
                    assert "<h1>" in answer.text
                clicks.append(len(read))
                now += 60.0
                if len(clicks) % 10 == 0:
                    live.tick()
            now += 3600.0
            live.tick()
            assert (await browser.get(links[0][0])).status_code == 303  # too late to be learned
            assert (await browser.get("/read/unknown/1")).status_code == 404
            assert (await browser.get(links[0][0][:-1] + "9")).status_code == 404
            assert (await browser.get("/story/unknown")).status_code == 404
            report = (await browser.get("/report")).text
        assert report.startswith(f"{live.show('news')['rounds']:,} rounds learned")
        return clicks

    with idb.Live(store, clock=lambda: now, background=False) as live:
        clicks = asyncio.run(read_the_news(news.news_app(live, news.STORIES), live, 400))
        assert live.show("news")["rounds"] == 400
        attracts = live.posterior("news")["attraction"].to_frame().set_index("row")["mean"]
        looks = live.posterior("news")["examination"].mean
    assert set(attracts.nlargest(2).index) == {"storm", "vote"}
    assert looks[0] == 1.0
    assert looks[1] > looks[3]
    assert np.mean(clicks[-200:]) > np.mean([0.1, 0.3, 0.6, 0.2, 0.1, 0.5]) * 2.2  # what random lists earn
    with idb.Live(store, clock=lambda: now, background=False) as live:  # restarted with another story
        stories = {key: title for key, title in news.STORIES.items() if key != "film"} | {"chess": "A draw"}
        attraction["A draw"] = 0.2
        asyncio.run(read_the_news(news.news_app(live, stories), live, 5))
        assert live.show("news")["version"] == 2
        assert live.show("news")["rounds"] == 405


def test_email_purchases_are_learned_while_they_come(tmp_path, monkeypatch, capsys):
    email = load("email_purchases", monkeypatch)
    email.main(["--weeks", "8", "--mails", "100", "--out", str(tmp_path / "mail.npz")])
    text = capsys.readouterr().out
    assert len(re.findall(r"^ *\d+ - \d+ +[\d.]+ ± [\d.]+ +[\d.]+ ± [\d.]+$", text, flags=re.MULTILINE)) == 2
    agent = idb.Thompson.load(tmp_path / "mail.npz")
    assert agent.rounds == 100 * (7 * 8 - 3)  # mails of the last three days have not been learned
    belief = agent.posterior()["purchase"]
    assert (np.abs(belief.mean - email.Customers.RATES) < 4 * belief.sd).all()


def test_ad_slots_earn_more_than_the_highest_bids(tmp_path, monkeypatch, capsys):
    ads = load("ad_slots", monkeypatch)
    ads.main(["--days", "4", "--requests", "1000", "--out", str(tmp_path / "ads.npz")])
    days = re.findall(r"^ +(\d) +([\d.]+) +([\d.]+)$", capsys.readouterr().out, flags=re.MULTILINE)
    assert len(days) == 4
    assert float(days[-1][1]) > float(days[-1][2])
    assert idb.Thompson.load(tmp_path / "ads.npz").rounds == 4000


def test_ad_slots_respect_budgets(monkeypatch):
    ads = load("ad_slots", monkeypatch)
    world = idb.World(ads.diagram(), ads.true_means(), contexts={"segment": [0.5, 0.5]}, seed=0)
    revenue = ads.play_day(world, 20_000, ads.highest_bids, lambda *_: None)
    budgets = sum(ad.budget for ad in ads.ADS.values())
    assert budgets - sum(ad.bid for ad in ads.ADS.values()) < revenue <= budgets


def test_search_log_of_simulated_users(tmp_path, monkeypatch, capsys):
    search = load("search_log", monkeypatch)
    search.main(["--sessions", "500", "--positions", "3", "--out", str(tmp_path / "ranking.csv")])
    text = capsys.readouterr().out
    assert "500 rounds read, 0 skipped" in text
    assert re.search(r"Fit of '(position-based|user browsing)'", text)  # of which the second has the first as a case
    ranking = pd.read_csv(tmp_path / "ranking.csv")
    assert ranking.columns.tolist() == ["query", "rank", "document", "attraction", "low", "high", "rounds"]
    for _, rows in ranking.groupby("query"):
        assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
        assert rows["attraction"].is_monotonic_decreasing
    assert ((ranking["low"] <= ranking["attraction"]) & (ranking["attraction"] <= ranking["high"])).all()


@pytest.mark.parametrize("kind", ["long", "ubi"])
def test_search_log_reads_other_formats(kind, tmp_path, monkeypatch, capsys):
    search, path = load("search_log", monkeypatch), tmp_path / ("log.csv" if kind == "long" else "events.jsonl")
    rng, rows = np.random.default_rng(0), []
    for session in range(300):
        query = f"q{rng.integers(2)}"
        for position, document in enumerate(rng.permutation(4)[:3], start=1):
            click = rng.random() < (4 - document) / 5 / position
            rows.append((session, query, f"d{document}", position, int(click)))
    log = pd.DataFrame(rows, columns=["visit", "query", "document", "position", "click"])
    if kind == "long":
        log.to_csv(path, index=False)
        extra = ["--session", "visit"]
    else:
        events, extra = ubi_events(log), []
        events.to_json(path, orient="records", lines=True)
    out = str(tmp_path / "ranking.csv")
    search.main(["--log", str(path), "--format", kind, "--positions", "3", "--out", out, *extra])
    assert "300 rounds read, 0 skipped" in capsys.readouterr().out
    ranking = pd.read_csv(out)
    assert len(ranking) == 8
    assert ranking.loc[ranking["rank"] == 1, "document"].tolist() == ["d0", "d0"]


def ubi_events(log):
    """Return impressions and clicks of a log as events of OpenSearch UBI."""
    rows = []
    for row in log.itertuples():
        for action in ["impression", *["click"] * row.click]:
            rows.append(
                {
                    "action_name": action, "query_id": str(row.visit), "user_query": row.query, "timestamp": row.visit,
                    "event_attributes": {"object": {"object_id": row.document}, "position": {"ordinal": row.position}},
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_research_comparison_resumes_and_writes_table_and_figure(tmp_path, monkeypatch, capsys):
    research = load("research_comparison", monkeypatch)
    sizes = ["--runs", "2", "--rounds", "200", "--out", str(tmp_path)]
    research.main(["--worlds", "1", *sizes])
    stored = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}
    research.main(["--worlds", "2", *sizes])
    assert "Thompson, Gibbs" in capsys.readouterr().out
    assert stored.items() < {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}.items()
    table = (tmp_path / "regret.tex").read_text()
    assert table.count(r"\\") == 1 + len(research.LEARNERS)
    assert len(re.findall(r"& [\d.]+ \$\\pm\$ [\d.]+", table)) == len(research.LEARNERS) * len(research.MODELS)
    assert (tmp_path / "regret.pdf").read_bytes().startswith(b"%PDF")


def test_demo_draws_and_solves_every_model(tmp_path, monkeypatch):
    demo = load("demo", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--runs", "1", "--out", str(tmp_path)])
    demo.main()
    assert {path.stem for path in tmp_path.glob("*.svg")} == set(demo.MODELS)
    assert (tmp_path / "learning-regret.png").exists()
