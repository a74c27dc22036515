"""Parent of the workers: compiles kernels, starts worker processes on one address, and restarts those that die."""

from __future__ import annotations

import contextlib
import ipaddress
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any, final

from idbandits.agent.thompson import Thompson
from idbandits.errors import IdbanditsError
from idbandits.models import cascade
from idbandits.service.http.access_tokens import stored_tokens
from idbandits.service.http.worker_process import (
    GRACE,
    SHARES_PORT,
    SIGNALS,
    Work,
    bound_to,
    run_learner,
    run_worker,
    signals_blocked,
)
from idbandits.service.live.live import Live
from idbandits.service.live.shelf import new_shelf_folder

SHORTEST = 5.0  # seconds; workers that end sooner are restarted after a pause
PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0)  # seconds, by the number of short lives in a row


def is_local(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def prepare(url: str, host: str, say: Callable[[str], None]) -> None:
    """Check tokens, bring the journal up to date, and compile the kernels of all experiments."""
    with Live(url, background=False) as live:
        tokens = stored_tokens(live.journal)
        if not is_local(host) and not any(token.revoked is None for token in tokens):
            raise IdbanditsError(
                f"--host must be 127.0.0.1 as long as there are no tokens, got {host!r}: idbandits token create NAME "
                f"--scope admin --store {live.store.url}"
            )
        if not tokens:
            say("no tokens: every program on this machine may do everything (see idbandits token --help)")
        for name in live.experiments():
            live.view(name).agent.warm_up()
        if not live.experiments():  # most kernels do not depend on the diagram
            Thompson(cascade(2, 2), seed=0).warm_up()


def bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to a free address, at which workers listen when they are ready."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = bound_to(family, address)
        if SHARES_PORT:  # the address is free: bind again, so that workers can share it
            address = listening.getsockname()
            listening.close()
            listening = bound_to(family, address, shares=True)
    except OSError as error:
        raise IdbanditsError(f"--host and --port must be free, got {host}:{port}: {error.strerror or error}") from None
    listening.set_inheritable(True)
    return listening


@final
class Supervisor:
    """Workers and a learner as child processes, spawned because locks and connections must not be inherited."""

    def __init__(self, work: Work, listening: socket.socket, number: int, say: Callable[[str], None]) -> None:
        self._work, self._socket, self._say = work, listening, say
        self._context = multiprocessing.get_context("spawn")
        self._reader, self._writer = self._context.Pipe(duplex=False)  # closed by the end of this process
        self._runs = [*[run_worker] * number, *[run_learner] * (number > 1)]  # a single worker learns itself
        self._workers: list[Any] = [None] * len(self._runs)
        self._began, self._failures = [0.0] * len(self._runs), [0] * len(self._runs)
        self._ending = False

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit status."""
        with self._signals(), new_shelf_folder() as folder:
            self._work = self._work._replace(shelf=folder if run_learner in self._runs else None)
            try:
                for place in range(len(self._workers)):
                    self._start(place)
                while not self._ending:
                    wait([process.sentinel for process in self._workers], timeout=0.5)
                    for place, process in enumerate(self._workers):
                        if not self._ending and not process.is_alive():
                            self._restart(place)
            finally:
                self._end()
            return 0

    def _start(self, place: int) -> None:
        arguments = self._work, self._socket, self._reader
        process = self._context.Process(target=self._runs[place], args=arguments, daemon=False)
        with signals_blocked():
            process.start()
        self._workers[place], self._began[place] = process, time.monotonic()

    def _restart(self, place: int) -> None:
        process = self._workers[place]
        process.join()
        is_short = time.monotonic() - self._began[place] < SHORTEST
        self._failures[place] = self._failures[place] + 1 if is_short else 0
        pause = PAUSES[min(self._failures[place], len(PAUSES) - 1)]
        what = "worker" if self._runs[place] is run_worker else "learner"
        self._say(f"{what} {process.pid} ended with status {process.exitcode}; another one starts in {pause:g} s")
        until = time.monotonic() + pause
        while time.monotonic() < until and not self._ending:
            time.sleep(0.05)
        if not self._ending:
            self._start(place)

    def _end(self) -> None:
        """Let all workers finish their requests and end; kill those that take too long."""
        workers = [process for process in self._workers if process is not None]
        for process in workers:
            if process.is_alive():
                process.terminate()
        until = time.monotonic() + GRACE + 30.0  # snapshots are stored after the last request
        for process in workers:
            process.join(max(0.1, until - time.monotonic()))
            if process.is_alive():
                self._say(f"worker {process.pid} did not end and is killed")
                process.kill()
                process.join()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def end(*_: Any) -> None:
            self._ending = True

        before = {number: signal.signal(number, end) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
