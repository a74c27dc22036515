"""What an inference is, and by what types kernels are handed it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import IdbanditsError
from idbandits.inference.evidence import Evidence
from idbandits.inference.workspace import Workspace, held, scratch, workspace
from idbandits.kernel.compiling import FLOATS, INTS, RNG, Kernel, function_at, generated, handle_type, kernel
from idbandits.kernel.fields import Packed
from idbandits.kernel.states import CAPACITY, PER_ROUND, USED, State
from idbandits.kernel.types import Floats, Ints, Rng

DONE, IMPOSSIBLE, AMBIGUOUS, UNKNOWN = range(4)  # what `learn` says
LATER, NOW, THOROUGHLY = range(3)  # efforts of `learn`

Learn: TypeAlias = Callable[[Ints, Floats, Ints, Floats, Rng, Ints, Ints, int, int], int]


class Inference(Protocol):
    """How an agent learns. Settings are its attributes; what it learns is in a `State` that it is handed.

    `learn(program, numbers, ints, floats, rng, action, seen, times, effort)` takes in a round (`times` equal ones;
    taken back if negative) and brings the belief up to date: not yet with effort LATER, as after every round with NOW,
    as after many rounds at once with THOROUGHLY. It says DONE, or why it could not, and then nothing has changed.
    `program` and `numbers` are those of the `Evidence` that it asked for. A kernel with the signature LEARN runs inside
    the loop of `simulate`; a plain Python function works everywhere, at Python's speed.
    """

    @property
    def learn(self) -> Learn:
        """Takes in a round, as said above."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make an equal inference."""

    def evidence(self, model: Model) -> Evidence:
        """The likelihood in the form that it learns from."""

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The state before the first round; floats[:evidence.learned] are the pseudo-counts that actions use."""

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Pseudo-counts of all learned entries; or draws of them, one per row, where pseudo-counts do not say all."""


@runtime_checkable
class Revisable(Protocol):
    """What an inference may have besides: whether `learn` can take rounds back exactly."""

    revisable: bool


@runtime_checkable
class Bounded(Protocol):
    """What an inference may have besides: a lower bound of the evidence."""

    def elbo(self, evidence: Evidence, state: State) -> float:
        """L(q) of the paper: the logarithm of the probability of all that was seen is at least this."""


REQUIRED = ("learn", "settings", "evidence", "start", "belief")  # members of `Inference`


def coded(setting: str, word: Any, codes: Mapping[str, int]) -> int:
    """The number that stands for a word in the state."""
    if not isinstance(word, str) or word not in codes:
        raise IdbanditsError(f"{setting} is one of {', '.join(map(repr, codes))}, not {word!r}")
    return codes[word]


LEARN = types.int64(INTS, FLOATS, INTS, FLOATS, RNG, INTS, INTS, types.int64, types.int64)
PACKED = types.NamedTuple([INTS, FLOATS], Packed)
STATE = types.NamedTuple([INTS, FLOATS], State)
learn_at = function_at(LEARN)


class Round(NamedTuple):
    """A round to learn from."""

    action: Ints
    seen: Ints
    times: int
    effort: int


def _work(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """What `learner` puts into `_learn`."""
    return DONE


work = _work


def _learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    status = work(w, ints, floats, rng, Round(action, seen, times, effort))
    return int(held(status, int_scratch, float_scratch))


def learner(name: str) -> Callable[[Any], Kernel]:
    """Make a part, `work(w, ints, floats, rng, round_)`, the kernel `learn` of the inference with this class name."""
    return lambda part: generated(_learn, LEARN, f"{name}.learn", part)


@kernel(types.int64(handle_type(LEARN), PACKED, STATE, RNG, types.int64[:, ::1], types.int64))
def learn_all(learn: Any, evidence: Packed, state: State, rng: Rng, rounds: Ints, width: int) -> int:
    """Take in rounds one by one, until one is refused or the state is full; how many were taken in."""
    ints, floats = state
    for t in range(len(rounds)):
        if ints[USED] + ints[PER_ROUND] > ints[CAPACITY]:
            return t
        row = rounds[t]
        status = learn_at(learn)(evidence.ints, evidence.floats, ints, floats, rng, row[:width], row[width:], 1, LATER)
        if status != DONE:
            return t
    return len(rounds)
