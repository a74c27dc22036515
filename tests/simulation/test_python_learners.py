"""Simulation of learners written in Python: arguments, random numbers, errors, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import idbandits as idb
from idbandits import simulate
from idbandits.errors import IdbanditsError
from played_rounds import totals_by_hand, totals_of
from simulation_cases import WORLDS, Always, Greedy, Seeded, Wrapped, assert_same_totals, coin_world, coins


def test_a_learner_in_python() -> None:
    learner = Greedy("coin", 3, "heads")
    result = simulate(coin_world(), {"greedy": learner}, 200, runs=2, progress=False, checkpoints="every")
    assert learner.times == [0, 0, 0]  # a copy of it played
    wanted, totals = totals_by_hand(coin_world(), learner, "greedy", 0, 1, 200), totals_of(result, "greedy", 1)
    np.testing.assert_array_equal(totals[:, 0], wanted[:, 0])
    np.testing.assert_allclose(totals[:, 1], wanted[:, 1], rtol=1e-12)


class Contextual:
    """Learner that records its arguments."""

    calls: ClassVar[list[tuple[str, Any]]] = []  # of all copies

    def act(self, context: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(("act", dict(context)))
        return {"second": "water", "first": "tea" if context["segment"] == "new" else "juice"}

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        self.calls.append(("update", dict(context)))
        assert set(observation) == {"sip", "mood"}
        assert action["first"] == ("tea" if context["segment"] == "new" else "juice")


def test_a_learner_in_python_with_contexts() -> None:
    Contextual.calls.clear()
    world = WORLDS["shop"]()
    result = simulate(world, {"it": Contextual()}, 300, runs=1, progress=False)
    acts, updates = Contextual.calls[::2], Contextual.calls[1::2]
    assert [c for _, c in acts] == [c for _, c in updates]
    assert {kind for kind, _ in acts} == {"act"}
    assert len({tuple(c.items()) for _, c in acts}) == 6
    wanted = sum(
        world.regret({"second": "water", "first": "tea" if c["segment"] == "new" else "juice"}, c) for _, c in acts
    )
    assert result.frame["regret"].iloc[-1] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("where", ["position-based", "shop", "random 0"])
def test_a_learner_with_a_diagram_in_python_meets_the_same_world(where: str) -> None:
    world = WORLDS[where]()
    agent = Wrapped(idb.Thompson(world.diagram.revealed(), "exact", seed=5))
    result = simulate(world, {"it": agent}, 100, runs=1, progress=False, checkpoints="every")
    wanted = totals_by_hand(world, agent, "it", 0, 0, 100)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12, atol=1e-12)


def test_all_learners_of_a_run_meet_the_same_random_numbers() -> None:
    frame = simulate(coin_world(), {"one": Always(1), "other": Always(1)}, 300, runs=2, progress=False).frame
    one, other = (frame[frame["learner"] == name]["reward"].to_numpy() for name in ("one", "other"))
    np.testing.assert_array_equal(one, other)


def test_generators_of_learners_are_those_of_the_run() -> None:
    learner = Seeded(1)
    state = learner.rng.bit_generator.state
    frame = simulate(coin_world(), {"it": learner, "as": Seeded(1)}, 100, runs=2, progress=False).frame
    regrets = [g["regret"].to_numpy() for _, g in frame.groupby(["learner", "run"], observed=True)]
    for i in range(4):
        for j in range(i):
            assert (regrets[i] != regrets[j]).any()
    assert learner.rng.bit_generator.state == state


def test_learners_that_hold_agents_are_copied_in_threads() -> None:
    code = """
        import idbandits as idb
        class Holder:
            def __init__(self, agent): self.agent = agent
            def act(self): return self.agent.act()
            def update(self, action, observation): self.agent.update(action, observation)
        d = idb.models.semi_bandit(4, 2)
        world = idb.World(d, {"mean": [0.1, 0.2, 0.3, 0.4]})
        holders = {str(k): Holder(idb.Thompson(d, "exact", seed=0)) for k in range(4)}
        frame = idb.simulate(world, holders, 20, runs=4, workers=4, progress=False).frame
        assert len(frame) == 20 * 4 * 4
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]


def test_exceptions_of_learners_are_raised() -> None:
    class Broken(Greedy):
        def act(self) -> dict[str, Any]:
            if sum(self.times) == 10:
                raise ZeroDivisionError("after ten rounds")
            return super().act()

    with pytest.raises(ZeroDivisionError, match="after ten rounds"):
        simulate(coin_world(), {"it": Broken("coin", 3, "heads")}, 100, runs=4, progress=False)


def test_invalid_actions_of_learners_are_reported() -> None:
    with pytest.raises(IdbanditsError, match=r"'coin' must be .*0 to 2.*got 7"):
        simulate(coin_world(), {"it": Always(7)}, 100, runs=1, progress=False)


# -- Ctrl-C --------------------------------------------------------------------------------------------------------


class Interrupting(Greedy):
    """Learner that presses Ctrl-C at the start of run number `at`; that run and later ones are slow."""

    runs = 0  # begun, of all copies
    lock = threading.Lock()

    def __init__(self, at: int) -> None:
        super().__init__("coin", 3, "heads")
        self.at, self.run = at, -1

    def act(self) -> dict[str, Any]:
        if self.run < 0:
            with Interrupting.lock:
                self.run, Interrupting.runs = Interrupting.runs, Interrupting.runs + 1
            if self.run == self.at:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        if self.run >= self.at:
            time.sleep(0.01)
        return super().act()


def interrupted(learners: dict[str, Any], **settings: Any) -> idb.Result:
    """Simulate without raising KeyboardInterrupt, which would end pytest."""
    try:
        result = simulate(coin_world(), learners, **settings)
    except KeyboardInterrupt:
        pytest.fail("Ctrl-C came out of simulate")
    assert result.settings["interrupted"] is True
    return result


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("at", [0, 3])
def test_ctrl_c_keeps_the_runs_that_are_finished(workers: int, at: int) -> None:
    Interrupting.runs = 0
    settings = {"rounds": 1000, "runs": 8, "seed": 2, "progress": False}
    result = interrupted({"slow": Interrupting(at)}, workers=workers, **settings)
    assert "interrupted=True" in repr(result)
    complete = simulate(coin_world(), {"slow": Greedy("coin", 3, "heads")}, **settings).frame
    runs = sorted(set(result.frame["run"]))
    assert at - workers < len(runs) <= at  # no run that takes its time was waited for
    assert_same_totals(complete[complete["run"].isin(runs)], result.frame)
    assert result.summary()["runs"].tolist() == [len(runs)]


def test_ctrl_c_keeps_finished_runs_of_compiled_learners() -> None:
    Interrupting.runs = 0
    d = coins()
    learners = {"fast": idb.Thompson(d, "exact"), "slow": Interrupting(2)}
    result = interrupted(learners, rounds=1000, runs=6, workers=1, progress=False)
    complete = simulate(coin_world(), {"fast": idb.Thompson(d, "exact")}, rounds=1000, runs=6, progress=False).frame
    fast = result.frame[result.frame["learner"] == "fast"]
    runs = sorted(set(fast["run"]))
    assert runs[:2] == [0, 1]
    assert result.frame.loc[result.frame["learner"] == "slow", "run"].nunique() <= 2
    assert_same_totals(complete[complete["run"].isin(runs)], fast)
