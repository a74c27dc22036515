"""Draw and solve the ready models, and learn to act in one of them; print the results and save them.

Run it with `make demo`, or: python examples/demo.py --out demo
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import idbandits as idb
from idbandits.files import write_whole
from idbandits.inference import default_inference

ITEMS = ["news", "sport", "music", "travel", "food", "film", "science", "games"]

MODELS: dict[str, Callable[[], idb.Diagram]] = {
    "cascade": lambda: idb.models.cascade(ITEMS, 3),
    "cascade_inverted": lambda: idb.models.cascade_inverted(ITEMS, 3),
    "cascade_learned": lambda: idb.models.cascade(ITEMS, 3, learn_conditionals=True),
    "position_based": lambda: idb.models.position_based(ITEMS, 3),
    "semi_bandit": lambda: idb.models.semi_bandit(ITEMS, 3),
    "rank1": lambda: idb.models.rank1(rows=8, columns=10),
    "dependent_click": lambda: idb.models.dependent_click(ITEMS, 3),
    "dynamic_bayesian": lambda: idb.models.dynamic_bayesian(ITEMS, 3),
    "dynamic_bayesian_simplified": lambda: idb.models.dynamic_bayesian(ITEMS, 3, simplified=True),
    "click_chain": lambda: idb.models.click_chain(ITEMS, 3),
    "user_browsing": lambda: idb.models.user_browsing(ITEMS, 3),
}


def solve(name: str, d: idb.Diagram, rng: np.random.Generator, out: Path) -> dict[str, object]:
    """Save the pictures and the JSON of a diagram, and print and return its best action under random means."""
    picture = d.draw()
    for suffix in ("svg", "png", "mmd"):
        picture.save(out / f"{name}.{suffix}")
    d.save(out / f"{name}.json")
    means = idb.theory.prior_means(d, rng)
    idb.best_action(d, means)  # the first call compiles
    started = time.perf_counter()
    solution = idb.best_action(d, means)
    microseconds = 1e6 * (time.perf_counter() - started)
    proof = "proven best" if solution.exact else f"no action exceeds {solution.bound:.4f}"
    print(f"\n{d!r}\n{idb.compile(d)!r}")
    print(f"  best action: {', '.join(f'{name} = {choice}' for name, choice in solution.action.items())}")
    print(f"  expected reward {solution.value:.4f}, {proof}, found in {microseconds:.0f} µs")
    return {"means": {table: values.tolist() for table, values in means.items()}, **solution._asdict()}


def learn(out: Path, runs: int) -> None:
    """Let three learners act in a position-based world whose examinations are hidden, and plot rewards and regrets."""
    d = idb.models.position_based(ITEMS, 3)
    means = {"attraction": np.arange(1, 9) / 10, "examination": [0.9, 0.6, 0.3]}
    learners = {
        "all revealed": idb.Thompson(d.revealed(), "exact"),
        f"{default_inference(d)} (default)": idb.Thompson(d),
        "variational": idb.Thompson(d, "variational"),
    }
    print(f"\nLearning online in the position-based model, {runs} runs of 5,000 rounds:")
    result = idb.simulate(idb.World(d, means), learners, rounds=5_000, runs=runs)
    print(result.summary().round(4).to_string(index=False))
    result.save(out / "learning.parquet")
    for quantity in ("reward", "regret"):
        figure = Figure(figsize=(6, 4), layout="constrained")
        result.plot(quantity, figure.add_subplot())
        figure.savefig(out / f"learning-{quantity}.png", dpi=150)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for pictures and results (demo)")
    parser.add_argument("--seed", type=int, default=0, help="of the random means (0)")
    parser.add_argument("--runs", type=int, default=10, help="of every learner (10)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    results = {name: solve(name, model(), rng, arguments.out) for name, model in MODELS.items()}
    write_whole(arguments.out / "results.json", json.dumps(results, indent=1).encode())
    learn(arguments.out, arguments.runs)
    print(f"\nPictures, diagrams and results.json are in {arguments.out}/")


if __name__ == "__main__":
    main()
