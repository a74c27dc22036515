"""Algorithm 1 of the paper (idTSvi) as written, in NumPy: each round visits all rounds and joint latent states."""

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from idbandits.circuit.build import rows_of_use, starts, strides
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Known, Label, Use
from idbandits.kernel.array_types import Floats
from idbandits.solve.solver import best_action

Ints = npt.NDArray[np.intp]
Values = Mapping[str, Any]  # labels by node


@final
class Literal:
    """Variational inference over all rounds so far: one sweep per round, starting from the last q.

    Its beliefs equal those of `Variational(start="prior", literal=True)`, and it is the baseline of speed comparisons.

    The address of an entry in a node's table is the start of the node, plus an offset by the visible nodes (decisions,
    contexts, observed nodes) of a round, plus an offset by the joint latent state. A learned table depends on few
    latent nodes, so its logarithms are looked up once for each combination of their states, a *slot*. The matrix
    `members` (slots × joint latent states) adds logarithms up, and adds q up to expected counts.

    >>> from idbandits import models
    >>> learner = Literal(models.cascade(items=3, positions=2), seed=0)
    >>> learner.update(learner.act(), {"C1": 0, "C2": 0})
    >>> learner.alpha["attraction"].shape
    (3, 2)
    """

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        self.diagram, self._rng = d, np.random.default_rng(seed)
        self._visible = d.of_kind("decision", "context", "observed")
        latent, chance = d.of_kind("latent"), d.of_kind("latent", "observed")
        shape = [n.states for n in latent]
        joint = np.indices(shape, dtype=np.intp).reshape(len(latent), math.prod(shape))  # one column per joint state

        tables = list(d.learned.values())
        self._starts = dict(zip(d.learned, starts([t.prior.ravel() for t in tables])[:-1], strict=True))
        states = np.concatenate([np.full(math.prod(t.shape), t.states, dtype=np.intp) for t in tables])
        self._row_of = np.repeat(np.arange(len(states)), states)  # of each entry
        self._row_starts = np.cumsum(states) - states
        self._prior = np.concatenate([t.prior.ravel() for t in tables])
        self._alpha = self._prior.copy()

        learned = [n for n in chance if isinstance(n.cpd, Use)]
        blocks = [self._entries(n) for n in learned]
        self._entry_at, self._learned_starts = np.concatenate(blocks), np.array(starts(blocks)[:-1])
        self._learned_strides = _strides(d, learned, self._visible)
        slots = [np.unique(offsets, return_inverse=True) for offsets in _strides(d, learned, latent) @ joint]
        self._slots = np.concatenate([offsets for offsets, _ in slots])
        self._owner = np.repeat(np.arange(len(learned)), [len(offsets) for offsets, _ in slots])  # of each slot
        self._members = np.concatenate([np.eye(len(offsets))[:, slot] for offsets, slot in slots])

        known = [n for n in chance if isinstance(n.cpd, Known)]
        with np.errstate(divide="ignore"):
            logs = [np.log(n.cpd.table.ravel()) for n in known if isinstance(n.cpd, Known)]
        self._log_at, self._known_starts = (
            np.concatenate([*logs, np.empty(0)]),
            np.array(starts(logs)[:-1], dtype=np.intp),
        )
        self._known_strides = _strides(d, known, self._visible)
        self._known_offsets = _strides(d, known, latent) @ joint

        self.rounds = 0
        self._entry = np.empty((len(self._slots), 16), dtype=np.intp)  # slots × rounds
        self._known = np.empty((joint.shape[1], 16))  # joint latent states × rounds

    @property
    def alpha(self) -> dict[str, Floats]:
        """Pseudo-counts of each table, states on the last axis."""
        return {
            name: self._alpha[start : start + table.size].reshape(*table.shape, table.states)
            for (name, table), start in zip(self.diagram.learned.items(), self._starts.values(), strict=True)
        }

    def act(self, context: Values | None = None) -> dict[str, Label]:
        """Return the best action under means drawn from q."""
        gammas = {name: self._rng.standard_gamma(alpha) for name, alpha in self.alpha.items()}
        rows = {name: gamma / gamma.sum(axis=-1, keepdims=True) for name, gamma in gammas.items()}
        means = {name: row[..., 1] if row.shape[-1] == 2 else row for name, row in rows.items()}
        return best_action(self.diagram, means, context).action

    def update(self, action: Values, observation: Values, context: Values | None = None) -> None:
        """Learn from a round by one sweep over all rounds."""
        self.append(action, observation, context)
        self.sweep()

    def append(self, action: Values, observation: Values, context: Values | None = None) -> None:
        """Add a round to the history; the observation must have all observed nodes."""
        values = {**action, **observation, **(context or {})}
        states = np.array([n.index(values[n.name]) for n in self._visible], dtype=np.intp)
        base = self._known_starts + self._known_strides @ states
        known = self._log_at[base[:, np.newaxis] + self._known_offsets].sum(axis=0)
        if known.max() == -np.inf:
            raise ValueError(f"the diagram gives this round probability zero: {values}")
        if self.rounds == self._known.shape[1]:
            self._entry = np.concatenate([self._entry, np.empty_like(self._entry)], axis=1)
            self._known = np.concatenate([self._known, np.empty_like(self._known)], axis=1)
        base = self._learned_starts + self._learned_strides @ states
        self._entry[:, self.rounds] = self._entry_at[base[self._owner] + self._slots]
        self._known[:, self.rounds] = known
        self.rounds += 1

    def sweep(self) -> None:
        """Perform one E-step (eq. estep) for every round, and one M-step (eq. mstep)."""
        from scipy.special import digamma

        entry, known = self._entry[:, : self.rounds], self._known[:, : self.rounds]
        logs = digamma(self._alpha) - digamma(np.add.reduceat(self._alpha, self._row_starts))[self._row_of]
        q = self._members.T @ logs[entry]
        q += known
        q -= q.max(axis=0)
        np.exp(q, out=q)
        q /= q.sum(axis=0)
        counts = self._members @ q
        self._alpha = self._prior + np.bincount(entry.ravel(), counts.ravel(), minlength=len(self._prior))

    def _entries(self, node: Node) -> Ints:
        """Return the entry of the learned tables for each address of a node."""
        assert isinstance(node.cpd, Use)
        rows = rows_of_use(self.diagram, node).reshape(-1, 1)
        entries: Ints = rows * node.states + np.arange(node.states) + self._starts[node.cpd.name]
        return entries.ravel()


def _strides(d: Diagram, nodes: list[Node], others: list[Node]) -> Ints:
    """Return the strides (nodes × others) of the others in each node's table; the node's own axis is the last."""
    rows = np.zeros((len(nodes), len(others)), dtype=np.intp)
    for k, node in enumerate(nodes):
        axes = [*node.parents, node.name]
        steps = dict(zip(axes, strides([d.nodes[name].states for name in axes], 1), strict=True))
        rows[k] = [steps.get(other.name, 0) for other in others]
    return rows
