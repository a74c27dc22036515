"""The six problems of the paper, and the learners that are compared on them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import idbandits as idb
from idbandits.errors import DiagramError
from idbandits.reproduction import problems as paper

FULL = paper.FULL  # observes the latent nodes
LITERAL = "variational, literal"
CASCADE_1, CASCADE_2 = "cascade 1", "cascade 2"
POSITION_BASED_1, POSITION_BASED_2 = "position-based 1", "position-based 2"


@final
@dataclass(frozen=True)
class Problem:
    """Diagram and the true means of its tables."""

    name: str
    diagram: idb.Diagram
    means: dict[str, Any]

    def world(self, seed: int = 0) -> idb.World:
        """Return the world with these means."""
        return idb.World(self.diagram, self.means, seed=seed)


def problems() -> Iterator[Problem]:
    """Yield all six problems: 20 items and 2 positions, or 8 rows and 10 columns."""
    return map(problem, paper.PAPERS_PROBLEMS)


def problem(name: str) -> Problem:
    """Return a problem by name."""
    return Problem(name, paper.PROBLEMS[name].make(), dict(paper.PROBLEMS[name].means))


def learners(d: idb.Diagram) -> dict[str, idb.Thompson]:
    """Return all learners of a diagram; exact inference only where it is possible."""
    agents = {FULL: idb.Thompson(d.revealed(), "exact")}
    with contextlib.suppress(DiagramError):  # where the observation does not determine the latent nodes
        agents["exact"] = idb.Thompson(d, "exact")
    hidden: dict[str, Any] = {
        "variational": "variational",
        "variational, 5 sweeps": idb.Variational(sweeps=5),
        LITERAL: idb.Variational(literal=True),
        "incremental": "incremental",
        "incremental, literal": idb.Incremental(literal=True),
        "moments": "moments",
        "gibbs": "gibbs",
        "ep": "ep",
    }
    agents.update({name: idb.Thompson(d, inference) for name, inference in hidden.items()})
    agents["particles, 20"] = idb.Thompson(d.revealed(), idb.Particles(20))
    return agents
