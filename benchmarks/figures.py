"""Numbers in README.md and docs, computed from the committed result files.

`Paper` reads docs/results/paper.json, which `python -m benchmarks.pages` writes from a run of `make paper`; `Tables`
reads benchmarks/results.md. Pages mark a number by its key in `NUMBERS`: `<!--=rounds-->1,000<!--/-->`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.inference import default_inference
from idbandits.models import position_based
from idbandits.reproduction.claims import FAILS, HOLDS, OPEN, Verdict, verdicts
from idbandits.reproduction.problems import INC, KLUCB, KLUCB_LAST
from idbandits.simulation.result_tables import shown

ROOT = Path(__file__).parents[1]
PAPER, RESULTS = ROOT / "docs" / "results" / "paper.json", ROOT / "benchmarks" / "results.md"
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
Row: TypeAlias = Mapping[str, str]  # cells by column; " 2" is appended to the second column of the same name


@final
class Paper:
    """Runs of the paper's evaluation: totals by problem and learner."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.cells = {(cell["problem"], cell["learner"]): cell for cell in data["cells"]}

    @staticmethod
    def load() -> Paper:
        """Read docs/results/paper.json."""
        return Paper(json.loads(PAPER.read_text(encoding="utf-8")))

    def summary(self, problem: str, learner: str) -> dict[str, Any] | None:
        """Return means and standard errors as in `Result.summary()`; None if there are no runs."""
        if (cell := self.cells.get((problem, learner))) is None:
            return None
        row: dict[str, Any] = {"learner": learner, "rounds": cell["rounds"], "runs": len(cell["reward"])}
        for name, values in (
            ("reward", np.array(cell["reward"]) / cell["rounds"]),
            ("regret", np.array(cell["regret"])),
        ):
            error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            row |= {f"{name}_mean": float(values.mean()), f"{name}_se": error}
        return row | {"seconds_mean": float(np.mean(cell["seconds"]))}

    def reward(self, problem: str, learner: str) -> str:
        """Format the average reward and its standard error; return "" if there are no runs."""
        row = self.summary(problem, learner)
        return "" if row is None else shown(row, "reward")

    def verdicts(self) -> list[Verdict]:
        """Compare the runs with the claims of the paper."""
        return verdicts(self.summary)


@final
class Tables:
    """Tables of a Markdown file by heading."""

    def __init__(self, text: str) -> None:
        sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        self.texts = {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}

    @staticmethod
    def load() -> Tables:
        """Read benchmarks/results.md."""
        return Tables(RESULTS.read_text(encoding="utf-8"))

    def rows(self, heading: str) -> list[Row]:
        """Return the rows of the table below the heading that starts with `heading`."""
        [text] = [text for title, text in self.texts.items() if title.startswith(heading)]
        head, *body = tables_in(text)[0]
        columns = [f"{name} 2" if name in head[:k] else name for k, name in enumerate(head)]
        return [dict(zip(columns, cells, strict=True)) for cells in body]

    def column(self, heading: str, column: str, pattern: str = "", by: str | None = None) -> list[str]:
        """Return non-empty cells of a column, of rows whose first cell (or cell in column `by`) matches `pattern`."""
        rows = [row for row in self.rows(heading) if re.search(pattern, row[by] if by else next(iter(row.values())))]
        return [row[column] for row in rows if row[column] not in ("", "–")]

    def cell(self, heading: str, column: str, pattern: str) -> str:
        """Return the single cell that `column` finds."""
        [cell] = self.column(heading, column, pattern)
        return cell


