"""Counts of logs, and agents that are trained on logs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from idbandits.agent.counts.counts import Counts
from idbandits.agent.encoding.encode import Batch
from idbandits.agent.thompson import Thompson
from idbandits.diagram.diagram import Diagram
from idbandits.errors import LogWarning
from idbandits.inference import Forget
from idbandits.inference.forgetting import forgetting
from idbandits.kernel.array_types import Floats
from idbandits.logs.count import count_batches
from idbandits.logs.engines.group_rounds import grouped
from idbandits.logs.read.encoder import Encoder
from idbandits.logs.read.open_log import LogOptions, OpenLog, checked_options, open_log, side_columns
from idbandits.logs.read.read_check import check_any_read, checked_batches, warn_of_impossible, warn_of_skipped
from idbandits.logs.read.read_report import LogError
from idbandits.logs.read.sources import is_spark
from idbandits.logs.rounds import Rounds

FEW_USES = 30  # of a row: with fewer, rows that are alike should be pooled
MANY_ROWS = 20  # of a table, from which on pooling helps
MOST_MEMORY = 0.5  # of what is free, for the factors of a log


def count(d: Any, log: Any, *, forget: Any = None, threads: int = 0, **options: Any) -> Counts:
    """Count certain uses of table entries, and factors, in the rounds of a log, on all cores.

    Counts are additive: sum those of days or machines, and learn them with `Thompson.learn`.

    Parameters
    ----------
    d : Diagram or function
        Decision problem; or a function that returns it for a list of the items of the log, with `items="from log"`.
    log : path, data frame, table, URL or mapping
        Path or glob of Parquet, CSV or JSON-lines files, a data frame, an Arrow table, reader or dataset, a DuckDB
        relation, a database URL (with `query=`), an Ibis table, a Spark data frame, or arrays of n values by node.
    forget : Forget, optional
        Half-life of the weights of rounds, by their times (`at=`).
    threads : int
        Number of threads; 0 for one per core.
    **options
        Reading of the log: `format` (`idb.Long` or a reader of `idb.formats`; by default, one column per node),
        `columns` (names of columns by node, where they differ), `query` (SQL), `items="from log"`, `weight` (column:
        number of equal rounds that a row stands for), `at` (column of times), `session` (column), `extra` (further
        columns), `preview` (number of rounds that are read first, to warn if all factors will not fit into memory),
        `progress` (show a progress bar), and `invalid` ("skip", or "error" to raise for invalid rows).

    Returns
    -------
    Counts
        Counts, with a report of rows that were read and skipped.

    Examples
    --------
    >>> import idbandits as idb
    >>> counts = idb.count(idb.models.cascade(["tea", "milk"], 1), {"A1": ["tea", "milk", "tea"], "C1": [1, 0, 0]})
    >>> counts
    Counts('cascade': 3 rounds, 0 factors)
    >>> counts.uses["attraction"].tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    >>> print(counts.report)
    arrays: 3 rounds read, 0 skipped
    """
    fading = forgetting(forget)
    if fading is not None and options.get("at") is None:
        raise LogError("at must be a column of times if counts fade (forget=), got None")
    if is_spark(log):
        return _counted_by_spark(d, log, fading, options)
    opened = _opened(d, log, options)
    counts = count_batches(opened.diagram, opened.batches(), fading, threads)
    counts.report = opened.report
    return counts


def fit(
    d: Any, log: Any, inference: Any = None, *, seed: Any = None, forget: Any = None, **options: Any
) -> Thompson:  # fmt: skip
    """Return an agent that is trained on a log.

    The log is counted (`idb.count`), and the counts are learned. Rounds are learned one by one, in the order of the
    log, if contexts have features, with `forget` in rounds, with particles, with exact inference of latent nodes, and
    for several diagrams.

    Parameters
    ----------
    d : Diagram, function, or list or mapping of Diagram
        Decision problem, as in `idb.count`; or structures, as in `idb.Thompson`.
    log : path, data frame, table, URL or mapping
        Log, as in `idb.count`.
    inference, seed, forget
        As in `idb.Thompson`.
    **options
        Reading of the log, as in `idb.count`.

    Returns
    -------
    Thompson
        Trained agent.

    Examples
    --------
    >>> import idbandits as idb
    >>> agent = idb.fit(idb.models.cascade(["tea", "milk"], 1), {"A1": ["tea", "milk", "tea"], "C1": [1, 0, 0]}, seed=0)
    >>> agent.posterior()["attraction"].mean.round(2).tolist()
    [0.5, 0.33]
    """
    first = d if isinstance(d, Diagram) or callable(d) else next(iter(d.values() if hasattr(d, "values") else d))
    if is_spark(log):
        counts = count(d, log, forget=forget, **options)
        check_any_read(counts.report)
        agent = Thompson(counts.diagram, inference, seed=seed, forget=forget)
        agent.learn(counts)
        warn_of_impossible(counts.report, counts.impossible, counts.rounds, stacklevel=2)
        warn_of_skipped(counts.report, stacklevel=2)
        return agent
    opened = _opened(first, log, options)
    agent = Thompson(opened.diagram if first is d else d, inference, seed=seed, forget=forget)
    if agent.learns_counts:
        counts = count_batches(opened.diagram, checked_batches(opened), agent.learner.forget)
        counts.report = opened.report
        agent.learn(counts)
        advise_pooling(agent, counts)
        impossible, learned = counts.impossible, counts.rounds
    else:
        impossible, learned = learn_rounds(agent, checked_batches(opened)), 0
    warn_of_impossible(opened.report, impossible, learned, stacklevel=2)
    warn_of_skipped(opened.report, stacklevel=2)
    return agent


def fit_rounds(d: Any, rounds: Rounds, inference: Any = None, seed: Any = None) -> Thompson:
    """Return an agent that is trained on encoded rounds; impossible ones are skipped."""
    agent, size = Thompson(d, inference, seed=seed), 20_000
    parts = (rounds.part(slice(k, k + size)) for k in range(0, len(rounds), size))
    if agent.learns_counts:
        agent.learn(count_batches(d, parts))
    else:
        learn_rounds(agent, parts)
    return agent


def learn_rounds(agent: Thompson, batches: Iterable[Rounds]) -> int:
    """Learn batches of encoded rounds in their order, without those that lack a decision or are impossible.

    Return the number of impossible rounds.
    """
    impossible = 0
    for rounds in batches:
        if len(rounds.weights) and (rounds.weights != 1.0).any():
            raise LogError("weight must be None where rounds are learned one by one; see idb.fit")
        rounds = rounds.part((rounds.choices >= 0).all(axis=1))
        columns = [np.ascontiguousarray(own) for own in np.hstack([rounds.choices, rounds.seen]).T]
        batch = Batch(0, columns, np.arange(len(rounds)), rounds.features)
        impossible += len(agent.update_encoded([batch], _times(rounds.times), skips=True).impossible)
    return impossible


def _times(seconds: Floats) -> Any:
    """Return times as an agent takes them."""
    return None if not len(seconds) else (seconds * 1e6).astype("datetime64[us]")


def _opened(d: Any, log: Any, options: dict[str, Any]) -> OpenLog:
    """Open a log, with equal rounds grouped where an engine can do that, and warn if its factors are too many."""
    settings = checked_options(LogOptions(), options)
    opened = open_log(d, log, settings)
    if settings.preview is not None:
        _warn_of_memory(opened)
    return grouped(opened, log, settings)


def _counted_by_spark(d: Any, log: Any, forget: Forget | None, options: dict[str, Any]) -> Counts:
    from idbandits.logs.engines.spark_count import NAME, count_frame

    settings = checked_options(LogOptions(), options)
    if settings.format is not None or settings.items is not None or not isinstance(d, Diagram):
        raise LogError(
            "a Spark data frame must have one column per node, and the diagram its items; group rows in Spark first"
        )
    return count_frame(Encoder(d, log.columns, settings.columns, side_columns(settings), NAME), log, forget)


def _warn_of_memory(opened: OpenLog) -> None:
    """Read a sample of a log, and warn if the factors of all rounds will not fit into memory."""
    rounds, total = opened.preview(), opened.total()
    if total is None or not len(rounds) or any(node.features is not None for node in opened.model.contexts):
        return
    half, whole = (count_batches(opened.diagram, [part]) for part in (rounds.part(slice(0, len(rounds) // 2)), rounds))
    if not half.factors:
        return
    growth = float(np.clip(np.log2(whole.factors / half.factors), 0.0, 1.0))
    factors = whole.factors * max(1.0, total / len(rounds)) ** growth
    needed = factors * sum(own.nbytes for own in whole.content.tally) / max(1, whole.factors)
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > MOST_MEMORY * free:
            warnings.warn(
                f"the log will have about {factors:.2g} different factors, which take {needed / 1e9:.1f} GB, and "
                f"{free / 1e9:.1f} GB are free: count a part of the log, or use a model with fewer factors",
                LogWarning, stacklevel=4,
            )  # fmt: skip


def advise_pooling(agent: Thompson, counts: Counts) -> None:
    """Warn if rows have few rounds each, so that a common prior of all rows would help."""
    factors = counts.content.tally.columns()
    is_argument = np.ones(len(factors[2]), np.bool_)
    is_argument[factors[0][:-1]] = False
    sizes = np.diff(factors[0]) - 1
    uses = counts.content.uses + np.bincount(
        factors[2][is_argument], np.repeat(factors[1], sizes), minlength=len(counts.content.uses)
    )
    first = 0
    for table in agent.learner.model.learned.values():
        own = uses[first : first + table.size].reshape(-1, table.states)
        first += table.size
        rows = own.sum(axis=1)
        if table.logistic is not None or table.features is not None or (rows > 0).sum() < MANY_ROWS:
            continue
        rarest = float(np.median(own[rows > 0].min(axis=1)))
        if rarest < FEW_USES:
            warnings.warn(
                f"half of the rows of table {table.name!r} have at most {rarest:.0f} rounds in their rarer state; "
                f"Learned({table.name!r}, pooled=True) learns a common prior of all rows",
                LogWarning, stacklevel=3,
            )  # fmt: skip
