"""Pictures are checked as data: what legends and files say, and how boxes look."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import idbandits
from drawn_diagrams import MODEL_PICTURES, OTHER_PICTURES, PICTURES, model_picture, over
from idbandits import Diagram, Learned, models
from idbandits.diagram.drawing.boxes import LOOKS, Box, label
from idbandits.diagram.drawing.draw import INK, Picture, legend, looks_of
from idbandits.errors import IdbanditsError

STRANGE = ["$a_1$", "<b>&\"'", "]]>", "名前", "a\nb\x00c\ud800", "\\frac{", "%%{init}", "#quot;", "", "١٢", "n0"]
RANK1 = OTHER_PICTURES["rank 1"]


def texts(svg: str) -> list[str]:
    """All text of an SVG file, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def legend_texts(drawn: Picture) -> list[str]:
    return [text for text, _ in legend(drawn.boxes, drawn.different)]


@over({name: drawn for name, drawn in PICTURES.items() if name[-1] not in "35" and len(drawn.edges) < 50})
def test_svg_is_well_formed_and_has_every_name(drawn: Picture) -> None:
    written = "".join(texts(drawn.svg()))
    # Wrapped names lose only the spaces at their breaks, and these have none.
    assert all(label(box.name) in written for box in drawn.boxes)


def test_notebooks_show_the_svg() -> None:
    assert OTHER_PICTURES["single"]._repr_svg_() == OTHER_PICTURES["single"].svg()


@pytest.mark.filterwarnings("ignore:Glyph")
def test_strange_names_are_drawn() -> None:
    boxes = tuple(Box(name, kind, name, name) for name, kind in zip(STRANGE, itertools.cycle(LOOKS), strict=False))
    drawn = Picture("$t_ <&", boxes, tuple(itertools.pairwise(STRANGE)), ((*STRANGE[:2],),))
    written = texts(drawn.svg())
    for name in ("$a_1$", "<b>&\"'", "]]>", "名前", "a b c", "\\frac{", "%%{init}", "$t_ <&"):
        assert name in written
    assert drawn.png(dpi=40).startswith(b"\x89PNG")
    lines = drawn.mermaid().splitlines()
    assert sum(" --> " in line for line in lines) == len(STRANGE) - 1
    for number in range(len(STRANGE)):
        starts = (f"    n{number}[", f"    n{number}(", f"    n{number}{{")
        (line,) = [line for line in lines if line.startswith(starts)]
        assert line.count('"') == 2
        assert not {"&", "$", "%"} & set(line)


# -- the legend and the looks of boxes -------------------------------------------------------------------------------


def test_the_legend_lists_what_occurs() -> None:
    entries = legend_texts(MODEL_PICTURES["cascade 5"])
    assert entries[:5] == ["decision", "latent", "observed", "reward", "known table"]
    assert entries[5:] == ["learned table attraction, shared by W₁ … W₅", "A₁ … A₅ all different"]
    assert "known table" not in legend_texts(MODEL_PICTURES["semi_bandit 2"])
    assert "context" in legend_texts(OTHER_PICTURES["contexts"])
    assert not any("different" in text for text in legend_texts(model_picture("cascade", 1)))
    assert set(entries) <= set(texts(MODEL_PICTURES["cascade 5"].svg()))


@pytest.mark.parametrize("model", ["position_based", "user_browsing"])
def test_a_table_whose_rows_are_picked_has_one_entry_and_one_colour(model: str) -> None:
    drawn = MODEL_PICTURES[f"{model} 3"]
    assert len({box.table + box.rows for box in drawn.boxes if box.name.startswith("E")}) > 1
    assert [text for text in legend_texts(drawn) if text.startswith("learned")] == [
        "learned table attraction, shared by W₁, W₂, W₃",
        "learned table examination, used by E₁, E₂, E₃",
    ]
    assert len({looks_of(drawn.boxes)[box.name].line for box in drawn.boxes if box.table}) == 2


def test_tables_whose_names_look_like_picked_rows_are_separate() -> None:
    d = Diagram("p")
    for name in ("p[x]", "p[y]"):
        d.observed(name, [d.decision(f"A {name}", 2)])
    drawn = d.draw()
    assert legend_texts(drawn)[-2:] == ["learned table p[x], used by p[x]", "learned table p[y], used by p[y]"]
    assert looks_of(drawn.boxes)["p[x]"].line != looks_of(drawn.boxes)["p[y]"].line


def test_several_tables_have_a_colour_each() -> None:
    drawn = MODEL_PICTURES["position_based 2"]
    looks = looks_of(drawn.boxes)
    assert looks["W1"].line == looks["W2"].line != looks["E1"].line == looks["E2"].line
    assert [looks[name].dashed for name in ("C1", "W1", "A1")] == [True, False, False]
    assert looks["W1"].width > looks["C1"].width
    assert looks_of(MODEL_PICTURES["cascade 2"].boxes)["W1"].line == INK


