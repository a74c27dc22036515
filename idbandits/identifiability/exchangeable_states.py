"""Exchangeable latent states: exchanged with the rows that read them, prior and likelihood stay the same."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Known, Use
from idbandits.identifiability.information import CLEAR, Information
from idbandits.identifiability.reduce_choices import take_values
from idbandits.kernel.array_types import Floats, Ints

MOST_WORK = 40_000  # edges of the likelihood that are evaluated, over all pairs of states that are tried
SAME = 1e-9  # differences of log-likelihoods below count as 0


class Exchange(NamedTuple):
    """Exchange of two states of latent nodes, and the order of the learned parameters that it causes."""

    nodes: tuple[str, ...]
    states: tuple[int, int]
    order: Ints


def exchanges(info: Information) -> list[Exchange]:
    """Return the exchanges of two neighbouring states of a latent node that change neither prior nor likelihood."""
    model, by_order = info.model, dict[bytes, Exchange]()
    pairs = [(node, pair) for node in model.latents for pair in pairwise(range(node.states))]
    for node, pair in pairs[: max(4, MOST_WORK // (1 + len(model.likelihood.circuit.child)))]:
        order = _order(model, _permuted_with(model.diagram, node, pair))
        if order is None or not _moves_a_seen_row(info, order) or not _keeps_prior(model, order):
            continue
        key = order.tobytes()
        if key in by_order:
            by_order[key] = by_order[key]._replace(nodes=(*by_order[key].nodes, node.name))
        elif _keeps_likelihood(info, order):
            by_order[key] = Exchange((node.name,), pair, order)
    return list(by_order.values())


def _permuted_with(d: Diagram, start: Node, pair: tuple[int, int]) -> dict[str, Ints]:
    """Return the permutation of a node's states, and those of latent nodes below that keep known tables unchanged."""
    order = np.arange(start.states)
    order[list(pair)] = pair[::-1]
    permuted = {start.name: order}
    for node in d.nodes.values():  # parents come before children
        if node.kind == "latent" and isinstance(node.cpd, Known) and any(p in permuted for p in node.parents):
            own = _restoring(node.cpd.table, take_values(node.cpd.table, node.parents, permuted))
            if own is not None and (own != np.arange(node.states)).any():
                permuted[node.name] = own
    return permuted


def _restoring(table: Floats, changed: Floats) -> Ints | None:
    """Return the permutation of a node's states that undoes the change of a table; None if there is none."""
    before = {column.tobytes(): state for state, column in enumerate(np.moveaxis(table, -1, 0).copy())}
    places = [before.get(column.tobytes(), -1) for column in np.moveaxis(changed, -1, 0).copy()]
    if -1 in places or len(set(places)) < len(places):
        return None
    return np.argsort(places)


def order_of(model: Model, exchange: Exchange) -> Ints | None:
    """Return the order of the learned parameters that an exchange causes in a model with more choices."""
    order = _order(model, _permuted_with(model.diagram, model.nodes[exchange.nodes[0]], exchange.states))
    return None if order is None or not _keeps_prior(model, order) else order


def _keeps_prior(model: Model, order: Ints) -> bool:
    """Return whether exchanged parameters have equal priors: pseudo-counts, or features."""
    tables = model.learned.values()
    prior = np.concatenate([np.empty(0), *(table.prior_entries for table in tables)])
    features = np.concatenate([np.empty(0, np.int64), *(table.features_of_entries for table in tables)])
    return bool((prior[order] == prior).all() and (features[order] == features).all())


def _order(model: Model, permuted: dict[str, Ints]) -> Ints | None:
    """Return the parameter that takes the place of each learned one; None if two nodes disagree."""
    order = np.full(model.parameters.learned_size, -1)
    for node in model.nodes.values():
        if isinstance(node.cpd, Use) and (node.name in permuted or any(p in permuted for p in node.parents)):
            rows = rows_of_use(model.diagram, node)
            others = take_values(rows, node.parents, permuted)
            states = np.arange(node.states)
            first = model.parameters.offsets[node.cpd.name]
            place = (first + node.states * rows[..., np.newaxis] + states).ravel()
            taken = (first + node.states * others[..., np.newaxis] + permuted.get(node.name, states)).ravel()
            if ((order[place] >= 0) & (order[place] != taken)).any():
                return None
            order[place] = taken
            if (order[place] != taken).any():  # a node disagrees with itself
                return None
    order = np.where(order < 0, np.arange(len(order)), order)
    return order if len(np.unique(order)) == len(order) else None


def _moves_a_seen_row(info: Information, order: Ints) -> bool:
    moved = order != np.arange(len(order))
    rows = zip(info.rows, info.unseen, strict=True)
    return any(moved[row.first : row.first + row.states].any() for row, unseen in rows if not unseen)


def _keeps_likelihood(info: Information, order: Ints) -> bool:
    """Return whether an exchange changes means, but not the likelihood of any round."""
    means, logs = info.point.means, info.point.logs
    changed = exchanged(means, order)
    return bool(np.abs(means - changed).max() > CLEAR and np.abs(info.log_likelihoods(changed) - logs).max() < SAME)


def exchanged(means: Floats, order: Ints) -> Floats:
    """Return all parameters after an exchange of learned ones."""
    return np.concatenate([means[order], means[len(order) :]])
