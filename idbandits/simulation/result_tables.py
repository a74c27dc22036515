"""Data frames that print all columns, and paired differences between learners."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from idbandits.simulation.plots import Measure, comparable

LEVEL = 0.95  # coverage of the intervals


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
