"""Contexts with features: what is learned of coefficients and residuals, and what agents and worlds do with requests."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crafted_files
import idbandits as idb
from error_checks import assert_raises, assert_rejected_by
from idbandits.errors import (
    ActionError,
    ContextError,
    DiagramError,
    FormatError,
    IdbanditsError,
    ImpossibleObservationError,
    MeansError,
    ObservationError,
    TableError,
)
from idbandits.inference.regression.logistic_setup import Coefficients, coefficients_of
from idbandits.kernel.array_types import Floats, Rng

ITEMS = [f"i{k}" for k in range(12)]
LINES = np.random.default_rng(5).normal(size=(len(ITEMS), 2))
FRAME = pd.DataFrame(LINES, columns=["price", "size"], index=ITEMS)
USER = {"age": (40, 15), "country": ["de", "fr", "it"]}


def shop(positions: int = 1, items: list[str] = ITEMS, user: Any = USER, **settings: Any) -> idb.Diagram:
    """Items with features at positions, which users with features click on."""
    d = idb.Diagram("shop")
    context = d.context("user", features=user)
    table = idb.Learned("click", **({"features": FRAME, "products": True} | settings))
    for k in range(positions):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", items), context], table))
    if positions > 1:
        d.all_different()
    return d


def examined(positions: int) -> idb.Diagram:
    """Return a shop in which a position has to be examined, which is latent: the first one always is."""
    d = idb.Diagram("examined")
    user = d.context("user", features=USER)
    table, examination = (
        idb.Learned("click", features=FRAME, products=True),
        idb.Learned("examination", rows=positions, fixed={0: 1.0}),
    )
    for k in range(positions):
        attracted = d.latent(f"L{k}", [d.decision(f"A{k}", ITEMS), user], table)
        seen = d.latent(f"E{k}", [], examination[k])
        d.reward(d.observed(f"C{k}", [attracted, seen], lambda a, e: float(a and e)))
    d.all_different()
    return d


def drawn_user(rng: Rng) -> dict[str, Any]:
    return {"age": float(rng.normal(40, 15)), "country": ["de", "fr", "it"][rng.integers(3)]}


def lines_of(d: idb.Diagram, user: dict[str, Any]) -> Floats:
    """Return the numbers that coefficients are multiplied with, of all rows."""
    logistic = d.learned["click"].logistic
    assert logistic is not None
    request = np.array(logistic.request.encoded("user", user))
    return np.array([logistic.line(k, request) for k in range(d.learned["click"].size // 2)])


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def believed(agent: idb.Thompson) -> Coefficients:
    return coefficients_of(agent.learner.evidence, agent.state, "click")


def laplace(lines: Floats, clicks: Floats) -> tuple[Floats, Floats]:
    """The mode and the covariance of a Bayesian logistic regression, by Newton's method."""
    precision = np.diag([1 / 9.0] + [1 / SLOPES_SD**2] * (lines.shape[1] - 1))
    mode = np.zeros(lines.shape[1])
    for _ in range(15):
        p = sigmoid(lines @ mode)
        hessian = (lines * (p * (1 - p))[:, None]).T @ lines + precision
        mode = mode + np.linalg.solve(hessian, lines.T @ (clicks - p) - precision @ mode)
    return mode, np.linalg.inv(hessian)


SLOPES_SD = 1.5 / np.sqrt(11)  # prior sd of each of eleven coefficients beside the constant
TRUTH = np.array([-0.5, 0.8, -0.6, 0.5, -0.7, 0.4, 0.5, -0.5, 0.3, 0.6, 0.2, -0.4])


def taught(agent: idb.Thompson, rounds: int, seed: int = 0, examination: Any = (1.0,), own: Any = 0.0) -> Any:
    """Return an agent after rounds of random actions, and all lines and clicks."""
    d, rng, lines, clicks = agent.diagram, np.random.default_rng(seed), [], []
    decisions = [node.name for node in d.of_kind("decision")]
    for _ in range(rounds):
        user, places = drawn_user(rng), rng.permutation(len(ITEMS))[: len(decisions)]
        own_lines = lines_of(d, user)
        chances = sigmoid(own_lines @ TRUTH[: own_lines.shape[1]] + own)[places] * np.asarray(examination)
        seen = (rng.random(len(places)) < chances).astype(int)
        action = {name: ITEMS[k] for name, k in zip(decisions, places, strict=True)}
        agent.update(action, {f"C{k}": int(c) for k, c in enumerate(seen)}, {"user": user})
        lines += [own_lines[k] for k in places]
        clicks += seen.tolist()
    return np.array(lines), np.array(clicks, dtype=float)


# -- what is learned -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["exact", "moments", "incremental"])
def test_coefficients_are_those_of_a_bayesian_logistic_regression(inference: str) -> None:
    agent = idb.Thompson(shop(), inference, seed=0)
    lines, clicks = taught(agent, 2000)
    mode, covariance = laplace(lines, clicks)
    own, deviations = believed(agent), np.sqrt(np.diag(covariance))
    assert own.names[:4] == ("(constant)", "price", "size", "user.age")
    assert np.abs((own.mean - mode) / deviations).max() < 0.5
    assert np.abs(np.sqrt(np.diag(own.covariance)) / deviations - 1).max() < 0.06
    correlations = [c / np.outer(np.sqrt(np.diag(c)), np.sqrt(np.diag(c))) for c in (own.covariance, covariance)]
    assert np.abs(correlations[0] - correlations[1]).max() < 0.15  # precisions are by what was seen, not by its mean


