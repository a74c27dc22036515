"""Requests of clients and the results of their answers, without a transport."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import IdbanditsError, brief
from idbandits.service.json_text import encoded
from idbandits.service.live.inputs import new_id
from idbandits.service.service_errors import STATUS, ServiceError

TIMEOUT = 2.0  # seconds for an attempt
PUT_TIMEOUT = 300.0  # the service compiles kernels
RETRIES = 2
PAUSE = 0.05  # seconds before the first retry, about; doubled for each further retry
FALLBACK = "fallback-"  # prefix of ids of decisions that the service did not make
URN = "urn:problem:idbandits:"
AGAIN = frozenset({408, 429, 502, 503, 504})  # statuses after which a request is repeated

T = TypeVar("T")
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


class Sent(NamedTuple, Generic[T]):
    """Request, which may be repeated, with the function that reads the content of its answer."""

    method: str
    path: str
    body: Any
    read: Callable[[Any], T]
    timeout: float | None = None  # seconds, where the client's is too short


# -- requests of methods -------------------------------------------------------------------------------------------


def put_request(experiment: str, d: Diagram, settings: Mapping[str, Any]) -> Sent[int]:
    """Return the request of `put`."""
    body = {"diagram": d.to_dict(), **settings}
    return Sent("PUT", _path(experiment), body, lambda content: int(content["version"]), PUT_TIMEOUT)


def decision_request(experiment: str, arguments: Mapping[str, Any], fallback: Fallback) -> Sent[ClientDecision]:
    """Return the request of `decide`."""
    if not (fallback is None or callable(fallback) or isinstance(fallback, Mapping)):
        raise ServiceError("invalid", f"fallback must be an action or a function, got {brief(fallback)}", "fallback")
    path, body = _path(experiment, "/decisions"), _decision_body(arguments)
    return Sent("POST", path, body, partial(_decision_of, experiment))


def decisions_request(
    experiment: str, requests: Iterable[Mapping[str, Any]]
) -> Sent[list[ClientDecision | ServiceError]]:
    """Return the request of `decide_many`."""

    def read(content: Any) -> list[ClientDecision | ServiceError]:
        answers = content["decisions"]
        return [_decision_of(experiment, answer) if "action" in answer else error_of(answer) for answer in answers]

    body = {"decisions": [_decision_body(arguments) for arguments in requests]}
    return Sent("POST", _path(experiment, "/decisions:batch"), body, read)


def outcome_request(
    decision: ClientDecision | str, values: Mapping[str, Any] | None, at: Any, complete: bool, experiment: str | None
) -> Sent[str] | None:
    """Return the request of `report`; None for a fallback, which is not reported."""
    target = _target_of(decision, experiment)
    if target is None:
        return None
    name, id = target
    return Sent("POST", _path(name, "/outcomes"), _outcome_body(id, values, at, complete), _status_of)


def outcomes_request(experiment: str, reports: Sequence[Mapping[str, Any]]) -> Sent[list[str | ServiceError]] | None:
    """Return the request of `report_many`; None if all reports are of fallbacks, which are not reported."""
    to_send = [k for k, report in enumerate(reports) if not report["id"].startswith(FALLBACK)]
    if not to_send:
        return None

    def read(content: Any) -> list[str | ServiceError]:
        results: list[str | ServiceError] = ["fallback"] * len(reports)
        for k, answer in zip(to_send, content["outcomes"], strict=True):
            results[k] = error_of(answer) if "type" in answer else answer["status"]
        return results

    outcomes = [
        _outcome_body(report["id"], report.get("values"), report.get("at"), report.get("complete", False))
        for report in (reports[k] for k in to_send)
    ]
    return Sent("POST", _path(experiment, "/outcomes:batch"), {"outcomes": outcomes}, read)


def shown_request(decision: ClientDecision | str, at: Any, experiment: str | None) -> Sent[str] | None:
    """Return the request of `shown`; None for a fallback, which is not reported."""
    target = _target_of(decision, experiment)
    if target is None:
        return None
    name, id = target
    return Sent("POST", _path(name, "/shown"), _outcome_body(id, at=at), _status_of)


def description_request(experiment: str) -> Sent[dict[str, Any]]:
    """Return the request of `show`."""
    return Sent("GET", _path(experiment), None, lambda content: content)


def posterior_request(experiment: str) -> Sent[dict[str, Any]]:
    """Return the request of `posterior`."""
    return Sent("GET", _path(experiment, "/posterior"), None, lambda content: content["tables"])


def _path(experiment: str, rest: str = "") -> str:
    """Return the path of an experiment, or of a part of it."""
    return f"/v1/experiments/{quote(experiment, safe='')}{rest}"


def _decision_body(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a decision, with a new id if it has none."""
    body = {name: value for name, value in arguments.items() if value is not None and value is not False}
    body.setdefault("id", new_id(time.time()))
    return body


