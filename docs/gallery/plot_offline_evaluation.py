"""
Offline evaluation
==================

How many clicks would a new list get? ``idb.evaluate`` estimates it from a log of random lists, by several estimators
with 95 % intervals and checks of the weights.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import idbandits as idb

# %%
# The log contains the probability of every shown list, here 1 / 60 for 3 of 5 products in random order.

products = ["tea", "milk", "wine", "rice", "soup"]
d = idb.models.cascade(products, positions=3)
world, rng = idb.World(d, {"attraction": [0.3, 0.2, 0.1, 0.15, 0.05]}, seed=0), np.random.default_rng(0)
actions = [dict(zip(("A1", "A2", "A3"), rng.permutation(products)[:3], strict=True)) for _ in range(8_000)]
log = pd.DataFrame([action | dict(world.step(action).observation) for action in actions]).assign(p=1 / 60)

# %%
# The verdict names the recommended estimate. Estimators that use the diagram have shorter intervals, because only
# products above a position influence its clicks.

policy = {"A1": "tea", "A2": "milk", "A3": "rice"}
result = idb.evaluate(policy, log, d, propensity="p", seed=0)
print(result.verdict)

# %%
# The recommended estimate is orange. Hollow markers have weights that fail a check.

figure, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
result.plot(ax)
ax.axvline(world.expected(policy), color="#009E73", lw=1.2, zorder=0)
ax.annotate("truth", (world.expected(policy), 1.01), xycoords=ax.get_xaxis_transform(), color="#009E73", ha="center")
ax.set(xlabel="clicks per round with 95 % interval (dashed: log)", ylabel="estimator")
plt.show()
