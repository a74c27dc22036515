"""Learning curves of simulated learners: `curves` computes them, `draw_curves` draws them."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from idbandits.errors import IdbanditsError, brief

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Measure: TypeAlias = Literal["reward", "regret"]
_LABELS = {"reward": "average reward", "regret": "total regret"}

# Colours of Okabe and Ito. There are 7 colours, 4 dashes and 9 markers, so the first 252 styles are different, and
# those of the same colour differ in dash or marker, also when printed in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#A0428A", "#E69F00", "#000000", "#56B4E9")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


class Curve(NamedTuple):
    """Mean of a learner over its runs, and one standard error below and above it (NaN for a single run)."""

    learner: str
    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def comparable(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of the runs that reached the last checkpoint which at least half of them reached, up to it."""
    counts = rows.groupby("round")["run"].nunique()
    last = max(counts.index[2 * counts >= rows["run"].nunique()], default=0)
    reached = rows.loc[rows["round"] == last, "run"]
    return rows[(rows["round"] <= last) & rows["run"].isin(reached)]


def curves(frame: "pd.DataFrame", measure: Measure) -> list[Curve]:
    """Return the curves in the frame of a result, in the order in which learners first occur in it.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"learner": "A", "run": [0, 1], "round": 10, "regret": [2.0, 4.0]})
    >>> curves(frame, "regret")
    [Curve(learner='A', rounds=array([10]), mean=array([3.]), low=array([2.]), high=array([4.]))]
    """
    if not isinstance(measure, str) or measure not in _LABELS:
        raise IdbanditsError(f"what must be 'reward' or 'regret', got {brief(measure)}")
    drawable = []
    for learner in frame["learner"].unique():
        rows = comparable(frame[frame["learner"] == learner])
        table = rows.pivot(index="round", columns="run", values=measure).dropna()  # checkpoints of all these runs
        if measure == "reward":
            table = table.div(table.index, axis=0)
        rounds, mean, error = table.index.to_numpy(), table.mean(axis=1).to_numpy(), table.sem(axis=1).to_numpy()
        if rounds.size:
            drawable.append(Curve(str(learner), rounds, mean, mean - error, mean + error))
    return drawable


def settled(curve: Curve) -> Curve:
    """Return a curve without its first hundredth, where averages are mostly noise."""
    late = 100 * curve.rounds >= curve.rounds[-1]
    return Curve(curve.learner, *(row[late] for row in curve[1:]))


def limits(curves: Sequence[Curve], measure: Measure) -> tuple[float, float]:
    """Return the range of the vertical axis without margins; for total regret, the full range with 0."""
    rounds = np.concatenate([curve.rounds for curve in curves])
    values = np.hstack([(curve.mean, curve.low, curve.high) for curve in curves])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if measure == "regret":
        return min(low, 0.0), max(high, 0.0)
    late = values[:, 10 * rounds >= rounds.max()]  # at least half of the height; the noise before may be cut off
    bottom, top = float(np.nanmin(late)), float(np.nanmax(late))
    room = (top - bottom) / 2 or high - low  # if nothing changes late, show everything
    return max(low, bottom - room), min(high, top + room)


