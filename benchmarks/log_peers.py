"""Compare fits of a real click log with CLAX: conditional perplexity of held-out sessions, and seconds.

    python -m benchmarks.log_peers ../shared/data --clax /tmp/clax-venv/bin/python

CLAX pins old versions of JAX, so it runs in an environment of its own, made with
`pip install clax-models jax==0.7.0 jaxlib==0.7.0`. Sessions are split at random: 80 % to fit, 20 % to score.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FILE = "yandex-wscd/sessions.txt.gz"
POSITIONS = 10
SEED, FITTED = 0, 0.8  # of the split; share of the sessions that models are fitted to
WORSE, FASTER = 0.001, 5.0  # targets: perplexity at most that of CLAX plus WORSE, fitted FASTER times as fast
BATCH, EPOCHS, RATE, CHECKED = 256, 50, 0.003, 0.1  # of CLAX; share of the fitted sessions that stop its training early
CLAX = {
    "position-based": "PositionBasedModel",
    "user browsing": "UserBrowsingModel",
    "dynamic Bayesian": "DynamicBayesianNetwork",
    "click chain": "ClickChainModel",
    "dependent click": "DependentClickModel",
}
OURS = {
    "position-based": "position_based",
    "user browsing": "user_browsing",
    "dynamic Bayesian": "dynamic_bayesian",
    "click chain": "click_chain",
    "dependent click": "dependent_click",
}


class Sessions(NamedTuple):
    """Sessions of a log: numbers of query-document pairs and clicks, (sessions, positions)."""

    pairs: npt.NDArray[np.int64]
    clicks: npt.NDArray[np.int64]

    def part(self, places: npt.NDArray[np.int64]) -> Sessions:
        """Return some of the sessions."""
        return Sessions(self.pairs[places], self.clicks[places])


class Fit(NamedTuple):
    """Conditional perplexity of held-out sessions, and seconds of the fit."""

    perplexity: float
    seconds: float


def read(path: Path) -> Sessions:
    """Return all sessions; clicks on documents that are not shown are ignored."""
    numbers: dict[tuple[str, str], int] = {}
    pairs, clicks = [], []
    with gzip.open(path, "rt") as file:
        texts = file.read().split(";")
    for text in texts:
        if not text.strip():
            continue
        query, _, rest = text.strip().partition("\t")
        shown, _, clicked = rest.partition(":")
        documents, hit = [name.strip() for name in shown.split(",")], {name.strip() for name in clicked.split(",")}
        pairs.append([numbers.setdefault((query, name), len(numbers)) for name in documents])
        clicks.append([int(name in hit) for name in documents])
    return Sessions(np.array(pairs), np.array(clicks))


def split(sessions: Sessions) -> tuple[Sessions, Sessions]:
    """Return sessions to fit and to score."""
    order = np.random.default_rng(SEED).permutation(len(sessions.pairs))
    cut = int(FITTED * len(order))
    return sessions.part(order[:cut]), sessions.part(order[cut:])


def conditional_perplexity(logs: npt.NDArray[np.float64]) -> float:
    """Return the mean over positions of 2^(−mean log2 P(click at k | clicks above)), given natural logarithms."""
    return float(np.mean(2 ** (-logs.mean(axis=0) / np.log(2))))


def fit_clax(name: str, fitted: Sessions, scored: Sessions) -> Fit:
    """Fit a model of CLAX with the settings of its README, and batches of `BATCH` sessions."""
    import clax
    import jax.numpy as jnp
    from flax import nnx
    from optax import adamw
    from torch.utils.data import DataLoader

    def loader(own: Sessions, shuffled: bool) -> Any:
        positions, mask = np.arange(1, POSITIONS + 1), np.ones(POSITIONS, bool)
        rounds = [
            {"query_doc_ids": p, "clicks": c, "positions": positions, "mask": mask}
            for p, c in zip(own.pairs, own.clicks.astype(np.float32), strict=True)
        ]
        collate = lambda batch: {key: np.stack([one[key] for one in batch]) for key in batch[0]}  # noqa: E731
        return DataLoader(rounds, BATCH, shuffle=shuffled, collate_fn=collate)

    settings: dict[str, Any] = {"query_doc_pairs": int(max(fitted.pairs.max(), scored.pairs.max())) + 1}
    if name in ("position-based", "user browsing", "dependent click"):
        settings["positions"] = POSITIONS + 1
    cut = int((1 - CHECKED) * len(fitted.pairs))
    places = np.arange(len(fitted.pairs))
    model = getattr(clax, CLAX[name])(**settings, rngs=nnx.Rngs(SEED))
    trainer = clax.Trainer(optimizer=adamw(RATE), epochs=EPOCHS)
    start = time.perf_counter()
    trainer.train(model, loader(fitted.part(places[:cut]), True), loader(fitted.part(places[cut:]), False))
    seconds = time.perf_counter() - start
    model.eval()
    logs = np.concatenate([np.asarray(model.predict_conditional_clicks(b)) for b in loader(scored, False)])
    clicked = scored.clicks.astype(bool)
    values = np.where(clicked, logs, np.asarray(jnp.log1p(-jnp.exp(logs))))
    return Fit(conditional_perplexity(values.astype(np.float64)), seconds)


def clax_results(python: str, fitted: Sessions, scored: Sessions) -> dict[str, Fit]:
    """Return fits of CLAX by model, computed by the interpreter of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sessions.npz"
        np.savez(file, *fitted, *scored)
        command = [python, __file__, "--peer", str(file)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: Fit(*fit) for name, fit in json.loads(done.stdout.splitlines()[-1]).items()}


