"""Test pairs of capabilities for each inference: a short lifetime with both, or a rejection before learning.

A rejection is in time if it is raised when the agent is created, or when the capability is first used before any round
was learned, and if it is not an error about an action or an observation.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import idbandits as idb
from idbandits.errors import ActionError, ContextError, DiagramWarning, IdbanditsError, ObservationError
from lifetime import Life
from lifetime_rounds import NAMES, Setting, Shape, random_round

Rng = np.random.Generator
FIRST, SECOND = Shape("abcd", 2, True), Shape("dbe", 2, True)
INFERENCES = {**{name: name for name in NAMES}, "custom": "own"}  # name on the page -> name in the tests
MISFITS = ActionError, ContextError, ObservationError


class Capability(NamedTuple):
    """Capability of an agent."""

    name: str
    kind: str = ""  # kind of agents with the capability, if it is declared
    half_life: Any = None  # half-life, if the agent forgets
    ask: Callable[[Any, Life], Any] | None = None  # use the capability before anything was learned
    use: Callable[[Life, Rng], None] | None = None


def ask_revise(agent: Any, life: Life) -> None:
    """Remove a round that was not learned: an observation error where rounds can be removed."""
    played = random_round(life.setting, FIRST, np.random.default_rng(0), 0.0)
    try:
        agent.revise(played.action, played.observation, None, played.context, **life.at(0.0, said=True))
    except ObservationError:
        return


def ask_counts(agent: Any, life: Life) -> None:
    """Learn the counts of a round."""
    played = random_round(life.setting, FIRST, np.random.default_rng(0), 0.0)
    forget = {"forget": life.setting.forget, "at": "at"} if life.clock.by_time else {}
    setting = life.setting if not life.setting.has("users") else Setting("exact", latent=life.setting.latent)
    agent.learn(idb.count(*life.table([played], setting, FIRST), **forget))


def ask_late(agent: Any, life: Life) -> None:
    """Learn a round of an earlier diagram."""
    played = random_round(life.setting, Shape("ac", 2, True), np.random.default_rng(0), 0.0)
    moved = agent.moved_to(life.targets(SECOND))
    moved.update(played.action, played.observation, played.context, **life.at(0.0, said=True))


def use_missing(life: Life, rng: Rng) -> None:
    """Learn rounds with many missing values."""
    life.unseen = 0.5
    for _ in range(3):
        life.update(rng)


def use_move(life: Life, rng: Rng) -> None:
    """Move to another diagram and continue."""
    life.move(rng, SECOND)
    life.update(rng)


def use_late(life: Life, rng: Rng) -> None:
    """Move, then learn earlier rounds in both ways."""
    life.move(rng, SECOND)
    for _ in range(3):
        life.update_late(rng)
    life.update_many(rng)


def use_revise(life: Life, rng: Rng) -> None:
    """Complete a round, correct one, and remove one."""
    for how in ("complete", "correct", "take back"):
        life.revise(rng, how)
    life.update(rng)


def use_copies(life: Life, rng: Rng) -> None:
    """Continue with a copy of a pickled agent."""
    life.copy(rng)
    life.pickle(rng)


def use_report(life: Life, rng: Rng) -> None:
    """Compute a fit report."""
    assert "rounds" in repr(life.agent.fit_report()) or life.ledger


CAPABILITIES = [
    Capability("fixed rows", "fixed"),
    Capability("pooled", "pooled"),
    Capability("item features", "features"),
    Capability("context features", "users"),
    Capability("several structures", "several"),
    Capability("forgetting by rounds", half_life=40),
    Capability("forgetting by time", half_life="2d"),
    Capability("missing values", use=use_missing),
    Capability("allowed", use=Life.act),
    Capability("update_many", use=Life.update_many),
    Capability("learn(counts)", ask=ask_counts, use=Life.learn_counts),
    Capability("revise", ask=ask_revise, use=use_revise),
    Capability("save/load", use=Life.save),
    Capability("copy/pickle", use=use_copies),
    Capability("fit_report", ask=lambda agent, life: agent.fit_report(), use=use_report),
    Capability("moved_to", ask=lambda agent, life: agent.moved_to(life.targets(SECOND)), use=use_move),
    Capability("late rounds", ask=ask_late, use=use_late),
]


class Cell(NamedTuple):
    """Result of testing a pair of capabilities."""

    sign: str  # one of SIGNS
    message: str = ""  # of a rejection or failure


SIGNS = {"✓": "tested", "–": "rejected before anything was learned", "✗": "fails"}


def cell_of(inference: str, *pair: Capability) -> Cell:
    """Test a pair of capabilities: works, rejected in time, or fails."""
    half_lives = {c.half_life for c in pair if c.half_life is not None}
    if len(half_lives) > 1:
        return Cell("–", "An agent has one half-life.")
    forget = idb.Forget(half_lives.pop()) if half_lives else None
    latent = inference not in ("exact", "own") and forget is None  # discounting of groups is random: test_forgetting.py
    kinds = list(dict.fromkeys(c.kind for c in pair if c.kind)) or ["plain"]
    setting = Setting(inference, "+".join(kinds), latent, forget)
    try:
        life = Life(setting, shape=FIRST)
        life.unseen = 0.0
        for capability in pair:
            if capability.ask is not None:
                capability.ask(life.agent.copy(), life)
    except MISFITS as error:
        return Cell("✗", f"{type(error).__name__}: {error}")
    except IdbanditsError as error:
        return Cell("–", str(error))
    except Exception as error:
        return Cell("✗", f"{type(error).__name__}: {error}")
    try:
        live(life, pair)
    except Exception as error:
        return Cell("✗", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return Cell("✓")


def live(life: Life, pair: tuple[Capability, ...]) -> None:
    """Run a short lifetime with both capabilities, in both orders."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        life.update(rng)
    life.check()
    for capability in (*pair, *reversed(pair)):
        if capability.use is not None:
            capability.use(life, rng)
            life.check()
    life.update(rng)
    life.check()


