"""Draw docs/figures/evaluation.svg: estimates of the value of one list by all estimators.

`python docs/figures/evaluation.py` takes a few seconds. The figure is part of
docs/how-to/offline-evaluation.md, with the same log.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import idbandits as idb

PICTURE = Path(__file__).resolve().parent / "evaluation.svg"
ITEMS, ROUNDS = ("tea", "milk", "wine", "rice", "soup"), 8_000
MEANS = {"attraction": [0.3, 0.2, 0.1, 0.15, 0.05]}
LIST = {"A1": "tea", "A2": "milk", "A3": "rice"}


def draw(path: Path) -> None:
    """Evaluate a list and draw all estimates with the true value."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    d = idb.models.cascade(ITEMS, 3)
    world, rng, rows = idb.World(d, MEANS, seed=0), np.random.default_rng(0), []
    for _ in range(ROUNDS):
        action = dict(zip(("A1", "A2", "A3"), rng.permutation(ITEMS)[:3].tolist(), strict=True))
        rows.append(action | dict(world.step(action).observation))
    result = idb.evaluate(LIST, pd.DataFrame(rows).assign(p=1 / 60), d, propensity="p", seed=0)
    print(result)
    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans"}):
        figure, ax = pyplot.subplots(figsize=(7.2, 4.8), layout="constrained")
        result.plot(ax)
        ax.axvline(world.expected(LIST), color="#009E73", linewidth=1.2, zorder=0)
        ax.text(world.expected(LIST), 1.01, "truth", color="#009E73", ha="center", transform=ax.get_xaxis_transform())
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def main() -> None:
    """Evaluate and draw."""
    parser = argparse.ArgumentParser(description="Draw docs/figures/evaluation.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="file to write, such as picture.png")
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
