"""Turn a search log into rankings: choose a click model, fit it, and export documents by query.

Without --log, a small log of simulated users is used. Files may be text of PyClick or Yandex (--format pyclick), events
of OpenSearch UBI (ubi), or tables with a row per shown document in CSV, Parquet or JSON lines (long; name the columns).
Prints what was skipped, the comparison of click models and a test of fit, and writes a CSV file with the columns query,
rank, document, attraction, low, high (90 % interval) and rounds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import idbandits as idb

ANCHOR = {"examination": {0: 1.0}}  # of the first position: attraction is that of documents shown there
MODELS: dict[str, Callable[..., idb.Diagram]] = {
    "position-based": partial(idb.models.position_based, fixed=ANCHOR),
    "user browsing": partial(idb.models.user_browsing, fixed=ANCHOR),
    "dependent click": idb.models.dependent_click,
    "cascade": idb.models.cascade,
}


def simulated(folder: str, sessions: int, positions: int, seed: int = 0) -> str:
    """Write a log in the format of PyClick: five queries with ten documents each."""
    rng, lines = np.random.default_rng(seed), list[str]()
    examination = 0.75 ** np.arange(positions)
    attraction = rng.beta(1.5, 3, (5, 10))
    for _ in range(sessions):
        query = int(rng.integers(5))
        order = np.argsort(-attraction[query] + rng.normal(0, 0.3, 10))[:positions]  # a ranker that makes errors
        clicks = rng.random(len(order)) < examination[: len(order)] * attraction[query, order]
        shown, clicked = (",".join(f"d{k}" for k in own) for own in (order, order[clicks]))
        lines.append(f"query {query}\t{shown}:{clicked};")
    path = Path(folder) / "sessions.txt"
    path.write_text("\n".join(lines))
    return str(path)


def log_format(options: argparse.Namespace) -> Any:
    """Return the format of the log."""
    if options.format == "long":
        item = [options.query, options.document]
        return idb.Long(session=options.session, position=options.position, item=item, observed={"C": options.click})
    return idb.formats.PyClick() if options.format == "pyclick" else idb.formats.UBI(pairs=True)


def export(agent: idb.Thompson, path: str) -> pd.DataFrame:
    """Write the documents of each query by attraction."""
    table = agent.posterior()["attraction"].to_frame().rename(columns={"5 %": "low", "95 %": "high"})
    table[["query", "document"]] = table["row"].str.split("|", n=1, expand=True)
    table = table.dropna(subset="document")  # the empty slot has none
    table = table.sort_values(["query", "mean"], ascending=[True, False]).rename(columns={"mean": "attraction"})
    table["rank"] = table.groupby("query").cumcount() + 1
    columns = ["query", "rank", "document", "attraction", "low", "high", "rounds"]
    table[columns].to_csv(path, index=False, float_format="%.4g")
    return table[columns]


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and the log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", help="file, folder or pattern such as 'logs/*.parquet'")
    parser.add_argument("--format", choices=["pyclick", "ubi", "long"], default="pyclick", help="(%(default)s)")
    for name in ("session", "query", "document", "position", "click"):
        parser.add_argument(f"--{name}", default=name, metavar="COLUMN", help="column of a long log (%(default)s)")
    parser.add_argument("--positions", type=int, default=6, help="of the result page (%(default)s)")
    parser.add_argument("--sessions", type=int, default=4000, help="of the simulated log (%(default)s)")
    parser.add_argument("--out", default="ranking.csv", help="file for the rankings (%(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or simulated(folder, options.sessions, options.positions)
        reading: dict[str, Any] = {"format": log_format(options), "items": "from log"}

        def model(name: str) -> Callable[[Any], idb.Diagram]:
            pooled = ["attraction"]  # most documents have few sessions: they share a prior
            return lambda items: MODELS[name](items, options.positions, empty=True, pooled=pooled)

        print(idb.count(model("position-based"), log, **reading).report)
        comparison = idb.compare({name: model(name) for name in MODELS}, log, folds=3, **reading)
        columns = ["model", "log_likelihood", "difference", "difference_se", "perplexity", "impossible", "parameters"]
        print(comparison.verdict, comparison.frame[columns].round(4).to_string(index=False), sep="\n")
        candidates = [name for name in comparison.frame["model"] if name in MODELS]  # the best first
        agent = idb.fit(model(candidates[0]), log, seed=0, **reading)
    print(f"Fit of {candidates[0]!r}: {agent.fit_report()}")
    ranking = export(agent, options.out)
    print(f"{options.out}: {len(ranking):,} documents of {ranking['query'].nunique():,} queries; the first are")
    print(ranking.head(6).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