def cells_of(inference: str) -> dict[tuple[str, str], Cell]:
    """Test all pairs of capabilities of an inference, and each capability alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagramWarning)
        pairs = itertools.combinations_with_replacement(CAPABILITIES, 2)
        return {
            (one.name, other.name): cell_of(INFERENCES[inference], *dict.fromkeys([one, other])) for one, other in pairs
        }


# -- page --------------------------------------------------------------------------------------------------------------

HEAD = f"""# Compatibility

Which capabilities of agents can be combined, by inference. The test suite takes agents with every pair of the capabilities
{", ".join(capability.name for capability in CAPABILITIES)}
through random calls and compares their beliefs with a plain list of the remaining rounds. All pairs work except those listed here.
These are rejected when the agent is created or when the capability is first used, never after rounds were learned.

This page is generated: `python docs/reference/compatibility.py`.
"""


def page_of(inference: str, cells: dict[tuple[str, str], Cell]) -> str:
    """Return the section of an inference."""
    return "\n".join(lines_of(inference, cells)) + "\n"


def lines_of(inference: str, cells: dict[tuple[str, str], Cell]) -> Iterator[str]:
    """Yield a heading and the rejected pairs, grouped by message."""
    yield f"## {inference}\n"
    yield "| rejected | message |"
    yield "|---|---|"
    rejected = {pair: cell.message for pair, cell in cells.items() if cell.message}
    alone = {one for one, other in rejected if one == other}
    for message in dict.fromkeys(rejected.values()):
        pairs = [pair for pair, own in rejected.items() if own == message]
        names = [one + except_of(one, cells) for one, other in pairs if one == other]
        names += [f"{one} with {other}" for one, other in pairs if not alone & {one, other}]
        if names:
            yield f"| {', '.join(names)} | {message} |"


def except_of(name: str, cells: dict[tuple[str, str], Cell]) -> str:
    """Return the capabilities with which an otherwise rejected capability works."""
    working = [other for pair, cell in cells.items() if name in pair and not cell.message for other in {*pair} - {name}]
    return f" (except with {', '.join(working)})" if working else ""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(page_of(inference, cells_of(inference)) for inference in INFERENCES)])
