"""Delayed outcomes: observed nodes for what is known of an outcome after some time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from idbandits.diagram.diagram import Diagram, Node, Nodes
from idbandits.diagram.tables import Label
from idbandits.diagram.values import list_of, plain
from idbandits.errors import DiagramError, brief


def delayed(
    d: Diagram, outcome: Node | str, by: Iterable[Label], *, delay: Any = None, parents: Nodes = ()
) -> list[Node]:
    """Declare what is seen of a delayed latent outcome: one observed node for each observation time.

    A latent node `"… delay"` is the time by which the outcome comes. The observed nodes `"… by 3"`, … show whether it
    has come by then, so the last one shows the outcome itself. Report each node when a round has that age, whether the
    outcome has come or not, and leave out future ones.

    Parameters
    ----------
    d : Diagram
        Diagram to which nodes are added.
    outcome : Node or str
        Latent node with two states; the second one means that the outcome comes at all, by the last of the times.
    by : iterable of labels
        At least two observation times: growing numbers in any unit, or labels in the order of time.
    delay : number, array, function, Learned, or row of a Learned
        Table of the delay, as `cpd` of `Diagram.latent`; by default a learned one.
    parents : Node, str, or iterable of these
        Nodes that the delay depends on.

    Returns
    -------
    list of Node
        Observed nodes, one per time.

    Raises
    ------
    DiagramError
        The outcome is not a latent node of two states, or the times do not grow.

    Examples
    --------
    >>> d = Diagram("shop")
    >>> bought = d.latent("bought", [d.decision("card", ["tea", "milk"])])
    >>> d.reward(bought)
    >>> [node.name for node in delayed(d, bought, by=[3, 7, 30])]
    ['bought by 3', 'bought by 7', 'bought by 30']

    On the third day nothing was bought yet; on the seventh, it was, and the last day cannot say more:

    >>> from idbandits import Thompson
    >>> agent, shown = Thompson(d, seed=0), {"card": "tea"}
    >>> day_3 = {"bought by 3": 0}
    >>> agent.update(shown, day_3)
    >>> day_7 = day_3 | {"bought by 7": 1}
    >>> agent.revise(shown, day_3, day_7)
    >>> agent.posterior()["bought"].mean.round(1).tolist()
    [0.7, 0.5]
    """
    if not isinstance(d, Diagram):
        raise DiagramError(f"delayed: d must be a Diagram, got {brief(d)}")
    (node,) = d.resolve("delayed", [outcome])
    if node.kind != "latent":
        given = f"{node.name!r} ({node.kind})"
        raise DiagramError(f"delayed: outcome must be latent, got {given}; nodes that show it are declared here")
    if node.states != 2:
        needed = "must have two states: it does not come, it comes"
        raise DiagramError(f"delayed: outcome {node.name!r} {needed}; got {node.states}")
    times = _times(by)
    waiting, seen = f"{node.name} delay", [f"{node.name} by {time}" for time in times]
    if repeated := next((name for name in (waiting, *seen) if name in d.nodes), None):
        raise DiagramError(f"delayed: node {repeated!r} is declared already")
    late = d.latent(waiting, parents, delay, states=times)
    windows = np.arange(len(times))
    earlier = [
        d.observed(name, [node, late], np.stack([np.zeros(len(times)), windows <= k]), states=node.values)
        for k, name in enumerate(seen[:-1])
    ]  # P(it has come by the end of window k | outcome, window in which it comes)
    return [*earlier, d.observed(seen[-1], [node], [0.0, 1.0], states=node.values)]


def _times(by: Any) -> list[Label]:
    """Return the observation times as labels."""
    needed = "delayed: by must be a list of growing numbers >= 0, or of labels in the order of time"
    times = [plain(time) for time in list_of(needed, by)]
    if len(times) < 2:
        raise DiagramError(f"delayed: by must have at least two times, got {brief(times)}; with one, there is no delay")
    if all(isinstance(time, str) for time in times):
        return times
    for time in times:
        if not isinstance(time, (int, float)) or isinstance(time, bool) or not 0 <= time < np.inf:
            raise DiagramError(f"{needed}, got {brief(time)} in {brief(times)}")
    if pair := next((pair for pair in pairwise(times) if not pair[0] < pair[1]), None):
        raise DiagramError(f"delayed: by must grow, got {brief(pair[1])} after {brief(pair[0])}")
    return times
