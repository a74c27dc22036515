"""Two concurrent calls of one agent: the result must be that of some sequential order.

Each thread makes a prepared list of calls. Sequential runs determine the allowed results:

- after both threads have ended, rounds and the log-likelihood of the state do not depend on the order of calls;
- a read during learning returns the result after some of the calls of the other thread.
"""

from __future__ import annotations

import functools
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import idbandits as idb
from internals import held_by, log_likelihood_held
from lifetime import Life, takes_back
from lifetime_rounds import LETTERS, MEANS, Played, Setting, Shape, log_of, random_observation, random_round, row_mean

Rng = np.random.Generator
OLD, NEW = Shape(LETTERS), Shape("dbe")  # most late rounds show items without any learned round
BEFORE = 12  # rounds of each diagram learned before threads start


Learning = Callable[[Any], Any]  # a call that learns


def prepared(setting: Setting, seed: int) -> Life:
    """Return an agent that moved, with rounds of both diagrams."""
    life, rng = Life(setting, seed), np.random.default_rng(seed)
    for life.shape, shown in ((OLD, "abcd"), (NEW, NEW.items)):
        life.agent, life.settled = life.agent.moved_to(life.targets(life.shape)), None
        for _ in range(BEFORE):
            played = random_round(setting, life.shape._replace(items=shown), rng)
            played.shape = life.shape
            life.agent.update(played.action, played.observation, played.context)
            life.ledger.append(played)
    return life


# -- calls that learn --------------------------------------------------------------------------------------------------


def one_round(life: Life, rng: Rng, late: bool) -> Played:
    """Return a round of the current diagram, or one that only the earlier diagram allows."""
    played = random_round(life.setting, OLD if late else NEW, rng)
    while late and set(played.action.values()) <= set(NEW.items):
        played = random_round(life.setting, OLD, rng)
    return played


def updating(life: Life, rng: Rng, late: bool) -> Learning:
    """Return a call of `update`."""
    played = one_round(life, rng, late)
    return lambda agent: agent.update(played.action, played.observation, played.context)


def logging(life: Life, rng: Rng, late: bool) -> Learning:
    """Return a call of `update_many` with late rounds among others."""
    rounds = [one_round(life, rng, late and k % 2 == 0) for k in range(4)]
    return lambda agent: agent.update_many(*log_of(rounds, NEW))


def revising(life: Life, rng: Rng, late: bool) -> Learning:
    """Return a call of `revise` of a round that no other call revises."""
    own = [played for played in life.ledger if late != (set(played.action.values()) <= set(NEW.items))]
    if not own:
        return updating(life, rng, late)
    old = own[0]
    life.ledger.remove(old)
    seen = random_observation(life.setting, old.shape, old.action, rng, 0.0)
    return lambda agent: agent.revise(old.action, old.observation, seen, old.context)


LEARNING: dict[str, Callable[[Life, Rng], Learning]] = {
    "update": functools.partial(updating, late=False),
    "late update": functools.partial(updating, late=True),
    "update_many": functools.partial(logging, late=False),
    "late update_many": functools.partial(logging, late=True),
    "revise": functools.partial(revising, late=False),
    "late revise": functools.partial(revising, late=True),
}


def learning_of(setting: Setting) -> list[str]:
    """Return the calls that learn."""
    return [name for name in LEARNING if takes_back(setting) or "revise" not in name]


# -- calls that read ---------------------------------------------------------------------------------------------------

Read = tuple[float, ...]


def held_numbers(setting: Setting, agent: Any) -> Read:
    """Return rounds and differences of log-likelihoods: everything that does not depend on the order of rounds."""
    numbers = [float(agent.rounds)]
    for held in held_by(agent).values() if setting.counts else ():
        found = [log_likelihood_held(held, functools.partial(row_mean, setting, k)) for k in range(MEANS)]
        numbers += np.subtract(found, found[0]).tolist()
    return tuple(numbers)


def saved(setting: Setting, agent: Any) -> Read:
    """Return the content of a file."""
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent")
        return held_numbers(setting, idb.Thompson.load(Path(folder) / "agent"))


def moved(setting: Setting, agent: Any, life: Life) -> Read:
    """Return the belief of an agent that moved back."""
    return held_numbers(setting, agent.moved_to(life.targets(OLD)))


def believed(setting: Setting, agent: Any) -> Read:
    """Return the number of rounds of each row, an exact count if everything is observed."""
    posterior = agent.posterior()
    tables = (
        posterior.values() if not setting.has("several") else [t for own in posterior.values() for t in own.values()]
    )
    if setting.latent or not setting.counts:
        return ()
    return tuple(np.concatenate([table.rounds.ravel() for table in tables]).tolist())


