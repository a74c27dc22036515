"""Comparison of models on held-out rounds of a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from idbandits.agent.encoding.agreement import named_structures
from idbandits.agent.thompson import Thompson
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, brief
from idbandits.inference import ELBO
from idbandits.kernel.array_types import Floats
from idbandits.logs.compare_baselines import baselines_of
from idbandits.logs.compare_folds import folds_of
from idbandits.logs.compare_verdict import Candidate, Gap, judged, leader_of
from idbandits.logs.fit_log import fit_rounds
from idbandits.logs.rounds import Rounds
from idbandits.logs.score import joint_of
from idbandits.logs.score_belief import Prediction, in_numbers_of
from idbandits.logs.score_moments import Moments
from idbandits.models import NOTHING
from idbandits.notebook import html_table

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

PROBE = 100  # items by which a function of items is called to find the names of its nodes


@final
@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Comparison of models on a log, as `idb.compare` returns it.

    Parameters
    ----------
    frame : DataFrame
        A row per model, the best first: `model`, held-out `log_likelihood` per round in nats, its `difference` to the
        first model, both with standard errors (paired, clustered by session), perplexities, number of `impossible`
        rounds, learned `parameters`, `fit_seconds`, and `elbo` where the inference has one.
    best : str or None
        Name of the best model; None if the difference to the next may be chance.
    verdict : str
        Result in one sentence.
    fit_report : FitReport or None
        Fit of the first model to the whole log; None if contexts have features.
    agent : Thompson
        First model, fitted to the whole log.

    Examples
    --------
    >>> import idbandits as idb
    >>> log = {"A1": [0, 1] * 100, "A2": [1, 0] * 100, "C1": [1, 1, 0, 0] * 50, "C2": [0, 0, 1, 0] * 50}
    >>> result = idb.compare({"cascade": idb.models.cascade(2, 2)}, log, folds=2)
    >>> result.best, result.agent.diagram.name
    ('cascade', 'cascade')
    >>> result.frame["model"].tolist()
    ['cascade', 'saturated table', 'popularity']
    >>> print(result.verdict)
    'cascade' predicts best: ...
    """

    frame: pd.DataFrame
    best: str | None
    verdict: str
    fit_report: Any  # of the first model, fitted to the whole log; None if it has context features
    agent: Thompson  # the first model, fitted to the whole log

    def _repr_html_(self) -> str:
        return html_table(self.frame.dropna(axis="columns", how="all"), self.verdict)

    def __repr__(self) -> str:
        frame = self.frame.dropna(axis="columns", how="all")
        small = dict.fromkeys(("difference", "difference_se"), "{:.2g}".format)
        table = frame.to_string(index=False, float_format=lambda x: f"{x:.4f}", formatters=small)
        report = "" if self.fit_report is None else f"\nFit of {self.frame['model'].iloc[0]!r}: {self.fit_report}"
        return f"{self.verdict}\n{table}{report}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the differences to the best model, with intervals of 95 %.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        Axes
            Axes of the plot, whose `figure` can be saved.
        """
        from idbandits.logs.compare_plot import differences_of, draw

        return draw(differences_of(self.frame), ax)


def compare(
    models: Mapping[str, Any], log: Any, *, folds: int = 5, by: str = "session", inference: Any = None, seed: int = 0,
    **options: Any,
) -> Comparison:  # fmt: skip
    """Compare models by how well they predict rounds of a log that they were not fitted to.

    A saturated table and the popularity of items are always included. The log is read into memory.

    Parameters
    ----------
    models : mapping
        Diagrams by name, lists of diagrams (weighed as structures), or functions of the items of the log.
    log : path, data frame, table, URL or mapping
        Log, as in `idb.count`.
    folds : int
        Number of parts that the log is divided into.
    by : {"session", "time"}
        Predict each part by all others, with sessions kept whole; or each part by all before it.
    inference : str or Inference, optional
        Inference of all models, as in `idb.Thompson`.
    seed : int
        Seed of the division and of the agents.
    **options
        Reading of the log, as in `idb.count`.

    Returns
    -------
    Comparison
        Table, plot and verdict.

    Examples
    --------
    >>> import idbandits as idb
    >>> log = {"A1": [0, 1] * 100, "A2": [1, 0] * 100, "C1": [1, 1, 0, 0] * 50, "C2": [0, 0, 1, 0] * 50}
    >>> models = {"cascade": idb.models.cascade(2, 2), "position-based": idb.models.position_based(2, 2)}
    >>> result = idb.compare(models, log, folds=2)
    >>> result.best
    'cascade'
    >>> result.frame["model"].tolist()[0], result.frame["parameters"].tolist()[0]
    ('cascade', 2)
    """
    diagrams, rounds = _opened(models, log, options)
    first = next(iter(diagrams.values()))
    reference = first if isinstance(first, Diagram) else first[0]
    added = {name: d for name, d in baselines_of(reference).items() if name not in diagrams}
    diagrams |= added
    results = {name: _Held(d, reference, rounds, inference, seed) for name, d in diagrams.items()}
    held = np.zeros(len(rounds), np.bool_)
    for fit, predict in folds_of(rounds, folds, by, seed):
        held |= predict
        for result in results.values():
            result.run(fit, predict)
    return _comparison(results, rounds.part(held), held, added)


@final
class _Held:
    """Held-out predictions of one model."""

    def __init__(self, d: Any, reference: Diagram, rounds: Rounds, inference: Any, seed: int) -> None:
        self.d, self._inference, self._seed = d, inference, seed
        own = compile(d if isinstance(d, Diagram) else d[0])
        self.rounds = in_numbers_of(rounds, compile(reference), own)
        self.parameters = sum(
            (t.size // t.states - len(t.fixed)) * (t.states - 1)
            for one in ([d] if isinstance(d, Diagram) else d)
            for t in compile(one).learned.values()
        )
        columns = len(own.observed)
        self.joint = np.full(len(rounds), np.nan)
        self.nodes = np.full((2, len(rounds), columns), np.nan)
        self.seconds, self.fits = 0.0, 0

    def fit(self, rounds: Rounds) -> Thompson:
        """Return an agent that is fitted to rounds."""
        return fit_rounds(self.d, rounds, self._inference, self._seed)

    def run(self, fit: Any, predict: Any) -> None:
        """Fit to some rounds and predict others."""
        started = time.perf_counter()
        training = self.rounds.part(fit)
        agent = self.fit(training)
        self.seconds += time.perf_counter() - started
        self.fits += 1
        prediction = Prediction(agent, None)
        logs = prediction.logs(self.rounds.part(predict))
        self.joint[predict] = joint_of(logs.conditional)
        self.nodes[0, predict], self.nodes[1, predict] = logs.marginal, logs.conditional


def _comparison(results: dict[str, _Held], rounds: Rounds, held: Any, baselines: Collection[str]) -> Comparison:
    import pandas as pd

    joints = {name: result.joint[held] for name, result in results.items()}
    candidates = [
        Candidate(name, r.parameters, int((joints[name] == -np.inf).sum()), joints[name], name in baselines)
        for name, r in results.items()
    ]
    own = [_mean(rounds, np.where(c.held_out > -np.inf, c.held_out, np.nan)) for c in candidates]
    leader = leader_of(candidates, [gap.difference for gap in own])
    best, gaps = candidates[leader].held_out, list[Gap]()
    for c in candidates:
        with np.errstate(invalid="ignore"):
            both = np.where((best > -np.inf) & (c.held_out > -np.inf), best - c.held_out, np.nan)
        gaps.append(_mean(rounds, both))
    verdict, rows = judged(candidates, leader, gaps), list[dict[str, Any]]()
    agents = dict[str, Thompson]()
    order = sorted(range(len(own)), key=lambda i: (i != leader, candidates[i].impossible, gaps[i].difference))
    for i in order:
        c, result = candidates[i], results[candidates[i].name]
        perplexity, conditional = (_perplexity(rounds, nodes[held], c.held_out) for nodes in result.nodes)
        rows.append(
            {
                "model": c.name, "log_likelihood": own[i].difference, "log_likelihood_se": own[i].se,
                "difference": 0.0 if i == leader else -gaps[i].difference,
                "difference_se": 0.0 if i == leader else gaps[i].se, "perplexity": perplexity,
                "conditional_perplexity": conditional, "impossible": c.impossible, "parameters": c.parameters,
                "fit_seconds": result.seconds / result.fits,
            }
        )  # fmt: skip
    name = candidates[leader].name
    agents[name] = results[name].fit(results[name].rounds)
    frame = pd.DataFrame(rows)
    frame["elbo"] = [_elbo(agents.get(row["model"]), results[row["model"]]) for row in rows]
    return Comparison(frame, verdict.best, verdict.sentence, _fit_report(agents[name]), agents[name])


def _fit_report(agent: Thompson) -> Any:
    """Return the fit report of the winner; None where contexts have features, for which there is none."""
    return None if any(n.features is not None for n in agent.learner.model.contexts) else agent.fit_report()


def _elbo(agent: Thompson | None, result: _Held) -> float:
    """Return the ELBO of a model on the whole log, NaN if the inference has none."""
    if not isinstance(result.d, Diagram):
        return np.nan
    if agent is None:
        made = Thompson(result.d, result._inference, seed=0)
        if ELBO not in made.inference.capabilities:
            return np.nan
        agent = result.fit(result.rounds)
    return agent.elbo() if ELBO in agent.inference.capabilities else np.nan


def _mean(rounds: Rounds, values: Floats) -> Gap:
    moments = Moments(1)
    moments.add(rounds, values[:, None])
    means = moments.means()
    return Gap(float(means.mean[0]), float(means.se[0]))


def _perplexity(rounds: Rounds, nodes: Floats, joint: Floats) -> float:
    """Return the mean perplexity over nodes, without impossible rounds."""
    moments = Moments(nodes.shape[1])
    moments.add(rounds, np.where((joint > -np.inf)[:, None], nodes, np.nan))
    means = moments.means().mean
    return float(np.exp(-means[~np.isnan(means)]).mean()) if (~np.isnan(means)).any() else np.nan


def _opened(models: Any, log: Any, options: Mapping[str, Any]) -> tuple[dict[str, Any], Rounds]:
    """Return the diagrams with the items of the log, and the rounds in the numbers of the first one."""
    if not isinstance(models, Mapping) or not models:
        raise DiagramError(f"models must map names to diagrams, got {brief(models)}")
    made = {str(name): _with_items(own, None) for name, own in models.items()}
    if isinstance(log, Rounds):
        _check_alike(made)
        return made, log
    from idbandits.logs.read.open_log import LogOptions, checked_options, open_log
    from idbandits.logs.read.read_check import check_any_read, warn_of_skipped

    settings = checked_options(LogOptions(), options)
    first = next(iter(made.values()))
    opened = open_log(
        first[0] if isinstance(first, list) else first, log,
        settings if not callable(next(iter(models.values()))) else settings._replace(items="from log"),
    )  # fmt: skip
    rounds = opened.all()
    check_any_read(opened.report)
    warn_of_skipped(opened.report, stacklevel=3)
    decisions = opened.diagram.of_kind("decision")
    items = [label for label in decisions[0].values if label != NOTHING] if decisions else []  # functions add it
    diagrams: dict[str, Any] = {}
    for name, own in models.items():
        if callable(own):
            diagrams[str(name)] = _with_items(own, items)
        elif settings.items is None:
            diagrams[str(name)] = made[str(name)]
        elif isinstance(own, Diagram):
            diagrams[str(name)] = open_log(own, log, settings).diagram
        else:
            diagrams[str(name)] = [open_log(one, log, settings).diagram for one in made[str(name)]]
    _check_alike(diagrams)
    return diagrams, rounds


def _with_items(own: Any, items: list[Any] | None) -> Any:
    """Return a diagram, or a list of diagrams, from what the user passed."""
    made: Callable[..., Any] | Any = own
    if callable(own):
        made = own(list(range(PROBE)) if items is None else items)
    if isinstance(made, Diagram):
        return made
    if isinstance(made, (list, tuple, Mapping)) and made:
        return list(named_structures(made).values())
    raise DiagramError(f"models must be diagrams, lists of diagrams or functions of items, got {brief(own)}")


def _check_alike(diagrams: Mapping[str, Any]) -> None:
    """Raise unless all models have the same decisions, contexts and observed nodes."""
    every = [one for own in diagrams.values() for one in (own if isinstance(own, list) else [own])]
    if len(every) > 1 and not any(n.features is not None for d in every for n in d.of_kind("context")):
        named_structures({str(k): d for k, d in enumerate(every)})
