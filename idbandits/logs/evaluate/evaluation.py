"""Result of an off-policy evaluation: a table of estimators, a plot, diagnostics and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from idbandits.agent.reports.axes import axes_for, style_rows
from idbandits.logs.evaluate.clusters import Estimate
from idbandits.logs.evaluate.weight_checks import WeightChecks
from idbandits.notebook import html_table, html_text

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

FEW = 100.0  # effective rounds that a weighted estimate needs
SUPPORT = 0.99  # share of the policy's choices that the log should contain
ABOUT = {
    "direct method": "the diagram fitted to the other half of the sessions",
    "IPS": "each term weighted by the decisions it depends on",
    "self-normalised IPS": "IPS divided by mean weights",
    "clipped IPS": "IPS with limited weights",
    "SIPS": "all terms weighted by whole actions",
    "IIPS": "each term weighted by its nearest decision",
    "RIPS": "each term weighted by the decisions down to its nearest",
    "pseudo-inverse": "reward additive in decisions, product policies",
    "doubly robust": "model and weighted residuals, combined by how well they agree",
    "stagewise DR": "model plus weighted residuals of each decision",
    "whole-action DR": "model plus residuals weighted by whole actions",
    "nearest DR": "model plus residuals weighted by the nearest decision of each term",
    "CIPS": "events weighted by their probability under the policy over that in the log",
    "CDR": "CIPS on residuals of the model",
    "replay": "rounds in which the learning agent acted as the log",
    "log": "mean reward in the log, of the logging policy",
}


class Bar(NamedTuple):
    """Estimator as it is drawn."""

    estimator: str
    value: float
    low: float
    high: float
    trusted: bool


@final
class Evaluation:
    """Estimated value of a policy, in units of the reward per round, by several estimators with 95 % intervals.

    Parameters
    ----------
    estimates : mapping of Estimate
        Value, interval and effective sample size, by estimator.
    best : str
        Name of the recommended estimator.
    logged : Estimate
        Mean reward in the log, of the logging policy.
    diagnostics : mapping of WeightChecks
        Checks of importance weights, by estimator.
    findings : sequence of str
        Reasons not to trust the recommended estimate.
    notes : sequence of str
        Warnings.

    Examples
    --------
    >>> import idbandits as idb
    >>> log = {"A1": [0, 1] * 400, "C1": [0, 1] * 200 + [0, 0] * 200}
    >>> result = idb.evaluate({"A1": 1}, log, idb.models.cascade(2, 1), propensity="uniform", seed=0)
    >>> result.best, bool(result.low < 0.5 < result.high), result.trusted
    ('doubly robust', True, True)
    >>> result.frame.columns.tolist()
    ['estimator', 'value', 'low', 'high', 'effective_sample_size']
    >>> result.is_trusted("IPS"), len(result.diagnostics_frame) > 0, result.clipping_frame.columns.tolist()
    (True, True, ['estimator', 'limit', 'value'])
    >>> print(result.verdict)
    The policy is better than the log: ...
    """

    def __init__(
        self, estimates: Mapping[str, Estimate], best: str, logged: Estimate, diagnostics: Mapping[str, WeightChecks],
        findings: Sequence[str], notes: Sequence[str],
    ) -> None:  # fmt: skip
        self.estimates, self.best, self.logged = dict(estimates), best, logged
        self.diagnostics, self.findings, self.notes = dict(diagnostics), tuple(findings), tuple(notes)
        self.report: Any = None  # of the log that was read

    @property
    def value(self) -> float:
        """Estimate of the recommended estimator, in units of the reward per round."""
        return self.estimates[self.best].value

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval of `value`."""
        return self.estimates[self.best].low

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval of `value`."""
        return self.estimates[self.best].high

    @property
    def trusted(self) -> bool:
        """False if a finding speaks against the recommended estimate."""
        return not self.findings

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """Data frame with the columns estimator, value, low, high and effective_sample_size (rounds)."""
        import pandas

        rows = [(name, *estimate) for name, estimate in self.estimates.items()]
        return pandas.DataFrame(rows, columns=["estimator", "value", "low", "high", "effective_sample_size"])

    @cached_property
    def diagnostics_frame(self) -> pandas.DataFrame:
        """Data frame of checks of importance weights, with a row per estimator that uses them.

        The columns are `estimator`, `effective_sample_size` (rounds), `overlap` (share of the policy's choices that the
        log contains), `largest_weight`, `pareto_k` (shape of the tail), `mean_weight` and `mean_weight_error`.
        """
        import pandas

        rows = [
            (name, c.effective, c.overlap, float(c.largest.max(initial=0.0)), c.pareto_k, c.mean_weight, c.mean_error)
            for name, c in self.diagnostics.items()
        ]
        names = ["effective_sample_size", "overlap", "largest_weight", "pareto_k", "mean_weight", "mean_weight_error"]
        return pandas.DataFrame(rows, columns=["estimator", *names])

    @cached_property
    def clipping_frame(self) -> pandas.DataFrame:
        """Data frame of estimates by limit of the weights, with the columns estimator, limit and value."""
        import pandas

        rows = [(n, limit, value) for n, c in self.diagnostics.items() for limit, value in c.by_clipping.items()]
        return pandas.DataFrame(rows, columns=["estimator", "limit", "value"])

    @property
    def verdict(self) -> str:
        """Sentence that compares the estimate with the log, or says why it is not to be trusted."""
        own = f"{self.value:.4g} per round ({self.low:.4g} to {self.high:.4g}, {self.best})"
        if self.findings:
            return f"Not to be trusted: {'; '.join(self.findings)}; the estimate is {own}."
        logged = f"the logged {self.logged.value:.4g}"
        if self.low > self.logged.value:
            return f"The policy is better than the log: {own} compared with {logged}."
        if self.high < self.logged.value:
            return f"The policy is worse than the log: {own} compared with {logged}."
        return f"Undecided: {own} compared with {logged}."

    def bars(self) -> list[Bar]:
        """Return the estimators as they are drawn, from top to bottom; the last one is the log."""
        rows = [*self.estimates.items(), ("log", self.logged)]
        return [Bar(name, *own[:3], self.is_trusted(name)) for name, own in rows if np.isfinite(own.value)]

    def is_trusted(self, name: str) -> bool:
        """Return whether the weights of an estimator pass all checks.

        Parameters
        ----------
        name : str
            Name of the estimator.
        """
        checks = self.diagnostics.get(name)
        return checks is None or not findings_of(checks)

    def plot(self, axes: Any = None) -> Axes:
        """Draw all estimators with their intervals; hollow markers are not to be trusted.

        Parameters
        ----------
        axes : Axes, optional
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        Axes
            Axes of the plot, whose `figure` can be saved.
        """
        [ax] = axes_for(axes, 1, (7.0, 1.2 + 0.32 * (len(self.estimates) + 1)))
        bars = self.bars()
        for row, bar in enumerate(bars):
            colour = "#000000" if bar.estimator == "log" else "#D55E00" if bar.estimator == self.best else "#0072B2"
            ax.plot([bar.low, bar.high], [row, row], color=colour, linewidth=1.8, alpha=1 if bar.trusted else 0.5)
            fill = colour if bar.trusted else "white"
            ax.plot([bar.value], [row], "o", color=colour, markerfacecolor=fill, markersize=6)
        ax.axvline(self.logged.value, color="#000000", linewidth=0.8, linestyle=(0, (4, 3)))
        style_rows(ax, [bar.estimator for bar in bars], False)
        ax.set_xlabel("reward per round with 95 % interval\n(hollow: weights fail a check; dashed: log)")
        return ax

    def _repr_html_(self) -> str:
        warnings = [html_text(f"WARNING: {note}") for note in self.notes]
        return "\n".join([*warnings, html_table(self.frame, self.verdict)])

    def __str__(self) -> str:
        head = f"{'estimator':<20} {'value':>10} {'low':>10} {'high':>10} {'eff. rounds':>12}"
        lines = [head]
        for name, (value, low, high, effective) in [*self.estimates.items(), ("log", self.logged)]:
            mark = " " if self.is_trusted(name) else "!"
            numbers = f"{value:>10.4g} {low:>10.4g} {high:>10.4g} {effective:>12,.0f}"
            lines.append(f"{name:<20} {numbers} {mark} {ABOUT.get(name, '')}".rstrip())
        return "\n".join([*(f"WARNING: {note}" for note in self.notes), self.verdict, "", *lines])

    __repr__ = __str__


def findings_of(checks: WeightChecks) -> list[str]:
    """Return what speaks against weights."""
    found = []
    if checks.overlap < SUPPORT:
        found.append(f"the log contains only {checks.overlap:.0%} of the policy's choices")
    if checks.effective < FEW:
        found.append(f"weights leave {checks.effective:.0f} effective rounds")
    if checks.heavy:
        found.append(f"weights have a heavy tail (Pareto k = {checks.pareto_k:.2f})")
    if not checks.calibrated:
        mean = f"{checks.mean_weight:.3g} ± {checks.mean_error:.2g}"
        found.append(f"the mean weight is {mean} instead of 1, so propensities or support are wrong")
    return found
