"""How an agent learns from what it sees: one file per inference, all behind one protocol.

All that an inference of one's own needs is here: the protocol, states and what they begin with, statuses and efforts.
"""

from typing import Any

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.inference.forgetting import Forget, fading
from idbandits.inference.regression.prior import with_regressions
from idbandits.inference.rounds.evidence import Evidence, folded, literal
from idbandits.inference.state.state import FIGURES, HEADER, ROUNDS, State, no_groups, with_groups
from idbandits.inference.state.state_file import ANYTHING, DERIVED, NUMBERS, PSEUDO_COUNTS, Layout, plain_layout
from idbandits.kernel.array_types import Rng
from idbandits.kernel.compile import Kernel, kernel

from idbandits.inference.protocol import (  # isort: skip
    AMBIGUOUS, DONE, IMPOSSIBLE, LATER, LEARN, NOW, REQUIRED, THOROUGHLY, UNKNOWN, Bridging, Described, Forgetful,
    Inference, Regressing,
)  # fmt: skip

# The built-in inferences, one per line, in the order in which messages list them.
# isort: off
from idbandits.inference.algorithms.exact import Exact
from idbandits.inference.algorithms.variational import Variational
from idbandits.inference.algorithms.incremental import Incremental
from idbandits.inference.algorithms.moments import Moments
from idbandits.inference.gibbs.gibbs import Gibbs
from idbandits.inference.algorithms.ep import EP
from idbandits.inference.algorithms.particles import Particles
# isort: on

__all__ = [
    "AMBIGUOUS", "ANYTHING", "BY_NAME", "DERIVED", "DONE", "EP", "FIGURES", "IMPOSSIBLE", "LATER", "LEARN", "NOW",
    "NUMBERS", "PSEUDO_COUNTS", "ROUNDS", "THOROUGHLY", "UNKNOWN", "Evidence", "Exact", "Forget", "Gibbs",
    "Incremental", "Inference", "Layout", "Moments", "Particles", "State", "Variational", "beginning",
    "check_bridging", "check_forgetful", "check_regressing", "default_inference", "fading", "folded", "kernel",
    "layout_of", "literal", "name_of", "named", "no_groups", "with_groups",
]  # fmt: skip

BY_NAME: dict[str, type[Any]] = {  # all that are imported above
    name.lower(): kind for name, kind in list(globals().items()) if isinstance(getattr(kind, "learn", None), Kernel)
}


def named(inference: Any) -> Inference:
    """The inference with a name, or the object that was given, if it is one."""
    if isinstance(inference, str):
        if inference not in BY_NAME:
            raise IdbanditsError(f"inference is one of {', '.join(BY_NAME)}, or an object; not {brief(inference)}")
        return BY_NAME[inference]()
    missing = [name for name in REQUIRED if not hasattr(inference, name)]
    if missing or isinstance(inference, type):
        reason = "it is a class: call it" if isinstance(inference, type) else f"it has no {', '.join(missing)}"
        shown = inference.__name__ if isinstance(inference, type) else brief(inference)
        raise IdbanditsError(f"inference {shown} does not follow the protocol: {reason}")
    return inference


def name_of(inference: Inference) -> str:
    """The name of a built-in inference, else that of its class."""
    return next((name for name, kind in BY_NAME.items() if type(inference) is kind), type(inference).__name__)


def beginning(inference: Inference, model: Model, evidence: Evidence, rng: Rng, forget: Forget | None = None) -> State:
    """The state before the first round, of the types that kernels take for granted."""
    state: Any = inference.start(model, evidence, rng)
    if not isinstance(state, State):
        name = name_of(inference)
        raise IdbanditsError(f"inference {name!r}: `start` returns a State, not {brief(state)}")
    has_prior = evidence.regressions.number > 0 or evidence.logistics.every > 0
    more = evidence.learned + FIGURES if has_prior else 0 if forget is None else FIGURES
    sizes = (np.int64, HEADER), (np.float64, evidence.learned + more)
    for name, array, (kind, least) in zip(State._fields, state, sizes, strict=False):
        is_row = isinstance(array, np.ndarray) and array.ndim == 1 and array.flags.carray
        if not is_row or array.dtype != kind or len(array) < least:
            shown = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else brief(array)
            raise IdbanditsError(
                f"inference {name_of(inference)!r}: the {name} of a state are a writable array of at least "
                f"{least} {kind.__name__}, not {shown}"
            )
    first = evidence.learned + FIGURES
    prior = state.floats[first : first + evidence.learned]
    if has_prior and not ((prior > 0) & (prior < np.inf)).all():  # nearly that of the diagram, if it is symmetric
        needed = f"tables with features need the prior in the floats of a state, from {first} on"
        raise IdbanditsError(f"inference {name_of(inference)!r}: {needed}")
    if forget is not None:
        forget.begin(state, evidence.learned)
    return with_regressions(evidence, state)


def check_forgetful(inference: Inference, forget: Forget | None) -> None:
    """Raise if something is to be forgotten, and this inference cannot."""
    if forget is not None and not (isinstance(inference, Forgetful) and inference.forgets):
        able = ", ".join(name for name, kind in BY_NAME.items() if kind.forgets)
        raise IdbanditsError(f"inference {name_of(inference)!r} cannot forget; {able} can")


def check_regressing(inference: Inference, evidence: Evidence) -> None:
    """Raise if tables have features, and this inference has no use for them."""
    if evidence.regressions.number and not (isinstance(inference, Regressing) and inference.regresses):
        able = ", ".join(name for name, kind in BY_NAME.items() if kind.regresses)
        tables = ", ".join(repr(t.name) for t in evidence.entries.model.learned.values() if t.features is not None)
        raise IdbanditsError(
            f"inference {name_of(inference)!r} cannot learn from the features of learned table {tables}; {able} can"
        )


def check_bridging(inference: Inference, model: Model) -> None:
    """Raise if contexts have features, and this inference does not learn of them."""
    if isinstance(inference, Bridging) and inference.bridges and isinstance(inference.learn, Kernel):
        return
    for node in model.contexts:
        if node.features is not None:
            able = ", ".join(name for name, kind in BY_NAME.items() if getattr(kind, "bridges", False))
            reason = f"cannot learn from the features of context {node.name!r}"
            raise IdbanditsError(f"inference {name_of(inference)!r} {reason}; {able} can")


def default_inference(d: Diagram) -> str:
    """The name of the inference of an agent that was given none."""
    return "moments" if any(node.features is not None for node in d.of_kind("context")) else "gibbs"


def layout_of(inference: Inference, evidence: Evidence, state: State) -> Layout:
    """What the numbers of a state are: as its inference says, else that it begins with what actions are drawn from."""
    return inference.layout(evidence) if isinstance(inference, Described) else plain_layout(evidence.learned, state)
