"""Commands `fit`, `score`, `compare` and `evaluate`: agents, diagrams and policies judged by logs."""

from __future__ import annotations

import re
import shlex
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import idbandits
from idbandits.agent.counts.counts import Counts
from idbandits.agent.thompson import Thompson
from idbandits.cli import learned_rows
from idbandits.cli.arguments import read_diagram
from idbandits.cli.command import say
from idbandits.cli.log_page import Page, Section, reading_section, rendered_page
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError
from idbandits.files import write_whole
from idbandits.logs import compare as comparing
from idbandits.logs import fit_log as fitting
from idbandits.logs import score as scoring
from idbandits.logs.evaluate import policy_value as evaluating
from idbandits.logs.evaluate.evaluation import ABOUT
from idbandits.logs.read.open_log import open_log
from idbandits.logs.read.read_check import check_any_read, checked_batches, warn_of_impossible, warn_of_skipped

from idbandits.cli.log_arguments import (  # isort: skip
    check_folders, is_agent, opened, read_diagrams, read_inference, read_policy, read_table,
)  # fmt: skip

ON_TERMINAL, ON_PAGE = 10, 30  # rows of a learned table
MOST_PLOTS = 20  # of learned tables
HIDDEN = ("run", "page", "no_progress")  # arguments that results do not depend on
PLACES = ("file", "model", "diagrams", "log")  # arguments without a name
USER = re.compile(r"//[^/@\s]*@")  # of a URL, with the password


def fit(arguments: Namespace) -> None:
    """Train an agent on a log."""
    d, inference = read_diagram(arguments.file), read_inference(arguments.inference)
    check_folders(arguments.out, arguments.page)
    with _recorded() as messages, opened(arguments, counts=True) as (log, options):
        agent, counts, report = _trained(d, log, inference, arguments.seed, options)
    if arguments.out is not None:
        agent.save(arguments.out)
        say(f"wrote {arguments.out}")
    posteriors = agent.posterior()
    verdict = _structure(agent)
    skipped = _impossible(counts)
    about = f"{agent.rounds:,} rounds learned" + "".join(f"; {line}" for line in skipped)
    if arguments.page is not None:
        learned = learned_rows.learned_rows(posteriors, ON_PAGE)
        sections = [
            Section(own.title, "", own.frame, own.plot() if number < MOST_PLOTS else None)
            for number, own in enumerate(learned)
        ]
        checked = [] if verdict is None else [Section("Fit of the structure", repr(verdict), None, _plot_of(verdict))]
        first = "" if verdict is None else repr(verdict).splitlines()[0].removesuffix(":")
        _write_page(
            arguments, f"Diagram {d.name!r}, fitted to a log", f"{about}.\n{first}".strip(), [*sections, *checked],
            report, messages,
        )  # fmt: skip
    print(repr(agent))
    print(f"{about}.")
    for own in learned_rows.learned_rows(posteriors, ON_TERMINAL):
        print(f"\n{own.title}")
        print(
            own.frame.to_string(
                index=False, max_colwidth=60, float_format="{:.4g}".format, formatters={"rounds": "{:,.0f}".format}
            )
        )
    if verdict is not None:
        print(f"\n{verdict!r}")
    _print_report(arguments, report)


def _trained(
    d: Diagram, log: Any, inference: Any, seed: int, options: dict[str, Any]
) -> tuple[Thompson, Counts | None, Any]:
    """Return an agent that is trained as `idb.fit` does, with the counts, if there are any, and the report."""
    agent = Thompson(d, inference, seed=seed)
    if not agent.learns_counts:
        read = open_log(d, log, **options)
        if read.diagram is not d:
            agent = Thompson(read.diagram, inference, seed=seed)
        impossible = fitting.learn_rounds(agent, checked_batches(read))
        warn_of_impossible(read.report, impossible, 0, stacklevel=1)
        warn_of_skipped(read.report, stacklevel=1)
        return agent, None, read.report
    counts = fitting.count(d, log, **options)
    check_any_read(counts.report)
    warn_of_impossible(counts.report, counts.impossible, counts.rounds, stacklevel=1)
    warn_of_skipped(counts.report, stacklevel=1)
    if counts.diagram != d:
        agent = Thompson(counts.diagram, inference, seed=seed)
    agent.learn(counts)
    fitting.advise_pooling(agent, counts)
    return agent, counts, counts.report


