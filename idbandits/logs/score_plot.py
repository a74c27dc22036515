"""Plot of perplexities by position: one function returns the data, another draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idbandits.agent.reports.axes import axes_for
from idbandits.kernel.array_types import Floats

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

SCORE = 1.96  # standard errors, for intervals of 95 %
APART = 0.16  # curves, to show both where they agree
# Okabe and Ito's colours, with markers and dashes that differ in grey, too
LOOKS = (("perplexity", "#0072B2", "o", "-"), ("conditional_perplexity", "#D55E00", "s", "--"))


class PositionCurve(NamedTuple):
    """Perplexity by position, with half the width of its interval of 95 %."""

    name: str
    nodes: list[str]
    values: Floats
    half: Floats


def curves_of(frame: pd.DataFrame) -> list[PositionCurve]:
    """Return the curves in the frame of a score."""
    rows = frame.iloc[:-1]
    return [
        PositionCurve(
            name.replace("_", " "), list(rows["node"]), rows[name].to_numpy(np.float64),
            SCORE * rows[f"{name}_se"].to_numpy(np.float64),
        )
        for name, *_ in LOOKS
    ]  # fmt: skip


def draw(curves: list[PositionCurve], ax: Axes | None = None) -> Axes:
    """Draw perplexities by position."""
    (ax,) = axes_for(ax, 1, (6.4, 3.6))
    for place, (curve, (_, colour, marker, dash)) in enumerate(zip(curves, LOOKS, strict=True)):
        ax.errorbar(
            np.arange(len(curve.nodes)) + APART * (place - 0.5), curve.values, yerr=np.nan_to_num(curve.half),
            color=colour, marker=marker, linestyle=dash, markersize=4.5, elinewidth=1.2, label=curve.name,
        )  # fmt: skip
    places = np.arange(len(curves[0].nodes))
    shown = places[:: max(1, -(-len(places) // 20))]
    ax.set_xticks(shown, [curves[0].nodes[place] for place in shown.tolist()], parse_math=False)
    ax.set(xlabel="observed node, from the top", ylabel="perplexity, with 95 % intervals")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize="small")
    return ax