def fit_ours(name: str, fitted: Sessions, scored: Sessions) -> Fit:
    """Fit a model of this library; kernels are compiled by a fit of few sessions, which is not timed."""
    import idbandits as idb
    from idbandits import models

    pairs = int(max(fitted.pairs.max(), scored.pairs.max())) + 1
    d = getattr(models, OURS[name])(pairs, POSITIONS)

    def log(own: Sessions) -> dict[str, Any]:
        shown = {f"A{k + 1}": own.pairs[:, k] for k in range(POSITIONS)}
        return shown | {f"C{k + 1}": own.clicks[:, k] for k in range(POSITIONS)}

    idb.fit(d, log(fitted.part(np.arange(100))))
    start = time.perf_counter()
    agent = idb.fit(d, log(fitted))
    seconds = time.perf_counter() - start
    frame = idb.score(agent, log(scored)).frame
    return Fit(float(frame["conditional_perplexity"].mean()), seconds)


def main() -> None:
    """Print a table of both libraries."""
    import idbandits as idb

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help=f"folder with {FILE}")
    parser.add_argument("--clax", help="Python interpreter of an environment with clax-models")
    arguments = parser.parse_args()
    if not (arguments.data / FILE).is_file():
        sys.exit(f"not measured: {arguments.data / FILE} not found")
    fitted, scored = split(read(arguments.data / FILE))
    peers = clax_results(arguments.clax, fitted, scored) if arguments.clax else {}
    if not peers:
        print("CLAX is not measured: pass the interpreter of its environment as --clax")
    has_ours = hasattr(idb, "fit") and hasattr(idb, "score")
    if not has_ours:
        print("idbandits is not measured: this version has no idb.fit and idb.score")
    for name in CLAX:
        ours, peer = fit_ours(name, fitted, scored) if has_ours else None, peers.get(name)
        shown = [
            f"{who} {fit.perplexity:.4f} in {fit.seconds:.1f} s" for who, fit in (("ours", ours), ("CLAX", peer)) if fit
        ]
        if ours and peer:
            reached = ours.perplexity <= peer.perplexity + WORSE and FASTER * ours.seconds <= peer.seconds
            shown.append("target reached" if reached else "target missed")
        print(f"{name}: {', '.join(shown)}")


def _run_as_peer(file: str) -> None:
    with np.load(file) as arrays:
        own = [arrays[f"arr_{k}"] for k in range(4)]
    report, sys.stdout = sys.stdout, sys.stderr  # CLAX draws tables of its progress
    print(json.dumps({name: fit_clax(name, Sessions(*own[:2]), Sessions(*own[2:])) for name in CLAX}), file=report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        _run_as_peer(sys.argv[2])
    else:
        main()
