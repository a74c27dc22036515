"""Features as users pass them: read from data frames and arrays, before it is known what table they are of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.diagram.features.dataframes import column_names, is_lazy
from idbandits.diagram.features.encode_columns import LEAST_SCALE, NO_ENCODING, Encoding
from idbandits.diagram.features.read_column import RawColumn, is_arrow, objects, read_column
from idbandits.diagram.values import check_hashes, check_letters, first_repeated, plain
from idbandits.errors import ODD, DiagramError, TableError, brief

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
    encodings: Mapping[str, Encoding] = field(default_factory=dict)  # declared ones, by the names of columns

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


@final
class Features:
    """Features of the rows of a table, with declared encodings of columns.

    `frame` is a data frame by the labels of rows, or an array with one line per row, as `Learned(features=…)` takes it.
    `categories` lists the categories of columns of texts: the first one is the base level, and those that are not
    listed come after them. `center` and `scale` belong to columns of numbers, which become (number - center) / scale.
    `missing` names columns that have an indicator of missing values, even if none is missing now. What is not declared
    is chosen by the values: the most frequent category, the mean, the standard deviation.

    An agent keeps the encodings of its tables when it moves to another diagram, so they need to be declared only where
    the first diagram does not have typical items, or where coefficients of several agents are to be compared.

    >>> import pandas as pd
    >>> from idbandits import Diagram, Learned
    >>> dishes = pd.DataFrame({"price": [9.5, 12], "kind": ["thai", "thai"]}, index=["rice", "pho"])
    >>> own = Features(dishes, categories={"kind": ["soup", "thai"]}, center={"price": 10}, scale={"price": 5})
    >>> d = Diagram("menu")
    >>> d.reward(d.observed("ordered", [d.decision("dish", ["rice", "pho"])], Learned("taste", features=own)))
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
        if isinstance(frame, (Features, Mapping, PerParent)) or (
            isinstance(frame, (list, tuple)) and _is_per_parent(frame)
        ):
            raise TableError(f"Features: frame must be {ALLOWED}, got {brief(frame)}; pass one Features per parent")
        lines = frame if isinstance(frame, Lines) else _lines("Features: frame", frame)
        texts = {name: _categories(name, value) for name, value in _declared("categories", categories)}
        centers = {name: _number("center", name, value) for name, value in _declared("center", center)}
        scales = {name: _number("scale", name, value, LEAST_SCALE) for name, value in _declared("scale", scale)}
        marked = _marked(missing)
        for name in dict.fromkeys((*texts, *centers, *scales, *marked)):
            if name not in lines.names:
                raise TableError(f"Features: {brief(name)} must be a column, got {', '.join(map(brief, lines.names))}")
            if name in texts and (name in centers or name in scales):
                raise TableError(f"Features: column {brief(name)} must have categories, or center and scale, got both")
        declared = {
            name: Encoding(texts.get(name), centers.get(name), scales.get(name), name in marked) for name in lines.names
        }
        own = {name: encoding for name, encoding in declared.items() if encoding != NO_ENCODING}
        self.lines = replace(lines, encodings={**lines.encodings, **own})

    def __repr__(self) -> str:
        declared = [f"{name}: {_described(encoding)}" for name, encoding in self.lines.encodings.items()]
        return f"Features({len(self.lines.names)} columns{'; ' if declared else ''}{'; '.join(declared)})"


def _described(encoding: Encoding) -> str:
    declared = [(name, value) for name, value in encoding._asdict().items() if value is not None and value is not False]
    return ", ".join(f"{name}={brief(value)}" for name, value in declared)


def _declared(what: str, given: Any) -> list[tuple[str, Any]]:
    """Declarations by the names of columns."""
    try:
        pairs = [] if given is None else [(str(name), value) for name, value in dict(given).items()]
    except ODD:
        raise TableError(f"Features: {what} must be a mapping by the names of columns, got {brief(given)}") from None
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise TableError(f"Features: {what} must have one entry per column, got {brief(given)}")
    return pairs


def _marked(missing: Any) -> set[str]:
    try:
        if not isinstance(missing, (str, bytes)):
            return {str(name) for name in missing}
    except ODD:
        pass
    raise TableError(f"Features: missing must be a list of names of columns, got {brief(missing)}")


