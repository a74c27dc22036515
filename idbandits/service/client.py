"""`idb.Client`: decisions and outcomes of a service over HTTP, with retries and a fallback."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final
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
    """Decision of a service, or the fallback; outcomes of a fallback are not reported."""

    id: str
    action: dict[str, Label]
    version: int
    arm: str
    experiment: str
    fallback: bool = False


class _Sent(NamedTuple):
    """Request that may be repeated."""

    method: str
    path: str
    body: Any = None


class _Requests:
    """Requests and answers, without their transport."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        self.retries, headers = retries, {"accept": "application/json", "content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self.options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}

    @staticmethod
    def path(experiment: str, rest: str = "") -> str:
        return f"/v1/experiments/{quote(experiment, safe='')}{rest}"

    def decision(self, experiment: str, given: Mapping[str, Any]) -> _Sent:
        return _Sent("POST", self.path(experiment, "/decisions"), _decision_body(given))

    def pauses(self) -> Iterator[float]:
        """Yield the time before each retry."""
        for number in range(self.retries):
            yield PAUSE * 2**number * random.uniform(0.5, 1.5)

    @staticmethod
    def is_retried(answer: httpx.Response) -> bool:
        """Return whether a request should be repeated: also where its first attempt is still being carried out."""
        return answer.status_code in AGAIN or _kind(answer) == "duplicate"


