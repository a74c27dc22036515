"""Inferences: how an agent learns from what it observes, one file each, all behind one base class.

- Built in, as settings of agents: `Gibbs` (the default), `Exact`, `Variational`, `Incremental`, `Moments`, `EP` and
  `Particles`. `Thompson(d, "gibbs")` is short for `Thompson(d, inference=Gibbs())`; `BY_NAME` has all names.
- For custom inferences (docs/how-to/custom-inference.md): the base class `Inference`; `Declaration`, `per_entry`,
  `numbers`, `per_number` and `setting` declare its `State`; `Round` and `Evidence` are what `learn` gets, and `DONE`,
  `IMPOSSIBLE`, `AMBIGUOUS` and `UNKNOWN` what it returns; `learner` makes a function its kernel.
- For capabilities of an inference: `REVISE`, `FORGET`, `FEATURES`, `CONTEXT_FEATURES`, `ELBO`, `MOVE`.

>>> list(BY_NAME)
['exact', 'variational', 'incremental', 'moments', 'gibbs', 'ep', 'particles']
>>> named("ep").settings
{'sweeps': 1, 'damping': 0.5, 'share': 0.25}
"""

from typing import Any

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.inference.forgetting import Forget
from idbandits.inference.learn import LEARN, learner
from idbandits.inference.regression.prior import with_regressions
from idbandits.inference.rounds.evidence import Evidence, folded, literal
from idbandits.inference.state.state import HEADER, ROUNDS, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import Kernel, kernel

from idbandits.inference.protocol import (  # isort: skip
    CONTEXT_FEATURES, ELBO, FEATURES, FORGET, MOVE, REVISE, Counts, Inference,
)  # fmt: skip
from idbandits.inference.rounds.round import (  # isort: skip
    AMBIGUOUS, DONE, IMPOSSIBLE, LATER, NOW, THOROUGHLY, UNKNOWN, Round,
)  # fmt: skip
from idbandits.inference.state.sections import (  # isort: skip
    COUNTS, DERIVED, MEANS, NUMBERS, PSEUDO_COUNTS, SWITCHES, Declaration, numbers, per_entry, per_number, setting,
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
    "AMBIGUOUS", "BY_NAME", "CONTEXT_FEATURES", "COUNTS", "DERIVED", "DONE", "ELBO", "EP", "FEATURES", "FORGET",
    "IMPOSSIBLE", "LATER", "LEARN", "MEANS", "MOVE", "NOW", "NUMBERS", "PSEUDO_COUNTS", "REVISE", "ROUNDS", "SWITCHES",
    "THOROUGHLY", "UNKNOWN", "Counts", "Declaration", "Evidence", "Exact", "Floats", "Forget", "Gibbs", "Incremental",
    "Inference", "Ints", "Kernel", "Moments", "Particles", "Round", "State", "Variational", "able", "beginning",
    "check_capabilities", "default_inference", "folded", "kernel", "learner", "literal", "name_of", "named", "numbers",
    "per_entry", "per_number", "setting",
]  # fmt: skip

BY_NAME: dict[str, type[Inference]] = {kind.__name__.lower(): kind for kind in Inference.__subclasses__()}


def named(inference: Any) -> Inference:
    """Return the inference with a name, or the object that was passed if it is one.

    Parameters
    ----------
    inference : str or Inference
        Name of a built-in inference, or an object.

    Returns
    -------
    Inference
        Inference, with default settings if it was named.

    Raises
    ------
    IdbanditsError
        The name is unknown, or the object is not an inference.

    Examples
    --------
    >>> type(named("gibbs")).__name__
    'Gibbs'
    """
    if isinstance(inference, str):
        if inference not in BY_NAME:
            raise IdbanditsError(f"inference must be one of {', '.join(BY_NAME)}, or an object; got {brief(inference)}")
        return BY_NAME[inference]()
    if not isinstance(inference, Inference):
        is_class = isinstance(inference, type)
        shown = f"the class {inference.__name__}; call the class" if is_class else brief(inference)
        raise IdbanditsError(f"inference must be a name or an idb.inference.Inference, got {shown}")
    return inference


