"""
User browsing
=============

In the user browsing model, a position is examined with a probability that depends on the position of the last click
above it. The table is learned from a log of random lists and drawn as a heat map.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import idbandits as idb

# %%
# In the simulated log, users continue to the item below a click, and lose interest with distance.

positions, items = 5, 12
pairs = [(k, j) for k in range(1, positions + 1) for j in range(k)]  # position, position of the last click (0: none)
truth = {"attraction": np.linspace(0.2, 0.8, items), "examination": [0.95 * 0.7 ** (k - j - 1) for k, j in pairs]}
d = idb.models.user_browsing(items, positions)
world, rng = idb.World(d, truth, seed=0), np.random.default_rng(0)
actions = [{f"A{k + 1}": int(item) for k, item in enumerate(rng.permutation(items)[:positions])} for _ in range(10_000)]
log = pd.DataFrame([action | dict(world.step(action).observation) for action in actions])

# %%
# ``fit`` returns an agent that learned the log. Attraction and examination are known up to a factor, so examination is
# shown relative to that of the first position, with the standard deviation over joint draws.

draws = idb.fit(d, log, seed=0).draws(1000)["examination"]
ratio = draws / draws[:, :1]
table, spread = np.full((positions, positions), np.nan), np.zeros((positions, positions))
for row, (k, j) in enumerate(pairs):
    table[k - 1, j], spread[k - 1, j] = ratio[:, row].mean(), ratio[:, row].std()

figure, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
image = ax.imshow(table, cmap="cividis", vmin=0, vmax=1.1)
for k, j in pairs:
    colour = "white" if table[k - 1, j] < 0.6 else "black"
    text = f"{table[k - 1, j]:.2f}\n±{spread[k - 1, j]:.2f}"
    ax.text(j, k - 1, text, color=colour, ha="center", va="center", fontsize="small")
ax.set_xticks(range(positions), ["none", *map(str, range(1, positions))])
ax.set_yticks(range(positions), list(map(str, range(1, positions + 1))))
ax.set(xlabel="position of the last click above", ylabel="position")
ax.spines[:].set_visible(False)
figure.colorbar(image, label="examination relative to position 1\n(posterior mean ± standard deviation)")
plt.show()
