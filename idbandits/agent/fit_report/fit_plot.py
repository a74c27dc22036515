"""Plot of the most surprising comparisons of a fit report: one function returns the data, another draws them."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from idbandits.agent.reports.axes import axes_for, style_rows
from idbandits.kernel.array_types import Bools, Floats

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

SHOWN = 12  # comparisons
SCORE = 1.96  # standard errors, for intervals of 95 %
# Okabe and Ito's colours; what does not fit has another marker, too
LOOKS: dict[bool, dict[str, Any]] = {
    False: {"color": "#0072B2", "fmt": "o", "label": "observed"},
    True: {"color": "#D55E00", "fmt": "s", "label": "observed, does not fit"},
}


class Points(NamedTuple):
    """One entry per comparison, the most surprising ones first."""

    labels: list[str]
    expected: Floats  # shares of the rounds
    observed: Floats
    low: Floats  # ends of Wilson's interval of 95 %
    high: Floats
    p: Floats
    misfit: Bools


def points(frame: "pd.DataFrame", level: float) -> Points:
    """Return the first comparisons in the frame of a report, one of each kind; those below this level do not fit.

    >>> import pandas as pd
    >>> names = ["node", "state", "by", "value", "rounds", "expected", "observed", "p"]
    >>> made = points(pd.DataFrame([("C2", 1, "C1", 1, 100, 30.0, 50, 0.001)], columns=names), 0.05)
    >>> made.labels, made.observed.tolist(), made.low.round(3).tolist(), made.misfit.tolist()
    (['C2 = 1 where C1 = 1'], [0.5], [0.404], [True])
    """
    lines = frame.drop_duplicates(["node", "state", "by"]).head(SHOWN)
    rounds = lines["rounds"].to_numpy(np.float64)
    observed, p = lines["observed"].to_numpy(np.float64) / rounds, lines["p"].to_numpy(np.float64)
    centre = (observed + SCORE**2 / (2 * rounds)) / (1 + SCORE**2 / rounds)
    half = SCORE / (1 + SCORE**2 / rounds) * np.sqrt(observed * (1 - observed) / rounds + (SCORE / (2 * rounds)) ** 2)
    low, high = np.minimum(centre - half, observed), np.maximum(centre + half, observed)
    expected = lines["expected"].to_numpy(np.float64) / rounds
    return Points([_label(line) for line in lines.itertuples()], expected, observed, low, high, p, p < level)


def _label(line: Any) -> str:
    if line.node != "all":
        return f"{line.node} = {line.state}" + (f" where {line.by} = {line.value}" if line.by else "")
    if line.by == "all earlier":
        return f"nodes where {line.value} was seen earlier"
    return f"nodes where the node {line.by} = {line.value}"


def draw(shown: Points, ax: "Axes | None" = None) -> "Axes":
    """Draw comparisons one below the other: what was expected, and what was observed."""
    number = len(shown.labels)
    (ax,) = axes_for(ax, 1, (6.4, 1.2 + 0.26 * max(number, 2)))
    places = np.arange(number)
    ax.plot(
        shown.expected, places, linestyle="none", marker="|", color="black", markersize=11, markeredgewidth=1.4,
        label="expected", zorder=2,
    )  # fmt: skip
    for misfit, look in LOOKS.items():
        chosen = shown.misfit == misfit
        if chosen.any():
            x = shown.observed[chosen]
            span = np.stack([x - shown.low[chosen], shown.high[chosen] - x])
            ax.errorbar(x, places[chosen], xerr=span, markersize=4.5, elinewidth=1.2, linewidth=0, zorder=3, **look)
    for place, p in enumerate(shown.p):
        text = "p < 1e-12" if p < 1e-12 else f"p = {p:.1g}"
        ax.text(1.02, place, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    style_rows(ax, shown.labels, number > 0)
    ax.set_xlabel("share of rounds, with 95 % intervals")
    ax.set_xlim(left=0)
    return ax
