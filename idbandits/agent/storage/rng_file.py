"""Random numbers in files: the state of one of NumPy's bit generators."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from idbandits.agent.storage.head import check_schema, lists, numbers, objects
from idbandits.errors import FormatError, IdbanditsError
from idbandits.kernel.array_types import Rng

BITS_32, BITS_64, BITS_128 = (numbers(0, 2**bits - 1, "integer") for bits in (32, 64, 128))
HALF = {"has_uint32": numbers(0, 1, "integer"), "uinteger": BITS_32}  # half of a 64-bit number that was not used yet
PCG = {"state": objects({"state": BITS_128, "inc": BITS_128}), **HALF}
GENERATORS: dict[str, dict[str, Any]] = {
    "PCG64": PCG,
    "PCG64DXSM": PCG,
    "MT19937": {"state": objects({"key": lists(BITS_32, 624, 624), "pos": numbers(0, 624, "integer")})},
    "Philox": {
        "state": objects({"counter": lists(BITS_64, 4, 4), "key": lists(BITS_64, 2, 2)}),
        "buffer": lists(BITS_64, 4, 4),
        "buffer_pos": numbers(0, 4, "integer"),
        **HALF,
    },
    "SFC64": {"state": objects({"state": lists(BITS_64, 4, 4)}), **HALF},
}
RNG = {"type": "object", "properties": {"bit_generator": {"enum": [*GENERATORS]}}, "required": ["bit_generator"]}


def state_of_generator(rng: Rng) -> dict[str, Any]:
    """Return the state of random numbers as plain data."""
    generator = type(rng.bit_generator)
    if generator is not getattr(np.random, generator.__name__, None) or generator.__name__ not in GENERATORS:
        known = ", ".join(GENERATORS)
        raise IdbanditsError(f"random numbers must be of one of {known} to be saved, got {generator.__name__}")
    data: dict[str, Any] = json.loads(json.dumps(rng.bit_generator.state, default=lambda value: value.tolist()))
    return data


def generator_of(data: dict[str, Any]) -> Rng:
    """Return the random numbers that data describes, which fits the schema RNG."""
    name, inner = data["bit_generator"], data.get("state")
    check_schema(data, objects({"bit_generator": {"const": name}, **GENERATORS[name]}), "head.rng")
    assert isinstance(inner, dict)
    if inner.get("inc", 1) % 2 == 0:
        raise FormatError("head.rng.state.inc must be odd: otherwise the random numbers would soon repeat")
    if name == "MT19937" and not (int(inner["key"][0]) >> 31 or any(inner["key"][1:])):
        raise FormatError("head.rng.state.key must have a bit that is set: otherwise all random numbers would be equal")
    generator: np.random.BitGenerator = getattr(np.random, name)(0)
    generator.state = {**_arrays(data), "state": _arrays(inner)}
    return np.random.Generator(generator)


def _arrays(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return data with arrays in place of lists."""
    return {key: np.array(value, np.uint64) if isinstance(value, list) else value for key, value in data.items()}