def test_rows_that_are_fixed_are_drawn_as_known() -> None:
    drawn = models.position_based(4, 3, fixed={"examination": {0: 0.9}}).draw()
    looks, boxes = looks_of(drawn.boxes), {box.name: box for box in drawn.boxes}
    assert [looks[name].dashed for name in ("E1", "E2", "W1", "C1")] == [True, False, False, True]
    assert looks["E1"].line == looks["E2"].line  # of one table
    assert boxes["E1"].table + boxes["E1"].rows == "examination[0] (fixed at 0.9)"
    assert boxes["E2"].table + boxes["E2"].rows == "examination[1]"
    entries = legend_texts(drawn)
    assert "known table or row" in entries
    assert "learned table examination, used by E₁, E₂, E₃; 1 row fixed" in entries
    assert "learned table attraction, shared by W₁, W₂, W₃" in entries


def test_a_node_that_may_read_fixed_rows_says_how_many() -> None:
    d = Diagram("offers")
    offer = d.decision("offer", ["usual", "new", "(nothing)"])
    d.observed("sold", [offer], Learned("sold", fixed={"usual": 0.3, "(nothing)": 0.0}))
    d.observed("seen", [offer], Learned("seen", fixed={"usual": 1.0, "new": 1.0, "(nothing)": 0.5}))
    d.observed("mood", cpd=Learned("mood", rows=1, fixed={0: [0.2, 0.3, 0.5]})[0], states=3)
    drawn = d.draw()
    texts_of = {box.name: box.table + box.rows for box in drawn.boxes}
    assert texts_of["sold"] == "sold (2 of 3 rows fixed)"
    assert texts_of["seen"] == "seen (all fixed)"
    assert texts_of["mood"] == "mood (fixed at 0.2, 0.3, 0.5)"
    looks = looks_of(drawn.boxes)
    assert [looks[name].dashed for name in ("sold", "seen", "mood")] == [False, True, True]
    assert legend_texts(drawn)[-3:] == [
        "learned table sold, used by sold; 2 rows fixed", "fixed table seen, used by seen", "fixed table mood, used by mood",
    ]  # fmt: skip


def contrast(first: str, second: str) -> float:
    """The contrast of two colours as the Web Content Accessibility Guidelines define it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_outlines_stand_out_and_kinds_of_one_shape_differ_in_gray() -> None:
    for look in LOOKS.values():
        assert contrast(INK, look.fill) > 7
        assert contrast(look.line, look.fill) > 3
    assert contrast(LOOKS["latent"].fill, LOOKS["observed"].fill) > 1.5


# -- files -----------------------------------------------------------------------------------------------------------


def test_mermaid_has_a_line_for_each_node_and_edge() -> None:
    drawn = MODEL_PICTURES["cascade 3"]
    lines = drawn.mermaid().splitlines()
    assert lines[0] == "flowchart TD"
    assert '    n1["A1<br/>20 choices"]:::decision' in lines
    assert '    n2(["W1<br/><i>attraction</i>"]):::latent' in lines
    assert sum(":::" in line for line in lines) == len(drawn.boxes)
    assert sum(" --> " in line for line in lines) == len(drawn.edges)
    assert "    n1 --> n2" in lines
    assert sum("stroke-dasharray" in line for line in lines) == 6
    assert any("A1, A2, A3 all different" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [('say "hi" & <go>\n#1', "say #34;hi#34; #38; #60;go#62; #35;1"), ("W_1[0] (名)", "W_1[0] (名)")],
)
def test_mermaid_escapes(name: str, escaped: str) -> None:
    assert f'    n0(["{escaped}"]):::latent\n' in Picture("", (Box(name, "latent"),), (), ()).mermaid()


@pytest.mark.parametrize(
    ("suffix", "start"), [("svg", b"<?xml"), ("PNG", b"\x89PNG"), ("pdf", b"%PDF"), ("mmd", b"flow")]
)
def test_save_writes_the_format_of_the_suffix(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"picture.{suffix}"
    path.write_text("old")
    RANK1.save(str(path))
    assert path.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["picture.jpg", "picture", "svg"])
def test_save_rejects_other_suffixes(tmp_path: Path, name: str) -> None:
    with pytest.raises(IdbanditsError, match=r"suffix must be one of \.svg, \.png, \.pdf, \.mmd, got '.*'") as raised:
        RANK1.save(tmp_path / name)
    assert repr(Path(name).suffix) in str(raised.value)
    assert not os.listdir(tmp_path)


def test_the_users_style_neither_matters_nor_changes() -> None:
    import matplotlib

    plain = RANK1.svg()
    settings = sorted(set(matplotlib.rcParams) - {"backend"})  # reading it would choose a backend
    before = [matplotlib.rcParams[name] for name in settings]
    assert RANK1.svg() == plain
    assert [matplotlib.rcParams[name] for name in settings] == before
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30, "font.family": "serif", "savefig.bbox": "tight"}):
        assert RANK1.svg() == plain


SCRIPT = """
import hashlib, sys
import idbandits.diagram
idbandits.diagram.schema()
assert not {"numpy", "jsonschema"} & set(sys.modules)
diagram = idbandits.models.click_chain(20, 2)
assert not {"matplotlib", "igraph"} & set(sys.modules)
svg = diagram.draw().svg()
import matplotlib.pyplot
assert not matplotlib.pyplot.get_fignums()
print(hashlib.sha256(svg.encode()).hexdigest())
"""


def test_another_process_draws_the_same_svg_and_imports_only_what_it_needs() -> None:
    package = str(Path(idbandits.__file__).parents[1])
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": package}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hashlib.sha256(MODEL_PICTURES["click_chain 2"].svg().encode()).hexdigest()
