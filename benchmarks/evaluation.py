"""Off-policy evaluation: errors and coverage of estimators in simulated worlds, and on the Open Bandit logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic
from idbandits.circuit.model import Model, compile
from idbandits.logs.evaluate.clusters import clusters_of
from idbandits.logs.evaluate.estimators import Settings
from idbandits.logs.evaluate.importance import Weights, weighted
from idbandits.logs.evaluate.logged_columns import propensities_of
from idbandits.logs.evaluate.policy_value import evaluate_rounds
from idbandits.logs.evaluate.target import groups_of, target_of
from idbandits.logs.evaluate.term_values import observed_terms
from idbandits.logs.rounds import Rounds

LOGS, ROUNDS, ITEMS, POSITIONS = 20, 5000, 8, 3
RIGHT = ("cascade", "position_based", "user_browsing")
WRONG = (("cascade", "position_based"), ("position_based", "cascade"), ("user_browsing", "position_based"))
PEERS = ("SIPS", "IIPS", "RIPS")
OURS = ("direct method", "stagewise DR", "doubly robust", "CDR")
OPEN_BANDIT = "open-bandit"
CAMPAIGNS = {"all": 80, "men": 34}  # number of items


class Case(NamedTuple):
    """Log of a world, evaluated with a diagram."""

    world: str
    diagram: str
    seed: int
    rounds: int = ROUNDS


class Errors(NamedTuple):
    """Errors of estimates by name, and whether their intervals cover the true value."""

    errors: dict[str, float]
    covered: dict[str, bool]


def diagram(model: str) -> idb.Diagram:
    """Return a model of lists by name; the reward is the number of clicks."""
    d: idb.Diagram = getattr(idb.models, model)(ITEMS, POSITIONS)
    return d


def played(d: idb.Diagram, means: Any, choices: Any, seed: int) -> tuple[Model, Rounds]:
    """Return the rounds of given actions in a world."""
    model, world = compile(d), idb.World(d, means, seed=seed)
    seen = np.empty((len(choices), len(model.observed)), np.int64)
    for i, row in enumerate(choices):
        outcome = world.step(model.action_of(row))
        seen[i] = [outcome.observation[node.name] for node in model.observed]
    return model, Rounds(choices, seen, np.arange(len(choices)))


def run(case: Case) -> Errors:
    """Evaluate a random policy of five lists on one log of uniformly random lists."""
    rng = np.random.default_rng([case.seed, *map(ord, case.world)])
    d = diagram(case.world)
    means = {name: rng.uniform(0.05, 0.7, table.means_shape) for name, table in d.learned.items()}
    choices = np.array([rng.permutation(ITEMS)[:POSITIONS] for _ in range(case.rounds)])
    true_model, rounds = played(d, means, choices, case.seed)
    shares = rng.dirichlet(np.ones(5))
    names = [node.name for node in true_model.decisions]
    lists = [dict(zip(names, rng.permutation(ITEMS)[:POSITIONS].tolist(), strict=True)) for _ in shares]
    policy = list(zip(lists, shares.tolist(), strict=True))
    truth = sum(share * idb.expected_reward(d, action, means) for action, share in policy)
    model = compile(diagram(case.diagram))
    result = evaluate_rounds(lambda _: policy, model, rounds, "uniform", Settings(), seed=case.seed)
    errors = {name: own.value - truth for name, own in result.estimates.items()}
    covered = {name: own.low <= truth <= own.high for name, own in result.estimates.items()}
    return Errors(errors | peers(model, rounds, policy, truth), covered)


def peers(model: Model, rounds: Rounds, policy: Any, truth: float) -> dict[str, float]:
    """Return the errors of SIPS, IIPS and RIPS."""
    rng, groups = np.random.default_rng(0), groups_of(model, rounds)
    target = target_of(lambda _: policy, model, rounds, groups, rng)
    logged = propensities_of("uniform", model, rounds, groups, rng)
    weights = Weights(POSITIONS, lambda places: target.of(places, rounds.choices), logged.of)
    terms, clusters = observed_terms(model, rounds.choices, rounds.seen), clusters_of(rounds)
    every = tuple(range(POSITIONS))
    sets: dict[str, list[tuple[int, ...]]] = {
        "SIPS": [every] * POSITIONS,
        "IIPS": [(k,) for k in every],
        "RIPS": [every[: k + 1] for k in every],
    }
    return {name: clusters.mean(weighted(terms, own, weights).values) - truth for name, own in sets.items()}


def _rows(data: Path, quick: bool) -> Iterator[Row]:
    logs = 4 if quick else LOGS
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for world, own in [*((name, name) for name in RIGHT), *WRONG]:
            cases = [Case(world, own, seed) for seed in range(logs)]
            yield row_of(world, own, list(pool.map(run, cases)))
    yield from open_bandit(data)


def row_of(world: str, own: str, runs: Sequence[Errors]) -> Row:
    """Return the root mean squared errors of all estimators in one world, and targets that are missed."""
    square = {name: float(np.mean([run.errors[name] ** 2 for run in runs])) for name in (*PEERS, *OURS)}
    covered = sum(run.covered["doubly robust"] for run in runs)
    best = min(square[name] for name in PEERS)
    limit = best / 2 if world == own else square["SIPS"]
    missed = (
        [] if square["doubly robust"] <= limit else [f"MSE of DR is {square['doubly robust'] / limit:.2f} of its limit"]
    )
    cells = [f"{world}, evaluated as {own}", *(f"{1000 * np.sqrt(square[name]):.1f}" for name in (*PEERS, *OURS))]
    return Row([*cells, f"{square['doubly robust'] / (best if world == own else square['SIPS']):.2f}",
                f"{covered} of {len(runs)}"], missed)  # fmt: skip


def open_bandit(data: Path) -> Iterator[Row]:
    """Yield the errors in the Open Bandit logs: value of one policy from the log of the other, less that on policy."""
    if not (data / OPEN_BANDIT).is_dir():
        yield Row(
            ["Open Bandit, not measured", *["–"] * (len(PEERS) + len(OURS) + 2)],
            [f"{OPEN_BANDIT} not found; pass its folder as --data"],
        )
        return
    for campaign, items in CAMPAIGNS.items():
        logs = {name: _impressions(data / OPEN_BANDIT / f"{name}_{campaign}.csv.gz") for name in ("random", "bts")}
        for logging, target in (("random", "bts"), ("bts", "random")):
            yield _open_bandit_row(
                f"Open Bandit {campaign}, {target} from {logging}", items, logs[logging], logs[target]
            )


def _impressions(file: Path) -> Any:
    import pandas as pd

    return pd.read_csv(file)[["position", "item_id", "click", "propensity_score"]]


def _open_bandit_row(name: str, items: int, logged: Any, played: Any) -> Row:
    d = idb.Diagram("impression")
    parents = d.context("position", [1, 2, 3]), d.decision("item_id", items)
    d.reward(d.observed("click", parents, idb.Learned("click", pooled=True)))
    policy = {k: list(own["item_id"].value_counts(normalize=True).items()) for k, own in played.groupby("position")}
    result = idb.evaluate(policy, logged, d, propensity="propensity_score", seed=0)
    truth, own = played["click"].mean(), result.estimates
    error = 1.96 * played["click"].std() / np.sqrt(len(played))
    agree = {name: bool(e.low <= truth + error and e.high >= truth - error) for name, e in own.items()}
    names = ("SIPS", None, None, "direct method", None, "doubly robust", "CDR")
    cells = ["–" if key is None else f"{1000 * abs(own[key].value - truth):.2f}" for key in names]
    checked = ("IPS", "direct method", "doubly robust")
    missed = [f"interval of {key} does not overlap that on policy" for key in checked if not agree[key]]
    return Row([name, *cells, "–", "yes" if agree["doubly robust"] else "no"], missed)


def topic(data: Path) -> Topic:
    """Return the topic for data in a folder."""
    return Topic(
        "Off-policy evaluation",
        f"Root mean squared errors, times 1,000, of the value of a random policy over five lists, from {LOGS} logs of "
        f"{ROUNDS:,} uniformly random lists ({ITEMS} items, {POSITIONS} positions). The mean squared error of the "
        "doubly robust estimate must be at most half the best of SIPS, IIPS and RIPS if the diagram is right, and at "
        "most that of SIPS if it is wrong; its 95 % intervals must cover in 90 to 99 % of logs. Open Bandit: absolute "
        "errors, times 1,000, relative to the mean click rate of the policy's own log (10,000 impressions each), and "
        "whether the two intervals overlap.",
        ("world and diagram", *PEERS, *OURS, "DR / best", "covered"),
        partial(_rows, data),
    )
