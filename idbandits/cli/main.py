"""The commands of `idbandits` as data: a new one is an entry here, and a function, imported when it is chosen."""

import sys
from collections.abc import Sequence
from functools import partial
from operator import methodcaller
from pathlib import Path

from idbandits.cli.command import Command, file_path, run, whole_number
from idbandits.simulation.workers import MOST_ROUNDS, MOST_RUNS, MOST_WORKERS

DESCRIPTION = """
Structured bandits: declare a decision problem as an influence diagram, and learn online to act well in it.

A diagram is a JSON file: of a ready model (idbandits models), or of your own (Diagram.save in Python). draw, check,
solve, compile and simulate take such a file, or - for the standard input. idbandits COMMAND --help explains each,
with an example.
"""
EXAMPLE = """
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.svg
idbandits check cascade.json
idbandits solve cascade.json --means attraction=0.1,0.4,0.2,0.3
idbandits simulate cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --runs 4
"""
MEANS_HELP = """
MEANS are given as name=numbers (attraction=0.1,0.4; the rows of a larger table one after the other, or nested lists
as in JSON), as JSON ('{"attraction": [0.1, 0.4]}'), or as a file of such JSON. Repeat --means for several tables;
--means random draws those that are not given from the prior, by --seed.
"""

option = partial(methodcaller, "add_argument")  # adds itself to the parser that it is called with
FILE = option("file", metavar="FILE", help="a diagram as JSON, or - for the standard input")
MEANS = option("--means", action="append", default=[], metavar="MEANS", help="see above; repeat for each table")
SEED = option("--seed", type=whole_number(0), default=0, metavar="N", help="of everything random (0)")
ROUNDS = partial(option, "--rounds", type=whole_number(1, MOST_ROUNDS), metavar="N")
RUNS = partial(option, "--runs", type=whole_number(1, MOST_RUNS), metavar="N")
WORKERS = option("--workers", type=whole_number(1, MOST_WORKERS), metavar="N", help="threads (one per core)")
OUT = partial(option, "--out", type=file_path, metavar="DIR")
# as simulate.described_default() says: a test compares them, because help must not wait for the import of Numba
DEFAULT_LEARNER = "gibbs; moments if a context has features"
LEARNER = option("--learner", action="append", metavar="NAME[:SETTINGS]",
                 help=f"repeat it for several ({DEFAULT_LEARNER})")  # fmt: skip

