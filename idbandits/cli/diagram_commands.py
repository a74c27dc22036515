"""Commands `models`, `draw`, `check` and `solve`: ready models, pictures and checks of diagrams, best actions."""

import inspect
import json
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, get_type_hints

import numpy as np

from idbandits import models as ready
from idbandits.cli.arguments import json_or_text, read_context, read_diagram, read_features, read_means
from idbandits.cli.command import Parser, docstring, file_path, help_of, integer, pick, say
from idbandits.diagram.diagram import Diagram
from idbandits.errors import brief
from idbandits.kernel.array_types import Floats
from idbandits.solve.solver import Solution, best_action

Model: TypeAlias = Callable[..., Diagram]


def models(arguments: Namespace) -> None:
    """List the ready models, which are the public functions of `idbandits.models`, or write the diagram of one."""
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
    parser.add_argument("--out", type=file_path, metavar="FILE", help="output file (default: standard output)")
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
    """Add an option for each parameter of a model by its name or type; other types are items."""
    by_name: dict[str, dict[str, Any]] = {
        "features": {
            "action": "append", "metavar": "TABLE=FILE",
            "help": "features of a table's rows: a CSV file with a header and labels first (repeatable)",
        },
        "pooled": {"action": "append", "metavar": "TABLE", "help": "table whose rows share a prior (repeatable)"},
    }  # fmt: skip
    by_type: dict[Any, dict[str, Any]] = {
        bool: {"action": BooleanOptionalAction, "help": "switch (default: %(default)s)"},
        int: {"type": integer(1, ready.MOST_POSITIONS), "metavar": "N", "help": "integer"},
        str: {"metavar": "TEXT", "help": "text (default: %(default)s)"},
        ready.ByTable: {"type": _by_table, "metavar": "JSON", "help": "JSON object by table"},
    }
    items = {"type": _items, "metavar": "ITEMS", "help": "number, labels a,b,c, or a JSON list"}
    hints = get_type_hints(model)
    for name, parameter in inspect.signature(model).parameters.items():
        required = parameter.default is parameter.empty
        default = [] if name in by_name else None if required else parameter.default
        settings = by_name.get(name) or by_type.get(hints[name], items)
        parser.add_argument(f"--{name.replace('_', '-')}", required=required, default=default, **settings)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{brief(text)} is not JSON: {error}") from None


def _by_table(text: str) -> dict[str, Any]:
    """Parse settings by table; keys of rows may be JSON: "0" is row 0, and a list is a tuple of labels."""
    if not isinstance(settings := _json(text), dict):
        raise ArgumentTypeError(f"must be a JSON object by table, got {brief(text)}")
    return {
        table: {_row(row): value for row, value in rows.items()} if isinstance(rows, dict) else rows
        for table, rows in settings.items()
    }


def _row(text: str) -> Any:
    row = json_or_text(text)
    return tuple(row) if isinstance(row, list) else row


def _items(text: str) -> Any:
    """Parse a number of items, or their labels."""
    with suppress(ValueError):
        return int(text)
    if text.startswith("["):
        return _json(text)
    if not all(labels := [label.strip() for label in text.split(",")]):
        raise ArgumentTypeError(f"labels must not be empty, got {text!r}")
    return labels


def draw(arguments: Namespace) -> None:
    """Draw a diagram."""
    picture = read_diagram(arguments.file).draw()
    if arguments.out is None:
        print(picture.mermaid(), end="")
    else:
        picture.save(arguments.out)
        say(f"wrote {arguments.out}")


def check(arguments: Namespace) -> None:
    """Print the findings of `Diagram.check`."""
    print(repr(read_diagram(arguments.file).check()))


def solve(arguments: Namespace) -> None:
    """Find the best action under given means."""
    d = read_diagram(arguments.file)
    means, drawn = read_means(d, arguments.means, arguments.seed)
    means, context = means | drawn, read_context(d, arguments.context)
    solution = best_action(d, means, context, effort=arguments.effort)
    if arguments.json:
        inputs = {"means": {name: np.asarray(means[name]).tolist() for name in d.learned}, "context": context or {}}
        print(json.dumps({**solution._asdict(), **inputs}, indent=1))
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
    """Print the best action, its expected reward, and whether it is proven optimal."""
    proof = "proven optimal" if solution.exact else f"not proven: no action exceeds {solution.bound:.6g}"
    print(f"best action: {', '.join(f'{name} = {value}' for name, value in solution.action.items())}")
    print(f"expected reward: {solution.value:.6g}, {proof}")
