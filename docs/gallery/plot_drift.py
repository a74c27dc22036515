"""
Changing preferences
====================

If preferences change, old rounds mislead. ``idb.Forget`` discounts a round by half after every half-life. Too short a
half-life costs exploration, too long a one delays the adaptation.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# Means of a world may be a function of the round. Here the attraction of ten items changes every 2,000 rounds.

length, phases = 2_000, 4
rng = np.random.default_rng(0)
means = [{"attraction": rng.permutation(np.linspace(0.05, 0.6, 10))} for _ in range(phases)]
d = idb.models.cascade(items=10, positions=3)
world = idb.World(d, lambda t: means[t // length])

# %%
# The rule of thumb is a quarter of the time between changes.

learners = {
    "never forgets": idb.Thompson(d),
    "half-life 500": idb.Thompson(d, forget=idb.Forget(half_life=500)),
    "half-life 50": idb.Thompson(d, forget=idb.Forget(half_life=50)),
}
result = idb.simulate(world, learners, rounds=length * phases, runs=10, seed=0, progress=False)

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
result.plot("regret", ax)
for change in range(length, length * phases, length):
    ax.axvline(change, color="#888888", lw=0.8, ls=":", zorder=0)
ax.set(xlabel="round (dotted: preferences change)", ylabel="total regret (clicks)")
plt.show()
