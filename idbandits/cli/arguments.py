"""Conversion of command-line arguments to diagrams, means, features and contexts."""

import io
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from idbandits.diagram.diagram import Diagram
from idbandits.diagram.serialize import MOST_BYTES, parse_json, read_json
from idbandits.diagram.tables import Label, prior_means
from idbandits.errors import ContextError, FormatError, MeansError, brief
from idbandits.files import path_of, read_whole
from idbandits.kernel.array_types import Floats
from idbandits.simulation.simulate import random_numbers


def read_diagram(file: str) -> Diagram:
    """Read a diagram from a file, or from the standard input if the name is a dash."""
    if file != "-":
        return Diagram.load(file)
    with _errors_name("standard input"):
        if sys.stdin is None:
            raise FormatError("it is closed")
        binary = getattr(sys.stdin, "buffer", None)  # JSON is UTF-8, whatever the locale
        return Diagram.from_dict(parse_json(sys.stdin.read()) if binary is None else read_json(binary))


@contextmanager
def _errors_name(source: str) -> Iterator[None]:
    """Prefix format errors with their source."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from None


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _object(text: str, option: str) -> dict[str, Any]:
    """Read a JSON object from a text or from the file it names."""
    with _errors_name(option if _is_object(text) else text):
        data = parse_json(text) if _is_object(text) else read_json(path_of(text))
        if not isinstance(data, dict):
            raise FormatError(f"must be a JSON object with a key per name, got {brief(data)}")
    return data


def json_or_text(text: str) -> Any:
    """Parse JSON; return other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _add(option: str, target: dict[str, Any], name: str, value: Any, error: type[Exception]) -> None:
    """Add an entry; raise if the name occurs twice."""
    if name in target:
        raise error(f"{option}: {name!r} occurs twice")
    target[name] = value


def read_means(d: Diagram, texts: Sequence[str], seed: int) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Read means from several texts; if `random` is one of them, also return draws of the others from the prior."""
    means: dict[str, Any] = {}
    for text in texts:
        for name, numbers in ({} if text == "random" else _read_tables(d, text)).items():
            _add("--means", means, name, numbers, MeansError)
    if "random" not in texts:
        return means, {}
    drawn = prior_means(d.learned, np.random.default_rng(random_numbers(seed, 0, "means")))
    return means, {name: numbers for name, numbers in drawn.items() if name not in means}


def _read_tables(d: Diagram, text: str) -> dict[str, Any]:
    """Read means from one text: JSON, a file of it, or name=numbers."""
    if not _is_object(text):
        name = _name_in(text, d.learned)
        if "=" in text and (name in d.learned or not os.path.exists(text)):
            return {name: _numbers(d, name, text[len(name) + 1 :])}
        if not os.path.exists(text):
            tables = ", ".join(f"{name} of shape {table.means_shape}" for name, table in d.learned.items()) or "none"
            raise MeansError(f"--means {text!r} is not a file; write name=0.1,0.2,… for the learned tables: {tables}")
    return _object(text, "--means")


def _name_in(text: str, names: Iterable[str]) -> str:
    """Return the name before the equals sign: the longest one that matches, because names may contain such signs."""
    return max((name for name in names if text.startswith(f"{name}=")), key=len, default=text.partition("=")[0])


def _numbers(d: Diagram, name: str, text: str) -> Any:
    """Read nested lists as JSON, or numbers separated by commas, which fill the rows of a table in order."""
    if text.lstrip().startswith("["):
        with _errors_name(f"--means {name}"):
            return parse_json(text)
    try:
        numbers = np.array([float(number) for number in text.split(",")])
    except ValueError:
        raise MeansError(f"--means: {name!r} must be numbers such as {name}=0.1,0.2; got {brief(text)}") from None
    shape = d.learned[name].means_shape if name in d.learned else numbers.shape
    return numbers.reshape(shape) if numbers.size == math.prod(shape) else numbers  # wrong shapes are rejected later


def read_features(texts: Sequence[str]) -> dict[str, Any]:
    """Read features from texts table=file: CSV files with a header, and labels in the first column."""
    features: dict[str, Any] = {}
    for text in texts:
        table, _, file = text.partition("=")
        if not file:
            raise FormatError(f"--features must be table=file.csv, got {text!r}")
        with _errors_name(file):
            _add("--features", features, table, _frame_of_csv(read_whole(path_of(file), MOST_BYTES)), FormatError)
    return features


def _frame_of_csv(content: bytes) -> Any:
    """Parse CSV into a data frame by label; labels are integers if all of them look so."""
    import pandas

    no_defaults: dict[str, Any] = {"keep_default_na": False, "na_values": [""], "converters": {0: str}}
    try:
        frame = pandas.read_csv(io.BytesIO(content), index_col=0, encoding="utf-8-sig", **no_defaults)
    except ValueError as error:
        raise FormatError(f"not CSV in UTF-8: {error}") from None
    if frame.empty:
        raise FormatError("must have a header, and lines with a label and at least one feature")
    are_integers = frame.index.str.fullmatch("0|[1-9][0-9]{0,17}").all()
    return frame.set_index(frame.index.astype("int64")) if are_integers else frame


def read_context(d: Diagram, texts: Sequence[str]) -> dict[str, Any] | None:
    """Read a context from texts node=value, or from JSON; None if there are none."""
    context: dict[str, Any] = {}
    for text in texts:
        name = _name_in(text, [n.name for n in d.of_kind("context")])
        if not _is_object(text) and "=" not in text:
            raise ContextError(f"--context must be node=value or JSON, got {text!r}")
        pairs = _object(text, "--context") if _is_object(text) else {name: text[len(name) + 1 :]}
        for node, value in pairs.items():
            _add("--context", context, node, _label(d, node, value), ContextError)
    return context or None


def read_contexts(d: Diagram, text: str | None) -> dict[str, Any] | None:
    """Read probabilities of contexts from JSON or a file of it: by node a list, or an object by value."""
    if text is None:
        return None
    return {
        node: {_label(d, node, value): p for value, p in chances.items()} if isinstance(chances, Mapping) else chances
        for node, chances in _object(text, "--contexts").items()
    }


def _label(d: Diagram, node: str, value: Any) -> Any:
    """Return the label of a node that equals a value, or is printed like it; otherwise the value itself."""
    labels: Sequence[Label] = d.nodes[node].values if node in d.nodes else ()
    return value if value in labels else next((label for label in labels if str(label) == str(value)), value)
