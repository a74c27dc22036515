"""Draw docs/architecture.svg: the rooms, their imports, and the road of one round.

`python docs/architecture.py` draws it; with `--check`, it only says whether the picture still shows what the code has.
The rooms come from the import contract in pyproject.toml, the imports and what a room is for from the sources. Every
step of the road names a function, which has to exist. The picture keeps all of these as ids of its elements.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "idbandits"
PICTURE = ROOT / "docs" / "architecture.svg"

# Tints of the palette by Okabe and Ito, which the colour-blind can tell apart; names are always written out, too.
COLOURS = {
    "#f3dce9": ("__main__", "cli", "reproduction", "theory"),
    "#fbe6bd": ("simulation", "agent", "baselines"),
    "#d3eafa": ("inference", "identifiability", "solve"),
    "#c9ebe0": ("circuit", "models", "diagram"),
    "#e6e6e6": ("kernel", "files", "errors"),
}
INK, PALE = "#222222", "#999999"


# -- what there is -------------------------------------------------------------------------------------------------


def rooms() -> list[str]:
    """The rooms, the highest first, as the import contract has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return list(contract["layers"])


def sources(room: str) -> list[Path]:
    """The files of a room."""
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


def imports(room: str) -> set[str]:
    """The rooms that a room imports from, wherever in its files."""
    modules: set[str] = set()
    for source in sources(room):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                modules.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    names = [module.split(".") for module in modules]
    return {parts[1] for parts in names if parts[0] == "idbandits" and len(parts) > 1} - {room}


def purpose(room: str) -> str:
    """What a room is for: the first sentence of its docstring."""
    folder = PACKAGE / room
    home = folder / "__init__.py" if folder.is_dir() else PACKAGE / f"{room}.py"
    return (ast.get_docstring(ast.parse(home.read_text())) or "").split("\n")[0].rstrip(".").replace("`", "")


