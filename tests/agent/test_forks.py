"""Processes that are forked while threads use an agent: the child continues with complete rounds, or raises an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import idbandits as idb

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="other systems do not fork")

SECONDS = 120  # a guard against waiting for ever: it takes seconds
START = """
import os, signal, sys, threading, time
import idbandits as idb

def played(agent):
    agent.update(agent.act(), {"X1": 0, "X2": 1})

def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # a child that waits for a thread that it lacks is killed
        try:
            work()
        except idb.errors.IdbanditsError as error:
            print(error, flush=True)
            os._exit(3)
        except BaseException as error:
            print(type(error), error, flush=True)
            os._exit(4)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

d = idb.models.semi_bandit(4, 2)
"""
BUSY = """
agent = idb.Thompson(AGENT, seed=1)
played(agent)
agent.copy()
stop = threading.Event()
def learn():
    while not stop.is_set():
        played(agent)
threads = [threading.Thread(target=learn) for _ in range(2)]
for thread in threads:
    thread.start()

def work():
    rounds = agent.rounds
    for belief in (agent.posterior(),) if AGENT is d else agent.posterior().values():
        for table in belief.values():
            assert (table.alpha - 1).sum() == 2 * rounds, (table.alpha, rounds)  # no round is there in part
    played(agent)
    assert agent.copy().rounds == rounds + 1

codes = [child(work) for _ in range(40)]
stop.set()
for thread in threads:
    thread.join()
played(agent)
print(sorted(set(codes)))
"""
HELD = """
from idbandits.agent import fork_safety as locks
locks.WAIT = 0.1
agent, free = idb.Thompson(d, seed=1), idb.Thompson(d, seed=2)
played(agent)
held, done = threading.Event(), threading.Event()
def hold():
    with agent.rng.bit_generator.lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
def twice():
    os._exit(child(lambda: played(free)))
calls = lambda: agent.act(), lambda: agent.copy(), lambda: agent.rounds, lambda: played(free), twice
print([child(call) for call in calls])
done.set()
thread.join()
played(agent)
print(agent.rounds)
"""
COMPILING = """
from idbandits.agent import fork_safety as locks
from idbandits.kernel import compile as compiling
locks.WAIT = 0.1
agent = idb.Thompson(d, seed=1)
for _ in range(50):
    played(agent)
def compile():
    act = compiling._named("idbandits.inference.act", "act")
    act._address = None  # as if it was not compiled
    act.compile()
with compiling._compiling:
    print([child(lambda: played(agent)), child(compile)])
"""


def run(code: str) -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + code]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize("agent", ["d", '{"one": d, "two": idb.models.semi_bandit(4, 2)}'])
def test_a_child_that_is_forked_amid_updates_has_whole_rounds_and_goes_on(agent: str) -> None:
    assert run(f"AGENT = {agent}\n{BUSY}") == ["[0]"]


def test_an_agent_that_a_thread_holds_for_long_cannot_be_used_in_the_child() -> None:
    *messages, codes, rounds = run(HELD)
    assert (codes, rounds) == ("[3, 3, 3, 0, 0]", "2")
    assert len(messages) == 3
    assert all("another thread was changing this agent when the process was forked" in text for text in messages)


def test_a_child_of_a_process_that_is_compiling_says_that_it_cannot_compile() -> None:
    message, codes = run(COMPILING)
    assert codes == "[0, 3]"
    assert "another thread was compiling when the process was forked" in message
