"""The JSON schema of saved diagrams, and how data is checked against it."""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from idbandits.errors import FormatError, brief, is_integer

FORMAT, VERSION = "idbandits diagram", 1  # as in the schema
_TABLES = ("known", "table", "select", "prior", "states")  # keys whose values are long lists in large diagrams


def schema() -> dict[str, Any]:
    """The JSON schema of a saved diagram, as published with the package."""
    text = resources.files("idbandits.diagram").joinpath("diagram.schema.json").read_text(encoding="utf-8")
    published: dict[str, Any] = json.loads(text)
    return published


def check_format(data: Any) -> None:
    """Refuse data that does not fit the schema, naming the place and the node."""
    from jsonschema import Draft202012Validator  # slow to import, and only needed here
    from jsonschema.exceptions import best_match

    if isinstance(data, Mapping) and is_integer(data.get("version")) and data["version"] > VERSION:
        raise FormatError(f"version {data['version']} is newer than this library, which reads up to version {VERSION}")
    error = best_match(Draft202012Validator(schema()).iter_errors(_shortened(data)))
    if error is not None:
        path = list(error.absolute_path)
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        raise FormatError(f"{where or 'the file'}{_name_at(data, path)}: {_explanation(error)}")


def _shortened(data: Any, in_table: bool = False) -> Any:
    """The same data with long tables cut: the schema would take seconds for them, and NumPy checks them later."""
    if isinstance(data, Mapping):
        return {key: _shortened(value, key in _TABLES) for key, value in data.items()}
    if isinstance(data, list):
        return [_shortened(value, in_table) for value in (data[:100] if in_table else data)]
    return data


def _explanation(error: Any) -> str:
    """What a validation error means, where its own message would not help."""
    if error.validator == "const":
        return f"expected {error.validator_value!r}, not {brief(error.instance)}"
    if error.validator == "oneOf":
        has = "has both 'known' and" if {"known", "learned"} <= error.instance.keys() else "has neither 'known' nor"
        return f"{has} 'learned'; exactly one of them is needed"
    if error.validator == "anyOf":
        return f"{brief(error.instance)} is not {error.schema['description']}"
    return str(error.message) if len(error.message) < 300 else f"{error.message[:300]}…"


def _name_at(data: Any, path: list[Any]) -> str:
    """The name of the node or learned table that a path leads into, in brackets; empty if there is none."""
    if len(path) >= 2 and path[0] in ("nodes", "learned"):
        entry = data[path[0]][path[1]]
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            return f" ({entry['name']!r})"
    return ""
