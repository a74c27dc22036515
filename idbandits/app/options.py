"""Options that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress

from idbandits.errors import brief
from idbandits.simulation.workers import MOST_ROUNDS, MOST_RUNS, MOST_WORKERS

MEANS_HELP = """
MEANS are given as name=numbers (attraction=0.1,0.4; the rows of a larger table one after the other, or nested lists
as in JSON), as JSON ('{"attraction": [0.1, 0.4]}'), or as a file of such JSON. Repeat --means for several tables;
--means random draws those that are not given from the prior, by --seed.
"""


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type for argparse: a whole number in this range."""
    limits = f"from {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        with suppress(ValueError):
            if (value := int(text)) >= least and (most is None or value <= most):
                return value
        raise ArgumentTypeError(f"a whole number {limits} is needed, not {brief(text)}")

    return read


def add_file(parser: ArgumentParser) -> None:
    """The diagram, which `arguments.read_diagram` reads."""
    parser.add_argument("file", metavar="FILE", help="a diagram as JSON, or - for the standard input")


def add_means(parser: ArgumentParser) -> None:
    """The means, which `arguments.read_means` reads; `MEANS_HELP` explains them."""
    parser.add_argument(
        "--means", action="append", default=[], metavar="MEANS", help="see above; repeat for each table"
    )


def add_rounds(parser: ArgumentParser, default: int | None, text: str) -> None:
    """The number of rounds; `text` says of what."""
    parser.add_argument("--rounds", type=whole_number(1, MOST_ROUNDS), default=default, metavar="N", help=text)


def add_runs(parser: ArgumentParser, default: int | None, text: str) -> None:
    """The number of runs; `text` says of what."""
    parser.add_argument("--runs", type=whole_number(1, MOST_RUNS), default=default, metavar="N", help=text)


def add_seed(parser: ArgumentParser) -> None:
    """The seed."""
    parser.add_argument("--seed", type=whole_number(0), default=0, metavar="N", help="of everything random (0)")


def add_workers(parser: ArgumentParser) -> None:
    """The number of threads."""
    parser.add_argument("--workers", type=whole_number(1, MOST_WORKERS), metavar="N", help="threads (one per core)")
