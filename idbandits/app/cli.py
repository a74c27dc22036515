"""The command `idbandits`: ready models, pictures, best actions and simulations, from files and pipes.

Each command is a function that declares it (`_add_…`) and one that does it; what takes long to import is imported in
the latter.
"""

from __future__ import annotations

import inspect
import json
import os
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from idbandits.app.evaluation import add_paper, add_theory
from idbandits.app.frame import (
    INTERRUPTED,
    Add,
    Commands,
    command,
    folder,
    parser,
    pick,
    run,
    say,
    whole,
)
from idbandits.simulation.workers import MOST_ROUNDS, MOST_RUNS, MOST_WORKERS

if TYPE_CHECKING:
    from idbandits.diagram.declare import Diagram
    from idbandits.diagram.pictures import Picture
    from idbandits.diagram.tables import LearnedTable
    from idbandits.simulation.results import Result
    from idbandits.solve.best import Solution

TEXT = """
Structured bandits: declare a decision problem as an influence diagram, and learn online to act well in it.

A diagram is a JSON file: of a ready model (idbandits models), or of your own (Diagram.save in Python). draw, solve
and simulate take such a file, or - for the standard input. idbandits COMMAND --help explains each, with an example.
"""
EXAMPLE = """
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.svg
idbandits solve cascade.json --means attraction=0.1,0.4,0.2,0.3
idbandits simulate cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --runs 4
"""
MOST_POSITIONS = 100_000
MEANS_TEXT = """
MEANS are given as name=numbers (attraction=0.1,0.4; the rows of a larger table one after the other, or nested lists
as in JSON), as JSON ('{"attraction": [0.1, 0.4]}'), or as a file of such JSON. Repeat --means for several tables;
--means random draws those that are not given from the prior, by --seed.
"""


def main(argv: list[str] | None = None) -> int:
    """Run a command and give its exit status: 0, 2 after a mistake, 1 after a failure, 130 after an interruption."""
    adds: tuple[Add, ...] = (add_paper, add_theory, _add_models, _add_draw, _add_solve, _add_learners, _add_simulate)
    return run(argv, "idbandits", TEXT, EXAMPLE, adds)


# -- models --------------------------------------------------------------------------------------------------------


def _add_models(commands: Commands) -> None:
    own = command(
        commands, "models", _models, "list the ready models, or write the diagram of one as JSON",
        """
Lists the ready models; with the name of one, writes its diagram as JSON, to the standard output or a file. The
options are the arguments of the model's function in Python: idbandits models NAME --help shows them.
""",
        """
idbandits models
idbandits models cascade --items 20 --positions 2 --out cascade.json
idbandits models position_based --items news,sport,music --positions 2 --no-distinct --out list.json
idbandits models rank1 --rows 8 --columns 10 | idbandits draw - --out rank1.svg
""",
    )  # fmt: skip
    own.add_argument("model", nargs="?", metavar="NAME", help="the model whose diagram is written (none: list them)")
    own.add_argument("options", nargs="...", metavar="OPTIONS", help="its options; see idbandits models NAME --help")


def _models(arguments: Namespace) -> int:
    makers = _makers()
    if arguments.model is None:
        for name, make in makers.items():
            print(f"{name}{_signature(make)}\n    {_paragraphs(make).splitlines()[0]}")
        return 0
    name = pick("model", arguments.model, makers)
    own = parser(f"idbandits models {name}", _paragraphs(makers[name]), "")
    _add_parameters(own, makers[name])
    own.add_argument("--out", type=Path, metavar="FILE", help="write to this file (else the standard output)")
    given = vars(own.parse_args(arguments.options))
    out = given.pop("out")
    d: Diagram = makers[name](**given)
    if out is None:
        print(json.dumps(d.to_dict(), indent=1, allow_nan=False))
    else:
        _save(d, out)
        say(f"wrote {out}: {d!r}")
    return 0


def _makers() -> dict[str, Callable[..., Any]]:
    """The ready models: the public functions that their module defines."""
    from idbandits import models

    functions = inspect.getmembers(models, inspect.isfunction)
    found = {name: f for name, f in functions if f.__module__ == models.__name__ and not name.startswith("_")}
    return dict(sorted(found.items(), key=lambda one: one[1].__code__.co_firstlineno))


def _signature(make: Callable[..., Any]) -> str:
    return f"({', '.join(str(p.replace(annotation=p.empty)) for p in inspect.signature(make).parameters.values())})"


def _paragraphs(documented: object) -> str:
    """A docstring without its examples."""
    return (inspect.getdoc(documented) or "").partition(">>>")[0].strip()


def _add_parameters(own: ArgumentParser, make: Callable[..., Any]) -> None:
    """An option for each parameter of a function: flags, whole numbers and texts by their types, else items."""
    hints = get_type_hints(make)
    for name, parameter in inspect.signature(make).parameters.items():
        option, hint, needed = f"--{name.replace('_', '-')}", hints[name], parameter.default is parameter.empty
        told = "" if needed else " (default: %(default)s)"
        how: dict[str, Any] = {"required": needed, "default": parameter.default}
        if hint is bool:
            how |= {"action": BooleanOptionalAction, "help": f"yes or no{told}"}
        elif hint is int:
            how |= {"type": whole(1, MOST_POSITIONS), "metavar": "N", "help": f"a whole number{told}"}
        elif hint is str:
            how |= {"metavar": "TEXT", "help": f"a word{told}"}
        else:
            how |= {"type": _items, "metavar": "ITEMS", "help": f"how many, or labels: a,b,c, or a JSON list{told}"}
        own.add_argument(option, **how)


