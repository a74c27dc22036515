"""The rounds that an agent remembers: all of the first ones, then a uniform sample."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import idbandits as idb
from idbandits.agent.encoding.agreement import Translation
from idbandits.agent.fit_report.sample import ROOM, Sample, room_for
from idbandits.errors import FormatError, ImpossibleObservationError
from internals import sampled


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


def small(room: int) -> Sample:
    """A sample with less room than usual."""
    sample = Sample(2)
    sample.room = room
    return sample


@pytest.mark.parametrize("lists", [1, 50, 10**6])
def test_outcomes_that_are_reported_late_are_as_likely_to_be_kept(lists: int) -> None:
    """4,000 rounds are reported without an outcome and revised, clicks first: a tenth were clicked, also in the sample.

    With one list all rounds are alike before they are revised; with a million, none are. 4.5 sd of the share.
    """
    sample, rounds, room = small(500), 4000, 500
    items = np.random.default_rng(0).integers(lists, size=rounds)
    clicked = np.arange(rounds) % 10 == 0
    sample.add_many(np.stack([items, np.full(rounds, -1)], axis=1))
    for number in [*np.flatnonzero(clicked), *np.flatnonzero(~clicked)]:
        sample.replace(np.array([items[number], -1]), np.array([items[number], int(clicked[number])]))
    assert sample.count == rounds
    seen = sample.rounds[:, 1]
    known = seen[seen >= 0]
    assert 0.7 * room < len(known) <= sample.kept <= room
    assert (seen < 0).sum() < 0.25 * room
    assert abs((known == 1).mean() - 0.1) < 4.5 * np.sqrt(0.09 / len(known))


@pytest.mark.parametrize("lists", [5, 10**6])
def test_what_is_taken_back_leaves_a_uniform_sample(lists: int) -> None:
    """Of 8,000 rounds, those of an even kind are taken back, then as many are added: 4.5 sd.

    Which of equal rounds were kept is not known, so a few of these may stay.
    """
    sample, rng = small(1000), np.random.default_rng(1)
    rounds = np.stack([rng.integers(lists, size=8000), np.arange(8000) % 2], axis=1)
    sample.add_many(rounds)
    for row in rounds[rounds[:, 1] == 0]:
        sample.replace(row, None)
    assert sample.count == 4000
    assert abs(sample.kept - 500) < 4.5 * np.sqrt(250) + 10
    assert (sample.rounds[:, 1] == 0).sum() <= (0 if lists > 5 else 80)
    sample.add_many(np.stack([rng.integers(lists, size=4000), np.full(4000, 2)], axis=1))
    assert abs((sample.rounds[:, 1] == 2).mean() - 0.5) < 4.5 * np.sqrt(0.25 / sample.kept)
    assert sample.count == 8000


def test_a_smaller_sample_of_an_earlier_version_stays_uniform() -> None:
    """A file with 8,192 of 100,000 rounds: new rounds are kept with the same share, not all of them. 4.5 sd."""
    model = idb.compile(idb.models.cascade(4, 1))
    old = Sample.from_arrays(model, np.array([100_000, 8192, 0]), np.zeros((8192, 2), np.int32))
    old.add_many(np.ones((100_000, 2), np.int64))
    assert abs((old.rounds[:, 0] == 1).mean() - 0.5) < 4.5 * np.sqrt(0.25 / 16384)


def test_the_room_depends_on_the_width_of_a_round() -> None:
    assert [room_for(width) for width in (1, 32, 33, 64, 65, 1000)] == [
        ROOM,
        ROOM,
        ROOM // 2,
        ROOM // 2,
        ROOM // 4,
        8192,
    ]
    sample = Sample(300)
    sample.add_many(np.zeros((10_000, 300), np.int64))
    assert (sample.kept, sample.count) == (8192, 10_000)


def test_late_rounds_are_numbered_as_the_present_diagram_numbers_them() -> None:
    old = idb.compile(idb.models.cascade(["a", "b", "c"], 2))
    new = idb.compile(idb.models.cascade(["c", "x", "a"], 3))
    fewer = idb.compile(idb.models.cascade(["c", "x", "a"], 1))
    rounds = np.array([[0, 2, 1, -1], [1, 2, 0, 0]])  # "a" and "c"; "b" and "c"
    assert Translation(old, fewer).of_rounds(rounds).tolist() == [[2, 1]]
    sample = Sample(2)
    sample.add_many(Translation(old, fewer).of_rounds(rounds))
    assert sample.rounds.tolist() == [[2, 1]]
    assert not len(Translation(old, new).of_rounds(rounds))  # a third decision, which those rounds did not make
    empty = Sample(6)
    empty.add_many(Translation(old, new).of_rounds(rounds))
    assert empty.count == 0


def test_a_copy_shares_rounds_until_one_of_both_changes() -> None:
    sample = small(100)
    sample.add_many(numbered(0, 1000))
    for change in (
        lambda s: s.add_many(numbered(0, 500)),
        lambda s: s.replace(s.rounds[3], None),
        lambda s: [s.add(np.array([t]), np.array([1])) for t in range(500)],
    ):
        for changed_first in (True, False):
            other = sample.copy()
            one, two = (other, sample) if changed_first else (sample, other)
            before = two.rounds.copy()
            change(one)
            np.testing.assert_array_equal(two.rounds, before)
            assert not np.array_equal(one.rounds, before)


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
        ([1, 1, 0], [[4, 0]]),  # no such item
        ([1, 1, 0], [[-1, 0]]),
        ([1, 1, 0], [[0, 2]]),
        ([1, 1, 0], [[0, -2]]),
        ([1, 1, 0], [[0, 0, 0]]),
        ([2**63 - 1, 1, 0], [[0, 0]]),
    ],
)
def test_arrays_from_files_are_validated(numbers: list[int], rows: list[list[int]]) -> None:
    model = idb.compile(idb.models.cascade(4, 1))
    with pytest.raises(FormatError):
        Sample.from_arrays(model, np.array(numbers, np.int64), np.array(rows, np.int32))


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
    assert sampled(agent).impossible == 1  # the whole log is rejected


def test_an_interrupted_round_is_not_kept() -> None:
    class Interrupted(Exception):  # noqa: N818
        pass

    class Inference(idb.inference.Inference):
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
