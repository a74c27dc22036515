"""Several processes of a service: one learns, others take what it learned, and all know the same."""

import numpy as np
import pytest

import idbandits as idb
from idbandits.service.live import follower
from idbandits.service.live.live import Live
from idbandits.service.live.shelf import Shelf, new_shelf_folder

ROUNDS = 3 * follower.FEW


class Clock:
    """Clock that a test sets."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def processes(tmp_path):
    """Yield a process that learns, one that takes what that learned, and their clock."""
    clock, url = Clock(), f"sqlite:///{tmp_path}/shop.db"
    with (
        new_shelf_folder() as folder,
        Live(url, clock=clock, background=False, shelf=Shelf(folder), fills_shelf=True) as learner,
        Live(url, clock=clock, background=False, shelf=Shelf(folder)) as worker,
    ):
        learner.put("shop", idb.models.cascade(["tea", "milk", "rice"], 2), horizon="30m")
        yield learner, worker, clock


def play(live, rounds, rng, clock):
    """Make decisions and report clicks, until their rounds are due."""
    for _ in range(rounds):
        own = live.decide("shop")
        live.report(own.id, {f"C{rng.integers(1, 3)}": 1})
    clock.now += 1801.0


def fraction(live):
    """Return all that an agent and its statistics know."""
    posterior = {name: own.alpha.tolist() for name, own in live.posterior("shop").items()}
    return posterior, live.replica("shop").statistics.to_json(), live.view("shop").position


def test_a_worker_takes_what_the_learner_knows_and_learns_nothing_itself(processes):
    learner, worker, clock = processes
    play(worker, ROUNDS, np.random.default_rng(0), clock)
    worker.tick()
    assert worker.view("shop").agent.rounds == 0  # it leaves closing to the learner
    assert learner.tick() == ROUNDS
    worker.tick()
    assert fraction(worker) == fraction(learner)
    assert worker.view("shop").agent.rounds == ROUNDS
    assert worker.learned[0] == 1  # the version


def test_a_worker_learns_few_steps_itself(processes):
    learner, worker, clock = processes
    play(worker, 5, np.random.default_rng(1), clock)
    learner.tick()
    worker.tick()
    assert worker.view("shop").agent.rounds == 5
    assert fraction(worker) == fraction(learner)


def test_what_follows_an_entry_is_learned_as_without_it(processes, tmp_path):
    learner, worker, clock = processes
    rng = np.random.default_rng(2)
    play(worker, ROUNDS, rng, clock)
    learner.tick()
    worker.tick()
    play(worker, 5, rng, clock)
    decision = worker.decide("shop")
    worker.report(decision.id, {"C1": 1}, complete=True)
    learner.put("shop", idb.models.cascade(["tea", "milk", "rice", "salt"], 2), horizon="30m")  # a new version
    learner.tick()
    worker.tick()
    with Live(f"sqlite:///{tmp_path}/shop.db", clock=clock, background=False) as alone:
        assert fraction(worker) == fraction(learner) == fraction(alone)
    assert worker.decide("shop").version == 2


def test_workers_close_and_learn_when_the_learner_does_not(processes, monkeypatch):
    _, worker, clock = processes
    play(worker, ROUNDS, np.random.default_rng(3), clock)
    worker.tick()
    assert worker.view("shop").agent.rounds == 0
    monkeypatch.setattr(follower, "PATIENCE", 0.0)
    worker.tick()
    assert worker.view("shop").agent.rounds == ROUNDS


def test_a_damaged_entry_costs_work_only(processes, monkeypatch, tmp_path):
    learner, worker, clock = processes
    play(worker, ROUNDS, np.random.default_rng(4), clock)
    learner.tick()
    shelf = worker._follower._shelf
    (shelf._folder / "shop").write_bytes(b"no pickle")
    monkeypatch.setattr(follower, "PATIENCE", 0.0)
    worker.tick()
    assert fraction(worker) == fraction(learner)


def test_a_shelf_without_room_costs_work_only(processes, monkeypatch, tmp_path, caplog):
    learner, worker, clock = processes
    play(worker, ROUNDS, np.random.default_rng(5), clock)
    learner._follower._shelf._folder = tmp_path / "missing"
    assert learner.tick() == ROUNDS
    assert "what was learned of shop cannot be left in" in caplog.text
    monkeypatch.setattr(follower, "PATIENCE", 0.0)
    worker.tick()
    assert fraction(worker) == fraction(learner)
