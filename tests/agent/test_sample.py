"""The rounds that an agent remembers: all of the first ones, then a uniform sample."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import idbandits as idb
from idbandits.agent.sample import ROOM, Sample
from idbandits.errors import FormatError, ImpossibleObservationError
from inside import sampled


def numbered(first: int, last: int) -> np.ndarray:
    """Rounds whose decision is their number."""
    return np.stack([np.arange(first, last), np.arange(first, last) % 2], axis=1)


def test_the_first_rounds_are_all_kept() -> None:
    sample = Sample(2)
    for row in numbered(0, 1000):
        sample.add(row[:1], row[1:])
    np.testing.assert_array_equal(sample.rounds, numbered(0, 1000))
    assert sample.count == 1000


def test_one_by_one_is_the_same_as_many_at_once() -> None:
    rounds = numbered(0, 3 * ROOM)
    one, many = Sample(2), Sample(2)
    for row in rounds:
        one.add(row[:1], row[1:])
    for part in np.array_split(rounds, 7):
        many.add_many(np.ascontiguousarray(part))
    np.testing.assert_array_equal(one.rounds, many.rounds)
    assert one.count == many.count == 3 * ROOM
    assert len(one.rounds) == ROOM


def test_the_sample_is_uniform() -> None:
    """Each tenth of 20 ROOM rounds has a tenth of the sample, and so has each place; 4.5 sd, which the hash passes."""
    sample = Sample(2)
    sample.add_many(numbered(0, 20 * ROOM))
    kept = sample.rounds[:, 0]
    assert len(set(kept.tolist())) == ROOM
    for counts in (np.bincount(kept // (2 * ROOM), minlength=10), np.bincount(kept % 10, minlength=10)):
        assert np.abs(counts - ROOM / 10).max() < 4.5 * np.sqrt(ROOM * 0.09)
    assert abs(np.corrcoef(np.arange(ROOM), kept)[0, 1]) < 4.5 / np.sqrt(ROOM)  # anyone's place


def test_rounds_are_replaced_and_taken_back() -> None:
    sample = Sample(2)
    sample.add_many(numbered(0, 10))
    sample.replace(np.array([3, 1]), np.array([3, -1]))
    assert sample.rounds[3].tolist() == [3, -1]
    sample.replace(np.array([4, 0]), None)
    assert sample.count == 9
    assert sorted(sample.rounds[:, 0].tolist()) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    sample.replace(np.array([77, 0]), None)  # not kept
    assert sample.count == 9
    sample.add(np.array([10]), np.array([0]))
    assert sample.rounds[-1].tolist() == [10, 0]


def test_a_hole_in_a_full_sample_is_filled() -> None:
    sample = Sample(2)
    sample.add_many(numbered(0, ROOM + 5))
    sample.replace(sample.rounds[7], None)
    assert sample.kept == ROOM - 1
    sample.add_many(numbered(0, 40 * ROOM))
    assert sample.kept == ROOM


def test_copies_are_apart() -> None:
    sample = Sample(2)
    sample.add_many(numbered(0, 5))
    other = sample.copy()
    other.add(np.array([9]), np.array([1]))
    other.impossible += 1
    assert (sample.count, sample.impossible, other.count) == (5, 0, 6)


def test_arrays_for_files_and_back() -> None:
    model = idb.compile(idb.models.cascade(4, 1))
    sample = Sample(2)
    sample.add_many(np.array([[3, 1], [0, -1], [2, 0]]))
    sample.impossible = 2
    again = Sample.from_arrays(model, *sample.to_arrays())
    assert (again.count, again.kept, again.impossible) == (3, 3, 2)
    np.testing.assert_array_equal(again.rounds, sample.rounds)
    again.add(np.array([1]), np.array([0]))
    assert again.count == 4


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [
        ([3, 2, 0], [[0, 0]]),  # fewer rows than it says
        ([1, 2, 0], [[0, 0], [0, 0]]),  # more than were shown
        ([2, 2, -1], [[0, 0], [0, 0]]),
        ([2, 2, 0, 0], [[0, 0], [0, 0]]),
        ([1, 1, 0], [[4, 0]]),  # no such item
        ([1, 1, 0], [[-1, 0]]),
        ([1, 1, 0], [[0, 2]]),
        ([1, 1, 0], [[0, -2]]),
        ([1, 1, 0], [[0, 0, 0]]),
        ([2**63 - 1, 1, 0], [[0, 0]]),
    ],
)
def test_arrays_from_strangers_are_checked(numbers: list[int], rows: list[list[int]]) -> None:
    model = idb.compile(idb.models.cascade(4, 1))
    with pytest.raises(FormatError):
        Sample.from_arrays(model, np.array(numbers, np.int64), np.array(rows, np.int32))
    with pytest.raises(FormatError):
        Sample.from_arrays(model, np.array([1, 1, 0], np.int64), np.array([[0, 0]], np.int64))  # type: ignore[arg-type]


# -- in an agent ---------------------------------------------------------------------------------------------------


def cascade_agent() -> idb.Thompson:
    return idb.Thompson(idb.models.cascade(3, 2), inference="exact", seed=0)


def test_what_fails_leaves_nothing_behind() -> None:
    agent = cascade_agent()
    agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    with pytest.raises(ImpossibleObservationError):
        agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
    with pytest.raises(ValueError, match="A2"):
        agent.update({"A1": 0}, {"C1": 1})
    with pytest.raises(ImpossibleObservationError):
        agent.update_many({"A1": [0, 0], "A2": [1, 1]}, {"C1": [1, 1], "C2": [0, 1]})
    assert sampled(agent).rounds.tolist() == [[0, 1, 1, 0]]
    assert sampled(agent).impossible == 1  # a log is refused as a whole, and named


def test_an_interrupted_round_is_not_kept() -> None:
    class Interrupted(Exception):  # noqa: N818
        pass

    class Inference:
        evidence, start, belief = idb.Exact().evidence, idb.Exact().start, idb.Exact().belief

        def __init__(self) -> None:
            self.settings: dict[str, object] = {}

        def learn(self, *arguments: object) -> int:
            raise Interrupted

    agent = idb.Thompson(idb.models.cascade(3, 2), inference=Inference(), seed=0)
    with pytest.raises(Interrupted):
        agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    with pytest.raises(Interrupted):
        agent.update_many({"A1": [0], "A2": [1]}, {"C1": [1], "C2": [0]})
    assert sampled(agent).count == sampled(agent).kept == 0


def test_revised_rounds_are_revised_here_too() -> None:
    agent = idb.Thompson(idb.models.cascade(3, 2), inference="gibbs", seed=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 0})
    agent.revise({"A1": 0, "A2": 1}, {"C1": 0}, {"C1": 0, "C2": 1})
    assert sampled(agent).rounds.tolist() == [[0, 1, 0, 1]]
    agent.revise({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}, None)
    assert sampled(agent).count == 0


def test_copies_and_pickles_remember() -> None:
    agent = cascade_agent()
    agent.update_many({"A1": [0, 1], "A2": [1, 2]}, {"C1": [1, 0], "C2": [0, 0]})
    for other in (agent.copy(), agent.copy(seed=3), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        np.testing.assert_array_equal(sampled(other).rounds, sampled(agent).rounds)
        other.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 0})
    assert sampled(agent).count == 2


def test_remembering_draws_no_random_numbers_of_the_agent() -> None:
    d = idb.models.position_based(4, 2)
    agents = [idb.Thompson(d, seed=5) for _ in range(2)]
    for t in range(150):
        actions = [agent.act() for agent in agents]
        assert actions[0] == actions[1]
        for agent, action in zip(agents, actions, strict=True):
            agent.update(action, {"C1": t % 2, "C2": t % 3 == 0})
        if t % 50 == 49:
            agents[1].fit_report()
