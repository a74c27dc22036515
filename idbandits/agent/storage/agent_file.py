"""Agents in files: a head as JSON, and the columns of the state.

A file holds nothing that can be derived: no hash table, no room, no sizes. Its numbers have ranges (`Layout`), its
settings are those that the constructor takes, and its random numbers are of a known generator. So a file from a
stranger is an agent or an error.
"""

import contextlib
import json
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from idbandits.agent.fit_report.sample import Sample
from idbandits.agent.learner import NO_PAST, Learner, Past, Settings
from idbandits.agent.learning.ledger import Columns as LedgerColumns
from idbandits.agent.learning.ledger import Ledger
from idbandits.agent.storage.archive import HEAD, MOST_HEAD, Archive, opened, packed
from idbandits.agent.storage.earlier_diagrams import SCHEMA as PAST
from idbandits.agent.storage.earlier_diagrams import past_from_data, past_to_data
from idbandits.agent.storage.head import objects, read_head
from idbandits.agent.storage.rng_file import RNG, generator_of, state_of_generator
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.diff import differences
from idbandits.errors import ODD, DiagramError, FormatError, IdbanditsError, brief
from idbandits.files import write_whole
from idbandits.inference import BY_NAME, Evidence, Forget, Inference, named
from idbandits.inference.regression.logistic_setup import check_beliefs, request_size
from idbandits.inference.regression.prior import check_fits
from idbandits.inference.state.state import State
from idbandits.inference.state.state_file import Columns, columns_of, shapes_of, state_of
from idbandits.inference.transfer.row_index import Entries, absent_tables
from idbandits.kernel.array_types import Rng

FORMAT = "idbandits agent 7"
OBJECT, TEXT, NOTHING = {"type": "object"}, {"type": "string"}, {"type": "null"}
SCHEMA = objects(
    {
        "format": {"const": FORMAT}, "diagram": OBJECT, "inference": {"type": ["string", "null"]}, "class": TEXT,
        "settings": OBJECT, "forget": {"type": ["object", "null"]}, "past": {"anyOf": [NOTHING, PAST]}, "rng": RNG,
    },
    {"effort": {"type": "number", "minimum": 0}, "metadata": OBJECT},
)  # fmt: skip
INTEGERS = {"ints", "keys", "sizes", "sample"} | {
    f"ledger_{n}" for n in ("lengths", "numbers", "ticks", "sizes", "entries")
}
TYPES = {"rounds": np.int32, "ledger_keys": np.uint8, "ledger_eras": np.uint8}  # of all other parts: float64
ANY, ROWS = (None,), (None, None)  # shapes
LEDGER: dict[str, tuple[None, ...]] = {  # where contexts have features
    "ledger_keys": ROWS, "ledger_eras": ROWS, "ledger_lengths": ANY, "ledger_numbers": ANY, "ledger_requests": ROWS,
    "ledger_times": ANY, "ledger_ticks": ANY, "ledger_sizes": ANY, "ledger_entries": ANY, "ledger_values": ROWS,
}  # fmt: skip
MOST_CHANGES = 3  # of a diagram that messages list


class Saved(NamedTuple):
    """Content of a file: an agent of one structure."""

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
    """Write an agent to a file atomically; raise if it could not be read again."""
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
    numbers, rounds = saved.sample.to_arrays()
    ledger: dict[str, Any] = {} if saved.ledger is None else dict(zip(LEDGER, saved.ledger.to_columns(), strict=True))
    return packed({HEAD: text, **columns._asdict(), "sample": numbers, "rounds": rounds, **ledger})


def _plain(inference: Inference) -> Any:
    """Return the settings of an inference as plain data, as they are read from a file."""
    try:
        return json.loads(json.dumps(inference.settings, allow_nan=False, default=lambda value: value.tolist()))
    except ODD as error:
        needed = f"the settings of {type(inference).__name__} must be plain numbers, texts and lists to be saved"
        raise IdbanditsError(f"{needed}, got {brief(inference.settings)}: {error}") from None


# -- reading -------------------------------------------------------------------------------------------------------


