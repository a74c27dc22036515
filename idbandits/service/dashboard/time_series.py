"""Data of the plots over time, from the statistics of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from idbandits.diagram.drawing.boxes import split_number
from idbandits.service.dashboard.formatting import label
from idbandits.service.live.gain import GainPath
from idbandits.service.live.statistics import HOUR, PERIOD, Cell

MOST_POINTS, FEW_POINTS = 150, 10  # of a line
FEW = 30  # rounds of an arm
STEPS = (1, 3, 6, 12, 24, 72, 168, 720)  # hours of a point
SHOWN_ITEMS = 7  # of the plot of shares; further items are combined
SCORE = 1.96  # of pointwise bands of 95 %
NAMES = {"policy": "policy", "holdout": "holdout", "caller": "caller"}
AGES = 60  # points of the plot of times to outcomes


def step_of(hours: Iterable[int], rounds: float | None = None) -> int:
    """Return the number of hours per point, larger for few `rounds`, unless too few points would remain.

    >>> step_of([10, 20]), step_of([0, 24 * 30]), step_of([0, 24 * 30], rounds=1000)
    (1, 6, 24)
    """
    all_hours = list(hours)
    span = max(all_hours) - min(all_hours) + 1 if all_hours else 1
    least = next((k for k, step in enumerate(STEPS) if span / step <= MOST_POINTS), len(STEPS) - 1)
    if rounds is not None:
        while least + 1 < len(STEPS) and rounds * STEPS[least] / span < FEW and span / STEPS[least + 1] >= FEW_POINTS:
            least += 1
    return STEPS[least]


def reward_plot(
    cells: Mapping[str, Cell], is_complete: Callable[[int, float], bool], markers: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:  # fmt: skip
    """Return the mean reward of each arm over time, of hours whose rewards are complete; None if there are none."""
    complete = list[tuple[int, str, Cell]]()
    for key, cell in cells.items():
        first, arm, version = key.split("|")
        if cell.rewarded > 0 and is_complete(int(version), (int(first) + 1) * HOUR):
            complete.append((int(first), arm, cell))
    if not complete:
        return None
    by_arm = dict[str, float]()
    for _, arm, cell in complete:
        by_arm[arm] = by_arm.get(arm, 0.0) + cell.rewarded
    step = step_of((hour for hour, _, _ in complete), min(by_arm.values()))
    sums: dict[str, dict[int, list[float]]] = {}
    for hour, arm, cell in complete:
        total = sums.setdefault(arm, {}).setdefault(hour // step, [0.0, 0.0, 0.0])
        for k, value in enumerate((cell.rewarded, cell.reward, cell.square)):
            total[k] += value
    places = sorted({place for by_place in sums.values() for place in by_place})
    series = []
    for arm in sorted(sums, key=list(NAMES).index):
        mean, low, high = list[float | None](), list[float | None](), list[float | None]()
        for place in places:
            count, reward, square = sums[arm].get(place, (0.0, 0.0, 0.0))
            if count < 2:
                for values in (mean, low, high):
                    values.append(None)
                continue
            average = reward / count
            half = SCORE * float(np.sqrt(max(square / count - average**2, 0.0) / (count - 1)))
            mean.append(_short(average))
            low.append(_short(average - half))
            high.append(_short(average + half))
        series.append({"label": NAMES[arm], "values": mean, "low": low, "high": high})
    return {
        "x": [(place + 0.5) * step * HOUR for place in places], "time": True, "series": series,
        "markers": list(markers), "y": "reward per round", "step": step,
    }  # fmt: skip


def gain_plot(path: GainPath, markers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the gain so far by time, from the first time with an interval, if any; None without complete hours."""
    if not len(path.hours):
        return None
    begun = np.nonzero(np.isfinite(path.low))[0]
    path = GainPath(*(column[begun[0] if len(begun) else 0 :] for column in path))
    points = np.unique(np.linspace(0, len(path.hours) - 1, MOST_POINTS).round().astype(int))
    columns = [[None if np.isnan(x) else _short(float(x)) for x in column[points]] for column in path[1:]]
    series = [{"label": "gain so far", "values": columns[0], "low": columns[1], "high": columns[2]}]
    return {
        "x": ((path.hours[points] + 1) * HOUR).tolist(), "time": True, "series": series, "zero": True,
        "markers": list(markers), "y": "gain in reward per round",
    }  # fmt: skip


