"""Services on the loopback address: the real server in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

import idbandits as idb
from idbandits.service.http.service_state import Options
from idbandits.service.http.worker_process import Work, serve, server_of
from idbandits.service.live.live import Live

WAIT = 60.0  # seconds until a service must answer


@contextmanager
def served(url: str, options: Options = Options(), **settings: Any) -> Iterator[str]:  # noqa: B008
    """Serve a store; yield the address when the service is ready."""
    live = Live(url, **settings)
    server = server_of(live, Work(url, options))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=lambda: asyncio.run(serve(server, [listening])))
        thread.start()
        try:
            until_ready(address)
            yield address
        finally:
            server.should_exit = True
            thread.join()


def until_ready(address: str) -> None:
    """Wait until a service can decide."""
    until = time.monotonic() + WAIT
    while True:
        try:
            if httpx.get(f"{address}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < until
        time.sleep(0.05)


def cascade() -> idb.Diagram:
    """Return a diagram with two positions and four items."""
    return idb.models.cascade(["news", "sport", "music", "film"], 2)


def experiment(**settings: Any) -> dict[str, Any]:
    """Return the body that creates an experiment."""
    return {"diagram": cascade().to_dict(), **settings}


def put(address: str, name: str = "shop", **settings: Any) -> None:
    """Create an experiment."""
    answer = httpx.put(f"{address}/v1/experiments/{name}", json=experiment(**settings), timeout=120)
    assert answer.status_code in (200, 201), answer.text
