"""OpenAPI document of the service, from the structs of its messages."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec

from idbandits.service.http import message_types as messages
from idbandits.service.http.answers import Answer, encode, status_of
from idbandits.service.http.endpoint import Call, Run
from idbandits.service.live.replica import LIBRARY

COMMON_PROBLEMS = ("unauthorized", "forbidden", "unavailable")
BODY_PROBLEMS = ("malformed", "too-large", "media-type", "invalid")


class Operation(NamedTuple):
    """Operation of the API: a route with its messages and problems."""

    label: str
    method: str
    path: str
    summary: str
    needs: str | None
    answers: dict[int, Any]  # struct by status
    body: Any = None
    problems: tuple[str, ...] = ()
    query: tuple[tuple[str, int, int], ...] = ()  # name, default, largest value
    optional: bool = False  # whether the body may be omitted


EXPERIMENT, DECISION = "/v1/experiments/{name}", "/v1/experiments/{name}/decisions/{id}"
EXPERIMENT_PROBLEMS = ("unknown-experiment", "invalid")
REPORT_PROBLEMS = (*BODY_PROBLEMS, "unknown-experiment", "unknown-decision", "too-late")
OPERATIONS = (
    Operation(
        "put-experiment", "put", EXPERIMENT, "Create an experiment, or a version that keeps what was learned", "admin",
        {200: messages.VersionAnswer, 201: messages.VersionAnswer}, messages.NewExperiment, BODY_PROBLEMS,
    ),
    Operation("experiment", "get", EXPERIMENT, "Describe an experiment", "read", {200: messages.ExperimentAnswer}, None,
              EXPERIMENT_PROBLEMS),
    Operation("experiments", "get", "/v1/experiments", "List experiments", "read", {200: messages.ExperimentList}),
    *(
        Operation(
            verb, "post", f"{EXPERIMENT}/{verb}", f"{verb.capitalize()} an experiment; outcomes are still accepted",
            "admin", {200: messages.ExperimentAnswer}, None, EXPERIMENT_PROBLEMS,
        )
        for verb in ("pause", "resume", "retire")
    ),
    Operation(
        "decisions", "post", f"{EXPERIMENT}/decisions", "Decide what to show; a repeated id gets its first answer",
        "decide", {200: messages.DecisionAnswer, 201: messages.DecisionAnswer}, messages.DecisionRequest,
        (*BODY_PROBLEMS, "unknown-experiment", "duplicate"),
    ),
    Operation(
        "decision-batch", "post", f"{EXPERIMENT}/decisions:batch", "Make several decisions", "decide",
        {200: messages.DecisionAnswers}, messages.DecisionBatch, (*BODY_PROBLEMS, "unknown-experiment"),
    ),
    Operation(
        "outcomes", "post", f"{EXPERIMENT}/outcomes", "Report what happened after a decision", "report",
        {200: messages.OutcomeAnswer}, messages.OutcomeReport, REPORT_PROBLEMS,
    ),
    Operation(
        "outcome-batch", "post", f"{EXPERIMENT}/outcomes:batch", "Report several outcomes", "report",
        {200: messages.OutcomeAnswers}, messages.OutcomeBatch, (*BODY_PROBLEMS, "unknown-experiment"),
    ),
    Operation(
        "shown", "post", f"{EXPERIMENT}/shown", "Report that a deferred decision was shown", "report",
        {200: messages.OutcomeAnswer}, messages.ShownReport, REPORT_PROBLEMS,
    ),
    Operation(
        "decision-shown", "post", f"{DECISION}/shown", "Report by address that a deferred decision was shown", "report",
        {200: messages.OutcomeAnswer}, messages.ShownTime, REPORT_PROBLEMS, (), True,
    ),
    Operation(
        "decision", "get", DECISION, "Describe a decision and what was reported of it", "read",
        {200: messages.StoredDecision}, None, (*EXPERIMENT_PROBLEMS, "unknown-decision"),
    ),
    Operation(
        "probability", "get", f"{DECISION}/probability", "Compute the probability of a decision's action", "read",
        {200: messages.ProbabilityAnswer}, None, (*EXPERIMENT_PROBLEMS, "unknown-decision", "other-library"),
        (("draws", 1000, 10_000),),
    ),
    Operation("posterior", "get", f"{EXPERIMENT}/posterior", "Return what was learned", "read",
              {200: messages.Beliefs}, None, EXPERIMENT_PROBLEMS),
    Operation("dead-letters", "get", f"{EXPERIMENT}/dead-letters", "List outcomes that were not accepted", "read",
              {200: messages.DeadLetters}, None, EXPERIMENT_PROBLEMS, (("limit", 100, 1000),)),
    Operation(
        "replay", "post", f"{EXPERIMENT}/dead-letters:replay", "Report dead letters again", "admin",
        {200: messages.ReplayAnswer}, messages.ReplayRequest, (*BODY_PROBLEMS, "unknown-experiment"), (), True,
    ),
    Operation("healthz", "get", "/healthz", "Check that the process works", None, {200: messages.HealthAnswer}),
    Operation("readyz", "get", "/readyz", "Check that decisions need no compiler", None, {200: messages.HealthAnswer}),
    Operation("metrics", "get", "/metrics", "Return measurements for Prometheus; names only with the scope read", None,
              {200: str}),
    Operation("openapi", "get", "/openapi.json", "Return this document", None, {200: dict}),
)  # fmt: skip
ID = {"id": "$response.body#/id", "name": "$request.path.name"}
BY_BODY = {"name": "$request.path.name"}
LINKS: dict[str, dict[str, Any]] = {
    "decisions": {
        "describe": {"operationId": "decision", "parameters": ID},
        "probability": {"operationId": "probability", "parameters": ID},
        "shown": {"operationId": "decision-shown", "parameters": ID},
        "outcome": {
            "operationId": "outcomes", "parameters": BY_BODY,
            "requestBody": {"decision": "$response.body#/id", "complete": True},
        },
    },
    "put-experiment": {
        label: {"operationId": label, "parameters": {"name": "$response.body#/name"}}
        for label in ("experiment", "decisions", "posterior", "pause", "resume", "dead-letters")
    },
}  # fmt: skip


def openapi_route() -> Run:
    """Return the handler that answers with the document."""

    async def run(_: Call) -> Answer:
        return Answer(200, openapi_text())

    return run


@cache
def openapi_text() -> bytes:
    """Return the document as JSON."""
    return encode(openapi_document())


def openapi_document() -> dict[str, Any]:
    """Return the document."""
    structs = {
        kind for operation in OPERATIONS for kind in (*operation.answers.values(), operation.body) if is_struct(kind)
    }
    types = [*sorted(structs, key=lambda struct: str(struct.__name__)), messages.Problem]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    components["NewExperiment"]["properties"]["diagram"] = {
        "type": "object", "description": "Diagram as Diagram.save writes it"
    }  # fmt: skip
    for batch, field, entry in (
        ("DecisionAnswers", "decisions", "DecisionAnswer"),
        ("OutcomeAnswers", "outcomes", "OutcomeAnswer"),
    ):
        parts = [{"$ref": f"#/components/schemas/{name}"} for name in (entry, "Problem")]
        components[batch]["properties"][field]["items"] = {"anyOf": parts}
    references = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "idbandits",
            "version": LIBRARY,
            "description": "Decisions and outcomes of structured bandits",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def is_struct(kind: Any) -> bool:
    """Return whether a type is a struct of a message."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(operation: Operation, references: dict[Any, Any]) -> dict[str, Any]:
    """Return the OpenAPI description of an operation."""
    parameters = [_path_parameter(name) for name in ("name", "id") if f"{{{name}}}" in operation.path]
    parameters += [
        {"name": name, "in": "query", "required": False,
         "schema": {"type": "integer", "minimum": 1, "maximum": most, "default": usual}}
        for name, usual, most in operation.query
    ]  # fmt: skip
    result: dict[str, Any] = {"operationId": operation.label, "summary": operation.summary, "parameters": parameters}
    answers: dict[str, Any] = {}
    for status, struct in operation.answers.items():
        kind = "text/plain" if struct is str else "application/json"
        schema = references.get(struct, {"type": "string" if struct is str else "object"})
        answers[str(status)] = {"description": operation.summary, "content": {kind: {"schema": schema}}}
        if operation.label in LINKS:
            answers[str(status)]["links"] = LINKS[operation.label]
    general = ("unavailable",) if operation.needs is None else COMMON_PROBLEMS
    by_status: dict[int, list[str]] = {}
    for kind in dict.fromkeys((*general, *operation.problems)):
        by_status.setdefault(status_of(kind), []).append(kind)
    if operation.label in ("decisions", "probability"):
        by_status.setdefault(409, []).append("not-active")
    for status, kinds in sorted(by_status.items()):
        answers[str(status)] = {
            "description": "Problem: " + ", ".join(kinds),
            "content": {"application/problem+json": {"schema": references[messages.Problem]}},
        }
    result["responses"] = answers
    if operation.body is not None:
        content = {"application/json": {"schema": references[operation.body]}}
        result["requestBody"] = {"required": not operation.optional, "content": content}
    if operation.needs is not None:
        result["security"] = [{"token": []}]
        result["description"] = f"Needs the scope {operation.needs}."
    return result


def _path_parameter(name: str) -> dict[str, Any]:
    reference = messages.Name if name == "name" else messages.Id
    return {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(reference)}
