"""Tables of results: cells with standard errors, LaTeX, printing of all columns, paired differences."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from idbandits.simulation.plots import Measure, comparable

LEVEL = 0.95  # coverage of the intervals
_LATEX = str.maketrans(
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


def latex(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of a summary as a `tabular` environment of the package booktabs, with means ± standard errors."""
    body = []
    for line in lines:
        cells = [shown(line, measure) for measure in ("reward", "regret")]
        formulas = ["$" + cell.replace(",", "{,}").replace("±", r"\pm") + "$" for cell in cells]
        body.append(" & ".join([line["learner"].translate(_LATEX), *formulas]) + r" \\")
    head = [r"\begin{tabular}{lrr}", r"\toprule", r"learner & average reward & total regret \\", r"\midrule"]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}", ""])


class Table(pd.DataFrame):  # type: ignore[misc]  # pandas has no types
    """Data frame that prints all columns, however narrow the terminal is; its slices are plain data frames."""

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        return str(self.to_html())


def difference(frame: pd.DataFrame, learner: str, to: str, measure: Measure) -> dict[str, Any]:
    """Return `learner` minus `to`, run by run, at the last checkpoint that at least half of their common runs reached.

    Rewards are averages per round, regrets totals.
    """
    first, second = (frame.loc[frame["learner"] == name, ["run", "round", measure]] for name in (learner, to))
    both = comparable(first.merge(second, on=["run", "round"], suffixes=("", "_to")))
    last = both[both["round"] == both["round"].max()]
    gaps = (last[measure] - last[f"{measure}_to"]).to_numpy(np.float64)
    gaps = gaps / last["round"].to_numpy(np.float64) if measure == "reward" else gaps
    runs = len(gaps)
    mean = float(gaps.mean()) if runs else math.nan
    error = float(gaps.std(ddof=1)) / math.sqrt(runs) if runs > 1 else math.nan
    half = float(stdtrit(runs - 1, (1 + LEVEL) / 2)) * error if runs > 1 else math.nan  # Student's t
    return {
        "learner": learner, "to": to, "measure": measure, "runs": runs, "rounds": int(max(last["round"], default=0)),
        "difference": mean, "se": error, "low": mean - half, "high": mean + half,
    }  # fmt: skip
