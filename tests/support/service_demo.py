"""Realistic experiments for the dashboard, filled quickly with a simulated clock.

`python tests/support/service_demo.py sqlite:///demo.db` fills a store, and `--serve 8000` shows its dashboard.
"""

from __future__ import annotations

import argparse
import heapq
import time
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

import idbandits as idb
from idbandits.service.live.deciding import Request
from idbandits.service.live.live import Live

HOUR, DAY = 3600.0, 86_400.0
SEGMENTS = ["new", "returning", "loyal"]
PRODUCTS = [
    "Trail shoes", "Rain jacket", "Backpack 30 l", "Tent for two", "Sleeping bag", "Head torch", "Water bottle",
    "Gas stove", "Merino shirt", "Hiking socks", "Trekking poles", "Map case", "First-aid kit", "Down vest",
    "Climbing rope", "Sun hat", "Dry bag", "Camp chair", "Power bank", "Thermos", "Bivy bag", "Gaiters", "Ice axe",
    "Snow shoes",
]  # fmt: skip
POSITIONS, NEW = 4, 4


class Clock:
    """Time that a simulation sets."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def shop_page(products: list[str]) -> idb.Diagram:
    """Return a page of products with position bias, and purchases that come within a week."""
    d = idb.Diagram("shop page")
    segment = d.context("segment", SEGMENTS)
    appeal, buys, delay = idb.Learned("appeal"), idb.Learned("buys", prior=[8, 2]), idb.Learned("delay")
    for k in range(1, POSITIONS + 1):
        product = d.decision(f"slot{k}", products)
        attracted = d.latent(f"attracted{k}", [product, segment], appeal)
        table = 1.0 if k == 1 else idb.Learned(f"examination{k}")
        examined = d.latent(f"examined{k}", cpd=table)
        click = d.observed(f"click{k}", [attracted, examined], lambda a, e: a * e)
        wants = d.latent(f"wants{k}", [segment], buys)
        bought = d.latent(f"bought{k}", [click, wants], lambda c, w: c * w)
        d.reward(click, lambda clicked: 0.05 * clicked)
        d.reward(bought, lambda bought: 2.0 * bought)
        idb.delayed(d, bought, by=[1, 3, 7], delay=delay)
    d.all_different()
    return d


def search_results(items: int) -> idb.Diagram:
    """Return a list of search results whose attraction depends on features."""
    return idb.models.position_based(
        [f"Article {k:03d}" for k in range(items)],
        6,
        features={"attraction": features_of(items)},
        fixed={"examination": {0: 1.0}},
    )


def features_of(items: int) -> pd.DataFrame:
    """Return features of articles."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "price": rng.normal(40, 12, items).round(2),
            "rating": rng.normal(4, 0.5, items).round(1),
            "category": rng.choice(["books", "games", "garden"], items),
        }
    )
    return frame.set_index(pd.Index([f"Article {k:03d}" for k in range(items)]))


