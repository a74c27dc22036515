"""Each call of an agent at the same time as each other call: `tests/support/lifetime_threads.py` says what must hold."""

from __future__ import annotations

import itertools

import pytest

from lifetime_rounds import Setting
from lifetime_threads import LEARNING, learn_while_learning, learning_of, read_while_learning, reading_of

pytestmark = pytest.mark.filterwarnings("ignore::idbandits.errors.DiagramWarning")
CALLS = 10
EVERY_PAIR = [Setting("exact", "plain", latent=False), Setting("gibbs", "plain", latent=True)]
OTHERS = [
    Setting("ep"), Setting("variational"), Setting("incremental"), Setting("moments"), Setting("particles"),
    Setting("gibbs", "features", latent=False), Setting("ep", "pooled", latent=True), Setting("moments", "users"),
    Setting("gibbs", "several", latent=False),
]  # fmt: skip


@pytest.mark.parametrize("first", LEARNING)
@pytest.mark.parametrize("setting", EVERY_PAIR, ids=str)
def test_what_is_learned_at_the_same_time_is_what_is_learned_in_turn(setting: Setting, first: str) -> None:
    for second in itertools.islice(LEARNING, list(LEARNING).index(first), None):
        learn_while_learning(setting, [first, second], CALLS, seed=0)


@pytest.mark.parametrize("learning", LEARNING)
@pytest.mark.parametrize("setting", EVERY_PAIR, ids=str)
def test_what_is_read_while_learning_is_of_some_moment(setting: Setting, learning: str) -> None:
    for reading in reading_of(setting):
        read_while_learning(setting, learning, reading, CALLS, seed=0)


@pytest.mark.parametrize("setting", OTHERS, ids=str)
def test_agents_of_all_kinds_learn_in_threads(setting: Setting) -> None:
    learn_while_learning(setting, learning_of(setting), CALLS, seed=0)
    for reading in reading_of(setting):
        read_while_learning(setting, "late update", reading, CALLS, seed=1)
