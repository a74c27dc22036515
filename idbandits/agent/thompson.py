"""Thompson sampling: an agent that acts in a diagram and learns from what it observes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from idbandits.agent import restore
from idbandits.agent.encoding.agreement import named_alike, named_structures
from idbandits.agent.encoding.era import Era
from idbandits.agent.fork_safety import make_fork_safe
from idbandits.agent.learning_agent import LearningAgent, checked_diagram
from idbandits.agent.snapshot import Snapshot, first_snapshot
from idbandits.agent.storage.metadata import checked_metadata
from idbandits.agent.transfer import Moved, earlier_eras, moved, moved_ledger
from idbandits.agent.warmup import WarmUpReport, kernels_of, warm_up
from idbandits.circuit.model import Action
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import brief
from idbandits.identifiability import warn_of_scales, warn_once
from idbandits.inference import BY_NAME, Exact, Inference, name_of
from idbandits.inference.forgetting import Forget, forgetting
from idbandits.inference.rounds.round import NO_FEATURES
from idbandits.inference.state.state import NEXT_FIT
from idbandits.kernel.array_types import Ints, Rng, generator
from idbandits.kernel.compile import Kernel
from idbandits.kernel.seeding import decision_generator
from idbandits.solve.eligible import EVERY_CHOICE, Allowed
from idbandits.solve.solver import check_effort


@final
class Thompson(LearningAgent):
    """An agent that draws means from its belief and takes the action that is best under them.

    Threads may share an agent: rounds are learned one after the other, and compiled code runs without the GIL.

    With several diagrams, called structures, the agent keeps a belief in each, draws one by its weight, and acts by it.
    Weights follow how well each predicted what was observed (docs/explanation/structure-weights.md). A structure in
    which a round was impossible is excluded. The diagrams share the names and values of decisions, contexts and
    observed nodes, and mean the same by reward. `posterior`, `sample`, `draws` and `fit_report` then return a
    dictionary by structure.

    Parameters
    ----------
    d : Diagram, or list or mapping of Diagram
        Decision problem; a list, or a mapping by name, has the structures to weigh.
    inference : str or Inference, optional
        Name, or an object with settings such as `idb.Variational(sweeps=5)`, compared in
        docs/explanation/inferences.md. By default "gibbs", or "moments" where a context has features.
    seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the random numbers; equal seeds and calls give equal actions.
    effort : float
        Factor on the search for the best action, as in `idb.best_action`.
    forget : Forget, optional
        Half-life of what was learned, for worlds that change (docs/how-to/drift.md).

    Attributes
    ----------
    metadata : dict
        JSON data that `save` stores with the agent.
    carried : Carried, dict of Carried by structure, or None
        Summary of the move that created this agent (`moved_to`).

    Examples
    --------
    >>> import idbandits as idb
    >>> d = idb.Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> agent = idb.Thompson(d, seed=1)
    >>> for _ in range(200):
    ...     action = agent.act()
    ...     agent.update(action, {"heads": int(action["coin"] == 2)})
    >>> agent.act()
    {'coin': 2}
    >>> agent.posterior()["heads"].mean.round(2)[2]
    np.float64(0.99)

    Several structures: two clicks rule out a cascade, in which there is one at most.

    >>> agent = idb.Thompson([idb.models.cascade(5, 2), idb.models.position_based(5, 2)], seed=1)
    >>> agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
    >>> agent.weights()
    {'cascade': 0.0, 'position-based': 1.0}
    """

    carried: Any = None  # what a move carried over (`Carried`); of several structures, by name

    def __init__(
        self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram], inference: str | Inference | None = None,
        seed: Any = None, *, effort: float = 1.0, forget: Forget | None = None,
    ) -> None:  # fmt: skip
        by_name = isinstance(d, (list, tuple, Mapping))
        diagrams = named_structures(d) if by_name else {checked_diagram(d).name: checked_diagram(d)}
        rng, how = generator(seed), (inference, check_effort(effort), forgetting(forget))
        self._begin(restore.Parts(first_snapshot(diagrams, how, rng), rng, tuple(diagrams) if by_name else None))
        for learner in self._known.learners:
            warn_once(learner.model, stacklevel=2)
            if not learner.is_chain:
                warn_of_scales(learner.model, stacklevel=2)

    def _begin(self, parts: restore.Parts) -> Thompson:
        """Set all attributes."""
        self._known, self.rng, self._names, eras, self.carried, metadata = parts
        self.metadata: dict[str, Any] = copy.deepcopy(dict(metadata or {}))  # what the user stored with it (`save`)
        make_fork_safe(self)
        learners = self._known.learners
        labels = self._names or (learners[0].diagram.name,)
        present = Era(dict(zip(labels, (learner.diagram for learner in learners), strict=True)))
        self._eras = (present, *eras)
        self._visited: dict[int, tuple[Diagram, Era]] = {}  # by id of diagrams that rounds are passed with
        self._solver, self._several = learners[0].solver, len(learners) > 1
        kinds = [type(learner.inference) for learner in learners]
        rejects_none = all(kind in BY_NAME.values() and kind is not Exact for kind in kinds)
        self._can_learn_in_place = rejects_none if self._several else learners[0].is_compiled
        self._has_fits = any(state.ints[NEXT_FIT] for state in self._known.states)
        return self

    # -- compiled loops ------------------------------------------------------------------------------------------------

    def make_ready(self) -> None:
        """Make room for another round, and fit regressions if that is due: for compiled loops."""
        known = self._known
        learner, state = known.learners[0], known.learners[0].with_room(known.states[0])
        self._known = known._replace(states=(state, *known.states[1:]))
        if state.wants_fit():
            learner.fit_regressions(state, self.rng)

    def eligible(self, allowed: Allowed) -> Ints:
        """Return the choices that may be made, as numbers for kernels.

        Parameters
        ----------
        allowed : iterable or mapping of iterables, optional
            Choices, as in `act`.

        Returns
        -------
        ndarray of int64
            Packed lists of choices; empty if all choices may be made.
        """
        return self._solver.eligible(allowed)

    # -- acting --------------------------------------------------------------------------------------------------------

    def act(
        self, context: Action | None = None, *, allowed: Allowed = None, seed: int | None = None
    ) -> dict[str, Label]:
        """Return the action that is best under means drawn from the belief.

        Parameters
        ----------
        context : mapping, optional
            Value of each context node, or its features, by name.
        allowed : iterable, or mapping of iterables by decision, optional
            Eligible choices; decisions that are not listed may make any choice.
        seed : int, optional
            Seed of this action alone, which then depends on belief and seed; the agent's random numbers are not used.

        Returns
        -------
        dict
            Choice of each decision, by name.

        Raises
        ------
        ContextError
            If the context does not fit the diagram.
        ActionError
            If no valid action remains under `allowed`.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk", "rice"], positions=2), seed=0)
        >>> sorted(agent.act(allowed=["tea", "rice"]).values())
        ['rice', 'tea']
        >>> agent.act(seed=7) == agent.act(seed=7)
        True
        """
        rng = self.rng if seed is None else decision_generator(seed)
        if self._several:
            return self._act_by_weight(context, allowed, rng)
        present, solver = self._eras[0], self._solver
        numbers: list[float] = []
        action = solver.blank_action(context, request=numbers)
        eligible = EVERY_CHOICE if allowed is None else solver.eligible(allowed)
        features = np.array(numbers) if numbers else NO_FEATURES
        with self.rng.bit_generator.lock:
            known = self._known
            known.learners[0].choose(known.states[0], rng, action, eligible, features)
        chosen = present.model.action_of(action)
        present.remember(chosen, context, action)
        return chosen

    def _act_by_weight(self, context: Action | None, allowed: Allowed, rng: Rng) -> dict[str, Label]:
        requests = self._requests(context, allowed)
        with self.rng.bit_generator.lock:
            known = self._known
            drawn = int(np.searchsorted(np.cumsum(known.weights()), rng.random(), side="right"))
            drawn = min(drawn, len(known.learners) - 1)
            learner, request = known.learners[drawn], requests[drawn]
            learner.choose(known.states[drawn], rng, *request)
        chosen = learner.model.action_of(request.action)
        if self._eras[0].orders[drawn].same:
            self._eras[0].remember(chosen, context, request.action)
        return chosen

    def moved_to(self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram]) -> Thompson:
        """Return an agent in another diagram that keeps everything known about rows of both, matched by labels.

        New rows start from their prior. Rows that the new diagram lacks still inform the others, and rounds that were
        played before may still be learned from (`update`, `update_many`, `revise`).

        Parameters
        ----------
        d : Diagram, or list or mapping of Diagram
            New diagram; of several structures, a diagram for each name.

        Returns
        -------
        Thompson
            New agent, whose `carried` summarises the move.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], 1), seed=0)
        >>> agent.update({"A1": "tea"}, {"C1": 1})
        >>> agent = agent.moved_to(idb.models.cascade(["tea", "rice"], 1))
        >>> agent.posterior()["attraction"].alpha.tolist()
        [[1.0, 2.0], [1.0, 1.0]]
        >>> agent.carried
        attraction: rows 1 kept, 1 new
        0 groups of rounds
        """
        for learner in self._known.learners:
            learner.check_movable()
        diagrams = [checked_diagram(d)] if self._names is None else list(named_alike(d, self._eras[0].names).values())
        known, rng = self._snapshot()
        present, *past = self._eras
        ledger = known.learners[0].unfaded(known.states[0], known.ledger)
        eras = earlier_eras(present, past, diagrams)
        moves = list[Moved]()
        for i, (learner, state, own) in enumerate(zip(known.learners, known.states, diagrams, strict=True)):
            moves.append(moved(learner, state, rng, own, tuple(era.diagrams[i] for era in eras), ledger))
        learners = tuple(move.learner for move in moves)
        sample = known.sample.moved(present.model, learners[0].model)
        ledger = moved_ledger(known.learners[0], ledger, learners[0])
        after = Snapshot(learners, tuple(move.state for move in moves), known.standing, sample, ledger)
        for learner in learners:
            warn_once(learner.model, stacklevel=2)
        reports = [move.carried for move in moves]
        carried: Any = reports[0] if self._names is None else dict(zip(self._names, reports, strict=True))
        return _of(restore.Parts(after, rng, self._names, eras, carried, self.metadata))

    # -- compilation, copies and files ---------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[Kernel]:
        """Return all compiled functions that any method may need."""
        return kernels_of(self._known.learners)

    def warm_up(self, *, processes: int | None = 1) -> WarmUpReport:
        """Compile all machine code that any method may need, or read it from the disk, so that no later call waits.

        Parameters
        ----------
        processes : int or None
            Number of processes that compile (None: one per core). With more than one, a script needs
            `if __name__ == "__main__":`.

        Returns
        -------
        WarmUpReport
            Numbers of kernels, and seconds.

        Examples
        --------
        >>> import idbandits as idb
        >>> report = idb.Thompson(idb.models.cascade(3, 2), "exact").warm_up()
        >>> report.new <= report.kernels
        True
        """
        return warm_up(self.kernels, processes)

    def __repr__(self) -> str:
        own = self.inference.settings if self._names is None else {}
        settings = "".join(f", {name}={brief(value)}" for name, value in own.items())
        settings += f", effort={self.effort:g}" if self.effort != 1.0 else ""
        settings += f", forget={self.forget!r}" if self.forget is not None else ""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        inferences = ", ".join(dict.fromkeys(name_of(learner.inference) for learner in self._known.learners))
        what = repr(self.diagram.name) if self._names is None else f"[{', '.join(map(repr, self._names))}]"
        return f"Thompson({what}, {inferences}{settings}; {rounds})"

    def copy(self, seed: Any = None) -> Thompson:
        """Return an independent agent with equal knowledge.

        Parameters
        ----------
        seed : int, sequence of int, SeedSequence or Generator, optional
            Seed of the copy; by default, it continues with equal random numbers.

        Returns
        -------
        Thompson
            Copy.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(3, 2), seed=0)
        >>> other = agent.copy()
        >>> other.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
        >>> agent.rounds, other.rounds
        (0, 1)
        """
        known, rng = self._snapshot()
        if seed is not None:
            rng = generator(seed)
            if not known.rounds:
                known = known._replace(states=tuple(learner.beginning(rng) for learner in known.learners))
        return _of(restore.Parts(known, rng, self._names, self._eras[1:], self.carried, self.metadata))

    def __deepcopy__(self, memo: dict[int, Any]) -> Thompson:
        return self.copy()

    def __reduce__(self) -> Any:
        known, rng = self._snapshot()
        return _restored, (restore.saved_members(known, rng, self.metadata), known.standing, self._names)

    def save(self, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write the agent to a file atomically: diagram, belief, random numbers and metadata.

        Parameters
        ----------
        path : str or Path
            File to write (docs/reference/files.md).
        metadata : mapping, optional
            JSON data, up to 1 MB, that `load` returns as `agent.metadata`; by default, the agent's own metadata.

        Examples
        --------
        >>> import tempfile
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(3, 2), seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agent.save(f"{folder}/agent.idb", metadata={"learned up to": "2026-11-17"})
        ...     loaded = idb.Thompson.load(f"{folder}/agent.idb", seed=1)
        >>> loaded.metadata
        {'learned up to': '2026-11-17'}
        """
        own = checked_metadata(self.metadata if metadata is None else metadata)
        known, rng = self._snapshot()
        restore.save(path, known, rng, self._names, own)

    @staticmethod
    def load(
        path: str | Path, *, diagram: Any = None, inference: Inference | None = None, seed: Any = None,
        structures: Any = None,
    ) -> Thompson:  # fmt: skip
        """Read an agent from a file.

        Parameters
        ----------
        path : str or Path
            File that `save` wrote.
        diagram : Diagram, optional
            Diagram that the agent must have.
        inference : Inference, optional
            Object of a custom inference, which files do not contain.
        seed : int, sequence of int, SeedSequence or Generator, optional
            Seed of this process. By default, the agent continues with the saved random numbers: processes that load one
            file then choose identical actions.
        structures : list or mapping of Diagram, optional
            Diagrams that an agent of several structures must have.

        Returns
        -------
        Thompson
            Agent that continues where the saved one stopped.

        Raises
        ------
        FormatError
            If the file is damaged, or has an agent of another diagram.

        Examples
        --------
        >>> import tempfile
        >>> import idbandits as idb
        >>> d = idb.models.cascade(3, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     idb.Thompson(d, seed=0).save(f"{folder}/agent.idb")
        ...     agent = idb.Thompson.load(f"{folder}/agent.idb", diagram=d, seed=1)
        >>> agent.diagram.name
        'cascade'
        """
        agent = _of(restore.load(path, diagram if structures is None else structures, inference))
        return agent if seed is None else agent.copy(seed)


def _of(parts: restore.Parts) -> Thompson:
    """Return an agent that is made of these parts."""
    agent: Thompson = object.__new__(Thompson)
    return agent._begin(parts)


def _restored(*saved: Any) -> Thompson:
    """Return an agent from a pickle."""
    return _of(restore.restored(*saved))


Structures = Thompson  # the name of agents of several structures in earlier versions
