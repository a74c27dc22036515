"""Random numbers in files: the state of one of NumPy's bit generators, of which every number is checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from idbandits.errors import FormatError, IdbanditsError, brief, is_integer
from idbandits.kernel.array_types import Rng

BITS_32, BITS_64, BITS_128 = (0, 2**32 - 1), (0, 2**64 - 1), (0, 2**128 - 1)
HALF = {"has_uint32": (0, 1), "uinteger": BITS_32}  # of a 64-bit number, the half that was not used yet
PCG = {"state": {"state": BITS_128, "inc": BITS_128}, **HALF}
FIELDS: Mapping[str, Mapping[str, Any]] = {  # of each generator: least and most, and how many there are in a list
    "PCG64": PCG,
    "PCG64DXSM": PCG,
    "MT19937": {"state": {"key": (*BITS_32, 624), "pos": (0, 624)}},
    "Philox": {
        "state": {"counter": (*BITS_64, 4), "key": (*BITS_64, 2)},
        "buffer": (*BITS_64, 4),
        "buffer_pos": (0, 4),
        **HALF,
    },
    "SFC64": {"state": {"state": (*BITS_64, 4)}, **HALF},
}


def state_of_generator(rng: Rng) -> dict[str, Any]:
    """The state of random numbers as plain data, from which they can be made again."""
    generator = type(rng.bit_generator)
    if generator is not getattr(np.random, generator.__name__, None) or generator.__name__ not in FIELDS:
        raise IdbanditsError(f"the random numbers of {generator.__name__} cannot be saved; those of {_known()} can")
    data: dict[str, Any] = _plain(rng.bit_generator.state)
    generator_of(data)
    return data


def generator_of(data: Any) -> Rng:
    """The random numbers that data describes."""
    name = data.get("bit_generator") if isinstance(data, Mapping) else None
    if not isinstance(name, str) or name not in FIELDS:
        raise FormatError(f"rng: the bit generator is {_known()}, not {brief(name)}")
    _check("rng", data, {"bit_generator": None, **FIELDS[name]})
    inner = data["state"]
    if "inc" in inner and inner["inc"] % 2 == 0:
        raise FormatError("rng.state.inc: an even number, with which the numbers would soon repeat")
    if name == "MT19937" and not (inner["key"][0] >> 31 or any(inner["key"][1:])):
        raise FormatError("rng.state.key: without a bit that is set, all numbers would be the same")
    generator: np.random.BitGenerator = getattr(np.random, name)(0)
    lists = {key: np.array(value, np.uint64) for key, value in inner.items() if isinstance(value, list)}
    outer = {key: np.array(value, np.uint64) for key, value in data.items() if isinstance(value, list)}
    generator.state = {**data, **outer, "state": {**inner, **lists}}
    return np.random.Generator(generator)


def _check(where: str, data: Any, fields: Any) -> None:
    """Refuse data that has not these fields, in these ranges."""
    if isinstance(fields, Mapping):
        if not isinstance(data, Mapping) or set(data) != set(fields):
            raise FormatError(f"{where} has the fields {', '.join(fields)}; it is {brief(data)}")
        for name, inner in fields.items():
            _check(f"{where}.{name}", data[name], inner)
    elif fields is not None:
        least, most, *number = fields
        values = data if number else [data]
        if not isinstance(values, list) or (number and len(values) != number[0]):
            raise FormatError(f"{where} is a list of {number[0]} numbers, not {brief(data)}")
        for value in values:
            if not is_integer(value) or not least <= value <= most:
                raise FormatError(f"{where}: whole numbers from {least} to {most}, not {brief(value)}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _known() -> str:
    return " or ".join(", ".join(FIELDS).rsplit(", ", 1))
