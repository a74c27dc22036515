"""Ibis tables: equal rounds are grouped by the engine. Ibis needs older libraries, so it may not be installed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from database_servers import missing
from equal_counts import ITEMS, assert_equal, logged
from idbandits import models
from idbandits.logs.count import count_batches
from idbandits.logs.engines.group_rounds import grouped
from idbandits.logs.read.open_log import LogOptions, open_log

pytestmark = pytest.mark.skipif(bool(missing("ibis")), reason=missing("ibis"))


@pytest.mark.parametrize("weight", [None, "impressions"])
def test_grouped_rounds_have_the_counts_of_all_rounds(weight: str | None) -> None:
    import ibis

    d, frame, options = models.dynamic_bayesian(ITEMS, 3), logged(3_000, 2), LogOptions(weight=weight)
    table = ibis.memtable(frame.astype({f"C{k}": "float" for k in (1, 2, 3)}))
    every = open_log(d, table, options)
    distinct = grouped(every, table, options)
    expected = count_batches(d, open_log(d, pa.Table.from_pandas(frame), options).batches())
    assert_equal(count_batches(d, every.batches()), expected)
    assert_equal(count_batches(d, distinct.batches()), expected)
    assert distinct.report.rows < every.report.rows / 2
