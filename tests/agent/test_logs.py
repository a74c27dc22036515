"""Learning from a log at once: forms of a log, and errors in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest

import idbandits as idb
from error_checks import assert_raises, assert_rejected_by
from idbandits import models
from idbandits.errors import (
    ActionError,
    ContextError,
    DiagramError,
    IdbanditsError,
    ImpossibleObservationError,
    ObservationError,
)
from inferences import agent_of, every, seen_without_clicks, taught
from internals import groups, knowledge, sampled
from labelled_log import ACTIONS, CONTEXTS, SEEN, tea_room
from played_rounds import alpha_of, assert_close

# -- forms ---------------------------------------------------------------------------------------------------------


def learn_one_by_one(agent: idb.Thompson, actions: Any, seen: Any, contexts: Any) -> None:
    for t in range(4):
        agent.update(*({name: column[t] for name, column in part.items()} for part in (actions, seen, contexts)))


def floats_with_nan(part: dict[str, list[Any]]) -> dict[str, Any]:
    """Columns of numbers as floats, with NaN for what is missing."""
    return {
        name: np.array([np.nan if x is None else x for x in column], float)
        if all(x is None or isinstance(x, int) for x in column)
        else column
        for name, column in part.items()
    }


def masked(part: dict[str, list[Any]]) -> dict[str, Any]:
    """Columns as masked arrays, with some label under the mask."""
    missing = {name: [x is None for x in column] for name, column in part.items()}
    filled = {n: [next(x for x in c if x is not None) if x is None else x for x in c] for n, c in part.items()}
    return {name: np.ma.array(column, mask=missing[name]) for name, column in filled.items()}


def structured(part: dict[str, list[Any]]) -> np.ndarray:
    """A structured array of objects."""
    return np.array(list(zip(*part.values(), strict=True)), dtype=[(name, object) for name in part])


Columns = dict[str, list[Any]]
FORMS: dict[str, Callable[[Columns], Any]] = {
    "lists": lambda part: part,
    "tuples": lambda part: {n: tuple(c) for n, c in part.items()},
    "objects": lambda part: {n: np.array(c, dtype=object) for n, c in part.items()},
    "floats with NaN": floats_with_nan,
    "frame": pd.DataFrame,
    "frame of objects": lambda part: pd.DataFrame(part, dtype=object),
    "frame of nullable types": lambda part: pd.DataFrame(part).convert_dtypes(),
    "frame with another index": lambda part: pd.DataFrame(part, index=[7, 7, 3, 0]),
    "frame of categories": lambda part: pd.DataFrame(part).astype("category"),
    "series": lambda part: {n: pd.Series(c) for n, c in part.items()},
    "NaN for labels": lambda part: {
        n: np.array([float("nan") if x is None else x for x in c], dtype=object) for n, c in part.items()
    },
    "masked arrays": masked,
    "masked in lists": lambda part: {n: [np.ma.masked if x is None else x for x in c] for n, c in part.items()},
    "NA in lists": lambda part: {n: [pd.NA if x is None else x for x in c] for n, c in part.items()},
    "NumPy scalars": lambda part: {n: [np.asarray(x)[()] for x in c] for n, c in part.items()},
    "0-d arrays": lambda part: {n: [None if x is None else np.array(x) for x in c] for n, c in part.items()},
    "structured array": structured,
    "table of pyarrow": pyarrow.table,
    "batch of pyarrow": lambda part: pyarrow.RecordBatch.from_pydict(part),
    "arrays of pyarrow": lambda part: {n: pyarrow.array(c) for n, c in part.items()},
    "dictionaries of pyarrow": lambda part: {n: pyarrow.array(c).dictionary_encode() for n, c in part.items()},
    "types of pyarrow": lambda part: pd.DataFrame(part).convert_dtypes(dtype_backend="pyarrow"),
    "frame of Polars": pl.DataFrame,
    "frame of Polars with categories": lambda part: pl.DataFrame(part).with_columns(
        pl.col(pl.String).cast(pl.Categorical)
    ),
    "lazy frame of Polars": pl.LazyFrame,
    "series of Polars": lambda part: {n: pl.Series(n, c) for n, c in part.items()},
    "NaN in lists": lambda part: {n: [float("nan") if x is None else x for x in c] for n, c in part.items()},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_may_have_many_forms(form: str) -> None:
    one_by_one, as_lists, as_form = (idb.Thompson(tea_room(), idb.Variational(start="prior"), seed=0) for _ in range(3))
    learn_one_by_one(one_by_one, ACTIONS, SEEN, CONTEXTS)
    as_lists.update_many(ACTIONS, SEEN, CONTEXTS)
    as_form.update_many(*(FORMS[form](part) for part in (ACTIONS, SEEN, CONTEXTS)))
    assert knowledge(as_form) == knowledge(as_lists)
    assert as_form.rounds == one_by_one.rounds == 4
    for name, alpha in alpha_of(as_form).items():
        if name != "taste":  # which is latent: sweeps differ in number
            np.testing.assert_allclose(alpha, alpha_of(one_by_one)[name], rtol=1e-12)


WHOLE: dict[str, Callable[[Columns], Any]] = {
    "mapping": dict, "frame": pd.DataFrame, "table of pyarrow": pyarrow.table, "batch of pyarrow": pyarrow.RecordBatch.from_pydict,
    "frame of Polars": pl.DataFrame, "lazy frame of Polars": pl.LazyFrame, "structured array": structured,
}  # fmt: skip


@pytest.mark.parametrize("form", WHOLE)
def test_one_table_may_hold_the_whole_log_under_names_of_its_own(form: str) -> None:
    expected, plain, for_each, renamed = (idb.Thompson(tea_room(), "moments", seed=0) for _ in range(4))
    expected.update_many(ACTIONS, SEEN, CONTEXTS)
    log = WHOLE[form](ACTIONS | SEEN | CONTEXTS)
    plain.update_many(log)
    if form != "mapping":  # of which only the nodes of its part are read
        for_each.update_many(log, log, log)
    others = {"id": [7, 8, 9, 10], "first": ["x"] * 4, "list": [[1]] * 4}
    columns = {"first": "item", "sip": "clicked", "segment": "user"}
    own = {columns.get(name, name): column for name, column in (ACTIONS | SEEN | CONTEXTS).items()}
    renamed.update_many(WHOLE[form](own | others), columns=columns)
    assert knowledge(expected) == knowledge(plain) == knowledge(renamed)
    assert form == "mapping" or knowledge(for_each) == knowledge(plain)


def test_a_lazy_frame_is_collected_once_and_only_with_what_is_needed() -> None:
    collected = []

    def note(frame: pl.DataFrame) -> pl.DataFrame:
        collected.append(frame.columns)
        return frame

    log = pl.LazyFrame(ACTIONS | SEEN | CONTEXTS | {"id": [1, 2, 3, 4]})
    agent = idb.Thompson(tea_room(), "moments", seed=0)
    agent.update_many(*[log.map_batches(note, streamable=False)] * 3, columns={})
    assert agent.rounds == 4
    assert len(collected) == 1
    broken = log.with_columns(sip=pl.col("id").cast(pl.String).str.to_integer(base=2))
    assert_rejected_by(agent, ActionError, ("actions", "lazy frame"), lambda: agent.update_many(broken, columns={}))


def test_extra_columns_are_rejected_unless_columns_are_named() -> None:
    agent = idb.Thompson(tea_room(), "moments", seed=0)
    log = pd.DataFrame(ACTIONS | SEEN | CONTEXTS | {"id": 1})
    assert_rejected_by(agent, ActionError, ("'id'", "first, second", "columns="), lambda: agent.update_many(log))
    assert_rejected_by(
        agent, IdbanditsError, ("columns", "'taste'", "sip"), lambda: agent.update_many(log, columns={"taste": "id"})
    )
    assert_rejected_by(agent, IdbanditsError, ("columns", "mapping", "3"), lambda: agent.update_many(log, columns=3))
    assert_rejected_by(
        agent, ObservationError, ("column [1]", "'sip'"), lambda: agent.update_many(log, columns={"sip": [1]})
    )
    assert_rejected_by(
        agent, ObservationError, ("'clicked'", "'sip'"), lambda: agent.update_many(log, columns={"sip": "clicked"})
    )
    agent.update_many(log, columns={})
    assert agent.rounds == 4


def test_exact_learns_from_a_log_with_missing_values_as_from_its_rounds() -> None:
    one_by_one, at_once = (idb.Thompson(tea_room().revealed(), "exact", seed=0) for _ in range(2))
    seen = {**SEEN, "taste": [1, 0, 0, 1]}
    learn_one_by_one(one_by_one, ACTIONS, seen, CONTEXTS)
    at_once.update_many(ACTIONS, seen, CONTEXTS)
    assert_close(alpha_of(at_once), alpha_of(one_by_one), rtol=1e-12)


def test_columns_that_are_missing_were_not_seen() -> None:
    without, with_missing, nothing = (idb.Thompson(tea_room(), "moments", seed=0) for _ in range(3))
    without.update_many(ACTIONS, {"size": [10, 20, 20, 10]}, CONTEXTS)
    with_missing.update_many(ACTIONS, {"size": [10, 20, 20, 10], "sip": [None] * 4, "mood": [np.nan] * 4}, CONTEXTS)
    assert knowledge(without) == knowledge(with_missing)
    np.testing.assert_array_equal(without.posterior()["mood"].alpha, np.ones((3, 3)))
    nothing.update_many(ACTIONS, {}, CONTEXTS)
    assert nothing.rounds == 4
    assert all((alpha == 1).all() for alpha in alpha_of(nothing).values())


@every
def test_an_empty_log_says_nothing(name: str) -> None:
    agent = agent_of(name, models.position_based(4, 2))
    before = alpha_of(agent)
    agent.update_many({"A1": [], "A2": []}, {"C1": []})
    assert agent.rounds == 0
    if name != "particles":  # whose posterior is a sample
        assert_close(alpha_of(agent), before, rtol=0)


SERIES = ["int8", "uint8", "int64", "float32", "float64", "Int64", "object", "category", "int8[pyarrow]"]
ARRAYS = ["float16", "longdouble", "complex64", ">i4", ">f8", "<u2", "object"]


@pytest.mark.parametrize("dtype", [*SERIES, *(np.dtype(name) for name in ARRAYS)], ids=str)
def test_numbers_may_have_any_type(dtype: Any) -> None:
    agent = idb.Thompson(models.semi_bandit(4, 2), "exact")

    def column(*values: int) -> Any:
        return np.array(values, dtype) if isinstance(dtype, np.dtype) else pd.Series(values, dtype=dtype)

    agent.update_many(
        {"A1": column(0, 3, 1), "A2": column(1, 2, 0)}, {"X1": column(1, 0, 1), "X2": [True, False, True]}
    )
    assert agent.posterior()["mean"].alpha.tolist() == [[1, 3], [1, 3], [2, 1], [2, 1]]


@pytest.mark.parametrize(
    ("inference", "rounds"), [("variational", 2_000_000), ("gibbs", 500_000), ("ep", 500_000), ("moments", 500_000)]
)
def test_millions_of_rounds_are_learned_from(inference: str, rounds: int) -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(10, size=rounds)
    actions = {"A1": first, "A2": (first + rng.integers(1, 10, size=rounds)) % 10}
    attraction, examination = np.linspace(0.05, 0.95, 10), np.array([0.9, 0.4])
    seen = {f"C{k + 1}": (rng.random(rounds) < examination[k] * attraction[actions[f"A{k + 1}"]]) for k in range(2)}
    agent = idb.Thompson(models.position_based(10, 2), inference, seed=1)
    agent.update_many(actions, seen)
    assert agent.rounds == rounds
    assert len(groups(agent)) <= 10 * 2 * 2  # an item, a position, a click
    posterior = agent.posterior()
    clicks = posterior["examination"].mean[:, None] * posterior["attraction"].mean
    # clicks at 20 places, each seen 50,000 times or more: standard errors of at most 0.0023, 0.02 is 8 of them
    np.testing.assert_allclose(clicks, examination[:, None] * attraction, atol=0.02)


# -- invalid logs -------------------------------------------------------------------------------------------------

# name -> what to learn from, the error, words of its message
BAD_LOGS: dict[str, tuple[tuple[Any, Any, Any], type[Exception], tuple[str, ...]]] = {
    "a decision that does not exist": (({**ACTIONS, "third": [0] * 4}, SEEN, CONTEXTS), ActionError, ("actions", "'third'", "first, second")),
    "a decision that is missing": (({"first": ACTIONS["first"]}, SEEN, CONTEXTS), ActionError, ("actions", "'second'", "missing")),
    "no actions": ((None, SEEN, CONTEXTS), ActionError, ("actions", "'first'")),
    "actions as a list": (([1, 2], SEEN, CONTEXTS), ActionError, ("actions", "[1, 2]")),
    "actions as a number": ((3, SEEN, CONTEXTS), ActionError, ("actions", "3")),
    "a choice that does not exist": (({**ACTIONS, "second": ["juice", "wine", "water", "tea"]}, SEEN, CONTEXTS), ActionError, ("'second'", "round 1", "'wine'", "'juice', 'tea', 'water'")),
    "a choice that is missing": (({**ACTIONS, "second": ["juice", "water", None, "tea"]}, SEEN, CONTEXTS), ActionError, ("'second'", "round 2", "None")),
    "a choice that is NaN": (({**ACTIONS, "second": np.array(["juice", "water", np.nan, "tea"], object)}, SEEN, CONTEXTS), ActionError, ("'second'", "round 2", "nan")),
    "an item twice": (({**ACTIONS, "second": ["juice", "water", "tea", "tea"]}, SEEN, CONTEXTS), ActionError, ("'first'", "'second'", "round 2", "'tea'", "all_different")),
    "decisions of other lengths": (({**ACTIONS, "second": ["juice", "water"]}, SEEN, CONTEXTS), ActionError, ("'second'", "2", "4")),
    "decisions in two dimensions": (({**ACTIONS, "second": [["juice", "water"]] * 4}, SEEN, CONTEXTS), ActionError, ("'second'", "(4, 2)")),
    "one decision for all": (({**ACTIONS, "second": "water"}, SEEN, CONTEXTS), ActionError, ("'second'", "()")),
    "no contexts": ((ACTIONS, SEEN, None), ContextError, ("contexts", "'segment'", "missing")),
    "a context that does not exist": ((ACTIONS, SEEN, {**CONTEXTS, "hour": [1] * 4}), ContextError, ("'hour'", "segment")),
    "a context's value": ((ACTIONS, SEEN, {"segment": ["new", "new", "new", "gone"]}), ContextError, ("'segment'", "round 3", "'gone'", "'new', 'loyal'")),
    "a context's missing value": ((ACTIONS, SEEN, {"segment": ["new", None, "new", "new"]}), ContextError, ("'segment'", "round 1", "None")),
    "contexts of another length": ((ACTIONS, SEEN, {"segment": ["new"]}), ContextError, ("'segment'", "1", "4")),
    "a latent node": ((ACTIONS, {**SEEN, "taste": [1] * 4}, CONTEXTS), ObservationError, ("'taste'", "sip, mood, size")),
    "a state that does not exist": ((ACTIONS, {**SEEN, "size": [10, 20, 30, 20]}, CONTEXTS), ObservationError, ("'size'", "round 2", "30", "10, 20")),
    "a number for a label": ((ACTIONS, {**SEEN, "mood": [0, 1, 2, 0]}, CONTEXTS), ObservationError, ("'mood'", "round 0", "'bad', 'fair', 'good'")),
    "a number that is too high": ((ACTIONS, {**SEEN, "sip": [0, 1, 1, 2]}, CONTEXTS), ObservationError, ("'sip'", "round 3", "2", "0 to 1")),
    "a number below 0": ((ACTIONS, {**SEEN, "sip": [0, -1, 1, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 1", "-1", "0 to 1")),
    "a fraction": ((ACTIONS, {**SEEN, "sip": [0, 1, 0.5, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 2", "0.5", "0 to 1")),
    "infinity": ((ACTIONS, {**SEEN, "sip": [0, 1, np.inf, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 2", "inf")),
    "a string for a number": ((ACTIONS, {**SEEN, "sip": ["0", "1", "1", "0"]}, CONTEXTS), ObservationError, ("'sip'", "round 0", "'0'", "0 to 1")),
    "states of another length": ((ACTIONS, {**SEEN, "sip": [0, 1, 1]}, CONTEXTS), ObservationError, ("'sip'", "3", "4")),
    "observations as a list": ((ACTIONS, [1, 2, 3, 4], CONTEXTS), ObservationError, ("observations", "[1, 2, 3, 4]")),
    "a masked choice": (({**ACTIONS, "second": np.ma.array(["juice", "water", "water", "tea"], mask=[0, 0, 1, 0])}, SEEN, CONTEXTS), ActionError, ("'second'", "round 2", "masked")),
    "a masked choice in a list": (({**ACTIONS, "second": ["juice", "water", np.ma.masked, "tea"]}, SEEN, CONTEXTS), ActionError, ("'second'", "round 2", "masked")),
    "a masked context": ((ACTIONS, SEEN, {"segment": np.ma.array(["new"] * 4, mask=[0, 1, 0, 0])}), ContextError, ("'segment'", "round 1", "masked")),
    "NA for a choice": (({**ACTIONS, "second": ["juice", pd.NA, "water", "tea"]}, SEEN, CONTEXTS), ActionError, ("'second'", "round 1", "<NA>")),
    "a huge number": ((ACTIONS, {**SEEN, "sip": [0, 2**70, 0, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 1", "1180591620717411303424")),
    "a number that wraps": ((ACTIONS, {**SEEN, "sip": np.array([0, 1, 2**64 - 1, 1], np.uint64)}, CONTEXTS), ObservationError, ("'sip'", "round 2", "18446744073709551615")),
    "a complex number": ((ACTIONS, {**SEEN, "sip": np.array([0, 1, 1j, 1])}, CONTEXTS), ObservationError, ("'sip'", "round 2", "1j")),
    "dates that are numbers inside": ((ACTIONS, {**SEEN, "sip": np.array([0, 1, 1, 0], "M8[ns]")}, CONTEXTS), ObservationError, ("'sip'", "round 0", "1970")),
    "times that are numbers inside": ((ACTIONS, {**SEEN, "sip": pd.to_timedelta([0, 1, 1, 0])}, CONTEXTS), ObservationError, ("'sip'", "round 0")),
    "categories of strings": ((ACTIONS, {**SEEN, "sip": pd.Categorical(["0", "1", "1", "0"])}, CONTEXTS), ObservationError, ("'sip'", "round 0", "'0'")),
    "strings of NumPy": ((ACTIONS, {**SEEN, "sip": np.array(["0", "1", "1", "0"], np.dtypes.StringDType())}, CONTEXTS), ObservationError, ("'sip'", "round 0", "'0'")),
    "bytes for labels": ((ACTIONS, {**SEEN, "mood": np.array([b"bad", b"fair", b"good", b"bad"])}, CONTEXTS), ObservationError, ("'mood'", "round 0", "b'bad'")),
    "bytes": ((ACTIONS, {**SEEN, "sip": b"0110"}, CONTEXTS), ObservationError, ("'sip'", "flat", "b'0110'")),
    "a 0-d array": ((ACTIONS, {**SEEN, "sip": np.array(1)}, CONTEXTS), ObservationError, ("'sip'", "flat", "array(1)")),
    "a generator": ((ACTIONS, {**SEEN, "sip": (x for x in [0, 1, 1, 0])}, CONTEXTS), ObservationError, ("'sip'", "flat", "generator")),
    "a set": ((ACTIONS, {**SEEN, "sip": {0, 1}}, CONTEXTS), ObservationError, ("'sip'", "flat", "{0, 1}")),
    "records for numbers": ((ACTIONS, {**SEEN, "sip": np.array([(0, 1)] * 4, "i4,i4")}, CONTEXTS), ObservationError, ("'sip'", "round 0", "(0, 1)")),
    "lists of pyarrow": ((ACTIONS, {**SEEN, "sip": pyarrow.array([[0]] * 4)}, CONTEXTS), ObservationError, ("'sip'", "round 0")),
    "ragged lists": ((ACTIONS, {**SEEN, "sip": [[0], [1, 0], [1], [0]]}, CONTEXTS), ObservationError, ("'sip'", "round 0", "[0]")),
    "dictionaries": ((ACTIONS, {**SEEN, "sip": [0, 1, {}, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 2", "{}")),
    "a column twice": ((pd.DataFrame([["tea", "juice", "tea"]], columns=["first", "second", "first"]), {}, {"segment": ["new"]}), ActionError, ("'first'", "twice")),
    "a column of pyarrow twice": ((pyarrow.table([["tea"]] * 3, names=["first", "second", "first"]), {}, {"segment": ["new"]}), ActionError, ("'first'", "twice")),
    "numbers for names": ((pd.DataFrame([["tea", "juice"]]), {}, {"segment": ["new"]}), ActionError, ("0", "first, second")),
    "names in two levels": ((pd.DataFrame([["tea"]], columns=[["first"], ["cup"]]), {}, {"segment": ["new"]}), ActionError, ("('first', 'cup')", "first, second")),
    "an array": ((np.array([["tea", "juice"]]), {}, {"segment": ["new"]}), ActionError, ("actions", "juice")),
    "a series": ((pd.Series(["tea"]), {}, {"segment": ["new"]}), ActionError, ("actions", "tea")),
    "a class": ((pd.DataFrame, {}, {"segment": ["new"]}), ActionError, ("actions", "DataFrame")),
    "lists of lists": ((ACTIONS, {**SEEN, "sip": [[0], 1, [1, 0], 0]}, CONTEXTS), ObservationError, ("'sip'",)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LOGS)
@pytest.mark.parametrize("inference", ["variational", "particles"])
def test_mistakes_in_a_log_are_rejected(case: str, inference: str) -> None:
    log, error, words = BAD_LOGS[case]
    agent = idb.Thompson(tea_room(), inference, seed=0)
    agent.update_many(ACTIONS, SEEN, CONTEXTS)
    assert_rejected_by(agent, error, words, lambda: agent.update_many(*log))


@every
def test_an_impossible_round_in_the_middle_of_a_log_is_rejected_with_all_of_it(name: str) -> None:
    agent = taught(name, models.cascade(5, 2))
    seen = {node: [state] * 5 for node, state in seen_without_clicks(agent).items()}
    seen |= {"C1": [0, 0, 0, 1, 0], "C2": [0, 0, 0, 1, 0]}
    assert_rejected_by(
        agent,
        ImpossibleObservationError,
        ("C1 = 1", "C2 = 1", "'A1': 3", "round 3"),
        lambda: agent.update_many({"A1": [0, 1, 2, 3, 4], "A2": [1, 2, 3, 4, 0]}, seen),
    )


def test_a_round_in_the_middle_of_a_log_that_exact_cannot_learn_from_is_rejected_with_all_of_it() -> None:
    agent = taught("exact", models.position_based(5, 2))
    seen = {"C1": [1, 0], "C2": [1, 0], "W1": [1, None], "W2": [1, None], "E1": [1, None], "E2": [1, None]}
    assert_rejected_by(
        agent,
        DiagramError,
        ("exact", "C1 = 0", "attraction"),
        lambda: agent.update_many({"A1": [0, 1], "A2": [1, 2]}, seen),
    )


# -- impossible rounds, and logs of a few rounds ----------------------------------------------------------------------

CASCADE = {"A1": [0, 1, 2, 3], "A2": [1, 2, 3, 0]}
CLICKS = {"C1": [1, 0, 1, 0], "C2": [0, 1, 1, 1]}  # in a cascade, the third round is impossible


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("before", [0, 60])
def test_impossible_rounds_are_skipped_and_reported(several: bool, before: int) -> None:
    d: Any = {"one": models.cascade(4, 2), "other": models.cascade(4, 2)} if several else models.cascade(4, 2)
    agent, expected = (idb.Thompson(d, "exact", seed=0) for _ in range(2))
    for learner in (agent, expected):
        for _ in range(before):
            learner.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 0})
    log = CASCADE, CLICKS
    assert_raises(ImpossibleObservationError, ("C1 = 1", "round 2"), lambda: agent.update_many(*log))
    assert agent.rounds == before
    report = agent.update_many(*log, impossible="skip")
    assert (report.rounds, report.impossible.tolist()) == (3, [2])
    expected.update_many(*({name: column[:2] + column[3:] for name, column in part.items()} for part in log))
    assert agent.rounds == expected.rounds
    if several:
        assert agent.weights() == expected.weights()
        for state, other in zip(agent._known.states, expected._known.states, strict=True):
            np.testing.assert_array_equal(state.floats, other.floats)
    else:
        assert_close(alpha_of(agent), alpha_of(expected), rtol=0)
        assert sampled(agent).impossible == 1
        np.testing.assert_array_equal(sampled(agent).rounds, sampled(expected).rounds)


@pytest.mark.parametrize("several", [False, True])
def test_a_single_impossible_round_is_skipped_too(several: bool) -> None:
    d = models.cascade(4, 2)
    agent = idb.Thompson([d] if several else d, "exact", seed=0)
    one = {"A1": [0], "A2": [1]}, {"C1": [1], "C2": [1]}
    assert_raises(ImpossibleObservationError, ("round 0",), lambda: agent.update_many(*one))
    assert repr(agent.update_many(*one, impossible="skip")) == "LogReport(rounds=0, impossible=[0])"
    assert repr(
        agent.update_many({"A1": [0] * 9, "A2": [1] * 9}, {"C1": [1] * 9, "C2": [1] * 9}, impossible="skip")
    ) == ("LogReport(rounds=0, impossible=[0, 1, 2, 3, 4, 5, 6, 7, … (9 in all)])")
    assert agent.rounds == 0
    assert_raises(IdbanditsError, ("impossible", "'skip'", "'no'"), lambda: agent.update_many(*one, impossible="no"))


@every
@pytest.mark.parametrize("rounds", [1, 5])
def test_a_log_that_is_small_beside_what_is_known_is_learned_as_by_update(name: str, rounds: int) -> None:
    one_by_one, at_once = (agent_of(name, models.position_based(4, 2)) for _ in range(2))
    seen = seen_without_clicks(one_by_one)
    for t in range(50 if rounds > 1 else 0):
        for agent in (one_by_one, at_once):
            agent.update({"A1": t % 3, "A2": 3}, seen)
    for _ in range(rounds):
        one_by_one.update({"A1": 2, "A2": 1}, seen)
    report = at_once.update_many(
        {"A1": [2] * rounds, "A2": [1] * rounds}, {node: [state] * rounds for node, state in seen.items()}
    )
    assert report.rounds == rounds
    assert knowledge(at_once) == knowledge(one_by_one)
