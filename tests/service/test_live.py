"""`Live` with a clock that stands still: decisions, outcomes, closing by age, versions, restarts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from idbandits.service.journal.journal import Journal
from idbandits.service.live.deciding import Request
from idbandits.service.live.experiments import Decision
from idbandits.service.live.live import Live
from idbandits.service.service_errors import ServiceError
from live_cases import DAY, HORIZON, HOUR, MINUTE, START, Clock, belief, live_of, shop


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(url: str, clock: Clock) -> Iterator[Live]:
    with live_of(url, clock) as own:
        own.put("shop", shop(), inference="exact", horizon=HORIZON)
        yield own


def kind_of(call: Any, *arguments: Any, **named: Any) -> str:
    """Return the kind of the error that a call raises."""
    with pytest.raises(ServiceError) as caught:
        call(*arguments, **named)
    return caught.value.kind


def learned(live: Live, id: str, name: str = "shop") -> Any:
    """Return what was learned of a decision."""
    return live.decision(name, id)["learned"]


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_decisions_and_their_ids(live: Live, clock: Clock) -> None:
    first = live.decide("shop", id="x", allowed=["a", "b"])
    clock.now += 5
    assert live.decide("shop", id="x", allowed=["a", "b"]) == first
    assert first.action["item"] in ("a", "b")
    assert first.version == 1
    assert first.arm == "policy"
    assert kind_of(live.decide, "shop", id="x", allowed=["a", "c"]) == "other-body"
    assert kind_of(live.decide, "shop", id="") == "invalid"
    assert kind_of(live.decide, "shop", id="x\n") == "invalid"
    assert kind_of(live.decide, "shop", allowed=["z"]) == "invalid"
    assert kind_of(live.decide, "shop", context={"day": "monday"}) == "invalid"
    assert kind_of(live.decide, "other") == "unknown-experiment"
    own = [live.decide("shop") for _ in range(3)]
    assert len({decision.id for decision in own}) == 3
    assert live.show("shop")["decisions"] == 4
    assert live.decision("shop", "x")["at"] == START


def test_batches_answer_each_request(live: Live) -> None:
    requests: list[Any] = [{"id": "x"}, {"id": "x"}, {"allowed": ["z"]}, {"id": "y", "allowed": ["b"]}]
    first, again, wrong, other = live.decide_many("shop", requests)
    assert not isinstance(first, ServiceError)
    assert not isinstance(other, ServiceError)
    assert isinstance(again, ServiceError)
    assert again.kind == "duplicate"
    assert isinstance(wrong, ServiceError)
    assert wrong.kind == "invalid"
    assert other.action == {"item": "b"}
    assert live.decide("shop", id="x").action == first.action  # no id is left in flight
    reports: list[Any] = [
        {"id": "x", "values": {"click": 1}}, {"id": "z", "values": {"click": 1}}, {"id": "y", "values": {"click": 7}},
        {"id": "x", "values": {"click": 1}}, {"id": "y", "values": {"clicks": 1}},
    ]  # fmt: skip
    answers = live.report_many("shop", reports)
    assert [own.kind if isinstance(own, ServiceError) else own for own in answers] == [
        "accepted", "unknown-decision", "impossible", "unchanged", "unknown-node",
    ]  # fmt: skip


def test_a_seed_fixes_decisions(tmp_path: Path, clock: Clock) -> None:
    chosen = list[Any]()
    for n, seed in enumerate([3, 3, 4]):
        with live_of(f"sqlite:///{tmp_path}/{n}.db", clock, seed=seed) as live:
            live.put("shop", shop(range(1000)), holdout=0.5)
            made = live.decide_many("shop", [{"unit": f"u{k}"} for k in range(20)])
            chosen.append([(own.arm, own.action) for own in made if isinstance(own, Decision)])
    assert chosen[0] == chosen[1]
    assert chosen[0] != chosen[2]


def test_seeds_of_decisions_are_integers_that_numpy_draws(tmp_path: Path, clock: Clock) -> None:
    rng = np.random.default_rng(3)
    with live_of(f"sqlite:///{tmp_path}/seeds.db", clock, seed=3) as live:
        live.put("shop", shop(), inference="exact", horizon=HORIZON)
        rng.integers(2**62)  # the seed of the experiment
        seeds = [live.decision_write("shop", Request()).row.seed for _ in range(50)]
    assert seeds == rng.integers(2**63, size=50).tolist()


def test_a_batch_with_an_unknown_argument_leaves_nothing_behind(live: Live) -> None:
    with pytest.raises(TypeError, match="allow"):
        live.decide_many("shop", [{"id": "d1"}, {"allow": ["a"]}])
    assert live.decide("shop", id="d1").id == "d1"


def test_equal_requests_with_keys_in_another_order(url: str, clock: Clock) -> None:
    d = idb.Diagram("contexts")
    day, hour = d.context("day", ["work", "rest"]), d.context("hour", ["early", "late"])
    d.reward(d.observed("click", [d.decision("item", ["a", "b"]), day, hour]))
    with live_of(url, clock) as live:
        live.put("shop", d)
        first = live.decide("shop", {"day": "work", "hour": "late"}, id="x")
        assert live.decide("shop", {"hour": "late", "day": "work"}, id="x") == first
        assert kind_of(live.decide, "shop", {"hour": "early", "day": "work"}, id="x") == "other-body"
        live.report("x", {"click": 1})
        clock.now += 31 * MINUTE
        assert live.tick() == 1
        table = live.posterior("shop")["click"].alpha
        assert table.sum() == 2 * 8 + 1
        assert live.probability("shop", "x")["reproduced"]


def test_holdout(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="exact", horizon=60, holdout=0.5, baseline={"item": "c"})
        live.put("random", shop(), inference="exact", horizon=60, holdout=0.5, learn_holdout=True)
        own = [live.decide("shop", unit=f"u{i % 20}") for i in range(100)]
        arms = {(decision.arm, i % 20) for i, decision in enumerate(own)}
        assert len(arms) == 20
        assert {arm for arm, _ in arms} == {"policy", "holdout"}
        assert {decision.action["item"] for decision in own if decision.arm == "holdout"} == {"c"}
        held = sum(decision.arm == "holdout" for decision in own)
        others = live.decide_many("random", [{}] * 100)
        drawn = {own.action["item"] for own in others if not isinstance(own, ServiceError) and own.arm == "holdout"}
        assert drawn == {"a", "b", "c"}  # fails with probability below 1e-5
        clock.now += 61
        assert live.tick() == 200
        assert live.view("shop").agent.rounds == 100 - held
        assert live.view("random").agent.rounds == 100
        assert live.show("shop")["closed"] == 100
        example = next(own for own in others if not isinstance(own, ServiceError) and own.arm == "holdout")
        assert live.probability("random", example.id)["reproduced"]


def test_shadow_and_callers(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="exact", horizon=60, mode="shadow")
        assert kind_of(live.decide, "shop") == "invalid"
        assert kind_of(live.decide, "shop", action={"item": "z"}) == "invalid"
        own = [live.decide("shop", action={"item": "b"}) for _ in range(30)]
        assert {decision.action["item"] for decision in own} == {"b"}
        assert own[0].arm == "caller"
        proposed = [live.decision("shop", decision.id)["proposed"]["item"] for decision in own]
        assert set(proposed) == {"a", "b", "c"}  # fails with probability 2e-5
        clock.now += 61
        live.tick()
        statistics = live.replica("shop").statistics
        assert (statistics.compared, statistics.agreed) == (30, proposed.count("b"))
        assert belief(live.view("shop").agent)["click"] == [[1, 1], [31, 1], [1, 1]]


def test_frozen(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="exact", horizon=60)
        live.decide("shop")
        clock.now += 61
        live.tick()
        live.put("shop", shop(), inference="exact", horizon=60, mode="frozen")
        live.decide("shop")
        clock.now += 61
        assert live.tick() == 1
        assert (live.view("shop").agent.rounds, live.show("shop")["closed"]) == (1, 2)


def test_sticky(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="exact", sticky="1h")
        first = live.decide("shop", unit="u")
        assert all(live.decide("shop", unit="u").action == first.action for _ in range(20))
        others = [item for item in "abc" if item != first.action["item"]]
        assert live.decide("shop", unit="u", allowed=others).action["item"] in others
        repeated = live.decide("shop", unit="v")
        again = live.decide("shop", unit="v")
        assert again.action == repeated.action
        assert kind_of(live.probability, "shop", again.id) == "invalid"
        clock.now += 2 * HOUR
        drawn = {live.decide("shop", unit=f"w{i}").action["item"] for i in range(30)}
        assert drawn == {"a", "b", "c"}  # fails with probability 2e-5


def test_deferred_decisions_count_when_they_are_shown(live: Live, clock: Clock) -> None:
    live.decide("shop", id="x", deferred=True)
    live.decide("shop", id="y", deferred=True)
    clock.now += DAY
    assert live.tick() == 0
    assert kind_of(live.shown, "x", at=START - HOUR) == "invalid"
    assert (live.shown("x", at=START + DAY - 5), live.shown("x")) == ("accepted", "unchanged")
    clock.now += 30 * MINUTE - 6
    assert live.tick() == 0
    clock.now += 2
    assert live.tick() == 1
    assert learned(live, "x") == {"click": 0}
    assert live.show("shop")["pending"] == 2  # y was never shown
    assert live.report("y", {"click": 1}, at=START + 9) == "accepted"  # what was clicked was shown
    live.tick()
    assert learned(live, "y") == {"click": 1, "buy": 0}


# -- outcomes ----------------------------------------------------------------------------------------------------------


def test_rounds_are_closed_by_age(live: Live, clock: Clock) -> None:
    """A node is known at its horizon, with and without events: earlier, rounds with clicks would be learned first."""
    live.decide("shop", id="x", allowed=["a"])
    live.decide("shop", id="y", allowed=["a"])
    assert live.report("x", {"click": 1}) == "accepted"
    clock.now += 30 * MINUTE - 1
    assert live.tick() == 0
    clock.now += 1
    assert live.tick() == 2
    assert (learned(live, "x"), learned(live, "y")) == ({"click": 1}, {"click": 0})
    assert live.report("y", {"buy": 1}) == "accepted"
    assert live.tick() == 0  # a purchase is known after a day
    clock.now += DAY
    assert live.tick() == 2
    assert (learned(live, "x"), learned(live, "y")) == ({"click": 1, "buy": 0}, {"click": 0, "buy": 1})
    assert belief(live.view("shop").agent) == {
        "click": [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]],
        "buy": [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]],
    }
    assert live.view("shop").agent.rounds == 2
    assert live.show("shop")["pending"] == 0


def test_corrections_and_repeats(live: Live, clock: Clock) -> None:
    live.decide("shop", id="x", allowed=["b"])
    at = START + 5
    clock.now += 10
    assert live.report("x", {"click": 1}, at=at) == "accepted"
    assert live.report("x", {"click": 1}, at=at) == "unchanged"
    assert live.report("x", {"click": 0}, at=at) == "accepted"
    assert live.report("x", {"click": 1}, at=at) == "unchanged"  # a late repeat of what was corrected
    clock.now += HOUR
    live.tick()
    assert learned(live, "x") == {"click": 0}
    assert live.report("x", {"click": (1, at + 1)}) == "accepted"
    assert live.tick() == 1
    assert learned(live, "x") == {"click": 1}
    assert belief(live.view("shop").agent)["click"][1] == [1.0, 2.0]
    assert live.replica("shop").statistics.corrected == 1
    assert live.report("x", {"buy": 1}) == "accepted"
    assert live.report("x", {"buy": 1}) == "unchanged"
    assert live.decision("shop", "x")["revision"] == 2


@pytest.mark.parametrize("inference", [3, ["exact"], {"name": ["exact"]}, {}, "best", {"name": "gibbs", "x": 1}])
def test_inferences_that_do_not_exist(live: Live, inference: Any) -> None:
    with pytest.raises(ServiceError, match=r"^inference ") as caught:
        live.put("other", shop(), inference=inference)
    assert (caught.value.kind, caught.value.field) == ("invalid", "inference")
    assert live.experiments() == ["shop"]


def test_a_diagram_without_observed_nodes_is_rejected(live: Live) -> None:
    d = idb.Diagram("blind")
    d.reward(d.latent("wanted", [d.decision("item", ["a", "b"])]))
    with pytest.raises(ServiceError, match="diagram must have an observed node"):
        live.put("blind", d)


def test_times_of_events(live: Live, clock: Clock) -> None:
    live.decide("shop", id="x")
    clock.now += HOUR
    assert kind_of(live.report, "x", {"click": 1}) == "too-late"  # a click after an hour does not count
    assert live.report("x", {"click": "2027-01-15T08:10:00+00:00"}) == "accepted"
    assert kind_of(live.report, "x", {"click": (1, START - HOUR)}) == "invalid"
    assert kind_of(live.report, "x", {"buy": 1}, at=clock.now + HOUR) == "invalid"
    assert kind_of(live.report, "x", {"buy": 1}, at="2027-01-15T09:00:00") == "invalid"  # no time zone
    assert kind_of(live.report, "x", {}) == "invalid"
    live.tick()
    assert learned(live, "x") == {"click": 1}
    clock.now = START + 8 * DAY
    assert live.report("x", {"buy": (1, START + HOUR)}) == "accepted"
    clock.now += 1
    assert kind_of(live.report, "x", {"buy": (0, START + HOUR)}) == "too-late"
    assert kind_of(live.report, "x", complete=True) == "too-late"
    live.tick()
    assert learned(live, "x") == {"click": 1, "buy": 1}


def test_complete_rounds_do_not_wait(live: Live, clock: Clock) -> None:
    live.decide("shop", id="x", allowed=["c"])
    assert live.report("x", {"click": 1}, complete=True) == "accepted"
    assert live.report("x", complete=True) == "unchanged"
    assert live.tick() == 1
    assert learned(live, "x") == {"click": 1, "buy": 0}
    assert live.report("x", {"buy": 1}) == "accepted"
    assert live.tick() == 1
    assert learned(live, "x") == {"click": 1, "buy": 1}
    clock.now += 2 * DAY
    assert live.tick() == 0


def test_values_that_nothing_can_have(live: Live, url: str, clock: Clock) -> None:
    live.decide("shop", id="x")
    for values, kind in (
        ({"click": 2}, "impossible"),
        ({"clicks": 1}, "unknown-node"),
        ({"item": "a"}, "unknown-node"),
    ):
        assert kind_of(live.report, "x", values) == kind
    assert kind_of(live.report, "y", {"click": 1}) == "unknown-decision"
    assert kind_of(live.report, "y", {"click": 1}, experiment="shop") == "unknown-decision"
    live.put("lists", models.cascade(["a", "b", "c"], 2), horizon=60)
    live.decide("lists", id="x")
    assert kind_of(live.report, "x", {"C1": 1}) == "invalid"  # an id of two experiments
    assert live.report("x", {"C1": 1, "C2": 1}, experiment="lists") == "accepted"  # each is possible
    live.decide("lists", id="z")
    live.report("z", {"C2": 1})
    clock.now += 61
    assert live.tick() == 1
    assert live.decision("lists", "x")["state"] == "impossible"
    assert learned(live, "x", "lists") is None
    ((_, _, reason, message, _, _),) = live.journal.letters("lists", 10)
    assert reason == "impossible"
    assert "probability zero" in message
    assert live.report("x", {"C2": (0, clock.now - 10)}, experiment="lists") == "accepted"
    assert live.tick() == 1
    assert learned(live, "x", "lists") == {"C1": 1, "C2": 0}
    assert live.view("lists").agent.rounds == 2
    assert live.show("lists")["impossible"] == 0


def test_nodes_without_a_value_by_default(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="exact", horizon=HORIZON, absent={"click": None, "buy": 1})
        live.decide("shop", id="x", allowed=["a"])
        clock.now += HOUR
        assert live.tick() == 0
        assert learned(live, "x") is None
        live.report("x", {"click": (1, START + 9)})  # comes after its horizon, and is learned at once
        assert live.tick() == 1
        assert learned(live, "x") == {"click": 1}
        live.report("x", {"click": (None, START + 10)})
        assert live.tick() == 1
        assert learned(live, "x") == {}
        clock.now += DAY
        live.tick()
        assert learned(live, "x") == {"buy": 1}
        assert belief(live.view("shop").agent) == {
            "click": [[1, 1], [1, 1], [1, 1]], "buy": [[1, 2], [1, 1], [1, 1]],
        }  # fmt: skip


def purchases() -> idb.Diagram:
    d = idb.Diagram("purchases")
    bought = d.latent("bought", [d.decision("card", ["tea", "milk"])])
    d.reward(bought)
    idb.delayed(d, bought, by=[3, 7, 30])
    return d


def test_delayed_outcomes(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("cards", purchases())
        for id in "xyz":
            live.decide("cards", id=id, allowed=["tea"])
        clock.now += 2 * DAY
        live.report("x", {"bought": 1})
        clock.now += 2 * DAY
        assert live.tick() == 3
        assert learned(live, "x", "cards") == {"bought by 3": 1}
        assert live.report("y", {"bought": 1}) == "accepted"
        assert live.tick() == 0
        clock.now += 4 * DAY
        live.tick()
        assert learned(live, "x", "cards") == {"bought by 3": 1, "bought by 7": 1}
        assert learned(live, "y", "cards") == {"bought by 3": 0, "bought by 7": 1}
        clock.now += 30 * DAY
        live.tick()
        assert learned(live, "z", "cards") == {"bought by 3": 0, "bought by 7": 0, "bought by 30": 0}
        assert live.show("cards")["pending"] == 0
        assert live.view("cards").agent.rounds == 3


@pytest.mark.parametrize("inference", ["moments", "incremental", "particles"])
def test_inferences_that_learn_a_round_once(new_store: Any, clock: Clock, inference: str) -> None:
    url = new_store()
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference=inference, horizon=HORIZON)
        live.decide("shop", id="x", allowed=["a"])
        live.report("x", {"click": 1})
        clock.now += HOUR
        assert live.tick() == 0  # not all of it is known
        live.report("x", {"buy": 1})
        clock.now += DAY
        assert live.tick() == 1
        assert learned(live, "x") == {"click": 1, "buy": 1}
        assert kind_of(live.report, "x", {"buy": (0, START + 9)}) == "too-late"
        first = live.view("shop").agent
        assert live.probability("shop", "x")["reproduced"]
    with live_of(url, clock) as live:  # random numbers of learning are those of the journal, too
        assert belief(live.view("shop").agent) == belief(first)
        assert first.rounds == 1


# -- versions ----------------------------------------------------------------------------------------------------------


def test_late_outcomes_of_many_versions(live: Live, url: str, clock: Clock) -> None:
    """An agent remembers 16 earlier diagrams; hourly versions with a horizon of a day have more."""
    ids = list[str]()
    for version in range(20):
        items = ["a", "b", f"new {version}"]
        assert live.put("shop", shop(items), inference="exact", horizon=HORIZON) == version + 2
        ids.append(live.decide("shop", allowed=["a"]).id)
        clock.now += HOUR
        live.tick()
    for id in ids:
        assert live.report(id, {"buy": 1, "click": (1, live.decision("shop", id)["at"] + 1)}) == "accepted"
    clock.now += DAY
    live.tick()
    agent = live.view("shop").agent
    assert belief(agent)["buy"][0] == [1.0, 21.0]
    assert belief(agent)["click"][0] == [1.0, 21.0]
    assert agent.rounds == 20
    with live_of(url, clock) as other:
        assert belief(other.view("shop").agent) == belief(agent)
    live.save_snapshots()
    with live_of(url, clock) as other:
        assert belief(other.view("shop").agent) == belief(agent)
        assert other.view("shop").version.number == 21


def test_versions(live: Live, clock: Clock) -> None:
    assert live.put("shop", shop(), inference="exact", horizon=HORIZON) == 1  # nothing changed
    assert kind_of(live.put, "shop", shop(), inference="gibbs", horizon=HORIZON) == "invalid"
    assert kind_of(live.put, "shop", shop(), inference="exact", horizons=1) == "invalid"
    assert kind_of(live.put, "bad name", shop()) == "invalid"
    assert kind_of(live.put, "lists", shop(), inference="particles", forget="10d") == "invalid"
    assert live.experiments() == ["shop"]
    live.decide("shop", id="x", allowed=["a"])
    assert live.put("shop", shop(["a", "d"]), inference="exact", horizon=60) == 2
    assert live.decide("shop", id="x", allowed=["a"]).version == 1  # the first answer
    assert live.decide("shop", allowed=["d"]).version == 2
    live.report("x", {"click": 1})
    clock.now += HOUR
    assert live.tick() == 2
    assert belief(live.view("shop").agent)["click"] == [[1, 2], [2, 1]]
    assert learned(live, "x") == {"click": 1}  # by the horizons of its version


def test_versions_of_two_workers_at_once(new_store: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that must stay are compared with the version that comes before, whoever put it."""
    url = new_store()
    with live_of(url, clock) as one, live_of(url, clock) as other:
        latest = one._latest
        monkeypatch.setattr(one, "_latest", lambda _: monkeypatch.setattr(one, "_latest", latest))
        other.put("shop", shop(), inference="exact")
        assert kind_of(one.put, "shop", shop(["a"]), inference="gibbs") == "invalid"
        assert one.put("shop", shop(["a"]), inference="exact") == 2


