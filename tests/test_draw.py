"""Pictures are checked as data: what overlaps, where edges run, what the files say."""

import functools
import hashlib
import itertools
import os
import random
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from idbandits import draw
from idbandits.draw import Box, Picture, along

layout = functools.cache(draw.layout)  # each picture is checked in several ways

KINDS = {"A": "decision", "C": "observed", "X": "observed", "r": "reward"}


def picture(title, edges, tables=(), nodes=(), different=()):
    """Build a picture whose nodes have their kinds by initial: A, C, X, reward; others are latent."""
    names = dict.fromkeys([*itertools.chain.from_iterable(edges), *nodes])
    tables = dict(tables)
    boxes = tuple(
        Box(n, KINDS.get(n[0], "latent"), tables.get(n, ""), "20 choices" if n[0] == "A" else "")
        for n in names
    )
    return Picture(title, boxes, tuple(edges), tuple(different))


def unrolled(title, positions, here, later=(), tables=None):
    """Build a picture of edges between stems: within a position, and to the next one."""
    edges = []
    for k in range(1, positions + 1):
        edges += [(f"{a}{k}", "reward" if b == "reward" else f"{b}{k}") for a, b in here]
        edges += [(f"{a}{k}", f"{b}{k + 1}") for a, b in later if k < positions]
    named = {
        f"{stem}{k}": caption.format(k - 1)
        for stem, caption in (tables or {}).items()
        for k in range(1, positions + 1)
    }
    return picture(title, edges, named, different=[tuple(f"A{k}" for k in range(1, positions + 1))])


CLICK = [("A", "W"), ("W", "C"), ("E", "C")]
ATTRACTION, BOTH = {"W": "attraction"}, {"W": "attraction", "E": "examination[{}]"}


def cascade(k):
    return unrolled("Cascade", k, [*CLICK, ("C", "reward")], [("C", "E"), ("E", "E")], ATTRACTION)


def position_based(k):
    return unrolled("Position based", k, [*CLICK, ("C", "reward")], (), BOTH)


def semi_bandit(k):
    return unrolled("Semi-bandit", k, [("A", "X"), ("X", "reward")], (), {"X": "mean"})


def rank_one(_):
    edges = [("A1", "Z1"), ("A2", "Z2"), ("Z1", "X"), ("Z2", "X"), ("X", "reward")]
    return picture("Rank-1", edges, {"Z1": "row", "Z2": "column"})


def dependent_click(k):
    here, tables = [*CLICK, ("C", "S"), ("S", "reward")], {"W": "attraction", "S": "stop[{}]"}
    return unrolled("Dependent click", k, here, [("S", "E"), ("E", "E")], tables)


def dynamic_bayesian(k):
    here, tables = [*CLICK, ("C", "S"), ("A", "S"), ("S", "reward")], {"W": "attraction", "S": "satisfaction"}
    return unrolled("Dynamic Bayesian network", k, here, [("S", "E"), ("E", "E")], tables)


def user_browsing(k):
    base = position_based(k)
    browse = tuple((f"C{i}", f"E{j}") for i, j in itertools.combinations(range(1, k + 1), 2))
    return Picture("User browsing", base.boxes, base.edges + browse, base.different)


MODELS = [
    pytest.param(model(k), id=f"{model.__name__}-{k}")
    for model in (
        cascade,
        position_based,
        semi_bandit,
        rank_one,
        dependent_click,
        dynamic_bayesian,
        user_browsing,
    )
    for k in (2, 3, 4, 5)
]


def contexts():
    base = cascade(4)
    boxes = (Box("user", "context", "", "5 states"), Box("query", "context", "", "8 states"))
    edges = (*(("user", f"W{k}") for k in range(1, 5)), ("query", "E1"), ("query", "reward"))
    return Picture("Contexts", base.boxes + boxes, base.edges + edges, base.different)


def scattered(stem, chance, seed):
    """Build a random acyclic picture of 30 nodes."""
    rng = random.Random(seed)
    names = [f"{stem}{i}" if stem else chr(0x3B1 + i) for i in range(30)]
    edges = [pair for pair in itertools.combinations(names, 2) if rng.random() < chance]
    return picture("Random", edges, {name: rng.choice(["", "t", "u[1]"]) for name in names}, names)


