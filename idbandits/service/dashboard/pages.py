"""Pages of the dashboard: routes and handlers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from idbandits.errors import IdbanditsError
from idbandits.service.dashboard import formatting, time_series
from idbandits.service.dashboard.background_values import BackgroundValues
from idbandits.service.dashboard.experiment_status import (
    ALARM,
    LATEST,
    Status,
    cells_of,
    is_complete_in,
    received_of,
    status_of,
)
from idbandits.service.dashboard.learned_items import COLUMNS, contexts_of, groups_of, learned, sorted_lines
from idbandits.service.journal.records import VersionRow, events_of
from idbandits.service.json_text import decoded, encoded
from idbandits.service.live.gain import design_effect_of, gain_path
from idbandits.service.live.live import Live
from idbandits.service.live.replica import LIBRARY
from idbandits.service.live.statistics import key_of
from idbandits.service.service_errors import ServiceError

FOLDER = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
PICTURE_HEADERS = {  # pictures contain inline styles
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "private, max-age=86400",
}
PATIENCE = 0.4  # seconds for which a page waits for slow values
PICTURE_SECONDS = 30.0  # for which a request of a picture waits between checks
SECONDS = 30.0  # after which values that depend on the time expire
POLL = 1.0  # seconds between polls of an event stream
STREAM_SECONDS = 60.0  # after which a stream ends and the browser reconnects
ITEMS, HEAT_ITEMS, DECISIONS, CHANGES = 25, 20, 50, 200  # number of rows of a page
TABS = (("", "Overview"), ("/learned", "Learned"), ("/decisions", "Decisions"), ("/changes", "Changes"))
STATES = {"open": "open", "deferred": "deferred, not shown yet", "closed": "closed", "impossible": "impossible"}


class Pages(NamedTuple):
    """Page of a list: its number, from 1, and the number of the last page."""

    number: int
    last: int


def dashboard_routes(live: Live, *, patience: float = PATIENCE) -> list[BaseRoute]:
    """Return the routes of the dashboard; the caller must require the scope `read`."""
    dashboard = Dashboard(live, patience)
    get = ["GET"]
    return [
        Route("/dashboard", dashboard.overview, methods=get),
        Route("/dashboard/", dashboard.overview, methods=get),
        Route("/dashboard/events", dashboard.all_events, methods=get),
        Route("/dashboard/{name}", dashboard.experiment, methods=get),
        Route("/dashboard/{name}/learned", dashboard.learned, methods=get),
        Route("/dashboard/{name}/decisions", dashboard.decisions, methods=get),
        Route("/dashboard/{name}/changes", dashboard.changes, methods=get),
        Route("/dashboard/{name}/diagram.svg", dashboard.diagram, methods=get),
        Route("/dashboard/{name}/events", dashboard.events, methods=get),
        Mount("/static", StaticFiles(directory=FOLDER / "static"), name="static"),
    ]


@final
class Dashboard:
    """Handlers of requests for pages, pictures and event streams."""

    def __init__(self, live: Live, patience: float) -> None:
        self._live, self._values, self._patience = live, BackgroundValues(), patience
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters["plot"] = lambda value: encoded(value).replace("<", "\\u003c")
        self._drawing = threading.Lock()  # one picture at a time

    def _page(self, request: Request, template: str, code: int = 200, **values: Any) -> Response:
        root = request.scope.get("root_path", "")
        text = self._templates.get_template(template).render(
            root=root, library=LIBRARY, show=formatting, now=self._live.clock(), tabs=TABS, path=request.url.path,
            **values,
        )  # fmt: skip
        return Response(text, code, headers=HEADERS, media_type="text/html")

    def _missing(self, request: Request, error: ServiceError) -> Response:
        return self._page(request, "missing.html", error.status, message=str(error), title="Not found")

    def _soon(self) -> float:
        """Return the monotonic time until which a page waits for slow values."""
        return time.monotonic() + self._patience

    def _cached(self, name: str, what: str, compute: Callable[[], Any], until: float, *more: Any) -> Any:
        """Return a value of an experiment, computed again after its position has changed or the value has expired."""
        token = self._live.view(name).position, int(self._live.clock() // SECONDS)
        return self._values.get((name, what, *more), token, compute, until)

    def _status(self, name: str, until: float) -> Status | None:
        status: Status | None = self._cached(name, "status", lambda: status_of(self._live, name), until)
        return status

    # -- pages ---------------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        """Show the list of all experiments."""
        rows, until = [], self._soon()
        for name, (state, _, _) in self._live.journal.experiments().items():
            view = self._live.view(name)
            rows.append((name, state, view.version.settings.mode, view.version.number, self._status(name, until)))
        order = {"active": 0, "paused": 1, "retired": 2}
        rows.sort(key=lambda row: (order.get(row[1], 3), row[0]))
        return self._page(request, "overview.html", title="Experiments", rows=rows, stream="/dashboard/events")

    def experiment(self, request: Request) -> Response:
        """Show status and plots of an experiment."""
        name = request.path_params["name"]
        try:
            self._live.view(name)
        except ServiceError as error:
            return self._missing(request, error)
        live, until = self._live, self._soon()
        return self._page(
            request, "experiment.html", **self._common(name, "", until), alarm=ALARM, latest=LATEST, states=STATES,
            plots=self._cached(name, "plots", lambda: self._plots(name), until),
            received=self._cached(name, "received", lambda: received_of(live.store, name), until),
            fit=self._cached(name, "fit", lambda: self._fit(name), until),
            letters=live.journal.letters_by_reason(name), rounds_of=live.view(name).agent.rounds,
        )  # fmt: skip

    def learned(self, request: Request) -> Response:
        """Show the belief of the agent and its diagram."""
        name, query = request.path_params["name"], request.query_params
        try:
            view = self._live.view(name)
        except ServiceError as error:
            return self._missing(request, error)
        model = view.version.model
        contexts = contexts_of(model)
        places = [_place(query.get(f"c.{node.name}"), len(node.values)) for node in contexts]
        context = {node.name: node.values[k] for node, k in zip(contexts, places, strict=True)}
        statistics = self._live.replica(name).statistics
        until = self._soon()
        belief = self._cached(
            name, "learned", lambda: learned(view.agent, model, statistics, context), until, view.version.number,
            *places,
        )  # fmt: skip
        values: dict[str, Any] = {"belief": belief, "contexts": contexts, "places": places}
        if belief is not None and belief.boards:
            values |= self._boards(belief, query)
        chosen = {f"c.{node.name}": k for node, k in zip(contexts, places, strict=True) if k}
        return self._page(
            request, "learned.html", **self._common(name, "/learned", until), **values, chosen=chosen,
            version=view.version, columns=COLUMNS, is_probability=_is_probability(model),
        )  # fmt: skip

    def _boards(self, belief: Any, query: Mapping[str, str]) -> dict[str, Any]:
        at, heat_at = _place(query.get("table"), len(belief.boards)), _place(query.get("heat"), len(belief.heats))
        board, heat = belief.boards[at], belief.heats[heat_at]
        usual = "mean" if board.table is not None else "impressions"
        by = query.get("sort", usual)
        by = by if by in COLUMNS else usual
        descending = query.get("order", "up" if by == "item" else "down") != "up"
        pages = _pages(query.get("page"), len(board.lines), ITEMS)
        heat_pages = _pages(query.get("heat_page"), len(heat.lines), HEAT_ITEMS)
        lines = sorted_lines(board, by, descending)[(pages.number - 1) * ITEMS : pages.number * ITEMS]
        return {
            "board": board, "board_at": at, "lines": lines, "pages": pages, "by": by, "descending": descending,
            "heat": heat, "heat_at": heat_at, "heat_pages": heat_pages, "as_now": query.get("heat_of") == "now",
            "heat_lines": heat.lines[(heat_pages.number - 1) * HEAT_ITEMS : heat_pages.number * HEAT_ITEMS],
            "first": (pages.number - 1) * ITEMS,
        }  # fmt: skip

    def decisions(self, request: Request) -> Response:
        """Show the latest decisions."""
        name, query = request.path_params["name"], request.query_params
        try:
            self._live.view(name)
        except ServiceError as error:
            return self._missing(request, error)
        before = query.get("before", "")
        limit = int(before) if before.isascii() and before.isdecimal() and len(before) < 18 else None
        rows = self._live.journal.recent(name, DECISIONS + 1, limit)
        has_more, rows = len(rows) > DECISIONS, rows[:DECISIONS]
        shown = [(row, decoded(row.action), decoded(row.context), decoded(row.learned), events_of(row)) for row in rows]
        return self._page(
            request, "decisions.html", **self._common(name, "/decisions", self._soon()), rows=shown, states=STATES,
            before=limit, more=rows[-1].n if has_more else None,
        )  # fmt: skip

    def changes(self, request: Request) -> Response:
        """Show the audit log, versions with their settings, and reports that were rejected."""
        name = request.path_params["name"]
        try:
            self._live.view(name)
        except ServiceError as error:
            return self._missing(request, error)
        journal = self._live.journal
        versions = [
            (row, self._live.version(name, row.version).settings.to_data(), self._live.version(name, row.version))
            for row in reversed(journal.versions(name))
        ]
        return self._page(
            request, "changes.html", **self._common(name, "/changes", self._soon()), audit=journal.audit(name, CHANGES),
            versions=versions[:CHANGES], letters=journal.letters(name, CHANGES, include_replayed=True), most=CHANGES,
        )  # fmt: skip

    def _common(self, name: str, tab: str, until: float) -> dict[str, Any]:
        view = self._live.view(name)
        state = self._live.journal.experiments()[name][0]
        return {
            "title": name, "name": name, "tab": tab, "status": self._status(name, until), "state": state,
            "mode": view.version.settings.mode, "number": view.version.number, "stream": f"/dashboard/{name}/events",
        }  # fmt: skip

    # -- plots ---------------------------------------------------------------------------------------------------------

    def _plots(self, name: str) -> dict[str, Any]:
        live = self._live
        statistics, versions = live.replica(name).statistics, live.journal.versions(name)
        markers = _markers(versions)
        labels = {key_of(item): item for g in groups_of(live.view(name).version.model) for item in g.items}
        for row in versions[:-1]:
            for group in groups_of(live.version(name, row.version).model):
                for item in group.items:
                    labels.setdefault(key_of(item), item)
        periods = {period: dict(counts) for period, counts in dict(statistics.periods).items()}
        received, gained = received_of(live.store, name), live.periods(name)
        effect = design_effect_of(live.store, name) if gained else 1.0
        return {
            "reward": time_series.reward_plot(cells_of(statistics), is_complete_in(live, name), markers),
            "gain": time_series.gain_plot(gain_path(gained, effect), markers),
            "shares": time_series.shares_plot(periods, labels, markers),
            "ages": time_series.ages_plot(received.ages),
        }  # fmt: skip

    def _fit(self, name: str) -> dict[str, Any]:
        """Return the verdict of a fit report and its plot."""
        try:
            report = self._live.view(name).agent.fit_report()
        except IdbanditsError as error:
            return {"words": f"Not available: {error}.", "fits": True, "plot": None}
        frame = report.frame
        nodes = [node.name for node in self._live.view(name).version.model.observed]
        plot = time_series.fit_plot(frame, nodes) if len(frame) else None
        return {"words": repr(report).split("\nAnother structure", 1)[0], "fits": report.fits, "plot": plot}

    def diagram(self, request: Request) -> Response:
        """Return the picture of a version."""
        name = request.path_params["name"]
        number = request.query_params.get("version", "")
        try:
            view = self._live.view(name)
            version = self._live.version(name, int(number)) if number.isascii() and number.isdecimal() else view.version
        except ServiceError as error:
            return self._missing(request, error)

        def drawn() -> str:
            with self._drawing:
                return version.diagram.draw().svg()

        text = None
        while text is None:  # the picture is not part of the page, so it may take long
            text = self._values.get((name, "diagram", version.number), None, drawn, time.monotonic() + PICTURE_SECONDS)
        return Response(text, headers=PICTURE_HEADERS, media_type="image/svg+xml")

    # -- streams -------------------------------------------------------------------------------------------------------

    async def all_events(self, request: Request) -> Response:
        """Send an event whenever something changes in any experiment."""
        return self._stream(lambda: [self._state(name) for name in self._live.journal.experiments()])

    async def events(self, request: Request) -> Response:
        """Send an event whenever something changes in an experiment."""
        name = request.path_params["name"]
        try:
            self._live.view(name)
        except ServiceError as error:
            return self._missing(request, error)
        return self._stream(lambda: [self._state(name)])

    def _state(self, name: str) -> list[Any]:
        """Return values that change with every event of an experiment."""
        newest = self._live.journal.recent(name, 1)
        status = self._live.journal.experiments()[name][0]
        return [name, self._live.view(name).position, newest[0].n if newest else 0, status]

    def _stream(self, state: Callable[[], Any]) -> Response:
        async def messages() -> AsyncIterator[str]:
            yield "retry: 2000\n\n"
            sent, end = "", time.monotonic() + STREAM_SECONDS
            while time.monotonic() < end:
                try:
                    latest = encoded(await asyncio.to_thread(state))
                except ServiceError:  # the journal is not available now
                    latest = sent
                if latest != sent:
                    yield f"data: {latest}\n\n"
                    sent = latest
                await asyncio.sleep(POLL)

        return StreamingResponse(messages(), headers=HEADERS, media_type="text/event-stream")


def _place(text: str | None, number: int) -> int:
    """Return an index from a query parameter; 0 if it is missing or invalid."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 9:
        return 0
    return int(text) if int(text) < number else 0


def _pages(text: str | None, lines: int, per_page: int) -> Pages:
    last = max(1, -(-lines // per_page))
    return Pages(min(max(1, _place(text, last + 1)), last), last)


def _markers(versions: list[VersionRow]) -> list[dict[str, Any]]:
    return [{"x": row.created, "label": f"version {row.version}"} for row in versions[1:]]


def _is_probability(model: Any) -> Callable[[Any], bool]:
    """Return a function of a group of decisions: True if they show an item at most once."""

    def answer(group: Any) -> bool:
        names = {node.name for node in group.decisions}
        return len(names) == 1 or any(names <= set(nodes) for nodes, _ in model.diagram.constraints)

    return answer
