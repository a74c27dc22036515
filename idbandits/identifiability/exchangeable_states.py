"""Latent states that can be exchanged: with the rows that read them, and neither prior nor likelihood would notice."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Known, Use
from idbandits.identifiability.information import CLEAR, Information
from idbandits.kernel.array_types import Bools, Floats, Ints

MOST_WORK = 40_000  # edges of the likelihood that are looked at, over all pairs of states that are tried
SAME = 1e-9  # how far log-likelihoods may be apart that are equal


class Exchange(NamedTuple):
    """Latent nodes, two states of the first, and the learned parameters that take each other's places."""

    nodes: tuple[str, ...]
    states: tuple[int, int]
    order: Ints


def exchanges(info: Information) -> list[Exchange]:
    """All exchanges of two neighbouring states of a latent node that leave prior and likelihood as they are."""
    model, found = info.model, dict[bytes, Exchange]()
    d = model.diagram
    pairs = [(node, pair) for node in model.latents for pair in pairwise(range(node.states))]
    unseen = info.unseen if pairs else np.empty(0, dtype=np.bool_)
    for node, pair in pairs[: max(4, MOST_WORK // (1 + len(model.likelihood.circuit.child)))]:
        permuted = _permuted_with(d, node, pair)
        order = _order(model, permuted)
        if order is None or not _moves_what_is_seen(info, order, unseen) or not _keeps_prior(model, order):
            continue
        key = order.tobytes()
        if key in found:
            found[key] = found[key]._replace(nodes=(*found[key].nodes, node.name))
        elif _is_same(info, order):
            found[key] = Exchange((node.name,), pair, order)
    return list(found.values())


def _permuted_with(d: Diagram, start: Node, pair: tuple[int, int]) -> dict[str, Ints]:
    """The exchange, and the permutations of latent nodes below that keep known tables as they are."""
    order = np.arange(start.states)
    order[list(pair)] = pair[::-1]
    permuted = {start.name: order}
    for node in d.nodes.values():  # parents come before children
        if node.kind == "latent" and isinstance(node.cpd, Known) and any(p in permuted for p in node.parents):
            own = _restoring(node.cpd.table, _with_parents(node, node.cpd.table, permuted))
            if own is not None and (own != np.arange(node.states)).any():
                permuted[node.name] = own
    return permuted


def _with_parents(node: Node, table: Floats | Ints, permuted: dict[str, Ints]) -> Floats | Ints:
    """A table over a node's parents with their values permuted."""
    for axis, name in enumerate(node.parents):
        if name in permuted:
            table = table.take(permuted[name], axis=axis)
    return table


def _restoring(table: Floats, changed: Floats | Ints) -> Ints | None:
    """The permutation of a node's states that makes a changed table the same again, if there is one."""
    before = {column.tobytes(): state for state, column in enumerate(np.moveaxis(table, -1, 0).copy())}
    places = [before.get(column.tobytes(), -1) for column in np.moveaxis(changed, -1, 0).copy()]
    if -1 in places or len(set(places)) < len(places):
        return None
    return np.argsort(places)


def order_of(model: Model, exchange: Exchange) -> Ints | None:
    """The same exchange in a model with more choices, as an order of its learned parameters."""
    order = _order(model, _permuted_with(model.diagram, model.nodes[exchange.nodes[0]], exchange.states))
    return None if order is None or not _keeps_prior(model, order) else order


def _keeps_prior(model: Model, order: Ints) -> bool:
    """Whether the parameters that take each other's places have the same prior: pseudo-counts, or features."""
    tables = model.learned.values()
    prior = np.concatenate([np.empty(0), *(table.prior_entries for table in tables)])
    features = np.concatenate([np.empty(0, np.int64), *(table.features_of_entries for table in tables)])
    return bool((prior[order] == prior).all() and (features[order] == features).all())


def _order(model: Model, permuted: dict[str, Ints]) -> Ints | None:
    """The parameter that takes the place of each learned one; None where two nodes do not agree on it."""
    order = np.full(model.parameters.learned_size, -1)
    for node in model.nodes.values():
        if isinstance(node.cpd, Use) and (node.name in permuted or any(p in permuted for p in node.parents)):
            rows = rows_of_use(model.diagram, node)
            others = _with_parents(node, rows, permuted)
            states = np.arange(node.states)
            first = model.parameters.offsets[node.cpd.name]
            place = (first + node.states * rows[..., np.newaxis] + states).ravel()
            taken = (first + node.states * others[..., np.newaxis] + permuted.get(node.name, states)).ravel()
            if ((order[place] >= 0) & (order[place] != taken)).any():
                return None
            order[place] = taken
            if (order[place] != taken).any():  # one row by itself, two ways
                return None
    order = np.where(order < 0, np.arange(len(order)), order)
    return order if len(np.unique(order)) == len(order) else None


def _moves_what_is_seen(info: Information, order: Ints, unseen: Bools) -> bool:
    moved = order != np.arange(len(order))
    return any(
        moved[row.first : row.first + row.states].any() for row, no in zip(info.rows, unseen, strict=True) if not no
    )


def _is_same(info: Information, order: Ints) -> bool:
    """Whether the likelihoods of all rounds are the same after the exchange, and not because they never change."""
    means = info.point.means
    changed = exchanged(means, order)
    return bool(
        np.abs(means - changed).max() > CLEAR and np.abs(info.log_likelihoods(changed) - info.point.logs).max() < SAME
    )


def exchanged(means: Floats, order: Ints) -> Floats:
    """All parameters after an exchange of learned ones."""
    return np.concatenate([means[order], means[len(order) :]])