def chosen(setting: Setting, agent: Any, life: Life) -> Read:
    """Return the value of the best action if the belief is a count."""
    solution = agent.best_action(context_of(life))
    assert set(solution.action.values()) <= set(NEW.items)
    exact = setting.inference == "exact" and setting.kind in ("plain", "fixed")
    return (solution.value,) if exact else ()


def acted(agent: Any, life: Life) -> Read:
    """Act; the result is random."""
    assert set(agent.act(context_of(life)).values()) <= set(NEW.items)
    return ()


def probable(agent: Any, life: Life) -> Read:
    """Estimate probabilities of some moment."""
    action = {"A1": NEW.items[0], "A2": NEW.items[1]}
    assert 0 <= agent.propensity(action, context_of(life), draws=5).probability <= 1
    agent.marginals(context_of(life), draws=5)
    return ()


def drawn(agent: Any) -> Read:
    """Draw means of some moment."""
    assert all(((draws >= 0) & (draws <= 1)).all() for draws in agent.draws(3).values())
    return ()


def reported(agent: Any) -> Read:
    """Check that the rounds of a fit report are among those learned."""
    return (float(agent.fit_report().rounds),)


def context_of(life: Life) -> Any:
    """Return a context to act in."""
    return random_round(life.setting, NEW, np.random.default_rng(0)).context


READING: dict[str, Callable[[Life, Any], Read]] = {
    "copy": lambda life, agent: held_numbers(life.setting, agent.copy()),
    "pickle": lambda life, agent: held_numbers(life.setting, pickle.loads(pickle.dumps(agent))),
    "save": lambda life, agent: saved(life.setting, agent),
    "moved_to": lambda life, agent: moved(life.setting, agent, life),
    "posterior": lambda life, agent: believed(life.setting, agent),
    "best_action": lambda life, agent: chosen(life.setting, agent, life),
    "act": lambda life, agent: acted(agent, life),
    "propensity": lambda life, agent: probable(agent, life),
    "draws": lambda life, agent: drawn(agent),
    "fit_report": lambda life, agent: reported(agent),
}


def reading_of(setting: Setting) -> list[str]:
    """Return the calls that read and whose result can be checked."""
    lacks = {"several": {"draws", "fit_report"}, "users": {"fit_report"}}.get(setting.kind, set())
    return [name for name in READING if name not in lacks]


def are_equal(one: Read, other: Read) -> bool:
    """Return True if numbers are equal up to rounding."""
    return np.allclose(one, other, rtol=1e-9, atol=1e-7)


# -- threads -----------------------------------------------------------------------------------------------------------


def in_threads(*works: Callable[[], None]) -> None:
    """Run functions in threads that start together; raise the first exception."""
    raised, barrier = list[BaseException](), threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=[work], daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a thread hangs"
    finally:
        sys.setswitchinterval(interval)
    if raised:
        raise raised[0]


def learn_while_learning(setting: Setting, names: Sequence[str], calls: int, seed: int) -> None:
    """Check that concurrent calls that learn have the result of one thread."""
    life = prepared(setting, seed)
    rng = np.random.default_rng([seed, 1])
    lists = [[LEARNING[name](life, rng) for _ in range(calls)] for name in names]
    alone = life.agent.copy()
    for learning in (each for own in lists for each in own):
        learning(alone)
    in_threads(*[lambda own=own: [each(life.agent) for each in own] for own in lists])  # type: ignore[misc]
    assert are_equal(held_numbers(setting, life.agent), held_numbers(setting, alone))


def read_while_learning(setting: Setting, learning: str, reading: str, calls: int, seed: int) -> None:
    """Check that reads during learning return the result after some of the other calls."""
    life = prepared(setting, seed)
    rng = np.random.default_rng([seed, 2])
    learn, read = [LEARNING[learning](life, rng) for _ in range(calls)], functools.partial(READING[reading], life)
    alone, found = life.agent.copy(), list[Read]()
    possible = [read(alone)]
    for each in learn:
        each(alone)
        possible.append(read(alone))
    ended = threading.Event()

    def learn_all() -> None:
        try:
            for each in learn:
                each(life.agent)
        finally:
            ended.set()

    def read_all() -> None:
        while not ended.is_set():
            found.append(read(life.agent))

    in_threads(learn_all, read_all)
    assert are_equal(held_numbers(setting, life.agent), held_numbers(setting, alone))
    wrong = [numbers for numbers in found if not any(are_equal(numbers, other) for other in possible)]
    assert not wrong, f"{len(wrong)} of {len(found)} results are of no moment, such as {wrong[0]}"
