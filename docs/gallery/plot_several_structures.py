"""
Several structures
==================

If the right click model is not known, an agent can weigh several. Each structure learns from every round, and is
weighted by how well it predicted the clicks.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# Users browse: whether they look at a position depends on their last click. The agent knows three candidates.

models = idb.models
browsing = models.user_browsing(items=8, positions=4)
structures = {
    "user browsing (true)": browsing,
    "position-based": models.position_based(8, 4),
    "saturated table": models.saturated(8, 4),
}
examination = [0.9, 0.5, 0.9, 0.3, 0.5, 0.9, 0.2, 0.3, 0.5, 0.9]
truth = {"attraction": np.linspace(0.1, 0.6, 8), "examination": examination}

# %%
# Weights start equal, and are stored every 25 rounds of ten runs.

runs, steps, every = 10, 20, 25
weights = np.full((runs, steps + 1, len(structures)), 1 / len(structures))
for run in range(runs):
    world, agent = idb.World(browsing, truth, seed=run), idb.Thompson(structures, seed=run)
    for step in range(steps):
        for _ in range(every):
            action = agent.act()
            agent.update(action, world.step(action).observation)
        weights[run, step + 1] = list(agent.weights().values())

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
rounds = every * np.arange(steps + 1)
looks = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", ":"))
for name, own, (colour, dash) in zip(structures, np.moveaxis(weights, 2, 0), looks, strict=True):
    ax.fill_between(rounds, *np.quantile(own, [0.1, 0.9], axis=0), color=colour, alpha=0.15, linewidth=0)
    ax.plot(rounds, own.mean(axis=0), color=colour, linestyle=dash, label=name)
ax.set(xlabel="round", ylabel="weight (probability)", xlim=(0, rounds[-1]), ylim=(0, 1))
title = "mean and 80 % of runs"
look = {"frameon": False, "alignment": "left", "fontsize": "small", "title_fontsize": "small"}
ax.legend(title=title, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, **look)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
