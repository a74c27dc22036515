"""Uses of a whole journal: exported logs, rebuilt agents, and copies between both kinds of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from idbandits.circuit.model import compile
from idbandits.cli.main import main
from idbandits.errors import IdbanditsError
from idbandits.service.history.copying import TABLES, back_up, restore_from
from idbandits.service.history.exported_log import export_log
from idbandits.service.history.rebuilding import learn_again, rebuild
from idbandits.service.journal.journal import Journal
from idbandits.service.live.choosing import uniform_action, uniform_probability
from idbandits.service.live.live import open_store
from live_cases import Clock, live_of, shop

CLICKS = {"a": 0, "b": 1, "c": 1}


def filled(url: str, number: int = 60) -> None:
    """Serve rounds of two versions, with a holdout and a snapshot in the middle."""
    clock = Clock()
    with live_of(url, clock) as live:
        live.put("shop", shop(), holdout=0.3)
        for n in range(number):
            own = live.decide("shop", id=f"d{n}", unit=f"u{n}")
            live.report(own.id, {"click": CLICKS.get(own.action["item"], 0), "buy": n % 2}, complete=n % 10 > 0)
            clock.now += 1.0
            live.tick()
            if n == number // 2:
                live.save_snapshots()
                live.put("shop", shop("abcd"), holdout=0.3)


@pytest.fixture
def journal(url: str) -> Iterator[Journal]:
    filled(url)
    store = open_store(url)
    yield Journal(store)
    store.close()


def test_an_exported_log_has_a_column_for_each_feature_of_a_context(url: str, tmp_path: Path) -> None:
    d = idb.Diagram("menu")
    user = d.context("user", features={"age": (40, 15), "country": ["de", "fr"], "size": [1, 2]})
    item = d.decision("item", ["a", "b", "c"])
    d.reward(d.observed("click", [item, user], idb.Learned("taste", residuals=1.0)))
    users: list[dict[str, Any]] = [
        {"age": 31, "country": "fr", "size": 2}, {"age": 45.5, "country": "pl"}, {"country": None, "size": "XL"}, {},
    ] * 20  # fmt: skip
    out, clock = tmp_path / "log.parquet", Clock()
    with live_of(url, clock) as live:
        live.put("menu", d)
        for n, user_features in enumerate(users):
            own = live.decide("menu", {"user": user_features}, id=f"d{n}")
            live.report(own.id, {"click": int(own.action["item"] == "b")}, complete=True)
            live.tick()
        assert export_log(live.journal, "menu", out) == len(users)
        served = live.view("menu").agent
    frame = pd.read_parquet(out)
    assert frame["user.age"].tolist()[:2] == [31.0, 45.5]
    assert frame["user.country"].tolist()[:2] == ["fr", "pl"]
    assert frame[["user.age", "user.size"]].isna().sum().tolist() == [40, 60]
    fitted = idb.fit(d, str(out))
    assert np.allclose(fitted.posterior()["taste"].mean, served.posterior()["taste"].mean, atol=1e-6)


def test_an_exported_log_is_one_that_is_evaluated(journal: Journal, tmp_path: Path) -> None:
    out = tmp_path / "log.parquet"
    assert export_log(journal, "shop", out, draws=50) == 54
    frame = pd.read_parquet(out)
    assert list(frame.columns[:3]) == ["item", "click", "buy"]
    assert set(frame.item) <= set("abcd")
    assert set(frame.arm) == {"policy", "holdout"}
    items = frame.version.map({1: 3, 2: 4})
    assert (frame.propensity >= 0.3 / items).all()  # of any row: the holdout could have chosen it
    assert frame.propensity.max() <= 0.3 / 3 + 0.7
    assert abs(frame.propensity[0] - 1 / 3) < 0.2  # nothing was learned: the policy is uniform, too
    result = idb.evaluate({"item": "b"}, frame, shop("abcd"), propensity="propensity", seed=0)
    assert result.frame.value.notna().all()
    assert (frame.click == frame.item.map(CLICKS).fillna(0)).all()
    assert (frame.reward == frame.buy).all()
    agent = idb.fit(shop("abcd"), str(out))
    assert agent.rounds == 54


def test_a_rebuilt_agent_equals_the_snapshot(journal: Journal) -> None:
    own = rebuild(journal, "shop")
    assert own.is_equal is True
    assert own.rejected == 0
    assert own.steps == 56  # of 54 rounds and two versions
    with pytest.raises(IdbanditsError, match="experiment must be one of"):
        rebuild(journal, "none")
    other = learn_again(journal, "shop", shop("abc"))  # later rounds have an item that it does not
    assert other.steps - other.rejected == other.agent.rounds


def test_copies_between_stores(url: str, new_store: Callable[[], str], tmp_path: Path) -> None:
    filled(url, 20)
    file = tmp_path / "shop.backup"
    rows = back_up(url, file)
    assert not list(tmp_path.glob("*.part*"))
    with pytest.raises(IdbanditsError, match="must be a new file"):
        back_up(url, file)
    for target in (new_store(), f"sqlite:///{tmp_path}/moved.db"):
        assert restore_from(file, target) == rows
        with pytest.raises(IdbanditsError, match="must be empty"):
            restore_from(file, target)
        stores = open_store(url), open_store(target)
        for table, keys in TABLES.items():
            sql = f"SELECT * FROM {table} ORDER BY {', '.join(keys)}"
            one, other = ([list(map(bytes_of, row)) for row in _all(store, sql)] for store in stores)
            assert one == other
        for store in stores:
            store.close()
        clock = Clock()
        clock.now += 100.0
        with live_of(target, clock) as live:  # continues
            before = live.show("shop")["rounds"]
            live.report(live.decide("shop", id="new").id, {"click": 1}, complete=True)
            live.tick()
            assert live.show("shop")["rounds"] >= before
            assert live.decide("shop", id="new", deferred=False).id == "new"
            assert rebuild(live.journal, "shop").is_equal is not False


def bytes_of(value: object) -> object:
    return bytes(value) if isinstance(value, (bytes, memoryview)) else value


def _all(store: object, sql: str) -> list[tuple[object, ...]]:
    with store.transaction(write=False) as own:  # type: ignore[attr-defined]
        return list(own.all(sql))


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IDBANDITS_STORE", "sqlite:///shop.db")
    filled("sqlite:///shop.db", 20)
    assert main(["export", "shop", "--out", "log.parquet"]) == 0
    assert main(["replay", "shop", "--out", "agent.npz"]) == 0
    assert "equals that of the snapshot" in capsys.readouterr().out
    assert idb.Thompson.load("agent.npz").rounds > 0
    assert main(["backup", "a.backup"]) == 0
    assert main(["restore", "a.backup", "--store", "sqlite:///b.db"]) == 0
    assert main(["token", "create", "web", "--scope", "read"]) == 0
    assert capsys.readouterr().out.startswith("idb_")
    assert main(["token", "revoke", "web"]) == 0
    assert main(["token", "list"]) == 0
    assert capsys.readouterr().out.split("\t")[::3] == ["web", "revoked\n"]
    for wrong in (["token", "create"], ["export", "none", "--out", "x.parquet"], ["restore", "none"],
                  ["put", "shop", "none.json"], ["replay", "shop", "--store", "mysql://x"],
                  ["export", "shop", "--out", "log.csv"], ["token", "list", "--store", "sqlite:///typo.db"],
                  ["export", "shop", "--out", "x.parquet", "--store", "sqlite:///typo.db"],
                  ["backup", "b.backup", "--store", "sqlite:///typo.db"]):  # fmt: skip
        assert main(wrong) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.glob("typo.db*"))


@pytest.mark.parametrize("eligible", [None, ["a", "c", "d"], {"A1": ["a", "b"], "A2": ["b", "d"]}])
def test_probabilities_of_uniform_actions(eligible: Any) -> None:
    agent = idb.Thompson(idb.models.cascade(["a", "b", "c", "d"], positions=2), seed=0)
    allowed, model, rng = agent.eligible(eligible), compile(agent.diagram), np.random.default_rng(0)
    lists = [{"A1": one, "A2": other} for one in "abcd" for other in "abcd"]
    chances = [uniform_probability(model, action, allowed) for action in lists]
    drawn = [uniform_action(model, allowed, rng) for _ in range(2000)]
    if isinstance(eligible, dict):  # after b, A2 has one choice less
        assert chances[lists.index({"A1": "b", "A2": "d"})] == 0.5
    assert sum(chances) == pytest.approx(1.0)
    deviations = [abs(drawn.count(action) / 2000 - chance) for action, chance in zip(lists, chances, strict=True)]
    assert max(deviations) < 0.05  # 4.5 standard errors
