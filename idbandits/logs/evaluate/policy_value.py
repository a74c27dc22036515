"""Off-policy evaluation: the value of a policy, estimated from rounds that another policy played."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import brief, check_flag, check_number, check_whole
from idbandits.kernel.array_types import Floats, Rng, generator
from idbandits.logs.evaluate.click_weighting import click_weighted, events_of
from idbandits.logs.evaluate.clusters import Estimate, clusters_of, mean_estimate, repeated
from idbandits.logs.evaluate.cross_fit import Fitted, direct_method, fit_folds
from idbandits.logs.evaluate.dependence import dependence_of
from idbandits.logs.evaluate.estimators import Data, Settings, add_robust, weigh
from idbandits.logs.evaluate.evaluation import FEW, SUPPORT, Evaluation, findings_of
from idbandits.logs.evaluate.importance import Weights
from idbandits.logs.evaluate.logged_columns import Logged, column_names, is_columns, policy_columns, propensities_of
from idbandits.logs.evaluate.policy_answers import PolicyError
from idbandits.logs.evaluate.replay import replayed
from idbandits.logs.evaluate.target import Target, groups_of, target_of
from idbandits.logs.evaluate.term_values import observed_terms
from idbandits.logs.evaluate.weight_checks import WeightChecks
from idbandits.logs.rounds import Rounds

LEAST_ROUNDS = 10  # of a log to evaluate with
SAME_WEIGHTS = {"whole-action DR": "SIPS", "stagewise DR": "IPS", "nearest DR": "IIPS"}


class PropensityWarning(UserWarning):
    """Propensities that are estimated from the log."""


def evaluate(
    policy: Any, log: Any, d: Any = None, *, propensity: Any = None, settings: Settings | None = None,
    seed: Any = None, **options: Any,
) -> Evaluation:  # fmt: skip
    """Estimate the value of a policy per round, from a log that another policy played.

    Parameters
    ----------
    policy : Thompson, mapping, function, data frame, or names of columns
        Agent; action; function of `context`, or of `context` and `allowed`, that returns an action or a list of
        (action, probability); table of contexts and actions (a mapping or a data frame, with a column `probability` if
        it is random); or columns of the log, of its actions or of the probabilities with which it takes the logged
        ones.
    log : path, data frame, table, URL or mapping
        Log, as in `idb.count`, of at least 10 rounds.
    d : Diagram, optional
        Decision problem; an agent brings its own.
    propensity : str, list, mapping or policy, optional
        Probabilities of the logged choices: the column of whole actions, a list of columns (one per decision), a
        mapping of decisions to columns, "uniform", "estimated", or a policy. Without it, estimates depend on the
        diagram.
    settings : Settings, optional
        `learning`, `clip` and `folds` as one object.
    seed : int, optional
        Seed of bootstrap intervals and of random policies.
    **options
        `learning=True` (the agent learns by replay of the log; otherwise it is frozen), `clip` (limit of clipped
        weights), `folds` (parts of the sessions for cross-fitting), and the reading of the log, as in `idb.count`:
        `session` makes intervals those of sessions, `weight` weights rounds.

    Returns
    -------
    Evaluation
        Estimates in units of the reward per round, with 95 % intervals, diagnostics and a verdict.

    Examples
    --------
    >>> import idbandits as idb
    >>> log = {"A1": [0, 1] * 200, "C1": [0, 1] * 100 + [0, 0] * 100, "p": [0.5] * 400}
    >>> result = idb.evaluate({"A1": 1}, log, idb.models.cascade(2, 1), propensity="p", seed=0)
    >>> result.frame.query("estimator == 'IPS'")["value"].round(3).tolist()
    [0.5]
    """
    own = settings or check_settings(*(options.pop(name, Settings._field_defaults[name]) for name in Settings._fields))
    diagram = d if d is not None else getattr(policy, "diagram", None)
    if diagram is None or not (isinstance(diagram, Diagram) or callable(diagram)):
        raise PolicyError(f"d must be a diagram, as policies that are no agents do not have one, got {brief(diagram)}")
    if isinstance(log, Rounds):
        from idbandits.circuit.model import compile

        return evaluate_rounds(policy, compile(diagram), log, propensity, own, seed)
    from idbandits.logs.read.open_log import LogOptions, open_log
    from idbandits.logs.read.read_check import check_any_read, warn_of_skipped

    opened = open_log(diagram, log, LogOptions(), **options)
    wanted = dict.fromkeys([*column_names(policy), *column_names(propensity)])
    if names := [name for name in wanted if name in opened.encoder.names]:
        given = options.get("extra", ())
        extra = (given,) if isinstance(given, str) else tuple(given)
        opened = open_log(opened.diagram, log, LogOptions(), **options | {"extra": (*extra, *names), "items": None})
    rounds = opened.all()
    check_any_read(opened.report)
    warn_of_skipped(opened.report, stacklevel=2)
    result = evaluate_rounds(policy, opened.model, rounds, propensity, own, seed)
    result.report = opened.report
    return result


def evaluate_rounds(
    policy: Any, model: Model, rounds: Rounds, propensity: Any, settings: Settings, seed: Any = None
) -> Evaluation:  # fmt: skip
    """Evaluate a policy on encoded rounds; `evaluate` reads a log first."""
    rng = generator(seed)
    data = _prepared(model, rounds, settings, rng)
    logged = None
    if propensity is not None:
        logged = propensities_of(propensity, model, data.rounds, data.groups, rng)
        data.notes.extend(logged.notes)
        if logged.estimated:
            warnings.warn(logged.notes[0], PropensityWarning, stacklevel=3)
    reward = mean_estimate(data.clusters, data.terms.sum(axis=1), data.clusters.rounds, rng)
    if settings.learning:
        return _replay(policy, data, logged, reward, rng)
    target = _target(policy, data, rng)
    estimates: dict[str, Estimate] = {}
    checks: dict[str, WeightChecks] = {}
    direct = None
    if isinstance(target, Target) and data.fitted is not None:
        direct = direct_method(data.fitted, target, data.rounds.choices, data.clusters, rng)
        estimates["direct method"] = direct.estimate
    best = "direct method"
    if logged is not None:
        weights = Weights(len(model.decisions), _probabilities(target, data), logged.of)
        weigh(data, weights, target, settings, estimates, checks, rng)
        best = "IPS"
        if direct is not None and isinstance(target, Target):
            add_robust(data, weights, target, direct, estimates, rng)
            best = "doubly robust"
            checks |= {name: checks[own] for name, own in SAME_WEIGHTS.items() if name in estimates and own in checks}
    findings = findings_of(checks["IPS"]) if best == "IPS" else []
    if direct is not None and isinstance(target, Target) and data.fitted is not None:
        events = events_of(model, data.dependence, target, data.rounds.choices)
        own = data.rounds.choices, data.terms
        clicks = click_weighted(data.fitted, events, target, direct, own, data.clusters)
        estimates |= {"CIPS": clicks.weighted, "CDR": clicks.doubly_robust}
        if logged is None:
            best = "CDR"
            data.notes.append(
                "There are no propensities: the estimate depends on the diagram. Pass propensity= if the log has them."
            )
            if clicks.supported < SUPPORT:
                findings.append(f"the log shows only {clicks.supported:.0%} of what the policy would, by the model")
    if direct is not None and data.hidden:
        error = data.hidden * np.sqrt(direct.posterior_variance)
        estimates = {name: own if name == "direct method" else own.wider(error) for name, own in estimates.items()}
    if not estimates:
        needed = "propensity= for policies given by probabilities, or for contexts with features"
        raise PolicyError(f"evaluate needs {needed}, got None")
    if best == "doubly robust":
        findings += _disagreements(checks)
    if logged is not None:
        findings += logged.findings
        if logged.estimated:
            findings.append("propensities are estimated")
    return Evaluation(estimates, best, reward, checks, findings, data.notes)


def _prepared(model: Model, rounds: Rounds, settings: Settings, rng: Rng) -> Data:
    """Leave out rounds with missing decisions, fit the diagram, and fill in rewards that the log does not show."""
    notes: list[str] = []
    complete = (rounds.choices >= 0).all(axis=1)
    if not complete.all():
        notes.append(f"{int((~complete).sum()):,} rounds with missing decisions or contexts are left out.")
        rounds = rounds.part(complete)
    if len(rounds) < LEAST_ROUNDS:
        raise PolicyError(f"log must have at least {LEAST_ROUNDS} complete rounds, got {len(rounds)}")
    rounds = repeated(rounds)
    clusters, dependence = clusters_of(rounds), dependence_of(model)
    fitted: Fitted | None = None
    if any(node.features is not None for node in model.contexts):
        notes.append("Contexts have features: only weighted estimates are available.")
    elif len(clusters.size) < 2 * settings.folds:
        notes.append(f"{len(clusters.size)} sessions are too few to split: only weighted estimates are available.")
    elif not settings.learning or np.isnan(observed_terms(model, rounds.choices[:1], rounds.seen[:1])).any():
        fitted = fit_folds(model, rounds, clusters, settings.folds, rng)
        if fitted.impossible:
            share = f"{fitted.impossible:,} rounds are impossible in diagram {model.name!r}"
            notes.append(f"{share} and were not learned from; the diagram is wrong about them.")
    terms = observed_terms(model, rounds.choices, rounds.seen)
    hidden = np.isnan(terms)
    if hidden.any():
        if fitted is None:
            raise PolicyError("reward must be observed in the log, got rounds in which it is not")
        expected = fitted.values(rounds.choices, rounds.seen, np.arange(len(rounds)))
        unseen = fitted.values(rounds.choices, np.full_like(rounds.seen, -1), np.arange(len(rounds)))
        expected = np.where(np.isnan(expected), unseen, expected)
        terms = np.where(hidden, expected, terms)
        notes.append(
            "Rewards that the log does not show are expected ones given what was seen, by the fitted diagram: "
            "all estimates depend on it."
        )
    unseen_share = clusters.mean(hidden.mean(axis=1))
    return Data(model, rounds, groups_of(model, rounds), clusters, dependence, terms, fitted, notes, unseen_share)


def _target(policy: Any, data: Data, rng: Rng) -> Target | Logged:
    """Return a policy, or the probabilities of the logged actions under it."""
    if is_columns(policy, data.model, data.rounds):
        return policy_columns(policy, data.model, data.rounds, data.groups)
    if getattr(policy, "rounds", 0):
        data.notes.append(
            "The agent has learned before: if it learned from rounds of this log, all estimates are too optimistic; "
            "fit it to other sessions than those it is evaluated on."
        )
    return target_of(policy, data.model, data.rounds, data.groups, rng)


def _probabilities(target: Target | Logged, data: Data) -> Callable[[tuple[int, ...]], Floats | None]:
    if isinstance(target, Logged):
        return target.of
    return lambda places: target.of(places, data.rounds.choices)


def _disagreements(checks: Mapping[str, WeightChecks]) -> list[str]:
    """Return what speaks against the combined estimate: few effective rounds, or wrong weights."""
    own = checks["IPS"]
    if own.effective >= FEW and own.calibrated:
        return []
    return [f"rewards can hardly correct the model: {', '.join(findings_of(own))}"]


def _replay(policy: Any, data: Data, logged: Logged | None, reward: Estimate, rng: Rng) -> Evaluation:
    """Evaluate an agent that learns from the rounds in which it acts as the log did."""
    if not callable(getattr(policy, "update", None)):
        raise PolicyError(f"policy must be an agent if learning=True, got {brief(policy)}")
    every = tuple(range(len(data.model.decisions)))
    propensity = None if logged is None else logged.of(every)
    if propensity is None:
        raise PolicyError("propensity must give probabilities of whole actions if learning=True, got None")
    estimate, accepted, _ = replayed(policy, data.model, data.rounds, data.terms, propensity, rng)
    findings = []
    if estimate.effective < FEW:
        findings.append(f"the agent learned from {len(accepted):,} rounds ({estimate.effective:.0f} effective ones)")
    if logged is not None:
        findings += logged.findings
        if logged.estimated:
            findings.append("propensities are estimated")
    data.notes.append(f"The agent learned from {len(accepted):,} of {len(data.rounds):,} rounds.")
    return Evaluation({"replay": estimate}, "replay", reward, {}, findings, data.notes)


def check_settings(learning: Any, clip: Any, folds: Any) -> Settings:
    """Validate the options of an evaluation."""
    limit = None if clip is None else check_number("clip", clip, 0, error=PolicyError, above=True)
    return Settings(
        check_flag("learning", learning, PolicyError), limit, check_whole("folds", folds, 2, 20, PolicyError)
    )
