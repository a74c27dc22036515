"""`idb.Client`: decisions and outcomes of a service over HTTP, with retries and a fallback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import httpx

from idbandits.diagram.diagram import Diagram
from idbandits.service.client_requests import (
    FALLBACK,
    RETRIES,
    TIMEOUT,
    ClientDecision,
    Fallback,
    Requests,
    Sent,
    content_of,
    decided,
    decision_body,
    error_of,
    experiment_body,
    fallback_decision,
    json_of,
    outcome_body,
    target_of,
    unreachable,
)
from idbandits.service.service_errors import ServiceError


@final
class Client:
    """Client of a service: `decide`, `report` and `shown` as in `Live`, over HTTP.

    Requests that got no answer are repeated with their id, so that a decision is made once. If there is still no
    answer, `decide` returns its `fallback`, and `report` sends nothing for it; without a fallback, a `ServiceError` of
    the kind "unavailable" is raised. A decision whose answer was lost may still be stored; with `deferred=True` it is
    not learned until it is reported as shown.

    Parameters
    ----------
    url : str
        Address of the service, such as "http://127.0.0.1:8080".
    token : str, optional
        Access token.
    timeout : float
        Longest time of an attempt, in seconds.
    retries : int
        Number of further attempts.
    transport : httpx.BaseTransport, optional
        Transport of requests, for proxies and tests.

    Examples
    --------
    While the service runs (`idbandits serve --store sqlite:///shop.db`), the agent decides; without it, the fallback:

    >>> import idbandits as idb
    >>> with idb.Client("http://127.0.0.1:9", timeout=0.5, retries=0) as client:  # nothing listens at port 9
    ...     decision = client.decide("shop", id="visit-1", fallback={"A1": "tea"})
    ...     answer = client.report(decision, {"C1": 1})
    >>> decision.action, decision.fallback, answer
    ({'A1': 'tea'}, True, 'fallback')
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = TIMEOUT, retries: int = RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        self._requests = Requests(url, token, timeout, retries)
        self._http = httpx.Client(**self._requests.options, transport=transport)

    def _answer(self, sent: Sent) -> Any:
        pauses = self._requests.pauses()
        while True:
            try:
                answer: httpx.Response | None = self._http.request(sent.method, sent.path, content=json_of(sent.body))
                problem: object = None
            except httpx.TransportError as error:
                answer, problem = None, error
            if answer is not None and not self._requests.is_retried(answer):
                return content_of(answer)
            pause = next(pauses, None)
            if pause is None:
                if answer is not None:
                    return content_of(answer)
                raise unreachable(problem)
            time.sleep(pause)

    def put(self, experiment: str, d: Diagram, **settings: Any) -> int:
        """Create an experiment, or add a version; return the number of the version.

        Parameters
        ----------
        experiment, d, **settings
            As in `Live.put`.
        """
        path, body = self._requests.path(experiment), experiment_body(d, settings)
        return int(content_of(self._http.put(path, content=json_of(body), timeout=300.0))["version"])

    def decide(
        self, experiment: str, context: Mapping[str, Any] | None = None, *, allowed: Any = None, id: str | None = None,
        unit: str | None = None, action: Mapping[str, Any] | None = None, deferred: bool = False,
        fallback: Fallback = None,
    ) -> ClientDecision:  # fmt: skip
        """Return the action to show.

        Parameters
        ----------
        experiment, context, allowed, id, unit, action, deferred
            As in `Live.decide`.
        fallback : mapping or function, optional
            Action, or a function without arguments that returns it, if the service does not answer.

        Returns
        -------
        ClientDecision
            Id, action, version and arm; `fallback` is True if the service did not answer.
        """
        given = {"context": context, "allowed": allowed, "id": id, "unit": unit, "action": action, "deferred": deferred}
        sent = self._requests.decision(experiment, given)
        try:
            return decided(experiment, self._answer(sent))
        except ServiceError as error:
            if error.kind != "unavailable" or fallback is None:
                raise
            return fallback_decision(experiment, sent.body["id"], fallback)

    def decide_many(
        self, experiment: str, requests: Sequence[Mapping[str, Any]]
    ) -> list[ClientDecision | ServiceError]:  # fmt: skip
        """Return a decision or an error for each request.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        requests : sequence of mappings
            Arguments of `decide`, without fallbacks.
        """
        body = {"decisions": [decision_body(own) for own in requests]}
        answers = self._answer(Sent("POST", self._requests.path(experiment, "/decisions:batch"), body))["decisions"]
        return [decided(experiment, own) if "action" in own else error_of(own) for own in answers]

    def report(
        self, decision: ClientDecision | str, values: Mapping[str, Any] | None = None, *, at: Any = None,
        complete: bool = False, experiment: str | None = None,
    ) -> str:  # fmt: skip
        """Report what happened; return "accepted" or "unchanged", "fallback" if the service did not decide.

        Parameters
        ----------
        decision : ClientDecision or str
            Decision, or its id.
        values, at, complete
            As in `Live.report`.
        experiment : str, optional
            Name of the experiment, needed for an id.
        """
        name, id, is_fallback = target_of(decision, experiment)
        if is_fallback:
            return "fallback"
        sent = Sent("POST", self._requests.path(name, "/outcomes"), outcome_body(id, values, at, complete))
        return str(self._answer(sent)["status"])

    def report_many(self, experiment: str, reports: Iterable[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes; return an answer or an error for each.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        reports : iterable of mappings
            As in `Live.report`.
        """
        own = list(reports)
        kept = [i for i, one in enumerate(own) if not one["id"].startswith(FALLBACK)]
        results: list[str | ServiceError] = ["fallback"] * len(own)
        bodies = [
            outcome_body(own[i]["id"], own[i].get("values"), own[i].get("at"), own[i].get("complete", False))
            for i in kept
        ]
        if kept:
            path = self._requests.path(experiment, "/outcomes:batch")
            answers = self._answer(Sent("POST", path, {"outcomes": bodies}))["outcomes"]
            for i, answer in zip(kept, answers, strict=True):
                results[i] = error_of(answer) if "type" in answer else answer["status"]
        return results

    def shown(self, decision: ClientDecision | str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown.

        Parameters
        ----------
        decision, at, experiment
            As in `report`.
        """
        name, id, is_fallback = target_of(decision, experiment)
        if is_fallback:
            return "fallback"
        body = {"decision": id} if at is None else {"decision": id, "at": at}
        return str(self._answer(Sent("POST", self._requests.path(name, "/shown"), body))["status"])

    def show(self, experiment: str) -> dict[str, Any]:
        """Describe an experiment, as `Live.show`.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        own: dict[str, Any] = self._answer(Sent("GET", self._requests.path(experiment)))
        return own

    def posterior(self, experiment: str) -> dict[str, Any]:
        """Return the beliefs of all learned tables as lists, by table: labels, mean, sd and quantiles.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        own: dict[str, Any] = self._answer(Sent("GET", self._requests.path(experiment, "/posterior")))["tables"]
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
    """`Client` for asyncio.

    Parameters
    ----------
    url, token, timeout, retries
        As in `Client`.
    transport : httpx.AsyncBaseTransport, optional
        Transport of requests, for proxies and tests.

    Examples
    --------
    >>> import asyncio
    >>> import idbandits as idb
    >>> async def visit():
    ...     async with idb.AsyncClient("http://127.0.0.1:9", timeout=0.5, retries=0) as client:  # nothing listens there
    ...         decision = await client.decide("shop", id="visit-1", fallback={"A1": "tea"})
    ...         return decision.action, await client.report(decision, {"C1": 1})
    >>> asyncio.run(visit())
    ({'A1': 'tea'}, 'fallback')
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = TIMEOUT, retries: int = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        self._requests = Requests(url, token, timeout, retries)
        self._http = httpx.AsyncClient(**self._requests.options, transport=transport)

    async def _answer(self, sent: Sent) -> Any:
        pauses = self._requests.pauses()
        while True:
            try:
                answer: httpx.Response | None = await self._http.request(
                    sent.method, sent.path, content=json_of(sent.body)
                )
                problem: object = None
            except httpx.TransportError as error:
                answer, problem = None, error
            if answer is not None and not self._requests.is_retried(answer):
                return content_of(answer)
            pause = next(pauses, None)
            if pause is None:
                if answer is not None:
                    return content_of(answer)
                raise unreachable(problem)
            await asyncio.sleep(pause)

    async def put(self, experiment: str, d: Diagram, **settings: Any) -> int:
        """Create an experiment, or add a version; return the number of the version.

        Parameters
        ----------
        experiment, d, **settings
            As in `Live.put`.
        """
        path, body = self._requests.path(experiment), experiment_body(d, settings)
        return int(content_of(await self._http.put(path, content=json_of(body), timeout=300.0))["version"])

    async def decide(
        self, experiment: str, context: Mapping[str, Any] | None = None, *, allowed: Any = None, id: str | None = None,
        unit: str | None = None, action: Mapping[str, Any] | None = None, deferred: bool = False,
        fallback: Fallback = None,
    ) -> ClientDecision:  # fmt: skip
        """Return the action to show.

        Parameters
        ----------
        experiment, context, allowed, id, unit, action, deferred, fallback
            As in `Client.decide`.

        Returns
        -------
        ClientDecision
            Id, action, version and arm; `fallback` is True if the service did not answer.
        """
        given = {"context": context, "allowed": allowed, "id": id, "unit": unit, "action": action, "deferred": deferred}
        sent = self._requests.decision(experiment, given)
        try:
            return decided(experiment, await self._answer(sent))
        except ServiceError as error:
            if error.kind != "unavailable" or fallback is None:
                raise
            return fallback_decision(experiment, sent.body["id"], fallback)

    async def decide_many(
        self, experiment: str, requests: Sequence[Mapping[str, Any]]
    ) -> list[ClientDecision | ServiceError]:  # fmt: skip
        """Return a decision or an error for each request.

        Parameters
        ----------
        experiment, requests
            As in `Client.decide_many`.
        """
        body = {"decisions": [decision_body(own) for own in requests]}
        answers = (await self._answer(Sent("POST", self._requests.path(experiment, "/decisions:batch"), body)))[
            "decisions"
        ]
        return [decided(experiment, own) if "action" in own else error_of(own) for own in answers]

    async def report(
        self, decision: ClientDecision | str, values: Mapping[str, Any] | None = None, *, at: Any = None,
        complete: bool = False, experiment: str | None = None,
    ) -> str:  # fmt: skip
        """Report what happened; return "accepted" or "unchanged", "fallback" if the service did not decide.

        Parameters
        ----------
        decision, values, at, complete, experiment
            As in `Client.report`.
        """
        name, id, is_fallback = target_of(decision, experiment)
        if is_fallback:
            return "fallback"
        sent = Sent("POST", self._requests.path(name, "/outcomes"), outcome_body(id, values, at, complete))
        return str((await self._answer(sent))["status"])

    async def report_many(self, experiment: str, reports: Iterable[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes; return an answer or an error for each.

        Parameters
        ----------
        experiment, reports
            As in `Client.report_many`.
        """
        own = list(reports)
        kept = [i for i, one in enumerate(own) if not one["id"].startswith(FALLBACK)]
        results: list[str | ServiceError] = ["fallback"] * len(own)
        bodies = [
            outcome_body(own[i]["id"], own[i].get("values"), own[i].get("at"), own[i].get("complete", False))
            for i in kept
        ]
        if kept:
            path = self._requests.path(experiment, "/outcomes:batch")
            answers = (await self._answer(Sent("POST", path, {"outcomes": bodies})))["outcomes"]
            for i, answer in zip(kept, answers, strict=True):
                results[i] = error_of(answer) if "type" in answer else answer["status"]
        return results

    async def shown(self, decision: ClientDecision | str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown.

        Parameters
        ----------
        decision, at, experiment
            As in `Client.shown`.
        """
        name, id, is_fallback = target_of(decision, experiment)
        if is_fallback:
            return "fallback"
        body = {"decision": id} if at is None else {"decision": id, "at": at}
        return str((await self._answer(Sent("POST", self._requests.path(name, "/shown"), body)))["status"])

    async def show(self, experiment: str) -> dict[str, Any]:
        """Describe an experiment, as `Live.show`.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        own: dict[str, Any] = await self._answer(Sent("GET", self._requests.path(experiment)))
        return own

    async def posterior(self, experiment: str) -> dict[str, Any]:
        """Return the beliefs of all learned tables as lists, as `Client.posterior`.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        own: dict[str, Any] = (await self._answer(Sent("GET", self._requests.path(experiment, "/posterior"))))["tables"]
        return own

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