def _items(text: str) -> int | list[Any]:
    """A number of items, or their labels."""
    with suppress(ValueError):
        return int(text)
    if not text.startswith("["):
        if not all(labels := [label.strip() for label in text.split(",")]):
            raise ArgumentTypeError(f"a label is empty in {text!r}")
        return labels
    try:
        found: list[Any] = json.loads(text)
    except (ValueError, RecursionError) as error:  # also a whole number of too many digits
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ArgumentTypeError(f"{shown!r} is not JSON: {error}") from None
    return found


# -- draw ----------------------------------------------------------------------------------------------------------


def _add_draw(commands: Commands) -> None:
    own = command(
        commands, "draw", _draw, "draw a diagram",
        """
Draws a diagram: decisions red, latent nodes gray, observed nodes blue, each learned table in a colour. The suffix
of the file says how: .svg, .png, .pdf, or .mmd for Mermaid text, which is also printed if no file is named.
""",
        """
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.png
idbandits models cascade --items 5 --positions 2 | idbandits draw - --out cascade.svg
""",
    )  # fmt: skip
    _add_file(own)
    own.add_argument("--out", type=Path, metavar="FILE", help="write to this file (else Mermaid text to the output)")


def _draw(arguments: Namespace) -> int:
    from idbandits.app.arguments import read_diagram

    picture = read_diagram(arguments.file).draw()
    if arguments.out is None:
        print(picture.mermaid(), end="")
    else:
        _save(picture, arguments.out)
        say(f"wrote {arguments.out}")
    return 0


# -- solve ---------------------------------------------------------------------------------------------------------


def _add_solve(commands: Commands) -> None:
    own = command(
        commands, "solve", _solve, "find the best action under given means",
        f"""
Finds the action with the highest expected reward if the learned tables have these means, and says whether it is
proven to be the best; if not, what no action exceeds.
{MEANS_TEXT}""",
        """
idbandits models position_based --items news,sport,music --positions 2 --out list.json
idbandits solve list.json --means attraction=0.1,0.4,0.2 --means examination=0.9,0.5
idbandits solve list.json --means random --seed 3 --json
""",
    )  # fmt: skip
    _add_file(own)
    _add_means(own)
    own.add_argument("--context", action="append", default=[], metavar="NODE=VALUE",
                     help="the value of a context node; repeat it for each, or give JSON")  # fmt: skip
    own.add_argument("--effort", type=float, default=1.0, metavar="X", help="a factor on the search allowed (1)")
    own.add_argument("--json", action="store_true", help="print JSON")


def _solve(arguments: Namespace) -> int:
    import numpy as np

    from idbandits.app.arguments import read_context, read_diagram, read_means
    from idbandits.solve.best import best_action

    d = read_diagram(arguments.file)
    means, drawn = read_means(d, arguments.means, arguments.seed)
    context = read_context(d, arguments.context)
    best = best_action(d, means, context, effort=arguments.effort)
    if arguments.json:
        given = {"means": {name: np.asarray(means[name]).tolist() for name in d.learned}, "context": context or {}}
        print(json.dumps({**best._asdict(), **given}, indent=1))
    else:
        print(repr(d))
        _print_drawn({name: means[name] for name in drawn}, d.learned, arguments.seed)
        _print_solution(best)
    return 0


def _print_drawn(drawn: Mapping[str, Any], tables: Mapping[str, LearnedTable], seed: int) -> None:
    import numpy as np

    if drawn:
        print(f"means drawn from the prior with seed {seed}:")
    for name, numbers in drawn.items():
        shape = " x ".join(map(str, tables[name].means_shape))
        text = np.array2string(numbers, precision=4, threshold=50, edgeitems=4, max_line_width=100, prefix="    ")
        print(f"  {name} ({shape}):\n    {text}")


def _print_solution(best: Solution) -> None:
    proof = "proven to be the best" if best.exact else f"not proven: no action exceeds {best.bound:.6g}"
    print(f"best action: {', '.join(f'{name} = {value}' for name, value in best.action.items())}")
    print(f"expected reward: {best.value:.6g}, {proof}")


# -- learners ------------------------------------------------------------------------------------------------------


def _add_learners(commands: Commands) -> None:
    command(
        commands, "learners", _learners, "list the learners that can be simulated",
        """
Lists the learners that idbandits simulate knows: Thompson sampling with each of the inferences, the same with all
latent nodes revealed (full), and the baselines; with their settings, which are given after a colon.
""",
        "idbandits learners",
    )  # fmt: skip


