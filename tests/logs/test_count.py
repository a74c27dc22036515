"""Counts of logs: additive, saved, and learned like the rounds themselves."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import idbandits as idb
from click_logs import clicked
from idbandits.errors import IdbanditsError, LogWarning
from idbandits.logs.read.read_report import LogError

MODELS = ["cascade", "position_based", "dependent_click", "dynamic_bayesian", "click_chain", "user_browsing"]
ITEMS = [f"i{k}" for k in range(6)]


def log_of(name: str, rounds: int, seed: int) -> tuple[idb.Diagram, pd.DataFrame]:
    """Return a model of three positions, and a log of it."""
    d = getattr(idb.models, name)(ITEMS, 3)
    return d, clicked(d, rounds, seed)


def split(frame: pd.DataFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return actions and observations."""
    return {k: frame[k].tolist() for k in frame if k[0] == "A"}, {k: frame[k].tolist() for k in frame if k[0] == "C"}


def clicks(agent: idb.Thompson, d: idb.Diagram) -> list[float]:
    """Return the rewards of several lists under the mean beliefs: functions of all tables that data identify."""
    means = {name: belief.mean for name, belief in agent.posterior().items()}
    lists = [(0, 1, 2), (1, 2, 3), (4, 3, 5), (5, 4, 0), (2, 5, 1)]
    return [idb.expected_reward(d, {f"A{k + 1}": ITEMS[i] for k, i in enumerate(own)}, means) for own in lists]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("inference", ["gibbs", "variational", "moments"])
def test_an_agent_that_learns_counts_has_the_belief_of_one_that_learns_the_rounds(name: str, inference: str) -> None:
    d, frame = log_of(name, 3_000, 1)
    agent = idb.Thompson(d, inference, seed=0)
    agent.update_many(*split(frame))
    other = idb.Thompson(d, inference, seed=0)
    other.learn(idb.count(d, frame))
    assert other.rounds == agent.rounds == 3_000
    np.testing.assert_allclose(clicks(other, d), clicks(agent, d), atol=0.02)


def test_exact_beliefs_are_equal() -> None:
    d, frame = log_of("cascade", 500, 2)
    agent = idb.Thompson(d, "exact", seed=0)
    for action, seen in zip(*(pd.DataFrame(part).to_dict("records") for part in split(frame)), strict=True):
        agent.update(action, seen)
    fitted = idb.fit(d, frame, "exact", seed=0)
    np.testing.assert_array_equal(fitted.posterior()["attraction"].alpha, agent.posterior()["attraction"].alpha)


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_additive_and_saved(name: str, tmp_path: Path) -> None:
    d, frame = log_of(name, 800, 3)
    whole, parts = idb.count(d, frame), [idb.count(d, frame[:300]), idb.count(d, frame[300:])]
    total = parts[0] + parts[1]
    total.save(tmp_path / "counts.parquet")
    for own in (total, idb.Counts.load(tmp_path / "counts.parquet")):
        assert own.rounds == whole.rounds == 800
        assert own.factors == whole.factors
        assert own.fingerprint == whole.fingerprint
        for table, uses in whole.uses.items():
            np.testing.assert_array_equal(own.uses[table], uses)
    assert len(parts[0]) == len(idb.count(d, frame[:300]))


def test_weights_stand_for_equal_rounds() -> None:
    d, frame = log_of("dynamic_bayesian", 400, 4)
    grouped = frame.groupby(list(frame.columns)).size().reset_index(name="impressions")
    every, few = idb.count(d, frame), idb.count(d, grouped, weight="impressions")
    assert few.rounds == 400
    assert few.factors == every.factors
    for table, uses in every.uses.items():
        np.testing.assert_array_equal(few.uses[table], uses)


def test_counts_do_not_depend_on_batches_threads_or_sources(tmp_path: Path) -> None:
    d, frame = log_of("click_chain", 700, 5)
    expected = idb.count(d, frame, threads=1)
    paths = [tmp_path / f"part-{k}.parquet" for k in range(3)]
    for k, path in enumerate(paths):
        frame[k::3].to_parquet(path)
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    logs = [str(tmp_path / "part-*.parquet"), tmp_path / "log.csv", tmp_path / "log.jsonl", pq.read_table(paths)]
    for log in logs:
        counts = idb.count(d, log, threads=2)
        assert (counts.rounds, counts.factors) == (700, expected.factors)
        for table, uses in expected.uses.items():
            np.testing.assert_array_equal(counts.uses[table], uses)


def test_impossible_rounds_are_skipped_with_examples() -> None:
    d = idb.models.cascade(ITEMS, 2)
    counts = idb.count(d, {"A1": ["i0", "i1"], "A2": ["i2", "i0"], "C1": [1, 0], "C2": [1, 1]})
    assert (counts.rounds, counts.impossible) == (1, 1)
    assert "i0" in counts.examples[0]
    agent = idb.Thompson(d, seed=0)
    agent.learn(counts)
    assert agent.rounds == 1


