"""Structured bandits: declare an influence diagram, and learn online to act well in it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from idbandits import baselines, errors, models, theory
    from idbandits.agent.thompson import Structures, Thompson
    from idbandits.circuit.model import compile
    from idbandits.circuit.queries import expected_reward, log_likelihood, posterior_of_latents
    from idbandits.diagram.delayed import delayed
    from idbandits.diagram.diagram import Diagram
    from idbandits.diagram.features.read_frame import Features
    from idbandits.diagram.tables import Learned
    from idbandits.inference import EP, Exact, Forget, Gibbs, Incremental, Moments, Particles, Variational
    from idbandits.simulation.results import Result
    from idbandits.simulation.simulate import simulate
    from idbandits.simulation.world import Outcome, World
    from idbandits.solve.solver import Solution, best_action

__all__ = [
    "EP", "Diagram", "Exact", "Features", "Forget", "Gibbs", "Incremental", "Learned", "Moments", "Outcome",
    "Particles", "Result", "Solution", "Structures", "Thompson", "Variational", "World", "baselines", "best_action",
    "compile", "delayed", "errors", "expected_reward", "log_likelihood", "models", "posterior_of_latents", "simulate",
    "theory",
]  # fmt: skip

_HOME = {  # the module of each name
    "Structures": "agent.thompson", "Thompson": "agent.thompson", "compile": "circuit.model",
    "delayed": "diagram.delayed", "expected_reward": "circuit.queries",
    "log_likelihood": "circuit.queries", "posterior_of_latents": "circuit.queries", "Diagram": "diagram.diagram",
    "Features": "diagram.features.read_frame", "Learned": "diagram.tables", "EP": "inference", "Exact": "inference",
    "Forget": "inference", "Gibbs": "inference",
    "Incremental": "inference", "Moments": "inference", "Particles": "inference", "Variational": "inference",
    "Result": "simulation.results", "simulate": "simulation.simulate", "Outcome": "simulation.world",
    "World": "simulation.world", "Solution": "solve.solver", "best_action": "solve.solver",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name, or a room, when it is first used: `import idbandits` alone loads nothing."""
    if name == "__version__":
        return _version()
    try:
        home = importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(home, name) if name in _HOME else home
    return value


def _version() -> str:
    """The version that pyproject.toml declares: in a source tree, that file says it, else what was installed."""
    from importlib import metadata
    from pathlib import Path

    project = Path(__file__).parents[1] / "pyproject.toml"
    if project.is_file():
        import tomllib

        declared: dict[str, Any] = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        if declared.get("name") == __name__:
            return str(declared["version"])
    return metadata.version(__name__)


def __dir__() -> list[str]:
    return __all__
