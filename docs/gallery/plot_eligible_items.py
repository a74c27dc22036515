"""
Eligible items
==============

Requests differ in what may be shown: some products are sold out, others are not delivered to the user's country. The
same agent serves them all, and ``marginals`` estimates how probable each product is at each position.
"""

import matplotlib.pyplot as plt

import idbandits as idb

# %%
# After 300 rounds the agent knows roughly which products are attractive, and still explores.

products = ["boots", "coat", "gloves", "scarf", "cap", "belt"]
d = idb.models.cascade(products, positions=3)
world = idb.World(d, {"attraction": [0.5, 0.45, 0.35, 0.3, 0.2, 0.1]}, seed=0)
agent = idb.Thompson(d, seed=0)
for _ in range(300):
    action = agent.act()
    agent.update(action, world.step(action).observation)

# %%
# ``allowed=`` restricts a request to eligible products. Their probabilities add up to 1 at every position.

requests = {"all eligible": products, "boots and gloves sold out": ["coat", "scarf", "cap", "belt"]}
figure, axes = plt.subplots(1, 2, figsize=(6, 3.6), layout="constrained", sharey=True)
for ax, (title, eligible) in zip(axes, requests.items(), strict=True):
    table = agent.marginals(allowed=eligible).probability.reindex(products)
    image = ax.imshow(table, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for i, product in enumerate(products):
        for k, chance in enumerate(table.loc[product]):
            text = f"{chance:.2f}" if product in eligible else "–"
            colour = "white" if chance < 0.5 else "black"
            ax.text(k, i, text, ha="center", va="center", color=colour, fontsize="small")
    ax.set_xticks(range(3), ["1", "2", "3"])
    ax.set_yticks(range(len(products)), products)
    ax.set_title(title, fontsize="medium")
    ax.set(xlabel="position", ylabel="product")
    ax.label_outer()
    ax.spines[:].set_visible(False)
figure.colorbar(image, ax=axes, label="probability of being shown")
plt.show()
