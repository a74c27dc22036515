"""What an agent has learned of a table that depends on a context with features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.agent.reports.quantiles import probabilities
from idbandits.diagram.tables import LearnedTable
from idbandits.inference.regression.logistic import MOST_LOGIT
from idbandits.inference.regression.logistic_setup import coefficients_of
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Floats

if TYPE_CHECKING:  # imported where it is used, because that takes long
    from matplotlib.axes import Axes


@final
class LogisticRegression:
    """The belief of a logistic table: normal coefficients of logits, and a normal residual of every row.

    `names`, `coefficients`, `sd` and `covariance` are in the same order; `residuals` and `residual_sd` have the shape
    of the table, and are 0 where it has none.
    """

    def __init__(self, evidence: Evidence, state: State, table: LearnedTable) -> None:
        assert table.logistic is not None
        own = coefficients_of(evidence, state, table.name)
        self._table, self._logistic = table, table.logistic
        self.names, self.coefficients, self.covariance = own.names, own.mean, own.covariance
        self.sd: Floats = np.sqrt(np.diag(own.covariance))
        self.residuals: Floats = own.residual_mean.reshape(table.shape)
        self.residual_sd: Floats = np.sqrt(own.residual_variance).reshape(table.shape)

    def means(self, request: Any) -> Floats:
        """The expected means of all rows for a request, a mapping of the context's features, in the table's shape.

        They are at the mean of the coefficients: what `best_action` goes by.
        """
        who, rows = f"request: context {self._logistic.context!r}", self._logistic.design.shape[0]
        numbers = np.array(self._logistic.request.encoded(who, request))
        logits = np.array([self._logistic.line(row, numbers) @ self.coefficients for row in range(rows)])
        logits = np.clip(logits.reshape(self._table.shape) + self.residuals, -MOST_LOGIT, MOST_LOGIT)
        means = 1.0 / (1.0 + np.exp(-logits))
        for row, values in self._table.fixed.items():
            means.flat[row] = values[1]
        return np.asarray(means)

    def quantile(self, q: float | Floats) -> Floats:
        """The quantile of the coefficients: for an array of q, they come first."""
        wanted = probabilities(q, self.coefficients.size, "each coefficient")
        from scipy.special import ndtri  # slow to import, and only needed here

        return np.asarray(self.coefficients + ndtri(wanted)[..., np.newaxis] * self.sd)

    def to_frame(self) -> Any:
        """A data frame with one line per coefficient: its name, mean, sd, and the quantiles 5 % and 95 %."""
        import pandas  # slow to import, and only needed here

        low, high = self.quantile(np.array([0.05, 0.95]))
        numbers = {"mean": self.coefficients, "sd": self.sd, "5 %": low, "95 %": high}
        return pandas.DataFrame({"feature": list(self.names)} | numbers)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the largest coefficients, with intervals of 90 %."""
        from idbandits.agent.reports.regression_plot import draw_alone, largest

        return draw_alone(largest(self.names, self.coefficients, self.quantile(np.array([0.05, 0.95]))), ax)

    def __repr__(self) -> str:
        return f"LogisticRegression of {self._table.name!r}: {len(self.names)} coefficients\n{self.to_frame().round(2)}"
