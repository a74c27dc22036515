"""Metadata that users store with an agent in its file, such as the last round that it learned from."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from idbandits.diagram.serialize import check_depth, parse_json
from idbandits.errors import ODD, IdbanditsError, brief

MOST_METADATA = 2**20  # letters of JSON


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as plain data, as it is read from a file: a copy with lists in place of tuples.

    >>> checked_metadata({"learned up to": 1200, "shards": (1, 2)})
    {'learned up to': 1200, 'shards': [1, 2]}
    """
    if not isinstance(metadata, Mapping):
        raise IdbanditsError(f"metadata must be a mapping of JSON data, got {brief(metadata)}")
    try:
        check_depth(metadata)
        keys = [key for key in _keys(metadata) if not isinstance(key, str)]  # JSON would turn these into strings
        text = json.dumps(dict(metadata), allow_nan=False)
        data: dict[str, Any] = parse_json(text)
    except ODD as error:
        raise IdbanditsError(f"metadata must be JSON data, got {brief(metadata)}: {brief(str(error))}") from None
    if keys:
        raise IdbanditsError(f"metadata must have strings as keys, got {brief(keys[0])}")
    if len(text) > MOST_METADATA:
        raise IdbanditsError(f"metadata must be at most {MOST_METADATA:,} letters of JSON, got {len(text):,}")
    return data


def _keys(data: Any) -> Iterator[Any]:
    """Yield all keys of nested mappings."""
    if isinstance(data, Mapping):
        yield from data
    for value in data.values() if isinstance(data, Mapping) else data if isinstance(data, (list, tuple)) else ():
        yield from _keys(value)
