"""Reports of evidence against the structure of a diagram, in plain words."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.agent.fit_report.residuals import CHOICE, EXPECTED, LAG, MORE, NODE, OBSERVED, ROUNDS, SO_FAR

from idbandits.agent.fit_report.residuals import Comparisons, compare  # isort: skip
from idbandits.agent.fit_report.sample import Sample
from idbandits.circuit.likelihood import Fitting
from idbandits.circuit.model import Model
from idbandits.kernel.array_types import Floats, Ints
from idbandits.notebook import html_table, html_text

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

LEVEL = 0.05  # below this p-value, the structure does not fit
FEW = 100  # rounds, and fewer, are not judged
STRONG = 8192  # pseudo-counts of a row, above which its prior is respected, unless there are more rounds
RESTARTS = 3  # fits from elsewhere, before a structure is blamed
TRIED = 2048  # different rounds that fits from elsewhere are tried on, and that long fits begin with
KEPT = 0.9  # of what a fit of a few rounds found, for a fit of all: what was never seen there is not impossible
SHOWN = 5  # comparisons in the text
ADVICE = (
    "Another structure may fit better: see `idb.models`, or let an agent weigh several, `idb.Thompson([d1, d2, …])`."
)


@final
class FitReport:
    """Evidence against the structure of a diagram: `repr` describes it in words.

    Attributes
    ----------
    p_value : float
        Bound on the probability that a correct structure ever contradicts the data this much, at any of repeated looks.
    rounds : int
        Number of rounds learned.
    looked_at : int
        Number of these rounds that were examined.
    impossible : int
        Number of rounds that were rejected because the diagram gives them probability zero.

    Examples
    --------
    Two coins that always agree, in a diagram in which they are independent:

    >>> import idbandits as idb
    >>> d = idb.Diagram("coins")
    >>> coin = d.decision("coin", 2)
    >>> d.reward([d.observed("first", [coin]), d.observed("second", [coin])], lambda first, second: first + second)
    >>> agent = idb.Thompson(d, seed=0)
    >>> equal = [0, 1] * 100
    >>> agent.update_many({"coin": [0] * 200}, {"first": equal, "second": equal})
    LogReport(rounds=200, impossible=[])
    >>> report = agent.fit_report()
    >>> report.fits, report.p_value < 1e-6
    (False, True)
    >>> columns = ["node", "state", "by", "value", "rounds", "expected", "observed"]
    >>> print(report.frame.query("by == 'first'")[columns].to_string(index=False))
      node  state    by value  rounds  expected  observed
    second      1 first     0     100      50.0         0
    second      1 first     1     100      50.0       100
    """

    def __init__(self, model: Model, sample: Sample, comparisons: Comparisons | None, p_value: float) -> None:
        self._model, self._comparisons = model, comparisons
        self.p_value = p_value
        self.rounds = sample.count
        self.impossible = sample.impossible  # rounds that were rejected, because the diagram rules them out
        self.looked_at = sample.kept  # rounds that were examined, of all that were learned from
        self._doublings = doublings(sample)

    @property
    def fits(self) -> bool:
        """True if nothing contradicts the structure (p_value >= 0.05), or too few rounds were seen."""
        return self.p_value >= LEVEL

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Data frame with a row per comparison, the most surprising first.

        The columns are: the node and its state; the node `by` and its `value`, which select rounds; the number of these
        rounds; the expected and the observed number of them with the state; and the p-value `p`, adjusted for all
        comparisons.
        """
        import pandas as pd

        columns = ["node", "state", "by", "value", "rounds", "expected", "observed", "p"]
        c, model = self._comparisons, self._model
        if c is None:
            return pd.DataFrame(columns=columns)
        strength = np.abs(c.sums[:, OBSERVED] - c.sums[:, EXPECTED]) / np.maximum(c.sums[:, EXPECTED], 1.0)
        order = np.lexsort([-strength, -c.log_bet.round(6)])  # of two that say the same, the clearer one first
        lines = []
        for node, state, family, by, value, sums, bet in zip(*(column[order].tolist() for column in c), strict=True):
            shown = (model.observed[node].name, model.observed[node].values[state]) if node >= 0 else ("all", 1)
            counts = int(sums[ROUNDS]), sums[EXPECTED], int(sums[OBSERVED])
            lines.append((*shown, *self._compared(family, by, value), *counts, _p_value(bet, self._doublings)))
        return pd.DataFrame(lines, columns=columns)

    def _compared(self, family: int, by: int, value: int) -> tuple[str, Any]:
        if family == CHOICE:
            node = [*self._model.decisions, *self._model.contexts][by]
            return node.name, node.values[value]
        if family == NODE:
            return self._model.observed[by].name, self._model.observed[by].values[value]
        if family == LAG:
            return f"{by} earlier", value
        if family == SO_FAR:
            return "all earlier", "more" if value == MORE else "less"
        return "", ""

    def _repr_html_(self) -> str:
        return html_text(repr(self)) + ("" if self.frame.empty else html_table(self.frame, "Comparisons"))

    def __repr__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        if self.looked_at < self.rounds:
            rounds = f"examined {self.looked_at:,} of {rounds}"
        if self.looked_at < FEW and not self.impossible:
            return f"{rounds}: too few to judge the structure by; {FEW} are needed."
        number = 0 if self._comparisons is None else len(self._comparisons.node)
        about = f"{rounds}, {number:,} comparisons"
        if self.fits:
            least = f", smallest p = {_short(self.frame['p'].min())}" if number else ""
            return f"Nothing speaks against the structure ({about}{least})."
        lines = [f"The structure does not fit what was seen ({about}, p {_equals(self.p_value)}):"]
        if self.impossible:
            times = "A round was" if self.impossible == 1 else f"{self.impossible:,} rounds were"
            lines.append(f"  {times} rejected: the diagram {self._model.name!r} gives what was seen probability zero.")
        worst = self.frame[self.frame["p"] < LEVEL].drop_duplicates(
            ["node", "state", "by"]
        )  # other values say the same
        lines += [f"  {_sentence(line)}" for line in worst.head(SHOWN).itertuples()]
        return "\n".join([*lines, ADVICE])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw expected and observed shares with intervals; comparisons that contradict the structure are highlighted
        and named.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        Axes
            Axes of the plot, whose `figure` can be saved.
        """
        from idbandits.agent.fit_report.fit_plot import draw, points

        return draw(points(self.frame, LEVEL), ax)


def fit_report(model: Model, belief: Floats, sample: Sample) -> FitReport:
    """Compare the rounds of a sample with what the structure makes one expect.

    The tables are those that fit these rounds best, found from the belief on: what no tables explain is the
    structure's. Only priors that outweigh all rounds are respected.
    """
    if not model.observed or sample.kept < FEW:
        return FitReport(model, sample, None, 0.0 if sample.impossible else 1.0)
    fitting = model.derived(Fitting)
    rounds, numbers = np.unique(sample.rounds, axis=0, return_counts=True)
    times = numbers.astype(np.float64)
    base = np.where(fitting.row_totals(fitting.prior) > max(STRONG, sample.kept), fitting.prior, 0.0)
    sound = np.isfinite(belief) & (belief >= 0)
    start = np.maximum(np.where(sound, belief, fitting.prior), 1e-9)
    order = np.random.default_rng(0).permutation(len(rounds))
    rounds, times = np.ascontiguousarray(rounds[order]), times[order]  # the first ones are like all of them
    start_means = fitting.normalised(start, start)
    means, best = _fitted(fitting, start_means, rounds, times, base)
    comparisons, p_value = _judged(model, fitting, means, rounds, times, sample)
    if p_value < LEVEL:
        rng = np.random.default_rng(0)
        draws = [fitting.normalised(rng.standard_gamma(2.0, len(start)), start) for _ in range(RESTARTS)]
        few, own = rounds[:TRIED], best
        if len(few) < len(rounds):
            own = fitting.best_means(means, few, times[:TRIED], base)[1]
        others = [fitting.best_means(draw, few, times[:TRIED], base) for draw in draws]
        better, likelihood = max(others, key=lambda other: other[1])
        if likelihood > own and len(few) < len(rounds):
            own = best
            better, likelihood = _fitted(fitting, KEPT * better + (1 - KEPT) * start_means, rounds, times, base)
        if likelihood > own:
            comparisons, p_value = _judged(model, fitting, better, rounds, times, sample)
    return FitReport(model, sample, comparisons, 0.0 if sample.impossible else p_value)


def _fitted(fitting: Fitting, start: Floats, rounds: Ints, times: Floats, base: Floats) -> tuple[Floats, float]:
    """Return the means of highest likelihood near `start`, and its logarithm: of a few rounds first, then of more."""
    means, number = start, TRIED
    while 4 * number <= len(rounds):
        fitted, _ = fitting.best_means(means, rounds[:number], times[:number], base)
        means, number = KEPT * fitted + (1 - KEPT) * start, 4 * number
    return fitting.best_means(means, rounds, times, base)


def _judged(
    model: Model, fitting: Fitting, means: Floats, rounds: Ints, times: Floats, sample: Sample
) -> tuple[Comparisons, float]:
    comparisons = compare(model, fitting, means, rounds, times)
    return comparisons, _p_value(float(np.logaddexp.reduce(comparisons.log_bet)), doublings(sample))


def doublings(sample: Sample) -> int:
    """Return how often the rounds have doubled since all of them were kept: by then, half of the sample is new."""
    return int(np.ceil(np.log2(max(sample.count, 1) / min(max(sample.kept, 1), sample.room))))


def _p_value(log_bet: float, doublings: int) -> float:
    """Return the chance that a bet ever becomes this large; every doubling is another look, and has less to spend."""
    spent = (doublings + 1) * (doublings + 2) / 2
    return min(1.0, spent * float(np.exp(-max(log_bet, 0.0))))


def _sentence(line: Any) -> str:
    how = "more" if line.observed > line.expected else "less"
    counts = f"{line.observed:,} of {line.rounds:,}, expected {line.expected:,.{0 if line.expected >= 100 else 1}f}"
    what = "Nodes are" if line.node == "all" else f"{line.node} = {line.state!r} is"
    if line.by == "":
        where = ""
    elif line.by == "all earlier":
        where = f" where {line.value} than expected was seen earlier in the round"
    elif line.node == "all":
        where = f" where the node {line.by} was {line.value}"
    else:
        where = f" where {line.by} = {line.value!r}"
    return f"{what} seen {how} often than expected{where}: {counts} (p {_equals(line.p)})."


def _short(p: float) -> str:
    return f"{p:.1g}" if p < 0.1 else f"{p:.2g}"


def _equals(p: float) -> str:
    return f"= {_short(p)}" if p >= 1e-12 else "< 1e-12"
