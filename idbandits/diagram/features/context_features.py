"""Contexts with features: what they are declared with, and the numbers that a request becomes.

A learned table that depends on such a context is logistic: the logit of a row is linear in the features of the row,
those of the request, and their products if asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.diagram.features.align import columns_of
from idbandits.diagram.features.design import CONSTANT, Hyperprior, Line, TableFeatures
from idbandits.diagram.features.encode_columns import MOST_DEVIATIONS, Encoding
from idbandits.diagram.features.read_frame import Features
from idbandits.diagram.values import check_distinct, check_hashes, check_letters, is_missing, plain
from idbandits.errors import ODD, ContextError, DiagramError, brief
from idbandits.kernel.array_types import Floats, Rng

if TYPE_CHECKING:  # `tables` imports this module
    from idbandits.diagram.diagram import Node
    from idbandits.diagram.tables import LearnedTable

MOST_FEATURES = 200  # columns that the features of a context may become
MOST_COEFFICIENTS = 500  # of a logistic table: what is learned from a round takes time with their square
MOST_RESIDUALS = 100.0  # the largest standard deviation of logits
MOST_LOGIT = 30.0


@final
class Scaled(NamedTuple):
    """A number, less a centre and divided by a scale; 0 where it is missing."""

    name: str
    centre: float = 0.0
    scale: float = 1.0

    @property
    def names(self) -> list[str]:
        """What its column is called."""
        return [self.name]

    def write(self, who: str, value: Any, numbers: list[float]) -> None:
        """Add its number to those of a request."""
        number = value
        if type(value) is not float or not -math.inf < value < math.inf:
            value = plain(value)
            if is_missing(value):
                numbers.append(0.0)
                return
            try:
                number = float(value) if isinstance(value, (Real, Decimal)) else math.inf
            except ODD:  # a whole number beyond all floats, a duration
                number = math.inf
            if not abs(number) < math.inf:
                raise ContextError(f"{who}: feature {self.name!r} is a finite number, not {brief(value)}")
        numbers.append(min(max((number - self.centre) / self.scale, -MOST_DEVIATIONS), MOST_DEVIATIONS))

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "centre": self.centre, "scale": self.scale}

    @property
    def encoding(self) -> Encoding:
        """Its encoding, as that of a column of items."""
        return Encoding(center=self.centre, scale=self.scale)


@final
class Categories(NamedTuple):
    """One of some labels: an indicator for each but the first; none for one that is missing, or not among them."""

    name: str
    labels: tuple[Any, ...]

    @property
    def names(self) -> list[str]:
        """What its columns are called."""
        return [f"{self.name}={label}" for label in self.labels[1:]]

    def write(self, who: str, value: Any, numbers: list[float]) -> None:
        """Add its indicators to the numbers of a request."""
        value = value if type(value) is str else plain(value)
        if not isinstance(value, (str, int, float)) and not is_missing(value):
            raise ContextError(f"{who}: feature {self.name!r} is a label, not {brief(value)}")
        place = self.labels.index(value) if isinstance(value, (str, int, float)) and value in self.labels else 0
        numbers += [1.0 if k == place else 0.0 for k in range(1, len(self.labels))]

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "categories": list(self.labels)}

    @property
    def encoding(self) -> Encoding:
        """Its encoding, as that of a column of items."""
        return Encoding(categories=self.labels)


Feature: TypeAlias = Scaled | Categories


@final
class RequestFeatures:
    """The features of a context; its value in a round is a mapping of their names, and becomes a vector."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        self.columns = tuple(name for feature in features for name in feature.names)
        self._known = frozenset(feature.name for feature in features)

    def encoded(self, who: str, value: Any) -> list[float]:
        """The numbers of a request; what is wrong with its value is said of `who`."""
        if not isinstance(value, Mapping):
            raise ContextError(f"{who} is a mapping of its features, {self.listed()}; not {brief(value)}")
        try:
            own = value if type(value) is dict else dict(value)
            if not own.keys() <= self._known:
                unknown = next(name for name in own if name not in self._known)
                raise ContextError(f"{who} has no feature {brief(unknown)}; its features are {self.listed()}")
        except ContextError:
            raise
        except ODD:
            raise ContextError(f"{who} is a mapping of its features, {self.listed()}; not {brief(value)}") from None
        numbers: list[float] = []
        for feature in self.features:
            feature.write(who, own.get(feature.name), numbers)
        return numbers

    def check_follows(self, what: str, learned: RequestFeatures) -> None:
        """Raise if a feature is encoded otherwise than in features that coefficients were learned for."""
        before = {feature.name: feature for feature in learned.features}
        for feature in self.features:
            other = before.get(feature.name)
            if type(feature) is type(other) and other is not None:
                other.encoding.followed_by(f"{what}: feature {feature.name!r}", feature.encoding)

    def listed(self) -> str:
        """The names of the features, for messages."""
        return ", ".join(feature.name for feature in self.features)

    def to_data(self) -> list[dict[str, Any]]:
        """Plain data, which `features_of_data` reads."""
        return [feature.to_data() for feature in self.features]


