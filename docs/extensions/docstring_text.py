"""Docstrings as reStructuredText."""

from __future__ import annotations

import re


def rst(lines: list[str]) -> list[str]:
    """Return a docstring as lines of reStructuredText: code in single backticks, and names of pages as links."""
    result, example = [], False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if example:
            result.append(line)
            continue
        parts = re.split(r"(``[^`]+``|`[^`]+`|docs/[\w/-]+\.md)", line)
        for k, part in enumerate(parts):
            if part.startswith("docs/"):
                parts[k] = f":doc:`/{part[5:-3]}`"
            elif k % 2:
                parts[k] = part if part.startswith("``") else f"`{part}`"
            else:
                parts[k] = re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", part)
        result.append("".join(parts))
    return result
