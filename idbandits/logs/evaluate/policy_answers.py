"""Answers of policies: actions, distributions over actions, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import IdbanditsError, brief
from idbandits.kernel.array_types import Floats, Ints

TOLERANCE = 1e-6  # difference from 1 of a sum of probabilities


class PolicyError(IdbanditsError):
    """Policy or propensity that does not fit the log or the diagram."""


def is_action(model: Model, answer: Any) -> bool:
    """Return whether an answer is an action: choices by decision, in the order of decisions, or of the only one."""
    labels = _choices(model, answer)
    return labels is not None and all(
        node.index(label) is not None for node, label in zip(model.decisions, labels, strict=True)
    )


def resembles_action(model: Model, answer: Any) -> bool:
    """Return whether an answer has the form of an action and at least one choice that exists: the others are wrong."""
    labels = _choices(model, answer)
    return labels is not None and any(
        node.index(label) is not None for node, label in zip(model.decisions, labels, strict=True)
    )


def _choices(model: Model, answer: Any) -> list[Any] | None:
    """Return the labels of an action in the order of decisions; None if an answer does not have that form."""
    names = [node.name for node in model.decisions]
    if isinstance(answer, Mapping):
        return [answer[name] for name in names] if answer.keys() == set(names) else None
    if isinstance(answer, (list, tuple, np.ndarray)):
        return list(answer) if len(answer) == len(names) else None
    return [answer] if len(names) == 1 else None


def looked_up(table: Mapping[Any, Any], model: Model, what: str) -> Callable[[dict[str, Any]], Any]:
    """Return a function that looks a context up by its label, or by the tuple of its labels."""
    _check_decisions(model, table, what)
    contexts = [node.name for node in model.contexts]

    def ask(context: dict[str, Any]) -> Any:
        labels = tuple(context[name] for name in contexts)
        keys = (labels, labels[0]) if len(labels) == 1 else (labels,)
        for key in keys:
            if key in table:
                return table[key]
        raise PolicyError(f"{what} must have an entry for each context of the log, got none for {brief(context)}")

    return ask


def _check_decisions(model: Model, policy: Mapping[Any, Any], what: str) -> None:
    """Raise for a mapping by decisions that lacks some, or has others; tables by contexts pass."""
    decisions = [node.name for node in model.decisions]
    if not all(isinstance(key, str) for key in policy):
        return
    if model.contexts and policy.keys().isdisjoint(decisions):
        return
    if len(model.contexts) == 1 and any(model.contexts[0].index(key) is not None for key in policy):
        return
    missing = [f"none for {name!r}" for name in decisions if name not in policy][:1]
    unknown = [f"the unknown {brief(key)}" for key in policy if key not in decisions][:1]
    if missing or unknown:
        listed = ", ".join(decisions)
        raise PolicyError(f"{what} must have a choice for each of {listed}, got {' and '.join(missing + unknown)}")


def table_of(frame: Any, model: Model, what: str) -> Mapping[tuple[Any, ...], Any]:
    """Return a data frame with columns for contexts and decisions, and perhaps `probability`, as a mapping."""
    if hasattr(frame, "to_pydict"):
        columns = dict(frame.to_pydict())
    elif hasattr(frame, "to_dicts"):  # Polars
        columns = {name: frame[name].to_list() for name in frame.columns}
    else:
        columns = {name: list(frame[name]) for name in frame.columns}
    contexts, decisions = [n.name for n in model.contexts], [n.name for n in model.decisions]
    if missing := [name for name in (*contexts, *decisions) if name not in columns]:
        raise PolicyError(f"{what} must be a table with a column {missing[0]!r}, got {brief(list(columns))}")
    table: dict[tuple[Any, ...], list[Any]] = {}
    shares = columns.get("probability")
    for i in range(len(columns[decisions[0]])):
        action = {name: columns[name][i] for name in decisions}
        key = tuple(columns[name][i] for name in contexts)
        table.setdefault(key, []).append((action, 1.0 if shares is None else float(shares[i])))
    return table


def distribution(answer: Any, model: Model, encoded: dict[Any, Ints], what: str) -> tuple[Ints, Floats]:
    """Encode an action or a distribution over actions; validate both.

    Distributions are lists of (action, probability), or mappings of actions (tuples of choices, or the choice of the
    only decision) to probabilities.
    """
    pairs: Iterable[Any]
    decisions = {node.name for node in model.decisions}
    if is_action(model, answer) or (isinstance(answer, Mapping) and answer.keys() == decisions):
        pairs = [(answer, 1.0)]
    else:
        pairs = answer.items() if isinstance(answer, Mapping) else answer
    try:
        listed = [(action, float(share)) for action, share in pairs]
    except (TypeError, ValueError):
        needed = "an action, or a list of (action, probability)"
        raise PolicyError(f"{what} must return {needed}, got {brief(answer)}") from None
    shares = np.array([share for _, share in listed])
    if not (shares >= 0).all() or not abs(shares.sum() - 1) <= TOLERANCE:
        raise PolicyError(f"{what}: probabilities of actions must be >= 0 with sum 1, got {brief(shares.tolist())}")
    rows = []
    for action, _ in listed:
        labels = _choices(model, action)
        if labels is None:
            names = ", ".join(node.name for node in model.decisions)
            raise PolicyError(f"{what}: an action must have choices for {names}, got {brief(action)}")
        try:
            key = tuple(labels)
            if key not in encoded:
                encoded[key] = _places(model, labels, what)
        except TypeError:  # labels that cannot be hashed
            raise PolicyError(f"{what}: choices must be labels of items, got {brief(action)}") from None
        rows.append(encoded[key])
    return np.array(rows, np.int64).reshape(len(rows), len(model.decisions)), shares


def _places(model: Model, labels: Sequence[Any], what: str) -> Ints:
    """Return the places of an action's choices; validate it against the constraints."""
    places = []
    for node, label in zip(model.decisions, labels, strict=True):
        if (place := node.index(label)) is None:
            raise PolicyError(f"{what}: {node.name!r} must be one of {node.allowed()}, got {brief(label)}")
        places.append(place)
    model.feasibility.check({node.name: node.values[at] for node, at in zip(model.decisions, places, strict=True)})
    return np.array(places, np.int64)
