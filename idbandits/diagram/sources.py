"""What users pass as features, as lines of plain values, and these as the columns of a table's features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from idbandits.diagram.columns import Column, Numbers
from idbandits.diagram.features import Block, Features
from idbandits.errors import ODD, TableError, brief

if TYPE_CHECKING:  # `declare` imports a neighbour of this module
    from idbandits.diagram.declare import Node


@final
@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of features as they were given: columns of plain values."""

    shape: tuple[int, ...]  # of the lines: one number, or one per parent
    names: tuple[str, ...]
    columns: tuple[Any, ...]  # arrays


Source: TypeAlias = Lines


def read_source(owner: str, features: Any) -> Source:
    """Features as a copy of their own."""
    try:
        array = np.array(features, np.float64)
    except ODD:
        raise TableError(f"{owner}: features are an array with one line per row, not {brief(features)}") from None
    array = array[:, np.newaxis] if array.ndim == 1 else array
    if array.ndim < 2:
        raise TableError(f"{owner}: features are an array with one line per row, not {brief(features)}")
    flat = array.reshape(-1, array.shape[-1])
    return Lines(array.shape[:-1], tuple(f"x{k}" for k in range(flat.shape[1])), tuple(flat.T.copy()))


def features_of(
    owner: str, source: Source | None, parents: Sequence[Node], shape: tuple[int, ...], products: bool, most: int
) -> Features:
    """The features of a table; a constant alone if there is no source."""
    if source is None:
        return Features(owner, [], shape, products, most)
    rows = math.prod(shape)
    if source.shape not in (shape, (rows,)):
        raise TableError(f"{owner}: its features have lines of shape {source.shape}, its rows have {shape}")
    exists = np.ones(rows, np.bool_)
    columns: list[Column] = [
        Numbers(name, values, exists) for name, values in zip(source.names, source.columns, strict=True)
    ]
    return Features(owner, [Block("", None, columns, exists)], shape, products, most)
