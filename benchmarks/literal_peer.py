"""One more update after a long history, beside the paper's algorithm as it is written down."""

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
BLOCK = 10  # updates of one learner, then the same of the other
SAME = 1e-8
FASTER = 200.0  # the bar
FIXED = importlib.util.find_spec("threadpoolctl") is not None
BLAS = "one thread" if FIXED else "as many threads as it likes, because threadpoolctl is not installed"

Round: TypeAlias = tuple[dict[str, Any], dict[str, Any]]  # an action and an observation


def _rows(quick: bool) -> Iterator[Row]:
    for name in (CASCADE_1, POSITION_BASED_1):
        for explores in (False, True):
            with one_thread():
                yield _row(problem(name), explores, blocks=2 if quick else 20)


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """One thread in BLAS, if threadpoolctl is installed."""
    if not FIXED:
        return contextlib.nullcontext()
    threadpoolctl: Any = importlib.import_module("threadpoolctl")
    limits: contextlib.AbstractContextManager[Any] = threadpoolctl.threadpool_limits(1)
    return limits


def _row(p: Problem, explores: bool, blocks: int) -> Row:
    """Both learn from the same rounds, each by one sweep per round that starts from the last one."""
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
    missed = [f"{ratio(factor)} as fast, bar {ratio(FASTER)}"] if factor < FASTER else []
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
    """The time of a round in the compiled loop: act, the world, learn; the agent starts with what it has learned."""
    frame = idb.simulate(p.world(), {"it": agent}, rounds=2_000, runs=1, workers=1, progress=False).frame
    return float(frame["seconds"].max() / frame["round"].max())


def _apart(agent: idb.Thompson, literal: Literal) -> float:
    posterior = agent.posterior()
    return max(float(np.max(np.abs(posterior[name].alpha / a - 1))) for name, a in literal.alpha.items())


TOPIC = Topic(
    "One more update, beside the paper's algorithm as it stands",
    f'The time of one more `update` after {HISTORY:,} rounds. Ours is `Variational(literal=True, start="prior")`, '
    "called from Python, with all checks (*update*), or in the compiled loop of `simulate`, where a whole round is "
    "timed: act, the world, learn (*round*; it acts by itself, whatever the history was). *As it stands* is "
    "`idbandits/reproduction/literal.py`: the same algorithm with the "
    "whole history and all joint latent states, in NumPy. Both learn from the same rounds by one sweep a round, "
    f"and are timed in turns of {BLOCK} updates. *Distinct*: combinations of action and observation in the "
    "history: a sweep of ours goes through no more than these. *Apart*: the largest difference of a pseudo-count "
    f"relative to its size; above {SAME:g} there would be no table. Actions are those of the agent, or random "
    f"lists, which are the hardest for us. BLAS has {BLAS}. *Bar*, on a round: {ratio(FASTER)}.",
    ["problem", "distinct", "apart", "as it stands", "update", "ratio", "round", "ratio", "bar met"],
    _rows,
)
