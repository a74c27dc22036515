"""Processes of the service: workers, each with its own journal, agents and event loop, and the learner."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import uvicorn

from idbandits.errors import IdbanditsError
from idbandits.service.http.app import create_app
from idbandits.service.http.service_state import Options
from idbandits.service.http.timed_protocol import TimedProtocol, close_slow
from idbandits.service.live.live import Live
from idbandits.service.live.shelf import Shelf

GRACE = 20  # seconds for open requests when a worker ends
KEEP_ALIVE = 75  # seconds for which idle connections stay open: longer than in common proxies
BACKLOG = 2048
SHARES_PORT = sys.platform == "linux"  # the kernel distributes connections over the sockets of a port
SIGNALS = (signal.SIGTERM, signal.SIGINT)
NICENESS = 5  # of the learner: under load, decisions come first
HAS_MASK = hasattr(signal, "pthread_sigmask")


class Work(NamedTuple):
    """Store and options of a worker."""

    url: str
    options: Options
    access_log: bool = False
    shelf: str | None = None  # directory in which the learner puts its results


def bound_to(family: int, address: Any, *, shares: bool = False) -> socket.socket:
    """Return a socket bound to an address; if `shares`, other sockets of this user may be bound to it too."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def server_of(live: Live, work: Work) -> uvicorn.Server:
    """Return the server of a worker."""
    return uvicorn.Server(
        uvicorn.Config(
            create_app(live, work.options), http=TimedProtocol, ws="none", lifespan="on", access_log=work.access_log,
            log_level="info" if work.access_log else "warning", server_header=False, date_header=True,
            timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=GRACE, backlog=BACKLOG, proxy_headers=False,
        )
    )  # fmt: skip


async def serve(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Answer requests until a signal comes."""
    watch = asyncio.create_task(close_slow(server.server_state.connections))
    try:
        await server.serve(sockets)
    finally:
        watch.cancel()


def run_worker(work: Work, listening: socket.socket, parent: Any) -> None:
    """Serve until SIGTERM, SIGINT, or the end of the process that started this one.

    Where the system supports it, each worker listens on its own socket: with a shared socket, the worker that wakes up
    first would accept most connections.
    """
    _begin()
    unblock_signals()
    live = Live(work.url, shelf=None if work.shelf is None else Shelf(work.shelf))
    server = server_of(live, work)
    if SHARES_PORT:
        listening = bound_to(listening.family, listening.getsockname(), shares=True)

    def end() -> None:
        server.should_exit = True

    threading.Thread(target=_follow, args=(parent, end), daemon=True).start()
    loop_factory = server.config.get_loop_factory()
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve(server, [listening]))


def run_learner(work: Work, _: socket.socket, parent: Any) -> None:
    """Close rounds and learn for all workers of this host, until SIGTERM, SIGINT, or the end of the parent."""
    _begin()
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    ends = threading.Event()
    for number in SIGNALS:
        signal.signal(number, lambda *_: ends.set())
    unblock_signals()
    threading.Thread(target=_follow, args=(parent, ends.set), daemon=True).start()
    assert work.shelf is not None
    with Live(work.url, shelf=Shelf(work.shelf), fills_shelf=True) as live:
        ends.wait()
        with contextlib.suppress(IdbanditsError):  # the journal is not available: another start learns it again
            live.save_snapshots()


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block SIGTERM and SIGINT: a process started meanwhile receives them after it has installed its handlers."""
    if HAS_MASK:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        unblock_signals()


def unblock_signals() -> None:
    """Receive SIGTERM and SIGINT, which were blocked when this process was started."""
    if HAS_MASK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _begin() -> None:
    logging.basicConfig(format="idbandits: %(levelname)s: %(message)s", level=logging.WARNING)


def _follow(parent: Any, end: Callable[[], None]) -> None:
    """Call `end` when the parent closes its end of a pipe."""
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    end()
