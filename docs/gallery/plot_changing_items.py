"""
Items that come and go
======================

On a news page, stories expire and new ones appear. ``moved_to`` returns an agent for the new page that keeps what it
knows about the remaining stories and about positions; an agent that restarts learns everything again.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# Every 500 rounds, five of thirty stories are replaced by new ones. Labels identify stories over time.

phases, length, runs = 4, 500, 10


def page(first: int) -> idb.Diagram:
    """Return a page of the stories from a number on."""
    return idb.models.position_based([f"story {k}" for k in range(first, first + 30)], positions=4)


# %%
# Both agents meet the same worlds; regret per round is averaged over runs.

regret = {"moved_to": np.zeros((runs, phases * length)), "restart": np.zeros((runs, phases * length))}
for run in range(runs):
    attraction = np.random.default_rng(run).beta(2, 6, 30 + 5 * phases)
    agents = {name: idb.Thompson(page(0), seed=run) for name in regret}
    for phase in range(phases):
        d, first = page(5 * phase), 5 * phase
        truth = {"attraction": attraction[first : first + 30], "examination": [0.9, 0.7, 0.5, 0.3]}
        if phase:
            agents = {"moved_to": agents["moved_to"].moved_to(d), "restart": idb.Thompson(d, seed=[run, phase])}
        for name, agent in agents.items():
            world = idb.World(d, truth, seed=[run, phase])
            for t in range(length):
                action = agent.act()
                outcome = world.step(action)
                agent.update(action, outcome.observation)
                regret[name][run, phase * length + t] = outcome.regret

# %%
# Averages over windows of 50 rounds, with one standard error over runs.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, values), colour, dash in zip(regret.items(), ("#0072B2", "#D55E00"), ("-", "--"), strict=True):
    windows = values.reshape(runs, -1, 50).mean(axis=2)
    mean, error = windows.mean(axis=0), windows.std(axis=0, ddof=1) / np.sqrt(runs)
    middle = 50 * np.arange(len(mean)) + 25
    ax.fill_between(middle, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    ax.plot(middle, mean, color=colour, linestyle=dash, label=name)
for change in range(length, phases * length, length):
    ax.axvline(change, color="#888888", lw=0.8, ls=":")
ax.set(xlabel="round (dotted: five stories are replaced)", ylabel="regret per round (clicks)", ylim=(0, None))
ax.set_xlim(0, phases * length)
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(
    frameon=False, title="mean ± 1 standard error", alignment="left", loc="lower left", bbox_to_anchor=(0, 1), ncols=2
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
