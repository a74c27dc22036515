"""
Model fit
=========

A wrong structure can lose clicks in every round without notice. ``fit_report`` compares what was observed with what the
fitted diagram predicts, and names the comparisons that do not fit.
"""

import matplotlib.pyplot as plt

import idbandits as idb

# %%
# Users leave when they are satisfied, but the agent assumes that they look at each position independently.

truth = idb.models.dynamic_bayesian(items=6, positions=3)
means = {
    "attraction": [0.5, 0.4, 0.3, 0.3, 0.2, 0.2], "satisfaction": [0.8, 0.7, 0.6, 0.8, 0.7, 0.9], "continuation": 0.9,
}  # fmt: skip
world, agent = idb.World(truth, means, seed=0), idb.Thompson(idb.models.position_based(items=6, positions=3), seed=0)
for _ in range(2_000):
    action = agent.act()
    agent.update(action, world.step(action).observation)

# %%
# P-values hold for all comparisons and any number of looks together.

report = agent.fit_report()
print(report)

# %%
# Lines end at the predicted share, and markers with 95 % intervals show the observed one.

figure, ax = plt.subplots(figsize=(6.6, 4.4), layout="constrained")
report.plot(ax)
ax.set_ylabel("comparison")
plt.show()
