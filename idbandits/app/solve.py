"""`idbandits solve`: the best action under given means."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from idbandits.app.frame import Command, starting
from idbandits.app.options import MEANS_HELP, add_file, add_means, add_seed

if TYPE_CHECKING:
    from idbandits.kernel.types import Floats
    from idbandits.solve.best import Solution


def _add_options(parser: ArgumentParser) -> None:
    add_file(parser)
    add_means(parser)
    add_seed(parser)
    parser.add_argument("--context", action="append", default=[], metavar="NODE=VALUE",
                        help="the value of a context node; repeat it for each, or give JSON")  # fmt: skip
    parser.add_argument("--effort", type=float, default=1.0, metavar="X", help="a factor on the search allowed (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: Namespace) -> int:
    with starting():
        import numpy as np

        from idbandits.app.arguments import read_context, read_diagram, read_means
        from idbandits.solve.best import best_action

    d = read_diagram(arguments.file)
    given, drawn = read_means(d, arguments.means, arguments.seed)
    means = given | drawn
    context = read_context(d, arguments.context)
    solution = best_action(d, means, context, effort=arguments.effort)
    if arguments.json:
        asked = {"means": {name: np.asarray(means[name]).tolist() for name in d.learned}, "context": context or {}}
        print(json.dumps({**solution._asdict(), **asked}, indent=1))
    else:
        print(repr(d))
        print_drawn(drawn, arguments.seed)
        print_solution(solution)
    return 0


def print_drawn(means: Mapping[str, Floats], seed: int) -> None:
    """Print means that were drawn from the prior."""
    import numpy as np

    if means:
        print(f"means drawn from the prior with seed {seed}:")
    for name, numbers in means.items():
        text = np.array2string(numbers, precision=4, threshold=50, edgeitems=4, max_line_width=100, prefix="    ")
        print(f"  {name} ({' x '.join(map(str, numbers.shape))}):\n    {text}")


def print_solution(solution: Solution) -> None:
    """Print the best action, what it earns, and whether it is proven to be the best."""
    proof = "proven to be the best" if solution.exact else f"not proven: no action exceeds {solution.bound:.6g}"
    print(f"best action: {', '.join(f'{name} = {value}' for name, value in solution.action.items())}")
    print(f"expected reward: {solution.value:.6g}, {proof}")


COMMAND = Command(
    name="solve",
    summary="find the best action under given means",
    description=f"""
Finds the action with the highest expected reward if the learned tables have these means, and says whether it is
proven to be the best; if not, what no action exceeds.
{MEANS_HELP}""",
    example="""
idbandits models position_based --items news,sport,music --positions 2 --out list.json
idbandits solve list.json --means attraction=0.1,0.4,0.2 --means examination=0.9,0.5
idbandits solve list.json --means random --seed 3 --json
""",
    add_options=_add_options,
    run=_run,
)
