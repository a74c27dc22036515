"""
Regret in the cascade model
===========================

A reader scans four stories from the top and clicks the first attractive one. Thompson sampling in the diagram of this
behaviour is compared with published ranking algorithms in ten simulated runs.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# Regret is the expected number of clicks that a list loses compared with the best list. A world is a diagram with
# its true means: here, the attraction of twenty stories.

d = idb.models.cascade(items=20, positions=4)
world = idb.World(d, {"attraction": np.linspace(0.02, 0.4, 20)})

# %%
# Each learner plays every run with the random numbers that the others get.

learners = {
    "Thompson sampling": idb.Thompson(d),
    "CascadeKL-UCB": idb.baselines.CascadeKLUCB(d),
    "CascadeUCB1": idb.baselines.CascadeUCB1(d),
    "TopRank": idb.baselines.TopRank(d, horizon=10_000),
}
result = idb.simulate(world, learners, rounds=10_000, runs=10, seed=1, progress=False)
print(result.summary()[["learner", "regret_mean", "regret_se"]].round(1).to_string(index=False))

# %%
# The curves of a result are drawn by ``plot``, into axes of any size.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
result.plot("regret", ax)
ax.set(xlabel="round", ylabel="total regret (clicks)")
plt.show()
