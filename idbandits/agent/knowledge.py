"""Questions to an agent: properties of it, and what it believes. Nothing here changes the agent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from idbandits.agent.encoding.agreement import places_in
from idbandits.agent.encoding.era import Era
from idbandits.agent.fit_report.fit_report import FitReport, fit_report
from idbandits.agent.learner import Learner
from idbandits.agent.propensity import MOST_DRAWS, NEVER, Marginals, Propensity, Tally, propensity_of
from idbandits.agent.snapshot import Snapshot
from idbandits.circuit.model import Action
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, check_whole
from idbandits.inference import ELBO, Inference, able, name_of
from idbandits.inference.act import Player, Request
from idbandits.inference.forgetting import Forget
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Rng
from idbandits.solve.eligible import Allowed, are_eligible
from idbandits.solve.solver import Solution, Solver


class Knowledge:
    """Read-only part of an agent: a snapshot of what it knows, under the lock of its random generator."""

    rng: Rng
    _solver: Solver
    _known: Snapshot  # replaced as a whole
    _eras: tuple[Era, ...]  # the present diagrams first
    _several: bool
    _names: tuple[str, ...] | None  # of structures, if there may be several

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def learner(self) -> Learner:
        """Return the diagram and the inference, ready to act and learn; of several structures, the first one."""
        return self._known.learners[0]

    @property
    def state(self) -> State:
        """Return what was learned; of several structures, by the first one."""
        return self._known.states[0]

    @property
    def diagram(self) -> Diagram:
        """Return the diagram that the agent acts in; of several structures, the first one."""
        return self.learner.diagram

    @property
    def diagrams(self) -> dict[str, Diagram]:
        """Return the structures by name."""
        return dict(zip(self._eras[0].names, self._eras[0].diagrams, strict=True))

    @property
    def inference(self) -> Inference:
        """Return the inference that the agent learns by."""
        return self.learner.inference

    @property
    def effort(self) -> float:
        """Return the factor on the search for the best action."""
        return self.learner.settings.effort

    @property
    def forget(self) -> Forget | None:
        """Return how fast what was learned fades; None if it does not."""
        return self.learner.forget

    @property
    def rounds(self) -> int:
        """Return the number of rounds learned from, without those removed since."""
        return self._known.rounds

    @property
    def player(self) -> Player | None:
        """Return how the agent acts and learns in compiled code; None if it does so in Python."""
        return None if self._several else self.learner.player

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[Snapshot, Rng]:
        """Return copies of everything that is known and of the random generator."""
        with self.rng.bit_generator.lock:
            return self._known.copy(), copy.deepcopy(self.rng)

    def _apart(self) -> tuple[Snapshot, Rng]:
        """Return a copy of everything that is known, and random numbers other than those of the next actions."""
        known, rng = self._snapshot()
        return known, np.random.default_rng(rng.integers(2**63))

    def _by_structure(self, answer: Callable[[Learner, State], Any], known: Snapshot) -> dict[str, Any]:
        """Ask every structure for a dictionary; return that of the only one, or those of several by name."""
        answers: list[Any] = [
            answer(learner, state) for learner, state in zip(known.learners, known.states, strict=True)
        ]
        first: dict[str, Any] = answers[0]
        return first if self._names is None else dict(zip(self._names, answers, strict=True))

    # -- actions -------------------------------------------------------------------------------------------------------

    def _requests(self, context: Action | None, allowed: Allowed) -> list[Request]:
        """Return, for each structure, an action with its contexts filled in, and the choices that may be made."""
        action, eligible = self._solver.blank_action(context), self._solver.eligible(allowed)
        features = self._eras[0].request(context)
        if not self._several:
            return [Request(action, eligible, features)]
        solvers = [learner.solver for learner in self._known.learners]
        return [
            Request(action.copy(), eligible, features)
            if order.same
            else Request(solver.blank_action(context), solver.eligible(allowed), features)
            for solver, order in zip(solvers, self._eras[0].orders, strict=True)
        ]

    def best_action(self, context: Action | None = None, *, allowed: Allowed = None) -> Solution:
        """Return the action that is best under the mean of the belief, where nothing more is to be learned.

        Of several structures, the one with the largest weight decides.

        Parameters
        ----------
        context, allowed
            As in `act`.

        Returns
        -------
        Solution
            `action`, its expected reward `value` in units of the reward, `exact` and `bound`.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk", "rice"], positions=1), seed=0)
        >>> agent.update_many({"A1": ["milk"] * 3 + ["tea"]}, {"C1": [1, 1, 0, 0]})
        LogReport(rounds=4, impossible=[])
        >>> agent.best_action()
        Solution(action={'A1': 'milk'}, value=0.6, exact=True, bound=0.6)
        """
        requests = self._requests(context, allowed)
        with self.rng.bit_generator.lock:
            known = self._known
            heaviest = int(np.argmax(known.weights())) if self._several else 0
            return known.learners[heaviest].best(known.states[heaviest], self.rng, requests[heaviest])

    def propensity(
        self, action: Action, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000
    ) -> Propensity:
        """Estimate the probability that `act` would take an action now, by draws that leave the agent unchanged.

        Parameters
        ----------
        action : mapping
            Choice of each decision, by name.
        context, allowed
            As in `act`.
        draws : int
            Number of draws; the standard error is at most 0.5 / √draws.

        Returns
        -------
        Propensity
            `probability`, `standard_error`, and the upper bound `upper` (95 %).

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], positions=1), seed=0)
        >>> agent.propensity({"A1": "tea"})
        Propensity(probability=0.488, standard_error=0.0158..., upper=0.5145...)
        >>> agent.propensity({"A1": "tea"}, allowed=["milk"]).upper
        0.0
        """
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        wanted = [model.action_vector(action, context) for model in self._eras[0].models]
        requests = self._requests(context, allowed)
        if not are_eligible(wanted[0], requests[0].eligible, len(self._eras[0].model.decisions)):
            return NEVER
        hits = 0
        for i, learner, state, rng, share in self._shares(number):
            request = requests[i]._replace(action=wanted[i].copy())
            hits += learner.count_acts(state, rng, request, share, wanted=wanted[i])
        return propensity_of(hits, number)

    def marginals(self, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000) -> Marginals:
        """Estimate the probability of each choice of each decision if `act` was called now, as `propensity` does.

        Parameters
        ----------
        context, allowed
            As in `act`.
        draws : int
            Number of draws; standard errors are at most 0.5 / √draws.

        Returns
        -------
        Marginals
            Tables of probabilities and standard errors, one row per choice and one column per decision.

        Examples
        --------
        >>> import idbandits as idb
        >>> idb.Thompson(idb.models.cascade(items=["tea", "coffee", "juice"], positions=2), seed=0).marginals()
        Marginals by 1,000 draws:
                   A1     A2
        choice
        tea     0.328  0.329
        coffee  0.329  0.350
        juice   0.343  0.321
        """
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        requests, decisions = self._requests(context, allowed), self._eras[0].model.decisions
        counts = [np.zeros(node.states, dtype=np.int64) for node in decisions]
        for i, learner, state, rng, share in self._shares(number):
            tally = Tally(learner.model)
            learner.count_acts(state, rng, requests[i], share, tally)
            for node, total in zip(decisions, counts, strict=True):
                own = tally.by_name()[node.name]
                total += own if i == 0 else own[places_in(node, learner.model.nodes[node.name])]
        return Marginals(decisions, requests[0].eligible, counts, number)

    def _shares(self, draws: int) -> Iterator[tuple[int, Learner, State, Rng, int]]:
        """Divide draws among structures, with copies of their states and random numbers."""
        known, rng = self._apart()
        shares = [draws]
        if self._several:
            weights = known.weights()
            shares = rng.multinomial(draws, weights / weights.sum()).tolist()
        members = enumerate(zip(known.learners, known.states, shares, strict=True))
        return ((i, learner, state, rng, share) for i, (learner, state, share) in members if share)

    # -- beliefs -------------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, float]:
        """Return the weight of each structure: the probability, from 0 to 1, that it is acted by.

        Examples
        --------
        >>> import idbandits as idb
        >>> idb.Thompson([idb.models.cascade(3, 2), idb.models.position_based(3, 2)], seed=0).weights()
        {'cascade': 0.5, 'position-based': 0.5}
        """
        with self.rng.bit_generator.lock:
            return dict(zip(self._eras[0].names, self._known.weights().tolist(), strict=True))

    def sample(self) -> dict[str, Any]:
        """Draw the means of all learned tables once, as `act` does.

        Returns
        -------
        dict of ndarray
            Means by table, in the shape of `Posterior.mean`: P(1) of two states, else all states on the last axis.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.position_based(items=4, positions=2), seed=0)
        >>> {table: means.shape for table, means in agent.sample().items()}
        {'attraction': (4,), 'examination': (2,)}
        """
        with self.rng.bit_generator.lock:
            return self._by_structure(lambda own, state: own.sample(state, self.rng), self._known)

    def draws(self, number: int) -> dict[str, Any]:
        """Draw the means of all tables jointly, without using up the agent's random numbers.

        Functions of several tables, such as products of means, have correct intervals this way.

        Parameters
        ----------
        number : int
            Number n of draws.

        Returns
        -------
        dict of ndarray
            Draws by table, of shape (n, *shape of `Posterior.mean`).

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.rank1(3, 2), seed=0)
        >>> for _ in range(200):
        ...     agent.update({"A1": 0, "A2": 1}, {"X": 1})
        >>> draws = agent.draws(1000)
        >>> product = draws["row"][:, 0] * draws["column"][:, 1]
        >>> product.shape, bool(0.97 < product.mean() < 1)
        ((1000,), True)
        """
        entries = max(learner.evidence.learned for learner in self._known.learners)
        count = check_whole("the number of draws", number, 1, MOST_DRAWS // max(1, entries))
        known, rng = self._apart()
        return self._by_structure(lambda learner, state: learner.draws(state, rng, count), known)

    def posterior(self) -> dict[str, Any]:
        """Return the belief of every learned table.

        Returns
        -------
        dict of Posterior
            Beliefs by table, with mean, standard deviation and quantiles of every row.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], positions=1), seed=0)
        >>> agent.update({"A1": "milk"}, {"C1": 1})
        >>> agent.posterior()["attraction"].mean.round(2).tolist()
        [0.5, 0.67]
        """
        known, rng = self._snapshot()
        return self._by_structure(lambda learner, state: learner.posterior(state, rng), known)

    def fit_report(self) -> Any:
        """Report whether observations contradict the structure of the diagram, and where.

        It examines a sample of the rounds (all of the first 65,536; fewer if a round has more than 32 numbers), and may
        be requested at any time: its p-values account for repeated use.

        Returns
        -------
        FitReport
            Verdict in words, p-value, and a table of all comparisons.

        Examples
        --------
        >>> import idbandits as idb
        >>> d = idb.Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = idb.Thompson(d, seed=1)
        >>> agent.update({"coin": 2}, {"heads": 1})
        >>> agent.fit_report()
        1 round: too few to judge the structure by; 100 are needed.
        """
        present = self._eras[0]
        for node in present.model.contexts:
            if node.features is not None:
                raise IdbanditsError(
                    f"context {node.name!r} has features: the rounds to judge the structure by lack them"
                )
        known, _ = self._snapshot()
        orders = iter(present.orders if self._several else [None])

        def report(learner: Learner, state: State) -> FitReport:
            order = next(orders)
            sample = known.sample if order is None or order.same else known.sample.renumbered(order.of_rounds)
            return fit_report(learner.model, state.floats[: learner.evidence.live], sample)

        return self._by_structure(report, known)

    def elbo(self) -> float:
        """Return the evidence lower bound L(q) of the paper, in nats: variational inference only.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.position_based(3, 2), "variational", seed=0)
        >>> agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
        >>> round(agent.elbo(), 2)
        -1.92
        """
        if self._several:
            raise IdbanditsError(
                "several structures have no ELBO: it bounds the evidence of one; weights() compares them"
            )
        if ELBO not in self.inference.capabilities:
            raise IdbanditsError(f"inference {name_of(self.inference)!r} has no ELBO; {able(ELBO)} has")
        known, _ = self._snapshot()
        return float(self.inference.elbo(known.learners[0].evidence, known.states[0]))
