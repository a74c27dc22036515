"""Time of an update after a long history, compared with the paper's algorithm in NumPy."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from statistics import median
from typing import Any, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.problems import CASCADE_1, POSITION_BASED_1, Problem, problem
from benchmarks.report import DisagreementError, Row, Topic, duration, ratio
from benchmarks.timing import timed
from idbandits.reproduction.literal import Literal

HISTORY = 5_000  # rounds
BLOCK = 10  # updates of one learner before the other
SAME = 1e-8
FASTER = 200.0  # target
FIXED = importlib.util.find_spec("threadpoolctl") is not None
BLAS = "one thread" if FIXED else "its default number of threads, because threadpoolctl is not installed"

Round: TypeAlias = tuple[dict[str, Any], dict[str, Any]]  # an action and an observation


def _rows(quick: bool) -> Iterator[Row]:
    for name in (CASCADE_1, POSITION_BASED_1):
        for explores in (False, True):
            with one_thread():
                yield _row(problem(name), explores, blocks=2 if quick else 20)


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to one thread if threadpoolctl is installed."""
    if not FIXED:
        return contextlib.nullcontext()
    threadpoolctl: Any = importlib.import_module("threadpoolctl")
    limits: contextlib.AbstractContextManager[Any] = threadpoolctl.threadpool_limits(1)
    return limits


def _row(p: Problem, explores: bool, blocks: int) -> Row:
    """Compare two learners that learn from the same rounds by one sweep per round."""
    world, rng = p.world(), np.random.default_rng(0)
    agent = idb.Thompson(p.diagram, idb.Variational(start="prior", literal=True), seed=0)
    literal = Literal(p.diagram)

    def play() -> Round:
        action = dict(zip(("A1", "A2"), rng.permutation(20)[:2].tolist(), strict=True)) if explores else agent.act()
        return action, world.step(action).observation

    distinct = set()
    for _ in range(HISTORY):
        action, observation = play()
        distinct.add((*action.values(), *observation.values()))
        agent.update(action, observation)
        literal.update(action, observation)
    ours: list[float] = []
    theirs: list[float] = []
    apart = _apart(agent, literal)
    for _ in range(blocks):
        rounds = [play() for _ in range(BLOCK)]
        ours.extend(timed(agent.update, *played)[1] for played in rounds)
        theirs.extend(timed(literal.update, *played)[1] for played in rounds)
        apart = max(apart, _apart(agent, literal))
    if not apart <= SAME:
        raise DisagreementError(f"{p.name}: pseudo-counts differ by {apart:.1e} of their size")
    fused = min(_round_in_simulate(p, agent) for _ in range(2 if blocks < 10 else 5))
    factor = median(theirs) / fused
    missed = [f"{ratio(factor)} as fast, target {ratio(FASTER)}"] if factor < FASTER else []
    return Row(
        [
            f"{p.name}, {'random lists' if explores else 'its own actions'}",
            f"{len(distinct):,}",
            f"{apart:.1e}",
            duration(median(theirs)),
            duration(median(ours)),
            ratio(median(theirs) / median(ours)),
            duration(fused),
            ratio(factor),
            "no" if missed else "yes",
        ],
        missed,
    )


def _round_in_simulate(p: Problem, agent: idb.Thompson) -> float:
    """Return the time of a round in `simulate`: act, world and update; the agent continues from its belief."""
    frame = idb.simulate(p.world(), {"it": agent}, rounds=2_000, runs=1, workers=1, progress=False).frame
    return float(frame["seconds"].max() / frame["round"].max())


def _apart(agent: idb.Thompson, literal: Literal) -> float:
    posterior = agent.posterior()
    return max(float(np.max(np.abs(posterior[name].alpha / a - 1))) for name, a in literal.alpha.items())


TOPIC = Topic(
    "Variational update compared with the paper's algorithm",
    f'Time of `update` after {HISTORY:,} rounds. idbandits: `Variational(literal=True, start="prior")`, called from '
    "Python (*update*), or a whole round in the compiled loop of `simulate` (*round*: act, world and update). *NumPy*: "
    "the paper's algorithm with the whole history and all joint latent states, vectorised (`Literal` in the "
    "reproduction package). Both learn from the same rounds by one sweep per round and are timed in turns of "
    f"{BLOCK} updates. *Distinct*: distinct pairs of action and observation in the history. *Difference*: largest "
    f"relative difference of a pseudo-count; the benchmark stops above {SAME:g}. Actions are those of the agent or "
    f"random lists. BLAS has {BLAS}. Target for a round: {ratio(FASTER)}.",
    ["problem", "distinct", "difference", "NumPy", "update", "ratio", "round", "ratio", "target met"],
    _rows,
)
