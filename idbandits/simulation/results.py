"""The result of a simulation: how each learner fared in each run, and the settings of the simulation."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING, Any, final

from idbandits.diagram.serialize import check_depth
from idbandits.errors import FormatError, IdbanditsError, brief, check_number, check_whole
from idbandits.files import path_of, read_whole, write_whole
from idbandits.simulation.plots import Measure, comparable, curves, draw_curves

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

VERSION = 1
MOST_BYTES, MOST_VALUES = 10**9, 300_000_000  # of a file that is read, and of the table in it
_COLUMNS = ("learner", "run", "round", "reward", "regret", "seconds")
_SETTINGS = ("world", "learners", "rounds", "runs", "seed", "interrupted")
_KEY = b"idbandits"  # under which a Parquet file has the settings among its metadata


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """How learners fared in simulated runs: `frame` has totals at checkpoints, `settings` what was simulated.

    A row has a learner, a run, the rounds so far, their total reward and regret, and the processor seconds they took.
    Regret refers to the best action that the world found. `settings["reference_gap"]` is 0 if that was proven to be the
    best in all contexts that were met; else it says by how much, per round, the regret may be higher.

    >>> import pandas as pd
    >>> rows = {"learner": "A", "run": [0, 1], "round": 10, "reward": [2.0, 4.0], "regret": [5.0, 3.0], "seconds": 0.1}
    >>> settings = {"world": "cascade", "learners": ["A"], "rounds": 10, "runs": 2, "seed": 0, "interrupted": False}
    >>> result = Result(pd.DataFrame(rows), settings)
    >>> result
    Result('cascade', learners=['A'], runs=2, rounds=10, seed=0)
    >>> print(result.summary().T.to_string(header=False))
    learner           A
    runs              2
    rounds           10
    reward_mean     0.3
    reward_se       0.1
    regret_mean     4.0
    regret_se       1.0
    worst_regret    5.0
    seconds_mean    0.1
    """

    frame: "pd.DataFrame"
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        import pandas as pd

        if not isinstance(self.frame, pd.DataFrame) or not isinstance(self.settings, dict):
            given = f"{type(self.frame).__name__} and {type(self.settings).__name__}"
            raise IdbanditsError(f"a result is made of a data frame and a dictionary of settings, not of {given}")
        object.__setattr__(self, "settings", dict(self.settings))  # a copy, which nobody else changes
        for part, names, required in (("columns", self.frame, _COLUMNS), ("settings", self.settings, _SETTINGS)):
            if missing := [name for name in required if name not in names]:
                raise IdbanditsError(f"the result lacks the {part} {', '.join(missing)}")
        _check_settings(self.settings)
        _check_columns(self.frame)
        if unknown := set(self.frame["learner"].unique()).difference(self.settings["learners"]):
            raise IdbanditsError(f"learner {min(unknown)!r} is not one of {brief(self.settings['learners'])}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.settings[name]!r}" for name in ("learners", "runs", "rounds", "seed"))
        interrupted = ", interrupted=True" if self.settings["interrupted"] else ""
        gap = f", reference_gap={self._gap:.3g}" if self._gap else ""
        return f"Result({self.settings['world']!r}, {fields}{interrupted}{gap})"

    @property
    def _gap(self) -> float:
        return float(self.settings.get("reference_gap", 0.0))  # which older files do not have

    def summary(self) -> "pd.DataFrame":
        """One row per learner: means over its runs at the last checkpoint, with their standard errors.

        Rewards are averages per round, regrets totals. `runs` and `rounds` say what was averaged: after an
        interruption, the last checkpoint that at least half of the learner's runs have reached, and those runs.
        Where the best action that regret refers to was not proven, `regret_at_most` is a bound on the mean regret.
        It prints all columns, however narrow the terminal is.
        """
        import numpy as np

        from idbandits.simulation.result_tables import Table

        with np.errstate(invalid="ignore"):  # of infinite totals, some of these are not numbers
            return Table([self._line(learner) for learner in self.settings["learners"]])

    def to_latex(self) -> str:
        """Return the summary as a LaTeX table, with cells "mean ± standard error"; it needs the package booktabs."""
        from idbandits.simulation.cells import latex

        return latex(self.summary().to_dict("records"))

    def differences(self, to: str | None = None) -> "pd.DataFrame":
        """Return paired differences between learners, with standard errors and 95 % intervals.

        Learners of a run meet the same random numbers of the world, so a difference within runs varies less than
        standard errors of the summary suggest. A row is `learner` minus `to` in the average reward per round or in
        the total regret: each learner beside `to`, or each beside all before it if `to` is None. Intervals are those
        of Student's t, and NaN for a single run.

        >>> import pandas as pd
        >>> rows = {"learner": ["A", "B"] * 3, "run": [0, 0, 1, 1, 2, 2], "round": 10, "seconds": 0.1,
        ...         "reward": [2.0, 3.0, 4.0, 6.0, 6.0, 9.0], "regret": [9.0, 8.0, 7.0, 5.0, 5.0, 2.0]}
        >>> settings = {"world": "w", "learners": ["A", "B"], "rounds": 10, "runs": 3, "seed": 0, "interrupted": False}
        >>> Result(pd.DataFrame(rows), settings).differences(to="A").round(2)
          learner to measure  runs  rounds  difference    se   low  high
        0       B  A  reward     3      10         0.2  0.06 -0.05  0.45
        1       B  A  regret     3      10        -2.0  0.58 -4.48  0.48
        """
        from idbandits.simulation.result_tables import Table, difference

        names: list[str] = list(self.settings["learners"])
        if to is not None and to not in names:
            raise IdbanditsError(f"to must be None or one of the learners {brief(names)}, got {brief(to)}")
        pairs = [(b, a) for a, b in combinations(names, 2)] if to is None else [(n, to) for n in names if n != to]
        columns = ["learner", "to", "measure", "runs", "rounds", "difference", "se", "low", "high"]
        measures: tuple[Measure, ...] = ("reward", "regret")
        return Table([difference(self.frame, *pair, what) for pair in pairs for what in measures], columns=columns)

    def _line(self, learner: str) -> dict[str, Any]:
        rows = comparable(self.frame[self.frame["learner"] == learner])
        last = rows[rows["round"] == rows["round"].max()]
        reward, regret = last["reward"] / last["round"], last["regret"]
        at_most = {"regret_at_most": regret.mean() + self._gap * max(last["round"], default=0)} if self._gap else {}
        return {
            "learner": learner, "runs": len(last), "rounds": max(last["round"], default=0),
            "reward_mean": reward.mean(), "reward_se": reward.sem(), "regret_mean": regret.mean(),
            "regret_se": regret.sem(), "worst_regret": regret.max(), "seconds_mean": last["seconds"].mean(),
            **at_most,
        }  # fmt: skip

    def plot(self, what: Measure = "reward", ax: "Axes | None" = None) -> "Axes":
        """Draw the average reward or the total regret over the rounds: means over the runs ± one standard error.

        The legend is fitted to the present width of `ax`. For a column of a paper, pass axes of that size:
        `result.plot("regret", Figure(figsize=(3.4, 2.6), layout="constrained").subplots()).figure.savefig("a.pdf")`.
        """
        order = list(self.settings["learners"]).index
        return draw_curves(sorted(curves(self.frame, what), key=lambda curve: order(curve.learner)), what, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a Parquet file, entirely or not at all, with the settings among its metadata."""
        write_whole(path_of(path), self.to_parquet())

    def to_parquet(self) -> bytes:
        """The content of such a file."""
        import pyarrow as pa
        from pyarrow import parquet

        try:
            note = json.dumps({"version": VERSION, "settings": self.settings}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise IdbanditsError(f"the settings of the result are not plain data, as JSON is: {error}") from None
        out = BytesIO()
        try:
            table = pa.Table.from_pandas(self.frame)
            table = table.replace_schema_metadata({**table.schema.metadata, _KEY: note})
            parquet.write_table(table, out, write_page_checksum=True)
        except (pa.ArrowException, ValueError) as error:  # from columns that are not ours
            raise IdbanditsError(f"the frame of the result does not fit into a Parquet file: {error}") from None
        return out.getvalue()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Result":
        """Read what `save` wrote: files of up to 1 GB and 300 million numbers."""
        import pyarrow as pa
        from pyarrow import parquet

        source = path_of(path)
        try:
            content = pa.BufferReader(read_whole(source, MOST_BYTES))
            try:
                file = parquet.ParquetFile(content, page_checksum_verification=True)
                metadata = file.schema_arrow.metadata or {}
                if _KEY not in metadata:
                    raise FormatError("a Parquet file without the settings of a result")
                note = json.loads(metadata[_KEY])
                check_depth(note)
                if (version := note["version"]) > VERSION:
                    newer = f"version {version} is newer than this library"
                    raise FormatError(f"{newer}, which reads up to version {VERSION}")
                groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
                if sum(group.num_rows for group in groups) * file.metadata.num_columns > MOST_VALUES:
                    raise FormatError(f"a table of more than {MOST_VALUES:,} values, which are read at most")
                return Result(file.read().to_pandas(), note["settings"])
            except IdbanditsError:
                raise
            except Exception as error:  # pyarrow and pandas raise all sorts of things for damaged files
                raise FormatError(f"not a Parquet file, or damaged: {_told(error)}") from None
        except IdbanditsError as error:
            raise FormatError(f"{path}: {error}") from None


def _told(error: Exception) -> str:
    """What an error of another library says, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"


def _check_settings(settings: Mapping[str, Any]) -> None:
    world, learners = settings["world"], settings["learners"]
    if not isinstance(world, str):
        raise IdbanditsError(f"the world of a result is a name, not {brief(world)}")
    if not isinstance(learners, (list, tuple)) or not all(isinstance(name, str) for name in learners):
        raise IdbanditsError(f"the learners of a result are a list of names, not {brief(learners)}")
    if len(set(learners)) < len(learners):
        raise IdbanditsError(f"the learners of a result have different names, not {brief(learners)}")
    for name in ("rounds", "runs"):
        check_whole(f"the setting {name} of a result", settings[name], 1)
    check_number("the setting reference_gap of a result", settings.get("reference_gap", 0.0), 0)
    if not isinstance(settings["interrupted"], bool):
        raise IdbanditsError(f"the setting interrupted is True or False, not {brief(settings['interrupted'])}")


def _check_columns(frame: "pd.DataFrame") -> None:
    """Refuse columns of other types than ours, and two rows of one checkpoint; empty columns have no type."""
    if twice := [name for name in _COLUMNS if frame[name].ndim != 1]:
        raise IdbanditsError(f"the result has the column {twice[0]} more than once")
    if frame.empty:
        return
    if not all(issubclass(kind, str) for kind in set(map(type, frame["learner"]))):
        raise IdbanditsError("column learner of the result has a value that is not a name")
    for name, least in (("run", 0), ("round", 1)):
        if frame[name].dtype.kind not in "iu" or frame[name].isna().any() or frame[name].min() < least:
            raise IdbanditsError(f"column {name} of the result has a value that is not a whole number from {least}")
    for name in ("reward", "regret", "seconds"):
        if frame[name].dtype.kind not in "iuf":
            raise IdbanditsError(f"column {name} of the result is not of numbers, but of {frame[name].dtype}")
    if (repeated := frame.duplicated(["learner", "run", "round"])).any():
        learner, run, number = frame.loc[repeated, ["learner", "run", "round"]].iloc[0]
        raise IdbanditsError(f"the result has run {run} of learner {learner!r} at round {number} more than once")
