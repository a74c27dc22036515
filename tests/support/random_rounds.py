"""Random rounds, and the circuits of their diagrams evaluated in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import reference
from diagrams import random_diagram, random_given, random_means
from idbandits import Diagram
from internals import Evaluated, learned_size, place_of


@dataclass
class Round:
    """A diagram with means, an action in a context, and an observation that is possible; all as places."""

    d: Diagram
    means: dict[str, np.ndarray]
    given: dict[str, int]  # action and context
    seen: dict[str, int]

    def evaluated(self, circuit: str, entries: np.ndarray | None = None) -> Evaluated:
        """A circuit in this round, under its means or with these numbers for all learned entries."""
        return Evaluated(self.d, circuit, self.given, self.seen, self.means, entries)

    def as_vector(self, counts: Iterable[tuple[tuple[str, tuple[int, ...]], float]]) -> np.ndarray:
        """Counts of entries of learned tables, as one number per learned entry."""
        vector = np.zeros(learned_size(self.d))
        for (name, entry), count in counts:
            vector[place_of(self.d, name, entry)] += count
        return vector


def random_round(seed: int, most_chance: int = 7, most_joint: int = 500) -> Round:
    """A round in a random diagram with random means; some observed nodes were not seen."""
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance, most_joint)
    means = random_means(rng, d)
    action, context = random_given(rng, d)
    given = {**action, **context}
    possible = [values for values, p in reference.joint(d, given, means) if p > 0]
    values = possible[rng.integers(len(possible))]
    seen = {n.name: values[n.name] for n in d.of_kind("observed") if rng.random() < 0.8}
    return Round(d, means, given, seen)
