"""Turns what is typed at the command line into what the library takes: diagrams, means and contexts."""

import csv
import io
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from idbandits.diagram.diagram import Diagram
from idbandits.diagram.features.read_frame import Source, source_of_data
from idbandits.diagram.serialize import MOST_BYTES, parse_json, read_json
from idbandits.diagram.tables import Label, LearnedTable, prior_means
from idbandits.errors import ContextError, DiagramError, FormatError, MeansError, brief
from idbandits.files import path_of, read_whole
from idbandits.kernel.array_types import Floats
from idbandits.simulation.simulate import random_numbers


def read_diagram(file: str) -> Diagram:
    """The diagram in a file, or in the standard input if the name is a dash."""
    if file != "-":
        return Diagram.load(file)
    with _errors_name("standard input"):
        if sys.stdin is None:
            raise FormatError("it is closed")
        binary = getattr(sys.stdin, "buffer", None)  # because JSON is in UTF-8, whatever the language of the system
        return Diagram.from_dict(parse_json(sys.stdin.read()) if binary is None else read_json(binary))


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _object(text: str, option: str) -> dict[str, Any]:
    """A JSON object, or a file of one."""
    with _errors_name(option if _is_object(text) else text):
        data = parse_json(text) if _is_object(text) else read_json(path_of(text))
        if not isinstance(data, dict):
            raise FormatError(f"a JSON object with one key per name is needed, not {brief(data)}")
    return data


@contextmanager
def _errors_name(source: str) -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from None


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
    if not _is_object(text):
        name = _name_in(text, d.learned)
        if "=" in text and (name in d.learned or not os.path.exists(text)):
            return {name: _numbers(name, text[len(name) + 1 :], d.learned.get(name))}
        if not os.path.exists(text):
            tables = ", ".join(f"{name} of shape {table.means_shape}" for name, table in d.learned.items()) or "none"
            raise MeansError(f"--means {text!r} is not a file; write name=0.1,0.2,… for the learned tables: {tables}")
    return _object(text, "--means")


def _name_in(text: str, names: Iterable[str]) -> str:
    """What stands before the equals sign: the longest of these names that does, for they may contain such signs."""
    return max((name for name in names if text.startswith(f"{name}=")), key=len, default=text.partition("=")[0])


def _numbers(name: str, text: str, table: LearnedTable | None) -> Any:
    """Nested lists as JSON, or numbers with commas between them, which fill the table's rows one after the other."""
    if text.lstrip().startswith("["):
        with _errors_name(f"--means {name}"):
            return parse_json(text)
    try:
        numbers = np.array([float(number) for number in text.split(",")])
    except ValueError:
        raise MeansError(f"--means: those of {name!r} are not numbers: {brief(text)}; write {name}=0.1,0.2,…") from None
    if table is not None and numbers.size == math.prod(table.means_shape):
        return numbers.reshape(table.means_shape)
    return numbers  # of a wrong shape: those who use them say so


def read_features(texts: Sequence[str]) -> dict[str, Source]:
    """The features of tables, each given as table=file: a CSV file with a header, and labels in its first column."""
    features: dict[str, Source] = {}
    for text in texts:
        table, _, file = text.partition("=")
        if not file:
            raise FormatError(f"--features {text!r}: write table=file.csv")
        if table in features:
            raise FormatError(f"--features: those of {table!r} are given twice")
        with _errors_name(file):
            features[table] = _lines_of_csv(f"learned table {table!r}", read_whole(path_of(file), MOST_BYTES))
    return features


def _lines_of_csv(owner: str, content: bytes) -> Source:
    """Lines of features by label; columns of numbers are such, and empty cells are missing."""
    try:
        lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"not CSV in UTF-8: {error}") from None
    header, rows = (lines or [[]])[0], [line for line in lines[1:] if line]
    if len(header) < 2 or not rows:
        raise FormatError("a header, and lines with a label and at least one feature are needed")
    if wrong := next((line for line in rows if len(line) != len(header)), None):
        raise FormatError(f"the line of {brief(wrong[0])} has {len(wrong)} cells, the header has {len(header)}")
    labels, *columns = (list(column) for column in zip(*rows, strict=True))
    whole = all(re.fullmatch("0|[1-9][0-9]{0,17}", label) for label in labels)  # ASCII digits: then they are numbers
    data = [{"name": name, "values": _cells(cells)} for name, cells in zip(header[1:], columns, strict=True)]
    try:
        return source_of_data(owner, {"rows": {"labels": list(map(int, labels)) if whole else labels, "columns": data}})
    except DiagramError as error:
        raise FormatError(str(error)) from None


def _cells(cells: Sequence[str]) -> list[Any]:
    """The cells of a column: numbers, if all of them are, or texts, and None where a cell is empty."""
    try:
        return [float(cell) if cell.strip() else None for cell in cells]
    except ValueError:
        return [cell if cell.strip() else None for cell in cells]


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
    return {
        node: {_label(d, node, value): p for value, p in chances.items()} if isinstance(chances, Mapping) else chances
        for node, chances in _object(text, "--contexts").items()
    }


def _label(d: Diagram, node: str, value: Any) -> Any:
    """The label of a node that equals this value, or else is written like it; the value itself if there is none."""
    labels: Sequence[Label] = d.nodes[node].values if node in d.nodes else ()
    return value if value in labels else next((label for label in labels if str(label) == str(value)), value)
