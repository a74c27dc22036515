"""Agents in files: a head as JSON, and the columns of the state; what a file says is checked before it is used.

A file holds nothing that can be derived: no hash table, no room, no sizes. Its numbers have ranges (`Layout`), its
settings are those that the constructor takes, and its random numbers are of a known generator. So a file from a
stranger is an agent or an error, and takes no more memory than its size warrants.
"""

import contextlib
import io
import json
import math
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from idbandits.agent.earlier_diagrams import past_from_data, past_to_data
from idbandits.agent.fit_report.sample import Sample
from idbandits.agent.learner import NO_PAST, Learner, Past, Settings
from idbandits.agent.ledger import Columns as LedgerColumns
from idbandits.agent.ledger import Ledger
from idbandits.agent.storage.metadata import checked_metadata
from idbandits.agent.storage.rng_file import generator_of, state_of_generator
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.diff import differences
from idbandits.diagram.serialize import parse_json
from idbandits.errors import ODD, DiagramError, FormatError, IdbanditsError, brief, check_number
from idbandits.files import write_whole
from idbandits.inference import BY_NAME, Evidence, Forget, Inference, named
from idbandits.inference.regression.logistic_setup import check_beliefs, request_size
from idbandits.inference.regression.prior import check_fits
from idbandits.inference.state.state import State
from idbandits.inference.state.state_file import Columns, columns_of, shapes_of, state_of
from idbandits.inference.transfer.row_index import Entries, absent_tables
from idbandits.kernel.array_types import Rng

FORMAT = "idbandits agent 6"
HEAD = {"format", "diagram", "inference", "class", "settings", "forget", "past", "rng"}
OTHER_FORMATS = (
    "files of other formats are not converted: learn again from a log (update_many), or load it with the version of "
    "idbandits that saved it"
)
BROKEN = "this is not the whole file of an agent"
TYPES = {
    "ints": np.int64,
    "keys": np.int64,
    "sizes": np.int64,
    "weights": np.float64,
    "phases": np.float64,
    "floats": np.float64,
    "sites": np.float64,
    "fits": np.float64,
    "sample": np.int64,
    "rounds": np.int32,
    "ledger_keys": np.uint8,
    "ledger_eras": np.uint8,
    "ledger_lengths": np.int64,
    "ledger_numbers": np.int64,
    "ledger_requests": np.float64,
    "ledger_times": np.float64,
    "ledger_ticks": np.int64,
    "ledger_sizes": np.int64,
    "ledger_entries": np.int64,
    "ledger_values": np.float64,
}
LEDGER = [f"ledger_{name}" for name in LedgerColumns._fields]  # where contexts have features
MOST_CHANGES = 3  # of a diagram that are told
MOST_HEAD = 2**28  # bytes of the head
SMALL_HEAD, SMALL = 2**24, 2**26  # bytes that a few compressed ones may stand for; what is larger is written as it is
MOST_RATIO = 100  # or this many for each compressed one, as other programs write them


class Saved(NamedTuple):
    """What a file holds of an agent."""

    diagram: Diagram
    settings: Settings
    past: Past
    state: State
    rng: Rng
    sample: Sample
    metadata: dict[str, Any]
    ledger: Ledger | None = None


# -- writing -------------------------------------------------------------------------------------------------------


def save_agent(path: Path, saved: Saved, evidence: Evidence) -> None:
    """Write an agent to a file, whole or not at all; one that could not be read again is rejected."""
    try:
        content = content_of(saved, evidence)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    write_whole(path, content)


def content_of(saved: Saved, evidence: Evidence) -> bytes:
    """Return the content of the file of an agent."""
    inference, effort, forget = saved.settings
    kind = type(inference)
    name = next((name for name, built_in in BY_NAME.items() if kind is built_in), None)
    head = {
        "format": FORMAT, "diagram": saved.diagram.to_dict(), "inference": name, "class": kind.__name__,
        "settings": _plain(inference), "forget": None if forget is None else forget.settings,
        "past": None if saved.past == NO_PAST else past_to_data(saved.past), "rng": state_of_generator(saved.rng),
    }  # fmt: skip
    if effort != 1.0:
        head["effort"] = effort
    if saved.metadata:
        head["metadata"] = saved.metadata
    text = np.array(json.dumps(head, allow_nan=False))
    if text.nbytes > MOST_HEAD:
        raise FormatError(f"the diagram {saved.diagram.name!r} is too large for the file of an agent")
    try:
        columns = columns_of(saved.state, inference.layout(evidence))
    except FormatError as error:
        raise FormatError(f"the agent was not saved, as it could not be loaded again: {error}") from None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        numbers, rounds = saved.sample.to_arrays()
        ledger = {} if saved.ledger is None else dict(zip(LEDGER, saved.ledger.to_columns(), strict=True))
        parts = {"head": text, **columns._asdict(), "sample": numbers, "rounds": rounds, **ledger}
        for member, array in parts.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, (1, 0), allow_pickle=False)
            small = array.nbytes <= (SMALL_HEAD if member == "head" else SMALL) // 2
            how = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(f"{member}.npy"), content.getvalue(), how)
    return buffer.getvalue()


