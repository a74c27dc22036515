"""Forgetting: how long what was learned counts, and the times that say how old a round is."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.errors import ODD, IdbanditsError, brief, check_number, check_whole, is_integer
from idbandits.inference.ageing import LONG_AGO, age_of
from idbandits.kernel.compiling import in_python
from idbandits.kernel.states import AT, BY_ROUNDS, BY_TIME, CLOCK, HALF_LIFE, PLAYED, STEP, TICK, ZONE, State
from idbandits.kernel.types import Floats, Ints

STEPS = 64  # of a half-life: all that was learned fades so often, each time by 1 % or so
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
DURATION = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([smhdw])\s*")
MOST = 1e15  # of half-lives, in rounds or seconds, and of times, in seconds from 1970
UNKNOWN, WITHOUT, WITH = range(3)  # zones of the times so far: not known, as they are numbers; without one; with one
NO_TIMES = np.empty(0)
TIMES = "a datetime, a datetime64, an ISO text or a number of seconds"


class When(NamedTuple):
    """When a round was played, or each of many (none, if that does not matter); the zone of all times up to then."""

    time: Any
    zone: int


@final
@dataclass(frozen=True, repr=False)
class Forget:
    """Forgetting: what was learned counts half as much after a `half_life`, a quarter after two, and so on.

    It is a number of rounds, or a duration: "14d", "12h", "30m", "90s", "2w", or a timedelta. The belief returns to the
    prior. docs/drift.md says how to choose it.

    >>> Forget(half_life=50_000), Forget(half_life="14d")
    (Forget(half_life=50000), Forget(half_life='14d'))
    """

    half_life: Any  # a number of rounds, or a datetime.timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_life", _half_life_of(self.half_life))

    @property
    def by_time(self) -> bool:
        """Whether ages are times, and not numbers of rounds."""
        return isinstance(self.half_life, datetime.timedelta)

    @property
    def settings(self) -> dict[str, Any]:
        """What makes an equal one, as plain data."""
        return {"half_life": _text_of(self.half_life) if self.by_time else self.half_life}

    def begin(self, state: State, learned: int) -> None:
        """Make a state before the first round that of a learner that forgets."""
        length = self.half_life.total_seconds() if self.by_time else self.half_life
        state.ints[[CLOCK, TICK, ZONE]] = (BY_TIME, LONG_AGO, UNKNOWN) if self.by_time else (BY_ROUNDS, 0, UNKNOWN)
        step = length / STEPS if self.by_time else max(1.0, length / STEPS)
        state.floats[[learned + STEP, learned + HALF_LIFE, learned + AT]] = step, length, np.nan

    def when(self, at: Any, rounds: int, zone: int) -> When:
        """When a round was played, after so many rounds and times of this zone."""
        if not self.by_time:
            return When(np.nan if at is None else check_whole("at (the rounds before the action)", at, 0, rounds), zone)
        if at is None:
            raise IdbanditsError(f"at: with a half-life of {_text_of(self.half_life)}, say when: {TIMES}")
        seconds, own = _seconds_of(at)
        return When(seconds, _one_zone(zone, own, at))

    def when_all(self, at: Any, rounds: int, zone: int, length: int) -> When:
        """The same for a column of times, one per round; none are needed where rounds are counted."""
        if at is None:
            if self.by_time and length:
                self.when(None, rounds, zone)
            return When(NO_TIMES, zone)
        column = _column_of(at)
        if len(column) != length:
            raise IdbanditsError(f"at has {len(column)} times, and there are {length} rounds")
        if not self.by_time:
            numbers = [check_whole(f"at in round {i}", n, 0, rounds + i) for i, n in enumerate(column.tolist())]
            return When(np.array(numbers, dtype=np.float64), zone)
        seconds = np.empty(length)
        if column.dtype.kind == "M":
            seconds[:] = column.astype("datetime64[us]").astype(np.int64) / 1e6
            zone = _one_zone(zone, WITHOUT, column[0]) if length else zone
            seconds[np.isnat(column)] = np.nan
        elif column.dtype.kind in "iuf":
            seconds[:] = column
        else:
            for i, value in enumerate(column.tolist()):
                try:
                    seconds[i], own = _seconds_of(value)
                    zone = _one_zone(zone, own, value)
                except IdbanditsError as error:
                    raise IdbanditsError(f"in round {i}, {error}") from None
        if len(wrong := np.flatnonzero(~(abs(seconds) <= MOST))):
            raise IdbanditsError(f"in round {wrong[0]}, at is {TIMES}, not {brief(column[wrong[0]])}")
        return When(seconds, zone)

    def __repr__(self) -> str:
        return f"Forget(half_life={self.settings['half_life']!r})"


def fading(ints: Ints, floats: Floats, learned: int, times: int) -> tuple[float, float]:
    """What is kept of all that was learned before, and the weight of the round: for inferences in plain Python.

    To be asked once in `learn`, which works on a copy of the state; 1 and 1 if nothing is forgotten.
    """
    age = in_python(age_of)(ints, floats, learned, times)
    ints[TICK], ints[PLAYED] = age.tick, ints[PLAYED] + max(0, times)
    return age.keep, age.weight


def when_played(forget: Forget | None, at: Any, rounds: int, zone: int) -> When | None:
    """When a round was played; None if nothing is forgotten, and then it is not to be said."""
    if forget is None:
        _check_none(at)
        return None
    return forget.when(at, rounds, zone)


def when_all_played(forget: Forget | None, at: Any, rounds: int, zone: int, length: int) -> When:
    """The same for a column of times, one per round."""
    if forget is None:
        _check_none(at)
        return When(NO_TIMES, zone)
    return forget.when_all(at, rounds, zone, length)


def _check_none(at: Any) -> None:
    if at is not None:
        raise IdbanditsError(f"at is for agents that forget, made with forget=idb.Forget(…); given {brief(at)}")


def forgetting(forget: Any) -> Forget | None:
    """The same, if it is one or None."""
    if forget is None or isinstance(forget, Forget):
        return forget
    raise IdbanditsError(f"forget is idb.Forget(half_life=…), or None; not {brief(forget)}")


def _half_life_of(half_life: Any) -> int | float | datetime.timedelta:
    if isinstance(half_life, (datetime.timedelta, np.timedelta64, str)):
        seconds = _duration(half_life)
        if not 1 <= seconds <= MOST or seconds > datetime.timedelta.max.total_seconds():
            raise IdbanditsError(
                f"half_life is at least one second, and finite, or a number of rounds; not {half_life!r}"
            )
        return datetime.timedelta(seconds=seconds)
    number = check_number("half_life, in rounds,", half_life, 0, MOST, above=True)
    return int(half_life) if is_integer(half_life) else number


def _duration(half_life: datetime.timedelta | np.timedelta64 | str) -> float:
    """The seconds of a duration, NaN if it is none."""
    if isinstance(half_life, datetime.timedelta):
        return half_life.total_seconds()
    if isinstance(half_life, np.timedelta64):
        try:
            return float(half_life / np.timedelta64(1, "s"))
        except ODD:  # months, and numbers without a unit
            return math.nan
    if (match := DURATION.fullmatch(half_life)) is None:
        raise IdbanditsError(f"half_life is a duration such as '14d', '12h', '30m', '90s' or '2w', not {half_life!r}")
    return float(match[1]) * UNITS[match[2]]


def _text_of(duration: datetime.timedelta) -> str:
    """A duration in the largest unit that it is a whole number of."""
    seconds = duration.total_seconds()
    unit = next((u for u in ("d", "h", "m") if seconds % UNITS[u] == 0), "s")
    return f"{seconds / UNITS[unit]:.15g}{unit}"


def _seconds_of(at: Any) -> tuple[float, int]:
    """A time as seconds since 1970, and whether it had a time zone. One without is read as that of Greenwich."""
    time = at
    if isinstance(at, np.datetime64):
        time = None if np.isnat(at) else at.astype("datetime64[us]").item()
    elif isinstance(at, str):
        try:
            time = datetime.datetime.fromisoformat(at)
        except ValueError:
            time = None
    zone = UNKNOWN
    try:
        if isinstance(time, datetime.datetime):
            zone = WITHOUT if time.tzinfo is None else WITH
            time = (time.replace(tzinfo=datetime.UTC) if zone == WITHOUT else time).timestamp()
        return check_number("at", time, -MOST, MOST), zone
    except ODD:  # also our own, and that of pandas' NaT
        raise IdbanditsError(f"at is {TIMES}, not {brief(at)}") from None


def _one_zone(before: int, zone: int, at: Any) -> int:
    """The zone of all times so far; times with one are not mixed with times without."""
    if UNKNOWN in (before, zone) or before == zone:
        return before or zone
    words = {WITHOUT: "has no time zone", WITH: "has a time zone"}
    raise IdbanditsError(f"at: {brief(at)} {words[zone]}, and times before {words[before].replace('has', 'had')}")


def _column_of(at: Any) -> Any:
    """Times as a flat array."""
    try:
        column = np.asarray(at, dtype=object if isinstance(at, (list, tuple)) else None)
    except ODD:
        column = np.array(None)
    if column.ndim != 1:
        raise IdbanditsError(f"at is a column, one time per round, not {brief(at)}")
    return column