def definitions(file: str) -> set[str]:
    """What a file defines: functions, classes, methods as Class.method, and other names."""
    names: set[str] = set()
    for node in ast.parse((PACKAGE / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{n.name}" for n in node.body if isinstance(n, ast.FunctionDef))
        if isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


class Step(NamedTuple):
    """A function or class on the road, where it is, and where it is drawn."""

    file: str
    name: str
    text: str
    x: float
    y: float
    width: float = 1.75
    height: float = 0.85

    @property
    def room(self) -> str:
        """The room that it is in."""
        return self.file.partition("/")[0]


DIAGRAM = Step("diagram/diagram.py", "Diagram", "what is declared", 0.15, 3.35)
COMPILE = Step("circuit/model.py", "compile", "a Model: circuits of\nlikelihood and reward", 0.15, 1.65)
SOLVER = Step("solve/solver.py", "Solver", "program:\nCircuit + Decisions", 2.75, 3.35)
EVIDENCE = Step("inference/rounds/evidence.py", "Evidence", "program:\nCircuit + Parts", 2.75, 1.65)
DRAW = Step("inference/protocol.py", "draw_means", "from the belief", 5.45, 3.35)
SOLVE = Step("solve/solver.py", "solve", "the best action", 7.85, 3.35)
STEP = Step("simulation/world.py", "World.step", "the truth, or\nyour own users", 10.2, 1.65, 1.4)
REDUCE = Step("inference/rounds/reduction.py", "reduce", "what is certain,\nand factors", 10.05, -0.05, 1.65)
COUNT = Step("inference/rounds/counting.py", "count_round", "equal factors\nare one group", 7.75, -0.05, 1.65)
VISIT = Step("inference/gibbs/chain.py", "visit", "latent counts anew,\nafter move_pairs", 5.45, -0.05, 1.65)
STATE = Step("inference/state/state.py", "State", "the belief, and groups\nof equal factors", 5.45, 1.65, 4.15)
ARROWS = (  # from, to, bend
    ((1.02, 3.35), (1.02, 2.5), 0.0),
    ((1.9, 2.3), (2.75, 3.5), 0.0),
    ((1.9, 2.07), (2.75, 2.07), 0.0),
    ((4.5, 3.78), (5.2, 3.78), 0.0),
    ((4.5, 2.3), (5.2, 3.25), 0.0),
    ((4.5, 1.85), (5.2, 0.95), 0.0),
    ((7.2, 3.78), (7.85, 3.78), 0.0),
    ((9.6, 3.78), (10.9, 2.5), -0.3),
    ((10.9, 1.65), (10.9, 0.8), 0.0),
    ((10.05, 0.37), (9.4, 0.37), 0.0),
    ((7.75, 0.37), (7.1, 0.37), 0.0),
    ((6.32, 2.5), (6.32, 3.35), 0.0),
    ((6.27, 0.8), (6.27, 1.65), 0.0),
    ((8.57, 0.8), (8.57, 1.65), 0.0),
)
LABELS = (  # what flows, at x and y
    (2.05, 3.05, "reward"),
    (2.32, 1.9, "likelihood"),
    (7.52, 3.93, "means"),
    (10.75, 3.7, "action"),
    (11.4, 1.37, "observation"),
    (9.72, 0.52, "factors"),
    (7.42, 0.52, "groups"),
    (6.62, 2.8, "belief"),
    (6.85, 1.37, "latent counts"),
    (9.2, 1.37, "certain uses"),
)
NOTE = """A box is a function or a class, with its room above it.
What flows is in italics. A program is one or more
structures, packed into two arrays for kernels.
A kernel is a function that Numba compiles: act and
learn are kernels, and the functions in their frames are
compiled into them (solve is a kernel too, handed to act).
In simulate, the kernel loop takes the same road without
returning to Python."""
ROAD = (DIAGRAM, COMPILE, SOLVER, EVIDENCE, DRAW, SOLVE, STEP, REDUCE, COUNT, VISIT, STATE)


def contents() -> set[str]:
    """All that the picture has to show, as ids of its elements."""
    every = rooms()
    return {
        *(f"room:{room}" for room in every),
        *(f"import:{room}:{other}" for room in every for other in imports(room)),
        *(f"step:{step.file}:{step.name}" for step in ROAD),
    }


def differences() -> list[str]:
    """In what the picture differs from the code."""
    drawn = set(re.findall(r'id="((?:room|import|step):[^"]+)"', PICTURE.read_text())) if PICTURE.exists() else set()
    now = contents()
    return [
        *(f"not drawn: {name}" for name in sorted(now - drawn)),
        *(f"drawn, but not there: {name}" for name in sorted(drawn - now)),
        *(f"no such function: {s.file}: {s.name}" for s in ROAD if s.name not in definitions(s.file)),
    ]


# -- how it is drawn: one unit is one inch -------------------------------------------------------------------------


def colour_of(room: str) -> str:
    """The colour of a room."""
    return next((colour for colour, members in COLOURS.items() if room in members), "#ffffff")


def draw_box(ax: Axes, x: float, y: float, width: float, height: float, colour: str, gid: str | None = None) -> None:
    """A rounded box."""
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.06"
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=colour, ec=INK, lw=0.8, gid=gid))


def draw_arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0) -> None:
    """An arrow."""
    from matplotlib.patches import FancyArrowPatch

    curve = f"arc3,rad={bend}"
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            connectionstyle=curve,
            mutation_scale=11,
            lw=1.1,
            color=INK,
            shrinkA=0,
            shrinkB=0,
        )
    )


