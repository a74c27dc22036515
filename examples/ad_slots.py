"""Fill the ad slots of a page: advertisers pay per click, and have daily budgets and audiences.

Each request has a segment; eligible are ads that want this segment and have budget left. The agent knows the bids and
learns click probabilities of ads in segments and of slots. It is compared with showing the highest bids first. Readers
are simulated: replace `world.step` by your page, and `ADS` by your advertisers. Prints revenue per thousand requests of
both policies by day, and the click probabilities that were learned.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import idbandits as idb

SEGMENTS, SLOTS, EMPTY = ["sports", "travel"], 3, "(nothing)"


class Ad(NamedTuple):
    """Ad of an advertiser: price of a click and budget of a day in euros, wanted segments, true click probabilities."""

    bid: float
    budget: float
    segments: tuple[str, ...]
    clicks: tuple[float, float]


ADS = {
    "running shoes": Ad(0.80, 60, ("sports",), (0.10, 0.02)),
    "football": Ad(0.50, 40, ("sports", "travel"), (0.12, 0.03)),
    "energy drink": Ad(0.90, 80, ("sports", "travel"), (0.03, 0.02)),
    "flights": Ad(1.20, 90, ("travel", "sports"), (0.02, 0.08)),
    "hotel": Ad(1.00, 70, ("travel",), (0.01, 0.07)),
    "luggage": Ad(0.60, 40, ("travel", "sports"), (0.02, 0.10)),
    "insurance": Ad(1.50, 90, ("sports", "travel"), (0.01, 0.02)),
}


def diagram() -> idb.Diagram:
    """Return the problem: a click needs an ad that interests the segment, and a slot that is looked at."""
    d = idb.Diagram("ad slots")
    segment = d.context("segment", SEGMENTS)
    never = dict.fromkeys([(EMPTY, own) for own in SEGMENTS], 0.0)
    interest = idb.Learned("interest", prior=[9, 1], fixed=never)
    look = idb.Learned("look", rows=SLOTS, fixed={0: 1.0})
    for k in range(SLOTS):
        ad = d.decision(f"slot{k + 1}", [*ADS, EMPTY])
        interested = d.latent(f"interested{k + 1}", [ad, segment], interest)
        looked = d.latent(f"looked{k + 1}", cpd=look[k])
        click = d.observed(f"click{k + 1}", [interested, looked], lambda i, e: i * e)
        d.reward([ad, click], lambda ad, click: ADS[ad].bid * click if ad in ADS else 0.0)
    d.all_different(except_=[EMPTY])
    return d


def true_means() -> dict[str, Any]:
    """Return the simulated truth."""
    return {"interest": [*(ad.clicks for ad in ADS.values()), (0.0, 0.0)], "look": [1.0, 0.6, 0.4]}


def play_day(world: idb.World, requests: int, choose: Callable[[Any, list[str]], Any], learn: Any) -> float:
    """Serve the requests of a day and return the revenue."""
    left = {name: ad.budget for name, ad in ADS.items()}
    for _ in range(requests):
        context = world.context()
        eligible = [name for name, ad in ADS.items() if context["segment"] in ad.segments and left[name] >= ad.bid]
        action = choose(context, eligible)
        observation = world.step(action).observation
        learn(action, observation, context)
        for k in range(1, SLOTS + 1):
            if observation[f"click{k}"]:
                left[action[f"slot{k}"]] -= ADS[action[f"slot{k}"]].bid
    return sum(ad.budget for ad in ADS.values()) - sum(left.values())


def highest_bids(context: Any, eligible: list[str]) -> dict[str, str]:
    """Return the eligible ads with the highest bids."""
    ranked = sorted(eligible, key=lambda name: -ADS[name].bid) + [EMPTY] * SLOTS
    return {f"slot{k + 1}": ranked[k] for k in range(SLOTS)}


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and play."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--requests", type=int, default=3000, help="per day (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (%(default)s)")
    parser.add_argument("--out", help="file for the agent, such as ads.npz")
    options = parser.parse_args(arguments)
    d = diagram()
    agent = idb.Thompson(d, seed=options.seed)
    worlds = [idb.World(d, true_means(), contexts={"segment": [0.5, 0.5]}, seed=options.seed) for _ in range(2)]
    print("day  revenue per 1,000 requests (euros): agent  highest bids")
    for day in range(1, options.days + 1):
        own = play_day(
            worlds[0], options.requests, lambda context, eligible: agent.act(context, allowed=eligible), agent.update
        )
        bids = play_day(worlds[1], options.requests, highest_bids, lambda *round: None)
        print(f"{day:>3} {1000 * own / options.requests:>42.1f} {1000 * bids / options.requests:>13.1f}")
    table = agent.posterior()["interest"].to_frame().assign(truth=np.ravel(true_means()["interest"]))
    table = table.rename(columns={"row 1": "ad", "row 2": "segment"})  # slots have different names
    print(table[table["ad"] != EMPTY].round(3).to_string(index=False))
    if options.out:
        agent.save(options.out)


if __name__ == "__main__":
    main()
