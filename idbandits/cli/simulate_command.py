"""`idbandits simulate` and `learners`: learners act in a world with given means, and are compared."""

import inspect
import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from idbandits import baselines
from idbandits.agent.thompson import Thompson
from idbandits.cli.arguments import read_contexts, read_diagram, read_means
from idbandits.cli.command import INTERRUPTED, docstring, output_folder, pick, say, watched
from idbandits.cli.diagram_commands import print_problem, print_solution
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.files import write_whole
from idbandits.inference import BY_NAME, default_inference
from idbandits.kernel.array_types import Floats
from idbandits.simulation import simulate as simulation
from idbandits.simulation.plots import Measure, rendered
from idbandits.simulation.results import Result
from idbandits.simulation.workers import MOST_ROUNDS
from idbandits.simulation.world import World

REVEALED = "Every latent node is seen, with the exact posterior: the most that can be hoped for."


def learners(_: Namespace) -> None:
    """List the learners that can be simulated."""
    for name, learner in _classes().items():
        settings = ",".join(f"{key}={value}" for key, value in _defaults(learner).items())
        text = REVEALED if name == "full" else docstring(learner).splitlines()[0]
        print(f"{name}{':' * bool(settings)}{settings}\n    {text}")
    print(f"Without --learner: {described_default()}")


def simulate(arguments: Namespace) -> int:
    """Let learners act in a world, and compare them."""
    d = read_diagram(arguments.file)
    given, drawn = read_means(d, arguments.means, arguments.seed)
    world = World(d, given | drawn, contexts=read_contexts(d, arguments.contexts))
    learners = read_learners(d, arguments.learner or [default_inference(d)])
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


def described_default() -> str:
    """The name of the learner that simulates where none is named, for diagrams of both kinds.

    >>> described_default()
    'gibbs; moments if a context has features'
    """
    plain, featured = Diagram("plain"), Diagram("featured")
    featured.context("user", features=["age"])
    usual, other = default_inference(plain), default_inference(featured)
    return usual if usual == other else f"{usual}; {other} if a context has features"


def _classes() -> dict[str, type[Any]]:
    """All learners by name: inferences, `full` for exact inference with latent nodes revealed, and baselines."""
    return {**BY_NAME, "full": BY_NAME["exact"]} | {name: getattr(baselines, name) for name in baselines.__all__}


def _defaults(learner: type[Any]) -> dict[str, Any]:
    """The settings of a learner, with their defaults: what its class takes beside a diagram and a seed."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(learner).parameters.items()
        if parameter.default is not parameter.empty and name != "seed"
    }


def read_learners(d: Diagram, texts: Sequence[str]) -> dict[str, Any]:
    """The learners with these names, each with settings after a colon: `variational:sweeps=5,start=random`."""
    classes, learners = _classes(), dict[str, Any]()
    for text in texts:
        if text in learners:
            raise IdbanditsError(f"learner {text!r} is given twice")
        name = pick("learner", text.partition(":")[0], classes)
        settings = _settings(text, _defaults(classes[name]))
        if name in BY_NAME or name == "full":
            learners[text] = Thompson(d.revealed() if name == "full" else d, classes[name](**settings))
        else:
            learners[text] = classes[name](d, seed=0, **settings)
    return learners


def _settings(learner: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What follows the colon, where only settings with a default are allowed."""
    text = learner.partition(":")[2]
    settings: dict[str, Any] = {}
    for pair in text.split(",") if text else ():
        name, _, value = pair.partition("=")
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise IdbanditsError(f"learner {learner!r}: {name!r} is not a setting of it; these are: {known}")
        if name in settings:
            raise IdbanditsError(f"learner {learner!r}: {name} is given twice")
        settings[name] = _setting(value)
        if isinstance(settings[name], int) and abs(settings[name]) > MOST_ROUNDS:
            raise IdbanditsError(f"learner {brief(learner)}: {name} is a number up to {MOST_ROUNDS}, not {value!r}")
        if isinstance(defaults[name], bool) and not isinstance(settings[name], bool):
            raise IdbanditsError(f"learner {learner!r}: {name} is true or false, not {value!r}")
    return settings


def _setting(text: str) -> Any:
    """JSON, or Python's True and False, or else a word."""
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except (ValueError, RecursionError):
        return text


def _write(result: Result, means: Mapping[str, Floats], out: Path) -> None:
    """Write a result to a folder: all contents are made before the first file is written."""
    plain = {name: table.tolist() for name, table in means.items()}
    files = {
        "results.parquet": result.to_parquet(), "summary.csv": result.summary().to_csv(index=False).encode(),
        "means.json": json.dumps(plain, indent=1).encode(),
    }  # fmt: skip
    for quantity in ("reward", "regret"):
        try:
            files |= {f"{quantity}.{kind}": content for kind, content in _plot(result, quantity).items()}
        except IdbanditsError as error:  # there is nothing to be seen; the numbers are written all the same
            say(f"warning: {error}")
    for name, content in files.items():
        write_whole(out / name, content)
    say(f"wrote {', '.join(sorted(files))} to {out}")


def _plot(result: Result, quantity: Measure) -> dict[str, bytes]:
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "idbandits"}]):
        figure = Figure(figsize=(6, 4), layout="constrained")
        result.plot(quantity, figure.subplots())
        return rendered(figure, dpi=150)
