"""Pictures are checked as data: what overlaps, where edges run, what the files say."""

import functools
import hashlib
import itertools
import os
import random
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from idbandits import Diagram, models
from idbandits.diagram import layout
from idbandits.diagram import pictures as draw
from idbandits.diagram.pictures import Box, Picture

KINDS = {"A": "decision", "C": "observed", "X": "observed", "r": "reward"}


@functools.cache  # each picture is checked in several ways
def arranged(drawn):
    return layout.arrange(drawn.boxes, drawn.edges)


def picture(title, edges, tables=(), nodes=(), different=()):
    """Build a picture whose nodes have their kinds by initial: A, C, X, reward; others are latent."""
    names, tables = dict.fromkeys([*itertools.chain.from_iterable(edges), *nodes]), dict(tables)
    boxes = [Box(n, KINDS.get(n[0], "latent"), tables.get(n, ""), "20 choices" if n[0] == "A" else "") for n in names]
    return Picture(title, tuple(boxes), tuple(edges), tuple(different))


def drawn_model(name, positions, **options):
    return getattr(models, name)(20, positions, **options).draw()


MODELS = {
    f"{name} {options or ''} {k}": drawn_model(name, k, **options)
    for name, options in [
        ("cascade", {}),
        ("cascade", {"learn_conditionals": True}),
        ("cascade_inverted", {}),
        ("position_based", {}),
        ("semi_bandit", {}),
        ("dependent_click", {}),
        ("dynamic_bayesian", {}),
        ("dynamic_bayesian", {"simplified": True, "reward": "clicks"}),
        ("click_chain", {}),
        ("user_browsing", {}),
    ]
    for k in (2, 3, 5)
}


def contexts():
    base = drawn_model("cascade", 4)
    boxes = (Box("user", "context", "", "5 states"), Box("query", "context", "", "8 states"))
    edges = (*(("user", f"W{k}") for k in range(1, 5)), ("query", "E1"), ("query", "reward"))
    return Picture("Contexts", base.boxes + boxes, base.edges + edges, base.different)


def far_reaching():
    """Build a picture where all clicks above a position matter to it, which takes long flat edges."""
    base = drawn_model("position_based", 5)
    browse = tuple((f"C{i}", f"E{j}") for i, j in itertools.combinations(range(1, 6), 2))
    return Picture("Far reaching", base.boxes, base.edges + browse, base.different)


def scattered(stem, chance, seed):
    """Build a random acyclic picture of 30 nodes."""
    rng = random.Random(seed)
    names = [f"{stem}{i}" if stem else chr(0x3B1 + i) for i in range(30)]
    edges = [pair for pair in itertools.combinations(names, 2) if rng.random() < chance]
    return picture("Random", edges, {name: rng.choice(["", "t", "u[1]"]) for name in names}, names)


LONG = "a_name_of_sixty_characters_that_goes_on_and_on_until_the_end"
OTHERS = {
    "rank 1": models.rank1(8, 6).draw(),
    "empty": Diagram("empty").draw(),
    "single": picture("One", [], nodes=["A"]),
    "no title": picture("", [], nodes=["A"]),
    "30 numbered nodes": scattered("X", 0.08, 1),
    "30 nodes": scattered("", 0.12, 2),
    "dense": picture("Dense", list(itertools.combinations([chr(0x3B1 + i) for i in range(20)], 2))),
    "fan-in": picture("Fan", [(f"X{i}", "reward") for i in range(1, 25)]),
    "long names": picture("Long", [("A", LONG), (LONG, "C"), ("A", "x" * 60)]),
    "contexts": contexts(),
    "far reaching": far_reaching(),
    "parts": picture("Parts", [("A", "C"), ("B", "D")], nodes=["E", "F"]),
    "stem is a name too": picture("Mixed", [("A", "A1"), ("A1", "A2"), ("A01", "A2")]),
}