def _decision_body(given: Mapping[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in given.items() if value is not None and value is not False}
    body.setdefault("id", new_id(time.time()))
    return body


def _outcome_body(id: str, values: Mapping[str, Any] | None, at: Any, complete: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"decision": id}
    if values is not None:
        body["values"] = dict(values)
    if at is not None:
        body["at"] = at
    if complete:
        body["complete"] = True
    return body


def _json(body: Any) -> bytes | None:
    return None if body is None else encoded(body).encode()


def _kind(answer: httpx.Response) -> str | None:
    """Return the kind of a problem document."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return None
    return str(answer.json().get("type", "")).removeprefix(URN)


def _content(answer: httpx.Response) -> Any:
    """Return the content of an answer, or raise its problem."""
    if answer.is_success:
        return answer.json()
    kind = _kind(answer)
    if kind is None:
        raise _unreachable(f"status {answer.status_code}")
    raise _error_of(answer.json())


def _error_of(problem: Mapping[str, Any]) -> ServiceError:
    kind = str(problem.get("type", "")).removeprefix(URN)
    return ServiceError(
        kind if kind in STATUS else "unavailable" if problem.get("status", 500) >= 500 else "invalid",
        str(problem.get("detail")), problem.get("field"),
    )  # fmt: skip


def _unreachable(reason: object) -> ServiceError:
    return ServiceError("unavailable", f"the service did not answer: {reason}")


def _decided(experiment: str, own: Mapping[str, Any]) -> ClientDecision:
    return ClientDecision(own["id"], own["action"], own["version"], own["arm"], experiment)


def _fallback_decision(experiment: str, id: str, fallback: Fallback) -> ClientDecision:
    assert fallback is not None
    action = fallback() if callable(fallback) else fallback
    own_id = id if id.startswith(FALLBACK) else FALLBACK + id
    return ClientDecision(own_id, dict(action), 0, "fallback", experiment, fallback=True)


def _target(decision: ClientDecision | str, experiment: str | None) -> tuple[str, str, bool]:
    """Return experiment and id of a decision, and whether it is a fallback."""
    if isinstance(decision, ClientDecision):
        return decision.experiment, decision.id, decision.fallback
    if decision.startswith(FALLBACK):
        return experiment or "", decision, True
    if experiment is None:
        raise ServiceError("invalid", "experiment must be given for the id of a decision", "experiment")
    return experiment, decision, False


def _experiment_body(d: Diagram, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"diagram": d.to_dict(), **settings}


@final
class Client:
    """Client of a service: `decide`, `report` and `shown` as in `Live`, over HTTP.

    An attempt takes at most `timeout` seconds; requests that got no answer are repeated up to `retries` times with
    their id, so that a decision is made once. If there is no answer then, `decide` returns `fallback`, an action or a
    function without arguments, and `report` sends nothing for it; without a fallback, a `ServiceError` of the kind
    "unavailable" is raised. A decision whose answer was lost may still be stored; with `deferred=True` it is not
    learned until it is reported as shown.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = TIMEOUT, retries: int = RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        self._requests = _Requests(url, token, timeout, retries)
        self._http = httpx.Client(**self._requests.options, transport=transport)

    def _answer(self, sent: _Sent) -> Any:
        pauses = self._requests.pauses()
        while True:
            try:
                answer: httpx.Response | None = self._http.request(sent.method, sent.path, content=_json(sent.body))
                problem: object = None
            except httpx.TransportError as error:
                answer, problem = None, error
            if answer is not None and not self._requests.is_retried(answer):
                return _content(answer)
            pause = next(pauses, None)
            if pause is None:
                if answer is not None:
                    return _content(answer)
                raise _unreachable(problem)
            time.sleep(pause)

    def put(self, experiment: str, d: Diagram, **settings: Any) -> int:
        """Create an experiment, or add a version; return the number of the version."""
        path, body = self._requests.path(experiment), _experiment_body(d, settings)
        return int(_content(self._http.put(path, content=_json(body), timeout=300.0))["version"])

    def decide(
        self, experiment: str, context: Mapping[str, Any] | None = None, *, allowed: Any = None, id: str | None = None,
        unit: str | None = None, action: Mapping[str, Any] | None = None, deferred: bool = False,
        fallback: Fallback = None,
    ) -> ClientDecision:  # fmt: skip
        """Return what to show."""
        given = {"context": context, "allowed": allowed, "id": id, "unit": unit, "action": action, "deferred": deferred}
        sent = self._requests.decision(experiment, given)
        try:
            return _decided(experiment, self._answer(sent))
        except ServiceError as error:
            if error.kind != "unavailable" or fallback is None:
                raise
            return _fallback_decision(experiment, sent.body["id"], fallback)

    def decide_many(
        self, experiment: str, requests: Sequence[Mapping[str, Any]]
    ) -> list[ClientDecision | ServiceError]:  # fmt: skip
        """Return a decision or an error for each request, which has the arguments of `decide`."""
        body = {"decisions": [_decision_body(own) for own in requests]}
        answers = self._answer(_Sent("POST", self._requests.path(experiment, "/decisions:batch"), body))["decisions"]
        return [_decided(experiment, own) if "action" in own else _error_of(own) for own in answers]

    def report(
        self, decision: ClientDecision | str, values: Mapping[str, Any] | None = None, *, at: Any = None,
        complete: bool = False, experiment: str | None = None,
    ) -> str:  # fmt: skip
        """Report what happened; return "accepted" or "unchanged", "fallback" if the service did not decide."""
        name, id, is_fallback = _target(decision, experiment)
        if is_fallback:
            return "fallback"
        sent = _Sent("POST", self._requests.path(name, "/outcomes"), _outcome_body(id, values, at, complete))
        return str(self._answer(sent)["status"])

    def report_many(self, experiment: str, reports: Iterable[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes, each with the arguments of `Live.report`; return an answer or error for each."""
        own = list(reports)
        kept = [i for i, one in enumerate(own) if not one["id"].startswith(FALLBACK)]
        results: list[str | ServiceError] = ["fallback"] * len(own)
        bodies = [
            _outcome_body(own[i]["id"], own[i].get("values"), own[i].get("at"), own[i].get("complete", False))
            for i in kept
        ]
        if kept:
            path = self._requests.path(experiment, "/outcomes:batch")
            answers = self._answer(_Sent("POST", path, {"outcomes": bodies}))["outcomes"]
            for i, answer in zip(kept, answers, strict=True):
                results[i] = _error_of(answer) if "type" in answer else answer["status"]
        return results

    def shown(self, decision: ClientDecision | str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown."""
        name, id, is_fallback = _target(decision, experiment)
        if is_fallback:
            return "fallback"
        body = {"decision": id} if at is None else {"decision": id, "at": at}
        return str(self._answer(_Sent("POST", self._requests.path(name, "/shown"), body))["status"])

    def show(self, experiment: str) -> dict[str, Any]:
        """Describe an experiment."""
        own: dict[str, Any] = self._answer(_Sent("GET", self._requests.path(experiment)))
        return own

    def posterior(self, experiment: str) -> dict[str, Any]:
        """Return the beliefs of all learned tables as lists."""
        own: dict[str, Any] = self._answer(_Sent("GET", self._requests.path(experiment, "/posterior")))["tables"]
        return own

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
class AsyncClient:
    """`Client` for asyncio."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = TIMEOUT, retries: int = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        self._requests = _Requests(url, token, timeout, retries)
        self._http = httpx.AsyncClient(**self._requests.options, transport=transport)

    async def _answer(self, sent: _Sent) -> Any:
        pauses = self._requests.pauses()
        while True:
            try:
                answer: httpx.Response | None = await self._http.request(
                    sent.method, sent.path, content=_json(sent.body)
                )
                problem: object = None
            except httpx.TransportError as error:
                answer, problem = None, error
            if answer is not None and not self._requests.is_retried(answer):
                return _content(answer)
            pause = next(pauses, None)
            if pause is None:
                if answer is not None:
                    return _content(answer)
                raise _unreachable(problem)
            await asyncio.sleep(pause)

    async def put(self, experiment: str, d: Diagram, **settings: Any) -> int:
        """Create an experiment, or add a version; return the number of the version."""
        path, body = self._requests.path(experiment), _experiment_body(d, settings)
        return int(_content(await self._http.put(path, content=_json(body), timeout=300.0))["version"])

    async def decide(
        self, experiment: str, context: Mapping[str, Any] | None = None, *, allowed: Any = None, id: str | None = None,
        unit: str | None = None, action: Mapping[str, Any] | None = None, deferred: bool = False,
        fallback: Fallback = None,
    ) -> ClientDecision:  # fmt: skip
        """Return what to show."""
        given = {"context": context, "allowed": allowed, "id": id, "unit": unit, "action": action, "deferred": deferred}
        sent = self._requests.decision(experiment, given)
        try:
            return _decided(experiment, await self._answer(sent))
        except ServiceError as error:
            if error.kind != "unavailable" or fallback is None:
                raise
            return _fallback_decision(experiment, sent.body["id"], fallback)

    async def decide_many(
        self, experiment: str, requests: Sequence[Mapping[str, Any]]
    ) -> list[ClientDecision | ServiceError]:  # fmt: skip
        """Return a decision or an error for each request, which has the arguments of `decide`."""
        body = {"decisions": [_decision_body(own) for own in requests]}
        answers = (await self._answer(_Sent("POST", self._requests.path(experiment, "/decisions:batch"), body)))[
            "decisions"
        ]
        return [_decided(experiment, own) if "action" in own else _error_of(own) for own in answers]

    async def report(
        self, decision: ClientDecision | str, values: Mapping[str, Any] | None = None, *, at: Any = None,
        complete: bool = False, experiment: str | None = None,
    ) -> str:  # fmt: skip
        """Report what happened; return "accepted" or "unchanged", "fallback" if the service did not decide."""
        name, id, is_fallback = _target(decision, experiment)
        if is_fallback:
            return "fallback"
        sent = _Sent("POST", self._requests.path(name, "/outcomes"), _outcome_body(id, values, at, complete))
        return str((await self._answer(sent))["status"])

    async def report_many(self, experiment: str, reports: Iterable[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes, each with the arguments of `Live.report`; return an answer or error for each."""
        own = list(reports)
        kept = [i for i, one in enumerate(own) if not one["id"].startswith(FALLBACK)]
        results: list[str | ServiceError] = ["fallback"] * len(own)
        bodies = [
            _outcome_body(own[i]["id"], own[i].get("values"), own[i].get("at"), own[i].get("complete", False))
            for i in kept
        ]
        if kept:
            path = self._requests.path(experiment, "/outcomes:batch")
            answers = (await self._answer(_Sent("POST", path, {"outcomes": bodies})))["outcomes"]
            for i, answer in zip(kept, answers, strict=True):
                results[i] = _error_of(answer) if "type" in answer else answer["status"]
        return results

    async def shown(self, decision: ClientDecision | str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown."""
        name, id, is_fallback = _target(decision, experiment)
        if is_fallback:
            return "fallback"
        body = {"decision": id} if at is None else {"decision": id, "at": at}
        return str((await self._answer(_Sent("POST", self._requests.path(name, "/shown"), body)))["status"])

    async def show(self, experiment: str) -> dict[str, Any]:
        """Describe an experiment."""
        own: dict[str, Any] = await self._answer(_Sent("GET", self._requests.path(experiment)))
        return own

    async def posterior(self, experiment: str) -> dict[str, Any]:
        """Return the beliefs of all learned tables as lists."""
        own: dict[str, Any] = (await self._answer(_Sent("GET", self._requests.path(experiment, "/posterior"))))[
            "tables"
        ]
        return own

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
