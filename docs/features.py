"""Draw docs/features.svg: how soon a new item that is good is shown, with features and without.

`python docs/features.py` simulates both and draws the picture, in a few minutes. The page that shows it is
docs/features.md.
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
ITEMS, COLUMNS, POSITIONS, BEFORE, AFTER, WORLDS, COPIES = 300, 6, 4, 5_000, 3_000, 10, 4
WINDOW = 50  # rounds that a share is averaged over
INTERCEPT, NOISE = -2.0, 0.3  # of logits
INK, PALE = "#222222", "#999999"
LOOKS = {"with features": ("#0072B2", "-"), "without": ("#D55E00", (0, (5, 1.5)))}

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """The share of rounds that show the new item, after so many rounds; and its standard error over worlds."""

    label: str
    rounds: NDArray[np.int64]
    share: Floats
    error: Floats


class Catalogue(NamedTuple):
    """Items with features, the last of which is new and the best of all; and how attractive they are."""

    features: Floats
    attraction: Floats


def catalogue(seed: int) -> Catalogue:
    """Items whose attraction is the logistic function of features and noise."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=COLUMNS)
    weights /= np.linalg.norm(weights)
    features = rng.normal(size=(ITEMS + 1, COLUMNS))
    features[-1] = 1.1 * (features[:-1] @ weights).max() * weights
    logits = INTERCEPT + features @ weights + NOISE * rng.normal(size=ITEMS + 1)
    logits[-1] = max(logits[-1], logits[:-1].max())
    return Catalogue(features, 1 / (1 + np.exp(-logits)))


def diagrams(features: Floats) -> dict[str, idb.Diagram]:
    """A cascade of items that have these features, or none."""
    number = len(features)
    return {
        "with features": idb.models.cascade(number, POSITIONS, features={"attraction": features}),
        "without": idb.models.cascade(number, POSITIONS),
    }


def measure() -> list[Curve]:
    """Let agents learn without the new item, and go on with it."""
    shown: dict[str, list[Floats]] = {label: [] for label in LOOKS}
    for seed in range(WORLDS):
        own = catalogue(seed)
        old, new = diagrams(own.features[:-1]), diagrams(own.features)
        for label, d in old.items():
            agent = idb.Thompson(d, seed=seed)
            played(agent, own.attraction, BEFORE, seed)
            runs = [
                played(agent.copy([seed, k]).moved_to(new[label]), own.attraction, AFTER, [seed, k])
                for k in range(COPIES)
            ]
            shown[label].append(np.mean(runs, axis=0))
    return [_curve(label, np.array(lines)) for label, lines in shown.items()]


def played(agent: idb.Thompson, attraction: Floats, rounds: int, seed: Any) -> Floats:
    """Play some rounds of a cascade; 1 where the last item was shown, else 0."""
    luck, shown = np.random.default_rng(seed).random((rounds, POSITIONS)), np.zeros(rounds)
    for t in range(rounds):
        action = agent.act()
        items = [int(item) for item in action.values()]
        attracted = luck[t] < attraction[items]
        clicks = attracted & (np.cumsum(attracted) == 1)
        agent.update(action, {f"C{k + 1}": int(click) for k, click in enumerate(clicks)})
        shown[t] = ITEMS in items
    return shown


def _curve(label: str, shown: Floats) -> Curve:
    """Shares in windows, one line per world."""
    shares = shown.reshape(WORLDS, AFTER // WINDOW, WINDOW).mean(axis=2)
    rounds = WINDOW * np.arange(1, AFTER // WINDOW + 1)
    return Curve(label, rounds, shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(WORLDS))


def draw(path: Path, curves: Sequence[Curve], looks: Mapping[str, Any] = LOOKS) -> None:
    """Draw the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        figure, ax = pyplot.subplots(figsize=(7.2, 3.8), layout="constrained")
        for curve in curves:
            colour, dash = looks[curve.label]
            low, high = curve.share - curve.error, curve.share + curve.error
            ax.fill_between(curve.rounds, low, high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(curve.rounds, curve.share, color=colour, linestyle=dash, lw=1.6)
            at = len(curve.rounds) // 2
            below = curve.label == "without"
            ax.text(
                curve.rounds[at], (low[at - 8 : at + 9].min() if below else high[at - 8 : at + 9].max()), curve.label,
                color=colour, size=9.5, ha="center", va="top" if below else "bottom",
            )  # fmt: skip
        ax.set(xlim=(0, AFTER), ylim=(0, 1), xlabel="rounds since the new item came")
        ax.set_ylabel("share of rounds that show it")
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description="Draw docs/features.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="another file, such as picture.png")
    options = parser.parse_args()
    curves = measure()
    for curve in curves:
        print(f"{curve.label}: first {WINDOW} rounds {curve.share[0]:.2f} ± {curve.error[0]:.2f}", end=", ")
        for rounds in (500, 1_000, AFTER):
            at = rounds // WINDOW - 1
            print(f"up to {rounds:,}: {curve.share[at]:.2f} ± {curve.error[at]:.2f}", end="; ")
        print()
    draw(options.out, curves)


if __name__ == "__main__":
    main()
