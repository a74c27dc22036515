"""Agents rebuilt from a journal: with its own diagram, to check a snapshot, or with another diagram."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from idbandits.agent.thompson import Thompson
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.records import ROUND
from idbandits.service.json_text import decoded
from idbandits.service.live.replica import MOST_STEPS, Replica, is_same_belief
from idbandits.service.live.settings import Settings, forget_of, inference_of
from idbandits.service.live.versions import Version
from idbandits.service.service_errors import ServiceError


class Rebuilt(NamedTuple):
    """Agent that has learned the steps of a journal again."""

    name: str
    agent: Thompson
    steps: int
    rejected: int  # steps that do not fit the diagram
    compared: int | None = None  # position of the snapshot
    is_equal: bool | None = None  # whether the belief equals that of the snapshot; None without a snapshot
    problem: str | None = None  # error of the first rejected step

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.steps:,} steps, {self.agent.rounds:,} rounds, {self.rejected:,} rejected"]
        if self.problem is not None:
            lines.append(f"first rejected step: {self.problem}")
        if self.is_equal is not None:
            verdict = "equals" if self.is_equal else "DIFFERS FROM"
            lines.append(f"the rebuilt belief {verdict} that of the snapshot at position {self.compared}")
        elif self.compared is None:
            lines.append("there is no snapshot to compare with")
        return "\n".join(lines)


def versions_of(journal: Journal) -> Callable[[str, int], Version]:
    """Return a function that returns a version by experiment and number, read from the journal once."""
    versions = dict[tuple[str, int], Version]()

    def version(experiment: str, number: int) -> Version:
        if (experiment, number) not in versions:
            for row in journal.versions(experiment):
                d, settings = Diagram.from_dict(decoded(row.diagram)), Settings(**decoded(row.settings))
                versions[experiment, row.version] = Version(experiment, row.version, d, settings, row.created)
        return versions[experiment, number]

    return version


def seed_of(journal: Journal, name: str) -> int:
    """Return the seed of an experiment, or raise if it does not exist."""
    experiments = journal.experiments()
    if name not in experiments:
        raise ServiceError(
            "unknown-experiment", f"experiment must be one of {brief(list(experiments))}, got {brief(name)}"
        )
    return experiments[name][1]


def rebuild(journal: Journal, name: str) -> Rebuilt:
    """Learn all steps from the first one, and compare the belief with the latest valid snapshot."""
    seed, versions = seed_of(journal, name), versions_of(journal)
    stored = Replica(journal, name, seed, versions)
    position = stored.load()
    replica, is_equal = Replica(journal, name, seed, versions), None
    steps = 0
    if position and stored.view is not None:
        steps = replica.follow(position)
        assert replica.view is not None
        is_equal = replica.statistics == stored.statistics and is_same_belief(replica.view.agent, stored.view.agent)
    steps += replica.follow()
    if replica.view is None:
        raise ServiceError("invalid", f"experiment {name!r} must have a version")
    return Rebuilt(name, replica.view.agent, steps, replica.rejected, position or None, is_equal)


def learn_again(journal: Journal, name: str, d: Diagram) -> Rebuilt:
    """Train an agent with another diagram on the rounds of an experiment."""
    seed, versions = seed_of(journal, name), versions_of(journal)
    rows = journal.versions(name)
    settings = versions(name, rows[-1].version).settings
    agent = Thompson(d, inference_of(d, settings), seed=seed, effort=settings.effort, forget=forget_of(settings))
    position = steps = rejected = 0
    problem: str | None = None
    while batch := journal.steps(name, position, MOST_STEPS):
        for step in batch:
            position = step.block
            if step.kind != ROUND or not step.learns:
                continue
            steps += 1
            action, context = decoded(step.action), decoded(step.context)
            before, after = decoded(step.before), decoded(step.after)
            at = None if agent.forget is None else step.at
            try:
                if before is None:
                    agent.update(action, after, context, at=at)
                else:
                    agent.revise(action, before, after, context, at=at)
            except IdbanditsError as error:
                rejected += 1
                problem = problem or str(error)
    return Rebuilt(name, agent, steps, rejected, 0, None, problem)
