"""Access tokens: random secrets with scopes; the journal stores only their digests."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple, final

from idbandits.errors import brief
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.store import one
from idbandits.service.live.inputs import check_name
from idbandits.service.service_errors import ServiceError

SCOPES = ("decide", "report", "read", "admin")  # admin includes all others
PREFIX = "idb_"
SECONDS = 5.0  # for which tokens are cached


class Caller(NamedTuple):
    """Sender of a request, with the scopes of its token."""

    name: str
    scopes: frozenset[str]


class StoredToken(NamedTuple):
    """Row of a token in the journal; times are seconds since 1970."""

    digest: str
    name: str
    scopes: str
    created: float
    revoked: float | None


ANYONE = Caller("local", frozenset(SCOPES))  # any program on this host, if there are no tokens
NOBODY = Caller("", frozenset())


def digest_of_token(secret: str) -> str:
    """Return the digest of a token; no slow hash is needed, because tokens are long and random."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def create_token(journal: Journal, name: str, scopes: Iterable[str], who: str = "command line") -> str:
    """Create a token and return it; only its digest is stored."""
    check_name(name)
    names = sorted(set(scopes))
    if not names or (unknown := [scope for scope in names if scope not in SCOPES]):
        got = brief(unknown[0]) if names else "none"
        raise ServiceError("invalid", f"scopes must be among {', '.join(SCOPES)}, got {got}", "scopes")
    secret = PREFIX + secrets.token_urlsafe(32)
    with journal.store.transaction() as writing:
        if one(writing, "SELECT 1 FROM tokens WHERE name = ?", (name,)):
            raise ServiceError("invalid", f"name must be new, got {name!r}", "name")
        sql = "INSERT INTO tokens (digest, name, scopes, created) VALUES (?, ?, ?, ?)"
        writing.all(sql, (digest_of_token(secret), name, " ".join(names), time.time()))
    journal.note(who, None, "token created", name)
    return secret


def revoke_token(journal: Journal, name: str, who: str = "command line") -> None:
    """Revoke a token; workers reject it a few seconds later."""
    with journal.store.transaction() as writing:
        sql = "UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL RETURNING name"
        if not writing.all(sql, (time.time(), name)):
            raise ServiceError(
                "invalid", f"name must be that of a token that is not revoked, got {brief(name)}", "name"
            )
    journal.note(who, None, "token revoked", name)


def stored_tokens(journal: Journal) -> list[StoredToken]:
    """Return all tokens, the oldest first."""
    with journal.store.transaction(write=False) as reading:
        rows = reading.all("SELECT digest, name, scopes, created, revoked FROM tokens ORDER BY created, name")
    return [StoredToken(*row) for row in rows]


@final
class TokenCache:
    """Cache of the tokens of a journal, read again every few seconds, so that requests need no SQL.

    If the journal has no token, not even a revoked one, callers on this host have all scopes, unless `required`.
    """

    def __init__(self, journal: Journal, *, required: bool) -> None:
        self._journal, self._required, self._lock = journal, required, threading.Lock()
        self._callers: dict[str, tuple[str, Caller]] = {}
        self._until, self.open = 0.0, False

    @property
    def fresh(self) -> bool:
        """True if the tokens were read less than `SECONDS` ago."""
        return time.monotonic() < self._until

    def read(self) -> None:
        """Read the tokens again unless they are fresh."""
        with self._lock:
            if self.fresh:
                return
            tokens = stored_tokens(self._journal)
            self._callers = {
                token.digest: (token.digest, Caller(token.name, scopes_of(token.scopes)))
                for token in tokens
                if token.revoked is None
            }
            self.open = not tokens and not self._required
            self._until = time.monotonic() + SECONDS

    def caller(self, secret: str | None) -> Caller:
        """Return the caller that a token belongs to; raise if the token is unknown or revoked."""
        if secret is None:
            return ANYONE if self.open else NOBODY
        digest = digest_of_token(secret)
        stored, caller = self._callers.get(digest, ("", NOBODY))
        if not hmac.compare_digest(stored, digest):
            raise ServiceError("unauthorized", "token must be valid and not revoked")
        return caller


def scopes_of(text: str) -> frozenset[str]:
    """Return the scopes of a token from their names, separated by spaces; admin includes all others."""
    names = frozenset(text.split())
    return frozenset(SCOPES) if "admin" in names else names
