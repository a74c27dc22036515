"""Answers as bytes: JSON, and errors as problem documents."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from idbandits.errors import IdbanditsError
from idbandits.service.http.message_types import Problem
from idbandits.service.service_errors import STATUS, ServiceError

PREFIX = "urn:problem:idbandits:"
RETRY_SECONDS = 1
JSON, PROBLEM = b"application/json", b"application/problem+json"
TITLES = {
    "invalid": "Request is not valid", "impossible": "Value is not possible", "other-body": "Id has another request",
    "unknown-experiment": "Experiment does not exist", "unknown-decision": "Decision does not exist",
    "unknown-node": "Node does not exist", "too-late": "Outcome is too late", "duplicate": "Request is being carried "
    "out", "not-active": "Experiment is not active", "other-library": "Library has another version",
    "unavailable": "Journal is not available", "unauthorized": "Token is needed", "forbidden": "Scope is needed",
    "too-large": "Request is too large", "not-found": "Address does not exist", "malformed": "Body is not JSON",
    "method": "Method is not allowed", "media-type": "Body must be JSON", "internal": "Internal error",
    "timeout": "Request took too long", "busy": "Too many requests",
}  # fmt: skip
HTTP_STATUS = {
    "malformed": 400,
    "method": 405,
    "media-type": 415,
    "internal": 500,
    "timeout": 503,
    "busy": 503,
}  # kinds of `RejectedError`

_encoder = msgspec.json.Encoder()
encode = _encoder.encode


class Answer(NamedTuple):
    """Answer to a request."""

    status: int
    content: bytes
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class RejectedError(IdbanditsError):
    """Request that the HTTP layer rejects before an experiment sees it."""

    def __init__(self, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.kind, self.headers = kind, headers


def status_of(kind: str) -> int:
    """Return the HTTP status of a kind of error."""
    return STATUS[kind] if kind in STATUS else HTTP_STATUS[kind]


def answer(value: Any, status: int = 200) -> Answer:
    """Return an answer with a value as JSON."""
    return Answer(status, encode(value))


def problem_of(error: ServiceError | RejectedError) -> Problem:
    """Return the problem document of an error."""
    kind = error.kind
    field = error.field if isinstance(error, ServiceError) else None
    return Problem(
        PREFIX + kind, TITLES[kind], status_of(kind), clean(str(error)), None if field is None else clean(field)
    )


def problem_answer(error: ServiceError | RejectedError) -> Answer:
    """Return an answer with the problem document of an error."""
    problem = problem_of(error)
    headers = error.headers if isinstance(error, RejectedError) else ()
    if problem.status == 503:
        headers = (*headers, (b"retry-after", str(RETRY_SECONDS).encode()))
    return Answer(problem.status, encode(problem), PROBLEM, headers)


def clean(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
