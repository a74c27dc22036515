"""Pages of the HTTP interface, from the OpenAPI document of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from idbandits.service.http.openapi import openapi_document

Schema = Mapping[str, Any]
EXPERIMENT = "/v1/experiments/{name}"
SAFE = 2**53  # limits of 64-bit integers are not listed


def http_routes() -> str:
    """Return a table of the routes, and a section for each."""
    document = openapi_document()
    routes = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [
        f"| [{own['summary']}](#{_anchor(own)}) | `{method} {path.replace(EXPERIMENT, '…', 1)}` | {_scope(own)} |"
        for method, path, own in routes
    ]
    table = "\n".join([f"… stands for `{EXPERIMENT}`.\n", "| purpose | route | scope |", "|---|---|---|", *rows])
    return "\n\n".join([table, *(_route(*route) for route in routes)]) + "\n"


def http_messages() -> str:
    """Return a section for each message."""
    schemas = openapi_document()["components"]["schemas"]
    return "\n\n".join(_message(name, schema) for name, schema in schemas.items()) + "\n"


def _route(method: str, path: str, own: Schema) -> str:
    rows = [f"| `{p['name']}` | {p['in']} | {_type(p['schema'])} |" for p in own["parameters"]]
    if "requestBody" in own:
        needed = "body" if own["requestBody"]["required"] else "body, optional"
        rows.append(f"| | {needed} | {_content(own['requestBody'])} |")
    title, _, _ = own["summary"].partition(";")
    parts = [f"({_anchor(own)})=\n## {title.partition(',')[0]}", f"**`{method} {path}`**", f"{own['summary']}."]
    if own.get("security"):
        parts[-1] += f" Scope: `{_scope(own)}`."
    if rows:
        parts.append("\n".join(["| parameter | in | type |", "|---|---|---|", *rows]))
    answers = [(int(status), answer) for status, answer in own["responses"].items()]
    rows = [f"| {status} | {_content(answer)} |" for status, answer in answers if status < 400]
    parts.append("\n".join(["| status | answer |", "|---|---|", *rows]))
    problems = [f"{status} ({_problem(answer)})" for status, answer in answers if status >= 400]
    if problems:
        parts.append(f"[Problems](#message-problem): {', '.join(problems)}.")
    return "\n\n".join(parts)


def _message(name: str, schema: Schema) -> str:
    needed = schema.get("required", [])
    rows = [
        f"| `{field}` | {_type(own)} | {_usual(own, field in needed)} |"
        for field, own in schema.get("properties", {}).items()
    ]
    parts = [f"(message-{name.lower()})=\n## {name}"]
    if "description" in schema:
        parts.append(schema["description"].partition("\n\n")[0])
    return "\n\n".join([*parts, "\n".join(["| field | type | default |", "|---|---|---|", *rows])])


def _usual(own: Schema, needed: bool) -> str:
    return "required" if needed else f"`{own['default']}`" if own.get("default") not in (None, "") else ""


def _type(own: Schema) -> str:
    """Return a schema in a few words."""
    if "$ref" in own:
        name = own["$ref"].rpartition("/")[2]
        return f"[{name}](#message-{name.lower()})"
    if "anyOf" in own:
        return " or ".join(dict.fromkeys(_type(part) for part in own["anyOf"]))
    if "enum" in own:
        return ", ".join(f"`{value}`" for value in own["enum"])
    if own.get("description") and own.get("type") == "object":
        return str(own["description"])
    kind = own.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(own['items'])}" if own.get("items") else "list"
    if kind == "object" and isinstance(own.get("additionalProperties"), Mapping):
        return f"object of ({_type(own['additionalProperties'])})"
    limits = [
        f"{word} {own[key]}"
        for key, word in (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"), ("maxLength", "up to"))
        if key in own and abs(own[key]) < SAFE
    ]
    if "pattern" in own:
        limits.append(f"`{own['pattern']}`")
    return " ".join([kind, *limits]).replace("|", "\\|")


def _problem(answer: Schema) -> str:
    return ", ".join(f"`{kind}`" for kind in answer["description"].removeprefix("Problem: ").split(", "))


def _content(own: Schema) -> str:
    kind, content = next(iter(own["content"].items()))
    return "text" if kind == "text/plain" else _type(content["schema"])


def _scope(own: Schema) -> str:
    words = own.get("description", "").removesuffix(".").split()
    return words[-1] if words else ""


def _anchor(own: Schema) -> str:
    return f"route-{own['operationId']}"
