"""Bugs found by the fuzzer that no other test covers."""

from __future__ import annotations

import pickle
import signal
import warnings
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from diagrams import shop
from error_checks import assert_raises
from feature_diagrams import menu
from feature_diagrams import shop as requests_diagram
from idbandits.errors import DiagramError, FormatError, IdbanditsError
from inferences import CountsOfFeatures, taught
from internals import knowledge

ROWS = {"learner": "A", "run": [0, 1], "round": 10, "reward": [2.0, 4.0], "regret": [5.0, np.inf], "seconds": 0.1}
SETTINGS = {"world": "cascade", "learners": ["A"], "rounds": 10, "runs": 2, "seed": 0, "interrupted": False}


class ReadOnce(UserDict[str, Any]):
    """Mapping that loses values after reading."""

    def __getitem__(self, key: str) -> Any:
        return self.data.pop(key)


def test_a_function_of_no_parents() -> None:
    d = idb.Diagram("alone")
    d.reward(d.observed("X", [d.decision("A", 2), d.latent("Z", [], lambda: 0.25)], [[0, 1], [0, 1]]))
    assert idb.expected_reward(d, {"A": 0}, {}) == 0.25


@pytest.mark.parametrize("diagram", [3, "cascade", pd.DataFrame()])
def test_an_agent_is_only_compared_with_a_diagram(tmp_path: Path, diagram: Any) -> None:
    taught("ep", shop(), 3).save(tmp_path / "agent")
    assert_raises(FormatError, ["a Diagram"], lambda: idb.Thompson.load(tmp_path / "agent", diagram=diagram))


@pytest.mark.parametrize("dpi", [-1, True, np.inf, np.nan, "30", 30 + 0j, np.array(30), 10**9, {}])
def test_the_resolution_of_a_picture_has_a_range(dpi: Any) -> None:
    assert_raises(IdbanditsError, ["dpi", "10 to 2400"], lambda: idb.models.rank1(2, 2).draw().png(dpi))


def test_results_with_infinite_totals_odd_settings_and_odd_axes() -> None:
    result = idb.Result(pd.DataFrame(ROWS), SETTINGS)
    assert result.summary()["regret_mean"].tolist() == [np.inf]
    assert np.isnan(result.summary()["regret_se"][0])
    assert_raises(IdbanditsError, ["axes", "'A1'"], lambda: result.plot("reward", "A1"))  # type: ignore[arg-type]
    odd = idb.Result(pd.DataFrame(ROWS), SETTINGS | {"more": np.zeros(2)})
    assert_raises(IdbanditsError, ["settings", "JSON"], lambda: odd.to_parquet())


def test_durations_are_no_whole_numbers() -> None:
    assert_raises(IdbanditsError, ["seed"], lambda: idb.Thompson(shop(), seed=np.zeros(2, "m8[s]")))
    assert_raises(
        IdbanditsError,
        ["draws"],
        lambda: taught("ep", idb.models.rank1(2, 2), 1).propensity({"A1": 0, "A2": 0}, draws=np.timedelta64(3)),
    )


@pytest.mark.parametrize("labels", [memoryview(np.array(["a", "b"])), [True, False, 10**400], [1.0, float("nan")]])
def test_labels_that_cannot_be_read_or_kept_are_rejected(labels: Any) -> None:
    assert_raises(DiagramError, ["'N'"], lambda: shop().decision("N", labels))


@pytest.mark.parametrize("kind", [np.zeros(2, [("a", "i4"), ("b", "f8")]), "card", ["decision"], None])
def test_nodes_are_of_four_kinds(kind: Any) -> None:
    assert_raises(DiagramError, ["decision, context, latent, observed"], lambda: shop().of_kind(kind))


def test_so_many_quantiles_are_not_made() -> None:
    wanted = np.broadcast_to(0.5, (2**20, 2**20))
    posterior = taught("ep", idb.models.rank1(3, 3), 1).posterior()
    assert_raises(IdbanditsError, ["100,000,000"], lambda: next(iter(posterior.values())).quantile(wanted))


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (2, 3)])
@pytest.mark.parametrize("inference", ["ep", "gibbs"])
def test_quantiles_have_the_shape_that_is_asked_for(inference: str, shape: tuple[int, ...]) -> None:
    table = next(iter(taught(inference, idb.models.rank1(3, 3), 1).posterior().values()))
    assert table.quantile(np.full(shape, 0.5)).shape == (*shape, *table.mean.shape)


