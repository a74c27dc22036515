"""Metrics for Prometheus: of requests in this worker, and totals of the journal."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from idbandits.errors import IdbanditsError
from idbandits.service.http.service_state import ServiceState

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
WRITES = (1, 2, 5, 10, 20, 50, 100, 200, 400)
JOURNAL_SECONDS = 30.0  # between counts of the journal
WORKER, WHOLE = "(of the worker that answers)", "(of all workers, from the journal, at most 30 s old)"


@final
class Buckets:
    """Counts of numbers by upper limits, and their sum."""

    def __init__(self, limits: tuple[float, ...]) -> None:
        self._limits, self._counts, self._sum = limits, [0] * (len(limits) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a number."""
        self._counts[bisect_left(self._limits, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return cumulative counts by upper limit in the format of Prometheus, and the sum."""
        total, result = 0, list[tuple[str, float]]()
        for limit, count in zip([*map(str, self._limits), "+Inf"], list(self._counts), strict=True):
            total += count
            result.append((limit, total))
        return result, self._sum


@final
class RequestTimes:
    """Numbers of requests by route and status, and their times by route."""

    def __init__(self) -> None:
        self.counts, self.times = Counter[tuple[str, str, int]](), dict[str, Buckets]()

    def add(self, endpoint: Any, method: str, status: int, seconds: float) -> None:
        """Count a request; status 0 means that the caller closed the connection."""
        label = getattr(endpoint, "label", "other")
        self.counts[label, method if label != "other" else "any", status] += 1
        times = self.times.get(label)
        if times is None:
            times = self.times[label] = Buckets(SECONDS)
        times.add(seconds)


@final
class ServiceMetrics:
    """Metrics as a text; the journal is queried at most twice a minute."""

    def __init__(self, state: ServiceState, times: RequestTimes) -> None:
        self._state, self._requests, self._commits = state, times, Buckets(WRITES)
        self._journal, self._until, self._lock = dict[str, dict[str, float]](), 0.0, threading.Lock()
        self._store_lag = self._up = 0.0

    def text(self, with_names: bool) -> bytes:
        """Return all metrics, of each experiment if `with_names`, else totals."""
        with self._lock:
            self._refresh()
            registry = CollectorRegistry(auto_describe=False)
            registry.register(_Families([*self._of_worker(), *self._of_journal(with_names)]))
            return bytes(generate_latest(registry))

    def _refresh(self) -> None:
        """Count new transactions; query the journal again if its totals are older than `JOURNAL_SECONDS`."""
        batches = self._state.writes.batches
        for size in batches[: (number := len(batches))]:
            self._commits.add(size)
        del batches[:number]
        if time.monotonic() < self._until:
            return
        live = self._state.live
        try:
            by_name = dict[str, dict[str, float]]()
            for name in live.experiments():
                view, totals = live.view(name), live.journal.totals(name)
                behind = live.journal.behind(name, view.position)
                by_name[name] = {
                    "decisions": totals["decisions"], "pending": totals["pending"], "letters": totals["letters"],
                    "rounds": view.agent.rounds, "lag_steps": behind,
                    "lag_seconds": live.lag(name),
                }  # fmt: skip
            self._store_lag, self._journal, self._up = live.store.lag(), by_name, 1.0
        except IdbanditsError:
            self._up = 0.0
        self._until = time.monotonic() + JOURNAL_SECONDS

    def _of_worker(self) -> Iterator[Any]:
        requests = CounterMetricFamily(
            "idbandits_requests", f"Requests by route, method and status {WORKER}", labels=["route", "method", "status"]
        )
        outcomes = CounterMetricFamily("idbandits_outcomes", f"Outcomes by status {WORKER}", labels=["status"])
        by_status = Counter[str]()
        for (label, method, status), number in list(self._requests.counts.items()):
            requests.add_metric([label, method, str(status)], number)
            if label == "outcomes":
                by_status[str(status)] += number
        for status_text, number in by_status.items():
            outcomes.add_metric([status_text], number)
        times = HistogramMetricFamily("idbandits_request_seconds", f"Times of requests {WORKER}", labels=["route"])
        for label, buckets in list(self._requests.times.items()):
            times.add_metric([label], *buckets.read())
        commits = HistogramMetricFamily("idbandits_commit_writes", f"Writes of a transaction {WORKER}")
        commits.add_metric([], *self._commits.read())
        state = self._state
        yield from (requests, outcomes, times, commits)
        yield _gauge("idbandits_writes_waiting", f"Writes that wait for the journal {WORKER}", state.writes.waiting)
        yield _counter(
            "idbandits_letters_dropped", f"Dead letters that were not stored {WORKER}", state.letters.dropped
        )
        yield _counter("idbandits_learned_steps", f"Steps that were learned {WORKER}", state.live.learned[0])
        yield _counter("idbandits_learning_seconds", f"Time spent learning {WORKER}", state.live.learned[1])
        yield _gauge("idbandits_ready", f"1 if decisions do not wait for a compiler {WORKER}", float(state.warm.ready))

    def _of_journal(self, with_names: bool) -> Iterator[Any]:
        yield _gauge("idbandits_journal_up", "1 if the journal answers", self._up)
        yield _gauge("idbandits_store_lag", "Transactions that readers of the journal wait for", self._store_lag)
        yield _gauge("idbandits_experiments", f"Experiments {WHOLE}", len(self._journal))
        for key, what in (
            ("decisions", "Decisions"), ("pending", "Decisions whose rounds are not closed"),
            ("letters", "Dead letters that were not replayed"),
        ):  # fmt: skip
            yield self._by_name(key, f"{what} {WHOLE}", with_names, sum)
        yield self._by_name("rounds", f"Rounds that were learned {WORKER}", with_names, sum)
        yield self._by_name("lag_steps", f"Steps of the journal that are not learned yet {WORKER}", with_names, max)
        yield self._by_name(
            "lag_seconds", f"How long something is due that is not learned yet {WORKER}", with_names, max
        )

    def _by_name(self, key: str, text: str, with_names: bool, total: Any) -> Any:
        family = GaugeMetricFamily(f"idbandits_{key}", text, labels=["experiment"] if with_names else [])
        if with_names:
            for name, totals in self._journal.items():
                family.add_metric([name], totals[key])
        else:
            family.add_metric([], total([totals[key] for totals in self._journal.values()] or [0]))
        return family


@final
class _Families:
    """Collector that returns metric families computed in advance."""

    def __init__(self, families: Iterable[Any]) -> None:
        self._families = list(families)

    def collect(self) -> list[Any]:
        return self._families


def _gauge(name: str, text: str, value: float) -> Any:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Any:
    return CounterMetricFamily(name, text, value=value)