def test_rounds_fade_by_their_times() -> None:
    d = idb.models.cascade(["a", "b"], 1)
    day, forget = datetime.timedelta(days=1), idb.Forget(datetime.timedelta(days=1))
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    log = pd.DataFrame({"A1": ["a", "a", "b"], "C1": [1, 1, 0], "t": [start, start + day, start + 2 * day]})
    fitted = idb.fit(d, log, "exact", forget=forget, at="t", seed=0)
    agent = idb.Thompson(d, "exact", forget=forget, seed=0)
    agent.update_many({"A1": log["A1"]}, {"C1": log["C1"]}, at=log["t"])
    np.testing.assert_allclose(fitted.posterior()["attraction"].alpha, agent.posterior()["attraction"].alpha, rtol=0.02)


def test_counts_join_a_life_with_moves_updates_and_files(tmp_path: Path) -> None:
    d, frame = log_of("position_based", 600, 6)
    later = idb.models.position_based([*ITEMS[1:], "new"], 3)
    counts = idb.count(d, frame)
    agent = idb.Thompson(d, "variational", seed=0)
    agent.learn(counts)
    agent.save(tmp_path / "agent.npz")
    agent = idb.Thompson.load(tmp_path / "agent.npz").moved_to(later)
    agent.learn(counts)  # of the earlier diagram
    twice = idb.Thompson(d, "variational", seed=0)
    twice.learn(counts + counts)
    shown = dict(zip(("A1", "A2", "A3"), ITEMS[1:4], strict=True))
    own, expected = (
        idb.expected_reward(of, shown, {name: belief.mean for name, belief in learned.posterior().items()})
        for of, learned in ((later, agent), (d, twice))
    )
    assert own == pytest.approx(expected, abs=0.02)


def test_large_logs_have_the_posterior_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    from idbandits.agent.counts import learn_counts

    d, frame = log_of("dynamic_bayesian", 40_000, 7)
    counts = idb.count(d, frame)
    chain = idb.Thompson(d, "gibbs", seed=0)
    chain.learn(counts)
    for _ in range(3):  # the mean of several settled chains has little noise
        chain.learn(idb.count(d, frame[:0]))
    monkeypatch.setattr(learn_counts, "MOST_GROUPS", 10)
    large = idb.Thompson(d, "gibbs", seed=0)
    large.learn(counts)
    for table, belief in chain.posterior().items():
        own = large.posterior()[table]
        assert (np.abs(own.mean - belief.mean) < 2.0 * np.maximum(belief.sd, own.sd)).all(), table
        assert (own.sd < 2.5 * belief.sd + 1e-3).all(), table
        assert (own.sd > belief.sd / 2.5).all(), table


@pytest.mark.parametrize("name", ["click_chain", "dynamic_bayesian", "dependent_click"])
def test_means_of_large_logs_do_not_depend_on_where_the_search_begins(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certain uses alone say that nobody leaves, the more so the larger the log is."""
    from idbandits.agent.counts import learn_counts

    d, frame = log_of(name, 3_000, 11)
    monkeypatch.setattr(learn_counts, "MOST_GROUPS", 10)
    own, expected = (
        {table: belief.mean for table, belief in agent.posterior().items()}
        for agent in (
            idb.fit(d, frame.assign(w=1e7), weight="w", seed=0),
            idb.fit(d, frame.assign(w=1e3), weight="w", seed=0),
        )
    )
    for table, mean in expected.items():
        np.testing.assert_allclose(own[table], mean, atol=0.01, err_msg=table)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: idb.count(d, {"A1": ["i0"]}), "A2"),
        (lambda d: idb.count(d, "no-such-file.parquet"), "no-such-file.parquet"),
        (lambda d: idb.count(d, 3), "log must be"),
        (lambda d: idb.count(d, {}, colour=1), "colour"),
        (lambda d: idb.count(d, {}, forget=idb.Forget(datetime.timedelta(days=1))), "at must be"),
        (lambda d: idb.Thompson(d).learn(3), "counts must be"),
        (lambda d: idb.Thompson(idb.models.cascade(2, 1)).learn(idb.count(d, log_of("cascade", 3, 0)[1])), "diagram"),
    ],
)
def test_invalid_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(IdbanditsError, match=message):
        make(idb.models.cascade(ITEMS, 3))


def test_rounds_that_counts_do_not_tell_are_learned_one_by_one() -> None:
    d, frame = log_of("cascade", 300, 8)
    forget = idb.Forget(50)
    fitted = idb.fit(d, frame, "exact", forget=forget, seed=0)
    agent = idb.Thompson(d, "exact", forget=forget, seed=0)
    agent.update_many(*split(frame))
    np.testing.assert_allclose(fitted.posterior()["attraction"].alpha, agent.posterior()["attraction"].alpha)
    assert idb.fit(d, frame, "particles", seed=0).rounds == 300
    with pytest.raises(LogError, match="weight"):
        idb.fit(d, frame.assign(w=2), "exact", forget=forget, weight="w")


def test_fit_recommends_pooled_priors_where_rounds_are_few() -> None:
    d = idb.models.cascade(40, 3)
    with pytest.warns(LogWarning, match="pooled=True"):
        idb.fit(d, clicked(d, 200, 9), seed=0)
