"""Encoding of logs: labels become places among the values of their nodes, features of contexts become numbers.

A log is read once (`log_columns`). Its distinct values are mapped to places for the present diagram and, if there are
rounds that the present diagram cannot have, for earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.encoding.agreement import nodes_of_round
from idbandits.agent.encoding.era import Era
from idbandits.agent.encoding.log_columns import Column, Log, Part, RawLog, dotted_names
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.diagram.features.context_features import RequestFeature, RequestFeatures
from idbandits.diagram.features.encode_columns import MOST_DEVIATIONS
from idbandits.diagram.values import is_missing, plain
from idbandits.errors import ODD, ActionError, ContextError, IdbanditsError, brief
from idbandits.inference.regression.logistic_setup import translated_requests
from idbandits.inference.transfer.row_index import Entries
from idbandits.kernel.array_types import Bools, Floats, Ints

WRONG = -2  # in place of a value that is not one of its node


class Batch(NamedTuple):
    """Rounds of a log that are of one era, in the order of the log."""

    era: int
    columns: Sequence[Ints]  # decisions, contexts and observed nodes
    numbers: Ints  # which rounds of the log they are
    requests: Floats  # one line per round, or none

    @property
    def rounds(self) -> Ints:
        """The rounds, one per row."""
        return np.stack(self.columns, axis=1) if self.columns else np.empty((len(self.numbers), 0), np.int64)

    def part(self, own: Any) -> Batch:
        """Return some of the rounds: a slice, or their places."""
        requests = self.requests[own] if len(self.requests) else self.requests
        return Batch(self.era, [column[own] for column in self.columns], self.numbers[own], requests)


def encode_log(eras: Sequence[Era], raw: RawLog, entries: Entries) -> list[Batch]:
    """Encode a log whose rounds may be of earlier diagrams: each is of the latest era that can have it.

    Features of contexts are as states with these entries have them.
    """
    models = [era.model for era in eras]
    log, batches = Log(raw, models), list[Batch]()
    left: Bools | None = None  # rounds that no diagram had so far
    present: _Rounds | IdbanditsError | None = None  # the log in the present diagram, or why that cannot have it
    for number, model in enumerate(models):
        try:
            rounds = _encode_rounds(log, model)
            if len(models) > 1 or rounds.fits.all():  # otherwise, the first wrong value is reported
                decisions = rounds.columns[: len(model.decisions)]
                model.feasibility.check_columns([column[rounds.fits] for column in decisions])
        except IdbanditsError as error:
            if len(models) == 1:
                raise
            present = present or error
            continue
        present = present or rounds
        left = np.ones(len(rounds.fits), np.bool_) if left is None else left
        own = left & rounds.fits
        if own.any() or not len(own):
            requests = encode_requests(log, model)
            if number:
                requests = translated_requests(requests, model, entries, len(own))
            batch = Batch(number, rounds.columns, np.arange(len(own)), requests)
            batches.append(batch if own.all() else batch.part(np.flatnonzero(own)))
            left &= ~own
        if not left.any():
            return batches
    if isinstance(present, IdbanditsError) and not batches:
        raise present
    raise _mismatch(log, models, present, 0 if left is None else int(np.argmax(left)))


class _Rounds(NamedTuple):
    """All rounds of a log in the numbers of one model."""

    columns: list[Ints]  # decisions, contexts, observed nodes: -1 where nothing was seen, WRONG for other values
    fits: Bools  # for every round, whether the model can have it


def _encode_rounds(log: Log, model: Model) -> _Rounds:
    log.check_names(model)
    encoded = dict[str, Ints]()
    for part in log.parts:
        for node in part.nodes(model):
            if node.features is None and (column := log.column(part, node)) is not None:
                encoded[node.name] = _places(part, node, column)
    length = log.length or 0
    columns = [
        encoded[node.name] if node.name in encoded else np.full(length, 0 if node.kind == "context" else -1)
        for node in nodes_of_round(model)
    ]
    fits, absent = np.ones(length, np.bool_), log.absent_columns(model)
    for own in encoded.values():
        fits &= own > WRONG
    for table, name in {(part.table, name) for part in log.parts for name in part.table.names or () if name in absent}:
        missing = table.read(name).missing
        fits &= missing if len(missing) == length else False
    return _Rounds(columns, fits)


def _places(part: Part, node: Node, column: Column) -> Ints:
    """Return the places of values among a node's; only observations may be missing."""
    unseen = -1 if part.kind == "observed" else WRONG
    if column.values.dtype.kind in "iu" and node.values == range(node.states):
        places: Ints = column.values.astype(np.int64)
        places[(places < 0) | (places >= node.states)] = WRONG
        if column.masked.any():
            places[column.masked] = unseen
        return places
    codes, distinct = column.factorized
    table = [unseen]  # reached by the code -1
    for value in distinct:
        place = node.index(value)
        table.append(place if place is not None else unseen if is_missing(value) else WRONG)
    return np.array(table, dtype=np.int64)[codes + 1]


def _mismatch(log: Log, models: Sequence[Model], present: Any, number: int) -> IdbanditsError:
    """Return the error of a round that no model can have; `present` has the rounds of the first one, or its error."""
    neither = ", neither in this diagram nor in an earlier one" if len(models) > 1 else ""
    nodes = [(part, node) for part in log.parts for node in part.nodes(models[0])]
    for (part, node), places in zip(nodes, present.columns if isinstance(present, _Rounds) else (), strict=False):
        if places[number] == WRONG and (column := log.column(part, node)) is not None:
            value = "a missing value (masked or null)" if column.masked[number] else brief(plain(column.values[number]))
            wrong = f"{node.name!r} in round {number} cannot be {value}{neither}"
            return part.error(f"{part.what}: {wrong}; allowed: {node.allowed()}")
    return ActionError(
        f"round {number} fits neither this diagram nor an earlier one: these have other nodes and values"
    )


