"""Messages about work that takes long: one line each, on the standard error stream."""

import sys


def say(message: str) -> None:
    """Print a message at once."""
    print(f"idbandits: {message}", file=sys.stderr, flush=True)
