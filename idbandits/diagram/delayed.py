"""Outcomes that come late: what is known of them after some time is observed, not the outcome itself."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from idbandits.diagram.diagram import Diagram, Node, Nodes
from idbandits.diagram.tables import Label
from idbandits.diagram.values import plain
from idbandits.errors import ODD, DiagramError, brief


def delayed(
    d: Diagram, outcome: Node | str, by: Iterable[Label], *, delay: Any = None, parents: Nodes = ()
) -> list[Node]:
    """Declare what is seen of a latent outcome that comes late: one observed node for each time at which one looks.

    `outcome` has two states; the second one says that it comes at all, by the last of the times `by`. These are growing
    numbers, or labels in the order of time. A latent node `"… delay"` says by which of them it comes, and the observed
    nodes `"… by 3"`, … whether it has come by then, so the last one shows the outcome itself. `delay` is the table of
    the delay, a learned one if it is not given, and `parents` are the nodes that the delay depends on.

    Report each node when a round is so old, whether the outcome has come or not, and leave out what lies in the future.

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
        raise DiagramError(f"delayed: d is a Diagram, not {brief(d)}")
    node = _outcome(d, outcome)
    times = _times(by)
    waiting, seen = f"{node.name} delay", [f"{node.name} by {time}" for time in times]
    for name in (waiting, *seen):
        if name in d.nodes:
            raise DiagramError(f"delayed: node {name!r} is declared already")
    late = d.latent(waiting, parents, delay, states=times)
    earlier = [
        d.observed(name, [node, late], _comes_by(k, len(times)), states=node.values) for k, name in enumerate(seen[:-1])
    ]
    return [*earlier, d.observed(seen[-1], [node], [0.0, 1.0], states=node.values)]


def _comes_by(last: int, windows: int) -> Any:
    """P(seen by the end of a window | outcome, window in which it comes)."""
    in_time = np.arange(windows) <= last
    return np.stack([np.zeros(windows), in_time])


def _outcome(d: Diagram, outcome: Any) -> Node:
    """The node of an outcome, if it can come late."""
    resolved = d.resolve("delayed", [outcome])[0]
    if resolved.kind != "latent":
        given = f"{resolved.name!r} ({resolved.kind})"
        raise DiagramError(f"delayed: the outcome must be latent, not {given}; nodes that show it are declared here")
    if resolved.states != 2:
        states = f"{resolved.states} states; an outcome has two: it does not come, it comes"
        raise DiagramError(f"delayed: {resolved.name!r} has {states}")
    return resolved


def _times(by: Any) -> list[Label]:
    """The times at which one looks, as labels."""
    needed = "by is a list of growing numbers, or of labels in the order of time"
    if isinstance(by, (str, bytes)) or not isinstance(by, Iterable):
        raise DiagramError(f"delayed: {needed}, not {brief(by)}")
    try:
        times = [plain(time) for time in by]
    except ODD:  # arrays without axes, memory
        raise DiagramError(f"delayed: {needed}, not {brief(by)}") from None
    if len(times) < 2:
        raise DiagramError(f"delayed: by has at least two times, not {brief(times)}; with one, there is no delay")
    if all(isinstance(time, str) for time in times):
        return times
    for time in times:
        if not isinstance(time, (int, float)) or isinstance(time, bool) or not abs(time) < np.inf:
            raise DiagramError(f"delayed: {needed}, not {brief(time)} in {brief(times)}")
    if pair := next((pair for pair in pairwise(times) if not pair[0] < pair[1]), None):
        raise DiagramError(f"delayed: by has to grow, but {brief(pair[1])} follows {brief(pair[0])}")
    return times
