"""
What clicks identify
====================

Clicks in the position-based model show products of attraction and examination. Single entries remain uncertain however
long the log is, which does no harm: rewards depend on the same products.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import idbandits as idb

# %%
# ``check`` reports it before any data are collected.

d = idb.models.position_based(items=6, positions=3)
print([(finding.kind, finding.names) for finding in d.check() if finding.names])

# %%
# Agents learn 300 and 10,000 random lists. ``draws`` are joint draws from the posterior.

truth = {"attraction": [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], "examination": [0.8, 0.5, 0.3]}
world, rng = idb.World(d, truth, seed=0), np.random.default_rng(0)
actions = [{f"A{k + 1}": int(item) for k, item in enumerate(rng.permutation(6)[:3])} for _ in range(10_000)]
log = pd.DataFrame([action | dict(world.step(action).observation) for action in actions])

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for rounds, colour, marker in ((300, "#E69F00", "^"), (10_000, "#0072B2", "o")):
    draws = idb.fit(d, log.head(rounds), seed=0).draws(1000)
    first, top = draws["attraction"][:, 0], draws["examination"][:, 0]
    label = f"{rounds:,} rounds: product {np.mean(first * top):.3f} ± {np.std(first * top):.3f}"
    ax.scatter(first, top, s=9, color=colour, marker=marker, alpha=0.5, linewidth=0, label=label)
x = np.linspace(0.48, 1, 100)
ax.plot(x, 0.48 / x, color="black", lw=1, label="true product, 0.48")
ax.plot(0.6, 0.8, "*", color="black", ms=12, label="truth")
ax.set(xlabel="attraction of the best item (probability)", ylabel="examination of the first position (probability)")
ax.set(xlim=(0.4, 1), ylim=(0.4, 1))
ax.legend(
    frameon=False, loc="lower left", bbox_to_anchor=(0, 1), title="1,000 draws from the posterior", alignment="left"
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
