"""Agents in files: a header as JSON, and the two arrays of the state."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idbandits.diagram.declare import Diagram
from idbandits.errors import FormatError
from idbandits.files import write_whole
from idbandits.inference import BY_NAME, Inference, named
from idbandits.kernel.states import BEFORE, CAPACITY, EACH, HEADER, PER_ROUND, USED, WIDTH, State
from idbandits.kernel.types import Floats, Ints, Rng

FORMAT = "idbandits agent 1"


class Saved(NamedTuple):
    """What a file holds of an agent."""

    diagram: Diagram
    inference: Inference
    rng: Rng
    state: State


def save_agent(path: Path, saved: Saved) -> None:
    """Write an agent to a file, whole or not at all."""
    kind = type(saved.inference)
    name = next((name for name, built_in in BY_NAME.items() if kind is built_in), None)
    header = {
        "format": FORMAT, "diagram": saved.diagram.to_dict(), "inference": name, "class": kind.__name__,
        "settings": saved.inference.settings, "rng": saved.rng.bit_generator.state,
    }  # fmt: skip
    text = json.dumps(header, default=lambda value: value.tolist())
    buffer = io.BytesIO()
    np.savez_compressed(buffer, head=np.array(text), ints=saved.state.ints, floats=saved.state.floats)
    write_whole(path, buffer.getvalue())


def load_agent(path: Path, diagram: Diagram | None, inference: Inference | None) -> Saved:
    """Read an agent; one of another diagram or inference than these is refused, where they are given."""
    header, ints, floats = _read(path)
    try:
        d = Diagram.from_dict(header["diagram"])
        built_in = type(named(header["inference"]))(**header["settings"]) if header["inference"] is not None else None
        rng = np.random.Generator(getattr(np.random, header["rng"]["bit_generator"])())
        rng.bit_generator.state = header["rng"]
    except Exception as broken:
        what = f"{type(broken).__name__}: {broken}"
        raise FormatError(f"{path}: its description of the agent is broken ({what})") from None
    if diagram is not None and diagram.to_dict() != d.to_dict():
        raise FormatError(f"{path}: the agent in it learned in another diagram, {d.name!r}, not in {diagram.name!r}")
    own = built_in if inference is None else named(inference)
    if own is None:
        raise FormatError(f"{path}: its inference {header.get('class')!r} is not built in: pass it as inference=…")
    if type(own).__name__ != header.get("class") or own.settings != header.get("settings"):
        raise FormatError(
            f"{path}: the agent in it learned by {header.get('class')} with settings {header.get('settings')}, "
            f"not by {type(own).__name__} with {own.settings}"
        )
    return Saved(d, own, rng, State(ints, floats))


def _read(path: Path) -> tuple[dict[str, Any], Ints, Floats]:
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)), np.load(io.BytesIO(content), allow_pickle=False) as file:
            header = json.loads(str(file["head"]))
            ints, floats = file["ints"], file["floats"]
    except Exception as broken:  # NumPy and zipfile raise all sorts of things for damaged files
        what = f"{type(broken).__name__}: {broken}"
        raise FormatError(f"{path}: this is not the whole file of an agent ({what})") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        kind = header.get("format") if isinstance(header, dict) else None
        raise FormatError(f"{path}: the format is {kind!r}; this version reads {FORMAT!r}")
    if ints.dtype != np.int64 or floats.dtype != np.float64 or ints.ndim != 1 or floats.ndim != 1:
        raise FormatError(f"{path}: the arrays in it are not those of an agent")
    return header, np.ascontiguousarray(ints), np.ascontiguousarray(floats)


def fits(state: State, fresh: State) -> bool:
    """Whether a state has the layout of a fresh one, with room for any number of groups."""
    ints, floats = state
    layout = [PER_ROUND, WIDTH, EACH, BEFORE]
    if len(ints) < HEADER or (ints[layout] != fresh.ints[layout]).any():
        return False
    capacity, used, width, each, before = ints[[CAPACITY, USED, WIDTH, EACH, BEFORE]].tolist()
    sizes = HEADER + capacity * (3 + width), before + capacity * each
    if capacity == 0:
        sizes = len(fresh.ints), len(fresh.floats)
    return 0 <= used <= capacity and (len(ints), len(floats)) == sizes
