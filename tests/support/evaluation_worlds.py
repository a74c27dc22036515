"""Small worlds with logs, true values of policies by enumeration, and published estimators as plain loops."""

from itertools import permutations

import numpy as np
import pandas as pd

import idbandits as idb


def world_of(d, seed):
    """Return random means of all learned tables."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.1, 0.7, table.means_shape) for name, table in d.learned.items()}


def list_policy(items, positions, seed):
    """Return a random distribution over all lists of different items."""
    lists = list(permutations(items, positions))
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(lists)))
    return dict(zip(lists, shares.tolist(), strict=True))


def marginal(policy, places, choices):
    """Return the probability that a policy makes these choices at these places."""
    return sum(share for own, share in policy.items() if all(own[k] == choices[k] for k in places))


def list_log(d, means, policy, rounds, seed):
    """Return a log of lists that were drawn from a policy: choices, observations and propensities."""
    rng, world = np.random.default_rng(seed), idb.World(d, means, seed=seed)
    lists, positions = list(policy), len(next(iter(policy)))
    prefixes = {own: [marginal(policy, range(k + 1), own) for k in range(positions)] for own in lists}
    singles = {own: [marginal(policy, [k], own) for k in range(positions)] for own in lists}
    rows = []
    for at in rng.choice(len(lists), rounds, p=list(policy.values())):
        own = lists[at]
        action = {f"A{k + 1}": item for k, item in enumerate(own)}
        row = action | dict(world.step(action).observation) | {"p": policy[own]}
        row |= {f"m{k + 1}": share for k, share in enumerate(singles[own])}
        above = [1.0, *prefixes[own][:-1]]
        row |= {f"c{k + 1}": prefixes[own][k] / above[k] for k in range(positions)}
        rows.append(row | {f"r{k + 1}": share for k, share in enumerate(prefixes[own])})
    return pd.DataFrame(rows)


def true_value(d, means, policy):
    """Return the expected reward of a distribution over lists."""
    actions = (({f"A{k + 1}": item for k, item in enumerate(own)}, share) for own, share in policy.items())
    return sum(share * idb.expected_reward(d, action, means) for action, share in actions)


def published(frame, target, positions):
    """Return SIPS, IIPS and RIPS by plain loops (Saito et al. 2021, Open Bandit Pipeline)."""
    totals = {"SIPS": 0.0, "IIPS": 0.0, "RIPS": 0.0}
    for row in frame.to_dict("records"):
        own = [row[f"A{k + 1}"] for k in range(positions)]
        for k in range(positions):
            click = row[f"C{k + 1}"]
            totals["SIPS"] += click * marginal(target, range(positions), own) / row["p"]
            totals["IIPS"] += click * marginal(target, [k], own) / row[f"m{k + 1}"]
            totals["RIPS"] += click * marginal(target, range(k + 1), own) / row[f"r{k + 1}"]
    return {name: total / len(frame) for name, total in totals.items()}
