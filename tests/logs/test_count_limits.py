"""Counts of odd logs, weights, times and files: each has a defined result or a named error."""

from __future__ import annotations

import datetime
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import idbandits as idb
from click_logs import clicked
from equal_counts import assert_equal, sums
from idbandits.errors import FormatError, IdbanditsError
from idbandits.logs.read.read_report import LogError
from internals import held_by, log_likelihood_held

ITEMS = ["a", "b", "c", "d"]
COUNTED = ["exact", "variational", "incremental", "moments", "gibbs", "ep"]
DAY = datetime.timedelta(days=1)


def log_of(name: str = "dynamic_bayesian", rounds: int = 200, seed: int = 0) -> tuple[idb.Diagram, pd.DataFrame]:
    """Return a small model and a log of it."""
    d = getattr(idb.models, name)(ITEMS, 2)
    return d, clicked(d, rounds, seed)


def alpha(agent: Any) -> np.ndarray:
    """Return all pseudo-counts."""
    return np.concatenate([belief.alpha.ravel() for belief in agent.posterior().values()])


# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [-1.0, -1e-9, np.nan, np.inf, -np.inf, None])
def test_rounds_with_invalid_weights_are_skipped_and_reported(weight: Any) -> None:
    d, frame = log_of(rounds=4)
    counts = idb.count(d, frame.assign(w=[1.0, weight, 2.5, 1.0]), weight="w")
    assert counts.rounds == 4.5
    assert counts.report.skipped == {"the weight is not a number >= 0": 1}
    assert_equal(counts, idb.count(d, frame.iloc[[0, 2, 3]].assign(w=[1.0, 2.5, 1.0]), weight="w"))


@pytest.mark.parametrize("inference", [name for name in COUNTED if name != "exact"])
@pytest.mark.parametrize("zeros", [1, 200])
def test_rounds_of_weight_zero_say_nothing(inference: str, zeros: int) -> None:
    d, frame = log_of()
    weights = np.ones(len(frame))
    weights[:zeros] = 0
    counts = idb.count(d, frame.assign(w=weights), weight="w")
    assert_equal(counts, idb.count(d, frame[zeros:]))
    agent = idb.Thompson(d, inference, seed=0)
    agent.learn(counts)
    assert agent.rounds == len(frame) - zeros
    if zeros == len(frame):
        np.testing.assert_array_equal(alpha(agent), alpha(idb.Thompson(d, inference, seed=0)))


@pytest.mark.parametrize("name", ["cascade", "position_based", "dynamic_bayesian"])
@pytest.mark.parametrize("weight", [0.25, 1e12])
def test_weights_multiply_counts(name: str, weight: float) -> None:
    d, frame = log_of(name)
    every = sums(idb.count(d, frame))
    few = sums(idb.count(d, frame.assign(w=weight), weight="w"))
    assert few.keys() == every.keys()
    for key, number in every.items():
        assert few[key] == pytest.approx(weight * number, rel=1e-12)


@pytest.mark.parametrize("inference", COUNTED)
def test_huge_weights_give_finite_beliefs(inference: str) -> None:
    d, frame = log_of("semi_bandit" if inference == "exact" else "dynamic_bayesian")
    agent = idb.fit(d, frame.assign(w=1e12), inference, weight="w", seed=0)
    assert agent.rounds == 200 * 10**12
    assert np.isfinite(alpha(agent)).all()
    for _ in range(3):
        assert set(agent.act()) == {"A1", "A2"}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=3, max_size=30), st.integers(0, 30))
def test_fractional_weights_are_additive(weights: list[float], cut: int) -> None:
    d, frame = log_of("click_chain", 30)
    log = frame[: len(weights)].assign(w=weights)
    total, parts = idb.count(d, log, weight="w"), [idb.count(d, own, weight="w") for own in (log[:cut], log[cut:])]
    added = sums(parts[0] + parts[1])
    assert added.keys() == sums(total).keys()
    for key, number in sums(total).items():
        assert added[key] == pytest.approx(number, rel=1e-9, abs=1e-6)


