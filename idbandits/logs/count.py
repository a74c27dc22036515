"""Counting batches of rounds on all cores."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, final

import numpy as np

from idbandits.agent.counts.counts import Clock, Content, Counts, Skipped, clock_of, joined_sample, no_counts
from idbandits.agent.fit_report.sample import Sample
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError
from idbandits.inference.counts.count_rounds import Counter, shapes_in
from idbandits.inference.counts.log_density import cores
from idbandits.inference.counts.reduction_plans import COUNTED, IMPOSSIBLE, MISSING
from idbandits.inference.forgetting import Forget
from idbandits.kernel.array_types import Floats, Ints
from idbandits.logs.rounds import Rounds

MOST_WAITING = 4  # batches per thread that were read and not yet counted
MOST_EXAMPLES = 5


@final
class Worker:
    """Counter of one thread, whose weights have faded up to a step of the clock."""

    def __init__(self, model: Model, clock: Clock | None) -> None:
        self.counter, self.clock, self.rounds = Counter(model), clock, 0.0

    def count(self, rounds: Rounds) -> Ints:
        """Count rounds; return the status of each."""
        weights = rounds.weights
        if self.clock is not None:
            weights = self._faded(rounds)
        status = self.counter.count(
            np.ascontiguousarray(rounds.choices), np.ascontiguousarray(rounds.seen), np.ascontiguousarray(weights)
        )
        counted = status == COUNTED
        self.rounds += float(rounds.weights[counted].sum()) if len(rounds.weights) else float(counted.sum())
        return status

    def _faded(self, rounds: Rounds) -> Floats:
        """Return the weights of rounds at the latest step of the clock; discount earlier counts to that step."""
        assert self.clock is not None
        ticks = np.floor(rounds.times / self.clock.step)
        latest = self.clock._replace(tick=max(self.clock.tick, int(ticks.max(initial=self.clock.tick))))
        if self.rounds and latest.tick > self.clock.tick:
            keep = float(latest.left(self.clock.tick))
            self.counter.uses *= keep
            self.counter.tally.weights[: self.counter.tally.used] *= keep
        self.clock = latest
        faded: Floats = latest.left(ticks)
        return faded * rounds.weights if len(rounds.weights) else faded

    def result(self, d: Diagram) -> Counts:
        """Return what was counted."""
        own = self.counter
        content = Content(self.rounds, own.uses[:-1], float(own.uses[-1]), own.tally, tuple(shapes_in(own.plans)))
        return Counts(d, content, clock=self.clock)


def count_batches(d: Diagram, batches: Iterable[Rounds], forget: Forget | None = None, threads: int = 0) -> Counts:
    """Count batches of rounds on all cores."""
    model = compile(d)
    if any(node.features is not None for node in model.contexts):
        raise IdbanditsError(
            f"diagram {d.name!r} has contexts with features, so that rounds differ and cannot be counted; "
            "idb.fit learns them round by round"
        )
    number, clock = threads or cores(), clock_of(forget)
    workers, idle = [Worker(model, clock) for _ in range(number)], queue.SimpleQueue[Worker]()
    for worker in workers:
        idle.put(worker)
    sample, skipped = Sample(len(model.decisions) + len(model.contexts) + len(model.observed)), Skipped()

    def work(rounds: Rounds) -> tuple[Rounds, Ints]:
        worker = idle.get()
        try:
            return rounds, worker.count(rounds)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(number) as pool:
        for rounds, status in _in_order(pool, work, batches, MOST_WAITING * number):
            complete = (status == COUNTED) & (rounds.choices >= 0).all(axis=1)
            rows = np.ascontiguousarray(np.hstack([rounds.choices, rounds.seen])[complete])
            if len(rounds.weights):
                sample = joined_sample(sample, _weighed(rows, rounds.weights[complete]))
            else:
                sample.add_many(rows)
            skipped = skipped.plus(_skipped(model, rounds, status))
    sample.impossible = skipped.impossible
    total = no_counts(d, forget)
    for worker in workers:
        if worker.rounds:
            total = worker.result(d) if not total.content.rounds else total + worker.result(d)
    return Counts(d, total.content, skipped, total.clock, sample)


def _weighed(rows: Ints, weights: Floats) -> Sample:
    """Return a sample of rounds that stand for as many as their weights."""
    sample, total = Sample(rows.shape[1]), float(weights.sum())
    if total >= 1.0:
        number = min(sample.room, int(total))
        if (weights == np.floor(weights)).all() and total <= sample.room:
            chosen = np.repeat(np.arange(len(rows)), weights.astype(np.int64))
        else:
            chosen = np.random.default_rng(len(rows)).choice(len(rows), number, p=weights / total)
        sample.add_many(np.ascontiguousarray(rows[chosen]))
        sample.count = int(total)
    return sample


def _in_order(pool: ThreadPoolExecutor, work: Any, batches: Iterable[Rounds], most: int) -> Iterator[Any]:
    """Yield the results of work on batches in their order, with a bounded number of batches in memory."""
    waiting: deque[Future[Any]] = deque()
    for batch in batches:
        waiting.append(pool.submit(work, batch))
        if len(waiting) >= most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _skipped(model: Model, rounds: Rounds, status: Ints) -> Skipped:
    """Return the rounds of a batch that were not counted, with examples."""
    weights = rounds.weights if len(rounds.weights) else None
    impossible, missing = (
        int((status == kind).sum() if weights is None else weights[status == kind].sum())
        for kind in (IMPOSSIBLE, MISSING)
    )
    examples = list[str]()
    for i in np.flatnonzero(status != COUNTED)[:MOST_EXAMPLES].tolist():
        why = "has probability zero" if status[i] == IMPOSSIBLE else "depends on a choice that is missing"
        examples.append(f"round {rounds.numbers[i]} {why}: {described(model, rounds, i)}")
    return Skipped(impossible, missing, tuple(examples))


def described(model: Model, rounds: Rounds, i: int) -> str:
    """Describe a round by names and labels."""
    nodes = [*model.decisions, *model.contexts, *model.observed]
    numbers = [*rounds.choices[i].tolist(), *rounds.seen[i].tolist()]
    named = zip(nodes, numbers, strict=True)
    return ", ".join(f"{node.name} = {node.values[k]!r}" for node, k in named if k >= 0) or "(nothing)"
