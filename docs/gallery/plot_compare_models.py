"""
Comparison of click models
==========================

Which click model describes a log? ``idb.compare`` predicts sessions that a model was not fitted to. Two baselines are
added: the popularity of items, and a table of items and positions.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import idbandits as idb

# %%
# The simulated users follow a dynamic Bayesian network: they leave when they are satisfied.

positions, items = 4, 8
truth = idb.models.dynamic_bayesian(items, positions, reward="clicks")
means = {
    "attraction": np.linspace(0.2, 0.6, items), "satisfaction": np.linspace(0.9, 0.1, items), "continuation": 0.9,
}  # fmt: skip
world, rng = idb.World(truth, means, seed=0), np.random.default_rng(0)
names = [f"A{k + 1}" for k in range(positions)]
actions = [dict(zip(names, rng.permutation(items)[:positions], strict=True)) for _ in range(4_000)]
log = pd.DataFrame([action | dict(world.step(action).observation) for action in actions])

# %%
# The verdict is a sentence, and names a model only if no other is within three standard errors.

models = {
    "dynamic Bayesian": truth,
    "dependent click": idb.models.dependent_click(items, positions),
    "user browsing": idb.models.user_browsing(items, positions),
    "position-based": idb.models.position_based(items, positions),
}
comparison = idb.compare(models, log, folds=3)
print(comparison.verdict)

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
comparison.plot(ax)
ax.set_ylabel("model")
plt.show()