# -- small logs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", COUNTED)
def test_an_empty_log_leaves_the_prior(inference: str) -> None:
    d, frame = log_of("semi_bandit" if inference == "exact" else "cascade")
    empty = frame[:0]
    counts = idb.count(d, empty)
    assert (len(counts), counts.factors, (counts + counts).rounds) == (0, 0, 0)
    agent = idb.Thompson(d, inference, seed=0)
    agent.learn(counts)
    assert agent.rounds == 0
    np.testing.assert_array_equal(alpha(agent), alpha(idb.Thompson(d, inference, seed=0)))


@pytest.mark.parametrize("inference", COUNTED[1:])
def test_one_round_of_one_item_at_one_position(inference: str) -> None:
    d = idb.models.position_based(["only"], 1)
    log = {"A1": ["only"], "C1": [1]}
    agent = idb.fit(d, log, inference, seed=0)
    other = idb.Thompson(d, inference, seed=0)
    other.update({"A1": "only"}, {"C1": 1})
    assert agent.rounds == 1
    np.testing.assert_allclose(alpha(agent), alpha(other), rtol=1e-6)


def test_a_round_that_shows_nothing_is_counted() -> None:
    d = idb.models.position_based(ITEMS, 2, empty=True)
    log = pd.DataFrame(
        {"A1": ["a", "(nothing)", None], "A2": ["b", "(nothing)", "a"], "C1": [1, 0, 0], "C2": [0, 0, 1]}
    )
    counts = idb.count(d, log)
    assert counts.rounds == 3
    agent, other = (idb.Thompson(d, "variational", seed=0) for _ in range(2))
    agent.learn(counts)
    other.update_many({k: log[k].fillna("(nothing)") for k in ("A1", "A2")}, {k: log[k] for k in ("C1", "C2")})
    np.testing.assert_allclose(alpha(agent), alpha(other), rtol=1e-6)


# -- forgetting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cascade", "dynamic_bayesian"])
def test_fading_counts_are_additive_in_any_order(name: str) -> None:
    d, frame = log_of(name, 90)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    frame["t"] = [start + k * DAY / 10 for k in range(len(frame))]
    settings_of: dict[str, Any] = {"forget": idb.Forget(DAY), "at": "t"}
    whole = sums(idb.count(d, frame, **settings_of))
    old, late = (idb.count(d, own, **settings_of) for own in (frame[:40], frame[40:]))
    for own in (old + late, late + old, idb.count(d, frame[::-1], threads=1, **settings_of)):
        added = sums(own)
        assert added.keys() == whole.keys()
        for key, number in whole.items():
            assert added[key] == pytest.approx(number, rel=1e-9)


@pytest.mark.parametrize("inference", ["variational", "gibbs"])
def test_late_counts_join_an_agent_that_forgets(inference: str) -> None:
    d, frame = log_of("dynamic_bayesian", 60)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    frame["t"] = [start + k * DAY / 20 for k in range(len(frame))]
    forget = idb.Forget(5 * DAY)
    old, late = (idb.count(d, own, forget=forget, at="t") for own in (frame[:30], frame[30:]))
    agent, other = (idb.Thompson(d, inference, forget=forget, seed=0) for _ in range(2))
    agent.learn(late)
    agent.learn(old)
    other.learn(old + late)
    (own,), (expected,) = held_by(agent).values(), held_by(other).values()
    for mean in ([0.8, 0.2], [0.3, 0.7]):
        values = [log_likelihood_held(held, lambda _, m=mean: np.array(m), rounded=False) for held in (own, expected)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "counts.parquet"
    d, frame = log_of("dynamic_bayesian", 300)
    idb.count(d, frame).save(path)
    return path


def rewritten(path: Path, folder: Path, change: Any) -> Path:
    """Return a file of counts with changed columns or metadata."""
    table = pq.read_table(path)
    out = folder / "changed.parquet"
    pq.write_table(change(table), out)
    return out


def column(name: str, values: Any) -> Any:
    """Return a change of one column."""

    def change(table: pa.Table) -> pa.Table:
        own = table[name].to_pylist()
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(values(own), table[name].type))

    return change


def head(**changes: Any) -> Any:
    """Return a change of metadata."""

    def change(table: pa.Table) -> pa.Table:
        own = json.loads(table.schema.metadata[b"idbandits"])
        return table.replace_schema_metadata({"idbandits": json.dumps(own | changes)})

    return change


