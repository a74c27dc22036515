"""Differences between two diagrams, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from idbandits.errors import brief

if TYPE_CHECKING:  # `diagram` imports a neighbour of this module
    from idbandits.diagram.diagram import Diagram

MOST_LABELS = 3  # that are named


def differences(a: Diagram, b: Diagram) -> list[str]:
    """Describe the changes from one diagram to another; nothing if they are saved alike, name included.

    >>> from idbandits import models
    >>> differences(models.cascade(["tea", "milk", "rice"], 2), models.cascade(["tea", "milk", "salt"], 2))[0]
    "decision 'A1': 'salt' added, 'rice' removed"
    """
    before, after = a.to_dict(), b.to_dict()
    changes = list(_changes_of_values("diagram", {"name": a.name}, {"name": b.name}))
    changes += _changes_of_entries(before["nodes"], after["nodes"])
    changes += _changes_of_entries(before["learned"], after["learned"])
    rest = [{key: data[key] for key in ("rewards", "all_different")} for data in (before, after)]
    return changes + list(_changes_of_values("diagram", *rest))


def _changes_of_entries(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Compare nodes or learned tables by their names."""
    old, new = ({entry["name"]: entry for entry in entries} for entries in (before, after))
    yield from (f"{_called(entry)} removed" for name, entry in old.items() if name not in new)
    for name, entry in new.items():
        if name not in old:
            yield f"{_called(entry)} added"
        else:
            yield from _changes_of_values(_called(entry), old[name], entry)
    if old.keys() == new.keys() and list(old) != list(new):
        yield f"the order is {', '.join(new)}, was {', '.join(old)}"


def _called(entry: Mapping[str, Any]) -> str:
    return f"{entry.get('kind', 'learned table')} {entry['name']!r}"


def _changes_of_values(who: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if key == "states" and isinstance(before, list) and isinstance(after, list) and {*before} != {*after}:
            added, removed = _without(after, before), _without(before, after)
            changes = [
                f"{_shown(labels)} {verb}" for labels, verb in ((added, "added"), (removed, "removed")) if labels
            ]
            yield f"{who}: {', '.join(changes)}"
        elif repr(before) != repr(after):  # also of 1 and 1.0
            yield f"{who}: {key} is {brief(after)}, was {brief(before)}"


def _without(labels: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    left_out = {*others}
    return [label for label in labels if label not in left_out]


def _shown(labels: Sequence[Any]) -> str:
    more = f" and {len(labels) - MOST_LABELS} more" if len(labels) > MOST_LABELS else ""
    return ", ".join(map(brief, labels[:MOST_LABELS])) + more
