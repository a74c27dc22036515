"""How commands are declared and run: their help, exit statuses, signals, and mistakes as one line on stderr."""

import contextlib
import difflib
import inspect
import os
import pkgutil
import signal
import sys
import threading
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, final

import idbandits
from idbandits.cli.interrupts import ignored, interruptible
from idbandits.errors import IdbanditsError, brief
from idbandits.files import path_of

LONGEST = 1000  # letters of a message
FAILED, WRONG, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141  # exit statuses; 128 + the signal, as shells have it


@final
@dataclass(frozen=True)
class Command:
    """A command as data."""

    name: str
    summary: str  # one line, for the list of commands
    run: str  # module:function of this package, imported when the command is run; gives the exit status, None for 0
    options: Sequence[Callable[[ArgumentParser], Any]]  # each adds itself to a parser
    description: str
    example: str  # lines that work when pasted


class Parser(ArgumentParser):
    """A parser that raises an error where argparse would end the process, so that all mistakes look alike."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where help is."""
        raise IdbanditsError(f"{message} (see: {self.prog} --help)")


def help_of(description: str, example: str = "") -> dict[str, Any]:
    """Settings of a parser whose help is a paragraph, the options, and an example."""
    lines = "\n".join(f"  {line}" for line in example.strip().splitlines())
    epilog = f"example:\n{lines}" if lines else None
    return {"description": description.strip(), "epilog": epilog, "formatter_class": RawDescriptionHelpFormatter}


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type for argparse: a whole number in this range."""
    limits = f"from {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        with contextlib.suppress(ValueError):
            if (value := int(text)) >= least and (most is None or value <= most):
                return value
        raise ArgumentTypeError(f"a whole number {limits} is needed, not {brief(text)}")

    return read


def file_path(text: str) -> Path:
    """A type for argparse: the path of a file or folder."""
    try:
        return path_of(text)
    except IdbanditsError as error:
        raise ArgumentTypeError(str(error)) from None


def run(argv: Sequence[str], description: str, example: str, commands: Iterable[Command]) -> int:
    """Run the command that the arguments name and give the exit status; a mistake is one line, not a traceback."""
    try:
        with warnings.catch_warnings(), interruptible():
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
            if isinstance(sys.stdout, TextIOWrapper):
                sys.stdout.reconfigure(errors="backslashreplace")  # for labels that the output's encoding lacks
            try:
                return _dispatch(list(argv), Parser("idbandits", **help_of(description, example)), commands)
            finally:
                if sys.stdout is not None:  # as it is where the standard output is closed
                    sys.stdout.flush()
    except SystemExit as end:  # argparse has shown its help
        return int(end.code or 0)
    except BrokenPipeError:  # the reader of our output has seen enough
        _give_up_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say("interrupted; nothing was kept")
        return INTERRUPTED
    except OSError as error:
        file = f"{error.filename}: " if error.filename is not None else ""
        say(f"error: {file}{error.strerror or error}")
        _give_up_output()
        return WRONG
    except IdbanditsError as error:
        say(f"error: {error}")
        return WRONG
    except MemoryError:
        say("error: there is not enough memory for this")
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
    with _handling([signal.SIGINT, signal.SIGTERM], _stop):  # imports take a while
        run_command: Callable[[Namespace], int | None] = pkgutil.resolve_name(f"{__package__}.{arguments.run}")
    return run_command(arguments) or 0


def _give_up_output() -> None:
    """If the rest of the output cannot be written, drop it, so that Python's own last attempt is quiet."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(*_: Any) -> None:
    """End the process: an exception would not do, because libraries that are being imported turn it into others."""
    say("interrupted; nothing was done")
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def _handling(signals: Iterable[signal.Signals], handler: Callable[..., Any]) -> Iterator[None]:
    """Let a function handle these signals for a while; only the main thread may ask for that, others are left alone."""
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in signals:
                if not ignored(number):
                    stack.callback(signal.signal, number, signal.signal(number, handler))
        yield


def pick(kind: str, name: str, names: Iterable[str]) -> str:
    """The one of the names that is meant, whatever its case, dashes and underscores; an error suggests the nearest."""
    known = {_plain(other): other for other in names}
    if _plain(name) in known:
        return known[_plain(name)]
    near = difflib.get_close_matches(_plain(name), known, n=1)
    hint = f"did you mean {known[near[0]]!r}? " if near else ""
    raise IdbanditsError(f"{kind} {name!r} is unknown; {hint}there are: {', '.join(known.values())}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def docstring(documented: object) -> str:
    """What the docstring of a function or class says, without its examples."""
    return (inspect.getdoc(documented) or "").partition(">>>")[0].strip()


@contextlib.contextmanager
def output_folder(path: Path | None) -> Iterator[None]:
    """Make a folder, if one is asked for, before the work begins; if it is new and stays empty, remove it again."""
    if path is None or path.is_dir():
        yield
        return
    path.mkdir(parents=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it is not empty
            path.rmdir()


def say(message: str) -> None:
    """Write one line to stderr, if somebody listens."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"idbandits: {shortened(message)}", file=sys.stderr, flush=True)


def shortened(message: str) -> str:
    """A message as one line of bearable length."""
    line = " ".join(message.splitlines())
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"


def watched() -> bool:
    """Whether stderr is a terminal, on which progress can be shown."""
    return sys.stderr is not None and sys.stderr.isatty()
