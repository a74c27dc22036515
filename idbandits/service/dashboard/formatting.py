"""Numbers, times and labels as text for people."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
LONGEST = 80  # characters of a label
NOTHING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with a few significant digits, without an exponent.

    >>> number(0.012345), number(1234.5), number(-2), number(0.5), number(None)
    ('0.0123', '1,234', '−2', '0.5', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(places, 8)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−") if text.strip("-0.") else "0"


def whole(value: float | None) -> str:
    """Return a count.

    >>> whole(1234567), whole(None)
    ('1,234,567', '–')
    """
    return NOTHING if value is None else f"{round(value):,}"


def percent(value: float | None) -> str:
    """Return a share in percent.

    >>> percent(0.1234), percent(1), percent(0.00012), percent(0)
    ('12.3 %', '100 %', '0.012 %', '0 %')
    """
    return NOTHING if value is None or not math.isfinite(value) else f"{number(100 * value)} %"


def signed(value: float | None) -> str:
    """Return a difference with its sign.

    >>> signed(0.5), signed(-0.5)
    ('+0.5', '−0.5')
    """
    return f"+{number(value)}" if value is not None and value > 0 else number(value)


def duration(seconds: float | None) -> str:
    """Return a duration in its largest unit.

    >>> duration(0.2), duration(90), duration(7200), duration(3 * 86400)
    ('0.2 s', '1.5 min', '2 h', '3 d')
    """
    if seconds is None:
        return NOTHING
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{number(seconds / unit, 2)} {name}"
    return f"{number(seconds, 2)} s"


def moment(seconds: float | None, now: float | None = None) -> str:
    """Return a time in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00'
    """
    if seconds is None:
        return NOTHING
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(seconds: float) -> str:
    """Return a time in ISO 8601, for machines."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def label(value: Any) -> str:
    """Return a label, shortened.

    >>> label("tea"), label(3), len(label("x" * 500))
    ('tea', '3', 80)
    """
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def pairs(values: Any) -> str:
    """Return a mapping on one line.

    >>> pairs({"A1": "tea", "user": {"age": 3}}), pairs(None)
    ('A1: tea, user: (age: 3)', '–')
    """
    if not values:
        return NOTHING
    texts = ((name, f"({pairs(value)})" if isinstance(value, dict) else label(value)) for name, value in values.items())
    return ", ".join(f"{label(name)}: {text}" for name, text in texts)


def plural(count: float, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "round"), plural(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{whole(count)} {noun}" + ("" if round(count) == 1 else "s")