def test_a_constant_alone_is_a_conjugate_belief() -> None:
    d = idb.Diagram("door")
    d.reward(d.observed("click", [d.decision("A", 1), d.context("user", features=["x"])]))
    agent = idb.Thompson(d, "exact")
    for seen in [1, 0, 0, 1, 0]:
        agent.update({"A": 0}, {"click": seen}, {"user": {}})
    start = 2 / 9  # the pseudo-counts that stand for a normal logit with standard deviation 3
    assert agent.posterior()["click"].alpha.ravel() == pytest.approx([start + 3, start + 2])


def test_several_rows_of_a_round_are_learned_as_if_one_after_the_other() -> None:
    agent = idb.Thompson(shop(4), "exact", seed=0)
    mode, covariance = laplace(*taught(agent, 600))
    own, deviations = believed(agent), np.sqrt(np.diag(covariance))
    assert np.abs((own.mean - mode) / deviations).max() < 0.5
    assert np.abs(np.sqrt(np.diag(own.covariance)) / deviations - 1).max() < 0.06


def test_coefficients_are_found_behind_latent_examination() -> None:
    examination = np.array([1.0, 0.6, 0.3])
    agent = idb.Thompson(examined(3), seed=0)
    assert "moments" in repr(agent)
    taught(agent, 6000, examination=examination)
    own = believed(agent)
    assert np.abs(own.mean - TRUTH).max() < 0.3
    assert agent.posterior()["examination"].mean == pytest.approx(examination, abs=0.05)
    blind = idb.Thompson(shop(3), seed=0)  # without examination, coefficients are those of clicks
    taught(blind, 2000, examination=examination)
    assert np.abs(believed(blind).mean - TRUTH).max() > 0.4


def test_residuals_find_what_an_item_has_of_its_own() -> None:
    own = np.zeros(len(ITEMS))
    own[3] = 2.0
    agent = idb.Thompson(shop(residuals=1.0), "exact", seed=0)
    taught(agent, 4000, own=own)
    found = believed(agent)
    assert int(np.argmax(found.residual_mean)) == 3
    assert found.residual_mean[3] > 1.0
    assert np.abs(np.delete(found.residual_mean, 3)).max() < 0.8
    assert (found.residual_variance < 0.2).all()
    assert found.residual_variance.min() > 0


def test_rows_without_features_differ_by_residuals_alone() -> None:
    agent = idb.Thompson(shop(features=None, products=False, residuals=1.5), "exact", seed=0)
    own = np.linspace(-2, 2, len(ITEMS))
    taught(agent, 3000, own=own)
    assert np.corrcoef(believed(agent).residual_mean, own)[0, 1] > 0.95


def test_intervals_cover_at_their_nominal_rate() -> None:
    """In 80 worlds drawn from the prior, 90 % intervals of coefficients covered 90 to 92 %, after 30 and 300 rounds."""
    covered = list[Any]()
    for seed in range(40):
        d, rng = shop(), np.random.default_rng(seed)
        agent, truth = idb.Thompson(d, seed=seed), SLOPES_SD * rng.normal(size=len(TRUTH))
        truth[0] = 3 * rng.normal()
        for _ in range(100):
            lines = lines_of(d, user := drawn_user(rng))
            k = ITEMS.index(str(agent.act({"user": user})["A0"]))
            agent.update({"A0": ITEMS[k]}, {"C0": int(rng.random() < sigmoid(lines[k] @ truth))}, {"user": user})
        own = believed(agent)
        covered.append(np.abs(truth - own.mean) < 1.645 * np.sqrt(np.diag(own.covariance)))
    assert 0.85 < np.mean(covered) < 0.96  # of 480 coefficients: a standard error of 0.014, if they were independent


def test_tables_of_all_kinds_live_in_one_diagram(tmp_path: Path) -> None:
    d = idb.Diagram("kinds")
    user, page, device = (
        d.context("user", features=["x"]),
        d.context("page", features=["y", "z"]),
        d.context("device", 2),
    )
    item = d.decision("item", ITEMS)
    by_user, by_page = idb.Learned("by user", residuals=1.0), idb.Learned("by page", features=FRAME)
    d.observed("before", [item, device])
    d.reward(d.observed("A", [item, user, device], by_user))
    d.observed("between", [item], idb.Learned("between", features=FRAME))
    d.reward(d.observed("B", [page, item], by_page))
    agent, rng = idb.Thompson(d, seed=0), np.random.default_rng(0)
    for _ in range(300):
        context: dict[str, Any] = {"user": {"x": rng.normal()}, "page": {"y": 1.0, "z": rng.normal()}, "device": 1}
        z, action = context["page"]["z"], agent.act(context)
        seen = {"A": int(rng.random() < sigmoid(2 * context["user"]["x"])), "B": int(rng.random() < sigmoid(-2 * z))}
        agent.update(action, seen | {"before": 0, "between": 1}, context)
    own, other = agent.posterior()["by user"].regression, agent.posterior()["by page"].regression
    assert own is not None
    assert other is not None
    assert own.names == ("(constant)", "user.x")
    assert abs(own.coefficients[1] - 2) < 4 * own.sd[1]
    assert abs(other.coefficients[other.names.index("page.z")] + 2) < 4 * other.sd[-1]
    assert agent.posterior()["before"].rounds.sum() == pytest.approx(300)
    agent.save(tmp_path / "agent")
    again = idb.Thompson.load(tmp_path / "agent")
    assert [again.act(context) for _ in range(20)] == [agent.act(context) for _ in range(20)]


