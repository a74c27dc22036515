"""`idbandits models`, `draw`, `check` and `solve`: ready models, pictures and checks of diagrams, and best actions."""

import inspect
import json
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, get_type_hints

import numpy as np

from idbandits import models as ready
from idbandits.cli.arguments import read_context, read_diagram, read_features, read_means
from idbandits.cli.command import Parser, docstring, file_path, help_of, pick, say, whole_number
from idbandits.diagram.diagram import Diagram
from idbandits.errors import brief
from idbandits.kernel.array_types import Floats
from idbandits.solve.solver import Solution, best_action

Model: TypeAlias = Callable[..., Diagram]


def models(arguments: Namespace) -> None:
    """List the ready models, or write the diagram of one: all public functions that `idbandits.models` defines."""
    functions: dict[str, Model] = {
        name: member
        for name, member in vars(ready).items()
        if inspect.isfunction(member) and member.__module__ == ready.__name__ and not name.startswith("_")
    }
    if arguments.model is None:
        for name, model in functions.items():
            parameters = [str(p.replace(annotation=p.empty)) for p in inspect.signature(model).parameters.values()]
            print(f"{name}({', '.join(parameters)})\n    {docstring(model).splitlines()[0]}")
        return
    name = pick("model", arguments.model, functions)
    parser = Parser(f"idbandits models {name}", **help_of(docstring(functions[name])))
    _add_parameters(parser, functions[name])
    parser.add_argument("--out", type=file_path, metavar="FILE", help="write to this file (else the standard output)")
    options = vars(parser.parse_args(arguments.options))
    out = options.pop("out")
    options["features"] = read_features(options["features"])
    d = functions[name](**options)
    if out is None:
        print(json.dumps(d.to_dict(), indent=1, allow_nan=False))
    else:
        d.save(out)
        say(f"wrote {out}: {d!r}")


def _add_parameters(parser: ArgumentParser, model: Model) -> None:
    """Add one option per parameter: by its type, and anything else as items."""
    kinds: dict[Any, tuple[str, dict[str, Any]]] = {
        bool: ("yes or no", {"action": BooleanOptionalAction}),
        int: ("a whole number", {"type": whole_number(1, ready.MOST_POSITIONS), "metavar": "N"}),
        str: ("a word", {"metavar": "TEXT"}),
        ready.ByTable: ("by table, as JSON", {"type": _by_table, "metavar": "JSON"}),
    }
    several: dict[str, tuple[str, dict[str, Any]]] = {
        "features": (
            "of a table's rows, from a CSV file: labels first, then columns (repeat it for several tables)",
            {"action": "append", "metavar": "TABLE=FILE"},
        ),
        "pooled": ("a table whose rows have a common prior (repeat it)", {"action": "append", "metavar": "TABLE"}),
    }
    items = "how many, or labels: a,b,c, or a JSON list", {"type": _items, "metavar": "ITEMS"}
    hints = get_type_hints(model)
    for name, parameter in inspect.signature(model).parameters.items():
        option, required = f"--{name.replace('_', '-')}", parameter.default is parameter.empty
        if name in several:
            text, settings = several[name]
            parser.add_argument(option, default=[], help=text, **settings)
            continue
        text, settings = kinds.get(hints[name], items)
        text += "" if required else " (default: %(default)s)"
        parser.add_argument(option, required=required, default=parameter.default, help=text, **settings)


def _by_table(text: str) -> dict[str, Any]:
    """Settings of tables, in which rows are named by JSON where they can be: "0" is row 0."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{brief(text)} is not JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ArgumentTypeError(f"{brief(text)} is not a JSON object by table")
    return {
        table: {_row(row): value for row, value in own.items()} if isinstance(own, dict) else own
        for table, own in settings.items()
    }


def _row(text: str) -> Any:
    """A row: a number, a label, or several labels in a JSON list."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return tuple(row) if isinstance(row, list) else row


def _items(text: str) -> int | list[Any]:
    """A number of items, or their labels."""
    with suppress(ValueError):
        return int(text)
    if not text.startswith("["):
        if not all(labels := [label.strip() for label in text.split(",")]):
            raise ArgumentTypeError(f"a label is empty in {text!r}")
        return labels
    try:
        items: list[Any] = json.loads(text)
    except (ValueError, RecursionError) as error:  # also a whole number of too many digits
        raise ArgumentTypeError(f"{brief(text)} is not JSON: {error}") from None
    return items


def draw(arguments: Namespace) -> None:
    """Draw a diagram."""
    picture = read_diagram(arguments.file).draw()
    if arguments.out is None:
        print(picture.mermaid(), end="")
    else:
        picture.save(arguments.out)
        say(f"wrote {arguments.out}")


def check(arguments: Namespace) -> None:
    """Say what cannot be learned in a diagram, and how large it is."""
    print(repr(read_diagram(arguments.file).check()))


def solve(arguments: Namespace) -> None:
    """Find the best action under given means."""
    d = read_diagram(arguments.file)
    given, drawn = read_means(d, arguments.means, arguments.seed)
    means, context = given | drawn, read_context(d, arguments.context)
    solution = best_action(d, means, context, effort=arguments.effort)
    if arguments.json:
        asked = {"means": {name: np.asarray(means[name]).tolist() for name in d.learned}, "context": context or {}}
        print(json.dumps({**solution._asdict(), **asked}, indent=1))
    else:
        print_problem(d, drawn, arguments.seed)
        print_solution(solution)


def print_problem(d: Diagram, drawn: Mapping[str, Floats], seed: int) -> None:
    """Print a diagram, and the means that were drawn from the prior."""
    print(repr(d))
    if drawn:
        print(f"means drawn from the prior with seed {seed}:")
    for name, numbers in drawn.items():
        text = np.array2string(numbers, precision=4, threshold=50, edgeitems=4, max_line_width=100, prefix="    ")
        print(f"  {name} ({' x '.join(map(str, numbers.shape))}):\n    {text}")


def print_solution(solution: Solution) -> None:
    """Print the best action, what it earns, and whether it is proven to be the best."""
    proof = "proven to be the best" if solution.exact else f"not proven: no action exceeds {solution.bound:.6g}"
    print(f"best action: {', '.join(f'{name} = {value}' for name, value in solution.action.items())}")
    print(f"expected reward: {solution.value:.6g}, {proof}")
