"""`idbandits simulate`: let learners act in a world with given means, and compare them."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from idbandits.app.frame import INTERRUPTED, Command, output_folder, say, starting
from idbandits.app.options import MEANS_HELP, add_file, add_means, add_rounds, add_runs, add_seed, add_workers
from idbandits.app.solve import print_drawn, print_solution
from idbandits.errors import IdbanditsError

if TYPE_CHECKING:
    from idbandits.kernel.types import Floats
    from idbandits.simulation.results import Result


def _add_options(parser: ArgumentParser) -> None:
    add_file(parser)
    add_means(parser)
    add_seed(parser)
    parser.add_argument("--learner", action="append", metavar="NAME[:SETTINGS]", help="repeat it for several (ep)")
    add_rounds(parser, 20_000, "of each run (20000)")
    add_runs(parser, 20, "of each learner (20)")
    add_workers(parser)
    parser.add_argument("--contexts", metavar="JSON", help="probabilities of context values, or a file of them (equal)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a folder for results, summary, means and figures")
    parser.add_argument("--no-progress", action="store_true", help="show no progress (only terminals show it anyway)")


def _run(arguments: Namespace) -> int:
    with starting():
        from idbandits.app.arguments import read_contexts, read_diagram, read_learners, read_means
        from idbandits.simulation.simulate import simulate
        from idbandits.simulation.world import World

    d = read_diagram(arguments.file)
    given, drawn = read_means(d, arguments.means, arguments.seed)
    world = World(d, given | drawn, contexts=read_contexts(d, arguments.contexts))
    learners = read_learners(d, arguments.learner or ["ep"])
    print(repr(d))
    print_drawn(drawn, arguments.seed)
    if not d.of_kind("context"):
        print_solution(world.best())
    sys.stdout.flush()
    with output_folder(arguments.out):
        result = simulate(
            world, learners, arguments.rounds, arguments.runs, arguments.seed, arguments.workers,
            progress=not arguments.no_progress and sys.stderr.isatty(),
        )  # fmt: skip
        if result.frame.empty:
            raise KeyboardInterrupt
        if arguments.out is not None:
            _write(result, world.means, arguments.out)  # before printing, because a closed pipe ends the command
        print(result.summary().to_string(index=False, float_format="{:.4f}".format))
    if result.settings["interrupted"]:
        finished = len(result.frame[["learner", "run"]].drop_duplicates())
        say(f"interrupted; kept the {finished} of {arguments.runs * len(learners)} runs that had finished")
        return INTERRUPTED
    return 0


def _write(result: Result, means: Mapping[str, Floats], out: Path) -> None:
    """Write a result to a folder: all files are made before the first takes its place."""
    with TemporaryDirectory(dir=out, prefix=".") as name:
        scratch = Path(name)
        result.save(scratch / "results.parquet")
        result.summary().to_csv(scratch / "summary.csv", index=False)
        text = json.dumps({name: table.tolist() for name, table in means.items()}, indent=1)
        (scratch / "means.json").write_text(text)
        for quantity in ("reward", "regret"):
            try:
                _plot(result, quantity, scratch)
            except IdbanditsError as error:  # there is nothing to be seen; the numbers are written all the same
                say(f"warning: {error}")
        names = sorted(file.name for file in scratch.iterdir())
        for name in names:
            os.replace(scratch / name, out / name)
    say(f"wrote {', '.join(names)} to {out}")


def _plot(result: Result, quantity: Literal["reward", "regret"], folder: Path) -> None:
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "idbandits"}]):
        figure = Figure(figsize=(6, 4), layout="constrained")
        result.plot(quantity, figure.subplots())
        figure.savefig(folder / f"{quantity}.png", dpi=150)
        figure.savefig(folder / f"{quantity}.svg", metadata={"Date": None})


COMMAND = Command(
    name="simulate",
    summary="let learners act in a world with given means, and compare them",
    description=f"""
Lets each learner act for many runs in a world of this diagram whose true means are given. Prints the average reward
per round and the total regret (by how much it fell short of always taking the best action), with standard errors over
the runs. idbandits learners lists the learners. Ctrl-C keeps the runs that have finished.
{MEANS_HELP}""",
    example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits simulate cascade.json --means attraction=0.1,0.2,0.3,0.6,0.7 --rounds 500 --runs 4
idbandits simulate cascade.json --means random --learner full --learner variational:sweeps=5 --runs 4 --out results
""",
    add_options=_add_options,
    run=_run,
)