def name_of(inference: Inference) -> str:
    """Return the name of a built-in inference, else that of its class.

    Parameters
    ----------
    inference : Inference
        Inference.

    Returns
    -------
    str
        Name, as in `Thompson(d, "gibbs")`.

    Examples
    --------
    >>> name_of(Gibbs(steps=2))
    'gibbs'
    """
    kind = type(inference).__name__
    return kind.lower() if BY_NAME.get(kind.lower()) is type(inference) else kind


def able(capability: str) -> str:
    """Return the names of built-in inferences with a capability.

    Parameters
    ----------
    capability : str
        Capability, such as `FORGET`.

    Returns
    -------
    str
        Names, separated by commas.

    Examples
    --------
    >>> able(ELBO)
    'variational'
    """
    return ", ".join(name for name, kind in BY_NAME.items() if capability in kind.capabilities)


def check_capabilities(inference: Inference, evidence: Evidence, forget: Forget | None) -> None:
    """Raise if a diagram has features, or an agent is to forget, and the inference does not support it.

    Parameters
    ----------
    inference : Inference
        Inference.
    evidence : Evidence
        Likelihood of the diagram.
    forget : Forget or None
        Forgetting of the agent.

    Raises
    ------
    IdbanditsError
        A capability is missing; the message names inferences that have it.

    Examples
    --------
    >>> from idbandits import compile, models
    >>> check_capabilities(Gibbs(), compile(models.cascade(4, 2)).derived(folded), Forget(half_life=1000))
    """
    who, learned = f"inference {name_of(inference)!r}", evidence.entries.model.learned.values()
    if forget is not None and FORGET not in inference.capabilities:
        raise IdbanditsError(f"{who} cannot forget; {able(FORGET)} can")
    if evidence.regressions.number and FEATURES not in inference.capabilities:
        tables = ", ".join(repr(table.name) for table in learned if table.features is not None)
        raise IdbanditsError(f"{who} cannot learn from the features of learned table {tables}; {able(FEATURES)} can")
    if CONTEXT_FEATURES in inference.capabilities and isinstance(inference.learn, Kernel):
        return
    for node in evidence.entries.model.contexts:
        if node.features is not None:
            reason = f"cannot learn from the features of context {node.name!r}"
            raise IdbanditsError(f"{who} {reason}; {able(CONTEXT_FEATURES)} can")


def beginning(inference: Inference, model: Model, evidence: Evidence, rng: Rng, forget: Forget | None = None) -> State:
    """Return the state before the first round, with its clock and regressions.

    Parameters
    ----------
    inference : Inference
        Inference.
    model : Model
        Compiled diagram.
    evidence : Evidence
        Likelihood of the diagram.
    rng : Generator
        Random numbers, for states that begin at random.
    forget : Forget or None
        Forgetting of the agent.

    Returns
    -------
    State
        State without rounds.

    Raises
    ------
    IdbanditsError
        `start` of the inference does not return a state with writable arrays.

    Examples
    --------
    >>> from idbandits import compile, models
    >>> model = compile(models.cascade(4, 2))
    >>> state = beginning(Exact(), model, model.derived(folded), np.random.default_rng(0))
    >>> state.floats[:8].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    state: Any = inference.start(model, evidence, rng)
    if not isinstance(state, State):
        raise IdbanditsError(f"inference {name_of(inference)!r}: `start` must return a State, got {brief(state)}")
    for field, array, kind, least in zip(
        ("ints", "floats"), state, (np.int64, np.float64), (HEADER, 2 * evidence.learned), strict=False
    ):
        is_row = isinstance(array, np.ndarray) and array.ndim == 1 and array.flags.carray
        if not is_row or array.dtype != kind or len(array) < least:
            shown = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else brief(array)
            needed = f"a writable array of at least {least} {kind.__name__}"
            raise IdbanditsError(f"inference {name_of(inference)!r}: {field} of a state must be {needed}, got {shown}")
    if forget is not None:
        forget.begin(state)
    return with_regressions(evidence, state)


def default_inference(d: Diagram) -> str:
    """Return the name of the inference of an agent that is created without one.

    Parameters
    ----------
    d : Diagram
        Diagram of the agent.

    Returns
    -------
    str
        "moments" if a context has features, else "gibbs".

    Examples
    --------
    >>> from idbandits import models
    >>> default_inference(models.cascade(4, 2))
    'gibbs'
    """
    return "moments" if any(node.features is not None for node in d.of_kind("context")) else "gibbs"