def test_repeated_requests_get_their_answer_although_they_could_not_be_new(live: Live) -> None:
    first = live.decide("shop", id="x", allowed=["a"])
    live.put("shop", shop(["b"]), inference="exact", horizon=HORIZON)
    assert kind_of(live.decide, "shop", allowed=["a"]) == "invalid"
    assert live.decide("shop", id="x", allowed=["a"]) == first
    live.set_status("shop", "paused")
    assert live.decide("shop", id="x", allowed=["a"]) == first
    assert kind_of(live.decide, "shop", id="x", allowed=["b"]) == "other-body"
    assert kind_of(live.decide, "shop", id="x", allowed=5) == "other-body"
    assert kind_of(live.decide, "shop", id="y", allowed=["a"]) == "not-active"


def test_totals(live: Live, clock: Clock) -> None:
    for i in range(5):
        live.decide("shop", id=f"x{i}", deferred=i == 0)
    live.report("x1", complete=True)
    live.tick()
    assert live.journal.totals("shop") == {
        "decisions": 5, "pending": 4, "letters": 0, "closed": 1, "open": 3, "deferred": 1,
    }  # fmt: skip


def test_pause_and_retire(live: Live, clock: Clock) -> None:
    live.decide("shop", id="x")
    live.set_status("shop", "paused")
    assert kind_of(live.decide, "shop") == "not-active"
    assert live.report("x", {"click": 1}) == "accepted"
    assert live.show("shop")["status"] == "paused"
    live.set_status("shop", "active")
    assert live.decide("shop").version == 1
    live.set_status("shop", "retired")
    clock.now += HOUR
    assert live.tick() == 2
    assert kind_of(live.set_status, "shop", "deleted") == "invalid"
    assert [row[3] for row in live.journal.audit("shop", 10)] == ["retired", "active", "paused", "version"]