def test_a_request_that_no_table_depends_on_changes_nothing() -> None:
    d = idb.Diagram("idle")
    d.context("user", features=["x"])
    d.reward(d.observed("heads", [d.decision("coin", 3)]))
    agent = idb.Thompson(d, seed=0)
    for _ in range(50):
        action = agent.act({"user": {"x": 1}})
        agent.update(action, {"heads": int(action["coin"] == 1)}, {"user": {"x": 1}})
    agent.update_many({"coin": [1], "heads": [1], "x": [3.0]})
    assert agent.best_action({"user": {}}).action == {"coin": 1}
    assert_rejected_by(agent, ContextError, ("'user'", "'y'"), lambda: agent.act({"user": {"y": 1}}))


def test_rows_that_a_round_does_not_show_are_not_learned_of() -> None:
    agent = idb.Thompson(shop(2), "exact", seed=0)
    before = agent.state.copy()
    agent.update({"A0": "i0", "A1": "i1"}, {}, {"user": {"age": 20}})
    assert np.array_equal(agent.state.fits, before.fits)
    assert agent.rounds == 1


def test_nothing_is_learned_from_a_round_that_cannot_be() -> None:
    d = shop()
    d.observed("sold", ["C0"], [0.0, 0.5])
    agent = idb.Thompson(d, seed=0)
    action, user = {"A0": "i0"}, {"user": {"age": 50}}
    agent.update(action, {"C0": 1, "sold": 1}, user)
    impossible: Callable[[], Any] = lambda: agent.update(action, {"C0": 0, "sold": 1}, user)  # noqa: E731
    assert_rejected_by(agent, ImpossibleObservationError, ("sold",), impossible)


# -- acting --------------------------------------------------------------------------------------------------------


def test_actions_are_drawn_from_the_belief_for_the_request() -> None:
    agent, user = idb.Thompson(shop(residuals=0.3), "exact", seed=0), {"age": 70, "country": "it"}
    taught(agent, 300)
    own, rng, lines = believed(agent), np.random.default_rng(1), lines_of(agent.diagram, user)
    coefficients = rng.multivariate_normal(own.mean, own.covariance, size=20_000)
    residuals = rng.normal(own.residual_mean, np.sqrt(own.residual_variance), size=(20_000, len(ITEMS)))
    shares = np.bincount(np.argmax(coefficients @ lines.T + residuals, axis=1), minlength=len(ITEMS)) / 20_000
    found = agent.marginals({"user": user}, draws=20_000).probability["A0"].to_numpy()
    assert np.abs(found - shares).max() < 0.015
    most = ITEMS[int(np.argmax(shares))]
    assert agent.propensity({"A0": most}, {"user": user}, draws=5000).probability == pytest.approx(
        shares.max(), abs=0.03
    )
    best = agent.best_action({"user": user})
    logits = lines @ own.mean + own.residual_mean
    assert best.action == {"A0": ITEMS[int(np.argmax(logits))]}
    assert best.value == pytest.approx(sigmoid(logits.max()))
    only = agent.act({"user": user}, allowed=["i4"])
    assert only == {"A0": "i4"}


def test_posterior_and_draws_are_those_of_a_request_without_features() -> None:
    agent = idb.Thompson(shop(residuals=0.5), "exact", seed=0)
    taught(agent, 500)
    agent.act({"user": {"age": 80}})
    own, lines = believed(agent), lines_of(agent.diagram, {})
    posterior = agent.posterior()["click"]
    logits = lines @ own.mean + own.residual_mean
    variances = np.einsum("ki,ij,kj->k", lines, own.covariance, lines) + own.residual_variance
    assert posterior.mean.ravel() == pytest.approx(sigmoid(logits))
    alpha = posterior.alpha.reshape(-1, 2)
    assert alpha.prod(axis=1) / alpha.sum(axis=1) == pytest.approx(1 / variances)
    assert np.isnan(posterior.rounds).all()
    draws = agent.draws(4000)["click"][:, :, 0]
    assert np.log(draws / (1 - draws)).mean(axis=0) == pytest.approx(logits, abs=0.06)
    assert np.log(draws / (1 - draws)).std(axis=0) == pytest.approx(np.sqrt(variances), rel=0.06)
    assert agent.sample()["click"].shape == (len(ITEMS), 1)


def regret_of(seed: int, agent: idb.Thompson | None, rounds: int = 300) -> float:
    """The regret of an agent, or of Thompson sampling by a logistic regression that is fitted to all rounds."""
    d, rng, regret = shop(), np.random.default_rng(seed), 0.0
    lines, clicks = list[Floats](), list[float]()
    mode, covariance = laplace(np.zeros((1, len(TRUTH))), np.full(1, 0.5))
    for t in range(rounds):
        user = drawn_user(rng)
        own = lines_of(d, user)
        chances = sigmoid(own @ TRUTH)
        if agent is not None:
            k = ITEMS.index(str(agent.act({"user": user})["A0"]))
            agent.update({"A0": ITEMS[k]}, {"C0": int(rng.random() < chances[k])}, {"user": user})
        else:
            k = int(np.argmax(own @ rng.multivariate_normal(mode, covariance)))
            lines.append(own[k])
            clicks.append(float(rng.random() < chances[k]))
            if t < 50 or t % 10 == 0:
                mode, covariance = laplace(np.array(lines), np.array(clicks))
        regret += float(chances.max() - chances[k])
    return regret


