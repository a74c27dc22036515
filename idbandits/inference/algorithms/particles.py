"""The paper's particle filter: a few models that wander, of which the likeliest acts."""

from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import IdbanditsError, check_number, check_whole
from idbandits.inference.learn import learner
from idbandits.inference.protocol import MOVE, Inference
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import value_of_factor
from idbandits.inference.rounds.reduction import reduce
from idbandits.inference.rounds.round import DONE, IMPOSSIBLE, Round
from idbandits.inference.rounds.workspace import GIVEN, Parts, Workspace, unpack
from idbandits.inference.state.sections import DERIVED, MEANS, Declaration, numbers, per_entry, setting
from idbandits.inference.state.state import ACTS_ON_MEANS, ROUNDS, State, copy
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.sampling import EDGE, draw_rows
from idbandits.kernel.structs import pointer

MOST = 1_000_000  # particles
MOST_MEANS = 20_000_000  # of all particles: about half a gigabyte


class Sections(NamedTuple):
    """Sections of the state."""

    number: int = setting()
    means: Floats = per_entry(MEANS)  # to act on
    prior: Floats = per_entry(DERIVED)
    models: Floats = per_entry(MEANS, entries="number")
    moved: Floats = per_entry(DERIVED, 0.0, "number")
    weights: Floats = numbers(DERIVED, size="number")
    width: float = setting()


DECLARED = Declaration(Sections)
view = DECLARED.view


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Move, weigh, pick the heaviest, resample."""
    v = w.v
    if not reduce(w, round_.action, round_.seen):
        return IMPOSSIBLE
    number, means, _, models, moved, weights, width = view(state, v.learned)
    for _ in range(round_.times):
        heaviest, ties = -np.inf, 0
        for m in range(number):
            model = pointer(moved, m * v.learned)
            move(v, pointer(models, m * v.learned), width, rng, model)
            weights[m] = 0.0
            for i in range(1, w.uses[0] + 1):
                weights[m] += np.log(model[w.uses[i]])
            for i in range(w.places[0]):
                weights[m] += np.log(value_of_factor(w, pointer(w.factors, w.places[1 + i]), GIVEN, model, model))
            if weights[m] > heaviest:
                heaviest, ties = weights[m], 0
            if weights[m] == heaviest:
                ties += 1
                if rng.random() * ties < 1.0:
                    copy(model, means, v.learned)
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
            copy(pointer(moved, chosen * v.learned), pointer(models, m * v.learned), v.learned)
    state.ints[ROUNDS] += round_.times
    return DONE


@inlined
def move(v: Parts, means: Floats, width: float, rng: Rng, moved: Floats) -> None:
    """Move every row by a Gaussian step, and back into the simplex."""
    e = 0
    while e < v.learned:
        size = v.size[e]
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


@kernel(types.void(INTS, FLOATS, FLOATS, RNG, types.float64[:, ::1]))
def draw_models(program: Ints, numbers: Floats, alpha: Floats, rng: Rng, models: Floats) -> None:
    """Models drawn from pseudo-counts, one per row."""
    _, v, _ = unpack(program, numbers)
    for m in range(len(models)):
        draw_rows(v.size, 0, v.learned, alpha, rng, models[m])


@final
class Particles(Inference):
    """Particle filter of the paper: models that wander, of which the likeliest acts.

    Models move by Gaussian steps, clipped to [0, 1]. They are weighted by the likelihood of the round, the heaviest is
    acted on, and all are resampled.

    Parameters
    ----------
    number : int
        Number of models.
    width : float
        Standard deviation of the steps of all means.

    Examples
    --------
    The paper reveals the latent nodes:

    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.cascade(3, 2).revealed(), inference=Particles(20), seed=0)
    Thompson('cascade', particles, number=20, width=0.1; 0 rounds)
    """

    capabilities = frozenset({MOVE})
    declared = DECLARED  # its state is not counts; the steps of its models forget, too
    learn = learner("Particles")(learn)

    def __init__(self, number: int = 20, width: float = 0.1) -> None:
        check_whole("the number of particles", number, 1, MOST)
        check_number("width", width, 0, above=True)
        self.settings = {"number": int(number), "width": float(width)}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Models drawn from the prior, the first of which acts."""
        number = self.settings["number"]
        if number * evidence.learned > MOST_MEANS:
            raise IdbanditsError(
                f"{number} particles of the {evidence.learned} means of diagram {model.name!r} are more than "
                f"{MOST_MEANS:,} means in all"
            )
        models = np.empty((number, evidence.learned))
        draw_models(evidence.program, evidence.numbers, evidence.prior, rng, models)
        state = DECLARED.start(evidence, self.settings | {"means": models[0], "models": models.ravel()})
        state.ints[ACTS_ON_MEANS] = 1
        return state

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Return the means of all particles, shape (number, learned)."""
        return DECLARED.section(state, evidence.learned, "models").reshape(self.settings["number"], evidence.learned)
