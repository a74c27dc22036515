"""Fused loop: a world and a learner play rounds without returning to Python."""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.build import starts
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError
from idbandits.inference.act import ACT, Playing, no_action, solve_at
from idbandits.inference.learn import LEARN, learn_at
from idbandits.inference.rounds.round import DONE, NOW, Round
from idbandits.inference.state.state import STATE, State, has_room, wants_fit
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, function_at, handle_type, kernel
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import PACKED, Packed, pack, unpacker
from idbandits.simulation.world import World, draw_entries, draw_outcome
from idbandits.simulation.world import unpack as unpack_sampler
from idbandits.solve.candidates import copy_action, exceeds
from idbandits.solve.solver import BUDGET, SOLVE, Solver, value_of
from idbandits.solve.solver import unpack as unpack_solver

NOTHING_CACHED = np.empty(0)
SLICE = 0.2  # seconds between checks of the clock and of interruptions


class Run(NamedTuple):
    """Total reward, regret and processor seconds at each checkpoint; number of rounds that the diagram ruled out."""

    totals: Floats
    skipped: int


class Joint(NamedTuple):
    """Correspondence between the nodes of a learner's diagram and those of a world, as a structure for kernels."""

    decisions: int  # of the learner
    contexts: int
    observed: int
    place: Indices  # by node of the learner (decisions, contexts, observed): index among the world's values
    start: Indices  # by node: start in `value`
    value: Indices  # by choice of the learner: state in the world; by state of the world: state for the learner
    axes: Indices  # by decision, then context of the world: index among its values
    world_contexts: int
    context_states: Indices  # by context of the world


def joint_of(world: World, d: Diagram, name: str) -> Joint:
    """Match a learner's diagram to a world by names and labels; raise if it does not fit."""
    truth, who = world.diagram.nodes, f"learner {name!r} with diagram {d.name!r}"
    if unmatched := {n.name for n in d.of_kind("decision")} ^ {n.name for n in world.model.decisions}:
        raise IdbanditsError(f"{who}: decision {min(unmatched)!r} must be in both its diagram and the world's")
    for group, excepted in world.diagram.constraints:
        if not any(set(group) <= set(own) and set(others) <= set(excepted) for own, others in d.constraints):
            names = ", ".join(group)
            raise IdbanditsError(f"{who}: {names} must be all different in its diagram, as in the world")
    nodes = [*d.of_kind("decision"), *d.of_kind("context"), *d.of_kind("observed")]
    values: list[list[int]] = []
    for node in nodes:
        other = truth.get(node.name)
        if other is None or (other.kind != node.kind if node.kind != "observed" else not other.is_chance):
            verb, kind = ("observes", "chance node") if node.kind == "observed" else (f"has {node.kind}", node.kind)
            raise IdbanditsError(f"{who} {verb} {node.name!r}, which is not a {kind} of the world")
        source, target = (node, other) if node.kind == "decision" else (other, node)
        if missing := [label for label in source.values if label not in target.values]:
            one_sided = f"{node.name!r} = {missing[0]!r} must exist in both its diagram and the world's"
            raise IdbanditsError(f"{who}: {one_sided}; allowed: {target.allowed()}")
        values.append([target.values.index(label) for label in source.values])
    places, contexts = {n: i for i, n in enumerate(truth)}, world.model.contexts
    return Joint(
        decisions=len(d.of_kind("decision")), contexts=len(d.of_kind("context")), observed=len(d.of_kind("observed")),
        place=[places[node.name] for node in nodes], start=starts(values), value=[v for own in values for v in own],
        axes=[places[n.name] for n in (*world.model.decisions, *contexts)],
        world_contexts=len(contexts), context_states=[n.states for n in contexts],
    )  # fmt: skip


class Stage(NamedTuple):
    """World as an argument of the loop."""

    sampler: Packed
    values: Ints  # of all its nodes
    rng: Rng
    find_best: Any  # handle of the kernel that finds best actions
    solver: Packed
    parameters: Floats
    budget: float  # of that kernel
    eligible: Ints  # choices of the world, for that kernel
    best: Floats  # by context: best expected reward, NaN until known; empty if it is not cached
    gap: Floats  # largest difference between an upper bound and a best value


class Actor(NamedTuple):
    """Learner as an argument of the loop, beginning with the handles of its kernels."""

    act: Any
    solve: Any
    learn: Any
    solver: Packed
    evidence: Packed
    state: State
    rng: Rng
    eligible: Ints  # choices


class Tally(NamedTuple):
    """Progress and totals of a run."""

    marks: Ints  # rounds after which totals are recorded
    progress: Ints  # ROUNDS, MARKS, SKIPPED
    sums: Floats  # REWARD, REGRET
    totals: Floats  # by mark: REWARD, REGRET, SECONDS


ROUNDS, MARKS, SKIPPED = range(3)  # rounds played, marks passed, rounds that the learner's diagram ruled out
REWARD, REGRET, SECONDS = range(3)
STAGE = types.NamedTuple(
    [PACKED, INTS, RNG, handle_type(SOLVE), PACKED, FLOATS, types.float64, INTS, FLOATS, FLOATS], Stage
)
ACTOR = types.NamedTuple(
    [handle_type(ACT), handle_type(SOLVE), handle_type(LEARN), PACKED, PACKED, STATE, RNG, INTS], Actor
)
TALLY = types.NamedTuple([INTS, INTS, FLOATS, types.float64[:, ::1]], Tally)
act_at = function_at(ACT)
unpack_joint = unpacker(Joint)


