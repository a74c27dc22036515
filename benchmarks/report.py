"""Tables of measurements in Markdown."""

from __future__ import annotations

import os
import platform
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import final

from idbandits.files import write_whole
from idbandits.reproduction.paper_report import processor


class DisagreementError(Exception):
    """Results of two libraries differ, so that their times cannot be compared."""


@final
@dataclass(frozen=True)
class Row:
    """Row of a table, with a description of each target that it misses."""

    cells: Sequence[str]
    missed: Sequence[str] = ()


@final
@dataclass(frozen=True)
class Topic:
    """Table of a benchmark: title, description, columns, and the function that measures its rows."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Callable[[bool], Iterator[Row]]  # the argument is True for a quick run


@final
@dataclass(frozen=True)
class Measured:
    """Topic with its measured rows."""

    topic: Topic
    rows: Sequence[Row]

    def markdown(self) -> str:
        """Return the section of the topic as Markdown."""
        missed = [f"- {row.cells[0]}: {target}" for row in self.rows for target in row.missed]
        below = ["Targets missed:", "", *missed, ""] if missed else []
        table = aligned([self.topic.columns, *(row.cells for row in self.rows)])
        return "\n".join([f"## {self.topic.title}", "", textwrap.fill(self.topic.about, 118), "", table, "", *below])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with padded cells; all columns but the first are aligned to the right."""
    widths = [max(_width(line[k]) for line in lines) for k in range(len(lines[0]))]

    def row_of(cells: Sequence[str]) -> str:
        gaps = [" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
        padded = [cell + gap if k == 0 else gap + cell for k, (cell, gap) in enumerate(zip(cells, gaps, strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (width + 2) if k == 0 else "-" * (width + 1) + ":" for k, width in enumerate(widths))
    return "\n".join([row_of(lines[0]), f"|{rule}|", *(row_of(cells) for cells in lines[1:])])


def _width(text: str) -> int:
    return sum(not unicodedata.combining(c) for c in text)


def duration(seconds: float) -> str:
    """Format seconds with three significant digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds / 1e-6)} µs"


def ratio(factor: float) -> str:
    """Format a speed ratio with two significant digits."""
    return f"{float(f'{factor:.2g}'):,.12g}×"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def machine(libraries: Sequence[str]) -> str:
    """Describe the machine and the versions of Python and libraries."""
    versions = ", ".join(f"{name} {_version(name)}" for name in libraries)
    load = f"; load average before the run {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return "\n".join(
        [
            f"- {processor()}, {os.cpu_count()} cores, {platform.system()}{load}",
            f"- Python {platform.python_version()}, {versions}",
        ]
    )


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "from source" if library == "idbandits" else "not installed"


def write(path: Path, text: str) -> None:
    """Write a file atomically; create its folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
