"""
Regret bound and measured regret
================================

Theorem 1 of the paper bounds the Bayes regret of exact Thompson sampling. The bound is computed from the diagram and
compared with the regret in worlds whose means are drawn from the prior.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# No round loses more than the range of the reward, which is the trivial bound.

d = idb.models.cascade(items=10, positions=3)
measured = idb.theory.bayes_regret(d, rounds=20_000, runs=20, seed=0)
bounds = [idb.theory.bound(d, int(n)) for n in measured.rounds]
print(f"Theorem 1 is below the trivial bound from {bounds[0].useful_from:,} rounds on.")

# %%
# The theorem describes growth, up to logarithms with the square root of rounds, and not the size of the regret.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(measured.rounds, [own.value for own in bounds], color="#D55E00", ls="--", label="Theorem 1")
ax.plot(measured.rounds, [own.trivial for own in bounds], color="#000000", ls=":", label="trivial bound")
root = measured.mean[-1] * np.sqrt(measured.rounds / measured.rounds[-1])
ax.plot(measured.rounds, root, color="#888888", lw=0.8, label="growth with √n")
low, high = measured.mean - measured.se, measured.mean + measured.se
ax.fill_between(measured.rounds, low, high, color="#0072B2", alpha=0.2, linewidth=0)
ax.plot(measured.rounds, measured.mean, color="#0072B2", marker="o", ms=3, label="Bayes regret ± 1 standard error")
ax.set(xscale="log", yscale="log", xlabel="rounds n", ylabel="total regret (clicks)", xlim=(1, None))
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.yaxis.set_major_formatter("{x:,g}")
ax.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
