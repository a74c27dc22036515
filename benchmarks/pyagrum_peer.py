"""Convert a diagram with means to an influence diagram or, given an action, to a Bayesian network of pyAgrum."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from idbandits import Diagram
from idbandits.diagram.diagram import Node
from idbandits.diagram.tables import Known

with warnings.catch_warnings():  # warnings of SWIG crash the interpreter if they are errors, as in the tests
    warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
    gum: Any = importlib.import_module("pyagrum")  # its types are incomplete
    importlib.import_module("pyagrum.influence_diagram")  # else imported at its first use

Floats = npt.NDArray[np.float64]
Memory = Literal["all decisions before", "the decision before", "nothing"]


def table_of(d: Diagram, node: Node, means: Mapping[str, Any]) -> Floats:
    """Return P(node | parents): axes of the parents, then the states."""
    assert node.cpd is not None
    if isinstance(node.cpd, Known):
        return node.cpd.table
    rows = np.asarray(means[node.cpd.name], dtype=np.float64)
    if node.states == 2:
        rows = np.stack([1 - rows, rows], axis=-1)
    shape = [d.nodes[p].states for p in node.parents]
    if node.cpd.rows is not None:
        rows = rows[np.broadcast_to(node.cpd.rows, shape)]
    return rows.reshape(*shape, node.states)


@final
class PyAgrumDiagram:
    """Influence diagram of pyAgrum, built once and solved under many means.

    Nothing is observed between decisions, so no chance node points to a decision. As a LIMID in which no decision
    knows any other, pyAgrum rejects the diagrams measured here ("not solvable"). It solves the diagram in which each
    decision knows all earlier ones (no-forgetting assumption). Earlier decisions carry no information about the
    world, so the optimal sequence of decisions is the best action. If the diagram has unconnected parts, the
    decisions of pyAgrum are wrong either way (`pyagrum_position_based`).

    If each decision knows only the previous one, solving is faster from three decisions on. pyAgrum accepts this
    shortcut, whose results are correct on cascades, but not in general (`pyagrum_diagrams.one_table`).
    """

    def __init__(self, d: Diagram, memory: Memory = "all decisions before", one_utility: bool = False) -> None:
        self.diagram, self.memory = d, memory
        self.decisions = [n.name for n in d.of_kind("decision")]
        self.graph = gum.InfluenceDiagram()
        for node in d.nodes.values():
            variable = gum.LabelizedVariable(node.name, node.name, node.states)
            (self.graph.addChanceNode if node.is_chance else self.graph.addDecisionNode)(variable)
        for node in d.nodes.values():
            for parent in node.parents:
                self.graph.addArc(parent, node.name)
        if memory == "the decision before":
            for before, after in zip(self.decisions, self.decisions[1:], strict=False):
                self.graph.addArc(before, after)
        terms = [(term.parents, term.table) for term in d.rewards]
        for k, (parents, table) in enumerate([_sum(d, terms)] if one_utility else terms):
            name = f"utility {k}"
            self.graph.addUtilityNode(gum.LabelizedVariable(name, name, 1))
            for parent in parents:
                self.graph.addArc(parent, name)
            _fill(self.graph.utility(name), (*parents, name), table[..., np.newaxis])
        for node in d.of_kind("latent", "observed"):
            if isinstance(node.cpd, Known):
                _fill(self.graph.cpt(node.name), (*node.parents, node.name), node.cpd.table)

    def fill(self, means: Mapping[str, Any]) -> None:
        """Set the learned tables."""
        for node in self.diagram.of_kind("latent", "observed"):
            if not isinstance(node.cpd, Known):
                table = table_of(self.diagram, node, means)
                _fill(self.graph.cpt(node.name), (*node.parents, node.name), table)

    def solve(self) -> tuple[dict[str, int], Any]:
        """Return the best action and a new inference object, because inference objects keep old tables."""
        inference = gum.ShaferShenoyLIMIDInference(self.graph)
        if self.memory == "all decisions before":
            inference.addNoForgettingAssumption(self.decisions)
        inference.makeInference()
        action: dict[str, int] = {}
        for name in self.decisions:
            policy = inference.optimalDecision(name)
            earlier = {other: action[other] for other in policy.names if other != name}
            action[name] = int((policy.extract(earlier) if earlier else policy).toarray().argmax())
        return action, inference


def network(d: Diagram, given: Mapping[str, int], means: Mapping[str, Any]) -> Any:
    """Return the chance nodes as a Bayesian network; `given` contains indices of decisions and contexts."""
    net = gum.BayesNet()
    chance = d.of_kind("latent", "observed")
    for node in chance:
        net.add(gum.LabelizedVariable(node.name, node.name, node.states))
    for node in chance:
        parents = [p for p in node.parents if p not in given]
        for parent in parents:
            net.addArc(parent, node.name)
        at = tuple(given.get(p, slice(None)) for p in node.parents)
        _fill(net.cpt(node.name), (*parents, node.name), table_of(d, node, means)[at])
    return net


def _fill(tensor: Any, axes: Sequence[str], values: Floats) -> None:
    """Fill a tensor of pyAgrum, in which the first variable varies fastest."""
    order = [axes.index(name) for name in reversed(tensor.names)]
    tensor.fillWith(np.ascontiguousarray(values.transpose(order)).ravel())


def _sum(d: Diagram, terms: Sequence[tuple[Sequence[str], Floats]]) -> tuple[list[str], Floats]:
    """Return the sum of all reward terms as one table."""
    over = list(dict.fromkeys(p for parents, _ in terms for p in parents))
    total = np.zeros([d.nodes[p].states for p in over])
    for parents, table in terms:
        order = np.argsort([over.index(p) for p in parents])
        shape = [d.nodes[p].states if p in parents else 1 for p in over]
        total += table.transpose(order).reshape(shape)
    return over, total