LONG = "a_name_of_sixty_characters_that_goes_on_and_on_until_the_end"
OTHERS = [
    pytest.param(Picture("One", (Box("A", "decision"),), (), ()), id="single"),
    pytest.param(Picture("", (Box("A", "decision"),), (), ()), id="no title"),
    pytest.param(scattered("X", 0.08, 1), id="30 numbered nodes"),
    pytest.param(scattered("", 0.12, 2), id="30 nodes"),
    pytest.param(picture("Fan", [(f"X{i}", "reward") for i in range(1, 25)]), id="fan-in"),
    pytest.param(picture("Long", [("A", LONG), (LONG, "C"), ("A", "x" * 60)]), id="long names"),
    pytest.param(contexts(), id="contexts"),
    pytest.param(unrolled("No reward", 3, CLICK, [("C", "E")]), id="no reward"),
    pytest.param(picture("Parts", [("A", "C"), ("B", "D")], nodes=["E", "F"]), id="parts"),
    pytest.param(picture("Mixed", [("A", "A1"), ("A1", "A2"), ("A01", "A2")]), id="stem is a name too"),
]

WEIRD = [
    "$a_1$",
    "<b>&\"'",
    "]]>",
    "名前",
    "a\nb\x00c\ud800",
    "\\frac{",
    "%%{init}",
    "#quot;",
    "",
    "١٢",
    "n0",
]


def label(name):
    return draw._label(name)


def overlapping(places):
    """Yield the pairs whose bounding boxes overlap."""
    for (a, p), (b, q) in itertools.combinations(places.items(), 2):
        apart_x = abs(p.x - q.x) - p.half_width - q.half_width
        apart_y = abs(p.y - q.y) - p.half_height - q.half_height
        if max(apart_x, apart_y) < 4:
            yield a, b


def crossed(plan, inside):
    """Yield each edge with a box that it runs through."""
    for edge, route in plan.routes.items():
        for name, place in plan.places.items():
            if name not in edge and any(inside(place, point) for point in along(route, 100)):
                yield edge, name


def in_bounds(place, point):
    return abs(point[0] - place.x) <= place.half_width and abs(point[1] - place.y) <= place.half_height


def texts(svg):
    """Return all text of an SVG file, in order."""
    root = ET.fromstring(svg)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("drawn", MODELS + OTHERS)
def test_boxes_do_not_overlap(drawn):
    plan = layout(drawn)
    assert set(plan.places) == {box.name for box in drawn.boxes}
    assert not list(overlapping(plan.places))


@pytest.mark.parametrize("drawn", MODELS + OTHERS)
def test_edges_run_from_border_to_border_and_through_no_other_box(drawn):
    plan = layout(drawn)
    assert list(plan.routes) == list(drawn.edges)
    for (parent, child), route in plan.routes.items():
        assert plan.places[parent].distance(route[0]) == pytest.approx(1)
        assert plan.places[child].distance(route[-1]) == pytest.approx(1)
    assert not list(crossed(plan, lambda place, point: place.distance(point) < 1))


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("model", [cascade, position_based, semi_bandit, rank_one])
def test_edges_keep_out_of_bounding_boxes_too(model, k):
    assert not list(crossed(layout(model(k)), in_bounds))


@pytest.mark.parametrize("drawn", MODELS + OTHERS)
def test_text_fits_its_box_and_all_fits_the_picture(drawn):
    plan = layout(drawn)
    (left, top), (right, bottom) = plan.top_left, plan.bottom_right
    for box in drawn.boxes:
        place = plan.places[box.name]
        assert left <= place.x - place.half_width and place.x + place.half_width <= right
        assert top <= place.y - place.half_height and place.y + place.half_height <= bottom
        for text, y in draw._offsets(draw._texts(box)):
            corner = place.x + draw._width(text) / 2, place.y + y + 0.4 * text[1] * (1 if y > 0 else -1)
            assert place.distance(corner) <= 1


def test_cascade_is_a_grid_of_equal_positions():
    plan = layout(cascade(5))
    rows = [[plan.places[f"{stem}{k}"] for k in range(1, 6)] for stem in "AWEC"]
    assert all(len({place.y for place in row}) == 1 for row in rows)
    assert [row[0].y for row in rows] == sorted(row[0].y for row in rows)
    for row in rows:
        steps = [b.x - a.x for a, b in itertools.pairwise(row)]
        assert min(steps) > 0 and steps == pytest.approx([steps[0]] * 4)
    (left, top), (right, bottom) = plan.top_left, plan.bottom_right
    assert right - left < 7 * 72 and bottom - top < 5 * 72
    assert plan.places["A3"].x == plan.places["W3"].x == plan.places["C3"].x == plan.places["reward"].x


