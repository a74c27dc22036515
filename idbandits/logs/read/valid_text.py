"""Streams of bytes as UTF-8: bytes that are not valid are replaced, in blocks and with bounded memory."""

from __future__ import annotations

import codecs
import io
from typing import Any, final

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@final
class ValidText(io.RawIOBase):
    """Stream whose invalid bytes are replaced by U+FFFD; `replaced` is their number so far.

    >>> text = ValidText(io.BytesIO(b"caf\\xe9,tea"))
    >>> text.read(7).decode(), text.replaced
    ('caf�,', 1)
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._waiting, self.replaced = stream, b"", 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        while not self._waiting:
            block = self._stream.read(max(size, 1))
            if block.isascii() and not self._decoder.getstate()[0]:
                self._waiting = block
            else:
                before = block.count(REPLACEMENT.encode())
                text = self._decoder.decode(block, final=not block)
                self.replaced += max(0, text.count(REPLACEMENT) - before)
                self._waiting = text.encode()
            if not block:
                break
        own, self._waiting = self._waiting[:size], self._waiting[size:]
        return own

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()
