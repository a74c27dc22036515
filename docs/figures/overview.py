"""Draw docs/figures/overview.svg: the library in one picture.

`python docs/figures/overview.py` takes a second. The figure is part of docs/index.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

PICTURE = Path(__file__).resolve().parent / "overview.svg"
INK, GRAY, RED, BLUE, LINE, PANEL = "#1f2933", "#9aa5b1", "#e06c5f", "#5b9bd5", "#52606d", "#f3f5f7"
NODES = {  # name: x, y, color
    "A₁": (0.75, 3.05, RED), "W₁": (1.55, 3.05, GRAY), "C₁": (2.35, 3.05, BLUE),
    "A₂": (0.75, 1.95, RED), "W₂": (1.55, 1.95, GRAY), "C₂": (2.35, 1.95, BLUE), "E₂": (1.95, 2.5, GRAY),
}  # fmt: skip
EDGES = ("A₁ W₁", "W₁ C₁", "A₂ W₂", "W₂ C₂", "C₁ E₂", "E₂ C₂")


def panel(ax: Any, x: float, y: float, width: float, height: float, title: str, lines: str = "") -> None:
    """Draw a box with a title and lines of text."""
    shape = FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.12", fc=PANEL, ec=GRAY, lw=1)
    ax.add_patch(shape)
    ax.text(x + width / 2, y + height - 0.2, title, ha="center", va="top", fontsize=11, fontweight="bold")
    ax.text(x + width / 2, y + height - 0.58, lines, ha="center", va="top", fontsize=9.5, linespacing=1.45)


def arrow(ax: Any, start: tuple[float, float], end: tuple[float, float], shrink: float = 0.0) -> None:
    """Draw an arrow that ends at a distance in points from both places."""
    size = 9 if shrink else 13
    ends = FancyArrowPatch(
        start, end, shrinkA=shrink, shrinkB=shrink, arrowstyle="-|>", mutation_scale=size, color=LINE
    )
    ax.add_patch(ends)


def draw(path: Path) -> None:
    """Draw the picture and write it to a file."""
    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        figure = plt.figure(figsize=(9.6, 4.4))
        ax = figure.add_axes((0, 0, 1, 1), xlim=(0, 9.6), ylim=(0, 4.4))
        ax.set_axis_off()
        panel(ax, 0.25, 0.3, 2.65, 3.85, "Declare a diagram")
        for edge in EDGES:
            (x, y, _), (x2, y2, _) = (NODES[name] for name in edge.split())
            arrow(ax, (x, y), (x2, y2), shrink=15)
        for name, (x, y, color) in NODES.items():
            ax.add_patch(Circle((x, y), 0.2, fc=color, ec="none"))
            ax.text(x, y, name, ha="center", va="center", fontsize=9)
        ax.text(1.57, 1.55, "decisions A, latent nodes W, E,\nobserved nodes C;", ha="center", va="top", fontsize=9)
        ax.text(1.57, 1.05, "learned tables, a reward,\nconstraints", ha="center", va="top", fontsize=9)
        panel(ax, 3.5, 2.55, 2.2, 1.6, "Compile", "arithmetic circuit:\nlikelihood, best action,\nidentifiability")
        panel(ax, 3.5, 0.3, 2.2, 1.3, "Logs", "train an agent, compare\ndiagrams, evaluate policies")
        panel(ax, 6.75, 2.85, 2.6, 1.3, "Agent", "Thompson sampling\nwith a belief")
        panel(ax, 6.75, 0.3, 2.6, 1.1, "World", "your users, or a simulation")
        arrow(ax, (2.9, 3.5), (3.5, 3.5))
        arrow(ax, (5.7, 3.5), (6.75, 3.5))
        arrow(ax, (5.7, 1.3), (6.75, 2.95))
        arrow(ax, (7.2, 2.85), (7.2, 1.4))
        arrow(ax, (8.9, 1.4), (8.9, 2.85))
        ax.text(7.1, 2.1, "act", ha="right", va="center", fontsize=10, fontstyle="italic")
        ax.text(9.0, 2.1, "update", ha="left", va="center", fontsize=10, fontstyle="italic")
        ax.text(8.05, 2.12, "in your process,\nor as a live service", ha="center", va="center", fontsize=9)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        plt.close(figure)


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description="Draw docs/figures/overview.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="file to write, such as picture.png")
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
