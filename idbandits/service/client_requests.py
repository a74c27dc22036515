"""Requests of clients and their answers, without the transport."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.service.json_text import encoded
from idbandits.service.live.inputs import new_id
from idbandits.service.service_errors import STATUS, ServiceError

TIMEOUT = 2.0  # seconds for an attempt
RETRIES = 2
PAUSE = 0.05  # seconds before the first retry; each further one waits twice as long
FALLBACK = "fallback-"  # beginning of ids of decisions that the service did not make
URN = "urn:problem:idbandits:"
AGAIN = frozenset({408, 429, 502, 503, 504})

Fallback = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None


class ClientDecision(NamedTuple):
    """Decision of a service, or the fallback; outcomes of a fallback are not reported.

    Attributes
    ----------
    id, action, version, arm, experiment
        As in `Decision`; the version of a fallback is 0, its arm "fallback".
    fallback : bool
        True if the service did not answer.

    Examples
    --------
    >>> import idbandits as idb
    >>> with idb.Client("http://127.0.0.1:9", timeout=0.5, retries=0) as client:  # nothing listens at port 9
    ...     decision = client.decide("shop", id="visit-1", fallback={"A1": "tea"})
    >>> decision.id, decision.arm, decision.fallback
    ('fallback-visit-1', 'fallback', True)
    """

    id: str
    action: dict[str, Label]
    version: int
    arm: str
    experiment: str
    fallback: bool = False


class Sent(NamedTuple):
    """Request that may be repeated."""

    method: str
    path: str
    body: Any = None


class Requests:
    """Requests and answers, without their transport."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        self.retries, headers = retries, {"accept": "application/json", "content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self.options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}

    @staticmethod
    def path(experiment: str, rest: str = "") -> str:
        """Return the path of an experiment, or of a part of it."""
        return f"/v1/experiments/{quote(experiment, safe='')}{rest}"

    def decision(self, experiment: str, given: Mapping[str, Any]) -> Sent:
        """Return the request of a decision."""
        return Sent("POST", self.path(experiment, "/decisions"), decision_body(given))

    def pauses(self) -> Iterator[float]:
        """Yield the time before each retry."""
        for number in range(self.retries):
            yield PAUSE * 2**number * random.uniform(0.5, 1.5)

    @staticmethod
    def is_retried(answer: httpx.Response) -> bool:
        """Return whether a request should be repeated: also where its first attempt is still being carried out."""
        return answer.status_code in AGAIN or _kind(answer) == "duplicate"


def decision_body(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request of a decision, with an id."""
    body = {name: value for name, value in given.items() if value is not None and value is not False}
    body.setdefault("id", new_id(time.time()))
    return body


def outcome_body(id: str, values: Mapping[str, Any] | None, at: Any, complete: bool) -> dict[str, Any]:
    """Return the body of an outcome."""
    body: dict[str, Any] = {"decision": id}
    if values is not None:
        body["values"] = dict(values)
    if at is not None:
        body["at"] = at
    if complete:
        body["complete"] = True
    return body


def json_of(body: Any) -> bytes | None:
    """Return a body as JSON; None without a body."""
    return None if body is None else encoded(body).encode()


def _kind(answer: httpx.Response) -> str | None:
    """Return the kind of a problem document."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return None
    return str(answer.json().get("type", "")).removeprefix(URN)


def content_of(answer: httpx.Response) -> Any:
    """Return the content of an answer, or raise its problem."""
    if answer.is_success:
        return answer.json()
    kind = _kind(answer)
    if kind is None:
        raise unreachable(f"status {answer.status_code}")
    raise error_of(answer.json())


def error_of(problem: Mapping[str, Any]) -> ServiceError:
    """Return the error of a problem document."""
    kind = str(problem.get("type", "")).removeprefix(URN)
    return ServiceError(
        kind if kind in STATUS else "unavailable" if problem.get("status", 500) >= 500 else "invalid",
        str(problem.get("detail")), problem.get("field"),
    )  # fmt: skip


def unreachable(reason: object) -> ServiceError:
    """Return the error of a service that gives no answer."""
    return ServiceError("unavailable", f"the service did not answer: {reason}")


def decided(experiment: str, own: Mapping[str, Any]) -> ClientDecision:
    """Return the decision of an answer."""
    return ClientDecision(own["id"], own["action"], own["version"], own["arm"], experiment)


def fallback_decision(experiment: str, id: str, fallback: Fallback) -> ClientDecision:
    """Return a decision by a fallback."""
    assert fallback is not None
    action = fallback() if callable(fallback) else fallback
    own_id = id if id.startswith(FALLBACK) else FALLBACK + id
    return ClientDecision(own_id, dict(action), 0, "fallback", experiment, fallback=True)


def target_of(decision: ClientDecision | str, experiment: str | None) -> tuple[str, str, bool]:
    """Return experiment and id of a decision, and whether it is a fallback."""
    if isinstance(decision, ClientDecision):
        return decision.experiment, decision.id, decision.fallback
    if decision.startswith(FALLBACK):
        return experiment or "", decision, True
    if experiment is None:
        raise ServiceError("invalid", "experiment must be given for the id of a decision", "experiment")
    return experiment, decision, False


def experiment_body(d: Diagram, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that creates an experiment."""
    return {"diagram": d.to_dict(), **settings}
