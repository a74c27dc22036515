"""Frequent routes: single decisions and outcomes."""

from __future__ import annotations

from typing import Any, final

from idbandits.service.http.answers import Answer, encode
from idbandits.service.http.bodies import BodyType
from idbandits.service.http.endpoint import Call
from idbandits.service.http.message_types import (
    DecisionAnswer,
    DecisionRequest,
    OutcomeAnswer,
    OutcomeReport,
    ShownReport,
    ShownTime,
)
from idbandits.service.http.service_state import ServiceState
from idbandits.service.journal.journal import Report
from idbandits.service.live.deciding import Request
from idbandits.service.live.experiments import Decision
from idbandits.service.live.inputs import check_id
from idbandits.service.service_errors import ServiceError

DECISION, OUTCOME = BodyType(DecisionRequest), BodyType(OutcomeReport)
SHOWN, SHOWN_TIME = BodyType(ShownReport), BodyType(ShownTime, optional=True)
ACCEPTED, UNCHANGED = (Answer(200, encode(OutcomeAnswer(text))) for text in ("accepted", "unchanged"))


@final
class HotRoutes:
    """Handlers of single decisions and outcomes."""

    def __init__(self, state: ServiceState) -> None:
        self._state, self._live = state, state.live

    async def decide(self, call: Call) -> Answer:
        """Return the action to show after the decision is durable."""
        body, name, state = await call.body(DECISION), call.parameters["name"], self._state
        request = request_of(body)
        if not state.warm.has(name):
            await state.warmed(name)
        if body.unit is None or not self._is_sticky(name):
            write = self._live.decision_write(name, request)
        else:  # reads an earlier decision of the unit from the journal
            write = await state.in_thread(self._live.decision_write, name, request)
        stored = await state.writes.written(write)
        row = write.row
        is_new = stored.seed == row.seed and stored.at == row.at
        return Answer(201 if is_new else 200, encode(decision_answer(self._live.decision_of(write, stored))))

    def _is_sticky(self, name: str) -> bool:
        return self._live.view(name).version.settings.sticky is not None

    async def report(self, call: Call) -> Answer:
        """Append the outcome of a decision."""
        body, name = await call.body(OUTCOME), call.parameters["name"]
        await self._load(name)
        try:
            write = report_of(self._live, name, body)
            change = await self._state.writes.written(write)
        except ServiceError as error:
            self._state.letters.add(name, body, error)
            raise
        return UNCHANGED if change is None else ACCEPTED

    async def shown(self, call: Call) -> Answer:
        """Append that a deferred decision was shown."""
        body, name = await call.body(SHOWN), call.parameters["name"]
        return await self._shown(name, body.decision, body.at)

    async def shown_by_path(self, call: Call) -> Answer:
        """Append that the decision of the address was shown."""
        body = await call.body(SHOWN_TIME)
        return await self._shown(call.parameters["name"], call.parameters["id"], body.at)

    async def _shown(self, name: str, id: str, at: Any) -> Answer:
        check_id("decision", id)
        await self._load(name)
        change = await self._state.writes.written(self._live.shown_write(name, id, at))
        return UNCHANGED if change is None else ACCEPTED

    async def _load(self, name: str) -> None:
        """Load an experiment that another worker has created; raise if it does not exist."""
        if self._live.present(name) is None:
            await self._state.in_thread(self._live.replica, name)


def request_of(body: DecisionRequest) -> Request:
    """Return the request for a decision that a body describes."""
    return Request(body.context, body.allowed, body.id, body.unit, body.action, body.deferred)


def report_of(live: Any, name: str, body: OutcomeReport) -> Report:
    """Return the write of an outcome."""
    check_id("decision", body.decision)
    write: Report = live.report_write(name, body.decision, body.values, body.at, body.complete)
    return write


def decision_answer(decision: Decision) -> DecisionAnswer:
    """Return the answer that describes a decision."""
    return DecisionAnswer(decision.id, decision.action, decision.version, decision.arm)


def outcome_answer(change: Any) -> OutcomeAnswer:
    """Return what an outcome changed as an answer."""
    return OutcomeAnswer("unchanged" if change is None else "accepted")
