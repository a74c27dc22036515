"""`idbandits compile`: all machine code that learners need, made before it is needed."""

import os
from argparse import Namespace
from typing import Any

from idbandits.agent.warmup import kernels_behind, warm_up
from idbandits.cli.arguments import read_diagram
from idbandits.cli.simulate_command import read_learners
from idbandits.inference import default_inference
from idbandits.kernel.compile import Kernel


def compile_learners(arguments: Namespace) -> None:
    """Compile all that learners in a diagram may need, and say what was done."""
    d = read_diagram(arguments.file)
    learners = read_learners(d, arguments.learner or [default_inference(d)])
    folders: set[str] = set()
    for name, learner in learners.items():
        kernels = _kernels_of(learner)
        warmth = warm_up(kernels, arguments.workers)
        compiled = f"compiled {warmth.new}" if warmth.new else "all were compiled before"
        print(f"{name}: {warmth.kernels} kernels, {compiled}; {warmth.seconds:.1f} s")
        folders |= {str(kernel.folder) for kernel in kernels if kernel.folder is not None}
    print(f"kept under {os.path.commonpath(folders)}" if folders else "nothing is kept: no folder may be written to")


def _kernels_of(learner: Any) -> list[Kernel]:
    """What a learner says that it needs; of a baseline, what it plays by and what its module calls."""
    if hasattr(learner, "kernels"):
        return list(learner.kernels)
    return list(dict.fromkeys([*learner.player.kernels, *kernels_behind(type(learner).__module__)]))
