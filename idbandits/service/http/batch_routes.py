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
    """Batches of decisions and outcomes; an entry that fails is answered by a problem, and does not affect the rest."""

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
        results = self._live.decide_many(name, [request_of(request) for request in body.decisions])
        return answer(DecisionAnswers([_or_problem(result, decision_answer) for result in results]))

    async def report(self, call: Call) -> Answer:
        """Append several outcomes."""
        content = await call.content(OUTCOMES.most)
        return await self._state.in_thread(self._report, call.parameters["name"], content)

    def _report(self, name: str, content: bytes) -> Answer:
        body = OUTCOMES.read(content)
        self._live.replica(name)
        places, reports = list[int](), list[dict[str, Any]]()
        answers: list[OutcomeAnswer | Problem] = [OutcomeAnswer("unchanged")] * len(body.outcomes)
        for i, outcome in enumerate(body.outcomes):
            try:
                id = check_id("decision", outcome.decision)
            except ServiceError as error:
                answers[i] = problem_of(error)
                continue
            places.append(i)
            reports.append({"id": id, "values": outcome.values, "at": outcome.at, "complete": outcome.complete})
        for i, result in zip(places, self._live.report_many(name, reports), strict=True):
            if isinstance(result, ServiceError):
                self._state.letters.add(name, body.outcomes[i], result)
            answers[i] = _or_problem(result, OutcomeAnswer)
        return answer(OutcomeAnswers(answers))


def _or_problem(result: Any, answer_of: Any) -> Any:
    return problem_of(result) if isinstance(result, ServiceError) else answer_of(result)
