"""Endpoints as ASGI applications: authorization, and sending of answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, final

from idbandits.service.http.access_tokens import Caller
from idbandits.service.http.answers import Answer, RejectedError
from idbandits.service.http.bodies import BodyType, T, read_body
from idbandits.service.service_errors import ServiceError


class Call(NamedTuple):
    """Request to an endpoint."""

    parameters: dict[str, Any]  # of the path
    query: bytes
    receive: Any
    caller: Caller
    media: bytes  # type of the body

    async def body(self, of: BodyType[T]) -> T:
        """Return the body, decoded and validated."""
        return of.read(await self.content(of.most))

    async def content(self, most: int) -> bytes:
        """Return the bytes of the body."""
        content = await read_body(self.receive, most)
        if content and self.media != b"application/json" and self.media.partition(b";")[0].strip() not in JSON_TYPES:
            raise RejectedError("media-type", "body must have the content type application/json")
        return content


JSON_TYPES = (b"application/json", b"")
Run = Callable[[Call], Awaitable[Answer]]


@final
class Endpoint:
    """Endpoint of a route; `needs` is the scope that callers must have, None if none is required."""

    def __init__(self, label: str, needs: str | None, run: Run) -> None:
        self.label, self.needs, self._run = label, needs, run

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request (ASGI)."""
        caller: Caller = scope["caller"]
        if self.needs is not None and self.needs not in caller.scopes:
            check_scope(caller, self.needs)
        call = Call(scope["path_params"], scope["query_string"], receive, caller, scope["media"])
        await send_answer(send, await self._run(call))


@final
class ByMethod:
    """Endpoints of a path by method."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Forward a request to the endpoint of its method (ASGI)."""
        scope["endpoint"] = endpoint = self._endpoints["GET" if scope["method"] == "HEAD" else scope["method"]]
        await endpoint(scope, receive, send)


def check_scope(caller: Caller, needed: str) -> None:
    """Raise unless a caller has a scope."""
    if needed in caller.scopes:
        return
    if not caller.name:
        raise ServiceError("unauthorized", "a token is needed: Authorization: Bearer TOKEN")
    raise ServiceError("forbidden", f"token {caller.name!r} must have the scope {needed}")


async def send_answer(send: Any, answer: Answer) -> None:
    """Send an answer (ASGI)."""
    headers = [
        (b"content-type", answer.kind),
        (b"content-length", str(len(answer.content)).encode()),
        *answer.headers,
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})
