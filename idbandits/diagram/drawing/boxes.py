"""Boxes of a picture: their texts and sizes, in points (1/72 inch)."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from typing import Literal, NamedTuple

NAME, SMALL = 12.0, 8.5  # font sizes
LEADING = 1.22  # the height of a line, in font sizes
_HEIGHTS = {1: 1.8, 2: 1.25, inf: 1.1}  # the height of a shape relative to that of its text, by its norm


class Look(NamedTuple):
    """Shape: the unit ball of a norm (1: a diamond, 2: an ellipse, inf: a rectangle), its colours and outline."""

    fill: str
    line: str
    norm: float = 2
    width: float = 1.2
    dashed: bool = False
    rounding: float = 0.0


LOOKS = {
    "decision": Look("#F6B0A2", "#8C2316", inf),
    "context": Look("#F5DDA6", "#7A5A10", inf, rounding=8.0),
    "latent": Look("#E6E6E6", "#4A4A4A"),
    "observed": Look("#8CC0EA", "#174468"),
    "reward": Look("#BCE3C8", "#1C6140", 1),
}


class Text(NamedTuple):
    """Line of text."""

    words: str
    size: float = SMALL
    slant: Literal["normal", "italic"] = "normal"

    def width(self) -> float:
        """Return its width; full-width characters count as W, because a viewer may show them in another font."""
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        shown = "".join("W" if unicodedata.east_asian_width(c) in "WF" else c for c in self.words)
        font = FontProperties(family="DejaVu Sans", size=self.size, style=self.slant)
        return float(text_to_path.get_text_width_height_descent(shown, font, False)[0])


@dataclass(frozen=True, slots=True)
class Box:
    """Node of a picture; `table` names its learned table and `rows` the rows it picks, both empty without.

    `known` means that all rows that it may read are fixed; `fixed` is the number of fixed rows of its table.
    """

    name: str
    kind: str
    table: str = ""
    states: str = ""
    rows: str = ""
    known: bool = False
    fixed: int = 0

    def lines(self) -> list[tuple[Text, float]]:
        """Return its lines of text, each with its y, counted from the centre."""
        small = [Text(t) for t in wrapped(self.states)]
        small += [Text(t, slant="italic") for t in wrapped(self.table + self.rows)]
        return stacked([Text(line, NAME) for line in wrapped(label(self.name))] + small)

    def size(self) -> tuple[float, float]:
        """Return half its width and half its height: it just holds its text."""
        lines, norm, width = self.lines(), LOOKS[self.kind].norm, 21.0
        height = _HEIGHTS[norm] * LEADING * sum(text.size for text, _ in lines) / 2 + 4
        for text, y in lines:
            share = (abs(y) + 0.4 * text.size) / height
            room = 1.0 if norm == inf else (1 - share**norm) ** (1 / norm)
            width = max(width, (text.width() / 2 + 4) / room)
        return width, height


def stacked(texts: Sequence[Text]) -> list[tuple[Text, float]]:
    """Return each line with the y of its middle, counted from the middle of all lines."""
    ends = list(accumulate((LEADING * text.size for text in texts), initial=0.0))
    return [(text, (top + bottom - ends[-1]) / 2) for text, (top, bottom) in zip(texts, pairwise(ends), strict=True)]


def wrapped(text: str, width: int = 18) -> list[str]:
    """Return printable text as lines, broken after spaces and punctuation where it has any."""
    lines = [""]
    for piece in re.findall(rf"[^ _./-]{{1,{width}}}[ _./-]?|[ _./-]", printable(text)):
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def label(name: str) -> str:
    """Return a name as drawn: a number after letters becomes a subscript."""
    match = re.fullmatch(r"([^\W\d_]+)([0-9]+)", name)
    return match[1] + match[2].translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")) if match else printable(name)


def listed(names: Sequence[str]) -> str:
    """Return names as drawn, shortened: "A₁, A₂, A₃" or "A₁ … A₅"."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(split_number(name)[0], []).append(name)
    words = []
    for family in families.values():
        numbers = [split_number(name)[1] for name in family]
        labels = [text if len(text) <= 24 else text[:23] + "…" for text in map(label, family)]
        consecutive = len(family) > 3 and all(b == a + 1 for a, b in pairwise(numbers))
        words += [f"{labels[0]} … {labels[-1]}"] if consecutive else labels
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


def printable(text: str) -> str:
    """Return text without the characters that an SVG or Mermaid file may not contain."""
    return "".join(c if c.isprintable() else " " for c in text)


def split_number(name: str) -> tuple[str, int]:
    """Return the stem of a name and its final number, -1 if it has none."""
    match = re.fullmatch(r"(.*[^0-9])([0-9]{1,9})", name, re.DOTALL)
    return (match[1], int(match[2])) if match else (name, -1)
