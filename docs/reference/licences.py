"""Write docs/reference/licences.md, the licences of dependencies: `python docs/reference/licences.py`.

Licences are read from the metadata of installed packages. Lines of packages that are not installed are kept.
"""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT, PAGE = Path(__file__).parents[2], Path(__file__).with_suffix(".md")
EXTRAS = ("logs", "serve", "spark", "ibis", "cluster")  # of users; the others are tools of development
SHORT = 60  # characters of a licence; longer ones are texts, for which a classifier stands
HEAD = """# Licences of dependencies

idbandits has the [MIT licence](../licence.md). Its dependencies are installed by pip and have their own licences.
igraph, which lays out pictures of diagrams, has the GPL: it matters if you distribute a program that contains it.
Licences are those in the metadata of packages; what these need in turn is not listed.

The dashboard of the live service contains [uPlot](https://github.com/leeoniya/uPlot) (MIT), whose licence is part of
sdist and wheels.

This page is generated: `python docs/reference/licences.py`.

| package | needed by | licence |
|---|---|---|
"""


def dependencies() -> dict[str, list[str]]:
    """Return the direct dependencies of the library and of extras for users, with what needs them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, list[str]] = {}
    for extra, needed in [("the library", project["dependencies"]), *project["optional-dependencies"].items()]:
        for requirement in needed if extra in ("the library", *EXTRAS) else ():
            name = re.match(r"[\w.-]+", requirement)
            assert name is not None
            found.setdefault(name[0], []).append(extra if extra == "the library" else f"`{extra}`")
    return found


def licence(package: str) -> str | None:
    """Return the licence in the metadata of a package; None if it is not installed."""
    try:
        about: Any = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return None
    names = [about.get("License-Expression") or "", about.get("License") or ""]
    classifiers = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or () if "License ::" in each]
    names = [name for name in names if name and len(name) <= SHORT and "://" not in name]
    return [*names, ", ".join(classifiers)][0]


def page(before: str) -> str:
    """Return the page; `before` is the current one."""
    known = dict(re.findall(r"^\| ([\w.-]+) \| [^|]+ \| (.+) \|$", before, re.MULTILINE))
    rows = [
        f"| {package} | {', '.join(needed)} | {licence(package) or known.get(package, 'unknown')} |\n"
        for package, needed in sorted(dependencies().items(), key=lambda item: item[0].lower())
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""), encoding="utf-8")