def load_agent(path: Path, diagram: Diagram | None, inference: Inference | None) -> Saved:
    """Read an agent; raise if it is of another diagram or inference than these, where they are given."""
    with opened(path) as archive:
        return _read(archive, diagram, inference)


def read_agent(file: IO[bytes], size: int, diagram: Diagram | None, inference: Inference | None) -> Saved:
    """Read an agent from a stream of this many bytes; errors may be of any type."""
    return _read(Archive(file, size), diagram, inference)


def _read(archive: Archive, diagram: Diagram | None, inference: Inference | None) -> Saved:
    head = read_head(archive.text(), FORMAT, SCHEMA)
    name, settings = head["inference"], head["settings"]
    d = Diagram.from_dict(head["diagram"])
    archive.check_room("floats", sum(table.size for table in d.learned.values()))
    built_in = type(named(name))(**settings) if name is not None else None
    rng = generator_of(head["rng"])
    forget = None if head["forget"] is None else Forget(**head["forget"])
    model = compile(d)
    past = NO_PAST if head["past"] is None else past_from_data(head["past"], model)
    has_ledger = request_size(Entries(model, absent=absent_tables(model, past.earlier))) > 0
    archive.check_names([HEAD, *Columns._fields, "sample", "rounds", *(LEDGER if has_ledger else [])])
    _check_diagram(diagram, d)
    own = built_in if inference is None else named(inference)
    if own is None:
        raise FormatError(f"its inference {brief(head['class'])} is not built in: pass it as inference=…")
    if type(own).__name__ != head["class"] or _plain(own) != settings:
        raise FormatError(
            f"the agent in it learned by {head['class']} with settings {settings}, "
            f"not by {type(own).__name__} with {own.settings}"
        )
    sample = Sample.from_arrays(model, _array(archive, "sample", (3,)), _array(archive, "rounds", ROWS))
    agent_settings = Settings(own, float(head.get("effort", 1.0)), forget)
    learner = Learner(d, model, agent_settings, past)
    ledger = _ledger(archive, learner) if has_ledger else None
    return Saved(d, agent_settings, past, _state(archive, learner), rng, sample, head["metadata"], ledger)


def _array(archive: Archive, name: str, shape: tuple[int | None, ...]) -> Any:
    return archive.array(name, shape, np.int64 if name in INTEGERS else TYPES.get(name, np.float64))


def _ledger(archive: Archive, learner: Learner) -> Ledger:
    """Read the rounds that can be taken back."""
    columns = LedgerColumns(*(_array(archive, name, shape) for name, shape in LEDGER.items()))
    return Ledger.from_columns(columns, learner.evidence.request_size, learner.evidence.learned)


def _check_diagram(wanted: Any, learned: Diagram) -> None:
    """Raise unless an agent learned in this diagram, if one is given; it may have the encodings of earlier ones."""
    if not (wanted is None or isinstance(wanted, Diagram)):
        raise FormatError(f"diagram must be a Diagram, the one that the agent learned in, got {brief(wanted)}")
    data = learned.to_dict()
    if wanted is None or wanted.to_dict() == data:
        return
    with contextlib.suppress(DiagramError):  # raised where encodings are declared otherwise
        if wanted.with_encodings_of(learned).to_dict() == data:
            return
    changes = differences(learned, wanted) or ["it is declared in another way"]
    more = f"; and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
    shown = "; ".join(changes[:MOST_CHANGES]) + more
    raise FormatError(f"the agent in it learned in another diagram, {learned.name!r}; in `diagram`, {shown}")


def _state(archive: Archive, learner: Learner) -> State:
    """Read the state of a learner."""
    inference, evidence = learner.inference, learner.evidence
    layout = inference.layout(evidence)
    archive.check_room("floats", shapes_of(layout).floats[0])
    fresh = learner.beginning(np.random.default_rng(0))  # what it draws is not kept
    sizes = len(_array(archive, "weights", (None,))), len(_array(archive, "keys", (None,)))
    shapes = shapes_of(layout, *sizes, len(fresh.fits))._asdict()
    state = state_of(Columns(*(_array(archive, name, shape) for name, shape in shapes.items())), layout, fresh)
    check_fits(evidence, state)
    check_beliefs(evidence, state)
    return inference.restored(evidence, state)
