"""What is typed at the command line, turned into what the library takes: diagrams, means, contexts, learners."""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import idbandits as idb
from idbandits.app.frame import pick
from idbandits.diagram.declare import Diagram
from idbandits.diagram.storage import parse_json
from idbandits.diagram.tables import Label, LearnedTable
from idbandits.errors import ContextError, FormatError, IdbanditsError, MeansError, brief
from idbandits.inference import BY_NAME
from idbandits.kernel.types import Floats
from idbandits.simulation.simulate import random_numbers
from idbandits.simulation.workers import MOST_ROUNDS

MEANS, CONTEXT, CONTEXTS = "--means", "--context", "--contexts"


def read_diagram(file: str) -> Diagram:
    """The diagram in a file, or in the standard input if the name is a dash."""
    if file != "-":
        return Diagram.load(file)
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise FormatError(f"standard input: not text: {error}") from None
    data = _json(text, "standard input")
    try:
        return Diagram.from_dict(data)
    except FormatError as error:
        raise FormatError(f"standard input: {error}") from None


def read_means(d: Diagram, given: Sequence[str], seed: int) -> tuple[dict[str, Any], list[str]]:
    """The means that were given, in one or several pieces, and the names of those that were drawn from the prior."""
    found: dict[str, Any] = {}
    for text in given:
        for name, numbers in ({} if text == "random" else _means(d, text)).items():
            if name in found:
                raise MeansError(f"{MEANS}: those of {name!r} are given twice")
            found[name] = numbers
    if "random" not in given:
        return found, []
    rng = np.random.default_rng(random_numbers(seed, 0, "means"))
    drawn = {name: _from_prior(table, rng) for name, table in d.learned.items()}
    return drawn | found, [name for name in drawn if name not in found]


def _means(d: Diagram, text: str) -> dict[str, Any]:
    """One piece: JSON, a file of it, or name=numbers."""
    if text.lstrip().startswith("{"):
        return _object(text, MEANS)
    name = _name(d.learned, text)
    if "=" in text and (name in d.learned or not os.path.exists(text)):
        return {name: _numbers(name, text[len(name) + 1 :], d.learned.get(name))}
    if not os.path.exists(text):
        tables = ", ".join(f"{name} of shape {table.means_shape}" for name, table in d.learned.items()) or "none"
        raise MeansError(f"{MEANS} {text!r} is no file; write name=0.1,0.2,… for the learned tables: {tables}")
    return _object(_text(text), text)


def _name(names: Iterable[str], text: str) -> str:
    """What stands before the equals sign: the longest of these names that does, for they may hold such signs too."""
    return max((name for name in names if text.startswith(f"{name}=")), key=len, default=text.partition("=")[0])


def _numbers(name: str, text: str, table: LearnedTable | None) -> Any:
    """Nested lists as JSON, or numbers in a row, which fill the table's rows one after the other."""
    if text.lstrip().startswith("["):
        return _json(text, f"{MEANS} {name}")
    try:
        flat = np.array([float(number) for number in text.split(",")])
    except ValueError:
        raise MeansError(f"{MEANS}: those of {name!r} are not numbers: {brief(text)}; write {name}=0.1,0.2,…") from None
    fits = table is not None and flat.size == math.prod(table.means_shape)
    return flat.reshape(table.means_shape) if table is not None and fits else flat


def _from_prior(table: LearnedTable, rng: np.random.Generator) -> Floats:
    rows = np.array([rng.dirichlet(row) for row in table.prior.reshape(-1, table.states)])
    rows = rows.reshape(*table.shape, table.states)
    return rows[..., 1] if table.states == 2 else rows


def read_context(d: Diagram, given: Sequence[str]) -> dict[str, Any] | None:
    """A context given as node=value, or as JSON; None if nothing is given."""
    found: dict[str, Any] = {}
    for text in given:
        name = _name([n.name for n in d.of_kind("context")], text)
        if not text.lstrip().startswith("{") and "=" not in text:
            raise ContextError(f"{CONTEXT} {text!r}: write node=value, or JSON")
        pairs = _object(text, CONTEXT) if text.lstrip().startswith("{") else {name: text[len(name) + 1 :]}
        for name, value in pairs.items():
            if name in found:
                raise ContextError(f"{CONTEXT}: {name!r} is given twice")
            found[name] = _label(d, name, value)
    return found or None


