"""Oracle: the equations of the paper by enumeration of all joint states."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, roots_jacobi

from idbandits import Diagram
from idbandits.diagram.diagram import Node
from idbandits.diagram.tables import Known, Use

Values = Mapping[str, Any]  # node name -> index of its value
Round = tuple[Values, Values]  # decisions and contexts, observed nodes
Alpha = Mapping[str, np.ndarray]  # learned table -> pseudo-counts, states on the last axis
Posterior = list[tuple[dict[str, int], float]]  # q(z) of one round: joint states and their probabilities


def entry_of(d: Diagram, node: Node, values: Values) -> tuple[str, tuple[int, ...]]:
    """Return the learned table and the row that a node is drawn from."""
    assert isinstance(node.cpd, Use)
    at = tuple(values[p] for p in node.parents)
    if isinstance(node.cpd.rows, int):
        return node.cpd.name, (node.cpd.rows,)
    if node.cpd.rows is not None:
        return node.cpd.name, (int(node.cpd.rows[at]),)
    shape = d.learned[node.cpd.name].shape
    if len(shape) != len(at):  # table with rows, read by all combinations in order
        sizes = [d.nodes[p].states for p in node.parents]
        return node.cpd.name, (int(np.ravel_multi_index(at, sizes)),)
    return node.cpd.name, at


def probability(d: Diagram, node: Node, values: Values, means: Mapping[str, Any]) -> float:
    """Return P(node = its value | values of its parents)."""
    state = values[node.name]
    if isinstance(node.cpd, Known):
        return float(node.cpd.table[(*(values[p] for p in node.parents), state)])
    name, row = entry_of(d, node, values)
    mean = np.asarray(means[name])[row]
    if node.states > 2:
        return float(mean[state])
    return float(mean if state == 1 else 1 - mean)


def joint(d: Diagram, given: Values, means: Mapping[str, Any]) -> Iterator[tuple[dict[str, int], float]]:
    """Yield every joint state of all nodes with its probability, given decisions and contexts."""
    chance = [n for n in d.nodes.values() if n.is_chance]
    for states in itertools.product(*(range(n.states) for n in chance)):
        values = {**given, **{n.name: s for n, s in zip(chance, states, strict=True)}}
        yield values, math.prod(probability(d, n, values, means) for n in chance)


def reward(d: Diagram, values: Values) -> float:
    """Return r(x, z)."""
    return sum(float(term.table[tuple(values[p] for p in term.parents)]) for term in d.rewards)


def expected_reward(d: Diagram, given: Values, means: Mapping[str, Any]) -> float:
    """Return r(a, theta)."""
    return sum(p * reward(d, values) for values, p in joint(d, given, means))


def likelihood(d: Diagram, given: Values, seen: Values, means: Mapping[str, Any]) -> float:
    """Return P(x | a, theta)."""
    return sum(p for values, p in joint(d, given, means) if all(values[n] == s for n, s in seen.items()))


def posterior_of_latents(d: Diagram, given: Values, seen: Values, means: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return P(z_i | x, a, theta) for every latent node."""
    latent = [n for n in d.nodes.values() if n.kind == "latent"]
    sums = {n.name: np.zeros(n.states) for n in latent}
    for values, p in joint(d, given, means):
        if all(values[n] == s for n, s in seen.items()):
            for n in latent:
                sums[n.name][values[n.name]] += p
    return {name: total / total.sum() for name, total in sums.items()}


def entries_used(d: Diagram, values: Values) -> Counter[tuple[str, tuple[int, ...]]]:
    """Return the uses of each entry of a learned table in a joint state."""
    used: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for n in d.nodes.values():
        if isinstance(n.cpd, Use):
            name, row = entry_of(d, n, values)
            used[(name, (*row, values[n.name]))] += 1
    return used


