"""How the boxes of a picture look, and what its legend says of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from idbandits.diagram.layout import NORMS, Box
from idbandits.diagram.text import listed, printable


class Look(NamedTuple):
    """The colours and the outline of a box."""

    fill: str
    line: str
    width: float = 1.2
    dashed: bool = False
    rounding: float = 0.0


class Entry(NamedTuple):
    """An entry of the legend; constraints have no look, and the norm gives the shape (see NORMS)."""

    text: str
    look: Look | None = None
    norm: float = 2


LOOKS = {
    "decision": Look("#F6B0A2", "#8C2316"),
    "context": Look("#F5DDA6", "#7A5A10", rounding=8.0),
    "latent": Look("#E6E6E6", "#4A4A4A"),
    "observed": Look("#8CC0EA", "#174468"),
    "reward": Look("#BCE3C8", "#1C6140"),
}
INK = "#1A1A1A"
# Okabe and Ito's colours, which colour-blind readers tell apart; the palest left out, the purple darkened.
_ACCENTS = ("#0072B2", "#D55E00", "#009E73", "#A0428A", "#E69F00", "#000000")


def accents(boxes: Iterable[Box]) -> dict[str, str]:
    """A colour for each learned table: black if it is the only one."""
    tables = list(dict.fromkeys(box.table for box in boxes if box.table))
    return {t: _ACCENTS[i % len(_ACCENTS)] if len(tables) > 1 else INK for i, t in enumerate(tables)}


def look_of(box: Box, colours: Mapping[str, str]) -> Look:
    """How a box looks, given the colours of learned tables: its table is learned or known, or it has none."""
    look = LOOKS[box.kind]
    if box.table:
        return look._replace(line=colours[box.table], width=2.0)
    return look._replace(line="#4A4A4A", width=0.9, dashed=True) if box.kind in ("latent", "observed") else look


def legend(boxes: Sequence[Box], different: Iterable[Sequence[str]]) -> Iterator[Entry]:
    """One entry per kind, learned table and constraint that occurs, and one for known tables."""
    colours = accents(boxes)
    for kind in [kind for kind in LOOKS if any(box.kind == kind for box in boxes)]:
        yield Entry(kind, LOOKS[kind], NORMS[kind])
    for look in [look for box in boxes if (look := look_of(box, colours)).dashed][:1]:
        yield Entry("known table", look._replace(fill="white"))
    for table, colour in colours.items():
        users = [box for box in boxes if box.table == table]
        verb = "shared" if len({box.rows for box in users}) == 1 < len(users) else "used"
        text = f"learned table {printable(table)}, {verb} by {listed([box.name for box in users])}"
        yield Entry(text, Look("white", colour, 2.0))
    for group in [group for group in different if len(group) > 1]:
        yield Entry(f"{listed(group)} all different")