def read_contexts(d: Diagram, text: str | None) -> dict[str, Any] | None:
    """The probabilities of contexts, as JSON or a file of it: lists, or objects with a number for every value."""
    if text is None:
        return None
    found = _object(text, CONTEXTS) if text.lstrip().startswith("{") else _object(_text(text), text)
    return {
        node: {_label(d, node, value): p for value, p in chances.items()} if isinstance(chances, Mapping) else chances
        for node, chances in found.items()
    }


def _label(d: Diagram, node: str, given: Any) -> Any:
    """The value of a node that is this, or else is written like this; what was given if there is none."""
    values: Sequence[Label] = d.nodes[node].values if node in d.nodes else ()
    return given if given in values else next((value for value in values if str(value) == str(given)), given)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: not text: {error}") from None


def _object(text: str, where: str) -> dict[str, Any]:
    data = _json(text, where)
    if not isinstance(data, dict):
        raise FormatError(f"{where}: a JSON object with a key for every name is needed, not {brief(data)}")
    return data


def _json(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except FormatError as error:
        raise FormatError(f"{where}: {error}") from None


# -- learners ------------------------------------------------------------------------------------------------------


def learner_kinds() -> dict[str, Callable[..., Any]]:
    """All learners by name: what makes their settings into what is learnt with, or a baseline from a diagram."""
    baselines = getattr(idb, "baselines", None)
    named = {name: getattr(baselines, name) for name in getattr(baselines, "__all__", ())}
    found: dict[str, Callable[..., Any]] = {**BY_NAME, "full": BY_NAME["exact"]}
    return found | {name: kind for name, kind in named.items() if isinstance(kind, type)}


def read_learners(d: Diagram, given: Sequence[str]) -> dict[str, Any]:
    """The learners with these names, each with settings after a colon: `variational:sweeps=5,start=random`."""
    found: dict[str, Any] = {}
    for text in given:
        if text in found:
            raise IdbanditsError(f"learner {text!r} is given twice")
        found[text] = _learner(d, text)
    return found


def _learner(d: Diagram, text: str) -> Any:
    kinds = learner_kinds()
    name = pick("learner", text.partition(":")[0], kinds)
    settings = _settings(text, learner_settings(kinds[name]))
    if name == "full":
        return idb.Thompson(d.revealed(), kinds[name](**settings))
    return idb.Thompson(d, kinds[name](**settings)) if name in BY_NAME else kinds[name](d, seed=0, **settings)


def learner_settings(kind: Callable[..., Any]) -> dict[str, Any]:
    """The settings of a learner, with their defaults: what its class takes beside a diagram and a seed."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is not parameter.empty and name != "seed"
    }


def _settings(learner: str, allowed: Mapping[str, Any]) -> dict[str, Any]:
    text = learner.partition(":")[2]
    found: dict[str, Any] = {}
    for pair in text.split(",") if text else ():
        name, _, value = pair.partition("=")
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise IdbanditsError(f"learner {learner!r}: {name!r} is no setting of it; these are: {known}")
        if name in found:
            raise IdbanditsError(f"learner {learner!r}: {name} is given twice")
        try:
            found[name] = json.loads(value.lower() if value in ("True", "False") else value)
        except ValueError:
            found[name] = value
        if isinstance(found[name], int) and abs(found[name]) > MOST_ROUNDS:
            raise IdbanditsError(
                f"learner {brief(learner)}: {name} is a number up to {MOST_ROUNDS}, not {brief(value)}"
            )
        if isinstance(allowed[name], bool) and not isinstance(found[name], bool):
            raise IdbanditsError(f"learner {learner!r}: {name} is true or false, not {value!r}")
    return found
