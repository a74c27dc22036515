"""The commands `idbandits serve` and `idbandits token`."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from idbandits.cli.command import say
from idbandits.cli.store_option import open_journal, require_service, store_of


def serve(arguments: Namespace) -> int:
    """Serve experiments over HTTP until SIGTERM or SIGINT."""
    require_service()
    from idbandits.service.http.service_state import Options
    from idbandits.service.http.supervisor import Supervisor, bound, is_local, prepare
    from idbandits.service.http.worker_process import Work

    url, host = store_of(arguments), arguments.host
    with bound(host, arguments.port) as listening:
        prepare(url, host, say)
        work = Work(url, Options(require_tokens=not is_local(host), cors=arguments.cors), arguments.access_log)
        port = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        say(f"serving on http://{shown}:{port} with {arguments.workers} workers")
        return Supervisor(work, listening, arguments.workers, say).run()


def token(arguments: Namespace) -> None:
    """Create, list or revoke tokens."""
    require_service()
    from idbandits.errors import IdbanditsError
    from idbandits.service.http.access_tokens import create_token, revoke_token, stored_tokens

    with open_journal(arguments, create=arguments.verb == "create") as journal:
        if arguments.verb == "list":
            for stored in stored_tokens(journal):
                created = datetime.fromtimestamp(stored.created, UTC).isoformat(timespec="seconds")
                status = "active" if stored.revoked is None else "revoked"
                print(f"{stored.name}\t{stored.scopes}\t{created}\t{status}")
            return
        if arguments.name is None:
            raise IdbanditsError(f"name must be given: idbandits token {arguments.verb} NAME")
        if arguments.verb == "create":
            print(create_token(journal, arguments.name, arguments.scope or ["decide", "report"]))
            say("the token is shown once; the store has only its digest")
        else:
            revoke_token(journal, arguments.name)
            say(f"token {arguments.name!r} is revoked; running workers reject it within 5 seconds")
