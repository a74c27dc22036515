"""
Posterior of attraction
=======================

The belief about every item is a distribution. An agent that shows the items of a cascade narrows it where that matters:
intervals of the best items shrink, items that are clearly worse are hardly shown any more.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# An agent acts in a simulated world. Its posterior is stored after 30, 300 and 3,000 rounds.

stories = ["budget", "derby", "storm", "recipe", "film", "vote", "strike", "chess"]
attraction = np.array([0.10, 0.30, 0.40, 0.20, 0.05, 0.45, 0.25, 0.15])
d = idb.models.cascade(stories, positions=3)
world, agent = idb.World(d, {"attraction": attraction}, seed=0), idb.Thompson(d, seed=0)
beliefs = {}
for t in range(1, 3001):
    action = agent.act()
    agent.update(action, world.step(action).observation)
    if t in (30, 300, 3000):
        beliefs[t] = agent.posterior()["attraction"]

# %%
# ``to_frame`` has mean, quantiles and the number of rounds in which an item was examined.

print(beliefs[3000].to_frame().round(2).to_string(index=False))

# %%
# Points are posterior means, lines 90 % intervals.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
order = np.argsort(-attraction)
looks = (("#E69F00", "^", -0.22), ("#0072B2", "o", 0.0), ("#000000", "s", 0.22))
for (rounds, belief), (colour, marker, shift) in zip(beliefs.items(), looks, strict=True):
    mean, ends = belief.mean[order], belief.quantile([0.05, 0.95])[:, order]
    place = np.arange(len(stories)) + shift
    ax.errorbar(place, mean, np.abs(ends - mean), fmt=marker, color=colour, ms=5, lw=1.5, label=f"{rounds:,} rounds")
ax.hlines(attraction[order], place - 0.6, place + 0.2, color="#888888", lw=1, zorder=0, label="truth")
ax.set_xticks(range(len(stories)), [stories[k] for k in order])
ax.set(xlabel="story, from the most to the least attractive", ylabel="attraction (probability)", ylim=(0, 1))
ax.legend(frameon=False, title="mean and 90 % interval", alignment="left")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