# -- restarts ----------------------------------------------------------------------------------------------------------


def played(live: Live, clock: Clock, rounds: int = 60) -> None:
    """Decide and report some rounds."""
    for i in range(rounds):
        own = live.decide("shop")
        if i % 3:
            live.report(own.id, {"click": 1})
        if i % 20 == 19:
            clock.now += HOUR
            live.tick()


def test_restart(live: Live, url: str, clock: Clock) -> None:
    played(live, clock)
    live.decide("shop", id="x")
    first = belief(live.view("shop").agent)
    with live_of(url, clock) as other:
        assert belief(other.view("shop").agent) == first
        assert other.replica("shop").statistics == live.replica("shop").statistics
        assert other.decide("shop", id="x").action == live.decide("shop", id="x").action
        assert other.report("x", {"click": 1}) == "accepted"
        assert live.report("x", {"click": 1}) == "unchanged"


def test_damaged_snapshots_mean_a_longer_replay(live: Live, url: str, clock: Clock) -> None:
    played(live, clock)
    live.save_snapshots()
    played(live, clock)
    live.save_snapshots()
    played(live, clock)
    final = belief(live.view("shop").agent), live.replica("shop").statistics
    rows = live.journal.snapshots("shop")
    assert len(rows) == 2

    def reads() -> int:
        """Start again; return the position of the snapshot that was used."""
        with live_of(url, clock) as own:
            assert (belief(own.view("shop").agent), own.replica("shop").statistics) == final
            return own.replica("shop").snapshot_position

    assert reads() == rows[0][0]
    for block, library, digest, content in rows:
        damaged = [content[:-100], content[:500] + bytes([content[500] ^ 1]) + content[501:], b""]
        for own in damaged if block == rows[0][0] else damaged[:1]:
            live.journal.save_snapshot("shop", block, library, digest, own)
            assert reads() == (rows[1][0] if block == rows[0][0] else 0)
    live.journal.save_snapshot("shop", rows[0][0], "another library", rows[0][2], rows[0][3])
    assert reads() == 0
    live.journal.save_snapshot("shop", rows[0][0], *rows[0][1:])
    assert reads() == rows[0][0]


