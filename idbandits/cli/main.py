"""Commands of `idbandits` as data; the functions behind them are imported when a command runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

from idbandits.cli.command import Command, file_path, integer, run

from idbandits.cli.options import (  # isort: skip
    CONTEXTS, FILE, FOLDS, INFERENCE, LEARNER, LOG, LOG_HELP, MEANS, MEANS_HELP, NAME, OUT, OUT_FILE, QUIET, READING,
    ROUNDS, RUNS, SEED, STORE, WORKERS, option,
)  # fmt: skip

DESCRIPTION = """
Structured bandits: declare a decision problem as an influence diagram, and learn online to act well in it.

Diagrams are JSON files, written by idbandits models or by Diagram.save in Python. The commands draw, check, solve,
compile and simulate read such a file, or the standard input if it is named -. The commands fit, score, compare and
evaluate read logs. See idbandits COMMAND --help.
"""
EXAMPLE = """
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.svg
idbandits check cascade.json
idbandits solve cascade.json --means attraction=0.1,0.4,0.2,0.3
idbandits simulate cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --runs 4
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --out log.parquet
idbandits fit cascade.json log.parquet --out agent.npz
"""
COMMANDS = (
    Command(
        "paper", "reproduce the evaluation of the paper", run="paper_command:paper",
        options=(
            option("--figure", action="append", metavar="KEY",
                   help="2, 2a, …, 3, …, 'table 1', B1, …, theory (repeatable; default: all)"),
            RUNS(help="runs of each learner (default: 20; with --quick 4)"),
            ROUNDS(help="rounds of each run (default: 20000; with --quick 2000)"), SEED, WORKERS,
            option("--cluster", metavar="ADDRESS", help="run on the workers of this Dask scheduler"),
            OUT(default=Path("report"), help="folder of the report (default: report)"),
            option("--quick", action="store_true", help="few and short runs, to test the command"), QUIET,
        ),
        description="""
Reproduces the experiments of the paper: Figure 2 (six problems), Figure 3 (particle filters), Table 1 (run times);
and beyond the paper Figures B1 (better inference), B2 (more baselines), B3 (variants) and the regret bound. Writes
figures (PNG, SVG), results.parquet, summary.csv and index.html, which compares everything with the paper.

Finished runs are stored in runs.sqlite in the same folder, and the next start continues from them. Runs of other
settings or library versions are not reused. Results do not depend on --workers, --cluster or interruptions.
""",
        example="""
idbandits paper --quick --figure 2a --out quick
idbandits paper --quick --figure 2a --figure "table 1" --out quick
idbandits paper --quick --figure 3 --runs 2 --seed 7 --workers 2 --out seven
""",
    ),
    Command(
        "theory", "compare the Bayes regret with its bound", run="paper_command:theory",
        options=(
            RUNS(help="runs of each setting (default: 20)"), ROUNDS(help="largest number of rounds (default: 10000)"),
            SEED, WORKERS, OUT(help="folder for theory.csv, theory.png and theory.svg"),
        ),
        description="""
Measures the Bayes regret of exact idTS in the semi-bandit and in the cascade model, for more rounds n, more items L
and longer lists K, and compares it with the bound of Theorem 1, with the constants of its proof. The true means of
every run are drawn from the prior.
""",
        example="""
idbandits theory --runs 4 --rounds 500
idbandits theory --runs 4 --rounds 500 --out theory
""",
    ),
    Command(
        "models", "list the ready models, or write the diagram of one as JSON", run="diagram_commands:models",
        options=(
            option("model", nargs="?", metavar="NAME", help="model to write (default: list all)"),
            option("options", nargs="...", metavar="OPTIONS", help="options of the model"),
        ),
        description="""
Lists the ready models, or writes the diagram of one as JSON, to the standard output or to a file. Its options are the
arguments of the model's function in Python: see idbandits models NAME --help.
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
                              help="output file (default: Mermaid text to the standard output)")),
        description="""
Draws a diagram: decisions red, latent nodes gray, observed nodes blue, each learned table in its own colour. The
suffix of the output file is the format: .svg, .png, .pdf, or .mmd for Mermaid text.
""",
        example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.png
idbandits models cascade --items 5 --positions 2 | idbandits draw - --out cascade.svg
""",
    ),
    Command(
        "check", "report tables that cannot be learned, and sizes", run="diagram_commands:check", options=(FILE,),
        description="""
