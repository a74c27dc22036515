"""`idbandits theory`: the Bayes regret beside the bound of the paper's theorem; also a section of its report."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from idbandits.app.frame import Command, output_folder, say, starting
from idbandits.app.options import add_rounds, add_runs, add_seed, add_workers
from idbandits.files import write_whole

if TYPE_CHECKING:
    import pandas

Keep: TypeAlias = Callable[[Any, Callable[[], str]], str]  # as `keep` of `theory.study`

RUNS, ROUNDS = 20, 10_000
COLUMNS = ("model", "L", "K", "n", "Bayes regret", "bound", "bound / regret", "regret / √n", "O_max")


def _add_options(parser: ArgumentParser) -> None:
    add_runs(parser, RUNS, f"of each setting ({RUNS})")
    add_rounds(parser, ROUNDS, f"the largest number of rounds ({ROUNDS})")
    add_seed(parser)
    add_workers(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="a folder for theory.csv, theory.png and theory.svg")


def _run(arguments: Namespace) -> int:
    with starting():
        from idbandits import theory
        from idbandits.paper.report import rendered

    with output_folder(arguments.out):
        frame = _study(arguments.rounds, arguments.runs, arguments.seed, arguments.workers)
        print(frame.drop(columns="grows").to_string(index=False, float_format="{:,.3f}".format))
        if arguments.out is not None:
            files = {"theory.csv": frame.to_csv(index=False).encode()}
            files |= {f"theory.{suffix}": content for suffix, content in rendered(theory.plot(frame)).items()}
            for name, content in files.items():
                write_whole(arguments.out / name, content)
            say(f"wrote {', '.join(files)} to {arguments.out}")
    return 0


def _study(rounds: int, runs: int, seed: int, workers: int | None, keep: Keep | None = None) -> pandas.DataFrame:
    from idbandits import theory

    lengths = sorted({max(1, rounds * percent // 100) for percent in (1, 3, 10, 30, 100)})
    usual = max(1, rounds // 10), 10, 3
    return theory.study(lengths, usual=usual, runs=runs, seed=seed, workers=workers, keep=keep)


def report_section(keep: Keep, seed: int, quick: bool, workers: int | None) -> dict[str, Any]:
    """The section of the paper's report: its text, its picture, and the columns and rows of its table."""
    from idbandits import theory

    rounds, runs = (ROUNDS // 10, RUNS // 2) if quick else (ROUNDS, RUNS)
    frame = _study(rounds, runs, seed, workers, keep)
    rows = [
        [
            row["model"], row["items"], row["positions"], f"{row['rounds']:,}",
            f"{row['regret_mean']:,.1f} ± {row['regret_se']:,.1f}", f"{row['bound']:,.0f}",
            f"{row['bound'] / row['regret_mean']:,.0f}" if row["regret_mean"] > 0 else "–",
            f"{row['regret_mean'] / row['rounds'] ** 0.5:.3f}", f"{row['omax']:.4g}",
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    text = (
        f"Computed from the circuits of the diagrams (for 10 items and 3 positions, 8 rows and 10 columns): "
        f"{'; '.join(_assumptions())}. Where what a mean stands for is never de facto observed, the theorem says "
        f"nothing. The measured regret is the mean over {runs} truths drawn from the prior, ± one standard error."
    )
    return {"text": text, "picture": theory.plot(frame), "columns": COLUMNS, "rows": rows}


def _assumptions() -> list[str]:
    """Which assumptions of the theorem hold in which model."""
    from idbandits import models, theory

    diagrams = {
        "semi-bandit": models.semi_bandit(10, 3),
        "cascade model": models.cascade(10, 3),
        "position-based model": models.position_based(10, 3),
        "rank-1 bandit": models.rank1(8, 10),
    }
    sentences = []
    for name, d in diagrams.items():
        monotone, decomposed = theory.check_monotone(d), theory.check_decomposition(d)
        first = "holds" if monotone.holds else "fails"
        second = "fails" if math.isinf(decomposed.constant) else f"with C = {decomposed.constant:.3g}"
        how = "" if decomposed.proved and monotone.proved else " (by search)"
        sentences.append(f"{name}: Assumption 1 {first}, Assumption 2 {second}{how}")
    return sentences


COMMAND = Command(
    name="theory",
    summary="compare the Bayes regret with the bound",
    description="""
Measures the Bayes regret of exact idTS, in which the truth of every run is drawn from the prior, in the semi-bandit
and in the cascade model, for more rounds n, more items L and longer lists K, and puts it beside the bound of
Theorem 1 with the constants of its proof, and beside the square root of n. With --out, also draws it.
""",
    example="""
idbandits theory --runs 4 --rounds 500
idbandits theory --runs 4 --rounds 500 --out theory
""",
    add_options=_add_options,
    run=_run,
)