def _impossible(counts: Counts | None) -> list[str]:
    """Return what was read but could not be learned from."""
    if counts is None:
        return []
    own, lines = counts.skipped, list[str]()
    if own.impossible:
        lines.append(f"{own.impossible:,} are impossible in this diagram")
    if own.missing:
        lines.append(f"{own.missing:,} depend on a choice that is missing")
    return [*lines, *(f"such as {example}" for example in own.examples[:1])]


def _structure(agent: Thompson) -> Any:
    """Return the fit report of an agent.

    It is None where contexts have features, where weights are fractions, and where rounds were counted elsewhere, so
    that there is no sample of all rounds.
    """
    if any(node.features is not None for node in agent.diagram.of_kind("context")):
        return None
    report = agent.fit_report()
    return report if report.rounds == agent.rounds else None


def _plot_of(report: Any) -> Any:
    """Return the plot of a fit report, None if it has no comparisons."""
    return report.plot() if len(report.frame) else None


def score(arguments: Namespace) -> None:
    """Score an agent on a log."""
    if is_agent(arguments.model):
        if arguments.train is not None or arguments.inference is not None:
            raise IdbanditsError("--train and --inference must not be given with an agent, which is trained")
        agent = Thompson.load(arguments.model, seed=arguments.seed)
    else:
        agent = Thompson(read_diagram(arguments.model), read_inference(arguments.inference), seed=arguments.seed)
    labels = None if arguments.labels is None else read_table(arguments.labels)
    check_folders(arguments.page)
    with _recorded() as messages:
        if arguments.train is not None:
            with opened(Namespace(**{**vars(arguments), "log": [arguments.train]}), counts=True) as (log, options):
                agent, _, _ = _trained(agent.diagram, log, agent.inference, arguments.seed, options)
        elif not agent.rounds:
            say("warning: the agent has learned nothing: its prior is scored; --train LOG fits it first")
        with opened(arguments) as (log, options):
            options = options | ({"items": None} if arguments.train is not None else {})
            result = scoring.score(
                agent, log, predictive=arguments.predictive, draws=arguments.draws, labels=labels, **options
            )
    head, table = repr(result).splitlines(), result.frame
    first = next((i for i, line in enumerate(head) if line.split()[:1] == ["node"]), len(head))
    caption = (
        "Perplexity is 1 for certain predictions and 2 for coin flips; the conditional one is given the nodes above."
    )
    sections = [Section("Perplexity by node", "", table, result.plot(), caption)]
    _write_page(
        arguments, f"Score of {result.name!r} on a log", "\n".join(head[:first]), sections, result.report, messages
    )
    print(repr(result))
    _print_report(arguments, result.report)


def compare(arguments: Namespace) -> None:
    """Compare diagrams on held-out rounds of a log."""
    diagrams, inference = read_diagrams(arguments.diagrams), read_inference(arguments.inference)
    check_folders(arguments.out, arguments.page)
    with _recorded() as messages, opened(arguments) as (log, options):
        read = open_log(next(iter(diagrams.values())), log, **options)
        rounds = read.all()
        check_any_read(read.report)
        warn_of_skipped(read.report, stacklevel=1)
        if options["items"] is not None:
            diagrams = {name: open_log(d, log, **options).diagram for name, d in diagrams.items()}
        result = comparing.compare(
            diagrams, rounds, folds=arguments.folds, by=arguments.by, inference=inference, seed=arguments.seed
        )
    if arguments.out is not None:
        result.agent.save(arguments.out)
        say(f"wrote {arguments.out}")
    best = str(result.frame["model"].iloc[0])
    caption = "Differences of the held-out log-likelihood per round to the first model; ± is one standard error."
    sections = [Section("Models, the best first", caption, result.frame, result.plot())]
    if result.fit_report is not None:
        text = repr(result.fit_report)
        sections.append(Section(f"Fit of {best!r} to the whole log", text, None, _plot_of(result.fit_report)))
    title = f"Comparison of {', '.join(map(repr, diagrams))}"
    _write_page(arguments, title, result.verdict, sections, read.report, messages)
    print(repr(result))
    _print_report(arguments, read.report)


