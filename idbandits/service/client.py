"""`idb.Client`: decisions and outcomes of a service over HTTP, with retries and a fallback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import httpx

from idbandits.diagram.diagram import Diagram
from idbandits.service.client_requests import (
    RETRIES,
    TIMEOUT,
    ClientDecision,
    Fallback,
    Sent,
    T,
    decision_request,
    decisions_request,
    description_request,
    fallback_decision,
    http_options,
    http_request,
    outcome_request,
    outcomes_request,
    pause_after,
    posterior_request,
    put_request,
    result_of,
    retry_pauses,
    shown_request,
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
        self._retries = retries
        self._http = httpx.Client(**http_options(url, token, timeout, retries), transport=transport)

    def _result(self, sent: Sent[T]) -> T:
        pauses = retry_pauses(self._retries)
        while True:
            try:
                attempt: httpx.Response | httpx.TransportError = self._http.request(**http_request(sent))
            except httpx.TransportError as error:
                attempt = error
            pause = pause_after(attempt, pauses)
            if pause is None:
                return result_of(sent, attempt)
            time.sleep(pause)

    def put(self, experiment: str, d: Diagram, **settings: Any) -> int:
        """Create an experiment, or add a version; return the number of the version.

        Parameters
        ----------
        experiment, d, **settings
            As in `Live.put`.
        """
        return self._result(put_request(experiment, d, settings))

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
        sent = decision_request(
            experiment,
            {"context": context, "allowed": allowed, "id": id, "unit": unit, "action": action, "deferred": deferred},
            fallback,
        )  # fmt: skip
        try:
            return self._result(sent)
        except ServiceError as error:
            return fallback_decision(experiment, sent, fallback, error)

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
        return self._result(decisions_request(experiment, requests))

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
        sent = outcome_request(decision, values, at, complete, experiment)
        return "fallback" if sent is None else self._result(sent)

    def report_many(self, experiment: str, reports: Iterable[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes; return an answer or an error for each.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        reports : iterable of mappings
            As in `Live.report`.
        """
        listed = list(reports)
        sent = outcomes_request(experiment, listed)
        return ["fallback"] * len(listed) if sent is None else self._result(sent)

    def shown(self, decision: ClientDecision | str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown.

        Parameters
        ----------
        decision, at, experiment
            As in `report`.
        """
        sent = shown_request(decision, at, experiment)
        return "fallback" if sent is None else self._result(sent)

    def show(self, experiment: str) -> dict[str, Any]:
        """Describe an experiment, as `Live.show`.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        return self._result(description_request(experiment))

    def posterior(self, experiment: str) -> dict[str, Any]:
        """Return the beliefs of all learned tables as lists, by table: labels, mean, sd and quantiles.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        return self._result(posterior_request(experiment))

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
        self._retries = retries
        self._http = httpx.AsyncClient(**http_options(url, token, timeout, retries), transport=transport)

    async def _result(self, sent: Sent[T]) -> T:
        pauses = retry_pauses(self._retries)
        while True:
            try:
                attempt: httpx.Response | httpx.TransportError = await self._http.request(**http_request(sent))
            except httpx.TransportError as error:
                attempt = error
            pause = pause_after(attempt, pauses)
            if pause is None:
                return result_of(sent, attempt)
            await asyncio.sleep(pause)

    async def put(self, experiment: str, d: Diagram, **settings: Any) -> int:
        """Create an experiment, or add a version; return the number of the version.

        Parameters
        ----------
        experiment, d, **settings
            As in `Live.put`.
        """
        return await self._result(put_request(experiment, d, settings))

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
        sent = decision_request(
            experiment,
            {"context": context, "allowed": allowed, "id": id, "unit": unit, "action": action, "deferred": deferred},
            fallback,
        )  # fmt: skip
        try:
            return await self._result(sent)
        except ServiceError as error:
            return fallback_decision(experiment, sent, fallback, error)

    async def decide_many(
        self, experiment: str, requests: Sequence[Mapping[str, Any]]
    ) -> list[ClientDecision | ServiceError]:  # fmt: skip
        """Return a decision or an error for each request.

        Parameters
        ----------
        experiment, requests
            As in `Client.decide_many`.
        """
        return await self._result(decisions_request(experiment, requests))

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
        sent = outcome_request(decision, values, at, complete, experiment)
        return "fallback" if sent is None else await self._result(sent)

    async def report_many(self, experiment: str, reports: Iterable[Mapping[str, Any]]) -> list[str | ServiceError]:
        """Report several outcomes; return an answer or an error for each.

        Parameters
        ----------
        experiment, reports
            As in `Client.report_many`.
        """
        listed = list(reports)
        sent = outcomes_request(experiment, listed)
        return ["fallback"] * len(listed) if sent is None else await self._result(sent)

    async def shown(self, decision: ClientDecision | str, *, at: Any = None, experiment: str | None = None) -> str:
        """Report that a deferred decision was shown.

        Parameters
        ----------
        decision, at, experiment
            As in `Client.shown`.
        """
        sent = shown_request(decision, at, experiment)
        return "fallback" if sent is None else await self._result(sent)

    async def show(self, experiment: str) -> dict[str, Any]:
        """Describe an experiment, as `Live.show`.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        return await self._result(description_request(experiment))

    async def posterior(self, experiment: str) -> dict[str, Any]:
        """Return the beliefs of all learned tables as lists, as `Client.posterior`.

        Parameters
        ----------
        experiment : str
            Name of the experiment.
        """
        return await self._result(posterior_request(experiment))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
