"""Structured bandits: declare an influence diagram, and learn online to act well in it."""

from idbandits import models
from idbandits.ask import expected_reward, log_likelihood, posterior_of_latents
from idbandits.compiled import compile
from idbandits.diagram import Diagram
from idbandits.solve import Solution, best_action
from idbandits.tables import Learned

__all__ = [
    "Diagram",
    "Learned",
    "Solution",
    "best_action",
    "compile",
    "expected_reward",
    "log_likelihood",
    "models",
    "posterior_of_latents",
]
