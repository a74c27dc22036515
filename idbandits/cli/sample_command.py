"""Command `sample`: a simulated log of random actions."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import numpy as np

from idbandits.cli.arguments import read_contexts, read_diagram, read_means
from idbandits.cli.command import say
from idbandits.cli.diagram_commands import print_problem
from idbandits.cli.log_arguments import check_folders
from idbandits.errors import IdbanditsError, brief
from idbandits.files import write_whole
from idbandits.logs.read.read_report import LogError
from idbandits.simulation.world import World

if TYPE_CHECKING:  # imported where it is used, because that takes long
    import pandas

TRIES = 1000  # to draw an action that breaks no constraint


def sample(arguments: Namespace) -> None:
    """Write a simulated log of random actions."""
    import pandas

    d, out = read_diagram(arguments.file), arguments.out
    kind = out.suffix.lower().removeprefix(".")
    if kind not in ("parquet", "csv", "jsonl"):
        raise LogError(f"--out must end with .parquet, .csv or .jsonl, got {brief(str(out))}")
    check_folders(out)
    means, drawn = read_means(d, arguments.means, arguments.seed)
    world = World(d, means | drawn, arguments.seed, contexts=read_contexts(d, arguments.contexts))
    rng, rows = np.random.default_rng([arguments.seed, 1]), list[dict[str, Any]]()
    for _ in range(arguments.rounds):
        choices = world.model.feasibility.random_action(rng, {}, TRIES)
        if choices is None:
            raise IdbanditsError(f"diagram {d.name!r} has too few feasible actions to draw one at random")
        outcome = world.step(world.model.action_of(choices))
        rows.append(outcome.context | world.model.action_of(choices) | outcome.observation)
    frame = pandas.DataFrame(rows)
    mixed = [name for name in frame.columns if len({type(value) for value in frame[name]}) > 1]
    frame = frame.astype(dict.fromkeys(mixed, str))
    content = frame.to_parquet(index=False) if kind == "parquet" else _text(frame, kind)
    write_whole(out, content)
    print_problem(d, drawn, arguments.seed)
    say(f"wrote {out}: {len(frame):,} rounds")


def _text(frame: pandas.DataFrame, kind: str) -> bytes:
    text = frame.to_csv(index=False) if kind == "csv" else frame.to_json(orient="records", lines=True)
    return str(text).encode("utf-8")