# -- features of contexts ----------------------------------------------------------------------------------------------


def encode_requests(log: Log, model: Model) -> Floats:
    """Encode the features of contexts, one line per round; no lines if no context has features."""
    encoded = [_encode_features(log, node, node.features) for node in model.contexts if node.features is not None]
    return np.hstack(encoded) if encoded else np.empty((0, 0))


def _encode_features(log: Log, node: Node, features: RequestFeatures) -> Floats:
    """Encode the features of a context: from columns of their own, or from a column of mappings."""
    part, who, table = log.parts[1], f"contexts: {node.name!r}", log.parts[1].table
    if isinstance(table.data, Mapping) and node.name in table.data:
        table = log.table_of(table.data[node.name])  # a frame, or columns by name, of the features alone
    is_nested = table.names is not None and table is not part.table
    table = table if is_nested else part.table
    names = table.names or []
    columns = _feature_columns(log, node, names)
    unknown = [name for name in names if name not in columns.values()]
    if is_nested and unknown and not log.ignores_others:
        raise ContextError(f"{who}: columns must be features, which are {features.listed()}; got {brief(unknown[0])}")
    if twice := [name for name in columns.values() if names.count(name) > 1]:
        raise ContextError(f"{who}: column {brief(twice[0])} occurs twice")
    has_mappings = node.name in names and not log.columns.get(node.name)
    if not columns and not has_mappings:
        raise ContextError(f"{who} is missing: no column has one of its features, {features.listed()}")
    try:
        table.collect([*columns.values()])
        read = {name: table.read(name) for name in ([node.name] if has_mappings else columns.values())}
    except ODD:
        raise ContextError(f"{who}: its features cannot be read from {brief(table.data)}") from None
    for column in read.values():
        log.check_length(part, node, len(column.values))
    length = log.length or 0
    if has_mappings:
        values = enumerate(read[node.name].tolist())
        lines = [features.encoded(f"{who} in round {number}", value) for number, value in values]
        return np.array(lines).reshape(length, len(features.columns))
    blocks = [
        _encode_feature(who, features, feature, read[columns[feature.name]])
        if feature.name in columns else np.zeros((length, len(feature.names)))
        for feature in features.features
    ]  # fmt: skip
    return np.hstack(blocks)


def _feature_columns(log: Log, node: Node, names: Sequence[Any]) -> dict[str, Any]:
    """Return the names of the columns of a context's features: as `columns` says, or `user.age`, or `age`."""
    assert node.features is not None
    named: Any = log.columns.get(node.name) or {}
    features = node.features.listed()
    if not isinstance(named, Mapping) or any(
        name not in [own.name for own in node.features.features] for name in named
    ):
        needed = f"columns: entry {node.name!r} must be a mapping of its features ({features}) to names of columns"
        raise IdbanditsError(f"{needed}, got {brief(named)}")
    columns = dict[str, Any]()
    for feature, dotted in zip(node.features.features, dotted_names(node), strict=True):
        if feature.name in named and named[feature.name] not in names:
            column = f"columns: {brief(named[feature.name])}, for feature {feature.name!r} of {node.name!r},"
            raise ContextError(f"{column} must be one of the columns, got {brief(list(names))}")
        candidates = [named[feature.name]] if feature.name in named else [dotted, feature.name]
        if existing := [name for name in candidates if name in names]:
            columns[feature.name] = existing[0]
    return columns


def _encode_feature(who: str, features: RequestFeatures, feature: RequestFeature, column: Column) -> Floats:
    """Encode a column of one feature: one line per round, zeros where it is missing."""
    if feature.labels is None and column.values.dtype.kind in "biuf":
        missing = column.missing
        numbers = np.where(missing, feature.center, column.values.astype(np.float64))
        if np.isfinite(numbers).all():
            with np.errstate(over="ignore"):
                numbers = (numbers - feature.center) / feature.scale
            return np.clip(numbers, -MOST_DEVIATIONS, MOST_DEVIATIONS)[:, np.newaxis]
    codes, distinct = column.factorized
    first = np.empty(len(distinct) + 1, np.int64)  # for each distinct value, the first round that has it
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    start = features.columns.index(feature.names[0])
    lines = [[0.0] * len(features.columns)]  # reached by the code -1
    for value, number in zip(distinct, first.tolist(), strict=False):
        lines.append(features.encoded(f"{who} in round {number}", {feature.name: value}))
    own = np.array(lines)[:, start : start + len(feature.names)]
    return own[codes + 1]


# -- order -------------------------------------------------------------------------------------------------------------


def in_order(batches: Sequence[Batch], most: int, *, mixed: bool) -> Iterator[Batch]:
    """Split batches into parts of at most `most` rounds: in the order of the log, or era by era if `mixed`."""
    if mixed or len(batches) < 2:
        for batch in batches:
            for first in range(0, len(batch.numbers), most):
                yield batch.part(slice(first, first + most))
        return
    numbers = np.sort(np.concatenate([batch.numbers for batch in batches]))
    whose = np.empty(len(numbers), np.int64)
    for k, batch in enumerate(batches):
        whose[np.searchsorted(numbers, batch.numbers)] = k
    done = [0] * len(batches)
    starts = np.flatnonzero(np.diff(whose, prepend=-1))
    for first, last in pairwise([*starts.tolist(), len(whose)]):
        k = int(whose[first])
        for start in range(0, last - first, most):
            size = min(most, last - first - start)
            yield batches[k].part(slice(done[k], done[k] + size))
            done[k] += size
