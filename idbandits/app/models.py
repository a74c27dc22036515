"""`idbandits models`: list the ready models, or write the diagram of one."""

from __future__ import annotations

import inspect
import json
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from idbandits.app.frame import Command, docstring, parser_of, pick, say, starting
from idbandits.app.options import whole_number
from idbandits.errors import brief

if TYPE_CHECKING:
    from idbandits.diagram.declare import Diagram

Model: TypeAlias = "Callable[..., Diagram]"
MOST_POSITIONS = 100_000


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="NAME", help="the model whose diagram is written (none: list them)")
    parser.add_argument("options", nargs="...", metavar="OPTIONS", help="its options; see idbandits models NAME --help")


def _run(arguments: Namespace) -> int:
    with starting():
        models = _ready_models()
    if arguments.model is None:
        for name, model in models.items():
            print(f"{name}{_signature(model)}\n    {docstring(model).splitlines()[0]}")
        return 0
    name = pick("model", arguments.model, models)
    parser = parser_of(f"idbandits models {name}", docstring(models[name]), "")
    _add_parameters(parser, models[name])
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file (else the standard output)")
    options = vars(parser.parse_args(arguments.options))
    out = options.pop("out")
    d = models[name](**options)
    if out is None:
        print(json.dumps(d.to_dict(), indent=1, allow_nan=False))
    else:
        d.save(out)
        say(f"wrote {out}: {d!r}")
    return 0


def _ready_models() -> dict[str, Model]:
    """The public functions that `idbandits.models` defines, in their order there."""
    from idbandits import models

    return {
        name: member
        for name, member in vars(models).items()
        if inspect.isfunction(member) and member.__module__ == models.__name__ and not name.startswith("_")
    }


def _signature(model: Model) -> str:
    return f"({', '.join(str(p.replace(annotation=p.empty)) for p in inspect.signature(model).parameters.values())})"


def _add_parameters(parser: ArgumentParser, model: Model) -> None:
    """Add one option per parameter: bools, whole numbers and texts by their types, anything else as items."""
    hints = get_type_hints(model)
    for name, parameter in inspect.signature(model).parameters.items():
        required = parameter.default is parameter.empty
        default = "" if required else " (default: %(default)s)"
        option: dict[str, Any] = {"required": required, "default": parameter.default}
        if hints[name] is bool:
            option |= {"action": BooleanOptionalAction, "help": f"yes or no{default}"}
        elif hints[name] is int:
            option |= {"type": whole_number(1, MOST_POSITIONS), "metavar": "N", "help": f"a whole number{default}"}
        elif hints[name] is str:
            option |= {"metavar": "TEXT", "help": f"a word{default}"}
        else:
            text = f"how many, or labels: a,b,c, or a JSON list{default}"
            option |= {"type": _items, "metavar": "ITEMS", "help": text}
        parser.add_argument(f"--{name.replace('_', '-')}", **option)


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


COMMAND = Command(
    name="models",
    summary="list the ready models, or write the diagram of one as JSON",
    description="""
Lists the ready models; with the name of one, writes its diagram as JSON, to the standard output or a file. The
options are the arguments of the model's function in Python: idbandits models NAME --help shows them.
""",
    example="""
idbandits models
idbandits models cascade --items 20 --positions 2 --out cascade.json
idbandits models position_based --items news,sport,music --positions 2 --no-distinct --out list.json
idbandits models rank1 --rows 8 --columns 10 | idbandits draw - --out rank1.svg
""",
    add_options=_add_options,
    run=_run,
)