WEIRD = ["$a_1$", "<b>&\"'", "]]>", "名前", "a\nb\x00c\ud800", "\\frac{", "%%{init}", "#quot;", "", "١٢", "n0"]


def over(pictures):
    return pytest.mark.parametrize("drawn", pictures.values(), ids=pictures)


def crossed(plan, inside):
    """List each edge with a box that it runs through."""
    points = {edge: layout.along(route, 100) for edge, route in plan.routes.items()}
    pairs = itertools.product(points, plan.places)
    return [(edge, name) for edge, name in pairs if name not in edge and inside(plan.places[name], points[edge])]


def in_shape(place, points):
    return (place.distance(points) < 1).any()


def in_bounds(place, points):
    return (abs(points - (place.x, place.y)) <= (place.half_width, place.half_height)).all(axis=1).any()


def texts(svg):
    """Return all text of an SVG file, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@over(MODELS | OTHERS)
def test_boxes_hold_their_text_and_do_not_overlap(drawn):
    plan = arranged(drawn)
    assert set(plan.places) == {box.name for box in drawn.boxes}
    for p, q in itertools.combinations(plan.places.values(), 2):
        apart_x = abs(p.x - q.x) - p.half_width - q.half_width
        apart_y = abs(p.y - q.y) - p.half_height - q.half_height
        assert max(apart_x, apart_y) >= 4
    left, top, right, bottom = plan.corners()
    for box in drawn.boxes:
        place = plan.places[box.name]
        assert left <= place.x - place.half_width < place.x + place.half_width <= right
        assert top <= place.y - place.half_height < place.y + place.half_height <= bottom
        for text, y in box.lines():
            corner = place.x + text.width() / 2, place.y + y + 0.4 * text.size * (1 if y > 0 else -1)
            assert place.distance(corner) <= 1


@over(MODELS | OTHERS)
def test_edges_run_from_border_to_border_and_through_no_other_box(drawn):
    plan = arranged(drawn)
    assert list(plan.routes) == list(drawn.edges)
    for (parent, child), route in plan.routes.items():
        assert plan.places[parent].distance(route[0]) == pytest.approx(1)
        assert plan.places[child].distance(route[-1]) == pytest.approx(1)
        assert route[-1] != pytest.approx(route[-2])  # the arrow has a direction
    assert not crossed(plan, in_shape)


@pytest.mark.parametrize("model", ["cascade", "position_based", "semi_bandit"])
def test_edges_keep_out_of_bounding_boxes_too(model):
    assert not crossed(arranged(MODELS[f"{model}  5"]), in_bounds)


def test_cascade_is_a_grid_of_equal_positions():
    plan = arranged(MODELS["cascade  5"])
    rows = [[plan.places[f"{stem}{k}"] for k in range(1, 6)] for stem in "AWEC"]
    assert all(len({place.y for place in row}) == 1 for row in rows)
    assert [row[0].y for row in rows] == sorted(row[0].y for row in rows)
    for row in rows:
        steps = [b.x - a.x for a, b in itertools.pairwise(row)]
        assert min(steps) > 0
        assert steps == pytest.approx([steps[0]] * 4)
    left, top, right, bottom = plan.corners()
    assert (right - left) / 72 < 7
    assert (bottom - top) / 72 < 5
    assert plan.places["A3"].x == plan.places["W3"].x == plan.places["C3"].x == plan.places["reward"].x


@pytest.mark.parametrize("model", ["click_chain", "dynamic_bayesian", "user_browsing"])
def test_two_positions_are_laid_out_as_three_though_some_nodes_have_one_only(model):
    two, three = arranged(MODELS[f"{model}  2"]), arranged(MODELS[f"{model}  3"])

    def in_rows(plan):
        return sorted((name for name in plan.places if name.endswith("1")), key=lambda name: plan.places[name].y)

    assert in_rows(two) == in_rows(three)


def test_decisions_stand_right_above_their_children_without_numbers():
    places = arranged(picture("", [("A", "L"), ("L", "M"), ("Ask", "N"), ("M", "N")])).places
    assert places["Ask"].y == places["M"].y
    assert places["A"].y < places["L"].y < places["M"].y < places["N"].y


def test_the_reward_is_at_the_bottom():
    places = arranged(MODELS["click_chain  3"]).places
    names = ("A1", "W1", "R1", "E1", "C1", "G1", "reward")
    assert [places[name].y for name in names] == sorted({place.y for place in places.values()})


def test_names_that_skip_numbers_get_rows_of_their_own():
    places = arranged(picture("", [("X1", "X2"), ("X2", "X3"), ("X1", "X3")])).places
    assert places["X1"].y < places["X2"].y < places["X3"].y


@over({name: drawn for name, drawn in (MODELS | OTHERS).items() if name[-1] not in "35" and len(drawn.edges) < 50})
def test_svg_is_well_formed_and_has_every_name(drawn):
    found = "".join(texts(drawn.svg()))
    # Wrapped names lose the spaces at their breaks only, and these have none.
    assert all(layout.label(box.name) in found for box in drawn.boxes)


def test_notebooks_show_the_svg():
    assert OTHERS["single"]._repr_svg_() == OTHERS["single"].svg()


@pytest.mark.parametrize(
    ("name", "shown"),
    [("A1", "A₁"), ("click12", "click₁₂"), ("a_1", "a_1"), ("1", "1"), ("A", "A"), ("A1b", "A1b")],
)
def test_numbers_after_letters_are_subscripts(name, shown):
    assert layout.label(name) == shown


@pytest.mark.filterwarnings("ignore:Glyph")
def test_weird_names_survive():
    boxes = tuple(Box(name, kind, name, name) for name, kind in zip(WEIRD, itertools.cycle(layout.NORMS), strict=False))
    drawn = Picture("$t_ <&", boxes, tuple(itertools.pairwise(WEIRD)), ((*WEIRD[:2],),))
    found = texts(drawn.svg())
    for name in ("$a_1$", "<b>&\"'", "]]>", "名前", "a b c", "\\frac{", "%%{init}", "$t_ <&"):
        assert name in found
    assert drawn.png(dpi=40).startswith(b"\x89PNG")
    lines = drawn.mermaid().splitlines()
    assert sum(" --> " in line for line in lines) == len(WEIRD) - 1
    for number in range(len(WEIRD)):
        starts = (f"    n{number}[", f"    n{number}(", f"    n{number}{{")
        (line,) = [line for line in lines if line.startswith(starts)]
        assert line.count('"') == 2
        assert not {"&", "$", "%"} & set(line)


def legend(drawn):
    return [text for text, _, _ in draw._legend(drawn)]


def test_legend_lists_what_occurs():
    found = legend(MODELS["cascade  5"])
    assert found[:5] == ["decision", "latent", "observed", "reward", "known table"]
    assert found[5:] == ["learned table attraction, shared by W₁ … W₅", "A₁ … A₅ all different"]
    assert "known table" not in legend(MODELS["semi_bandit  2"])
    assert "context" in legend(OTHERS["contexts"])
    assert not any("different" in text for text in legend(drawn_model("cascade", 1)))
    assert set(found) <= set(texts(MODELS["cascade  5"].svg()))


@pytest.mark.parametrize("model", ["position_based", "user_browsing"])
def test_a_table_of_which_nodes_read_different_rows_is_one_entry_of_one_colour(model):
    drawn = MODELS[f"{model}  3"]
    assert len({box.caption for box in drawn.boxes if box.name.startswith("E")}) > 1
    assert [text for text in legend(drawn) if text.startswith("learned")] == [
        "learned table attraction, shared by W₁, W₂, W₃",
        "learned table examination, used by E₁, E₂, E₃",
    ]
    assert list(draw._accents(drawn.boxes)) == ["attraction", "examination"]


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


def test_tables_whose_names_end_like_rows_are_tables_of_their_own():
    d = Diagram("p")
    for name in ("p[x]", "p[y]"):
        d.observed(name, [d.decision(f"A {name}", 2)])
    drawn = d.draw()
    assert legend(drawn)[-2:] == ["learned table p[x], used by p[x]", "learned table p[y], used by p[y]"]
    assert len(set(draw._accents(drawn.boxes).values())) == 2


def test_tables_have_colours_of_their_own_if_there_are_several():
    drawn = MODELS["position_based  2"]
    looks = {box.name: draw._look(box, draw._accents(drawn.boxes)) for box in drawn.boxes}
    assert looks["W1"].line == looks["W2"].line != looks["E1"].line == looks["E2"].line
    assert [looks[name].dashed for name in ("C1", "W1", "A1")] == [True, False, False]
    assert looks["W1"].width > looks["C1"].width
    assert list(draw._accents(MODELS["cascade  2"].boxes).values()) == [draw._INK]


def contrast(one, other):
    """Return the contrast of two colours as the Web Content Accessibility Guidelines define it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_outlines_stand_out_and_kinds_of_one_shape_differ_in_gray():
    assert draw._LOOKS.keys() == layout.NORMS.keys()
    for look in draw._LOOKS.values():
        assert contrast(draw._INK, look.fill) > 7
        assert contrast(look.line, look.fill) > 3
    assert contrast(draw._LOOKS["latent"].fill, draw._LOOKS["observed"].fill) > 1.5


