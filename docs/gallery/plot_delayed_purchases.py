"""
Delayed conversions
===================

Purchases come days after a click. If "not yet" is counted as "no", the purchase rate of a young log is too low.
``idb.delayed`` learns the delay with the rate; its intervals are wide until the slowest purchases have been seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# Every day 150 visitors see an offer; 30 % of them buy, within ten days.

rate, days, rng = 0.3, 40, np.random.default_rng(0)
arrival = np.repeat(np.arange(days), 150)
wait = 10 * rng.beta(1, 2, len(arrival))
bought = np.where(rng.random(len(arrival)) < rate, arrival + wait, np.inf)  # day of the purchase

# %%
# Observed nodes show whether the purchase has come by the ages of 2, 5 and 10 days. Those in the future are NaN. The
# second diagram has a single observed node.

ages = [2, 5, 10]
late, plain = idb.Diagram("late"), idb.Diagram("plain")
outcome = late.latent("bought", [late.decision("offer", ["shoes"])], idb.Learned("rate"))
late.reward(outcome)
nodes = idb.delayed(late, outcome, by=ages)
plain.reward(plain.observed("bought", [plain.decision("offer", ["shoes"])], idb.Learned("rate")))

# %%
# The log is read on several days, with what is known on that day.

today = np.array([3, 6, 9, 11, 13, 16, 20, 25, 30, 35, 40])
beliefs: dict[str, list[np.ndarray]] = {"idb.delayed": [], "“not yet” counted as “no”": []}
for day in today:
    own = arrival < day
    offers, age = {"offer": ["shoes"] * int(own.sum())}, day - arrival[own]
    seen = {
        node.name: np.where(age >= a, bought[own] <= arrival[own] + a, np.nan)
        for node, a in zip(nodes, ages, strict=True)
    }
    logs = seen, {"bought": bought[own] <= day}
    for estimates, d, values in zip(beliefs.values(), (late, plain), logs, strict=True):
        agent = idb.Thompson(d, seed=0)
        agent.update_many(offers, values)
        belief = agent.posterior()["rate"]
        estimates.append(np.array([belief.mean[0], *belief.quantile([0.05, 0.95])[:, 0]]))

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, estimates), colour, marker in zip(beliefs.items(), ("#0072B2", "#D55E00"), ("o", "s"), strict=True):
    mean, low, high = np.array(estimates).T
    ax.fill_between(today, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.plot(today, mean, color=colour, marker=marker, label=name)
ax.axhline(rate, color="#888888", lw=1, ls="--", zorder=0, label="truth")
ax.set(xlabel="age of the log (days)", ylabel="purchase rate of visitors", ylim=(0, 0.62))
ax.legend(frameon=False, title="mean and 90 % interval", alignment="left")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
