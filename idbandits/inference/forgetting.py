"""Forgetting: how long what was learned counts, and the times that say how old a round is."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.diagram.features.read_column import RawColumn, read_column
from idbandits.errors import ODD, IdbanditsError, brief, check_number, check_whole, is_integer
from idbandits.inference.ageing import LONG_AGO
from idbandits.inference.state.state import BY_ROUNDS, BY_TIME, CLOCK, HALF_LIFE, STEP, TICK, ZONE, State
from idbandits.kernel.array_types import Floats

STEPS = 64  # of a half-life: all that was learned fades so often, each time by 1 % or so
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
DURATION = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([smhdw])\s*")
NUMPY_UNITS = UNITS | {"D": 86_400, "W": 604_800}
PER_SECOND = {unit: 1000**k for k, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))}
MOST = 1e15  # of half-lives, in rounds, and of times, in seconds from 1970
LONGEST = datetime.timedelta.max.total_seconds()  # rounded up: half-lives are shorter
MOST_YEARS = 10**8  # either way from 1970: more than MOST seconds, and less than what NumPy can convert to days
UNKNOWN, WITHOUT, WITH = range(3)  # zones of the times so far: not known, as they are numbers; without one; with one
NO_TIMES = np.empty(0)
TIMES = "a datetime, a datetime64, an ISO text or a number of seconds"
IN_RANGE = f"{TIMES}, within {MOST:.0e} seconds of 1970"


class When(NamedTuple):
    """When a round was played, or each of many (none, if that does not matter); the zone of all times up to then."""

    time: Any
    zone: int


@final
@dataclass(frozen=True, repr=False)
class Forget:
    """Forgetting: what was learned counts half as much after a half-life, a quarter after two, and so on.

    The belief returns to the prior. docs/how-to/drift.md explains the choice.

    Parameters
    ----------
    half_life : int, float, str or timedelta
        Number of rounds; or a duration: a timedelta, or a number with a unit, "90s", "30m", "12h", "14d" or "2w". With
        a duration, `act` and `update` need the time of the round, `at=`.

    Raises
    ------
    IdbanditsError
        The half-life is not positive, or has an unknown unit.

    Examples
    --------
    >>> Forget(half_life=50_000), Forget(half_life="14d")
    (Forget(half_life=50000), Forget(half_life='14d'))
    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.cascade(3, 2), "exact", forget=Forget(half_life=5000), seed=0)
    Thompson('cascade', exact, forget=Forget(half_life=5000); 0 rounds)
    """

    half_life: Any  # a number of rounds, or a datetime.timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_life", _half_life_of(self.half_life))

    @property
    def by_time(self) -> bool:
        """True if ages are times, not numbers of rounds."""
        return isinstance(self.half_life, datetime.timedelta)

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of an equal object, as plain data."""
        return {"half_life": _text_of(self.half_life) if self.by_time else self.half_life}

    def begin(self, state: State) -> None:
        """Start the clock of `state`, a state before the first round."""
        length = self.half_life.total_seconds() if self.by_time else self.half_life
        state.ints[[CLOCK, TICK, ZONE]] = (BY_TIME, LONG_AGO, UNKNOWN) if self.by_time else (BY_ROUNDS, 0, UNKNOWN)
        step = length / STEPS if self.by_time else max(1.0, length / STEPS)
        state.ints[[STEP, HALF_LIFE]] = np.array([step, length]).view(np.int64)

    def when(self, at: Any, rounds: int, zone: int) -> When:
        """Return when a round was played.

        Parameters
        ----------
        at : object
            Time as users pass it: a datetime, a datetime64, an ISO text or a number of seconds; or a number of rounds.
        rounds : int
            Rounds learned so far.
        zone : int
            Zone of all times so far.

        Returns
        -------
        When
            Seconds from 1970 or a number of rounds, and the zone.
        """
        if not self.by_time:
            return When(np.nan if at is None else check_whole("at (the rounds before the action)", at, 0, rounds), zone)
        if at is None:
            raise IdbanditsError(f"at: with a half-life of {_text_of(self.half_life)}, say when: {TIMES}")
        seconds, own = _seconds_of("at", at)
        return When(seconds, _one_zone(zone, own, at))

    def when_all(self, at: Any, rounds: int, zone: int, length: int) -> When:
        """Return when the rounds of a log were played; no times are needed where rounds are counted.

        Parameters
        ----------
        at : object
            Column of times as users pass it, or None.
        rounds : int
            Rounds learned so far.
        zone : int
            Zone of all times so far.
        length : int
            Number of rounds of the log.

        Returns
        -------
        When
            Array of times, shape (length,) or empty, and the zone.
        """
        if at is None:
            if self.by_time and length:
                self.when(None, rounds, zone)
            return When(NO_TIMES, zone)
        column = _column_of(at)
        if len(column.values) != length:
            raise IdbanditsError(f"at has {len(column.values)} times, and there are {length} rounds")
        if not self.by_time:
            numbers = [check_whole(f"at in round {i}", n, 0, rounds + i) for i, n in enumerate(column.tolist())]
            return When(np.array(numbers, dtype=np.float64), zone)
        if len(missing := np.flatnonzero(column.missing)):
            raise IdbanditsError(f"at in round {missing[0]} must be {IN_RANGE}, got a missing value")
        seconds = np.empty(length)
        if length and column.values.dtype.kind == "M":
            seconds[:] = _seconds_of_numpy(column.values)
            zone = _one_zone(zone, WITH if column.has_zone else WITHOUT, column.values[0])
        elif column.values.dtype.kind in "iuf":
            seconds[:] = column.values
        else:
            for i, value in enumerate(column.tolist()):
                seconds[i], own = _seconds_of(f"at in round {i}", value)
                try:
                    zone = _one_zone(zone, own, value)
                except IdbanditsError as error:
                    raise IdbanditsError(f"in round {i}, {error}") from None
        if len(wrong := np.flatnonzero(~(abs(seconds) <= MOST))):
            raise IdbanditsError(f"at in round {wrong[0]} must be {IN_RANGE}, got {brief(column.values[wrong[0]])}")
        return When(seconds, zone)

    def __repr__(self) -> str:
        return f"Forget(half_life={self.settings['half_life']!r})"