def test_regressions_show_coefficients_and_means_for_any_request() -> None:
    d = shop(residuals=0.5, fixed={"i5": 0.25})
    agent, user = idb.Thompson(d, "exact", seed=0), {"age": 20, "country": "fr"}
    taught(agent, 200)
    own, regression = believed(agent), agent.posterior()["click"].regression
    assert regression is not None
    logits = lines_of(d, user) @ own.mean + own.residual_mean
    expected = sigmoid(logits)
    expected[5] = 0.25
    assert regression.means(user).ravel() == pytest.approx(expected)
    assert agent.posterior()["click"].mean[5, 0] == 0.25
    frame = regression.to_frame().set_index("feature")
    assert frame.loc["price × user.age", "mean"] == pytest.approx(own.mean[own.names.index("price × user.age")])
    assert (frame["5 %"] < frame["mean"]).all()
    assert "12 coefficients" in repr(regression)
    assert_raises(ContextError, ("'user'", "'agee'"), lambda: regression.means({"agee": 3}))
    plain = idb.Thompson(idb.models.cascade(3, 2)).posterior()["attraction"]
    assert plain.regression is None


def test_regret_is_that_of_a_plain_logistic_sampler() -> None:
    """In 20 runs of 400 rounds it was 21.7, with a standard error of 0.7, against 21.2 with one of 0.9."""
    own = np.mean([regret_of(seed, idb.Thompson(shop(), seed=seed)) for seed in range(6)])
    plain = np.mean([regret_of(seed, None) for seed in range(6)])
    assert own < 1.4 * plain


# -- agents go on --------------------------------------------------------------------------------------------------


def test_copies_and_files_go_on_as_if_nothing_happened(tmp_path: Path) -> None:
    agent = idb.Thompson(shop(2, residuals=0.4), seed=0)
    taught(agent, 50)
    agent.save(tmp_path / "agent")
    others = [
        agent.copy(),
        copy.deepcopy(agent),
        pickle.loads(pickle.dumps(agent)),
        idb.Thompson.load(tmp_path / "agent"),
    ]
    rng = np.random.default_rng(3)
    for _ in range(20):
        user = {"user": drawn_user(rng)}
        action = agent.act(user)
        assert all(other.act(user) == action for other in others)
        for each in (agent, *others):
            each.update(action, {"C0": 1, "C1": 0}, user)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(agent.state[:3], other.state[:3], strict=True))


def test_the_last_request_is_not_kept(tmp_path: Path) -> None:
    agent = idb.Thompson(shop(), seed=0)
    agent.act({"user": {"age": 31}})
    agent.update({"A0": "i0"}, {"C0": 1}, {"user": {"age": 31}})
    agent.best_action({"user": {"age": 31}})
    assert not agent.state.fits[: len(agent.diagram.nodes["user"].features.columns)].any()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "how",
    ["frame", "polars", "lazy", "arrow", "batch", "categories", "structs", "dotted", "named", "mappings", "parts"],
)
def test_logs_have_columns_of_features(how: str) -> None:
    rng, d = np.random.default_rng(0), shop()
    log = pd.DataFrame([drawn_user(rng) for _ in range(40)])
    log["country"] = log["country"].where(rng.random(40) < 0.8, None)
    log["A0"], log["C0"] = rng.choice(ITEMS, 40), rng.integers(0, 2, 40)
    one_by_one, at_once = (idb.Thompson(d, "exact", seed=0) for _ in range(2))
    for line in log.to_dict("records"):
        user = {"age": line["age"], "country": line["country"]}
        one_by_one.update({"A0": line["A0"]}, {"C0": line["C0"]}, {"user": user})
    users = log[["age", "country"]]
    calls: dict[str, tuple[Any, ...]] = {
        "frame": (log,), "polars": (pl.from_pandas(log),), "lazy": (pl.from_pandas(log).lazy(),),
        "arrow": (pa.Table.from_pandas(log),), "batch": (pa.RecordBatch.from_pandas(log),),
        "categories": (pa.Table.from_pandas(log.astype({"country": "category", "A0": "category"})),),
        "structs": (pl.from_pandas(log).select("A0", "C0", user=pl.struct("age", "country")),),
        "dotted": (log.rename(columns={"age": "user.age"}),), "named": (log.rename(columns={"age": "AGE"}),),
        "mappings": (log[["A0"]], log[["C0"]], {"user": users.to_dict("records")}),
        "parts": (log[["A0"]], log[["C0"]], {"user": users}),
    }  # fmt: skip
    columns = {"user": {"age": "AGE"}} if how == "named" else None
    assert at_once.update_many(*calls[how], columns=columns).rounds == 40
    assert np.array_equal(one_by_one.state.fits, at_once.state.fits)


def test_a_lazy_log_with_features_is_collected_once() -> None:
    collected = []

    def note(frame: pl.DataFrame) -> pl.DataFrame:
        collected.append(frame.columns)
        return frame

    log = pl.LazyFrame({"A0": ["i0", "i1"], "C0": [0, 1], "age": [30, 40], "other": [1, 2]})
    agent = idb.Thompson(shop(), seed=0)
    agent.update_many(log.map_batches(note, streamable=False), columns={})
    assert agent.rounds == 2
    assert len(collected) == 1
    log = log.with_columns(age=pl.col("other").cast(pl.String).str.to_integer(base=2))
    assert_rejected_by(agent, ActionError, ("actions", "lazy frame"), lambda: agent.update_many(log, columns={}))


