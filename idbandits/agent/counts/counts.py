"""Counts of logs: certain uses and factors, additive over batches, threads, machines and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.encoding.era import key_of
from idbandits.agent.fit_report.sample import Sample
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.inference.counts.tally import Tally, added, copied, new_tally
from idbandits.inference.forgetting import STEPS, Forget
from idbandits.kernel.array_types import Floats, Ints

MOST_EXAMPLES = 5  # of rounds that were not counted
NO_TICK = -(2**62)  # step of the clock of counts without rounds


class Clock(NamedTuple):
    """Time up to which weights have faded, for agents that forget by time."""

    half_life: float  # seconds
    tick: int  # step of the clock, of which a half-life has `STEPS`

    @property
    def step(self) -> float:
        """Return the length of a step in seconds."""
        return self.half_life / STEPS

    def left(self, tick: Any) -> Any:
        """Return what is left at a later step of a weight at this clock's step, or of one at an earlier `tick`."""
        return 0.5 ** ((self.tick - tick) / STEPS)


class Skipped(NamedTuple):
    """Rounds of a log that were not counted."""

    impossible: int = 0  # the diagram gives them probability zero
    missing: int = 0  # what was seen depends on a choice that is missing
    examples: tuple[str, ...] = ()

    def plus(self, other: Skipped) -> Skipped:
        """Return both."""
        examples = (*self.examples, *other.examples)[:MOST_EXAMPLES]
        return Skipped(self.impossible + other.impossible, self.missing + other.missing, examples)


NONE_SKIPPED = Skipped()


class Content(NamedTuple):
    """Numbers of a `Counts` object."""

    rounds: float  # sum of the weights of all rounds
    uses: Floats  # of a learned entry: how often it was certainly used
    constant: float  # logarithm of the known entries that were certainly used
    tally: Tally  # factors: number of the shape, then the arguments
    shapes: tuple[Ints, ...]


