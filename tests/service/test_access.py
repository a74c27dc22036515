"""Every route × every scope; tokens, their hashes, and callers without any."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from http_service import experiment, put, served
from idbandits.service.http import access_tokens
from idbandits.service.http.access_tokens import SCOPES, create_token, revoke_token, stored_tokens
from idbandits.service.http.service_state import Options
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.sqlite import SqliteStore
from idbandits.service.service_errors import ServiceError

ONE = "/v1/experiments/shop"
ROUTES = {  # the scope that each route needs
    ("PUT", ONE): "admin", ("GET", ONE): "read", ("GET", "/v1/experiments"): "read",
    ("POST", f"{ONE}/pause"): "admin", ("POST", f"{ONE}/resume"): "admin", ("POST", f"{ONE}/retire"): "admin",
    ("POST", f"{ONE}/decisions"): "decide", ("POST", f"{ONE}/decisions:batch"): "decide",
    ("POST", f"{ONE}/outcomes"): "report", ("POST", f"{ONE}/outcomes:batch"): "report",
    ("POST", f"{ONE}/shown"): "report", ("POST", f"{ONE}/decisions/a/shown"): "report",
    ("GET", f"{ONE}/decisions/a"): "read", ("GET", f"{ONE}/decisions/a/probability"): "read",
    ("GET", f"{ONE}/posterior"): "read", ("GET", f"{ONE}/dead-letters"): "read",
    ("POST", f"{ONE}/dead-letters:replay"): "admin", ("GET", "/healthz"): None, ("GET", "/readyz"): None,
    ("GET", "/metrics"): None, ("GET", "/openapi.json"): None, ("GET", "/dashboard"): "read",
}  # fmt: skip


class Service:
    """Address of a service with tokens, and the tokens by scope."""

    def __init__(self, address: str, tokens: dict[str, str], journal: Journal) -> None:
        self.address, self.tokens, self.journal = address, tokens, journal

    def call(self, method: str, path: str, token: str | None) -> httpx.Response:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.request(method, self.address + path, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    url = f"sqlite:///{tmp_path_factory.mktemp('access')}/a.db"
    store = SqliteStore(url)
    journal = Journal(store)
    with served(url) as address:
        put(address)
    with served(url, Options(require_tokens=True)) as address:
        yield Service(address, {scope: create_token(journal, scope, [scope]) for scope in SCOPES}, journal)
    store.close()


def test_the_matrix_has_every_route(service: Service) -> None:
    document = service.call("GET", "/openapi.json", None).json()
    described = {
        (method.upper(), path.format(name="shop", id="a"))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert described == {route for route in ROUTES if not route[1].startswith("/dashboard")}


@pytest.mark.parametrize("scope", [None, *SCOPES])
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_routes_need_their_scopes(service: Service, method: str, path: str, scope: str | None) -> None:
    needed = ROUTES[method, path]
    answer = service.call(method, path, None if scope is None else service.tokens[scope])
    if needed is None or scope in (needed, "admin"):
        assert answer.status_code not in (401, 403), answer.text
    else:
        assert answer.status_code == (401 if scope is None else 403), answer.text
        assert answer.json()["type"].endswith("unauthorized" if scope is None else "forbidden")
        challenge = answer.headers.get("www-authenticate", "")
        assert bool(challenge) == (scope is None)


@pytest.mark.parametrize("wrong", ["", "x", "idb_", "Bearer", "\xff", "idb_" + "A" * 43, "a" * 10_000], ids=range(7))
def test_wrong_tokens_are_rejected(service: Service, wrong: str) -> None:
    for kind in ("Bearer", "Basic", "bearer", "Digest", ""):
        headers = {"authorization": f"{kind} {wrong}".strip().encode("latin-1")}
        assert httpx.get(service.address + ONE, headers=headers).status_code == 401


def test_a_browser_passes_a_token_as_password(service: Service) -> None:
    assert httpx.get(service.address + ONE, auth=("anyone", service.tokens["read"])).status_code == 200
    asked = httpx.get(f"{service.address}/dashboard")
    assert asked.headers["www-authenticate"].startswith("Basic")


def test_a_revoked_token_is_rejected_soon(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "SECONDS", 0.0)
    token = create_token(service.journal, "short", ["read"])
    time.sleep(5.1)  # what was remembered before
    assert service.call("GET", ONE, token).status_code == 200
    revoke_token(service.journal, "short")
    assert service.call("GET", ONE, token).status_code == 401
    with pytest.raises(ServiceError, match="not revoked"):
        revoke_token(service.journal, "short")


def test_only_hashes_are_stored(service: Service) -> None:
    own = stored_tokens(service.journal)
    assert not {token for token in service.tokens.values() if token in str(own)}
    assert all(len(one.digest) == 64 for one in own)
    with pytest.raises(ServiceError, match="name must be new"):
        create_token(service.journal, "read", ["read"])
    with pytest.raises(ServiceError, match="scopes must be among"):
        create_token(service.journal, "other", ["write"])


def test_measurements_have_names_only_for_readers(service: Service) -> None:
    public, own = (service.call("GET", "/metrics", token).text for token in (None, service.tokens["read"]))
    assert "shop" not in public
    assert "idbandits_decisions" in public
    assert 'experiment="shop"' in own


def test_revoking_the_last_token_does_not_open_the_service(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    journal = Journal(store := SqliteStore(url))
    create_token(journal, "only", ["admin"])
    revoke_token(journal, "only")
    store.close()
    with served(url) as address:
        assert httpx.put(address + ONE, json=experiment()).status_code == 401
