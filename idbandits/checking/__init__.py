"""A diagram checks itself: what cannot be learned, what cannot be told apart, what is large."""

from idbandits.checking.report import check, warn_once

__all__ = ["check", "warn_once"]
