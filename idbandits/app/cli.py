"""The command `idbandits`: ready models, pictures, best actions and simulations, from files and pipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from idbandits.app import draw, learners, models, paper, simulate, solve, theory
from idbandits.app.frame import parser_of, run

DESCRIPTION = """
Structured bandits: declare a decision problem as an influence diagram, and learn online to act well in it.

A diagram is a JSON file: of a ready model (idbandits models), or of your own (Diagram.save in Python). draw, solve
and simulate take such a file, or - for the standard input. idbandits COMMAND --help explains each, with an example.
"""
EXAMPLE = """
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.svg
idbandits solve cascade.json --means attraction=0.1,0.4,0.2,0.3
idbandits simulate cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --runs 4
"""
COMMANDS = (
    paper.COMMAND,
    theory.COMMAND,
    models.COMMAND,
    draw.COMMAND,
    solve.COMMAND,
    learners.COMMAND,
    simulate.COMMAND,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status: 0, 2 after a mistake, 1 after a failure, 130 after an interruption."""
    return run(sys.argv[1:] if argv is None else argv, parser_of("idbandits", DESCRIPTION, EXAMPLE), COMMANDS)