def test_data_that_changes_while_it_is_read_is_rejected() -> None:
    assert_raises(FormatError, ["read"], lambda: idb.Diagram.from_dict(ReadOnce(shop().to_dict())))


def test_learners_may_change_the_mapping_that_they_are_in() -> None:
    d = idb.models.rank1(2, 2)
    learners: dict[str, Any] = {}

    class Leaving:
        def act(self) -> dict[str, int]:
            learners.clear()
            return {"A1": 0, "A2": 0}

        def update(self, action: Any, observation: Any) -> None:
            pass

    learners["leaving"] = Leaving()
    world = idb.World(d, {name: [0.5, 0.5] for name in d.learned})
    assert idb.simulate(world, learners, 2, 1, workers=1, progress=False).summary()["learner"].tolist() == ["leaving"]


class OwnError(Exception):
    """Error raised by a signal handler."""


def test_the_exception_of_a_signal_is_not_taken_for_that_of_an_odd_value() -> None:
    agent = taught("ep", idb.models.rank1(3, 3), 1)
    action = agent.act()

    class Odd(int):
        def __hash__(self) -> int:
            signal.raise_signal(signal.SIGALRM)
            return super().__hash__()

    def handle(*_: Any) -> None:
        raise OwnError

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with pytest.raises(OwnError):
            agent.update({name: Odd(value) for name, value in action.items()}, {"X": 0})
        with pytest.raises(OwnError):
            agent.update_many({"A1": [Odd(0)], "A2": [1]}, {"X": [0]})
    finally:
        signal.signal(signal.SIGALRM, before)
    assert agent.rounds == 1


# -- features ------------------------------------------------------------------------------------------------------


def test_a_log_of_no_rounds_has_no_requests() -> None:
    agent = idb.Thompson(requests_diagram(), seed=0)
    before = knowledge(agent)
    assert agent.update_many({"A": []}, {"C": [], "B": []}, {"user": []}).rounds == 0
    assert knowledge(agent)[:-1] == before[:-1]


def test_means_of_enormous_requests_are_probabilities() -> None:
    agent = idb.Thompson(requests_diagram(), seed=0)
    for _ in range(30):
        agent.update({"A": "tea"}, {"C": 1}, {"user": {"visits": 1e300}})
    with warnings.catch_warnings(action="error"):
        for visits in (1e308, -1e308):
            means = agent.posterior()["click"].regression.means({"visits": visits})  # type: ignore[union-attr]
            assert ((means > 0) & (means < 1)).all()


def test_a_pooled_table_whose_only_row_is_fixed_has_a_regression_of_nothing() -> None:
    d = idb.Diagram("fixed")
    seen = d.observed("X", [], idb.Learned("table", pooled=True, fixed={(): 0.25}))
    d.reward(d.observed("Y", [d.decision("A", 2), seen]))
    regression = idb.Thompson(d, seed=0).posterior()["table"].regression
    assert regression is not None
    assert repr(regression).startswith("Regression(pooled, 0 of 0 rows with counts")


def test_the_evidence_of_an_inference_is_validated() -> None:
    own = CountsOfFeatures()
    own.evidence = lambda *_: len  # type: ignore[method-assign]
    assert_raises(IdbanditsError, ["CountsOfFeatures", "Evidence"], lambda: idb.Thompson(menu().revealed(), own))


@pytest.mark.parametrize("several", [False, True])
def test_a_fit_that_is_interrupted_leaves_the_round_unlearned(several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    d, other = menu(), idb.Diagram.from_dict(menu().to_dict() | {"name": "other"})
    agent: Any = idb.Thompson([d, other] if several else d, "gibbs", seed=0)
    agent.update({"A1": "tea", "A2": "milk"}, {"X1": 1, "X2": 0, "R": 2}, {"segment": "new"})
    before = pickle.dumps(agent)
    monkeypatch.setattr(idb.Gibbs, "refresh", raise_own_error)
    for _ in range(2):
        with pytest.raises(OwnError):
            agent.update({"A1": "tea", "A2": "milk"}, {"X1": 1, "X2": 0, "R": 2}, {"segment": "new"})
        assert agent.rounds == 1
        assert pickle.dumps(agent) == before


def raise_own_error(*_: Any) -> None:
    raise OwnError
