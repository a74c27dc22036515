"""How an agent learns from what it sees: one file per inference, all behind one protocol.

All that an inference of one's own needs is here: the protocol, states and what they begin with, statuses and efforts.
"""

from typing import Any

from idbandits.errors import IdbanditsError
from idbandits.inference.evidence import Evidence, folded, literal
from idbandits.kernel.compiling import Kernel, kernel
from idbandits.kernel.states import ROUNDS, State, no_groups, with_groups

from idbandits.inference.protocol import (  # isort: skip
    AMBIGUOUS, DONE, IMPOSSIBLE, LATER, LEARN, NOW, REQUIRED, THOROUGHLY, UNKNOWN, Inference,
)  # fmt: skip

# The built-in inferences, one per line, in the order in which messages list them.
# isort: off
from idbandits.inference.exact import Exact
from idbandits.inference.variational import Variational
from idbandits.inference.incremental import Incremental
from idbandits.inference.moments import Moments
from idbandits.inference.gibbs import Gibbs
from idbandits.inference.ep import EP
from idbandits.inference.particles import Particles
# isort: on

__all__ = [
    "AMBIGUOUS", "BY_NAME", "DONE", "EP", "IMPOSSIBLE", "LATER", "LEARN", "NOW", "ROUNDS", "THOROUGHLY",
    "UNKNOWN", "Evidence", "Exact", "Gibbs", "Incremental", "Inference", "Moments", "Particles", "State",
    "Variational", "folded", "kernel", "literal", "name_of", "named", "no_groups", "with_groups",
]  # fmt: skip

BY_NAME: dict[str, type[Any]] = {  # all that are imported above
    name.lower(): kind for name, kind in list(globals().items()) if isinstance(getattr(kind, "learn", None), Kernel)
}


def named(inference: Any) -> Inference:
    """The inference with a name, or the object that was given, if it is one."""
    if isinstance(inference, str):
        if inference not in BY_NAME:
            raise IdbanditsError(f"inference is one of {', '.join(BY_NAME)}, or an object; not {inference!r}")
        return BY_NAME[inference]()
    missing = [name for name in REQUIRED if not hasattr(inference, name)]
    if missing or isinstance(inference, type):
        reason = "it is a class: call it" if isinstance(inference, type) else f"it has no {', '.join(missing)}"
        raise IdbanditsError(f"inference {inference!r} does not follow the protocol: {reason}")
    return inference


def name_of(inference: Inference) -> str:
    """The name of a built-in inference, else that of its class."""
    return next((name for name, kind in BY_NAME.items() if type(inference) is kind), type(inference).__name__)
