"""Text in pictures: how names are written, broken into lines and measured, in points (1/72 inch)."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

NAME, SMALL = 12.0, 8.5  # font sizes
LEADING = 1.22  # the height of a line, in font sizes
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Text(NamedTuple):
    """One line of text."""

    words: str
    size: float = SMALL
    slant: Literal["normal", "italic"] = "normal"

    def width(self) -> float:
        """How wide it is; full-width characters count as W, because a viewer may show them in another font."""
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        shown = "".join("W" if unicodedata.east_asian_width(c) in "WF" else c for c in self.words)
        font = FontProperties(family="DejaVu Sans", size=self.size, style=self.slant)
        return float(text_to_path.get_text_width_height_descent(shown, font, False)[0])


def stacked(texts: Sequence[Text]) -> list[tuple[Text, float]]:
    """Each line with the y of its middle, counted from the middle of all lines."""
    ends = list(accumulate((LEADING * text.size for text in texts), initial=0.0))
    return [(text, (top + bottom - ends[-1]) / 2) for text, (top, bottom) in zip(texts, pairwise(ends), strict=True)]


def wrapped(text: str, width: int = 18) -> list[str]:
    """Printable text as lines, broken after spaces and punctuation where it has any."""
    lines = [""]
    for piece in re.findall(rf"[^ _./-]{{1,{width}}}[ _./-]?|[ _./-]", printable(text)):
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def label(name: str) -> str:
    """A name as drawn: a number after letters becomes a subscript."""
    match = re.fullmatch(r"([^\W\d_]+)([0-9]+)", name)
    return match[1] + match[2].translate(_SUBSCRIPTS) if match else printable(name)


def listed(names: Sequence[str]) -> str:
    """Names as drawn, in few words: "A₁, A₂, A₃" or "A₁ … A₅"."""
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
    """Text without the characters that an SVG or Mermaid file may not contain."""
    return "".join(c if c.isprintable() else " " for c in text)


def split_number(name: str) -> tuple[str, int]:
    """The stem of a name and its final number, -1 if it has none."""
    match = re.fullmatch(r"(.*[^0-9])([0-9]{1,9})", name, re.DOTALL)
    return (match[1], int(match[2])) if match else (name, -1)
