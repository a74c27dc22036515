"""Warnings about skipped rounds, and errors about logs of which nothing was read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from idbandits.errors import LogWarning
from idbandits.logs.read.read_report import LogError

ITEMS = ["a", "b", "c"]
D = idb.models.cascade(ITEMS, 2)


def log_of(rounds: int = 200, coded: Any = (0, 1)) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    shown = np.array(ITEMS)[np.argsort(rng.random((rounds, 3)), axis=1)[:, :2]]
    first = rng.random(rounds) < 0.3
    second = ~first & (rng.random(rounds) < 0.3)
    clicks = [np.where(own, coded[1], coded[0]) for own in (first, second)]
    return pd.DataFrame({"A1": shown[:, 0], "A2": shown[:, 1], "C1": clicks[0], "C2": clicks[1]})


def calls() -> dict[str, Callable[[Any], Any]]:
    agent = idb.fit(D, log_of(), seed=0)
    return {
        "fit": lambda log: idb.fit(D, log, seed=0),
        "fit round by round": lambda log: idb.fit(D, log, idb.Particles(10), seed=0),
        "score": lambda log: idb.score(agent, log),
        "compare": lambda log: idb.compare({"cascade": D}, log, folds=2),
        "evaluate": lambda log: idb.evaluate({"A1": "a", "A2": "b"}, log, D, propensity="uniform", seed=0),
    }


@pytest.mark.parametrize("name", ["fit", "fit round by round", "score", "compare", "evaluate"])
def test_skipped_rounds_are_warned_of_where_the_function_is_called(name: str) -> None:
    wrong = log_of(coded=(0, 2))
    clicked = (wrong["C1"] == 2).sum(), (wrong["C2"] == 2).sum()
    call = calls()[name]
    with pytest.warns(LogWarning) as caught:
        call(wrong)
    [one] = [own for own in caught if issubclass(own.category, LogWarning)]
    assert one.filename == __file__
    start = f"data frame: {sum(clicked)} of 200 rounds were skipped; {max(clicked)} skipped: "
    assert str(one.message).startswith(start)
    assert "'C1' has a value that is not in the diagram (data frame, row" in str(one.message)
    assert str(one.message).endswith("; idb.count(…).report lists all reasons")


@pytest.mark.parametrize("name", ["fit", "fit round by round", "score", "compare", "evaluate"])
def test_a_log_without_a_round_that_fits_is_an_error(name: str) -> None:
    reason = "log must have at least one round that fits the diagram, got none in data frame"
    call, wrong = calls()[name], log_of().assign(A1="zzz")
    with pytest.raises(LogError, match=rf"^{reason}; 200 skipped: 'A1' has a value .*'zzz'\)$"):
        call(wrong)
    with pytest.raises(LogError, match=f"^{reason}$"):
        call(wrong.head(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert idb.count(D, wrong).report.skipped == {"'A1' has a value that is not in the diagram": 200}


def test_rows_per_item_and_items_of_the_log() -> None:
    wide = log_of(coded=("n", "j"))
    rows = pd.concat([wide[[f"A{k}", f"C{k}"]].set_axis(["item", "click"], axis=1).assign(p=k) for k in (1, 2)])
    form = idb.Long(session="s", position="p", item="item", observed={"C": "click"})
    with pytest.warns(
        LogWarning, match=r"^data frame by session: 101 of 200 rounds were skipped; 66 skipped: 'C1'.*'j'\)"
    ):
        agent = idb.fit(D, rows.assign(s=rows.index), format=form, items="from log", seed=0)
    assert agent.rounds == 99


@pytest.mark.parametrize("zeros", [0, 1, 3, 4, 8])
def test_a_first_position_that_is_rare_is_warned_of(zeros: int) -> None:
    sessions = np.repeat([f"s{k}" for k in range(8)], 2)
    rows = pd.DataFrame({"s": sessions, "p": [1, 2] * 8, "item": ["a", "b"] * 8, "click": [0, 1] * 8})
    rows.loc[[2 * k for k in range(zeros)], "p"] = 0
    reading: dict[str, Any] = {"session": "s", "position": "p", "item": "item", "observed": {"C": "click"}}
    d = idb.models.position_based(ITEMS, 3, empty=True)
    with warnings.catch_warnings(record=True, action="always") as caught:
        idb.fit(d, rows, format=idb.Long(**reading), seed=0)
        notes = idb.count(d, rows, format=idb.Long(**reading)).report.notes
    guess = f"position 0 occurs in {zeros} of 8 sessions and was read as the top one; first=1 or first=0 of the format decides"
    assert [str(own.message) for own in caught] == (
        [f"data frame by session: {guess}; idb.count(…).report lists all reasons"] if 0 < zeros < 4 else []
    )
    assert (guess in notes) == (0 < zeros < 4)
    with warnings.catch_warnings(record=True, action="always") as caught:
        idb.fit(d, rows, format=idb.Long(**reading, first=0), seed=0)
    assert not caught


@pytest.mark.parametrize("function", ["count", "fit", "evaluate"])
def test_a_log_without_any_observed_node_is_an_error(function: str) -> None:
    log = log_of()
    wrong = log.rename(columns={"C1": "click1", "C2": "click2"})
    policy = [{"A1": "a", "A2": "b"}, wrong, D] if function == "evaluate" else [D, wrong]
    needed = r"data frame must have a column of at least one observed node \('C1', 'C2'\), got click1, click2, A1, A2; columns="
    with pytest.raises(LogError, match=f"^{needed}"):
        getattr(idb, function)(*policy)
    assert idb.count(D, wrong, columns={"C2": "click2"}).rounds == idb.count(D, log[["A1", "A2", "C1"]]).rounds == 200


@pytest.mark.parametrize(("wrong", "warned"), [(2, 0), (3, 1)])
def test_up_to_one_percent_of_skipped_rounds_is_not_warned_of(wrong: int, warned: int) -> None:
    log = log_of()
    log.loc[: wrong - 1, "A1"] = "zzz"
    with warnings.catch_warnings(record=True, action="always") as caught:
        idb.fit(D, log, seed=0)
    assert len(caught) == warned


@pytest.mark.parametrize("inference", ["gibbs", "incremental"])  # counted, and learned one by one
@pytest.mark.parametrize(("impossible", "warned"), [(1, 0), (2, 1), (100, 1)])
def test_rounds_of_probability_zero_are_warned_of(inference: str, impossible: int, warned: int) -> None:
    d = idb.models.cascade(["a", "b"], 2)
    clicks = [1] * impossible + [0] * (100 - impossible)  # two clicks cannot be in a cascade
    log = {"A1": ["a"] * 100, "A2": ["b"] * 100, "C1": clicks, "C2": clicks}
    with warnings.catch_warnings(record=True, action="always", category=LogWarning) as caught:
        agent = idb.fit(d, log, inference, seed=0)
    assert agent.rounds == 100 - impossible
    assert len(caught) == warned
    if warned:
        assert f": {impossible} of 100 rounds have probability zero" in str(caught[0].message)
        assert caught[0].filename == __file__