def _plain(inference: Inference) -> Any:
    """The settings of an inference as plain data, the same as when read from a file."""
    try:
        return json.loads(json.dumps(inference.settings, allow_nan=False, default=lambda value: value.tolist()))
    except ODD as error:
        kind = type(inference).__name__
        raise IdbanditsError(
            f"the settings of {kind} are not plain numbers, texts and lists, as files need them ({error})"
        ) from None


# -- reading -------------------------------------------------------------------------------------------------------


def load_agent(path: Path, diagram: Diagram | None, inference: Inference | None) -> Saved:
    """Read an agent; one of another diagram or inference than these is rejected, where they are given."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{path}: this is not a regular file")
    try:
        with path.open("rb") as file:
            return read_agent(file, status.st_size, diagram, inference)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def read_agent(file: IO[bytes], size: int, diagram: Diagram | None, inference: Inference | None) -> Saved:
    """Read an agent from a stream of this many bytes."""
    try:
        return _read(_Members(file, size), diagram, inference)
    except FormatError:
        raise
    except IdbanditsError as error:
        raise FormatError(str(error)) from None
    except (MemoryError, RecursionError) as error:
        raise FormatError(f"it asks for too much ({type(error).__name__})") from None


@contextlib.contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Errors of all sorts, as NumPy and zipfile raise them for damaged files, become one."""
    try:
        yield
    except FormatError:
        raise
    except Exception as broken:
        raise FormatError(f"{what} ({type(broken).__name__}: {broken})") from None


class _Members:
    """The arrays in a file, whose sizes are checked before they are read."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        with _refusing(BROKEN):
            self._archive, self._size = zipfile.ZipFile(file), size
            infos = self._archive.infolist()
        self._infos = {info.filename.removesuffix(".npy"): info for info in infos}
        if len(self._infos) < len(infos):
            raise FormatError("it has two parts with the same name")

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse a file with other parts than these."""
        if set(self._infos) != set(names):
            raise FormatError(f"its parts are {brief(sorted(self._infos))}, not {sorted(names)}")

    def check_room(self, numbers: int) -> None:
        """Refuse a file with fewer floats than this."""
        if numbers > self._infos["floats"].file_size // 8:
            raise FormatError("what was learned does not fit the diagram in it: floats are missing")

    def text(self) -> str:
        """The head."""
        with _refusing(BROKEN):
            content, shape, dtype = self._content("head", SMALL_HEAD, MOST_HEAD)
            if shape or dtype.kind != "U" or dtype.byteorder == ">":
                raise FormatError("its head is not a text")
            return content.decode("utf-32-le").rstrip("\0")

    def array(self, name: str, wanted: tuple[int | None, ...]) -> npt.NDArray[Any]:
        """An array of this shape, in which None is any number."""
        with _refusing(BROKEN):
            content, shape, dtype = self._content(name, SMALL)
        if len(shape) != len(wanted) or any(n not in (None, size) for size, n in zip(shape, wanted, strict=True)):
            expected = str(wanted).replace("None", "any number")
            raise FormatError(f"what was learned does not fit: {name} has the shape {shape}, not {expected}")
        if dtype != TYPES[name]:
            raise FormatError(f"{name} consists of {dtype}, not of {np.dtype(TYPES[name])}")
        return np.frombuffer(content, dtype=dtype).reshape(shape)

    def _content(self, name: str, small: int, most: int | None = None) -> tuple[bytes, tuple[int, ...], np.dtype[Any]]:
        """The bytes of an array, its shape and its type."""
        info, limit = self._infos[name], self._size
        if info.compress_type == zipfile.ZIP_DEFLATED:
            limit = max(small, MOST_RATIO * min(info.compress_size, self._size))
        elif info.compress_type != zipfile.ZIP_STORED:
            raise FormatError(f"{name} is compressed in an unknown way")
        if info.file_size > (limit if most is None else min(limit, most)):
            raise FormatError(f"{name} has {info.file_size} bytes, more than a file of this size may hold")
        with self._archive.open(info) as member:
            if np.lib.format.read_magic(member) != (1, 0):
                raise FormatError(f"{name} is an array of an unknown format")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(member)
            size = info.file_size - member.tell()
            content = member.read(size + 1)
        if dtype.hasobject or by_columns or not len(content) == size == dtype.itemsize * math.prod(shape):
            raise FormatError(f"{name} is not an array of the size that it should have")
        return content, shape, dtype


