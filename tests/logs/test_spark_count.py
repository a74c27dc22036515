"""Counts of Spark data frames, on a real cluster, equal those of DuckDB."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from database_servers import missing, spark_cluster, spark_session
from equal_counts import ITEMS, assert_equal, logged
from idbandits import models
from idbandits.agent.counts.counts import Counts
from idbandits.logs.count import count_batches
from idbandits.logs.engines.spark_count import count_frame
from idbandits.logs.read.open_log import open_log

pytestmark = [
    pytest.mark.skipif(bool(missing("pyspark")), reason=missing("pyspark")),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("log") / "log.parquet")
    logged(6_000, 1).to_parquet(path, row_group_size=1_000)
    return path


def test_a_cluster_counts_like_duckdb_although_a_worker_is_killed(log: str, tmp_path: Path) -> None:
    d, cascade = models.dynamic_bayesian(ITEMS, 3), models.cascade(ITEMS, 3)
    table = pq.read_table(log)
    with spark_cluster(tmp_path) as cluster, spark_session(cluster.url, tmp_path, spark_cores_max=2) as session:
        frame = session.read.parquet(log)
        for own, weight in ((d, None), (cascade, "impressions")):  # a cascade makes rounds with two clicks impossible
            opened = open_log(own, table, weight=weight)
            expected = count_batches(own, opened.batches())
            counts = count_frame(opened.encoder, frame.repartition(4))
            assert_equal(counts, expected)
            assert counts.report.skipped == opened.report.skipped
            assert counts.report.read == opened.report.read
            assert bool(counts.examples) == bool(expected.examples)

        def slowly(batches: Any) -> Any:
            for batch in batches:
                time.sleep(0.5)
                yield batch

        slow = frame.repartition(12).mapInArrow(slowly, frame.schema)
        opened, result = open_log(d, table), list[Counts]()
        job = threading.Thread(target=lambda: result.append(count_frame(opened.encoder, slow)))
        job.start()
        tracker, finished = session.sparkContext.statusTracker(), 0
        while finished < 3 and job.is_alive():
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            finished = max([stage.numCompletedTasks for stage in stages if stage and stage.numTasks == 12], default=0)
            time.sleep(0.05)
        assert job.is_alive(), "the job ended before a worker was killed"
        cluster.kill_worker(0)
        job.join(120)
        assert not job.is_alive()
        assert cluster.workers[0].poll() is not None
        assert_equal(result[0], count_batches(d, opened.batches()))
