"""Declaration and execution of commands: help, exit statuses, signals, and errors as one line on stderr."""

import contextlib
import difflib
import inspect
import os
import pkgutil
import re
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, final

import idbandits
from idbandits.cli.interrupts import interruptible
from idbandits.errors import IdbanditsError, brief
from idbandits.files import path_of
from idbandits.simulation.workers import deferring

LONGEST = 1000  # characters of a message
FAILED, WRONG, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141  # exit statuses; for signals 128 + number, as in shells


@final
@dataclass(frozen=True)
class Command:
    """Command as data."""

    name: str
    summary: str  # one line for the list of commands
    run: str  # module:function of this package, imported when the command runs; returns the exit status, None for 0
    options: Sequence[Callable[[ArgumentParser], Any]]  # functions that add an option to a parser
    description: str
    example: str  # lines that work when pasted


class Parser(ArgumentParser):
    """Argument parser that raises IdbanditsError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise an error that points to the help."""
        raise IdbanditsError(f"{message} (see: {self.prog} --help)")


def help_of(description: str, example: str = "") -> dict[str, Any]:
    """Return arguments of a parser whose help is a paragraph, the options, and an example."""
    lines = "\n".join(f"  {line}" for line in example.strip().splitlines())
    epilog = f"example:\n{lines}" if lines else None
    return {"description": description.strip(), "epilog": epilog, "formatter_class": RawDescriptionHelpFormatter}


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a type for argparse: an integer in a range."""

    def read(text: str) -> int:
        with contextlib.suppress(ValueError):
            if (value := int(text)) >= least and (most is None or value <= most):
                return value
        limits = f">= {least}" if most is None else f"from {least} to {most}"
        raise ArgumentTypeError(f"must be an integer {limits}, got {brief(text)}")

    return read


def file_path(text: str) -> Path:
    """Convert an argument to a path; a type for argparse."""
    try:
        return path_of(text)
    except IdbanditsError as error:
        raise ArgumentTypeError(str(error)) from None


def run(argv: Sequence[str], description: str, example: str, commands: Iterable[Command]) -> int:
    """Run the command that the arguments name, and return the exit status; errors are one line without traceback."""
    try:
        with warnings.catch_warnings(), interruptible():
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
            if isinstance(sys.stdout, TextIOWrapper):
                sys.stdout.reconfigure(errors="backslashreplace")  # for labels that the encoding lacks
            try:
                return _dispatch(list(argv), Parser("idbandits", **help_of(description, example)), commands)
            finally:
                if sys.stdout is not None:  # None if the standard output is closed
                    sys.stdout.flush()
    except SystemExit as end:  # argparse has printed help
        return int(end.code or 0)
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say("interrupted; nothing was kept")
        return INTERRUPTED
    except OSError as error:
        file = f"{error.filename}: " if error.filename is not None else ""
        say(f"error: {file}{error.strerror or error}")
        _discard_output()
        return WRONG
    except IdbanditsError as error:
        say(f"error: {error}")
        return WRONG
    except MemoryError:
        say("error: not enough memory")
        return FAILED


def _dispatch(argv: list[str], top: Parser, commands: Iterable[Command]) -> int:
    top.add_argument("--version", action="version", version=f"idbandits {idbandits.__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
    for command in commands:
        texts = help_of(command.description, command.example)
        parser = subparsers.add_parser(command.name, help=command.summary, **texts)
        parser.set_defaults(run=command.run)
        for add_option in command.options:
            add_option(parser)
    if not argv:
        top.print_help()
        return WRONG
    if not argv[0].startswith("-"):
        argv[0] = pick("command", argv[0], subparsers.choices)
    arguments = top.parse_args(argv)
    with deferring():  # libraries turn exceptions during imports into other ones
        run_command: Callable[[Namespace], int | None] = pkgutil.resolve_name(f"{__package__}.{arguments.run}")
    return run_command(arguments) or 0


def _discard_output() -> None:
    """Drop output that cannot be written, so that Python does not report it at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def pick(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the name that matches, ignoring case, spaces, dashes and underscores; an error suggests the nearest."""
    known = {_normalised(other): other for other in names}
    if (key := _normalised(name)) in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {known[near[0]]!r}? " if near else ""
    raise IdbanditsError(f"{kind} {name!r} is unknown; {hint}known: {', '.join(known.values())}")


def _normalised(name: str) -> str:
    return name.lower().translate(str.maketrans("", "", "-_ "))


def docstring(documented: object) -> str:
    """Return the docstring of a function or class without its sections."""
    return re.split(r"^\w+\n-{3,}$", inspect.getdoc(documented) or "", maxsplit=1, flags=re.MULTILINE)[0].strip()


@contextlib.contextmanager
def output_folder(path: Path | None) -> Iterator[None]:
    """Create a folder, if one is wanted, before the work begins; remove it at the end if it is new and empty."""
    if path is None or path.is_dir():
        yield
        return
    path.mkdir(parents=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # not empty
            path.rmdir()


def say(message: str) -> None:
    """Write a message to stderr as one line of limited length, if stderr is open."""
    line = " ".join(message.splitlines())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"idbandits: {line}", file=sys.stderr, flush=True)


def watched() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