def test_logs_that_are_wrong_are_rejected() -> None:
    agent = idb.Thompson(shop(), seed=0)
    log = pd.DataFrame({"A0": ["i0", "i1"], "C0": [0, 1], "age": [30, 40]})
    for wrong, words in [
        (log.drop(columns="age"), ("'user'", "age, country")),
        (log.assign(age=["x", 1]), ("'user'", "round 0", "'age'", "'x'")),
        (log.assign(country=[["de"], "fr"]), ("'country'", "['de']")),
    ]:
        assert_rejected_by(agent, ContextError, words, lambda wrong=wrong: agent.update_many(wrong))  # type: ignore[misc]
    for user in (5e-324, "de", None, np.zeros((2, 2))):
        flat: Callable[[], Any] = lambda user=user: agent.update_many(log[["A0"]], log[["C0"]], {"user": user})  # type: ignore[misc]  # noqa: E731
        assert_rejected_by(agent, ContextError, ("'user'", "cannot be read"), flat)
    short: Callable[[], Any] = lambda: agent.update_many(log[["A0"]], log[["C0"]], {"user": {"age": [1]}})  # noqa: E731
    assert_rejected_by(agent, ContextError, ("'user'", "1 rounds", "2"), short)


def test_columns_of_features_that_do_not_exist_are_rejected() -> None:
    agent = idb.Thompson(shop(), seed=0)
    log = pd.DataFrame({"A0": ["i0", "i1"], "C0": [0, 1], "age": [30, 40], "AGE": [3, 4]})
    for columns, error, words in [
        ({"user": {"agee": "age"}}, IdbanditsError, ("columns", "'agee'", "'user'", "age, country")),
        ({"user": {"age": "agee"}}, ContextError, ("columns", "'agee'", "'age'", "'user'", "'AGE'")),
        ({"user": {"age": ["age"]}}, ContextError, ("columns", "'age'", "'user'", "['age']")),
        ({"user": "age"}, IdbanditsError, ("columns", "'user'", "mapping", "age, country", "'age'")),
        ({"usr": {"age": "age"}}, IdbanditsError, ("columns", "'usr'", "A0, user, C0")),
        ({"user": {"age": "age"}, "C0": "clicked"}, ObservationError, ("'clicked'", "'C0'")),
    ]:
        for frame in (log, pl.from_pandas(log), pl.from_pandas(log).lazy(), pa.Table.from_pandas(log)):
            do: Callable[[], Any] = lambda f=frame, c=columns: agent.update_many(f, columns=c)  # type: ignore[misc]  # noqa: E731
            assert_rejected_by(agent, error, words, do)
    nested: Callable[[], Any] = lambda: agent.update_many(  # noqa: E731
        log[["A0"]], log[["C0"]], {"user": {"agee": [30, 40], "country": ["de", "fr"]}}
    )
    assert_rejected_by(agent, ContextError, ("'user'", "'agee'", "age, country"), nested)
    flat: Callable[[], Any] = lambda: agent.update_many(log[["A0"]], log[["C0"]], {"agee": [30, 40]})  # noqa: E731
    assert_rejected_by(agent, ContextError, ("'agee'", "user.age, user.country", "columns="), flat)
    twice = pd.DataFrame([["i0", 1, 30, 31]], columns=["A0", "C0", "age", "age"])
    assert_rejected_by(agent, ContextError, ("'user'", "'age'", "twice"), lambda: agent.update_many(twice, columns={}))
    one_by_one = agent.copy()
    agent.update_many(log, columns={"user": {"age": "AGE"}})
    one_by_one.update_many(log[["A0", "C0"]].assign(age=log["AGE"]))
    assert np.array_equal(one_by_one.state.fits, agent.state.fits)


def test_columns_of_a_design_have_different_names() -> None:
    colliding: list[Any] = [{"a": ["x", "y"], "a=y": None}, {"a=y": None, "a": ["x", "y"]}, {"a": [0, 1, "1"]}]
    for features in colliding:
        d = idb.Diagram("names")
        assert_raises(
            DiagramError, ("'user'", "different names", "'a="), lambda f=features, d=d: d.context("user", features=f)
        )  # type: ignore[misc]
    assert len(idb.Diagram("names").context("user", features={"a": ["x", "y"], "a=x": None}).features.columns) == 2  # type: ignore[union-attr]
    d = idb.Diagram("names")
    user, item = d.context("user", features=["age"]), d.decision("item", 3)
    own = idb.Learned("table", features={"item": pd.DataFrame({"user.age": [1, 2, 3]})})
    assert_raises(DiagramError, ("'table'", "'user.age'"), lambda: d.observed("seen", [item, user], own))


