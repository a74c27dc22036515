"""Public names of the package and of its public submodules."""

from __future__ import annotations

from types import ModuleType

import idbandits


def public() -> dict[str, int]:
    """Return the identity of every public object by name, of the package and its public submodules."""
    names = {}
    for module in ("", "baselines", "formats", "inference", "reproduction", "theory"):
        place = getattr(idbandits, module) if module else idbandits
        for name in place.__all__:
            value = getattr(place, name)
            if not isinstance(value, ModuleType):
                names[".".join(("idbandits", *[module] * bool(module), name))] = id(value)
    return names