def weight_left(state: State, tick: int) -> float:
    """Return how much is left of a round that was learned at a step of the clock of a state."""
    step, half_life = state.ints[[STEP, HALF_LIFE]].view(np.float64)
    return float(0.5 ** ((int(state.ints[TICK]) - tick) * step / half_life))


def tick_before(state: State, weight: float) -> int:
    """Return the last step of the clock of a state of whose rounds less than a weight is left."""
    step, half_life = state.ints[[STEP, HALF_LIFE]].view(np.float64)
    return int(state.ints[TICK]) - int(np.ceil(-np.log2(weight) * half_life / step))


def when_played(forget: Forget | None, at: Any, rounds: int, zone: int) -> When:
    """Return when a round was played; raise if nothing is forgotten and a time is given."""
    if forget is None:
        _check_none(at)
        return When(np.nan, zone)
    return forget.when(at, rounds, zone)


def when_all_played(forget: Forget | None, at: Any, rounds: int, zone: int, length: int) -> When:
    """Return when the rounds of a log were played; raise if nothing is forgotten and times are given."""
    if forget is None:
        _check_none(at)
        return When(NO_TIMES, zone)
    return forget.when_all(at, rounds, zone, length)


def _check_none(at: Any) -> None:
    if at is not None:
        raise IdbanditsError(f"at is for agents that forget, made with forget=idb.Forget(…); given {brief(at)}")


def forgetting(forget: Any) -> Forget | None:
    """Validate `forget`."""
    if forget is None or isinstance(forget, Forget):
        return forget
    raise IdbanditsError(f"forget is idb.Forget(half_life=…), or None; not {brief(forget)}")


def _half_life_of(half_life: Any) -> int | float | datetime.timedelta:
    if isinstance(half_life, (datetime.timedelta, np.timedelta64, str)):
        seconds = _duration(half_life)
        if not 1 <= seconds < LONGEST:
            limits = f"from one second to {datetime.timedelta.max.days} days"
            raise IdbanditsError(
                f"half_life must be a duration {limits}, or a number of rounds, got {brief(half_life)}"
            )
        return datetime.timedelta(seconds=seconds)
    number = check_number("half_life, in rounds,", half_life, 0, MOST, above=True)
    return int(half_life) if is_integer(half_life) else number


