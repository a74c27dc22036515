"""Page of the command line, from the parser of `idbandits`."""

from __future__ import annotations

import argparse

from idbandits.cli.command import Parser, help_of
from idbandits.cli.main import COMMANDS, DESCRIPTION


def command_line() -> str:
    """Return a section for each command: description, usage, options and example."""
    rows = [f"| [`idbandits {own.name}`](#idbandits-{own.name}) | {own.summary} |" for own in COMMANDS]
    parts = [DESCRIPTION.strip(), "\n".join(["| command | description |", "|---|---|", *rows])]
    for command in COMMANDS:
        parser = Parser(f"idbandits {command.name}", **help_of(command.description, command.example))
        for add_option in command.options:
            add_option(parser)
        usage = argparse.HelpFormatter(parser.prog, width=88)
        usage.add_usage(None, parser._actions, parser._mutually_exclusive_groups)
        parts.append(f"## idbandits {command.name}\n\n{_escaped(command.description.strip())}")
        parts.append(f"```text\n{usage.format_help().strip()}\n```")
        actions = [action for action in parser._actions if action.dest != "help"]
        if actions:
            parts.append("\n".join(["| option | description |", "|---|---|", *map(_row, actions)]))
        parts.append(f"```sh\n{command.example.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def _row(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    if action.choices is not None and action.metavar is None:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    value = "" if action.nargs == 0 else f" {name}"
    shown = ", ".join(action.option_strings) + value if action.option_strings else name
    return f"| `{shown}` | {_escaped(action.help or '').replace('|', chr(92) + '|').replace(chr(10), ' ')} |"


def _escaped(text: str) -> str:
    """Escape characters with a meaning in Markdown."""
    for character in "\\*_<[{$":
        text = text.replace(character, f"\\{character}")
    return text