def test_decisions_stand_right_above_their_children_without_numbers():
    places = layout(picture("", [("A", "L"), ("L", "M"), ("Ask", "N"), ("M", "N")])).places
    assert places["Ask"].y == places["M"].y
    assert places["A"].y < places["L"].y < places["M"].y < places["N"].y


def test_the_reward_is_at_the_bottom():
    here = [*CLICK, ("C", "G"), ("A", "R"), ("R", "G"), ("C", "reward")]
    places = layout(unrolled("Click chain", 3, here, [("G", "E"), ("E", "E")])).places
    assert [places[name].y for name in ("A1", "W1", "R1", "E1", "C1", "G1", "reward")] == sorted(
        {place.y for place in places.values()}
    )


def test_names_that_skip_numbers_get_rows_of_their_own():
    places = layout(picture("", [("X1", "X2"), ("X2", "X3"), ("X1", "X3")])).places
    assert places["X1"].y < places["X2"].y < places["X3"].y


def test_dense_pictures_take_no_exponential_time():
    names = [chr(0x3B1 + i) for i in range(20)]
    assert len(layout(picture("Dense", list(itertools.combinations(names, 2)))).routes) == 190


@pytest.mark.parametrize("drawn", MODELS + OTHERS)
def test_svg_is_well_formed_and_has_every_name(drawn):
    found = "".join(texts(drawn.svg()))
    # Wrapped names lose the spaces at their breaks only, and these have none.
    assert all(label(box.name) in found for box in drawn.boxes)


def test_notebooks_show_the_svg():
    assert rank_one(2)._repr_svg_() == rank_one(2).svg()


def test_numbers_after_letters_are_subscripts():
    assert [label(name) for name in ("A1", "click12", "a_1", "1", "A", "A1b")] == [
        "A₁",
        "click₁₂",
        "a_1",
        "1",
        "A",
        "A1b",
    ]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_weird_names_survive():
    boxes = tuple(
        Box(name, kind, name, name) for name, kind in zip(WEIRD, itertools.cycle(draw._STYLES), strict=False)
    )
    drawn = Picture("$t_ <&", boxes, tuple(itertools.pairwise(WEIRD)), ((*WEIRD[:2],),))
    found = texts(drawn.svg())
    for name in ("$a_1$", "<b>&\"'", "]]>", "名前", "a b c", "\\frac{", "%%{init}", "$t_ <&"):
        assert name in found
    assert drawn.png(dpi=40).startswith(b"\x89PNG")
    lines = drawn.mermaid().splitlines()
    assert sum(" --> " in line for line in lines) == len(WEIRD) - 1
    for number in range(len(WEIRD)):
        (line,) = [
            line
            for line in lines
            if line.startswith((f"    n{number}[", f"    n{number}(", f"    n{number}{{"))
        ]
        assert line.count('"') == 2 and "&" not in line and "$" not in line and "%" not in line


def test_legend_lists_what_occurs():
    found = texts(cascade(5).svg())
    assert {"decision", "latent", "observed", "reward", "known table"} <= set(found)
    assert "context" not in found
    assert "learned table attraction, shared by W₁ … W₅" in found
    assert "A₁ … A₅ all different" in found
    found = texts(position_based(3).svg())
    assert "learned table attraction, shared by W₁, W₂, W₃" in found
    assert "learned table examination, used by E₁, E₂, E₃" in found
    assert "examination[1]" in found
    assert "known table" not in texts(semi_bandit(2).svg())


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
def test_lists_of_names_are_short(names, words):
    assert draw._together(names) == words


def test_tables_have_colours_of_their_own_if_there_are_several():
    drawn = position_based(2)
    accents = draw._accents(drawn.boxes)
    outlines = {box.name: draw._outline(box, accents) for box in drawn.boxes}
    assert outlines["W1"] == outlines["W2"] != outlines["E1"] == outlines["E2"]
    assert outlines["C1"][2] and not outlines["W1"][2] and not outlines["A1"][2]
    assert outlines["W1"][1] > outlines["C1"][1]
    assert len(draw._accents(cascade(2).boxes)) == 1


