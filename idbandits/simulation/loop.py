"""The fused loop: a world and a learner play rounds without returning to Python."""

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

NOTHING_KEPT = np.empty(0)
SLICE = 0.2  # seconds of work between looks at the clock and at interruptions


class Run(NamedTuple):
    """Total reward, regret and processor seconds at each checkpoint; and how many rounds the diagram ruled out."""

    totals: Floats
    skipped: int


class Joint(NamedTuple):
    """How the nodes of a learner's diagram correspond to those of a world, as a structure for kernels."""

    decisions: int  # of the learner
    contexts: int
    observed: int
    place: Indices  # of a node of the learner: decisions, contexts, observed; its place among the world's values
    start: Indices  # of a node: where its values begin in `value`
    value: Indices  # of a choice of the learner: the world's; of a value of the world: the learner's
    axes: Indices  # of the world's decisions, then contexts: the place among its values
    world_contexts: int
    context_states: Indices  # of a context of the world


def joint_of(world: World, d: Diagram, name: str) -> Joint:
    """How a learner's diagram fits a world, by names and labels; raises if it does not."""
    truth, who = world.diagram.nodes, f"learner {name!r} with diagram {d.name!r}"
    if odd := {n.name for n in d.of_kind("decision")} ^ {n.name for n in world.model.decisions}:
        raise IdbanditsError(f"{who}: decision {min(odd)!r} is not in both its diagram and the world's")
    for group, excepted in world.diagram.constraints:
        if not any(set(group) <= set(own) and set(others) <= set(excepted) for own, others in d.constraints):
            names = ", ".join(group)
            raise IdbanditsError(f"{who}: in the world, {names} must be all different; in its diagram they need not be")
    nodes = [*d.of_kind("decision"), *d.of_kind("context"), *d.of_kind("observed")]
    values: list[list[int]] = []
    for node in nodes:
        other = truth.get(node.name)
        if other is None or (other.kind != node.kind if node.kind != "observed" else not other.is_chance):
            verb, kind = ("observes", "chance node") if node.kind == "observed" else (f"has {node.kind}", node.kind)
            raise IdbanditsError(f"{who} {verb} {node.name!r}, which is not a {kind} of the world")
        source, target = (node, other) if node.kind == "decision" else (other, node)
        for label in source.values:
            if label not in target.values:
                what = f"{node.name!r} = {label!r} exists on one side only"
                raise IdbanditsError(f"{who}: {what}; allowed: {target.allowed()}")
        values.append([target.values.index(label) for label in source.values])
    places, contexts = {n: i for i, n in enumerate(truth)}, world.model.contexts
    return Joint(
        decisions=len(d.of_kind("decision")), contexts=len(d.of_kind("context")), observed=len(d.of_kind("observed")),
        place=[places[node.name] for node in nodes], start=starts(values), value=[v for own in values for v in own],
        axes=[places[n.name] for n in (*world.model.decisions, *contexts)],
        world_contexts=len(contexts), context_states=[n.states for n in contexts],
    )  # fmt: skip


class Stage(NamedTuple):
    """A world, for the loop."""

    sampler: Packed
    values: Ints  # of all its nodes
    rng: Rng
    find_best: Any  # the handle of a kernel
    solver: Packed
    parameters: Floats
    budget: float  # of that kernel
    eligible: Ints  # choices, for that kernel
    best: Floats  # of a context: the best expected reward, NaN while it is not known; empty where there are too many
    worst: Floats  # by how much a bound exceeds a best value at most


class Actor(NamedTuple):
    """A learner, for the loop: first the handles of its kernels."""

    act: Any
    solve: Any
    learn: Any
    solver: Packed
    evidence: Packed
    state: State
    rng: Rng
    eligible: Ints  # choices


class Tally(NamedTuple):
    """What the loop counts."""

    marks: Ints  # the rounds after which totals are kept
    progress: Ints  # ROUNDS, MARKS, SKIPPED
    sums: Floats  # REWARD, REGRET
    totals: Floats  # of a mark: REWARD, REGRET, and seconds


ROUNDS, MARKS, SKIPPED = range(3)  # rounds done, marks passed, rounds that the learner's diagram ruled out
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
    """Play rounds until `last`, or until the learner's state is to be made ready; False if it finds no action."""
    sampler = unpack_sampler(stage.sampler.ints, stage.sampler.floats)
    c, s = unpack_solver(stage.solver.ints, stage.solver.floats)
    j = unpack_joint(joint.ints, joint.floats)
    act, learn, find_best = act_at(actor.act), learn_at(actor.learn), solve_at(stage.find_best)
    values, world_rng, truth, best, worst = stage.values, stage.rng, stage.parameters, stage.best, stage.worst
    ints, rng, nothing = actor.state.ints, actor.rng, np.empty(0)
    marks, progress, sums, totals = tally
    size = j.decisions + j.world_contexts
    action, seen = np.zeros(j.decisions + j.contexts, np.int64), np.empty(j.observed, np.int64)
    round_ = Round(action, seen, nothing, np.nan, 1, NOW, 1.0, 1.0)
    truly = np.zeros(size, np.int64)  # the action in the world's order: decisions, then contexts
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
            truly[i] = values[j.axes[i]]
            changed |= truly[i] != latest[i]
        if changed:
            expected = value_of(c, s, truth, truly)
            context, new_context = 0, latest[0] < 0
            for i in range(j.world_contexts):
                context = context * j.context_states[i] + truly[j.decisions + i]
                new_context |= truly[j.decisions + i] != latest[j.decisions + i]
            if new_context:
                if len(best) > 0 and not np.isnan(best[context]):
                    highest = best[context]
                else:
                    copy_action(truly, best_action)
                    program, numbers = stage.solver
                    found, bound, _ = find_best(
                        program, numbers, truth, True, best_action, stage.eligible, stage.budget
                    )
                    highest = value_of(c, s, truth, best_action)
                    if bound != found:
                        worst[0] = max(worst[0], bound - highest)
                    if len(best) > 0:
                        best[context] = highest
            copy_action(truly, latest)
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
    joint: Joint, world: World, learner: Playing, marks: Ints, stop: threading.Event, tell: Callable[[int], Any]
) -> Run | None:
    """A run of a compiled learner, which comes up for air from compiled code a few times a second; None if stopped."""
    player, solver, packed = learner.player, world.model.derived(Solver), pack(joint)
    assert player is not None
    effort, varies = world.effort_for(len(world.moment.reference.best) > 0), world.assortment.varies
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
        last, moment, eligible = world.course.same_until(begun, end), world.moment, world.eligible()
        best, worst = moment.reference
        stage = Stage(
            moment.sampler, world.values, world.rng, find_best, solver.program, moment.parameters, BUDGET * effort,
            eligible.numbers, best if not varies else NOTHING_KEPT, worst,
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
        tell(played)
        step = max(64, min(rounds, int(played * min(4.0, SLICE / max(took, 1e-9)))))
    learner.make_ready()
    return Run(totals, int(progress[SKIPPED]))
