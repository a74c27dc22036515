"""JSON texts of the journal: compact, with keys in their order."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder()


def encoded(value: Any) -> str:
    """Return a value as JSON."""
    return _encoder.encode(value).decode()


def decoded(text: str | bytes | None) -> Any:
    """Return the value of a JSON text; None for no text."""
    return None if text is None else _decoder.decode(text)
