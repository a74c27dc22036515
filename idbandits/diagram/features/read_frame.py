"""Features as users pass them: read from data frames and arrays, before their table is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.diagram.features.dataframes import column_names, is_lazy
from idbandits.diagram.features.encode_columns import NO_ENCODING, Encoding
from idbandits.diagram.features.read_column import RawColumn, is_arrow, objects, read_column
from idbandits.diagram.values import check_hashes, dict_of, first_repeated, list_of, plain
from idbandits.errors import DiagramError, TableError, brief

ALLOWED = "a data frame, or an array with one line per row"


@final
@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of features with columns of raw values; lines of a frame have labels."""

    shape: tuple[int, ...]  # of the lines: one number, or the shape of the rows of a table
    names: tuple[str, ...]
    columns: tuple[Any, ...] = field(repr=False)  # arrays: of floats, of objects, or of types that will be rejected
    index: Sequence[Any] | None = field(default=None, repr=False)  # labels of the lines
    index_is_named: bool = True
    first: Sequence[Any] | None = field(default=None, repr=False)  # the first column, if it may be the labels
    encodings: Mapping[str, Encoding] = field(default_factory=dict)  # declared ones, by the names of columns

    @property
    def has_labels(self) -> bool:
        """True if lines are found by labels, as those of a data frame."""
        return self.index is not None or self.first is not None


@final
@dataclass(frozen=True, eq=False)
class PerParent:
    """Lines for the values of each parent, None where there are none; without names, in the order of the parents."""

    lines: tuple[Lines | None, ...]
    names: tuple[str, ...] | None = None


@final
class Features:
    """Features of the rows of a table, with declared encodings of columns.

    Values determine what is not declared: the most frequent category is the base level, and numbers are standardised by
    mean and standard deviation. An agent keeps the encodings of its tables when it moves to another diagram, so they
    need to be declared only where the first diagram does not have typical items, or where coefficients of several
    agents are to be compared.

    Parameters
    ----------
    frame : data frame or array
        Features by label of the row (n rows), or an array of shape (n, columns) in the order of the rows.
    categories : mapping, optional
        List of categories by column of texts: the first is the base level; others are added after those listed.
    center, scale : mapping, optional
        Center and scale by column of numbers, in its unit: a number x becomes (x - center) / scale.
    missing : iterable of str, optional
        Columns with an indicator of missing values, even if none is missing now.

    Raises
    ------
    TableError
        A name is not a column of the frame, or a value does not fit the column.

    Examples
    --------
    >>> import pandas as pd
    >>> import idbandits as idb
    >>> dishes = pd.DataFrame({"price": [9.5, 12], "kind": ["thai", "thai"]}, index=["rice", "pho"])
    >>> own = idb.Features(dishes, categories={"kind": ["soup", "thai"]}, center={"price": 10}, scale={"price": 5})
    >>> d = idb.Diagram("menu")
    >>> d.reward(d.observed("ordered", [d.decision("dish", ["rice", "pho"])], idb.Learned("taste", features=own)))
    >>> d.learned["taste"].features.names
    ('(constant)', 'price', 'kind=thai')
    >>> d.learned["taste"].features.design.tolist()
    [[1.0, -0.1, 1.0], [1.0, 0.4, 1.0]]
    """

    def __init__(
        self, frame: Any, *, categories: Mapping[str, Sequence[str]] | None = None,
        center: Mapping[str, float] | None = None, scale: Mapping[str, float] | None = None,
        missing: Iterable[str] = (),
    ) -> None:  # fmt: skip
        if isinstance(frame, (Features, Mapping, PerParent)) or _is_per_parent(frame):
            raise TableError(f"Features: frame must be {ALLOWED}, got {brief(frame)}; pass one Features per parent")
        lines = frame if isinstance(frame, Lines) else _lines("Features: frame", frame)
        marked = list_of("Features: missing must be a list of names of columns", missing, TableError)
        declared = {"categories": categories, "center": center, "scale": scale, "missing": dict.fromkeys(marked, True)}
        by_column: dict[str, dict[str, Any]] = {}
        for key, values in declared.items():
            for name, value in dict_of(
                f"Features: {key} must map names of columns to values", values, TableError
            ).items():
                by_column.setdefault(str(name), {})[key] = value
        for name, own in by_column.items():
            if name not in lines.names:
                raise TableError(f"Features: {brief(name)} must be a column, got {', '.join(map(brief, lines.names))}")
            encoding = Encoding.declared(f"Features: column {brief(name)}", **own)
            if not all(isinstance(text, str) for text in encoding.categories or ()):
                raise TableError(f"Features: categories of column {brief(name)} must be texts, got {brief(own)}")
            lines = replace(lines, encodings={**lines.encodings, name: encoding})
        self.lines = lines

    def __repr__(self) -> str:
        declared = [f"{name}: {_described(encoding)}" for name, encoding in self.lines.encodings.items()]
        return f"Features({len(self.lines.names)} columns{'; ' if declared else ''}{'; '.join(declared)})"


def _described(encoding: Encoding) -> str:
    declared = [(name, value) for name, value in encoding._asdict().items() if value is not None and value is not False]
    return ", ".join(f"{name}={brief(value)}" for name, value in declared)


