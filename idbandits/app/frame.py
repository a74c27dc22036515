"""The frame of the command line: how a command is declared and run, and how a mistake is told in one line."""

from __future__ import annotations

import contextlib
import difflib
import os
import signal
import sys
import threading
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from idbandits.errors import IdbanditsError

Commands: TypeAlias = Any  # what `ArgumentParser.add_subparsers` gives, which has no public type
Add: TypeAlias = Callable[[Commands], None]

FAILED, WRONG, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141  # exit statuses; 128 + the signal, as shells have it


class Parser(ArgumentParser):
    """A parser that raises what it cannot read, so that all mistakes are told alike."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where help is."""
        raise IdbanditsError(f"{message} (see: {self.prog} --help)")


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """While all is imported, which takes a while: Ctrl-C ends the command with a line; programs of others get it.

    At once and not by an exception: libraries that are being imported turn that into other ones.
    """
    program = sys.argv[0] if sys.argv else ""
    ours = Path(program).stem == "idbandits" or (program == "-m" and "idbandits" in sys.orig_argv)
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        say("interrupted; nothing was done")
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def parser(prog: str, text: str, example: str) -> Parser:
    """A parser whose help is a paragraph, the options, and an example that works when pasted."""
    return Parser(prog, **_help(text, example))


def command(
    commands: Commands, name: str, run: Callable[[Namespace], int], about: str, text: str, example: str
) -> ArgumentParser:
    """Declare a command: a line about it, and what its own help says; the options are added to what is returned."""
    own: ArgumentParser = commands.add_parser(name, help=about, **_help(text, example))
    own.set_defaults(run=run)
    return own


def _help(text: str, example: str) -> dict[str, Any]:
    lines = "\n".join(f"  {line}" for line in example.strip().splitlines())
    more = f"example:\n{lines}" if lines else None
    return {"description": text.strip(), "epilog": more, "formatter_class": RawDescriptionHelpFormatter}


def run(argv: Sequence[str] | None, prog: str, text: str, example: str, adds: Iterable[Add]) -> int:
    """Run the command that the arguments name, and give the exit status; a mistake is a line and no traceback."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        with warnings.catch_warnings(), _stoppable():
            warnings.showwarning = _warned
            if isinstance(sys.stdout, TextIOWrapper):
                sys.stdout.reconfigure(errors="backslashreplace")  # labels that the output's encoding lacks
            try:
                return _dispatch(given, parser(prog, text, example), adds)
            finally:
                sys.stdout.flush()
    except SystemExit as end:  # argparse has shown its help
        return int(end.code or 0)
    except BrokenPipeError:  # whoever read our output has seen enough
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush is quiet too
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say("interrupted; nothing was kept")
        return INTERRUPTED
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _wrong(f"{where}{error.strerror or error}")
    except IdbanditsError as error:
        return _wrong(str(error))
    except MemoryError:
        say("error: there is not enough memory for this")
        return FAILED


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Obey SIGTERM, by which batch systems and containers end a command, as Ctrl-C is obeyed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _dispatch(given: list[str], top: Parser, adds: Iterable[Add]) -> int:
    commands = top.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
    for add in adds:
        add(commands)
    if not given:
        top.print_help()
        return WRONG
    if not given[0].startswith("-"):
        given = [pick("command", given[0], commands.choices), *given[1:]]
    arguments = top.parse_args(given)
    status: int = arguments.run(arguments)
    return status


def pick(what: str, name: str, names: Iterable[str]) -> str:
    """The one of the names that is meant, whatever its case, dashes and underscores; an error suggests the nearest."""
    known = {_plain(one): one for one in names}
    if _plain(name) in known:
        return known[_plain(name)]
    near = [known[one] for one in difflib.get_close_matches(_plain(name), known, n=1)]
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise IdbanditsError(f"{what} {name!r} is unknown; {hint}there are: {', '.join(known.values())}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type of arguments: a whole number, not less than one and not more than another."""
    allowed = f"from {least}" if most is None else f"from {least} to {most}"

    def number(text: str) -> int:
        with contextlib.suppress(ValueError):
            if (value := int(text)) >= least and (most is None or value <= most):
                return value
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ArgumentTypeError(f"a whole number {allowed} is needed, not {shown!r}")

    return number


@contextlib.contextmanager
def folder(path: Path | None) -> Iterator[None]:
    """A folder that is there before the work begins, and gone if it was new and nothing was put into it."""
    new = path is not None and not path.exists()
    if path is not None and not path.is_dir():
        path.mkdir(parents=True)
    try:
        yield
    finally:
        if path is not None and new:
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()


def say(message: str) -> None:
    """Tell a person something, beside the output."""
    print(f"idbandits: {' '.join(message.splitlines())}", file=sys.stderr, flush=True)


def _wrong(message: str) -> int:
    say(f"error: {message}")
    return WRONG


def _warned(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")
