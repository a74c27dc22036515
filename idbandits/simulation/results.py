"""The result of a simulation: how each learner fared in each run, and the settings of the simulation."""

import json
import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from idbandits.errors import FormatError, IdbanditsError
from idbandits.files import write_whole
from idbandits.simulation.plots import Measure, comparable, curves, draw_curves

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

VERSION = 1
_COLUMNS = ("learner", "run", "round", "reward", "regret", "seconds")
_SETTINGS = ("world", "learners", "rounds", "runs", "seed", "interrupted")
_KEY = b"idbandits"  # under which a Parquet file has the settings among its metadata


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """How learners fared in simulated runs: `frame` has totals at checkpoints, `settings` what was simulated.

    A row has a learner, a run, the rounds so far, their total reward and regret, and the processor seconds they took.

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
        for part, names, required in (("columns", self.frame, _COLUMNS), ("settings", self.settings, _SETTINGS)):
            if missing := [name for name in required if name not in names]:
                raise IdbanditsError(f"the result lacks the {part} {', '.join(missing)}")
        if unknown := set(self.frame["learner"].unique()).difference(self.settings["learners"]):
            raise IdbanditsError(f"learner {min(map(str, unknown))!r} is not one of {self.settings['learners']}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.settings[name]!r}" for name in ("learners", "runs", "rounds", "seed"))
        interrupted = ", interrupted=True" if self.settings["interrupted"] else ""
        return f"Result({self.settings['world']!r}, {fields}{interrupted})"

    def summary(self) -> "pd.DataFrame":
        """One row per learner: means over its runs at the last checkpoint, with their standard errors.

        Rewards are averages per round, regrets totals. `runs` and `rounds` say what was averaged: after an
        interruption, the last checkpoint that at least half of the learner's runs have reached, and those runs.
        """
        import pandas as pd

        lines = []
        for learner in self.settings["learners"]:
            rows = comparable(self.frame[self.frame["learner"] == learner])
            last = rows[rows["round"] == rows["round"].max()]
            reward, regret = last["reward"] / last["round"], last["regret"]
            lines.append({
                "learner": learner, "runs": len(last), "rounds": max(last["round"], default=0),
                "reward_mean": reward.mean(), "reward_se": reward.sem(), "regret_mean": regret.mean(),
                "regret_se": regret.sem(), "worst_regret": regret.max(), "seconds_mean": last["seconds"].mean(),
            })  # fmt: skip
        return pd.DataFrame(lines)

    def plot(self, what: Measure = "reward", ax: "Axes | None" = None) -> "Axes":
        """Draw the average reward or the total regret over the rounds: means over the runs ± one standard error.

        The legend is fitted to the present width of `ax`. For a column of a paper, pass axes of that size:
        `result.plot("regret", Figure(figsize=(3.4, 2.6), layout="constrained").subplots()).figure.savefig("a.pdf")`.
        """
        order = list(self.settings["learners"]).index
        return draw_curves(sorted(curves(self.frame, what), key=lambda curve: order(curve.learner)), what, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a Parquet file, entirely or not at all, with the settings among its metadata."""
        import pyarrow as pa
        from pyarrow import parquet

        table, out = pa.Table.from_pandas(self.frame), BytesIO()
        note = json.dumps({"version": VERSION, "settings": self.settings}).encode()
        table = table.replace_schema_metadata({**table.schema.metadata, _KEY: note})
        parquet.write_table(table, out, write_page_checksum=True)
        write_whole(Path(path), out.getvalue())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Result":
        """Read what `save` wrote."""
        import pyarrow as pa
        from pyarrow import parquet

        content = Path(path).read_bytes()
        try:
            table = parquet.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read()
            metadata = table.schema.metadata or {}
            if _KEY not in metadata:
                raise FormatError("a Parquet file without the settings of a result")
            note = json.loads(metadata[_KEY])
            if (version := note["version"]) > VERSION:
                raise FormatError(f"version {version} is newer than this library, which reads up to version {VERSION}")
            return Result(table.to_pandas(), note["settings"])
        except IdbanditsError as error:
            raise FormatError(f"{path}: {error}") from None
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:  # damaged data or metadata
            raise FormatError(f"{path}: not a Parquet file, or damaged: {error}") from None