COMMANDS = (
    Command(
        "paper", "reproduce the paper's evaluation", run="paper_command:paper",
        options=(
            option("--figure", action="append", metavar="KEY",
                   help="2, 2a, …, 3, …, 'table 1', B1, …, theory; repeat it for several (all)"),
            RUNS(help="of each learner (20; with --quick 4)"),
            ROUNDS(help="of each run (20000; with --quick 2000)"), SEED, WORKERS,
            option("--cluster", metavar="ADDRESS", help="run on the workers of this Dask scheduler"),
            OUT(default=Path("report"), help="a folder for the report (report)"),
            option("--quick", action="store_true", help="few short runs, to see that everything works"),
            option("--no-progress", action="store_true", help="show no progress"),
        ),
        description="""
Reproduces the experiments of the paper: Figure 2 (six problems), Figure 3 (particle filters), Table 1 (run times),
and beyond it Figures B1 (better inference), B2 (more baselines), B3 (variants) and the regret bound. Writes figures
(PNG, SVG), results.parquet, summary.csv and index.html, which puts everything beside what the paper says.

Finished runs are kept in runs.sqlite in the same folder: a second start goes on from them. Runs of other settings or
of another version of the library are not used again. Results do not depend on --workers, --cluster or interruptions.
""",
        example="""
idbandits paper --quick --figure 2a --out quick
idbandits paper --quick --figure 2a --figure "table 1" --out quick
idbandits paper --quick --figure 3 --runs 2 --seed 7 --workers 2 --out seven
""",
    ),
    Command(
        "theory", "compare the Bayes regret with the bound", run="paper_command:theory",
        options=(
            RUNS(help="of each setting (20)"), ROUNDS(help="the largest number of rounds (10000)"), SEED, WORKERS,
            OUT(help="a folder for theory.csv, theory.png and theory.svg"),
        ),
        description="""
Measures the Bayes regret of exact idTS, in which the truth of every run is drawn from the prior, in the semi-bandit
and in the cascade model, for more rounds n, more items L and longer lists K, and puts it beside the bound of
Theorem 1 with the constants of its proof, and beside the square root of n. With --out, also draws it.
""",
        example="""
idbandits theory --runs 4 --rounds 500
idbandits theory --runs 4 --rounds 500 --out theory
""",
    ),
    Command(
        "models", "list the ready models, or write the diagram of one as JSON", run="diagram_commands:models",
        options=(
            option("model", nargs="?", metavar="NAME", help="the model whose diagram is written (none: list them)"),
            option("options", nargs="...", metavar="OPTIONS", help="its options; see idbandits models NAME --help"),
        ),
        description="""
Lists the ready models; with the name of one, writes its diagram as JSON, to the standard output or a file. The
options are the arguments of the model's function in Python: idbandits models NAME --help shows them.
""",
        example="""
idbandits models
idbandits models cascade --items 20 --positions 2 --out cascade.json
idbandits models position_based --items news,sport,music --positions 2 --no-distinct --out list.json
idbandits models rank1 --rows 8 --columns 10 | idbandits draw - --out rank1.svg
""",
    ),
    Command(
        "draw", "draw a diagram", run="diagram_commands:draw",
        options=(FILE, option("--out", type=file_path, metavar="FILE",
                              help="write to this file (else Mermaid text to the output)")),
        description="""
Draws a diagram: decisions red, latent nodes gray, observed nodes blue, each learned table in its own colour. The
suffix of the file says how: .svg, .png, .pdf, or .mmd for Mermaid text, which is also printed if no file is named.
""",
        example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.png
idbandits models cascade --items 5 --positions 2 | idbandits draw - --out cascade.svg
""",
    ),
    Command(
        "check", "say what cannot be learned in a diagram, and how large it is", run="diagram_commands:check",
        options=(FILE,),
        description="""
Checks a diagram, and prints what it finds in plain words, with what to do; serious findings come first, marked by !.
It finds rewards that depend on what nothing observed reveals, tables that are known only up to a factor, rows that
nothing observed depends on, latent states that are interchangeable, and sizes of the circuits and of the search.
""",
        example="""
idbandits models position_based --items 10 --positions 3 --out list.json
idbandits check list.json
idbandits models dependent_click --items 5 --positions 3 --reward satisfaction | idbandits check -
""",
    ),
    Command(
        "solve", "find the best action under given means", run="diagram_commands:solve",
        options=(
            FILE, MEANS, SEED,
            option("--context", action="append", default=[], metavar="NODE=VALUE",
                   help="the value of a context node; repeat it for each, or give JSON"),
            option("--effort", type=float, default=1.0, metavar="X", help="a factor on the search allowed (1)"),
            option("--json", action="store_true", help="print JSON"),
        ),
        description=f"""
Finds the action with the highest expected reward if the learned tables have these means, and says whether it is
proven to be the best; if not, what no action exceeds.
{MEANS_HELP}""",
        example="""
idbandits models position_based --items news,sport,music --positions 2 --out list.json
idbandits solve list.json --means attraction=0.1,0.4,0.2 --means examination=0.9,0.5
idbandits solve list.json --means random --seed 3 --json
""",
    ),
    Command(
        "compile", "compile all that learners in a diagram need, before it is needed",
        run="compile_command:compile_learners",
        options=(
            FILE, LEARNER,
            option("--workers", type=whole_number(1, MOST_WORKERS), metavar="N", help="processes (one per core)"),
        ),
        description="""
Compiles all machine code that agents with this diagram may need, in several processes at once, and keeps it on disk: in
the image of a container, say, so that no request waits for a compiler. idbandits learners lists the learners. The code
is kept beside the sources of the library, or in the folder that the environment variable NUMBA_CACHE_DIR names; it is
for this processor, and for this version of the library.
""",
        example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits compile cascade.json --learner gibbs
""",
    ),
    Command(
        "learners", "list the learners that can be simulated", run="simulate_command:learners", options=(),
        description="""
Lists the learners that idbandits simulate knows: Thompson sampling with each of the inferences, the same with all
latent nodes revealed (full), and the baselines; with their settings, which are given after a colon.
""",
        example="idbandits learners",
    ),
    Command(
        "simulate", "let learners act in a world with given means, and compare them",
        run="simulate_command:simulate",
        options=(
            FILE, MEANS, SEED, LEARNER,
            ROUNDS(default=20_000, help="of each run (20000)"), RUNS(default=20, help="of each learner (20)"), WORKERS,
            option("--contexts", metavar="JSON", help="probabilities of context values, or a file of them (equal)"),
            OUT(help="a folder for results, summary, means and figures"),
            option("--no-progress", action="store_true", help="show no progress (only terminals show it anyway)"),
        ),
        description=f"""
Lets each learner act for many runs in a world of this diagram whose true means are given. Prints the average reward
per round and the total regret (by how much it fell short of always taking the best action), with standard errors over
the runs. idbandits learners lists the learners. Ctrl-C keeps the runs that have finished.
{MEANS_HELP}""",
        example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits simulate cascade.json --means attraction=0.1,0.2,0.3,0.6,0.7 --rounds 500 --runs 4
idbandits simulate cascade.json --means random --learner full --learner variational:sweeps=5 --runs 4 --out results
""",
    ),
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status: 0, 2 after a mistake, 1 after a failure, 130 after an interruption."""
    return run(sys.argv[1:] if argv is None else argv, DESCRIPTION, EXAMPLE, COMMANDS)
