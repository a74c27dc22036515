"""Heads of files: JSON data that is validated by schemas."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from idbandits.agent.storage.metadata import checked_metadata
from idbandits.diagram.serialize import parse_json
from idbandits.errors import FormatError, brief

MOST_ERRORS = 100  # of which the most telling one is reported
OTHER_FORMATS = (
    "files of other formats are not converted: learn again from a log (update_many), or load it with the version of "
    "idbandits that saved it"
)


def numbers(least: float, most: float, kind: str = "number") -> dict[str, Any]:
    """Return a schema of numbers in a range."""
    return {"type": kind, "minimum": least, "maximum": most}


def lists(items: dict[str, Any], least: int, most: int) -> dict[str, Any]:
    """Return a schema of lists of least to most items."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def objects(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a schema of objects with these fields and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def check_schema(data: Any, schema: Mapping[str, Any], where: str) -> None:
    """Raise unless JSON data fits a schema; `where` is the name of the data in messages."""
    from jsonschema import Draft202012Validator  # slow to import, and only needed here
    from jsonschema.exceptions import best_match

    error = best_match(itertools.islice(Draft202012Validator(schema).iter_errors(data), MOST_ERRORS))
    if error is not None:
        rule = f"{error.validator} {brief(error.validator_value)}"
        raise FormatError(f"{where}{error.json_path[1:]} must have {rule}, got {brief(error.instance)}")


def read_head(text: str, kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the head of a file of this format and validate it."""
    head = parse_json(text)
    found = head.get("format") if isinstance(head, dict) else None
    if found != kind:
        raise FormatError(f"the format must be {kind!r}, got {brief(found)}; {OTHER_FORMATS}")
    check_schema(head, schema, "head")
    return {**head, "metadata": checked_metadata(head.get("metadata", {}))}