def distribution_of_counts(
    d: Diagram, given: Values, seen: Values, means: Mapping[str, Any]
) -> dict[frozenset[tuple[tuple[str, tuple[int, ...]], int]], float]:
    """Return the posterior distribution of the counts of all entries in one round."""
    total: Counter[Any] = Counter()
    for values, p in joint(d, given, means):
        if p > 0 and all(values[n] == s for n, s in seen.items()):
            total[frozenset(entries_used(d, values).items())] += p
    whole = sum(total.values())
    return {counts: p / whole for counts, p in total.items()}


def feasible(d: Diagram, action: Values) -> bool:
    """Return True if an action satisfies `all_different`."""
    labels = {name: d.nodes[name].values[choice] for name, choice in action.items()}
    return all(
        labels[a] != labels[b] or labels[a] in excepted
        for group, excepted in d.constraints
        for a, b in itertools.combinations(group, 2)
    )


def actions(d: Diagram) -> Iterator[dict[str, int]]:
    """Yield all feasible actions."""
    decisions = [n for n in d.nodes.values() if n.kind == "decision"]
    for choice in itertools.product(*(range(n.states) for n in decisions)):
        action = {n.name: c for n, c in zip(decisions, choice, strict=True)}
        if feasible(d, action):
            yield action


def best_value(d: Diagram, context: Values, means: Mapping[str, Any]) -> float:
    """Return the largest expected reward of any action."""
    return max(expected_reward(d, {**action, **context}, means) for action in actions(d))


def prior_of(d: Diagram) -> dict[str, np.ndarray]:
    """Return the pseudo-counts of the prior."""
    return {name: np.array(table.prior) for name, table in d.learned.items()}


def rows_of(alpha: Alpha) -> list[tuple[str, tuple[int, ...]]]:
    """Yield every row of every learned table."""
    return [(name, row) for name, a in alpha.items() for row in np.ndindex(a.shape[:-1])]


def known_part(d: Diagram, values: Values) -> float:
    """Return the probability of a joint state by known tables only."""
    return math.prod(probability(d, n, values, {}) for n in d.nodes.values() if isinstance(n.cpd, Known))


def consistent(d: Diagram, round: Round) -> Iterator[dict[str, int]]:
    """Yield every joint state that is consistent with the observation and known tables."""
    given, seen = round
    chance = [n for n in d.nodes.values() if n.is_chance]
    for states in itertools.product(*(range(n.states) for n in chance)):
        values = {**given, **{n.name: s for n, s in zip(chance, states, strict=True)}}
        if all(values[n] == s for n, s in seen.items()) and known_part(d, values) > 0:
            yield values


def expected_logs(alpha: Alpha) -> dict[str, np.ndarray]:
    """Return E log theta of every entry."""
    return {name: digamma(a) - digamma(a.sum(axis=-1, keepdims=True)) for name, a in alpha.items()}


def expected_log_joint(d: Diagram, values: Values, logs: Alpha) -> float:
    """Return E log P(x, z | theta), given E log theta."""
    return math.log(known_part(d, values)) + sum(
        n * logs[name][entry] for (name, entry), n in entries_used(d, values).items()
    )


def normalised(states: Sequence[tuple[dict[str, int], float]]) -> Posterior:
    """Normalise joint states with log weights."""
    whole = logsumexp([log for _, log in states])
    return [(values, math.exp(log - whole)) for values, log in states]


def variational_step(
    d: Diagram, rounds: Sequence[Round], alpha: Alpha, prior: Alpha
) -> tuple[dict[str, np.ndarray], list[Posterior]]:
    """Return pseudo-counts and each q(z) after the E-step (eq. estep) of every round and the M-step (eq. mstep)."""
    logs = expected_logs(alpha)
    q = [normalised([(z, expected_log_joint(d, z, logs)) for z in consistent(d, round)]) for round in rounds]
    new = {name: a.copy() for name, a in prior.items()}
    for posterior in q:
        for values, p in posterior:
            for (name, entry), n in entries_used(d, values).items():
                new[name][entry] += p * n
    return new, q


