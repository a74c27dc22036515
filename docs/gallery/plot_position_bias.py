"""
Position bias
=============

Lower positions get fewer clicks for two reasons: fewer people look at them, and they show worse items. The
position-based model separates the two and learns how often each position is examined.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# An agent ranks ten articles at six positions, and shows good articles at the top. Clicks identify products of
# attraction and examination, so examination of the first position is fixed at 1.

examination = np.array([1.0, 0.8, 0.6, 0.45, 0.35, 0.3])
d = idb.models.position_based(items=10, positions=6, fixed={"examination": {0: 1.0}})
world = idb.World(d, {"attraction": np.linspace(0.05, 0.5, 10), "examination": examination}, seed=0)
agent, clicks, rounds = idb.Thompson(d, seed=0), np.zeros(6), 3000
for _ in range(rounds):
    action = agent.act()
    observation = world.step(action).observation
    agent.update(action, observation)
    clicks += list(observation.values())

# %%
# Click rates confound both reasons; the posterior of the table ``examination`` does not.

belief = agent.posterior()["examination"]
ends = belief.quantile([0.05, 0.95])
rates = clicks / rounds
error = 1.645 * np.sqrt(rates * (1 - rates) / rounds)

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
place = np.arange(1, 7)
ax.plot(place, examination, color="#888888", lw=1, ls="--", label="true examination")
ax.errorbar(
    place, belief.mean, np.abs(ends - belief.mean), fmt="o", color="#0072B2", capsize=3, label="learned examination"
)
ax.errorbar(
    place, rates / rates[0], error / rates[0], fmt="s", color="#D55E00", capsize=3, label="click rate / click rate at 1"
)
ax.set(xlabel="position", ylabel="relative to position 1 (with 90 % intervals)", ylim=(0, 1.08))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