def in_lines(text: str) -> list[str]:
    """A text as one line, or as two of about the same length."""
    return textwrap.wrap(text, 80 if len(text) <= 80 else len(text) // 2 + 6)[:2]


def draw_rooms(ax: Axes, top: float) -> None:
    """One bar per room, what it is for, and a dot for each room that it imports from."""
    every = rooms()
    bar, row, width, first, column = 0.31, 0.37, 6.55, 7.05, 0.33
    middle = {room: top - i * row + bar / 2 for i, room in enumerate(every)}
    across = {room: first + i * column for i, room in enumerate(every[1:])}  # nothing imports the first
    ax.text(0.15, top + 0.92, "The rooms", size=15, weight="bold")
    ax.text(0.15, top + 0.52, "Each imports only from rooms below it: a dot says that the room\n"
            "on the left imports from the room above.", size=9.5, linespacing=1.3)  # fmt: skip
    for room in every:
        draw_box(ax, 0.15, middle[room] - bar / 2, width, bar, colour_of(room), f"room:{room}")
        ax.text(0.27, middle[room], room, size=10.5, weight="bold", va="center", family="DejaVu Sans Mono")
        text = "\n".join(in_lines(purpose(room)))
        ax.text(1.6, middle[room], text, size=8.5, va="center", linespacing=1.0)
        ax.plot([0.15 + width, max(across.values())], [middle[room]] * 2, color="#d5d5d5", lw=0.6, zorder=0)
    for room, x in across.items():
        ax.plot([x, x], [top + bar + 0.08, middle[every[-1]]], color="#d5d5d5", lw=0.6, zorder=0)
        ax.text(
            x - 0.06, top + bar + 0.14, room, size=9, rotation=55, rotation_mode="anchor", family="DejaVu Sans Mono"
        )
    for room in every:
        for other in sorted(imports(room)):
            ax.plot(across[other], middle[room], "o", ms=7, color="#0072b2", gid=f"import:{room}:{other}")


def draw_step(ax: Axes, step: Step) -> None:
    """The name of a function, its room, and what it does or gives."""
    draw_box(ax, step.x, step.y, step.width, step.height, colour_of(step.room), f"step:{step.file}:{step.name}")
    x, top = step.x + step.width / 2, step.y + step.height
    ax.text(x, top - 0.13, step.room, size=7.5, ha="center", va="center", color="#555555", style="italic")
    ax.text(x, top - 0.32, step.name, size=9.5, ha="center", va="center", weight="bold", family="DejaVu Sans Mono")
    ax.text(x, top - 0.44, step.text, size=8.5, ha="center", va="top", linespacing=1.2)


def draw_road(ax: Axes) -> None:
    """What flows: once per diagram on the left, in every round on the right."""
    ax.text(0.15, 5.15, "Once per diagram", size=15, weight="bold")
    ax.text(5.2, 5.15, "The road of one round", size=15, weight="bold")
    ax.plot([4.85, 4.85], [-0.65, 5.4], color=PALE, lw=0.8, ls=(0, (4, 3)))
    for y, width, title, at in (
        (3.15, 4.65, "Thompson.act → kernel act", 4.52),
        (-0.55, 6.65, "Thompson.update → kernel learn (of Gibbs, the default)", -0.35),
    ):
        draw_box(ax, 5.2, y, width, 1.6, "#ffffff")
        ax.text(5.45, at, title, size=9.5, va="center", family="DejaVu Sans Mono")
    for step in ROAD:
        draw_step(ax, step)
    for start, end, bend in ARROWS:
        draw_arrow(ax, start, end, bend)
    for x, y, text in LABELS:
        ax.text(x, y, text, size=9.5, ha="center", va="center", color="#00528a", style="italic")
    ax.text(0.15, 1.15, NOTE, size=8.5, va="top", linespacing=1.35)


def draw(path: Path) -> None:
    """Draw the picture; the same code always gives the same file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        figure = pyplot.figure(figsize=(12, 13.4))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set_xlim(0, 12)
        ax.set_ylim(-0.9, 12.5)
        ax.axis("off")
        draw_rooms(ax, 11.05)
        draw_road(ax)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def main() -> int:
    """Draw or check the picture."""
    parser = argparse.ArgumentParser(description="Draw docs/architecture.svg")
    parser.add_argument("--check", action="store_true", help="only say whether the picture shows what the code has")
    parser.add_argument("--out", type=Path, default=PICTURE, help="another file, such as picture.png")
    options = parser.parse_args()
    if not options.check:
        draw(options.out)
        return 0
    found = differences()
    print("\n".join(found) or "docs/architecture.svg shows what the code has", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
