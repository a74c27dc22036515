"""Errors of the service, with their kinds and HTTP statuses."""

from __future__ import annotations

from typing import Any

from idbandits.errors import IdbanditsError

STATUS = {
    "invalid": 422, "impossible": 422, "other-body": 422, "unknown-experiment": 404, "unknown-decision": 404,
    "unknown-node": 422, "too-late": 410, "duplicate": 409, "not-active": 409, "other-library": 409,
    "unavailable": 503, "unauthorized": 401, "forbidden": 403, "too-large": 413, "not-found": 404,
}  # fmt: skip


class ServiceError(IdbanditsError):
    """Rejected request: `kind` is the reason; `field` names the invalid part of the request, if there is one."""

    def __init__(self, kind: str, message: str, field: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.kind, self.field, self.details = kind, field, details

    @property
    def status(self) -> int:
        """HTTP status."""
        return STATUS[self.kind]


def unavailable(error: Exception) -> ServiceError:
    """Return the error of a store that does not answer or cannot write; clients may repeat the request."""
    return ServiceError("unavailable", f"the journal is not available: {type(error).__name__}: {error}")
