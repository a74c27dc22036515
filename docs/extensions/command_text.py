"""Pages of the command line, from the parser of `idbandits`."""

from __future__ import annotations

import argparse

from idbandits.cli.command import Parser, help_of
from idbandits.cli.main import COMMANDS, DESCRIPTION
from repository_text import contents


def command_contents() -> str:
    """Return a table of the commands."""
    rows = [f"| [`idbandits {own.name}`](../generated/commands/{own.name}.md) | {own.summary} |" for own in COMMANDS]
    table = "\n".join(["| command | description |", "|---|---|", *rows])
    return f"{DESCRIPTION.strip()}\n\n{table}\n\n{contents('commands', [own.name for own in COMMANDS])}"


def command_pages() -> dict[str, str]:
    """Return a page for each command: description, usage, options and example."""
    texts = {}
    for command in COMMANDS:
        parser = Parser(f"idbandits {command.name}", **help_of(command.description, command.example))
        for add_option in command.options:
            add_option(parser)
        usage = argparse.HelpFormatter(parser.prog, width=88)
        usage.add_usage(None, parser._actions, parser._mutually_exclusive_groups)
        parts = [f"# idbandits {command.name}", _escaped(command.description.strip())]
        parts.append(f"```text\n{usage.format_help().strip()}\n```")
        actions = [action for action in parser._actions if action.dest != "help"]
        if actions:
            parts.append("\n".join(["| option | description |", "|---|---|", *map(_row, actions)]))
        parts.append(f"```sh\n{command.example.strip()}\n```")
        texts[f"{command.name}.md"] = "\n\n".join(parts) + "\n"
    return texts


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
