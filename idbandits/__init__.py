"""Structured bandits: declare an influence diagram, and learn online to act well in it."""

from idbandits.command import starting

with starting():
    from idbandits import baselines, models, theory
    from idbandits.agent import Thompson
    from idbandits.ask import expected_reward, log_likelihood, posterior_of_latents
    from idbandits.compiled import compile
    from idbandits.diagram import Diagram
    from idbandits.inference import EP, Exact, Gibbs, Incremental, Moments, Particles, Variational
    from idbandits.results import Result
    from idbandits.simulate import simulate
    from idbandits.solve import Solution, best_action
    from idbandits.tables import Learned
    from idbandits.world import Outcome, World

__all__ = [
    "EP",
    "Diagram",
    "Exact",
    "Gibbs",
    "Incremental",
    "Learned",
    "Moments",
    "Outcome",
    "Particles",
    "Result",
    "Solution",
    "Thompson",
    "Variational",
    "World",
    "baselines",
    "best_action",
    "compile",
    "expected_reward",
    "log_likelihood",
    "models",
    "posterior_of_latents",
    "simulate",
    "theory",
]
