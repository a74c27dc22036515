"""Commands `simulate`, `learners` and `compile`: compare learners in a world, list them, compile their kernels."""

import inspect
import json
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from idbandits import baselines
from idbandits.agent.thompson import Thompson
from idbandits.agent.warmup import kernels_behind, warm_up
from idbandits.cli.arguments import json_or_text, read_contexts, read_diagram, read_means
from idbandits.cli.command import INTERRUPTED, docstring, output_folder, pick, say, watched
from idbandits.cli.diagram_commands import print_problem, print_solution
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.files import write_whole
from idbandits.inference import BY_NAME, default_inference
from idbandits.kernel import pack
from idbandits.kernel.array_types import Floats
from idbandits.simulation import simulate as simulation
from idbandits.simulation.plots import Measure, rendered
from idbandits.simulation.results import Result
from idbandits.simulation.workers import MOST_ROUNDS
from idbandits.simulation.world import World

REVEALED = "Exact posterior with all latent nodes observed: an upper bound for the others."


def learners(_: Namespace) -> None:
    """List the learners that can be simulated."""
    for name, learner in _classes().items():
        settings = ",".join(f"{key}={value}" for key, value in _defaults(learner).items())
        text = REVEALED if name == "full" else docstring(learner).splitlines()[0]
        print(f"{name}{':' * bool(settings)}{settings}\n    {text}")
    print(f"Default: {described_default()}")


def simulate(arguments: Namespace) -> int:
    """Simulate learners in a world, and compare them."""
    d = read_diagram(arguments.file)
    means, drawn = read_means(d, arguments.means, arguments.seed)
    world = World(d, means | drawn, contexts=read_contexts(d, arguments.contexts))
    learners = read_learners(d, arguments.learner)
    print_problem(d, drawn, arguments.seed)
    if not d.of_kind("context"):
        print_solution(world.best())
    print(end="", flush=True)
    with output_folder(arguments.out):
        result = simulation.simulate(
            world, learners, arguments.rounds, arguments.runs, arguments.seed, arguments.workers,
            progress=not arguments.no_progress and watched(),
        )  # fmt: skip
        if result.frame.empty:
            raise KeyboardInterrupt
        if arguments.out is not None:
            _write(result, world.means, arguments.out)  # before printing, because a closed pipe ends the command
        print(result.summary().to_string(index=False, float_format="{:.4f}".format))
    if not result.settings["interrupted"]:
        return 0
    finished = len(result.frame[["learner", "run"]].drop_duplicates())
    say(f"interrupted; kept the {finished} of {arguments.runs * len(learners)} runs that had finished")
    return INTERRUPTED


def compile_learners(arguments: Namespace) -> None:
    """Compile all kernels that learners in a diagram may need, and print their number."""
    folders: set[str] = set()
    if arguments.native:
        os.environ[pack.NATIVE] = "1"  # which worker processes inherit
    for name, learner in read_learners(read_diagram(arguments.file), arguments.learner).items():
        if isinstance(learner, Thompson):
            kernels = list(learner.kernels)
        else:
            kernels = list(dict.fromkeys([*learner.player.kernels, *kernels_behind(type(learner).__module__)]))
        done = warm_up(kernels, arguments.workers)
        compiled = f"compiled {done.new}" if done.new else "all were compiled before"
        print(f"{name}: {done.kernels} kernels, {compiled}; {done.seconds:.1f} s")
        folders |= {str(kernel.folder) for kernel in kernels if kernel.folder is not None}
    print(pack.described())
    print(f"new code is stored in {os.path.commonpath(folders)}" if folders else "not stored: no folder is writable")


def described_default() -> str:
    """Return the name of the default learner, for diagrams with and without context features.

    >>> described_default()
    'gibbs; moments if a context has features'
    """
    plain, featured = Diagram("plain"), Diagram("featured")
    featured.context("user", features=["age"])
    usual, other = default_inference(plain), default_inference(featured)
    return usual if usual == other else f"{usual}; {other} if a context has features"


def _classes() -> dict[str, type[Any]]:
    """Return all learners by name: inferences, `full` for exact inference with latent nodes revealed, and baselines."""
    return {**BY_NAME, "full": BY_NAME["exact"]} | {name: getattr(baselines, name) for name in baselines.__all__}


def _defaults(learner: type[Any]) -> dict[str, Any]:
    """Return the settings of a learner with their defaults: all optional arguments but the seed."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(learner).parameters.items()
        if parameter.default is not parameter.empty and name != "seed"
    }


def read_learners(d: Diagram, texts: Sequence[str] | None) -> dict[str, Any]:
    """Return learners by name, with settings after a colon, as in `variational:sweeps=5`; by default the usual one."""
    classes, learners = _classes(), dict[str, Any]()
    for text in texts or [default_inference(d)]:
        if text in learners:
            raise IdbanditsError(f"learner {text!r} occurs twice")
        name = pick("learner", text.partition(":")[0], classes)
        settings = _settings(text, _defaults(classes[name]))
        if name in BY_NAME or name == "full":
            learners[text] = Thompson(d.revealed() if name == "full" else d, classes[name](**settings))
        else:
            learners[text] = classes[name](d, seed=0, **settings)
    return learners


def _settings(learner: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the settings after the colon: JSON, True or False, or words."""
    text, who = learner.partition(":")[2], f"learner {brief(learner)}"
    settings: dict[str, Any] = {}
    for pair in text.split(",") if text else ():
        name, _, value = pair.partition("=")
        if name not in defaults:
            raise IdbanditsError(f"{who}: {name!r} is not one of its settings: {', '.join(defaults) or 'none'}")
        if name in settings:
            raise IdbanditsError(f"{who}: {name} occurs twice")
        settings[name] = number = json_or_text(value.lower() if value in ("True", "False") else value)
        if isinstance(number, int) and abs(number) > MOST_ROUNDS:
            raise IdbanditsError(f"{who}: {name} must be at most {MOST_ROUNDS}, got {value!r}")
        if isinstance(defaults[name], bool) and not isinstance(number, bool):
            raise IdbanditsError(f"{who}: {name} must be true or false, got {value!r}")
    return settings


def _write(result: Result, means: Mapping[str, Floats], out: Path) -> None:
    """Write a result to a folder, after the contents of all files were made."""
    plain = {name: table.tolist() for name, table in means.items()}
    files = {
        "results.parquet": result.to_parquet(), "summary.csv": result.summary().to_csv(index=False).encode(),
        "means.json": json.dumps(plain, indent=1).encode(),
    }  # fmt: skip
    measures: tuple[Measure, ...] = ("reward", "regret")
    for measure in measures:
        try:
            files |= {f"{measure}.{kind}": content for kind, content in _plot(result, measure).items()}
        except IdbanditsError as error:  # no curve to draw; the numbers are written nevertheless
            say(f"warning: {error}")
    for name, content in files.items():
        write_whole(out / name, content)
    say(f"wrote {', '.join(sorted(files))} to {out}")


def _plot(result: Result, measure: Measure) -> dict[str, bytes]:
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "idbandits"}]):
        figure = Figure(figsize=(6, 4), layout="constrained")
        result.plot(measure, figure.subplots())
        return rendered(figure, dpi=150)
