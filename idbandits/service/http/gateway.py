"""Outermost ASGI application: authentication, origins, security headers, problem documents and request times."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from time import perf_counter
from typing import Any, final

from starlette.exceptions import HTTPException

from idbandits.errors import IdbanditsError
from idbandits.service.http.access_tokens import NOBODY, Caller
from idbandits.service.http.answers import Answer, RejectedError, problem_answer
from idbandits.service.http.bodies import Disconnected
from idbandits.service.http.endpoint import check_scope, send_answer
from idbandits.service.http.service_metrics import RequestTimes
from idbandits.service.http.service_state import ServiceState
from idbandits.service.service_errors import ServiceError

LOG = logging.getLogger("idbandits.service")
PAGES = "/dashboard"
OPEN = ("/healthz", "/readyz", "/static/")  # answered without a token
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
LAST_PORT = re.compile(r":[0-9]*$")
SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
FOR_DATA = [
    *SECURITY,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
FOR_PAGES = [
    *SECURITY,
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     b"connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
]  # fmt: skip
METHODS = b"GET, HEAD, PUT, POST"


@final
class Gateway:
    """ASGI application around the routes."""

    def __init__(self, routes: Any, state: ServiceState, times: RequestTimes) -> None:
        self._routes, self._state, self._times = routes, state, times
        self._cors = None if state.options.cors is None else state.options.cors.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle the start and end of the process, and requests."""
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live_through(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _live_through(self, receive: Any, send: Any) -> None:
        while True:
            event = (await receive())["type"]
            work = self._state.start if event == "lifespan.startup" else self._state.stop
            try:
                await work()
            except Exception as error:
                LOG.exception("%s", event)
                await send({"type": f"{event}.failed", "message": str(error)})
                return
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        began, status = perf_counter(), 0
        authorization = host = origin = media = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"content-type":
                media = value.lower()
            elif name == b"authorization":
                authorization = value
            elif name == b"origin":
                origin = value
        path = scope["path"]
        is_page = path.startswith((PAGES, "/static/"))
        added = FOR_PAGES if is_page else FOR_DATA
        if origin and origin == self._cors:
            added = [*added, (b"access-control-allow-origin", origin), (b"vary", b"Origin")]

        async def sending(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        try:
            if origin:
                self._check_origin(scope["method"], origin, host)
                if scope["method"] == "OPTIONS" and origin == self._cors:
                    await send_answer(sending, preflight())
                    return
            if self._state.closing:
                raise ServiceError("unavailable", "the service is shutting down")
            scope["media"] = media
            scope["caller"] = NOBODY if path.startswith(OPEN) else await self._caller(authorization, host)
            scope["app"] = self
            if is_page and path.startswith(PAGES):
                check_scope(scope["caller"], "read")
            await self._routes(scope, receive, sending)
        except Disconnected:
            pass
        except Exception as error:
            if status:  # the answer was begun
                raise
            await send_answer(sending, self._answer_to(error, is_page))
        finally:
            self._times.add(scope.get("endpoint"), scope["method"], status, perf_counter() - began)

    async def _caller(self, authorization: bytes, host: bytes) -> Caller:
        tokens = self._state.tokens
        if not tokens.fresh:
            await self._state.in_thread(tokens.read)
        caller = tokens.caller(secret_of(authorization))
        if tokens.open and not is_loopback(host):  # DNS rebinding: a page may point its name to this host
            raise ServiceError("forbidden", "host must be localhost or 127.0.0.1, as there are no tokens")
        return caller

    def _check_origin(self, method: str, origin: bytes, host: bytes) -> None:
        """Reject writes that a page of another site sends from the browser of its visitor."""
        if method in ("GET", "HEAD") or origin == self._cors or origin.partition(b"://")[2] == host:
            return
        raise ServiceError("forbidden", "origin must be that of the service, or that of --cors")

    def _answer_to(self, error: Exception, is_page: bool) -> Answer:
        if isinstance(error, ServiceError):
            answer = problem_answer(error)
            if error.kind == "unauthorized":
                challenge = b'Basic realm="idbandits"' if is_page else b'Bearer realm="idbandits"'
                return answer._replace(headers=((b"www-authenticate", challenge),))
            return answer
        if isinstance(error, RejectedError):
            return problem_answer(error)
        if isinstance(error, HTTPException):
            headers = tuple((name.lower().encode(), text.encode()) for name, text in (error.headers or {}).items())
            if error.status_code == 404:
                return problem_answer(RejectedError("not-found", "address must be that of a route", headers))
            if error.status_code == 405:
                return problem_answer(RejectedError("method", "method must be one of the header Allow", headers))
            return problem_answer(ServiceError("invalid", error.detail))
        if isinstance(error, IdbanditsError):
            return problem_answer(ServiceError("invalid", str(error)))
        LOG.error("internal error", exc_info=error)
        return problem_answer(RejectedError("internal", "the service failed; its log has the reason"))


def secret_of(authorization: bytes) -> str | None:
    """Return the token of a header: the one of Bearer, or the password of Basic, which browsers ask for."""
    if not authorization:
        return None
    kind, _, rest = authorization.partition(b" ")
    text = rest.strip()
    if kind.lower() == b"basic":
        try:
            text = base64.b64decode(text, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            text = b""
    elif kind.lower() != b"bearer":
        text = b""
    return text.decode("latin-1")


def is_loopback(host: bytes) -> bool:
    """Return whether the header Host names the loopback interface."""
    name = LAST_PORT.sub("", host.decode("latin-1").lower())
    return name in LOOPBACK


def preflight() -> Answer:
    """Return the answer to a CORS preflight request."""
    headers = (
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", b"600"),
    )
    return Answer(204, b"", headers=headers)
