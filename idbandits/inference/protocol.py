"""Base class of inferences, built-in and custom.

An inference maps arrays to arrays. Settings are attributes of an object; everything that it learns is in a `State`,
which it declares once (`inference.state.sections`) and receives with every call.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import IdbanditsError, brief
from idbandits.inference.act import draw
from idbandits.inference.gibbs.summary import Summary
from idbandits.inference.rounds.evidence import Evidence, folded, literal
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.sections import PSEUDO_COUNTS, Declaration, Layout, per_entry
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Floats, Rng

MOST_STEPS = 10_000  # of a setting per round: sweeps, iterations, steps
NUDGE = 0.5  # of a pseudo-count: by how much interchangeable states differ at the start

# Capabilities. REVISE: `learn` removes rounds exactly (`times < 0`). FORGET: it lets what was learned fade by
# `round_.keep`, and weighs the round by `round_.weight`. FEATURES: tables may have features; all pseudo-counts of the
# state are shifted when the prior changes. CONTEXT_FEATURES: tables may depend on contexts with features; `learn` is a
# kernel that keeps nothing of a round but pseudo-counts, and changes only those of rows that the round reads. CHAIN:
# the state is that of a Markov chain, so priors by features are drawn along it. ELBO: `elbo` is defined. MOVE: agents
# may move to another diagram; `learn` gets late rounds with the evidence of their own diagram (`Evidence.entry`).
REVISE, FORGET, FEATURES, CONTEXT_FEATURES, CHAIN, ELBO, MOVE = (
    "revise", "forget", "features", "context features", "chain", "elbo", "move",
)  # fmt: skip


class Counts(NamedTuple):
    """Sections of a state that holds pseudo-counts and their prior.

    Attributes
    ----------
    alpha : array
        Pseudo-counts of all learned entries, from which actions are drawn.
    prior : array
        Pseudo-counts of the prior, which regressions change.

    Examples
    --------
    >>> list(Declaration(Counts).sections)
    ['alpha', 'prior']
    """

    alpha: Floats = per_entry(PSEUDO_COUNTS)
    prior: Floats = per_entry(PSEUDO_COUNTS)


class Inference:
    """Base class of inferences: how an agent learns.

    A subclass defines `learn`, and overrides whatever differs from these defaults: a state of pseudo-counts that start
    with the prior, from which actions are drawn. docs/how-to/custom-inference.md has examples.

    `settings` are the arguments that make an equal inference, `declared` is the `Declaration` of its state, and
    `capabilities` a set of `REVISE`, `FORGET`, `FEATURES`, `CONTEXT_FEATURES`, `ELBO` and `MOVE`. Methods get the
    compiled `model`, its likelihood as `evidence`, the `state`, and a generator `rng` of random numbers. The arrays
    have one number per learned entry (`evidence.learned` in all): table by table, row by row, state by state.

    Examples
    --------
    >>> import idbandits as idb
    >>> class Ignoring(Inference):
    ...     def learn(self, evidence, state, rng, round_):
    ...         return idb.inference.DONE
    >>> agent = idb.Thompson(idb.models.semi_bandit(3, 1), inference=Ignoring(), seed=0)
    >>> agent.update({"A1": 2}, {"X1": 1})
    >>> agent
    Thompson('semi-bandit', Ignoring; 1 round)
    """

    declared: ClassVar[Declaration] = Declaration(Counts)
    capabilities: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}  # arguments that make an equal inference

    def learn(self, evidence: Any, state: State, rng: Rng, round_: Round) -> int:
        """Learn from a round and bring the belief up to date as far as `round_.effort` says; change `state` in place.

        As a kernel of the signature LEARN, which `learner` makes, it gets `evidence` packed, and runs inside the loops
        of `simulate` and `update_many`; as a method it gets the `Evidence`, and runs at the speed of Python.

        Parameters
        ----------
        evidence : Evidence
            Likelihood of the diagram.
        state : State
            State to change.
        rng : Generator
            Random numbers.
        round_ : Round
            Round to learn from.

        Returns
        -------
        int
            DONE; or why the round cannot be learned (IMPOSSIBLE, AMBIGUOUS, UNKNOWN), with an unchanged state.
        """
        raise IdbanditsError(f"inference {type(self).__name__} must define `learn`")

    def evidence(self, model: Model) -> Evidence:
        """Return the likelihood in the form that `learn` reads: folded, unless the setting `literal` is True."""
        return model.derived(literal if self.settings.get("literal") else folded)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Return the state before the first round."""
        return self.declared.start(evidence, self.settings)

    def layout(self, evidence: Evidence) -> Layout:
        """Return the kinds of all numbers of a state, by which files and moves treat them."""
        return self.declared.layout(evidence, self.settings)

    def restored(self, evidence: Evidence, state: State) -> State:
        """Return a state from a file or a move, with everything that is derived."""
        return state

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Return pseudo-counts of all learned entries, shape (learned,); or draws of means, one per row."""
        return state.floats[: evidence.learned]

    def predictive(self, evidence: Evidence, state: State) -> Floats | None:
        """Return pseudo-counts that predict rounds better than those that actions are drawn from.

        They are a view of the floats of `state`, or None.
        """
        return None

    def draws(self, evidence: Evidence, state: State, rng: Rng, number: int) -> Floats | None:
        """Return `number` joint draws of all means, shape (number, entries).

        None if the state does not hold numbers to draw from.
        """
        belief = self.belief(evidence, state, rng)
        if belief.ndim == 2:
            return belief[rng.integers(len(belief), size=number)]
        means, floats = np.empty((number, evidence.live)), state.floats.copy()
        floats[: evidence.learned] = belief
        acting = state._replace(floats=floats)
        return means if all(draw(evidence.packed, acting, 1.0, rng, row) for row in means) else None

    def summary(self, evidence: Evidence, state: State, rng: Rng) -> Summary | None:
        """Return moments and draws of entries that pseudo-counts do not describe; None if there are none.

        The state may be changed: callers pass a copy.
        """
        return None

    def refresh(self, evidence: Evidence, state: State, rng: Rng) -> None:
        """Bring a state up to date after its prior has changed."""

    def elbo(self, evidence: Evidence, state: State) -> float:
        """Return L(q) of the paper, a lower bound of the log-probability of everything observed."""
        raise IdbanditsError(f"inference {type(self).__name__} has no ELBO")


def check_word(name: str, word: Any, words: Collection[str]) -> str:
    """Validate a setting that is one of some words."""
    if not isinstance(word, str) or word not in words:
        raise IdbanditsError(f"{name} must be one of {', '.join(map(repr, words))}, got {brief(word)}")
    return word


def asymmetric(evidence: Evidence, rng: Rng) -> Floats:
    """Return the prior, slightly off where latent states are interchangeable: a symmetric belief may stay symmetric."""
    prior = evidence.prior.copy()
    moved = np.zeros(len(prior), np.bool_)
    for order in chain.from_iterable(evidence.relabellings):
        moved |= order != np.arange(len(prior))
    prior[moved] += NUDGE * rng.random(int(moved.sum()))
    return prior