Checks a diagram and prints the findings with advice, serious ones first and marked by !: rewards that depend on
unidentified tables, tables that are known only up to a factor, rows that nothing observed depends on, interchangeable
latent states, and the sizes of the circuits and of the search.
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
                   help="value of a context node, or a JSON object by node (repeatable)"),
            option("--effort", type=float, default=1.0, metavar="X", help="factor of the search budget (default: 1)"),
            option("--json", action="store_true", help="print JSON"),
        ),
        description=f"""
Finds the action with the highest expected reward if the learned tables have these means, and prints whether it is
proven optimal, or else an upper bound on the reward of all actions.
{MEANS_HELP}""",
        example="""
idbandits models position_based --items news,sport,music --positions 2 --out list.json
idbandits solve list.json --means attraction=0.1,0.4,0.2 --means examination=0.9,0.5
idbandits solve list.json --means random --seed 3 --json
""",
    ),
    Command(
        "compile", "compile the kernels of learners in advance", run="simulate_command:compile_learners",
        options=(
            FILE, LEARNER, WORKERS,
            option("--native", action="store_true", help="compile for this processor, also what the package contains"),
        ),
        description="""
Compiles all kernels that agents with this diagram may need in parallel processes, and stores them on disk, such as in
the image of a container. The machine code is stored beside the sources of the library, or in the folder of the
environment variable NUMBA_CACHE_DIR; it is valid for this processor and this version of the library. Wheels contain
machine code for common processors, which is not compiled again without --native. Native code is used before it.
""",
        example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits compile cascade.json --learner gibbs
""",
    ),
    Command(
        "learners", "list the learners that can be simulated", run="simulate_command:learners", options=(),
        description="""
Lists the learners of idbandits simulate with their settings, which are passed after a colon: Thompson sampling with
each of the inferences, exact inference with all latent nodes revealed (full), and the baselines.
""",
        example="idbandits learners",
    ),
    Command(
        "simulate", "compare learners in a world with given means", run="simulate_command:simulate",
        options=(
            FILE, MEANS, SEED, LEARNER,
            ROUNDS(default=20_000, help="rounds of each run (default: 20000)"),
            RUNS(default=20, help="runs of each learner (default: 20)"), WORKERS,
            CONTEXTS, OUT(help="folder for results, summary, means and figures"), QUIET,
        ),
        description=f"""
Simulates learners in a world with this diagram and true means. Prints the average reward per round and the total
regret (the shortfall from the best action) with standard errors over runs. Ctrl-C keeps finished runs.
{MEANS_HELP}""",
        example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits simulate cascade.json --means attraction=0.1,0.2,0.3,0.6,0.7 --rounds 500 --runs 4
idbandits simulate cascade.json --means random --learner full --learner variational:sweeps=5 --runs 4 --out results
""",
    ),
    Command(
        "sample", "write a simulated log of random actions", run="sample_command:sample",
        options=(FILE, MEANS, SEED, ROUNDS(default=10_000, help="rounds of the log (default: 10000)"), CONTEXTS,
                 OUT_FILE(required=True, help="log: .parquet, .csv or .jsonl")),
        description=f"""
Simulates rounds in a world with this diagram and true means, with actions drawn at random, and writes a log with a
column per node: to try the commands fit, score, compare and evaluate.
{MEANS_HELP}""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --out log.parquet
""",
    ),
    Command(
        "fit", "train an agent on a log", run="log_commands:fit",
        options=(FILE, LOG, INFERENCE, SEED, OUT_FILE(help="file of the trained agent, such as agent.npz"), *READING),
        description=f"""
Trains an agent on a log, prints the means that it learned with 90 % intervals, and whether the structure of the diagram
fits the log; in Python, idb.fit.
{LOG_HELP}""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --out log.parquet
idbandits fit cascade.json log.parquet --out agent.npz --page fit.html
""",
    ),
    Command(
        "score", "score an agent on a log that it has not learned from", run="log_commands:score",
        options=(
            option("model", metavar="AGENT", help="agent, as idbandits fit --out writes it; or a diagram"), LOG,
            option("--train", metavar="LOG", help="log to fit a diagram to first (default: its prior is scored)"),
            INFERENCE, SEED,
            option("--predictive", choices=("plug-in", "posterior"), default="plug-in",
                   help="predict by the mean of the belief, or average over draws of it (default: plug-in)"),
            option("--draws", type=integer(1, 100_000), default=100, metavar="N",
                   help="draws for --predictive posterior (default: 100)"),
            option("--labels", metavar="FILE", help="relevance of items, for nDCG: a table with columns item, grade"),
            *READING,
        ),
        description=f"""
Scores an agent on a log: log-likelihood per round, perplexity and conditional perplexity of each observed node with
standard errors clustered by session; in Python, idb.score.
{LOG_HELP}""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --out log.parquet
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --seed 1 --out test.csv
idbandits fit cascade.json log.parquet --out agent.npz
idbandits score agent.npz test.csv --page score.html
idbandits score cascade.json test.csv --train log.parquet --predictive posterior
""",
    ),
    Command(
        "compare", "compare diagrams on held-out rounds of a log", run="log_commands:compare",
        options=(
            option("diagrams", nargs="+", metavar="DIAGRAM", help="diagrams as JSON"),
            option("log", metavar="LOG", help="log, see above"),
            FOLDS(default=5, help="parts of the log (default: 5)"),
            option("--by", choices=("session", "time"), default="session",
                   help="predict each part by all others, or by those before it (default: session)"),
            INFERENCE, SEED, OUT_FILE(help="file of the best model, trained on the whole log"), *READING,
        ),
        description=f"""
Compares diagrams by how well they predict rounds of a log that they were not fitted to, and says which one is best or
that this is undecided. A saturated table and the popularity of items are included; in Python, idb.compare.
{LOG_HELP}""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits models position_based --items news,sport,music,film --positions 2 --out position.json
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --out log.parquet
idbandits compare cascade.json position.json log.parquet --folds 2 --page compare.html
""",
    ),
    Command(
        "evaluate", "estimate the value of a policy from a log of another one", run="log_commands:evaluate",
        options=(
            option("model", metavar="DIAGRAM", help="diagram as JSON, or an agent, which is then the policy"), LOG,
            option("--policy", metavar="POLICY",
                   help="action as JSON, file of an agent, table of contexts and actions (.csv, .parquet), or columns "
                        "of the log: of actions, or of probabilities of the logged ones (a,b or NODE=a,NODE=b)"),
            option("--propensity", metavar="COLUMNS",
                   help="probabilities of the logged actions: a column, a column per decision (a,b or NODE=a,NODE=b), "
                        "uniform, or estimated (default: unknown, estimates depend on the diagram)"),
            option("--learning", action="store_true", help="an agent learns by replay of the log"),
            option("--clip", type=float, metavar="X", help="limit of clipped weights (default: chosen by the log)"),
            FOLDS(default=2, help="parts of the sessions for cross-fitting (default: 2)"), SEED, *READING,
        ),
        description=f"""
Estimates the reward per round that a policy would have earned, by several estimators with 95 % intervals, and says
whether the estimate can be trusted and whether the policy is better than the log; in Python, idb.evaluate.
{LOG_HELP}""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits sample cascade.json --means attraction=0.1,0.4,0.2,0.3 --rounds 2000 --out log.parquet
idbandits evaluate cascade.json log.parquet --policy '{"A1": "sport", "A2": "film"}' --propensity uniform
""",
    ),
    Command(
        "serve", "serve experiments over HTTP", run="serve_command:serve",
        options=(
            STORE,
            option("--host", default="127.0.0.1", metavar="HOST",
                   help="address to listen on (default: 127.0.0.1; others need a token)"),
            option("--port", type=integer(0, 65535), default=8080, metavar="N", help="port (default: 8080; 0: any)"),
            option("--workers", type=integer(1, 256), default=2, metavar="N", help="processes (default: 2)"),
            option("--cors", metavar="ORIGIN", help="origin of pages that may call the service (default: none)"),
            option("--access-log", action="store_true", help="log every request"),
        ),
        description="""
Serves experiments over HTTP: decisions, outcomes, what was learned, a dashboard (/dashboard) and its OpenAPI document
(/openapi.json). Kernels are compiled before the workers start. Without tokens, the service listens on this machine
only. SIGTERM and Ctrl-C end it after the requests that are under way.

--store is sqlite:///FILE or postgresql://USER@HOST/NAME; by default, the environment variable IDBANDITS_STORE.
""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits put shop cascade.json --store sqlite:///shop.db --horizon 30m
idbandits serve --store sqlite:///shop.db --port 8080
""",
    ),
    Command(
        "put", "create an experiment of a service, or add a version", run="journal_commands:put",
        options=(
            NAME, FILE, STORE,
            option("--horizon", metavar="AGE", help="age at which a round is complete (default: 30m)"),
            option("--holdout", type=float, metavar="X", help="share of decisions by the baseline (default: 0)"),
            option("--settings", metavar="JSON", help="further settings as a JSON object, as in the HTTP interface"),
        ),
        description="""
Creates an experiment in the journal of a service, which may be running, or adds a version that keeps what was learned.
Nothing changes if diagram and settings are those of the latest version.
""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits put shop cascade.json --store sqlite:///shop.db --horizon 30m --holdout 0.05
""",
    ),
    Command(
        "token", "create, list or revoke access tokens of a service", run="serve_command:token",
        options=(
            option("verb", choices=("create", "list", "revoke"), help="what to do"),
            option("name", nargs="?", metavar="NAME", help="name of the token"),
            option("--scope", action="append", choices=("decide", "report", "read", "admin"),
                   help="what the token allows (repeatable; default: decide and report; admin includes all)"),
            STORE,
        ),
        description="""
Creates, lists or revokes access tokens. A new token is printed once; the store has only its digest. As soon as there
is a token, every request needs one: Authorization: Bearer TOKEN.
""",
        example="""
idbandits token create web --scope decide --scope report --store sqlite:///shop.db
idbandits token list --store sqlite:///shop.db
idbandits token revoke web --store sqlite:///shop.db
""",
    ),
    Command(
        "export", "write the decisions and observations of a service as a log", run="journal_commands:export",
        options=(
            NAME, OUT_FILE(required=True, help="log: .parquet"), STORE,
            option("--propensity", type=integer(1, 100_000), metavar="DRAWS",
                   help="add a column propensity, computed by DRAWS draws for each decision (slow)"),
        ),
        description="""
Writes the closed rounds of an experiment as Parquet, with a column for each context, decision and observed node, and
the columns id, version, arm, unit, at, shown, learns and reward: a log for idbandits fit, compare and evaluate.
""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits put shop cascade.json --store sqlite:///shop.db
idbandits export shop --store sqlite:///shop.db --out log.parquet
""",
    ),
    Command(
        "replay", "rebuild an agent from the journal and compare it", run="journal_commands:replay",
        options=(
            NAME, STORE, option("--diagram", metavar="FILE", help="another diagram, which learns the same rounds"),
            OUT_FILE(help="file of the rebuilt agent, such as agent.npz"),
        ),
        description="""
Rebuilds the agent of an experiment from the first step of its journal, without snapshots, and compares its belief with
that of the latest snapshot. With --diagram, an agent with another diagram learns the same rounds, and those that do
not fit it are counted. The exit status is 1 if the beliefs differ.
""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits put shop cascade.json --store sqlite:///shop.db
idbandits replay shop --store sqlite:///shop.db
""",
    ),
    Command(
        "backup", "write a consistent copy of a journal to a file", run="journal_commands:backup",
        options=(option("file", type=file_path, metavar="FILE", help="new file"), STORE),
        description="""
Writes a consistent copy of a journal to a new file while the service runs. The file is a journal in SQLite, for stores
of both kinds, and can be opened as sqlite:///FILE.
""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits put shop cascade.json --store sqlite:///shop.db
idbandits backup shop.backup --store sqlite:///shop.db
""",
    ),
    Command(
        "restore", "copy a backup into an empty store", run="journal_commands:restore",
        options=(option("file", type=file_path, metavar="FILE", help="backup"), STORE),
        description="""
Copies a backup into an empty store of either kind, before the service starts: also to move from SQLite to PostgreSQL
or back.
""",
        example="""
idbandits models cascade --items news,sport,music,film --positions 2 --out cascade.json
idbandits put shop cascade.json --store sqlite:///shop.db
idbandits backup shop.backup --store sqlite:///shop.db
idbandits restore shop.backup --store sqlite:///other.db
""",
    ),
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0; 2 for invalid input, 1 for a failure, 130 for an interruption."""
    return run(sys.argv[1:] if argv is None else argv, DESCRIPTION, EXAMPLE, COMMANDS)
