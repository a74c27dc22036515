"""Exceptions of the library, checks of arguments, and values as messages show them.

All exceptions derive from `IdbanditsError`, a `ValueError`. Nothing has changed when one is raised: no node is
declared, no round is learned, no file is written. Messages name the argument, the requirement and the value.

- Diagrams: `DiagramError` and its subclasses `TableError`, `PriorError`, `InfeasibleError`, `ComplexityError` and
  `FormatError`.
- Rounds: `ActionError`, `ContextError`, `ObservationError` and its subclass `ImpossibleObservationError`.
- Queries: `MeansError`. Warnings: `DiagramWarning`, `LogWarning`.

>>> from idbandits import models
>>> try:
...     models.cascade(items=0, positions=2)
... except IdbanditsError as error:
...     print(error)
node 'A1': choices must be an integer or a list of labels, at least one and at most 50,000,000, got 0
"""

import itertools
import math
from numbers import Integral, Real
from typing import Any, TypeGuard

LINE, DEPTH = 60, 4  # characters of a value in a message, and levels of nested lists whose items are formatted


class IdbanditsError(ValueError):
    """Base class of all errors of the library; nothing has changed when one is raised.

    Examples
    --------
    >>> from idbandits import World
    >>> World(None, {})
    Traceback (most recent call last):
    idbandits.errors.DiagramError: diagram must be a Diagram, got None
    >>> issubclass(DiagramError, IdbanditsError), issubclass(IdbanditsError, ValueError)
    (True, True)
    """


class DiagramError(IdbanditsError):
    """Invalid diagram: names, parents, states, rewards.

    Examples
    --------
    >>> from idbandits import Diagram
    >>> Diagram("shop").observed("bought", parents=["card"])
    Traceback (most recent call last):
    idbandits.errors.DiagramError: node 'bought': 'card' is not declared before it in diagram 'shop'
    """


class TableError(DiagramError):
    """Known table that is not a probability table, or has the wrong shape.

    Examples
    --------
    >>> from idbandits import Diagram
    >>> Diagram("shop").observed("bought", cpd=1.5)
    Traceback (most recent call last):
    idbandits.errors.TableError: ...
    """


class PriorError(DiagramError):
    """Pseudo-counts that are not a Dirichlet prior of their table.

    Examples
    --------
    >>> from idbandits import Learned
    >>> Learned("attraction", prior=[1, -1])
    Traceback (most recent call last):
    idbandits.errors.PriorError: ...
    """


class InfeasibleError(DiagramError):
    """Constraints that no action satisfies.

    Examples
    --------
    >>> from idbandits import models
    >>> models.cascade(items=2, positions=3)
    Traceback (most recent call last):
    idbandits.errors.InfeasibleError: all_different: 3 decisions (A1, A2, A3) need 3 choices, got 2 among them
    """


class ComplexityError(DiagramError):
    """Diagram whose circuit would not fit in memory.

    Examples
    --------
    >>> from idbandits import Diagram, compile
    >>> d = Diagram("large")
    >>> causes = [d.latent(f"W{k}", cpd=0.5) for k in range(21)]
    >>> for k in range(21):
    ...     for j in range(k):
    ...         seen = d.observed(f"X{j}-{k}", [causes[j], causes[k]], [[0.1, 0.2], [0.3, 0.4]])
    >>> model = compile(d)
    Traceback (most recent call last):
    idbandits.errors.ComplexityError: ...
    """


class FormatError(DiagramError):
    """File or dictionary that does not describe a diagram, an agent or a result.

    Examples
    --------
    >>> from idbandits import Diagram
    >>> Diagram.from_dict({"name": "shop"})
    Traceback (most recent call last):
    idbandits.errors.FormatError: ...
    """


class ActionError(IdbanditsError):
    """Action that is incomplete, out of range, or breaks a constraint.

    Examples
    --------
    >>> from idbandits import expected_reward, models
    >>> expected_reward(models.cascade(4, 2), {"A1": 3}, {"attraction": [0.1, 0.2, 0.3, 0.4]})
    Traceback (most recent call last):
    idbandits.errors.ActionError: ...
    """


class ContextError(IdbanditsError):
    """Context that is incomplete or out of range.

    Examples
    --------
    >>> from idbandits import Diagram, best_action
    >>> d = Diagram("shop")
    >>> weekday, card = d.context("weekday", 7), d.decision("card", 2)
    >>> d.reward(d.observed("bought", [weekday, card], lambda w, c: 0.1 * w))
    >>> best_action(d, {}, context={"weekday": 7})
    Traceback (most recent call last):
    idbandits.errors.ContextError: ...
    """


class ObservationError(IdbanditsError):
    """Observation of nodes that are not observed, or of states they do not have.

    Examples
    --------
    >>> from idbandits import log_likelihood, models
    >>> log_likelihood(models.semi_bandit(2, 1), {"A1": 0}, {"X1": 2}, {"mean": [0.1, 0.2]})
    Traceback (most recent call last):
    idbandits.errors.ObservationError: ...
    """


