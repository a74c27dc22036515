"""Signals whose handlers raise exceptions at random moments.

Python runs signal handlers between instructions, also in Python code called from machine code, which may not expect an
exception there.

- `by_ctrl_c`: many processes that act and learn get one SIGINT each and must end with KeyboardInterrupt.
- `by_alarm`: in one process, the handler of a timer raises exceptions. After each, the agent is exactly as before or
  exactly as after the interrupted call, and continues.

Processes are forked from one in which everything is compiled.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import feature_diagrams
import idbandits as idb
from inferences import INFERENCES, agent_of
from internals import groups, kept

NAMES = [name for name in INFERENCES if name not in ("literal", "random", "own")]
FEATURED = [("exact", "items"), ("gibbs", "items"), ("ep", "items"), ("moments", "requests")]
RIGHT, WRONG = 0, 3  # exit statuses of interrupted processes
SECONDS = 0.02  # maximum seconds until the interruption
HANG = 30  # seconds until an interrupted process must have ended


def problem(name: str, seed: int, features: str = "") -> tuple[idb.Thompson, idb.World]:
    """Return an agent and its world, both compiled, with features of items or of requests."""
    if features == "requests":
        d: idb.Diagram = feature_diagrams.shop()
        agent, means = agent_of(name, d, seed), {"click": np.linspace(0.1, 0.6, 6)[:, None], "bought": [0.2, 0.6]}
        world = idb.World(agent.diagram, means, seed=seed, contexts={"user": draw_user})
    else:
        own = {"attraction": feature_diagrams.catalogue().to_numpy()[:, [0]].astype(float)} if features else None
        agent = agent_of(name, idb.models.cascade(6, 2, features=own), seed)
        world = idb.World(agent.diagram, {"attraction": np.linspace(0.1, 0.6, 6)}, seed=seed)
    context = world.context() if features == "requests" else None
    action = agent.act(context)
    seen = world.step(action, context).observation
    agent.update(action, seen, context)
    log = {name: [v] for name, v in action.items()}, {name: [v] for name, v in seen.items()}
    agent.update_many(*log, None if context is None else {name: [v] for name, v in context.items()})
    agent.propensity(action, context, draws=2)
    agent.sample()
    agent.posterior()
    return agent, world


def draw_user(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a request."""
    return {"age": float(rng.normal(40, 15)), "country": ["de", "fr", "it"][int(rng.integers(3))]}


# -- one SIGINT per process ------------------------------------------------------------------------------------------


def act_and_learn(agent: idb.Thompson, world: idb.World) -> None:
    """Act and learn until interrupted."""
    while True:
        action = agent.act()
        agent.update(action, world.step(action).observation)


def only_act(agent: idb.Thompson, world: idb.World) -> None:
    while True:
        agent.act()


def only_update(agent: idb.Thompson, world: idb.World) -> None:
    action = agent.act()
    seen = world.step(action).observation
    while True:
        agent.update(action, seen)


def only_propensity(agent: idb.Thompson, world: idb.World) -> None:
    action = agent.act()
    while True:
        agent.propensity(action, draws=20)


def only_step(agent: idb.Thompson, world: idb.World) -> None:
    action = agent.act()
    while True:
        world.step(action)


LOOPS = [act_and_learn, only_act, only_update, only_propensity, only_step]


def by_ctrl_c(number: int, seed: int = 0, say: Callable[[str], Any] = print) -> list[str]:
    """Interrupt many processes by SIGINT; return exit reasons other than KeyboardInterrupt."""
    rng = np.random.default_rng(seed)
    problems = [problem(name, seed) for name in NAMES]
    wrong = []
    for k in range(number):
        loop, name = LOOPS[k % len(LOOPS)], NAMES[k % len(NAMES)]
        moment = SECONDS * rng.random()
        status = _interrupted(loop, *problems[k % len(NAMES)], moment)
        if status != RIGHT:
            reason = f"signal {-status}" if status < 0 else "a hang" if status == HANG else "another exception"
            wrong.append(f"process {k}, {loop.__name__} with {name}: {reason}")
            say(wrong[-1])
    return wrong


