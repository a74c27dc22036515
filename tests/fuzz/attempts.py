"""A call with possibly invalid arguments, and its allowed results.

A call may succeed, or raise

- an IdbanditsError;
- an OSError, if it has to do with files;
- a TypeError or a ValueError of Python or NumPy, for arguments of the wrong number, name or type;
- what a hostile object raises in a method of its own (`HostileError`), or a function of the caller's that fills a table:
  it is the caller's, and passes through as it is.

After any error, all objects are unchanged. Numerical warnings of NumPy count as failures.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import idbandits as idb
from idbandits.agent.reports.posterior import Posterior
from idbandits.baselines.baseline import Baseline
from idbandits.errors import IdbanditsError
from internals import knowledge

from .invalid_values import HostileError, Rng, garbage, shown, spoil

HERE = str(Path(__file__).parent)
SPOILED = 0.7  # share of all calls
TOO_MUCH = 300, 10**12  # numbers of rounds or draws between these would take very long


@dataclass
class Call:
    """Function, its arguments, and conditions on its result."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    check: Callable[[Any], Any] = lambda result: None
    files: bool = False  # True if the call uses files
    efforts: tuple[str, ...] = ()  # arguments that determine the amount of work
    reads: bool = False  # True if the call changes nothing, even if its result is modified
    foreign: bool = False  # True if the call runs broken code of the caller and may raise anything
    spoiled: bool = False

    def spoil(self, rng: Rng) -> None:
        """Make an argument invalid, or add an unknown argument."""
        if not self.arguments or rng.random() < 0.01:
            self.arguments["nonsense"] = garbage(rng)
        else:
            name = list(self.arguments)[int(rng.integers(len(self.arguments)))]
            value = _spoiled(rng, self.arguments[name])
            while name in self.efforts and _is_too_much(value):
                value = _spoiled(rng, self.arguments[name])
            self.arguments[name] = value
        self.spoiled = True

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={shown(value)}' for name, value in self.arguments.items())})"


def _spoiled(rng: Rng, value: Any) -> Any:
    """Return an invalid variant of a value."""
    try:
        return spoil(rng, value)
    except Exception:
        return garbage(rng)


def _is_too_much(value: Any) -> bool:
    try:
        return bool(TOO_MUCH[0] < float(value) < TOO_MUCH[1])
    except BaseException:
        return False


class Session:
    """Objects and calls that use them: every method whose name begins with `call_` returns a call."""

    WEIGHTS: ClassVar[dict[str, int]] = {}  # weights of calls

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        names = [name for name in dir(self) if name.startswith("call_")]
        self._makers = [getattr(self, name) for name in names]
        weights = np.array([self.WEIGHTS.get(name.removeprefix("call_"), 4) for name in names], float)
        self._chances = weights / weights.sum()

    def next_call(self) -> Call:
        """Return a random call, mostly with invalid arguments."""
        call: Call = self._makers[int(self.rng.choice(len(self._makers), p=self._chances))]()
        if self.rng.random() < SPOILED:
            call.spoil(self.rng)
        return call

    def one(self, values: Any) -> Any:
        """Return one of several values."""
        return values[int(self.rng.integers(len(values)))]

    def number(self, least: int, most: int) -> int:
        """Return an integer in a range."""
        return int(self.rng.integers(least, most + 1))

    def objects(self) -> list[Any]:
        """Return all objects that must be unchanged if a call fails."""
        return []

    def digest(self) -> list[Any]:
        """Return these objects as comparable values."""
        return [digest(thing) for thing in self.objects()]


def digest(thing: Any) -> Any:
    """Return the content of an object, comparable by ==."""
    if isinstance(thing, (idb.Thompson, Baseline)):
        return *knowledge(thing), thing.rounds, digest(thing.diagram)
    if isinstance(thing, idb.World):
        means = [table.tobytes() for table in thing.means.values()]
        return str(thing.rng.bit_generator.state), thing.round, means, digest(thing.diagram)
    if isinstance(thing, idb.Diagram):
        return repr(thing.to_dict())
    if isinstance(thing, idb.Result):
        return thing.frame.to_csv(), repr(thing.settings)
    return repr(thing)


@dataclass
class Failure:
    """Description and place of a failure."""

    what: str
    where: str
    details: str


def attempt(session: Session, call: Call) -> tuple[Failure | None, bool, float]:
    """Make a call; return its failure, whether the session can continue, and its duration."""
    before = session.digest()
    error: BaseException | None = None
    result: Any = None
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            result = call.function(**call.arguments)
    except BaseException as raised:
        error = raised
    seconds = time.perf_counter() - start
    try:
        if error is None:
            call.check(result)
            if call.reads:
                vandalise(result)
    except BaseException as broken:
        return _failure("a result that is wrong", broken), False, seconds
    try:
        changed = session.digest() != before
    except BaseException as broken:
        return _failure("objects that cannot be looked at any more", broken), False, seconds
    if error is None and changed and call.reads:
        return Failure("state changed by a call that only reads", call.name, ""), False, seconds
    if error is not None and changed:
        return _failure("state changed by a call that failed", error), False, seconds
    if error is not None and not _is_allowed(error, call):
        return _failure("a raw exception", error), True, seconds
    return None, True, seconds


def vandalise(result: Any) -> None:
    """Overwrite all arrays of a result: they belong to the caller, and the library must not read them again."""
    if isinstance(result, np.ndarray) and result.flags.writeable and result.dtype.kind == "f":
        result.fill(np.nan)
    elif isinstance(result, dict):
        for value in list(result.values()):
            vandalise(value)
        result.clear()
    elif isinstance(result, tuple):
        for value in result:
            vandalise(value)
    elif isinstance(result, Posterior):
        for array in (result.alpha, result.mean, result.sd):
            vandalise(array)


def _is_allowed(error: BaseException, call: Call) -> bool:
    if call.foreign and isinstance(error, Exception) and not isinstance(error, MemoryError):
        return True
    if isinstance(error, (IdbanditsError, HostileError)) or (call.files and isinstance(error, OSError)):
        return True
    return isinstance(error, (TypeError, ValueError, NotImplementedError))


def _failure(what: str, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "idbandits" in f.filename and not f.filename.startswith(HERE)] or frames
    where = f"{inside[-1].filename.rpartition('/idbandits/')[2]}:{inside[-1].lineno}" if inside else ""
    try:
        message = f"{type(error).__name__}: {error}"
    except BaseException:
        message = type(error).__name__
    try:
        details = "".join(traceback.format_exception(error))
    except BaseException:
        details = "".join(traceback.format_tb(error.__traceback__))
    return Failure(f"{what}: {message[:300]}", where, details[-6000:])
