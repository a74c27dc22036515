"""What a request costs where a context has features: `python docs/request_costs.py` prints the table of requests.md."""

from __future__ import annotations

import time

import numpy as np

import idbandits as idb

USER = [f"u{k}" for k in range(5)]
CASES = (  # items, features of items, positions, residuals
    (100, 10, 1, None),
    (1000, 10, 1, None),
    (1000, 10, 1, 1.0),
    (1000, 10, 5, None),
    (10_000, 10, 1, None),
    (1000, 40, 1, None),
)
WARM, ROUNDS = 50, 550


def costs(items: int, features: int, positions: int, residuals: float | None) -> tuple[int, float, float]:
    """The number of coefficients, and the medians of microseconds per `act` and `update`."""
    rng, d = np.random.default_rng(0), idb.Diagram("costs")
    user = d.context("user", features=USER)
    lines = rng.normal(size=(items, features))
    table = idb.Learned("click", features=[lines, None], products=True, residuals=residuals)
    for k in range(positions):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", items), user], table))
    if positions > 1:
        d.all_different()
    agent, acting, learning = idb.Thompson(d, seed=0), list[float](), list[float]()
    for _ in range(WARM + ROUNDS):
        context = {"user": dict(zip(USER, rng.normal(size=len(USER)).tolist(), strict=True))}
        seen = {f"C{k}": int(rng.random() < 0.3) for k in range(positions)}
        started = time.perf_counter()
        action = agent.act(context)
        chosen = time.perf_counter()
        agent.update(action, seen, context)
        acting.append(chosen - started)
        learning.append(time.perf_counter() - chosen)
    logistic = d.learned["click"].logistic
    assert logistic is not None
    return len(logistic.names), 1e6 * float(np.median(acting[WARM:])), 1e6 * float(np.median(learning[WARM:]))


def main() -> None:
    """Print the table."""
    print("| items | features of items | coefficients | `act` | `update` |\n|---|---|---|---|---|")
    for case in CASES:
        items, features, positions, residuals = case
        name = f"{items:,}{', residuals' if residuals else ''}{f', {positions} positions' if positions > 1 else ''}"
        size, acting, learning = costs(*case)
        print(f"| {name} | {features} | {size} | {acting:.0f} | {learning:.0f} |")


if __name__ == "__main__":
    main()