Source: TypeAlias = Lines | PerParent


def read_source(owner: str, features: Any) -> Source:
    """Return a copy of features, in whatever form they are passed."""
    if isinstance(features, (Lines, PerParent)):
        return features
    if isinstance(features, Mapping) or _is_per_parent(features):
        names = tuple(features) if isinstance(features, Mapping) else None
        entries = zip(names or range(len(features)), features.values() if names else features, strict=True)
        own = [None if e is None else _lines(f"{owner}: features of {brief(name)}", e) for name, e in entries]
        return PerParent(tuple(own), names)
    return _lines(f"{owner}: features", features)


def _is_per_parent(features: Any) -> bool:
    """Return True for a list of frames and arrays per parent, False for one of numbers, texts, or lists."""
    if not isinstance(features, (list, tuple)):
        return False
    axes = [_axes(entry) for entry in features]
    return max(axes, default=0) > 1 or (1 in axes and any(entry is None for entry in features))


def _axes(entry: Any) -> int:
    """Return the number of axes of an array or a data frame, 0 for anything else."""
    if isinstance(entry, np.ndarray):
        return entry.ndim
    if isinstance(entry, (str, int, float, list, tuple, Mapping)):
        return 0
    if isinstance(entry, Features) or column_names(entry) is not None:
        return 2
    return 1 if hasattr(entry, "to_frame") or is_arrow(entry) else 0


def _lines(what: str, features: Any) -> Lines:
    if isinstance(features, Features):
        return features.lines
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
        raise TableError(f"{what} must be {ALLOWED}, got {brief(features)} ({brief(error)})") from None


def _lines_of_frame(what: str, frame: Any, columns: Sequence[Any]) -> Lines:
    if not columns:
        raise TableError(f"{what} must have columns; pooled=True is the constant alone")
    raw = [read_column(frame[column]) for column in columns]
    index = getattr(frame, "index", None) if hasattr(frame, "iloc") else None  # of pandas
    labels = None if index is None else read_column(index).tolist()
    is_named = getattr(index, "name", None) is not None
    values = tuple(map(_values, raw))
    return Lines((len(raw[0].values),), _names(what, columns), values, labels, is_named, raw[0].tolist())


def _lines_of_array(what: str, features: Any) -> Lines:
    if not isinstance(features, (np.ndarray, list, tuple)) and (column := read_column(features)).values.ndim == 1:
        return Lines((len(column.values),), ("x0",), (_values(column),))  # a series of Polars, an array of pyarrow
    array = features if isinstance(features, np.ndarray) else np.asarray(features)
    if array.dtype.kind not in "biuf" and not isinstance(features, np.ndarray):
        array = np.array(features, dtype=object)  # NumPy would turn numbers among texts into texts
    if array.ndim == 0:
        raise TableError(f"{what} must be {ALLOWED}, got {brief(features)}")
    array = array[:, np.newaxis] if array.ndim == 1 else array
    flat = array.reshape(-1, array.shape[-1]) if array.size else np.zeros((0, array.shape[-1]))
    names = tuple(f"x{k}" for k in range(flat.shape[1]))
    return Lines(array.shape[:-1], names, tuple(_values(read_column(flat[:, k])) for k in range(flat.shape[1])))


def _names(what: str, columns: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of columns as strings; raise if two are the same."""
    names = tuple(map(str, columns))
    if (repeated := first_repeated(names)) is not None:
        raise TableError(f"{what} must have different columns, got two columns named {brief(repeated)}")
    return names


def _values(column: RawColumn) -> Any:
    """Return a column as a new array: of floats, or of objects (texts, missing values), or of its own type."""
    kind = column.values.dtype.kind
    if column.is_categorical:  # categories may be numbers
        return objects([None if value is None else str(value) for value in column.tolist()])
    if kind in "biuf":
        with np.errstate(over="ignore"):
            numbers = column.values.astype(np.float64)
        numbers[column.masked] = np.nan
        return numbers
    return objects([plain(value) for value in column.tolist()]) if kind in "OU" else column.values.copy()


def source_of_data(owner: str, data: Mapping[str, Any]) -> Source:
    """Return features as they are saved, which fit the schema."""
    if "rows" in data:
        return _lines_of_data(owner, data["rows"])
    return PerParent(tuple(None if entry is None else _lines_of_data(owner, entry) for entry in data["parents"]))


def _lines_of_data(owner: str, data: Mapping[str, Any]) -> Lines:
    columns, labels = data["columns"], data.get("labels")
    names = _names(f"{owner}: features", [column["name"] for column in columns])
    sizes = {len(column["values"]) for column in columns} | ({len(labels)} if labels is not None else set())
    check_hashes(f"{owner}: labels of features", labels or ())
    if len(sizes) != 1:
        raise TableError(f"{owner}: columns of features must have equal lengths, got {brief(sorted(sizes))}")
    values = tuple(objects(column["values"]) for column in columns)
    encodings = {
        name: Encoding.of_data(f"{owner}: column {brief(name)}", column)
        for name, column in zip(names, columns, strict=True)
    }
    declared = {name: encoding for name, encoding in encodings.items() if encoding != NO_ENCODING}
    return Lines((sizes.pop(),), names, values, labels, encodings=declared)