def evaluate(arguments: Namespace) -> None:
    """Estimate the value of a policy from a log."""
    agent = Thompson.load(arguments.model, seed=arguments.seed) if is_agent(arguments.model) else None
    d = read_diagram(arguments.model) if agent is None else agent.diagram
    if arguments.policy is None and agent is None:
        raise IdbanditsError("--policy must be given with a diagram: an action as JSON, a file, or columns of the log")
    policy = agent if arguments.policy is None else read_policy(arguments.policy, d, arguments.seed)
    propensity = None if arguments.propensity is None else read_policy(arguments.propensity, d, arguments.seed)
    check_folders(arguments.page)
    with _recorded() as messages, opened(arguments) as (log, options):
        result = evaluating.evaluate(
            policy, log, d, propensity=propensity, seed=arguments.seed, learning=arguments.learning,
            clip=arguments.clip, folds=arguments.folds, **options,
        )  # fmt: skip
    frame = result.frame.assign(about=[ABOUT.get(name, "") for name in result.frame["estimator"]])
    logged = f"The log itself earned {result.logged.value:.4g} per round."
    sections = [Section("Reward per round by estimator", f"Intervals are of 95 %. {logged}", frame, result.plot())]
    if len(result.diagnostics_frame):
        limits = result.clipping_frame.pivot(index="estimator", columns="limit", values="value")
        limits = limits.reindex(list(result.diagnostics)).reset_index()
        limits.columns = [limits.columns[0], *(f"at most {limit:g}" for limit in limits.columns[1:])]
        text = "Weights must be 1 on average; a Pareto k above 0.7 means a tail that is too heavy for their mean."
        sections += [
            Section("Importance weights", text, result.diagnostics_frame),
            Section("Sensitivity to clipping", "Estimates if weights are limited.", limits),
        ]
    heard = list(dict.fromkeys([*result.notes, *messages]))
    _write_page(arguments, f"Value of a policy in {d.name!r}", result.verdict, sections, result.report, heard)
    print(result)
    _print_report(arguments, result.report)


# -- output --------------------------------------------------------------------------------------------------------


@contextmanager
def _recorded() -> Iterator[list[str]]:
    """Yield a list that receives the texts of warnings, which are shown as before."""
    messages, show = list[str](), warnings.showwarning

    def record(message: Any, *details: Any, **settings: Any) -> None:
        messages.append(str(message))
        show(message, *details, **settings)

    with warnings.catch_warnings():
        warnings.showwarning = record
        yield messages


def _named(arguments: Namespace, report: Any) -> Any:
    """Name the log in a report, if it was read through a data frame of Spark."""
    if report is not None and arguments.engine.startswith("spark://"):
        logs = [arguments.log] if isinstance(arguments.log, str) else arguments.log
        report.source = f"{', '.join(logs)} on {arguments.engine}"
    return report


def _print_report(arguments: Namespace, report: Any) -> None:
    if report is not None:
        print(f"\n{_named(arguments, report)}")


def _write_page(
    arguments: Namespace, title: str, verdict: str, sections: Sequence[Section], report: Any, messages: Sequence[str]
) -> None:
    """Write the page, if one is wanted."""
    if arguments.page is None:
        return
    read = reading_section(_named(arguments, report))
    every = [*sections, *([] if read is None else [read])]
    page = Page(title, verdict, every, messages, _command_line(arguments), idbandits.__version__)
    write_whole(arguments.page, rendered_page(page))
    say(f"wrote {arguments.page}")


def _command_line(arguments: Namespace) -> str:
    """Return the command with the options that results depend on, without passwords."""
    words, own = ["idbandits", arguments.run.partition(":")[2]], vars(arguments)
    for name in PLACES:
        value = own.get(name, [])
        words += value if isinstance(value, list) else [value]
    for name, value in own.items():
        flag = f"--{name.replace('_', '-')}"
        if name in (*HIDDEN, *PLACES) or value is None or (name, value) in (("engine", "duckdb"), ("invalid", "skip")):
            continue
        if isinstance(value, bool):
            words += [flag] if value else ["--no-pairs"] if name == "pairs" else []
        else:
            words += [word for text in (value if isinstance(value, list) else [value]) for word in (flag, str(text))]
    return shlex.join(USER.sub("//", word) for word in words)
