"""Where every table stands in the vector of parameters: learned ones first, then the known ones that circuits read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from idbandits.diagram.declare import Diagram
from idbandits.kernel.types import Floats

Key: TypeAlias = tuple[tuple[int, ...], bytes]


@final
@dataclass(frozen=True)
class Parameters:
    """The layout of all parameters of a diagram."""

    axes: Mapping[str, int]  # decisions, then contexts: their place in an action vector
    decisions: int
    offsets: Mapping[str, int]  # of learned tables
    learned_size: int
    known: Floats
    known_places: Mapping[Key, int]

    @staticmethod
    def of(d: Diagram, known: Iterable[Floats]) -> Parameters:
        """The layout for a diagram whose circuits read these known tables; equal ones stand there once."""
        names = [n.name for n in (*d.of_kind("decision"), *d.of_kind("context"))]
        offsets: dict[str, int] = {}
        learned_size = 0
        for table in d.learned.values():
            offsets[table.name] = learned_size
            learned_size += table.size
        tables: dict[Key, Floats] = {}
        places: dict[Key, int] = {}
        size = learned_size
        for values in known:
            key = (values.shape, values.tobytes())
            if key not in tables:
                tables[key], places[key] = values.ravel(), size
                size += values.size
        return Parameters(
            axes={name: i for i, name in enumerate(names)},
            decisions=len(d.of_kind("decision")),
            offsets=offsets,
            learned_size=learned_size,
            known=np.concatenate([np.empty(0), *tables.values()]),
            known_places=places,
        )

    def place_of(self, table: Floats) -> int:
        """Where a known table begins."""
        return self.known_places[table.shape, table.tobytes()]
