"""Plots of regressions: one function returns the data, another draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idbandits.agent.reports.axes import axes_for, style_rows
from idbandits.agent.reports.regression import ENDS, Regression, RegressionResult, rounded
from idbandits.diagram.features.design import CONSTANT
from idbandits.kernel.array_types import Floats

if TYPE_CHECKING:  # imported where they are used, because that takes long
    from matplotlib.axes import Axes

SHOWN = 20  # coefficients: the largest
BINS, LEAST_IN_BIN = 8, 5  # of rows with about the same prior mean
LARGEST = 70.0  # area of a marker, in square points
# Okabe and Ito's colours, with a marker each; states beyond share the last
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#A0428A", "D"), ("#E69F00", "v"), ("#000000", "P"))


class Bars(NamedTuple):
    """Coefficients with intervals: one line per feature, the largest first; one column per state but the first."""

    names: list[str]
    mean: Floats
    low: Floats  # ends of the interval of 90 %
    high: Floats
    hidden: int  # further features


class RowPoints(NamedTuple):
    """Rows with observations: what features say of a state, and what was observed; also by bins of rows."""

    prior: Floats
    observed: Floats
    observations: Floats
    binned_prior: Floats  # means over rows, by observations
    binned_observed: Floats


class Panels(NamedTuple):
    """Data of a plot."""

    states: tuple[str, ...]
    coefficients: Bars
    rows: list[RowPoints]  # of a state
    strength: float
    interval: tuple[float, float]


def panels(regression: Regression) -> Panels:
    """Return the largest coefficients with intervals, and all rows with observations."""
    states = len(regression.states)
    least, most = regression.strength_quantile(ENDS).tolist()
    counts = regression.observations.ravel()
    seen = counts > 0
    prior, observed = (column.reshape(len(counts), -1)[seen] for column in (regression.prior_mean, regression.observed))
    rows = [_points(prior[:, k], observed[:, k], counts[seen]) for k in range(-states, 0)]
    return Panels(tuple(map(str, regression.states)), largest(regression), rows, regression.strength, (least, most))


def largest(regression: RegressionResult) -> Bars:
    """Return the largest coefficients, with the ends of their intervals; that of the constant only if it is alone."""
    names = regression.names
    mean = regression.coefficients.reshape(len(names), -1)
    low, high = regression.quantile(ENDS).reshape(2, len(names), -1)
    order = np.argsort(-np.abs(mean).max(axis=1), kind="stable")
    order = order[order > 0] if len(names) > 1 else order
    own = order[:SHOWN]
    return Bars([names[k] for k in own], mean[own], low[own], high[own], len(order) - len(own))


def draw_alone(bars: Bars, ax: Any = None) -> Axes:
    """Draw coefficients of a single state into axes, or into those of a new figure."""
    (own,) = axes_for(ax, 1, (5.0, float(np.clip(1.3 + 0.24 * len(bars.names), 2.4, 9.0))))
    _draw_coefficients(own, bars, ("",))
    return own


def _points(prior: Floats, observed: Floats, observations: Floats) -> RowPoints:
    """Return rows, and bins of them with about as many observations each."""
    order = np.argsort(prior, kind="stable")
    weights = observations[order]
    bins = np.minimum((BINS * (np.cumsum(weights) - 0.5 * weights) / weights.sum()).astype(int), BINS - 1)
    has_bins = len(order) >= BINS * LEAST_IN_BIN and np.ptp(prior) > 1e-9  # rows of pooled tables are all alike
    binned = [order[bins == k] for k in np.unique(bins)] if has_bins else []
    means = [
        [float(np.average(column[own], weights=observations[own])) for own in binned] for column in (prior, observed)
    ]
    return RowPoints(prior, observed, observations, *map(np.array, means))


def draw(shown: Panels, axes: Any = None) -> NDArray[np.object_]:
    """Draw two panels into axes, or into those of a new figure; return an array of both axes."""
    lines = len(shown.coefficients.names) * max(1.0, 0.6 * len(shown.states))
    size = (8.6, float(np.clip(1.3 + 0.24 * lines, 3.6, 9.0)))
    left, right = axes_for(axes, 2, size, width_ratios=(1.0, 1.1))
    _draw_coefficients(left, shown.coefficients, shown.states)
    _draw_rows(right, shown)
    return np.array([left, right], dtype=object)


def _draw_coefficients(ax: Axes, own: Bars, names: Sequence[str]) -> None:
    states = len(names)
    places = np.arange(len(own.names))
    ax.axvline(0, color="#888888", linewidth=0.8, zorder=1)
    for k in range(states):
        colour, marker = LOOKS[min(k, len(LOOKS) - 1)]
        x = own.mean[:, k]
        ax.errorbar(
            x, places + 0.22 * (k - (states - 1) / 2), xerr=np.stack([x - own.low[:, k], own.high[:, k] - x]),
            fmt=marker, color=colour, markersize=4.5 if states == 1 else 3.5, elinewidth=1.3, linewidth=0, zorder=3,
            label=names[k],
        )  # fmt: skip
    style_rows(ax, [_short(name) for name in own.names], states > 1)
    ax.margins(x=0.08)
    ax.set_xlabel("coefficient (change of the log-odds), with 90 % intervals", fontsize="small")
    title = "Coefficients" if own.names != [CONSTANT] else "The constant"
    more = f": the largest {len(own.names)} of {len(own.names) + own.hidden}" if own.hidden else ""
    ax.set_title(title + more, fontsize="medium", loc="left", pad=24)


def _draw_rows(ax: Axes, shown: Panels) -> None:
    top = limit(shown.rows)
    ax.plot([0, 1], [0, 1], color="#888888", linewidth=0.8, zorder=1)
    most = max((float(rows.observations.max(initial=0.0)) for rows in shown.rows), default=0.0)
    for k, rows in enumerate(shown.rows):
        colour, marker = LOOKS[min(k, len(LOOKS) - 1)]
        if len(rows.prior):
            area = np.maximum(LARGEST * rows.observations / most, 1.5)
            ax.scatter(
                rows.prior, rows.observed, s=area, color=colour, alpha=0.25 if len(rows.prior) > 50 else 0.5,
                linewidths=0, zorder=2, rasterized=len(rows.prior) > 1000,
            )  # fmt: skip
        if len(rows.binned_prior):
            ax.plot(
                rows.binned_prior, rows.binned_observed, color=colour, marker=marker, markersize=5, linewidth=1.6,
                markeredgecolor="white", markeredgewidth=0.8, zorder=4,
            )  # fmt: skip
    margin = 0.02 * top
    ax.set(xlim=(-margin, top + margin), ylim=(-margin, top + margin))
    ax.set_xlabel("prior mean, by features alone", fontsize="small")
    ax.set_ylabel("observed rate", fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    least, largest = map(rounded, shown.interval)
    title = f"A prior is worth {rounded(shown.strength)} observations ({least} to {largest})"
    ax.set_title(title, fontsize="medium", loc="left", pad=24)
    number, above = len(shown.rows[0].prior), max(int((rows.observed > top + margin).sum()) for rows in shown.rows)
    note = f"{number:,} row{'' if number == 1 else 's'} with observations; areas by their number"
    note += f"; {above:,} further up" if above else ""
    note += "\nline: means of rows with about the same prior mean" if len(shown.rows[0].binned_prior) else ""
    ax.text(0, 1.015, note, transform=ax.transAxes, va="bottom", fontsize="x-small", color="#555555")


def limit(rows: list[RowPoints]) -> float:
    """Return the end of the axes of rates: 99 % of all observations are of rows below."""
    tops = [0.0]
    for own in rows:
        order = np.argsort(own.observed, kind="stable")
        below = np.cumsum(own.observations[order]) <= 0.99 * own.observations.sum()
        tops += [float(own.prior.max(initial=0.0)), float(own.observed[order[below]].max(initial=0.0))]
    return min(1.0, 1.05 * max(tops)) or 1.0


def _short(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:15]}…{name[-16:]}"
