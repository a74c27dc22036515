"""The commands `idbandits put`, `export`, `replay`, `backup` and `restore`."""

from __future__ import annotations

from argparse import Namespace

from idbandits.cli.arguments import json_or_text, read_diagram
from idbandits.cli.command import say
from idbandits.cli.store_option import open_journal, require_service, store_of
from idbandits.errors import IdbanditsError, brief


def put(arguments: Namespace) -> None:
    """Create an experiment, or add a version."""
    require_service()
    from idbandits.service.live.live import Live

    d = read_diagram(arguments.file)
    settings = {} if arguments.settings is None else json_or_text(arguments.settings)
    if not isinstance(settings, dict):
        raise IdbanditsError(f"--settings must be a JSON object, got {brief(arguments.settings)}")
    options = {"horizon": arguments.horizon, "holdout": arguments.holdout}
    settings |= {name: value for name, value in options.items() if value is not None}
    with Live(store_of(arguments), background=False) as live:
        version = live.put(arguments.name, d, who="command line", **settings)
    say(f"experiment {arguments.name!r} has version {version}")


def export(arguments: Namespace) -> None:
    """Write the closed rounds of an experiment as a log."""
    require_service()
    from idbandits.service.history.exported_log import export_log

    if arguments.out.suffix != ".parquet":
        raise IdbanditsError(f"--out must end with .parquet, got {str(arguments.out)!r}")
    with open_journal(arguments) as journal:
        number = export_log(journal, arguments.name, arguments.out, draws=arguments.propensity)
    say(f"wrote {arguments.out}: {number:,} rounds")


def replay(arguments: Namespace) -> int:
    """Rebuild an agent from the journal, and compare it with the latest snapshot; return 1 if they differ."""
    require_service()
    from idbandits.service.history.rebuilding import learn_again, rebuild

    with open_journal(arguments) as journal:
        if arguments.diagram is not None:
            rebuilt = learn_again(journal, arguments.name, read_diagram(arguments.diagram))
        else:
            rebuilt = rebuild(journal, arguments.name)
    if arguments.out is not None:
        rebuilt.agent.save(arguments.out)
    print(rebuilt)
    return 0 if rebuilt.is_equal is not False else 1


def backup(arguments: Namespace) -> None:
    """Copy a journal to a new file."""
    require_service()
    from idbandits.service.history.copying import back_up

    rows = back_up(store_of(arguments), arguments.file)
    say(f"wrote {arguments.file}: {rows:,} rows")


def restore(arguments: Namespace) -> None:
    """Copy a backup into an empty store."""
    require_service()
    from idbandits.service.history.copying import restore_from

    rows = restore_from(arguments.file, store_of(arguments))
    say(f"restored {rows:,} rows")
