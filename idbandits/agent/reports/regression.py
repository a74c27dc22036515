"""Regressions of a table: on features of its rows, or of its rows and a context."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.diagram.features.design import described
from idbandits.diagram.labels import state_labels
from idbandits.diagram.tables import Label, LearnedTable
from idbandits.errors import ODD, IdbanditsError, brief
from idbandits.inference.gibbs.summary import Summary
from idbandits.inference.regression.density import HIGH, LOG_STRENGTHS, LOW, MAX_LOGIT, MIN_COUNT, SCALE
from idbandits.inference.regression.logistic import MOST_LOGIT
from idbandits.inference.regression.logistic_setup import coefficients_of
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Floats
from idbandits.notebook import html_table

if TYPE_CHECKING:  # imported where it is used, because that takes long
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

ENDS = np.array([0.05, 0.95])  # of intervals
MOST_QUANTILES = 10**8


def probabilities(q: Any, size: int) -> Floats:
    """Validate probabilities at which each of `size` numbers has a quantile."""
    try:
        wanted = np.asarray(q)
    except ODD:  # ragged lists
        wanted = np.array(None)
    if wanted.size * size > MOST_QUANTILES:
        raise IdbanditsError(
            f"at most {MOST_QUANTILES:,} quantiles can be computed at once, got {wanted.size * size:,}"
        )
    if wanted.dtype.kind not in "biuf" or np.ma.is_masked(q) or not ((wanted >= 0) & (wanted <= 1)).all():
        raise IdbanditsError(f"quantiles must be at probabilities in [0, 1], got {brief(q)}")
    return wanted.astype(np.float64)


# -- beliefs of parameters ---------------------------------------------------------------------------------------------


class Normal:
    """Normal belief of coefficients."""

    def __init__(self, mean: Floats, sd: Floats) -> None:
        self.mean, self.sd = mean, sd  # of coefficients, state by state

    def quantile(self, q: Floats) -> Floats:
        """Return the quantiles of all coefficients, on the last axis."""
        from scipy.special import ndtri  # slow to import, and only needed here

        return np.asarray(self.mean + ndtri(q)[..., np.newaxis] * self.sd)


@final
class Fit(Normal):
    """Belief of coefficients and of the logarithm of the strength by a fit.

    The latter is normal around its mode, with one width below it and another one above. Given it, coefficients are
    normal: the mode and `factor`, the Cholesky factor of the precision there, have all of this.
    """

    def __init__(self, mode: Floats, factor: Floats, shape: Floats) -> None:
        self.mode, self.factor, self.skews, self.scale = mode, factor, shape[[LOW, HIGH]], float(shape[SCALE])
        deviations = np.linalg.inv(factor).T  # what one unit of each of independent numbers does to the parameters
        low, high = self.skews
        off = (high - low) * math.sqrt(2 / math.pi)
        variances = np.append(np.ones(len(mode) - 1), (1 - 2 / math.pi) * (high - low) ** 2 + low * high)
        self.mean = (mode + off * deviations[:, -1])[:-1]
        self.sd = np.sqrt((deviations**2 * variances).sum(axis=1))[:-1]
        self.log_strength_sd = float(deviations[-1, -1])  # at the mode

    def log_strength(self, q: Floats) -> Floats:
        """Return quantiles of the logarithm of the strength, within its bounds."""
        from scipy.special import ndtri  # slow to import, and only needed here

        low, high = self.skews
        below = low * ndtri(np.minimum(q * (low + high) / (2 * low), 0.5))
        above = -high * ndtri(np.minimum((1 - q) * (low + high) / (2 * high), 0.5))
        return np.asarray(np.clip(self.mode[-1] + self.log_strength_sd * (below + above), *LOG_STRENGTHS))


@final
class DrawnFit:
    """Belief of coefficients and of the logarithm of the strength by draws."""

    def __init__(self, draws: Floats) -> None:
        self._draws, self.mean, self.sd = draws, draws.mean(axis=0)[:-1], draws.std(axis=0)[:-1]

    def quantile(self, q: Floats) -> Floats:
        """Return the quantiles of all coefficients, on the last axis."""
        return np.asarray(np.quantile(self._draws[:, :-1], q, axis=0))

    def log_strength(self, q: Floats) -> Floats:
        """Return quantiles of the logarithm of the strength, within its bounds."""
        return np.asarray(np.clip(np.quantile(self._draws[:, -1], q), *LOG_STRENGTHS))


# -- results -----------------------------------------------------------------------------------------------------------


class RegressionResult:
    """Belief of coefficients, in log-odds of a state against the first state, per unit of a column of the design.

    Columns of numbers are in standard deviations unless `idb.Features` declares another scale. Tables of more than two
    states have one column of coefficients per state but the first.
    """

    def __init__(self, names: tuple[str, ...], states: tuple[Label, ...], fit: Normal | DrawnFit) -> None:
        self.names, self.states, self._belief = names, states[1:], fit

    def _by_column(self, parameters: Floats) -> Floats:
        """Return numbers of all coefficients as users see them: one column per state, if there are several."""
        shown = parameters.reshape(len(self.states), len(self.names)).T
        return np.array(shown[:, 0] if len(self.states) == 1 else shown)

    @property
    def coefficients(self) -> Floats:
        """Expected coefficients, of shape (columns,) in the order of `names`, or (columns, k - 1) for k > 2 states."""
        return self._by_column(self._belief.mean)

    @property
    def sd(self) -> Floats:
        """Standard deviations of the coefficients, in the shape of `coefficients`."""
        return self._by_column(self._belief.sd)

    def quantile(self, q: float | Floats) -> Floats:
        """Return quantiles of the coefficients.

        Parameters
        ----------
        q : float or array
            Probabilities from 0 to 1.

        Returns
        -------
        ndarray
            Quantiles, of shape (*shape of q, *shape of `coefficients`).
        """
        wanted = probabilities(q, self._belief.mean.size)
        lines = self._belief.quantile(wanted.ravel())
        return np.array([self._by_column(line) for line in lines]).reshape(wanted.shape + self.coefficients.shape)

    def to_frame(self) -> Any:
        """Return a data frame with one line per coefficient.

        The columns are `feature`, `state` (if there are more than two), `mean`, `sd`, and the quantiles `5 %` and `95
        %`.
        """
        import pandas  # slow to import, and only needed here

        low, high = self.quantile(ENDS)
        columns: dict[str, Any] = {"feature": np.repeat(np.array(self.names, dtype=object), len(self.states))}
        if len(self.states) > 1:
            columns["state"] = list(self.states) * len(self.names)
        numbers = {"mean": self.coefficients, "sd": self.sd, "5 %": low, "95 %": high}
        return pandas.DataFrame(columns | {name: np.ravel(column) for name, column in numbers.items()})

    def _repr_html_(self) -> str:
        return html_table(self.to_frame(), repr(self).partition("\n")[0])


@final
class Regression(RegressionResult):
    """Belief of a regression on features of rows: a row with features x has the prior Dirichlet(M softmax(0, x G)).

    The coefficients G are log-odds per unit of a column of the design. The strength M is the number of observations
    that a row's prior is worth: a row with M observations weighs these as much as its features.

    Attributes
    ----------
    names : tuple of str
        Columns of the design, "(constant)" first.
    states : tuple
        States of the table but the first.
    prior_mean : ndarray
        Probability of each row by its features alone, in the shape of `Posterior.mean`.
    observed : ndarray
        Share of each state in the counts of each row, in that shape; NaN without counts.
    observations : ndarray
        Number of counts of each row, in the shape of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> import idbandits as idb
    >>> prices = pd.DataFrame({"price": [1.0, 2.0, 3.0]}, index=["tea", "milk", "rice"])
    >>> d = idb.Diagram("menu")
    >>> item = d.decision("item", prices.index)
    >>> d.reward(d.observed("sold", [item], idb.Learned("sold", features=prices)))
    >>> agent = idb.Thompson(d, seed=0)
    >>> for item, sold in [("tea", 1), ("tea", 1), ("rice", 0)]:
    ...     agent.update({"item": item}, {"sold": sold})
    >>> regression = agent.posterior()["sold"].regression
    >>> print(regression.to_frame().round(1).to_string(index=False))
       feature  mean  sd  5 %  95 %
    (constant)   0.3 1.4 -2.0   2.6
         price  -1.3 1.0 -2.9   0.3
    >>> regression.observations.round(3).tolist(), regression.prior_mean.shape
    ([2.0, 0.0, 1.0], (3,))
    >>> bool(regression.strength == regression.strength_quantile(0.5) > 0)
    True
    """

    def __init__(self, table: LearnedTable, states: tuple[Label, ...], fit: Fit | DrawnFit, counts: Floats) -> None:
        features = table.features
        assert features is not None
        super().__init__(features.names, states, fit)
        self._description, self._fit = described(features), fit
        logits = features.design @ self.coefficients.reshape(len(self.names), -1)
        logits = np.clip(logits, -MAX_LOGIT, MAX_LOGIT)
        weights = np.exp(np.hstack([np.zeros((len(logits), 1)), logits]))
        shares = (weights / weights.sum(axis=1, keepdims=True)).reshape(table.prior.shape)
        counts = np.maximum(counts, 0.0).reshape(shares.shape)
        observations = np.asarray(counts.sum(axis=-1))
        for row in table.fixed:
            place = np.unravel_index(row, table.shape) if table.shape else ()
            shares[place], observations[place] = np.nan, 0.0
        self._seen = observations > MIN_COUNT
        rates = np.where(self._seen[..., None], counts, np.nan) / np.where(self._seen, observations, 1.0)[..., None]
        self._fixed = len(table.fixed)
        self.prior_mean: Floats = shares[..., 1] if table.states == 2 else shares
        self.observed: Floats = rates[..., 1] if table.states == 2 else rates
        self.observations: Floats = observations

    @property
    def strength(self) -> float:
        """Median of the strength M, in observations."""
        return float(self.strength_quantile(0.5))

    def strength_quantile(self, q: float | Floats) -> Floats:
        """Return quantiles of the strength M, in observations.

        Parameters
        ----------
        q : float or array
            Probabilities from 0 to 1.

        Returns
        -------
        ndarray
            Quantiles, in the shape of q.
        """
        return np.exp(self._fit.log_strength(probabilities(q, 1)))

    def plot(self, axes: Sequence[Axes] | None = None) -> NDArray[np.object_]:
        """Draw coefficients with intervals of 90 %, and beside them observed shares of rows against those by features.

        Rows on the diagonal are as their features predict. If all points have about one abscissa, features predict
        nothing.

        Parameters
        ----------
        axes : sequence of two Axes, optional
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        ndarray of Axes
            Both axes, whose `figure` can be saved.
        """
        from idbandits.agent.reports.regression_plot import draw, panels

        return draw(panels(self), axes)

    def __repr__(self) -> str:
        rows, worth = self._seen.size - self._fixed, rounded(self.strength)
        unit = "observation" if worth == "1" else "observations"
        return (
            f"Regression({self._description}, {int(self._seen.sum()):,} of {rows:,} rows with counts; "
            f"a row's prior is worth about {worth} {unit})"
        )


@final
class LogisticRegression(RegressionResult):
    """Belief of a table that depends on a context with features: normal coefficients, and a normal residual per row.

    Attributes
    ----------
    names : tuple of str
        Columns of the design, "(constant)" first.
    covariance : ndarray
        Covariance of the coefficients, of shape (columns, columns).
    residuals, residual_sd : ndarray
        Mean and standard deviation of the residual of each row, in log-odds and in the shape of the table; 0 without
        residuals.

    Examples
    --------
    >>> import idbandits as idb
    >>> d = idb.Diagram("menu")
    >>> user = d.context("user", features=["age"])
    >>> d.reward(d.observed("sold", [d.decision("item", ["tea", "milk"]), user], idb.Learned("sold", residuals=1.0)))
    >>> agent = idb.Thompson(d, seed=0)
    >>> for age in (-1.0, 0.0, 1.0):
    ...     agent.update({"item": "tea"}, {"sold": int(age > 0)}, {"user": {"age": age}})
    >>> regression = agent.posterior()["sold"].regression
    >>> young, old = (regression.means({"age": age}) for age in (-1.0, 1.0))
    >>> young.shape, bool(young[0, 0] < old[0, 0])
    ((2, 1), True)
    """

    def __init__(self, evidence: Evidence, state: State, table: LearnedTable) -> None:
        assert table.logistic is not None
        own = coefficients_of(evidence, state, table.name)
        super().__init__(own.names, (0, 1), Normal(own.mean, np.sqrt(np.diag(own.covariance))))
        self._table, self._logistic, self.covariance = table, table.logistic, own.covariance
        self.residuals: Floats = own.residual_mean.reshape(table.shape)
        self.residual_sd: Floats = np.sqrt(own.residual_variance).reshape(table.shape)

    def means(self, request: Any) -> Floats:
        """Return the expected probability of every row for a request, at the mean of the coefficients as in
        `best_action`.

        Parameters
        ----------
        request : mapping
            Features of the context, by name.

        Returns
        -------
        ndarray
            Probability of the second state, in the shape of the table.
        """
        who, rows = f"request: context {self._logistic.context!r}", self._logistic.design.shape[0]
        numbers = np.array(self._logistic.request.encoded(who, request))
        logits = np.array([self._logistic.line(row, numbers) @ self.coefficients for row in range(rows)])
        logits = np.clip(logits.reshape(self._table.shape) + self.residuals, -MOST_LOGIT, MOST_LOGIT)
        means = 1.0 / (1.0 + np.exp(-logits))
        for row, values in self._table.fixed.items():
            means.flat[row] = values[1]
        return np.asarray(means)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the largest coefficients, with intervals of 90 %.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        Axes
            Axes of the plot, whose `figure` can be saved.
        """
        from idbandits.agent.reports.regression_plot import draw_alone, largest

        return draw_alone(largest(self), ax)

    def __repr__(self) -> str:
        return f"LogisticRegression of {self._table.name!r}: {len(self.names)} coefficients\n{self.to_frame().round(2)}"


def rounded(number: float) -> str:
    """Return a positive number with two significant digits."""
    return f"{float(f'{number:.2g}'):,.10g}"


def regression_in(
    evidence: Evidence, state: State, name: str, counts: Floats | None, summary: Summary | None
) -> Regression | None:
    """Return the regression of a table in a state with these counts of all entries; None if it has no features.

    It is by the draws of a summary, if one is given.
    """
    model, r = evidence.entries.model, evidence.regressions
    table, first = model.learned[name], model.parameters.offsets[name]
    if table.features is None or counts is None:
        return None
    t = r.of_table[evidence.entries.table[first]]
    size = r.columns[t] * (r.states[t] - 1) + 1
    if summary is not None:
        fit: Fit | DrawnFit = DrawnFit(summary.parameters[:, r.first[t] : r.first[t] + size])
    else:
        mode, factor, _, shape = np.split(state.fits[r.fit[t] :].copy(), [size, size * (size + 1), size * (size + 2)])
        fit = Fit(mode, factor.reshape(size, size), shape[: SCALE + 1])
    return Regression(table, tuple(state_labels(model, name)), fit, counts[first : first + table.size])
