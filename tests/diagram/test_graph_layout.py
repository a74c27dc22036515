"""Layouts are checked as data: what overlaps, and where edges run."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from drawn_diagrams import CROWDED_PICTURES, MODEL_PICTURES, OTHER_PICTURES, PICTURES, over, picture
from idbandits.diagram.drawing.boxes import label, listed
from idbandits.diagram.drawing.draw import Picture
from idbandits.diagram.drawing.graph_layout import Layout, Place, along, arrange


@functools.cache  # each picture is checked in several ways
def arranged(drawn: Picture) -> Layout:
    return arrange(drawn.boxes, drawn.edges)


def crossed(layout: Layout, inside: Callable[[Place, np.ndarray], bool]) -> list[tuple[tuple[str, str], str]]:
    """Each edge with a box that it runs through."""
    points = {edge: along(route, 100) for edge, route in layout.routes.items()}
    pairs = itertools.product(points, layout.places)
    return [(edge, name) for edge, name in pairs if name not in edge and inside(layout.places[name], points[edge])]


def in_shape(place: Place, points: np.ndarray) -> bool:
    return bool((place.distance(points) < 1).any())


def in_bounds(place: Place, points: np.ndarray) -> bool:
    return bool((abs(points - (place.x, place.y)) <= (place.half_width, place.half_height)).all(axis=1).any())


@over(PICTURES)
def test_boxes_hold_their_text_and_do_not_overlap(drawn: Picture) -> None:
    layout = arranged(drawn)
    assert set(layout.places) == {box.name for box in drawn.boxes}
    for p, q in itertools.combinations(layout.places.values(), 2):
        apart_x = abs(p.x - q.x) - p.half_width - q.half_width
        apart_y = abs(p.y - q.y) - p.half_height - q.half_height
        assert max(apart_x, apart_y) >= 4
    left, top, right, bottom = layout.corners()
    for box in drawn.boxes:
        place = layout.places[box.name]
        assert left <= place.x - place.half_width < place.x + place.half_width <= right
        assert top <= place.y - place.half_height < place.y + place.half_height <= bottom
        for text, y in box.lines():
            corner = place.x + text.width() / 2, place.y + y + 0.4 * text.size * (1 if y > 0 else -1)
            assert place.distance(corner) <= 1


@over(PICTURES)
def test_edges_run_from_border_to_border_and_through_no_other_box(drawn: Picture) -> None:
    layout = arranged(drawn)
    assert list(layout.routes) == list(drawn.edges)
    for (parent, child), route in layout.routes.items():
        assert layout.places[parent].distance(route[0]) == pytest.approx(1)
        assert layout.places[child].distance(route[-1]) == pytest.approx(1)
        assert route[-1] != pytest.approx(route[-2])  # the arrow has a direction
    assert not crossed(layout, in_shape)


@pytest.mark.parametrize("model", ["cascade", "position_based", "semi_bandit"])
def test_edges_keep_out_of_bounding_boxes_too(model: str) -> None:
    assert not crossed(arranged(MODEL_PICTURES[f"{model} 5"]), in_bounds)


def test_cascade_is_a_grid_of_equal_positions() -> None:
    layout = arranged(MODEL_PICTURES["cascade 5"])
    places = layout.places
    rows = [[places[f"{stem}{k}"] for k in range(1, 6)] for stem in "AWEC"]
    assert all(len({place.y for place in row}) == 1 for row in rows)
    assert [row[0].y for row in rows] == sorted(row[0].y for row in rows)
    for row in rows:
        steps = [b.x - a.x for a, b in itertools.pairwise(row)]
        assert min(steps) > 0
        assert steps == pytest.approx([steps[0]] * 4)
    left, top, right, bottom = layout.corners()
    assert (right - left) / 72 < 7
    assert (bottom - top) / 72 < 5
    assert places["A3"].x == places["W3"].x == places["C3"].x == places["reward"].x


@pytest.mark.parametrize(("positions", "times"), [(2, [3, 7]), (3, [3, 7, 14, 30]), (5, [1, 3, 7])])
def test_times_of_late_outcomes_stand_at_their_positions(positions: int, times: list[int]) -> None:
    layout = arranged(OTHER_PICTURES["late " + str(positions)])
    places = layout.places
    names = ["A{}", "B{}", "B{} delay", *(f"B{{}} by {time}" for time in times)]
    for name in names:  # one row each, and the same steps from position to position
        row = [places[name.format(k)] for k in range(1, positions + 1)]
        assert len({place.y for place in row}) == 1
        steps = [b.x - a.x for a, b in itertools.pairwise(row)]
        assert steps == pytest.approx([places["A2"].x - places["A1"].x] * (positions - 1))
    looks = [places[f"B1 by {time}"].y for time in times]
    assert looks == sorted(looks)
    left, top, right, bottom = layout.corners()
    assert (right - left) / 72 < 5 * positions  # 5 inches per position: it was 14
    assert (bottom - top) / 72 < 5 + len(times)


@pytest.mark.parametrize("model", ["click_chain", "dynamic_bayesian", "user_browsing"])
def test_two_positions_have_the_rows_of_three_though_some_families_have_one_node_only(model: str) -> None:
    def first_position(positions: int) -> list[str]:
        places = arranged(MODEL_PICTURES[f"{model} {positions}"]).places
        return sorted((name for name in places if name.endswith("1")), key=lambda name: places[name].y)

    assert first_position(2) == first_position(3)


def test_decisions_stand_right_above_their_children_without_numbers() -> None:
    places = arranged(picture("", [("A", "L"), ("L", "M"), ("Ask", "N"), ("M", "N")])).places
    assert places["Ask"].y == places["M"].y
    assert places["A"].y < places["L"].y < places["M"].y < places["N"].y


def test_the_reward_is_at_the_bottom() -> None:
    places = arranged(MODEL_PICTURES["click_chain 3"]).places
    names = ("A1", "W1", "R1", "E1", "C1", "G1", "reward")
    assert [places[name].y for name in names] == sorted({place.y for place in places.values()})


def test_names_whose_edges_skip_numbers_have_rows_of_their_own() -> None:
    places = arranged(picture("", [("X1", "X2"), ("X2", "X3"), ("X1", "X3")])).places
    assert places["X1"].y < places["X2"].y < places["X3"].y


@pytest.mark.parametrize(
    ("name", "shown"), [("A1", "A₁"), ("click12", "click₁₂"), ("a_1", "a_1"), ("1", "1"), ("A", "A"), ("A1b", "A1b")]
)
def test_numbers_after_letters_are_subscripts(name: str, shown: str) -> None:
    assert label(name) == shown


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["A1", "A2", "A3"], "A₁, A₂, A₃"),
        (["A1", "A2", "A3", "A4"], "A₁ … A₄"),
        (["A1", "A2", "A3", "A5"], "A₁, A₂, A₃, A₅"),
        (["W1", "R1", "W2", "R2", "W3", "W4"], "W₁ … W₄, R₁, R₂"),
        (list("abcdefg"), "a, b, c, d, e and 2 more"),
        (["x" * 60], "x" * 23 + "…"),
    ],
)
def test_lists_of_names_are_short(names: list[str], words: str) -> None:
    assert listed(names) == words


@over(CROWDED_PICTURES)
def test_many_nodes_without_parents_are_wrapped_into_rows(drawn: Picture) -> None:
    left, top, right, bottom = arranged(drawn).corners()
    assert 0.4 < (right - left) / (bottom - top) < 2.5


def test_a_few_nodes_without_parents_stay_in_one_row() -> None:
    drawn = picture("Few", [("A", "C")], nodes=list("EFGHIJ"))
    layout = arrange(drawn.boxes, drawn.edges)
    assert len({layout.places[name].y for name in "AEFGHIJ"}) == 1
