"""The command `idbandits serve` as a process: workers that die, signals, a full disk, addresses."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import idbandits as idb
from http_service import put, until_ready
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.sqlite import SqliteStore

ONE = "/v1/experiments/shop"
ROOT = Path(idb.__file__).parents[1]


def command(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "IDBANDITS_STORE": "sqlite:///shop.db"}
    return subprocess.Popen(
        [sys.executable, "-m", "idbandits", *arguments], cwd=folder, env=environment, text=True, stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as own:
        return int(own.getsockname()[1])


class Serving:
    """Running service."""

    def __init__(self, folder: Path, workers: int) -> None:
        port = free_port()
        self.process = command("serve", "--port", str(port), "--workers", str(workers), folder=folder)
        self.address = f"http://127.0.0.1:{port}"

    def workers(self) -> list[int]:
        """Return the processes of the workers, and of several the one that learns."""
        own = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in own if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


@contextmanager
def serving(folder: Path, workers: int = 2) -> Iterator[Serving]:
    own = Serving(folder, workers)
    try:
        until_ready(own.address)
        yield own
    finally:
        own.process.send_signal(signal.SIGTERM)
        own.process.communicate(timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_that_die_are_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    with serving(tmp_path) as own:
        put(own.address)
        with idb.Client(own.address, timeout=30, retries=8) as client:
            ids = [client.decide("shop").id for _ in range(20)]
            before = own.workers()
            assert len(before) == 3  # with the one that learns
            os.kill(before[0], signal.SIGKILL)
            os.kill(before[2], signal.SIGKILL)
            ids += [client.decide("shop").id for _ in range(20)]
            until = time.monotonic() + 60
            while len(own.workers()) < 3:
                assert time.monotonic() < until
                time.sleep(0.05)
            assert set(own.workers()) & set(before) == {before[1]}
            assert client.report_many("shop", [{"id": id, "complete": True} for id in ids]) == ["accepted"] * 40
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(timeout=60) == 0
    store = SqliteStore(f"sqlite:///{tmp_path}/shop.db")
    assert Journal(store).snapshots("shop")  # stored at the end
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_full_disk_is_503_until_there_is_room(tmp_path: Path) -> None:
    with serving(tmp_path, workers=1) as own:
        put(own.address)
        (worker,) = own.workers()
        own_limit = resource.prlimit(worker, resource.RLIMIT_FSIZE)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (4096, own_limit[1]))
        until = time.monotonic() + 30
        while (answer := httpx.post(f"{own.address}{ONE}/decisions", json={})).status_code == 201:
            assert time.monotonic() < until
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["type"].endswith("unavailable")
        assert httpx.get(f"{own.address}/healthz").status_code == 200
        resource.prlimit(worker, resource.RLIMIT_FSIZE, own_limit)
        while httpx.post(f"{own.address}{ONE}/decisions", json={}).status_code != 201:
            assert time.monotonic() < until
        assert own.workers() == [worker]


def test_other_addresses_need_a_token(tmp_path: Path) -> None:
    refused = command("serve", "--host", "0.0.0.0", "--port", "0", folder=tmp_path)
    _, err = refused.communicate(timeout=120)
    assert refused.returncode == 2
    assert "idbandits token create" in err


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = command("serve", "--port", str(taken.getsockname()[1]), folder=tmp_path)
        _, err = own.communicate(timeout=120)
    assert own.returncode == 2
    assert err.count("\n") == 1
    assert "--port must be free" in err


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    own = Serving(tmp_path, 2)
    until_ready(own.address)
    workers = own.workers()
    own.process.kill()
    own.process.communicate()
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until
        time.sleep(0.05)
