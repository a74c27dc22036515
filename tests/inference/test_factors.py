"""Keys of groups from files: those of agents are accepted, everything that is not a factor is rejected."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import idbandits as idb
from diagrams import NAMED
from inferences import diagram_of, taught
from internals import Key, Limits, first_wrong, groups, is_factor, limits_of

DIAGRAMS = [*NAMED, *range(12)]


@functools.cache
def keys_of(make: Callable[[], idb.Diagram] | int) -> tuple[idb.Diagram, list[Key]]:
    """A diagram, and the keys of agents that learned in it."""
    d = diagram_of(make)
    return d, list(groups(taught("gibbs", d, 40)))


def places_in(key: Key) -> tuple[list[int], list[int], list[list[int]]]:
    """Return the places of numbers of terms, numbers of members, and members of each term in a key."""
    of_terms, of_members, members = [], [], []
    at = 1
    for _ in range(key[0]):
        of_terms.append(at)
        at += 1
        for _ in range(key[of_terms[-1]]):
            of_members.append(at)
            members.append(list(range(at + 1, at + 1 + key[at])))
            at += 1 + key[at]
    assert at == len(key)
    return of_terms, of_members, members


def with_number(key: Key, place: int, number: int) -> Key:
    """A key with another number at a place."""
    return (*key[:place], number, *key[place + 1 :])


def spoilt(key: Key, limits: Limits) -> Iterator[tuple[str, Key]]:
    """A key with one thing made wrong, and what that is."""
    of_terms, of_members, members = places_in(key)
    extremes = (-(2**63), -1, 2**31, 2**62, 2**63 - 1)
    for number in (*extremes, 0, key[0] - 1, key[0] + 1, limits.nodes + 1):
        yield f"{number} nodes", with_number(key, 0, number)
    for place in of_terms:
        for number in (*extremes, 0, key[place] + 1, limits.terms + 1):
            yield f"{number} terms at {place}", with_number(key, place, number)
    for place in of_members:
        for number in (*extremes, len(key), len(key) - place):
            yield f"{number} members at {place}", with_number(key, place, number)
    node = -1
    for place, term in zip(of_members, members, strict=True):
        node += sum(1 for t in of_terms if t < place) - 1 - node
        for i in term:
            for number in (-(2**63), -1 - node, -2 - node, limits.entries, 2**63 - 1):
                yield f"member {number} at {i}, in node {node}", with_number(key, i, number)
        for i in term[1:]:
            if key[i - 1] != key[i]:
                exchanged = with_number(with_number(key, i, key[i - 1]), i - 1, key[i])
                yield f"not sorted at {i}", exchanged
    for size in range(1, len(key)):
        yield f"{size} numbers only", key[:size]
    yield "too many numbers", (*key, 0)
    yield "twice", key + key


@pytest.mark.parametrize("make", DIAGRAMS)
def test_keys_of_agents_are_factors(make: Callable[[], idb.Diagram] | int) -> None:
    d, keys = keys_of(make)
    assert first_wrong(d, keys) == -1
    assert all(is_factor(limits_of(d), key) for key in keys)


def test_there_are_keys_to_test() -> None:
    numbers = [len(keys_of(make)[1]) for make in DIAGRAMS]
    assert sum(n > 0 for n in numbers) >= 8
    assert max(key[0] for make in DIAGRAMS for key in keys_of(make)[1]) >= 2  # nodes within nodes


@pytest.mark.parametrize("make", DIAGRAMS)
def test_spoilt_keys_are_rejected_and_not_read_beyond(make: Callable[[], idb.Diagram] | int) -> None:
    d, keys = keys_of(make)
    limits = limits_of(d)
    for g, key in enumerate(keys[:8]):
        for what, wrong in spoilt(key, limits):
            assert not is_factor(limits, wrong), what
            before, after = keys[:g], keys[g + 1 :]
            assert first_wrong(d, [*before, wrong, *after]) == g, what


@pytest.mark.parametrize("make", DIAGRAMS)
def test_random_numbers_are_not_read_beyond(make: Callable[[], idb.Diagram] | int) -> None:
    d, keys = keys_of(make)
    limits, rng = limits_of(d), np.random.default_rng(0)
    likely = [-3, -2, -1, 0, 1, 2, 3, limits.nodes, limits.terms, limits.entries - 1, limits.entries, 2**63 - 1]
    for _ in range(1500):
        if keys and rng.random() < 0.8:
            key = keys[rng.integers(len(keys))]
            for _ in range(int(rng.integers(1, 4))):
                key = with_number(key, int(rng.integers(len(key))), int(rng.choice(likely)))
        else:
            key = tuple(rng.choice(likely, size=rng.integers(1, 12)).tolist())
        wanted = is_factor(limits, key)  # which fails if it reads beyond
        assert (first_wrong(d, [key]) == -1) == wanted
        if wanted:
            places_in(key)  # it can be read as a factor


@pytest.mark.parametrize("make", DIAGRAMS)
def test_sizes_that_lie_are_rejected(make: Callable[[], idb.Diagram] | int) -> None:
    d, keys = keys_of(make)
    sizes = [len(key) for key in keys]
    for g in range(len(keys) - 1):
        for shift in (-sizes[g] + 1, -1, 1, sizes[g + 1] - 1):
            lying = [*sizes[:g], sizes[g] + shift, sizes[g + 1] - shift, *sizes[g + 2 :]]
            if shift and min(lying) > 0:
                assert first_wrong(d, keys, lying) == g
    if len(keys) > 1:
        assert first_wrong(d, keys, [sum(sizes)]) == 0
