"""Validation of parts of requests: names, ids and times."""

from __future__ import annotations

import math
import os
import random
import re
from datetime import datetime
from typing import Any

from idbandits.errors import brief
from idbandits.service.service_errors import ServiceError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LONGEST_ID = 200
SKEW = 300.0  # seconds by which clocks of callers may differ


_ids = random.Random()  # seeded by the system; os.urandom would release the interpreter lock at each call
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.seed)


def new_id(now: float) -> str:
    """Return a new id. Later ids are larger, so that indexes stay compact."""
    return f"{int(now * 1000):012x}{_ids.getrandbits(80):020x}"


def check_name(name: Any) -> str:
    """Validate the name of an experiment."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        needed = "1 to 100 letters, digits, '.', '_' or '-', the first of which is a letter or digit"
        raise ServiceError("invalid", f"name must be {needed}, got {brief(name)}", "name")
    return name


def check_id(field: str, value: Any) -> str:
    """Validate the id of a decision or a unit."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID or not value.isprintable():
        raise ServiceError(
            "invalid", f"{field} must be 1 to {LONGEST_ID} printable characters, got {brief(value)}", field
        )
    return value


def is_time(text: str) -> bool:
    """Return whether a text looks like a date with a time."""
    return len(text) >= 16 and text[4:5] == "-" and text[7:8] == "-"


def time_of(field: str, value: Any, now: float) -> float:
    """Convert a time to seconds since 1970."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise ValueError
            value = value.timestamp()
        seconds = float(value) if not isinstance(value, bool) else math.nan
    except (ValueError, TypeError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds <= now + SKEW:
        needed = "a time with a time zone, such as 2026-11-17T12:03:00Z, that is not in the future"
        raise ServiceError("invalid", f"{field} must be {needed}, got {brief(value)}", field)
    return seconds
