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
from idbandits.notebook import html_table
from idbandits.solve.eligible import choices_of

if TYPE_CHECKING:
    import pandas

CONFIDENCE = 0.95  # of an upper bound
MOST_DRAWS = 10**9  # which take hours


@final
class Propensity(NamedTuple):
    """Probability of an action, estimated by draws.

    Attributes
    ----------
    probability : float
        Share of the draws in which `act` took the action.
    standard_error : float
        Standard error of the probability, never 0 after finitely many draws.
    upper : float
        Upper bound with a confidence of 95 %, by Clopper and Pearson: about 3 / n for an action that was never taken in
        n draws. All three numbers are 0 only if the action is not eligible.

    Examples
    --------
    >>> import idbandits as idb
    >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], positions=1), seed=0)
    >>> agent.propensity({"A1": "milk"}, allowed=["milk"]).probability
    1.0
    """

    probability: float
    standard_error: float
    upper: float

    def _repr_html_(self) -> str:
        return html_table([self._asdict()])


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

    Attributes
    ----------
    draws : int
        Number of draws.

    Examples
    --------
    >>> import idbandits as idb
    >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk", "rice"], positions=2), seed=0)
    >>> marginals = agent.marginals(allowed=["tea", "rice"])
    >>> marginals.probability.shape, marginals.probability.sum().tolist()
    ((2, 2), [1.0, 1.0])
    >>> marginals.standard_error.round(3).iloc[0, 0] < 0.02
    np.True_
    >>> marginals.to_frame().columns.tolist()
    ['decision', 'choice', 'probability', 'standard_error']
    """

    def __init__(self, decisions: Sequence[Node], eligible: Ints, counts: Sequence[Ints], draws: int) -> None:
        self.draws = draws
        self._decisions, self._names = decisions, [node.name for node in decisions]
        places = [choices_of(node.states, eligible, k, len(decisions)) for k, node in enumerate(decisions)]
        self._labels = [[node.values[i] for i in own] for node, own in zip(decisions, places, strict=True)]
        self._counts = [own[np.asarray(at)] for own, at in zip(counts, places, strict=True)]

    @cached_property
    def probability(self) -> pandas.DataFrame:
        """Data frame with a row per choice and a column per decision; NaN where a choice is not eligible."""
        return self._table([own / self.draws for own in self._counts])

    @cached_property
    def standard_error(self) -> pandas.DataFrame:
        """Data frame of the standard error of each probability, in the shape of `probability`."""
        return self._table([standard_errors(own, self.draws) for own in self._counts])

    def to_frame(self) -> pandas.DataFrame:
        """Return a data frame with a row per decision and choice: decision, choice, probability and standard_error."""
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

    def _repr_html_(self) -> str:
        return html_table(self.probability.reset_index(), f"Marginals by {self.draws:,} draws")

    def __repr__(self) -> str:
        draws = "1 draw" if self.draws == 1 else f"{self.draws:,} draws"
        return f"Marginals by {draws}:\n{self.probability.round(3).to_string(max_rows=12, max_cols=12)}"
