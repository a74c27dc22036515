"""HTTP protocol of uvicorn with limits for slow senders and long headers."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEADERS = 65_536  # bytes that may come before headers end
SLOWEST = 20.0  # seconds for a whole request, from its first byte or from the connection
LOOK = 2.0  # seconds between checks of all connections


class TimedProtocol(HttpToolsProtocol):
    """Connection that is closed when a request takes too long to arrive."""

    began: float | None = None  # start of the request that is arriving; None between requests
    in_headers = True
    header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Start the clock: the first request must arrive in time."""
        self.began = monotonic()
        super().connection_made(transport)

    def on_message_begin(self) -> None:
        """Start the clock of a request."""
        self.began, self.in_headers, self.header_bytes = monotonic(), True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that headers have ended."""
        self.in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop the clock."""
        self.began = None
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Read bytes; close the connection if headers become too long."""
        super().data_received(data)
        if self.in_headers and self.began is not None:
            self.header_bytes += len(data)
            if self.header_bytes > MOST_HEADERS:
                self.transport.abort()

    def is_slow(self, now: float) -> bool:
        """Return whether a request takes too long to arrive; False while this process has paused reading."""
        return self.began is not None and now - self.began > SLOWEST and not self.flow.read_paused


async def close_slow(connections: set[Any]) -> None:
    """Close connections on which requests arrive too slowly, until cancelled."""
    while True:
        await asyncio.sleep(LOOK)
        now = monotonic()
        for connection in list(connections):
            if isinstance(connection, TimedProtocol) and connection.is_slow(now):
                connection.transport.abort()
