"""Purchases that come late, reported to `Live` as they happen: estimates do not depend on how old rounds are."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

import idbandits as idb
from live_cases import DAY, START, Clock, live_of

RATES, DELAYS = {"tea": 0.3, "milk": 0.1}, [0.2, 0.3, 0.5]  # purchases, and the windows in which they come
AGES = (3, 7, 30)  # days
ROUNDS = 1500


def shop() -> idb.Diagram:
    """Return a card that visitors may buy, at once or up to 30 days later."""
    d = idb.Diagram("shop")
    bought = d.latent("bought", [d.decision("card", list(RATES))], idb.Learned("rate"))
    d.reward(bought)
    idb.delayed(d, bought, by=AGES)
    return d


@pytest.mark.parametrize("young", [0.0, 0.5, 0.9])
def test_estimates_do_not_depend_on_the_ages_of_rounds(url: str, young: float) -> None:
    rng, clock = np.random.default_rng(7), Clock()
    ages = np.where(rng.random(ROUNDS) < young, rng.uniform(0, 30, ROUNDS), rng.uniform(30, 60, ROUNDS))
    end = START + 61 * DAY
    queue = [(end - age * DAY, i, "decide") for i, age in enumerate(ages.tolist())]
    heapq.heapify(queue)
    with live_of(url, clock) as live:
        live.put("shop", shop(), inference="gibbs")
        while queue and queue[0][0] <= end:
            clock.now, i, what = heapq.heappop(queue)
            if what == "decide":
                card = live.decide("shop", id=f"visit {i}").action["card"]
                if rng.random() < RATES[str(card)]:
                    window = int(rng.choice(3, p=DELAYS))
                    days = rng.uniform((0, *AGES)[window], AGES[window])
                    heapq.heappush(queue, (clock.now + days * DAY, i, "buy"))
            else:
                live.report(f"visit {i}", {"bought": 1})
            if i % 50 == 0:
                live.tick()
        clock.now = end
        live.tick()
        belief = live.posterior("shop")["rate"]
        # 3 posterior standard deviations: one estimate of 370 is further off by chance; seeds are fixed
        assert (abs(belief.mean - np.array(list(RATES.values()))) < 3 * belief.sd).all(), belief
        shown = live.show("shop")
        assert shown["decisions"] == ROUNDS
        assert shown["rounds"] == int((ages >= AGES[0]).sum())  # known from the first age on
