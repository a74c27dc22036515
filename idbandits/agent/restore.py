"""Agents from files and pickles, and back: each structure is one agent file, several of them are a bundle."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from idbandits.agent.encoding.agreement import named_structures
from idbandits.agent.encoding.era import Era
from idbandits.agent.learner import Learner
from idbandits.agent.snapshot import Snapshot
from idbandits.agent.storage.agent_file import Saved, content_of, load_agent, read_agent, save_agent
from idbandits.agent.storage.bundle import Bundle, is_bundle, load_bundle, save_bundle
from idbandits.circuit.model import compile
from idbandits.errors import FormatError, IdbanditsError
from idbandits.files import path_of
from idbandits.inference import Inference
from idbandits.inference.structures.weights import Standing, first_standing
from idbandits.kernel.array_types import Rng


class Parts(NamedTuple):
    """Everything that an agent is made of."""

    known: Snapshot
    rng: Rng
    names: tuple[str, ...] | None = None  # of structures, if there may be several
    eras: Sequence[Era] = ()  # before the present one
    carried: Any = None
    metadata: Mapping[str, Any] | None = None


def saved_members(known: Snapshot, rng: Rng, metadata: dict[str, Any]) -> list[Saved]:
    """Return what files hold of each structure; the sample and the ledger are those of all of them."""
    return [
        Saved(learner.diagram, learner.settings, learner.past, state, rng, known.sample, metadata, known.ledger)
        for learner, state in zip(known.learners, known.states, strict=True)
    ]


def restored(members: Sequence[Saved], standing: Standing, names: tuple[str, ...] | None) -> Parts:
    """Return the parts of an agent from what files hold of each structure."""
    first, labels = members[0], names or (members[0].diagram.name,)
    learners = tuple(Learner(own.diagram, compile(own.diagram), own.settings, own.past) for own in members)
    pasts = zip(*(own.past.earlier for own in members), strict=True)
    eras = [Era(dict(zip(labels, diagrams, strict=True))) for diagrams in pasts]
    states = tuple(learner.with_scratch(own.state) for learner, own in zip(learners, members, strict=True))
    known = Snapshot(learners, states, standing, first.sample, first.ledger)
    return Parts(known, first.rng, names, eras, metadata=first.metadata)


def save(path: Any, known: Snapshot, rng: Rng, names: Sequence[str] | None, metadata: dict[str, Any]) -> None:
    """Write an agent to a file atomically."""
    evidence = [learner.evidence for learner in known.learners]
    if names is None:
        save_agent(path_of(path), saved_members(known, rng, metadata)[0], evidence[0])
        return
    members = zip(saved_members(known, rng, {}), evidence, strict=True)
    contents = [partial(content_of, saved, about) for saved, about in members]
    save_bundle(path_of(path), Bundle(list(names), known.standing, rng, metadata), contents)


def load(path: Any, diagrams: Any, inference: Inference | None) -> Parts:
    """Read an agent from a file; if `diagrams` are given, it must have learned in these."""
    where = path_of(path)
    if not is_bundle(where):
        return restored([load_agent(where, diagrams, inference)], first_standing(1), None)
    wanted = None if diagrams is None else named_structures(diagrams)
    members: dict[str, Saved] = {}

    def read(name: str, content: bytes) -> None:
        if wanted is not None and name not in wanted:
            raise FormatError(f"it is not one of {', '.join(map(repr, wanted))}")
        diagram = None if wanted is None else wanted[name]
        members[name] = read_agent(io.BytesIO(content), len(content), diagram, inference)

    bundle = load_bundle(where, read)
    if missing := [name for name in wanted or {} if name not in members]:
        raise FormatError(f"{where}: the agent in it has no structure {missing[0]!r}")
    _check_agreement(where, members)
    own = list(members.values())
    own[0] = own[0]._replace(rng=bundle.rng, metadata=bundle.metadata)
    return restored(own, bundle.standing, tuple(bundle.names))


def _check_agreement(where: Path, members: Mapping[str, Saved]) -> None:
    """Raise unless the structures of a bundle can be those of one agent."""
    own = list(members.values())
    try:
        named_structures({name: saved.diagram for name, saved in members.items()})
        if len({len(saved.past.earlier) for saved in own}) > 1:
            raise FormatError("its structures have different numbers of earlier diagrams")
        for diagrams in zip(*(saved.past.earlier for saved in own), strict=True):
            named_structures(dict(zip(members, diagrams, strict=True)))
    except IdbanditsError as error:
        raise FormatError(f"{where}: {error}") from None