def last(value: Any) -> Any:
    """Return a change of the last value of a column."""
    return lambda own: [*own[:-1], value]


@pytest.mark.parametrize(
    "change",
    [
        *(column("weight", last(value)) for value in (-1.0, np.nan, np.inf, 1e300, None)),
        *(column("arguments", last(value)) for value in (None, b"", b"\x00\x00\x00", b"\xff\xff\xff\x7f" * 4, b"\xff" * 8)),
        *(column("shape", last(value)) for value in (None, b"", b"\x01", b"\x01" + b"\x00" * 7, b"\xff" * 64, b"\x7f" * 800)),
        *(column("entry", lambda own, value=value: [value, *own[1:]]) for value in (-5, 10**6, 2**62)),
        lambda table: table.drop_columns(["shape"]),
        lambda table: table.rename_columns(["a", "b", "c", "d"]),
        lambda table: table.set_column(3, "weight", pa.array(["x"] * table.num_rows)),
        lambda table: table.replace_schema_metadata(None),
        lambda table: table.replace_schema_metadata({"idbandits": b"\xff"}),
        lambda table: table.replace_schema_metadata({"idbandits": "[1]"}),
        *(head(format=value) for value in (None, 2, "1")),
        *(head(diagram=value) for value in (None, {}, [], {"name": 3})),
        *(head(clock=value) for value in ([], [1], ["a", 1], [0.0, 1], [-1.0, 0], [1.0, 2**80], 7, {"half_life": 1})),
        *(head(examples=value) for value in (None, 5)),
    ],
)  # fmt: skip
def test_wrong_files_are_named(change: Any, saved: Path, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path, change)
    with pytest.raises(FormatError, match=r"changed\.parquet"):
        idb.Counts.load(path)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_crash(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(saved.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 4)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.parquet"
    path.write_bytes(bytes(content))
    try:
        counts = idb.Counts.load(path)
    except IdbanditsError as error:
        assert "damaged.parquet" in str(error)
        return
    agent = idb.Thompson(counts.diagram, "variational", seed=0)
    agent.learn(counts)
    assert np.isfinite(alpha(agent)).all()


def test_files_of_other_diagrams_are_rejected(saved: Path) -> None:
    d = idb.models.dynamic_bayesian([*ITEMS, "e"], 2)
    with pytest.raises(IdbanditsError, match="diagram"):
        idb.Counts.load(saved, diagram=d)
    with pytest.raises(IdbanditsError, match="diagram"):
        idb.Thompson(d, seed=0).learn(idb.Counts.load(saved))
    with pytest.raises(IdbanditsError, match="diagram"):
        idb.Counts.load(saved) + idb.count(d, {"A1": [], "A2": [], "C1": []})
    with pytest.raises(FileNotFoundError, match=r"missing\.parquet"):
        idb.Counts.load(saved.with_name("missing.parquet"))


def test_fading_counts_are_saved(tmp_path: Path) -> None:
    d, frame = log_of("dynamic_bayesian", 50)
    frame["t"] = pd.date_range("2026-01-01", periods=len(frame), freq="3h", tz="UTC")
    counts = idb.count(d, frame, forget=idb.Forget(DAY), at="t")
    counts.save(tmp_path / "counts.parquet")
    again = idb.Counts.load(tmp_path / "counts.parquet", diagram=d)
    assert again.clock == counts.clock
    assert_equal(again, counts)


# -- interruptions ---------------------------------------------------------------------------------------------------


def test_an_interrupted_count_leaves_no_threads() -> None:
    d, frame = log_of("dynamic_bayesian", 2_000)
    table, before = pa.Table.from_pandas(frame), set(threading.enumerate())

    def batches() -> Any:
        for k in range(40):
            if k == 20:
                raise KeyboardInterrupt
            yield from table.to_batches()

    with pytest.raises(KeyboardInterrupt):
        idb.count(d, pa.RecordBatchReader.from_batches(table.schema, batches()))
    assert set(threading.enumerate()) <= before


def test_an_error_in_a_log_ends_the_count() -> None:
    d, frame = log_of()
    with pytest.raises(LogError, match="row 3"):
        idb.count(d, frame.assign(A1=["a", "b", "c", "x", *["d"] * 196]), invalid="error")