class ImpossibleObservationError(ObservationError):
    """Observation that has probability zero.

    Examples
    --------
    >>> from idbandits import log_likelihood, models
    >>> two_clicks = {"C1": 1, "C2": 1}
    >>> log_likelihood(models.cascade(2, 2), {"A1": 0, "A2": 1}, two_clicks, {"attraction": [0.1, 0.2]})
    Traceback (most recent call last):
    idbandits.errors.ImpossibleObservationError: ...
    """


class MeansError(IdbanditsError):
    """Means that do not fit the learned tables of the diagram.

    Examples
    --------
    >>> from idbandits import best_action, models
    >>> best_action(models.semi_bandit(2, 1), {"mean": [0.1]})
    Traceback (most recent call last):
    idbandits.errors.MeansError: ...
    """


class DiagramWarning(UserWarning):
    """Serious finding of `Diagram.check`, warned of once when an agent is created.

    Examples
    --------
    >>> import warnings
    >>> from idbandits import Diagram, Thompson
    >>> d = Diagram("coins")
    >>> d.reward(d.latent("luck", [d.decision("coin", 3)]))
    >>> with warnings.catch_warnings(record=True, action="always") as warned:
    ...     agent = Thompson(d, seed=0)
    >>> warned[0].category.__name__
    'DiagramWarning'
    """


class LogWarning(UserWarning):
    """Log that may be learned wrongly: many skipped rounds, a guessed first position, rare clicks, too little memory.

    Examples
    --------
    >>> import warnings
    >>> import idbandits as idb
    >>> log = {"A1": ["tea", "milk", "tea"], "C1": [0, 2, 0]}
    >>> with warnings.catch_warnings(record=True, action="always") as warned:
    ...     agent = idb.fit(idb.models.cascade(["tea", "milk"], 1), log, seed=0)
    >>> warned[0].category.__name__, str(warned[0].message).partition(";")[0]
    ('LogWarning', 'arrays: 1 of 3 rounds was skipped')
    """


# Exceptions of conversions, comparisons and hashes of values. Others, such as those of signal handlers, pass through.
ODD = (
    ArithmeticError, AttributeError, BufferError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def is_integer(value: object) -> TypeGuard[int]:
    """Return True for integers of any type but bool; timedelta64, an integer to NumPy, is none."""
    return isinstance(value, (int, Integral)) and type(value).__name__ not in ("bool", "timedelta64")


def check_whole(
    name: str, value: object, least: int, most: int | None = None, error: type[IdbanditsError] = IdbanditsError
) -> int:
    """Return an integer in a range as an int, or raise."""
    if is_integer(value) and least <= value and (most is None or value <= most):
        return int(value)
    limits = f">= {least}" if most is None else f"from {least} to {most}"
    raise error(f"{name} must be an integer {limits}, got {brief(value)}")


def check_number(
    name: str, value: object, least: float, most: float | None = None, error: type[IdbanditsError] = IdbanditsError,
    *, above: bool = False,
) -> float:  # fmt: skip
    """Return a number in a range as a float, or raise; `above` excludes `least`, and `most=inf` admits infinity."""
    try:
        number = float(value) if isinstance(value, Real) and type(value).__name__ != "timedelta64" else math.nan
    except OverflowError:  # an integer beyond all floats
        number = math.nan
    if (number > least if above else number >= least) and (number < math.inf if most is None else number <= most):
        return number
    needed = f"a number > {least}" if above else f"a number >= {least}"
    if most is not None:
        needed = f"{needed} and <= {most}" if above else f"a number from {least} to {most}"
    raise error(f"{name} must be {'a finite number' if least == -math.inf else needed}, got {brief(value)}")


def check_flag(name: str, value: object, error: type[IdbanditsError] = IdbanditsError) -> bool:
    """Return True or False, also for 0, 1 and NumPy's bools, or raise."""
    if type(value).__name__ in ("bool", "bool_") or (is_integer(value) and value in (0, 1)):
        return bool(value)
    raise error(f"{name} must be True or False, got {brief(value)}")


def brief(value: object) -> str:
    """Return the `repr` of a value for messages: one line, shortened, NumPy's scalars without their type."""
    try:
        return shortened(_written(value, DEPTH))
    except Exception:  # nested too deeply, an integer of too many digits, or a class whose `repr` raises
        return f"a value of type {type(value).__name__}"


def shortened(text: str) -> str:
    """Return a text as one line of at most `LINE` characters."""
    text = " ".join(text.split())
    return text if len(text) <= LINE else text[: LINE - 3] + "…"


def _written(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in (list, tuple) and depth:
        items = ", ".join(_written(item, depth - 1) for item in value[:LINE])
        return f"[{items}]" if kind is list else f"({items}{',' if len(value) == 1 else ''})"
    if kind is dict and depth:
        pairs = itertools.islice(value.items(), LINE)
        return "{" + ", ".join(f"{_written(k, depth - 1)}: {_written(v, depth - 1)}" for k, v in pairs) + "}"
    is_scalar = kind.__module__ == "numpy" and kind.__name__ != "ndarray" and hasattr(kind, "dtype")
    if is_scalar and value.dtype.kind in "biufcUS":
        return repr(value.item()) if value.dtype.kind in "US" else str(value)
    return repr(value)
