"""Conversion of command-line arguments to logs, options of reading them, agents and policies."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idbandits import models
from idbandits.agent.thompson import Thompson
from idbandits.cli.arguments import read_diagram
from idbandits.cli.command import pick
from idbandits.cli.simulate_command import read_learners
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.serialize import parse_json, read_json
from idbandits.errors import IdbanditsError, brief
from idbandits.files import path_of
from idbandits.inference import BY_NAME, Inference
from idbandits.logs.read.formats import UBI, Long, PyClick
from idbandits.logs.read.open_log import FROM_LOG
from idbandits.logs.read.read_report import LogError

if TYPE_CHECKING:
    import pandas

ARCHIVE = b"PK"  # first bytes of files of agents
DATABASES = ("postgresql://", "postgres://", "sqlite://", "duckdb://")
OF_FORMAT = {
    None: {"column"}, "long": {"position", "first", "item", "observed", "context"},
    "ubi": {"observed", "context", "queries", "pairs"}, "pyclick": {"observed", "context", "pairs"},
}  # fmt: skip


@contextmanager
def opened(arguments: Namespace, *, counts: bool = False) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the log and the options of reading it; with `counts`, a log of Spark is a data frame of Spark."""
    options, paths = reading_options(arguments), arguments.log
    paths = [paths] if isinstance(paths, str) else paths
    engine: str = arguments.engine
    if engine.startswith("spark://"):
        from idbandits.cli.spark_log import copied, spark_frame

        shows = options["progress"] is not False
        with tempfile.TemporaryDirectory() as folder, spark_frame(engine, paths, progress=shows) as frame:
            yield (frame if counts else copied(frame, folder)), options
    elif engine.startswith(DATABASES):
        if len(paths) > 1 or options["query"] is not None:
            raise LogError(f"LOG must be one table or query if --engine is a database, got {brief(paths)} and --query")
        yield engine, {**options, "query": _selected(paths[0])}
    elif engine == "duckdb":
        log = paths[0] if len(paths) == 1 else paths
        yield ({"queries": arguments.queries, "events": log} if arguments.queries else log), options
    else:
        urls = "duckdb, spark://HOST:PORT, postgresql://…, sqlite:///… or duckdb:///…"
        raise LogError(f"--engine must be {urls}, got {brief(engine)}")


def _selected(text: str) -> str:
    """Return a query as it is, or one for all rows of a table."""
    return text if re.match(r"\s*(select|with|values|table|from|\()", text, re.IGNORECASE) else f"SELECT * FROM {text}"


def reading_options(arguments: Namespace) -> dict[str, Any]:
    """Return the options that say how a log is read."""
    kind = arguments.format
    unused = {name for names in OF_FORMAT.values() for name in names} - OF_FORMAT[kind]
    if wrong := [name for name in sorted(unused) if getattr(arguments, name) not in (None, [])]:
        kinds = " or ".join(
            "without --format" if k is None else k for k, names in OF_FORMAT.items() if wrong[0] in names
        )
        raise LogError(f"--format must be {kinds} for --{wrong[0]}, got {kind}")
    session = arguments.cluster
    if session is None and kind != "long":
        session = arguments.session
    return {
        "format": None if kind is None else FORMATS[kind](arguments),
        "columns": pairs("column", arguments.column) or None, "query": arguments.query,
        "items": FROM_LOG if arguments.items_from_log else None,
        "weight": arguments.weight, "at": arguments.at, "session": session, "preview": arguments.preview,
        "progress": False if arguments.no_progress else None, "invalid": arguments.invalid,
    }  # fmt: skip


def _long(arguments: Namespace) -> Long:
    for name in ("session", "position", "item", "observed"):
        if not getattr(arguments, name):
            raise LogError(f"--{name} must be given with --format long")
    items: list[str] = arguments.item
    item: Any = _columns(items[0])
    if len(items) > 1 or "=" in items[0]:
        item = {nodes: _columns(own) for nodes, own in pairs("item", items).items()}
    observed = {nodes: _columns(own) for nodes, own in pairs("observed", arguments.observed).items()}
    context = pairs("context", arguments.context) or None
    return Long(_columns(arguments.session), arguments.position, item, observed, context, arguments.first)