def request_features(owner: str, declared: Any) -> RequestFeatures:
    """Features as `Diagram.context` takes them: names, a mapping of names to what they are, or typical requests."""
    if isinstance(declared, RequestFeatures):
        return declared
    if isinstance(declared, Features):
        declared = _declared_by(owner, declared)
    allowed = "a list of names, a mapping of names to None, (centre, scale) or a list of categories, or idb.Features"
    if isinstance(declared, (str, bytes)) or not isinstance(declared, Iterable):
        raise DiagramError(f"{owner}: features are {allowed}; not {brief(declared)}")
    try:
        pairs = list(declared.items() if isinstance(declared, Mapping) else ((name, None) for name in declared))
    except ODD:
        raise DiagramError(f"{owner}: features are {allowed}; not {brief(declared)}") from None
    if len(pairs) > MOST_FEATURES:
        raise DiagramError(f"{owner}: it has {len(pairs)} features; at most {MOST_FEATURES}")
    features: list[Feature] = []
    for name, kind in pairs:
        if not isinstance(name, str) or not name:
            raise DiagramError(f"{owner}: the name of a feature is a non-empty string, not {brief(name)}")
        check_letters(f"{owner}: the name of a feature", name)
        if any(feature.name == name for feature in features):
            raise DiagramError(f"{owner}: feature {name!r} is listed twice")
        features.append(_feature(f"{owner}: feature {name!r}", name, kind))
    if not features:
        raise DiagramError(f"{owner}: its features are empty; declare values for a context that has none")
    own = RequestFeatures(features)
    if len(own.columns) > MOST_FEATURES:
        raise DiagramError(f"{owner}: its features become {len(own.columns)} columns; at most {MOST_FEATURES}")
    check_distinct(owner, own.columns)
    return own


def _declared_by(owner: str, features: Features) -> dict[str, Any]:
    """Declarations by a frame of typical requests: centers and scales of numbers, and categories of texts."""
    declared: dict[str, Any] = {}
    for column in columns_of(f"{owner}: features", features.lines):
        categories, center, scale, _ = column.encoding
        if column.declared.missing:
            raise DiagramError(
                f"{owner}: feature {column.name!r} must have no indicator of missing values, got missing"
            )
        declared[column.name] = (center or 0.0, scale or 1.0) if categories is None else list(categories)
    return declared


def _feature(what: str, name: str, kind: Any) -> Feature:
    if kind is None:
        return Scaled(name)
    if isinstance(kind, tuple):
        numbers = [plain(value) for value in kind]
        if len(numbers) != 2 or not all(isinstance(x, (int, float)) and abs(x) <= 1e100 for x in numbers):
            raise DiagramError(f"{what} has a (centre, scale) of two finite numbers, not {brief(kind)}")
        if not numbers[1] >= 1e-100:
            raise DiagramError(f"{what}: its scale is positive, not {brief(kind[1])}")
        return Scaled(name, float(numbers[0]), float(numbers[1]))
    if not isinstance(kind, list):
        raise DiagramError(f"{what} is None, (centre, scale) or a list of categories, not {brief(kind)}")
    labels = [plain(label) for label in kind]
    for label in labels:
        if not isinstance(label, (str, int, float)) or (not isinstance(label, str) and not abs(label) <= 1e300):
            raise DiagramError(f"{what}: a category is a string or a finite number, not {brief(label)}")
        if isinstance(label, str):
            check_letters(f"{what}: a category", label)
    check_hashes(f"{what}: its categories", labels)
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise DiagramError(f"{what} has two categories or more, all different; not {brief(kind)}")
    return Categories(name, tuple(labels))


