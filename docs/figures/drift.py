"""Draw docs/figures/drift.svg: regret against half-life in a changing and in a constant world.

`python docs/figures/drift.py` takes a few minutes. The figure is part of docs/how-to/drift.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import idbandits as idb

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = Path(__file__).resolve().parent / "drift.svg"
ITEMS, POSITIONS, PHASES, LENGTH, RUNS = 20, 4, 5, 10_000, 20
HALF_LIVES = (150, 300, 600, 1_250, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 200_000, 400_000)
INK, PALE = "#222222", "#999999"


class Curve(NamedTuple):
    """Regret by half-life relative to no forgetting, with standard errors."""

    label: str
    colour: str
    marker: str
    ratios: Sequence[float]
    errors: Sequence[float]
    without: float  # total regret without forgetting


def measure(label: str, colour: str, marker: str, means: Any) -> Curve:
    """Simulate agents with all half-lives in a world."""
    d = idb.models.cascade(ITEMS, POSITIONS)
    learners = {"never": idb.Thompson(d, inference="exact")}
    learners |= {f"{h}": idb.Thompson(d, inference="exact", forget=idb.Forget(h)) for h in HALF_LIVES}
    frame = idb.simulate(idb.World(d, means), learners, PHASES * LENGTH, RUNS, progress=False, checkpoints=1).frame
    regrets = {name: frame[frame["learner"] == name]["regret"].to_numpy() for name in learners}
    without = regrets.pop("never")
    ratios = [float(own.mean() / without.mean()) for own in regrets.values()]
    spread = [(own - r * without).std(ddof=1) for own, r in zip(regrets.values(), ratios, strict=True)]
    errors = [float(s / np.sqrt(RUNS) / without.mean()) for s in spread]
    return Curve(label, colour, marker, ratios, errors, float(without.mean()))


def worlds() -> dict[str, Callable[[int], Mapping[str, Any]] | Mapping[str, Any]]:
    """Return the means of both worlds; the constant world is the first phase of the other."""
    rng = np.random.default_rng(0)
    phases = [{"attraction": rng.permutation(np.linspace(0.05, 0.5, ITEMS))} for _ in range(PHASES)]
    return {"changing": lambda t: phases[t // LENGTH], "constant": phases[0]}


def draw(path: Path, curves: Sequence[Curve]) -> None:
    """Draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        figure, ax = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
        for curve in curves:
            ax.errorbar(
                HALF_LIVES, curve.ratios, curve.errors, color=curve.colour, marker=curve.marker, ms=4.5, lw=1.5,
                elinewidth=1, capsize=2,
            )  # fmt: skip
        _frame(ax)
        for curve, x, y in zip(curves, (11_500, 6_500), (0.36, 3.9), strict=True):
            ax.text(x, y, curve.label, color=curve.colour, size=9.5, ha="left", va="center")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def _frame(ax: Axes) -> None:
    """Draw axes, the line without forgetting, and the recommended half-life."""
    ax.set(xscale="log", yscale="log", xlim=(110, 560_000), ylim=(0.2, 34), xlabel="half-life (rounds)")
    ax.set_ylabel("regret, as a multiple of that\nwithout forgetting")
    ax.set_xticks([100, 1_000, 10_000, 100_000], ["100", "1,000", "10,000", "100,000"])
    ax.set_yticks([0.25, 0.5, 1, 2, 5, 10, 20], ["¼", "½", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
    ax.axhline(1, color=PALE, lw=1, zorder=0)
    ax.text(125, 1.06, "never forgets", color="#666666", size=8.5, ha="left", va="bottom")
    ax.axvline(LENGTH / 4, color=PALE, lw=1, ls=(0, (4, 3)), zorder=0)
    ax.text(LENGTH / 4 * 1.08, 26, "a quarter of a phase", color="#666666", size=8.5, ha="left", va="center")
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description="Draw docs/figures/drift.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="file to write, such as picture.png")
    options = parser.parse_args()
    means = worlds()
    changing = f"{PHASES} phases of\n{LENGTH:,} rounds"
    curves = [
        measure(changing, "#0072B2", "o", means["changing"]),
        measure(f"a constant world,\n{PHASES * LENGTH:,} rounds", "#D55E00", "s", means["constant"]),
    ]
    for curve in curves:
        print(curve)
    draw(options.out, curves)


if __name__ == "__main__":
    main()
