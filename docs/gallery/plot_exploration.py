"""
Thompson sampling, UCB and greedy choices
=========================================

A greedy learner may settle for a bad arm after a few unlucky rounds, UCB1 explores more than necessary. The plot shows
every run of a bandit with ten arms, because averages hide the runs that fail.
"""

import matplotlib.pyplot as plt
import numpy as np

import idbandits as idb

# %%
# A bandit is a diagram with one decision and one observed reward.

d = idb.models.semi_bandit(items=10, positions=1)
world = idb.World(d, {"mean": np.linspace(0.1, 0.55, 10)})
learners = {
    "Thompson sampling": idb.Thompson(d),
    "UCB1": idb.baselines.UCB1(d),
    "ε-greedy, ε = 0.1": idb.baselines.EpsilonGreedy(d, epsilon=0.1),
    "greedy": idb.baselines.EpsilonGreedy(d, epsilon=0.0),
}
result = idb.simulate(world, learners, rounds=3_000, runs=100, seed=0, checkpoints=1, progress=False)

# %%
# One point per run; the line is the mean.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
looks = (("#0072B2", "o"), ("#009E73", "^"), ("#E69F00", "D"), ("#D55E00", "s"))
jitter = np.random.default_rng(0).uniform(-0.3, 0.3, 100)
for row, (name, (colour, marker)) in enumerate(zip(learners, looks, strict=True)):
    regret = result.frame.loc[result.frame["learner"] == name, "regret"]
    ax.scatter(regret, row + jitter, s=12, color=colour, marker=marker, alpha=0.6, linewidth=0)
    ax.vlines(regret.mean(), row - 0.4, row + 0.4, color="black", lw=2)
ax.set_yticks(range(len(learners)), list(learners))
ax.invert_yaxis()
ax.set(xlabel="total regret of a run of 3,000 rounds (reward)", ylabel="learner", xlim=(-20, None))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