def elbo(d: Diagram, rounds: Sequence[Round], alpha: Alpha, q: Sequence[Posterior], prior: Alpha) -> float:
    """Return L(q) for q(theta) with pseudo-counts `alpha` and q(z) of every round (eq. lq)."""
    logs = expected_logs(alpha)
    total = 0.0
    for (given, seen), posterior in zip(rounds, q, strict=True):
        for values, p in posterior:
            assert all(values[n] == s for n, s in {**given, **seen}.items())
            if p > 0:
                total += p * (expected_log_joint(d, values, logs) - math.log(p))
    for name, row in rows_of(alpha):
        total += expected_log_dirichlet(prior[name][row], logs[name][row])  # E log P(theta)
        total -= expected_log_dirichlet(alpha[name][row], logs[name][row])  # E log q(theta)
    return total


def expected_log_dirichlet(counts: np.ndarray, logs: np.ndarray) -> float:
    """Return E log Dirichlet(theta; counts), given E log theta."""
    return float(((counts - 1) * logs).sum() - log_beta(counts))


def log_beta(counts: np.ndarray) -> float:
    """Return the logarithm of the multivariate beta function."""
    return float(gammaln(counts).sum() - gammaln(counts.sum()))


def incremental_step(d: Diagram, round: Round, alpha: Alpha, iterations: int) -> dict[str, np.ndarray]:
    """Return the pseudo-counts of idTSinc: E- and M-steps for the last round, given the earlier belief."""
    new = {name: a.copy() for name, a in alpha.items()}
    for _ in range(iterations):
        new, _ = variational_step(d, [round], new, alpha)
    return new


def counts_in(d: Diagram, values: Values, alpha: Alpha) -> dict[str, np.ndarray]:
    """Return the uses of each entry in a joint state, as arrays like `alpha`."""
    counts = {name: np.zeros_like(a) for name, a in alpha.items()}
    for (name, entry), n in entries_used(d, values).items():
        counts[name][entry] = n
    return counts


def moments_step(d: Diagram, round: Round, alpha: Alpha) -> dict[str, np.ndarray]:
    """Return the exact posterior of each row after one round, matched by mean and total variance."""
    states = []
    for values in consistent(d, round):
        counts = counts_in(d, values, alpha)
        ratios = (log_beta(alpha[t][row] + counts[t][row]) - log_beta(alpha[t][row]) for t, row in rows_of(alpha))
        states.append((values, math.log(known_part(d, values)) + sum(ratios)))
    mixture = [(counts_in(d, values, alpha), weight) for values, weight in normalised(states)]
    new = {name: a.copy() for name, a in alpha.items()}
    for name, row in rows_of(alpha):
        if any(counts[name][row].any() for counts, _ in mixture):
            parts = [(alpha[name][row] + counts[name][row], weight) for counts, weight in mixture]
            mean = sum(w * a / a.sum() for a, w in parts)
            square = sum(w * a * (a + 1) / (a.sum() * (a.sum() + 1)) for a, w in parts)
            new[name][row] = mean * (mean - square).sum() / (square - mean**2).sum()
    return new


