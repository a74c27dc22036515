"""Axes that plots are drawn into."""

from __future__ import annotations

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
    found = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(found) != number or not all(isinstance(own, Axes) for own in found):
        raise IdbanditsError(f"axes must be {number} axes of Matplotlib, got {brief(axes)}")
    return found
