"""Draw architecture.svg (layers, imports, data flow of a round) and write the tables of architecture.md.

Layers come from the import contract in pyproject.toml, imports and descriptions from the sources. The steps of a round
are listed in `STEPS`; after a function has moved or was renamed, edit its step and run
`python docs/explanation/architecture.py`.
`--check` compares picture and page with the code, `--files` prints the first line of every module.
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

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "idbandits"
PICTURE, PAGE = HERE / "architecture.svg", HERE / "architecture.md"

# Tints of the colour-blind safe palette by Okabe and Ito.
COLOURS = {
    "#f3dce9": ("__main__", "cli", "service", "reproduction", "logs", "theory"),
    "#fbe6bd": ("simulation", "agent", "baselines"),
    "#d3eafa": ("inference", "identifiability", "solve"),
    "#c9ebe0": ("circuit", "models", "diagram"),
    "#e6e6e6": ("kernel", "files", "errors"),
}
INK, PALE = "#222222", "#999999"
ROW, LOWEST = 0.37, 5.7  # height of a layer with the space below, and the place of the lowest one


# -- sources -------------------------------------------------------------------------------------------------------


def layers() -> list[str]:
    """Return the layers of the import contract, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return list(contract["layers"])


def sources(layer: str) -> list[Path]:
    """Return the files of a layer."""
    folder = PACKAGE / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{layer}.py"]


def imports(layer: str) -> set[str]:
    """Return the layers that a layer imports from."""
    modules: set[str] = set()
    for source in sources(layer):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                modules.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    names = [module.split(".") for module in modules]
    return {parts[1] for parts in names if parts[0] == "idbandits" and len(parts) > 1} - {layer}


