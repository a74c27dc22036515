"""Learned tables, which nodes may share, and how nodes read them; drawing means from priors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from idbandits.diagram.features.context_features import MOST_RESIDUALS, Logistic, drawn_means
from idbandits.diagram.features.design import TableFeatures
from idbandits.diagram.features.read_frame import read_source
from idbandits.diagram.known_tables import TOLERANCE, Known, Label, numbers_of
from idbandits.diagram.values import check_name, dict_of, plain
from idbandits.errors import DiagramError, PriorError, TableError, brief, check_flag, check_number, check_whole
from idbandits.kernel.array_types import Floats, Ints, Rng

__all__ = ["TOLERANCE", "Known", "Label", "Learned", "LearnedTable", "RowOf", "Use", "prior_means"]

LEAST_PRIOR, MOST_PRIOR = 1e-9, 1e15  # of pseudo-counts: neither one more round nor the prior is lost in rounding
MOST_REWARD = 1e300  # in a round, either way: sums over rounds are finite


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """Learned table, shared by all nodes it is passed to.

    Parameters
    ----------
    name : str
        Name of the table in means and posteriors.
    prior : float or array
        Pseudo-counts, from 1e-9 to 1e15: a number, or an array that broadcasts to the table's rows with the states on
        the last axis. `[3, 1]` expects a two-state node to be 1 in a quarter of the rounds.
    rows : int, optional
        Number of rows that nodes pick themselves: `table[k]`, or `table.select(f)` for the row `f(*parent_values)`. By
        default there is a row for each combination of values of the parents.
    fixed : mapping, optional
        Known rows: by number with `rows`, else by the value of the parent, or a tuple of values of several parents.
        Each is P(1), or the probabilities of all states if there are more than two.
    features : data frame, array, Features, mapping or list, optional
        Features of the rows, on which their prior is a regression that is learned as well: rows with similar features
        learn from each other. A data frame (pandas or Polars) has the labels of the parent as its index or its first
        column; an array has one line per row. Numbers are standardised, texts become indicators of categories, and
        missing values have an indicator; `Features` declares these encodings instead. Fixed rows need no line. For
        several parents, pass `{"item": …, "user": …}`, a list with one entry per parent (None: no features), or an
        array with one line per row.
    products : bool
        Whether the regression has products of features of different parents.
    pooled : bool
        Regression with a constant alone: rows have a common prior, which is learned and starts from `prior`.
    residuals : float, optional
        Standard deviation of an additional logit of each row, for tables that depend on a context with features. These
        are logistic: their logits are linear in `features`, in those of the context, and in their products with
        `products` (docs/how-to/features-of-users.md).

    Raises
    ------
    PriorError, TableError, DiagramError
        An argument is invalid; shapes are checked when a node is declared with the table.

    Examples
    --------
    >>> examination = Learned("examination", rows=3, fixed={0: 1.0})
    >>> examination[2].row
    2

    Features of the choices:

    >>> import pandas as pd
    >>> dishes = pd.DataFrame({"price": [9.5, 12, 8], "kind": ["thai", "soup", "thai"]}, index=["curry", "pho", "rice"])
    >>> from idbandits import Diagram
    >>> d = Diagram("menu")
    >>> d.reward(d.observed("ordered", [d.decision("dish", ["rice", "pho"])], Learned("taste", features=dishes)))
    >>> features = d.learned["taste"].features
    >>> features.names
    ('(constant)', 'price', 'kind=thai')
    >>> features.design.tolist()
    [[1.0, -1.0, 1.0], [1.0, 1.0, 0.0]]
    """

    name: str
    prior: Any = 1.0
    rows: int | None = None
    fixed: Mapping[Any, Any] | None = None
    features: Any = None
    products: bool = False
    pooled: bool = False
    residuals: float | None = None

    def __post_init__(self) -> None:
        check_name("the name of a learned table", self.name)
        table = f"learned table {self.name!r}"
        if self.rows is not None:
            check_whole(f"{table}: rows", self.rows, 1, error=DiagramError)
        prior = numbers_of(self.prior)
        if prior is None or not (valid := (prior >= LEAST_PRIOR) & (prior <= MOST_PRIOR)).all():
            needed = f"prior pseudo-counts must be numbers from {LEAST_PRIOR:g} to {MOST_PRIOR:g}"
            raise PriorError(f"{table}: {needed}, got {brief(self.prior if prior is None else prior[~valid][0])}")
        prior.setflags(write=False)
        flags = {
            name: check_flag(f"{table}: {name}", getattr(self, name), DiagramError) for name in ("products", "pooled")
        }
        residuals = self.residuals
        if residuals is not None:
            residuals = check_number(f"{table}: residuals", residuals, 0, MOST_RESIDUALS, DiagramError)
        if self.features is not None and self.pooled:
            raise DiagramError(f"{table}: features must be None if pooled, which is a regression with a constant alone")
        features = None if self.features is None else read_source(table, self.features)
        vars(self).update(flags, prior=prior, fixed=self._fixed_rows(), features=features, residuals=residuals)

    def _fixed_rows(self) -> Mapping[Any, Floats]:
        """Return a copy of the fixed rows, each as an array."""
        table, rows = f"learned table {self.name!r}", dict[Any, Floats]()
        for row, value in dict_of(f"{table}: fixed must map rows to probabilities", self.fixed, TableError).items():
            values = numbers_of(value)
            if values is None or values.ndim > 1:
                needed = f"fixed row {brief(row)} must be a probability or a list of probabilities"
                raise TableError(f"{table}: {needed}, got {brief(value)}")
            rows[tuple(map(plain, row)) if isinstance(row, tuple) else plain(row)] = values
        return rows

    def __getitem__(self, row: int) -> RowOf:
        last = self._number_of_rows() - 1
        return RowOf(self, check_whole(f"learned table {self.name!r}: a row", row, 0, last, DiagramError))

    def __iter__(self) -> Iterator[RowOf]:
        """Iterate over all rows."""
        return iter([self[k] for k in range(self._number_of_rows())])

    def select(self, chooser: Callable[..., int]) -> RowOf:
        """Return the table for a node that reads the row `chooser(*parent_values)`.

        Parameters
        ----------
        chooser : function
            Function of the values of the node's parents that returns the number of a row, from 0 to `rows` - 1.

        Returns
        -------
        RowOf
            Argument `cpd` of `Diagram.latent` and `Diagram.observed`.

        Examples
        --------
        >>> from idbandits import Diagram
        >>> d, examination = Diagram("page"), Learned("examination", rows=2)
        >>> slot = d.decision("slot", 6)
        >>> d.reward(d.observed("seen", [slot], examination.select(lambda k: 0 if k < 2 else 1)))
        >>> d.learned["examination"].shape
        (2,)
        """
        self._number_of_rows()
        if not callable(chooser):
            raise DiagramError(f"learned table {self.name!r}: select needs a function, got {brief(chooser)}")
        return RowOf(self, chooser)

    def _number_of_rows(self) -> int:
        if self.rows is None:
            raise DiagramError(f"learned table {self.name!r} must be declared with rows=… before rows can be picked")
        return int(self.rows)


@final
@dataclass(frozen=True, eq=False)
class RowOf:
    """Row of a learned table, or the row that is a function of the parents' values."""

    learned: Learned
    row: int | Callable[..., int]


