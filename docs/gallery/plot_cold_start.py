"""
Features and cold start
=======================

Items share what was learned through their features, so new items do not start from nothing. An agent learns 150 dishes
with price and kitchen, and predicts 50 new dishes that were never shown.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import idbandits as idb

# %%
# Cheap and Thai dishes are liked more. A part of the attraction is not explained by features.

rng = np.random.default_rng(0)
names = [f"dish {k}" for k in range(200)]
menu = pd.DataFrame({"price": rng.normal(12, 3, 200), "kitchen": rng.choice(["thai", "pizza", "soup"], 200)}, names)
logits = -2 - 0.25 * (menu["price"] - 12) + 1.2 * (menu["kitchen"] == "thai") + 0.2 * rng.normal(size=200)
attraction = 1 / (1 + np.exp(-logits.to_numpy()))


def page(dishes: pd.DataFrame) -> idb.Diagram:
    """Return a cascade of dishes with features."""
    return idb.models.cascade(list(dishes.index), 4, features={"attraction": dishes})


# %%
# The agent learns from 3,000 visitors, then moves to the larger menu.

old = page(menu[:150])
agent, world = idb.Thompson(old, seed=0), idb.World(old, {"attraction": attraction[:150]}, seed=1)
for _ in range(3_000):
    action = agent.act()
    agent.update(action, world.step(action).observation)
new = agent.moved_to(page(menu)).posterior()["attraction"].to_frame()[150:]

# %%
# Posterior means and 90 % intervals of the new dishes against the truth.

figure, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
looks = {"thai": ("#0072B2", "o"), "pizza": ("#D55E00", "s"), "soup": ("#009E73", "^")}
for kitchen, (colour, marker) in looks.items():
    rows = new[(menu["kitchen"][150:] == kitchen).to_numpy()]
    true = [attraction[names.index(dish)] for dish in rows["row"]]
    error = [rows["mean"] - rows["5 %"], rows["95 %"] - rows["mean"]]
    ax.errorbar(true, rows["mean"], error, fmt=marker, color=colour, ms=4, lw=0.8, label=kitchen)
ax.plot([0.03, 0.8], [0.03, 0.8], color="#888888", lw=0.8, zorder=0)
ax.set(xscale="log", yscale="log", xlabel="true attraction (probability)", ylabel="predicted attraction (probability)")
ax.set_xticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
ax.set_yticks([0.01, 0.03, 0.1, 0.3], ["0.01", "0.03", "0.1", "0.3"])
ax.minorticks_off()
ax.legend(frameon=False, title="new dishes, never shown:\nmean and 90 % interval", alignment="left")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
