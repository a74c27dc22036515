"""Forks of processes: a child must not wait for threads that it lacks, nor use an agent in the middle of a change.

The lock of an agent is that of its random numbers (`agent.rng.bit_generator.lock`), as agents may share these. A fork
waits until no other thread is learning or acting. Where that takes too long, the agent cannot be used in the child.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any, NoReturn, final

from idbandits.errors import IdbanditsError
from idbandits.kernel import compile as compiling

WAIT = 5.0  # seconds that a fork waits for all agents and for the compiler

_agents: weakref.WeakSet[Any] = weakref.WeakSet()
_registering = threading.Lock()
_held: list[Any] = []  # locks, between the beginning and the end of a fork
_busy: list[Any] = []  # agents that another thread was changing
_compiles: list[Any] = []  # the lock of the compiler, if another thread was compiling


def make_fork_safe(agent: Any) -> None:
    """Protect an agent with random numbers `rng`: forks wait for its lock."""
    with _registering:
        _agents.add(agent)


@final
class ForkedAgent:
    """Agent in a child process that was forked while another thread was changing it: any use raises an error."""

    def __getattr__(self, name: str) -> NoReturn:
        raise IdbanditsError(
            "another thread was changing this agent when the process was forked, so the child cannot use it; "
            "load the agent or make a copy of it before forking, or start processes by 'spawn'"
        )

    def __reduce__(self) -> NoReturn:
        self.__getattr__("__reduce__")


@final
class _LostCompiler:
    """Lock of the compiler in a child process that was forked while another thread was compiling."""

    def __enter__(self) -> NoReturn:
        raise IdbanditsError(
            "another thread was compiling when the process was forked, so the child cannot compile; call "
            "agent.warm_up() before forking, or start processes by 'spawn'"
        )

    def __exit__(self, *_: object) -> None:
        pass


def _before_fork() -> None:
    """Wait until no other thread changes an agent or compiles, and hold all locks during the fork."""
    _registering.acquire()
    end = time.monotonic() + WAIT

    def take(lock: Any) -> bool:
        if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
            return False
        _held.append(lock)
        return True

    by_lock: dict[int, list[Any]] = {}
    for agent in list(_agents):
        by_lock.setdefault(id(agent.rng.bit_generator.lock), []).append(agent)
    for agents in by_lock.values():
        if not take(agents[0].rng.bit_generator.lock):
            _busy.extend(agents)
    if not take(compiling._compiling):
        _compiles.append(compiling._compiling)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()
    _busy.clear()
    _compiles.clear()
    _registering.release()


def _after_fork_in_child() -> None:
    for agent in _busy:
        _reset(agent.rng.bit_generator.lock)
        _agents.discard(agent)
        vars(agent).clear()
        agent.__class__ = ForkedAgent
    for lock in _compiles:
        _reset(lock)  # it is taken when the process ends
        compiling._compiling = _LostCompiler()  # type: ignore[assignment]
    _after_fork_in_parent()


def _reset(lock: Any) -> None:
    """Release a lock that was held by a thread of the parent."""
    if hasattr(lock, "_at_fork_reinit"):  # of CPython
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
