"""JSON texts of the journal: compact, with keys in their order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """Return a mapping, an iterable, an array or a number of NumPy as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if hasattr(value, "items") else list(value)


_encoder = msgspec.json.Encoder(enc_hook=plain)
_ordered = msgspec.json.Encoder(enc_hook=plain, order="deterministic")
_decoder = msgspec.json.Decoder()


def encoded(value: Any) -> str:
    """Return a value as JSON."""
    return _encoder.encode(value).decode()


def digest_of(value: Any) -> str:
    """Return a digest of a value, which does not depend on the order of keys."""
    return hashlib.blake2b(_ordered.encode(value), digest_size=16).hexdigest()


def decoded(text: str | bytes | None) -> Any:
    """Return the value of a JSON text; None for no text."""
    return None if text is None else _decoder.decode(text)


def decoded_all(texts: Iterable[str | None], decoder: msgspec.json.Decoder[Any] = _decoder) -> Any:
    """Return the list of the values of JSON texts; None for no text. One call is faster than one for each text."""
    return decoder.decode(f"[{','.join(['null' if text is None else text for text in texts])}]")
