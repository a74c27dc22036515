"""Command line of the fuzz tests: `python -m tests.fuzz calls --seed 17 --calls 100000 --minutes 10`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from . import processes


def main() -> int:
    """Run a fuzz test; return 0 if nothing was found."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="ATTACK")
    calls = commands.add_parser("calls", help="random calls with garbage among their arguments")
    calls.add_argument("--seed", type=int, default=0)
    calls.add_argument("--calls", type=int, default=10_000, help="how many (10000)")
    calls.add_argument("--minutes", type=float, help="end after so many minutes (never)")
    calls.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    calls.add_argument("--patience", type=float, default=60, help="seconds after which a call hangs (60)")
    calls.add_argument("--replay", type=int, metavar="CASE", help="run this case only, here, and show its calls")
    calls.add_argument("--json", type=Path, metavar="FILE", help="write the findings to a file, one per line")
    calls.set_defaults(run=run_calls)
    child = commands.add_parser("child")
    child.add_argument("--seed", type=int)
    child.add_argument("--cases", type=int, nargs=3)
    child.add_argument("--folder", type=Path)
    child.set_defaults(run=run_child)
    interruptions = commands.add_parser("interruptions", help="signals whose handlers raise exceptions")
    interruptions.add_argument("--processes", type=int, default=200, help="that get one Ctrl-C each (200)")
    interruptions.add_argument("--alarms", type=int, default=300, help="for each inference, in one process (300)")
    interruptions.add_argument("--seed", type=int, default=0)
    interruptions.set_defaults(run=run_interruptions)
    threads = commands.add_parser("threads", help="one agent in eight threads")
    threads.add_argument("inference", nargs="*", help="names of inferences (all)")
    threads.add_argument("--rounds", type=int, default=200, help="of each thread (200)")
    threads.add_argument("--seconds", type=float, help="of each of three attacks, instead of --rounds")
    threads.set_defaults(run=run_threads)
    lifetimes = commands.add_parser("lifetimes", help="lives of agents, compared with a ledger of surviving rounds")
    lifetimes.add_argument("--inference", action="append", default=[], help="name of an inference (all)")
    lifetimes.add_argument("--kind", action="append", default=[], help="sort of agent: plain, fixed, pooled, … (all)")
    lifetimes.add_argument("--without", action="append", default=[], help="leave out an operation: move, revise, …")
    lifetimes.add_argument("--steps", type=int, default=20_000, help="of each inference (20000)")
    lifetimes.add_argument("--seed", type=int, default=0)
    lifetimes.add_argument("--first", type=int, default=0, metavar="LIFE", help="begin with this life (0)")
    lifetimes.add_argument("--threads", action="store_true", help="pairs of calls at the same time, in two threads")
    lifetimes.set_defaults(run=run_lifetimes)
    logs = commands.add_parser("logs", help="malformed logs, and small files that expand to gigabytes")
    logs.add_argument("--cases", type=int, default=2_000, help="random logs (2000)")
    logs.add_argument("--first", type=int, default=0, metavar="CASE", help="begin with this case (0)")
    logs.add_argument("--bombs", type=int, default=2_000, metavar="MEGABYTES", help="size of each bomb; 0: none (2000)")
    logs.add_argument("--seed", type=int, default=0)
    logs.set_defaults(run=run_logs)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also end child processes
    status: int = arguments.run(arguments)
    return status


def run_calls(arguments: argparse.Namespace) -> int:
    """Run random calls."""
    if arguments.replay is not None:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        processes.run_cases(arguments.seed, iter([arguments.replay]), folder, print)
        path = folder / "findings"
        findings = [processes.Finding(**json.loads(line)) for line in path.read_text().splitlines()]
        shutil.rmtree(folder)
        for finding in findings:
            print(finding.details, finding, sep="\n")
        return bool(findings)
    cases = range(-(-arguments.calls // processes.CALLS))
    findings = processes.watch(
        arguments.seed,
        cases,
        arguments.workers,
        arguments.patience,
        arguments.minutes,
        lambda text: print(text, flush=True),
    )
    if arguments.json is not None:
        arguments.json.write_text("".join(json.dumps(asdict(finding)) + "\n" for finding in findings))
    sorts: dict[str, list[processes.Finding]] = {}
    for finding in sorted(findings, key=lambda f: len(f.text)):
        sorts.setdefault(finding.sort, []).append(finding)
    for alike in sorted(sorts.values(), key=lambda alike: alike[0].where):
        print(f"\n{len(alike)} x {alike[0]}")
    failures = sum(finding.is_failure for finding in findings)
    print(
        f"\n{len(cases) * processes.CALLS:,} calls, {failures} failures of {sum(a[0].is_failure for a in sorts.values())} sorts"
    )
    return bool(failures)


def run_child(arguments: argparse.Namespace) -> int:
    """Run some cases in this process."""
    processes.run_cases(
        arguments.seed, iter(range(arguments.cases[0], arguments.cases[1], arguments.cases[2])), arguments.folder
    )
    return 0


def run_interruptions(arguments: argparse.Namespace) -> int:
    """Run calls interrupted by signals."""
    from . import interruptions

    return interruptions.main(arguments.processes, arguments.alarms, arguments.seed)


def run_threads(arguments: argparse.Namespace) -> int:
    """Run calls in threads."""
    from . import threads

    return threads.main(arguments.inference, arguments.rounds, arguments.seconds)


def run_lifetimes(arguments: argparse.Namespace) -> int:
    """Run lifetimes."""
    from . import lifetimes

    given = arguments
    if given.threads:
        return lifetimes.main_in_threads(given.inference, given.kind, given.steps, given.seed)
    return lifetimes.main(given.inference, given.kind, given.without, given.steps, given.seed, given.first)


def run_logs(arguments: argparse.Namespace) -> int:
    """Read malformed logs."""
    from . import log_attacks

    return log_attacks.main(arguments.seed, arguments.cases, arguments.first, arguments.bombs)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets, and so a case, would differ between runs
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    sys.exit(main())