def _outcome_body(
    id: str, values: Mapping[str, Any] | None = None, at: Any = None, complete: bool = False
) -> dict[str, Any]:
    """Return the body of an outcome, or of a decision that was shown."""
    body: dict[str, Any] = {"decision": id}
    if values is not None:
        body["values"] = dict(values)
    if at is not None:
        body["at"] = at
    if complete:
        body["complete"] = True
    return body


def _target_of(decision: ClientDecision | str, experiment: str | None) -> tuple[str, str] | None:
    """Return experiment and id of a decision; None for a fallback."""
    if isinstance(decision, ClientDecision):
        return None if decision.fallback else (decision.experiment, decision.id)
    if decision.startswith(FALLBACK):
        return None
    if experiment is None:
        raise ServiceError("invalid", "experiment must be given for the id of a decision", "experiment")
    return experiment, decision


def _decision_of(experiment: str, answer: Mapping[str, Any]) -> ClientDecision:
    """Return the decision of an answer."""
    return ClientDecision(answer["id"], answer["action"], answer["version"], answer["arm"], experiment)


def _status_of(content: Mapping[str, Any]) -> str:
    """Return the status of an answer to an outcome."""
    return str(content["status"])


def fallback_decision(
    experiment: str, sent: Sent[ClientDecision], fallback: Fallback, error: ServiceError
) -> ClientDecision:
    """Return the fallback of a decision that failed; raise `error` without a fallback, or if the service answered."""
    if error.kind != "unavailable" or fallback is None:
        raise error
    action = fallback() if callable(fallback) else fallback
    id: str = sent.body["id"]
    return ClientDecision(
        id if id.startswith(FALLBACK) else FALLBACK + id, dict(action), 0, "fallback", experiment, fallback=True
    )


# -- HTTP ----------------------------------------------------------------------------------------------------------


def http_options(url: str, token: str | None, timeout: float, retries: int) -> dict[str, Any]:
    """Return the options of an `httpx.Client`; validate those of a client."""
    if not str(url).startswith(("http://", "https://")):
        raise IdbanditsError(f'url must begin with "http://" or "https://", got {brief(url)}')
    if not timeout > 0:
        raise IdbanditsError(f"timeout must be a number of seconds > 0, got {brief(timeout)}")
    if retries < 0:
        raise IdbanditsError(f"retries must be an integer >= 0, got {brief(retries)}")
    headers = {"accept": "application/json", "content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return {"base_url": url, "headers": headers, "timeout": timeout}


def http_request(sent: Sent[Any]) -> dict[str, Any]:
    """Return the arguments of `httpx.Client.request`."""
    content = None if sent.body is None else encoded(sent.body).encode()
    timeout = {} if sent.timeout is None else {"timeout": sent.timeout}
    return {"method": sent.method, "url": sent.path, "content": content, **timeout}


def retry_pauses(retries: int) -> Iterator[float]:
    """Yield the seconds to wait before each retry."""
    for number in range(retries):
        yield PAUSE * 2**number * random.uniform(0.5, 1.5)


def pause_after(attempt: httpx.Response | httpx.TransportError, pauses: Iterator[float]) -> float | None:
    """Return the seconds to wait before another attempt; None if the answer is final or no retries are left.

    A request is repeated if there was no answer, if the service was busy, and if an earlier attempt is still being
    carried out.
    """
    if isinstance(attempt, httpx.Response) and attempt.status_code not in AGAIN and _kind(attempt) != "duplicate":
        return None
    return next(pauses, None)


def result_of(sent: Sent[T], attempt: httpx.Response | httpx.TransportError) -> T:
    """Return the result of a request; raise the problem of the answer, or that there was no answer."""
    if isinstance(attempt, httpx.TransportError):
        raise _unreachable(attempt)
    if attempt.is_success:
        return sent.read(attempt.json())
    if _kind(attempt) is None:
        raise _unreachable(f"status {attempt.status_code}")
    raise error_of(attempt.json())


def _kind(answer: httpx.Response) -> str | None:
    """Return the kind of a problem document."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return None
    return str(answer.json().get("type", "")).removeprefix(URN)


def error_of(problem: Mapping[str, Any]) -> ServiceError:
    """Return the error of a problem document."""
    kind = str(problem.get("type", "")).removeprefix(URN)
    return ServiceError(
        kind if kind in STATUS else "unavailable" if problem.get("status", 500) >= 500 else "invalid",
        str(problem.get("detail")), problem.get("field"),
    )  # fmt: skip


def _unreachable(reason: object) -> ServiceError:
    """Return the error of a service that gives no answer."""
    return ServiceError("unavailable", f"the service did not answer: {reason}")
