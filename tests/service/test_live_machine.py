"""Any sequence of calls of two workers comes to what a plain account in Python says (tests/support/live_cases.py)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test  # fmt: skip

import idbandits as idb
from idbandits.service.live.deciding import Request
from idbandits.service.live.live import Live
from idbandits.service.service_errors import ServiceError
from live_cases import DAY, HORIZON, HOUR, MINUTE, Clock, Shown, belief, counted, live_of, shop

KEPT = ["a", "b"]  # items of all versions


class Workers(RuleBasedStateMachine):
    """Two workers on one store; each decision has its account."""

    new_store: Callable[[], str]
    inference = "exact"
    decisions = Bundle("decisions")

    @initialize()
    def start(self) -> None:
        self.url, self.clock = self.new_store(), Clock()
        self.workers: list[Live] = [live_of(self.url, self.clock) for _ in range(2)]
        self.items, self.versions = [*KEPT, "new 1"], 1
        self.workers[0].put("shop", shop(self.items), inference=self.inference, horizon=HORIZON)
        self.accounts = dict[str, Shown]()

    def teardown(self) -> None:
        for worker in getattr(self, "workers", []):
            worker.close()

    def now(self, call: Any, *arguments: Any, **named: Any) -> str:
        """Return the answer to a report, or the kind of its error."""
        try:
            return str(call(*arguments, **named))
        except ServiceError as error:
            return error.kind

    @rule(target=decisions, worker=st.integers(0, 1), deferred=st.booleans())
    def decide(self, worker: int, deferred: bool) -> str:
        id = f"d{len(self.accounts)}"
        own = self.workers[worker].decide("shop", id=id, deferred=deferred)
        self.accounts[id] = Shown(own.action, shop(self.items), self.clock.now, deferred=deferred)
        return id

    @rule(id=decisions, worker=st.integers(0, 1))
    def repeat(self, id: str, worker: int) -> None:
        deferred = self.workers[0].journal.decision("shop", id).state == "deferred"
        account = self.accounts[id]
        if deferred:
            assert self.workers[worker].decide("shop", id=id, deferred=True).action == account.action
        answers = {self.now(self.workers[worker].decide, "shop", id=id, deferred=own) for own in (False, True)}
        assert "other-body" in answers
        assert len(answers) == 2

    @rule(id=decisions, worker=st.integers(0, 1))
    def show(self, id: str, worker: int) -> None:
        account = self.accounts[id]
        expected = account.show(self.clock.now)
        assert self.now(self.workers[worker].shown, id) == expected

    @rule(
        id=decisions, worker=st.integers(0, 1), complete=st.booleans(),
        values=st.dictionaries(st.sampled_from(["click", "buy"]), st.integers(0, 1), max_size=2),
        ago=st.sampled_from([None, MINUTE, 20 * MINUTE, HOUR]),
    )  # fmt: skip
    def report(self, id: str, worker: int, values: dict[str, int], ago: float | None, complete: bool) -> None:
        account, at = self.accounts[id], None if ago is None else self.clock.now - ago
        if (not values and not complete) or (at is not None and values and at < account.made - 300):
            expected = "invalid"
        else:
            expected = account.answer(self.clock.now, values, at, complete)
        assert self.now(self.workers[worker].report, id, values, at=at, complete=complete) == expected

    @rule(id=decisions, worker=st.integers(0, 1), value=st.integers(0, 1))
    def correct(self, id: str, worker: int, value: int) -> None:
        """Say something else on what was said before."""
        account = self.accounts[id]
        if account.words:
            at = account.words[-1].at
            node = account.words[-1].node
            expected = account.answer(self.clock.now, {node: value}, at)
            if account.words[-1].received != self.clock.now or at != self.clock.now:
                assert self.now(self.workers[worker].report, id, {node: value}, at=at) == expected

    @rule(worker=st.integers(0, 1), seconds=st.sampled_from([MINUTE, 20 * MINUTE, HOUR, DAY, 9 * DAY]))
    def time_passes(self, worker: int, seconds: float) -> None:
        self.clock.now += seconds
        self.workers[worker].tick()

    @rule(worker=st.integers(0, 1))
    def new_version(self, worker: int) -> None:
        self.versions += 1
        self.items = [*KEPT, f"new {self.versions}"]
        own = self.workers[worker]
        own.put("shop", shop(self.items), inference=self.inference, horizon=HORIZON)

    @rule(worker=st.integers(0, 1), saves=st.booleans())
    def restart(self, worker: int, saves: bool) -> None:
        if saves:
            self.workers[worker].save_snapshots()
        self.workers[worker].close()
        self.workers[worker] = live_of(self.url, self.clock)

    @rule()
    def compare(self) -> None:
        """Beliefs are those of the account, and equal to the last bit."""
        for worker in self.workers:
            worker.tick()
        for worker in self.workers:
            worker.tick()
        agents = [worker.view("shop").agent for worker in self.workers]
        assert belief(agents[0]) == belief(agents[1])
        assert self.workers[0].replica("shop").statistics == self.workers[1].replica("shop").statistics
        items, now = [str(item) for item in agents[0].diagram.nodes["item"].values], self.clock.now
        expected = counted(KEPT, self.accounts.values(), now)
        learned = [own for own in self.accounts.values() if own.observation(now) is not None]
        assert agents[0].rounds == len(learned)
        assert items[:2] == KEPT
        found = {name: table[:2] for name, table in belief(agents[0]).items()}
        assert self.close(found, expected)
        assert self.workers[0].replica("shop").rejected == 0

    def close(self, found: Any, expected: Any) -> bool:
        return bool(found == expected)


@pytest.mark.parametrize("inference", ["exact", "gibbs"])
def test_two_workers(new_store: Callable[[], str], inference: str) -> None:
    machine = type("Machine", (Workers,), {"new_store": staticmethod(new_store), "inference": inference})
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    examples = settings(
        max_examples=8, stateful_step_count=40, deadline=None, suppress_health_check=slow, derandomize=True,
        database=None,
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=examples)


def outcomes_in_disorder(url: str, rounds: int, seed: int) -> None:
    """30 % repeats, any order, 10 % corrections, 5 % missing: the belief is that of one agent given the final rounds."""
    rng, clock = random.Random(seed), Clock()
    items = [f"item {i}" for i in range(20)]
    with live_of(url, clock) as live, live_of(url, clock) as other:
        live.put("shop", shop(items), inference="exact", horizon=HORIZON)
        other.tick()
        final = dict[str, tuple[dict[str, Any], dict[str, int]]]()
        waiting = list[dict[str, Any]]()
        while len(final) < rounds or waiting:
            if len(final) < rounds:
                numbers = range(len(final), min(len(final) + 200, rounds))
                for own in live.decide_many("shop", [Request(id=f"d{n}") for n in numbers]):
                    assert not isinstance(own, ServiceError)
                    values = {"click": int(rng.random() < 0.4), "buy": int(rng.random() < 0.2)}
                    told = [{"id": own.id, "values": values, "at": clock.now + 1}]
                    if rng.random() < 0.1:
                        values = {name: int(rng.random() < 0.5) for name in values}
                        told.append({"id": own.id, "values": values, "at": clock.now + 2})
                    if rng.random() < 0.05:
                        told, values = [], {"click": 0, "buy": 0}
                    final[own.id] = own.action, values
                    waiting += told + [again for again in told if rng.random() < 0.3]
            clock.now += 20 * MINUTE
            rng.shuffle(waiting)
            sent, waiting = waiting[:400], waiting[400:]
            for worker, part in ((live, sent[::2]), (other, sent[1::2])):
                answers = worker.report_many("shop", part)
                assert set(answers) <= {"accepted", "unchanged"}, answers
            live.tick()
            other.tick()
        clock.now += DAY
        live.tick()
        other.tick()
        alone = idb.Thompson(shop(items), "exact", seed=0)
        for action, observation in final.values():
            alone.update(action, observation)
        for worker in (live, other):
            assert belief(worker.view("shop").agent) == belief(alone)
            assert worker.view("shop").agent.rounds == rounds
            assert worker.show("shop")["pending"] == 0


def test_outcomes_in_disorder(url: str) -> None:
    outcomes_in_disorder(url, 2000, seed=0)
