"""Pages of the API, by autodoc: one per public name and per public submodule, and an index with groups.

Members of a class and names of a submodule get a page each if their docstrings together are long.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any, NamedTuple

import idbandits
from repository_text import contents

MOST_WORDS = 900  # of the docstrings of a page, which also has signatures and types
SUBMODULES = ("baselines", "errors", "formats", "inference", "models", "reproduction", "theory")
TITLES = {  # of groups, in their order; names of other packages follow under the name of their package
    "diagram": "Diagrams", "circuit": "Queries", "solve": "Best actions", "agent": "Agents",
    "inference": "Inference settings", "simulation": "Simulation", "logs": "Logs", "service": "Live service",
}  # fmt: skip


RESULTS = (  # classes of returned objects; users do not create them, so they are no public names
    "diagram.diagram.Node", "diagram.drawing.draw.Picture", "diagram.findings.Report", "diagram.findings.Finding",
    "agent.reports.posterior.Posterior", "agent.reports.regression.Regression",
    "agent.reports.regression.LogisticRegression", "agent.learning.log_report.LogReport",
    "agent.fit_report.fit_report.FitReport", "agent.propensity.Propensity", "agent.propensity.Marginals",
    "agent.transfer.Carried", "agent.warmup.WarmUpReport", "logs.read.read_report.ReadReport",
    "service.live.experiments.Decision", "service.client_requests.ClientDecision",
    "service.live.gain.Gain", "service.live.gain.SampleRatio",
)  # fmt: skip


class Name(NamedTuple):
    """Documented name."""

    full: str
    value: Any
    member: str = ""  # directive of autodoc of the member of a class; otherwise it follows from the value

    @property
    def short(self) -> str:
        """Last part of the name."""
        return self.full.rpartition(".")[2]

    @property
    def kind(self) -> str:
        """Directive of autodoc."""
        if self.member:
            return self.member
        if inspect.isclass(self.value):
            return "autoexception" if issubclass(self.value, BaseException) else "autoclass"
        return "autofunction" if inspect.isroutine(self.value) else "autodata"

    @property
    def role(self) -> str:
        """Role of a link."""
        roles = {"autoexception": "exc", "autoclass": "class", "autofunction": "func", "autodata": "data"}
        return (roles | {"automethod": "meth"}).get(self.kind, "attr")

    @property
    def summary(self) -> str:
        """First sentence of the docstring; empty for data."""
        if self.kind == "autodata":
            return ""
        first = (inspect.getdoc(self.value) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        end = first.find(". ")
        return first if end < 0 else first[: end + 1]

    @property
    def members(self) -> list[Name]:
        """Documented methods and properties of a class, in the order of their definition."""
        if not inspect.isclass(self.value):
            return []
        known: dict[str, Any] = {}
        for base in self.value.__mro__:
            if base.__module__.startswith("idbandits"):
                known |= {name: own for name, own in vars(base).items() if name[0] != "_" and name not in known}
        found = []
        for name, own in known.items():
            value = own.__func__ if isinstance(own, (classmethod, staticmethod)) else own
            is_method = callable(value) and not inspect.isclass(value)
            if inspect.getdoc(value) and (is_method or isinstance(value, (property, functools.cached_property))):
                kind = "automethod" if is_method else "autoproperty"
                found.append(Name(f"{self.full}.{name}", value, kind))
        return found

    @property
    def words(self) -> int:
        """Number of words of the docstrings of the name and its members."""
        own = "" if self.kind == "autodata" else inspect.getdoc(self.value) or ""
        return len(own.split()) + sum(member.words for member in self.members)


def public_names(module: str = "") -> list[Name]:
    """Return the public names of the package or of a submodule that are no modules, sorted.

    These are the names in `__all__`; without it, functions that the module defines, or exceptions if it has any.
    """
    place = getattr(idbandits, module) if module else idbandits
    listed = getattr(place, "__all__", None)
    if listed is None:
        own = {name: value for name, value in vars(place).items() if getattr(value, "__module__", "") == place.__name__}
        listed = [name for name, value in own.items() if inspect.isclass(value) and issubclass(value, Exception)]
        listed = listed or [name for name, value in own.items() if inspect.isfunction(value) and name[0] != "_"]
    prefix = f"idbandits.{module}" if module else "idbandits"
    found = [Name(f"{prefix}.{name}", getattr(place, name)) for name in listed]
    return sorted((own for own in found if not inspect.ismodule(own.value)), key=lambda own: own.full.lower())


def documented_names() -> list[Name]:
    """Return all public names; those that a submodule imports from the package are listed once."""
    names = public_names()
    for module in SUBMODULES:
        known = {id(own.value) for own in names if own.kind == "autoclass"}
        names += [own for own in public_names(module) if id(own.value) not in known]
    return names


def results() -> list[Name]:
    """Return classes of returned objects."""
    found = []
    for path in RESULTS:
        module, _, name = path.rpartition(".")
        found.append(Name(f"idbandits.{path}", getattr(importlib.import_module(f"idbandits.{module}"), name)))
    return found


def api_index() -> str:
    """Return the text of the index: a table for each group, and a table of contents."""
    groups: dict[str, list[Name]] = {package: [] for package in TITLES}
    for own in public_names():
        groups.setdefault(own.value.__module__.split(".")[1], []).append(own)
    parts = [f"## {TITLES.get(package, package)}\n\n{_table(names)}" for package, names in groups.items() if names]
    rows = [f"| [`{own}`](../generated/api/{own}.md) | {_first_line(own)} |" for own in SUBMODULES]
    rows.append("| [results](../generated/api/results.md) | Classes of returned objects. |")
    parts.append("## Submodules and results\n\n| page | description |\n|---|---|\n" + "\n".join(rows))
    parts.append(contents("api", [*_files(public_names()), *SUBMODULES, "results"]))
    return "\n\n".join(parts)


def api_pages() -> dict[str, str]:
    """Return the text of the pages of names, submodules and results, by file name."""
    texts: dict[str, str] = {}
    for own, name in zip(public_names(), _files(public_names()), strict=True):
        texts |= _pages(own, name)
    for module in SUBMODULES:
        names = [own for own in documented_names() if own.full.startswith(f"idbandits.{module}.")]
        texts |= _group(module, f"# idbandits.{module}\n\n{_first_line(module)}", names)
    return texts | _group("results", "# Returned objects", results())


def _group(page: str, head: str, names: list[Name]) -> dict[str, str]:
    """Return a page of several names, and pages of these if there is too much for one."""
    if sum(own.words for own in names) <= MOST_WORDS:
        return {f"{page}.md": "\n\n".join([head, _table(names), *map(_autodoc, names)])}
    texts = {f"{page}.md": "\n\n".join([head, _table(names), _contents(page, names)])}
    for own, name in zip(names, _files(names), strict=True):
        texts |= _pages(own, f"{page}.{name}")
    return texts


def _files(names: list[Name]) -> list[str]:
    """Return the names of files of some names; those that differ from a class by case only get a suffix."""
    lower = [own.short.lower() for own in names]
    ends = {"autofunction": "-function", "autodata": "-constant"}
    return [own.short + ends.get(own.kind, "") * (lower.count(own.short.lower()) > 1) for own in names]


def _pages(own: Name, page: str) -> dict[str, str]:
    """Return the page of a name, and pages of its members if there is too much for one."""
    head = f"# {own.short}"
    if own.words <= MOST_WORDS or not own.members:
        return {f"{page}.md": f"{head}\n\n{_autodoc(own)}"}
    parts = [head, _autodoc(own, with_members=False), "## Members", _table(own.members), _contents(page, own.members)]
    texts = {f"{page}.md": "\n\n".join(parts)}
    for member in own.members:
        texts[f"{page}.{member.short}.md"] = f"# {own.short}.{member.short}\n\n{_autodoc(member)}"
    return texts


def _contents(page: str, names: list[Name]) -> str:
    files = zip(names, _files(names), strict=True)
    entries = "\n".join(f"{own.short} <{page}.{name}>" for own, name in files)
    return f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def _table(names: list[Name]) -> str:
    links = [(own, f"{{py:{own.role}}}`{own.short} <{own.full}>`") for own in names]
    rows = [f"| {link} | {own.summary} |" for own, link in links if own.kind != "autodata"]
    table = "\n".join(["| name | description |", "|---|---|", *rows]) if rows else ""
    constants = ", ".join(link for own, link in links if own.kind == "autodata")
    return f"{table}\n\nConstants: {constants}." if constants else table


def _autodoc(own: Name, *, with_members: bool = True) -> str:
    options = ["   :no-value:"] if own.kind == "autodata" else []
    if own.kind == "autoclass" and with_members:
        options = ["   :members:", "   :inherited-members: tuple, Protocol, object, ABC"]
    return "\n".join(["```{eval-rst}", f".. {own.kind}:: {own.full}", *options, "```", ""])


def _first_line(module: str) -> str:
    return (inspect.getdoc(getattr(idbandits, module)) or "").partition("\n")[0]
