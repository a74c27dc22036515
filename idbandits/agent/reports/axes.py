"""Axes that plots are drawn into, and their common style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from idbandits.errors import IdbanditsError, brief

if TYPE_CHECKING:  # imported where it is used, because that takes long
    from matplotlib.axes import Axes


def axes_for(axes: Any, number: int, size: tuple[float, float], **layout: Any) -> list[Axes]:
    """Return the axes that a user passed, or those of a new figure of this size."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=size, layout="constrained").subplots(1, number, **layout)
    panels = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(panels) != number or not all(isinstance(own, Axes) for own in panels):
        raise IdbanditsError(f"axes must be {number} axes of Matplotlib, got {brief(axes)}")
    return panels


def style_rows(ax: Axes, labels: Sequence[str], several: bool) -> None:
    """Label the rows of a plot from top to bottom; with a legend above it if there are several series."""
    ax.set_yticks(np.arange(len(labels)), labels, fontsize="small", parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    ax.grid(axis="y", color="#e0e0e0", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    if several:
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize="small", frameon=False, handletextpad=0.2,
            columnspacing=1.0, borderaxespad=0.2,
        )  # fmt: skip