def _interrupted(loop: Callable[..., None], agent: idb.Thompson, world: idb.World, moment: float) -> int:
    """Return the exit status of a process that gets SIGINT after a moment; negative if a signal ended it."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        status = WRONG
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.write(writing, b"x")
            loop(agent, world)
        except KeyboardInterrupt:
            status = RIGHT if _still_works(agent, world) else WRONG
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    time.sleep(moment)
    end = time.monotonic() + HANG
    os.kill(child, signal.SIGINT)
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)
            os.waitpid(child, 0)
            return HANG
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(ended[1])


def _still_works(agent: idb.Thompson, world: idb.World) -> bool:
    before = agent.rounds
    action = agent.act()
    agent.update(action, world.step(action).observation)
    finite = all(np.isfinite(table.alpha).all() for table in agent.posterior().values())
    return agent.rounds == before + 1 and finite


# -- many alarms in one process --------------------------------------------------------------------------------------


class AlarmError(Exception):
    """Raised by the handler of a timer."""


def by_alarm(number: int, name: str, seed: int = 0, features: str = "") -> list[str]:
    """Interrupt calls of an agent by exceptions of a handler; return all inconsistencies.

    All calls are recorded before they are made. A second agent then makes the same calls without interruptions: the
    first must equal it without or with the last call.
    """
    agent, world = problem(name, seed, features)
    shadow, rng = agent.copy(), np.random.default_rng(seed)
    calls: list[Callable[[idb.Thompson], Any]] = []
    armed = False

    def handle(*_: Any) -> None:
        if armed:
            raise AlarmError

    def unraisable(hook: Any) -> None:
        if not isinstance(hook.exc_value, AlarmError):  # Python ignores exceptions in destructors
            sys.__unraisablehook__(hook)

    wrong: list[str] = []
    before_handler = signal.signal(signal.SIGALRM, handle)
    before_hook, sys.unraisablehook = sys.unraisablehook, unraisable
    gc.disable()  # alarms would be lost in callbacks of the garbage collector
    try:
        for k in range(number):
            calls.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 0.004 * rng.random(), 0.005)  # repeat in case it is lost
                armed = True
                _live(agent, world, calls, rng)
            except AlarmError:
                pass
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            for call in calls[:-1]:
                call(shadow)
            without = _difference(agent, shadow)
            if without and calls:
                calls[-1](shadow)
                if with_it := _difference(agent, shadow):
                    wrong.append(
                        f"{name}, interruption {k}: half done, {without} before the last call, {with_it} after it"
                    )
                    shadow = agent.copy()
    finally:
        gc.enable()
        sys.unraisablehook = before_hook
        signal.signal(signal.SIGALRM, before_handler)
    return wrong


def _live(
    agent: idb.Thompson, world: idb.World, calls: list[Callable[[idb.Thompson], Any]], rng: np.random.Generator
) -> None:
    """Act, learn, correct and read, forever."""
    revisable = INFERENCES_REVISABLE.get(type(agent.inference).__name__, False)
    revisable = revisable and not agent.diagram.of_kind("context")
    nodes = [n.name for n in agent.diagram.of_kind("observed")]
    while True:
        context = world.context() if agent.diagram.of_kind("context") else None
        calls.append(lambda a, context=context: a.act(context))
        action = agent.act(context)
        seen = world.step(action, context).observation
        calls.append(lambda a, action=action, seen=seen, context=context: a.update(action, seen, context))
        agent.update(action, seen, context)
        kind = rng.integers(8)
        if kind == 0:
            calls.append(lambda a: a.sample())
            agent.sample()
        elif kind == 1:
            agent.propensity(action, context, draws=3)
        elif kind == 2:
            agent.posterior()
        elif kind == 3:
            agent.copy()
        elif kind == 4:
            contexts = None if context is None else {name: [value] * 3 for name, value in context.items()}
            log = {k: [v] * 3 for k, v in action.items()}, {name: [seen[name]] * 3 for name in nodes}, contexts
            calls.append(lambda a, log=log: a.update_many(*log))
            agent.update_many(*log)
        elif kind == 5 and revisable:
            calls.append(lambda a, action=action, seen=seen: a.revise(action, seen, None))
            agent.revise(action, seen, None)


INFERENCES_REVISABLE = {
    kind.__name__: "revise" in kind.capabilities
    for kind in (idb.Exact, idb.Variational, idb.Gibbs, idb.EP, idb.Moments)
}


def _difference(agent: idb.Thompson, other: idb.Thompson) -> str:
    """Return the difference of two agents; "" if they are equal."""
    if agent.rounds != other.rounds:
        return f"{agent.rounds - other.rounds:+} rounds"
    if groups(agent) != groups(other):
        return "other groups"
    if str(agent.rng.bit_generator.state) != str(other.rng.bit_generator.state):
        return "other random numbers"
    if kept(agent.copy()) != kept(other):  # copies have no interrupted request
        return "another belief"
    return ""


def alarm_in_a_fork(number: int, name: str, seed: int, features: str = "") -> list[str]:
    """Run `by_alarm` in a separate process and report its death by a signal."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        faulthandler.dump_traceback_later(10 * HANG, exit=True)
        try:
            text = "\n".join(by_alarm(number, name, seed, features))
        except BaseException:
            text = traceback.format_exc()
        with contextlib.suppress(OSError):
            os.write(writing, text.encode()[-4000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [
        *text.splitlines(),
        *([f"{name}: death by signal {-status}" if status < 0 else f"{name}: a hang"] if status else []),
    ]


def main(processes: int, alarms: int, seed: int) -> int:
    """Run both tests; return 0 if nothing was found."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wrong = by_ctrl_c(processes, seed)
    print(f"{processes} processes got Ctrl-C: {len(wrong)} died of something else than KeyboardInterrupt", flush=True)
    for name in NAMES:
        problem(name, seed)
        found = alarm_in_a_fork(alarms, name, seed)
        print(f"{name}: {alarms} alarms: {'; '.join(found[-4:]) or 'right'}", flush=True)
        wrong += found
    for name, features in FEATURED:
        problem(name, seed, features)
        found = alarm_in_a_fork(alarms, name, seed, features)
        print(f"{name} with features of {features}: {alarms} alarms: {'; '.join(found[-4:]) or 'right'}", flush=True)
        wrong += found
    return bool(wrong)
