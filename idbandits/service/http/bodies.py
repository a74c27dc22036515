"""Bodies of requests: read up to a limit, decoded strictly, without duplicate keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, final

import msgspec

from idbandits.service.http.answers import RejectedError
from idbandits.service.service_errors import ServiceError

SMALL, LARGE = 2**20, 2**23  # bytes of a body
T = TypeVar("T")


@final
class BodyType(Generic[T]):
    """Type of request bodies, and their largest size in bytes."""

    def __init__(self, of: type[T], most: int = SMALL, *, optional: bool = False) -> None:
        self.of, self.most, self.optional = of, most, optional
        self._decode = msgspec.json.Decoder(of).decode

    def read(self, content: bytes) -> T:
        """Return the struct of a body, or raise an error that names the field."""
        if not content and self.optional:
            content = b"{}"
        try:
            body = self._decode(content)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at ")
            raise ServiceError("invalid", text, place.strip("`").removeprefix("$.") or None) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise RejectedError("malformed", f"body must be JSON: {error}") from None
        if content.count(b":") > 1:  # there may be two keys
            check_keys(content)
        return body


def _distinct(pairs: Sequence[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({key for key, _ in pairs}) < len(pairs):
        raise RejectedError("malformed", "body must not name a key of an object twice")


_second_reading = json.JSONDecoder(object_pairs_hook=_distinct).decode


def check_keys(content: bytes) -> None:
    """Reject objects that name a key twice, because JSON parsers disagree about which value counts."""
    try:
        _second_reading(content.decode())
    except RejectedError:
        raise
    except (ValueError, RecursionError) as error:
        raise RejectedError("malformed", f"body must be JSON: {error}") from None


async def read_body(receive: Any, most: int) -> bytes:
    """Return the body of a request, or raise if it is too long."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    content: bytes = message.get("body", b"")
    if not message.get("more_body") and len(content) <= most:
        return content
    parts, size = [content], len(content)
    while message.get("more_body"):
        if size > most:
            break
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > most:
        raise RejectedError("too-large", f"body must have at most {most:,} bytes")
    return b"".join(parts)


class Disconnected(Exception):  # noqa: N818
    """Connection that the caller closed before the request was complete."""
