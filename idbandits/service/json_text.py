"""JSON texts of the journal: compact, with keys in insertion order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """Convert a NumPy array, a NumPy number, a mapping or an iterable to a type that JSON has."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if hasattr(value, "items") else list(value)


_encoder = msgspec.json.Encoder(enc_hook=plain)
_sorting_encoder = msgspec.json.Encoder(enc_hook=plain, order="deterministic")
_decoder = msgspec.json.Decoder()


def encoded(value: Any) -> str:
    """Encode a value as JSON text."""
    return _encoder.encode(value).decode()


def digest_of(value: Any) -> str:
    """Return a digest of a value; the order of keys does not matter."""
    return hashlib.blake2b(_sorting_encoder.encode(value), digest_size=16).hexdigest()


def decoded(text: str | bytes | None) -> Any:
    """Decode a JSON text; None for no text."""
    return None if text is None else _decoder.decode(text)


def decoded_all(texts: Iterable[str | None], decoder: msgspec.json.Decoder[Any] = _decoder) -> Any:
    """Decode JSON texts, None for no text; a single call is faster than a call of `decoded` for each text."""
    return decoder.decode(f"[{','.join(['null' if text is None else text for text in texts])}]")