def test_what_was_learned_fades_towards_the_prior() -> None:
    agent = idb.Thompson(shop(residuals=1.0), "exact", seed=0, forget=idb.Forget(half_life=10))
    taught(agent, 60)
    before = believed(agent)
    for _ in range(10):
        agent.update({"A0": "i0"}, {}, {"user": {}})
    after, prior = believed(agent), believed(idb.Thompson(shop(residuals=1.0), "exact"))
    precisions = [np.linalg.inv(c.covariance) for c in (before, after, prior)]
    assert precisions[1] == pytest.approx(0.5 * precisions[0] + 0.5 * precisions[2], rel=1e-6)
    shifts = [p @ c.mean for p, c in zip(precisions, (before, after, prior), strict=True)]
    assert shifts[1] == pytest.approx(0.5 * shifts[0] + 0.5 * shifts[2], rel=1e-6)
    assert 1 / after.residual_variance == pytest.approx(0.5 / before.residual_variance + 0.5)
    for _ in range(400):
        agent.update({"A0": "i0"}, {}, {"user": {}})
    assert believed(agent).covariance == pytest.approx(prior.covariance, abs=1e-6)


def test_a_rejected_round_does_not_fade_anything() -> None:
    d = shop()
    d.observed("sold", ["C0"], [0.0, 0.5])
    agent = idb.Thompson(d, "exact", seed=0, forget=idb.Forget(half_life=4))
    for _ in range(20):
        agent.update({"A0": "i0"}, {"C0": 1, "sold": 0}, {"user": {"age": 50}})
        impossible: Callable[[], Any] = lambda: agent.update({"A0": "i1"}, {"C0": 0, "sold": 1}, {"user": {}})  # noqa: E731
        assert_rejected_by(agent, ImpossibleObservationError, ("sold",), impossible)


