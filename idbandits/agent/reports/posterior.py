"""What an agent believes of a learned table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.reports.quantiles import probabilities
from idbandits.agent.reports.regression import LogisticRegression, Regression, regression_in
from idbandits.circuit.model import Model
from idbandits.diagram.labels import numbered_axes, row_labels, state_labels
from idbandits.diagram.tables import LearnedTable
from idbandits.inference.gibbs.summary import Summary
from idbandits.inference.protocol import Inference, Summarised
from idbandits.inference.regression.logistic_setup import bridged
from idbandits.inference.regression.mixture import mixed
from idbandits.inference.regression.prior import prior_in
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.state.state import ACTS_ON_MEANS, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.sampling import LEAST, MOST

ROUNDING = 1e-9  # of rounds


class Drawn(NamedTuple):
    """Draws of the rows of a table that pseudo-counts do not describe; of a row with two states, the second one."""

    entries: Ints  # of the table
    mean: Floats
    sd: Floats
    draws: Floats  # one per line

    @classmethod
    def of(cls, summary: Summary | None, table: LearnedTable, first: int) -> Drawn:
        """The part of a summary that is about a table with this first entry."""
        if summary is None:
            return cls(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty((1, 0)))
        own = slice(*np.searchsorted(summary.entries, [first, first + table.size]))
        return cls(summary.entries[own] - first, summary.mean[own], summary.sd[own], summary.kept[:, own])


@final
class Posterior:
    """The belief of a learned table: independent Dirichlet rows, or draws of them.

    Two-state tables describe P(1), in the shape of the table; others have the states on the last axis. Rows that are
    fixed have their mean and no deviation, and infinite pseudo-counts. Where means are asked for, a belief will do: it
    is an array of its means.
    """

    def __init__(
        self, model: Model, name: str, alpha: Floats, drawn: Drawn, counts: Floats | None,
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
        """What was learned of the features of its rows, or of coefficients; None if it has no features.

        It is a `Regression`; of a table that depends on a context with features, a `LogisticRegression`.
        """
        return self._regression

    @property
    def alpha(self) -> Floats:
        """Pseudo-counts, states on the last axis: those of the belief, or those that match its draws best."""
        return self._with_fixed(self._alpha, lambda p: np.where(p > 0, np.inf, 0.0))

    @property
    def mean(self) -> Floats:
        """The expected means."""
        means = self._alpha / self._alpha.sum(axis=-1, keepdims=True)
        return self._shown(self._with_drawn(means, self._drawn.mean))

    @property
    def sd(self) -> Floats:
        """The standard deviation of the means."""
        total = self._alpha.sum(axis=-1, keepdims=True)
        mean = self._alpha / total
        deviations = np.sqrt(mean * (_of_others(self._alpha) / total) / (total + 1))
        return self._shown(self._with_drawn(deviations, self._drawn.sd), np.zeros_like)

    def quantile(self, q: float | Floats) -> Floats:
        """The quantile of the means: for an array of q, they come first.

        Rows that are drawn have the quantiles of these draws: 2,000, or fewer where a table is large or a chain slow.
        """
        wanted = probabilities(q, self._alpha.size, "each mean")
        from scipy.special import betaincinv  # slow to import, and only needed here

        flat, drawn = np.empty((wanted.size, self._alpha.size)), self._drawn
        known = np.ones(self._alpha.size, np.bool_)
        known[drawn.entries] = False
        alpha, others = self._alpha.ravel(), _of_others(self._alpha).ravel()
        flat[:, known] = betaincinv(alpha[known], others[known], wanted.reshape(-1, 1))
        if wanted.size and len(drawn.entries):
            own = np.quantile(drawn.draws, wanted.ravel(), axis=0)
            flat[:, drawn.entries] = np.where(own <= LEAST, 0.0, np.where(own >= MOST, 1.0, own))
        return self._shown(flat.reshape(wanted.shape + self._alpha.shape))

    def _with_drawn(self, numbers: Floats, drawn: Floats) -> Floats:
        """Numbers of all entries, with those of entries that are drawn in place."""
        flat = numbers.ravel()
        flat[self._drawn.entries] = drawn
        return flat.reshape(numbers.shape)

    @property
    def rounds(self) -> Floats:
        """In how many rounds each row mattered, as far as one can tell: its pseudo-counts beyond the prior.

        Rounds in which nothing that was seen depends on it are not counted. Where latent counts are drawn, it is the
        number in the last draw; particles do not say, and have NaN.
        """
        return np.array(self._rounds)

    def to_frame(self) -> Any:
        """A data frame with one line per row of the table, and per state if there are more than two.

        It has the labels of the row, then mean, sd, the quantiles 5 % and 95 %, and the rounds behind the row.

        >>> from idbandits import Thompson, models
        >>> agent = Thompson(models.cascade(["tea", "milk", "rice"], 2), seed=0)
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
        low, high = self.quantile(np.array([0.05, 0.95]))
        rounds = (
            self._rounds if self._table.states == 2 else np.broadcast_to(self._rounds[..., None], self._alpha.shape)
        )
        numbers = {"mean": self.mean, "sd": self.sd, "5 %": low, "95 %": high, "rounds": rounds}
        if len({*axes, *numbers}) < len(axes) + len(numbers):  # a node that is called "mean"
            axes = (*numbered_axes(len(self._rows.axes)), "state")[: len(axes)]
        columns = dict(zip(axes, _repeated(labels), strict=True))
        return pandas.DataFrame(columns | {name: np.ravel(column) for name, column in numbers.items()})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self.mean, dtype=dtype)

    def _shown(self, full: Floats, fixed: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """Numbers of all states as users see them, with what `fixed` makes of the probabilities of fixed rows."""
        full = self._with_fixed(full, fixed)
        return full[..., 1] if self._table.states == 2 else full

    def _with_fixed(self, full: Floats, fixed: Callable[[Floats], Floats]) -> Floats:
        flat = full.reshape(*full.shape[: full.ndim - self._alpha.ndim], self._table.size).copy()
        return self._table.with_fixed(flat, fixed).reshape(full.shape)

    def __repr__(self) -> str:
        with np.printoptions(precision=3, threshold=12):
            return f"Posterior(mean={self.mean}, sd={self.sd})"


def posteriors(inference: Inference, evidence: Evidence, state: State, rng: Rng) -> dict[str, Posterior]:
    """The belief of every learned table of a model, in a state whose regressions are up to date."""
    belief = inference.belief(evidence, state, rng).copy()  # a summary may change the state
    counted = belief if belief.ndim == 1 else None if state.ints[ACTS_ON_MEANS] else state.floats
    counts = None if counted is None else counted[: evidence.learned] - prior_in(evidence, state)
    summary = inference.summary(evidence, state, rng) if isinstance(inference, Summarised) else None
    if belief.ndim == 2:
        summary, belief = _summary_of_draws(evidence, belief), np.ones(evidence.learned)
    elif evidence.regressions.number and summary is None:
        belief = mixed(evidence, state, belief, rng)
    belief = bridged(evidence, state, belief)
    model, tables = evidence.entries.model, {}
    for name, table in model.learned.items():
        first = model.parameters.offsets[name]
        own = slice(first, first + table.size)
        if table.logistic is not None:
            regression: Any = LogisticRegression(evidence, state, table)
        else:
            regression = regression_in(evidence, state, name, counts, summary)
        added = None if counts is None or table.logistic is not None else counts[own]
        tables[name] = Posterior(model, name, belief[own], Drawn.of(summary, table, first), added, regression)
    return tables


def _summary_of_draws(evidence: Evidence, draws: Floats) -> Summary:
    """A summary of draws of all entries."""
    own, live = evidence.entries, np.arange(evidence.live)
    entries = live[(own.size[live] != 2) | (own.row[live] != live)]
    draws = draws[:, entries]
    return Summary(entries, draws.mean(axis=0), draws.std(axis=0), draws, np.empty((0, 0)))


def means_of(tables: Iterable[LearnedTable], belief: Floats) -> Floats:
    """The expected means of all states of all tables, by pseudo-counts or draws of all learned entries."""
    if belief.ndim == 2:
        return np.ascontiguousarray(belief.mean(axis=0))
    means, first = belief.copy(), 0
    for table in tables:
        rows = means[first : first + table.size].reshape(-1, table.states)
        rows /= rows.sum(axis=1, keepdims=True)
        first += table.size
    return means


def _repeated(labels: Sequence[Sequence[Any]]) -> list[Any]:
    """The label on each axis for every row of a table, row by row."""
    places = np.indices([len(axis) for axis in labels]).reshape(len(labels), math.prod(map(len, labels)))
    return [
        place if isinstance(axis, range) else [axis[i] for i in place.tolist()]
        for axis, place in zip(labels, places, strict=True)
    ]


def _of_others(alpha: Floats) -> Floats:
    """For each state, the sum over all others: not by a difference, in which the small would be lost."""
    nothing = np.zeros_like(alpha[..., :1])
    before = np.cumsum(np.concatenate([nothing, alpha[..., :-1]], axis=-1), axis=-1)
    after = np.cumsum(np.concatenate([nothing, alpha[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.asarray(before + after)


def _matched(alpha: Floats, drawn: Drawn, states: int) -> Floats:
    """Pseudo-counts of a table, in which rows that are drawn have the mean and the total variance of their draws."""
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