def _ubi(arguments: Namespace) -> UBI:
    own: dict[str, Any] = {"context": pairs("context", arguments.context) or None, "pairs": bool(arguments.pairs)}
    observed = pairs("observed", arguments.observed)
    return UBI(**own, observed=observed) if observed else UBI(**own)


def _pyclick(arguments: Namespace) -> PyClick:
    observed = pairs("observed", arguments.observed) or {"C": "click"}
    if list(observed.values()) != ["click"]:
        raise LogError(f"--observed must be NODES=click for --format pyclick, got {brief(arguments.observed)}")
    context = pairs("context", arguments.context) or None
    return PyClick(next(iter(observed)), arguments.pairs is not False, context)


FORMATS: dict[str, Callable[[Namespace], Any]] = {"long": _long, "ubi": _ubi, "pyclick": _pyclick}


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read texts name=value; raise if a name occurs twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise LogError(f"--{option} must be NODE=COLUMN, got {brief(text)}")
        if name in found:
            raise LogError(f"--{option}: {name!r} occurs twice")
        found[name] = value
    return found


def _columns(text: str) -> str | list[str]:
    """Read the name of a column, or several names separated by commas."""
    return text.split(",") if "," in text else text


# -- models, inferences and policies -------------------------------------------------------------------------------


def is_agent(file: str) -> bool:
    """Return whether a file is that of an agent, not of a diagram."""
    if file == "-":
        return False
    with open(path_of(file), "rb") as content:
        return content.read(len(ARCHIVE)) == ARCHIVE


def read_inference(text: str | None) -> Inference | None:
    """Read the name of an inference, with settings after a colon."""
    if text is None:
        return None
    pick("inference", text.partition(":")[0], BY_NAME)
    agent: Thompson = read_learners(models.cascade(2, 1), [text])[text]
    return agent.inference


def read_diagrams(files: Sequence[str]) -> dict[str, Diagram]:
    """Read diagrams by the names of their files without folder and suffix, or by their paths if these are equal."""
    stems = [Path(file).stem for file in files]
    names = stems if len(set(stems)) == len(stems) else files
    if len(set(names)) < len(names):
        raise IdbanditsError(f"diagrams must be different files, got {brief(list(files))}")
    return {name: read_diagram(file) for name, file in zip(names, files, strict=True)}


def read_policy(text: str, d: Diagram, seed: int) -> Any:
    """Read a policy or propensities: JSON, a file of an agent or a table, or columns of the log."""
    if text.lstrip().startswith(("{", "[")):
        return _with_labels(parse_json(text), d)
    if os.path.isfile(text):
        if is_agent(text):
            return Thompson.load(text, seed=seed)
        return _with_labels(read_json(path_of(text)), d) if text.endswith(".json") else read_table(text)
    parts = text.split(",")
    nodes = [node.name for node in d.of_kind("decision")]
    if all(part.partition("=")[0] in nodes and "=" in part for part in parts):
        return pairs("policy", parts)
    if len(nodes) == 1 and len(parts) == 1 and (labels := _labels(d, nodes[0])) and text in labels:
        return labels[text]
    return text if len(parts) == 1 else parts


def _labels(d: Diagram, node: str) -> dict[str, Any]:
    return {str(label): label for label in d.nodes[node].values}


def _with_labels(policy: Any, d: Diagram) -> Any:
    """Return a policy with its keys as labels: those of JSON are texts."""
    contexts = d.of_kind("context")
    decisions = {node.name for node in d.of_kind("decision")}
    if not isinstance(policy, dict) or len(contexts) != 1 or policy.keys() == decisions:
        return policy
    labels = _labels(d, contexts[0].name) if contexts[0].features is None else {}
    return {labels.get(key, key): action for key, action in policy.items()}


def read_table(file: str) -> pandas.DataFrame:
    """Read a table from a CSV or Parquet file."""
    import pandas

    try:
        if file.endswith((".parquet", ".pq")):
            return pandas.read_parquet(path_of(file))
        return pandas.read_csv(path_of(file), encoding="utf-8-sig")
    except (ValueError, ImportError) as error:
        raise IdbanditsError(f"{file} must be a table as CSV or Parquet: {brief(str(error))}") from None


def check_folders(*paths: Path | None) -> None:
    """Raise before the work begins if a file cannot be written because its folder does not exist."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