@final
@dataclass(frozen=True, eq=False)
class Use:
    """Reading of a learned table by a node: row `rows`, row `rows[parent values]`, or one row per values (None)."""

    name: str
    rows: Ints | int | None = None


@final
@dataclass(frozen=True, eq=False)
class LearnedTable:
    """Learned table in a diagram: the shape of its rows, their number of states, and the prior pseudo-counts."""

    declared: Learned
    shape: tuple[int, ...]
    states: int
    prior: Floats  # of shape (*shape, states)
    fixed: Mapping[int, Floats]  # the probabilities of all states, by the number of a fixed row
    features: TableFeatures | None = None  # of its rows, if their prior is a regression, or if it is logistic
    logistic: Logistic | None = None  # its dependence on a context with features, if it has any

    @property
    def name(self) -> str:
        """Its declared name."""
        return self.declared.name

    @property
    def size(self) -> int:
        """Number of its entries: rows times states."""
        return math.prod(self.shape) * self.states

    @cached_property
    def means_shape(self) -> tuple[int, ...]:
        """Shape of its means, which are only P(1) for two states."""
        return self.shape if self.states == 2 else (*self.shape, self.states)

    @cached_property
    def prior_entries(self) -> Floats:
        """Pseudo-count of each entry, or -1 - p where p is fixed."""
        return self.with_fixed(self.prior.ravel().copy(), lambda p: -1.0 - p)

    @cached_property
    def features_of_entries(self) -> Ints:
        """Number of each entry that rows with equal features share."""
        if self.features is None:
            return np.zeros(self.size, np.int64)
        _, numbers = np.unique(self.features.design, axis=0, return_inverse=True)
        return np.repeat(numbers.ravel(), self.states)

    def carried(self, learned: Sequence[LearnedTable]) -> LearnedTable:
        """Return the table with the encodings of features of tables that were learned with, the latest first."""
        features, logistic = self.features, self.logistic
        if features is not None:
            features = features.carried([table.features for table in learned if table.features is not None])
        if logistic is not None:
            logistic = logistic.carried(features, learned[0].logistic)
        return replace(self, features=features, logistic=logistic)

    def with_fixed(self, entries: Floats, shown: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """Return entries, on the last axis, with those of fixed rows replaced in place."""
        for row, values in self.fixed.items():
            entries[..., row * self.states : (row + 1) * self.states] = shown(values)
        return entries


def prior_means(tables: Mapping[str, LearnedTable], rng: Rng) -> dict[str, Floats]:
    """Draw the means of all tables from their priors: `prior_means(d.learned, rng)`."""
    means = {}
    for name, table in tables.items():
        prior = table.prior
        if table.features is not None and table.logistic is None:
            prior = table.features.drawn_prior(prior, table.states, rng).reshape(prior.shape)
        if table.logistic is not None:
            means[name] = drawn_means(table, rng)
        elif table.states == 2:
            means[name] = np.asarray(rng.beta(prior[..., 1], prior[..., 0]), np.float64)
        else:
            rows = [rng.dirichlet(row) for row in prior.reshape(-1, table.states)]
            means[name] = np.array(rows).reshape(prior.shape)
        own = means[name].reshape(-1, *table.means_shape[len(table.shape) :])
        for row, values in table.fixed.items():
            own[row] = values[1] if table.states == 2 else values
    return means