def test_mermaid_has_a_line_for_each_node_and_edge():
    drawn = MODELS["cascade  3"]
    lines = drawn.mermaid().splitlines()
    assert lines[0] == "flowchart TD"
    assert '    n1["A1<br/>20 choices"]:::decision' in lines
    assert '    n2(["W1<br/><i>attraction</i>"]):::latent' in lines
    assert sum(":::" in line for line in lines) == len(drawn.boxes)
    assert sum(" --> " in line for line in lines) == len(drawn.edges)
    assert "    n1 --> n2" in lines
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
    path.write_text("old")
    OTHERS["rank 1"].save(str(path))
    assert path.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["picture.jpg", "picture", "svg"])
def test_save_refuses_other_suffixes(tmp_path, name):
    with pytest.raises(ValueError, match=r"'.*' is none of \.svg, \.png, \.pdf, \.mmd") as caught:
        OTHERS["rank 1"].save(tmp_path / name)
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
        OTHERS["rank 1"].save(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["picture.mmd"]


@pytest.mark.skipif(os.name != "posix", reason="other systems have no umask")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_written_file_is_as_open_as_the_umask_allows(tmp_path, mask):
    before = os.umask(mask)
    try:
        OTHERS["rank 1"].save(tmp_path / "picture.mmd")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "picture.mmd").stat().st_mode) == 0o666 & ~mask


def test_the_users_style_neither_matters_nor_changes():
    import matplotlib

    plain = OTHERS["rank 1"].svg()
    settings = sorted(set(matplotlib.rcParams) - {"backend"})  # reading it would choose a backend
    before = [matplotlib.rcParams[name] for name in settings]
    assert OTHERS["rank 1"].svg() == plain
    assert [matplotlib.rcParams[name] for name in settings] == before
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30, "font.family": "serif", "savefig.bbox": "tight"}):
        assert OTHERS["rank 1"].svg() == plain


SCRIPT = """
import hashlib, sys
import idbandits
assert not {"matplotlib", "igraph"} & set(sys.modules)
svg = idbandits.models.click_chain(20, 2).draw().svg()
import matplotlib.pyplot
assert not matplotlib.pyplot.get_fignums()
print(hashlib.sha256(svg.encode()).hexdigest())
"""


def test_svg_is_the_same_in_every_process_and_pyplot_has_no_figure():
    path = os.pathsep.join(filter(None, [str(Path(draw.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hashlib.sha256(MODELS["click_chain  2"].svg().encode()).hexdigest()
