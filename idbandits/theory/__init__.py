"""The paper's regret bound for any diagram (section 5, appendices A and B), and the Bayes regret measured beside it.

- Bound of Theorem 1: `bound`, from its constants `regret_bound` and `useful_from`; assumptions: `check_monotone`,
  `check_decomposition`.
- De facto observations: `observed_parameters` of a round, `observation_probabilities`, `max_observations` (O_max).
- Measured beside it: `bayes_regret` of a diagram, `study` and `plot` of all models; `prior_means` draws worlds.

docs/explanation/regret-bound.md defines the symbols.

>>> from idbandits import models
>>> limit = bound(models.cascade(items=10, positions=2), n=100_000)
>>> round(limit.value), limit.trivial, limit.proved
(36083, 100000.0, True)
"""

from idbandits.theory.measured_regret import BayesRegret, bayes_regret, plot, prior_means, study

from idbandits.theory.bounds import (  # isort: skip
    Bound, Decomposition, Example, Monotone, bound, check_decomposition, check_monotone, regret_bound, useful_from,
)  # fmt: skip
from idbandits.theory.observations import (  # isort: skip
    MaxObservations, Observations, max_observations, observation_probabilities, observed_parameters,
)  # fmt: skip

__all__ = [
    "BayesRegret", "Bound", "Decomposition", "Example", "MaxObservations", "Monotone", "Observations", "bayes_regret",
    "bound", "check_decomposition", "check_monotone", "max_observations", "observation_probabilities",
    "observed_parameters", "plot", "prior_means", "regret_bound", "study", "useful_from",
]  # fmt: skip
