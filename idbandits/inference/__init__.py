"""How an agent learns from what it sees: one file an inference, all behind one protocol."""

from __future__ import annotations

from typing import Any

from idbandits.errors import IdbanditsError
from idbandits.inference.ep import EP
from idbandits.inference.exact import Exact
from idbandits.inference.gibbs import Gibbs
from idbandits.inference.incremental import Incremental
from idbandits.inference.moments import Moments
from idbandits.inference.particles import Particles
from idbandits.inference.protocol import Inference
from idbandits.inference.variational import Variational

__all__ = [
    "EP", "Exact", "Gibbs", "Incremental", "Inference", "Moments", "Particles", "Variational", "name_of", "named",
]  # fmt: skip

BY_NAME: dict[str, type[Any]] = {
    "exact": Exact,
    "variational": Variational,
    "incremental": Incremental,
    "moments": Moments,
    "gibbs": Gibbs,
    "ep": EP,
    "particles": Particles,
}


def named(inference: Any) -> Inference:
    """The inference with a name, or the object that was given, if it is one."""
    if isinstance(inference, str):
        if inference not in BY_NAME:
            raise IdbanditsError(f"inference is one of {', '.join(BY_NAME)}, or an object; not {inference!r}")
        made: Inference = BY_NAME[inference]()
        return made
    missing = [name for name in ("learn", "settings", "evidence", "start", "belief") if not hasattr(inference, name)]
    if missing or isinstance(inference, type):
        what = "it is a class: call it" if isinstance(inference, type) else f"it has no {', '.join(missing)}"
        raise IdbanditsError(f"inference {inference!r} does not follow the protocol: {what}")
    given: Inference = inference
    return given


def name_of(inference: Inference) -> str | None:
    """The name of a built-in inference."""
    return next((name for name, kind in BY_NAME.items() if type(inference) is kind), None)