def cells_of(line: str) -> list[str]:
    """Split a line of a Markdown table into cells."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables_in(text: str) -> list[list[list[str]]]:
    """Return the cells of all tables, without the lines between head and body."""
    blocks = ("\n".join(line if line.startswith("|") else "" for line in text.splitlines())).split("\n\n")
    lines = [[line for line in block.splitlines() if line] for block in blocks]
    return [[cells_of(line) for k, line in enumerate(table) if k != 1] for table in lines if len(table) > 1]


def value(cell: str) -> float:
    """Parse the number at the start of a cell, scaled by its unit.

    >>> value("1,240 ± 3"), value("9.4×"), value("88.1%"), value("76.4 µs")
    (1240.0, 9.4, 88.1, 7.64e-05)
    """
    number, unit = re.match(r"([\d.,e-]+)\s*(\S*)", cell).groups()  # type: ignore[union-attr]
    return float(number.replace(",", "")) * UNITS.get(unit, 1.0)


def rounded(number: float, digits: int = 0) -> str:
    """Format a number with `digits` digits after the point; halves are rounded up.

    >>> rounded(1.45, 1), rounded(1240.5)
    ('1.5', '1,241')
    """
    exact = Decimal(repr(float(f"{number:.9g}"))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{exact:,}"


def span(cells: Iterable[str], digits: int = 0, scale: float = 1.0) -> str:
    """Format the range of the numbers in cells.

    >>> span(["36.6 µs", "91 µs"], 2, 1e-3)
    '0.04 to 0.09'
    """
    numbers = [value(cell) / scale for cell in cells]
    low, high = rounded(min(numbers), digits), rounded(max(numbers), digits)
    return low if low == high else f"{low} to {high}"


def listed(cells: Sequence[str]) -> str:
    """Format a list of numbers: "160, 1,200 and 20,000"."""
    *first, last = [rounded(value(cell)) for cell in cells]
    return f"{', '.join(first)} and {last}"


def listed_times(cells: Sequence[str], unit: float, digits: int = 0) -> str:
    """Format a list of times in one unit."""
    *first, last = [rounded(value(cell) / unit, digits) for cell in cells]
    return f"{', '.join(first)} and {last}"


def power_of_ten(cells: Iterable[str]) -> str:
    """Format the smallest power of ten that no number exceeds."""
    exponent = math.ceil(math.log10(max(map(value, cells))))
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


class Sources(NamedTuple):
    """Result files that numbers are computed from."""

    paper: Paper
    tables: Tables


Number: TypeAlias = Callable[[Sources], str]
DEFAULT = default_inference(position_based(2, 1))
REGRET, HARD, ROUND = "Regret on the paper's problems", "Latent classes", "Time per round"
LARGE, CLICKS, UPDATES = "Circuits of large diagrams", "Best action in click models", "Update time against"
ELIGIBLE, DRIFT, CHURN = "Eligible items", "Forgetting in", "Replaced items"
YELP, SIGNAL, HIDDEN = "Yelp restaurants", "Features of items at three", "Features of items with latent"
PEER, UNCONNECTED, NETWORKS = (
    "Best action compared with pyAgrum",
    "Best action in unconnected",
    "Posteriors of latent nodes",
)
LITERAL, PLAIN, NEW = "Variational update compared", "Bernoulli bandit compared", "New items with features"
COVERAGE, SIZES, COMPILE = "Posterior coverage", "Time against number of items", "Compile time"
MILLI, MICRO = 1e-3, 1e-6
PROVEN = r"^(cascade|position-based|semi-bandit|dependent click), 20 × 1,000"
CONDITIONALS, OF_CONDITIONALS = "^cascade, learned conditionals", "^cascade, learned conditionals.*(cascade|tables)$"
COUNTED = r"^cascade 1, (idTSfull|exact|variational|incremental|moments|gibbs|ep), a round"
TEN_BY_FIVE = "^(dynamic|click|user).* 10 × 5$"
FIFTY, PEAKED = "^(?!dependent click, peaked).*best action", "^dependent click, peaked means, best action"


def of(
    heading: str, column: str, pattern: str = "", digits: int = 0, unit: float = 1.0, by: str | None = None
) -> Number:
    """Range of a column of benchmarks/results.md."""
    return lambda s: span(s.tables.column(heading, column, pattern, by), digits, unit)


def summed(heading: str, column: str, **wanted: str) -> Number:
    """Sum of a column over rows that match a pattern in each given column."""
    return lambda s: rounded(sum(value(row[column]) for row in matching(s, heading, **wanted) if row[column]))


def matching(s: Sources, heading: str, **wanted: str) -> list[Row]:
    """Return the rows that match a pattern in each given column."""
    rows = s.tables.rows(heading)
    return [row for row in rows if all(re.search(pattern, row[column]) for column, pattern in wanted.items())]


def within(heading: str, column: str, digits: int = 0, unit: float = 1.0, **wanted: str) -> Number:
    """Range of a column over rows that match a pattern in each given column."""
    return lambda s: span([row[column] for row in matching(s, heading, **wanted)], digits, unit)


def raw(heading: str, column: str, **wanted: str) -> Number:
    """Unchanged cell of the single matching row."""

    def cell(s: Sources) -> str:
        [row] = matching(s, heading, **wanted)
        return row[column]

    return cell


def compact(heading: str, column: str) -> Number:
    """Range of ratios, formatted as in the cells."""

    def ends(s: Sources) -> str:
        ordered = sorted(s.tables.column(heading, column), key=value)
        return f"{ordered[0].rstrip('×')} to {ordered[-1].rstrip('×')}"

    return ends


def verdict(verdict: str) -> Number:
    """Number of claims of the paper with a verdict."""
    return lambda s: str(sum(own.verdict == verdict for own in s.paper.verdicts()))


def as_written(s: Sources) -> tuple[float, float]:
    """Return the seconds of the paper's algorithm in NumPy, and of idbandits for the same number of rounds."""
    own = s.paper.data["as_written"]
    return float(own["seconds"]), float(own["seconds_of_ours"])


