"""Structured bandits: declare an influence diagram, and learn online to act well in it.

A diagram declares what is chosen, what is known in advance, what is observed and what stays hidden, with known or
learned tables and a reward. The library compiles it, and Thompson sampling learns the tables round by round:

>>> import idbandits as idb
>>> d = idb.Diagram("shop")
>>> card = d.decision("card", ["tea", "milk", "rice"])      # chosen
>>> liked = d.latent("liked", [card])                       # hidden; its table is learned
>>> noticed = d.latent("noticed", cpd=0.8)                  # hidden; its table is known
>>> d.reward(d.observed("bought", [liked, noticed], lambda l, n: l * n))
>>> agent = idb.Thompson(d, seed=0)
>>> for _ in range(200):
...     action = agent.act()
...     agent.update(action, {"bought": int(action["card"] == "rice")})
>>> agent.act()
{'card': 'rice'}

Diagrams      `Diagram`, `Learned` tables, `Features` of items, `delayed` outcomes; ready ones in `models`
Queries       `expected_reward`, `log_likelihood`, `posterior_of_latents`, `best_action` with its `Solution`, `compile`
Agents        `Thompson`, also with several `Structures`; `Counts` of logs
Inferences    `Gibbs` (default), `Exact`, `Variational`, `Incremental`, `Moments`, `EP`, `Particles`; `Forget`
Simulation    `World`, `Outcome`, `simulate`, `Result`; other algorithms in `baselines`, regret bounds in `theory`
Logs          `count`, `fit`, `score` (`Score`), `compare` (`Comparison`), `evaluate` (`Evaluation`); `Long`, `formats`
Live service  `Live` in this process, `Client` and `AsyncClient` over HTTP; the command `idbandits serve`
Errors        `errors`: all derive from `errors.IdbanditsError`

All public names have examples: `help(idb.Thompson)`. `help` of the modules `idb.models`, `idb.baselines`, `idb.theory`,
`idb.formats`, `idb.errors` and `idb.inference` (custom inferences) lists their names. Means and probabilities are in
[0, 1]; results are NumPy arrays or pandas tables; seeds make everything reproducible. Guides: docs/how-to/index.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idbandits import baselines, errors, models, theory
    from idbandits.agent.counts.counts import Counts
    from idbandits.agent.thompson import Structures, Thompson
    from idbandits.circuit.model import compile
    from idbandits.circuit.queries import expected_reward, log_likelihood, posterior_of_latents
    from idbandits.diagram.delayed import delayed
    from idbandits.diagram.diagram import Diagram
    from idbandits.diagram.features.read_frame import Features
    from idbandits.diagram.tables import Learned
    from idbandits.inference import EP, Exact, Forget, Gibbs, Incremental, Moments, Particles, Variational
    from idbandits.logs.compare import Comparison, compare
    from idbandits.logs.evaluate.evaluation import Evaluation
    from idbandits.logs.evaluate.policy_value import evaluate
    from idbandits.logs.fit_log import count, fit
    from idbandits.logs.read import formats
    from idbandits.logs.read.long_format import Long
    from idbandits.logs.score import Score, score
    from idbandits.service.client import AsyncClient, Client
    from idbandits.service.live.live import Live
    from idbandits.simulation.results import Result
    from idbandits.simulation.simulate import simulate
    from idbandits.simulation.world import Outcome, World
    from idbandits.solve.solver import Solution, best_action

__version__ = "0.2.0"
__all__ = [
    "EP", "AsyncClient", "Client", "Comparison", "Counts", "Diagram", "Evaluation", "Exact", "Features", "Forget",
    "Gibbs", "Incremental", "Learned", "Live", "Long", "Moments", "Outcome", "Particles", "Result", "Score", "Solution",
    "Structures", "Thompson", "Variational", "World", "baselines", "best_action", "compare", "compile", "count",
    "delayed", "errors", "evaluate", "expected_reward", "fit", "formats", "log_likelihood", "models",
    "posterior_of_latents", "score", "simulate", "theory",
]  # fmt: skip

_MODULES = {  # of public names that are no modules
    "agent.counts.counts": ("Counts",), "agent.thompson": ("Structures", "Thompson"), "circuit.model": ("compile",),
    "circuit.queries": ("expected_reward", "log_likelihood", "posterior_of_latents"),
    "diagram.delayed": ("delayed",), "diagram.diagram": ("Diagram",), "diagram.features.read_frame": ("Features",),
    "diagram.tables": ("Learned",),
    "inference": ("EP", "Exact", "Forget", "Gibbs", "Incremental", "Moments", "Particles", "Variational"),
    "logs.compare": ("Comparison", "compare"), "logs.evaluate.evaluation": ("Evaluation",),
    "logs.evaluate.policy_value": ("evaluate",), "logs.fit_log": ("count", "fit"), "logs.read.long_format": ("Long",),
    "logs.score": ("Score", "score"),
    "service.client": ("AsyncClient", "Client"), "service.live.live": ("Live",),
    "simulation.results": ("Result",), "simulation.simulate": ("simulate",), "simulation.world": ("Outcome", "World"),
    "solve.solver": ("Solution", "best_action"),
}  # fmt: skip

_SERVICE = ("apsw", "httpx", "msgspec")  # that the extra serve installs
_NESTED = {"formats": "logs.read.formats"}  # modules of packages


def __getattr__(name: str) -> Any:
    """Import a public name or a module on first use: `import idbandits` alone loads nothing."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    try:
        value = importlib.import_module(f"{__name__}.{module or _NESTED.get(name, name)}")
    except ModuleNotFoundError as error:
        if error.name in _SERVICE:
            from idbandits.errors import IdbanditsError

            raise IdbanditsError(f"{name} needs {error.name}: pip install 'idbandits[serve]'") from None
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value if module is None else getattr(value, name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