def _read(members: _Members, diagram: Diagram | None, inference: Inference | None) -> Saved:
    head = parse_json(members.text())
    kind = head.get("format") if isinstance(head, dict) else None
    if kind != FORMAT:
        raise FormatError(f"the format must be {FORMAT!r}, got {brief(kind)}; {OTHER_FORMATS}")
    effort = check_number("effort", head.pop("effort", 1.0), 0)
    metadata = checked_metadata(head.pop("metadata", {}))
    if set(head) != HEAD:
        raise FormatError(f"its head has the keys {brief(sorted(head))}, not {sorted(HEAD)}")
    name, settings = head["inference"], head["settings"]
    with _refusing("its description of the agent is broken"):
        d = Diagram.from_dict(head["diagram"])
        members.check_room(sum(table.size for table in d.learned.values()))
        built_in = type(named(str(name)))(**settings) if name is not None else None
        rng = generator_of(head["rng"])
        forget = None if head["forget"] is None else Forget(**head["forget"])
        model = compile(d)
        past = NO_PAST if head["past"] is None else past_from_data(head["past"], model)
    own_entries = Entries(model, absent=absent_tables(model, past.earlier))
    members.check_names(["head", *Columns._fields, "sample", "rounds", *(LEDGER if request_size(own_entries) else [])])
    if not (diagram is None or isinstance(diagram, Diagram)):
        raise FormatError(f"diagram is a Diagram, the one that the agent must have learned in, not {brief(diagram)}")
    if diagram is not None and not _is_same(diagram, d):
        changes = differences(d, diagram) or ["it is declared in another way"]
        more = f"; and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
        shown = "; ".join(changes[:MOST_CHANGES]) + more
        raise FormatError(f"the agent in it learned in another diagram, {d.name!r}; in the one given, {shown}")
    own = built_in if inference is None else named(inference)
    if own is None:
        raise FormatError(f"its inference {brief(head['class'])} is not built in: pass it as inference=…")
    if type(own).__name__ != head["class"] or _plain(own) != settings:
        raise FormatError(
            f"the agent in it learned by {head['class']} with settings {settings}, "
            f"not by {type(own).__name__} with {own.settings}"
        )
    sample = Sample.from_arrays(model, members.array("sample", (3,)), members.array("rounds", (None, None)))
    agent_settings = Settings(own, effort, forget)
    learner = Learner(d, model, agent_settings, past)
    return Saved(d, agent_settings, past, _state(members, learner), rng, sample, metadata, _ledger(members, learner))


def _ledger(members: _Members, learner: Learner) -> Ledger | None:
    """Read the rounds that can be taken back, where contexts have features."""
    width = learner.evidence.request_size
    if not width:
        return None
    rows, column = (None, None), (None,)
    shapes = [rows, rows, column, column, rows, column, column, column, column, rows]
    columns = LedgerColumns(*(members.array(name, shape) for name, shape in zip(LEDGER, shapes, strict=True)))
    return Ledger.from_columns(columns, width, learner.evidence.learned)


def _is_same(diagram: Diagram, learned: Diagram) -> bool:
    """Whether a diagram is the one that an agent learned in, whose encodings of features may be of earlier ones."""
    data = learned.to_dict()
    try:
        return diagram.to_dict() == data or diagram.with_encodings_of(learned).to_dict() == data
    except DiagramError:  # encodings are declared otherwise
        return False


def _state(members: _Members, learner: Learner) -> State:
    """The state whose columns are in a file."""
    inference, evidence = learner.inference, learner.evidence
    layout = inference.layout(evidence)
    members.check_room(shapes_of(layout).floats[0])
    fresh = learner.beginning(np.random.default_rng(0))  # what it draws is not kept
    sizes = len(members.array("weights", (None,))), len(members.array("keys", (None,)))
    shapes = shapes_of(layout, *sizes, len(fresh.fits))._asdict()
    state = state_of(Columns(*(members.array(name, shape) for name, shape in shapes.items())), layout, fresh)
    check_fits(evidence, state)
    check_beliefs(evidence, state)
    return inference.restored(evidence, state)
