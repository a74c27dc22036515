"""Random rounds, and circuits evaluated in them."""

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
    """Diagram with means, action, context and a possible observation, all as indices."""

    d: Diagram
    means: dict[str, np.ndarray]
    given: dict[str, int]  # action and context
    seen: dict[str, int]

    def evaluated(self, circuit: str, entries: np.ndarray | None = None) -> Evaluated:
        """Evaluate a circuit in a round, under its means or other numbers."""
        return Evaluated(self.d, circuit, self.given, self.seen, self.means, entries)

    def as_vector(self, counts: Iterable[tuple[tuple[str, tuple[int, ...]], float]]) -> np.ndarray:
        """Convert counts of learned tables to one number per learned entry."""
        vector = np.zeros(learned_size(self.d))
        for (name, entry), count in counts:
            vector[place_of(self.d, name, entry)] += count
        return vector


def random_round(seed: int, most_chance: int = 7, most_joint: int = 500) -> Round:
    """Draw a round in a random diagram with random means and missing values."""
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance, most_joint)
    means = random_means(rng, d)
    action, context = random_given(rng, d)
    given = {**action, **context}
    possible = [values for values, p in reference.joint(d, given, means) if p > 0]
    values = possible[rng.integers(len(possible))]
    seen = {n.name: values[n.name] for n in d.of_kind("observed") if rng.random() < 0.8}
    return Round(d, means, given, seen)
