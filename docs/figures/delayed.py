"""Draw docs/figures/delayed.svg: estimated purchase rates if outcomes of recent rounds are not known yet.

`python docs/figures/delayed.py` takes a minute. The figure is part of docs/how-to/delayed-conversions.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import idbandits as idb
from idbandits.kernel.array_types import Floats

PICTURE = Path(__file__).resolve().parent / "delayed.svg"
DAYS = (3, 7, 14, 30)
RATE, TYPICAL = 0.3, 12.0  # P(purchase by the last day); mean of the exponential delay
ROUNDS, LOGS = 2_000, 20
YOUNG = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95])  # shares of recent rounds
INK, PALE = "#222222", "#999999"


class Log(NamedTuple):
    """Age of rounds, and days until the purchase (infinity: never)."""

    age: Floats
    day: Floats


class Estimate(NamedTuple):
    """Mean and standard deviation of the belief about the purchase rate."""

    mean: float
    sd: float


def logged(young: float, seed: int) -> Log:
    """Draw a log in which a share of the rounds is younger than the last day."""
    rng, last = np.random.default_rng(seed), DAYS[-1]
    age = np.where(rng.random(ROUNDS) < young, rng.uniform(0, last, ROUNDS), rng.uniform(last, 3 * last, ROUNDS))
    waiting = -TYPICAL * np.log1p(-rng.random(ROUNDS) * -np.expm1(-last / TYPICAL))  # truncated exponential
    return Log(age, np.where(rng.random(ROUNDS) < RATE, waiting, np.inf))


def delayed(log: Log, seed: int) -> Estimate:
    """Estimate with a diagram that models the delay."""
    d = idb.Diagram("late purchases")
    bought = d.latent("bought", [d.decision("card", ["shoes"])], idb.Learned("rate"))
    d.reward(bought)
    nodes = idb.delayed(d, bought, by=DAYS)
    looks = [np.where(log.age >= day, log.day <= day, np.nan) for day in DAYS]
    return _learned(d, {node.name: look for node, look in zip(nodes, looks, strict=True)}, seed)


def naive(bought: Floats, seed: int) -> Estimate:
    """Estimate with purchases as an observed node: 1, 0, or NaN if not reported."""
    d = idb.Diagram("purchases")
    d.reward(d.observed("bought", [d.decision("card", ["shoes"])], idb.Learned("rate")))
    return _learned(d, {"bought": bought}, seed)


def _learned(d: idb.Diagram, observations: Mapping[str, Floats], seed: int) -> Estimate:
    agent = idb.Thompson(d, seed=seed)
    agent.update_many({"card": ["shoes"] * ROUNDS}, observations)
    belief = agent.posterior()["rate"]
    return Estimate(float(belief.mean[0]), float(belief.sd[0]))


def estimates(young: float) -> dict[str, Estimate]:
    """Return estimates by method, averaged over logs."""
    by_method: dict[str, list[Estimate]] = {}
    for seed in range(LOGS):
        log = logged(young, seed)
        so_far = (log.day <= log.age).astype(float)
        as_it_comes = np.where((so_far == 1) | (log.age >= DAYS[-1]), so_far, np.nan)
        by_method.setdefault("as it comes", []).append(naive(as_it_comes, seed))
        by_method.setdefault("delayed", []).append(delayed(log, seed))
        by_method.setdefault("not yet is no", []).append(naive(so_far, seed))
    return {way: Estimate(*np.mean(each, axis=0).tolist()) for way, each in by_method.items()}


def draw(path: Path, points: list[dict[str, Estimate]]) -> None:
    """Draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        figure, ax = pyplot.subplots(figsize=(7.2, 3.8), layout="constrained")
        ax.axhline(RATE, color=PALE, lw=1, ls=(0, (4, 3)), zorder=0)
        ax.text(0.005, RATE + 0.012, "truth", color="#666666", size=8.5, va="bottom")
        for way, colour, marker, x, y, label in (
            ("as it comes", "#D55E00", "s", 0.72, 0.60, "purchases as they come,\nothers after a month"),
            ("delayed", "#0072B2", "o", 0.78, 0.355, "idb.delayed"),
            ("not yet is no", "#7A5195", "^", 0.5, 0.17, "“not yet” reported as “no”"),
        ):
            means = np.array([point[way].mean for point in points])
            ax.plot(YOUNG, means, color=colour, marker=marker, ms=4.5, lw=1.5)
            if way == "delayed":
                sd = np.array([point[way].sd for point in points])
                ax.fill_between(YOUNG, means - sd, means + sd, color=colour, alpha=0.18, lw=0)
            ax.text(x, y, label, color=colour, size=9.5, ha="right", va="center")
        ax.set(xlim=(-0.02, 0.98), ylim=(0, 0.92), xlabel="share of rounds that are younger than a month")
        ax.set_ylabel("estimated purchase rate")
        ax.set_xticks(np.arange(0, 1, 0.2), [f"{x:.0%}" for x in np.arange(0, 1, 0.2)])
        ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def main() -> None:
    """Simulate and draw."""
    parser = argparse.ArgumentParser(description="Draw docs/figures/delayed.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="file to write, such as picture.png")
    options = parser.parse_args()
    points = [estimates(young) for young in YOUNG.tolist()]
    for young, point in zip(YOUNG.tolist(), points, strict=True):
        print(f"{young:.0%}", {way: f"{e.mean:.3f} ± {e.sd:.3f}" for way, e in point.items()})
    draw(options.out, points)


if __name__ == "__main__":
    main()
