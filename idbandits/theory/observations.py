"""De facto observations (section 5 of the paper): the learned rows that a round shows, and their probabilities."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import ImpossibleObservationError, check_flag
from idbandits.kernel.array_types import Floats
from idbandits.theory.action_symmetry import Symmetry
from idbandits.theory.round_outcomes import RoundOutcomes, RowIndex, check_in_theory, row_slice, rows_of

MOST_POINTS = 1 << 12  # of a quadrature over the prior; if it would need more, as many draws


@final
class Observations(NamedTuple):
    """Probabilities that learned rows are de facto observed, returned by `observation_probabilities`.

    Attributes
    ----------
    rows : dict of str to array
        Probability of every row of the learned tables.
    total : float
        Their sum: the expected number of rows that a round shows.
    exact : bool
        Whether they are exact, or an average over draws.

    Examples
    --------
    >>> from idbandits import models
    >>> observation_probabilities(models.semi_bandit(2, 1), {"A1": 1})
    Observations(rows={'mean': array([0., 1.])}, total=1.0, exact=True)
    """

    rows: dict[str, Floats]
    total: float
    exact: bool


@final
class MaxObservations(NamedTuple):
    """Highest expected number of observations, O_max, returned by `max_observations`.

    Attributes
    ----------
    value : float
        Expected number of learned rows that a round shows.
    action : dict of str to label
        Action that has it.
    proved : bool
        Whether no action has more.

    Examples
    --------
    >>> from idbandits import models
    >>> max_observations(models.semi_bandit(5, 2)).value
    2.0
    """

    value: float
    action: dict[str, Label]
    proved: bool


def observed_parameters(
    d: Diagram, action: Action, observation: Mapping[str, Any], *, biased: bool = False
) -> list[RowIndex]:
    """Return the learned rows that a round shows: those i for which the paper's event E(i) holds.

    A node shows row i if three conditions hold. Its state is seen, or follows from the observation. So does the row
    that it was drawn from. And it is a fair draw: given the observed nodes that are not below it, its state does not
    decide whether it is known. A click in the position-based model shows that the item attracts, but an item that does
    not attract is never known, so these rows are listed with `biased` only. Learned entries count as strictly between 0
    and 1.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts.
    action : mapping of str to label
        Choice of every decision.
    observation : mapping of str to label
        States of observed nodes; nodes that are left out were not seen.
    biased : bool
        Whether rows are listed that the round shows by an unfair draw.

    Returns
    -------
    list of (str, tuple of int)
        Table and index of each row, listed once even if several nodes show it.

    Raises
    ------
    ImpossibleObservationError
        The observation has probability zero.

    Examples
    --------
    >>> from idbandits import models
    >>> observed_parameters(models.cascade(9, 3), {"A1": 7, "A2": 5, "A3": 1}, {"C1": 0, "C2": 1, "C3": 0})
    [('attraction', (5,)), ('attraction', (7,))]
    """
    model = compile(d)
    check_in_theory(model)
    biased = check_flag("biased", biased)
    states = model.observation_states(observation)
    shown: set[RowIndex] = set()
    seen = [n.name for n in model.observed if n.name in states]
    for part in RoundOutcomes(model, model.action_vector(action), seen).parts:
        same = (part.observations == [states[name] for name in part.names]).all(axis=1)
        if not same.any():
            shown_values = ", ".join(f"{name} = {observation[name]!r}" for name in part.names)
            why = f"diagram {d.name!r} gives it probability zero for action {dict(action)!r}"
            raise ImpossibleObservationError(f"observation {shown_values}: {why}")
        rows = part.known if biased else part.fair
        shown.update(row for row, observations in rows.items() if observations[same].any())
    return [row for row in rows_of(model) if row in shown]


def observation_probabilities(d: Diagram, action: Action, means: Means | None = None) -> Observations:
    """Return P(E(i) | means, action) of every learned row; without means, its expectation under the prior.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts.
    action : mapping of str to label
        Choice of every decision.
    means : mapping of str to array, optional
        Means by learned table. Without them, the expectation is exact, by a quadrature, unless that needs too many
        points: then it is an average over draws.

    Returns
    -------
    Observations
        Probabilities by row, and their sum.

    Examples
    --------
    >>> from idbandits import models
    >>> seen = observation_probabilities(models.cascade(4, 3), {"A1": 0, "A2": 1, "A3": 2})
    >>> seen.rows["attraction"].tolist(), seen.total
    ([1.0, 0.5, 0.25, 0.0], 1.75)
    """
    model = compile(d)
    check_in_theory(model)
    outcomes = RoundOutcomes(model, model.action_vector(action))
    if means is None:
        return expected_observations(outcomes)
    point = model.parameter_vector(means)[:, None]
    return _tabulated(model, {row: float(chance[0]) for row, chance in outcomes.chances(point).items()}, exact=True)


def max_observations(d: Diagram) -> MaxObservations:
    """Return O_max: the highest expected number of learned rows that an action shows, under the prior.

    Of actions that differ only by interchangeable choices, one is tried. If too many remain, some are drawn, and
    `proved` is False unless one shows as many rows as there are nodes with learned tables.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts.

    Returns
    -------
    MaxObservations
        Maximum, an action that has it, and whether it is proved.

    Raises
    ------
    ComplexityError
        An action can be followed by too many observations to enumerate.

    Examples
    --------
    >>> from idbandits import models
    >>> max_observations(models.cascade(100, 3))
    MaxObservations(value=1.75, action={'A1': 0, 'A2': 1, 'A3': 2}, proved=True)
    """
    model = compile(d)
    symmetry = Symmetry(model)
    best, best_vector, exact = -1.0, np.empty(0, np.int64), True
    for vector in symmetry.actions:
        expected = expected_observations(RoundOutcomes(model, vector))
        exact &= expected.exact
        if expected.total > best + 1e-12:
            best, best_vector = expected.total, vector
    proved = exact and (symmetry.complete or best >= len(model.learned_nodes) - 1e-12)
    return MaxObservations(best, model.action_of(best_vector), proved)


def _tabulated(model: Model, chances: Mapping[RowIndex, float], exact: bool) -> Observations:
    """Return probabilities of rows as arrays, 0 for other rows."""
    rows = {name: np.zeros(table.shape) for name, table in model.learned.items()}
    for (name, index), chance in chances.items():
        rows[name][index] = chance
    return Observations(rows, math.fsum(chances.values()), exact)


def expected_observations(outcomes: RoundOutcomes) -> Observations:
    """Return P(E(i)) of every learned row after an action, expected under the prior."""
    model = outcomes.model
    means = [t.prior / t.prior.sum(axis=-1, keepdims=True) for t in model.learned.values()]
    prior_mean = np.concatenate([*(m.ravel() for m in means), model.parameters.known])
    repeated = [row for row, degree in outcomes.uses.items() if degree > 1]  # in the others, probabilities are linear
    priors = [model.learned[name].prior[index] for name, index in repeated]
    rules = [quadrature(prior, outcomes.uses[row]) for row, prior in zip(repeated, priors, strict=True)]
    sizes = [len(weights) for _, weights in rules]
    exact = math.prod(sizes) <= MOST_POINTS
    number = math.prod(sizes) if exact else MOST_POINTS
    points = np.repeat(prior_mean[:, None], number, axis=1)
    weights = np.full(number, 1.0 if exact else 1 / number)
    if exact:
        grid = np.indices(sizes).reshape(len(sizes), number)
        for row, (values, chances), places in zip(repeated, rules, grid, strict=True):
            points[row_slice(model, row)] = values[places].T
            weights *= chances[places]
    else:
        rng = np.random.default_rng(0)
        for row, prior in zip(repeated, priors, strict=True):
            points[row_slice(model, row)] = rng.dirichlet(prior, number).T
    expected = {row: float(chances @ weights) for row, chances in outcomes.chances(points).items()}
    return _tabulated(model, expected, exact)


def quadrature(prior: Floats, degree: int) -> tuple[Floats, Floats]:
    """Return rows and weights that average any polynomial of this degree under a Dirichlet prior exactly.

    >>> rows, weights = quadrature(np.array([1.0, 1.0]), 3)
    >>> round(float(weights @ rows[:, 1] ** 3), 12)  # of a uniform variable: 1 / 4
    0.25
    """
    from scipy.special import roots_jacobi

    rows, weights, rest = np.zeros((1, 0)), np.ones(1), np.ones(1)
    for k in range(len(prior) - 1):  # stick breaking: each entry is a beta share of what is left
        x, w = roots_jacobi(degree // 2 + 1, prior[k + 1 :].sum() - 1, prior[k] - 1)
        share, w = np.tile((1 + x) / 2, len(weights)), w / w.sum()
        rest = np.repeat(rest, len(x))
        rows = np.column_stack([np.repeat(rows, len(x), axis=0), rest * share])
        rest, weights = rest * (1 - share), np.repeat(weights, len(x)) * np.tile(w, len(weights))
    return np.column_stack([rows, rest]), weights
