"""Posteriors: the beliefs of learned tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np

from idbandits.agent.reports.regression import ENDS, LogisticRegression, Regression, probabilities, regression_in
from idbandits.circuit.model import Model
from idbandits.diagram.labels import numbered_axes, row_labels, state_labels
from idbandits.diagram.tables import LearnedTable
from idbandits.inference.gibbs.summary import Summary
from idbandits.inference.protocol import Inference
from idbandits.inference.regression.logistic_setup import bridged
from idbandits.inference.regression.mixture import mixed
from idbandits.inference.regression.prior import prior_in
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.state.state import ACTS_ON_MEANS, State
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.sampling import LEAST, MOST
from idbandits.notebook import html_table

ROUNDING = 1e-9  # of rounds


NOTHING_DRAWN = Summary(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty((1, 0)), np.empty((1, 0)))


@final
class Posterior:
    """Belief of a learned table: independent Dirichlet rows, or draws of them.

    The table has the shape `shape` and k states per row. `mean`, `sd` and `quantile` describe P(1) in the shape of the
    table if k = 2; otherwise they have the states on an additional last axis. Rows that are fixed have their mean, no
    deviation, and infinite pseudo-counts. Functions that take means accept a posterior, which is the array of its
    means.

    Examples
    --------
    >>> import numpy as np
    >>> import idbandits as idb
    >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk", "rice"], 2), seed=0)
    >>> agent.update({"A1": "rice", "A2": "tea"}, {"C1": 0, "C2": 1})
    >>> belief = agent.posterior()["attraction"]
    >>> belief.mean.round(2).tolist(), belief.sd.round(2).tolist()
    ([0.67, 0.5, 0.33], [0.24, 0.29, 0.24])
    >>> belief.alpha.tolist(), belief.rounds.tolist()
    ([[1.0, 2.0], [1.0, 1.0], [2.0, 1.0]], [1.0, 0.0, 1.0])
    >>> belief.quantile([0.05, 0.95]).shape, np.asarray(belief).shape
    ((2, 3), (3,))
    """

    def __init__(
        self, model: Model, name: str, alpha: Floats, drawn: Summary, counts: Floats | None,
        regression: Regression | LogisticRegression | None = None,
    ) -> None:  # fmt: skip
        table = self._table = model.learned[name]
        self._regression, self._drawn = regression, drawn
        self._rows, self._states = row_labels(model, name), state_labels(model, name)
        shape = (*table.shape, table.states)
        self._alpha = _matched(alpha, drawn, table.states).reshape(shape)
        added = np.full(shape, np.nan) if counts is None else counts.reshape(shape)
        rounds = added.sum(axis=-1)
        self._rounds = np.where(rounds < ROUNDING, 0.0, rounds)  # priors that changed leave that much behind

    @property
    def regression(self) -> Any:
        """`Regression` on features of rows, `LogisticRegression` on those of a context, or None without features."""
        return self._regression

    @property
    def alpha(self) -> Floats:
        """Pseudo-counts of the belief, or those that match its draws best, of shape (*shape, k)."""
        return self._with_fixed(self._alpha, lambda p: np.where(p > 0, np.inf, 0.0))

    @property
    def mean(self) -> Floats:
        """Expected probabilities, of shape (*shape,), or (*shape, k) for k > 2 states."""
        means = self._alpha / self._alpha.sum(axis=-1, keepdims=True)
        return self._shown(self._with_drawn(means, self._drawn.mean))

    @property
    def sd(self) -> Floats:
        """Standard deviations of the probabilities, in the shape of `mean`."""
        total = self._alpha.sum(axis=-1, keepdims=True)
        mean = self._alpha / total
        deviations = np.sqrt(mean * (_of_others(self._alpha) / total) / (total + 1))
        return self._shown(self._with_drawn(deviations, self._drawn.sd), np.zeros_like)

    def quantile(self, q: float | Floats) -> Floats:
        """Return quantiles of the probabilities.

        Rows that are drawn have the quantiles of these draws: 2,000, or fewer where a table is large or a chain slow.

        Parameters
        ----------
        q : float or array
            Probabilities from 0 to 1.

        Returns
        -------
        ndarray
            Quantiles, of shape (*shape of q, *shape of `mean`).
        """
        wanted = probabilities(q, self._alpha.size)
        from scipy.special import betaincinv  # slow to import, and only needed here

        flat, drawn = np.empty((wanted.size, self._alpha.size)), self._drawn
        known = np.ones(self._alpha.size, np.bool_)
        known[drawn.entries] = False
        alpha, others = self._alpha.ravel(), _of_others(self._alpha).ravel()
        flat[:, known] = betaincinv(alpha[known], others[known], wanted.reshape(-1, 1))
        if wanted.size and len(drawn.entries):
            own = np.quantile(drawn.kept, wanted.ravel(), axis=0)
            flat[:, drawn.entries] = np.where(own <= LEAST, 0.0, np.where(own >= MOST, 1.0, own))
        return self._shown(flat.reshape(wanted.shape + self._alpha.shape))

    def _with_drawn(self, numbers: Floats, drawn: Floats) -> Floats:
        """Return numbers of all entries, with those of entries that are drawn in their places."""
        flat = numbers.ravel()
        flat[self._drawn.entries] = drawn
        return flat.reshape(numbers.shape)

    @property
    def rounds(self) -> Floats:
        """Number of rounds in which each row mattered (its pseudo-counts beyond the prior), in the shape of the table.

        Rounds in which no observation depends on the row are not counted. Where latent counts are drawn, it is the
        number in the last draw; with particles it is NaN.
        """
        return np.array(self._rounds)

    def to_frame(self) -> Any:
        """Return a data frame with one line per row of the table, and per state if there are more than two.

        The columns are the labels of the row, `mean`, `sd`, the quantiles `5 %` and `95 %`, and `rounds`.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk", "rice"], 2), seed=0)
        >>> agent.update({"A1": "rice", "A2": "tea"}, {"C1": 0, "C2": 1})
        >>> print(agent.posterior()["attraction"].to_frame().round(2).to_string(index=False))
         row  mean   sd  5 %  95 %  rounds
         tea  0.67 0.24 0.22  0.97     1.0
        milk  0.50 0.29 0.05  0.95     0.0
        rice  0.33 0.24 0.03  0.78     1.0
        """
        import pandas  # slow to import, and only needed here

        axes, labels = self._rows
        if self._table.states > 2:
            axes, labels = (*axes, "state"), (*labels, self._states)
        low, high = self.quantile(ENDS)
        rounds = np.repeat(self._rounds, self._table.states if self._table.states > 2 else 1)
        numbers = {"mean": self.mean, "sd": self.sd, "5 %": low, "95 %": high, "rounds": rounds}
        if len({*axes, *numbers}) < len(axes) + len(numbers):  # a node that is called "mean"
            axes = (*numbered_axes(len(self._rows.axes)), "state")[: len(axes)]
        places = np.indices([len(axis) for axis in labels]).reshape(len(labels), -1 if labels else 1)
        columns: dict[str, Any] = {
            axis: place if isinstance(own, range) else [own[i] for i in place.tolist()]
            for axis, own, place in zip(axes, labels, places, strict=True)
        }
        return pandas.DataFrame(columns | {name: np.ravel(column) for name, column in numbers.items()})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self.mean, dtype=dtype)

    def _shown(self, full: Floats, fixed: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """Return numbers of all states as users see them; `fixed` maps probabilities of fixed rows to numbers."""
        full = self._with_fixed(full, fixed)
        return full[..., 1] if self._table.states == 2 else full

    def _with_fixed(self, full: Floats, fixed: Callable[[Floats], Floats]) -> Floats:
        flat = full.reshape(*full.shape[: full.ndim - self._alpha.ndim], self._table.size).copy()
        return self._table.with_fixed(flat, fixed).reshape(full.shape)

    def _repr_html_(self) -> str:
        return html_table(self.to_frame(), f"Posterior of {self._table.name!r}")

    def __repr__(self) -> str:
        with np.printoptions(precision=3, threshold=12):
            return f"Posterior(mean={self.mean}, sd={self.sd})"


def posteriors(inference: Inference, evidence: Evidence, state: State, rng: Rng) -> dict[str, Posterior]:
    """Return the belief of every learned table of a model, in a state whose regressions are up to date."""
    belief = inference.belief(evidence, state, rng).copy()  # a summary may change the state
    counted = belief if belief.ndim == 1 else None if state.ints[ACTS_ON_MEANS] else state.floats
    counts = None if counted is None else counted[: evidence.learned] - prior_in(evidence, state)
    summary = inference.summary(evidence, state, rng)
    if belief.ndim == 2:
        summary, belief = _summary_of_draws(evidence, belief), np.ones(evidence.learned)
    elif evidence.regressions.number and summary is None:
        belief = mixed(evidence, state, belief, rng)
    belief = bridged(evidence, state, belief)
    model, tables = evidence.entries.model, {}
    for name, table in model.learned.items():
        first = model.parameters.offsets[name]
        own = slice(first, first + table.size)
        drawn = NOTHING_DRAWN
        if summary is not None:
            part = slice(*np.searchsorted(summary.entries, [own.start, own.stop]))
            drawn = Summary(
                summary.entries[part] - first,
                summary.mean[part],
                summary.sd[part],
                summary.kept[:, part],
                summary.parameters,
            )
        if table.logistic is not None:
            regression = LogisticRegression(evidence, state, table)
            tables[name] = Posterior(model, name, belief[own], drawn, None, regression)
        else:
            added = None if counts is None else counts[own]
            regression_on_rows = regression_in(evidence, state, name, counts, summary)
            tables[name] = Posterior(model, name, belief[own], drawn, added, regression_on_rows)
    return tables


def _summary_of_draws(evidence: Evidence, draws: Floats) -> Summary:
    """Return a summary of draws of all entries."""
    own, live = evidence.entries, np.arange(evidence.live)
    entries = live[(own.size[live] != 2) | (own.row[live] != live)]
    draws = draws[:, entries]
    return Summary(entries, draws.mean(axis=0), draws.std(axis=0), draws, np.empty((0, 0)))


def means_of(tables: Iterable[LearnedTable], belief: Floats) -> Floats:
    """Return the expected means of all states of all tables, by pseudo-counts or draws of all learned entries."""
    if belief.ndim == 2:
        return np.ascontiguousarray(belief.mean(axis=0))
    means, first = belief.copy(), 0
    for table in tables:
        rows = means[first : first + table.size].reshape(-1, table.states)
        rows /= rows.sum(axis=1, keepdims=True)
        first += table.size
    return means


def _of_others(alpha: Floats) -> Floats:
    """Return for each state the sum over all others: not by a difference, in which small numbers would be lost."""
    nothing = np.zeros_like(alpha[..., :1])
    before = np.cumsum(np.concatenate([nothing, alpha[..., :-1]], axis=-1), axis=-1)
    after = np.cumsum(np.concatenate([nothing, alpha[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.asarray(before + after)


def _matched(alpha: Floats, drawn: Summary, states: int) -> Floats:
    """Return pseudo-counts of a table; those of drawn rows match the mean and the total variance of the draws."""
    alpha = alpha.copy()
    if not len(drawn.entries):
        return alpha
    shape = (len(drawn.entries) // max(1, states if states > 2 else 1), -1)
    mean, variance = drawn.mean.reshape(shape), drawn.sd.reshape(shape) ** 2
    if states == 2:  # the first state is the rest
        mean, variance = np.hstack([1 - mean, mean]), np.hstack([variance, variance])
    rows = drawn.entries.reshape(shape)[:, -1] // states
    spread = (mean * (1 - mean)).sum(axis=-1, keepdims=True)
    total = variance.sum(axis=-1, keepdims=True)
    size = np.where(total > 0, spread / np.where(total > 0, total, 1.0) - 1, np.inf)
    alpha.reshape(-1, states)[rows] = mean * np.clip(size, 1e-9, 1e15)
    return alpha
