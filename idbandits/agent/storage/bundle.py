"""Agents of several structures in files: an archive of the files of their members, and a head with their weights."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.encoding.agreement import MOST
from idbandits.agent.storage.archive import naming, opened
from idbandits.agent.storage.head import lists, numbers, objects, read_head
from idbandits.agent.storage.rng_file import RNG, generator_of, state_of_generator
from idbandits.errors import FormatError
from idbandits.files import write_whole
from idbandits.inference.state.sections import MOST_ROUNDS
from idbandits.inference.structures.weights import Standing
from idbandits.kernel.array_types import Floats, Rng

FORMAT, HEAD = "idbandits structures 1", "structures.json"
MOST_LOG = 1e15  # of weights and wealth, either way: sums over all rounds
LOGARITHMS = lists(numbers(-MOST_LOG, MOST_LOG) | {"type": ["number", "null"]}, 1, MOST)
SCHEMA = objects(
    {
        "format": {"const": FORMAT}, "names": lists({"type": "string"}, 1, MOST) | {"uniqueItems": True},
        "rounds": numbers(0, MOST_ROUNDS, "integer"), "weights": LOGARITHMS, "wealth": lists(LOGARITHMS, 1, MOST),
        "rng": RNG,
    },
    {"metadata": {"type": "object"}},
)  # fmt: skip


class Bundle(NamedTuple):
    """Content of a file besides the members: their names, how they stand, random numbers and metadata."""

    names: list[str]
    standing: Standing
    rng: Rng
    metadata: dict[str, Any]


def save_bundle(path: Path, bundle: Bundle, contents: Sequence[Callable[[], bytes]]) -> None:
    """Write a file atomically; `contents` return those of the members' files."""
    standing = bundle.standing
    head = {
        "format": FORMAT, "names": bundle.names, "rounds": int(standing.rounds[0]),
        "weights": _listed(standing.weights), "wealth": [_listed(row) for row in standing.wealth],
        "rng": state_of_generator(bundle.rng),
    }  # fmt: skip
    if bundle.metadata:
        head["metadata"] = bundle.metadata
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEAD), json.dumps(head, allow_nan=False))
        for i, (name, content) in enumerate(zip(bundle.names, contents, strict=True)):
            try:
                archive.writestr(zipfile.ZipInfo(f"{i}.agent"), content())
            except FormatError as error:
                raise FormatError(f"{path}: structure {name!r}: {error}") from None
    write_whole(path, buffer.getvalue())


def _listed(logarithms: Floats) -> list[float | None]:
    """Return logarithms for JSON, with None for that of zero."""
    return [None if value == -np.inf else value for value in logarithms.tolist()]


def is_bundle(path: Path) -> bool:
    """Return whether a regular file begins as one of several structures does; whether it is sound is not checked.

    A truncated one may end as the file of a single agent does: its members are such files.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(30 + len(HEAD))
    return start.startswith(b"PK\3\4") and start[30:] == HEAD.encode()


def load_bundle(path: Path, load: Callable[[str, bytes], None]) -> Bundle:
    """Read a file; members are read by `load`, which is handed their names and the content of their files."""
    with opened(path) as archive:
        bundle = _read(archive.content(HEAD).decode())
        archive.check_names([HEAD, *(f"{i}.agent" for i in range(len(bundle.names)))])
        for i, name in enumerate(bundle.names):
            content = archive.content(f"{i}.agent")
            with naming(f"structure {name!r}"):
                load(name, content)
        return bundle


def _read(text: str) -> Bundle:
    head = read_head(text, FORMAT, SCHEMA)
    size = len(head["names"])
    if len(head["weights"]) != size or {len(row) for row in [head["wealth"], *head["wealth"]]} != {size}:
        raise FormatError(f"its weights and its wealth must be those of {size} structures")
    logarithms = (np.array(head[key], np.float64) for key in ("weights", "wealth"))
    weights, wealth = (np.where(np.isnan(own), -np.inf, own) for own in logarithms)
    standing = Standing(np.array([head["rounds"]], np.int64), weights, wealth)
    if not standing.weights.max() > -np.inf:
        raise FormatError("its weights must not all be zero")
    return Bundle(head["names"], standing, generator_of(head["rng"]), head["metadata"])
