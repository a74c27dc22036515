"""Actions of a holdout, which do not depend on beliefs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from idbandits.circuit.model import Model
from idbandits.diagram.tables import Label
from idbandits.errors import IdbanditsError
from idbandits.kernel.array_types import Ints, Rng
from idbandits.solve.eligible import are_eligible, choices_of

ATTEMPTS = 100


def uniform_action(model: Model, eligible: Ints, rng: Rng) -> dict[str, Label] | None:
    """Draw an action, each choice uniformly among the eligible values that constraints leave; None if no draw succeeds.

    If all decisions have equal eligible items, all lists are equally probable.
    """
    options = _options(model, eligible)
    for _ in range(ATTEMPTS):
        chosen = dict[str, Label]()
        for name, values in options.items():
            left = [value for value in values if not _repeats(model, chosen, name, value)]
            if not left:
                break
            chosen[name] = left[int(rng.integers(len(left)))]
        else:
            return chosen
    return None


def uniform_probability(model: Model, action: Mapping[str, Any], eligible: Ints) -> float:
    """Return the probability with which `uniform_action` draws an action, if no draw fails."""
    probability, chosen = 1.0, dict[str, Label]()
    for name, values in _options(model, eligible).items():
        left = [value for value in values if not _repeats(model, chosen, name, value)]
        if action[name] not in left:
            return 0.0
        probability /= len(left)
        chosen[name] = action[name]
    return probability


def _options(model: Model, eligible: Ints) -> dict[str, list[Label]]:
    """Return the eligible values of each decision."""
    number = len(model.decisions)
    return {
        node.name: [node.values[place] for place in choices_of(node.states, eligible, k, number)]
        for k, node in enumerate(model.decisions)
    }


def _repeats(model: Model, chosen: dict[str, Label], name: str, value: Label) -> bool:
    """Return whether a choice equals an earlier choice from which a constraint says that it differs."""
    return any(
        name in group and value not in (labels or ()) and any(chosen.get(other) == value for other in group)
        for group, labels in model.diagram.constraints
    )


def fixed_action(model: Model, action: dict[str, Any], eligible: Ints) -> dict[str, Label] | None:
    """Return a fixed action; None if it is not valid or not eligible now."""
    contexts = {node.name: node.values[0] for node in model.contexts if node.features is None}
    try:
        vector = model.action_vector(action, contexts)
    except IdbanditsError:
        return None
    return dict(action) if are_eligible(vector, eligible, len(model.decisions)) else None
