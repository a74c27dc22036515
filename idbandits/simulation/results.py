"""Result of a simulation: totals of every learner in every run, and the settings of the simulation."""

import json
import os
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations
from textwrap import shorten
from typing import TYPE_CHECKING, Any, final

from idbandits.diagram.serialize import check_depth
from idbandits.errors import FormatError, IdbanditsError, brief
from idbandits.files import path_of, read_whole, write_whole
from idbandits.notebook import html_table
from idbandits.simulation.plots import Measure, comparable, curves, draw_curves

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

VERSION = 1
MOST_BYTES, MOST_VALUES = 10**9, 300_000_000  # limits of a file and of the table in it
_KEY = b"idbandits"  # of the settings among the metadata of a Parquet file
# columns, the kinds of their NumPy types, and the lowest integer
_COLUMNS = {"learner": "", "run": "iu", "round": "iu", "reward": "iuf", "regret": "iuf", "seconds": "iuf"}
_LOWEST = {"run": 0, "round": 1}
_SETTINGS = {
    "type": "object", "required": ["world", "learners", "rounds", "runs", "seed", "interrupted"],
    "properties": {
        "world": {"type": "string"}, "learners": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "rounds": {"type": "integer", "minimum": 1}, "runs": {"type": "integer", "minimum": 1},
        "interrupted": {"type": "boolean"}, "reference_gap": {"type": "number", "minimum": 0},
    },
}  # fmt: skip
_NOTE = {"type": "object", "required": ["version", "settings"], "properties": {"version": {"type": "integer"}}}


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """Result of simulated runs, returned by `simulate`.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per learner, run and checkpoint, with the columns `learner`, `run` (from 0), `round` (rounds so far),
        `reward` and `regret` (totals), and `seconds` (processor time of the learner). Regret refers to the best action
        that the world found.
    settings : dict
        World, learners, rounds, runs, seed, and whether the simulation was interrupted. `settings["reference_gap"]` is
        0 if the best actions were proven to be optimal in all contexts that occurred; else the regret per round may be
        higher by at most that number.

    Raises
    ------
    IdbanditsError
        Frame and settings do not fit each other.

    Examples
    --------
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
            types = f"{type(self.frame).__name__} and {type(self.settings).__name__}"
            raise IdbanditsError(f"a result must be made of a data frame and a dictionary of settings, got {types}")
        object.__setattr__(self, "settings", dict(self.settings))  # later changes of the argument have no effect
        _check_schema("settings of the result", self.settings, _SETTINGS)
        _check_columns(self.frame)
        if unknown := set(self.frame["learner"].unique()).difference(self.settings["learners"]):
            raise IdbanditsError(f"learner {min(unknown)!r} is not one of {brief(self.settings['learners'])}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.settings[name]!r}" for name in ("learners", "runs", "rounds", "seed"))
        interrupted = ", interrupted=True" if self.settings["interrupted"] else ""
        gap = f", reference_gap={self._gap:.3g}" if self._gap else ""
        return f"Result({self.settings['world']!r}, {fields}{interrupted}{gap})"

    def _repr_html_(self) -> str:
        return html_table(self.summary(), repr(self))

    @property
    def _gap(self) -> float:
        return float(self.settings.get("reference_gap", 0.0))  # missing in older files

    def summary(self) -> "pd.DataFrame":
        """Return means over runs at the last checkpoint, with their standard errors.

        After an interruption, the last checkpoint is the last that at least half of the learner's runs have reached,
        and the means are over those runs; see `runs` and `rounds`.

        Returns
        -------
        pandas.DataFrame
            One row per learner with the columns `learner`, `runs`, `rounds`, `reward_mean` and `reward_se` (per round),
            `regret_mean`, `regret_se` and `worst_regret` (totals), and `seconds_mean`. If the best action that regret
            refers to was not proven, `regret_at_most` is a bound on the mean regret. All columns are printed, however
            narrow the terminal is.
        """
        import numpy as np

        from idbandits.simulation.result_tables import Table

        with np.errstate(invalid="ignore"):  # infinite totals
            return Table([self._summary_row(learner) for learner in self.settings["learners"]])

    def _summary_row(self, learner: str) -> dict[str, Any]:
        rows = comparable(self.frame[self.frame["learner"] == learner])
        last, rounds = rows[rows["round"] == rows["round"].max()], max(rows["round"], default=0)
        reward, regret = last["reward"] / last["round"], last["regret"]
        return {
            "learner": learner, "runs": len(last), "rounds": rounds, "reward_mean": reward.mean(),
            "reward_se": reward.sem(), "regret_mean": regret.mean(), "regret_se": regret.sem(),
            "worst_regret": regret.max(), "seconds_mean": last["seconds"].mean(),
            **({"regret_at_most": regret.mean() + self._gap * rounds} if self._gap else {}),
        }  # fmt: skip

    def to_latex(self) -> str:
        """Return the summary as a LaTeX table, with cells "mean ± standard error"; it needs the package booktabs.

        Examples
        --------
        >>> import pandas as pd
        >>> rows = {"learner": "A", "run": [0, 1], "round": 10, "reward": [2, 4], "regret": [5, 3], "seconds": 0.1}
        >>> settings = {"world": "cascade", "learners": ["A"], "rounds": 10, "runs": 2, "seed": 0, "interrupted": False}
        >>> print(Result(pd.DataFrame(rows), settings).to_latex().splitlines()[2])
        learner & average reward & total regret ...
        """
        from idbandits.simulation.result_tables import latex

        return latex(self.summary().to_dict("records"))

    def differences(self, to: str | None = None) -> "pd.DataFrame":
        """Return paired differences between learners, with standard errors and 95 % intervals.

        Learners of a run meet the same random numbers of the world, so a difference within runs varies less than
        standard errors of the summary suggest.

        Parameters
        ----------
        to : str, optional
            Learner that all others are compared with; by default each learner is compared with all before it.

        Returns
        -------
        pandas.DataFrame
            Rows of `learner` minus `to` in a `measure`, the average reward per round or the total regret, with the
            columns `runs`, `rounds`, `difference`, `se`, and `low` and `high`: intervals of Student's t, NaN for a
            single run.

        Raises
        ------
        IdbanditsError
            `to` is not a learner of the result.

        Examples
        --------
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

    def plot(self, what: Measure = "reward", ax: "Axes | None" = None) -> "Axes":
        """Draw curves over the rounds: means over the runs ± one standard error.

        Parameters
        ----------
        what : str
            "reward" for the average reward per round, or "regret" for the total regret.
        ax : matplotlib.axes.Axes, optional
            Axes to draw into, to whose present width the legend is fitted; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. For a column of a paper, pass axes of that size: `result.plot("regret",
            Figure(figsize=(3.4, 2.6), layout="constrained").subplots()).figure.savefig("a.pdf")`.
        """
        order = self.settings["learners"].index
        return draw_curves(sorted(curves(self.frame, what), key=lambda curve: order(curve.learner)), what, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a Parquet file atomically, with the settings among its metadata.

        Parameters
        ----------
        path : str or path
            File to write or to replace.

        Examples
        --------
        >>> import pandas as pd, tempfile
        >>> rows = {"learner": "A", "run": [0, 1], "round": 10, "reward": [2, 4], "regret": [5, 3], "seconds": 0.1}
        >>> settings = {"world": "cascade", "learners": ["A"], "rounds": 10, "runs": 2, "seed": 0, "interrupted": False}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Result(pd.DataFrame(rows), settings).save(f"{folder}/result.parquet")
        ...     Result.load(f"{folder}/result.parquet")
        Result('cascade', learners=['A'], runs=2, rounds=10, seed=0)
        """
        write_whole(path_of(path), self.to_parquet())

    def to_parquet(self) -> bytes:
        """Return the content of the file that `save` writes."""
        import pyarrow as pa
        from pyarrow import parquet

        try:
            note = json.dumps({"version": VERSION, "settings": self.settings}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise IdbanditsError(f"settings must be plain data, as in JSON: {error}") from None
        out = BytesIO()
        try:
            table = pa.Table.from_pandas(self.frame)
            table = table.replace_schema_metadata({**table.schema.metadata, _KEY: note})
            parquet.write_table(table, out, write_page_checksum=True)
        except (pa.ArrowException, ValueError) as error:  # from additional columns
            raise IdbanditsError(f"the frame of the result does not fit into a Parquet file: {error}") from None
        return out.getvalue()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Result":
        """Read a file written by `save`.

        Parameters
        ----------
        path : str or path
            File of at most 1 GB and 300 million numbers.

        Returns
        -------
        Result
            The result.

        Raises
        ------
        FormatError
            The file is damaged, or not that of a result.
        """
        try:
            content = read_whole(path_of(path), MOST_BYTES)
            try:
                return _from_parquet(content)
            except IdbanditsError:
                raise
            except Exception as error:  # damaged files make pyarrow and pandas raise many kinds of exceptions
                reason = shorten(str(error), 300, placeholder="…") or type(error).__name__
                raise FormatError(f"not a Parquet file, or damaged: {reason}") from None
        except IdbanditsError as error:
            raise FormatError(f"{path}: {error}") from None


def _from_parquet(content: bytes) -> Result:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    metadata = file.schema_arrow.metadata or {}
    if _KEY not in metadata:
        raise FormatError("a Parquet file without the settings of a result")
    note = json.loads(metadata[_KEY])
    check_depth(note)
    version = note.get("version") if isinstance(note, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise FormatError(f"version {version} is newer than this library, which reads up to version {VERSION}")
    _check_schema("metadata", note, _NOTE)
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    if sum(group.num_rows for group in groups) * file.metadata.num_columns > MOST_VALUES:
        raise FormatError(f"the table must have at most {MOST_VALUES:,} values")
    return Result(file.read().to_pandas(), note["settings"])


def _check_schema(what: str, data: Any, schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema).iter_errors(data))
    if error is not None:
        raise IdbanditsError(f"{what}{error.json_path[1:]}: {shorten(error.message, 300)}")


def _check_columns(frame: "pd.DataFrame") -> None:
    """Validate the columns, and reject duplicate checkpoints; columns of an empty frame have no type."""
    for name, kinds in _COLUMNS.items():
        if list(frame.columns).count(name) != 1:
            raise IdbanditsError(f"the result must have the columns {', '.join(_COLUMNS)} once each; see {name!r}")
        column = frame[name]
        if frame.empty:
            continue
        if not kinds and not all(issubclass(kind, str) for kind in set(map(type, column))):
            raise IdbanditsError(f"column {name} of the result must have strings, got {column.dtype}")
        if kinds and column.dtype.kind not in kinds:
            raise IdbanditsError(f"column {name} of the result must have numbers, got {column.dtype}")
        if name in _LOWEST and (column.isna().any() or column.min() < _LOWEST[name]):
            raise IdbanditsError(f"column {name} of the result must have integers >= {_LOWEST[name]}")
    if (repeated := frame.duplicated(["learner", "run", "round"])).any():
        learner, run, number = frame.loc[repeated, ["learner", "run", "round"]].iloc[0]
        raise IdbanditsError(f"the result has run {run} of learner {learner!r} at round {number} more than once")
