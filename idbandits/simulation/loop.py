"""The fused loop: a world and a learner play rounds without returning to Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from idbandits.inference.acting import ACT, LEARN, NOW, RNG
from idbandits.inference.groups import CAPACITY, DONE, PER_ROUND, USED
from idbandits.kernel.compiling import FLOATS, INTS, bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.best import BUDGET, SOLVE, unpack, value_of
from idbandits.solve.branch import copy


@compiled
def draw_contexts(program: Ints, numbers: Floats, rng: Rng, values: Ints) -> int:
    """Draw all context nodes; returns where the next section of the program begins."""
    return draw_section(program, numbers, rng, values, 0)


@compiled
def play(program: Ints, numbers: Floats, rng: Rng, values: Ints) -> float:
    """Draw all chance nodes given decisions and contexts; the reward."""
    at = 1
    for _ in range(program[0]):
        at += 4
    at = draw_section(program, numbers, rng, values, at)
    total = 0.0
    count = program[at]
    at += 1
    for _ in range(count):
        place = program[at + 2]
        for k in range(program[at + 3]):
            place += program[at + 5 + 2 * k] * values[program[at + 4 + 2 * k]]
        total += numbers[place]
        at += 4 + 2 * program[at + 3]
    return total


@bare
def draw_section(program: Ints, numbers: Floats, rng: Rng, values: Ints, at: int) -> int:
    """Draw the nodes of a section in order; returns where the next one begins."""
    count = program[at]
    at += 1
    for _ in range(count):
        place = program[at + 2]
        for k in range(program[at + 3]):
            place += program[at + 5 + 2 * k] * values[program[at + 4 + 2 * k]]
        u = rng.random() * numbers[place + program[at + 1] - 1]
        state = 0
        while state < program[at + 1] - 1 and u >= numbers[place + state]:
            state += 1
        values[program[at]] = state
        at += 4 + 2 * program[at + 3]
    return at


@compiled
def loop(
    act: Any, solve: Any, learn: Any, find_best: Any, world: Ints, numbers: Floats, values: Ints, world_rng: Rng,
    solver: Ints, known: Floats, truth: Floats, axes: Ints, best: Floats, own_solver: Ints, own_known: Floats,
    own_parts: Ints, own_numbers: Floats, ints: Ints, floats: Floats, rng: Rng, joint: Ints, decisions: int,
    contexts: int, observed: int, given_contexts: int, last: int, marks: Ints, places: Ints, sums: Floats,
    totals: Floats,
) -> None:  # fmt: skip
    """Play rounds until `last`, or until the learner's state needs room."""
    c, s = unpack(solver, known)
    action = np.zeros(decisions + contexts, np.int64)
    seen = np.empty(observed, np.int64)
    truly = np.zeros(len(axes) - given_contexts, np.int64)  # the action in the world's order: decisions, then contexts
    latest = np.full(len(truly), -1, np.int64)
    scratch = np.zeros(len(truly), np.int64)
    expected, highest = 0.0, 0.0
    while places[0] < last and ints[USED] + ints[PER_ROUND] <= ints[CAPACITY]:
        draw_section(world, numbers, world_rng, values, 0)
        for k in range(decisions, decisions + contexts):
            action[k] = joint[joint[3 * k + 1] + values[joint[3 * k]]]
        act(solve, own_solver, own_known, own_parts, ints, floats, rng, action)
        for k in range(decisions):
            values[joint[3 * k]] = joint[joint[3 * k + 1] + action[k]]
        changed = False
        for i in range(len(truly)):
            truly[i] = values[axes[i]]
            changed |= truly[i] != latest[i]
        if changed:
            expected = value_of(c, s, truth, truly)
            index = 0
            other = latest[0] < 0
            for i in range(given_contexts):
                index = index * axes[len(truly) + i] + truly[decisions + i]
                other |= truly[decisions + i] != latest[decisions + i]
            if other:
                if places[3] > 0 and not np.isnan(best[index]):
                    highest = best[index]
                else:
                    copy(truly, scratch)
                    find_best(solver, known, truth, True, scratch, BUDGET)
                    highest = value_of(c, s, truth, scratch)
                    if places[3] > 0:
                        best[index] = highest
            copy(truly, latest)
        reward = play(world, numbers, world_rng, values)
        for k in range(observed):
            j = 3 * (decisions + contexts + k)
            seen[k] = joint[joint[j + 1] + values[joint[j]]]
        if learn(own_parts, own_numbers, ints, floats, rng, action, seen, 1, NOW) != DONE:
            places[2] += 1
        sums[0] += reward
        sums[1] += max(0.0, highest - expected)
        places[0] += 1
        if places[0] == marks[places[1]]:
            totals[places[1], 0] = sums[0]
            totals[places[1], 1] = sums[1]
            places[1] += 1


LOOP = types.void(
    types.FunctionType(ACT), types.FunctionType(SOLVE), types.FunctionType(LEARN), types.FunctionType(SOLVE), INTS,
    FLOATS, INTS, RNG, INTS, FLOATS, FLOATS, INTS, FLOATS, INTS, FLOATS, INTS, FLOATS, INTS, FLOATS, RNG, INTS,
    types.int64, types.int64, types.int64, types.int64, types.int64, INTS, INTS, FLOATS, types.float64[:, ::1],
)  # fmt: skip
