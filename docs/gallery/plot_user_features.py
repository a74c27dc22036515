"""
Personal choices
================

A request may carry features of the user. Products of user and item features let an agent learn who likes what: here,
older users prefer cheaper dishes.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import idbandits as idb

# %%
# The age is part of the context, and the price is a feature of the dish.

rng, prices = np.random.default_rng(0), np.linspace(6, 20, 15)
dishes = pd.DataFrame({"price": prices}, index=[f"dish {k}" for k in range(15)])
d = idb.Diagram("menu")
user = d.context("user", features={"age": (45, 15)})
dish = d.decision("dish", list(dishes.index))
ordered = d.observed("ordered", [dish, user], idb.Learned("taste", features=dishes, products=True))
d.reward(ordered)


def truth(user: dict[str, Any]) -> np.ndarray:
    """Return the probability that a user orders each dish."""
    age = (user["age"] - 45) / 15
    chance: np.ndarray = 1 / (1 + np.exp(1 + 0.25 * age * (prices - 13)))
    return chance


# %%
# Ten agents serve 1,000 visitors each. ``regression.means`` predicts all dishes for any user.

visitors = {"user": lambda rng: {"age": rng.uniform(20, 70)}}
tastes = []
for run in range(10):
    world, agent = idb.World(d, {"taste": truth}, contexts=visitors, seed=run), idb.Thompson(d, seed=run)
    for _ in range(1_000):
        context = world.context()
        action = agent.act(context)
        agent.update(action, world.step(action).observation, context)
    tastes.append(agent.posterior()["taste"].regression)
print(tastes[0].to_frame().round(2).to_string(index=False))

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
looks = (("#0072B2", "o"), ("#009E73", "^"), ("#D55E00", "s"))
for age, (colour, marker) in zip((25, 45, 65), looks, strict=True):
    ax.plot(prices, truth({"age": age}), color=colour, lw=1, ls="--")
    predicted = np.array([taste.means({"age": age})[:, 0] for taste in tastes])
    ax.fill_between(prices, predicted.min(axis=0), predicted.max(axis=0), color=colour, alpha=0.2, linewidth=0)
    ax.plot(prices, predicted.mean(axis=0), color=colour, marker=marker, ms=5, lw=0, label=f"{age} years")
ax.plot([], [], color="#888888", lw=1, ls="--", label="truth")
ax.set(xlabel="price of a dish (euros)", ylabel="probability of an order", ylim=(0, 1))
title = "mean and range of ten agents"
ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), title=title, alignment="left")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
