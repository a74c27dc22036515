"""Routes of several decisions or outcomes at once, carried out in a thread."""

from __future__ import annotations

from typing import Any, final

from idbandits.service.http.answers import Answer, answer, problem_of
from idbandits.service.http.bodies import LARGE, BodyType
from idbandits.service.http.endpoint import Call
from idbandits.service.http.hot_routes import decision_answer, request_of
from idbandits.service.http.message_types import (
    DecisionAnswers,
    DecisionBatch,
    OutcomeAnswer,
    OutcomeAnswers,
    OutcomeBatch,
    Problem,
)
from idbandits.service.http.service_state import ServiceState
from idbandits.service.live.inputs import check_id
from idbandits.service.service_errors import ServiceError

DECISIONS, OUTCOMES = BodyType(DecisionBatch, LARGE), BodyType(OutcomeBatch, LARGE)


@final
class BatchRoutes:
    """Batches of decisions and outcomes; the answer to each is a problem if it fails, and others are carried out."""

    def __init__(self, state: ServiceState) -> None:
        self._state, self._live = state, state.live

    async def decide(self, call: Call) -> Answer:
        """Make several decisions."""
        content = await call.content(DECISIONS.most)
        if not self._state.warm.has(name := call.parameters["name"]):
            await self._state.warmed(name)
        return await self._state.in_thread(self._decide, call.parameters["name"], content)

    def _decide(self, name: str, content: bytes) -> Answer:
        body = DECISIONS.read(content)
        own = self._live.decide_many(name, [request_of(one) for one in body.decisions])
        return answer(DecisionAnswers([_or_problem(one, decision_answer) for one in own]))

    async def report(self, call: Call) -> Answer:
        """Append several outcomes."""
        content = await call.content(OUTCOMES.most)
        return await self._state.in_thread(self._report, call.parameters["name"], content)

    def _report(self, name: str, content: bytes) -> Answer:
        body = OUTCOMES.read(content)
        self._live.replica(name)
        places, reports = list[int](), list[dict[str, Any]]()
        own: list[OutcomeAnswer | Problem] = [OutcomeAnswer("unchanged")] * len(body.outcomes)
        for i, one in enumerate(body.outcomes):
            try:
                id = check_id("decision", one.decision)
            except ServiceError as error:
                own[i] = problem_of(error)
                continue
            places.append(i)
            reports.append({"id": id, "values": one.values, "at": one.at, "complete": one.complete})
        for i, result in zip(places, self._live.report_many(name, reports), strict=True):
            if isinstance(result, ServiceError):
                self._state.letters.add(name, body.outcomes[i], result)
            own[i] = _or_problem(result, OutcomeAnswer)
        return answer(OutcomeAnswers(own))


def _or_problem(result: Any, answer_of: Any) -> Any:
    return problem_of(result) if isinstance(result, ServiceError) else answer_of(result)