def test_agents_move_with_their_coefficients() -> None:
    agent = idb.Thompson(shop(items=ITEMS[:8], residuals=0.5), "exact", seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        user = {"user": drawn_user(rng)}
        agent.update(action := agent.act(user), {"C0": int(action["A0"] == "i2")}, user)
    before = believed(agent)
    user = USER | {"premium": None}
    moved = agent.moved_to(shop(items=ITEMS[2:], residuals=0.5, user=user, products=False))
    after = believed(moved)
    names = [name for name in after.names if name in before.names]
    here, there = [after.names.index(n) for n in names], [before.names.index(n) for n in names]
    assert len(names) == 6
    assert after.mean[here] == pytest.approx(before.mean[there])
    assert after.covariance[np.ix_(here, here)] == pytest.approx(before.covariance[np.ix_(there, there)])
    place = after.names.index("user.premium")
    assert (after.mean[place], after.covariance[place, place]) == pytest.approx((0.0, 1.5**2 / 6))
    assert after.residual_mean[:6] == pytest.approx(before.residual_mean[2:])
    assert (after.residual_mean[6:], after.residual_variance[6:]) == (
        pytest.approx(np.zeros(4)),
        pytest.approx(0.25 * np.ones(4)),
    )
    moved.update(moved.act({"user": {"premium": 1}}), {"C0": 0}, {"user": {"premium": 1}})
    assert moved.rounds == 201


def test_files_with_impossible_beliefs_are_rejected(tmp_path: Path) -> None:
    agent = idb.Thompson(shop(residuals=0.5), "exact", seed=0)
    taught(agent, 20)
    size, path = len(believed(agent).names), tmp_path / "agent"
    request = len(agent.diagram.nodes["user"].features.columns)  # type: ignore[union-attr]
    for place, value, words in [
        (0, 1.0, ("request",)),
        (request + size, 0.0, ("'click'", "precision")),
        (request + size, -2.0, ("'click'", "precision")),
        (request + 2 * size, 1.0, ("'click'", "precision")),  # below the diagonal
        (-1, -1.0, ("'click'", "residuals")),
        (-1, 0.0, ("'click'", "residuals")),
        (request, np.nan, ("fits",)),
    ]:
        path.write_bytes(crafted_files.with_number(crafted_files.parts_of(agent, path), "fits", place, value))
        assert_raises(FormatError, words, lambda: idb.Thompson.load(path))
    agent.state.fits[request] = np.nan
    assert_raises(FormatError, ("fits",), lambda: agent.save(path))


# -- worlds --------------------------------------------------------------------------------------------------------


def world_of(d: idb.Diagram, seed: int = 0) -> idb.World:
    truth = {"click": lambda user: sigmoid(lines_of(d, user) @ TRUTH)}
    return idb.World(d, truth, seed=seed, contexts={"user": drawn_user})


def test_worlds_draw_requests_and_their_means() -> None:
    d = shop()
    world = world_of(d)
    for _ in range(5):
        context = world.context()
        chances = sigmoid(lines_of(d, context["user"]) @ TRUTH)  # type: ignore[arg-type]
        assert world.means["click"].ravel() == pytest.approx(chances)
        assert world.best(context).value == pytest.approx(chances.max())
        outcome = world.step({"A0": "i3"}, context)
        assert outcome.context == context
        assert outcome.regret == pytest.approx(chances.max() - chances[3])
    contexts = [world.context() for world in (world_of(d, 1), world_of(d, 1), world_of(d, 1).copy(seed=5))]
    assert contexts[0] == contexts[1] != contexts[2]


def test_simulations_distinguish_requests() -> None:
    d = shop()
    plain = idb.Diagram("plain")
    plain.reward(plain.observed("C0", [plain.decision("A0", ITEMS)], idb.Learned("click")))
    learners = {"request": idb.Thompson(d), "plain": idb.Thompson(plain)}
    frame = idb.simulate(world_of(d), learners, rounds=400, runs=2, seed=3, progress=False).frame
    last = frame[frame["round"] == 400].groupby("learner", observed=True)["regret"].mean()
    assert last["request"] < 0.6 * last["plain"]


def test_worlds_reject_invalid_requests() -> None:
    d = shop()
    truth: Any = {"click": lambda user: sigmoid(lines_of(d, user) @ TRUTH)}
    assert_raises(ContextError, ("'user'", "function"), lambda: idb.World(d, truth))
    assert_raises(ContextError, ("'user'", "function"), lambda: idb.World(d, truth, contexts={"user": [1.0]}))
    assert_raises(MeansError, ("function",), lambda: idb.World(d, lambda t: truth, contexts={"user": drawn_user}))
    wrong: Any = {"click": lambda user: [0.5]}
    assert_raises(MeansError, ("'click'", "(12, 1)"), lambda: idb.World(d, wrong, contexts={"user": drawn_user}))
    world = world_of(d)
    assert_raises(ContextError, ("'user'", "context()"), lambda: world.step({"A0": "i0"}, {"user": {"age": 1.5}}))


# -- invalid input ------------------------------------------------------------------------------------------------

HOSTILE: list[Any] = [
    0, None, [1], "age", {"agee": 1}, {1: 2}, {"age": "x"}, {"age": np.inf}, {"age": 10**400}, {"age": 1j},
    {"age": np.array([1, 2])}, {"country": ["de"]}, {"country": {}}, {"age": object()}, {"age": {}},
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=[str(k) for k in range(len(HOSTILE))])
def test_hostile_requests_are_rejected(value: Any) -> None:
    agent = idb.Thompson(shop(), seed=0)
    for do in (
        lambda: agent.act({"user": value}),
        lambda: agent.best_action({"user": value}),
        lambda: agent.update({"A0": "i0"}, {"C0": 1}, {"user": value}),
        lambda: agent.marginals({"user": value}),
        lambda: agent.propensity({"A0": "i0"}, {"user": value}),
    ):
        assert_rejected_by(agent, ContextError, ("'user'",), do)


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ({}, [0, 0, 0]),
        ({"age": None, "country": None}, [0, 0, 0]),
        ({"age": np.nan, "country": "xx"}, [0, 0, 0]),
        ({"age": pd.NA, "country": pd.NA}, [0, 0, 0]),
        ({"age": 55, "country": "fr"}, [1, 1, 0]),
        ({"age": np.float32(25), "country": np.str_("it")}, [-1, 0, 1]),
        ({"age": 1e300, "country": 3}, [1e4, 0, 0]),
        ({"age": True}, [-2.6, 0, 0]),
    ],
    ids=str,
)
def test_requests_become_numbers(value: Any, numbers: list[float]) -> None:
    features = shop().nodes["user"].features
    assert features is not None
    assert features.encoded("user", value) == pytest.approx(numbers)
    agent = idb.Thompson(shop(), seed=0)
    for _ in range(3):
        agent.update(agent.act({"user": value}), {"C0": 1}, {"user": value})
    assert np.isfinite(agent.state.fits).all()


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([], ("'user'", "1 to 200 features")),
        ("age", ("'user'", "list of names")),
        (3, ("'user'", "list of names")),
        (["age", "age"], ("'age'", "twice")),
        ([""], ("non-empty",)),
        ([3], ("non-empty", "3")),
        ({"age": (1,)}, ("'age'", "center, scale")),
        ({"age": (0, 0)}, ("'age'", "scale")),
        ({"age": (0, np.nan)}, ("'age'",)),
        ({"age": ["a"]}, ("'age'", "two categories")),
        ({"age": ["a", "a"]}, ("'age'", "different")),
        ({"age": ["a", None]}, ("'age'", "None")),
        ({"age": "x"}, ("'age'", "'x'")),
        ([f"x{k}" for k in range(201)], ("201", "200")),
    ],
    ids=str,
)
def test_features_that_are_none_are_rejected(features: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(DiagramError) as raised:
        idb.Diagram().context("user", features=features)
    assert all(word in str(raised.value) for word in words)


def test_diagrams_reject_what_cannot_depend_on_a_request() -> None:
    d = idb.Diagram("shop")
    assert_raises(DiagramError, ("'user'", "exactly one of values"), lambda: d.context("user"))
    assert_raises(DiagramError, ("'user'", "exactly one of values"), lambda: d.context("user", 3, features=["x"]))
    user, other, item = d.context("user", features=["x"]), d.context("other", features=["x"]), d.decision("item", ITEMS)
    for words, do in [
        (("'C'", "'user'", "learned"), lambda: d.observed("C", [user], 0.5)),
        (("reward", "'user'"), lambda: d.reward([user, item], lambda *_: 1.0)),
        (("'t'", "two states", "3"), lambda: d.observed("C", [item, user], idb.Learned("t", residuals=1), states=3)),
        (("'t'", "'user'", "'other'"), lambda: d.observed("C", [user, other], idb.Learned("t", residuals=1))),
        (("'t'", "residuals"), lambda: d.observed("C", [item, user], idb.Learned("t"))),
        (("'t'", "products"), lambda: d.observed("C", [item, user], idb.Learned("t", products=True, residuals=1))),
        (("'t'", "pooled"), lambda: d.observed("C", [item, user], idb.Learned("t", pooled=True, residuals=1))),
        (("'t'", "residuals"), lambda: d.observed("C", [item], idb.Learned("t", residuals=1))),
        (("'t'", "residuals", "-1"), lambda: idb.Learned("t", residuals=-1)),
        (("'t'", "residuals", "'x'"), lambda: idb.Learned("t", residuals="x")),  # type: ignore[arg-type]
    ]:
        assert_raises(DiagramError, words, do)
    table = idb.Learned("t", features=FRAME)
    d.observed("C", [item, user], table)
    assert_raises(DiagramError, ("'t'", "'user'"), lambda: d.observed("D", [item, other], table))
    assert_raises(DiagramError, ("'t'",), lambda: d.observed("D", [item], table))


def test_agents_reject_what_cannot_be_done_with_requests() -> None:
    d = shop()
    for inference in ("gibbs", "ep", "variational", "particles"):
        assert_raises(
            IdbanditsError, (inference, "'user'", "moments"), lambda inference=inference: idb.Thompson(d, inference)
        )  # type: ignore[misc]
    assert_raises(DiagramError, ("'user'", "features"), lambda: idb.Thompson({"a": d, "b": shop(residuals=1.0)}))
    agent, user = idb.Thompson(d, "exact", seed=0), {"user": {"age": 3}}
    agent.update({"A0": "i0"}, {"C0": 1}, user)
    assert_rejected_by(agent, IdbanditsError, ("'user'",), agent.fit_report)
    assert_raises(DiagramError, ("'user'",), lambda: idb.baselines.CascadeUCB1(d))


# -- files of diagrams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"residuals": 0.5}, {"features": None, "products": False, "residuals": 2.0}], ids=str
)
def test_diagrams_are_the_same_after_saving(settings: Any, tmp_path: Path) -> None:
    d = shop(2, **settings)
    d.save(tmp_path / "shop.json")
    again = idb.Diagram.load(tmp_path / "shop.json")
    assert again.to_dict() == d.to_dict()
    one, other = d.learned["click"].logistic, again.learned["click"].logistic
    assert one is not None
    assert other is not None
    assert one.names == other.names
    assert np.array_equal(one.design, other.design)
    assert again.nodes["user"].features.columns == ("age", "country=fr", "country=it")  # type: ignore[union-attr]
    assert "nothing serious" in str(again.check())
    assert again.draw().svg()


