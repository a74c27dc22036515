"""
Gain of a live experiment
=========================

A live service keeps a share of the decisions for a baseline. The gain over this holdout has a confidence sequence: the
interval holds at all times together, so it may be watched every hour and acted on at once.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# A clock that the script sets replays 36 hours in a moment. A quarter of the requests gets random lists.

now = 0.0
d = idb.models.position_based(["tea", "milk", "wine", "rice", "soup", "bread"], positions=2)
truth = {"attraction": [0.5, 0.4, 0.3, 0.2, 0.1, 0.1], "examination": [0.9, 0.6]}
world, hours, gains = idb.World(d, truth, seed=0), 36, []
with tempfile.TemporaryDirectory() as folder:
    live = idb.Live(f"sqlite:///{folder}/shop.db", clock=lambda: now, background=False, seed=0)
    live.put("shop", d, horizon="30m", holdout=0.25)
    for hour in range(hours):
        for minute in range(0, 60, 10):
            now = 3600.0 * hour + 60.0 * minute
            made = [live.decide("shop") for _ in range(10)]
            seen = [{"id": own.id, "values": world.step(own.action).observation, "complete": True} for own in made]
            live.report_many("shop", seen)
            live.tick()
        now = 3600.0 * (hour + 1.5)
        live.tick()
        gains.append(live.gain("shop"))
    live.close()

# %%
# ``gain`` returns no interval before both arms have enough clicks.

known = [(hour + 1, own.estimate, own.low, own.high) for hour, own in enumerate(gains) if own.low is not None]
hour, estimate, low, high = np.array(known).T

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.fill_between(hour, low, high, color="#0072B2", alpha=0.2, linewidth=0, label="95 % confidence sequence")
ax.plot(hour, estimate, color="#0072B2", label="estimate")
ax.axhline(0, color="black", lw=0.8)
best = world.best().value
uniform = np.mean(truth["attraction"]) * np.sum(truth["examination"])
ax.axhline(best - uniform, color="#888888", lw=1, ls="--", label="gain of the best list")
ax.set(xlabel="time since the start (hours)", ylabel="gain per decision over the holdout (clicks)", xlim=(0, hours))
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
