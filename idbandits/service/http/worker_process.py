"""Worker process of the service: its own journal, agents and event loop, on an address that all workers share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
from typing import Any, NamedTuple

import uvicorn

from idbandits.service.http.app import create_app
from idbandits.service.http.service_state import Options
from idbandits.service.http.timed_protocol import TimedProtocol, close_slow
from idbandits.service.live.live import Live

GRACE = 20  # seconds for requests that are under way when a worker ends
KEEP_ALIVE = 75  # seconds that idle connections stay open: longer than those of usual proxies
BACKLOG = 2048
SWITCH = 0.0005  # seconds until a thread that waits for the interpreter gets it; with 5 ms, the journal's waits most
SHARES_PORT = sys.platform == "linux"  # where the kernel divides connections among the sockets of a port


class Work(NamedTuple):
    """Store and options of a worker."""

    url: str
    options: Options
    access_log: bool = False


def bound_to(family: int, address: Any, *, shares: bool = False) -> socket.socket:
    """Return a socket that is bound to an address; one that shares it with other sockets of this user."""
    own = socket.socket(family, socket.SOCK_STREAM)
    try:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(address)
    except OSError:
        own.close()
        raise
    return own


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

    Each worker listens on a socket of its own where it can: from one that is shared, the first to wake up takes most
    connections.
    """
    logging.basicConfig(format="idbandits: %(levelname)s: %(message)s", level=logging.WARNING)
    sys.setswitchinterval(SWITCH)
    live = Live(work.url)
    server = server_of(live, work)
    if SHARES_PORT:
        listening = bound_to(listening.family, listening.getsockname(), shares=True)
    threading.Thread(target=_follow, args=(parent, server), daemon=True).start()
    loop_factory = server.config.get_loop_factory()
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve(server, [listening]))


def _follow(parent: Any, server: uvicorn.Server) -> None:
    """End the server when the other end of a pipe is closed."""
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    server.should_exit = True
