"""Plot of a comparison: differences of held-out log-likelihoods to the best model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idbandits.agent.reports.axes import axes_for, style_rows
from idbandits.kernel.array_types import Floats

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

SCORE = 1.96  # standard errors, for intervals of 95 %
COLOUR = "#0072B2"


class Differences(NamedTuple):
    """One entry per model, the best first."""

    labels: list[str]
    values: Floats
    half: Floats
    impossible: list[int]  # rounds that a model rules out: they are not in its difference


def differences_of(frame: pd.DataFrame) -> Differences:
    """Return what the plot shows of the frame of a comparison."""
    half = SCORE * np.nan_to_num(frame["difference_se"].to_numpy(np.float64))
    values = frame["difference"].to_numpy(np.float64)
    return Differences(list(frame["model"]), values, half, frame["impossible"].tolist())


def draw(shown: Differences, ax: Axes | None = None) -> Axes:
    """Draw differences one below the other; models that rule out rounds have hollow markers."""
    (ax,) = axes_for(ax, 1, (6.4, 1.4 + 0.3 * max(len(shown.labels), 2)))
    ax.axvline(0.0, color="black", linewidth=0.8)
    labels = list(shown.labels)
    for row, (value, half, impossible) in enumerate(zip(shown.values, shown.half, shown.impossible, strict=True)):
        fill = "white" if impossible else COLOUR
        ax.errorbar(value, row, xerr=half, fmt="o", color=COLOUR, markerfacecolor=fill, markersize=5, elinewidth=1.4)
        if impossible:
            labels[row] += f"\n({impossible:,} impossible)"
    style_rows(ax, labels, False)
    hollow = "\nhollow: without the rounds that the model rules out" if any(shown.impossible) else ""
    ax.set_xlabel(f"held-out log-likelihood per round (nats), less that of the first; 95 % intervals{hollow}")
    return ax