@final
class Counts:
    """Counts of a log: certain uses of table entries, and factors with weights.

    `idb.count` creates them, `a + b` adds those of one diagram, and `Thompson.learn` learns them.

    Parameters
    ----------
    d : Diagram
        Diagram of the rounds.
    content : Content
        Numbers that are counted.
    skipped : Skipped
        Rounds that were not counted, with examples.
    clock : Clock, optional
        Time up to which weights have faded, with `forget`.
    sample : Sample, optional
        Sample of the rounds, for `Thompson.fit_report`.
    report : ReadReport, optional
        Rounds of the log that were read and skipped; sums and files of counts have none.

    Examples
    --------
    >>> import idbandits as idb
    >>> d = idb.models.position_based(["tea", "milk"], 1)
    >>> monday = idb.count(d, {"A1": ["tea", "milk", "tea"], "C1": [1, 0, 0]})
    >>> monday
    Counts('position-based': 3 rounds, 2 factors)
    >>> (monday + monday).rounds
    6
    >>> monday.uses["attraction"].tolist()      # by item: no click, click; both rounds without a click are factors
    [[0.0, 1.0], [0.0, 0.0]]
    """

    def __init__(
        self, d: Diagram, content: Content, skipped: Skipped = NONE_SKIPPED, clock: Clock | None = None,
        sample: Sample | None = None, report: Any = None,
    ) -> None:  # fmt: skip
        self.diagram, self.content, self.skipped, self.clock = d, content, skipped, clock
        self.sample, self.report = sample, report

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal key of the diagram; counts of diagrams with different keys cannot be added."""
        return key_of([self.diagram]).hex()

    @property
    def model(self) -> Model:
        """Compiled diagram."""
        return compile(self.diagram)

    @property
    def rounds(self) -> float:
        """Number of rounds, which is the sum of their weights; an int unless weights are fractions."""
        return int(self.content.rounds) if float(self.content.rounds).is_integer() else self.content.rounds

    @property
    def impossible(self) -> int:
        """Number of rounds that the diagram gives probability zero."""
        return self.skipped.impossible

    @property
    def examples(self) -> tuple[str, ...]:
        """First examples of rounds that were not counted."""
        return self.skipped.examples

    @property
    def factors(self) -> int:
        """Number of different factors."""
        return self.content.tally.used

    @property
    def uses(self) -> Mapping[str, Floats]:
        """Number of certain uses of each entry, by learned table; the last axis is the state."""
        offsets, uses = self.model.parameters.offsets, self.content.uses
        return {
            name: uses[offsets[name] : offsets[name] + table.size].reshape(*table.shape, table.states).copy()
            for name, table in self.model.learned.items()
        }

    def __len__(self) -> int:
        """Return the number of rounds."""
        return int(self.content.rounds)

    def __repr__(self) -> str:
        number = f"{self.rounds:,}" if isinstance(self.rounds, int) else f"{self.rounds:,.1f}"
        parts = [f"{number} rounds", f"{self.factors:,} factors"]
        parts += [f"{self.skipped.impossible:,} impossible"] * (self.skipped.impossible > 0)
        parts += [f"{self.skipped.missing:,} with a missing choice"] * (self.skipped.missing > 0)
        return f"Counts({self.diagram.name!r}: {', '.join(parts)})"

    def __add__(self, other: Any) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if other.fingerprint != self.fingerprint:
            raise IdbanditsError(
                f"counts must be of one diagram, got {self.diagram.name!r} ({self.fingerprint[:8]}) and "
                f"{other.diagram.name!r} ({other.fingerprint[:8]})"
            )
        clock, own, others = _common_clock(self.clock, other.clock)
        left, right = self.content, other.content
        shapes, numbers = joined_shapes(left.shapes, right.shapes)
        tally = copied(left.tally)
        if own != 1.0:
            tally.weights[: tally.used] *= own
        content = Content(
            left.rounds + right.rounds, own * left.uses + others * right.uses,
            own * left.constant + others * right.constant, added(tally, right.tally, numbers, others), shapes,
        )  # fmt: skip
        sample = None if self.sample is None or other.sample is None else joined_sample(self.sample, other.sample)
        return Counts(self.diagram, content, self.skipped.plus(other.skipped), clock, sample)

    def save(self, path: str | Path) -> None:
        """Write the counts to a Parquet file atomically.

        Parameters
        ----------
        path : str or Path
            File to write (docs/reference/files.md).

        Examples
        --------
        >>> import tempfile
        >>> import idbandits as idb
        >>> d = idb.models.cascade(["tea", "milk"], 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     idb.count(d, {"A1": ["tea", "milk"], "C1": [1, 0]}).save(f"{folder}/monday.parquet")
        ...     monday = idb.Counts.load(f"{folder}/monday.parquet", diagram=d)
        >>> monday.rounds
        2
        """
        from idbandits.agent.counts.counts_table import save

        save(self, path)

    @staticmethod
    def load(path: str | Path, *, diagram: Diagram | None = None) -> Counts:
        """Read counts from a Parquet file.

        Parameters
        ----------
        path : str or Path
            File that `save` wrote.
        diagram : Diagram, optional
            Diagram that the counts must have.

        Returns
        -------
        Counts
            Counts of the file, without a report.

        Raises
        ------
        FormatError
            If the file is damaged, or has counts of another diagram.
        """
        from idbandits.agent.counts.counts_table import load

        return load(path, diagram)


def no_counts(d: Diagram, forget: Forget | None = None) -> Counts:
    """Return the counts of an empty log."""
    learned = compile(d).parameters.learned_size
    clock = clock_of(forget)
    return Counts(d, Content(0.0, np.zeros(learned), 0.0, new_tally(16, 64), ()), clock=clock)


def clock_of(forget: Forget | None, tick: int = NO_TICK) -> Clock | None:
    """Return the clock of counts for agents that forget; None if these do not forget by time."""
    if forget is None:
        return None
    if not forget.by_time:
        raise IdbanditsError(f"forget must have a duration for counts, which have no order, got {forget!r}")
    return Clock(forget.half_life.total_seconds(), tick)


def joined_shapes(left: Sequence[Ints], right: Sequence[Ints]) -> tuple[tuple[Ints, ...], Ints]:
    """Return the shapes of both, and the new numbers of those on the right."""
    shapes, places = list(left), {shape.tobytes(): i for i, shape in enumerate(left)}
    numbers = np.empty(len(right), np.int64)
    for i, shape in enumerate(right):
        if (key := shape.tobytes()) not in places:
            places[key] = len(shapes)
            shapes.append(shape)
        numbers[i] = places[key]
    return tuple(shapes), numbers


def _common_clock(left: Clock | None, right: Clock | None) -> tuple[Clock | None, float, float]:
    """Return the later of two clocks, and what is left of both weights then."""
    if left is None or right is None:
        if left is not right:
            raise IdbanditsError("counts with forgetting cannot be added to counts without it")
        return None, 1.0, 1.0
    if left.half_life != right.half_life:
        raise IdbanditsError(f"counts must have one half-life, got {left.half_life:g} s and {right.half_life:g} s")
    latest = max(left, right, key=lambda clock: clock.tick)
    return latest, float(latest.left(left.tick)), float(latest.left(right.tick))


def joined_sample(left: Sample, right: Sample) -> Sample:
    """Return a sample of the rounds of both, in proportion to their numbers."""
    result, rng = Sample(left.rounds.shape[1]), np.random.default_rng(left.count + right.count)
    share = min((own.kept / own.count for own in (left, right) if own.count), default=1.0)
    share = min(share, result.room / max(1, left.count + right.count))
    for own in (left, right):
        rows = own.rounds
        chosen = rng.permutation(len(rows))[: int(np.ceil(share * own.count))]
        result.add_many(np.ascontiguousarray(rows[chosen]))
    result.count = left.count + right.count
    result.impossible = left.impossible + right.impossible
    return result


def check_counts(counts: Any) -> Counts:
    """Validate an argument that must be counts."""
    if not isinstance(counts, Counts):
        raise IdbanditsError(f"counts must be made by idb.count, got {brief(counts)}")
    return counts
