"""Cells of tables: means with standard errors, as text and as LaTeX."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from idbandits.simulation.plots import Measure

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " ",
        **{special: f"\\{special}" for special in "&%$#_{}"},
    }
)  # fmt: skip


def shown(summary: Mapping[str, Any], measure: Measure) -> str:
    """Return a mean with its standard error, rounded to significant digits.

    >>> shown({"reward_mean": 0.98765, "reward_se": 0.0012}, "reward")
    '0.9877 ± 0.0012'
    """
    mean, error = summary[f"{measure}_mean"], summary[f"{measure}_se"]
    if not math.isfinite(error) or error <= 0:
        return f"{mean:,.4f}" if measure == "reward" else f"{mean:,.1f}"
    digits = min(max(0, 1 - math.floor(math.log10(error))), 5 if measure == "reward" else 1)
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"


def escaped(name: str) -> str:
    r"""Escape text for LaTeX.

    >>> print(escaped("idTS_100%"))
    idTS\_100\%
    """
    return name.translate(_ESCAPES)


def latex(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of a summary as a `tabular` environment of the package booktabs, with means ± standard errors."""
    body = []
    for line in lines:
        cells = [shown(line, measure) for measure in ("reward", "regret")]
        formulas = ["$" + cell.replace(",", "{,}").replace("±", r"\pm") + "$" for cell in cells]
        body.append(" & ".join([escaped(line["learner"]), *formulas]) + r" \\")
    head = [r"\begin{tabular}{lrr}", r"\toprule", r"learner & average reward & total regret \\", r"\midrule"]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}", ""])