class Shop:
    """Visitors of the shop page: what they click and when they buy."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        own = np.random.default_rng(3)
        self.appeal = own.beta(1.2, 8.0, (len(PRODUCTS), len(SEGMENTS)))
        self.appeal[-2] = [0.45, 0.35, 0.5]  # of the new products
        self.examined, self.buys = np.array([1.0, 0.72, 0.5, 0.38]), np.array([0.08, 0.15, 0.3])

    def events(self, action: dict[str, Any], context: dict[str, Any], at: float) -> list[tuple[float, dict[str, int]]]:
        """Return what happens after a page is shown."""
        segment, events = SEGMENTS.index(context["segment"]), list[tuple[float, dict[str, int]]]()
        for k in range(POSITIONS):
            product = PRODUCTS.index(action[f"slot{k + 1}"])
            if self.rng.random() < self.appeal[product, segment] * self.examined[k]:
                clicked = at + float(self.rng.exponential(60.0 if self.rng.random() < 0.99 else 3000.0))
                events.append((clicked, {f"click{k + 1}": 1}))
                if self.rng.random() < self.buys[segment] and clicked < at + 1800.0:  # later clicks are not accepted
                    days = min(float(self.rng.exponential(1.6)), 6.9)
                    events.append((clicked + days * DAY, {f"bought{k + 1}": 1}))
        return events


def fill(live: Live, clock: Clock, *, days: int = 24, rounds: int = 14, seed: int = 0) -> None:
    """Fill a store: `rounds` visitors an hour on average for so many days, until now."""
    rng, end = np.random.default_rng(seed), clock.now
    shop, numbers, later = Shop(rng), count(), list[Any]()
    clock.now = end - days * DAY
    settings = {"horizon": {f"click{k}": "30m" for k in range(1, POSITIONS + 1)}, "holdout": 0.15, "accept": "3d"}
    live.put("shop-page", shop_page(PRODUCTS[:-NEW]), who="anna", **settings)
    live.put("search", search_results(60), who="ben", horizon="30m", holdout=0.1)
    attraction = attraction_of(60)
    for hour in range(days * 24):
        if hour == days * 12:
            live.put("shop-page", shop_page(PRODUCTS), who="anna", **settings)
        busy = 1.0 + 0.6 * np.sin((hour % 24 - 8) / 24 * 2 * np.pi)
        for name, share in (("shop-page", 1.0), ("search", 1.0 if hour >= days * 8 else 0.0)):
            number = int(rng.poisson(rounds * busy * share))
            contexts = [{"segment": str(rng.choice(SEGMENTS, p=[0.5, 0.3, 0.2]))} for _ in range(number)]
            requests = [Request(own) for own in contexts] if name == "shop-page" else [Request()] * number
            for context, decision in zip(contexts, live.decide_many(name, requests), strict=True):
                at = clock.now + float(rng.random()) * 60.0
                if name == "shop-page":
                    events = shop.events(decision.action, context, at)
                else:
                    events = searched(decision.action, attraction, at, rng)
                for when, values in events:
                    late = when + (float(rng.exponential(120.0)) if rng.random() < 0.9 else 5 * HOUR)
                    heapq.heappush(
                        later, (late, next(numbers), name, {"id": decision.id, "values": values, "at": when})
                    )
        clock.now = min(clock.now + HOUR, end)
        due: dict[str, list[Any]] = {}
        while later and later[0][0] <= clock.now:
            _, _, name, report = heapq.heappop(later)
            due.setdefault(name, []).append(report)
        for name, reports in due.items():
            answers = live.report_many(name, reports)
            rejected = [
                (name, clock.now, answer.kind, str(answer), "{}") for answer in answers if not isinstance(answer, str)
            ]
            live.journal.add_letters(rejected)
        live.tick()
    others(live, rng)
    live.tick()


def attraction_of(items: int) -> np.ndarray:
    """Return the true attraction of articles."""
    frame = features_of(items)
    logits = -2.2 - 0.05 * (frame["price"] - 40) + 0.9 * (frame["rating"] - 4) + 0.7 * (frame["category"] == "games")
    return 1 / (1 + np.exp(-logits.to_numpy()))


def searched(action: dict[str, Any], attraction: np.ndarray, at: float, rng: np.random.Generator) -> list[Any]:
    """Return clicks on search results."""
    seen = [1.0, 0.75, 0.6, 0.45, 0.35, 0.3]
    return [
        (at + float(rng.exponential(40.0)), {f"C{k + 1}": 1})
        for k in range(6)
        if rng.random() < attraction[int(action[f"A{k + 1}"].split()[1])] * seen[k]
    ]


def others(live: Live, rng: np.random.Generator) -> None:
    """Add experiments that have just begun, are paused, or in shadow mode."""
    live.put(
        "newsletter", idb.models.cascade(["spring sale", "new arrivals", "outlet"], 2), mode="shadow", horizon="1d"
    )
    for _ in range(60):
        first, second = rng.choice(["spring sale", "new arrivals", "outlet"], 2, replace=False).tolist()
        live.decide("newsletter", action={"A1": first, "A2": second})
    live.put("checkout-banner", idb.models.semi_bandit(["free shipping", "10 % off", "gift"], 1), holdout=0.2)
    live.set_status("checkout-banner", "paused", who="anna")


def main() -> None:
    """Fill a store, and serve its dashboard."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--days", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=14, help="an hour")
    parser.add_argument("--serve", type=int, help="port")
    arguments = parser.parse_args()
    clock = Clock(time.time())
    with Live(arguments.store, clock=clock, background=False) as live:
        if not live.experiments():
            fill(live, clock, days=arguments.days, rounds=arguments.rounds)
            live.save_snapshots()
    if arguments.serve:
        import uvicorn
        from starlette.applications import Starlette

        from idbandits.service.dashboard.pages import dashboard_routes

        with Live(arguments.store) as live:
            uvicorn.run(Starlette(routes=dashboard_routes(live)), port=arguments.serve, log_level="warning")


if __name__ == "__main__":
    main()
