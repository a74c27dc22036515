"""Agents of several structures in files: an archive of the files of their members, and a head that says how they stand.

The members are checked as files of agents are, and the head number by number: what is read is an agent or an error.
"""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.agreement import MOST
from idbandits.agent.storage.agent_file import OTHER_FORMATS
from idbandits.agent.storage.metadata import checked_metadata
from idbandits.agent.storage.rng_file import generator_of, state_of_generator
from idbandits.diagram.serialize import parse_json
from idbandits.errors import ODD, FormatError, IdbanditsError, brief, is_integer
from idbandits.files import write_whole
from idbandits.inference.state.sections import MOST_ROUNDS
from idbandits.inference.structures.weights import Standing
from idbandits.kernel.array_types import Floats, Rng

FORMAT, HEAD = "idbandits structures 1", "structures.json"
KEYS = {"format", "names", "rounds", "weights", "wealth", "rng"}
MOST_HEAD = 2**22  # bytes
MOST_LOG = 1e15  # of weights and wealth, either way: sums over all rounds


class Bundle(NamedTuple):
    """What a file holds besides the members: their names, how they stand, random numbers and metadata."""

    names: list[str]
    standing: Standing
    rng: Rng
    metadata: dict[str, Any]


def save_bundle(path: Path, bundle: Bundle, contents: Sequence[Callable[[], bytes]]) -> None:
    """Write a file, whole or not at all; `contents` return those of the members' files."""
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
            with _naming(path, name):
                archive.writestr(zipfile.ZipInfo(f"{i}.agent"), content())
    write_whole(path, buffer.getvalue())


def _listed(logarithms: Floats) -> list[float | None]:
    """Logarithms for JSON, with None for that of zero."""
    return [None if value == -np.inf else value for value in logarithms.tolist()]


def is_bundle(path: Path) -> bool:
    """Return whether a file begins as one of several structures does; whether it is sound is not checked.

    A truncated one may end as the file of a single agent does: its members are such files.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            start = file.read(30 + len(HEAD))
    except OSError:
        return False
    return start.startswith(b"PK\3\4") and start[30:] == HEAD.encode()


def load_bundle(path: Path, load: Callable[[str, bytes], None]) -> Bundle:
    """Read a file; members are read by `load`, which is handed their names and the content of their files."""
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED or info.file_size > size for info in infos):
                raise FormatError("its parts are not stored as they are")
            if not 2 <= len(infos) <= MOST + 1:
                raise FormatError(f"it has {len(infos)} parts, not a head and 1 to {MOST} structures")
            if archive.getinfo(HEAD).file_size > MOST_HEAD:
                raise FormatError("its head is too large")
            bundle = _read(parse_json(archive.read(HEAD).decode()))
            files = [f"{i}.agent" for i in range(len(bundle.names))]
            if sorted(info.filename for info in infos) != sorted([HEAD, *files]):
                raise FormatError(f"its parts are {brief(archive.namelist())}, not {HEAD} and {', '.join(files)}")
            for name, file in zip(bundle.names, files, strict=True):
                with _naming(path, name):
                    load(name, archive.read(file))
            return bundle
    except FormatError as error:
        text = str(error)
        raise FormatError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None
    except OSError:
        raise
    except (*ODD, zipfile.BadZipFile, NotImplementedError) as error:
        raise FormatError(f"{path}: this is not the whole file of an agent ({type(error).__name__}: {error})") from None


@contextmanager
def _naming(path: Path, name: str) -> Iterator[None]:
    """Make errors about a member name the file and the structure."""
    try:
        yield
    except IdbanditsError as error:
        raise type(error)(f"{path}: structure {name!r}: {error}") from None


def _read(head: Any) -> Bundle:
    kind = head.get("format") if isinstance(head, dict) else None
    if kind != FORMAT:
        raise FormatError(f"the format must be {FORMAT!r}, got {brief(kind)}; {OTHER_FORMATS}")
    metadata = checked_metadata(head.pop("metadata", {}))
    if set(head) != KEYS:
        raise FormatError(f"its head has the keys {brief(sorted(head))}, not {sorted(KEYS)}")
    names, rounds = head["names"], head["rounds"]
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
        raise FormatError(f"its names are {brief(names)}, not different texts")
    if not 1 <= len(names) <= MOST:
        raise FormatError(f"it has {len(names)} structures, not 1 to {MOST}")
    if not is_integer(rounds) or not 0 <= rounds <= MOST_ROUNDS:
        raise FormatError(f"its rounds are {brief(rounds)}, not a number from 0 to {MOST_ROUNDS}")
    weights = _logarithms("weights", head["weights"], len(names))
    if not weights.max() > -np.inf:
        raise FormatError("its weights are all zero")
    rows = head["wealth"]
    if not isinstance(rows, list) or len(rows) != len(names):
        raise FormatError(f"its wealth is {brief(rows)}, not one row per structure")
    wealth = np.stack([_logarithms("wealth", row, len(names)) for row in rows])
    standing = Standing(np.array([rounds], np.int64), weights, wealth)
    return Bundle(names, standing, generator_of(head["rng"]), metadata)


def _logarithms(what: str, values: Any, number: int) -> Floats:
    numbers: list[Any] = values if isinstance(values, list) and len(values) == number else [""]
    for value in numbers:
        if value is not None and not (type(value) in (int, float) and abs(value) <= MOST_LOG):
            raise FormatError(
                f"its {what} are {brief(values)}, not {number} numbers from -{MOST_LOG:g} to {MOST_LOG:g}"
            )
    return np.array([-np.inf if value is None else value for value in numbers], dtype=np.float64)
