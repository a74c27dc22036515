"""Report of reading a log: rounds that were read, rounds that were skipped with reasons and examples, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from idbandits.errors import IdbanditsError, brief
from idbandits.notebook import html_table, html_text

MOST_EXAMPLES = 3  # of each reason
MOST_REASONS = 1000  # that are listed apart; the others are counted together
OTHER = "other reasons"


class LogError(IdbanditsError):
    """Log that cannot be read, or a round of it that is not valid; names the file, the row and the column."""


class Place(NamedTuple):
    """Place of a value in a log."""

    source: str  # a file, or the kind of log
    row: int  # from 0, as rounds are numbered
    column: str | None = None
    value: Any = None

    def __str__(self) -> str:
        column = "" if self.column is None else f", column {self.column!r}"
        value = "" if self.column is None and self.value is None else f": {brief(self.value)}"
        return f"{self.source}, row {self.row}{column}{value}"


@final
@dataclass
class ReadReport:
    """Rounds of a log that were read and skipped; `str` lists the reasons.

    Attributes
    ----------
    source : str
        Name of the log.
    read : int
        Number of rounds that were read.
    skipped : dict of int
        Number of rounds that were skipped, by reason.
    examples : dict of list of Place
        First places in the log, by reason.
    notes : dict of int
        Number of values that were changed or ignored without skipping a round, by description.
    doubtful : set of str
        Notes that are also issued as a `LogWarning`.

    Examples
    --------
    >>> import idbandits as idb
    >>> log = {"A1": ["tea", "milk", "wine"], "C1": [1, 0, 1]}
    >>> report = idb.count(idb.models.cascade(["tea", "milk"], 1), log).report
    >>> print(report)
    arrays: 2 rounds read, 1 skipped
      1 skipped: 'A1' has a value that is not in the diagram (arrays, row 2, column 'A1': 'wine')
    >>> report.rows, report.frame.columns.tolist(), report.as_dict()["read"]
    (3, ['reason', 'rounds', 'example'], 2)
    """

    source: str
    read: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Place]] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """Number of rounds in the log, read or skipped."""
        return self.read + sum(self.skipped.values())

    @property
    def frame(self) -> Any:
        """Data frame with the columns reason, rounds (their number) and example."""
        import pandas  # slow to import

        lines = [(reason, number, self._example(reason)) for reason, number in self.skipped.items()]
        return pandas.DataFrame(lines, columns=["reason", "rounds", "example"])

    def skip(self, reason: str, number: int, examples: list[Place]) -> None:
        """Count skipped rows.

        Parameters
        ----------
        reason : str
            Reason, as it is shown.
        number : int
            Number of rows.
        examples : list of Place
            First places of such rows.
        """
        if not number:
            return
        if reason not in self.skipped and len(self.skipped) >= MOST_REASONS:
            reason = OTHER
        self.skipped[reason] = self.skipped.get(reason, 0) + number
        known = self.examples.setdefault(reason, [])
        known += examples[: MOST_EXAMPLES - len(known)]

    def note(self, text: str, number: int, *, doubtful: bool = False) -> None:
        """Count values that were changed or ignored without skipping a round.

        Parameters
        ----------
        text : str
            Description of the change.
        number : int
            Number of values.
        doubtful : bool
            Repeat the note in a `LogWarning`.
        """
        if number:
            self.notes[text] = self.notes.get(text, 0) + number
            self.doubtful |= {text} if doubtful else set()

    def add(self, other: ReadReport) -> None:
        """Add the rounds of another part of the log.

        Parameters
        ----------
        other : ReadReport
            Report of that part.
        """
        self.read += other.read
        for reason, number in other.skipped.items():
            self.skip(reason, number, other.examples.get(reason, []))
        for text, number in other.notes.items():
            self.note(text, number, doubtful=text in other.doubtful)

    def reasons(self, most: int | None = None) -> list[str]:
        """Return reasons with numbers of skipped rounds and an example each, the most frequent first.

        Parameters
        ----------
        most : int, optional
            Number of reasons; by default, all.
        """
        ordered = sorted(self.skipped.items(), key=lambda pair: -pair[1])[:most]
        examples = {reason: self._example(reason) for reason, _ in ordered}
        return [
            f"{number:,} skipped: {reason}" + (f" ({examples[reason]})" if examples[reason] else "")
            for reason, number in ordered
        ]

    def check_none_skipped(self) -> None:
        """Raise for the first skipped round."""
        if self.skipped:
            rows = {reason: places[0].row for reason, places in self.examples.items() if places}
            reason = min(self.skipped, key=lambda own: rows.get(own, -1))
            where, number = self._example(reason) or self.source, self.skipped[reason]
            more = f"; {number:,} rounds like this so far" if number > 1 else ""
            raise LogError(f"log: {reason} ({where}){more}; invalid='skip' skips and counts such rounds")

    def _example(self, reason: str) -> str:
        return next((str(place) for place in self.examples.get(reason, ())), "")

    def _repr_html_(self) -> str:
        return html_text(str(self)) if not self.skipped else html_text(str(self)) + html_table(self.frame)

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.read:,} rounds read, {sum(self.skipped.values()):,} skipped"]
        lines += [f"  {reason}" for reason in self.reasons()]
        lines += [f"  note: {text}" + (f" ({number:,})" if number > 1 else "") for text, number in self.notes.items()]
        return "\n".join(lines)

    def as_dict(self) -> Mapping[str, Any]:
        """Return plain data, for files and HTML pages."""
        examples = {reason: [str(place) for place in places] for reason, places in self.examples.items()}
        return {
            "source": self.source, "read": self.read, "skipped": self.skipped, "examples": examples,
            "notes": self.notes,
        }  # fmt: skip
