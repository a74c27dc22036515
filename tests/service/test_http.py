"""Routes of the service: answers, problems, repeats, limits, odd bodies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_service import experiment, put, served
from idbandits.service.http import service_state
from idbandits.service.http.answers import RejectedError
from idbandits.service.http.service_state import Options, ServiceState
from idbandits.service.live.live import Live

ONE = "/v1/experiments/shop"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('http')}/a.db") as own:
        put(own)
        yield own


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as own:
        yield own


def problem(answer: httpx.Response, kind: str, status: int, field: str | None = None) -> None:
    """Assert that an answer is a problem document."""
    own = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, own["status"], own["type"]) == (status, status, f"urn:problem:idbandits:{kind}"), own
    assert own["title"]
    assert own["detail"]
    assert own.get("field") == field


# -- answers -----------------------------------------------------------------------------------------------------------


def test_experiments_are_created_once(http: httpx.Client) -> None:
    answers = [http.put("/v1/experiments/new", json=experiment(horizon=horizon)) for horizon in ("1h", "1h", "2h")]
    assert [own.status_code for own in answers] == [201, 200, 201]
    assert [own.json()["version"] for own in answers] == [1, 1, 2]
    shown = http.get("/v1/experiments/new").json()
    assert (shown["version"], shown["settings"], shown["status"]) == (2, {"horizon": "2h"}, "online")
    assert "new" in [own["name"] for own in http.get("/v1/experiments").json()["experiments"]]


def test_decisions_and_outcomes(http: httpx.Client) -> None:
    first = http.post(f"{ONE}/decisions", json={"id": "a", "allowed": ["news", "film"]})
    again = http.post(f"{ONE}/decisions", json={"id": "a", "allowed": ["news", "film"]})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert sorted(first.json()["action"].values()) == ["film", "news"]
    problem(http.post(f"{ONE}/decisions", json={"id": "a"}), "other-body", 422, "id")
    outcome = {"decision": "a", "values": {"C1": 1}, "complete": True}
    assert [http.post(f"{ONE}/outcomes", json=outcome).json()["status"] for _ in range(2)] == ["accepted", "unchanged"]
    assert http.get(f"{ONE}/decisions/a").json()["events"][0]["value"] == 1


def test_a_closed_round_is_learned_and_its_probability_computed(http: httpx.Client) -> None:
    put(str(http.base_url), "learned")
    id = http.post("/v1/experiments/learned/decisions", json={}).json()["id"]
    http.post("/v1/experiments/learned/outcomes", json={"decision": id, "values": {"C2": 1}, "complete": True})
    until = time.monotonic() + 30
    while http.get("/v1/experiments/learned").json()["rounds"] == 0:
        assert time.monotonic() < until
    belief = http.get("/v1/experiments/learned/posterior").json()["tables"]["attraction"]
    assert belief["axes"] == ["row"]
    assert belief["rows"] == [["news"], ["sport"], ["music"], ["film"]]
    assert max(belief["mean"]) > 0.6
    assert all(len(belief[name]) == 4 for name in ("mean", "sd", "5 %", "95 %", "rounds"))
    chance = http.get(f"/v1/experiments/learned/decisions/{id}/probability?draws=200").json()
    assert chance["reproduced"]
    assert (chance["draws"], chance["arm"]) == (200, "policy")


def test_deferred_decisions_count_when_they_are_shown(http: httpx.Client) -> None:
    for path, body in (("shown", lambda id: {"decision": id}), ("decisions/{id}/shown", lambda _: None)):
        id = http.post(f"{ONE}/decisions", json={"deferred": True}).json()["id"]
        assert http.get(f"{ONE}/decisions/{id}").json()["state"] == "deferred"
        own = [http.post(f"{ONE}/{path.format(id=id)}", json=body(id)) for _ in range(2)]
        assert [one.json()["status"] for one in own] == ["accepted", "unchanged"]
        assert http.get(f"{ONE}/decisions/{id}").json()["state"] == "open"


def test_batches_answer_each_part(http: httpx.Client) -> None:
    bodies = [{"id": "b1"}, {"id": "b2", "allowed": ["tea"]}, {"id": "b1"}, {"context": {"x": 1}}]
    own = http.post(f"{ONE}/decisions:batch", json={"decisions": bodies}).json()["decisions"]
    assert own[0]["id"] == "b1"
    assert [one.get("field") for one in own[1:]] == ["allowed", "id", "context"]
    outcomes = [{"decision": "b1", "values": {"C1": 1}}, {"decision": "unknown", "complete": True},
                {"decision": "b1", "values": {"C1": 7}}]  # fmt: skip
    own = http.post(f"{ONE}/outcomes:batch", json={"outcomes": outcomes}).json()["outcomes"]
    assert [one["status"] for one in own] == ["accepted", 404, 422]


def test_pause_resume_and_retire(http: httpx.Client) -> None:
    put(str(http.base_url), "paused")
    id = http.post("/v1/experiments/paused/decisions", json={}).json()["id"]
    for verb, status in (("pause", "paused"), ("retire", "retired")):
        assert http.post(f"/v1/experiments/paused/{verb}").json()["status"] == status
        problem(http.post("/v1/experiments/paused/decisions", json={}), "not-active", 409)
        assert (
            http.post("/v1/experiments/paused/outcomes", json={"decision": id, "values": {"C1": 1}}).status_code == 200
        )
    assert http.post("/v1/experiments/paused/resume").json()["status"] == "online"
    assert http.post("/v1/experiments/paused/decisions", json={}).status_code == 201


def test_rejected_outcomes_become_dead_letters_that_can_be_replayed(http: httpx.Client) -> None:
    put(str(http.base_url), "dead")
    for body, kind, status in (
        ({"decision": "later", "values": {"C1": 1}}, "unknown-decision", 404),
        ({"decision": "later", "values": {"C1": 1}, "at": "2020-01-01T00:00:00Z"}, "unknown-decision", 404),
    ):
        own = http.post("/v1/experiments/dead/outcomes", json=body).json()
        assert (own["type"].rsplit(":", 1)[1], own["status"]) == (kind, status)
    until = time.monotonic() + 30
    while len(letters := http.get("/v1/experiments/dead/dead-letters").json()["letters"]) < 2:
        assert time.monotonic() < until
    assert letters[0]["body"]["values"] == {"C1": 1}
    http.post("/v1/experiments/dead/decisions", json={"id": "later"})
    own = http.post("/v1/experiments/dead/dead-letters:replay").json()
    assert own == {"accepted": 1, "unchanged": 0, "rejected": {"invalid": 1}}
    assert len(http.get("/v1/experiments/dead/dead-letters").json()["letters"]) == 1


def test_late_and_impossible_outcomes_have_their_own_answers(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    with served(f"sqlite:///{tmp_path}/a.db", clock=lambda: now[0]) as address:
        put(address, horizon="10m", accept="1h")
        id = httpx.post(f"{address}{ONE}/decisions", json={}).json()["id"]
        report = {"decision": id, "values": {"C1": 1}}
        now[0] += 1200
        problem(httpx.post(f"{address}{ONE}/outcomes", json=report), "too-late", 410, "C1")
        now[0] += 7200
        problem(httpx.post(f"{address}{ONE}/outcomes", json={**report, "complete": True}), "too-late", 410)
        problem(httpx.post(f"{address}{ONE}/outcomes", json={**report, "values": {"C1": 2}}), "impossible", 422, "C1")
        problem(httpx.post(f"{address}{ONE}/outcomes", json={**report, "values": {"X": 1}}), "unknown-node", 422, "X")


# -- repeats at one time -----------------------------------------------------------------------------------------------


def test_concurrent_requests_with_one_id_get_one_action(http: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        for n in range(10):
            own = list(pool.map(lambda _, n=n: http.post(f"{ONE}/decisions", json={"id": f"c{n}"}), range(16)))
            assert {one.status_code for one in own} <= {200, 201, 409}
            assert sum(one.status_code == 201 for one in own) == 1
            assert len({one.text for one in own if one.status_code < 300}) == 1
            for one in own:
                if one.status_code == 409:
                    problem(one, "duplicate", 409, "id")


# -- problems ----------------------------------------------------------------------------------------------------------

BODIES = [
    (b"", 400), (b"{", 400), (b"[]", 422), (b"null", 422), (b"1", 422), (b'"x"', 422), (b"\xff", 400), (b"{} {}", 400),
    (b'{"id": NaN}', 400), (b'{"id": 1}', 422), (b'{"id": ""}', 422), (b'{"id": "\\ud800"}', 400), (b'{"x": 1}', 422),
    (b'{"id": "a", "id": "b"}', 400), (b'{"id": "' + b"x" * 201 + b'"}', 422), (b'{"id": "a\\u0000"}', 422),
    (b'{"context": []}', 422), (b'{"context": {"a": 1e999}}', 422), (b'{"allowed": "x"}', 422),
    (b'{"context": {"a": ' + b"9" * 5000 + b"}}", 422), (b'{"context": {"a": ' + b"9" * 30 + b"}}", 422),
    (b'{"allowed": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422), (b'{"allowed": [[]]}', 422),
    (b'{"allowed": []}', 422), (b'{"allowed": {"A1": []}}', 422), (b'{"allowed": {"Z": ["news"]}}', 422),
    (b'{"action": {"A1": "x"}, "unit": "\\n"}', 422), (b'{"deferred": 1}', 422), (b'{"allowed": ["news", "news"]}', 422),
    (b'{"allowed": [1.5, true]}', 422),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), BODIES, ids=[f"{n}" for n in range(len(BODIES))])
def test_odd_bodies_are_problems(http: httpx.Client, body: bytes, status: int) -> None:
    for path in ("decisions", "outcomes", "decisions:batch", "outcomes:batch", "shown"):
        answer = http.post(f"{ONE}/{path}", content=body, headers={"content-type": "application/json"})
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        if path == "decisions":
            assert answer.status_code in (status, 400), answer.text
    answer = http.put(ONE, content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"diagram": 1}, "diagram"), ({"diagram": {}}, "diagram"), ({"diagram": None}, "diagram"),
        (experiment(horizon="x"), "horizon"), (experiment(holdout=2), "holdout"), (experiment(mode="x"), "mode"),
        (experiment(inference="x"), "inference"), (experiment(inference={"name": 1}), "inference"),
        (experiment(horizon={"Z": "1h"}), "horizon"), (experiment(absent={"C1": 7}), "absent"),
        (experiment(baseline={"A1": "x"}), "baseline"), (experiment(baseline="x"), "baseline"),
        (experiment(effort=-1), "effort"), (experiment(forget="x"), "forget"), (experiment(accept=-1), "accept"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_settings_are_problems_that_name_the_field(http: httpx.Client, body: Any, field: str) -> None:
    problem(http.put("/v1/experiments/wrong", json=body), "invalid", 422, field)
    assert http.get("/v1/experiments/wrong").status_code == 404


def test_addresses_methods_and_types(http: httpx.Client) -> None:
    problem(http.get("/nothing"), "not-found", 404)
    problem(http.get("/v1/experiments/none"), "unknown-experiment", 404, "experiment")
    problem(http.post("/v1/experiments/none/decisions", json={}), "unknown-experiment", 404, "experiment")
    problem(http.get(f"{ONE}/decisions/none"), "unknown-decision", 404)
    answer = http.delete(ONE)
    problem(answer, "method", 405)
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT"}
    text = {"content-type": "text/plain"}
    problem(http.post(f"{ONE}/decisions", content=b"{}", headers=text), "media-type", 415)
    problem(http.put("/v1/experiments/-x", json=experiment()), "invalid", 422, "name")
    problem(http.get(f"{ONE}/dead-letters?limit=x"), "invalid", 422, "limit")


# -- limits ------------------------------------------------------------------------------------------------------------


def test_long_bodies_are_rejected(http: httpx.Client) -> None:
    for path, size in (("decisions", 2**20), ("decisions:batch", 2**23)):
        problem(http.post(f"{ONE}/{path}", json={"id": "x" * size}), "too-large", 413)
    many = {"decisions": [{}] * 1001}
    problem(http.post(f"{ONE}/decisions:batch", json=many), "invalid", 422, "decisions")


def _raw(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_endless_headers_end_the_connection(address: str) -> None:
    with _raw(address) as own:
        own.sendall(b"GET /healthz HTTP/1.1\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(500):
                own.sendall(b"x: " + b"y" * 4096 + b"\r\n")
                sent += 4096
                time.sleep(0.002)
        assert sent < 400 * 4096


def test_slow_requests_end_the_connection(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from idbandits.service.http import timed_protocol

    monkeypatch.setattr(timed_protocol, "SLOWEST", 0.5)
    begins = [b"", b"GET /healthz HTTP/1.1\r\nhost: x\r\n",
              f"POST {ONE}/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{{".encode()]  # fmt: skip
    for begin in begins:
        with _raw(address) as own:
            own.sendall(begin)
            try:
                assert own.recv(1000) == b""
            except ConnectionResetError:
                continue


def test_requests_that_are_no_http(address: str) -> None:
    for begin in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n"):
        with _raw(address) as own:
            own.sendall(begin)
            assert own.recv(1000).startswith(b"HTTP/1.1 4")
    assert httpx.get(f"{address}/healthz").status_code == 200


# -- callers -----------------------------------------------------------------------------------------------------------


def test_abandoned_computations_count_until_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = threading.Event()
    monkeypatch.setattr(service_state, "MOST_SLOW", 2)

    async def kind_of_answer(state: ServiceState) -> str:
        try:
            await state.in_slow_thread(ends.wait)
        except RejectedError as error:
            return error.kind
        return "done"

    async def ask(state: ServiceState) -> None:
        assert [await kind_of_answer(state) for _ in range(3)] == ["timeout", "timeout", "busy"]
        ends.set()
        end = time.monotonic() + 30
        while (kind := await kind_of_answer(state)) == "busy" and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert kind == "done"

    with Live(f"sqlite:///{tmp_path}/a.db", background=False) as live:
        asyncio.run(ask(ServiceState(live, Options(slow_timeout=0.2))))


def test_pages_of_other_sites_may_not_call_the_service(http: httpx.Client) -> None:
    body, other = {"json": {}}, {"origin": "https://other.example"}
    problem(http.post(f"{ONE}/decisions", headers=other, **body), "forbidden", 403)
    problem(http.post(f"{ONE}/pause", headers=other), "forbidden", 403)
    problem(http.get(ONE, headers={"host": "other.example"}), "forbidden", 403)  # a name that points here
    own = http.post(f"{ONE}/decisions", headers={"origin": str(http.base_url).rstrip("/")}, **body)
    assert own.status_code == 201
    assert "access-control-allow-origin" not in own.headers


def test_cors_allows_one_origin(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path}/a.db", Options(cors="https://shop.example")) as address:
        headers = {"origin": "https://shop.example", "access-control-request-method": "POST"}
        own = httpx.options(f"{address}{ONE}/decisions", headers=headers)
        assert (own.status_code, own.headers["access-control-allow-origin"]) == (204, "https://shop.example")
        assert httpx.get(f"{address}/healthz", headers=headers).headers["vary"] == "Origin"
        problem(httpx.options(f"{address}{ONE}/decisions", headers={"origin": "https://x.example"}), "forbidden", 403)


def test_security_headers(http: httpx.Client) -> None:
    for path in ("/healthz", ONE, "/nothing"):
        headers = http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


# -- measurements and description --------------------------------------------------------------------------------------


def test_metrics(http: httpx.Client) -> None:
    http.post(f"{ONE}/decisions", json={})
    text = http.get("/metrics").text
    assert 'idbandits_requests_total{method="POST",route="decisions",status="201"}' in text
    for name in ("request_seconds_bucket", "outcomes_total", "commit_writes_bucket", "pending", "lag_steps", "store_lag",
                 "lag_seconds", "learning_seconds_total", "journal_up"):  # fmt: skip
        assert f"idbandits_{name}" in text, name
    assert 'experiment="shop"' in text


def test_openapi_describes_every_route(http: httpx.Client) -> None:
    from idbandits.service.http.app import create_app, entries
    from idbandits.service.http.service_metrics import RequestTimes

    assert create_app
    own = http.get("/openapi.json").json()
    assert own["openapi"] == "3.1.0"
    described = {
        (method.upper(), path, operation["operationId"])
        for path, methods in own["paths"].items()
        for method, operation in methods.items()
    }

    class State:
        live = None

    routes = {(e.method, e.path.replace(":path", ""), e.label) for e in entries(State(), RequestTimes())}  # type: ignore[arg-type]
    assert described == routes
    assert json.dumps(own).count("application/problem+json") > 50
