"""The paper's particle filter: a few models that wander, of which the likeliest acts."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import IdbanditsError, is_integer
from idbandits.inference.drawing import EDGE, draw_rows
from idbandits.inference.evidence import (
    GIVEN,
    Evidence,
    Parts,
    evidence_of,
    fold,
    locate,
    put,
    rise,
    take,
    unpack,
    weigh,
)
from idbandits.inference.groups import (
    DONE,
    FIGURES,
    IMPOSSIBLE,
    MEANS_GIVEN,
    ROUNDS,
    SETTING,
    State,
    can_be_seen,
    no_groups,
    put_in,
    room_in,
    scratch,
)
from idbandits.kernel.compiling import bare, compiled, merged
from idbandits.kernel.types import Floats, Ints, Rng

WIDTH = 0  # a figure


@final
class Particles:
    """A particle filter: `number` models move by Gaussian steps of standard deviation `width`, clipped to [0, 1].

    They are weighted by the likelihood of the round, the heaviest is acted on, and all are resampled. The paper
    reveals the latent nodes to it: `Thompson(d.revealed(), inference=Particles(20))`.
    """

    revisable = False

    def __init__(self, number: int = 20, width: float = 0.1) -> None:
        if not is_integer(number) or number < 1:
            raise IdbanditsError(f"the number of particles is a whole number from 1, not {number!r}")
        if not (isinstance(width, (int, float)) and 0 < width < math.inf):
            raise IdbanditsError(f"width is a positive number, not {width!r}")
        self.settings: dict[str, Any] = {"number": int(number), "width": float(width)}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return evidence_of(model)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Models drawn from the prior, the first of which acts; floats: its means, figures, all models, scratch."""
        number = self.settings["number"]
        models = np.empty((number, evidence.learned))
        first_draws(evidence.program, evidence.prior, rng, models)
        figures = np.zeros(FIGURES)
        figures[WIDTH] = self.settings["width"]
        state = no_groups(
            np.concatenate([models[0], figures, models.ravel(), np.zeros(models.size + number)]), (number,)
        )
        state.ints[MEANS_GIVEN] = 1
        return state

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The particles."""
        first, number = evidence.learned + FIGURES, self.settings["number"]
        models: Floats = state.floats[first : first + number * evidence.learned].reshape(number, evidence.learned)
        return models

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Move, weigh, pick the heaviest, resample."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Move, weigh, pick the heaviest, resample."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    if not can_be_seen(c, v, numbers, action, seen, room):
        return IMPOSSIBLE
    number = ints[SETTING]
    size = number * v.learned
    best, first = floats[: v.learned], v.learned + FIGURES
    models, moved = floats[first : first + size], floats[first + size : first + 2 * size]
    weights = floats[first + 2 * size :]
    for j in range(v.parts):  # what was seen and which entries it is about is the same for all models
        put(v, j, action, seen, room.key, 0)
        missing = take(v, room.key, 0, room.action, room.values)
        locate(c, v, j, room.action, room.entries)
        if missing:
            fold(c, v, j, room.entries, numbers, room.values, room.same)
    for _ in range(times):
        heaviest, ties = -np.inf, 0
        for m in range(number):
            model = moved[m * v.learned : (m + 1) * v.learned]
            move(v, models[m * v.learned : (m + 1) * v.learned], floats[v.learned + WIDTH], rng, model)
            weights[m] = 0.0
            for j in range(v.parts):
                for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
                    slot = v.data[v.use + t]
                    room.weights[slot] = weigh(v, GIVEN, room.entries[slot], numbers, model, model)
                weights[m] += np.log(rise(c, v, j, room.weights, room.values, room.same))
            if weights[m] > heaviest:
                heaviest, ties = weights[m], 0
            if weights[m] == heaviest:
                ties += 1
                if rng.random() * ties < 1.0:
                    put_in(best, model)
        total = 0.0
        for m in range(number):
            weights[m] = np.exp(weights[m] - heaviest) if heaviest > -np.inf else 1.0
            total += weights[m]
        for m in range(number):
            left = rng.random() * total
            chosen = 0
            while chosen < number - 1 and left >= weights[chosen]:
                left -= weights[chosen]
                chosen += 1
            for e in range(v.learned):
                models[m * v.learned + e] = moved[chosen * v.learned + e]
    ints[ROUNDS] += times
    return DONE


@compiled
def first_draws(program: Ints, prior: Floats, rng: Rng, models: Floats) -> None:
    """Models from the prior."""
    for m in range(len(models)):
        first_draw(program, prior, rng, models[m])


@bare
def first_draw(program: Ints, prior: Floats, rng: Rng, means: Floats) -> None:
    """A model from the prior."""
    _, v = unpack(program)
    draw_rows(v, prior, rng, means)


@merged
def move(v: Parts, means: Floats, width: float, rng: Rng, moved: Floats) -> None:
    """A Gaussian step of every row, back into the simplex."""
    e = 0
    while e < v.learned:
        size = v.data[v.size + e]
        if size == 2:
            x = means[e + 1] + width * rng.standard_normal()
            moved[e + 1] = EDGE * rng.random() if x <= 0.0 else 1.0 - EDGE * rng.random() if x >= 1.0 else x
            moved[e] = 1.0 - moved[e + 1]
        else:
            total = 0.0
            for i in range(e, e + size):
                x = means[i] + width * rng.standard_normal()
                moved[i] = min(1.0, x) if x > 0.0 else EDGE * rng.random()
                total += moved[i]
            for i in range(e, e + size):
                moved[i] /= total
        e += size
