"""Rows of learned tables as `idbandits fit` shows them: those with the most rounds, as a table and as a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from idbandits.agent.reports.axes import axes_for, style_rows
from idbandits.kernel.array_types import Floats

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

LONGEST = 40  # characters of a label in a plot
NUMBERS = ("mean", "sd", "5 %", "95 %", "rounds")


class LearnedRows(NamedTuple):
    """Rows of a learned table, those with the most rounds first."""

    name: str
    frame: pd.DataFrame
    total: int  # rows of the table, of which `frame` has the first

    @property
    def title(self) -> str:
        """Name of the table, and how many of its rows are shown."""
        own = "1 row" if self.total == 1 else f"{self.total:,} rows"
        less = f" of {own}, those with the most rounds" if len(self.frame) < self.total else ""
        return f"{self.name}: {len(self.frame):,}{less}" if less else f"{self.name}: {own}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the means with their intervals."""
        return draw(intervals_of(self.frame), ax)


class Intervals(NamedTuple):
    """Rows as they are drawn, from top to bottom."""

    labels: list[str]
    mean: Floats
    low: Floats
    high: Floats


def learned_rows(posteriors: dict[str, Any], most: int) -> list[LearnedRows]:
    """Return the rows of all learned tables, with a limit for each table."""
    found = []
    for name, posterior in posteriors.items():
        frame = posterior.to_frame()
        first = frame.sort_values("rounds", ascending=False, kind="stable").head(most)
        found.append(LearnedRows(name, first.reset_index(drop=True), len(frame)))
    return found


def intervals_of(frame: pd.DataFrame) -> Intervals:
    """Return what the plot shows of rows.

    >>> import pandas as pd
    >>> row = {"row": "tea", "mean": 0.5, "sd": 0.1, "5 %": 0.3, "95 %": 0.6, "rounds": 9.0}
    >>> intervals_of(pd.DataFrame([row])).labels
    ['tea']
    """
    names = [name for name in frame.columns if name not in NUMBERS]
    labels = [", ".join(map(str, row)) for row in zip(*(frame[name].tolist() for name in names), strict=True)]
    numbers = (frame[name].to_numpy(np.float64) for name in ("mean", "5 %", "95 %"))
    return Intervals([_brief(label) for label in labels] or [""] * len(frame), *numbers)


def _brief(label: str) -> str:
    label = " ".join(label.split())
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def draw(shown: Intervals, ax: Axes | None = None) -> Axes:
    """Draw means with intervals one below the other."""
    (ax,) = axes_for(ax, 1, (6.4, 0.9 + 0.24 * max(len(shown.labels), 2)))
    places = np.arange(len(shown.labels))
    ax.hlines(places, shown.low, shown.high, color="#0072B2", linewidth=1.6)
    ax.plot(shown.mean, places, "o", color="#0072B2", markersize=4.5)
    style_rows(ax, shown.labels, False)
    ax.set_xlim(-0.01, 1.01)
    ax.set_xlabel("probability, with 90 % interval")
    return ax