def _duration(half_life: datetime.timedelta | np.timedelta64 | str) -> float:
    """Return the seconds of a duration; NaN if it has no fixed length."""
    if isinstance(half_life, datetime.timedelta):
        return half_life.total_seconds()
    if isinstance(half_life, np.timedelta64):
        return float(_seconds_of_numpy(np.array([half_life]))[0])
    if (match := DURATION.fullmatch(half_life)) is None:
        example = "a duration such as '14d', '12h', '30m', '90s' or '2w', or a number of rounds"
        raise IdbanditsError(f"half_life must be {example}, got {brief(half_life)}")
    return float(match[1]) * UNITS[match[2]]


def _text_of(duration: datetime.timedelta) -> str:
    """Return a duration as text, in the largest unit that divides it."""
    seconds = duration.total_seconds()
    unit = next((u for u in ("d", "h", "m") if seconds % UNITS[u] == 0), "s")
    return f"{seconds / UNITS[unit]:.15g}{unit}"


def _seconds_of(name: str, at: Any) -> tuple[float, int]:
    """Return a time as seconds since 1970, and the kind of its time zone; without one it is read as UTC."""
    zone = UNKNOWN
    try:
        time = datetime.datetime.fromisoformat(at) if isinstance(at, str) else at
        if isinstance(time, datetime.datetime):
            zone = WITHOUT if time.tzinfo is None else WITH
            if not hasattr(time, "to_datetime64"):
                time = (time.replace(tzinfo=datetime.UTC) if zone == WITHOUT else time).timestamp()
            else:  # of pandas: with nanoseconds
                time = time.to_datetime64()
        elif isinstance(time, datetime.date):
            zone, time = WITHOUT, np.datetime64(time)
        if isinstance(time, np.datetime64):
            zone, time = zone or WITHOUT, _seconds_of_numpy(np.array([time]))[0]
        return check_number("at", time, -MOST, MOST), zone
    except ODD:  # also our own, and that of pandas' NaT
        raise IdbanditsError(f"{name} must be {IN_RANGE}, got {brief(at)}") from None


def _seconds_of_numpy(times: Any) -> Floats:
    """Seconds of `datetime64` or `timedelta64` values of any unit, without wrapping: NaN for NaT and months alone.

    Whole seconds and the rest are converted apart, so that times that are equal in different units stay equal.
    """
    unit, multiple = np.datetime_data(times.dtype)
    is_time, numbers = times.dtype.kind == "M", times.astype(np.int64)
    seconds = np.full(times.shape, np.nan)
    if unit in PER_SECOND:
        whole, rest = np.divmod(numbers, PER_SECOND[unit])
        seconds = multiple * (whole + rest / PER_SECOND[unit])
    elif unit in NUMPY_UNITS:
        seconds = numbers * float(multiple * NUMPY_UNITS[unit])
    elif unit in ("Y", "M") and is_time:
        seconds = np.where(numbers < 0, -np.inf, np.inf)
        near = abs(numbers / (12 / multiple if unit == "M" else 1 / multiple)) <= MOST_YEARS
        seconds[near] = times[near].astype("datetime64[D]").astype(np.int64) * 86_400.0
    return np.where(np.isnat(times), np.nan, seconds)


def _one_zone(before: int, zone: int, at: Any) -> int:
    """Return the kind of time zone of all times so far; raise if times with and without one are mixed."""
    if UNKNOWN in (before, zone) or before == zone:
        return before or zone
    words = {WITHOUT: "has no time zone", WITH: "has a time zone"}
    raise IdbanditsError(f"at: {brief(at)} {words[zone]}, and times before {words[before].replace('has', 'had')}")


def _column_of(at: Any) -> RawColumn:
    """Times as a flat column."""
    try:
        column = read_column(at)
    except ODD:
        column = read_column(np.array(None))
    if column.values.ndim != 1:
        raise IdbanditsError(f"at must be a column, one time per round, got {brief(at)}")
    return column
