"""Clients: the calls of `Live` over HTTP, retries through a proxy that cuts connections, and fallbacks."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

import idbandits as idb
from http_service import cascade, put, served
from idbandits.service.client import ClientDecision
from idbandits.service.service_errors import ServiceError

SHOWN = {"A1": "news", "A2": "film"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('client')}/a.db") as own:
        put(own)
        yield own


class CuttingProxy:
    """Proxy that forwards requests, and cuts the connection instead of the first answers."""

    def __init__(self, address: str, cuts: int) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._target, self.cuts, self.requests = (host, int(port)), cuts, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                own, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(own,), daemon=True).start()

    def _forward(self, own: socket.socket) -> None:
        with own, socket.create_connection(self._target) as other:
            while request := _whole(own):
                self.requests += 1
                other.sendall(request)
                answer = _whole(other)  # the service has committed by now
                if self.cuts > 0:
                    self.cuts -= 1
                    return
                own.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def _whole(own: socket.socket) -> bytes:
    """Return the next request or answer, empty at the end of the connection."""
    request = b""
    while part := own.recv(65_536):
        request += part
        head, end, body = request.partition(b"\r\n\r\n")
        lengths = [int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length")]
        if end and len(body) == sum(lengths):
            return request
    return b""


@contextmanager
def cutting(address: str, cuts: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(address, cuts)
    try:
        yield proxy
    finally:
        proxy.close()


def unused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as own:
        return f"http://127.0.0.1:{own.getsockname()[1]}"


def test_the_calls_of_live(address: str) -> None:
    with idb.Client(address, timeout=60) as client:
        assert client.put("calls", cascade(), horizon="1h") == 1
        decision = client.decide("calls", allowed=["news", "film"], unit="u1")
        assert sorted(decision.action.values()) == ["film", "news"]
        assert not decision.fallback
        assert client.report(decision, {"C1": datetime.now(UTC)}) == "accepted"
        at = datetime.now(UTC) - timedelta(seconds=1)
        assert client.report(decision.id, {"C2": (1, at)}, experiment="calls") == "accepted"
        assert client.report(decision.id, {"C2": (1, at)}, experiment="calls") == "unchanged"
        deferred = client.decide("calls", deferred=True)
        assert [client.shown(deferred) for _ in range(2)] == ["accepted", "unchanged"]
        first, second = client.decide_many("calls", [{"id": "m"}, {"allowed": ["x"]}])
        assert isinstance(first, ClientDecision)
        assert isinstance(second, ServiceError)
        answers = client.report_many("calls", [{"id": "m", "complete": True}, {"id": "none", "complete": True}])
        assert answers[0] == "accepted"
        assert isinstance(answers[1], ServiceError)
        assert answers[1].kind == "unknown-decision"
        assert client.show("calls")["decisions"] == 3
        assert len(client.posterior("calls")["attraction"]["mean"]) == 4


def test_problems_are_errors_that_are_not_retried(address: str) -> None:
    with cutting(address, 0) as proxy, idb.Client(proxy.address, timeout=60) as client:
        with pytest.raises(ServiceError, match="allowed") as caught:
            client.decide("shop", allowed=["x"], fallback=SHOWN)
        assert (caught.value.kind, caught.value.field, proxy.requests) == ("invalid", "allowed", 1)


def test_a_retry_after_a_lost_answer_returns_the_same_action(address: str) -> None:
    with idb.Client(address, timeout=60) as direct:
        before = direct.show("shop")["decisions"]
        for n in range(5):
            with cutting(address, 2) as proxy, idb.Client(proxy.address, timeout=60, retries=3) as client:
                own = client.decide("shop", id=f"cut{n}")
                assert proxy.requests == 3
                assert own == direct.decide("shop", id=f"cut{n}")
                proxy.cuts = 1
                assert client.report(own, {"C1": 1}, at=datetime.now(UTC)) == "unchanged"  # the lost one was accepted
        assert direct.show("shop")["decisions"] == before + 5


def test_without_a_service_there_is_a_fallback_and_no_outcome(address: str) -> None:
    with idb.Client(unused(), retries=1) as client:
        decision = client.decide("shop", fallback=SHOWN)
        assert (decision.fallback, decision.action, decision.arm) == (True, SHOWN, "fallback")
        assert client.decide("shop", fallback=lambda: SHOWN).action == SHOWN
        assert client.report(decision, {"C1": 1}) == "fallback"  # nothing is sent: it would fail
        assert client.report(decision.id, {"C1": 1}) == "fallback"
        assert client.shown(decision) == "fallback"
        with pytest.raises(ServiceError, match="did not answer") as caught:
            client.decide("shop")
        assert caught.value.kind == "unavailable"
    with idb.Client(address, timeout=60) as client:
        assert client.report_many("shop", [{"id": decision.id, "complete": True}]) == ["fallback"]


@pytest.mark.parametrize("kind", [idb.Client, idb.AsyncClient])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "127.0.0.1:80"}, 'url must begin with "http://" or "https://", got .127.0.0.1:80'),
        ({"timeout": -1}, "timeout must be a number of seconds > 0, got -1"),
        ({"retries": -1}, "retries must be an integer >= 0, got -1"),
    ],
)
def test_mistakes_do_not_look_like_an_outage(kind: type, settings: dict, message: str) -> None:
    with pytest.raises(idb.errors.IdbanditsError, match=message):
        kind(**{"url": "http://127.0.0.1:9"} | settings)


def test_a_fallback_is_checked_while_the_service_runs(address: str) -> None:
    with idb.Client(address) as client, pytest.raises(ServiceError, match="fallback must be an action or a function"):
        client.decide("shop", fallback="news")


def test_put_without_a_service() -> None:
    with idb.Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(ServiceError) as caught:
        client.put("shop", cascade())
    assert caught.value.kind == "unavailable"


def test_a_service_that_hangs_is_given_up_after_the_timeout() -> None:
    began = time.monotonic()
    with (
        socket.create_server(("127.0.0.1", 0)) as own,
        idb.Client(f"http://127.0.0.1:{own.getsockname()[1]}", timeout=0.1, retries=1) as client,
    ):
        assert client.decide("shop", fallback=SHOWN).fallback
    assert time.monotonic() - began < 30


def test_the_client_for_asyncio(address: str) -> None:
    async def run() -> None:
        async with idb.AsyncClient(address, timeout=60) as client:
            decisions = await asyncio.gather(*(client.decide("shop") for _ in range(20)))
            assert len({own.id for own in decisions}) == 20
            answers = await asyncio.gather(*(client.report(own, {"C1": 1}) for own in decisions))
            assert answers == ["accepted"] * 20
            assert (await client.decide_many("shop", [{}]))[0].experiment == "shop"  # type: ignore[union-attr]
            assert await client.report_many("shop", [{"id": decisions[0].id, "complete": True}]) == ["accepted"]
            assert (await client.show("shop"))["name"] == "shop"
            assert "attraction" in await client.posterior("shop")
        async with idb.AsyncClient(unused(), retries=0) as client:
            own = await client.decide("shop", fallback=SHOWN)
            assert await client.report(own, {"C1": 1}) == "fallback"

    asyncio.run(run())
