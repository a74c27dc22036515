"""Draw docs/figures/features.svg: regret after many new items, with and without features.

`python docs/figures/features.py` takes a few minutes. The figure is part of docs/how-to/features-and-cold-start.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import idbandits as idb

PICTURE = Path(__file__).resolve().parent / "features.svg"
OLD, NEW, COLUMNS, POSITIONS = 200, 200, 6, 4
BEFORE, AFTER, WORLDS, COPIES = 5_000, 5_000, 10, 4  # rounds before and after the move; continuations per agent
WINDOW = 100  # rounds in a moving average
INTERCEPT, NOISE = -3.5, 0.3  # of logits
INK, PALE = "#222222", "#999999"
LOOKS = {"with features": ("#0072B2", "-"), "without": ("#D55E00", (0, (5, 1.5)))}

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """Regret per round in windows of rounds, with standard error over worlds."""

    label: str
    rounds: NDArray[np.int64]
    regret: Floats
    error: Floats


class Catalogue(NamedTuple):
    """Features and attraction of items; the last ones are new."""

    features: Floats
    attraction: Floats


def catalogue(seed: int) -> Catalogue:
    """Draw items whose attraction is a logistic function of features and noise."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=COLUMNS)
    weights /= np.linalg.norm(weights)
    features = rng.normal(size=(OLD + NEW, COLUMNS))
    logits = INTERCEPT + features @ weights + NOISE * rng.normal(size=OLD + NEW)
    return Catalogue(features, 1 / (1 + np.exp(-logits)))


def diagrams(features: Floats) -> dict[str, idb.Diagram]:
    """Return cascades with and without features."""
    number = len(features)
    return {
        "with features": idb.models.cascade(number, POSITIONS, features={"attraction": features}),
        "without": idb.models.cascade(number, POSITIONS),
    }


def measure() -> list[Curve]:
    """Simulate agents before and after new items are added."""
    regrets: dict[str, list[Floats]] = {label: [] for label in LOOKS}
    for seed in range(WORLDS):
        own = catalogue(seed)
        old, new = diagrams(own.features[:OLD]), diagrams(own.features)
        for label, d in old.items():
            agent = idb.Thompson(d, seed=seed)
            played(agent, own.attraction[:OLD], BEFORE, seed)
            runs = [
                played(agent.copy([seed, k]).moved_to(new[label]), own.attraction, AFTER, [seed, k])
                for k in range(COPIES)
            ]
            regrets[label].append(np.mean(runs, axis=0))
    return [_curve(label, np.array(lines)) for label, lines in regrets.items()]


def ignoring() -> float:
    """Return the mean regret per round of always showing the best old items."""
    attractions = [catalogue(seed).attraction for seed in range(WORLDS)]
    return float(np.mean([unclicked(own[:OLD]) - unclicked(own) for own in attractions]))


def unclicked(attraction: Floats) -> float:
    """Return the probability that the best list gets no click."""
    return float(np.prod(1 - np.sort(attraction)[-POSITIONS:]))


def played(agent: idb.Thompson, attraction: Floats, rounds: int, seed: Any) -> Floats:
    """Play rounds of a cascade and return the regret of each."""
    uniforms, regrets = np.random.default_rng(seed).random((rounds, POSITIONS)), np.zeros(rounds)
    least = unclicked(attraction)
    for t in range(rounds):
        action = agent.act()
        items = [int(item) for item in action.values()]
        attracted = uniforms[t] < attraction[items]
        clicks = attracted & (np.cumsum(attracted) == 1)
        agent.update(action, {f"C{k + 1}": int(click) for k, click in enumerate(clicks)})
        regrets[t] = float(np.prod(1 - attraction[items])) - least
    return regrets


def _curve(label: str, regrets: Floats) -> Curve:
    """Return means in windows, given one row of regrets per world."""
    windows = regrets.reshape(WORLDS, AFTER // WINDOW, WINDOW).mean(axis=2)
    rounds = WINDOW * np.arange(1, AFTER // WINDOW + 1)
    return Curve(label, rounds, windows.mean(axis=0), windows.std(axis=0, ddof=1) / np.sqrt(WORLDS))


def draw(path: Path, curves: Sequence[Curve], looks: Mapping[str, Any] = LOOKS) -> None:
    """Draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        figure, ax = pyplot.subplots(figsize=(7.2, 3.8), layout="constrained")
        for curve in curves:
            colour, dash = looks[curve.label]
            middle = curve.rounds - WINDOW / 2
            low, high = curve.regret - curve.error, curve.regret + curve.error
            ax.fill_between(middle, low, high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(middle, curve.regret, color=colour, linestyle=dash, lw=1.6, label=curve.label)
        level = ignoring()
        ax.axhline(level, color=PALE, lw=1, zorder=0)
        ax.text(AFTER, level, "never shows new items", color="#666666", size=8.5, ha="right", va="bottom")
        ax.legend(frameon=False, title="mean ± 1 standard error", alignment="left")
        ax.set(xlim=(0, AFTER), xlabel=f"rounds since {NEW} new items came", ylabel="regret per round (clicks)")
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description="Draw docs/figures/features.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="file to write, such as picture.png")
    options = parser.parse_args()
    curves = measure()
    print(f"never shows new items: {ignoring():.3f} per round")
    for curve in curves:
        total = WINDOW * np.cumsum(curve.regret)
        print(f"{curve.label}: first {WINDOW} rounds {curve.regret[0]:.3f} ± {curve.error[0]:.3f} per round", end="; ")
        print(f"in all {total[-1]:,.0f}; last {WINDOW} {curve.regret[-1]:.4f} ± {curve.error[-1]:.4f}")
    draw(options.out, curves)


if __name__ == "__main__":
    main()
