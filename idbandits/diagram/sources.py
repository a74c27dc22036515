"""Features as users pass them: read from data frames and arrays, before it is known what table they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.diagram.frames import column_names, is_lazy
from idbandits.diagram.values import check_hashes, check_letters, first_repeated, is_missing, plain
from idbandits.errors import DiagramError, TableError, brief

ALLOWED = "a data frame, or an array with one line per row"


@final
@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of features with columns of raw values; lines of a frame have labels."""

    shape: tuple[int, ...]  # of the lines: one number, or that of the rows of a table
    names: tuple[str, ...]
    columns: tuple[Any, ...] = field(repr=False)  # arrays: of floats, of objects, or of what will be refused
    index: Sequence[Any] | None = field(default=None, repr=False)  # labels of the lines
    index_is_named: bool = True
    first: Sequence[Any] | None = field(default=None, repr=False)  # the first column, if it may be the labels

    @property
    def has_labels(self) -> bool:
        """Whether lines are found by labels, as those of a data frame."""
        return self.index is not None or self.first is not None


@final
@dataclass(frozen=True, eq=False)
class PerParent:
    """Lines for the values of each parent, None where there are none; without names, in the order of the parents."""

    lines: tuple[Lines | None, ...]
    names: tuple[str, ...] | None = None


Source: TypeAlias = Lines | PerParent


def read_source(owner: str, features: Any) -> Source:
    """A copy of features, whatever they are passed as."""
    if isinstance(features, (Lines, PerParent)):
        return features
    if isinstance(features, Mapping):
        own = [_lines_or_none(f"{owner}: features of {brief(name)}", value) for name, value in features.items()]
        return PerParent(tuple(own), tuple(features))
    if isinstance(features, (list, tuple)) and _is_per_parent(features):
        return PerParent(
            tuple(_lines_or_none(f"{owner}: features of parent {k}", value) for k, value in enumerate(features))
        )
    return _lines(f"{owner}: features", features)


def _is_per_parent(entries: Sequence[Any]) -> bool:
    """Whether a list has one entry per parent: frames and arrays, and not numbers, texts, or lists of these."""
    axes = [_axes(entry) for entry in entries]
    return max(axes, default=0) > 1 or (1 in axes and any(entry is None for entry in entries))


def _axes(entry: Any) -> int:
    """The number of axes of an array or a data frame, 0 for anything else."""
    if isinstance(entry, np.ndarray):
        return entry.ndim
    if isinstance(entry, (str, int, float, list, tuple, Mapping)):
        return 0
    return 2 if column_names(entry) is not None else 1 if hasattr(entry, "to_frame") else 0


def _lines_or_none(what: str, features: Any) -> Lines | None:
    return None if features is None else _lines(what, features)


def _lines(what: str, features: Any) -> Lines:
    try:
        if hasattr(features, "to_frame") and hasattr(features, "index"):  # a series of pandas
            features = features.to_frame()
        if is_lazy(features):
            features = features.collect()
        columns = None if isinstance(features, (str, bytes, Mapping)) else column_names(features)
        return _lines_of_array(what, features) if columns is None else _lines_of_frame(what, features, columns)
    except DiagramError:
        raise
    except Exception as error:  # of other libraries: queries that cannot be computed, values that cannot be converted
        raise TableError(f"{what} are {ALLOWED}, not {brief(features)} ({brief(error)})") from None


def _lines_of_frame(what: str, frame: Any, columns: Sequence[Any]) -> Lines:
    if not columns:
        raise TableError(f"{what} are a data frame without columns; pooled=True is the constant alone")
    names = names_of(what, columns)
    values = tuple(_values(frame[column]) for column in columns)
    index = getattr(frame, "index", None) if hasattr(frame, "iloc") else None  # of pandas
    first = _listed(frame[columns[0]])
    return Lines((len(values[0]),), names, values, _listed(index), getattr(index, "name", None) is not None, first)


def _listed(labels: Any) -> list[Any] | None:
    """Labels as a list of plain values: whole numbers stay such."""
    method = next((name for name in ("to_list", "tolist", "to_pylist") if hasattr(labels, name)), None)
    return None if method is None else list(getattr(labels, method)())


def _lines_of_array(what: str, features: Any) -> Lines:
    array = features if isinstance(features, np.ndarray) else np.asarray(features)
    if array.dtype.kind not in "biuf" and not isinstance(features, np.ndarray):
        array = np.array(features, dtype=object)  # NumPy would turn numbers among texts into texts
    if array.ndim == 0:
        raise TableError(f"{what} are {ALLOWED}, not {brief(features)}")
    array = array[:, np.newaxis] if array.ndim == 1 else array
    flat = array.reshape(-1, array.shape[-1]) if array.size else np.zeros((0, array.shape[-1]))
    names = tuple(f"x{k}" for k in range(flat.shape[1]))
    return Lines(array.shape[:-1], names, tuple(_values(flat[:, k]) for k in range(flat.shape[1])))


def names_of(what: str, columns: Sequence[Any]) -> tuple[str, ...]:
    """The names of columns as texts, if no two are the same."""
    names = tuple(map(str, columns))
    for name in names:
        check_letters(f"{what}: the name of a column", name)
    if (twice := first_repeated(names)) is not None:
        raise TableError(f"{what} have two columns named {brief(twice)}")
    return names


def _values(column: Any) -> Any:
    """A column as a new array: of floats, or of objects (texts, and what is missing), or as it is if it is neither."""
    masked = isinstance(column, np.ma.MaskedArray)
    array = _objects(column.tolist()) if masked else np.asarray(column)  # a list has None for what is masked
    if str(getattr(column, "dtype", "")) == "category":  # of pandas; its categories may be numbers
        array = _objects([None if is_missing(value) else str(value) for value in array.tolist()])
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if array.dtype.kind in "OU":
        return _objects([plain(value) for value in array.tolist()])
    return array.copy()


def _objects(values: Sequence[Any]) -> Any:
    """An array of objects, also where these are lists."""
    return np.fromiter(values, dtype=object, count=len(values))


def source_of_data(owner: str, data: Mapping[str, Any]) -> Source:
    """Features as they are saved, of which the schema was checked."""
    if "rows" in data:
        return _lines_of_data(owner, data["rows"])
    return PerParent(tuple(None if entry is None else _lines_of_data(owner, entry) for entry in data["parents"]))


def _lines_of_data(owner: str, data: Mapping[str, Any]) -> Lines:
    columns, labels = data["columns"], data.get("labels")
    names = names_of(f"{owner}: features", [column["name"] for column in columns])
    sizes = {len(column["values"]) for column in columns} | ({len(labels)} if labels is not None else set())
    check_hashes(f"{owner}: labels of features", labels or ())
    if len(sizes) != 1:
        raise TableError(f"{owner}: its features have columns of different lengths, {brief(sorted(sizes))}")
    values = tuple(_objects(column["values"]) for column in columns)
    return Lines((sizes.pop(),), names, values, labels)
