"""Influence diagrams: declared, checked, saved and drawn."""

import json
from importlib import resources
from typing import Any


def schema() -> dict[str, Any]:
    """Return the JSON schema of a saved diagram, which is published with the package."""
    published: dict[str, Any] = json.loads(resources.files(__name__).joinpath("diagram.schema.json").read_bytes())
    return published