def posterior_moments_by_quadrature(
    d: Diagram, rounds: Sequence[Round], points: int = 40
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return mean and variance of P(state 1) of every row under the exact posterior, for few rows of two states.

    Exact if no row is used more than 2 points - 3 times: then all integrands are polynomials.
    """
    prior = prior_of(d)
    rows = rows_of(prior)
    assert all(t.states == 2 for t in d.learned.values())
    assert points ** len(rows) < 10_000_000
    theta = {}  # P(state 1) of each row along a separate axis
    log_density = np.zeros([1] * len(rows))
    for k, (name, row) in enumerate(rows):
        shape = [points if axis == k else 1 for axis in range(len(rows))]
        fixed = d.learned[name].fixed.get(int(np.ravel_multi_index(row, d.learned[name].shape)) if row else 0)
        if fixed is not None:
            theta[name, row] = np.full([1] * len(rows), fixed[1])
            continue
        nodes, weights = roots_jacobi(points, *(prior[name][row] - 1))  # Gauss-Legendre if the prior is uniform
        theta[name, row] = (nodes.reshape(shape) + 1) / 2
        log_density = log_density + np.log(weights.reshape(shape))
    for round in rounds:
        likelihood = np.zeros([1] * len(rows))
        for values in consistent(d, round):
            product = np.full([1] * len(rows), known_part(d, values))
            for (name, (*row, state)), n in entries_used(d, values).items():
                one = theta[name, tuple(row)]
                product = product * (one if state else 1 - one) ** n
            likelihood = likelihood + product
        log_density = log_density + np.log(likelihood)
    density = np.exp(log_density - logsumexp(log_density))
    mean = {name: np.empty(a.shape[:-1]) for name, a in prior.items()}
    variance = {name: np.empty(a.shape[:-1]) for name, a in prior.items()}
    for name, row in rows:
        mean[name][row] = (density * theta[name, row]).sum()
        variance[name][row] = (density * (theta[name, row] - mean[name][row]) ** 2).sum()
    return mean, variance


Counted = frozenset[tuple[tuple[str, tuple[int, ...]], int]]  # uses of each entry


def histories(d: Diagram, rounds: Sequence[Round]) -> list[tuple[dict[str, np.ndarray], float]]:
    """Return the exact posterior as a mixture of Dirichlet rows over all joint histories: pseudo-counts and weights.

    Histories with equal uses of all entries are merged.
    """
    prior = prior_of(d)
    ways: dict[Counted, float] = {frozenset(): 1.0}
    for round in rounds:
        step = [(entries_used(d, values), known_part(d, values)) for values in consistent(d, round)]
        after: dict[Counted, float] = {}
        for counted, weight in ways.items():
            for used, p in step:
                key = frozenset((Counter(dict(counted)) + used).items())
                after[key] = after.get(key, 0.0) + weight * p
        ways = after
    mixture, logs = [], []
    for counted, weight in ways.items():
        alpha = {name: a.copy() for name, a in prior.items()}
        for (name, entry), n in counted:
            alpha[name][entry] += n
        mixture.append(alpha)
        ratios = (log_beta(alpha[t][row]) - log_beta(prior[t][row]) for t, row in rows_of(prior))
        logs.append(math.log(weight) + sum(ratios))
    weights = np.exp(np.array(logs) - logsumexp(logs)).tolist()
    return list(zip(mixture, weights, strict=True))


def posterior_moments_by_enumeration(d: Diagram, rounds: Sequence[Round]) -> tuple[np.ndarray, np.ndarray]:
    """Return first and second moments of every learned entry under the exact posterior, for few rounds."""
    first: Any = 0.0
    second: Any = 0.0
    for alpha, weight in histories(d, rounds):
        flat = np.concatenate([a.ravel() for a in alpha.values()])
        total = np.concatenate([np.repeat(a.sum(axis=-1).ravel(), a.shape[-1]) for a in alpha.values()])
        first = first + weight * flat / total
        second = second + weight * flat * (flat + 1) / (total * (total + 1))
    return first, second


def exact_step(d: Diagram, rounds: Sequence[Round], prior: Alpha) -> dict[str, np.ndarray]:
    """Return conjugate counts if every chance node was observed in every round."""
    new = {name: a.copy() for name, a in prior.items()}
    for given, seen in rounds:
        assert all(n.name in seen for n in d.nodes.values() if n.is_chance)
        for (name, entry), n in entries_used(d, {**given, **seen}).items():
            new[name][entry] += n
    return new


def log_evidence(d: Diagram, rounds: Sequence[Round], prior: Alpha) -> float:
    """Return log P(x) by the conjugate formula for every joint history of the latent nodes."""
    logs = []
    for history in itertools.product(*(list(consistent(d, round)) for round in rounds)):
        after = exact_step(d.revealed(), [(values, values) for values in history], prior)
        ratios = (log_beta(after[t][row]) - log_beta(prior[t][row]) for t, row in rows_of(prior))
        logs.append(sum(math.log(known_part(d, values)) for values in history) + sum(ratios))
    return float(logsumexp(logs))