def draw_curves(
    curves: Sequence[Curve], measure: Measure, ax: "Axes | None" = None, *, looks: Mapping[str, int] | None = None,
    legend: bool = True, log: bool = False,
) -> "Axes":  # fmt: skip
    """Draw curves into `ax`, or into a new figure; `looks` has the style number of each learner, for several axes."""
    if not curves:
        raise IdbanditsError(f"no learner has a {measure} to plot: none has reached a checkpoint where it is known")
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    if not (ax is None or isinstance(ax, Axes)):
        raise IdbanditsError(f"ax must be Matplotlib axes, got {brief(ax)}")
    ax = ax if ax is not None else Figure(layout="constrained").subplots()
    curves = [settled(curve) for curve in curves] if measure == "reward" else curves
    for i, curve in enumerate(curves):
        look = line_style(i if looks is None else looks[curve.learner])
        ax.fill_between(curve.rounds, curve.low, curve.high, color=look["color"], alpha=0.2, linewidth=0)
        [line] = ax.plot(curve.rounds, curve.mean, label=curve.learner, **look)
        if len(curve.rounds) > 5:
            line.set_markevery((0.2 * (i + 0.5) / len(curves), 0.2))  # few markers, at different rounds for each curve
    ax.set(xlabel="round", ylabel=_LABELS[measure], xlim=(0, max(curve.rounds[-1] for curve in curves)))
    if log and (positive := np.concatenate([c.mean[c.mean > 0] for c in curves])).size:
        ax.set_yscale("log")
        highest = float(np.nanmax(np.hstack([(c.mean, c.high) for c in curves])))
        ax.set_ylim(0.8 * max(float(positive.min()), 1e-3 * float(positive.max())), 1.25 * highest)
    else:
        low, high = limits(curves, measure)
        margin = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
        ax.set_ylim(low if measure == "regret" and low == 0 else low - margin, high + margin)
    ax.spines[["top", "right"]].set_visible(False)
    _ticks(ax, measure)
    if legend:
        _legend(ax, curves)
    return ax


def line_style(look: int) -> dict[str, Any]:
    """Return the line properties of a style number, for Matplotlib."""
    return {
        "color": _COLOURS[look % len(_COLOURS)], "linestyle": _DASHES[look % len(_DASHES)], "linewidth": 1.3,
        "marker": _MARKERS[look % len(_MARKERS)], "markersize": 4,
    }  # fmt: skip


def draw_legend(figure: "Figure", looks: Mapping[str, int], columns: int) -> None:
    """Draw one legend below all axes of a figure."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], **line_style(look)) for look in looks.values()]
    figure.legend(lines, list(looks), loc="outside lower center", ncols=min(columns, len(lines)), frameon=False)


def rendered(figure: "Figure", dpi: int = 160) -> dict[str, bytes]:
    """Return a figure as PNG and as SVG."""
    options: dict[str, dict[str, Any]] = {"png": {"dpi": dpi}, "svg": {"metadata": {"Date": None}}}
    files = {kind: BytesIO() for kind in options}
    for kind, file in files.items():
        figure.savefig(file, format=kind, **options[kind])
    return {kind: file.getvalue() for kind, file in files.items()}


def _ticks(ax: "Axes", measure: Measure) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    steps = [1, 2, 2.5, 5, 10]
    digit = 0.65 * float(ax.get_xticklabels()[0].get_fontsize()) * ax.figure.dpi / 72  # its width in pixels
    room = int(ax.get_window_extent().width / (digit * len(f"{ax.get_xlim()[1]:,.0f} ")))
    ax.xaxis.set_major_locator(MaxNLocator(min(max(room, 1), 5), integer=True, steps=steps))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if ax.get_yscale() == "linear":
        ax.ticklabel_format(axis="y", useOffset=False)
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=steps))
    else:
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
        ax.yaxis.set_minor_locator(NullLocator())
    if measure == "regret":
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _legend(ax: "Axes", curves: Sequence[Curve]) -> None:
    """Draw a legend above the axes, in as many columns as fit, and in smaller print if it is tall."""
    banded = any(np.isfinite(curve.high).any() for curve in curves)
    look: dict[str, Any] = {
        "title": "mean ± 1 standard error" if banded else None, "alignment": "left", "frameon": False,
        "loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "handlelength": 2.4, "columnspacing": 1.2,
    }  # fmt: skip
    lines, blank = ax.lines[-len(curves) :], ["-"] * len(curves)
    for size, columns in [(size, n) for size in ("small", "x-small") for n in range(len(curves), 0, -1)]:
        legend = ax.legend(lines, blank, fontsize=size, title_fontsize=size, ncols=columns, **look)
        for text, curve in zip(legend.get_texts(), curves, strict=True):  # set late: matplotlib hides labels like _A
            text.set(text=fill(curve.learner, 24), parse_math=False)
        fits = legend.get_window_extent().width <= ax.get_window_extent().width
        if fits and (size == "x-small" or len(curves) <= 3 * columns):
            break