def contrast(one, other):
    """Return the contrast of two colours as the Web Content Accessibility Guidelines define it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", draw._STYLES.values())
def test_text_and_outlines_stand_out(style):
    assert contrast(draw._INK, style.fill) > 7
    assert contrast(style.line, style.fill) > 3


def test_kinds_of_one_shape_differ_in_gray():
    assert contrast(draw._STYLES["latent"].fill, draw._STYLES["observed"].fill) > 1.5


def test_mermaid_has_a_line_for_each_node_and_edge():
    drawn = cascade(3)
    lines = drawn.mermaid().splitlines()
    assert lines[0] == "flowchart TD"
    assert '    n0["A1<br/>20 choices"]:::decision' in lines
    assert '    n1(["W1<br/><i>attraction</i>"]):::latent' in lines
    assert sum(":::" in line for line in lines) == len(drawn.boxes)
    assert sum(" --> " in line for line in lines) == len(drawn.edges)
    assert "    n0 --> n1" in lines
    assert sum("stroke-dasharray" in line for line in lines) == 6
    assert any("A1, A2, A3 all different" in line for line in lines)


def test_mermaid_escapes():
    assert draw._escaped('say "hi" & <go>\n#1') == "say #34;hi#34; #38; #60;go#62; #35;1"
    assert draw._escaped("W_1[0] (名)") == "W_1[0] (名)"


@pytest.mark.parametrize(
    ("suffix", "start"), [("svg", b"<?xml"), ("PNG", b"\x89PNG"), ("pdf", b"%PDF"), ("mmd", b"flow")]
)
def test_save_writes_the_format_of_the_suffix(tmp_path, suffix, start):
    path = tmp_path / f"picture.{suffix}"
    rank_one(2).save(path)
    assert path.read_bytes().startswith(start)
    rank_one(2).save(str(path))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["picture.jpg", "picture", "svg"])
def test_save_refuses_other_suffixes(tmp_path, name):
    with pytest.raises(ValueError, match=r"'.*' is none of \.svg, \.png, \.pdf, \.mmd") as caught:
        rank_one(2).save(tmp_path / name)
    assert repr(Path(name).suffix) in str(caught.value)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, fails):
    path = tmp_path / "picture.mmd"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, fails, fail)
    with pytest.raises(OSError, match="disk full"):
        rank_one(2).save(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["picture.mmd"]


def test_the_users_style_neither_matters_nor_changes():
    import matplotlib

    plain = cascade(2).svg()
    settings = sorted(set(matplotlib.rcParams) - {"backend"})  # reading it would choose a backend
    before = [matplotlib.rcParams[name] for name in settings]
    assert cascade(2).svg() == plain
    assert [matplotlib.rcParams[name] for name in settings] == before
    with matplotlib.rc_context(
        {"text.usetex": True, "font.size": 30, "font.family": "serif", "savefig.bbox": "tight"}
    ):
        assert cascade(2).svg() == plain


SCRIPT = """
import hashlib, sys
import idbandits.draw as draw
assert not {"matplotlib", "igraph"} & set(sys.modules)
boxes = (draw.Box("A1", "decision"), draw.Box("W1", "latent", "t"), draw.Box("W2", "latent", "u"))
svg = draw.Picture("P", boxes, (("A1", "W1"), ("A1", "W2"), ("W1", "W2")), (("A1", "W1"),)).svg()
import matplotlib.pyplot
assert not matplotlib.pyplot.get_fignums()
print(hashlib.sha256(svg.encode()).hexdigest())
"""


def test_svg_is_the_same_in_every_process_and_pyplot_has_no_figure():
    boxes = (Box("A1", "decision"), Box("W1", "latent", "t"), Box("W2", "latent", "u"))
    svg = Picture("P", boxes, (("A1", "W1"), ("A1", "W2"), ("W1", "W2")), (("A1", "W1"),)).svg()
    for seed in ("1", "2"):
        path = os.pathsep.join(
            filter(None, [str(Path(draw.__file__).parents[1]), os.environ.get("PYTHONPATH")])
        )
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == hashlib.sha256(svg.encode()).hexdigest()
