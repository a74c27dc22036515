"""Options of commands as data: functions that add an option to a parser. Help must not import slow libraries."""

from argparse import BooleanOptionalAction
from functools import partial
from operator import methodcaller

from idbandits.cli.command import file_path, integer
from idbandits.simulation.workers import MOST_ROUNDS, MOST_RUNS, MOST_WORKERS

MEANS_HELP = """
MEANS is name=numbers (attraction=0.1,0.4; the rows of a larger table in order, or nested JSON lists), a JSON object
('{"attraction": [0.1, 0.4]}'), a file of such an object, or random, which draws all other means from the prior.
"""
LOG_HELP = """
LOG is a path or a quoted glob of Parquet, CSV or JSON-lines files with a column per node, or the URL of a database
(with --query). With --engine spark://…, LOG is a path that all workers can read; with the URL of a database, LOG is a
table or a query. --format long reads one row per shown item. Rows that do not fit the diagram are skipped and counted.
"""

option = partial(methodcaller, "add_argument")  # a function that adds this option to its argument, a parser
FILE = option("file", metavar="FILE", help="diagram as JSON; - for the standard input")
MEANS = option("--means", action="append", default=[], metavar="MEANS", help="true means, see above (repeatable)")
SEED = option("--seed", type=integer(0), default=0, metavar="N", help="seed of all random numbers (default: 0)")
ROUNDS = partial(option, "--rounds", type=integer(1, MOST_ROUNDS), metavar="N")
RUNS = partial(option, "--runs", type=integer(1, MOST_RUNS), metavar="N")
WORKERS = option("--workers", type=integer(1, MOST_WORKERS), metavar="N", help="parallel workers (default: all cores)")
OUT = partial(option, "--out", type=file_path, metavar="DIR")
OUT_FILE = partial(option, "--out", type=file_path, metavar="FILE")
QUIET = option("--no-progress", action="store_true", help="do not show progress")
CONTEXTS = option("--contexts", metavar="JSON", help="probabilities of contexts, or a file of them (default: equal)")
# equal to simulate_command.described_default(), as a test checks: help must not import Numba
DEFAULT_LEARNER = "gibbs; moments if a context has features"
LEARNER = option("--learner", action="append", metavar="NAME[:SETTINGS]",
                 help=f"learner, see idbandits learners (repeatable; default: {DEFAULT_LEARNER})")  # fmt: skip

# -- service -------------------------------------------------------------------------------------------------------

NAME = option("name", metavar="NAME", help="experiment")
STORE = option("--store", metavar="URL",
               help="journal: sqlite:///FILE or postgresql://… (default: variable IDBANDITS_STORE)")  # fmt: skip

# -- logs ----------------------------------------------------------------------------------------------------------

LOG = option("log", nargs="+", metavar="LOG", help="log, see above")
INFERENCE = option("--inference", metavar="NAME[:SETTINGS]",
                   help=f"inference, see idbandits learners (default: {DEFAULT_LEARNER})")  # fmt: skip
FOLDS = partial(option, "--folds", type=integer(1, 1000), metavar="N")
READING = (
    option("--engine", default="duckdb", metavar="ENGINE",
           help="duckdb, spark://HOST:PORT, or the URL of a database: postgresql://…, sqlite:///…, duckdb:///…"),
    option("--query", metavar="SQL", help="query that selects the log, if LOG is the URL of a database"),
    option("--format", choices=("long", "ubi", "pyclick"),
           help="rows are shown items, UBI events of OpenSearch or PyClick sessions (default: a column per node)"),
    option("--column", action="append", default=[], metavar="NODE=COLUMN",
           help="column of a node, if it is not called as the node (repeatable)"),
    option("--session", metavar="COLUMN",
           help="sessions, which standard errors and splits keep whole; with --format long also what a round is"),
    option("--position", metavar="COLUMN", help="position of an item, for --format long"),
    option("--first", type=integer(0), metavar="N",
           help="number of the top position (default: 0 if it occurs, else 1)"),
    option("--item", action="append", default=[], metavar="COLUMN",
           help="item, for --format long; several columns joined (query,doc), or DECISIONS=COLUMN (repeatable)"),
    option("--observed", action="append", default=[], metavar="NODES=COLUMN",
           help="C=click reads C1, C2, … from column click; an action with --format ubi (repeatable)"),
    option("--context", action="append", default=[], metavar="NODE=COLUMN",
           help="column of a context, for --format long, ubi and pyclick (repeatable)"),
    option("--queries", metavar="FILE", help="the index ubi_queries, for --format ubi; LOG is ubi_events"),
    option("--pairs", action=BooleanOptionalAction, default=None,
           help="items are pairs of query and document (default: only with --format pyclick)"),
    option("--cluster", metavar="COLUMN", help="clusters of standard errors (default: sessions)"),
    option("--items-from-log", action="store_true", help="decisions choose among the items that the log has"),
    option("--weight", metavar="COLUMN", help="number of equal rounds that a row stands for"),
    option("--at", metavar="COLUMN", help="time of a round"),
    option("--invalid", choices=("skip", "error"), default="skip",
           help="skip and count rows that do not fit the diagram, or stop at the first (default: skip)"),
    option("--preview", type=integer(1, MOST_ROUNDS), metavar="N",
           help="read N rounds first, and warn if all factors will not fit into memory"),
    option("--page", type=file_path, metavar="FILE", help="write an HTML page with tables and plots"),
    QUIET,
)  # fmt: skip
