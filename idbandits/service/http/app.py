"""ASGI application of the service: its routes, with the scopes that they require."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Route, Router

from idbandits.service.http.batch_routes import BatchRoutes
from idbandits.service.http.endpoint import ByMethod, Endpoint, Run
from idbandits.service.http.experiment_routes import STATUSES, ExperimentRoutes
from idbandits.service.http.gateway import Gateway
from idbandits.service.http.hot_routes import HotRoutes
from idbandits.service.http.openapi import openapi_route
from idbandits.service.http.question_routes import QuestionRoutes
from idbandits.service.http.service_metrics import RequestTimes, ServiceMetrics
from idbandits.service.http.service_state import Options, ServiceState
from idbandits.service.live.live import Live

DASHBOARD = "idbandits.service.dashboard"


class RouteEntry(NamedTuple):
    """Route of the service; `label` names it in measurements and in the OpenAPI document."""

    label: str
    method: str
    path: str
    needs: str | None  # scope
    run: Run


def entries(state: ServiceState, times: RequestTimes) -> list[RouteEntry]:
    """Return all routes of the API, frequent ones first."""
    hot, batches, experiments = HotRoutes(state), BatchRoutes(state), ExperimentRoutes(state)
    questions = QuestionRoutes(state, ServiceMetrics(state, times))
    path = "/v1/experiments/{name}"
    return [
        RouteEntry("decisions", "POST", f"{path}/decisions", "decide", hot.decide),
        RouteEntry("outcomes", "POST", f"{path}/outcomes", "report", hot.report),
        RouteEntry("shown", "POST", f"{path}/shown", "report", hot.shown),
        RouteEntry("decision-batch", "POST", f"{path}/decisions:batch", "decide", batches.decide),
        RouteEntry("outcome-batch", "POST", f"{path}/outcomes:batch", "report", batches.report),
        RouteEntry("decision-shown", "POST", f"{path}/decisions/{{id:path}}/shown", "report", hot.shown_by_path),
        RouteEntry("probability", "GET", f"{path}/decisions/{{id:path}}/probability", "read", questions.probability),
        RouteEntry("decision", "GET", f"{path}/decisions/{{id:path}}", "read", questions.decision),
        RouteEntry("posterior", "GET", f"{path}/posterior", "read", questions.posterior),
        RouteEntry("dead-letters", "GET", f"{path}/dead-letters", "read", questions.letters),
        RouteEntry("replay", "POST", f"{path}/dead-letters:replay", "admin", questions.replay),
        *(
            RouteEntry(verb, "POST", f"{path}/{verb}", "admin", experiments.to(verb))
            for verb in STATUSES
        ),
        RouteEntry("put-experiment", "PUT", path, "admin", experiments.put),
        RouteEntry("experiment", "GET", path, "read", experiments.show),
        RouteEntry("experiments", "GET", "/v1/experiments", "read", experiments.list_all),
        RouteEntry("healthz", "GET", "/healthz", None, questions.health),
        RouteEntry("readyz", "GET", "/readyz", None, questions.readiness),
        RouteEntry("metrics", "GET", "/metrics", None, questions.metrics),
        RouteEntry("openapi", "GET", "/openapi.json", None, openapi_route()),
    ]  # fmt: skip


def create_app(live: Live, options: Options = Options()) -> Gateway:  # noqa: B008
    """Return the ASGI application of a worker, which closes `live` when the worker ends."""
    state, times = ServiceState(live, options), RequestTimes()
    paths: dict[str, list[RouteEntry]] = {}
    for entry in entries(state, times):
        paths.setdefault(entry.path, []).append(entry)
    routes: list[BaseRoute] = [
        Route(path, _endpoint_of(of_path), methods=[entry.method for entry in of_path])
        for path, of_path in paths.items()
    ]
    return Gateway(Router([*routes, *_pages(live)], redirect_slashes=False), state, times)


def _endpoint_of(of_path: Sequence[RouteEntry]) -> Any:
    """Return the ASGI application of a path from its entries, one per method."""
    endpoints = {entry.method: Endpoint(entry.label, entry.needs, entry.run) for entry in of_path}
    return next(iter(endpoints.values())) if len(endpoints) == 1 else ByMethod(endpoints)


def _pages(live: Live) -> list[BaseRoute]:
    """Return the routes of the dashboard, if it is installed."""
    if importlib.util.find_spec(DASHBOARD) is None or importlib.util.find_spec(f"{DASHBOARD}.pages") is None:
        return []
    pages: Any = importlib.import_module(f"{DASHBOARD}.pages")
    routes: list[BaseRoute] = pages.dashboard_routes(live)
    return routes
