"""Turns what is typed at the command line into what the library takes: diagrams, means, contexts, learners."""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from idbandits import baselines
from idbandits.agent.thompson import Thompson
from idbandits.app.frame import pick
from idbandits.diagram.declare import Diagram
from idbandits.diagram.storage import parse_json
from idbandits.diagram.tables import Label, LearnedTable, prior_means
from idbandits.errors import ContextError, FormatError, IdbanditsError, MeansError, brief
from idbandits.inference import BY_NAME
from idbandits.kernel.types import Floats
from idbandits.simulation.simulate import random_numbers
from idbandits.simulation.workers import MOST_ROUNDS


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


# -- means ---------------------------------------------------------------------------------------------------------


def read_means(d: Diagram, texts: Sequence[str], seed: int) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The means that are given, in one or several texts, and, if `random` is one of them, the others from the prior."""
    means: dict[str, Any] = {}
    for text in texts:
        for name, numbers in ({} if text == "random" else _read_tables(d, text)).items():
            if name in means:
                raise MeansError(f"--means: those of {name!r} are given twice")
            means[name] = numbers
    if "random" not in texts:
        return means, {}
    drawn = prior_means(d.learned, np.random.default_rng(random_numbers(seed, 0, "means")))
    return means, {name: numbers for name, numbers in drawn.items() if name not in means}


def _read_tables(d: Diagram, text: str) -> dict[str, Any]:
    """The means in one text: JSON, a file of it, or name=numbers."""
    if _is_object(text):
        return _object(text, "--means")
    name = _name_in(text, d.learned)
    if "=" in text and (name in d.learned or not os.path.exists(text)):
        return {name: _numbers(name, text[len(name) + 1 :], d.learned.get(name))}
    if not os.path.exists(text):
        tables = ", ".join(f"{name} of shape {table.means_shape}" for name, table in d.learned.items()) or "none"
        raise MeansError(f"--means {text!r} is not a file; write name=0.1,0.2,… for the learned tables: {tables}")
    return _object(_content(text), text)


def _name_in(text: str, names: Iterable[str]) -> str:
    """What stands before the equals sign: the longest of these names that does, for they may contain such signs."""
    return max((name for name in names if text.startswith(f"{name}=")), key=len, default=text.partition("=")[0])


def _numbers(name: str, text: str, table: LearnedTable | None) -> Any:
    """Nested lists as JSON, or numbers with commas between them, which fill the table's rows one after the other."""
    if text.lstrip().startswith("["):
        return _json(text, f"--means {name}")
    try:
        numbers = np.array([float(number) for number in text.split(",")])
    except ValueError:
        raise MeansError(f"--means: those of {name!r} are not numbers: {brief(text)}; write {name}=0.1,0.2,…") from None
    if table is not None and numbers.size == math.prod(table.means_shape):
        return numbers.reshape(table.means_shape)
    return numbers  # of a wrong shape: those who use them say so


# -- contexts ------------------------------------------------------------------------------------------------------


def read_context(d: Diagram, texts: Sequence[str]) -> dict[str, Any] | None:
    """A context given as node=value, or as JSON; None if there is none."""
    context: dict[str, Any] = {}
    for text in texts:
        name = _name_in(text, [n.name for n in d.of_kind("context")])
        if not _is_object(text) and "=" not in text:
            raise ContextError(f"--context {text!r}: write node=value, or JSON")
        pairs = _object(text, "--context") if _is_object(text) else {name: text[len(name) + 1 :]}
        for name, value in pairs.items():
            if name in context:
                raise ContextError(f"--context: {name!r} is given twice")
            context[name] = _label(d, name, value)
    return context or None


def read_contexts(d: Diagram, text: str | None) -> dict[str, Any] | None:
    """The probabilities of contexts, as JSON or a file of it: per node a list, or an object with a number per value."""
    if text is None:
        return None
    nodes = _object(text, "--contexts") if _is_object(text) else _object(_content(text), text)
    return {
        node: {_label(d, node, value): p for value, p in chances.items()} if isinstance(chances, Mapping) else chances
        for node, chances in nodes.items()
    }


def _label(d: Diagram, node: str, value: Any) -> Any:
    """The label of a node that equals this value, or else is written like it; the value itself if there is none."""
    labels: Sequence[Label] = d.nodes[node].values if node in d.nodes else ()
    return value if value in labels else next((label for label in labels if str(label) == str(value)), value)


# -- JSON ----------------------------------------------------------------------------------------------------------


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: not text: {error}") from None


def _object(text: str, source: str) -> dict[str, Any]:
    data = _json(text, source)
    if not isinstance(data, dict):
        raise FormatError(f"{source}: a JSON object with one key per name is needed, not {brief(data)}")
    return data


def _json(text: str, source: str) -> Any:
    try:
        return parse_json(text)
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from None


# -- learners ------------------------------------------------------------------------------------------------------


def learner_classes() -> dict[str, type[Any]]:
    """All learners by name: inferences, `full` for exact inference with latent nodes revealed, and baselines."""
    return {**BY_NAME, "full": BY_NAME["exact"]} | {name: getattr(baselines, name) for name in baselines.__all__}


def learner_settings(learner: type[Any]) -> dict[str, Any]:
    """The settings of a learner, with their defaults: what its class takes beside a diagram and a seed."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(learner).parameters.items()
        if parameter.default is not parameter.empty and name != "seed"
    }


def read_learners(d: Diagram, texts: Sequence[str]) -> dict[str, Any]:
    """The learners with these names, each with settings after a colon: `variational:sweeps=5,start=random`."""
    learners: dict[str, Any] = {}
    for text in texts:
        if text in learners:
            raise IdbanditsError(f"learner {text!r} is given twice")
        learners[text] = _learner(d, text)
    return learners


def _learner(d: Diagram, text: str) -> Any:
    classes = learner_classes()
    name = pick("learner", text.partition(":")[0], classes)
    settings = _settings(text, learner_settings(classes[name]))
    if name == "full":
        return Thompson(d.revealed(), classes[name](**settings))
    return Thompson(d, classes[name](**settings)) if name in BY_NAME else classes[name](d, seed=0, **settings)


def _settings(learner: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What follows the colon, where only settings with a default are allowed."""
    text = learner.partition(":")[2]
    settings: dict[str, Any] = {}
    for pair in text.split(",") if text else ():
        name, _, value = pair.partition("=")
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise IdbanditsError(f"learner {learner!r}: {name!r} is not a setting of it; these are: {known}")
        if name in settings:
            raise IdbanditsError(f"learner {learner!r}: {name} is given twice")
        settings[name] = _setting(value)
        if isinstance(settings[name], int) and abs(settings[name]) > MOST_ROUNDS:
            raise IdbanditsError(f"learner {brief(learner)}: {name} is a number up to {MOST_ROUNDS}, not {value!r}")
        if isinstance(defaults[name], bool) and not isinstance(settings[name], bool):
            raise IdbanditsError(f"learner {learner!r}: {name} is true or false, not {value!r}")
    return settings


def _setting(text: str) -> Any:
    """JSON, or Python's True and False, or else a word."""
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text
