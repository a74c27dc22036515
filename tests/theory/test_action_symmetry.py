"""Actions up to renaming of choices."""

from __future__ import annotations

import pytest

import idbandits as idb
from idbandits import Diagram, models, theory
from idbandits.errors import InfeasibleError
from idbandits.theory.action_symmetry import Symmetry


def test_kinds_of_actions_are_the_ways_to_repeat_choices() -> None:
    bell = {1: 1, 2: 2, 3: 5, 4: 15}
    for positions, number in bell.items():
        assert len(Symmetry(idb.compile(models.cascade(9, positions, distinct=False))).actions) == number
        assert len(Symmetry(idb.compile(models.cascade(9, positions))).actions) == 1


def test_choices_that_read_shared_rows_in_another_order_are_not_interchangeable() -> None:
    d = Diagram("shifted")
    table = idb.Learned("mean")
    for k, names in enumerate(["abc", "acb"]):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", list(names))], table))
    d.all_different()
    assert len(Symmetry(idb.compile(d)).actions) == 3  # b and c are interchangeable, a is not
    assert theory.check_decomposition(d)[:2] == (2.0, True)  # after (b, c), which read the same row


def test_diagrams_that_no_action_satisfies() -> None:
    d = Diagram("too few")
    a, b, c = d.decision("A", [1, 2]), d.decision("B", [1, 2]), d.decision("C", [1, 2])
    d.reward(d.observed("X", [a, b, c]))
    for pair in ((a, b), (b, c), (a, c)):
        d.all_different(*pair)
    with pytest.raises(InfeasibleError, match="no action"):
        theory.max_observations(d)
