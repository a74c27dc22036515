"""The paper's regret bound for any diagram (section 5, appendices A and B), and the Bayes regret measured beside it."""

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