def features_of_data(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Features as they are saved, of which the schema was checked, as `request_features` takes them."""
    declared: dict[str, Any] = {}
    for entry in data:
        if entry["name"] in declared:
            raise DiagramError(f"feature {entry['name']!r} is listed twice")
        scaling = entry.get("centre", 0.0), entry.get("scale", 1.0)
        declared[entry["name"]] = list(entry["categories"]) if "categories" in entry else scaling
    return declared


# -- tables that depend on such a context ------------------------------------------------------------------------------


@final
class Logistic:
    """How the rows of a table depend on a context with features: what its coefficients belong to."""

    def __init__(
        self, owner: str, context: Node, rows: int, items: TableFeatures | None, products: bool, residuals: float
    ) -> None:
        assert context.features is not None
        self.context, self.request, self.residuals = context.name, context.features, residuals
        self.products, self._owner, self._node, self._items, self._rows = products, owner, context, items, rows
        size = len(self.names)
        if size > MOST_COEFFICIENTS:
            raise DiagramError(f"{owner}: it would have {size} coefficients; at most {MOST_COEFFICIENTS} are allowed")
        check_distinct(owner, self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the coefficients belong to: the constant, the rows' features, the request's, and their products."""
        of_rows = (CONSTANT,) if self._items is None else self._items.names
        own = [f"{self.context}.{column}" for column in self.request.columns]
        products = [f"{row} × {request}" for row in of_rows[1:] for request in own] if self.products else []
        return (*of_rows, *own, *products)

    @property
    def design(self) -> Floats:
        """The constant and the features of each row, one line per row."""
        return np.ones((self._rows, 1)) if self._items is None else self._items.design

    def encoded(self, lines: Sequence[Line]) -> Floats:
        """The constant and the features of rows that are given as plain data, one line per row."""
        return np.ones((len(lines), 1)) if self._items is None else self._items.encoded(lines)

    def carried(self, items: TableFeatures | None, learned: Logistic | None) -> Logistic:
        """Return the same with other encodings of rows; raise if requests are encoded otherwise than in `learned`."""
        if learned is not None and self.context == learned.context:
            self.request.check_follows(f"{self._owner}: context {self.context!r}", learned.request)
        return Logistic(self._owner, self._node, self._rows, items, self.products, self.residuals)

    def line(self, row: int, request: Floats) -> Floats:
        """What the coefficients are multiplied with, for a row and the vector of a request."""
        own = self.design[row]
        products = np.outer(own[1:], request).ravel() if self.products else np.empty(0)
        return np.concatenate([own, request, products])


def hyperprior(table: LearnedTable) -> Hyperprior:
    """What is believed of the coefficients of a logistic table beforehand."""
    assert table.logistic is not None
    return TableFeatures.hyperprior(table.prior, table.states, len(table.logistic.names))


def drawn_means(table: LearnedTable, rng: Rng) -> Floats:
    """Means of all rows for a request whose features are all zero, by coefficients drawn from their prior."""
    assert table.logistic is not None
    prior, design = hyperprior(table), table.logistic.design
    spread = np.full(design.shape[1], prior.slope_sd)
    spread[0] = prior.intercept_sd
    coefficients = spread * rng.standard_normal(len(spread))
    coefficients[0] += prior.intercepts[0]
    logits = design @ coefficients + table.logistic.residuals * rng.standard_normal(len(design))
    means: Floats = 1.0 / (1.0 + np.exp(-np.clip(logits, -MOST_LOGIT, MOST_LOGIT)))
    return means.reshape(table.shape)