def times_as_long(s: Sources) -> str:
    """Return the speed ratio to the paper's algorithm in NumPy."""
    written, ours = as_written(s)
    return f"{float(f'{written / ours:.2g}'):,.0f}"


def mean_reward(problem: str, learner: str) -> Number:
    """Average reward with two digits."""

    def mean(s: Sources) -> str:
        row = s.paper.summary(problem, learner)
        assert row is not None
        return rounded(row["reward_mean"], 2)

    return mean


def most_nodes(s: Sources) -> str:
    """Return the number of nodes of the largest circuit."""
    cells = s.tables.column(LARGE, "nodes", PROVEN + "$")
    return rounded(max(value(part) for cell in cells for part in cell.split(" + ")))


def unproven_bound(s: Sources) -> str:
    """Return the largest relative difference between bound and value, in percent."""
    bounds: list[str] = re.findall(r"bound is at most ([\d.]+)%", s.tables.texts[LARGE])
    return max(bounds, key=float)


def classes(s: Sources) -> str:
    """Return the regret of the default with latent classes, relative to an agent that observes the class."""
    rows = {(row["world"], row["learner"]): value(row["regret"]) for row in matching(s, HARD, world="classes")}
    worlds = dict.fromkeys(world for world, _ in rows)
    return span([str(rows[world, "default"] / rows[world, "idTSfull"]) for world in worlds], 1)


def covered(*columns: str, pattern: str) -> Number:
    """Range of coverage over columns of diagrams that match a pattern."""
    return lambda s: span([cell for column in columns for cell in s.tables.column(COVERAGE, column, pattern)])


def worst_with_features(s: Sources) -> str:
    """Return the regret of the worst run with features relative to the mean of plain."""
    rows = s.tables.rows(HIDDEN)
    plain = {row["anchor"]: value(row["regret"]) for row in rows if row["learner"] == "plain"}
    return rounded(max(value(row["worst"]) / plain[row["anchor"]] for row in rows if row["learner"] == "features"), 2)


