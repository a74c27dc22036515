"""Findings of `Diagram.check`, and the report that lists them."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from idbandits.notebook import html_table

WIDTH = 100  # of a printed report

Sort: TypeAlias = Literal["reward", "factor", "combination", "unseen", "symmetry", "size", "search", "not examined"]


@final
@dataclass(frozen=True)
class Finding:
    """Finding of `Diagram.check`.

    Attributes
    ----------
    kind : str
        "reward", "factor", "combination", "unseen", "symmetry", "size", "search" or "not examined".
    serious : bool
        Whether an agent may fail for this reason.
    names : tuple of str
        Tables and nodes concerned.
    sentence : str
        Description.
    advice : str
        Remedy; empty if there is none.

    Examples
    --------
    >>> from idbandits import models
    >>> finding = models.cascade(4, 2).check().of_kind("search")[0]
    >>> finding.serious, str(finding)
    (False, 'Under random means, 10 of 10 best actions were proven to be the best.')
    """

    kind: Sort
    serious: bool
    names: tuple[str, ...]
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()


@final
@dataclass(frozen=True)
class Report:
    """Findings of `Diagram.check`; iterating yields them, and `repr` lists the serious ones first.

    Attributes
    ----------
    name : str
        Name of the diagram.
    findings : tuple of Finding
        All findings.

    Examples
    --------
    >>> from idbandits import models
    >>> report = models.cascade(4, 2).check()
    >>> report.serious, [finding.kind for finding in report]
    ((), ['size', 'search'])
    """

    name: str
    findings: tuple[Finding, ...]

    @property
    def serious(self) -> tuple[Finding, ...]:
        """Findings that may make an agent fail."""
        return tuple(finding for finding in self.findings if finding.serious)

    def of_kind(self, kind: Sort) -> tuple[Finding, ...]:
        """Return the findings of one `kind`."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def _verdict(self) -> str:
        number = len(self.serious)
        verdict = f"{number} serious finding{'s' if number > 1 else ''}" if number else "nothing serious"
        return f"Diagram {self.name!r}: {verdict}"

    def _repr_html_(self) -> str:
        rows = [{"serious": "!" if f.serious else "", "kind": f.kind, "finding": f} for f in self._ordered()]
        return html_table(rows, self._verdict(), most=len(rows))

    def _ordered(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: not finding.serious)

    def __repr__(self) -> str:
        lines = [self._verdict()]
        for finding in self._ordered():
            mark = "! " if finding.serious else "- "
            lines += textwrap.wrap(str(finding), WIDTH, initial_indent=mark, subsequent_indent="  ")
        return "\n".join(lines)
