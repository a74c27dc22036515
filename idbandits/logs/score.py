"""Scores of agents on logs: log-likelihood per round, perplexity by position, quality of rankings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.agent.thompson import Thompson
from idbandits.errors import IdbanditsError, brief, check_whole
from idbandits.kernel.array_types import Floats
from idbandits.logs.rounds import Rounds
from idbandits.logs.score_belief import Prediction
from idbandits.logs.score_moments import Means, Moments
from idbandits.logs.score_relevance import Ranking, ranking_of
from idbandits.notebook import html_table, html_text

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

PREDICTIVE = ("plug-in", "posterior")
DRAWS = 100  # from the posterior, by default
MOST_DRAWS = 100_000
SHOWN = 5  # impossible rounds that are named


@final
@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """Score of an agent on a log, as `idb.score` returns it.

    Log-likelihoods are natural logarithms per round. Perplexity at a position is 2^(-mean log2 P(c)) over the rounds in
    which the node was seen: 1 for certain predictions, 2 for coin flips. The conditional perplexity is given the nodes
    above. Rounds that are impossible under the belief are left out of all means.

    Parameters
    ----------
    name : str
        Name of the diagram.
    nodes : tuple of str
        Observed nodes, from the top.
    means : Means
        Mean log-likelihoods: of rounds, then marginal and conditional ones of every node.
    impossible : int
        Number of rows of the log that are impossible under the belief.
    impossible_weight : float
        Number of rounds that these rows stand for.
    examples : tuple of int
        Numbers, from 0, of the first impossible rows.
    clustered : bool
        Whether standard errors are clustered by session.
    predictive : str
        "plug-in", or "posterior" with the number of draws.
    ranking : Ranking, optional
        DCG and nDCG by relevance labels: `dcg`, `ndcg`, number of `groups`, and `depth`.
    report : ReadReport, optional
        Rows that were read and skipped.

    Examples
    --------
    >>> import idbandits as idb
    >>> d = idb.models.cascade(["tea", "milk"], 2)
    >>> agent = idb.fit(d, {"A1": ["tea"] * 8, "A2": ["milk"] * 8, "C1": [1] * 4 + [0] * 4, "C2": [0] * 8}, seed=0)
    >>> result = idb.score(agent, {"A1": ["tea", "milk"], "A2": ["milk", "tea"], "C1": [1, 1], "C2": [0, 1]})
    >>> result.rounds, result.impossible, result.examples
    (1.0, 1, (1,))
    >>> result.frame[["node", "perplexity"]].round(2).values.tolist()
    [['C1', 2.0], ['C2', 1.09], ['all', 1.55]]
    """

    name: str
    nodes: tuple[str, ...]
    means: Means  # of the log-likelihood per round, then marginal and conditional ones of every node
    impossible: int  # rows of the log
    impossible_weight: float  # rounds that these stand for
    examples: tuple[int, ...]  # places of the first impossible rounds in the log
    clustered: bool
    predictive: str
    ranking: Ranking | None = None
    report: Any = None  # what was read and skipped

    @property
    def rounds(self) -> float:
        """Number of rounds, by weight, without impossible ones."""
        return float(self.means.total[0])

    @property
    def log_likelihood(self) -> float:
        """Mean log-likelihood per round, in nats."""
        return float(self.means.mean[0])

    @property
    def log_likelihood_se(self) -> float:
        """Standard error of the log-likelihood per round, in nats, clustered by session."""
        return float(self.means.se[0])

    @property
    def perplexity(self) -> float:
        """Mean over positions of the perplexity of each node alone."""
        return self._average(self._marginal)

    @property
    def perplexity_se(self) -> float:
        """Standard error of the perplexity."""
        return self._average_se(self._marginal)

    @property
    def conditional_perplexity(self) -> float:
        """Mean over positions of the perplexity of each node, given the nodes above."""
        return self._average(self._conditional)

    @property
    def conditional_perplexity_se(self) -> float:
        """Standard error of the conditional perplexity."""
        return self._average_se(self._conditional)

    @property
    def _marginal(self) -> slice:
        return slice(1, 1 + len(self.nodes))

    @property
    def _conditional(self) -> slice:
        return slice(1 + len(self.nodes), 1 + 2 * len(self.nodes))

    def _by_node(self, own: slice) -> Floats:
        return np.exp(-self.means.mean[own])

    def _average(self, own: slice) -> float:
        values = self._by_node(own)
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else np.nan

    def _average_se(self, own: slice) -> float:
        """Return the standard error of a mean of perplexities (delta method)."""
        slopes = -self._by_node(own)
        used = ~np.isnan(slopes)
        slopes = slopes[used] / max(1, int(used.sum()))
        covariance = self.means.covariance[own, own][np.ix_(used, used)]
        return float(np.sqrt(max(float(slopes @ covariance @ slopes), 0.0))) if used.any() else np.nan

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Data frame with a row per observed node from the top, then a row "all" with means over nodes.

        The columns are `node`, `rounds` (in which it was seen), `log_likelihood` (nats, given the nodes above),
        `perplexity`, `conditional_perplexity`, and their standard errors `*_se`.
        """
        import pandas as pd

        marginal, conditional = self._by_node(self._marginal), self._by_node(self._conditional)
        errors = self.means.se
        by_node = pd.DataFrame(
            {
                "node": list(self.nodes), "rounds": self.means.total[self._conditional],
                "log_likelihood": self.means.mean[self._conditional], "log_likelihood_se": errors[self._conditional],
                "perplexity": marginal, "perplexity_se": marginal * errors[self._marginal],
                "conditional_perplexity": conditional,
                "conditional_perplexity_se": conditional * errors[self._conditional],
            }
        )  # fmt: skip
        names = [name for name in by_node.columns if name not in ("node",)]
        by_node.loc[len(by_node)] = ["all", *(getattr(self, name) for name in names)]
        return by_node

    def _lines(self) -> list[str]:
        """Return the lines above the table."""
        what = f"{self.means.clusters:,} sessions" if self.clustered else "no sessions"
        lines = [
            f"Score of {self.name!r} on {self.rounds:,.0f} rounds ({what}, {self.predictive}):",
            f"  log-likelihood per round  {self.log_likelihood:.4f} ± {self.log_likelihood_se:.4f}",
            f"  perplexity                {self.perplexity:.4f} ± {self.perplexity_se:.4f}",
            f"  conditional perplexity    {self.conditional_perplexity:.4f} ± {self.conditional_perplexity_se:.4f}",
        ]
        if self.ranking is not None:
            where = f"{self.ranking.groups:,} groups" if self.ranking.groups > 1 else "1 group"
            lines.append(f"  nDCG@{self.ranking.depth} {self.ranking.ndcg:.4f}, DCG {self.ranking.dcg:.4f} ({where})")
        if self.impossible:
            rounds = "1 round is" if self.impossible == 1 else f"{self.impossible:,} rounds are"
            shown = ", ".join(f"{number:,}" for number in self.examples) + (", …" if self.impossible > SHOWN else "")
            lines.append(f"  {rounds} impossible and left out (number {shown})")
        return lines

    def _repr_html_(self) -> str:
        return html_text("\n".join(self._lines())) + html_table(self.frame)

    def __repr__(self) -> str:
        table = self.frame[["node", "rounds", "perplexity", "conditional_perplexity"]].copy()
        table["rounds"] = [f"{number:,.0f}" for number in table["rounds"]]
        return "\n".join([*self._lines(), table.to_string(index=False, float_format=lambda x: f"{x:.4f}")])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw perplexity and conditional perplexity by position, with intervals of 95 %.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        Axes
            Axes of the plot, whose `figure` can be saved.
        """
        from idbandits.logs.score_plot import curves_of, draw

        return draw(curves_of(self.frame), ax)


def score(
    agent: Thompson, log: Any, *, predictive: str = "plug-in", draws: int = DRAWS, labels: Any = None, **options: Any
) -> Score:
    """Score an agent on a log that it has not learned from.

    Parameters
    ----------
    agent : Thompson
        Agent whose belief predicts.
    log : path, data frame, table, URL or mapping
        Held-out log, as in `idb.count`.
    predictive : {"plug-in", "posterior"}
        Predict by the mean of the belief, or average probabilities over draws of it, which accounts for its
        uncertainty.
    draws : int
        Number of draws of the belief, with "posterior".
    labels : mapping or data frame, optional
        Relevance grades by item, or by (context, item); or a data frame with the columns `item` and `grade`, in which
        other columns form groups. Items are ranked by their expected value at the first position, for DCG and nDCG.
    **options
        Reading of the log, as in `idb.count`.

    Returns
    -------
    Score
        Log-likelihood per round in nats, perplexities, their standard errors, and quality of rankings.

    Examples
    --------
    >>> import idbandits as idb
    >>> d = idb.models.cascade(["tea", "milk"], 1)
    >>> agent = idb.fit(d, {"A1": ["tea"] * 8 + ["milk"] * 8, "C1": [1] * 4 + [0] * 12}, seed=0)
    >>> result = idb.score(agent, {"A1": ["tea", "milk"], "C1": [1, 0]}, labels={"tea": 2, "milk": 0})
    >>> round(result.log_likelihood, 3), round(result.perplexity, 3), result.ranking.ndcg
    (-0.399, 1.491, 1.0)
    """
    from idbandits.logs.read.open_log import open_log
    from idbandits.logs.read.read_check import checked_batches, warn_of_skipped

    _check_agent(agent)
    if isinstance(log, Rounds):
        return score_rounds(agent, [log], predictive=predictive, draws=draws, labels=labels)
    opened = open_log(agent.diagram, log, **options)
    result = score_rounds(agent, checked_batches(opened), predictive=predictive, draws=draws, labels=labels)
    object.__setattr__(result, "report", opened.report)
    warn_of_skipped(opened.report, stacklevel=2)
    return result


def _check_agent(agent: Any) -> None:
    if not isinstance(agent, Thompson):
        raise IdbanditsError(f"agent must be an agent (Thompson), got {brief(agent)}")


def score_rounds(
    agent: Thompson, batches: Iterable[Rounds], *, predictive: str = "plug-in", draws: int = DRAWS, labels: Any = None
) -> Score:
    """Score an agent on batches of encoded rounds."""
    _check_agent(agent)
    if predictive not in PREDICTIVE:
        raise IdbanditsError(f"predictive must be 'plug-in' or 'posterior', got {brief(predictive)}")
    number = check_whole("draws", draws, 1, MOST_DRAWS)
    prediction = Prediction(agent, None if predictive == "plug-in" else number)
    model = prediction.model
    moments, clustered = Moments(1 + 2 * len(model.observed)), False
    impossible, weight, examples = 0, 0.0, list[int]()
    for batch in batches:
        logs, clustered = prediction.logs(batch), clustered or bool(len(batch.sessions))
        joint = joint_of(logs.conditional)
        possible = joint > -np.inf
        if not possible.all():
            wrong = batch.part(~possible)
            impossible += len(wrong)
            weight += float(wrong.weights.sum()) if len(wrong.weights) else float(len(wrong))
            examples += wrong.numbers[: max(0, SHOWN - len(examples))].tolist()
        values = np.concatenate([joint[:, None], logs.marginal, logs.conditional], axis=1)
        moments.add(*((batch, values) if possible.all() else (batch.part(possible), values[possible])))
    ranking = None if labels is None else _ranking(prediction, labels)
    return Score(
        name=agent.diagram.name, nodes=tuple(node.name for node in model.observed), means=moments.means(),
        impossible=impossible, impossible_weight=weight, examples=tuple(examples), clustered=clustered,
        predictive=predictive if predictive == "plug-in" else f"posterior, {number} draws", ranking=ranking,
    )  # fmt: skip


def joint_of(conditional: Floats) -> Floats:
    """Return the log-probability of each round from those of its nodes, given the nodes above; -inf if impossible."""
    return np.asarray(np.where(np.isnan(conditional), 0.0, conditional).sum(axis=1))


def _ranking(prediction: Prediction, labels: Any) -> Ranking:
    """Rank items by the structure with the largest weight."""
    members = prediction.members
    if not members:
        raise IdbanditsError(
            "labels must be None where contexts have features: rankings differ from request to request"
        )
    best = max(members, key=lambda member: member.weight)
    return ranking_of(best.model, best.parameters.mean(axis=0), labels)