def shares_plot(
    periods: Mapping[str, Mapping[str, int]], names: Mapping[str, Any], markers: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:  # fmt: skip
    """Return the shares of the most shown items over time, stacked; `names` are labels by key."""
    if not periods:
        return None
    step = max(1, step_of(int(period) * int(PERIOD // HOUR) for period in periods) // int(PERIOD // HOUR))
    buckets: dict[int, dict[str, int]] = {}
    total: dict[str, int] = {}
    for period, counts in periods.items():
        bucket = buckets.setdefault(int(period) // step, {})
        for key, count in counts.items():
            bucket[key] = bucket.get(key, 0) + count
            total[key] = total.get(key, 0) + count
    top = sorted(total, key=lambda key: -total[key])[:SHOWN_ITEMS]
    places = sorted(place for place, counts in buckets.items() if sum(counts.values()) > 0)
    if not places:
        return None
    shown = {place: sum(buckets[place].values()) for place in places}
    series = [
        {"label": label(names.get(key, key)), "values": [_short(buckets[p].get(key, 0) / shown[p]) for p in places]}
        for key in top
    ]
    if len(total) > len(top):
        rest = [max(0.0, 1.0 - sum(buckets[p].get(key, 0) for key in top) / shown[p]) for p in places]
        series.append({"label": f"{len(total) - len(top):,} others", "values": [_short(x) for x in rest]})
    return {
        "x": [(place + 0.5) * step * PERIOD for place in places], "time": True, "stacked": True, "percent": True,
        "series": series, "markers": list(markers), "y": "share of items shown",
    }  # fmt: skip


def fit_plot(frame: Any, nodes: Sequence[str]) -> dict[str, Any] | None:
    """Return predicted and observed shares of nodes from the frame of a fit report, sorted by kind and position."""
    place = {name: k for k, name in enumerate(nodes)}
    compared = frame[(frame["by"] == "") & (frame["node"] != "all")]
    if not len(compared):
        return None
    kind_rank = {
        kind: k for k, kind in reversed(list(enumerate(map(kind_of, nodes))))
    }  # place of the first node of each kind
    lines = sorted(compared.itertuples(), key=lambda line: (kind_rank[kind_of(line.node)], place[line.node]))[
        :MOST_POINTS
    ]
    two_states = len({line.node for line in lines}) == len(lines)
    rounds = np.array([line.rounds for line in lines], np.float64)
    observed = np.array([line.observed for line in lines]) / rounds
    expected = np.array([line.expected for line in lines]) / rounds
    half = SCORE * np.sqrt(np.maximum(observed * (1 - observed), 1 / rounds) / rounds)
    ticks = [label(line.node if two_states else f"{line.node} = {line.state}") for line in lines]
    series = [
        {"label": "observed", "values": _rounded(observed), "low": _rounded(observed - half),
         "high": _rounded(observed + half), "points": True},
        {"label": "predicted", "values": _rounded(expected), "points": True, "hollow": True},
    ]  # fmt: skip
    return {"x": list(range(len(ticks))), "ticks": ticks, "series": series, "percent": True, "y": "share of rounds"}


def ages_plot(ages: Mapping[str, Sequence[float]]) -> dict[str, Any] | None:
    """Return the share of outcomes that happened before an age, by kind of node."""
    by_kind = {kind: np.sort(np.maximum(seconds, 1.0)) for kind, seconds in ages.items() if len(seconds)}
    if not by_kind:
        return None
    by_kind = dict(sorted(by_kind.items(), key=lambda item: -len(item[1]))[:SHOWN_ITEMS])
    first, last = min(seconds[0] for seconds in by_kind.values()), max(seconds[-1] for seconds in by_kind.values())
    x = np.geomspace(first, max(last, first * 1.01), AGES)
    series = [
        {"label": label(kind), "values": _rounded(np.searchsorted(seconds, x, side="right") / len(seconds))}
        for kind, seconds in by_kind.items()
    ]
    return {"x": _rounded(x), "ages": True, "series": series, "percent": True, "y": "share of reported outcomes"}


def kind_of(node: str) -> str:
    """Return the name of a node without its position.

    >>> kind_of("click3"), kind_of("bought")
    ('click', 'bought')
    """
    stem, place = split_number(node)
    return stem.rstrip("_ ") if place >= 0 else node


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _rounded(values: Any) -> list[float]:
    return [_short(float(value)) for value in values]
