"""Replica of an experiment: its agent and statistics as a function of the steps of the journal.

All replicas at a position are bitwise equal, because random numbers of learning are seeded by the blocks of steps.
Therefore a decision can be computed again from its position and seed.
"""

from __future__ import annotations

import hashlib
import io
import logging
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from importlib.metadata import version as version_of
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.thompson import Thompson
from idbandits.errors import IdbanditsError
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.records import VERSION, StepRow
from idbandits.service.json_text import decoded
from idbandits.service.live.settings import forget_of, inference_of
from idbandits.service.live.shelf import Entry
from idbandits.service.live.statistics import LearnedRound, Statistics
from idbandits.service.live.versions import Version
from idbandits.service.service_errors import ServiceError

LOG = logging.getLogger(__name__)
LIBRARY = version_of("idbandits")
MOST_STEPS = 20_000  # per query


class View(NamedTuple):
    """Agent and version that make decisions; learning replaces the whole view."""

    position: int
    version: Version
    agent: Thompson


@final
class Replica:
    """Agent and statistics of an experiment; one thread follows the journal, others read `view`."""

    def __init__(self, journal: Journal, experiment: str, seed: int, versions: Callable[[str, int], Version]) -> None:
        self._journal, self.experiment, self._seed, self._versions = journal, experiment, seed, versions
        self.position, self._statistics = 0, Statistics()
        self._encoded: bytes | None = None  # statistics from the shelf, until somebody reads them
        self.unshared = 0  # steps since the latest entry on the shelf
        self.view: View | None = None  # None before the first version
        self.rejected = 0  # steps that the agent did not accept
        self.snapshot_position = 0

    @property
    def statistics(self) -> Statistics:
        """Counts of rounds, rewards, choices and observations up to the position."""
        if (text := self._encoded) is not None:
            self._statistics, self._encoded = Statistics.from_json(text), None
        return self._statistics

    # -- following -----------------------------------------------------------------------------------------------------

    def follow(self, until: int = 2**62) -> int:
        """Learn complete steps up to a position; return the number of steps."""
        number = 0
        while steps := self._journal.steps(self.experiment, self.position, MOST_STEPS, until):
            self.apply(steps)
            number += len(steps)
        return number

    def apply(self, steps: Sequence[StepRow]) -> None:
        """Learn the steps of complete blocks; after an error, nothing is learned."""
        agent = None if self.view is None else self.view.agent.copy()
        version = None if self.view is None else self.view.version
        rejected, rounds = 0, list[LearnedRound]()
        for block, steps_of_block in groupby(steps, attrgetter("block")):
            if agent is not None:
                seed = np.random.SeedSequence([self._seed, block])
                agent.rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state
            for step in steps_of_block:
                if step.kind == VERSION:
                    version = self._versions(self.experiment, step.version)
                    agent = self._agent_of(version) if agent is None else agent.moved_to(version.diagram)
                elif agent is not None and version is not None:
                    round_ = LearnedRound(step, decoded(step.action), decoded(step.before), decoded(step.after))
                    rejected += not self._learn(agent, version, round_)
                    rounds.append(round_)
        self.statistics.count_rounds(rounds)
        self.rejected += rejected
        self.unshared += len(steps)
        self.position = steps[-1].block
        if agent is not None and version is not None:
            self.view = View(self.position, version, agent)

    def _agent_of(self, version: Version) -> Thompson:
        settings, d = version.settings, version.diagram
        forget = forget_of(settings)
        return Thompson(d, inference_of(d, settings), seed=self._seed, effort=settings.effort, forget=forget)

    def _learn(self, agent: Thompson, version: Version, round_: LearnedRound) -> bool:
        """Learn, correct or remove a round; return whether the agent accepted it."""
        step, action, before, after = round_
        if not step.learns:
            return True
        at = None if agent.forget is None else step.at
        d = None if step.version == version.number else self._versions(self.experiment, step.version).diagram
        context = decoded(step.context)
        try:
            if before is None:
                agent.update(action, after or {}, context, at=at, diagram=d)
            else:
                agent.revise(action, before, after, context, at=at, diagram=d)
        except IdbanditsError:
            return False
        return True

    # -- sharing -------------------------------------------------------------------------------------------------------

    def entry(self, caught_up: float) -> Entry:
        """Return an entry of the shelf, from which other processes continue."""
        assert self.view is not None
        self.unshared = 0
        statistics = self.statistics.to_json()
        return Entry(self.position, self.view.version.number, self.view.agent, statistics, self.rejected, caught_up)

    def adopt(self, entry: Entry) -> None:
        """Continue from the entry of another process."""
        version = self._versions(self.experiment, entry.version)
        self.position, self.rejected, self._encoded = entry.position, entry.rejected, entry.statistics
        self.view = View(entry.position, version, entry.agent)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Store a snapshot in the journal."""
        if self.view is None or self.position == self.snapshot_position:
            return
        content = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as parts:
            path = Path(folder) / "agent.npz"
            self.view.agent.save(path)
            parts.write(path, "agent.npz")
            parts.writestr("statistics.json", self.statistics.to_json())
            parts.writestr("version", str(self.view.version.number))
        snapshot = content.getvalue()
        digest = hashlib.sha256(snapshot).hexdigest()
        self._journal.save_snapshot(self.experiment, self.position, LIBRARY, digest, snapshot)
        self.snapshot_position = self.position

    def load(self, until: int = 2**62) -> int:
        """Continue from the latest valid snapshot up to a position; return its position, 0 without a snapshot."""
        for block, library, digest, content in self._journal.snapshots(self.experiment, until):
            if library == LIBRARY and hashlib.sha256(content).hexdigest() == digest:
                try:
                    self._restore(block, content)
                except ServiceError:  # the journal failed, not the snapshot
                    raise
                except Exception:
                    LOG.exception("a snapshot of %s cannot be read: more of the journal is read", self.experiment)
                    continue
                return block
        return 0

    def _restore(self, block: int, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(io.BytesIO(content)) as parts:
            path = Path(folder) / "agent.npz"
            path.write_bytes(parts.read("agent.npz"))
            agent = Thompson.load(path)
            statistics = Statistics.from_json(parts.read("statistics.json"))
            version = self._versions(self.experiment, int(parts.read("version")))
        self.position = self.snapshot_position = block
        self._statistics, self._encoded, self.view = statistics, None, View(block, version, agent)


def replica_at(
    journal: Journal, experiment: str, seed: int, versions: Callable[[str, int], Version], position: int
) -> Replica:  # fmt: skip
    """Return the replica of an experiment as it was at a position."""
    replica = Replica(journal, experiment, seed, versions)
    replica.load(position)
    replica.follow(position)
    if replica.view is None:
        raise ServiceError(
            "invalid", f"position must be one at which experiment {experiment!r} existed, got {position}"
        )
    return replica


def is_same_belief(left: Any, right: Any) -> bool:
    """Return whether two agents have equal beliefs, up to a relative difference of 1e-6."""
    tables, others = left.posterior(), right.posterior()
    return tables.keys() == others.keys() and all(
        np.allclose(tables[name].alpha, others[name].alpha, rtol=1e-6) for name in tables
    )