def _categories(name: str, given: Any) -> tuple[str, ...]:
    """The declared categories of a column."""
    what = f"Features: categories of column {brief(name)}"
    try:
        texts = None if isinstance(given, (str, bytes)) else [plain(value) for value in given]
    except ODD:
        texts = None
    if not texts or not all(isinstance(text, str) for text in texts) or len(set(texts)) < len(texts):
        raise TableError(f"{what} must be different texts, at least one, got {brief(given)}")
    for text in texts:
        check_letters(what, text)
    return tuple(texts)


def _number(what: str, name: str, given: Any, least: float = -math.inf) -> float:
    """A declared center or scale."""
    value = plain(given)
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except ODD:  # a whole number beyond all floats
        number = math.nan
    if not (math.isfinite(number) and number >= least):
        needed = "a finite number" if least < 0 else "a positive number"
        raise TableError(f"Features: {what} of column {brief(name)} must be {needed}, got {brief(given)}")
    return number


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
    if isinstance(entry, Features):
        return 2
    if isinstance(entry, np.ndarray):
        return entry.ndim
    if isinstance(entry, (str, int, float, list, tuple, Mapping)):
        return 0
    return 2 if column_names(entry) is not None else 1 if hasattr(entry, "to_frame") or is_arrow(entry) else 0


def _lines_or_none(what: str, features: Any) -> Lines | None:
    return None if features is None else _lines(what, features)


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
        raise TableError(f"{what} are {ALLOWED}, not {brief(features)} ({brief(error)})") from None


def _lines_of_frame(what: str, frame: Any, columns: Sequence[Any]) -> Lines:
    if not columns:
        raise TableError(f"{what} are a data frame without columns; pooled=True is the constant alone")
    names = names_of(what, columns)
    raw = [read_column(frame[column]) for column in columns]
    index = getattr(frame, "index", None) if hasattr(frame, "iloc") else None  # of pandas
    labels = None if index is None else read_column(index).tolist()
    is_named = getattr(index, "name", None) is not None
    return Lines((len(raw[0].values),), names, tuple(map(_values, raw)), labels, is_named, raw[0].tolist())


def _lines_of_array(what: str, features: Any) -> Lines:
    if not isinstance(features, (np.ndarray, list, tuple)) and (column := read_column(features)).values.ndim == 1:
        return Lines((len(column.values),), ("x0",), (_values(column),))  # a series of Polars, an array of pyarrow
    array = features if isinstance(features, np.ndarray) else np.asarray(features)
    if array.dtype.kind not in "biuf" and not isinstance(features, np.ndarray):
        array = np.array(features, dtype=object)  # NumPy would turn numbers among texts into texts
    if array.ndim == 0:
        raise TableError(f"{what} are {ALLOWED}, not {brief(features)}")
    array = array[:, np.newaxis] if array.ndim == 1 else array
    flat = array.reshape(-1, array.shape[-1]) if array.size else np.zeros((0, array.shape[-1]))
    names = tuple(f"x{k}" for k in range(flat.shape[1]))
    return Lines(array.shape[:-1], names, tuple(_values(read_column(flat[:, k])) for k in range(flat.shape[1])))


def names_of(what: str, columns: Sequence[Any]) -> tuple[str, ...]:
    """The names of columns as texts, if no two are the same."""
    names = tuple(map(str, columns))
    for name in names:
        check_letters(f"{what}: the name of a column", name)
    if (twice := first_repeated(names)) is not None:
        raise TableError(f"{what} have two columns named {brief(twice)}")
    return names


def _values(column: RawColumn) -> Any:
    """A column as a new array: of floats, or of objects (texts, and what is missing), or as it is if it is neither."""
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
    values = tuple(objects(column["values"]) for column in columns)
    try:
        encodings = {name: _encoding_of_data(name, column) for name, column in zip(names, columns, strict=True)}
    except DiagramError as error:
        raise TableError(f"{owner}: {error}") from None
    return Lines((sizes.pop(),), names, values, labels, encodings=encodings)


def _encoding_of_data(name: str, data: Mapping[str, Any]) -> Encoding:
    """The declared encoding of a column in a file, which must be one that `Features` takes."""
    categories, center, scale = (data.get(key) for key in ("categories", "centre", "scale"))
    return Encoding(
        None if categories is None else _categories(name, categories),
        None if center is None else _number("center", name, center),
        None if scale is None else _number("scale", name, scale, LEAST_SCALE),
        bool(data.get("missing", False)),
    )
