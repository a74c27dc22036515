"""Means drawn from the prior."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from idbandits.diagram.tables import LearnedTable
from idbandits.kernel.types import Floats


def prior_means(tables: Mapping[str, LearnedTable], rng: np.random.Generator) -> dict[str, Floats]:
    """Means of these learned tables, drawn from their priors."""
    means = {}
    for name, table in tables.items():
        if table.states == 2:
            means[name] = np.asarray(rng.beta(table.prior[..., 1], table.prior[..., 0]), np.float64)
        else:
            rows = [rng.dirichlet(row) for row in table.prior.reshape(-1, table.states)]
            means[name] = np.array(rows).reshape(table.prior.shape)
    return means
