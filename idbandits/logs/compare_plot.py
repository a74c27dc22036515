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


class Differences(NamedTuple):
    """One entry per model, the best first; models that rule out more rounds than the best have no difference (NaN)."""

    labels: list[str]
    values: Floats
    half: Floats


def differences_of(frame: pd.DataFrame) -> Differences:
    """Return what the plot shows of the frame of a comparison."""
    more = frame["impossible"].to_numpy() - frame["impossible"].iloc[0]
    names = zip(frame["model"], more.tolist(), strict=True)
    labels = [name if number <= 0 else f"{name}\n(rules out {_counted(number)})" for name, number in names]
    values = np.where(more > 0, np.nan, frame["difference"].to_numpy(np.float64))
    half = SCORE * np.nan_to_num(frame["difference_se"].to_numpy(np.float64))
    return Differences(labels, values, half)


def _counted(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds:,} rounds"


def draw(shown: Differences, ax: Axes | None = None) -> Axes:
    """Draw differences one below the other."""
    (ax,) = axes_for(ax, 1, (6.4, 1.4 + 0.34 * max(len(shown.labels), 2)))
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.errorbar(
        shown.values, np.arange(len(shown.labels)), xerr=shown.half, fmt="o", color="#0072B2", markersize=5,
        elinewidth=1.4,
    )  # fmt: skip
    style_rows(ax, shown.labels, False)
    ax.set_xlabel("log-likelihood per held-out round (nats) minus\nthat of the first model, with 95 % intervals")
    return ax