def _learners(_: Namespace) -> int:
    from idbandits.app.arguments import learner_kinds, learner_settings

    for name, kind in learner_kinds().items():
        settings = ",".join(f"{key}={value}" for key, value in learner_settings(kind).items())
        about = "Every latent node is seen, with the exact posterior: the most that can be hoped for."
        text = about if name == "full" else _paragraphs(kind).splitlines()[0]
        print(f"{name}{':' * bool(settings)}{settings}\n    {text}")
    return 0


# -- simulate ------------------------------------------------------------------------------------------------------


def _add_simulate(commands: Commands) -> None:
    own = command(
        commands, "simulate", _simulate, "let learners play in a world with given means, and compare them",
        f"""
Lets each learner play many runs in a world of this diagram whose true means are given, and prints the average reward
a round and the total regret (by how much it fell short of always taking the best action), with standard errors over
the runs. idbandits learners lists the learners. Ctrl-C keeps the runs that have finished.
{MEANS_TEXT}""",
        """
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits simulate cascade.json --means attraction=0.1,0.2,0.3,0.6,0.7 --rounds 500 --runs 4
idbandits simulate cascade.json --means random --learner full --learner variational:sweeps=5 --runs 4 --out results
""",
    )  # fmt: skip
    _add_file(own)
    _add_means(own)
    own.add_argument("--learner", action="append", metavar="NAME[:SETTINGS]", help="repeat it for several (ep)")
    own.add_argument("--rounds", type=whole(1, MOST_ROUNDS), default=20_000, metavar="N", help="of each run (20000)")
    own.add_argument("--runs", type=whole(1, MOST_RUNS), default=20, metavar="N", help="of each learner (20)")
    own.add_argument("--workers", type=whole(1, MOST_WORKERS), metavar="N", help="threads (one a core)")
    own.add_argument("--contexts", metavar="JSON", help="probabilities of context values, or a file of them (equal)")
    own.add_argument("--out", type=Path, metavar="DIR", help="a folder for results, summary, means and figures")
    own.add_argument("--no-progress", action="store_true", help="show no progress (nor if nobody watches)")


def _simulate(arguments: Namespace) -> int:
    import sys

    import idbandits as idb
    from idbandits.app.arguments import read_contexts, read_diagram, read_learners, read_means

    d = read_diagram(arguments.file)
    means, drawn = read_means(d, arguments.means, arguments.seed)
    world = idb.World(d, means, contexts=read_contexts(d, arguments.contexts))
    learners = read_learners(d, arguments.learner or ["ep"])
    print(repr(d))
    _print_drawn({name: means[name] for name in drawn}, d.learned, arguments.seed)
    if not d.of_kind("context"):
        _print_solution(world.best())
    sys.stdout.flush()
    with folder(arguments.out):
        result = idb.simulate(
            world, learners, arguments.rounds, arguments.runs, arguments.seed, arguments.workers,
            progress=not arguments.no_progress and sys.stderr.isatty(),
        )  # fmt: skip
        if result.frame.empty:
            raise KeyboardInterrupt
        if arguments.out is not None:
            _write(result, world.means, arguments.out)  # before anything is printed, which a closed pipe ends
        print(result.summary().to_string(index=False, float_format="{:.4f}".format))
    if result.settings["interrupted"]:
        finished = len(result.frame[["learner", "run"]].drop_duplicates())
        say(f"interrupted; kept the {finished} of {arguments.runs * len(learners)} runs that had finished")
        return INTERRUPTED
    return 0


def _write(result: Result, means: Mapping[str, Any], out: Path) -> None:
    """Put a result into a folder: all files are made before the first takes its place."""
    from idbandits.errors import IdbanditsError

    with TemporaryDirectory(dir=out, prefix=".") as scratch:
        made = Path(scratch)
        result.save(made / "results.parquet")
        result.summary().to_csv(made / "summary.csv", index=False)
        (made / "means.json").write_text(json.dumps({name: table.tolist() for name, table in means.items()}, indent=1))
        for what in ("reward", "regret"):
            try:
                _plot(result, what, made)
            except IdbanditsError as error:  # nothing to be seen: the numbers are kept all the same
                say(f"warning: {error}")
        names = sorted(file.name for file in made.iterdir())
        for name in names:
            os.replace(made / name, out / name)
    say(f"wrote {', '.join(names)} to {out}")


def _plot(result: Result, what: Literal["reward", "regret"], folder: Path) -> None:
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "idbandits"}]):
        figure = Figure(figsize=(6, 4), layout="constrained")
        result.plot(what, figure.subplots())
        figure.savefig(folder / f"{what}.png", dpi=150)
        figure.savefig(folder / f"{what}.svg", metadata={"Date": None})


# -- what commands share ------------------------------------------------------------------------------------------


def _add_file(own: ArgumentParser) -> None:
    own.add_argument("file", metavar="FILE", help="a diagram as JSON, or - for the standard input")


def _save(thing: Diagram | Picture, out: Path) -> None:
    """Save something; an error names the file that was asked for, not the scratch file beside it."""
    try:
        thing.save(out)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from None


def _add_means(own: ArgumentParser) -> None:
    own.add_argument(
        "--means", action="append", default=[], metavar="MEANS", help="see above; repeat it for each table"
    )
    own.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of all that is random (0)")
