"""What an inference is: a state, and a function that takes in a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from idbandits.circuit.model import Model
from idbandits.inference.evidence import Evidence
from idbandits.inference.groups import State
from idbandits.kernel.types import Floats, Ints, Rng

Learn: TypeAlias = Callable[[Ints, Floats, Ints, Floats, Rng, Ints, Ints, int, int], int]


class Inference(Protocol):
    """How an agent learns. Settings are its attributes; what it learns is in a `State` that it is handed.

    `learn(program, numbers, ints, floats, rng, action, seen, times, effort)` takes in a round (`times` equal ones;
    taken back if negative) and brings the belief up to date: not yet with effort 0, as after every round with 1,
    thoroughly, as after many rounds at once, with 2. It says DONE, or why it could not, and then nothing has changed.
    `program` and `numbers` are those of the `Evidence` that it asked for. A function made by `compiled` runs inside
    the fused loop of `simulate`; a plain Python one works everywhere, at Python's speed.
    """

    @property
    def learn(self) -> Learn:
        """Takes in a round, as said above."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make an equal inference."""

    def evidence(self, model: Model) -> Evidence:
        """The likelihood in the form that it learns from."""

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The state before the first round; floats[:evidence.learned] are the pseudo-counts that actions use."""

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Pseudo-counts of all learned entries; or draws of them, a row each, where pseudo-counts do not say all."""
