"""Contexts with features: their declaration, the numbers that a request becomes, and tables that depend on them.

A learned table that depends on such a context is logistic: the logit of a row is linear in the features of the row,
those of the request, and their products if asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from idbandits.diagram.features.align import columns_of
from idbandits.diagram.features.design import CONSTANT, Hyperprior, Line, TableFeatures
from idbandits.diagram.features.encode_columns import MOST_DEVIATIONS, Encoding
from idbandits.diagram.features.read_frame import Features
from idbandits.diagram.values import check_distinct, check_name, first_repeated, is_missing, list_of, plain
from idbandits.errors import ContextError, DiagramError, brief, check_number
from idbandits.kernel.array_types import Floats, Rng

if TYPE_CHECKING:  # `tables` imports this module
    from idbandits.diagram.diagram import Node
    from idbandits.diagram.tables import LearnedTable

MOST_FEATURES = 200  # columns that the features of a context may become
MOST_COEFFICIENTS = 500  # of a logistic table: learning from a round takes time with their square
MOST_RESIDUALS = 100.0  # the largest standard deviation of logits
MOST_LOGIT = 30.0


@final
class RequestFeature(NamedTuple):
    """Feature of a context: a number, less a center and divided by a scale, or one of some labels.

    A label becomes an indicator for each label but the first. Missing numbers are 0; missing labels, and those that
    are not listed, have no indicator.
    """

    name: str
    labels: tuple[Any, ...] | None = None
    center: float = 0.0
    scale: float = 1.0

    @property
    def encoding(self) -> Encoding:
        """Its encoding, as that of a column of items."""
        return Encoding(center=self.center, scale=self.scale) if self.labels is None else Encoding(self.labels)

    @property
    def names(self) -> list[str]:
        """Names of its columns."""
        return [self.name] if self.labels is None else [f"{self.name}={label}" for label in self.labels[1:]]

    def write(self, who: str, value: Any, numbers: list[float]) -> None:
        """Append its numbers to those of a request."""
        if type(value) is not float and type(value) is not str:
            value = plain(value)
        if self.labels is not None:
            is_label = isinstance(value, (str, int, float))
            if not is_label and not is_missing(value):
                raise ContextError(f"{who}: feature {self.name!r} must be a label, got {brief(value)}")
            place = self.labels.index(value) if is_label and value in self.labels else 0
            numbers += [1.0 if k == place else 0.0 for k in range(1, len(self.labels))]
            return
        if type(value) is not float or not -math.inf < value < math.inf:
            if is_missing(value):
                numbers.append(0.0)
                return
            value = float(value) if isinstance(value, Decimal) else value
            value = check_number(f"{who}: feature {self.name!r}", value, -math.inf, error=ContextError, above=True)
        numbers.append(min(max((value - self.center) / self.scale, -MOST_DEVIATIONS), MOST_DEVIATIONS))


@final
class RequestFeatures:
    """Features of a context; its value in a round is a mapping of their names, and becomes a vector."""

    def __init__(self, features: Sequence[RequestFeature]) -> None:
        self.features = tuple(features)
        self.columns = tuple(name for feature in features for name in feature.names)
        self._known = frozenset(feature.name for feature in features)

    def encoded(self, who: str, value: Any) -> list[float]:
        """Return the numbers of a request; errors begin with `who`."""
        if not isinstance(value, Mapping):
            raise ContextError(f"{who} must be a mapping of its features, {self.listed()}; got {brief(value)}")
        if not value.keys() <= self._known:
            unknown = next(name for name in value if name not in self._known)
            raise ContextError(f"{who} must have the features {self.listed()}; got {brief(unknown)}")
        numbers: list[float] = []
        for feature in self.features:
            feature.write(who, value.get(feature.name), numbers)
        return numbers

    def check_follows(self, what: str, learned: RequestFeatures) -> None:
        """Raise if a feature is encoded otherwise than in features that coefficients were learned for."""
        before = {feature.name: feature for feature in learned.features}
        for feature in self.features:
            other = before.get(feature.name)
            if other is not None and (feature.labels is None) == (other.labels is None):
                other.encoding.followed_by(f"{what}: feature {feature.name!r}", feature.encoding)

    def listed(self) -> str:
        """Return the names of the features, for messages."""
        return ", ".join(feature.name for feature in self.features)

    def to_data(self) -> list[dict[str, Any]]:
        """Return plain data, which `features_of_data` reads."""
        return [{"name": feature.name, **feature.encoding.to_data()} for feature in self.features]


def request_features(owner: str, declared: Any) -> RequestFeatures:
    """Return features as `Diagram.context` takes them: names, a mapping of names to encodings, or `Features`."""
    if isinstance(declared, RequestFeatures):
        return declared
    if isinstance(declared, Features):
        columns = columns_of(f"{owner}: features", declared.lines)
        if marked := next((column.name for column in columns if column.declared.missing), None):
            raise DiagramError(f"{owner}: feature {marked!r} must have no indicator of missing values, got missing")
        return _checked(owner, [(column.name, column.encoding) for column in columns])
    if isinstance(declared, Mapping):
        return _checked(owner, [(n, _encoding(f"{owner}: feature {n!r}", kind)) for n, kind in declared.items()])
    allowed = "a list of names, a mapping of names to None, (center, scale) or a list of categories, or idb.Features"
    names = list_of(f"{owner}: features must be {allowed}", declared)
    return _checked(owner, [(name, Encoding()) for name in names])


def features_of_data(owner: str, data: Sequence[Mapping[str, Any]]) -> RequestFeatures:
    """Return features as they are saved, which fit the schema."""
    return _checked(owner, [(e["name"], Encoding.of_data(f"{owner}: feature {e['name']!r}", e)) for e in data])


def _encoding(what: str, kind: Any) -> Encoding:
    if kind is None:
        return Encoding()
    if isinstance(kind, tuple) and len(kind) == 2:
        return Encoding.declared(what, center=kind[0], scale=kind[1])
    if isinstance(kind, list):
        return Encoding.declared(what, categories=kind)
    raise DiagramError(f"{what} must be None, (center, scale) or a list of categories, got {brief(kind)}")


def _checked(owner: str, declared: Sequence[tuple[Any, Encoding]]) -> RequestFeatures:
    if not 1 <= len(declared) <= MOST_FEATURES:
        raise DiagramError(f"{owner}: there must be 1 to {MOST_FEATURES} features, got {len(declared)}")
    names = [check_name(f"{owner}: the name of a feature", name) for name, _ in declared]
    if (repeated := first_repeated(names)) is not None:
        raise DiagramError(f"{owner}: features must have different names, got {repeated!r} twice")
    for name, encoding in declared:
        if encoding.categories is not None and len(encoding.categories) < 2:
            raise DiagramError(f"{owner}: feature {name!r} must have at least two categories")
    features = [RequestFeature(name, e.categories, e.center or 0.0, e.scale or 1.0) for name, e in declared]
    own = RequestFeatures(features)
    if len(own.columns) > MOST_FEATURES:
        raise DiagramError(f"{owner}: features must become at most {MOST_FEATURES} columns, got {len(own.columns)}")
    check_distinct(owner, own.columns)
    return own


# -- tables that depend on such a context ------------------------------------------------------------------------------


@final
class Logistic:
    """Dependence of the rows of a table on a context with features: the meaning of its coefficients."""

    def __init__(
        self, owner: str, context: Node, rows: int, items: TableFeatures | None, products: bool, residuals: float
    ) -> None:
        assert context.features is not None
        self.context, self.request, self.residuals = context.name, context.features, residuals
        self.products, self._owner, self._node, self._items, self._rows = products, owner, context, items, rows
        size = len(self.names)
        if size > MOST_COEFFICIENTS:
            raise DiagramError(f"{owner} must have at most {MOST_COEFFICIENTS} coefficients, got {size}")
        check_distinct(owner, self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients: of the constant, the rows' features, the request's, and their products."""
        of_rows = (CONSTANT,) if self._items is None else self._items.names
        own = [f"{self.context}.{column}" for column in self.request.columns]
        products = [f"{row} × {request}" for row in of_rows[1:] for request in own] if self.products else []
        return (*of_rows, *own, *products)

    @property
    def design(self) -> Floats:
        """Constant and features of each row, one line per row."""
        return np.ones((self._rows, 1)) if self._items is None else self._items.design

    def encoded(self, lines: Sequence[Line]) -> Floats:
        """Return the constant and the features of rows of plain data, one line per row."""
        return np.ones((len(lines), 1)) if self._items is None else self._items.encoded(lines)

    def carried(self, items: TableFeatures | None, learned: Logistic | None) -> Logistic:
        """Return the dependence with other encodings of rows; raise if requests are not encoded as in `learned`."""
        if learned is not None and self.context == learned.context:
            self.request.check_follows(f"{self._owner}: context {self.context!r}", learned.request)
        return Logistic(self._owner, self._node, self._rows, items, self.products, self.residuals)

    def line(self, row: int, request: Floats) -> Floats:
        """Return the factors of the coefficients, for a row and the vector of a request."""
        own = self.design[row]
        products = np.outer(own[1:], request).ravel() if self.products else np.empty(0)
        return np.concatenate([own, request, products])


def hyperprior(table: LearnedTable) -> Hyperprior:
    """Return the prior of the coefficients of a logistic table."""
    assert table.logistic is not None
    return TableFeatures.hyperprior(table.prior, table.states, len(table.logistic.names))


def drawn_means(table: LearnedTable, rng: Rng) -> Floats:
    """Draw coefficients from their prior, and return the means of all rows for a request whose features are zero."""
    assert table.logistic is not None
    prior, design = hyperprior(table), table.logistic.design
    spread = np.full(design.shape[1], prior.slope_sd)
    spread[0] = prior.intercept_sd
    coefficients = spread * rng.standard_normal(len(spread))
    coefficients[0] += prior.intercepts[0]
    logits = design @ coefficients + table.logistic.residuals * rng.standard_normal(len(design))
    means: Floats = 1.0 / (1.0 + np.exp(-np.clip(logits, -MOST_LOGIT, MOST_LOGIT)))
    return means.reshape(table.shape)
