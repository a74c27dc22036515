"""
Custom diagram
==============

A decision problem of your own is a few lines. A visitor browses or wants to buy, which is not observed; clicks and
purchases depend on it. ``draw`` returns a picture, which notebooks display and ``save`` writes.
"""

import io

import matplotlib.pyplot as plt

import idbandits as idb

# %%
# Two cards share their tables: what is learned about a product at one card holds for the other.

margin = {"shoes": 12.0, "shirts": 5.0, "bags": 9.0, "watches": 30.0}
d = idb.Diagram("carousel")
segment = d.context("segment", ["new", "loyal"])
mood = d.latent("mood", [segment])
appeal, purchase = idb.Learned("appeal"), idb.Learned("purchase", prior=[3, 1])
for k in (1, 2):
    card = d.decision(f"card{k}", list(margin))
    click = d.observed(f"click{k}", [card, mood], appeal)
    wants = d.latent(f"wants{k}", [card, mood], purchase)
    bought = d.observed(f"bought{k}", [click, wants], lambda c, w: c * w)
    d.reward([card, bought], lambda card, bought: margin[card] * bought)
d.all_different()
print(d.check())

# %%
# Decisions are boxes, contexts rounded boxes; nodes with the same outline colour share a learned table, and dashed
# nodes have known ones.

figure, ax = plt.subplots(figsize=(6, 7), layout="constrained")
ax.imshow(plt.imread(io.BytesIO(d.draw().png(dpi=200))))
ax.set_axis_off()
plt.show()
