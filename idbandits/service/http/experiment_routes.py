"""Routes of experiments: create, change, describe, list, pause, resume, retire."""

from __future__ import annotations

import threading
from typing import Any, final

import msgspec

from idbandits.agent.thompson import Thompson
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.serialize import parse_json
from idbandits.errors import IdbanditsError
from idbandits.service.http.answers import Answer, answer
from idbandits.service.http.bodies import LARGE, BodyType
from idbandits.service.http.endpoint import Call
from idbandits.service.http.message_types import ExperimentList, ExperimentSummary, NewExperiment, VersionAnswer
from idbandits.service.http.service_state import ServiceState
from idbandits.service.live.inputs import check_name
from idbandits.service.live.settings import checked_settings, forget_of, inference_of
from idbandits.service.service_errors import ServiceError

NEW = BodyType(NewExperiment, LARGE)
STATUSES = {"pause": "paused", "resume": "active", "retire": "retired"}


@final
class ExperimentRoutes:
    """Handlers of requests that concern experiments themselves."""

    def __init__(self, state: ServiceState) -> None:
        self._state, self._live, self._lock = state, state.live, threading.Lock()

    async def put(self, call: Call) -> Answer:
        """Create an experiment or a version of it."""
        content = await call.content(NEW.most)
        return await self._state.in_slow_thread(self._put, call.parameters["name"], content, call.caller.name)

    def _put(self, name: str, content: bytes, who: str) -> Answer:
        check_name(name)
        body = NEW.read(content)
        fields = {field: getattr(body, field) for field in body.__struct_fields__ if field != "diagram"}
        settings = {field: value for field, value in fields.items() if value is not msgspec.UNSET and value is not None}
        try:
            d = Diagram.from_dict(parse_json(bytes(body.diagram).decode()))
            checked = checked_settings(d, settings)
            with self._lock:
                agent = Thompson(d, inference_of(d, checked), seed=0, effort=checked.effort, forget=forget_of(checked))
                agent.warm_up()  # before the version exists, so that no worker waits for a compiler
                existing = {row.version for row in self._live.journal.versions(name)}
                number = self._live.put(name, d, who=who, **settings)
                self._state.warm.warm(name)
        except ServiceError:
            raise
        except IdbanditsError as error:
            raise ServiceError("invalid", str(error), "diagram") from None
        is_new = number not in existing
        return answer(VersionAnswer(name, number, is_new), 201 if is_new else 200)

    async def show(self, call: Call) -> Answer:
        """Describe an experiment."""
        return answer(await self._state.in_thread(self._live.show, call.parameters["name"]))

    async def list_all(self, _: Call) -> Answer:
        """List the experiments."""
        experiments = await self._state.in_thread(self._live.journal.experiments)
        return answer(
            ExperimentList(
                [ExperimentSummary(name, status, created) for name, (status, _, created) in experiments.items()]
            )
        )

    def to(self, verb: str) -> Any:
        """Return the route that pauses, resumes or retires an experiment."""

        async def change(call: Call) -> Answer:
            name = call.parameters["name"]
            await self._state.in_thread(self._live.set_status, name, STATUSES[verb], call.caller.name)
            return await self.show(call)

        return change
