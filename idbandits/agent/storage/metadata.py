"""Metadata that users store with an agent in its file, such as the last round that it learned from."""

import json
from collections.abc import Mapping
from typing import Any

from idbandits.diagram.serialize import check_depth, parse_json
from idbandits.errors import ODD, FormatError, IdbanditsError, brief

MOST_METADATA = 2**20  # letters of JSON


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as plain data, as it is read from a file: a copy with lists in place of tuples.

    >>> checked_metadata({"learned up to": 1200, "shards": (1, 2)})
    {'learned up to': 1200, 'shards': [1, 2]}
    """
    if not isinstance(metadata, Mapping):
        raise IdbanditsError(f"metadata must be a mapping of JSON data, got {brief(metadata)}")
    try:
        own = dict(metadata)
        check_depth(own)
        if (key := _odd_key(own)) is not None:
            raise IdbanditsError(f"metadata must have strings as keys, got {brief(key[0])}")
        text = json.dumps(own, allow_nan=False)
        if len(text) > MOST_METADATA:
            raise IdbanditsError(f"metadata must be at most {MOST_METADATA:,} letters of JSON, got {len(text):,}")
        data: dict[str, Any] = parse_json(text)
    except FormatError as error:
        raise IdbanditsError(f"metadata must be JSON data, got {brief(metadata)}: {error}") from None
    except IdbanditsError:
        raise
    except ODD as error:
        raise IdbanditsError(f"metadata must be JSON data, got {brief(metadata)} ({brief(error)})") from None
    return data


def _odd_key(data: Any) -> tuple[Any] | None:
    """The first key that is no string, which JSON would turn into one; None if there is none."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    return (key,)
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
    return None
