"""What a simulation gives: how each learner fared in each run, and how it was simulated."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from idbandits.errors import FormatError, IdbanditsError
from idbandits.files import write_whole
from idbandits.simulation.plots import What, comparable, curves, draw_curves

if TYPE_CHECKING:  # else imported where they are used, because importing them takes long
    import pandas as pd
    from matplotlib.axes import Axes

VERSION = 1
_COLUMNS = ("learner", "run", "round", "reward", "regret", "seconds")
_SETTINGS = ("world", "learners", "rounds", "runs", "seed", "interrupted")
_KEY = b"idbandits"  # of the settings among the metadata of a Parquet file


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """How learners fared in simulated runs: totals at the checkpoints in `frame`, what was asked for in `settings`.

    A row of the frame has a learner, a run, the number of rounds done, the reward and regret of these rounds in
    total, and the seconds of a processor that they took.

    >>> import pandas as pd
    >>> row = {"learner": "A", "run": [0, 1], "round": 10, "reward": [2.0, 4.0], "regret": [5.0, 3.0], "seconds": 0.1}
    >>> asked = {"world": "cascade", "learners": ["A"], "rounds": 10, "runs": 2, "seed": 0, "interrupted": False}
    >>> result = Result(pd.DataFrame(row), asked)
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
        for what, given, needed in (("columns", self.frame, _COLUMNS), ("settings", self.settings, _SETTINGS)):
            if missing := [name for name in needed if name not in given]:
                raise IdbanditsError(f"a result without the {what} {', '.join(missing)}")
        if strange := set(self.frame["learner"].unique()).difference(self.settings["learners"]):
            raise IdbanditsError(f"learner {min(map(str, strange))!r} is none of {self.settings['learners']}")

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={self.settings[name]!r}" for name in ("learners", "runs", "rounds", "seed"))
        return f"Result({self.settings['world']!r}, {asked}{', interrupted=True' * bool(self.settings['interrupted'])})"

    def summary(self) -> "pd.DataFrame":
        """One row a learner: means over its runs at the last checkpoint and their standard errors.

        Rewards are averages a round, regrets totals. `runs` and `rounds` say what was averaged. After an interruption
        that is the last checkpoint that at least half of the learner's runs have reached, and the runs that did.
        """
        import pandas as pd

        return pd.DataFrame([self._summary(learner) for learner in self.settings["learners"]])

    def _summary(self, learner: str) -> dict[str, Any]:
        rows = comparable(self.frame[self.frame["learner"] == learner])
        last = rows[rows["round"] == rows["round"].max()]
        reward = last["reward"] / last["round"]
        return {
            "learner": learner,
            "runs": len(last),
            "rounds": max(last["round"], default=0),
            "reward_mean": reward.mean(),
            "reward_se": reward.sem(),
            "regret_mean": last["regret"].mean(),
            "regret_se": last["regret"].sem(),
            "worst_regret": last["regret"].max(),
            "seconds_mean": last["seconds"].mean(),
        }

    def plot(self, what: What = "reward", ax: "Axes | None" = None) -> "Axes":
        """Draw the average reward or the total regret over the rounds: means over the runs ± one standard error.

        The legend is fitted to the width that `ax` has now. So for a column of a paper, bring an axes of that size:
        `result.plot("regret", Figure(figsize=(3.4, 2.6), layout="constrained").subplots()).figure.savefig("a.pdf")`.
        """
        place = {learner: i for i, learner in enumerate(self.settings["learners"])}
        return draw_curves(sorted(curves(self.frame, what), key=lambda curve: place[curve.learner]), what, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a Parquet file, whole or not at all, with the settings among its metadata."""
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
            settings = _settings(table.schema.metadata or {})
            return Result(table.to_pandas(), settings)
        except IdbanditsError as error:
            raise FormatError(f"{path}: {error}") from None
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:  # also if metadata are damaged
            raise FormatError(f"{path}: not a Parquet file, or a damaged one: {error}") from None


def _settings(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise FormatError("a Parquet file that no result was saved to: it holds no settings")
    note: dict[str, Any] = json.loads(metadata[_KEY])
    if note["version"] > VERSION:
        raise FormatError(f"version {note['version']} is newer than this library, which reads up to version {VERSION}")
    settings: dict[str, Any] = note["settings"]
    return settings