def test_a_failed_read_changes_nothing(live: Live, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that were learned in part before an error are not learned twice, and none is lost."""
    live.decide("shop", id="x", allowed=["a"])
    live.put("shop", shop(["a", "b"]), inference="exact", horizon=HORIZON)
    with Live(live.store.url, clock=clock, background=False, store=live.store) as own:
        live.decide("shop", id="y", allowed=["a"])
        live.put("shop", shop(["a", "c"]), inference="exact", horizon=HORIZON)
        clock.now += HOUR
        live.tick()
        known, unavailable = own.version, ServiceError("unavailable", "test")

        def fails(experiment: str, number: int) -> Any:
            if number == 1:
                raise unavailable
            return known(experiment, number)

        monkeypatch.setattr(own.replica("shop"), "_versions", fails)
        for _ in range(3):
            assert kind_of(own.tick) == "unavailable"
            assert own.view("shop").agent.rounds == 0
            assert own.replica("shop").statistics.rounds == 0
        monkeypatch.undo()
        own.tick()
        assert belief(own.view("shop").agent) == belief(live.view("shop").agent)
        assert own.replica("shop").statistics.rounds == 2
        monkeypatch.setattr(own, "store", own.store)
        own._committer.close()
        monkeypatch.setattr(Live, "close", lambda _: None)


def test_a_version_that_another_worker_has_not_seen(new_store: Any, clock: Clock) -> None:
    url = new_store()
    with live_of(url, clock) as one, live_of(url, clock) as other:
        one.put("shop", shop(), inference="exact", horizon=HORIZON)
        other.tick()
        one.put("shop", shop(["a", "b", "z"]), inference="exact", horizon=HORIZON)
        id = one.decide("shop", allowed=["z"]).id
        assert other.report(id, {"click": 1}) == "accepted"
        one.put("shop", shop(["a", "y"]), inference="exact", horizon=HORIZON)
        one.decide("shop", allowed=["y"])
        clock.now += HOUR
        assert other.tick() == 4
        assert one.tick() == 2
        assert belief(one.view("shop").agent) == belief(other.view("shop").agent)
        assert other.decide("shop", allowed=["y"]).version == 3


# -- probabilities and forgetting --------------------------------------------------------------------------------------


def test_probabilities_are_computed_again(live: Live, url: str, clock: Clock) -> None:
    played(live, clock)
    own = live.decide("shop", id="x", allowed=["a", "b"])
    played(live, clock)
    live.save_snapshots()
    played(live, clock)
    with live_of(url, clock) as other:
        found = other.probability("shop", "x")
        assert found["reproduced"]
        assert found["arm"] == own.arm
        both = [
            other.view("shop").agent.propensity({"item": item}, allowed=["a", "b"]).probability for item in ("a", "b")
        ]
        assert 0 < found["probability"] < 1
        assert sum(both) == pytest.approx(1, abs=0.1)
        assert found == live.probability("shop", "x")


def test_features_of_contexts(url: str, clock: Clock) -> None:
    d = idb.Diagram("visitors")
    user = d.context("user", features={"age": (0.5, 0.3), "income": (0, 1)})
    d.reward(d.observed("click", [d.decision("item", ["a", "b"]), user], idb.Learned("click", residuals=1.0)))
    with live_of(url, clock) as live:
        live.put("shop", d, horizon=60)
        for i in range(10):
            own = live.decide("shop", {"user": {"age": i / 10, "income": -0.5}}, id=f"d{i}")
            live.report(own.id, {"click": i % 2})
        clock.now += 61
        assert live.tick() == 10
        assert live.view("shop").agent.rounds == 10
        live.decide("shop", {"user": {"age": 0.1, "income": 0.5}}, id="x")
        assert live.probability("shop", "x")["reproduced"]
        live.decide("shop", {"user": {"age": float("nan"), "income": 0.5}}, id="y")  # not known
        assert live.probability("shop", "y")["reproduced"]
        assert kind_of(live.decide, "shop", {"user": {"age": float("inf"), "income": 0.5}}) == "invalid"


def test_forgetting_by_time(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="exact", horizon=60, forget="10d")
        live.decide("shop", id="x", allowed=["a"])
        clock.now += 61
        live.tick()
        clock.now += 10 * DAY
        live.decide("shop", id="y", allowed=["a"])
        clock.now += 61
        live.tick()
        expected = idb.Thompson(shop(), "exact", forget=idb.Forget("10d"))
        for at in (START, START + 10 * DAY + 61):
            expected.update({"item": "a"}, {"click": 0, "buy": 0}, at=at)
        found = belief(live.view("shop").agent)["buy"]
        assert found[0] == pytest.approx(belief(expected)["buy"][0], rel=1e-3)
        assert found[0] == pytest.approx([2.5, 1.0], abs=0.01)
        assert found[1:] == [[1.0, 1.0]] * 2
    with live_of(url, clock) as other:
        assert belief(other.view("shop").agent) == belief(live.view("shop").agent)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks while there are threads, which is the point
def test_forked_processes_are_told_to_open_their_own(live: Live) -> None:
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            live.decide("shop")
        except idb.errors.IdbanditsError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as message:
        assert "must be opened in the process that uses it" in message.read()
    os.waitpid(child, 0)
    assert live.decide("shop").version == 1


def test_background(url: str) -> None:
    with Live(url, tick=0.01) as live:
        live.put("shop", shop(), inference="exact", horizon=0)
        live.decide("shop", allowed=["a"])
        while live.view("shop").agent.rounds < 1:
            assert live.failure is None
    assert kind_of(live.decide, "shop") == "unavailable"


def test_journals_of_newer_libraries_are_rejected(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        with live.store.transaction() as own:
            own.all("INSERT INTO schema_version (number) VALUES (99)")
        assert kind_of(Journal, live.store) == "other-library"


def test_journals_that_were_never_released_are_rejected(url: str, clock: Clock) -> None:
    with live_of(url, clock) as live:
        with live.store.transaction() as transaction:
            transaction.all("UPDATE schema_version SET number = 1")
        with pytest.raises(ServiceError, match=r"must have a schema from version 2, got 1, .*: export"):
            Journal(live.store)
