"""Routes of questions (beliefs, decisions, probabilities, dead letters, health, metrics) and of replays."""

from __future__ import annotations

import math
from typing import Any, final
from urllib.parse import parse_qsl

from idbandits.service.http.answers import Answer, answer
from idbandits.service.http.bodies import BodyType
from idbandits.service.http.endpoint import Call
from idbandits.service.http.letter_box import replay_letters
from idbandits.service.http.message_types import (
    Beliefs,
    DeadLetter,
    DeadLetters,
    HealthAnswer,
    ReplayRequest,
    TableBelief,
)
from idbandits.service.http.service_metrics import ServiceMetrics
from idbandits.service.http.service_state import ServiceState
from idbandits.service.json_text import decoded
from idbandits.service.live.inputs import check_id
from idbandits.service.service_errors import ServiceError

REPLAY = BodyType(ReplayRequest, optional=True)
NUMBERS = ("mean", "sd", "5 %", "95 %", "rounds")
MOST_DRAWS, MOST_LETTERS = 10_000, 1000
TEXT = b"text/plain; version=0.0.4; charset=utf-8"


@final
class QuestionRoutes:
    """Handlers of read-only requests, and of the replay of dead letters."""

    def __init__(self, state: ServiceState, metrics: ServiceMetrics) -> None:
        self._state, self._live, self._metrics = state, state.live, metrics

    async def posterior(self, call: Call) -> Answer:
        """Return the beliefs of all learned tables."""
        return answer(await self._state.in_thread(self._beliefs, call.parameters["name"]))

    def _beliefs(self, name: str) -> Beliefs:
        view = self._live.view(name)
        tables = {table: belief_of(posterior) for table, posterior in view.agent.posterior().items()}
        return Beliefs(view.version.number, view.position, tables)

    async def decision(self, call: Call) -> Answer:
        """Describe a decision."""
        name, id = call.parameters["name"], check_id("id", call.parameters["id"])
        return answer(await self._state.in_thread(self._live.decision, name, id))

    async def probability(self, call: Call) -> Answer:
        """Compute the probability of a decision's action."""
        name, id = call.parameters["name"], check_id("id", call.parameters["id"])
        draws = number_of(call.query, "draws", 1000, MOST_DRAWS)
        await self._state.in_thread(self._live.decision, name, id)  # must exist
        return answer(await self._state.in_slow_thread(self._live.probability, name, id, draws))

    async def letters(self, call: Call) -> Answer:
        """Return dead letters."""
        limit = number_of(call.query, "limit", 100, MOST_LETTERS)
        rows = await self._state.in_thread(self._letters, call.parameters["name"], limit)
        return answer(
            DeadLetters(
                [DeadLetter(n, at, reason, text, decoded(body), done) for n, at, reason, text, body, done in rows]
            )
        )

    def _letters(self, name: str, limit: int) -> Any:
        self._live.replica(name)
        return self._live.journal.letters(name, limit)

    async def replay(self, call: Call) -> Answer:
        """Report dead letters again."""
        body = await call.body(REPLAY)
        name = call.parameters["name"]
        return answer(await self._state.in_slow_thread(replay_letters, self._live, name, body.limit))

    async def health(self, _: Call) -> Answer:
        """Return ok: the process answers."""
        return answer(HealthAnswer("ok"))

    async def readiness(self, _: Call) -> Answer:
        """Return ready if decisions do not wait for a compiler, else raise."""
        if self._live.failure is not None:
            raise ServiceError("unavailable", "the journal is not available")
        if not self._state.warm.ready:
            raise ServiceError("unavailable", "kernels are being compiled")
        return answer(HealthAnswer("ready"))

    async def metrics(self, call: Call) -> Answer:
        """Return measurements for Prometheus; names of experiments only with the scope read."""
        with_names = "read" in call.caller.scopes
        return Answer(200, await self._state.in_thread(self._metrics.text, with_names), TEXT)


def belief_of(posterior: Any) -> TableBelief:
    """Return the belief of a table as lists."""
    frame = posterior.to_frame()
    axes = list(frame.columns[: len(frame.columns) - len(NUMBERS)])
    rows = [list(row) for row in frame[axes].itertuples(index=False, name=None)] if axes else [[]]
    mean, sd, low, high, rounds = ([plain_number(value) for value in frame[name]] for name in NUMBERS)
    return TableBelief(axes, [[plain_label(label) for label in row] for row in rows], mean, sd, low, high, rounds)


def plain_number(value: Any) -> Any:
    """Convert a number for JSON; NaN becomes None."""
    return None if math.isnan(value) else float(value)


def plain_label(value: Any) -> Any:
    """Convert a NumPy scalar to a Python object."""
    return value.item() if hasattr(value, "item") else value


def number_of(query: bytes, name: str, usual: int, most: int) -> int:
    """Return an integer parameter of a query string, `usual` if it is missing."""
    texts = [value for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if key == name]
    if not texts:
        return usual
    text = texts[0]
    if len(texts) > 1 or not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= most:
        raise ServiceError("invalid", f"{name} must be an integer from 1 to {most}, got {text[:50]!r}", name)
    return int(text)