def first_line(source: Path) -> str:
    """Return the first line of the docstring of a module."""
    return (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n")[0]


def purpose(layer: str) -> str:
    """Return the first line of the docstring of a layer."""
    folder = PACKAGE / layer
    return first_line(folder / "__init__.py" if folder.is_dir() else PACKAGE / f"{layer}.py")


def definitions(file: str) -> set[str]:
    """Return the names that a file defines: functions, classes, methods as Class.method, and variables."""
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
    """Function or class in the data flow, its file, and its place in the picture."""

    file: str
    name: str
    text: str
    x: float
    y: float
    width: float = 1.75
    height: float = 0.85

    @property
    def layer(self) -> str:
        """Layer of the file."""
        return self.file.partition("/")[0]


DIAGRAM = Step("diagram/diagram.py", "Diagram", "declared problem", 0.15, 3.35)
COMPILE = Step("circuit/model.py", "compile", "Model: circuits of\nlikelihood and reward", 0.15, 1.65)
SOLVER = Step("solve/solver.py", "Solver", "program:\nCircuit + Decisions", 2.75, 3.35)
EVIDENCE = Step("inference/rounds/evidence.py", "Evidence", "program:\nCircuit + Parts", 2.75, 1.65)
DRAW = Step("inference/act.py", "draw_means", "draw from the belief", 5.45, 3.35)
SOLVE = Step("solve/solver.py", "solve", "best action", 7.85, 3.35)
STEP = Step("simulation/world.py", "World.step", "simulated world,\nor your users", 10.2, 1.65, 1.4)
REDUCE = Step("inference/rounds/reduction.py", "reduce", "certain uses\nand factors", 10.05, -0.05, 1.65)
COUNT = Step("inference/rounds/counting.py", "count_round", "groups of\nequal factors", 7.75, -0.05, 1.65)
VISIT = Step("inference/gibbs/chain.py", "visit", "draw latent counts\nof groups", 5.45, -0.05, 1.65)
STATE = Step("inference/state/state.py", "State", "belief, and groups\nof equal factors", 5.45, 1.65, 4.15)
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
LABELS = (  # x, y, text
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
NOTE = """Boxes are functions or classes, with their layer
above. Data are in italics. A program is one or more
structures packed into two arrays for kernels.
Kernels are functions compiled by Numba: act and learn
are kernels, and the functions in their frames are
compiled into them (solve is a kernel passed to act).
In simulate, the kernel loop makes the same steps
without returning to Python."""
STEPS = (DIAGRAM, COMPILE, SOLVER, EVIDENCE, DRAW, SOLVE, STEP, REDUCE, COUNT, VISIT, STATE)


def contents() -> set[str]:
    """Return the ids of all elements of the picture."""
    every = layers()
    return {
        *(f"layer:{layer}" for layer in every),
        *(f"import:{layer}:{other}" for layer in every for other in imports(layer)),
        *(f"step:{step.file}:{step.name}" for step in STEPS),
    }


def tables() -> dict[str, str]:
    """Return the generated tables of docs/explanation/architecture.md by name."""
    packages = [f"| `{layer}` | {purpose(layer)} |" for layer in layers()]
    steps = [f"| {' '.join(step.text.split())} | `{step.name}` | `{step.file}` |" for step in STEPS]
    return {
        "layers": "\n".join(["| layer | content |", "|---|---|", *packages]),
        "steps": "\n".join(["| step | name | file |", "|---|---|---|", *steps]),
    }


def page() -> str:
    """Return docs/explanation/architecture.md with current tables."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            raise SystemExit(f"docs/explanation/architecture.md: no {begin.strip()} followed by {end}")
        text = f"{head}{begin}{table}\n{end}{tail}"
    return text


def differences() -> list[str]:
    """Return the differences between picture, page and code."""
    drawn = set(re.findall(r'id="((?:layer|import|step):[^"]+)"', PICTURE.read_text())) if PICTURE.exists() else set()
    now = contents()
    return [
        *(f"not drawn: {name}" for name in sorted(now - drawn)),
        *(f"drawn, but not in the code: {name}" for name in sorted(drawn - now)),
        *(f"no such function: {s.file}: {s.name}" for s in STEPS if s.name not in definitions(s.file)),
        *["docs/explanation/architecture.md has other tables"] * (page() != PAGE.read_text(encoding="utf-8")),
    ]


# -- drawing: one unit is one inch ---------------------------------------------------------------------------------


def colour_of(layer: str) -> str:
    """Return the colour of a layer."""
    return next((colour for colour, members in COLOURS.items() if layer in members), "#ffffff")


def draw_box(ax: Axes, x: float, y: float, width: float, height: float, colour: str, gid: str | None = None) -> None:
    """Draw a rounded box."""
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.06"
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=colour, ec=INK, lw=0.8, gid=gid))


def draw_arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0) -> None:
    """Draw an arrow."""
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
    """Wrap a text into at most two lines of similar length."""
    return textwrap.wrap(text, 76 if len(text) <= 76 else len(text) // 2 + 6)[:2]


def draw_layers(ax: Axes, top: float) -> None:
    """Draw one bar per layer with its description, and a dot for each import."""
    every = layers()
    bar, width, first, column = 0.31, 6.55, 7.05, 4.7 / (len(every) - 2)
    middle = {layer: top - i * ROW + bar / 2 for i, layer in enumerate(every)}
    across = {layer: first + i * column for i, layer in enumerate(every[1:])}  # nothing imports the first one
    ax.text(0.15, top + 0.92, "Layers", size=15, weight="bold")
    ax.text(0.15, top + 0.52, "Each layer imports only from layers below it. A dot: the layer\n"
            "on the left imports from the layer above the column.", size=9.5, linespacing=1.3)  # fmt: skip
    for layer in every:
        draw_box(ax, 0.15, middle[layer] - bar / 2, width, bar, colour_of(layer), f"layer:{layer}")
        ax.text(0.27, middle[layer], layer, size=10.5, weight="bold", va="center", family="DejaVu Sans Mono")
        text = "\n".join(in_lines(purpose(layer).rstrip(".").replace("`", "")))
        ax.text(1.75, middle[layer], text, size=8.5, va="center", linespacing=1.0)
        ax.plot([0.15 + width, max(across.values())], [middle[layer]] * 2, color="#d5d5d5", lw=0.6, zorder=0)
    for layer, x in across.items():
        ax.plot([x, x], [top + bar + 0.08, middle[every[-1]]], color="#d5d5d5", lw=0.6, zorder=0)
        ax.text(
            x - 0.06, top + bar + 0.14, layer, size=9, rotation=55, rotation_mode="anchor", family="DejaVu Sans Mono"
        )
    for layer in every:
        for other in sorted(imports(layer)):
            ax.plot(across[other], middle[layer], "o", ms=7, color="#0072b2", gid=f"import:{layer}:{other}")


def draw_step(ax: Axes, step: Step) -> None:
    """Draw the box of a step."""
    draw_box(ax, step.x, step.y, step.width, step.height, colour_of(step.layer), f"step:{step.file}:{step.name}")
    x, top = step.x + step.width / 2, step.y + step.height
    ax.text(x, top - 0.13, step.layer, size=7.5, ha="center", va="center", color="#555555", style="italic")
    ax.text(x, top - 0.32, step.name, size=9.5, ha="center", va="center", weight="bold", family="DejaVu Sans Mono")
    ax.text(x, top - 0.44, step.text, size=8.5, ha="center", va="top", linespacing=1.2)


def draw_steps(ax: Axes) -> None:
    """Draw the data flow: once per diagram on the left, in every round on the right."""
    ax.text(0.15, 5.15, "Once per diagram", size=15, weight="bold")
    ax.text(5.2, 5.15, "Data flow of one round", size=15, weight="bold")
    ax.plot([4.85, 4.85], [-0.65, 5.4], color=PALE, lw=0.8, ls=(0, (4, 3)))
    for y, width, title, at in (
        (3.15, 4.65, "Thompson.act → kernel act", 4.52),
        (-0.55, 6.65, "Thompson.update → kernel learn (Gibbs, the default)", -0.35),
    ):
        draw_box(ax, 5.2, y, width, 1.6, "#ffffff")
        ax.text(5.45, at, title, size=9.5, va="center", family="DejaVu Sans Mono")
    for step in STEPS:
        draw_step(ax, step)
    for start, end, bend in ARROWS:
        draw_arrow(ax, start, end, bend)
    for x, y, text in LABELS:
        ax.text(x, y, text, size=9.5, ha="center", va="center", color="#00528a", style="italic")
    ax.text(0.15, 1.15, NOTE, size=8.5, va="top", linespacing=1.35)


def draw(path: Path) -> None:
    """Draw the picture; the file is deterministic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "idbandits", "font.family": "DejaVu Sans", "text.color": INK}):
        top = LOWEST + ROW * (len(layers()) - 1)
        figure = pyplot.figure(figsize=(12, top + 2.6))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set_xlim(0, 12)
        ax.set_ylim(-0.9, top + 1.7)
        ax.axis("off")
        draw_layers(ax, top)
        draw_steps(ax)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
        pyplot.close(figure)


def main() -> int:
    """Draw picture and page, check them, or print the modules."""
    parser = argparse.ArgumentParser(description="Draw architecture.svg and update architecture.md")
    parser.add_argument("--check", action="store_true", help="only compare picture and page with the code")
    parser.add_argument("--out", type=Path, default=PICTURE, help="picture to write, such as picture.png")
    parser.add_argument("--files", action="store_true", help="print the first line of every module")
    options = parser.parse_args()
    if options.files:
        for source in sorted(PACKAGE.rglob("*.py")):
            print(f"{source.relative_to(PACKAGE)}: {first_line(source)}")
        return 0
    if not options.check:
        draw(options.out)
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    lines = differences()
    print("\n".join(lines) or "picture and page agree with the code", file=sys.stderr if lines else sys.stdout)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
