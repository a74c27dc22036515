"""Docstrings of public names: sections of parameters, results and examples."""

from __future__ import annotations

import functools
import importlib
import inspect
import pydoc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import idbandits

DOCS = Path(__file__).parents[2] / "docs"
PROPERTIES = (property, functools.cached_property)
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .+)?$", re.MULTILINE)
BEGINNINGS = ("What", "Where", "How", "Which", "Whether", "That", "The same")


class Documented(NamedTuple):
    """Public object and its name; methods and properties have an owner."""

    name: str
    value: Any
    owner: type | None = None

    @property
    def text(self) -> str:
        return inspect.getdoc(self.value) or ""

    @property
    def is_returned(self) -> bool:
        """True for classes of objects that users do not create; only their attributes are described."""
        return self.name in RETURNED or "Attributes" in self.sections

    @property
    def sections(self) -> dict[str, str]:
        parts = SECTION.split(self.text)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    def named(self, *sections: str) -> set[str]:
        """Return the names of entries in sections."""
        lists = (ENTRY.findall(self.sections.get(section, "")) for section in sections)
        return {name.lstrip("*") for found in lists for names in found for name in names.split(", ")}

    @property
    def signature(self) -> inspect.Signature | None:
        """Signature, if it is a function or a class; `tuple` and exceptions have none of their own."""
        if inspect.isclass(self.value):
            own = self.value.__init__ if "_fields" not in dir(self.value) else self.value.__new__
            return inspect.signature(self.value) if inspect.isfunction(own) else None
        is_function = inspect.isroutine(self.value) and not isinstance(self.value, PROPERTIES)
        return inspect.signature(self.value) if is_function else None

    @property
    def parameters(self) -> set[str]:
        names = [] if self.signature is None else list(self.signature.parameters)
        is_method = self.owner is not None and not isinstance(vars(self.definer).get(self.short), staticmethod)
        return set(names[1:] if is_method and names[:1] == ["self"] else names)

    @property
    def described(self) -> set[str]:
        """Parameters that are named by the method, by methods it overrides, or by their classes."""
        assert self.owner is not None
        kinds = [kind for kind in self.owner.__mro__ if kind.__module__.startswith("idbandits")]
        methods = [Documented(self.name, vars(kind)[self.short], kind) for kind in kinds if self.short in vars(kind)]
        texts = [own.text for own in methods] + [kind.__doc__ or "" for kind in kinds]
        in_code = {name for text in texts for name in re.findall(r"`(\w+)`", text)}
        return in_code.union(*(own.named("Parameters") for own in methods))

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def definer(self) -> type:
        assert self.owner is not None
        return next(kind for kind in self.owner.__mro__ if self.short in vars(kind))


def api_text() -> Any:
    sys.path.insert(0, str(DOCS / "extensions"))
    try:
        return importlib.import_module("api_text")
    finally:
        sys.path.pop(0)


def members(own: Documented) -> Iterator[Documented]:
    """Iterate over public methods and properties of a class that the library defines."""
    for name in dir(own.value) if inspect.isclass(own.value) else ():
        definer = next((kind for kind in own.value.__mro__ if name in vars(kind)), object)
        if name.startswith("_") or not definer.__module__.startswith("idbandits"):
            continue
        member = vars(definer)[name]
        if inspect.isfunction(member) or isinstance(member, (*PROPERTIES, staticmethod, classmethod)):
            function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            yield Documented(f"{own.name}.{name}", function, own.value)


RETURNED = {own.full: Documented(own.full, own.value) for own in api_text().results()}
NAMES = {own.full: Documented(own.full, own.value) for own in api_text().documented_names() if own.kind != "autodata"}
NAMES |= RETURNED
MEMBERS = {own.name: own for name in NAMES.values() for own in members(name)}


@pytest.mark.parametrize("name", [*NAMES, *MEMBERS])
def test_a_docstring_begins_with_a_sentence(name: str) -> None:
    text = (NAMES | MEMBERS)[name].text
    first = text.partition("\n\n")[0].replace("\n", " ")
    assert first.endswith((".", ":"))
    assert not first.startswith(BEGINNINGS)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_and_describes_its_parameters(name: str) -> None:
    own = NAMES[name]
    assert ">>> " in own.sections.get("Examples", "")
    if not own.is_returned:
        assert own.named("Parameters", "Attributes") >= own.parameters
    assert own.named("Parameters") <= own.parameters
    if inspect.isfunction(own.value) and own.signature and own.signature.return_annotation not in (None, "None"):
        assert own.sections["Returns"].strip()


@pytest.mark.parametrize("name", MEMBERS)
def test_methods_describe_their_parameters_or_name_them(name: str) -> None:
    own = MEMBERS[name]
    assert own.named("Parameters") <= own.parameters
    assert own.parameters - own.described == set()
    if "Examples" in own.sections:
        assert ">>> " in own.sections["Examples"]


@pytest.mark.parametrize("name", [name for name, own in MEMBERS.items() if isinstance(own.value, PROPERTIES)])
def test_first_lines_of_properties_have_no_colon(name: str) -> None:
    assert ":" not in MEMBERS[name].text.partition("\n")[0]  # Napoleon reads the text before it as the type


@pytest.mark.parametrize("name", [*NAMES, *MEMBERS])
def test_sections_are_those_of_numpy_in_their_order(name: str) -> None:
    order = ["Parameters", "Attributes", "Returns", "Yields", "Raises", "Examples"]
    titles = list((NAMES | MEMBERS)[name].sections)
    assert titles == sorted(titles, key=order.index)


def test_help_of_the_package_is_an_overview() -> None:
    text = pydoc.render_doc(idbandits, renderer=pydoc.plaintext)
    description = inspect.getdoc(idbandits) or ""
    assert ">>> agent.act()" in text
    missing = [name for name in idbandits.__all__ if f"`{name}`" not in description]
    assert missing == []


@pytest.mark.parametrize("module", ["baselines", "errors", "models", "theory"])
def test_help_of_a_module_lists_its_names(module: str) -> None:
    description = inspect.getdoc(getattr(idbandits, module)) or ""
    names = [own.short for name, own in NAMES.items() if name.startswith(f"idbandits.{module}.") and own.owner is None]
    names = [name for name in names if name in vars(getattr(idbandits, module))]
    assert len(names) > 5
    assert [name for name in names if not re.search(rf"`{name}\b", description) and not name[0].isupper()] == []
    assert ">>> " in description
