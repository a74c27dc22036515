"""Logs with one row per shown item, turned into one row per session by DuckDB, which spills to disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, final

from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.embedded_engine import quoted
from idbandits.logs.read.log_source import Chunk, Source
from idbandits.logs.read.read_report import ReadReport

MOST_POSITION = 1_000_000_000  # number of a position in a log
RARE = 0.5  # share of sessions below which a position 0 may be wrong rows instead of the top one
JOINT = "|"  # between the parts of labels that are made of several columns
SESSION = "(session)"
NO_SESSION, NO_POSITION, CONFLICT, UNSTABLE = "(no session)", "(no position)", "(conflict)", "(unstable)"
DUPLICATES, GAPS, BEYOND, LOST = "(duplicates)", "(gaps)", "(beyond)", "(lost)"
FLAGS = {
    NO_SESSION: "the session is missing",
    NO_POSITION: "a position is missing or not an integer >= 0",
    CONFLICT: "two rows of one position have different values",
    UNSTABLE: "a column that must be constant has different values in one session",
}


class Pivot(NamedTuple):
    """Columns of a long log, and those of the wide log that is made of it."""

    session: tuple[str, ...]  # columns whose values together name a session
    position: str
    values: Sequence[tuple[str, ...]]  # values of a row: columns, whose texts are joined if there are several
    cells: Mapping[str, tuple[int, int]]  # by column of the wide log: number among `values`, position from 1
    constants: Mapping[str, str]  # by column of the wide log: column that is constant in each session
    firsts: Mapping[str, str]  # by column of the wide log: column that is read in the first row of each session
    first: int | None  # number of the top position in the log; None: 0 if it occurs, else 1

    @property
    def positions(self) -> int:
        """Number of positions that are read."""
        return max((position for _, position in self.cells.values()), default=0)

    @property
    def needed(self) -> list[str]:
        """Columns of the long log."""
        joined = [name for own in self.values for name in own]
        named = [*self.session, self.position, *joined, *self.constants.values(), *self.firsts.values()]
        return list(dict.fromkeys(named))

    @property
    def notes(self) -> dict[str, str]:
        """Columns of the wide log that are added up for the report, and their texts."""
        return {
            DUPLICATES: "duplicate rows, of which one was read",
            GAPS: "positions that are missing above others of the list",
            BEYOND: f"rows at positions beyond the {self.positions} of the diagram, which were ignored",
            LOST: "rows without a session",
        }


@final
class LongSource:
    """Source with one row per session, in the order in which sessions begin in the log."""

    untyped = False

    def __init__(self, source: Source, pivot: Pivot) -> None:
        self._source, self._pivot = source, pivot
        self.name, self._loaded = f"{source.name} by session", ReadReport(source.name)
        self.names = [SESSION, *pivot.cells, *pivot.constants, *pivot.firsts, *FLAGS, *pivot.notes]

    def count(self) -> int | None:
        """Return None: sessions must be counted."""
        return None

    @cached_property
    def _opened(self) -> tuple[Any, str, int]:
        """Connection, SQL table of the long log, and number of its top position."""
        connection = engine.connect()
        table, first = self._source.table(connection, self._pivot.needed, self._loaded), self._pivot.first
        if first is None:
            lowest = f"SELECT min({_number(self._pivot.position)}) FROM {table}"
            first = 0 if engine.rows_of(connection, lowest, self._files)[0][0] == 0 else 1
            if first == 0:
                self._note_rare_zeros(connection, table)
        return connection, table, first

    def _note_rare_zeros(self, connection: Any, table: str) -> None:
        """Add a note to the report if position 0, which was taken as the top one, occurs in few sessions."""
        session = f"({joined_columns(self._pivot.session)})"
        by_session = (
            f"SELECT coalesce(bool_or({_number(self._pivot.position)} = 0), false) AS zero FROM {table} "
            f"WHERE {session} IS NOT NULL GROUP BY {session}"
        )
        query = f"SELECT count(*) FILTER (WHERE zero), count(*) FROM ({by_session})"
        zeros, sessions = engine.rows_of(connection, query, self._files)[0]
        if zeros < RARE * sessions:
            text = f"position 0 occurs in {zeros:,} of {sessions:,} sessions and was read as the top one"
            self._loaded.note(f"{text}; first=1 or first=0 of the format decides", 1, doubtful=True)

    @property
    def _files(self) -> list[str]:
        return [self._source.name]

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of sessions."""
        (connection, table, first), row = self._opened, 0
        selected = ", ".join(map(quoted, columns)) or "1"
        query = f"SELECT {selected} FROM ({pivot_query(self._pivot, table, first)}) ORDER BY {quoted('(first)')}"
        for batch in engine.stream(connection.cursor(), query, rows, self._files):
            yield Chunk(batch, self.name, row)
            row += batch.num_rows
        if note := getattr(self._source, "note", None):
            note(connection, report)
        report.add(self._loaded)

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Return the SQL table of sessions."""
        table = self._source.table(connection, self._pivot.needed)
        return f"({pivot_query(self._pivot, table, self._opened[2])})"


def joined_columns(columns: Sequence[str]) -> str:
    """Return the SQL of the value of some columns: itself, or texts joined by `JOINT`; null if one of them is."""
    if len(columns) == 1:
        return quoted(columns[0])
    return f" || {engine.literal(JOINT)} || ".join(f"{quoted(name)}::VARCHAR" for name in columns)


def _number(column: str) -> str:
    """Return the SQL of an integer >= 0; null for everything else."""
    own = f"TRY_CAST({quoted(column)} AS DOUBLE)"
    return f"CASE WHEN {own} = floor({own}) AND {own} BETWEEN 0 AND {MOST_POSITION} THEN {own}::INTEGER END"


def pivot_query(pivot: Pivot, table: str, first: int) -> str:
    """Return the SQL that groups rows by session and position, then by session."""
    values = {f"v{i}": joined_columns(own) for i, own in enumerate(pivot.values)}
    constants = {f"c{i}": quoted(own) for i, own in enumerate(pivot.constants.values())}
    firsts = {f"f{i}": quoted(own) for i, own in enumerate(pivot.firsts.values())}
    read = "".join(f", {own} AS {name}" for name, own in (values | constants | firsts).items())
    shown = (
        f"SELECT row_number() OVER () - 1 AS n, {joined_columns(pivot.session)} AS s, "
        f"({_number(pivot.position)}) - {first - 1} AS p{read} FROM {table}"
    )
    limits = "".join(f", min({name}) AS {name}, max({name}) AS {name}_high" for name in values | constants)
    early = "".join(f", arg_min({name}, n) AS {name}" for name in firsts)
    places = f"SELECT s, p, min(n) AS n, count(*) AS number{limits}{early} FROM shown GROUP BY s, p"
    inside = f"p BETWEEN 1 AND {pivot.positions}"
    differ = " OR ".join(f"{name} <> {name}_high" for name in values) or "false"
    unstable = " OR ".join(f"min({name}) <> max({name}_high)" for name in constants) or "false"
    columns = {
        "(first)": "min(n)",
        SESSION: "s",
        NO_SESSION: "s IS NULL",
        NO_POSITION: "bool_or(p IS NULL OR p < 1)",
        CONFLICT: f"coalesce(bool_or(({differ}) AND {inside}), false)",
        UNSTABLE: f"coalesce({unstable}, false)",
        DUPLICATES: f"coalesce(sum(number - 1) FILTER (WHERE {inside}), 0)::DOUBLE",
        GAPS: f"greatest(least(coalesce(max(p), 0), {pivot.positions}) - count(*) FILTER (WHERE {inside}), 0)::DOUBLE",
        BEYOND: f"coalesce(sum(number) FILTER (WHERE p > {pivot.positions}), 0)::DOUBLE",
        LOST: "(CASE WHEN s IS NULL THEN sum(number) ELSE 0 END)::DOUBLE",
    }
    columns |= {name: f"min(v{i}) FILTER (WHERE p = {position})" for name, (i, position) in pivot.cells.items()}
    columns |= {name: f"min(c{i})" for i, name in enumerate(pivot.constants)}
    columns |= {name: f"arg_min(f{i}, n)" for i, name in enumerate(pivot.firsts)}
    selected = ", ".join(f"{own} AS {quoted(name)}" for name, own in columns.items())
    return f"WITH shown AS ({shown}), places AS ({places}) SELECT {selected} FROM places GROUP BY s"