NUMBERS: dict[str, Number] = {
    # docs/results/paper.json
    "written": lambda s: rounded(as_written(s)[0], 2),
    "ours": lambda s: f"{as_written(s)[1]:.2g}",
    "written/ours": times_as_long,
    "claims": lambda s: str(len(s.paper.verdicts())),
    "hold": verdict(HOLDS),
    "open": verdict(OPEN),
    "fail": verdict(FAILS),
    "inc, random": lambda s: s.paper.reward("cascade 1", f"{INC}, random start"),
    "first click": mean_reward("cascade 2", KLUCB),
    "last click": mean_reward("cascade 2", KLUCB_LAST),
    # benchmarks/results.md
    "best": of(LARGE, "best action", PROVEN + "$", 2, MILLI),
    "nodes": most_nodes,
    "circuits": lambda s: rounded(max(map(value, s.tables.column(LARGE, "compile", PROVEN + "$"))) / MILLI),
    "repeats": of(LARGE, "best action", PROVEN + ", repeats|^rank-1", 2, MILLI),
    "conditionals, repeats": of(LARGE, "best action", CONDITIONALS + ".*repeats", 1, MILLI),
    "conditionals": of(LARGE, "best action", OF_CONDITIONALS, 1, MILLI),
    "conditionals, proven": of(LARGE, "proven", OF_CONDITIONALS),
    "conditionals, bound": unproven_bound,
    "pyAgrum, rank-1": of(PEER, "ratio", "^rank-1"),
    "pyAgrum, cascade": lambda s: listed(s.tables.column(PEER, "ratio", r"^cascade, \d × 20$")),
    "unconnected": of(UNCONNECTED, "best action found", "^idbandits"),
    "unconnected, pyAgrum": of(UNCONNECTED, "best action found", "^pyAgrum$"),
    "networks": lambda s: str(len(s.tables.column(NETWORKS, "idbandits"))),
    "networks, apart": lambda s: power_of_ten(s.tables.column(NETWORKS, "difference")),
    "networks, pyAgrum": compact(NETWORKS, "ratio"),
    "networks, pgmpy": compact(NETWORKS, "ratio 2"),
    "cascade round": of(ROUND, "measured", COUNTED, 0, MICRO),
    "cascade round, literal": of(ROUND, "measured", "^cascade 1, variational, literal", 0, MICRO),
    "cascade round, particles": of(ROUND, "measured", "^cascade 1, particles", 0, MICRO),
    **{
        f"position-based round, {name}": of(ROUND, "measured", f"^position-based 1, {name}, a round", 0, MICRO)
        for name in ("moments", "variational", "gibbs", "ep")
    },
    "large round": of(ROUND, "measured", "1,000 items × 20", 2, MILLI),
    "largest round": of(ROUND, "measured", "100,000 items × 5", 1, MILLI),
    **{
        f"default, {k}": raw(REGRET, "average reward", problem=f"^position-based {k}$", learner=f"^{DEFAULT}$")
        for k in (1, 2)
    },
    **{
        f"revealed, {k}": within(REGRET, "average reward", 4, problem=f"^position-based {k}$", learner="^idTSfull$")
        for k in (1, 2)
    },
    "classes": classes,
    **{
        f"stuck, {name}": summed(HARD, "stuck", world="^dominating", learner=f"^{name}$")
        for name in ("default", "ep", "variational", "moments")
    },
    "dominating": summed(HARD, "runs", world="^dominating", learner="^default$"),
    "covered": covered("rows", "products", pattern="^(?!.*features)"),
    "covered, features": covered("rows", pattern="features"),
    "early": of(UPDATES, "1,000", "(30 × 5| of )", 0, MICRO),
    "late": of(UPDATES, "100,000", "(30 × 5| of )", 0, MICRO),
    "hump": lambda s: rounded(max(map(value, s.tables.column(UPDATES, "hump"))), 1),
    "clicks": of(CLICKS, "best action", TEN_BY_FIVE, 0, MICRO),
    "clicks, proven": summed(CLICKS, "proven", diagram=TEN_BY_FIVE),
    "eligible": within(ELIGIBLE, "median", 0, MICRO, call=FIFTY, eligible="^50$"),
    "eligible, peaked": within(ELIGIBLE, "median", 0, MICRO, call=PEAKED, eligible="^50$"),
    "eligible, proven": summed(ELIGIBLE, "proven", eligible="^50$"),
    "phases": of(DRIFT, "ratio", "5 phases", 2, by="world"),
    "constant": of(DRIFT, "ratio", "400,000", 2, by="half-life"),
    "moved": of(CHURN, "ratio", "", 2),
    "a move": of(CHURN, "time of a move", "^(?!one latent)", 0, MILLI),
    "a large move": of(CHURN, "time of a move", "^one latent", 0, MILLI),
    "yelp": raw(YELP, "regret", learner="^features$"),
    "yelp, worst": raw(YELP, "worst", learner="^features$"),
    "yelp, round": of(YELP, "µs", "^features$", 2, 1e3),
    "yelp, pooled": of(YELP, "regret", "^pooled"),
    "yelp, plain": of(YELP, "regret", "^plain"),
    **{
        f"signal, {signal}": within(SIGNAL, "to plain", 2, signal=signal, model="1,000 items$")
        for signal in ("high", "middle", "zero")
    },
    "anchor": within(HIDDEN, "to plain", 2, anchor="^first", learner="^features$"),
    "no anchor": within(HIDDEN, "to plain", 2, anchor="^nothing", learner="^features$"),
    "anchor, worst": worst_with_features,
    **{
        f"new in {model}, {learner}": raw(NEW, "rounds", model=f"^{model}$", learner=f"^{learner}$")
        for model in ("semi-bandit", "cascade")
        for learner in ("features", "plain")
    },
    "from Python": of(ROUND, "measured", "^cascade 1.*act and update from Python", 0, MICRO),
    "from Python, gibbs": of(ROUND, "measured", "^position-based 1, gibbs, act and update", 0, MICRO),
    "posterior": of(SIZES, "time", "^posterior.*1,000 × 10", 1),
    "per session": of(SIZES, "time", "^update_many, cascade", 1, MICRO),
    "long log": of(SIZES, "time", "^update_many, user browsing", 1),
    "act, eligible": lambda s: listed_times(s.tables.column(SIZES, "time", "^act.* 10,000 items"), MICRO),
    "act, 100,000 items": lambda s: listed_times(s.tables.column(SIZES, "time", "^act.*100,000 items"), MILLI, 1),
    "first call": of(COMPILE, "both", "", 0),
    "first call, from disk": of(COMPILE, "both, from disk", "", 1),
    "memory": of(ROUND, "measured", "1,000,000 rounds, growth", 1),
    "literal, apart": lambda s: power_of_ten(s.tables.column(LITERAL, "difference")),
    **{
        f"literal, {problem}, {actions}": of(LITERAL, "ratio 2", f"^{problem}.*{actions}")
        for problem in ("cascade", "position-based")
        for actions in ("own", "random")
    },
    "plain": raw(PLAIN, "rounds per second", library="simulate"),
    "plain, called": raw(PLAIN, "rounds per second", library="update"),
    **{f"plain, {name}": of(PLAIN, "simulate", f"^{name}") for name in ("river", "MABWiser", "PyBandits")},
}
