"""Draw docs/getting-started/overview.svg: parts of the library, and what passes between them.

`python docs/getting-started/overview.py` writes it. The figure is part of docs/getting-started/what-it-is.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = Path(__file__).resolve().parent / "overview.svg"
INK, WIDTH, HEIGHT = "#1A1A1A", 7.6, 4.0


class Part(NamedTuple):
    """Box with a title and lines of text; places and sizes are in inches."""

    x: float
    y: float
    width: float
    height: float
    title: str
    text: str
    fill: str
    line: str


PARTS = (
    Part(
        0.1, 2.3, 2.1, 1.55, "Diagram",
        "decisions, contexts,\nlatent and observed nodes,\nknown and learned tables,\nreward",
        "#F6B0A2", "#8C2316",
    ),
    Part(
        3.1, 2.3, 1.75, 1.55, "Agent",
        "has a belief; draws\nprobabilities from it and\ntakes the action that is\nbest under them",
        "#F5DDA6", "#7A5A10",
    ),
    Part(6.05, 2.3, 1.45, 1.55, "Your users", "see the action;\nclick, buy,\nor do nothing", "#8CC0EA", "#174468"),
    Part(0.1, 0.15, 2.1, 1.1, "Log", "recorded actions and\nobservations", "#E6E6E6", "#4A4A4A"),
    Part(
        3.1, 0.15, 4.4, 1.1, "Answers",
        "what was learned, with intervals; the best action, proven;\nwhether the diagram fits; what a policy earns",
        "#BCE3C8", "#1C6140",
    ),
)  # fmt: skip
ARROWS = (  # from, to, label with its place and alignment
    ((2.2, 3.07), (3.1, 3.07), "compile", (2.65, 3.15), "center"),
    ((4.85, 3.4), (6.05, 3.4), "act", (5.45, 3.48), "center"),
    ((6.05, 2.75), (4.85, 2.75), "update", (5.45, 2.83), "center"),
    ((2.2, 1.0), (3.1, 2.3), "fit", (2.55, 1.72), "right"),
    ((3.97, 2.3), (3.97, 1.25), "posterior, best_action,\nfit_report, evaluate", (4.1, 1.78), "left"),
)


def draw_parts(ax: Axes) -> None:
    """Draw boxes and arrows."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    for part in PARTS:
        style = "round,pad=0,rounding_size=0.08"
        box = FancyBboxPatch((part.x, part.y), part.width, part.height, style, fc=part.fill, ec=part.line, lw=1.2)
        ax.add_patch(box)
        middle, top = part.x + part.width / 2, part.y + part.height
        ax.text(middle, top - 0.27, part.title, ha="center", va="center", size=12, weight="bold")
        ax.text(middle, (part.y + top - 0.4) / 2, part.text, ha="center", va="center", size=9, linespacing=1.3)
    for start, end, label, (x, y), align in ARROWS:
        ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, shrinkA=1, shrinkB=1, color=INK))
        ax.text(x, y, label, ha=align, va="bottom" if align == "center" else "center", size=9, style="italic")


def draw(path: Path) -> None:
    """Draw the figure; its white background makes it readable on dark pages."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "svg.fonttype": "none", "text.color": INK}):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
        ax.set_axis_off()
        draw_parts(ax)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white", dpi=150)


def main() -> None:
    """Read the arguments and draw."""
    parser = argparse.ArgumentParser(description="Draw docs/getting-started/overview.svg")
    parser.add_argument("--out", type=Path, default=PICTURE, help="file to write, such as picture.png")
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