def test_features_of_several_parents_beside_a_request() -> None:
    d = idb.Diagram("two")
    item, user, slot = d.decision("item", 4), d.context("user", features=["x"]), d.decision("slot", 2)
    lines: dict[str, Any] = {"item": LINES[:4], "slot": [[0.0], [1.0]]}
    table = idb.Learned("t", features=lines | {"user": None}, products=True)
    d.reward(d.observed("C", [item, user, slot], table))
    names = d.learned["t"].logistic.names  # type: ignore[union-attr]
    own, product = ("item.x0", "item.x1", "slot.x0"), ("item.x0 × slot.x0", "item.x1 × slot.x0")
    assert names == ("(constant)", *own, *product, "user.x", *(f"{name} × user.x" for name in (*own, *product)))
    again = idb.Diagram.from_dict(d.to_dict())
    assert again.to_dict() == d.to_dict()
    assert again.learned["t"].logistic.names == names  # type: ignore[union-attr]
    agent = idb.Thompson(again, seed=0)
    agent.update(agent.act({"user": {"x": 1}}), {"C": 1}, {"user": {"x": 1}})
    listed = idb.Learned("u", features=[LINES[:4], None, np.array([[0.0], [1.0]])])
    d.observed("D", [item, user, slot], listed)
    assert d.learned["u"].logistic.names == ("(constant)", *own, "user.x")  # type: ignore[union-attr]
    wrong = idb.Learned("v", features=lines | {"user": [[1.0]]})
    assert_raises(TableError, ("'v'", "'user'", "must be None"), lambda: d.observed("E", [item, user, slot], wrong))


def test_broken_files_are_rejected() -> None:
    good = json.dumps(shop().to_dict())

    def broken(change: Callable[[dict[str, Any]], Any]) -> Callable[[], Any]:
        data = json.loads(good)
        change(data["nodes"][0])
        return lambda: idb.Diagram.from_dict(data)

    for words, change in [
        (("nodes[0]",), lambda node: node.update(states=2)),
        (("nodes[0]",), lambda node: node.update(kind="decision")),
        (("nodes[0]",), lambda node: node.update(features=[])),
        (("nodes[0]",), lambda node: node["features"].append({"name": "age"})),
        (("nodes[0]",), lambda node: node["features"][0].update(scale=0)),
        (("nodes[0]",), lambda node: node["features"][0].update(categories=["a", "b"])),
        (("nodes[0]",), lambda node: node["features"][1].update(categories=["a"])),
    ]:
        assert_raises(FormatError, words, broken(change))


def test_the_plot_of_a_logistic_regression_has_its_largest_coefficients() -> None:
    d = idb.Diagram("menu")
    user = d.context("user", features=["age"])
    d.reward(d.observed("ordered", [d.decision("dish", 3), user], idb.Learned("taste", features=np.arange(3.0))))
    regression = idb.Thompson(d, seed=0).posterior()["taste"].regression
    ax = regression.plot()
    assert regression.plot(ax) is ax
    assert [label.get_text() for label in regression.plot().get_yticklabels()] == ["x0", "user.age"]
    np.testing.assert_allclose(regression.quantile(0.5), regression.coefficients)
    with pytest.raises(IdbanditsError, match="axes must be 1 axes of Matplotlib"):
        regression.plot(3)