@kernel(types.boolean(STAGE, ACTOR, PACKED, TALLY, types.int64))
def loop(stage: Stage, actor: Actor, joint: Packed, tally: Tally, last: int) -> bool:
    """Play rounds until `last`, or until the learner's state must be made ready; return False if it finds no action."""
    sampler = unpack_sampler(stage.sampler.ints, stage.sampler.floats)
    c, s = unpack_solver(stage.solver.ints, stage.solver.floats)
    j = unpack_joint(joint.ints, joint.floats)
    act, learn, find_best = act_at(actor.act), learn_at(actor.learn), solve_at(stage.find_best)
    values, world_rng, truth, best, gap = stage.values, stage.rng, stage.parameters, stage.best, stage.gap
    ints, rng, nothing = actor.state.ints, actor.rng, np.empty(0)
    marks, progress, sums, totals = tally
    size = j.decisions + j.world_contexts
    action, seen = np.zeros(j.decisions + j.contexts, np.int64), np.empty(j.observed, np.int64)
    round_ = Round(action, seen, nothing, np.nan, 1, NOW, 1.0, 1.0)
    true_action = np.zeros(size, np.int64)  # in the world's order: decisions, then contexts
    latest, best_action = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    expected, highest = 0.0, 0.0
    while progress[ROUNDS] < last and has_room(ints) and not wants_fit(ints):
        draw_entries(sampler, 0, sampler.contexts, world_rng, values)
        for k in range(j.decisions, j.decisions + j.contexts):
            action[k] = j.value[j.start[k] + values[j.place[k]]]
        if not act(actor.solve, actor.solver, actor.evidence, actor.state, rng, action, actor.eligible, nothing):
            return False
        for k in range(j.decisions):
            values[j.place[k]] = j.value[j.start[k] + action[k]]
        changed = False
        for i in range(size):
            true_action[i] = values[j.axes[i]]
            changed |= true_action[i] != latest[i]
        if changed:
            expected = value_of(c, s, truth, true_action)
            context, new_context = 0, latest[0] < 0
            for i in range(j.world_contexts):
                context = context * j.context_states[i] + true_action[j.decisions + i]
                new_context |= true_action[j.decisions + i] != latest[j.decisions + i]
            if new_context:
                if len(best) > 0 and not np.isnan(best[context]):
                    highest = best[context]
                else:
                    copy_action(true_action, best_action)
                    program, numbers = stage.solver
                    found, bound, _ = find_best(
                        program, numbers, truth, True, best_action, stage.eligible, stage.budget
                    )
                    highest = value_of(c, s, truth, best_action)
                    if bound != found:
                        gap[0] = max(gap[0], bound - highest)
                    if len(best) > 0:
                        best[context] = highest
            copy_action(true_action, latest)
        reward = draw_outcome(sampler, world_rng, values)
        for k in range(j.observed):
            node = j.decisions + j.contexts + k
            seen[k] = j.value[j.start[node] + values[j.place[node]]]
        if learn(actor.evidence, actor.state, rng, round_) != DONE:
            progress[SKIPPED] += 1
        sums[REWARD] += reward
        if highest > expected or exceeds(s, expected, highest):
            sums[REGRET] += highest - expected
        progress[ROUNDS] += 1
        mark = progress[MARKS]
        if progress[ROUNDS] == marks[mark]:
            totals[mark, REWARD], totals[mark, REGRET] = sums[REWARD], sums[REGRET]
            progress[MARKS] = mark + 1
    return True


def play_fused(
    joint: Joint, world: World, learner: Playing, marks: Ints, stop: threading.Event, advance: Callable[[int], Any]
) -> Run | None:
    """Play a run of a compiled learner, reporting progress and checking `stop` every SLICE seconds; None if stopped."""
    player, solver, packed = learner.player, world.model.derived(Solver), pack(joint)
    assert player is not None
    effort, varies = world.effort_for(len(world.phase.best_values) > 0), world.eligibility.varies
    find_best, handles = solver.kernel_for(effort).handle, (player.act.handle, player.solve.handle, player.learn.handle)
    progress, totals = np.zeros(3, dtype=np.int64), np.zeros((len(marks), 3))
    tally = Tally(marks, progress, np.zeros(2), totals)
    rounds, step, seconds = int(marks[-1]), 64, 0.0
    while (begun := int(progress[ROUNDS])) < rounds:
        if stop.is_set():
            return None
        started = time.thread_time()
        learner.make_ready()
        world.round = begun
        end = min(rounds, begun + step) if not varies else begun + 1
        last, phase, eligible = world.schedule.end_of_phase(begun, end), world.phase, world.eligible()
        stage = Stage(
            phase.sampler, world.values, world.rng, find_best, solver.program, phase.parameters, BUDGET * effort,
            eligible.numbers, phase.best_values if not varies else NOTHING_CACHED, world.schedule.gap,
        )  # fmt: skip
        choices = learner.eligible(eligible.allowed)
        actor = Actor(*handles, player.solver, player.evidence, learner.state, learner.rng, choices)
        marked = int(progress[MARKS])
        if not loop(stage, actor, packed, tally, last):
            raise no_action(f"learner {learner!r}", learner.diagram, learner.state)
        took, played = time.thread_time() - started, int(progress[ROUNDS]) - begun
        passed = slice(marked, int(progress[MARKS]))
        totals[passed, SECONDS] = seconds + took * (marks[passed] - begun) / played
        seconds += took
        advance(played)
        step = max(64, min(rounds, int(played * min(4.0, SLICE / max(took, 1e-9)))))
    learner.make_ready()
    return Run(totals, int(progress[SKIPPED]))
