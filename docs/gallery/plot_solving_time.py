"""
Time of the best action
=======================

An action is the solution of an optimisation over all lists. ``best_action`` finds it in the compiled diagram and
reports whether it is proven to be the best. Times are measured on the machine that built this page.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# Five positions without repeats: with 10,000 items there are about 10\ :sup:`20` lists. Means are drawn from the prior.

models = {
    "semi-bandit": idb.models.semi_bandit,
    "cascade": idb.models.cascade,
    "position-based": idb.models.position_based,
    "user browsing": idb.models.user_browsing,
}
sizes, draws, rng = [10, 30, 100, 300, 1_000, 3_000, 10_000], 100, np.random.default_rng(0)
times, proven = np.empty((len(models), len(sizes), draws)), []
for i, model in enumerate(models.values()):
    for j, items in enumerate(sizes):
        d = model(items, 5)
        idb.best_action(d, idb.theory.prior_means(d, rng))  # the first call compiles the diagram
        for k in range(draws):
            means = idb.theory.prior_means(d, rng)
            started = time.perf_counter()
            solution = idb.best_action(d, means)
            times[i, j, k] = 1e6 * (time.perf_counter() - started)
            proven.append(solution.exact)
print(f"{np.mean(proven):.1%} of {len(proven)} actions are proven to be the best")

# %%
# Medians over draws of the means, and the range from the 10th to the 90th percentile.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
looks = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#A0428A", "D"))
for name, own, (colour, marker) in zip(models, times, looks, strict=True):
    ax.fill_between(sizes, *np.quantile(own, [0.1, 0.9], axis=1), color=colour, alpha=0.15, linewidth=0)
    ax.plot(sizes, np.median(own, axis=1), color=colour, marker=marker, label=name)
ax.set(xscale="log", yscale="log", xlabel="items", ylabel="time of best_action (µs)")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
ax.minorticks_off()
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
