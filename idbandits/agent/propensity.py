"""Probabilities of actions and choices, estimated by draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.kernel.array_types import Floats, Ints
from idbandits.solve.eligible import choices_of

if TYPE_CHECKING:
    import pandas

CONFIDENCE = 0.95  # of an upper bound
MOST_DRAWS = 10**9  # which take hours


@final
class Propensity(NamedTuple):
    """Probability of an action, estimated by draws, its standard error, and an upper bound.

    The bound holds with a confidence of 95 %, by Clopper and Pearson: that of an action that was never taken in n draws
    is about 3 / n. Only if an action may not be taken, all three are 0.
    """

    probability: float
    standard_error: float
    upper: float


NEVER = Propensity(0.0, 0.0, 0.0)


def propensity_of(hits: int, draws: int) -> Propensity:
    """Return the probability of an event that happened in `hits` of all draws."""
    from scipy.special import betaincinv  # slow to import, and only needed here

    upper = 1.0 if hits == draws else float(betaincinv(hits + 1, draws - hits, CONFIDENCE))
    return Propensity(hits / draws, float(standard_errors(np.array(hits), draws)), upper)


def standard_errors(hits: Ints, draws: int) -> Floats:
    """Return standard errors of shares of draws: never zero after finitely many."""
    spread = (hits + 1) / (draws + 2)
    return np.asarray(np.sqrt(spread * (1 - spread) / draws))


@final
class Tally:
    """Counts of each choice of each decision."""

    def __init__(self, model: Model) -> None:
        ends = np.cumsum([0, *(node.states for node in model.decisions)])
        self.first = ends[:-1].astype(np.int64)  # of a decision: where its choices begin in `counts`
        self.counts = np.zeros(int(ends[-1]), dtype=np.int64)
        self._names, self._ends = [node.name for node in model.decisions], ends.tolist()

    def by_name(self) -> dict[str, Ints]:
        """Return the counts of each decision's choices."""
        return {name: self.counts[a:b] for name, (a, b) in zip(self._names, pairwise(self._ends), strict=True)}


@final
class Marginals:
    """Probability of each choice of each decision, estimated by draws.

    `probability` and `standard_error` are tables with one row per choice and one column per decision, NaN where a
    decision may not make the choice. `to_frame` has one line for each of these numbers.
    """

    def __init__(self, decisions: Sequence[Node], eligible: Ints, counts: Sequence[Ints], draws: int) -> None:
        self.draws = draws
        self._decisions, self._names = decisions, [node.name for node in decisions]
        places = [choices_of(node.states, eligible, k, len(decisions)) for k, node in enumerate(decisions)]
        self._labels = [[node.values[i] for i in own] for node, own in zip(decisions, places, strict=True)]
        self._counts = [own[np.asarray(at)] for own, at in zip(counts, places, strict=True)]

    @cached_property
    def probability(self) -> pandas.DataFrame:
        """Share of draws in which each choice was made."""
        return self._table([own / self.draws for own in self._counts])

    @cached_property
    def standard_error(self) -> pandas.DataFrame:
        """Standard error of each probability."""
        return self._table([standard_errors(own, self.draws) for own in self._counts])

    def to_frame(self) -> pandas.DataFrame:
        """Return a data frame with the columns decision, choice, probability and standard_error."""
        import pandas

        counts = np.concatenate([np.empty(0, np.int64), *self._counts])
        columns: dict[str, Any] = {
            "decision": np.repeat(self._names, [len(own) for own in self._labels]),
            "choice": [label for own in self._labels for label in own],
            "probability": counts / self.draws,
            "standard_error": standard_errors(counts, self.draws),
        }
        return pandas.DataFrame(columns)

    def _table(self, columns: Sequence[Floats]) -> pandas.DataFrame:
        import pandas

        eligible = {label for own in self._labels for label in own}
        declared = dict.fromkeys(label for node in self._decisions for label in node.values)
        rows = pandas.Index([label for label in declared if label in eligible], name="choice")
        own = zip(self._names, self._labels, columns, strict=True)
        return pandas.DataFrame({name: pandas.Series(c, index=labels).reindex(rows) for name, labels, c in own}, rows)

    def __repr__(self) -> str:
        draws = "1 draw" if self.draws == 1 else f"{self.draws:,} draws"
        return f"Marginals by {draws}:\n{self.probability.round(3).to_string(max_rows=12, max_cols=12)}"
