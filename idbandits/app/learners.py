"""`idbandits learners`: list the learners that can be simulated."""

from __future__ import annotations

from argparse import Namespace

from idbandits.app.frame import Command, docstring, starting

REVEALED = "Every latent node is seen, with the exact posterior: the most that can be hoped for."


def _run(_: Namespace) -> int:
    with starting():
        from idbandits.app.arguments import learner_classes, learner_settings

    for name, learner in learner_classes().items():
        settings = ",".join(f"{key}={value}" for key, value in learner_settings(learner).items())
        text = REVEALED if name == "full" else docstring(learner).splitlines()[0]
        print(f"{name}{':' * bool(settings)}{settings}\n    {text}")
    return 0


COMMAND = Command(
    name="learners",
    summary="list the learners that can be simulated",
    description="""
Lists the learners that idbandits simulate knows: Thompson sampling with each of the inferences, the same with all
latent nodes revealed (full), and the baselines; with their settings, which are given after a colon.
""",
    example="idbandits learners",
    add_options=lambda parser: None,
    run=_run,
)
