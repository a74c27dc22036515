"""Agents after any sequence of calls: what they hold is what a plain ledger of the surviving rounds says.

`tests/support/lifetime.py` has the operations and what must hold after each. Here, Hypothesis composes lives for
each sort of agent; `python -m tests.fuzz lifetimes` goes on for as long as you like.
"""

from __future__ import annotations

import zlib
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lifetime import OPERATIONS, SETTINGS, Life
from lifetime_rounds import Setting

pytestmark = pytest.mark.filterwarnings("ignore::idbandits.errors.DiagramWarning")
BUDGET = settings(  # without shrinking: it takes minutes, and `python -m tests.fuzz lifetimes` does it in seconds
    max_examples=8, stateful_step_count=25, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


class Lifetime(RuleBasedStateMachine):
    """The life of one agent."""

    setting: ClassVar[Setting]

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(self.setting)

    @rule(operation=st.sampled_from(sorted(OPERATIONS)), seed=st.integers(0, 1000))
    def step(self, operation: str, seed: int) -> None:
        own = zlib.crc32(str(self.setting).encode())  # Hypothesis makes the same choices for all settings
        OPERATIONS[operation](self.life, np.random.default_rng([seed, own]))

    @rule()
    def compare_beliefs(self) -> None:
        self.life.check_belief()

    @invariant()
    def agrees_with_its_ledger(self) -> None:
        self.life.check()


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_an_agent_holds_what_its_surviving_rounds_say(setting: Setting) -> None:
    machine = type("Lifetime", (Lifetime,), {"setting": setting})
    run_state_machine_as_test(machine, settings=BUDGET)
